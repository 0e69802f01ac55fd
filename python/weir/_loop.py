"""What stands between a run's batches and a program's loop: shuffling, making ready ahead, timing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir import _run

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


def check_iteration(
    batch_size: int | None,
    batch_format: str | None,
    prefetch_batches: int,
    local_shuffle_buffer_size: int | None,
) -> None:
    """What can be wrong with a loop's arguments."""
    if batch_size is not None and (isinstance(batch_size, bool) or not hasattr(batch_size, "__index__")):
        raise ValueError(f"batch_size is a number of rows or None, not {batch_size!r}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    if batch_format not in FORMATS:
        raise ValueError(
            f"The given batch format {batch_format} isn't allowed (must be one of ['numpy', 'pandas', 'pyarrow', 'torch', None])."
        )
    if not isinstance(prefetch_batches, int) or isinstance(prefetch_batches, bool):
        raise ValueError(f"prefetch_batches is a number, not {prefetch_batches!r}")
    if local_shuffle_buffer_size is not None:
        if batch_size is None:
            raise ValueError("Must specify a batch_size if using a local shuffle.")
        if isinstance(local_shuffle_buffer_size, bool) or not hasattr(local_shuffle_buffer_size, "__index__"):
            raise ValueError(f"local_shuffle_buffer_size is a number of rows, not {local_shuffle_buffer_size!r}")
        if local_shuffle_buffer_size < 1:
            raise ValueError(f"local_shuffle_buffer_size must be at least 1, not {local_shuffle_buffer_size}")


def shuffled(batches: Iterator[Batch], size: int, buffer_rows: int, seed: int | None, drop_last: bool) -> Iterator[Batch]:
    """Batches of rows drawn from a buffer of at least `buffer_rows`, as long as there are so many.

        held: ┌ what is left, in random order ┬ batches as they came ┐   filled to twice the buffer, put in one random order,
              └ buffer_rows, or a batch ──────┴──────────────────────┘   given out until buffer_rows are left

    So each row is moved four times, whatever the size of the buffer, and all random numbers are drawn by the array."""
    from numpy.random import default_rng

    random = default_rng(seed)
    keep = max(buffer_rows, size)
    held: list[Batch] = []
    rows = 0
    try:
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows < 2 * keep:
                continue
            mixed = _permuted(held, random)
            at = 0
            while rows - size >= keep:
                yield mixed.slice(at, at + size)
                at += size
                rows -= size
            held = [mixed.slice(at)]
        if not held:
            return
        mixed = _permuted(held, random)
        for at in range(0, rows, size):
            if rows - at < size and drop_last:
                return
            yield mixed.slice(at, min(at + size, rows))
    finally:
        batches.close()  # type: ignore[attr-defined]


def _permuted(held: list[Batch], random: Any) -> Batch:
    whole = _run.joined(held)
    return whole.take(random.permutation(whole.num_rows))


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
