"""More than 2 GiB of text in one batch, and functions that want more memory than there is."""
import threading
import time

import pytest

np = pytest.importorskip("numpy")

import weir  # noqa: E402
from driver_scripts import not_sanitized, wait_for  # noqa: E402

pytestmark = pytest.mark.same_without


@not_sanitized
def test_batches_of_more_than_two_gibibytes_of_text():
    """Blocks have 32-bit offsets; what is put together of them gets 64-bit ones."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        available = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024
    if available < 10 << 30:
        pytest.skip("needs 10 GiB of memory")
    ds = weir.range(1100).map(lambda row: {"text": "x" * 2_000_000, "list": ["y" * 10], "id": row["id"]})
    batches = list(ds.iter_batches(batch_size=1100))
    assert len(batches) == 1
    assert len(batches[0]["text"]) == 1100 and batches[0]["text"][-1] == "x" * 2_000_000
    assert batches[0]["id"].tolist() == list(range(1100))


@not_sanitized
def test_a_function_that_wants_too_much_gets_figures():
    weir.shutdown()
    weir.init(memory_limit="400MB")
    try:
        with pytest.raises(MemoryError) as raised:
            weir.range(10).map_batches(lambda batch: {"x": [float(np.ones(200_000_000).sum())]}).take_all()
    finally:
        weir.shutdown()
    text = str(raised.value)
    assert "the worker used" in text and "A smaller batch_size needs less, weir.init(memory_limit=…) gives more" in text


def test_a_batch_larger_than_a_chunk_counts_before_anybody_has_run_it(tmp_path):
    """What its workers are taken to need is four times the batch, not four times what chunks commonly are."""
    go = tmp_path / "go"

    def waits(batch):
        while not go.exists():
            time.sleep(0.005)
        return {"rows": [len(batch["id"])]}

    ds = weir.range(8 << 20).map_batches(waits, batch_size=4 << 20)  # 32 MiB each
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(row["rows"] for row in ds.iter_rows()))
    reader.start()
    try:
        def assumed():
            task = getattr(ds._last_run, "_task", None)
            return max((stage["memory_assumed"] for stage in task.stats()["stages"] if stage["name"] == "MapBatches(waits)"), default=0) if task else 0
        wait_for(lambda: assumed() >= 4 * (32 << 20))
    finally:
        go.touch()
        reader.join()
    assert sum(seen) == 8 << 20
