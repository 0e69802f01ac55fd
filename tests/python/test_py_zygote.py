"""The zygote by itself: its protocol, the processes it makes, and their end."""
import array
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driver_scripts import not_sanitized, output
from weir import _call

pytestmark = pytest.mark.same_without


class Zygote:
    """The driver's half, in Python."""

    def __init__(self, preload=("zygote_probe",), **options):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv, env = _call.zygote_command(list(preload))
        lifeline, self.lifeline = os.pipe()
        high = [os.dup2(theirs.fileno(), 200), os.dup2(lifeline, 201)]
        self.process = subprocess.Popen(argv, env=env, pass_fds=(3, 4), preexec_fn=lambda: (os.dup2(200, 3), os.dup2(201, 4)),
                                        **options)
        for fd in [*high, lifeline]:
            os.close(fd)
        theirs.close()
        self.control.settimeout(60)
        self.request = 0
        self.workers = []

    def fork(self, out=None):
        """A worker; None: it could not be made."""
        self.request += 1
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, self_end = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        out = null if out is None else out
        self.control.sendmsg([b"wzyg" + struct.pack("<II", 1, self.request)],
                             [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                               array.array("i", [theirs.fileno(), life, out, out]).tobytes())])
        for fd in (life, null):
            os.close(fd)
        theirs.close()
        kind, request, pid = self.word()
        assert (kind, request) == (2, self.request)
        worker = Worker(link, pid, self_end)
        self.workers.append(worker)
        return worker

    def word(self):
        data = self.control.recv(64)
        assert data[:4] == b"wzyg" and len(data) == 16
        return struct.unpack("<III", data[4:])

    def close(self):
        self.control.close()
        self.process.wait(20)


class Worker:
    def __init__(self, link, pid, lifeline):
        self.link, self.pid, self.lifeline = link, pid, lifeline
        link.settimeout(60)

    def do(self, text):
        """Runs statements; what they put into `result`."""
        self.link.send(text.encode())
        answer = self.link.recv(65536).decode()
        assert not answer.startswith("Traceback"), answer
        return eval(answer)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before, or between opening and reading
        return False


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


@pytest.fixture
def zygote():
    made = Zygote()
    yield made
    made.close()


def test_it_forks_with_one_thread(zygote):
    worker = zygote.fork()
    assert worker.do("import os; result = os.getpid()") == worker.pid
    assert len(os.listdir(f"/proc/{zygote.process.pid}/task")) == 1
    assert worker.do("import numpy as np; np.ones((500, 500)) @ np.ones((500, 500)); "
                     "result = len(os.listdir('/proc/self/task'))") == 1
    assert worker.do("import sys; result = 'numpy' in sys.modules and 'cloudpickle' in sys.modules")
    assert worker.do("result = [m for m in ('pandas', 'pyarrow', 'torch', 'pytest') if m in sys.modules]") == []


def test_descriptors_of_a_worker(zygote):
    read, write = os.pipe()
    worker = zygote.fork(out=write)
    os.close(write)
    assert worker.do("import os, sys; print('hello'); print('there', file=sys.stderr); os.write(1, b'raw'); "
                     "result = os.readlink('/proc/self/fd/0')") == os.devnull
    assert os.read(read, 100) == b"hello\nthere\nraw"
    os.close(read)
    # What a function starts gets 0, 1 and 2, and nothing of the engine's.
    text = worker.do("import subprocess; result = subprocess.run(['ls', '/proc/self/fd'], close_fds=False, "
                     "capture_output=True, text=True).stdout")
    assert text.split()[:3] == ["0", "1", "2"] and "4" not in text.split()[4:]
    assert len(text.split()) <= 5, text  # ls's own of the folder


def test_ends_are_reported(zygote):
    first, second = zygote.fork(), zygote.fork()
    first.link.send(b"import os; os._exit(7)")
    assert zygote.word() == (3, first.pid, 7 << 8)
    os.kill(second.pid, signal.SIGKILL)
    assert zygote.word() == (3, second.pid, signal.SIGKILL)
    third = zygote.fork()
    third.link.close()
    assert zygote.word() == (3, third.pid, 0)


def test_many_forks(zygote):
    workers = [zygote.fork() for _ in range(20)]
    assert len({worker.do("import os; result = os.getpid()") for worker in workers}) == 20


def test_interrupts_do_nothing(zygote):
    worker = zygote.fork()
    os.kill(zygote.process.pid, signal.SIGINT)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.do("import time; time.sleep(0.05); result = 5") == 5
    # Not SIG_IGN: a subprocess has the default.
    assert worker.do("import subprocess, sys; result = subprocess.run([sys.executable, '-c', 'import signal; "
                     "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'], "
                     "capture_output=True, text=True).stdout") == "True\n"
    assert zygote.fork().do("result = 6") == 6


def test_randomness_differs_and_hashes_agree(zygote):
    workers = [zygote.fork() for _ in range(3)]
    numbers = [worker.do("import numpy as np, random, uuid; result = (float(np.random.rand()), random.random(), "
                         "str(uuid.uuid4()))") for worker in workers]
    assert len({n[0] for n in numbers}) == len({n[1] for n in numbers}) == len({n[2] for n in numbers}) == 3
    hashes = {worker.do("result = hash('text')") for worker in workers}
    other = Zygote()
    hashes.add(other.fork().do("result = hash('text')"))
    other.close()
    assert len(hashes) == 1


def test_numpys_generator_is_seeded_anew_when_it_was_preloaded():
    zygote = Zygote(preload=("numpy.random", "zygote_probe"))
    head = {"name": "x", "environ": dict(os.environ), "num_gpus": 0, "cwd": None, "sys_path": sys.path, "argv": [""],
            "threads": 1}
    numbers = {zygote.fork().do(f"import weir._worker, numpy; weir._worker.enter({head!r}); "
                                "result = float(numpy.random.rand())") for _ in range(3)}
    zygote.close()
    assert len(numbers) == 3


def test_it_ends_with_its_driver_and_takes_all_along(zygote):
    workers = [zygote.fork() for _ in range(3)]
    grandchild = workers[0].do("import subprocess; p = subprocess.Popen(['sleep', '1000']); result = p.pid")
    orphan = workers[1].do("import subprocess; result = int(subprocess.run(['sh', '-c', 'sleep 1000 >/dev/null 2>&1 & "
                           "echo $!'], capture_output=True, text=True).stdout)")
    assert is_alive(grandchild) and is_alive(orphan)
    zygote.control.close()
    zygote.process.wait(10)
    for pid in [grandchild, orphan, *[worker.pid for worker in workers]]:
        wait_for(lambda: not is_alive(pid))


ORPHANING_DRIVER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from test_py_zygote import Zygote
zygote = Zygote()
worker = zygote.fork()
child = os.fork()  # holds the socket and the lifelines too
if child == 0:
    time.sleep(60)
    os._exit(0)
print(zygote.process.pid, worker.pid, child, flush=True)
time.sleep(60)
"""


def test_it_ends_with_its_driver_though_a_child_of_that_lives_on():
    driver = subprocess.Popen([sys.executable, "-c", ORPHANING_DRIVER, str(Path(__file__).parent)],
                              stdout=subprocess.PIPE, text=True)
    *pids, child = map(int, driver.stdout.readline().split())
    try:
        assert all(map(is_alive, pids)) and is_alive(child)
        driver.kill()
        driver.wait()
        wait_for(lambda: not any(map(is_alive, pids)), seconds=5)
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)
        driver.stdout.close()


def test_a_worker_that_nobody_wants_any_more_ends_without_a_word():
    """A run may be over before the last of its workers has greeted."""
    zygote = Zygote(preload=())
    read, write = os.pipe()
    life, driver = os.pipe()
    link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.close(driver)
    link.close()
    zygote.control.sendmsg([b"wzyg" + struct.pack("<II", 1, 1)],
                           [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                             array.array("i", [theirs.fileno(), life, write, write]).tobytes())])
    for fd in (life, write):
        os.close(fd)
    theirs.close()
    _, _, pid = zygote.word()
    assert zygote.word() == (3, pid, signal.SIGKILL)
    assert os.read(read, 1000) == b""
    os.close(read)
    zygote.close()


def test_grandchildren_end_with_their_worker(zygote):
    dying, living = zygote.fork(), zygote.fork()
    for worker in (dying, living):
        worker.do("import os; os.environ['WEIR_WORKER'] = str(os.getpid())")
    start = "import subprocess; p = subprocess.Popen(['sleep', '1000']); result = p.pid"
    daemon = ("import subprocess; result = int(subprocess.run(['sh', '-c', 'sleep 1000 >/dev/null 2>&1 & echo $!'], "
              "capture_output=True, text=True).stdout)")
    mine, others, others_daemon = dying.do(start), living.do(start), living.do(daemon)
    forked = dying.do("import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(1000)\nresult = pid")
    os.kill(dying.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(mine) and not is_alive(forked))
    assert is_alive(others) and is_alive(others_daemon)


LEARNING_DRIVER = """
import os, sys, time
import weir

def changes(frame):
    frame["id"] += 1
    return frame

def looks(batch):
    return {"has": ["pandas" in sys.modules], "threads": [len(os.listdir(f"/proc/{os.getppid()}/task"))]}

if __name__ == "__main__":
    weir.init(memory_limit=sys.argv[1])
    before = weir.range(1).map_batches(looks).take_all()
    assert weir.range(3).map_batches(changes, batch_format="pandas").take_all() == [{"id": 1}, {"id": 2}, {"id": 3}]
    end = time.monotonic() + float(sys.argv[2])
    while True:  # the zygote learns when the last worker has ended, which nobody waits for
        after = weir.range(1).map_batches(looks).take_all()
        if after[0]["has"] or time.monotonic() > end:
            break
        time.sleep(0.1)  # runs without a pause may always have a worker of the one before
    print(before, after)
"""


@pytest.mark.parametrize(("limit", "learns"), [("4GB", True), ("600MB", False)])
def test_it_learns_what_its_workers_import(tmp_path, limit, learns):
    pytest.importorskip("pandas")
    said = output(tmp_path, LEARNING_DRIVER, limit, "30" if learns else "0.3")
    assert said == f"[{{'has': False, 'threads': 1}}] [{{'has': {learns}, 'threads': 1}}]\n"


def test_a_preload_that_fails_is_said(tmp_path):
    zygote = Zygote(preload=("no_such_module_here", "zygote_probe"), stderr=subprocess.PIPE)
    assert zygote.fork().do("result = 1") == 1
    zygote.control.close()
    assert b"preload of 'no_such_module_here' failed" in zygote.process.stderr.read()
    zygote.process.wait(10)


def test_junk_is_ignored(zygote):
    zygote.control.send(b"junk")
    zygote.control.send(b"wzyg" + struct.pack("<II", 9, 9))
    assert zygote.fork().do("result = 1") == 1


def test_the_drivers_flags():
    program = ("import sys; sys.path.insert(0, {tests!r}); import test_py_zygote as t; z = t.Zygote(); "
               "print(z.fork().do('import sys; result = (sys.flags.optimize, sys.flags.utf8_mode, sys.dont_write_bytecode, "
               "sys.executable)')); z.close()").format(tests=str(Path(__file__).parent))
    out = subprocess.run([sys.executable, "-O", "-X", "utf8", "-B", "-c", program], capture_output=True, text=True)
    assert out.stdout.strip() == repr((1, 1, True, sys.executable)), out.stderr


def test_main_is_empty(zygote):
    assert zygote.fork().do("import sys; result = [n for n in vars(sys.modules['__main__']) if n[:2] != '__']") == []


@not_sanitized
def test_malloc_keeps_pages_warm(zygote):
    """An array of 16 MiB made twice takes its pages from the system once."""
    worker = zygote.fork()
    worker.do("import resource, numpy as np\na = np.ones(2 << 20); del a\n")
    assert worker.do("before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\nfor _ in range(10):\n"
                     "    a = np.ones(2 << 20); del a\n"
                     "result = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before") < 100


@pytest.mark.parametrize("count", [2])
def test_threads_of_the_loaded_library(zygote, count):
    worker = zygote.fork()
    worker.do(f"import weir._worker; weir._worker.set_threads({count})")
    assert worker.do("import numpy as np, os; np.ones((800, 800)) @ np.ones((800, 800)); "
                     "result = len(os.listdir('/proc/self/task'))") == count
