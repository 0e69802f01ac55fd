"""streaming_split: consumers in threads and processes, epochs, those who leave or die, errors, bounds."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import weir
from weir import _streaming_split

SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


def in_threads(work: Callable[..., Any], iterators: list[Any]) -> list[Any]:
    """What `work` gives for each, in threads; raises what one raised."""
    answers: list[Any] = [None] * len(iterators)
    errors: list[BaseException] = []

    def call(index: int) -> None:
        try:
            answers[index] = work(iterators[index])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(iterators))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
    return answers


def ids_of(it: Any, **arguments: Any) -> list[int]:
    return [i for batch in it.iter_batches(**arguments) for i in batch["id"].tolist()]


def ids_to_pipe(it: Any, pipe: Any, epochs: int = 1) -> None:
    for _ in range(epochs):
        ids = ids_of(it)
        pipe.send((len(ids), sum(ids)))
    pipe.close()


# ---- threads ----


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 6, 1000, 70001])
def test_every_row_once(n: int, rows: int) -> None:
    parts = in_threads(ids_of, weir.range(rows).streaming_split(n))
    assert sorted(i for part in parts for i in part) == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("n, rows", [(2, 1001), (3, 100000), (4, 3), (7, 70001)])
def test_equal(n: int, rows: int) -> None:
    parts = in_threads(ids_of, weir.range(rows).streaming_split(n, equal=True))
    assert [len(part) for part in parts] == [rows // n] * n
    assert len({i for part in parts for i in part}) == rows // n * n


def test_epochs_are_runs_of_their_own() -> None:
    iterators = weir.range(1000).map_batches(lambda batch: batch).streaming_split(2)
    epochs = in_threads(lambda it: [sorted(ids_of(it)) for _ in range(3)], iterators)
    for epoch in range(3):
        assert sorted(epochs[0][epoch] + epochs[1][epoch]) == list(range(1000))


def test_one_that_leaves_does_not_hold_the_others() -> None:
    first, second = weir.range(5_000_000).streaming_split(2)
    left = threading.Event()

    def leave() -> int:
        for batch in first.iter_batches(batch_size=100):
            left.set()
            return len(batch["id"])
        return 0

    def stay() -> int:
        return sum(len(batch["id"]) for batch in second.iter_batches(batch_size=4096))

    answers = in_threads(lambda work: work(), [leave, stay])
    assert answers == [100, 2_500_000]
    # The next epoch waits for both again.
    again = in_threads(lambda it: sum(len(b["id"]) for b in it.iter_batches(batch_size=None)), [first, second])
    assert sum(again) == 5_000_000


def test_an_error_reaches_all() -> None:
    def fails(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["id"].max() > 50_000:
            raise KeyError("no more")
        return batch

    iterators = weir.range(100_000).map_batches(fails, batch_size=1000).streaming_split(3)
    caught: list[str] = []

    def consume(it: Any) -> None:
        with pytest.raises(KeyError) as raised:
            ids_of(it)
        caught.append(str(raised.value))

    in_threads(consume, iterators)
    assert len(caught) == 3 and all("no more" in text for text in caught)


@pytest.mark.parametrize("limit", ["96MB", "512MB"])
def test_a_slow_one_bounds_the_others(limit: str) -> None:
    """The second takes nothing: the first gets what the queues hold, and the run stops there. How much that is goes by the limit."""
    weir.shutdown()  # whatever limit an earlier test has left
    weir.init(num_cpus=2, memory_limit=limit)
    bound = min(_streaming_split.QUEUED_BYTES, weir._session.current().native.memory_limit // (2 * _streaming_split.QUEUED_PART))
    rows = 60_000_000  # 480 MB
    first, second = weir.range(rows).streaming_split(2)
    coordinator = first._coordinator
    slow = iter(second.iter_batches(batch_size=1))
    taken = 0
    begun = threading.Event()

    def hold() -> None:
        next(slow)
        begun.set()

    holder = threading.Thread(target=hold)
    holder.start()
    batches = iter(first.iter_batches(batch_size=None))
    while True:
        if coordinator._bytes[0] == 0 and begun.is_set():
            with coordinator._changed:
                if coordinator._bytes[1] >= bound and not coordinator._queues[0]:
                    break
        taken += len(next(batches)["id"])
    assert taken * 8 < 4 * _streaming_split.QUEUED_BYTES
    batches.close()
    slow.close()
    holder.join()
    weir.shutdown()


def test_the_missing_are_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_streaming_split, "WAIT_WARNING_S", 0.05)
    iterators = weir.range(10).streaming_split(3)
    said = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.set()

    handler = Handler()
    logging.getLogger("weir").addHandler(handler)
    try:
        with caplog.at_level(logging.WARNING, logger="weir"):
            waiting = threading.Thread(target=ids_of, args=(iterators[1],))
            waiting.start()
            assert said.wait(20)
            in_threads(ids_of, [iterators[0], iterators[2]])
            waiting.join(20)
    finally:
        logging.getLogger("weir").removeHandler(handler)
    assert "splits 0, 2 of 3 have not asked" in caplog.text


def test_two_readers_of_one_split() -> None:
    iterators = weir.range(10).streaming_split(2)
    waiting = threading.Thread(target=ids_of, args=(iterators[0],))
    waiting.start()
    while 0 not in iterators[0]._coordinator._asked:
        pass
    with pytest.raises(ValueError, match="split 0 .* somebody else"):
        ids_of(iterators[0])
    ids_of(iterators[1])
    waiting.join(20)


def test_arguments() -> None:
    with pytest.raises(ValueError):
        weir.range(3).streaming_split(0)
    with pytest.raises(TypeError):
        weir.range(3).streaming_split("2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="locality_hints"):
        weir.range(3).streaming_split(2, locality_hints=["a"])


def test_torchrun_is_told_to_shard(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with caplog.at_level(logging.WARNING, logger="weir"):
        weir.range(10).streaming_split(2)
    assert "ds.shard(world_size, rank)" in caplog.text


# ---- processes ----


def start(context: Any, work: Any, *arguments: Any) -> tuple[Any, Any]:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def three_epochs(it: Any, pipe: Any) -> None:
    ids_to_pipe(it, pipe, epochs=3)


@pytest.mark.parametrize("context", [SPAWN, FORK], ids=["spawn", "fork"])
def test_two_processes_for_three_epochs(context: Any) -> None:
    rows = 300_001
    iterators = weir.range(rows).map_batches(lambda batch: batch, batch_size=5000).streaming_split(2)
    children = [start(context, three_epochs, it) for it in iterators]
    for _ in range(3):
        answers = [pipe.recv() for _, pipe in children]
        assert sum(count for count, _ in answers) == rows
        assert sum(total for _, total in answers) == rows * (rows - 1) // 2
        assert abs(answers[0][0] - answers[1][0]) <= 1
    for process, _ in children:
        process.join(20)
        assert process.exitcode == 0


def every_type(it: Any, pipe: Any) -> None:
    batches = list(it.iter_batches(batch_size=None))
    first = batches[0]
    pipe.send({name: np.concatenate([b[name] for b in batches]).tolist() for name in first})
    pipe.send(it.schema().names)
    pipe.send(type(it.get_context()).__name__)
    pipe.send(it.materialize().count())
    pipe.send(it.world_size())
    pipe.send("ReadRange" in it.stats() or "Map" in it.stats())


def test_values_of_many_kinds_travel() -> None:
    def more(batch: dict[str, Any]) -> dict[str, Any]:
        ids = batch["id"]
        return {"id": ids, "s": [f"row {i}" for i in ids], "t": np.stack([ids, ids], axis=1), "o": [Fraction(int(i), 3) for i in ids]}

    ds = weir.range(50).map_batches(more)
    (it,) = ds.streaming_split(1)
    process, pipe = start(SPAWN, every_type, it)
    answer = pipe.recv()
    assert answer["s"] == [f"row {i}" for i in range(50)]
    assert answer["t"] == [[i, i] for i in range(50)]
    assert answer["o"] == [Fraction(i, 3) for i in range(50)]
    assert pipe.recv() == ["id", "s", "t", "o"]
    assert pipe.recv() == "DataContext"
    assert pipe.recv() == 50
    assert pipe.recv() == 1
    assert pipe.recv() is True
    process.join(20)


def dies(it: Any, pipe: Any) -> None:
    for number, batch in enumerate(it.iter_batches(batch_size=1000)):
        if number == 2:
            pipe.send(len(batch["id"]))
            os.kill(os.getpid(), signal.SIGKILL)


def test_an_actor_asks_for_one_epoch_a_call() -> None:
    """The iterator is gone after each call, its actor is not: the next epoch waits for everybody, and nobody gets all rows."""
    class Trainer:
        def rows(self, it: Any) -> list[int]:
            return [row["id"] for row in it.iter_rows()]

    trainers = [weir.remote(Trainer).remote() for _ in range(2)]
    its = weir.range(20, override_num_blocks=4).streaming_split(2, equal=True)
    for _ in range(5):
        found = weir.get([t.rows.remote(it) for t, it in zip(trainers, its)])
        assert [len(rows) for rows in found] == [10, 10] and sorted(sum(found, [])) == list(range(20))


def test_a_consumer_that_is_killed() -> None:
    """It leaves its share of the epoch; the others get theirs, and then all of the next one."""
    rows = 4_000_000
    iterators = weir.range(rows).streaming_split(2)
    process, pipe = start(SPAWN, dies, iterators[0])
    assert sum(len(b["id"]) for b in iterators[1].iter_batches(batch_size=None)) == rows // 2
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    assert sum(len(b["id"]) for b in iterators[1].iter_batches(batch_size=None)) == rows
    # One that comes back takes part again.
    both = in_threads(lambda it: sum(len(b["id"]) for b in it.iter_batches(batch_size=None)), iterators)
    assert both == [rows // 2] * 2


def test_what_a_killed_consumer_held_is_free_again(caplog: pytest.LogCaptureFixture) -> None:
    rows = 4_000_000
    iterators = weir.range(rows).streaming_split(2)
    store = weir._session.current().native
    process, _ = start(SPAWN, dies, iterators[0])
    for _ in range(2):
        assert sum(len(b["id"]) for b in iterators[1].iter_batches(batch_size=None)) >= rows // 2
    process.join(20)
    gc.collect()
    assert store.memory()["used"] < 256 << 20
    assert "has waited" not in caplog.text  # its process was still ending when its connection was gone: nobody waited for it for long


def fails_here(it: Any, pipe: Any) -> None:
    try:
        ids_of(it)
    except Exception as error:
        pipe.send((type(error).__mro__[1].__name__, "broken row" in str(error)))


def test_an_error_reaches_other_processes() -> None:
    def fails(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 900:
            raise ArithmeticError("broken row")
        return row

    iterators = weir.range(1000).map(fails).streaming_split(2)
    children = [start(SPAWN, fails_here, it) for it in iterators]
    for process, pipe in children:
        kind, has_text = pipe.recv()
        assert has_text, kind
        process.join(20)


def leaves_early(it: Any, pipe: Any) -> None:
    for _ in range(2):
        for batch in it.iter_batches(batch_size=10):
            pipe.send(len(batch["id"]))
            break


def test_a_process_that_leaves_its_loop() -> None:
    iterators = weir.range(2_000_000).streaming_split(2)
    process, pipe = start(SPAWN, leaves_early, iterators[0])
    for _ in range(2):
        assert sum(len(b["id"]) for b in iterators[1].iter_batches(batch_size=None)) == 1_000_000
        assert pipe.recv() == 10
    process.join(20)
    assert process.exitcode == 0


def keeps_everything(it: Any, pipe: Any) -> None:
    kept = list(it.iter_batches(batch_size=None))
    pipe.send(sum(int(b["id"].sum()) for b in kept))


def test_batches_that_are_kept_stay_as_they_are() -> None:
    rows = 2_000_000
    (it,) = weir.range(rows).streaming_split(1)
    process, pipe = start(SPAWN, keeps_everything, it)
    assert pipe.recv() == rows * (rows - 1) // 2
    process.join(20)


DRIVER = """
    import os, pickle, sys
    import weir
    it, = weir.range(200_000_000).streaming_split(1)
    sys.stdout.buffer.write(pickle.dumps(it)); sys.stdout.buffer.flush()
    sys.stdout.close(); os.close(1)
    sys.stdin.read()
"""


def test_a_driver_that_is_killed() -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert driver.stdout is not None
    it = pickle.loads(driver.stdout.read())
    with pytest.raises(RuntimeError, match="the process that runs this Dataset has ended"):
        for number, _ in enumerate(it.iter_batches(batch_size=1000)):
            if number == 2:
                driver.kill()
                driver.wait()
    with pytest.raises(RuntimeError, match="cannot be reached"):
        ids_of(it)


def test_a_stranger_is_not_let_in() -> None:
    (it,) = weir.range(10).streaming_split(1)
    pickle.dumps(it)
    address = it._coordinator.address
    assert oct(os.stat(os.path.dirname(address)).st_mode & 0o777) == "0o700"
    path, _, token = address.rpartition("#")
    wrong = _streaming_split.Receiver(f"{path}#{'0' * len(token)}", {"split": 0})
    with pytest.raises(RuntimeError, match="cannot be reached"):
        wrong.question(do="stats")


def to_pipe(it: Any, pipe: Any) -> None:
    pipe.send([row["a"] for row in it.iter_rows()])


def test_an_iterator_over_kept_rows_travels() -> None:
    it = weir.from_items([{"a": i} for i in range(5)]).iterator()
    process, pipe = start(SPAWN, to_pipe, it)
    assert pipe.recv() == [0, 1, 2, 3, 4]
    process.join(20)


def kept_to_pipe(ds: Any, pipe: Any) -> None:
    pipe.send([ds.count(), [row["a"] for row in ds.take_all()], type(ds).__name__, ds.columns()])
    pipe.send(ds.map(lambda row: {"a": row["a"] * 2}).take(2))
    pipe.send((ds.num_blocks() > 0, ds.count(), ds.sum("a")))


def test_a_materialised_dataset_travels() -> None:
    """Two processes read the same rows at the same time; each as often as it likes."""
    ds = weir.from_items([{"a": i} for i in range(5)])
    children = [start(SPAWN, kept_to_pipe, ds) for _ in range(2)]
    for process, pipe in children:
        assert pipe.recv() == [5, [0, 1, 2, 3, 4], "MaterializedDataset", ["a"]]
        assert pipe.recv() == [{"a": 0}, {"a": 2}]
        assert pipe.recv() == (True, 5, 10)
        process.join(20)


def test_an_iterator_over_a_plan_is_the_plan() -> None:
    it = pickle.loads(pickle.dumps(weir.range(5).iterator()))
    assert type(it) is weir.DataIterator
    assert [row["id"] for row in it.iter_rows()] == [0, 1, 2, 3, 4]


def test_memory_stays_within_the_limit() -> None:
    """A consumer process that is slow: what waits for it is bounded, in the driver and in the store."""
    code = """
        import multiprocessing, weir
        def slow(it, queue):
            import time
            rows = 0
            for number, batch in enumerate(it.iter_batches(batch_size=None)):
                rows += len(batch["id"])
                if number < 20:
                    time.sleep(0.02)
            queue.put(rows)
        if __name__ == "__main__":
            weir.init(memory_limit="300MB")
            iterators = weir.range(100_000_000).streaming_split(2)
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            children = [context.Process(target=slow, args=(it, queue)) for it in iterators]
            for child in children: child.start()
            print(sum(queue.get() for _ in children))
            for child in children: child.join()
            memory = weir._session.current().native.memory()
            print(memory["peak"] <= memory["limit"], memory["peak"])
    """
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"slow_consumers_{os.getpid()}.py")
    with open(path, "w") as file:
        file.write(textwrap.dedent(code))
    try:
        out = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=True).stdout.split()
    finally:
        os.unlink(path)
    assert out[:2] == ["100000000", "True"], out
