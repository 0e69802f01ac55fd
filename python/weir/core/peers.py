"""A process that talks to the node: what it refers to, what it waits for.

What a peer has goes with it: when its end of the connection closes, its references are dropped and its requests forgotten.
"""
from __future__ import annotations

import os
import pickle
import select
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weir.core import errors
from weir.core import messages as m
from weir.core.channel import Closed, Connection
from weir.core.payload import Payload
from weir.core.tasks import Task

if TYPE_CHECKING:
    from weir.core.node import Node
    from weir.core.runtime import Wanted


class Peer:
    """One connection. All of it under the node's lock."""

    def __init__(self, node: Node, connection: Connection) -> None:
        self.node = node
        self.connection = connection
        self.held: dict[bytes, int] = {}
        self.reserved = 0   # memory that it is about to put objects into
        self.inbox: list[tuple[tuple[Any, ...], list[int]]] = []
        self.is_closed = False  # the other end, after what is in the inbox
        self.waits: set[int] = set()  # its requests that wait for somebody else's work
        self.is_gone = False
        node.peers.add(self)
        node.watch(connection.fileno(), self.on_event)

    # ---- talking ----

    def post(self, message: tuple[Any, ...], fds: Sequence[int] = ()) -> None:
        """Sends it, now or when there is room. What is said to one that is gone is lost: its end is seen elsewhere."""
        if self.is_gone:
            return
        try:
            if not self.connection.post(pickle.dumps(message, 5), fds):
                self.node.epoll.modify(self.connection.fileno(), select.EPOLLIN | select.EPOLLOUT)
        except Closed:
            return

    def read(self) -> None:
        """What it has said, into the inbox. In the node's thread, with or without the lock."""
        try:
            self.inbox += [(pickle.loads(data), fds) for data, fds in self.connection.take()]
        except Closed:
            self.is_closed = True

    def on_event(self, what: int) -> None:
        """Something can be read or written."""
        if what & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self.read()
        self.on_inbox(what)

    def on_inbox(self, what: int) -> None:
        """Does what it was told to do."""
        inbox, self.inbox = self.inbox, []
        try:
            if what & select.EPOLLOUT and self.connection.flush():
                self.node.epoll.modify(self.connection.fileno(), select.EPOLLIN)
            while inbox:
                self.on_message(*inbox.pop(0))
        except Closed:
            self.is_closed = True
        if self.is_closed:
            for _, fds in inbox:
                close_all(fds)
            self.on_closed()

    def on_message(self, message: tuple[Any, ...], fds: list[int]) -> None:
        """One word of the peer's."""
        kind = message[0]
        if kind == m.GET:
            self._get(*message[1:])
        elif kind == m.WAIT:
            self._wait(*message[1:])
        elif kind == m.NEXT:
            self._next(*message[1:])
        elif kind == m.FORGET:
            self._forget(message[1])
        elif kind == m.CREDIT:
            self._credit(*message[1:])
        elif kind == m.RESERVE:
            self._reserve(*message[1:])
        elif kind == m.PUT:
            _, id, payload = message
            payload = self.arrived(payload)
            self.node.store.create(id)
            self.node.store.fill(id, payload, fds[0] if fds else -1)
            self.held[id] = 1
        elif kind == m.SUBMIT:
            _, fields, payload = message
            task = Task.of(fields)
            task.peer = self
            self.node.begin(task, self.arrived(payload), fds[0] if fds else -1)
            for id in task.outputs():
                self.held[id] = 1
        elif kind == m.HOLD:
            for id in message[1]:
                if self.node.store.hold(id):
                    self.held[id] = self.held.get(id, 0) + 1
        elif kind == m.DROP:
            for id in message[1]:
                self._drop(id)
        elif kind == m.CALL:
            _, number, name, args = message
            try:
                self.reply(number, (True, self.node.calls.run(self, name, args)))
            except Exception as error:
                self.reply(number, (False, error))
        else:
            raise Closed(f"a peer says {kind!r}")

    def arrived(self, payload: tuple[Any, ...]) -> Payload:
        """A payload whose memory the peer had reserved is the node's now."""
        made = Payload(*payload)
        self.reserved -= made.charged
        return made

    def reply(self, number: int, answer: Any, fds: Sequence[int] = ()) -> None:
        """The answer to request `number`."""
        self.post((m.REPLY, number, answer), fds)

    def _drop(self, id: bytes) -> None:
        count = self.held.get(id, 0)
        if count > 1:
            self.held[id] = count - 1
        else:
            self.held.pop(id, None)
        if count:
            self.node.store.drop(id)

    # ---- waiting ----

    def blocks(self) -> None:
        """It waits for somebody else's work."""

    def goes_on(self) -> None:
        """It does not any more."""

    def _later(self, number: int, timeout: float | None, answer: Callable[[bool], None]) -> Callable[[], None]:
        """Something to be called when what is waited for is there; `answer` is called by then, or when time is up."""
        def over(is_there: bool) -> None:
            if self._forget(number):
                answer(is_there)

        self.waits.add(number)
        self.blocks()
        if timeout is not None:
            self.node.at(timeout, lambda: over(False))
        return lambda: over(True)

    def _forget(self, number: int) -> bool:
        """It does not wait for this any more. False: it did not."""
        if self.is_gone or number not in self.waits:
            return False
        self.waits.discard(number)
        self.goes_on()
        return True

    def _get(self, number: int, wanted: list[bytes], timeout: float | None) -> None:
        from weir.core.node import Waiting

        node = self.node

        def answer(is_there: bool) -> None:
            if not is_there:
                self.reply(number, None)
                return
            there = [(id, node.store.entries[id]) for id in wanted if id in node.store.entries]
            there = [(id, entry) for id, entry in there if entry.payload is not None]
            for _, entry in there:
                entry.lent = True
            self.reply(number, [(id, tuple(entry.payload or ())) for id, entry in there],
                       [entry.fd for _, entry in there if entry.fd >= 0])

        try:
            pending, is_error = node.pending(wanted)
        except Exception as error:
            self.reply(number, [(wanted[0], tuple(errors.of_system(error)))])
            return
        if not pending or is_error:
            answer(True)
        elif timeout == 0:
            answer(False)
        else:
            node.attach(pending, Waiting(len(pending), self._later(number, timeout, answer), True))

    def _wait(self, number: int, wanted: list[Wanted], count: int, timeout: float | None) -> None:
        from weir.core.node import Waiting

        node = self.node
        try:
            there = node.there(wanted)
        except Exception as error:
            self.reply(number, error)
            return
        if len(there) >= count or timeout == 0:
            self.reply(number, there)
            return
        done = self._later(number, timeout, lambda is_there: self.reply(number, node.there(wanted)))
        node.attach([id for id in wanted if id not in there], Waiting(count - len(there), done, False))

    def _reserve(self, number: int, size: int) -> None:
        """Answers with nothing: the memory is there; with a descriptor: the object goes to disk; or with an error."""
        try:
            if self.node.store.reserve(size):
                self.reserved += size
                self.reply(number, None)
                return
            fd = self.node.file(size)
        except OSError as error:
            self.reply(number, errors.of_system(self.node.full(size, error)))
            return
        except Exception as error:
            self.reply(number, errors.of_system(error))
            return
        try:
            self.reply(number, None, [fd])
        finally:
            os.close(fd)

    def _credit(self, number: int, id: bytes, wanted: int) -> None:
        """Answers when so many items of a generator were taken: how many; -1: nobody has it any more."""
        streams = self.node.streams

        def answer() -> None:
            stream = streams.streams.get(id)
            self.reply(number, -1 if stream is None else len(stream.taken))

        stream = streams.streams.get(id)
        if stream is None or len(stream.taken) >= wanted:
            answer()
        else:
            stream.credit.append((wanted, answer))

    def _next(self, number: int, id: bytes, index: int, timeout: float | None) -> None:
        node = self.node

        def answer(is_there: bool) -> None:
            found = node.streams.next(id, index) if is_there else None
            if isinstance(found, bytes):
                self.held[found] = self.held.get(found, 0) + 1
            self.reply(number, found)

        try:
            found = node.streams.next(id, index, take=False)
        except Exception as error:
            self.reply(number, error)
            return
        if found is not None or timeout == 0:
            answer(found is not None)
        else:
            node.streams.when(id, index, self._later(number, timeout, answer))

    # ---- the end ----

    def on_closed(self) -> None:
        """The other end is gone."""
        self.end()

    def end(self) -> None:
        """Lets go of all that it had. May be called twice."""
        if self.is_gone:
            return
        self.is_gone = True
        self.node.unwatch(self.connection.fileno())
        self.connection.close()
        for _, fds in self.inbox:
            close_all(fds)
        self.inbox.clear()
        self.node.peers.discard(self)
        held, self.held = self.held, {}
        for id, count in held.items():
            for _ in range(count):
                self.node.store.drop(id)
        self.node.store.release(self.reserved)
        self.reserved = 0


def close_all(fds: Sequence[int]) -> None:
    """Descriptors of a message that nobody wants."""
    for fd in fds:
        os.close(fd)
