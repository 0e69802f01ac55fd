"""The zygote: a process with NumPy imported and one thread, from which workers are forked.

    driver ──fork──▶ zygote ──forked, ended──▶ driver          (SOCK_SEQPACKET, descriptor 3)

    driver → zygote:  "wzyg" 1 request            with 4 descriptors: socket, lifeline, stdout, stderr of the worker
    zygote → driver:  "wzyg" 2 request pid        forked
                      "wzyg" 3 pid status         ended, with its wait status; said before it is reaped
    All numbers are u32, little endian. A pid of 0 says that there was no process to be had.

It is run as a program, with the driver's interpreter and flags:  _zygote.py --path DIR … --preload MODULE … --learn MODULE …
It never runs a user's code but what `preload` names. Of the modules to `learn`, it imports those that workers were seen to
use, once these have ended: the next run's workers have them from the start. It ends when its driver does (the socket hangs up), and its
workers and their own children with it: as subreaper it inherits whatever a dead worker leaves behind.
"""
from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

CONTROL, LIFELINE = 3, 4  # the latter's other end is the driver's, as a worker's is
MAGIC = b"wzyg"
FORK, FORKED, ENDED = 1, 2, 3
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NAME = 15
F_SETSIG = 10
IDLE_MS = 100  # without a request for so long after its start, it loads what only some workers need


def _message(*numbers: int) -> bytes:
    return MAGIC + b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)


def _ignore(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing, and not SIG_IGN: what a function starts gets the default action back."""


def _tune_malloc(libc: Any) -> None:
    # Temporaries up to 32 MiB, the most that glibc allows, come from pages that are warm; trimmed when idle (_worker.py).
    trim_threshold, top_pad, mmap_threshold, arena_max = -1, -2, -3, -8
    libc.mallopt(mmap_threshold, 32 << 20)
    libc.mallopt(trim_threshold, 128 << 20)
    libc.mallopt(top_pad, 1 << 20)
    libc.mallopt(arena_max, 2)


def _options(words: list[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {"--path": [], "--preload": [], "--learn": []}
    for option, value in zip(words[0::2], words[1::2]):
        options[option].append(value)
    return options


def _import(names: list[str]) -> None:
    import importlib

    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"weir: preload of {name!r} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def _load(preload: list[str]) -> None:
    import weir._weir
    import weir._worker  # noqa: F401
    import numpy  # noqa: F401
    import cloudpickle  # noqa: F401

    _import(preload)


def _load_more() -> None:
    """What runs tasks and actors: workers of a Dataset's steps, who are waited for, do without."""
    import gc

    import weir.core.worker  # noqa: F401

    gc.freeze()


class Learned:
    """Modules that workers import, each of them anew: a byte for each in memory that they share with the zygote."""

    def __init__(self, names: list[str]) -> None:
        import mmap

        self.names = names
        self.used = mmap.mmap(-1, max(1, len(names)))

    def tell(self) -> None:
        """In a worker."""
        for i, name in enumerate(self.names):
            self.used[i] = name in sys.modules

    def load(self) -> None:
        """In the zygote, while it has no workers."""
        wanted = [name for i, name in enumerate(self.names) if self.used[i] and name not in sys.modules]
        if not wanted:
            return
        import gc

        gc.disable()
        _die_with_driver(True)
        _import(wanted)
        _die_with_driver(False)
        gc.freeze()
        gc.enable()
        if len(os.listdir("/proc/self/task")) != 1:  # it must not fork any more: the driver starts another one, that has not learned
            os.kill(os.getpid(), signal.SIGKILL)


class Zygote:
    """The loop, and the workers it knows."""

    def __init__(self, learned: Learned) -> None:
        import _socket
        import select

        self.learned = learned

        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CONTROL)
        self.ancillary = _socket.CMSG_SPACE(4 * 4)
        self.rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        self.workers: set[int] = set()
        self.wake, self.woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.poll = select.poll()
        self.poll.register(CONTROL, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        # A process that the driver has forked may hold the socket's other end, and outlive it.
        self.driver = os.pidfd_open(os.getppid())
        self.poll.register(self.driver, select.POLLIN)

    def run(self) -> bool:
        """True: this is a worker, freshly forked. False: the driver is gone."""
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self.woken, warn_on_full_buffer=False)
        idle_ms: int | None = IDLE_MS
        while True:
            ready = self.poll.poll(idle_ms)
            if not ready:
                _load_more()
                idle_ms = None
            for fd, _ in ready:
                if fd == self.wake:
                    os.read(self.wake, 4096)
                    self.reap()
                    continue
                if fd == self.driver:
                    return False
                words, descriptors = self.receive()
                if not words:
                    return False
                if self.fork(words, descriptors):
                    return True

    def receive(self) -> tuple[bytes, list[int]]:
        try:
            words, ancillary, _, _ = self.socket.recvmsg(64, self.ancillary)
        except OSError:  # the driver's end is gone
            return b"", []
        descriptors = [int.from_bytes(data[i:i + 4], sys.byteorder)
                       for level, kind, data in ancillary if (level, kind) == self.rights
                       for i in range(0, len(data) - 3, 4)]
        return words, descriptors

    def send(self, *numbers: int) -> None:
        try:
            self.socket.send(_message(*numbers))
        except OSError:  # the driver is gone: the next poll says so
            return

    def fork(self, words: bytes, descriptors: list[int]) -> bool:
        if words[:4] != MAGIC or int.from_bytes(words[4:8], "little") != FORK or len(descriptors) != 4:
            for fd in descriptors:
                os.close(fd)
            return False
        request = int.from_bytes(words[8:12], "little")
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            self.become_worker(descriptors)
            return True
        for fd in descriptors:
            os.close(fd)
        if pid > 0:
            self.workers.add(pid)
        self.send(FORKED, request, max(pid, 0))
        return False

    def become_worker(self, descriptors: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.socket.detach()
        os.close(self.wake)
        os.close(self.woken)
        os.close(self.driver)
        # The zygote keeps 3 and 4 occupied, so that none of these is one of the places they go to.
        for fd, place in zip(descriptors, (3, 4, 1, 2)):
            os.dup2(fd, place, inheritable=place < 3)
            os.close(fd)

    def reap(self) -> None:
        ended = False
        while True:
            try:
                end = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if end is None:
                break
            pid = end.si_pid
            if pid in self.workers:
                # Said before it is reaped: until then nobody else can have its number.
                self.send(ENDED, pid, _wait_status(end.si_code, end.si_status))
                self.workers.discard(pid)
                ended = True
            os.waitpid(pid, 0)
        if ended:
            self.end_strays(self.workers)
        if not self.workers:
            self.learned.load()

    def end_strays(self, spared: set[int]) -> None:
        """Kills what dead workers have left: children of this process that are no workers, unless a worker that lives
        has started them (then its pid is in their environment)."""
        for pid in _children():
            if pid in self.workers:
                continue
            if _owner_of(pid) not in spared:
                _kill(pid)

    def end(self) -> None:
        for pid in set(self.workers):
            _kill(pid)
        self.workers.clear()
        # A killed one hands its own children on to this process: until there are none.
        for _ in range(1000):
            children = _children()
            if not children:
                return
            for pid in children:
                _kill(pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                continue


def _wait_status(code: int, status: int) -> int:
    if code == os.CLD_EXITED:
        return (status & 0xFF) << 8
    return status | (0x80 if code == os.CLD_DUMPED else 0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _owner_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"WEIR_WORKER="):
                    return int(entry[12:])
    except (OSError, ValueError):
        pass
    return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _die_with_driver(is_on: bool) -> None:
    """While modules are imported nobody listens to the driver, and there are no workers yet to be taken along: the kernel
    ends this process when the driver's end of the lifeline hangs up."""
    import fcntl

    flags = fcntl.fcntl(LIFELINE, fcntl.F_GETFL)
    if is_on:
        fcntl.fcntl(LIFELINE, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(LIFELINE, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(LIFELINE, fcntl.F_SETFL, flags | os.O_ASYNC if is_on else flags & ~os.O_ASYNC)


def _begin(words: list[str]) -> Learned:
    # Opened until 4 is taken: nothing that is received may have the number of a place that it is to go to.
    while (null := os.open(os.devnull, os.O_RDWR)) <= LIFELINE:
        pass
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(CONTROL, False)
    os.set_inheritable(LIFELINE, False)
    _die_with_driver(True)
    signal.signal(signal.SIGINT, _ignore)
    options = _options(words)
    for path in options["--path"]:
        if path not in sys.path:
            sys.path.append(path)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if package not in sys.path:
        sys.path.append(package)

    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _tune_malloc(libc)
    _name_process(b"weir-zygote")
    _load(options["--preload"])
    _die_with_driver(False)
    return Learned(options["--learn"])


def _name_process(name: bytes) -> None:
    """As ps and top show it."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)


def _begin_worker() -> None:
    """What a fork needs before it is a worker: its own output, a fresh `__main__`."""
    from types import ModuleType

    _name_process(b"weir-worker")
    # New ones: the old ones know what the zygote's descriptors were, a terminal or a file, and not the pipes there now.
    sys.stdout = sys.__stdout__ = open(1, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]
    sys.modules["weir._zygote"] = sys.modules["__main__"]  # whose functions are still running
    sys.modules["__main__"] = ModuleType("__main__")


def main() -> int:
    """Until the driver is gone; in a fork, until the worker's work is done."""
    import gc

    gc.disable()  # all that is loaded stays
    learned = _begin(sys.argv[1:])
    gc.freeze()
    gc.enable()
    zygote = Zygote(learned)
    if not zygote.run():
        zygote.end()
        zygote.socket.detach()  # closed by the end of the process, without a warning (-X dev)
        return 0
    code = _work()
    learned.tell()
    _end_worker(code)
    return 0


def _work() -> int:
    try:
        _begin_worker()
        if _is_stream(CONTROL):
            from weir.core.worker import main
        else:
            from weir._worker import main
        main()
    except BaseException:
        import traceback
        traceback.print_exc()
        return 1
    return 0


def _is_stream(fd: int) -> bool:
    """Those who run tasks and actors talk over a stream, those of a Dataset's steps in packets."""
    import _socket

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
    try:
        return sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_TYPE) == _socket.SOCK_STREAM
    finally:
        sock.detach()


def _end_worker(code: int) -> None:
    import atexit

    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    # Straight to the end: there is nothing to be torn down that the system does not tear down faster.
    os._exit(main())
