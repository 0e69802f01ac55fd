"""Runs one command and measures it from outside: wall, CPU, peak memory of its tree, how quiet the machine was.

The sampler waits on a pidfd, so it wakes exactly at the end; in between it reads /proc every 10 ms. Two peaks are kept:
anonymous + shared memory summed over the tree (what the system allocated; a page shared by two processes of the tree
counts twice), and VmHWM, the kernel's own high-water mark of each process, which also counts mapped files. The kernel
counts the first exactly only at the samples, the second always, but the last sample may miss the last 10 ms; there
ru_maxrss fills in, unless it merely shows this process's own size, which a child inherits across exec.

This module imports little on purpose: a small parent keeps ru_maxrss honest.
"""

import dataclasses
import mmap
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time

SAMPLE_MS = 10
TREE_EVERY = 5  # samples between two searches for child processes
FOREIGN_NOISY = 0.15  # share of the machine used by others above which a run is called noisy
FOREIGN_MIN_S = 0.3  # shorter runs cannot be judged with 10 ms clock ticks
TICK = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Run:
    rc: int
    wall_s: float
    cpu_s: float
    peak_mib: float  # RssAnon + RssShmem of the tree
    hwm_mib: float  # VmHWM of the largest process
    foreign: float  # share of the machine's CPU time used by others meanwhile
    stdout: str
    stderr: str
    timed_out: bool

    @property
    def noisy(self):
        return self.wall_s >= FOREIGN_MIN_S and self.foreign > FOREIGN_NOISY


def machine_busy_s():
    """CPU seconds used by anyone since boot, stolen time included."""
    with open("/proc/stat") as f:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def descendants(pid):
    found, queue = [pid], [pid]
    while queue:
        base = f"/proc/{queue.pop()}/task"
        try:
            for tid in os.listdir(base):
                with open(f"{base}/{tid}/children") as f:
                    children = [int(c) for c in f.read().split()]
                found += children
                queue += children
        except OSError:
            pass  # it ended while being looked at
    return found


def memory_kib(pid):
    """(RssAnon + RssShmem, VmHWM) of one process; zeros once it has ended."""
    held = high = 0
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith(("RssAnon:", "RssShmem:")):
                    held += int(line.split()[1])
                elif line.startswith("VmHWM:"):
                    high = int(line.split()[1])
    except OSError:
        pass
    return held, high


def own_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def watch(process, deadline):
    """Samples until the process ends. Returns peaks in KiB and whether it was killed for running too long."""
    peak = high = samples = 0
    timed_out = False
    tree = [process.pid]
    pidfd = os.pidfd_open(process.pid)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    try:
        while not poller.poll(SAMPLE_MS):
            samples += 1
            if samples % TREE_EVERY == 0:
                tree = descendants(process.pid)
            sizes = [memory_kib(pid) for pid in tree]
            peak = max(peak, sum(held for held, _ in sizes))
            high = max(high, max(top for _, top in sizes))
            if not timed_out and time.monotonic() > deadline:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
    finally:
        os.close(pidfd)
    return peak, high, timed_out


def pss_bytes(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss_Anon:") or
                       line.startswith("Pss_Shmem:"))
    except OSError:
        return 0


def sample_pss(parent, peaks, stop):
    """The proportional memory of everything this process has started, every 5 ms."""
    tree, turn = [], 0
    while not stop.wait(0.005):
        if turn % 10 == 0:
            tree = descendants(parent)[1:]
        turn += 1
        peaks[0] = max(peaks[0], sum(pss_bytes(pid) for pid in tree))


def run(command, env=None, timeout_s=600):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        own_kib = memory_kib(os.getpid())[1]
        busy, own = machine_busy_s(), own_cpu_s()
        start = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True
        )
        try:
            peak, high, timed_out = watch(process, start + timeout_s)
        except BaseException:  # Ctrl-C does not reach it by itself: it leads a session of its own
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        wall = time.monotonic() - start
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        others = (machine_busy_s() - busy) - cpu - (own_cpu_s() - own)
        if usage.ru_maxrss > own_kib * 1.2:
            high = max(high, usage.ru_maxrss)
        out.seek(0)
        err.seek(0)
        return Run(
            rc=process.returncode,
            wall_s=wall,
            cpu_s=cpu,
            peak_mib=peak / 1024,
            hwm_mib=high / 1024,
            foreign=max(0.0, others) / (wall * (os.cpu_count() or 1)),
            stdout=out.read().decode(errors="replace"),
            stderr=err.read().decode(errors="replace"),
            timed_out=timed_out,
        )


def use_memory(size):
    """Uses about so much memory once, in a process that ends, so that what is measured next gets pages that the machine has used before. Where a
    host gives a virtual machine its memory on demand, and takes back what is free, the first use of a page costs six times as much as the next:
    the more rows a job has, the slower it looks."""
    with open("/proc/meminfo") as f:
        available = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))
    size = max(1, min(size, available // 2))
    fill = f"import mmap; m = mmap.mmap(-1, {size}); [m.__setitem__(at, 1) for at in range(0, {size}, mmap.PAGESIZE)]"
    subprocess.run([sys.executable, "-c", fill], check=True)


def probe_disk(folder, size):
    """(written, read) bytes a second of a file where weir would spill: the best that was seen, so that a moment in which others use the disk does
    not make the bound look low. Once through the page cache, with what is dirty waited for and what is clean let go of; twice past it,
    two threads at a time, which is what the disk does without the processors' copies. None of it is read from memory."""
    rates = [probe_once(folder, size, direct) for direct in (False, True, True)]
    return tuple(max(rate[way] for rate in rates if rate) for way in (0, 1))


def probe_once(folder, size, direct, step=4 << 20, threads=2):
    """One pass; None where the file system cannot go past the page cache."""
    import concurrent.futures

    path = folder / f"probe-{os.getpid()}"
    flags = os.O_RDWR | os.O_CREAT | (os.O_DIRECT if direct else 0)
    try:
        fd = os.open(path, flags, 0o600)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    blocks = [mmap.mmap(-1, step) for _ in range(threads)]
    for block in blocks:
        block[:] = os.urandom(step)

    def in_threads(call):
        def work(number):
            for offset in range(number * step, size - step + 1, threads * step):
                if call(blocks[number], offset) != step:
                    raise OSError("less than a block")

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        if not direct:
            os.fdatasync(fd)
        return time.monotonic() - begun

    try:
        os.posix_fallocate(fd, 0, size)
        written = in_threads(lambda block, offset: os.pwrite(fd, block, offset))
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        read = in_threads(lambda block, offset: os.preadv(fd, [block], offset))
    finally:
        os.close(fd)
        path.unlink(missing_ok=True)
    done = size // step * step
    return done / written, done / read
