"""The session as another process sees it: a worker, a data worker, or whoever was given a reference.

    any thread ──request──▶ connection ──▶ node          the thread that waits reads; with several, one reads for all

A worker's main thread reads too when it has nothing to do, or always, when its actor runs calls in other threads. Replies go to
whoever asked, tasks into a queue. References are counted here, and only their first and last is told to the node; the garbage
collector may drop some inside anything, so it only notes their numbers, which go with the next message.
"""
from __future__ import annotations

import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from weir.core import channel, errors, ids, objects, runtime
from weir.core import messages as m
from weir.core.payload import Dumped, Map, Payload, open_map
from weir.core.runtime import Wanted
from weir.core.tasks import Task

DROPS_MAX = 256  # at once


class Slot:
    """Somebody who waits for a reply."""

    __slots__ = ("number", "event", "answer", "fds", "is_there", "callback")

    def __init__(self, callback: Callable[[], None] | None = None) -> None:
        self.number = 0
        self.event = threading.Lock()
        self.event.acquire()
        self.answer: Any = None
        self.fds: list[int] = []
        self.is_there = False
        self.callback = callback

    def sleep(self) -> None:
        """Until somebody calls wake. An exception that a signal raises here loses nothing."""
        self.event.acquire()

    def wake(self) -> None:
        """Makes the one who waits look again."""
        try:
            self.event.release()
        except RuntimeError:  # it is awake
            pass


class Client:
    """See the top. The same calls as the driver's Node."""

    is_driver = False

    def __init__(self, connection: channel.Connection, address: str) -> None:
        self.connection = connection
        self.address = address
        self.lock = threading.Lock()     # guards slots, counts, number
        self.reading = threading.Lock()  # whoever has it reads
        self.slots: dict[int, Slot] = {}
        self.number = 0
        self.counts: dict[bytes, int] = {}
        self.drops: deque[bytes] = deque()
        self.maps: weakref.WeakValueDictionary[bytes, Map] = weakref.WeakValueDictionary()
        self.inbox: deque[tuple[tuple[Any, ...], list[int]]] = deque()  # what is not a reply
        self.cancelled: set[bytes] = set()  # tasks, also those whose cancelling still lies in the inbox behind them
        self.idle = Slot()               # the main thread, when it waits for the inbox
        self.has_reader = False          # a thread reads all the time

    @classmethod
    def connected(cls, address: str) -> Client:
        """A client of the session with this address."""
        channel.more_descriptors()
        return cls(channel.connect(address), address)

    # ---- talking ----

    def send(self, message: tuple[Any, ...], fds: Sequence[int] = ()) -> None:
        """A word that is not answered."""
        if self.drops:
            self.flush_drops()
        try:
            self.connection.send(pickle.dumps(message, 5), fds)
        except EOFError:
            raise _over() from None

    def _ask(self, kind: int, *words: Any, callback: Callable[[], None] | None = None) -> Slot:
        slot = Slot(callback)
        with self.lock:
            self.number += 1
            slot.number = self.number
            self.slots[slot.number] = slot
        try:
            self.send((kind, slot.number, *words))
        except BaseException:
            with self.lock:
                self.slots.pop(slot.number, None)
            raise
        return slot

    def request(self, kind: int, *words: Any) -> tuple[Any, list[int]]:
        """A word and its answer."""
        slot = self._ask(kind, *words)
        try:
            self._await(slot, lambda: slot.is_there)
        except BaseException:
            self._give_up(slot)
            raise
        return slot.answer, slot.fds

    def _give_up(self, slot: Slot) -> None:
        """Nobody waits for it any more, so that nobody is to be woken in its place, and the node is not to think that somebody waits."""
        with self.lock:
            is_open = self.slots.pop(slot.number, None) is not None
        for fd in slot.fds:
            os.close(fd)
        if is_open:
            try:
                self.send((m.FORGET, slot.number))
            except RuntimeError:  # the session has ended, and what is raised already says so
                return

    def _await(self, slot: Slot, is_over: Callable[[], Any]) -> None:
        while not is_over():
            if self.reading.acquire(False):
                try:
                    while not is_over():
                        try:
                            self._take(*self.connection.recv())
                        except EOFError:
                            raise _over() from None
                finally:
                    self.reading.release()
                    self._wake_one(slot)
            else:
                slot.sleep()

    def _wake_one(self, but: Slot) -> None:
        """Somebody else who waits is to read now."""
        with self.lock:
            other = next((slot for slot in self.slots.values() if slot is not but and slot.callback is None), None)
        for slot in (other, self.idle if but is not self.idle else None):
            if slot is not None:
                slot.wake()

    def _take(self, data: bytes, fds: list[int]) -> None:
        message = pickle.loads(data)
        if message[0] != m.REPLY:
            if message[0] == m.CANCEL:
                self.cancelled.add(message[1])
            self.inbox.append((message, fds))
            self.idle.wake()
            return
        with self.lock:
            slot = self.slots.pop(message[1], None)
        if slot is None:
            for fd in fds:
                os.close(fd)
            return
        slot.answer, slot.fds, slot.is_there = message[2], fds, True
        if slot.callback is not None:
            slot.callback()
        slot.wake()

    def next_message(self) -> tuple[tuple[Any, ...], list[int]]:
        """The next word of the node's own, for the main thread of a worker."""
        if not self.inbox:
            if self.drops:
                self.flush_drops()
            self._await(self.idle, lambda: self.inbox)
        return self.inbox.popleft()

    def look(self) -> None:
        """Takes what has come, without waiting."""
        if self.reading.acquire(False):
            try:
                while messages := self.connection.take():  # one read ends at a message with descriptors
                    for data, fds in messages:
                        self._take(data, fds)
            finally:
                self.reading.release()
                self._wake_one(self.idle)  # one may have come to read meanwhile

    # ---- Runtime ----

    def put(self, dumped: Dumped | Payload, id: bytes | None = None) -> bytes:
        """See Runtime."""
        id = id or ids.new_object()
        payload, fd = (dumped, -1) if isinstance(dumped, Payload) else self.stored(dumped)
        self.counts[id] = self.counts.get(id, 0) + 1
        self._send_payload((m.PUT, id, tuple(payload)), fd)
        return id

    def stored(self, dumped: Dumped) -> tuple[Payload, int]:
        """A value in shared memory for which the node has room, or in a file of the node's."""
        file = -1
        if dumped.size:
            refusal, fds = self.request(m.RESERVE, dumped.size)
            if refusal is not None:
                raise errors.raised(Payload(*refusal))
            file = fds[0] if fds else -1
        return dumped.store(file)

    def _send_payload(self, message: tuple[Any, ...], fd: int) -> None:
        try:
            self.send(message, [fd] if fd >= 0 else [])
        finally:
            if fd >= 0:
                os.close(fd)

    def get(self, wanted: Sequence[bytes], timeout: float | None) -> list[tuple[Payload, Map | None]] | None:
        """See Runtime."""
        answer, fds = self.request(m.GET, list(wanted), timeout)
        return None if answer is None else self.mapped(answer, fds)

    def mapped(self, answer: Sequence[tuple[bytes, tuple[Any, ...]]], fds: list[int]) -> list[tuple[Payload, Map | None]]:
        """Values that have come, mapped; maps of one object are shared."""
        made: list[tuple[Payload, Map | None]] = []
        rest = iter(fds)
        for id, fields in answer:
            payload = Payload(*fields)
            if not payload.size:
                made.append((payload, None))
                continue
            fd = next(rest)
            shared = self.maps.get(id)
            if shared is None:
                self.hold(id)
                shared = self.maps[id] = open_map(fd, payload.size, objects.own(id))
            os.close(fd)
            made.append((payload, shared))
        return made

    def wait(self, wanted: Sequence[Wanted], count: int, timeout: float | None) -> set[Wanted]:
        """See Runtime."""
        answer, _ = self.request(m.WAIT, list(wanted), count, timeout)
        if isinstance(answer, Exception):
            raise answer
        there: set[Wanted] = answer
        return there

    def submit(self, task: Task, dumped: Dumped) -> None:
        """See Runtime."""
        payload, fd = self.stored(dumped)
        for id in task.outputs():
            self.counts[id] = 1
        if task.kind == 1:
            self.counts[task.actor] = 1
        self._send_payload((m.SUBMIT, task.fields(), tuple(payload)), fd)

    def next_of(self, id: bytes, index: int, timeout: float | None) -> bytes | bool | None:
        """See Runtime."""
        answer, _ = self.request(m.NEXT, id, index, timeout)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            with self.lock:
                self.counts[answer] = self.counts.get(answer, 0) + 1
        found: bytes | bool | None = answer
        return found

    def call(self, name: str, *args: Any) -> Any:
        """See Runtime."""
        (is_fine, answer), _ = self.request(m.CALL, name, args)
        if not is_fine:
            raise answer
        return answer

    def when_ready(self, id: bytes, done: Callable[[], None]) -> None:
        """See Runtime."""
        if self.has_reader:
            self._ask(m.WAIT, [id], 1, None, callback=done)
            return

        def wait() -> None:
            try:
                self.wait([id], 1, None)
            finally:
                done()

        threading.Thread(target=wait, name="weir-future", daemon=True).start()

    # ---- references ----

    def hold(self, id: bytes) -> None:
        """See Runtime."""
        with self.lock:  # the node hears of the first and the last in their order
            count = self.counts.get(id, 0)
            self.counts[id] = count + 1
            if not count:
                self.connection.send(pickle.dumps((m.HOLD, [id]), 5))

    def drop(self, id: bytes) -> None:
        """See Runtime."""
        self.drops.append(id)

    def flush_drops(self) -> None:
        """Tells the node what this process has no references to any more."""
        gone: list[bytes] = []
        with self.lock:
            while self.drops and len(gone) < DROPS_MAX:
                id = self.drops.popleft()
                count = self.counts.get(id, 0)
                if count > 1:
                    self.counts[id] = count - 1
                elif count == 1:
                    del self.counts[id]
                    gone.append(id)
            if gone:
                try:
                    self.connection.send(pickle.dumps((m.DROP, gone), 5))
                except EOFError:
                    raise _over() from None

    def close(self) -> None:
        """Leaves the session."""
        self.connection.close()
        runtime.forget(self)


def _over() -> Exception:
    return RuntimeError("the session that this process belongs to has ended")
