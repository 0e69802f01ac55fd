"""Programs that use weir, run as processes of their own, and what is left of their processes."""
import fcntl
import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

# Of tests that hold memory limits, or look at malloc: ASan has its own allocator, which keeps what is free and puts room around each value.
not_sanitized = pytest.mark.skipif("WEIR_SANITIZED" in os.environ, reason="a sanitizer has its own allocator")


def made_once(tmp_path_factory, name, make):
    """What `make` gives, as JSON: the first of pytest's processes that asks makes it, and the others read it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all of this run
    path = folder / f"{name}.json"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def tree_of(pid):
    """Every process below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found, more = set(), {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found |= more
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # gone before, or between opening and reading
        return False


def wait_for(condition, seconds=20, what="it"):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come about in {seconds} s"
        time.sleep(0.005)


class TooSlow(AssertionError):
    """What took longer than it may; another program may have had the processor."""


def within(seconds, limit):
    if seconds >= limit:
        raise TooSlow(f"{seconds:.2f} s, and {limit} s are allowed")


def on_a_busy_machine(test):
    """The test again, thrice at most, when all that was wrong was time."""
    @functools.wraps(test)
    def tried(*arguments, **fixtures):
        for _ in range(3):
            try:
                return test(*arguments, **fixtures)
            except TooSlow as error:  # told among the run's warnings, so that it is not forgotten
                warnings.warn(f"{test.__name__}, tried again: {' '.join(str(error).split())}", stacklevel=2)
        return test(*arguments, **fixtures)
    return tried


def rest_of(process, seconds):
    """What a process still prints, and its errors, after its end. Not communicate(), which leaves out what readline() has read ahead."""
    with ThreadPoolExecutor(2) as readers:
        streams = [readers.submit(stream.read) for stream in (process.stdout, process.stderr)]
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return [stream.result() for stream in streams]


def all_gone(pids, seconds=5):
    wait_for(lambda: not any(is_alive(pid) for pid in pids), seconds, f"the end of {sorted(pids)}")


class Program:
    """A script in a folder of its own."""

    def __init__(self, folder, text, *arguments, options=(), env=None, name="script.py"):
        path = Path(folder) / name
        path.write_text(textwrap.dedent(text))
        self.process = subprocess.Popen([sys.executable, *options, str(path), *map(str, arguments)], cwd=folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})}, start_new_session=True)
        self.pid = self.process.pid

    def line(self):
        """The next line that it prints."""
        text = self.process.stdout.readline()
        assert text, self.process.stderr.read()
        return text.strip()

    def wait(self, seconds=60):
        """Its output, errors and exit code."""
        out, err = rest_of(self.process, seconds)
        return out, err, self.process.returncode

    def interrupt(self):
        os.killpg(self.pid, signal.SIGINT)  # as a terminal does: the whole group

    def tree(self):
        return tree_of(self.pid) | {self.pid}


def output(folder, text, *arguments, **options):
    """What a script prints; it must succeed."""
    out, err, code = Program(folder, text, *arguments, **options).wait(120)
    assert code == 0, f"exit code {code}\n{out}\n{err}"
    return out
