"""Ends the process of a task or an actor before the machine runs out of memory, as Ray's memory monitor does.

The memory limit covers objects, but not what the code of tasks and actors allocates: a model that an actor keeps may be larger than
the limit, as in Ray. So while any of them works, the memory of the machine and of its cgroups is looked at. When too much of it is
in use, the process that has most memory of its own is killed, and its task gets an OutOfMemoryError with the figures once its
retries are used up. Otherwise the kernel would kill some process, perhaps the driver.

    RAY_memory_usage_threshold     the part of the memory above which a process is killed (0.95)
    RAY_memory_monitor_refresh_ms  how often it is looked at (250); 0: never
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weir.core.node import Node
    from weir.core.processes import WorkerProcess

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


class Usage(NamedTuple):
    """Bytes in use, of so many."""

    used: int
    total: int

    @property
    def part(self) -> float:
        """From 0 to 1."""
        return self.used / self.total


def usage() -> Usage:
    """That of the machine, or of one of this process's cgroups if more of its memory is in use."""
    return max(_usages(), key=lambda found: found.part)


def _usages() -> Iterator[Usage]:
    fields = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        fields[name] = int(value.split()[0]) << 10
    yield Usage(fields["MemTotal"] - fields["MemAvailable"], fields["MemTotal"])
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:  # a kernel without cgroups
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            yield from _of_cgroups(CGROUPS, place, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            yield from _of_cgroups(CGROUPS / "memory", place, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _of_cgroups(root: Path, place: str, limit: str, current: str, cache: str) -> Iterator[Usage]:
    """Those of a group and of all around it that have a limit. File pages that nobody has used lately are free."""
    at = root / place.strip("/")
    for folder in (at, *at.parents):
        try:
            total = int((folder / limit).read_text())
            used = int((folder / current).read_text())
            stat = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
            if total > 0:
                yield Usage(max(0, used - int(stat.get(cache, 0))), total)
        except (OSError, ValueError):  # no such file, or no limit ("max")
            pass
        if folder == root:
            return


def private_bytes(pid: int) -> int:
    """What a process has of its own, 0 if it is gone."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Looks while a worker has a task. All under the node's lock."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.threshold = float(os.environ.get("RAY_memory_usage_threshold", "0.95"))
        self.refresh_s = float(os.environ.get("RAY_memory_monitor_refresh_ms", "250")) / 1000
        self.is_on = False

    def begin(self) -> None:
        """A worker has got a task."""
        if not self.is_on and self.refresh_s > 0:
            self.is_on = True
            self.node.at(self.refresh_s, self._look)

    def _look(self) -> None:
        busy = [worker for worker in self.node.scheduler.workers if worker.tasks and worker.pid and not worker.is_gone]
        self.is_on = any(worker.tasks for worker in self.node.scheduler.workers)
        if not self.is_on:
            return
        self.node.at(self.refresh_s, self._look)
        now = usage()
        # One that was killed takes a moment to give its memory back.
        if busy and now.part > self.threshold and not any(worker.killed_because for worker in busy):
            self._end(max(busy, key=lambda worker: private_bytes(worker.pid)), now)

    def _end(self, worker: WorkerProcess, now: Usage) -> None:
        worker.killed_because = (
            f"was killed because the machine was running out of memory: {now.used / 2**30:.1f} of {now.total / 2**30:.1f} GiB were in use "
            f"(threshold {self.threshold:g}), {private_bytes(worker.pid) / 2**30:.2f} of them by this process. Give tasks less to do at a time, "
            "let fewer run at once (num_cpus=…), or set RAY_memory_usage_threshold")
        worker.kill()
