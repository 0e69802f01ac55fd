"""What stands between a run's batches and a program's loop: shuffling, making ready ahead, timing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir._blocks import copied
from weir._mistakes import WrongArgument

if TYPE_CHECKING:
    from weir._weir import Batch, Session

T = TypeVar("T")
ENGINE_BYTES = 112 << 20
TELL_BYTES = 1 << 20
PREFETCHED_PART = 16  # of the limit: more is not made ready
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
    """What a loop tells of itself, where nobody listens: when it asks for its next batch, and when it works; what ends its wait, and
    whether batches lie in memory that others read later."""

    def __init__(self, cancel: Callable[[], None], lends: bool = False) -> None:
        self.cancel = cancel
        self.lends = lends

    def own(self, batch: Batch) -> Batch:
        """As Run.own."""
        return copied(batch) if self.lends else batch

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


class Holding:
    """What stands between a run and a loop says how many bytes of rows it keeps there, so that the runs of the session go without them.
    One thread at a time uses it."""

    def __init__(self, session: Session | None) -> None:
        self._session = session
        self._told = self._expected = 0
        self.limit = session.memory_limit if session is not None else 1 << 62  # in a process that only consumes, all is the program's
        # What the engine works with, with a worker for a function, remains.
        self.most = max(self.limit // 4, self.limit - max(self.limit // 8 * 3, ENGINE_BYTES))

    def expect(self, bytes: int) -> None:
        """So much is going to be joined; what was is counted by itself."""
        if self._session is not None and bytes != self._expected:
            self._session.expect(bytes - self._expected)
            self._expected = bytes

    def keep(self, bytes: int) -> None:
        """So much is kept now."""
        if self._session is not None and bytes != self._told and (abs(bytes - self._told) >= TELL_BYTES or bytes < TELL_BYTES):
            self._session.hold(bytes - self._told)
            self._told = bytes


class Prefetched(Generic[T]):
    """Another thread makes the next items while the program works on this one: `ahead` of them, or fewer where they are large."""

    def __init__(self, items: Iterator[tuple[T, int]], ahead: int, stop: Callable[[], None], holding: Holding) -> None:
        self._items = items  # with their bytes
        self._stop = stop  # ends a wait for the next item
        self._ahead = ahead
        self._most = holding.limit // PREFETCHED_PART
        self._holding = holding  # under the lock
        self._ready: list[tuple[T, int]] = []
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
                    del item
                    self._holding.keep(self._bytes())
                    self._changed.notify_all()
                    while (len(self._ready) >= self._ahead or self._bytes() > self._most) and not self._stopped:
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

    def _bytes(self) -> int:
        return sum(size for _, size in self._ready)

    def __iter__(self) -> Iterator[T]:
        try:
            while True:
                with self._changed:
                    while not self._ready and not self._ended:
                        self._changed.wait(0.1)
                    if not self._ready:
                        break
                    item, _ = self._ready.pop(0)
                    self._holding.keep(self._bytes())
                    self._changed.notify_all()
                yield item
                del item
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
            self._holding.keep(0)


def mapped(items: Iterator[Batch], finish: Callable[[Batch], T]) -> Iterator[T]:
    """Each item as `finish` makes it."""
    try:
        for item in items:
            made = finish(item)
            del item  # while the next one is made, nobody but the program has it
            yield made
            del made
    finally:
        items.close()  # type: ignore[attr-defined]


def sized(items: Iterator[Batch], finish: Callable[[Batch], T]) -> Iterator[tuple[T, int]]:
    """The same, each with the bytes of its rows."""
    try:
        for item in items:
            size = item.nbytes
            made = finish(item)
            del item
            yield made, size
            del made
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
