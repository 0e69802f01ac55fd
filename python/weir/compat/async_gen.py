"""A generator that runs in threads: what ray.data._internal.util.make_async_gen promises, which loaders of other people call.

    base ──▶ item i to thread i mod n ──▶ fn(its items) ──▶ its queue ──▶ one of each queue by turns      (in order)
    base ──▶ items to whoever asks    ──▶ fn(its items) ──▶ one queue of all                             (as they come)

A thread takes its next item from the base itself, under a lock, and keeps what it meets there for the others: nobody waits for a
thread that only fills, and no bound on the items is needed, which could block for ever where fn makes many outputs of one item.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def make_async_gen(
    base_iterator: Iterator[T],
    fn: Callable[[Iterator[T]], Iterator[U]],
    preserve_ordering: bool,
    num_workers: int = 1,
    buffer_size: int = 1,
) -> Generator[U, None, None]:
    """What fn makes of the items, with fn running in threads ahead of whoever takes it.

    >>> list(make_async_gen(iter(range(5)), lambda items: (item * 2 for item in items), True, num_workers=2))
    [0, 2, 4, 6, 8]

    Args:
        preserve_ordering: outputs come in the order of the items, where fn makes as many of each.
        num_workers: how many threads call fn, each with its share of the items.
        buffer_size: how many outputs of a thread may wait to be taken; 0: any number.
    """
    if num_workers < 1:
        raise ValueError("Size of threadpool must be at least 1.")
    return _generate(_Shared(iter(base_iterator), num_workers if preserve_ordering else 1), fn, preserve_ordering, num_workers, buffer_size)


class _Shared:
    """The base, and the items that somebody else met there. The lock guards all of it."""

    def __init__(self, base: Iterator[Any], shares: int) -> None:
        self.base, self.taken, self.is_over = base, 0, False
        self.kept: list[deque[Any]] = [deque() for _ in range(shares)]
        self.lock = threading.Lock()
        self.stopped = threading.Event()

    def items(self, share: int) -> Iterator[Any]:
        """A thread's items, in order."""
        while not self.stopped.is_set():
            with self.lock:
                while not self.kept[share] and not self.is_over:
                    try:
                        item = next(self.base)
                    except StopIteration:
                        self.is_over = True
                        break
                    except BaseException:
                        self.is_over = True
                        raise
                    self.kept[self.taken % len(self.kept)].append(item)
                    self.taken += 1
                if not self.kept[share]:
                    return
                item = self.kept[share].popleft()
            yield item


class _End:
    """The last thing in a queue: how its thread ended."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _generate(shared: _Shared, fn: Callable[[Any], Any], in_order: bool, workers: int, buffer_size: int) -> Generator[Any, None, None]:
    queues: list[queue.Queue[Any]] = [queue.Queue(buffer_size if in_order else buffer_size * workers) for _ in shared.kept]

    def work(number: int) -> None:
        out, error = queues[number % len(queues)], None
        try:
            for made in fn(shared.items(number % len(queues))):
                out.put(made)
                if shared.stopped.is_set():
                    return
        except BaseException as raised:  # noqa: BLE001: whoever takes the outputs gets it
            error = raised
        out.put(_End(error))

    for number in range(workers):
        threading.Thread(target=work, args=(number,), name=f"make_async_gen-{number}", daemon=True).start()
    ended = [0] * len(queues)
    threads = workers // len(queues)
    try:
        while any(count < threads for count in ended):
            for place, out in enumerate(queues):
                if ended[place] == threads:
                    continue
                made = out.get()
                if not isinstance(made, _End):
                    yield made
                elif made.error is not None:
                    raise made.error
                else:
                    ended[place] += 1
    finally:
        shared.stopped.set()
        for out in queues:  # a thread that waits for a place gets one, and ends
            while not out.empty():
                out.get_nowait()
