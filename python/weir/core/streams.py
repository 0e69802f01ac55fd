"""Generators that run in workers: items as they come, taken one after the other.

    begin(task) ─▶ item(index) … ─▶ end() ─▶ next(index) gives the item's number, or False after the last

An item belongs to the generator until it is taken. One whose generator nobody has any more is dropped at once.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.core import ids
from weir.core.payload import Payload

if TYPE_CHECKING:
    from weir.core.node import Node
    from weir.core.tasks import Task


class Stream:
    """One generator's items, from 1 on."""

    __slots__ = ("task", "made", "taken", "total", "waiters", "credit")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.made = 0
        self.taken: set[int] = set()
        self.total: int | None = None
        self.waiters: list[tuple[int, Callable[[], None]]] = []
        self.credit: list[tuple[int, Callable[[], None]]] = []  # who makes no more before so many are taken


class Streams:
    """Those that somebody has, by their generator's number. Under the node's lock."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.streams: dict[bytes, Stream] = {}

    def begin(self, task: Task) -> None:
        self.streams[ids.object_of(task.id, 0)] = Stream(task)

    def item(self, task: Task, index: int, payload: Payload, fd: int) -> None:
        """An item has come. A second try of a task gives items again that are there: they are left."""
        stream = self.streams.get(ids.object_of(task.id, 0))
        id = ids.object_of(task.id, index)
        if stream is not None and stream.total is None and index > stream.made:
            self.node.store.create(id)
            stream.made = index
        self.node.store.fill(id, payload, fd)
        if stream is not None:
            self._tell(stream)

    def end(self, task: Task, error: Payload | None) -> None:
        """There are no more, though some may still be made: the task was cancelled. An error is the last item."""
        stream = self.streams.get(ids.object_of(task.id, 0))
        if stream is None or stream.total is not None:
            return
        if error is not None:
            self.item(task, stream.made + 1, error, -1)
        stream.total = stream.made
        credit, stream.credit = stream.credit, []
        for _, go in credit:
            go()
        self._tell(stream)

    def _tell(self, stream: Stream) -> None:
        waiters, stream.waiters = stream.waiters, []
        for index, done in waiters:
            if index <= stream.made or stream.total is not None:
                done()
            else:
                stream.waiters.append((index, done))

    def next(self, id: bytes, index: int, take: bool = True) -> bytes | bool | None:
        """The item's number, which is the caller's from now on; False: there is none, None: not yet."""
        stream = self.streams.get(id)
        if stream is None:
            raise self.node.lost(id)
        if index > stream.made:
            return None if stream.total is None else False
        item = ids.object_of(id[:ids.TASK], index)
        if take:
            if index in stream.taken:
                self.node.store.hold(item)
            stream.taken.add(index)
            credit, stream.credit = stream.credit, []
            for wanted, go in credit:
                if len(stream.taken) >= wanted:
                    go()
                else:
                    stream.credit.append((wanted, go))
        return item

    def when(self, id: bytes, index: int, done: Callable[[], None]) -> None:
        """Calls it when next() has an answer."""
        stream = self.streams[id]
        stream.waiters = [waiter for waiter in stream.waiters if not getattr(waiter[1], "is_over", False)]
        stream.waiters.append((index, done))

    def freed(self, id: bytes) -> None:
        """Nobody has the generator any more."""
        stream = self.streams.pop(id, None)
        if stream is None:
            return
        for _, go in stream.credit:
            go()
        for index in range(1, stream.made + 1):
            if index not in stream.taken:
                self.node.store.drop(ids.object_of(id[:ids.TASK], index))
