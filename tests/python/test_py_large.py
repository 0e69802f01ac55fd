"""More than 2 GiB of text in one batch, and functions that want more memory than there is."""
import pickle
import re
import threading
import time

import pytest

np = pytest.importorskip("numpy")

import weir  # noqa: E402
from driver_scripts import not_sanitized, wait_for  # noqa: E402
from weir import _call, _errors, _fuse, _setup, _shortage, _weir, _worker  # noqa: E402
from weir_functions import CallSpec, arange, failure_of  # noqa: E402
from weir.exceptions import OutOfMemoryError, RayTaskError  # noqa: E402

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


ADVICE = ("a smaller batch_size, where it has one, needs less at a time, fewer workers (concurrency=…) leave more for each, and "
          "weir.init(memory_limit=…) gives more to all")


@not_sanitized
@pytest.mark.parametrize("had", [0, 200_000_000])
def test_a_function_that_wants_too_much_gets_figures(had):
    """Also where the program lets go of as much as that: it was its own, and is not the workers' now."""
    weir.shutdown()
    own = np.ones(had)
    weir.init(memory_limit="400MB")
    del own
    try:
        with pytest.raises(MemoryError) as raised:
            weir.range(10).map_batches(lambda batch: {"x": [float(np.ones(200_000_000).sum())]}).take_all()
    finally:
        weir.shutdown()
    text = str(raised.value)
    assert re.search(r"the worker has \d+ MB and may take \d\d\d MB more", text) and ADVICE in text, text


@not_sanitized
@pytest.mark.parametrize("cpus", [2, 16])
def test_a_limit_that_is_too_small_for_functions_is_named(cpus):
    weir.shutdown()
    weir.init(memory_limit="64MiB", num_cpus=cpus)
    try:
        with pytest.raises(MemoryError, match="It is 64 MiB, and functions want at least 112 MiB: 64 MiB, and 48 MiB for each worker"):
            weir.range(10).map(lambda row: {"x": b"x" * 50_000_000}).take_all()
    finally:
        weir.shutdown()


def test_who_gathers_rows_is_to_blame_for_their_memory(monkeypatch):
    """Not who makes them, in the same worker, and could make no more."""
    def wide(batch):
        if batch["id"][0] == 50:
            raise MemoryError("Unable to allocate")
        return {"x": np.ones((len(batch["id"]), 1000))}

    def failed():
        return failure_of(_fuse.fused(specs, 1 << 20), arange(100))

    specs = [CallSpec("map_batches", wide, batch_size=10), CallSpec("map_batches", lambda batch: batch, batch_size=80)]
    for spec in specs:
        _call.check(spec)
    monkeypatch.setattr(_worker.shortage, "explains", lambda error, now=None: isinstance(error, MemoryError))
    monkeypatch.setattr(_shortage, "anon_bytes", lambda: 500_000)
    made = failed()
    assert made.operator == "MapBatches(<lambda>)" and isinstance(made, MemoryError)
    assert str(made).endswith("\nMemoryError: of a batch of 80 rows, 50 were there, of 0 MB, when there was no memory for more (Unable to allocate)")
    monkeypatch.setattr(_shortage, "anon_bytes", lambda: 5_000_000)  # most of it is not theirs
    assert failed().operator == "MapBatches(wide)"
    monkeypatch.undo()
    assert failed().operator == "MapBatches(wide)"  # it raised that by itself


def test_a_batch_that_cannot_be_put_together_is_a_shortage_of_memory(monkeypatch):
    """And no crash of the worker."""
    answers, reports = iter([_weir.OutOfMemoryError("the system has no 136.0 MiB to map"), None]), []

    class Worker:
        setup, number = None, 0

        def next(self, idle_ms):
            answer = next(answers)
            if answer:
                raise answer
            return answer

        def failed(self, payload, memory):
            reports.append((payload, memory))

    function = type("Function", (), {"close": lambda self: None})()
    for module, name, value in ((_weir, "Worker", Worker), (_setup, "read", lambda setup: {}), (_setup, "load", lambda setup, head: {}),
                                (_worker, "enter", lambda head, number: None), (_worker, "make", lambda head, objects: function)):
        monkeypatch.setattr(module, name, value)
    _worker.main()
    (payload, memory), = reports
    made = _errors.from_failure(payload, "MapBatches(f)", (True, [("a.csv", 20, 0, 19)]))
    assert memory and isinstance(made, OutOfMemoryError) and isinstance(made, RayTaskError)
    assert str(made).startswith("MapBatches(f) cannot get its rows as one batch on rows 0–19 of a.csv (pid=")
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made) and str(again) == str(made)


def test_what_the_engine_says_of_memory_is_caught_by_rays_class():
    error = _weir.MemoryLimitError("range: operator Map(f), rows 4 to 5: one batch of 4.0 KiB took 302.4 MiB in its worker by itself, with 8.0 KiB "
                                   "in use beside it; the limit is 286.1 MiB: smaller batches or a larger limit would help")
    made = _errors.translate(error)
    assert isinstance(made, OutOfMemoryError) and isinstance(made, _weir.MemoryLimitError) and ADVICE in str(made)
    assert type(pickle.loads(pickle.dumps(made))) is type(made)


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
