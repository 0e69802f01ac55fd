"""Iterating: batches of a chosen size and format, local shuffles, torch tensors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir import _run, _session
from weir._plan import Blocks, walk

if TYPE_CHECKING:
    from weir._weir import Batch
    from weir.context import DataContext
    from weir.dataset import Dataset, MaterializedDataset
    from weir.schema import Schema

T = TypeVar("T")
_FORMATS = ("default", "numpy", "pandas", "pyarrow", "torch", None)


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


class CollateFn:
    """The base of classes that make a training batch of a batch: one of the three below says which format they take."""

    def __call__(self, batch: Any) -> Any:
        raise NotImplementedError


class NumpyBatchCollateFn(CollateFn):
    """Takes a dict of NumPy arrays."""


class PandasBatchCollateFn(CollateFn):
    """Takes a pandas.DataFrame."""


class ArrowBatchCollateFn(CollateFn):
    """Takes a pyarrow.Table."""


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
    if batch_format not in _FORMATS:
        raise ValueError(
            f"The given batch format {batch_format} isn't allowed (must be one of ['numpy', 'pandas', 'pyarrow', 'torch', None])."
        )
    if not isinstance(prefetch_batches, int) or isinstance(prefetch_batches, bool):
        raise ValueError(f"prefetch_batches is a number, not {prefetch_batches!r}")
    if local_shuffle_buffer_size is not None:
        if batch_size is None:
            raise ValueError("Must specify a batch_size if using a local shuffle.")
        if local_shuffle_buffer_size < 1:
            raise ValueError(f"local_shuffle_buffer_size must be at least 1, not {local_shuffle_buffer_size}")


def shuffled(batches: Iterator[Batch], size: int, buffer_rows: int, seed: int | None, drop_last: bool) -> Iterator[Batch]:
    """Batches of rows drawn from a buffer of `buffer_rows`. The buffer is filled to one and a half of that, put in random
    order, and given out until `buffer_rows` are left, which go into the next one."""
    from random import Random

    random = Random(seed)
    keep = max(buffer_rows, size)
    held: list[Batch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows < keep + max(keep // 2, size):
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


def _permuted(held: list[Batch], random: Any) -> Batch:
    from array import array

    whole = _run.joined(held)
    order = array("q", range(whole.num_rows))
    random.shuffle(order)
    return whole.take(order)


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


class DataIterator:
    """A Dataset to loop over, for code that only consumes.

    >>> import weir
    >>> for batch in weir.range(4).iterator().iter_batches(batch_size=2):
    ...     print(batch["id"])
    [0 1]
    [2 3]
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def _batches(
        self,
        batch_size: int | None,
        drop_last: bool,
        local_shuffle_buffer_size: int | None,
        local_shuffle_seed: int | None,
    ) -> Iterator[Batch]:
        """The engine's batches, cut to size."""
        dataset = self._dataset
        run = dataset._new_run()
        dataset._last_run = run
        parts = run.parts()
        if batch_size is None:
            return run.collect(parts)
        batches = run.collect(parts, 0 if local_shuffle_buffer_size else batch_size)
        if local_shuffle_buffer_size is not None:
            return shuffled(batches, batch_size, local_shuffle_buffer_size, local_shuffle_seed, drop_last)
        return _run.rebatched(batches, batch_size, drop_last)

    def _looped(self, make: Callable[[], Iterator[Batch]], finish: Callable[[Batch], T], ahead: int) -> Looked[T]:
        timing = self._dataset._iteration = IterationTimes()

        def loop() -> Iterator[T]:
            begun = time.perf_counter()
            forks = _session.forks
            source = _mapped(make(), finish)
            run = self._dataset._last_run
            assert run is not None
            items: Iterator[T] = iter(Prefetched(source, ahead, run.cancel)) if ahead > 0 else source
            try:
                while True:
                    asked = time.perf_counter()
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    now = time.perf_counter()
                    timing.note(asked, now, begun)
                    yield item
                    _session.check_process(forks)
                    timing.user += time.perf_counter() - now
            finally:
                items.close()  # type: ignore[attr-defined]
                timing.total = time.perf_counter() - begun

        return Looked(loop)

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Callable[[Any], Any] | None = None,
    ) -> Iterable[Any]:
        """Batches of `batch_size` rows (the last one may be shorter), or one a block with None.

        Args:
            prefetch_batches: how many batches are made ready before they are asked for. The engine itself always works ahead;
                this is about the making of pandas, pyarrow and torch objects and the calls of a collate_fn.
            batch_size: rows a batch.
            batch_format: "numpy" (a dict of arrays; the default), "pandas", "pyarrow", "torch", or None.
            drop_last: leave out a last batch that is too short.
            local_shuffle_buffer_size: draw rows at random from a buffer of so many.
            local_shuffle_seed: makes that repeatable.

        >>> import weir
        >>> [len(batch["id"]) for batch in weir.range(10).iter_batches(batch_size=4)]
        [4, 4, 2]
        """
        check_iteration(batch_size, batch_format, prefetch_batches, local_shuffle_buffer_size)
        arrow_backed = bool(self._dataset.context.enable_arrow_backed_pandas_conversion)

        def finish(batch: Batch) -> Any:
            from weir import _formats

            made = _formats.to_format(batch, batch_format, True, arrow_backed)
            return _collate_fn(made) if _collate_fn is not None else made

        plain = batch_format in ("default", "numpy") and _collate_fn is None
        return self._looped(
            lambda: self._batches(batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed),
            finish,
            0 if plain else max(0, prefetch_batches),
        )

    def iter_rows(self) -> Iterable[dict[str, Any]]:
        """The rows, as dicts of plain Python values.

        >>> import weir
        >>> [row["id"] for row in weir.range(3).iter_rows()]
        [0, 1, 2]
        """

        def loop() -> Iterator[dict[str, Any]]:
            forks = _session.forks
            for batch in self._batches(None, False, None, None):
                for at in range(0, batch.num_rows, 1024):
                    for row in batch.rows(at, min(at + 1024, batch.num_rows)):
                        yield row
                        if forks != _session.forks:
                            _session.check_process(forks)

        return Looked(loop)

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Callable[[Any], Any] | CollateFn | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Batches as dicts of torch tensors, which may be written to.

        Args:
            dtypes: one torch dtype for all columns, or a dict by column; else the columns' own.
            device: where to; "auto" is the CPU.
            collate_fn: makes a training batch of a dict of NumPy arrays (or what its class says), instead of tensors.
            pin_memory: copies into memory from which a GPU can fetch.
        """
        if collate_fn is not None and dtypes is not None:
            raise ValueError(
                "collate_fn cannot be used with dtypes. You should manually convert the output Torch tensors to the desired "
                "dtype inside collate_fn."
            )
        if pin_memory and collate_fn is not None:
            raise ValueError("pin_memory cannot be used with collate_fn: pin the tensors inside of collate_fn")
        check_iteration(batch_size, "numpy", prefetch_batches, local_shuffle_buffer_size)
        target = None if device == "auto" else device
        # What is kept and read again must not change when a tensor is written to.
        owned = not _session.current().local_mode and not any(isinstance(op, Blocks) for op in walk(self._dataset._op))
        finish = _collated(collate_fn, target) if collate_fn is not None else _tensors(dtypes, target, pin_memory, owned)
        costly = collate_fn is not None or target not in (None, "cpu") or pin_memory
        return self._looped(
            lambda: self._batches(batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed),
            finish,
            max(0, prefetch_batches) if costly else 0,
        )

    def materialize(self) -> MaterializedDataset:
        """Runs the plan and keeps its rows."""
        return self._dataset.materialize()

    def schema(self) -> Schema | None:
        """The columns."""
        return self._dataset.schema()

    def stats(self) -> str:
        """What the last run did, as text."""
        return self._dataset.stats()

    def get_context(self) -> DataContext:
        """The settings of the Dataset."""
        return self._dataset.context

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"DataIterator({self._dataset!r})"

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("`DataIterator` objects aren't iterable: call iter_rows() or iter_batches()")


DatasetIterator = DataIterator


def _mapped(items: Iterator[Batch], finish: Callable[[Batch], T]) -> Iterator[T]:
    try:
        for item in items:
            yield finish(item)
    finally:
        items.close()  # type: ignore[attr-defined]


def _tensors(dtypes: Any, device: Any, pin_memory: bool, owned: bool) -> Callable[[Batch], Any]:
    def finish(batch: Batch) -> Any:
        from weir import _formats

        if not pin_memory:
            return _formats.to_torch(batch, dtypes, device, owned)
        pinned = {name: tensor.pin_memory() for name, tensor in _formats.to_torch(batch, dtypes, None, True).items()}
        if device is None:
            return pinned
        return {name: tensor.to(device, non_blocking=True) for name, tensor in pinned.items()}

    return finish


def _collated(collate_fn: Callable[[Any], Any], device: Any) -> Callable[[Batch], Any]:
    if isinstance(collate_fn, PandasBatchCollateFn):
        batch_format = "pandas"
    elif isinstance(collate_fn, ArrowBatchCollateFn):
        batch_format = "pyarrow"
    else:
        batch_format = "numpy"

    def finish(batch: Batch) -> Any:
        from weir import _formats

        return _moved(collate_fn(_formats.to_format(batch, batch_format, zero_copy=False)), device)

    return finish


def _moved(value: Any, device: Any) -> Any:
    """Tensors inside of what a collate_fn returned, on the device."""
    if device is None:
        return value
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        moved = [_moved(item, device) for item in value]
        return type(value)(moved) if type(value) in (list, tuple) else type(value)(*moved)
    return value.to(device) if hasattr(value, "to") else value


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
