"""Exchanges when something goes wrong: workers that are killed in every phase, a disk that is full half-way, interrupts, loops
that are left, functions that fail. The result is the same or the error a clear one, nothing is left behind, and the session goes
on."""
import gc
import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import weir
from driver_scripts import Program, all_gone, not_sanitized, tree_of, wait_for

pytestmark = pytest.mark.same_without
SEED = int(os.environ.get("WEIR_SEED", "7"))
MIB = 1 << 20


def workers():
    """Worker processes of this program, by their name."""
    found = []
    for pid in tree_of(os.getpid()):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "weir-worker":
                found.append(pid)
        except OSError:
            continue
    return found


def open_spills(folder):
    """Files in the folder, and those that have no name any more and are held open by this process or one below it."""
    found = [str(path) for path in Path(folder).rglob("*")]
    for pid in {os.getpid(), *tree_of(os.getpid())}:
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    target = os.readlink(entry)
                except OSError:
                    continue
                if target.startswith(str(folder)):
                    found.append(f"{target} of {pid}")
        except OSError:
            continue
    return found


def spilled_bytes(folder):
    """What spill files of this process have on disk."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(entry).startswith(str(folder)):
                total += entry.stat().st_blocks * 512
        except OSError:
            continue
    return total


def shared_bytes():
    """What this process has of memory without a name."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssShmem"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.fixture
def session(tmp_path):
    """session(**arguments of init): afterwards no process, no spill file and no shared memory is left."""
    def begin(**arguments):
        weir.shutdown()
        weir.init(spill_dir=str(tmp_path), **arguments)

    yield begin
    weir.shutdown()
    gc.collect()  # errors and their frames are cycles
    wait_for(lambda: not workers(), 10, "the end of the workers")
    assert open_spills(tmp_path) == []
    assert shared_bytes() < 4 * MIB


# ---- pipelines: a function, an exchange, a function ----

ROWS, BLOCKS = 20_000, 20


def mark():
    """Says that this worker has come to its work."""
    if folder := os.environ.get("WEIR_TEST_MARKS"):
        Path(folder, str(os.getpid())).touch()


def before(batch):
    mark()
    time.sleep(0.015)
    ids = batch["id"].astype(np.int64)
    return {"id": ids, "k": ids * 2654435761 % 1009, "x": (ids * 40503 % 65521).astype(np.float64),
            "t": np.array([f"text {i * 7919 % 4001}" for i in ids.tolist()])}


def behind(batch):
    mark()
    time.sleep(0.005)
    return {**batch, "seen": np.ones(len(next(iter(batch.values()))), np.int8)}


def made(rows=ROWS, blocks=BLOCKS):
    return weir.range(rows, override_num_blocks=blocks).map_batches(before, batch_size=rows // blocks)


def of_group(group):
    mark()
    time.sleep(0.001)
    return {"k": group["k"][:1], "n": np.array([len(group["k"])]), "sum": np.array([group["x"].sum()])}


def joined(ds):
    other = weir.range(2018, override_num_blocks=20).map_batches(
        lambda b: (time.sleep(0.01), {"k": b["id"] // 2, "y": b["id"] * 3})[1], batch_size=100)
    return ds.join(other, "inner", 4, on=("k",))


def own_sum(ds):
    from weir.aggregate import AggregateFn
    return ds.groupby("k").aggregate(AggregateFn(init=lambda key: 0, accumulate_row=lambda total, row: total + row["id"],
                                                 merge=lambda a, b: a + b, name="total"))


def aggregated(ds):
    from weir.aggregate import Count, Max, Mean, Sum
    return ds.groupby("k").aggregate(Count(), Sum("x"), Mean("x"), Max("id"))


# name: (the exchange, whether the order of its rows is fixed)
PIPELINES = {
    "sort": (lambda ds: ds.sort(["t", "k"]), True),
    "random_shuffle": (lambda ds: ds.random_shuffle(seed=5), True),
    "aggregate": (aggregated, False),
    "map_groups": (lambda ds: ds.groupby("k").map_groups(of_group, batch_format="numpy"), False),
    "join": (joined, False),
    "user-written": (own_sum, False),
    "repartition": (lambda ds: ds.repartition(9, keys=["k"]), True),
    "repartition-sorted": (lambda ds: ds.repartition(9, keys=["k"], sort=True), True),
    "repartition-shuffled": (lambda ds: ds.repartition(9, shuffle=True), True),
    "repartition-blocks": (lambda ds: ds.repartition(9), True),
    "repartition-rows": (lambda ds: ds.repartition(target_num_rows_per_block=700), True),
    "repartition-strict": (lambda ds: ds.repartition(target_num_rows_per_block=700, strict=True), True),
    "zip": (lambda ds: ds.zip(weir.range(ROWS, override_num_blocks=7).map_batches(
        lambda b: (time.sleep(0.01), {"twice": b["id"] * 2})[1], batch_size=1000)), True),
    "unique": (lambda ds: weir.from_items([{"t": value} for value in ds.unique("t")], override_num_blocks=8), False),
}


def digest(ds, is_ordered):
    """Rows and columns of a Dataset as one text."""
    parts = []
    for batch in ds.iter_batches(batch_size=None):
        names = sorted(batch)
        parts += list(zip(*(batch[name].tolist() for name in names)))
    if not is_ordered:
        parts.sort()
    return len(parts), hashlib.sha256(repr(parts).encode()).hexdigest()


class Killer(threading.Thread):
    """Kills a worker every now and then until it is told to stop. Three times of four it is one that has begun to work: where the
    machine is busy none would ever come that far, and ten in a row that did not are the end of a run."""

    def __init__(self, low, high, seed, marks):
        super().__init__()
        self.rng, self.low, self.high, self.marks = random.Random(seed), low, high, marks
        self.stop, self.kills = threading.Event(), 0

    def run(self):
        while not self.stop.wait(self.rng.uniform(self.low, self.high)):
            found = workers()
            if self.rng.random() < 0.75:
                found = [pid for pid in found if (self.marks / str(pid)).exists()]
            if found:
                try:
                    os.kill(self.rng.choice(found), signal.SIGKILL)
                    self.kills += 1
                except ProcessLookupError:
                    continue

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *raised):
        self.stop.set()
        self.join()


@pytest.mark.sample(8)
@not_sanitized  # under ASan a worker takes longer to start than it is left alive
@pytest.mark.parametrize("name", PIPELINES)
def test_workers_killed_in_every_phase(name, session, tmp_path_factory, monkeypatch):
    killed_often(name, session, 1, 2, tmp_path_factory, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("cpus", [1, 2, 7])
@pytest.mark.parametrize("name", PIPELINES)
def test_workers_killed_for_long(name, cpus, session, tmp_path_factory, monkeypatch):
    killed_often(name, session, 8, cpus, tmp_path_factory, monkeypatch)


def killed_often(name, session, rounds, cpus, tmp_path_factory, monkeypatch):
    exchange, is_ordered = PIPELINES[name]
    marks = tmp_path_factory.mktemp("marks")
    monkeypatch.setenv("WEIR_TEST_MARKS", str(marks))
    session(num_cpus=cpus, memory_limit="512MiB")

    def run():
        return digest(exchange(made()).map_batches(behind, batch_size=500), is_ordered)

    wanted = run()
    assert wanted[0] > 0
    kills = number = 0
    while number < rounds or (not kills and number < rounds + 9):  # a run may be over before anybody is killed
        number += 1
        with Killer(0.05, 0.3, SEED + number, marks) as killer:
            found = run()
        kills += killer.kills
        assert found == wanted, f"{name}, seed {SEED + number}, {killer.kills} kills"
    print(f"{name}: {wanted[0]} rows, {kills} kills in {rounds} runs")
    assert kills > 0


# ---- a disk that is full ----

@pytest.fixture
def small_disk(tmp_path):
    """small_disk(size): a folder with so many bytes; None where nothing can be mounted."""
    mounted = []

    def mount(size):
        folder = tmp_path / f"disk{size}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip("no file system can be mounted here")
        mounted.append(folder)
        return folder

    yield mount
    weir.shutdown()
    gc.collect()  # errors and their frames are cycles
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


WIDE = 1_500_000  # rows; about 120 MB in the store


def wide(rows=WIDE):
    """Rows of some 80 bytes, by the engine alone."""
    ds = weir.range(rows, override_num_blocks=12).with_column("k", weir.col("id") * 2654435761 % 1000003)
    return ds.with_column("y", weir.col("k") * 3).with_column("text", weir.lit("y" * 50))


LARGE = {
    "sort": lambda: wide().sort("k"),
    "shuffle": lambda: wide().random_shuffle(seed=3),
    "group": lambda: wide(2 * WIDE).groupby("id").sum("k"),
    "groups": lambda: wide().groupby("k").map_groups(lambda g: {"n": [len(g["k"])]}, batch_format="numpy"),
    "join": lambda: wide().join(wide().select_columns(["k", "y"]).rename_columns({"y": "z"}), "inner", 4, on=("k",)),
    "repartition": lambda: wide().repartition(8, keys=["k"]),
    "repartition-sorted": lambda: wide().repartition(8, keys=["k"], sort=True),
    "repartition-shuffled": lambda: wide().repartition(8, shuffle=True),
    "repartition-blocks": lambda: wide().repartition(8),
    "unique": lambda: wide(2 * WIDE).select_columns(["id"]).groupby("id").count(),
    "zip": lambda: wide().zip(wide().rename_columns({"id": "i", "k": "l", "y": "z", "text": "other"})),
}
# Its workers need more memory than leaves anything to spill, if it comes so far.
FULL = {**LARGE, "user-written": lambda: wide().groupby("k").aggregate(longest())}
# Those with functions of a user's, whose processes take memory.
WITH_WORKERS = ("groups", "user-written")
# Who spills, where that is not the verb itself.
SPILLS = {"repartition-sorted": "operator repartition", "repartition-shuffled": "operator shuffle", "repartition-blocks": "",
          "unique": "operator group", "zip": "", "user-written": "operator groups"}


def longest():
    from weir.aggregate import AggregateFn
    return AggregateFn(init=lambda key: 0, accumulate_row=lambda most, row: max(most, row["y"]), merge=max, name="most")


def limit_of(name):
    return "192MiB" if name in WITH_WORKERS else "64MiB"


def consume(ds):
    count = 0
    for batch in ds.iter_batches(batch_size=None):
        count += len(next(iter(batch.values())))
    return count


@pytest.mark.sample(6)
@pytest.mark.parametrize("share", [3, 40])
@pytest.mark.parametrize("name", FULL)
def test_a_disk_that_is_full_half_way(name, share, small_disk):
    """The error names who spills, how much, and where; spill files go with the run; the session is good for another one."""
    disk = small_disk(f"{share}m")
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=limit_of(name), spill_dir=str(disk))
    with pytest.raises(OSError) as raised:
        consume(FULL[name]())
    text = str(raised.value)
    print(text)
    assert str(disk) in text and "spill" in text and "bytes" in text, text
    assert SPILLS.get(name, f"operator {name}") in text, text
    wait_for(lambda: used_of(disk) == 0, 5, "an empty disk")
    assert weir.range(1000).random_shuffle(seed=1).sum("id") == 499_500
    assert weir.range(1000).sort("id", descending=True).take(1) == [{"id": 999}]


@not_sanitized
def test_a_spill_folder_that_is_gone(session, tmp_path):
    """It was there when the session began: rows that are kept have nowhere to go, and the error says so, not that memory is short."""
    folder = tmp_path / "gone"
    folder.mkdir()
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit="192MiB", spill_dir=str(folder))
    assert weir.range(10).map_batches(lambda batch: batch).count() == 10
    folder.rmdir()
    with pytest.raises(FileNotFoundError, match=f"{folder}: cannot spill there"):
        wide(2 * WIDE).map_batches(lambda batch: {**batch, "z": batch["k"] * 2}, batch_size=20_000).materialize()


def used_of(folder):
    figures = os.statvfs(folder)
    return (figures.f_blocks - figures.f_bfree) * figures.f_frsize


# ---- interrupts, loops that are left, functions that fail ----

@pytest.mark.sample(5)
@not_sanitized
@pytest.mark.parametrize("name", LARGE)
def test_a_loop_that_is_left(name, session, tmp_path):
    """What was spilled goes when the iterator does."""
    session(num_cpus=2, memory_limit=limit_of(name))
    for batch in LARGE[name]().iter_batches(batch_size=1000):
        break
    if name.startswith("repartition") or name == "zip":  # of kept blocks, which a batch of theirs keeps
        del batch
    wait_for(lambda: spilled_bytes(tmp_path) == 0 and not workers(), 10, "the end of the run")
    assert weir.range(10).sort("id").count() == 10


INTERRUPTED = """
    import os, signal, sys, threading, time
    import weir
    weir.init(num_cpus=2, memory_limit=sys.argv[1], spill_dir=sys.argv[2])
    sys.path.insert(0, sys.argv[3])
    from test_exchange_faults import LARGE, consume, spilled_bytes
    print("going", flush=True)
    how = "ended"
    try:
        consume(LARGE[sys.argv[4]]())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one that comes too late
    except KeyboardInterrupt:
        how = "interrupted"
    print(how, flush=True)
    end = time.monotonic() + 5
    while spilled_bytes(sys.argv[2]) and time.monotonic() < end:
        time.sleep(0.01)
    print(spilled_bytes(sys.argv[2]), weir.range(1000).random_shuffle(seed=1).sum("id"), flush=True)
"""


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", LARGE)
def test_an_interrupt(name, tmp_path):
    rng = random.Random(SEED)
    seen, took = [], []
    for attempt in range(3):
        spill = tmp_path / str(attempt)
        spill.mkdir()
        program = Program(tmp_path, INTERRUPTED, limit_of(name), spill, Path(__file__).parent, name)
        assert program.line() == "going"
        time.sleep(rng.uniform(0.05, 0.8))  # any moment will do
        tree = program.tree()
        program.interrupt()
        begun = time.monotonic()
        seen.append(program.line())
        took.append(time.monotonic() - begun)
        assert program.line() == "0 499500"
        out, err, code = program.wait()
        # One that comes while a module is imported may make Python say so at its end.
        assert code in (0, -signal.SIGINT) and not err, (seen, code, out, err)
        all_gone(tree)
        assert list(spill.iterdir()) == []
    print(name, seen, took)
    assert min(took) < 30, took  # others may use the machine


@pytest.mark.sample(4)
@not_sanitized
@pytest.mark.parametrize("name", PIPELINES)
def test_a_function_behind_that_fails(name, session, tmp_path):
    from weir.exceptions import RayTaskError

    session(num_cpus=2, memory_limit="256MiB")

    def fails(batch):
        raise KeyError("no such luck")

    with pytest.raises(KeyError, match="no such luck") as raised:
        consume(PIPELINES[name][0](made(4000 if name != "zip" else ROWS, 8)).map_batches(fails, batch_size=100))
    assert isinstance(raised.value, RayTaskError)
    wait_for(lambda: spilled_bytes(tmp_path) == 0 and not workers(), 10, "the end of the run")
    assert weir.range(10).map(lambda row: row).sort("id").count() == 10


SPOILED = """
    import json, os, sys, threading, time
    import weir

    folder, job, mode, times, target = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5]
    weir.init(num_cpus=2, memory_limit=(160 if job == "function" else 64) << 20, spill_dir=folder)
    ds = weir.range(3_000_000, override_num_blocks=24).with_column("k", weir.col("id") * 2654435761 % 4294967291)
    for i in range(5):
        ds = ds.with_column(f"c{i}", weir.col("k") * (i + 3))
    JOBS = {
        "sort": lambda: ds.sort("k"),
        "group": lambda: ds.groupby("k").max("id"),
        "materialize": lambda: ds.sort("k").materialize(),
        "function": lambda: ds.sort("k").map_batches(lambda b: {"k": b["k"]}, batch_size=100_000),
        "join": lambda: ds.join(ds.select_columns(["k"]).with_column("d", weir.col("k") + 1), "inner", 4, on=("k",)),
    }

    def spill_files():
        found = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                if folder in os.readlink(f"/proc/self/fd/{fd}"):
                    found.append(int(fd))
            except OSError:
                pass
        return found

    def spoil():
        "When much has been written: everything so far, so that what is spoiled is needed yet."
        seen = 0
        while seen < times and not over.is_set():
            for fd in spill_files():
                if os.fstat(fd).st_blocks * 512 > (24 << 20) and os.fstat(fd).st_size > (24 << 20):
                    at = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
                    if mode == "truncate":
                        os.ftruncate(at, 1 << 20)
                    else:
                        for place in range(0, os.fstat(fd).st_size, 4096):
                            os.pwrite(at, bytes(64), place + 512)
                    os.close(at)
                    seen += 1
                    if seen < times:
                        break
            time.sleep(0.002 if seen < times else 0)

    over = threading.Event()
    spoiler = threading.Thread(target=spoil, daemon=True)
    spoiler.start()
    made, text = JOBS[job](), ""
    try:
        made.write_parquet(target)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        del error
    over.set()
    spoiler.join()
    del made
    end = time.monotonic() + (20 if times == 1 else 0)
    while (blocks := sum(os.fstat(fd).st_blocks for fd in spill_files())) * 512 > 1 << 20 and time.monotonic() < end:
        time.sleep(0.01)  # a thread gives the space back
    print(json.dumps({"error": text, "blocks": blocks, "there": os.path.exists(target) and len(os.listdir(target))}))
"""


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", ["change", "truncate"])
@pytest.mark.parametrize("job", ["sort", "group", "join", "materialize", pytest.param("function", marks=not_sanitized)])
def test_what_came_back_changed_from_disk_is_made_again(job, mode, tmp_path):
    """Once: nothing was seen of the output yet, and all is read again."""
    (tmp_path / "spill").mkdir()
    program = Program(tmp_path, SPOILED, tmp_path / "spill", job, mode, 1, tmp_path / "out", env={"WEIR_LOG": "warn"})
    out, err, code = program.wait(120)
    assert code == 0, err
    found = json.loads(out)
    assert found["error"] == "" and found["there"], found
    assert err.count("all is read again") == 1 and str(tmp_path / "spill") in err, err
    assert found["blocks"] * 512 <= 1 << 20
    rows = weir.read_parquet(str(tmp_path / "out"))
    keys = np.concatenate([batch["k"] for batch in rows.select_columns(["k"]).iter_batches(batch_size=None)])
    expected = np.sort(np.arange(3_000_000, dtype=np.int64) * 2654435761 % 4294967291)
    assert np.array_equal(np.sort(keys) if job in ("group", "join") else keys, expected)


def test_a_disk_that_changes_what_is_written(tmp_path):
    """Again and again: an error that says so, and no output."""
    (tmp_path / "spill").mkdir()
    program = Program(tmp_path, SPOILED, tmp_path / "spill", "sort", "change", 1000, tmp_path / "out", env={"WEIR_LOG": "warn"})
    out, err, code = program.wait(120)
    assert code == 0, err
    found = json.loads(out)
    assert "SpillError" in found["error"] and "came back changed" in found["error"] and "spill_dir" in found["error"], found
    assert not found["there"]  # how much of the disk is taken is what the program itself has written over holes
    assert list((tmp_path / "spill").iterdir()) == []
