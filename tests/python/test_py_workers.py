"""Functions in worker processes, end to end: the world they see, what they hold on to, errors, prints, ends."""
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import weir
from driver_scripts import Program, all_gone, is_alive, not_sanitized, on_a_busy_machine, output, tree_of, wait_for, within
from weir.exceptions import ActorDiedError, ArrowConversionError, RayTaskError, UserCodeException, WorkerCrashedError


# ---- rows and batches, through processes ----

@pytest.mark.parametrize("size", [None, 1, 7, 100, 1000, "auto"])
def test_map_batches(size):
    n = 1000 if size == 1 else 2500
    ds = weir.range(n).map_batches(lambda b: {"x": b["id"] * 2}, batch_size=size)
    assert [row["x"] for row in ds.take_all()] == [2 * i for i in range(n)]
    assert ds.count() == n


def test_batch_sizes_are_exact():
    sizes = [row["n"] for row in weir.range(1000).map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=64).take_all()]
    assert sum(sizes) == 1000 and sizes.count(64) >= 14 and all(n <= 64 for n in sizes)


def test_rows():
    ds = weir.range(1000)
    assert ds.map(lambda r: {"x": r["id"] + 1}).take_all() == [{"x": i + 1} for i in range(1000)]
    assert ds.filter(lambda r: r["id"] % 7 == 0).take_all() == [{"id": i} for i in range(0, 1000, 7)]
    assert [r["x"] for r in ds.limit(5).flat_map(lambda r: [{"x": r["id"]}] * r["id"]).take_all()] == [
        1, 2, 2, 3, 3, 3, 4, 4, 4, 4]


def test_chains():
    ds = weir.range(1000).map(lambda r: {"a": r["id"]}).map_batches(lambda b: {"a": b["a"], "b": b["a"] ** 2}, batch_size=100)
    ds = ds.filter(lambda r: r["b"] % 2 == 0).map_batches(lambda b: {"c": b["b"] + 1})
    assert [r["c"] for r in ds.take_all()] == [i * i + 1 for i in range(0, 1000, 2)]


def test_classes_are_made_once_a_worker():
    class Counter:
        def __init__(self, start):
            self.n = start

        def __call__(self, batch):
            self.n += 1
            return {"pid": [os.getpid()], "n": [self.n]}
    rows = weir.range(400).map_batches(Counter, batch_size=10, concurrency=2, fn_constructor_args=[100]).take_all()
    assert len(rows) == 40
    for pid in {row["pid"] for row in rows}:
        numbers = sorted(row["n"] for row in rows if row["pid"] == pid)
        assert numbers == list(range(101, 101 + len(numbers)))
    assert len({row["pid"] for row in rows}) <= 2 and os.getpid() not in {row["pid"] for row in rows}


def test_generators_and_async():
    def generator(batch):
        for i in range(3):
            yield {"x": batch["id"] + 1000 * i}
    rows = weir.range(4).map_batches(generator, batch_size=2).take_all()
    assert sorted(row["x"] for row in rows) == [0, 1, 2, 3, 1000, 1001, 1002, 1003, 2000, 2001, 2002, 2003]

    async def later(batch):
        import asyncio
        await asyncio.sleep(0.001)
        return batch
    assert weir.range(100).map_batches(later, batch_size=10).count() == 100


def test_async_batches_wait_at_the_same_time():
    class Waits:
        def __init__(self):
            self.waiting = 0

        async def __call__(self, batch):
            import asyncio
            self.waiting += 1
            await asyncio.sleep(0.05)
            at_once, self.waiting = self.waiting, self.waiting - 1
            return {"id": batch["id"], "at_once": [at_once] * len(batch["id"])}
    rows = weir.range(128).map_batches(Waits, batch_size=4, concurrency=1).take_all()
    assert [row["id"] for row in rows] == list(range(128)) and max(row["at_once"] for row in rows) > 4


def test_several_runs_at_once():
    results = {}

    def run(number):
        ds = weir.range(300).map_batches(lambda b: {"x": b["id"] * number}, batch_size=50)
        results[number] = [row["x"] for row in ds.take_all()]
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: [number * i for i in range(300)] for number in range(4)}


# ---- what tasks take ----

def times_of(ds):
    """min, max, mean and total of each kind of time that stats() shows for the last operator, in seconds."""
    units = {"s": 1, "ms": 1e-3, "us": 1e-6}
    out = {}
    for title, text in re.findall(r"^\* (Remote wall time|Remote cpu time|UDF time|Block transform time): (.*)$",
                                  ds.stats(), re.MULTILINE):
        out[title] = [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(us|ms|s) ", text)]
    return out


def test_times_are_those_of_the_tasks():
    """One task sleeps, one works, the others do neither."""
    def f(batch):
        if batch["id"][0] == 1000:
            time.sleep(0.2)
        end = time.process_time() + (0.1 if batch["id"][0] == 2000 else 0)
        while time.process_time() < end:
            pass
        return batch

    ds = weir.range(8000, override_num_blocks=8).map_batches(f, batch_size=1000, concurrency=1).materialize()
    times = times_of(ds)
    low, high, mean, total = times["UDF time"]
    assert low < 0.1 and 0.2 <= high <= total and low <= mean <= high and total >= 0.3
    low, high, mean, total = times["Remote cpu time"]
    assert low < 0.1 <= high <= total < times["Remote wall time"][3]
    assert times["Remote wall time"][1] >= times["UDF time"][1]
    assert times["Block transform time"] == times["Remote wall time"]
    stage = ds._last_run.stats[-1]["stages"][-1] if ds._last_run else None
    assert stage is None or stage["tasks_timed"] == 8


# ---- what functions hold on to ----

def test_views_that_a_class_keeps_stay_as_they_were(tmp_path):
    """Every batch is kept and compared at the end, at a limit at which pages are used again."""
    class Keeper:
        def __init__(self):
            self.kept = []

        def __call__(self, batch):
            self.kept.append((batch["x"], batch["x"].sum(), batch["x"][:3].copy()))
            wrong = sum(1 for view, total, head in self.kept
                        if view.sum() != total or not np.array_equal(view[:3], head))
            return {"wrong": [wrong], "kept": [len(self.kept)]}

    ds = weir.range(400_000).map_batches(lambda b: {"x": b["id"].astype(np.float64)}, batch_size=4000)
    rows = ds.map_batches(Keeper, batch_size=4000, concurrency=1).take_all()
    assert [row["wrong"] for row in rows] == [0] * len(rows) and max(row["kept"] for row in rows) == 100


@not_sanitized
def test_views_that_are_kept_at_a_limit_that_recycles(tmp_path):
    """800 MB at 400 MB: pages are used again and again, but never those that a worker or the driver still looks at."""
    text = """
        import numpy as np, weir
        weir.init(memory_limit="400MB")

        class Keeper:
            def __init__(self):
                self.kept = []

            def __call__(self, batch):
                x = batch["x"]
                if x[0, 0] % 20000 == 0:
                    self.kept.append((x[::7], x[0, 0]))
                wrong = sum(1 for view, first in self.kept if (view != first + 7 * np.arange(len(view))[:, None]).any())
                return {"x": x[:, :1], "wrong": np.full(len(x), wrong)}

        def wide(batch):
            return {"x": np.repeat(batch["id"].astype(np.float64)[:, None], 500, axis=1)}

        ds = weir.range(200_000).map_batches(wide, batch_size=1000)
        kept, rows, wrong = [], 0, 0
        for batch in ds.map_batches(Keeper, batch_size=1000, concurrency=1).iter_batches(batch_size=1000):
            rows += len(batch["x"])
            wrong += int(batch["wrong"].sum())
            kept.append((batch["x"], rows))
        print(rows, wrong, all((view[:, 0] == np.arange(end - len(view), end)).all() for view, end in kept))
        kept = []
        for i, batch in enumerate(ds.iter_batches(batch_size=1000)):
            if i % 20 == 0:
                kept.append((batch["x"][::3], i * 1000))
        print(all((view == first + 3 * np.arange(len(view))[:, None]).all() for view, first in kept), len(kept))
    """
    assert output(tmp_path, text).splitlines() == ["200000 0 True", "True 10"]


INFLATED = """
    import time, numpy as np, weir
    weir.init(memory_limit="400MB")

    class Keeper:
        def __init__(self):
            self.ballast = np.ones(MEGABYTES << 17)

        def __call__(self, batch):
            return {"x": batch["x"][:, :1]}

    def wide(batch):
        if not hasattr(np, "ballast"):
            np.ballast = np.ones(MEGABYTES << 17)
        return {"x": np.repeat(batch["id"].astype(np.float64)[:, None], 500, axis=1)}

    ds = weir.range(100_000).map_batches(wide, batch_size=1000).map_batches(Keeper, batch_size=1000, concurrency=1)
    begun = time.monotonic()
    try:
        print(sum(len(batch["x"]) for batch in ds.iter_batches(batch_size=1000)))
    except MemoryError as error:
        if MEGABYTES < 200:
            raise
        print("MemoryError", "limit" in str(error) or "out of memory" in str(error) or "allocate" in str(error))
    print("slow" if time.monotonic() - begun > 30 else "in time")
"""


@not_sanitized
@pytest.mark.parametrize("megabytes, said", [(130, "100000"), (250, "MemoryError True")])
def test_workers_that_have_more_than_the_budget(tmp_path, megabytes, said):
    """Two workers of 160 MB at a limit of 400 MB leave less than the budget: each batch that outgrows its room must have it at
    once, since nobody will give memory back. More than the limit is an error, and soon."""
    assert output(tmp_path, INFLATED.replace("MEGABYTES", str(megabytes))).splitlines() == [said, "in time"]


def test_tensors_that_are_more_than_the_limit(tmp_path):
    text = """
        import weir
        weir.init(memory_limit="300MB")
        ds = weir.range_tensor(2500, shape=(256, 128))  # 655 MB, of 20 KB of numbers
        print(sum(int(batch["data"][:, 0, 0].sum()) for batch in ds.iter_batches(batch_size=10)))
    """
    assert output(tmp_path, text) == f"{sum(range(2500))}\n"


def test_views_of_every_kind_that_the_driver_keeps(tmp_path):
    for module in ("torch", "pandas", "pyarrow"):
        pytest.importorskip(module)
    text = """
        import numpy as np, torch, weir
        weir.init(memory_limit="300MB")
        ds = weir.range(2_000_000).map_batches(lambda b: {"x": b["id"], "y": b["id"] * 2}, batch_size=20_000)
        kept = []
        for frame in ds.iter_batches(batch_size=20_000, batch_format="pandas"):
            kept.append(np.asarray(frame["x"])[::3])
        for table in ds.iter_batches(batch_size=20_000, batch_format="pyarrow"):
            kept.append(table["x"].chunk(0).to_numpy()[::3])
        for batch in ds.iter_batches(batch_size=20_000):
            tensor = torch.from_numpy(batch["x"].copy() if len(kept) % 2 else batch["x"])
            kept.append(np.from_dlpack(tensor)[::3])
        for batch in ds.iter_torch_batches(batch_size=20_000):
            kept.append(batch["x"].numpy()[::3])
        print(len(kept), all((view == 20_000 * (i % 100) + 3 * np.arange(len(view))).all() for i, view in enumerate(kept)))
    """
    assert output(tmp_path, text, options=["-W", "ignore"]) == "400 True\n"


def test_what_ignores_the_flag_changes_nothing():
    torch = pytest.importorskip("torch")
    ds = weir.range(1000).map_batches(lambda b: {"x": b["id"].astype(np.float32)}).materialize()

    def writes(batch):
        import ctypes
        x = batch["x"]
        assert not x.flags.writeable
        ctypes.memset(x.ctypes.data, 0, x.nbytes)
        return {"sum": [float(x.sum())]}
    assert [row["sum"] for row in ds.map_batches(writes, batch_size=100).take_all()] == [0] * 10
    assert [row["x"] for row in ds.take_all()] == list(range(1000))
    assert torch is not None


# ---- closures ----

@not_sanitized
def test_a_large_closure_lies_in_shared_memory_once():
    table = np.arange(16 << 20, dtype=np.float64)  # 128 MiB

    class Uses:
        def __init__(self):
            self.total = float(table[::512].sum())  # touches every page

        def __call__(self, batch):
            private = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")][0]
            time.sleep(0.02)
            return {"total": [self.total], "private": [private], "pid": [os.getpid()]}
    rows = weir.range(40).map_batches(Uses, batch_size=1, concurrency=2).take_all()
    assert {row["total"] for row in rows} == {float(table[::512].sum())}
    assert max(row["private"] for row in rows) < 100 << 10, rows[0]  # KiB: not a copy of it


def test_what_cannot_be_pickled_is_said_before_any_work(tmp_path):
    lock, mark = threading.Lock(), tmp_path / "ran"

    def first(batch):
        mark.touch()
        return batch

    def second(batch):
        with lock:
            return batch
    with pytest.raises(TypeError, match="the variable 'lock'"):
        weir.range(10).map_batches(first).map_batches(second).take_all()
    assert not mark.exists()


# ---- the world ----

def test_the_world_of_the_moment(tmp_path, monkeypatch):
    def look(batch):
        return {"cwd": [os.getcwd()], "x": [os.environ.get("WEIR_TEST_X")], "argv": [" ".join(sys.argv)],
                "path": [sys.path[0]], "omp": [os.environ["OMP_NUM_THREADS"]]}
    ds = weir.range(1).map_batches(look)
    for i in range(2):
        folder = tmp_path / str(i)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("WEIR_TEST_X", str(i))
        monkeypatch.setattr(sys, "argv", ["program", str(i)])
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert ds.take_all() == [{"cwd": str(folder), "x": str(i), "argv": f"program {i}", "path": str(folder), "omp": "1"}]


def test_runtime_env_and_threads(tmp_path):
    def look(batch):
        return {"a": [os.environ["A"]], "cwd": [os.getcwd()], "omp": [os.environ["OMP_NUM_THREADS"]]}
    rows = weir.range(1).map_batches(look, runtime_env={"env_vars": {"A": "b"}, "working_dir": str(tmp_path)},
                                     num_cpus=2).take_all()
    assert rows == [{"a": "b", "cwd": str(tmp_path), "omp": "2"}]


def test_gpu_slots(tmp_path):
    text = """
        import os, time
        import weir
        weir.init(num_gpus=2)

        class Model:
            def __call__(self, batch):
                time.sleep(0.05)
                return {"gpu": [os.environ["CUDA_VISIBLE_DEVICES"]], "pid": [os.getpid()]}
        rows = weir.range(24).map_batches(Model, batch_size=1, num_gpus=0.5, concurrency=4).take_all()
        by_gpu = {}
        for row in rows:
            by_gpu.setdefault(row["gpu"], set()).add(row["pid"])
        assert set(by_gpu) <= {"0", "1"} and all(len(pids) <= 2 for pids in by_gpu.values()), by_gpu
        rows = weir.range(1).map_batches(lambda b: {"gpu": [os.environ.get("CUDA_VISIBLE_DEVICES", "unset")]}).take_all()
        print(rows[0]["gpu"])
    """
    env = {"CUDA_VISIBLE_DEVICES": "7"}
    assert output(tmp_path, text, env=env) == "7\n"


def test_preloaded_modules(tmp_path):
    (tmp_path / "heavy.py").write_text("import os\nPID = os.getpid()\n")
    text = """
        import os, weir
        weir.init(preload=["heavy"])
        def f(row):
            import heavy
            return {"where": heavy.PID, "zygote": os.getppid(), "worker": os.getpid()}
        row = weir.range(1).map(f).take_all()[0]
        print(row["where"] == row["zygote"] != row["worker"])
    """
    assert output(tmp_path, text) == "True\n"


def test_main_is_never_run_again(tmp_path):
    (tmp_path / "beside.py").write_text("def add(x):\n    return x + 100\n")
    text = """
        print("top level")
        import weir
        from beside import add

        class Own(Exception):
            pass

        CONSTANT = 5

        def f(row):
            if row["id"] == 8:
                raise Own("eight")
            return {"x": add(row["id"]) + CONSTANT}

        print(weir.range(3).map(f).take_all())
        try:
            weir.range(9).map(f).take_all()
        except Own as error:
            print(type(error).__name__, type(error.cause) is Own)
    """
    assert output(tmp_path, text).splitlines() == [
        "top level", "[{'x': 105}, {'x': 106}, {'x': 107}]", "RayTaskError(Own) True"]
    command = "import weir\nprint(weir.range(2).map(lambda r: {'x': r['id']}).take_all())"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "[{'x': 0}, {'x': 1}]\n", done.stderr
    done = subprocess.run([sys.executable, "-"], input=command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "[{'x': 0}, {'x': 1}]\n", done.stderr


def test_a_module_that_changed_is_seen_anew(tmp_path):
    text = """
        import os, sys, time
        import weir
        sys.dont_write_bytecode = True
        def write(n):
            with open("changing.py", "w") as file:
                file.write(f"def f(row):\\n    return {{'x': {n}}}\\n")
        write(1)
        import changing
        print(weir.range(1).map(changing.f).take_all())
        write(2)
        os.utime("changing.py", (time.time() + 5, time.time() + 5))
        print(weir.range(1).map(changing.f).take_all())
    """
    assert output(tmp_path, text, env={"PYTHONDONTWRITEBYTECODE": "1"}).splitlines() == ["[{'x': 1}]", "[{'x': 2}]"]


@not_sanitized  # the worker's limit on memory is that of the processes it starts, and ASan's own maps are more
def test_datasets_may_be_built_and_run_in_a_worker(tmp_path):
    (tmp_path / "builds.py").write_text("import weir\nDS = weir.range(3).map(lambda r: r)\n\n"
                                        "def f(row):\n    return {'x': 1}\n\ndef runs(row):\n    return DS.take_all()[0]\n")
    text = """
        import weir, builds
        print(weir.range(1).map(builds.f).take_all())
        print(weir.range(1).map(builds.runs).take_all())
    """
    assert output(tmp_path, text).splitlines() == ["[{'x': 1}]", "[{'id': 0}]"]


# ---- errors ----

def test_errors_arrive():
    def f(batch):
        if 70 in batch["id"]:
            raise KeyError("seventy")
        return batch
    with pytest.raises(KeyError) as caught:
        weir.range(100).map_batches(f, batch_size=10).take_all()
    error = caught.value
    assert isinstance(error, UserCodeException) and isinstance(error, RayTaskError) and error.args == ("seventy",)
    lines = str(error).splitlines()
    assert "MapBatches(f) failed on" in lines[0] and "70–79" in lines[0]
    assert lines[1].startswith("Traceback") and __file__ in lines[2] and lines[-1] == "KeyError: 'seventy'"


def test_errors_that_end_interpreters():
    for call in ("sys.exit(3)", "raise KeyboardInterrupt"):
        namespace = {"sys": sys, "__name__": "__main__"}
        exec(f"def f(batch):\n    {call}", namespace)
        with pytest.raises(UserCodeException) as caught:
            weir.range(3).map_batches(namespace["f"]).take_all()
        assert isinstance(caught.value.cause, (SystemExit, KeyboardInterrupt))


def test_a_constructor_that_fails():
    class Model:
        def __init__(self):
            raise OSError("no weights")

        def __call__(self, batch):
            return batch
    with pytest.raises(ActorDiedError, match="OSError: no weights"):
        weir.range(3).map_batches(Model).take_all()


def test_a_wrong_result():
    with pytest.raises(ValueError, match="returned None") as caught:
        weir.range(3).map_batches(lambda b: None).take_all()
    assert isinstance(caught.value, RayTaskError) and not isinstance(caught.value, UserCodeException)


def test_blocks_that_do_not_go_together():
    def mixed(batch):
        return {"x": ["a"] * len(batch["id"]) if batch["id"][0] % 20 else batch["id"]}
    ds = weir.range(100).map_batches(mixed, batch_size=10)
    assert sorted({type(row["x"]) for row in ds.take_all()}, key=str) == [int, str]
    with pytest.raises(ArrowConversionError, match="int64 and string"):
        ds.map_batches(lambda b: b, batch_size=40).take_all()


def test_a_crash_names_the_file_and_the_rows(tmp_path):
    weir.range(10_000, override_num_blocks=4).write_parquet(str(tmp_path / "x"))

    def crash(batch):
        if 7777 in batch["id"]:
            os.abort()
        return batch

    with pytest.raises(WorkerCrashedError) as caught:
        weir.read_parquet(str(tmp_path / "x")).map_batches(crash, batch_size=100).take_all()
    assert "000003" in str(caught.value) and "rows 200 to 299" in str(caught.value)
    assert "MapBatches(crash)" in str(caught.value) and "SIGABRT" in str(caught.value)


def test_a_function_that_kills_its_worker():
    def dies(batch):
        os._exit(9)
    with pytest.raises(WorkerCrashedError) as caught:
        weir.range(3).map_batches(dies).take_all()
    assert "MapBatches(dies)" in str(caught.value)

    def crashes(batch):
        os.kill(os.getpid(), signal.SIGSEGV)
    with pytest.raises(WorkerCrashedError, match="last by SIGSEGV[,:]"):
        weir.range(3).map_batches(crashes).take_all()

    def alarmed(batch):
        os.kill(os.getpid(), signal.SIGALRM)
    with pytest.raises(WorkerCrashedError, match="last by SIGALRM[,:]"):
        weir.range(3).map_batches(alarmed).take_all()
    assert weir.range(3).map_batches(lambda b: b).count() == 3


def test_errored_blocks_may_be_left_out():
    def f(batch):
        if batch["id"][0] == 20:
            raise ValueError("twenty")
        return batch
    ctx = weir.DataContext.get_current().copy()
    ctx.max_errored_blocks = 1
    with weir.DataContext.current(ctx):
        ds = weir.range(50).repartition(5).map_batches(f)
        assert sorted(r["id"] for r in ds.take_all()) == [i for i in range(50) if not 20 <= i < 30]


def test_a_large_report_and_a_large_result():
    def fails(batch):
        raise ValueError("x" * 20_000_000)
    with pytest.raises(ValueError) as caught:
        weir.range(3).map_batches(fails).take_all()
    assert len(caught.value.args[0]) == 20_000_000
    ds = weir.range(3).map_batches(lambda b: {"x": np.arange(10_000_000)})
    assert sum(len(batch["x"]) for batch in ds.iter_batches(batch_size=None)) == 10_000_000


def test_a_class_is_ended_with_its_worker(tmp_path):
    mark = str(tmp_path / "ended")

    class Model:
        def __call__(self, batch):
            return batch

        def __del__(self):
            open(mark, "a").close()
    assert weir.range(3).map_batches(Model, concurrency=1).count() == 3
    wait_for(lambda: os.path.exists(mark), 5, "its __del__")


# ---- prints ----

def test_prints_are_labelled(capsys):
    def f(batch):
        print("hello from", batch["id"][0])
        print("to stderr", file=sys.stderr)
        sys.stdout.write("0 %\r50 %\r100 %\n")
        os.write(1, b"raw\n")
        subprocess.run(["echo", "child"])
        return {"pid": [os.getpid()]}
    pid = weir.range(1).map_batches(f).take_all()[0]["pid"]
    captured = capsys.readouterr()
    assert f"(MapBatches(f) pid={pid}) hello from 0\n" in captured.out
    assert f"(MapBatches(f) pid={pid}) to stderr\n" in captured.err
    assert "100 %" in captured.out and "raw" in captured.out and "child" in captured.out


def test_a_flood_of_prints_never_blocks(tmp_path):
    text = """
        import weir
        def f(batch):
            for i in range(200_000):
                print("a line that nobody reads", i)
            return batch
        print(weir.range(1).map_batches(f).count())
    """
    program = Program(tmp_path, text)
    out, err, code = program.wait(60)
    assert code == 0 and out.splitlines()[-1] == "1"


# ---- processes ----

def processes_of(pid):
    names = {}
    for child in tree_of(pid):
        try:
            names[child] = Path(f"/proc/{child}/comm").read_text().strip()
        except FileNotFoundError:
            continue
    return names


def zygotes(pid):
    found = processes_of(pid)
    return [child for child, name in found.items() if name == "weir-zygote"
            and int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1]) == pid]


def test_a_zygote_that_is_killed(tmp_path):
    text = """
        import os, sys, time
        import weir
        def f(row):
            time.sleep(0.02)
            return {"x": row["id"]}
        ds = weir.range(200).map(f)
        it = iter(weir.range(200).map_batches(lambda b: (time.sleep(0.05), {"x": b["id"]})[1], batch_size=2).iter_rows())
        next(it)
        print("going", flush=True)
        rest = list(it)
        print(len(rest))
        print(weir.range(10).map(lambda r: r).count())
    """
    program = Program(tmp_path, text)
    assert program.line() == "going"
    for pid in zygotes(program.pid):
        os.kill(pid, signal.SIGKILL)
    out, err, code = program.wait(60)
    assert out.splitlines() == ["199", "10"], err


LONG = """
    import os, sys, time
    import weir
    def f(row):
        import subprocess
        if row["id"] == 0:
            subprocess.Popen(["sleep", "1000"])
        time.sleep(0.05)
        return {"x": row["id"]}
    def g(batch):
        time.sleep(0.05)
        return batch
    ds = weir.range(100_000).map_batches(g, batch_size=2).map(f)
    it = iter(ds.iter_rows())
    next(it)
    print("going", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_no_process_survives_its_driver(tmp_path, how):
    program = Program(tmp_path, LONG + "    list(it)\n")
    assert program.line() == "going"
    tree = program.tree()
    assert len(tree) >= 4  # driver, zygote, two workers at least
    os.kill(program.pid, how)
    program.wait()
    all_gone(tree)


def test_no_process_survives_when_all_are_killed(tmp_path):
    program = Program(tmp_path, LONG + "    list(it)\n")
    assert program.line() == "going"
    tree = program.tree() - {pid for pid, name in processes_of(program.pid).items() if name == "sleep"}
    for pid in [program.pid, *zygotes(program.pid)]:
        os.kill(pid, signal.SIGKILL)
    program.wait()
    all_gone(tree)


def test_an_interrupt(tmp_path):
    text = LONG + """
    try:
        print("listening", flush=True)
        list(it)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(weir.range(3).map(lambda r: r).count(), flush=True)
    """
    took = []
    for _ in range(4):  # other programs share this machine
        program = Program(tmp_path, text)
        assert program.line() == "going"
        assert program.line() == "listening"
        tree = program.tree()
        begun = time.monotonic()
        program.interrupt()
        assert program.line() == "interrupted"
        took.append(time.monotonic() - begun)
        assert program.line() == "3"
        out, err, code = program.wait()
        assert code == 0 and err == ""
        all_gone(tree)
        if took[-1] < 0.5:
            break
    assert min(took) < 0.5, took


@pytest.mark.parametrize("waits", ["ds.count()", "ds.write_parquet('out')", "ds.materialize()"])
def test_an_interrupt_while_waiting_for_the_end(tmp_path, waits):
    text = LONG + f"""
    try:
        {waits}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    program = Program(tmp_path, text)
    assert program.line() == "going"
    wait_for(lambda: len(workers_of(program.pid)) >= 3, 20, "a second run")
    tree = program.tree()
    program.interrupt()
    assert program.line() == "interrupted"
    out, err, code = program.wait()
    assert (code, err) == (0, "") and not (tmp_path / "out").exists()
    all_gone(tree)


@pytest.mark.parametrize("ending, code", [("pass", 0), ("sys.exit(5)", 5)])
@on_a_busy_machine
def test_an_unfinished_iterator_at_exit(tmp_path, ending, code):
    program = Program(tmp_path, LONG + f"    {ending}\n")
    assert program.line() == "going"
    tree = program.tree()
    begun = time.monotonic()
    out, err, got = program.wait()
    took = time.monotonic() - begun
    assert (got, out, err) == (code, "", "")
    all_gone(tree)
    within(took, 1)


def test_leaving_a_loop_ends_the_workers(tmp_path):
    weir.shutdown()  # with what tests before have left: actors, idle workers of weir.core
    gc.collect()
    wait_for(lambda: not workers_of(os.getpid()), 10, "the end of the workers of tests before")
    for row in weir.range(100_000).map_batches(lambda b: (time.sleep(0.01), b)[1], batch_size=10).iter_rows():
        assert workers_of(os.getpid())
        break
    wait_for(lambda: not workers_of(os.getpid()), 10, "the end of the workers")
    assert weir.range(10).map(lambda r: r).count() == 10


def workers_of(pid):
    """Worker processes, by their name."""
    return [child for child, name in processes_of(pid).items() if name == "weir-worker"]


@pytest.mark.same_without
@pytest.mark.parametrize("every, rows, pause", [(0.05, 600, 0.01), (0.3, 120, 0.1)])
@on_a_busy_machine
def test_a_worker_killed_now_and_then(tmp_path, every, rows, pause):
    text = f"""
        import sys, time
        import weir
        def f(batch):
            time.sleep({pause})
            return {{"x": batch["id"] * 2}}
        begun = time.monotonic()
        weir.range({rows}).map_batches(f, batch_size=1, concurrency=2).write_parquet(sys.argv[1])
        print(time.monotonic() - begun)
    """
    target = tmp_path / str(len(os.listdir(tmp_path)))
    undisturbed = float(output(tmp_path, text, target / "quiet"))
    program = Program(tmp_path, text, target / "out")
    generator = np.random.default_rng(11)
    kills = 0
    while program.process.poll() is None:
        time.sleep(every)
        victims = workers_of(program.pid)
        if victims:
            try:
                os.kill(int(generator.choice(victims)), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                continue
    out, err, code = program.wait()
    assert code == 0, err
    took = float(out)
    got = sorted(row["x"] for row in weir.read_parquet(str(target / "out")).take_all())
    assert got == [2 * i for i in range(rows)]
    assert kills > 2
    print(f"undisturbed {undisturbed:.1f} s, with {kills} kills {took:.1f} s")
    within(took, 2 * undisturbed + 2)


@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="needs strace")
def test_no_batch_bytes_go_over_sockets(tmp_path):
    """200 MB through a function: what is sent and received is control only."""
    text = """
        import weir, numpy as np
        ds = weir.range(200_000).map_batches(lambda b: {"x": np.repeat(b["id"][:, None].astype("f4"), 125, 1)}, batch_size=1000)
        print(ds.map_batches(lambda b: {"s": b["x"].sum(1)}, batch_size=1000).count())
    """
    path = tmp_path / "script.py"
    path.write_text("\n".join(line[8:] for line in text.splitlines()))
    log = tmp_path / "log"
    done = subprocess.run(["strace", "-f", "-qq", "-e", "trace=read,write,pwrite64,sendto,sendmsg,recvfrom,recvmsg,writev",
                           "-e", "signal=none", "-s", "0", "-o", str(log), sys.executable, str(path)],
                          capture_output=True, text=True, timeout=300)
    if "ptrace" in done.stderr.lower() and done.returncode:
        pytest.skip("strace may not trace here")
    assert done.stdout == "200000\n", done.stderr
    total = 0
    for line in log.read_text().splitlines():
        if any(name in line for name in ("sendto(", "sendmsg(", "recvfrom(", "recvmsg(", "write(")):
            tail = line.rpartition("= ")[2].split()
            total += int(tail[0]) if tail and tail[0].isdigit() else 0
    assert total < 10_000_000, total


def test_wide_batches():
    """2,000 columns: no more than a few µs a column and batch."""
    columns = {f"c{i}": np.arange(100) for i in range(2000)}
    ds = weir.from_numpy(np.arange(1)).map_batches(lambda b: columns)
    assert len(ds.map_batches(lambda b: b).take(1)[0]) == 2000


def test_local_mode(tmp_path):
    text = """
        import os, threading
        import weir
        weir.init(local_mode=True)
        seen = []
        def f(batch):
            seen.append((os.getpid(), threading.get_ident()))
            return {"x": batch["id"] + 1}
        rows = weir.range(10).map_batches(f, batch_size=2).map(lambda r: {"x": r["x"] * 2}).take_all()
        print([r["x"] for r in rows])
        print(set(seen) == {(os.getpid(), threading.get_ident())}, len(seen))
        try:
            weir.range(3).map(lambda r: 1 // 0).take_all()
        except ZeroDivisionError as error:
            print(type(error).__name__)
        try:
            weir.range(100).map_batches(lambda b: {"x": [1 // int(b["id"][0] - 20)]}, batch_size=10).take_all()
        except ZeroDivisionError as error:
            print(str(error).partition(" (")[0])
    """
    assert output(tmp_path, text).splitlines() == [str([2 * i for i in range(1, 11)]), "True 5",
                                                  "RayTaskError(ZeroDivisionError)", "MapBatches(<lambda>) failed on rows 20–29 of its input"]


def test_a_function_knows_what_it_was_given(tmp_path):
    text = """
        import weir
        weir.init(num_cpus=4, num_gpus=2)
        def f(batch):
            context = weir.get_runtime_context()
            return {"given": [str(context.get_assigned_resources())], "gpus": [str(weir.get_gpu_ids())],
                    "ids": [str(context.get_accelerator_ids()["GPU"])]}
        for options in ({"num_cpus": 2, "memory": 1024}, {"num_gpus": 1, "batch_size": 1}):
            print(*weir.range(1).map_batches(f, **options).take_all()[0].values())
        print(weir.get_runtime_context().get_assigned_resources(), weir.get_gpu_ids())
    """
    assert output(tmp_path, text).splitlines() == [
        "{'CPU': 2.0, 'memory': 1024.0} [] []", "{'GPU': 1.0} [0] ['0']", "{} []"]


def test_is_alive_helper():
    assert is_alive(os.getpid())


def _meets(folder, count):
    """Whether so many processes are here at the same time: each leaves its number and waits for the others."""
    (folder / str(os.getpid())).touch()
    until = time.monotonic() + 30
    while len(os.listdir(folder)) < count and time.monotonic() < until:
        time.sleep(0.005)
    return len(os.listdir(folder)) >= count


FOUR_CPUS = [
    lambda n, options: weir.range(n).map(options.pop("fn"), **options),
    lambda n, options: weir.from_items(list(range(n))).map(options.pop("fn"), **options),
    lambda n, options: weir.from_items(list(range(n))).flat_map(lambda row, fn=options.pop("fn"): [fn(row)], **options),
    lambda n, options: weir.range(4 * n).map_batches(lambda b, fn=options.pop("fn"): {"met": [fn(b)["met"]]}, batch_size=4, **options),
    lambda n, options: weir.range(n).repartition(n).map_batches(
        lambda b, fn=options.pop("fn"): {"met": [fn(b)["met"]]}, batch_size=None, **options),
]


@pytest.mark.sample(3)
@pytest.mark.same_without
@pytest.mark.parametrize("make", FOUR_CPUS, ids=["range", "items", "flat_map", "batches", "blocks"])
@pytest.mark.parametrize("options", [{}, {"concurrency": 4}], ids=["auto", "four"])
@pytest.mark.parametrize("n", [4, 16])
def test_few_slow_rows_are_shared_by_all_workers(tmp_path, n, options, make):
    meets = _meets  # by value
    weir.shutdown()
    weir.init(num_cpus=4)
    try:
        rows = make(n, {"fn": lambda row: {"met": meets(tmp_path, 4)}, **options}).take_all()
    finally:
        weir.shutdown()
    assert len(rows) == n and all(row["met"] for row in rows)


@pytest.mark.sample(3)
@pytest.mark.same_without
@pytest.mark.parametrize("first", [0, 2, 7])
def test_of_several_errors_the_first_row_s_is_told(tmp_path, first):
    """Also where it is the last to come: rows behind it have failed before."""
    meets = _meets
    weir.shutdown()
    weir.init(num_cpus=4)

    def fails(row):
        if row["id"] < first:
            return row
        if row["id"] == first:  # until another one has failed
            assert meets(tmp_path, 2)
            time.sleep(0.1)
        (tmp_path / f"failed-{row['id']}").touch()
        raise ValueError(f"row {row['id']}")
    try:
        for _ in range(3):
            for file in tmp_path.iterdir():
                file.unlink()
            with pytest.raises(ValueError, match=f"row {first}$"):
                weir.range(16).map(fails, concurrency=4).take_all()
    finally:
        weir.shutdown()


def test_an_error_is_told_though_a_row_before_it_hangs(tmp_path):
    def hangs(row):
        if row["id"] == 0:
            (tmp_path / "hangs").touch()
            time.sleep(600)
        while not (tmp_path / "hangs").exists():
            time.sleep(0.005)
        raise ValueError(f"row {row['id']}")
    began = time.monotonic()
    with pytest.raises(ValueError, match="row [1-9]"):
        weir.range(16).map(hangs, concurrency=2).take_all()
    assert time.monotonic() - began < 60


def test_errors_behind_a_limit_do_not_hold_it_up(tmp_path):
    """Rows behind the limit fail; those before it may be there first, and then nobody waits for the others."""
    def fails(row):
        if row["id"] > 7:
            raise ValueError(f"row {row['id']}")
        return row
    for _ in range(5):
        try:
            assert weir.range(64).map(fails, concurrency=2).limit(4).take_all() == [{"id": i} for i in range(4)]
        except ValueError as error:
            assert re.search("row 8$", str(error))


@pytest.mark.same_without
@pytest.mark.parametrize("pause", [0, 0.01, 0.05])
def test_an_interpreter_that_ends_at_once_is_an_error(tmp_path, pause):
    """Whether it ends before it is asked for a worker, meanwhile, or after."""
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\nsleep {pause}\nexit 3\n")
    broken.chmod(0o755)
    text = """
        import sys
        sys.executable = sys.argv[1]
        import weir
        try:
            weir.range(3).map(lambda row: row).take_all()
        except Exception as error:
            print(type(error).__name__, error)
    """
    for _ in range(4):
        assert "Error" in output(tmp_path, text, broken)


def test_tasks_that_are_left_out_are_logged(caplog):
    """Ray Data 2.60 says the same, with the exception."""
    ds = weir.range(10, override_num_blocks=10).map(lambda row: {"q": 1 // (row["id"] % 4)})
    ds.context.max_errored_blocks = 3
    with caplog.at_level("ERROR", "weir"):
        assert len(ds.take_all()) == 7
    said = [record for record in caplog.records if "Ignoring this exception" in record.getMessage()]
    assert [record.getMessage().partition("Ignoring")[2] for record in said] == [
        f" this exception with remaining max_errored_blocks={left}." for left in (2, 1, 0)]
    for record in said:
        assert 'operator "Map(' in record.getMessage() and isinstance(record.exc_info[1], ZeroDivisionError)
    caplog.clear()
    ds.context.max_errored_blocks = -1
    assert ds.materialize().count() == 7
    assert sum("max_errored_blocks=unlimited" in record.getMessage() for record in caplog.records) == 3
    caplog.clear()
    ds.context.max_errored_blocks = 1
    with pytest.raises(ZeroDivisionError):
        ds.materialize()
    assert sum("max_errored_blocks=0" in record.getMessage() for record in caplog.records) == 1
