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

from weir.core import ids
from weir.core.payload import ERROR, Map, Payload, open_map

if TYPE_CHECKING:
    from weir.core.tasks import Task

Waiter = Callable[[bytes, bool], None]  # the object, and whether it is an error


class Entry:
    """One object. Without payload it is still to come, from `task`."""

    __slots__ = ("refs", "payload", "fd", "waiters", "task", "map")

    def __init__(self, refs: int, task: Task | None) -> None:
        self.refs = refs
        self.payload: Payload | None = None
        self.fd = -1
        self.waiters: list[Waiter] | None = None
        self.task = task
        self.map: weakref.ref[Map] | None = None


class Store:
    """The objects. `actors`: where references to actors are counted; `charge`: counts memory against the session's limit."""

    def __init__(self, charge: Callable[[int], bool]) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.charge = charge
        self.on_actor: Callable[[bytes, int], None] = lambda id, change: None
        self.on_freed: Callable[[bytes], None] = lambda id: None
        self.bytes = 0

    def reserve(self, size: int) -> bool:
        """Counts memory that an object is about to take. False: the limit has no room."""
        if not self.charge(size):
            return False
        self.bytes += size
        return True

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
            self.release(payload.size)
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
            self.release(entry.payload.size)
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
