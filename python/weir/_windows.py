"""The windows of a DatasetPipeline: which files, numbers or blocks belong to each, and what several consumers share of them."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weir import _blocks, _plan, _session
from weir._legacy import SHUFFLED, block_count, range_blocks
from weir._plan import Blocks, Call, Filter, Op, Range, Read, ReadBlocks, Repartition, Source, Step, chain, column_reference, cut_sizes
from weir.dataset import Dataset, MaterializedDataset
from weir.datasource import Listing

if TYPE_CHECKING:
    from weir.context import DataContext

Make = Callable[[], Dataset]
Windows = Iterator[tuple[int, Make]]  # epoch, window


class Kept:
    """A Dataset that runs when its first window is wanted, and is kept."""

    def __init__(self, ds: Dataset) -> None:
        self._ds = ds
        self._made: MaterializedDataset | None = None

    def dataset(self) -> MaterializedDataset:
        if self._made is None:
            self._made = self._ds.materialize()
        return self._made

    def windows(self, count: int | None, size: int | None) -> Iterator[Make]:
        blocks = self.dataset()._blocks()
        for begin, end in _cuts([block.nbytes for block in blocks], count, size):
            yield maker(list(blocks[begin:end]), self._ds.context)


def is_read(op: Op) -> bool:
    """Whether it is a read and nothing else, but for the choice of columns and rows that a read can make itself."""
    if isinstance(op, Blocks):
        return False
    return all(
        isinstance(step, (Source, ReadBlocks, Filter))
        or (isinstance(step, Step) and step.verb in ("select", "drop", "rename"))
        or (isinstance(step, Call) and step.name.startswith("Read"))
        for step in chain(op)
    )


def read_windows(ds: Dataset, count: int | None, size: int | None) -> Iterator[Make]:
    """The windows of a read, for one epoch: its files are listed now and read when a window is wanted."""
    source, *steps = chain(ds._op)
    blocks = next((step.count for step in steps if isinstance(step, ReadBlocks)), None)
    steps = [step for step in steps if not isinstance(step, ReadBlocks)]
    if isinstance(source, Range):
        yield from _range_windows(ds, source, steps, count, size)
    elif isinstance(source, Read) and (blocks is None or blocks <= len(source.files())):
        yield from _file_windows(ds, source, steps, blocks, count, size)
    else:  # more blocks than files: rows are counted for it
        yield from Kept(ds).windows(count, size)


def _range_windows(ds: Dataset, op: Range, steps: list[Op], count: int | None, size: int | None) -> Iterator[Make]:
    rows = cut_sizes(op.count, op.blocks or range_blocks(op, ds.context)) if op.count else []
    for begin, end in _cuts([8 * n for n in rows], count, size):
        first, total = sum(rows[:begin]), sum(rows[begin:end])
        made: Op = Range(total, end - begin)
        if first:
            made = Step(made, "with", [f'"id"={column_reference("id")} + {first}'], "ReadRange")
        yield _plan_maker(ds, made, steps)


def _file_windows(
    ds: Dataset, op: Read, steps: list[Op], blocks: int | None, count: int | None, size: int | None
) -> Iterator[Make]:
    execution = ds.context._executed()[0]
    ds.context._set_executed(execution + 1)
    files = op.files(execution)
    ends = list(itertools.accumulate(cut_sizes(len(files), blocks or len(files))))
    groups = [files[a:b] for a, b in zip([0, *ends], ends)]
    sizes = [sum(os.stat(path).st_size for path in group) for group in groups] if size is not None else [0] * len(groups)
    for begin, end in _cuts(sizes, count, size):
        paths = tuple(path for group in groups[begin:end] for path in group)
        listing = Listing(paths, None, False, None, None, op.listing.ignore_missing, ())
        made: Op = Read(op.name, op.format, listing, op.options, op.partitioning, op.columns, op.include_paths)
        yield _plan_maker(ds, ReadBlocks(made, end - begin) if blocks is not None else made, steps)


def _plan_maker(ds: Dataset, op: Op, steps: list[Op]) -> Make:
    for step in steps:
        op = _plan.with_input(step, op)
    return lambda: ds._then(op)


def _cuts(sizes: list[int], count: int | None, size: int | None) -> Iterator[tuple[int, int]]:
    """From where to where each window goes: so many blocks, or as many as have up to `size` bytes, at least one."""
    begin = 0
    while begin < len(sizes):
        end = begin + 1
        held = sizes[begin]
        while end < len(sizes) and (end - begin < count if count is not None else held + sizes[end] <= (size or 0)):
            held += sizes[end]
            end += 1
        yield begin, end
        begin = end


def check_number(value: Any, what: str) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{what} is a number of at least 1, not {value!r}")


def byte_count(value: Any, what: str) -> int:
    """Bytes may be written as 10e9, too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    check_number(value, what)
    return int(value)


def check_times(times: int | None) -> None:
    if times is not None:
        check_number(times, "times")


# ---- sharing, shuffling ----


class Shared:
    """The windows of a pipeline that several read: whoever asks first has one made, the others find theirs."""

    def __init__(
        self,
        windows: Iterator[tuple[int, Dataset]],
        n: int,
        equal: bool,
        context: DataContext,
        indices: tuple[int, ...] | None = None,
    ) -> None:
        self._windows, self._n, self._equal, self._context, self._indices = windows, n, equal, context, indices
        self._ready: list[deque[tuple[int, Make]]] = [deque() for _ in range(n)]
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def windows(self, index: int) -> Windows:
        while True:
            with self._lock:
                if not self._ready[index] and not self._make():
                    return
                window = self._ready[index].popleft()
            yield window

    def _make(self) -> bool:
        if self._error is not None:
            raise self._error
        try:
            found = next(self._windows, None)
            if found is None:
                return False
            epoch, ds = found
            parts = ds.split(self._n, equal=self._equal) if self._indices is None else ds.split_at_indices(list(self._indices))
        except BaseException as error:  # all of them are told
            self._error = error
            raise
        for ready, part in zip(self._ready, parts):
            ready.append((epoch, maker(list(part._blocks()), self._context)))
        return True


def of_blocks(blocks: list[Any], context: DataContext, history: Op | None = None) -> MaterializedDataset:
    made = MaterializedDataset(Blocks("Window", blocks, _session.current().id, fixed=True), context)
    made._history, made._old = history, True
    return made


def maker(blocks: list[Any], context: DataContext) -> Make:
    return lambda: of_blocks(blocks, context)


def added(a: Any, b: Any) -> Any:
    if not isinstance(a, dict):
        return a + b
    return {name: b[name] if a[name] is None else a[name] if b[name] is None else a[name] + b[name] for name in a}


def shuffled(ds: Dataset, seed: int | None, num_blocks: int | None) -> Dataset:
    """A window's rows in random order, in as many blocks as it had."""
    kept = ds.random_shuffle(seed=seed).materialize()
    ds._last_run = kept._last_run
    rows = kept.count()
    if not rows:
        return ds
    count = num_blocks or block_count(ds._op, ds.context)
    blocks = _blocks.cut_blocks(list(kept._blocks()), min(count, rows))
    made = of_blocks(blocks, ds.context, Repartition(ds._op, count, SHUFFLED))
    made._last_run = ds._last_run
    return made
