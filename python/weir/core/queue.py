"""Queue: a queue in an actor, for any number of tasks and actors at its ends."""
from __future__ import annotations

import queue as standard
from collections.abc import Iterable
from typing import Any

from weir.core import api
from weir.core.functions import remote


class Empty(standard.Empty):
    """There was nothing in the queue.

    >>> issubclass(Empty, standard.Empty)
    True
    """


class Full(standard.Full):
    """There was no room in the queue.

    >>> issubclass(Full, standard.Full)
    True
    """


class _Queue:
    """The actor."""

    def __init__(self, maxsize: int) -> None:
        import asyncio

        self.queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        return self.queue.qsize()

    async def put(self, item: Any, timeout: float | None) -> bool:
        import asyncio

        try:
            await asyncio.wait_for(self.queue.put(item), timeout)
        except (asyncio.TimeoutError, TimeoutError):
            return False
        return True

    async def get(self, timeout: float | None) -> tuple[bool, Any]:
        import asyncio

        try:
            return True, await asyncio.wait_for(self.queue.get(), timeout)
        except (asyncio.TimeoutError, TimeoutError):
            return False, None

    async def put_all(self, items: list[Any]) -> bool:
        if self.queue.maxsize > 0 and len(items) + self.queue.qsize() > self.queue.maxsize:
            return False
        for item in items:
            self.queue.put_nowait(item)
        return True

    async def get_all(self, count: int) -> list[Any] | None:
        if count > self.queue.qsize():
            return None
        return [self.queue.get_nowait() for _ in range(count)]


class Queue:
    """A first-in first-out queue that can be passed to tasks and actors.

    >>> queue = Queue(maxsize=2)
    >>> queue.put("a"); queue.put("b")
    >>> queue.full(), queue.get(), queue.qsize()
    (True, 'a', 1)
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        made = remote(_Queue)
        self.actor: Any = (made.options(**actor_options) if actor_options else made).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many items it has.

        >>> queue = Queue()
        >>> queue.put(1)
        >>> queue.size(), len(queue)
        (1, 1)
        """
        found: int = api.get(self.actor.qsize.remote())
        return found

    qsize = size

    def empty(self) -> bool:
        """Whether it has none.

        >>> queue = Queue()
        >>> queue.empty()
        True
        """
        return self.size() == 0

    def full(self) -> bool:
        """Whether there is no room; never without a maxsize.

        >>> queue = Queue()
        >>> queue.full()
        False
        """
        return 0 < self.maxsize <= self.size()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Adds an item. Full: no room, at once with block=False, else after `timeout` seconds.

        >>> queue = Queue(maxsize=1)
        >>> queue.put("a")
        >>> queue.put("b", timeout=0.01)
        Traceback (most recent call last):
        ...
        weir.core.queue.Full
        """
        _check(timeout)
        if not block:
            self.put_nowait_batch([item])
        elif not api.get(self.actor.put.remote(item, timeout)):
            raise Full

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Takes an item. Empty: there is none, at once with block=False, else after `timeout` seconds.

        >>> queue = Queue()
        >>> queue.put("a")
        >>> queue.get()
        'a'
        """
        _check(timeout)
        if not block:
            return self.get_nowait_batch(1)[0]
        is_there, item = api.get(self.actor.get.remote(timeout))
        if not is_there:
            raise Empty
        return item

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """put() for an event loop.

        >>> queue = Queue()
        >>> import asyncio
        >>> asyncio.run(queue.put_async("a"))
        >>> queue.get()
        'a'
        """
        _check(timeout)
        if not block:
            if not await self.actor.put_all.remote([item]):
                raise Full
        elif not await self.actor.put.remote(item, timeout):
            raise Full

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """get() for an event loop.

        >>> queue = Queue()
        >>> import asyncio
        >>> queue.put("a")
        >>> asyncio.run(queue.get_async())
        'a'
        """
        _check(timeout)
        if not block:
            items = await self.actor.get_all.remote(1)
            if items is None:
                raise Empty
            return items[0]
        is_there, item = await self.actor.get.remote(timeout)
        if not is_there:
            raise Empty
        return item

    def put_nowait(self, item: Any) -> None:
        """put(item, block=False).

        >>> queue = Queue()
        >>> queue.put_nowait("a")
        >>> queue.size()
        1
        """
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """get(block=False).

        >>> queue = Queue()
        >>> queue.get_nowait()
        Traceback (most recent call last):
        ...
        weir.core.queue.Empty
        """
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Adds all of them, or none: Full.

        >>> queue = Queue(maxsize=1)
        >>> queue.put_nowait_batch([1, 2])
        Traceback (most recent call last):
        ...
        weir.core.queue.Full
        """
        if not isinstance(items, Iterable):
            raise TypeError("Argument 'items' must be an Iterable")
        if not api.get(self.actor.put_all.remote(list(items))):
            raise Full

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Takes so many, or none: Empty.

        >>> queue = Queue()
        >>> queue.put("a")
        >>> queue.get_nowait_batch(1)
        ['a']
        """
        if not isinstance(num_items, int):
            raise TypeError("Argument 'num_items' must be an int")
        if num_items < 0:
            raise ValueError("'num_items' must be nonnegative")
        items = api.get(self.actor.get_all.remote(num_items))
        if items is None:
            raise Empty
        found: list[Any] = items
        return found

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """Ends it, at once (`force`) or after the calls that it has, for which it waits at most `grace_period_s`.

        >>> queue = Queue()
        >>> queue.shutdown()
        """
        if self.actor:
            if force:
                api.kill(self.actor, no_restart=True)
            else:
                done = self.actor.__ray_terminate__.remote()
                if not api.wait([done], timeout=grace_period_s)[0]:
                    api.kill(self.actor, no_restart=True)
        self.actor = None


def _check(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
