"""The memory limit while a program takes its time over rows: what is kept for its loops counts. Jobs and measure are those of bench/holding.py: the
proportional memory of all processes, from outside, every 5 ms."""
import sys
from pathlib import Path

import pytest

from driver_scripts import not_sanitized

pytestmark = pytest.mark.same_without
MIB = 1 << 20


@pytest.fixture(scope="module")
def holding():
    folder = str(Path(__file__).resolve().parents[2] / "bench")
    sys.path.insert(0, folder)
    try:
        import holding

        yield holding
    finally:
        sys.path.remove(folder)


def kept_within(holding, job, limit, cpus, times=2):
    """A batch that a loop has in its hands is the program's own, where the job tells how large it is."""
    found = holding.run_job(job, times * limit, limit, cpus)
    print(f"{job}: {found['own'] / limit:.2f} x, {found}")
    assert "error" not in found, found
    assert found["own"] <= 1.1 * limit, found


@not_sanitized
@pytest.mark.parametrize("job, limit, cpus", [
    ("shuffle", 128, 2), ("shuffle", 64, 8), ("shuffle-function", 128, 2), ("shuffle-half", 256, 2),
])
def test_a_shuffle_buffer_counts(holding, job, limit, cpus):
    kept_within(holding, job, limit * MIB, cpus)


@pytest.mark.parametrize("size", [100, 1000])
def test_a_small_part_does_not_keep_a_large_batch(size):
    """What a loop looks at while the next batch is made keeps its own rows in memory, not the 32 MiB that they came with."""
    import weir
    from weir import _session

    def grown(batch):
        import numpy

        return {"big": numpy.tile(batch["data"], 32)}  # 16 KiB a row

    weir.shutdown()
    weir.init(num_cpus=1, memory_limit="256MB")
    ds = weir.range_tensor(2048, shape=(64,), override_num_blocks=1).map_batches(grown, batch_size=None)
    rows, last = 0, None
    for batch in ds.iter_batches(batch_size=size):
        rows += len(batch["big"])
        last = batch
        del batch
    used = _session.current().native.memory()["used"]
    assert rows == 2048 and last["big"][0, 0] == (rows - 1) // size * size
    assert used < 8 * MIB + last["big"].nbytes, used
    weir.shutdown()


@not_sanitized
def test_memory_of_batches_that_are_gone_goes_back():
    """What a loop had joined from several blocks, 48 MiB, does not stay beside all that its run has."""
    import time

    import weir

    def anon():
        with open("/proc/self/status") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))

    weir.shutdown()
    weir.init(num_cpus=1, memory_limit="128MB")
    ds = weir.range_tensor(20 * 2048, shape=(256,), override_num_blocks=20).iter_batches(batch_size=3072, prefetch_batches=0)
    batches = iter(ds)
    kept = [next(batches) for _ in range(8)]
    most = anon()
    del kept
    until = time.monotonic() + 20
    while anon() > most - 40 * MIB and time.monotonic() < until:
        time.sleep(0.01)
    left = anon()
    batches.close()
    weir.shutdown()
    assert left <= most - 40 * MIB, (left, most)


@not_sanitized
@pytest.mark.parametrize("job", ["large-split", "split-processes-function"])
def test_queues_of_splits_count(holding, job):
    kept_within(holding, job, 128 * MIB, 2)


@not_sanitized
@pytest.mark.parametrize("job", ["growing-shuffle", "growing-split"])
def test_results_of_half_the_limit(holding, job):
    """Each batch makes 64 MiB of 2, which lie in the worker until the loops have taken all of them."""
    kept_within(holding, job, 128 * MIB, 2)


@not_sanitized
def test_batches_made_ready_count(holding):
    pytest.importorskip("torch")
    kept_within(holding, "large-torch", 256 * MIB, 2, 1)


@not_sanitized
def test_a_shuffle_buffer_that_does_not_fit_is_named(holding):
    found = holding.run_job("shuffle-half", 128 * MIB, 128 * MIB, 2)
    assert found["peak"] <= 1.1 * 128 * MIB
    text = found["error"]
    assert "MemoryLimitError: local_shuffle_buffer_size: " in text and "(65,536 are asked for) take 32.0 MiB" in text, text
    assert "the memory limit of 128.0 MiB has room for 32.0 MiB" in text, text


@not_sanitized
@pytest.mark.full
def test_loops_that_hold_most_of_the_limit_come_to_their_end(holding):
    """Eight, with a batch of a twelfth of the limit each in their hands: that is the program's own, and beside it the limit is kept."""
    limit = 256 * MIB
    found = holding.run_job("several-8", limit, limit, 2)
    assert "error" not in found, found
    assert found["own"] <= 1.1 * limit, found
    assert found["own"] < found["peak"]
