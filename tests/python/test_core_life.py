"""Objects, tasks and actors when processes end, memory runs out, or somebody presses Ctrl-C; what is printed; what is left."""
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import weir
import weir.core
from driver_scripts import rest_of
from weir.core import memory_watch, waits
from weir.exceptions import ActorDiedError, ObjectLostError, OutOfDiskError, OutOfMemoryError, TaskCancelledError, WorkerCrashedError

pytestmark = pytest.mark.same_without

MIB = 1 << 20


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


@pytest.fixture(scope="module", autouse=True)
def session():
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=512 * MIB)
    yield
    weir.shutdown()


def used():
    gc.collect()
    return weir._session.current().native.memory()["used"]


def settled():
    """The same, when what was dropped before is gone, and what runs has come to an end."""
    last, now = -1, used()
    while last != now:
        time.sleep(0.05)
        last, now = now, used()
    return now


def program(text, *args, **kwargs):
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(weir.__file__))}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=env, **kwargs)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@weir.remote
def pid_of_worker():
    return os.getpid()


@weir.remote
def sleep(seconds):
    time.sleep(seconds)
    return seconds


@weir.remote
def array(size):
    return np.ones(size, np.uint8)


@weir.remote
class Keeper:
    def __init__(self):
        self.kept = None

    def keep(self, what):
        self.kept = what
        return True

    def total(self):
        return int(weir.get(self.kept[0]).sum())

    def pid(self):
        return os.getpid()

    def make(self, size):
        return weir.put(np.ones(size, np.uint8))

    def sleep(self, seconds):
        time.sleep(seconds)


# ---- memory ----

def test_memory_moves_with_references():
    before = settled()
    ref = weir.put(np.ones(50 * MIB, np.uint8))
    assert used() - before >= 50 * MIB
    free = weir.available_resources()["object_store_memory"]
    view = weir.get(ref)
    del ref
    assert used() - before >= 50 * MIB  # the view is over the same memory
    del view
    until(lambda: used() - before < MIB)
    assert weir.available_resources()["object_store_memory"] > free


def test_shared_once():
    ref = weir.put(np.arange(4 * MIB))
    before = settled()
    a, b = weir.get(ref), weir.get(ref)
    assert a.ctypes.data == b.ctypes.data and not a.flags.writeable and used() == before


def test_results_are_freed():
    before = settled()
    ref = array.remote(20 * MIB)
    assert int(weir.get(ref).sum()) == 20 * MIB and used() - before >= 20 * MIB
    del ref
    until(lambda: used() - before < MIB)


def test_arguments_are_freed():
    before = settled()

    @weir.remote
    def total(x):
        return int(x.sum())

    assert weir.get(total.remote(np.ones(20 * MIB, np.uint8))) == 20 * MIB
    until(lambda: used() - before < MIB)


def test_an_object_that_was_dropped_before_it_came_is_freed():
    before = settled()
    array.remote(20 * MIB)
    weir.get(array.remote(1))
    until(lambda: used() - before < MIB)


def test_references_inside_objects_hold():
    before = settled()
    outer = weir.put([weir.put(np.ones(20 * MIB, np.uint8))])
    assert used() - before >= 20 * MIB
    assert int(weir.get(weir.get(outer)[0]).sum()) == 20 * MIB
    del outer
    until(lambda: used() - before < MIB)


def test_an_actor_holds_what_it_was_given_and_drops_it_with_its_life():
    before = settled()
    actor = Keeper.remote()
    ref = weir.put(np.ones(20 * MIB, np.uint8))
    assert weir.get(actor.keep.remote([ref]))
    del ref
    assert weir.get(actor.total.remote()) == 20 * MIB
    made = weir.get(actor.make.remote(10 * MIB))
    assert used() - before >= 30 * MIB
    weir.kill(actor)
    until(lambda: used() - before < 12 * MIB)
    assert int(weir.get(made).sum()) == 10 * MIB
    del made
    until(lambda: used() - before < MIB)


def test_an_actor_drops_what_it_lets_go():
    before = settled()
    actor = Keeper.remote()
    assert weir.get(actor.keep.remote([weir.put(np.ones(20 * MIB, np.uint8))]))
    assert used() - before >= 20 * MIB
    assert weir.get(actor.keep.remote(None))
    until(lambda: used() - before < MIB)


def test_beyond_the_limit():
    """Objects go to disk, the oldest that nobody looks at first, and are read there."""
    before = settled()
    kept = [weir.put(np.full(40 * MIB, i, np.uint8)) for i in range(5)]
    view = weir.get(kept[2])
    large = weir.put(np.full(400 * MIB, 7, np.uint8))
    assert used() <= 512 * MIB
    assert [entry.payload.on_disk for entry in entries(kept)] == [True, True, False, True, False]  # one is looked at, one finds room
    assert [int(weir.get(ref)[-1]) for ref in kept] == [0, 1, 2, 3, 4] and int(view[0]) == 2
    assert weir.get(total.remote(kept[3])) == 3 * 40 * MIB  # other processes read it there, too
    made = array.options(max_retries=0).remote(350 * MIB)
    assert int(weir.get(made)[-1]) == 1 and int(weir.get(large)[-1]) == 7
    assert used() <= 512 * MIB
    del view, kept, large, made
    gc.collect()
    until(lambda: used() - before < MIB)


def test_an_object_larger_than_the_limit():
    before = settled()
    huge = weir.put(np.full(600 * MIB, 3, np.uint8))
    assert entries([huge])[0].payload.on_disk and used() - before < MIB
    found = weir.get(huge)
    assert found.nbytes == 600 * MIB and int(found[::4096].max()) == int(found[-1]) == 3
    made = array.options(max_retries=0).remote(600 * MIB)
    assert int(weir.get(made)[-1]) == 1 and used() - before < MIB


def test_a_full_disk(monkeypatch):
    from weir.core import spill

    def full(folder, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spill, "file", full)
    with pytest.raises(OutOfDiskError, match="an object of 629,145,.* bytes: of the limit of 536,870,912 bytes.*No space left.*spill_dir"):
        weir.put(np.zeros(600 * MIB, np.uint8))
    with pytest.raises(OutOfDiskError):
        weir.get(array.options(max_retries=0).remote(600 * MIB))
    assert int(weir.get(weir.put(np.ones(300 * MIB, np.uint8)))[-1]) == 1


def entries(refs):
    from weir.core import runtime

    return [runtime.get().store.entries[ref.binary()] for ref in refs]


@weir.remote
def total(values):
    return int(values.sum(dtype=np.int64))


def test_a_generator_that_is_far_ahead_sleeps(tmp_path):
    @weir.remote(num_returns="streaming", _generator_backpressure_num_objects=2)
    def numbers(path):
        for i in range(1000):
            with open(f"{path}.new", "w") as file:
                file.write(f"{os.getpid()} {i}")
            os.replace(f"{path}.new", path)
            yield i

    def state():
        pid, made = (tmp_path / "at").read_text().split()
        return int(pid), int(made)

    def switches(pid):
        with open(f"/proc/{pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))

    items = numbers.remote(str(tmp_path / "at"))
    assert weir.get(next(items)) == 0
    until(lambda: (tmp_path / "at").exists() and state()[1] == 2)
    pid, _ = state()
    before = switches(pid)
    time.sleep(0.3)
    assert state()[1] == 2 and switches(pid) - before <= 3
    assert [weir.get(next(items)) for _ in range(20)] == list(range(1, 21))
    until(lambda: state()[1] == 22)
    del items  # nobody wants the rest: it is made without waiting
    until(lambda: state()[1] == 999)


def test_waiting_for_generators_sleeps(tmp_path):
    @weir.remote(num_returns="streaming")
    def after(path):
        until(lambda: os.path.exists(path))
        yield path

    first, second = (after.remote(str(tmp_path / name)) for name in "ab")
    value = weir.put(1)
    assert weir.wait([first, value, second], num_returns=1, timeout=0) == ([value], [first, second])
    before = time.process_time()
    assert weir.wait([first, second], timeout=0.3) == ([], [first, second])
    assert time.process_time() - before < 0.1
    (tmp_path / "b").touch()
    assert weir.wait([first, value, second], num_returns=2) == ([value, second], [first])
    (tmp_path / "a").touch()
    assert weir.wait([first, second], num_returns=2) == ([first, second], [])
    assert weir.get(next(second)) == str(tmp_path / "b") and weir.get(next(first)) == str(tmp_path / "a")
    assert list(second) == [] and weir.wait([second, value], num_returns=2) == ([second, value], [])

    @weir.remote
    def inside():
        items = after.remote(str(tmp_path / "a"))
        return len(weir.wait([items], timeout=20)[0])

    assert weir.get(inside.remote()) == 1


def test_pickled_by_other_means_it_stays():
    import pickle

    data = pickle.dumps(weir.put("still here"))
    gc.collect()
    assert weir.get(pickle.loads(data)) == "still here"


# ---- deaths ----

def test_a_worker_killed_during_a_task_is_replaced():
    @weir.remote(max_retries=1)
    def wait(path):
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        if len(open(path).readlines()) == 1:
            time.sleep(1000)
        return "again"

    import tempfile

    path = os.path.join(tempfile.mkdtemp(), "pids")
    ref = wait.remote(path)
    until(lambda: os.path.exists(path) and open(path).read().endswith("\n"))
    os.kill(int(open(path).read()), signal.SIGKILL)
    assert weir.get(ref, timeout=30) == "again"


def test_a_worker_killed_too_often():
    ref = pid_of_worker.options(max_retries=0).remote()
    weir.get(ref)

    @weir.remote(max_retries=2)
    def suicide():
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerCrashedError, match=r"suicide\(\).*SIGKILL.*3 times"):
        weir.get(suicide.remote(), timeout=60)


def test_a_killed_actor_is_told_with_its_cause():
    actor = Keeper.remote()
    pid = weir.get(actor.pid.remote())
    waiting = actor.sleep.remote(1000)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorDiedError, match=f"(?s)Keeper.*pid: {pid}.*SIGKILL"):
        weir.get(waiting, timeout=30)
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        weir.get(actor.pid.remote(), timeout=30)


@pytest.fixture
def short_machine(monkeypatch, tmp_path):
    """A file: while it exists nearly all memory of the machine is in use."""
    short = tmp_path / "short"
    monkeypatch.setattr(memory_watch, "usage", lambda: memory_watch.Usage(98 << 30 if short.exists() else 1 << 30, 100 << 30))
    return short


def test_the_largest_process_is_killed_before_the_machine_has_no_memory(short_machine):
    @weir.remote(max_retries=1)
    def large(short):
        held = np.ones(40 << 17)  # 40 MiB
        open(short, "w").close()
        time.sleep(60)
        return held

    @weir.remote
    def small(short):
        until(lambda: os.path.exists(short))
        until(lambda: not os.path.exists(short))
        return "done"

    beside = small.remote(str(short_machine))
    with pytest.raises(OutOfMemoryError) as caught:
        weir.get(large.remote(str(short_machine)), timeout=60)
    short_machine.unlink()
    assert weir.get(beside, timeout=60) == "done"
    text = str(caught.value)
    assert "The worker of large() (pid=" in text and "98.0 of 100.0 GiB were in use (threshold 0.95), 0.0" in text
    assert text.endswith("It was tried 2 times")


def test_an_actor_that_is_killed_before_the_machine_has_no_memory(short_machine):
    @weir.remote
    class Keeps:
        def large(self, short):
            open(short, "w").close()
            time.sleep(60)

    actor = Keeps.remote()
    with pytest.raises(ActorDiedError, match="running out of memory") as caught:
        weir.get(actor.large.remote(str(short_machine)), timeout=60)
    assert isinstance(caught.value, OutOfMemoryError) and type(caught.value).__name__ == "ActorDiedError"


def test_memory_in_use_without_cgroups(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_watch, "OWN_CGROUPS", tmp_path / "none")
    assert 0 < memory_watch.usage().part < 1


def test_memory_in_use_is_that_of_the_cgroup_with_the_least_room(tmp_path):
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    for folder, limit, current, cache in ((inner, "max", 5, 0), (tmp_path / "a", 1000, 990, 15)):
        for name, text in (("memory.max", limit), ("memory.current", current), ("memory.stat", f"anon 1\ninactive_file {cache}")):
            (folder / name).write_text(f"{text}\n")
    found = list(memory_watch._of_cgroups(tmp_path, "/a/b", "memory.max", "memory.current", "inactive_file"))
    assert found == [memory_watch.Usage(975, 1000)]
    assert 0 < memory_watch.usage().part < 1


def test_the_zygote_dies():
    weir.get(pid_of_worker.remote())
    os.kill(weir._session.current().zygotes["zygote"].pid, signal.SIGKILL)
    assert weir.get([pid_of_worker.remote() for _ in range(8)], timeout=60)
    assert weir.get(Keeper.remote().pid.remote(), timeout=60)


def test_cancel_stops_children():
    @weir.remote
    def parent(path):
        ref = sleep.remote(1000)
        open(path, "w").close()
        return weir.get(ref)

    import tempfile

    path = os.path.join(tempfile.mkdtemp(), "begun")
    ref = parent.remote(path)
    until(lambda: os.path.exists(path))
    weir.cancel(ref)
    with pytest.raises(TaskCancelledError):
        weir.get(ref, timeout=30)
    until(lambda: weir.available_resources()["CPU"] == 2)


def test_a_task_that_is_interrupted_knows_that_it_was_cancelled(tmp_path):
    @weir.remote
    def waits():
        before = weir.get_runtime_context().is_canceled()
        (tmp_path / "begun").touch()
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            return before, weir.get_runtime_context().is_canceled()

    ref = waits.remote()
    until((tmp_path / "begun").exists)
    weir.cancel(ref)
    assert weir.get(ref) == (False, True)


def test_cancel_at_any_moment():
    for i in range(60):
        ref = sleep.remote(1000)
        time.sleep(i % 6 * 0.0005)
        weir.cancel(ref)
        with pytest.raises(TaskCancelledError):
            weir.get(ref, timeout=30)
    refs = [sleep.options(runtime_env={"env_vars": {"N": str(i)}}).remote(1000) for i in range(2)]  # processes that are not there yet
    for ref in refs:
        weir.cancel(ref)
        with pytest.raises(TaskCancelledError):
            weir.get(ref, timeout=30)
    assert weir.get(sleep.remote(0)) == 0


DRIVER = """
    import os, sys, time, weir
    weir.init(num_cpus=2)
    @weir.remote
    def f():
        time.sleep(1000)
    @weir.remote
    class A:
        def pid(self):
            return os.getpid()
    @weir.remote
    def pid():
        return os.getpid()
    a = A.remote()
    pids = weir.get([a.pid.remote(), pid.remote()]) + [weir._session.current().zygotes["zygote"].pid]
    refs = [f.remote() for _ in range(4)]
    print(*pids, os.path.dirname(weir.core.runtime.get().address), flush=True)
    {end}
"""


@pytest.mark.parametrize("how", ["killed", "exit", "exception", "shutdown"])
def test_nothing_survives_the_driver(how):
    end = {"killed": "sys.stdin.read()", "exit": "sys.exit(0)", "exception": "raise ValueError", "shutdown": "weir.shutdown(); sys.exit(0)"}[how]
    driver = program(DRIVER.replace("{end}", end))
    words = driver.stdout.readline().split()
    pids, folder = list(map(int, words[:3])), words[3]
    if how == "killed":
        assert all(is_alive(pid) for pid in pids)
        driver.kill()
    driver.stdin.close()
    driver.wait(20)
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert how == "killed" or not os.path.exists(folder)
    driver.stdout.close()
    driver.stderr.close()


def test_ctrl_c_in_get():
    driver = program("""
        import os, signal, sys, time, weir
        signal.signal(signal.SIGINT, signal.default_int_handler)
        weir.init(num_cpus=1)
        @weir.remote
        def f(t):
            time.sleep(t)
            return os.getpid()
        pid = weir.get(f.remote(0))
        ref = f.remote(1000)
        print("go", flush=True)
        try:
            weir.get(ref)
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
        weir.cancel(ref)
        print(weir.get(f.remote(0)) == pid)
    """)
    assert driver.stdout.readline() == "go\n"
    time.sleep(0.3)  # until it waits; earlier is fine, too
    sent = time.time()
    driver.send_signal(signal.SIGINT)
    word, when = driver.stdout.readline().split()
    assert word == "interrupted" and float(when) - sent < 0.5
    out, err = rest_of(driver, 30)
    assert out == "True\n", (driver.returncode, err)


# ---- programs ----

def test_prints_are_labelled_and_come_before_the_result():
    driver = program("""
        import sys, weir
        @weir.remote
        def f(x):
            print("out", x)
            print("err", x, file=sys.stderr)
        @weir.remote
        class Loud:
            def __init__(self): print("made")
            def say(self): print("said")
        weir.get(f.remote(1))
        print("after")
        weir.get(Loud.remote().say.remote())
        print("end")
    """)
    out, err = driver.communicate(timeout=60)
    import re

    assert re.fullmatch(r"\(f pid=\d+\) out 1\nafter\n\(Loud pid=\d+\) made\n\(Loud pid=\d+\) said\nend\n", out), out
    assert re.search(r"^\(f pid=\d+\) err 1$", err, re.M), err
    assert "pid=0)" not in out


def test_the_main_module_and_a_fork(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent("""
        import multiprocessing, os
        import weir
        class Point:
            def __init__(self, x): self.x = x
        @weir.remote
        def move(p): return Point(p.x + 1)
        def child(ref, queue): queue.put(weir.get(ref).x)
        if __name__ == "__main__":
            ref = move.remote(Point(1))
            assert isinstance(weir.get(ref), Point)
            for kind in ("fork", "spawn"):
                context = multiprocessing.get_context(kind)
                queue = context.SimpleQueue()
                process = context.Process(target=child, args=(ref, queue))
                process.start()
                print(queue.get())
                process.join()
    """))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(weir.__file__))})
    assert done.stdout == "2\n2\n", done.stderr


def test_threads():
    found = []

    def work(i):
        found.append(weir.get([pid_of_worker.remote() for _ in range(20)]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8


class SlowToPickle:
    def __reduce__(self):
        time.sleep(0.2)
        return SlowToPickle, ()


def test_threads_that_call_a_function_for_the_first_time():
    """Those that come while another one still pickles it wait for that."""
    slow = SlowToPickle()

    @weir.remote
    def answer():
        return type(slow).__name__

    found = []
    threads = [threading.Thread(target=lambda: found.append(weir.get(answer.remote(), timeout=60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == ["SlowToPickle"] * 4


def test_a_task_whose_function_is_gone_says_so():
    """It fails, and those behind it run."""
    @weir.remote
    def answer():
        return 1

    from weir.core import ids

    other = ids.new_object()
    answer._exported.id = lambda: other
    with pytest.raises(ObjectLostError):
        weir.get(answer.remote(), timeout=60)
    assert weir.get(pid_of_worker.remote(), timeout=60) > 0


def test_references_at_the_end_of_the_interpreter_say_nothing():
    done = program("""
        import weir
        @weir.remote
        def f(x): return x
        @weir.remote
        class A:
            def f(self): return 1
        a = A.remote()
        held = [f.remote(weir.put(i)) for i in range(5)] + [a.f.remote()]
        weir.get(held)
        import builtins
        builtins.held, builtins.a = held, a   # they live as long as anything
    """)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out, err) == (0, "", "")


def test_threads_of_a_task_share_its_connection():
    @weir.remote
    def many(n):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(lambda i: weir.get(sleep.remote(i / 1000)) * 1000, range(n)))

    assert round(weir.get(many.remote(20), timeout=20)) == sum(range(20))


def test_a_wait_that_was_cancelled_is_forgotten(tmp_path):
    """Its worker goes on: whoever waits in it next reads its connection, and gives its CPU to what it waits for."""
    @weir.remote(num_cpus=0)
    def never():
        time.sleep(1000)

    @weir.remote(num_cpus=2)
    def waits(refs):
        (tmp_path / "pid").write_text(str(os.getpid()))
        weir.get(refs[0])

    @weir.remote(num_cpus=2)
    def many(n):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            return os.getpid(), sum(pool.map(lambda i: weir.get(sleep.remote(i / 1000)) * 1000, range(n)))

    held = never.remote()
    ref = waits.remote([held])
    until(lambda: (tmp_path / "pid").exists() and weir.available_resources()["CPU"] == 2)  # it waits
    weir.cancel(ref, recursive=False)
    with pytest.raises(TaskCancelledError):
        weir.get(ref, timeout=30)
    worker, total = weir.get(many.remote(20), timeout=30)
    assert (worker, round(total)) == (int((tmp_path / "pid").read_text()), sum(range(20)))
    weir.cancel(held)


def test_what_can_never_run_says_so():
    with pytest.raises(ValueError, match="pid_of_worker wants 3 CPU, and the session has 2"):
        pid_of_worker.options(num_cpus=3).remote()
    with pytest.raises(ValueError, match="1 nothing, and the session has 0.*resources"):
        Keeper.options(resources={"nothing": 1}).remote()

    @weir.remote
    def inside():
        return weir.get(pid_of_worker.options(num_cpus=3).remote())

    with pytest.raises(ValueError, match="wants 3 CPU"):
        weir.get(inside.remote(), timeout=30)


def test_what_waits_for_actors_says_so(monkeypatch, caplog):
    monkeypatch.setattr(waits, "TOLD_S", 0.2)

    @weir.remote(num_cpus=1)
    class Keeps:
        def ping(self):
            return 1

    @weir.remote(num_cpus=0.75)  # a line that no other test stands in: those have a timer already
    def late():
        return 7

    with caplog.at_level("WARNING", "weir"):
        slow = [weir.remote(time.sleep).remote(0.6) for _ in range(3)]  # a task that waits for tasks is nothing to tell of
        weir.get(slow)
        assert "has waited" not in caplog.text
        actors = [Keeps.remote() for _ in range(2)]
        assert weir.get([actor.ping.remote() for actor in actors]) == [1, 1]
        waiting = late.remote()
        until(lambda: "has waited" in caplog.text)
        assert ("late has waited for 0.2 s: it wants 0.75 CPU, and actors keep 2 of 2 for as long as they live: Keeps (1), Keeps (1). "
                "End one of them") in caplog.text
        weir.kill(actors[0])
        assert weir.get(waiting, timeout=30) == 7


def test_references_of_a_session_that_has_ended():
    driver = program("""
        import weir
        from weir.exceptions import ObjectLostError
        ref = weir.put(1)
        weir.shutdown()
        try:
            weir.get(ref)
        except ObjectLostError as error:
            print("lost", "session" in str(error))
        print(weir.get(weir.put(2)))
    """)
    out, err = driver.communicate(timeout=30)
    assert out == "lost True\n2\n", err


def test_many_large_objects():
    refs = [weir.put(np.full(20_000, i, np.int64)) for i in range(1500)]  # each has a descriptor
    assert sum(int(weir.get(ref)[0]) for ref in refs) == sum(range(1500))
    many = [weir.put(np.full(10_000, i, np.int64)) for i in range(1200)]

    @weir.remote
    def total(*arrays):
        return sum(int(array[0]) for array in arrays)

    assert weir.get(total.remote(*many)) == sum(range(1200))


def test_an_unknown_object():
    with pytest.raises(ObjectLostError):
        weir.get(weir.core.objects.own(os.urandom(28)))


def test_a_materialized_dataset_and_an_iterator_as_arguments():
    @weir.remote
    def total(ds):
        return int(ds.sum("id"))

    @weir.remote
    def rows(it):
        return sum(int(row["id"]) for row in it.iter_rows())

    assert weir.get(total.remote(weir.range(100).materialize()), timeout=60) == 4950
    assert weir.get(rows.remote(weir.range(100).iterator()), timeout=60) == 4950
    left, right = weir.range(100).streaming_split(2)
    assert sum(weir.get([rows.remote(left), rows.remote(right)], timeout=60)) == 4950
    strings = weir.from_items([{"a": "x" * i, "b": [i]} for i in range(50)]).materialize()
    assert weir.get(weir.put(strings)).take_all() == strings.take_all()
