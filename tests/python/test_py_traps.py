"""Traps of worker processes that no other file holds: private pages, closures that count, forks, logs, debuggers, streams, other systems."""
import gc
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

import weir  # noqa: E402
from driver_scripts import Program, all_gone, is_alive, not_sanitized, output, tree_of, wait_for  # noqa: E402


# ---- memory ----

def test_arrow_takes_memory_of_the_system_in_workers(monkeypatch):
    """Its own allocator maps a GiB at once, which a worker's bound cannot tell from memory that is about to be used."""
    pa = pytest.importorskip("pyarrow")

    def pools(batch):
        import pyarrow

        before = mapped()
        kept = pyarrow.array(range(1000))
        return {"pool": [pyarrow.default_memory_pool().backend_name], "grew": [mapped() - before], "rows": [len(kept)]}

    def mapped():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmData:"))

    weir.shutdown()
    found, = weir.range(1).map_batches(pools).take_all()
    assert found["pool"] == "system" and found["grew"] < 64 << 10, found
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")  # what the program has set it to stays
    weir.shutdown()
    if "mimalloc" in pa.supported_memory_backends():
        assert weir.range(1).map_batches(pools).take_all()[0]["pool"] == "mimalloc"
    weir.shutdown()


@not_sanitized
def test_what_is_mapped_and_never_used_is_no_memory():
    """120 MiB of a limit of 192 MiB that nobody touches, as an allocator reserves them: what the function does need is there."""
    def reserves(batch):
        import mmap
        import time

        import numpy

        global reserved
        if "reserved" not in globals():
            reserved = mmap.mmap(-1, 120 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            time.sleep(0.5)
        return {"sum": [float(numpy.ones(6 << 20).sum())]}  # 48 MiB

    weir.shutdown()
    weir.init(num_cpus=1, memory_limit="192MiB")
    assert [row["sum"] for row in weir.range(4, override_num_blocks=4).map_batches(reserves).take_all()] == [float(6 << 20)] * 4
    weir.shutdown()


@not_sanitized
def test_pages_that_a_worker_wrote_to_do_not_come_back(tmp_path):
    """Every input is written over; the pages that are used again for later inputs hold those."""
    text = """
        import ctypes, numpy as np, weir
        weir.init(memory_limit="300MB")

        def wide(batch):
            return {"x": np.repeat(batch["id"].astype(np.float64)[:, None], 500, axis=1)}

        def scribbles(batch):
            x = batch["x"]
            wrong = int((x != x[0, 0] + np.arange(len(x))[:, None]).any())
            ctypes.memset(x.ctypes.data, 255, x.nbytes)
            return {"first": [float(len(x))], "wrong": [wrong]}

        ds = weir.range(120_000).map_batches(wide, batch_size=1000).map_batches(scribbles, batch_size=1000, concurrency=1)
        rows = ds.take_all()
        print(sum(row["first"] for row in rows), sum(row["wrong"] for row in rows))
    """
    assert output(tmp_path, text) == "120000.0 0\n"


def test_what_a_function_keeps_is_shown():
    class Keeper:
        def __init__(self):
            self.kept = []

        def __call__(self, batch):
            self.kept.append(np.ones(1 << 20))  # 8 MiB
            if len(self.kept) == 20:
                time.sleep(0.3)  # memory is looked at every 25 ms
            return batch

    ds = weir.range(2000).map_batches(Keeper, batch_size=100, concurrency=1).materialize()
    line = next(line for line in ds.stats().splitlines() if line.startswith("* Memory of a worker: "))
    assert int(line.split()[5]) > 20 * (8 << 20) and "bytes planned" in line


def _planned(ds):
    """(measured, planned) bytes of a worker."""
    line = next(line for line in ds.materialize().stats().splitlines() if line.startswith("* Memory of a worker: "))
    return int(line.split()[5]), int(line.split()[8])


@not_sanitized
@pytest.mark.parametrize("size, most, batch", [(None, 128 << 20, 2 << 20), (None, 1 << 20, 1 << 20), ("auto", 128 << 20, 16 << 20)])
def test_a_worker_is_taken_to_need_four_times_its_batch_at_first(size, most, batch):
    """And what it starts with: 16 MiB. What is measured then counts, at once where it is more, little by little where it is less."""
    ds = weir.range(1000).map_batches(lambda b: b, batch_size=size, concurrency=1)
    ds.context.target_max_block_size = most
    measured, planned = _planned(ds)
    first = 4 * batch + (16 << 20)
    assert max(measured, first - first // 8) <= planned <= max(measured, first), (measured, planned)


@not_sanitized
def test_workers_that_are_not_measured_yet_share_the_limit_by_that(tmp_path):
    """Eight are asked for. Each is taken to need 80 MiB, so that three fit, and no more start before their classes are made."""
    text = """
        import os, sys, time, weir
        from pathlib import Path
        weir.init(memory_limit="300MB", num_cpus=8)
        folder = Path(sys.argv[1])

        class Comes:
            def __init__(self):
                (folder / str(os.getpid())).touch()
                seen = 0, time.monotonic()
                while time.monotonic() - seen[1] < 0.5:  # until nobody has come for a while
                    if len(os.listdir(folder)) != seen[0]:
                        seen = len(os.listdir(folder)), time.monotonic()
                    time.sleep(0.01)
                self.seen = seen[0]

            def __call__(self, batch):
                return {"seen": [self.seen]}

        rows = weir.range(64).map_batches(Comes, batch_size="auto", concurrency=8).take_all()
        print(rows[0]["seen"])
    """
    folder = tmp_path / "pids"
    folder.mkdir()
    assert 2 <= int(output(tmp_path, text, folder)) <= 3


@not_sanitized
def test_a_limit_below_that_is_refused_with_the_figure(tmp_path):
    text = """
        import weir
        weir.init(memory_limit="70MB", num_cpus=2)
        try:
            weir.range(10).map(lambda r: r).map_batches(lambda b: b).map_batches(lambda b: b, concurrency=1).map_batches(
                lambda b: b, concurrency=1).take_all()
        except MemoryError as error:
            print(error)
    """
    assert "needs" in output(tmp_path, text)


def _shared_memory():
    """A folder on a tmpfs."""
    folder = Path("/dev/shm")
    kind = next((line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(folder)), "")
    if kind != "tmpfs" or not os.access(folder, os.W_OK) or os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize < 1 << 30:
        pytest.skip("no tmpfs of 1 GiB")
    return tempfile.TemporaryDirectory(dir=folder)


@not_sanitized
def test_a_spill_folder_in_memory_counts_as_memory(tmp_path):
    """What is spilled there is in the session's figures, and half the limit is all that it may take: then the error says why."""
    text = """
        import os, sys, weir
        from weir import _session
        weir.init(memory_limit="200MB", num_cpus=2, spill_dir=sys.argv[1])

        def wide(batch):
            import numpy as np
            return {"x": np.ones((len(batch["id"]), 1000))}

        kept = weir.range(12_000).map_batches(wide, batch_size=500).materialize()  # 96 MB, of which a quarter of the limit stays
        used = _session.current().native.memory()["used"]
        print(used)
        print(kept.count(), sum(len(b["x"]) for b in kept.iter_batches(batch_size=1000)))
        try:
            more = weir.range(60_000).map_batches(wide, batch_size=500).materialize()
            print("no error", _session.current().native.memory()["used"])
        except Exception as error:
            print("error", type(error).__name__, error)
    """
    with _shared_memory() as folder:
        out, err, code = Program(tmp_path, text, folder).wait(120)
    assert code == 0, err
    used, rows, end = out.splitlines()[:3]
    assert 90e6 < int(used) < 200e6
    assert rows == "12000 12000"
    assert end.startswith("error") and "tmpfs" in out, out
    assert "is a tmpfs" in err  # a warning, before


@not_sanitized
def test_a_closure_counts_towards_the_limit():
    """What all workers map of it is memory of the session, once."""
    from weir import _session

    table = np.ones(8 << 20)  # 64 MiB
    seen = []
    weir.range(1).map_batches(lambda b: b).take_all()
    gc.collect()
    before = _session.current().native.memory()["used"]
    for _ in weir.range(100).map_batches(lambda b: {"x": [table[0]]}, batch_size=1, concurrency=2).iter_batches(batch_size=1):
        seen.append(_session.current().native.memory()["used"] - before)
    assert (64 << 20) <= max(seen) < (128 << 20), max(seen)


@pytest.mark.parametrize("blocks", [20_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_many_blocks_with_few_descriptors(tmp_path, blocks):
    text = f"""
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        import weir
        kept = weir.range({blocks}, override_num_blocks={blocks}).materialize()
        print(kept.num_blocks(), kept.count(), kept.sum("id"), len(os.listdir("/proc/self/fd")) < 100)
    """
    assert output(tmp_path, text) == f"{blocks} {blocks} {sum(range(blocks))} True\n"


def test_many_workers_with_few_descriptors(tmp_path):
    """As many workers as there are descriptors for; one that cannot be started in the middle of a run would end it."""
    text = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
        import threading
        import weir
        weir.init(num_cpus=16)
        class Model:
            def __call__(self, batch):
                return batch
        print(weir.range(5000).map_batches(lambda b: b, batch_size=1).count())
        print(weir.range(500).map_batches(Model, batch_size=5, concurrency=16).filter(lambda row: True, concurrency=3).count())
        def counts():
            sys.stdout.write(f"{weir.range(50).map_batches(lambda b: b, batch_size=5).count()}\\n")  # print() writes its line in two
        threads = [threading.Thread(target=counts) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    for files in (96, 256):
        out, err, code = Program(tmp_path, text, files).wait(120)
        assert out.split() == ["5000", "500", "50", "50", "50"], err
        assert err.count("worker processes instead of") == 1 and f"open files is {files}" in err


def test_too_few_descriptors_for_one_worker(tmp_path):
    text = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (28, 28))
        import weir
        print(weir.range(10).count())
        try:
            weir.range(10).map_batches(lambda b: b).count()
        except OSError as error:
            print(error)
    """
    assert re.fullmatch(r"10\n\d+ of 28 open files are in use, and 1 function in worker processes needs 20 more: raise the limit "
                        r"\(ulimit -n \d+\), or close some\n", output(tmp_path, text))


def test_two_thousand_columns_pass_through_small_batches():
    columns = {f"c{i}": np.arange(i, i + 100) for i in range(2000)}
    ds = weir.from_numpy(np.arange(6)).map_batches(lambda b: columns, batch_size=1).materialize()
    batches = list(ds.map_batches(lambda b: b, batch_size=100, concurrency=1).iter_batches(batch_size=100))
    assert len(batches) == 6
    for batch in batches:
        assert list(batch) == list(columns)
        assert all((batch[name] == values).all() for name, values in columns.items())


# ---- forks ----

def forks(how):
    """For each row the exit code of a child that came out of the function in some way."""
    def call(row):
        pid = os.fork()
        if pid:
            return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}
        if how == "raises":
            raise ValueError("in the child")
        if how == "exits":
            sys.exit(7)
        return {"code": -1}
    return call


@pytest.mark.parametrize("what", ["weir.range(1).map(starts).take_all()", "weir.get(weir.remote(starts).remote({}))"])
def test_what_a_function_started_dies_with_driver_and_zygote(tmp_path, what):
    """The zygote would end it; where that is killed together with the driver, the worker takes it along, whatever session it is in."""
    text = """
        import os, subprocess, sys, time, weir

        def starts(row):
            plain = subprocess.Popen(["sleep", "1000"])
            apart = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            orphan = subprocess.run(["sh", "-c", "sleep 1000 >&2 & echo $!"], start_new_session=True, stdout=subprocess.PIPE)
            forked = os.fork()
            if forked == 0:
                os.setsid()
                time.sleep(1000)
            with open(sys.argv[1], "w") as file:
                print(os.getppid(), os.getpid(), plain.pid, apart.pid, int(orphan.stdout), forked, file=file)
            os.rename(sys.argv[1], sys.argv[1] + " all")
            time.sleep(1000)

        """ + what
    program = Program(tmp_path, text, str(tmp_path / "pids"))
    wait_for((tmp_path / "pids all").exists)
    zygote, *others = map(int, (tmp_path / "pids all").read_text().split())
    try:
        os.kill(zygote, signal.SIGSTOP)  # it is not to see that the driver is gone
        program.process.kill()
        os.kill(zygote, signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, others)))
    finally:
        for pid in filter(is_alive, others):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("what, killed, waits", [
    ("map", "driver", "time.sleep(1000)"), ("map", "driver and zygote", "time.sleep(1000)"), ("map", "zygote, then driver", "time.sleep(1000)"),
    ("map", "driver and zygote", "ctypes.PyDLL(None).sleep(1000)"),  # which holds the GIL
    ("task", "driver and zygote", "time.sleep(1000)"),
])
def test_a_function_that_blocks_all_signals_dies_with_its_driver(tmp_path, what, killed, waits):
    what = {"map": "weir.range(1).map(f).take_all()", "task": "weir.get(weir.remote(f).remote({}))"}[what]
    text = f"""
        import ctypes, os, signal, sys, time, weir

        def f(row):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            with open(sys.argv[1], "w") as file:
                print(os.getppid(), os.getpid(), file=file)
            os.rename(sys.argv[1], sys.argv[1] + " all")
            {waits}

        {what}
    """
    program = Program(tmp_path, text, str(tmp_path / "pids"))
    worker = 0
    try:
        wait_for((tmp_path / "pids all").exists)
        zygote, worker = map(int, (tmp_path / "pids all").read_text().split())
        if killed == "driver and zygote":
            os.kill(zygote, signal.SIGSTOP)  # it is not to see that the driver is gone
        if killed == "zygote, then driver":
            os.kill(zygote, signal.SIGKILL)
            wait_for(lambda: not is_alive(zygote))
            assert is_alive(worker)
        program.process.kill()
        if killed == "driver and zygote":
            os.kill(zygote, signal.SIGKILL)
        wait_for(lambda: not is_alive(worker))
    finally:
        program.process.kill()
        if worker and is_alive(worker):
            os.kill(worker, signal.SIGKILL)


def forks_batch(batch):
    return {"code": [forks("returns")(batch)["code"]]}


def forks_and_yields(value):
    yield forks_batch(value) if isinstance(value["id"], np.ndarray) else forks("returns")(value)


@pytest.mark.parametrize("chain, code", [
    (lambda ds: ds.map(forks("returns")), 0), (lambda ds: ds.map(forks("exits")), 7), (lambda ds: ds.map(forks("raises")), 1),
    (lambda ds: ds.flat_map(forks_and_yields), 0), (lambda ds: ds.map_batches(forks_batch, batch_size=5), 0),
    (lambda ds: ds.map(lambda row: row).map_batches(forks_and_yields, batch_size=5), 0),
])
def test_a_child_that_comes_out_of_a_function_ends_there(chain, code):
    """It takes no further row, which would fork again, and says nothing to the driver."""
    rows = chain(weir.range(20)).take_all()
    assert [row["code"] for row in rows] == [code] * len(rows) and len(rows) in (4, 20)


@pytest.mark.parametrize("how, code", [("returns", 0), ("exits", 7), ("raises", 1)])
def test_a_child_that_comes_out_of_a_task_ends_there(how, code):
    assert weir.get(weir.remote(forks(how)).remote({})) == {"code": code}


def test_a_forked_child_that_ends_as_programs_do(tmp_path):
    """It runs functions in a session of its own; its atexit, __del__ and exit touch nothing of the parent's."""
    text = """
        import atexit, os, sys, weir
        kept = weir.range(100).map(lambda r: {"x": r["id"]}).materialize()
        rows = iter(weir.range(1000).map_batches(lambda b: {"y": b["id"]}, batch_size=10).iter_rows())
        assert next(rows) == {"y": 0}
        pid = os.fork()
        if pid == 0:
            for use in (kept.take, lambda: next(rows)):
                try:
                    use()
                except (RuntimeError, ValueError) as error:
                    print("fork" in str(error), flush=True)
            print(weir.range(5).map(lambda r: {"z": r["id"] * 2}).sum("z"), flush=True)
            del kept, rows
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(kept.sum("x"), sum(row["y"] for row in rows))
        print(weir.range(5).map(lambda r: {"z": r["id"]}).sum("z"))
    """
    assert output(tmp_path, text).splitlines() == ["True", "True", "20", "3", f"{sum(range(100))} {sum(range(1000))}", "10"]


def test_a_materialised_dataset_elsewhere_says_to_write_files(tmp_path):
    text = """
        import pickle, sys, weir
        if sys.argv[1] == "make":
            pickle.dump(weir.from_items([1, 2]), open("kept", "wb"))
        else:
            try:
                pickle.load(open("kept", "rb")).take()
            except RuntimeError as error:
                print(error)
    """
    output(tmp_path, text, "make")
    said = output(tmp_path, text, "use")
    assert "session" in said and "files" in said


def test_the_thread_that_began_a_run_may_end():
    """Workers watch the driver, not the thread that asked for them."""
    begun = []

    def begin():
        loop = iter(weir.range(10_000, override_num_blocks=100).map_batches(lambda b: {"x": b["id"]}, batch_size=100).iter_batches(batch_size=100))
        begun.extend([next(loop)["x"].copy(), loop])

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join(60)
    first, loop = begun
    assert np.concatenate([first, *(batch["x"] for batch in loop)]).tolist() == list(range(10_000))


# ---- functions that change their mind ----

def test_a_random_function_whose_worker_dies(tmp_path):
    """What was accepted stays, whatever a second try would have given."""
    mark = tmp_path / "died"

    def f(batch):
        import random
        if batch["id"][0] == 500 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return {"id": batch["id"], "x": [random.random() for _ in batch["id"]]}

    rows = weir.range(1000).map_batches(f, batch_size=10, concurrency=2).take_all()
    assert mark.exists() and [row["id"] for row in rows] == list(range(1000)) and len({row["x"] for row in rows}) == 1000


# ---- kills and shells ----

def test_the_whole_tree_is_killed_at_random_moments(tmp_path):
    """What is written is there as a whole or not at all; nothing else is left; a second run finishes it."""
    text = """
        import sys, time, weir
        def f(batch):
            time.sleep(0.005)
            return {"x": batch["id"] * 2}
        print("begun", flush=True)
        weir.range(2000, override_num_blocks=20).map_batches(f, batch_size=50).write_parquet(sys.argv[1])
    """
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator = random.Random(seed)
    spill = tmp_path / "spill"
    spill.mkdir()
    expected = [2 * i for i in range(2000)]
    begun = time.monotonic()
    output(tmp_path, text, tmp_path / "first", env={"TMPDIR": str(spill)})
    longest = time.monotonic() - begun
    for number in range(5):
        out = tmp_path / str(number)
        program = Program(tmp_path, text, out, env={"TMPDIR": str(spill)})
        assert program.line() == "begun"
        time.sleep(generator.random() * longest)
        tree = program.tree()
        for pid in tree:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        program.wait()
        all_gone(tree)
        if out.exists():
            assert sorted(row["x"] for row in weir.read_parquet(str(out)).take_all()) == expected, number
        else:
            output(tmp_path, text, out, env={"TMPDIR": str(spill)})
        assert sorted(row["x"] for row in weir.read_parquet(str(out)).take_all()) == expected, number
        assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
        assert [name for name in os.listdir(out) if name.startswith(".")] == []
    assert os.listdir(spill) == []


def test_in_an_interactive_interpreter(tmp_path):
    """Functions of a prompt have no file; prints and errors arrive as they do in scripts."""
    typed = """
import weir
def double(row):
    print("seen", row["id"])
    return {"x": row["id"] * 2}

weir.range(2).map(double).take_all()
weir.range(1).map(lambda r: 1 // 0).take_all()
weir.range(3).count()
"""
    done = subprocess.run([sys.executable, "-i", "-q"], input=typed, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert "[{'x': 0}, {'x': 2}]" in done.stdout and "seen 1" in done.stdout and "\n3\n" in done.stdout + "\n", done.stdout
    assert "ZeroDivisionError" in done.stderr and done.returncode == 0


# ---- output ----

@pytest.mark.same_without
def test_lines_that_are_dropped_are_counted(tmp_path):
    """Nobody takes the prints for a while: the function goes on, and what did not fit is said."""
    text = """
        import re, sys, time, weir
        class Slow:
            shown = lost = 0
            def write(self, text):
                time.sleep(0.0001)
                if "a line" in text:
                    Slow.shown += 1
                Slow.lost += sum(map(int, re.findall(r"(\\d+) lines", text)))
            def flush(self):
                pass
        out, sys.stdout, sys.stderr = sys.stdout, Slow(), Slow()
        def f(batch):
            for i in range(50_000):
                print("a line", i)
            return batch
        n = weir.range(1).map_batches(f).count()
        print(n, Slow.shown + Slow.lost, Slow.lost > 0, file=out, flush=True)
    """
    assert output(tmp_path, text) == "1 50000 True\n"


def test_the_last_lines_arrive(tmp_path):
    """What is printed just before the end, and by an object that goes with its worker."""
    text = """
        import io, sys, weir
        def f(batch):
            for i in range(3000):
                print("a line", i)
            return batch
        class Leaves:
            def __call__(self, batch):
                return batch
            def __del__(self):
                print("bye")
        out, seen = sys.stdout, []
        for _ in range(10):
            sys.stdout = io.StringIO()
            weir.range(1).map_batches(f).count()
            seen.append(sys.stdout.getvalue().count("a line"))
        sys.stdout = io.StringIO()
        weir.range(1).map_batches(Leaves, concurrency=1).count()
        print(set(seen), sys.stdout.getvalue().count("bye"), file=out, flush=True)
    """
    assert output(tmp_path, text) == "{3000} 1\n"


def test_lines_that_are_written_over(capsys):
    """What a progress bar draws with carriage returns is one line: the last that it showed."""
    def bar(row):
        for part in range(3):
            print(f"\r{part}0%", end="", flush=True)
        print("\nends as files of Windows do\r\n", end="")
        print("without an end", end="")
        return row

    weir.range(1).map(bar).take_all()
    assert [line.rsplit(") ", 1)[1] for line in capsys.readouterr().out.splitlines()] == ["20%", "ends as files of Windows do", "without an end"]


def test_weir_is_silent_and_leaves_logging_alone(tmp_path):
    text = """
        import logging, weir
        levels = [logging.root.level, list(logging.root.handlers), logging.raiseExceptions]
        ds = weir.range(1000).map_batches(lambda b: b, batch_size=100).filter(expr="id > 3").materialize()
        ds.write_parquet("out")
        weir.range(10).map(lambda r: r).random_shuffle().count()
        assert levels == [logging.root.level, list(logging.root.handlers), logging.raiseExceptions]
        assert all(not name or name.split(".")[0] in ("weir", "ray", "concurrent", "asyncio") for name in logging.root.manager.loggerDict), \\
            list(logging.root.manager.loggerDict)
    """
    out, err, code = Program(tmp_path, text).wait()
    assert (out, err, code) == ("", "", 0)


# ---- local mode ----

def test_a_debugger_in_local_mode(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent("""
        import weir
        weir.init(local_mode=True)
        def f(row):
            y = row["id"] * 2
            breakpoint()
            return {"y": y}
        print(weir.range(1).map(f).take_all())
    """))
    done = subprocess.run([sys.executable, str(path)], input="p ('y is', y)\nc\n", capture_output=True, text=True, timeout=60, cwd=tmp_path,
                          env={name: value for name, value in os.environ.items() if name != "PYTHONBREAKPOINT"})
    assert "('y is', 0)" in done.stdout and "[{'y': 0}]" in done.stdout, done.stderr


def test_tracing_in_local_mode(tmp_path):
    """What coverage does: the lines of functions are seen by a trace function of the driver's thread."""
    text = """
        import sys, weir
        weir.init(local_mode=True)
        seen = set()
        def trace(frame, event, arg):
            if frame.f_code.co_name == "f":
                seen.add(frame.f_lineno - frame.f_code.co_firstlineno)
                return trace
        def f(row):
            y = row["id"] * 2
            return {"y": y}
        sys.settrace(trace)
        weir.range(3).map(f).take_all()
        sys.settrace(None)
        print(sorted(seen))
    """
    assert output(tmp_path, text) == "[0, 1, 2]\n"


# ---- accelerators ----

def test_tensors_are_on_the_cpu_unless_asked():
    pytest.importorskip("torch")
    assert {str(batch["id"].device) for batch in weir.range(3).iter_torch_batches()} == {"cpu"}
    assert {str(batch["id"].device) for batch in weir.range(3).iter_torch_batches(device="auto")} == {"cpu"}


@pytest.mark.parametrize("devices", ["3,5", "GPU-11111111-aaaa,GPU-22222222-bbbb", "MIG-1/2/0,MIG-1/3/0"])
def test_inherited_devices_are_the_pool(tmp_path, devices):
    text = """
        import os, sys, time, weir
        class Model:
            def __call__(self, batch):
                time.sleep(0.02)
                return {"gpu": [os.environ["CUDA_VISIBLE_DEVICES"]]}
        rows = weir.range(30).map_batches(Model, batch_size=1, num_gpus=1, concurrency=2).take_all()
        print(",".join(sorted({row["gpu"] for row in rows})), os.environ["CUDA_VISIBLE_DEVICES"])
        print("torch" in sys.modules)
    """
    assert output(tmp_path, text, env={"CUDA_VISIBLE_DEVICES": devices}).splitlines() == [f"{devices} {devices}", "False"]


# ---- streams ----

def test_a_stream_may_be_asked_for_twice_and_begins_when_it_is_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    log = tmp_path / "log"

    def note(batch):
        with open(log, "a") as file:
            file.write("x" * len(batch["id"]))
        return batch

    ds = weir.range(1000, override_num_blocks=10).map_batches(note, batch_size=100)
    for _ in range(3):
        assert "arrow_array_stream" in repr(ds.__arrow_c_stream__())
    assert not log.exists()
    reader = pa.RecordBatchReader.from_stream(ds)
    assert reader.schema.names == ["id"]
    assert len(log.read_text()) <= 1  # schema() runs one row
    found = []
    thread = threading.Thread(target=lambda: found.append(reader.read_all().num_rows))
    thread.start()
    thread.join(60)
    assert found == [1000]
    assert pa.table(ds).num_rows == 1000


def test_dropping_a_stream_stops_its_run():
    pa = pytest.importorskip("pyarrow")

    def workers():
        found = []
        for pid in tree_of(os.getpid()):
            try:
                found.append(open(f"/proc/{pid}/comm", encoding="ascii").read().strip())
            except OSError:
                continue
        return found.count("weir-worker")
    weir.shutdown()  # with what tests before have left: actors, idle workers of weir.core
    gc.collect()
    wait_for(lambda: workers() == 0, 20, "the end of the workers of tests before")
    reader = pa.RecordBatchReader.from_stream(weir.range(10**9).map_batches(lambda b: b, batch_size=1000))
    assert reader.read_next_batch().num_rows > 0 and workers() > 0
    del reader
    gc.collect()
    wait_for(lambda: workers() == 0, 20, "the end of the workers")


# ---- other systems ----

@pytest.mark.parametrize("change, said", [
    ("sys.platform = 'darwin'", "Linux"), ("sys.implementation.name = 'pypy'", "CPython"), ("sys.version_info = (3, 10, 4)", "3.11"),
    ("sys._is_gil_enabled = lambda: False", "GIL"), ("os.uname = lambda: os.uname_result(['Linux', '', '', '', 'riscv64'])", "riscv64"),
    ("os.confstr = lambda name: None", "glibc")])
def test_elsewhere_the_import_says_so(change, said):
    program = f"import os, sys\n{change}\ntry:\n    import weir\nexcept ImportError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert said in done.stdout and "weir" in done.stdout, done.stderr


# ---- stopped, and told so ----

@pytest.mark.same_without
def test_a_worker_that_was_stopped_is_replaced(tmp_path, caplog):
    """SIGSTOP from outside: its batch runs elsewhere after a few seconds, and the log names the process."""
    mark = tmp_path / "stopped"

    def stops(batch):
        if batch["id"][0] == 500 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return batch

    with caplog.at_level("WARNING", "weir"):
        assert weir.range(1000, override_num_blocks=10).map_batches(stops).sum("id") == 499_500
    assert mark.exists() and "was stopped (SIGSTOP)" in caplog.text


@pytest.mark.parametrize("flags", [["-X", "dev"], ["-W", "error"]])
def test_no_warning_of_ours_at_the_end(tmp_path, flags):
    script = tmp_path / "script.py"
    script.write_text("import weir\nprint(weir.range(10).map(lambda row: row).count())\n")
    done = subprocess.run([sys.executable, *flags, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("10\n", "")
