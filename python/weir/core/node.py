"""The driver's node: one thread with a selector, one lock, and under it the objects, tasks, actors and workers.

    driver's threads ──submit, get, wait──▶ ┌ lock ────────────────────────────┐ ◀──messages── workers, data workers, other
    (send to an idle worker themselves)     │ Store  Scheduler  Actors  Pool   │ ──────────▶   processes of the session
                                            └──────────────────────────────────┘
                                                      ▲ thread "weir-node": what workers say and print, deaths, timers

A call goes from the thread that makes it straight to an idle worker; what comes back wakes whoever waits. Bytes of values lie in
memfds, of which the node has the descriptors; messages are small.

Locks: `lock` guards everything here and below. Nothing waits inside it. drop() may be called by the garbage collector anywhere,
also inside the lock, and so only notes the number.
"""
from __future__ import annotations

import heapq
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from weir import _session
from weir.core import door, errors, ids, objects, runtime, spill
from weir.core.actors import Actors
from weir.core.calls import Calls
from weir.core.channel import Connection, more_descriptors
from weir.core.memory_watch import MemoryWatch
from weir.core.payload import Dumped, Map, Payload
from weir.core.peers import Peer
from weir.core.resources import Pool
from weir.core.runtime import Wanted
from weir.core.scheduler import Scheduler
from weir.core.store import Store
from weir.core.streams import Streams
from weir.core.tasks import STREAMING, Task


class Waiting:
    """Calls done() once: when `count` of the objects are there, or, if asked, when one of them is an error."""

    __slots__ = ("left", "done", "stops_at_error", "is_over")

    def __init__(self, count: int, done: Callable[[], None], stops_at_error: bool) -> None:
        self.left = count
        self.done = done
        self.stops_at_error = stops_at_error
        self.is_over = False

    def __call__(self, id: bytes, is_error: bool) -> None:
        self.left -= 1
        if (self.left <= 0 or (is_error and self.stops_at_error)) and not self.is_over:
            self.is_over = True
            self.done()


class Item:
    """A Waiting among those of a generator."""

    __slots__ = ("waiting",)

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.waiting.is_over

    def __call__(self) -> None:
        self.waiting(b"", False)


class Node:
    """See the top. It ends with the session."""

    is_driver = True

    def __init__(self) -> None:
        state = _session.current()
        self.state = state
        self.session = state.id
        self.lock = threading.Lock()
        self.store = Store(self._charge, self._room, state.spill_dir, self._in_use)
        self.pool = Pool(_total(state), _gpus(state))
        self.epoll = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.firsts: dict[int, Callable[[], object]] = {}
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.timer_count = itertools.count()
        self.drops: deque[bytes] = deque()
        self.peers: set[Peer] = set()
        self.later: deque[Callable[[], None]] = deque()
        self.is_closed = False
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.epoll.register(self.wake_fd, select.EPOLLIN)
        self.streams = Streams(self)
        self.scheduler = Scheduler(self)
        self.actors = Actors(self)
        self.memory = MemoryWatch(self)
        self.calls = Calls(self)
        self.store.on_actor = self.actors.count
        self.store.on_freed = self._freed
        self.server = door.server(state)
        self.address = self.server.address
        self.thread = threading.Thread(target=self._run, name="weir-node", daemon=True)
        self.thread.start()
        _session.at_shutdown(self.close)
        more_descriptors()

    # ---- the thread ----

    def _run(self) -> None:
        while True:
            timeout = -1.0
            if self.timers:
                timeout = max(0.0, self.timers[0][0] - time.monotonic())
            try:
                events = self.epoll.poll(timeout)
            except (OSError, ValueError):  # closed
                return
            for fd, _ in events:
                first = self.firsts.get(fd)
                if first is not None:
                    first()
            with self.lock:
                if self.is_closed:
                    return
                for fd, what in events:
                    handler = self.handlers.get(fd)
                    if handler is not None:
                        handler(what)
                    elif fd == self.wake_fd:
                        os.read(fd, 8)
                now = time.monotonic()
                while self.timers and self.timers[0][0] <= now:
                    heapq.heappop(self.timers)[2]()
                self._drop_all()
                self.scheduler.dispatch()
            while self.later:
                self.later.popleft()()

    def defer(self, function: Callable[[], None]) -> None:
        """Calls it in the thread, without the lock. Under the lock."""
        self.later.append(function)
        if threading.current_thread() is not self.thread:
            self.wake()

    def wake(self) -> None:
        """Makes the thread look at its timers."""
        os.write(self.wake_fd, (1).to_bytes(8, "little"))

    def at(self, delay: float, function: Callable[[], None]) -> None:
        """Calls it in the thread, under the lock, after so many seconds. Under the lock."""
        heapq.heappush(self.timers, (time.monotonic() + delay, next(self.timer_count), function))
        if threading.current_thread() is not self.thread:
            self.wake()

    def watch(self, fd: int, handler: Callable[[int], None]) -> None:
        """Calls it when there is something to be read."""
        self.handlers[fd] = handler
        self.epoll.register(fd, select.EPOLLIN)

    def watch_first(self, fd: int, handler: Callable[[], object]) -> None:
        """Calls it without the lock, and before all that is called with it; also for a descriptor that is watched."""
        self.firsts[fd] = handler
        if fd not in self.handlers:
            self.epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """No more."""
        first, handler = self.firsts.pop(fd, None), self.handlers.pop(fd, None)
        if first is not None or handler is not None:
            try:
                self.epoll.unregister(fd)
            except (OSError, ValueError):
                pass

    def connected(self, connection: Connection) -> bool:
        """A process has come. False: too late."""
        with self.lock:
            if self.is_closed:
                return False
            Peer(self, connection)
        return True

    # ---- objects: the driver's side ----

    def _charge(self, size: int) -> bool:
        return self.state.native.charge(size)

    def _room(self) -> int:
        memory = self.state.native.memory()
        return memory["limit"] - memory["used"]

    def _in_use(self) -> set[bytes]:
        """Objects that other processes have references to, or are given now."""
        found = {id for peer in self.peers for id in peer.held}
        for peer in self.peers:
            for task in getattr(peer, "tasks", {}).values():
                found.update(task.needs)
                found.add(task.function)
        return found

    def reserve(self, size: int) -> bool:
        """Counts memory for an object. False: it has to go to disk. Not under the lock."""
        with self.lock:
            self._drop_all()
            try:
                return self.store.reserve(size)
            except OSError as error:
                raise self.full(size, error) from None

    def file(self, size: int) -> int:
        """A file on disk for an object that memory has no room for, or an error."""
        try:
            return spill.file(self.store.folder, size)
        except OSError as error:
            raise self.full(size, error) from None

    def full(self, size: int, error: OSError) -> Exception:
        """The error for an object of so many bytes that finds no room on disk either."""
        from weir.exceptions import OutOfDiskError

        memory = self.state.native.memory()
        return OutOfDiskError(
            f"no room for an object of {size:,} bytes: of the limit of {memory['limit']:,} bytes {memory['used']:,} are in use, "
            f"{self.store.bytes:,} of them by objects, and {self.store.folder} takes no more: {error.strerror or error}. Drop references to "
            "objects that are no longer needed, or call weir.init(memory_limit=…, spill_dir=…) with more, or another folder")

    def stored(self, dumped: Dumped) -> tuple[Payload, int]:
        """A value in shared memory that is counted, or on disk. Not under the lock."""
        if not dumped.size:
            return dumped.store()
        if not self.reserve(dumped.size):
            return dumped.store(self.file(dumped.size))
        try:
            return dumped.store()
        except BaseException:
            with self.lock:
                self.store.release(dumped.size)
            raise

    def put(self, dumped: Dumped | Payload, id: bytes | None = None) -> bytes:
        """See Runtime."""
        id = id or ids.new_object()
        payload, fd = (dumped, -1) if isinstance(dumped, Payload) else self.stored(dumped)
        with self.lock:
            self._open()
            self.store.create(id)
            self.store.fill(id, payload, fd)
        return id

    def get(self, wanted: Sequence[bytes], timeout: float | None) -> list[tuple[Payload, Map | None]] | None:
        """See Runtime."""
        store = self.store
        done = threading.Lock()
        with self.lock:
            self._open()
            pending, is_error = self.pending(wanted)
            if not pending or is_error:
                return self._views(wanted)
            done.acquire()
            self.attach(pending, Waiting(len(pending), done.release, True))
        self.finish_drops()
        if not done.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return None
        with self.lock:
            self._open()
            return self._views([id for id in wanted if id not in store.entries or store.entries[id].payload is not None])

    def pending(self, wanted: Sequence[bytes]) -> tuple[list[bytes], bool]:
        """Those that are still to come, and whether one of the others is an error. Under the lock."""
        entries = self.store.entries
        pending = []
        for id in wanted:
            entry = entries.get(id)
            if entry is None:
                raise self.lost(id)
            if entry.payload is None:
                pending.append(id)
            elif entry.payload.kind:
                return [], True
        return (pending if len(pending) < 2 else list(dict.fromkeys(pending))), False

    def attach(self, pending: Sequence[Wanted], waiting: Waiting) -> None:
        """Tells it when they come. Under the lock."""
        for id in pending:
            if isinstance(id, tuple):
                self.streams.when(*id, Item(waiting))
                continue
            entry = self.store.entries[id]
            if entry.waiters is None:
                entry.waiters = []
            else:
                entry.waiters = [waiter for waiter in entry.waiters if not getattr(waiter, "is_over", False)]
            entry.waiters.append(waiting)

    def lost(self, id: bytes) -> Exception:
        """The error for a number that nobody knows."""
        from weir.exceptions import ObjectLostError

        return ObjectLostError(f"the object {id.hex()} is gone: it belongs to a session that has ended, or to another one")

    def _views(self, wanted: Sequence[bytes]) -> list[tuple[Payload, Map | None]]:
        made = []
        for id in wanted:
            entry = self.store.entries.get(id)
            if entry is None:
                raise self.lost(id)
            if entry.payload is not None:
                made.append(self.store.view(id, objects.own))
        return made

    def wait(self, wanted: Sequence[Wanted], count: int, timeout: float | None) -> set[Wanted]:
        """See Runtime."""
        done = threading.Lock()
        with self.lock:
            self._open()
            there = self.there(wanted)
            if len(there) >= count or timeout == 0:
                return there
            done.acquire()
            waiting = Waiting(count - len(there), done.release, False)
            self.attach([id for id in wanted if id not in there], waiting)
        self.finish_drops()
        done.acquire(timeout=-1 if timeout is None else timeout)
        with self.lock:
            waiting.is_over = True
            return self.there(wanted)

    def there(self, wanted: Sequence[Wanted]) -> set[Wanted]:
        """Those that have a value. Under the lock."""
        entries = self.store.entries
        found: set[Wanted] = set()
        for id in wanted:
            if isinstance(id, tuple):
                if self.streams.next(*id, take=False) is not None:
                    found.add(id)
                continue
            entry = entries.get(id)
            if entry is None:
                raise self.lost(id)
            if entry.payload is not None:
                found.add(id)
        return found

    def next_of(self, id: bytes, index: int, timeout: float | None) -> bytes | bool | None:
        """See Runtime."""
        done = threading.Lock()
        with self.lock:
            self._open()
            found = self.streams.next(id, index)
            if found is not None or timeout == 0:
                return found
            done.acquire()
            self.streams.when(id, index, done.release)
        if not done.acquire(timeout=-1 if timeout is None else timeout):
            return None
        with self.lock:
            return self.streams.next(id, index)

    def when_ready(self, id: bytes, done: Callable[[], None]) -> None:
        """See Runtime."""
        with self.lock:
            self._open()
            pending, _ = self.pending([id])
            if pending:
                self.attach(pending, Waiting(1, lambda: self.defer(done), True))
                return
        done()

    # ---- references ----

    def hold(self, id: bytes) -> None:
        """See Runtime."""
        with self.lock:
            self.store.hold(id)

    def drop(self, id: bytes) -> None:
        """See Runtime."""
        self.drops.append(id)
        if self.lock.acquire(False):  # else whoever has it looks after itself
            try:
                self._drop_all()
            finally:
                self.lock.release()

    def _drop_all(self) -> None:
        while self.drops:
            self.store.drop(self.drops.popleft())

    def finish_drops(self) -> None:
        """What was noted while the lock was held."""
        if self.drops and self.lock.acquire(False):
            try:
                self._drop_all()
            finally:
                self.lock.release()

    def _freed(self, id: bytes) -> None:
        self.streams.freed(id)
        self.scheduler.forget(id)

    # ---- tasks ----

    def submit(self, task: Task, dumped: Dumped) -> None:
        """See Runtime."""
        self.scheduler.check(task)
        payload, fd = self.stored(dumped)
        with self.lock:
            self._open()
            self.begin(task, payload, fd)
            self.scheduler.dispatch()
        if self.drops:
            self.finish_drops()

    def begin(self, task: Task, payload: Payload, fd: int) -> None:
        """Takes a task on. Under the lock."""
        task.args, task.args_fd = payload, fd
        for id in task.outputs():
            self.store.create(id, 1, task)
        if task.returns == STREAMING:
            self.streams.begin(task)
        self.scheduler.add(task)

    def call(self, name: str, *args: Any) -> Any:
        """See Runtime."""
        with self.lock:
            self._open()
            result = self.calls.run(None, name, args)
            self.scheduler.dispatch()
        return result

    # ---- the end ----

    def _open(self) -> None:
        if self.is_closed:
            raise RuntimeError("the session has ended: weir.shutdown() was called")

    def close(self) -> None:
        """Ends all workers and forgets all objects. Whoever waits gets an error."""
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self.scheduler.close()
            entries = list(self.store.entries.items())
            gone = errors.of_system(RuntimeError("the session has ended: weir.shutdown() was called"))
            for id, entry in entries:
                if entry.waiters:
                    self.store.fill(id, gone, -1)
            for peer in list(self.peers):
                peer.end()
            self.store.close()
            self.wake()
        runtime.forget(self)
        self.server.close()
        if threading.current_thread() is not self.thread:
            self.thread.join(2)
        self.epoll.close()
        os.close(self.wake_fd)


def _total(state: Any) -> dict[str, float]:
    return {name: amount for name, amount in _session.cluster_resources().items() if name != "object_store_memory"}


def _gpus(state: Any) -> list[str]:
    from weir import _call

    return _call.gpu_pool(state.num_gpus) if state.num_gpus != 0 else []
