"""The driver's table of objects: who refers to them, who waits for them, what memory they have.

    create(id) ─▶ pending ─▶ fill(id, payload) ─▶ there ─▶ the last drop(id) ─▶ gone, its memory too

One count for each reference in this process, for each other process that has some, for each task that needs the object and
for each object that it lies in. All of it under the node's lock.
"""
from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weir.core import ids, spill
from weir.core.payload import ERROR, Map, Payload, open_map

if TYPE_CHECKING:
    from weir.core.tasks import Task

Waiter = Callable[[bytes, bool], None]  # the object, and whether it is an error


class Entry:
    """One object. Without payload it is still to come, from `task`."""

    __slots__ = ("refs", "payload", "fd", "waiters", "task", "map", "lent")

    def __init__(self, refs: int, task: Task | None) -> None:
        self.refs = refs
        self.payload: Payload | None = None
        self.fd = -1
        self.waiters: list[Waiter] | None = None
        self.task = task
        self.map: weakref.ref[Map] | None = None
        self.lent = False  # another process has had its descriptor


class Store:
    """The objects. `charge`: counts memory against the session's limit; `room`: what it has left; `folder`: where objects go for which
    it has none; `in_use`: those that other processes may look at now."""

    def __init__(
        self, charge: Callable[[int], bool], room: Callable[[], int] = lambda: 0, folder: str = "", in_use: Callable[[], set[bytes]] = set
    ) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.charge = charge
        self.room = room
        self.folder = folder
        self.in_use = in_use
        self.spilled = 0  # bytes that were moved to disk so far
        self.on_actor: Callable[[bytes, int], None] = lambda id, change: None
        self.on_freed: Callable[[bytes], None] = lambda id: None
        self.bytes = 0

    def reserve(self, size: int) -> bool:
        """Counts memory that an object is about to take; others go to disk for it, the oldest first. False: even so there is no room."""
        if not self.charge(size) and not self._make_room(size):
            return False
        self.bytes += size
        return True

    def _make_room(self, size: int) -> bool:
        """Moves objects that nobody looks at now until there is room, which is charged. OSError: the disk is full."""
        busy = self.in_use()
        idle = [entry for id, entry in self.entries.items() if _is_idle(entry) and not (entry.lent and id in busy)]
        if self.room() + sum(entry.payload.charged for entry in idle if entry.payload is not None) < size:
            return False
        for entry in idle:
            self._spill(entry)
            if self.charge(size):
                return True
        return False

    def _spill(self, entry: Entry) -> None:
        payload = entry.payload
        assert payload is not None
        file = spill.moved(self.folder, entry.fd, payload.size)
        os.close(entry.fd)
        entry.fd, entry.map = file, None
        entry.payload = payload._replace(on_disk=True)
        self.release(payload.size)
        self.spilled += payload.size

    def release(self, size: int) -> None:
        """The opposite of reserve."""
        if size:
            self.charge(-size)
            self.bytes -= size

    def create(self, id: bytes, refs: int = 1, task: Task | None = None) -> Entry:
        """An object that is to come."""
        entry = self.entries[id] = Entry(refs, task)
        return entry

    def fill(self, id: bytes, payload: Payload, fd: int) -> None:
        """Its value; takes over the descriptor and what was reserved. Nothing is kept for an object that nobody refers to."""
        entry = self.entries.get(id)
        if entry is None or entry.payload is not None:
            if fd >= 0:
                os.close(fd)
            self.release(payload.charged)
            return
        entry.payload = payload
        entry.fd = fd
        entry.task = None
        for inner in payload.nested:
            self.hold(inner)
        waiters, entry.waiters = entry.waiters, None
        if waiters:
            is_error = payload.kind == ERROR
            for waiter in waiters:
                waiter(id, is_error)

    def hold(self, id: bytes) -> bool:
        """One more reference. False: it is gone."""
        if len(id) == ids.ACTOR:
            self.on_actor(id, 1)
            return True
        entry = self.entries.get(id)
        if entry is None:
            return False
        entry.refs += 1
        return True

    def drop(self, id: bytes) -> None:
        """One less. Unknown ones are of a session before this one."""
        if len(id) == ids.ACTOR:
            self.on_actor(id, -1)
            return
        entry = self.entries.get(id)
        if entry is None:
            return
        entry.refs -= 1
        if entry.refs > 0:
            return
        del self.entries[id]
        self.on_freed(id)
        if entry.fd >= 0:
            os.close(entry.fd)
            entry.fd = -1
        if entry.payload is not None:
            self.release(entry.payload.charged)
            for inner in entry.payload.nested:
                self.drop(inner)

    def view(self, id: bytes, make_ref: Callable[[bytes], Any]) -> tuple[Payload, Map | None]:
        """A value that is there, its memory mapped. Maps of one object are shared as long as anybody has one."""
        entry = self.entries[id]
        payload = entry.payload
        assert payload is not None
        if not payload.size:
            return payload, None
        shared = entry.map() if entry.map is not None else None
        if shared is None:
            entry.refs += 1
            shared = open_map(entry.fd, payload.size, make_ref(id))
            entry.map = weakref.ref(shared)
        return payload, shared

    def close(self) -> None:
        """All of them go."""
        for entry in self.entries.values():
            if entry.fd >= 0:
                os.close(entry.fd)
        self.entries.clear()
        self.release(self.bytes)


def _is_idle(entry: Entry) -> bool:
    """Whether it takes memory that is free once the object is elsewhere: in this process nobody has a view of it."""
    payload = entry.payload
    return payload is not None and payload.charged > 0 and entry.fd >= 0 and (entry.map is None or entry.map() is None)
