"""What stands between a run's batches and a program's loop: shuffling, making ready ahead, timing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir import _blocks
from weir._mistakes import WrongArgument

if TYPE_CHECKING:
    from weir._weir import Batch

T = TypeVar("T")
FORMATS = ("default", "numpy", "pandas", "pyarrow", "torch", None)


class Looked(Generic[T]):
    """Something to loop over, as often as one likes: each loop runs the plan anew."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make
        self._own: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self._make()

    def __next__(self) -> T:
        if self._own is None:
            self._own = self._make()
        return next(self._own)


class Waiting:
    """What a loop tells of itself, where nobody listens: when it asks for its next batch, and when it works; and what ends its wait."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel

    def asks(self) -> None: ...

    def works(self) -> None: ...


def check_iteration(
    batch_size: int | None,
    batch_format: str | None,
    prefetch_batches: int,
    local_shuffle_buffer_size: int | None,
) -> None:
    """What can be wrong with a loop's arguments."""
    if batch_size is not None and (isinstance(batch_size, bool) or not hasattr(batch_size, "__index__")):
        raise WrongArgument(f"batch_size is a number of rows or None, not {batch_size!r}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    if batch_format not in FORMATS:
        raise ValueError(
            f"The given batch format {batch_format} isn't allowed (batch_format must be one of ['numpy', 'pandas', 'pyarrow', 'torch', None])."
        )
    if not isinstance(prefetch_batches, int) or isinstance(prefetch_batches, bool):
        raise WrongArgument(f"prefetch_batches is a number, not {prefetch_batches!r}")
    if local_shuffle_buffer_size is not None:
        if batch_size is None:
            raise ValueError("Must specify a batch_size if using a local shuffle.")
        if isinstance(local_shuffle_buffer_size, bool) or not hasattr(local_shuffle_buffer_size, "__index__"):
            raise WrongArgument(f"local_shuffle_buffer_size is a number of rows, not {local_shuffle_buffer_size!r}")
        if local_shuffle_buffer_size < 1:
            raise ValueError(f"local_shuffle_buffer_size must be at least 1, not {local_shuffle_buffer_size}")


UNIT_BYTES = 1 << 20  # that are drawn at once: their second and third copy happen in the processor's cache


class _Pool:
    """Rows to draw from: batches as they came, and the numbers of the rows that are left, in random order.

        batches: ┌ 0 … 99 ┬ 100 … 149 ┬ …       ids: 117 3 142 56 …  drawn from the end

    A row is copied when it is drawn, not while it waits; batches of which little is left are joined when there is too much of
    them. All random numbers are drawn by the array."""

    def __init__(self, seed: int | None, keep: int) -> None:
        import numpy
        from numpy.random import default_rng

        self.np = numpy
        self.random = default_rng(seed)
        self.keep = keep
        self.batches: list[Batch] = []
        self.starts: list[int] = []  # the number of each batch's first row
        self.next = 0
        self.ids: Any = numpy.empty(0, dtype=numpy.int64)
        self.fresh: list[Any] = []  # numbers that are not among them yet
        self.rows = 0

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.starts.append(self.next)
        self.fresh.append(self.np.arange(self.next, self.next + batch.num_rows))
        self.next += batch.num_rows
        self.rows += batch.num_rows

    def mix(self) -> None:
        """What was added lies anywhere among the others from now on."""
        if self.next - self.starts[0] > 2 * max(self.keep, self.rows) and len(self.batches) > 1:
            self._join()
        else:
            self.ids = self.random.permutation(self.np.concatenate([self.ids, *self.fresh]))
        self.fresh = []

    def _join(self) -> None:
        ids = self.np.sort(self.np.concatenate([self.ids, *self.fresh]))
        whole = _blocks.joined(self._parts(ids))
        self.batches, self.starts, self.next = [whole], [0], self.rows
        self.ids = self.random.permutation(self.rows)

    def _parts(self, ids: Any) -> list[Batch]:
        """The rows of these numbers, batch by batch."""
        np = self.np
        which = np.searchsorted(self.starts, ids, side="right") - 1
        order = np.argsort(which, kind="stable")
        ids, which = ids[order], which[order]
        edges = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(ids)]
        parts = []
        for begin, end in itertools.pairwise(edges):
            number = int(which[begin])
            parts.append(self.batches[number].take(ids[begin:end] - self.starts[number]))
        return parts

    def draw(self, count: int) -> Batch:
        ids, self.ids = self.ids[-count:], self.ids[:-count]
        self.rows -= len(ids)
        parts = self._parts(ids)
        whole = _blocks.joined(parts)
        return whole if len(parts) == 1 else whole.take(self.random.permutation(len(ids)))


def shuffled(batches: Iterator[Batch], size: int, buffer_rows: int, seed: int | None, drop_last: bool) -> Iterator[Batch]:
    """Batches of rows drawn at random from a buffer that has at least `buffer_rows`, as long as there are so many."""
    keep = max(buffer_rows, size)
    pool = _Pool(seed, keep)
    unit = size
    try:
        for batch in batches:
            if not pool.batches:
                unit = max(1, UNIT_BYTES // (batch.nbytes // max(1, batch.num_rows) + 1) // size) * size
            # Of a batch that is larger than the buffer a part at a time: the buffer stays what it was asked to be.
            part = max(keep // 2, unit)
            for begin in range(0, batch.num_rows, part):
                pool.add(batch.slice(begin, min(begin + part, batch.num_rows)) if batch.num_rows > part else batch)
                if pool.rows < keep + max(keep // 2, size):
                    continue
                pool.mix()
                while pool.rows - size >= keep:
                    drawn = pool.draw(min(unit, (pool.rows - keep) // size * size))
                    for at in range(0, drawn.num_rows, size):
                        yield drawn.slice(at, at + size)
        if pool.rows:
            pool.mix()
        while pool.rows >= size or (pool.rows and not drop_last):
            drawn = pool.draw(min(unit, pool.rows))
            for at in range(0, drawn.num_rows, size):
                if drawn.num_rows - at < size and drop_last:
                    return
                yield drawn.slice(at, min(at + size, drawn.num_rows))
    finally:
        batches.close()  # type: ignore[attr-defined]


class Prefetched(Generic[T]):
    """Another thread makes the next items while the program works on this one."""

    def __init__(self, items: Iterator[T], ahead: int, stop: Callable[[], None]) -> None:
        self._items = items
        self._stop = stop  # ends a wait for the next item
        self._ahead = ahead
        self._ready: list[T] = []
        self._error: BaseException | None = None
        self._ended = self._stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._fill, name="weir-prefetch", daemon=True)
        self._thread.start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._ready.append(item)
                    self._changed.notify_all()
                    while len(self._ready) >= self._ahead and not self._stopped:
                        self._changed.wait()
                    if self._stopped:
                        break
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        try:
            while True:
                with self._changed:
                    while not self._ready and not self._ended:
                        self._changed.wait(0.1)
                    if not self._ready:
                        break
                    item = self._ready.pop(0)
                    self._changed.notify_all()
                yield item
            if self._error is not None:
                raise self._error
        finally:
            with self._changed:
                self._stopped = True
                ended = self._ended
                self._changed.notify_all()
            if not ended:
                self._stop()
            self._thread.join()


def mapped(items: Iterator[Batch], finish: Callable[[Batch], T]) -> Iterator[T]:
    """Each item as `finish` makes it."""
    try:
        for item in items:
            yield finish(item)
    finally:
        items.close()  # type: ignore[attr-defined]


class IterationTimes:
    """How long a loop waited, and how long the program took, in seconds."""

    def __init__(self) -> None:
        self.total = self.blocked = self.user = self.first = 0.0
        self.batches = 0

    def note(self, asked: float, given: float, begun: float) -> None:
        if not self.batches:
            self.first = given - begun
        self.blocked += given - asked
        self.batches += 1
