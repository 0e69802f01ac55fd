"""DatasetPipeline: a Dataset in windows, which are worked on one after another, and in epochs.

    ds.window(blocks_per_window=4)   ─▶ window window window │
    ….repeat(2)                      ─▶ window window window │ window window window │      epochs 0 and 1
    ….map_batches(f)                 each window ─▶ map_batches(f)

A window is made when somebody wants it, and is a Dataset like any other: its steps run as one stream, and what one step has
given to the next is gone. Only one consumer can have it: a pipeline becomes one other pipeline, or is read once.

Where a pipeline begins with a read, nothing of it is kept: each window reads its own files, again in each epoch. Other
Datasets run once, when the first window is wanted, and their blocks are kept until no epoch needs them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any

from weir import _parts, _progress
from weir._legacy import block_count
from weir._plan import Blocks, Call, Op, Range
from weir._windows import Kept, Make, Shared, Windows, added, byte_count, check_number, check_times, is_read, maker, of_blocks, read_windows, shuffled
from weir.dataset import Dataset

if TYPE_CHECKING:
    from weir._weir import Batch
    from weir.context import DataContext
    from weir.schema import Schema

Stage = Callable[[Dataset], Dataset]
DEFAULT_BLOCKS = 10
STATS_KEPT = 3
_ONCE_NAMED = ("repartition", "random_shuffle", "sort")  # … of each window: so they were called before Ray 1.9


class DatasetPipeline:
    """Windows of a Dataset, one after another. Made by Dataset.window() and Dataset.repeat().

    >>> import weir
    >>> pipe = weir.range(8, parallelism=4).window(blocks_per_window=2).map(lambda row: {"x": row["id"] * 2})
    >>> pipe
    DatasetPipeline(num_windows=2, num_stages=1)
    >>> [row["x"] for row in pipe.iter_rows()]
    [0, 2, 4, 6, 8, 10, 12, 14]
    """

    def __init__(
        self,
        windows: Callable[[], Windows],
        *,
        context: DataContext,
        length: float | None = None,
        stages: tuple[Stage, ...] = (),
        kept: bool = False,
    ) -> None:
        self._windows = windows
        self._context = context
        self._length = length  # None: not known; inf: without end
        self._stages = stages
        self._kept = kept  # whether windows share their rows with other epochs
        self._used = ""  # by what
        self._begun: Windows | None = None
        self._texts: deque[str] = deque(maxlen=STATS_KEPT)
        self._count = 0
        self._waited: list[float] = []
        self._total = 0.0
        self._schema: Schema | None = None
        self._handed: tuple[str, int] | None = None  # where the process that it was pickled for finds it

    # ---- made of others ----

    @staticmethod
    def from_iterable(iterable: Iterable[Dataset | Make]) -> DatasetPipeline:
        """A pipeline of these Datasets, or of what these functions return, a window each.

        >>> import weir
        >>> from weir.dataset_pipeline import DatasetPipeline
        >>> DatasetPipeline.from_iterable([weir.range(1), lambda: weir.range(2)]).count()
        3
        """
        from weir.context import DataContext

        def windows() -> Windows:
            for item in iterable:
                if isinstance(item, Dataset):
                    yield 0, lambda item=item: item  # type: ignore[misc]
                else:
                    yield 0, item

        length = len(iterable) if isinstance(iterable, Sized) else None
        return DatasetPipeline(windows, context=DataContext.get_current(), length=length, kept=True)

    def _use(self, by: str) -> None:
        if self._used:
            raise RuntimeError(
                f"Pipeline cannot be read multiple times: {self._used}() has taken this DatasetPipeline, so {by}() cannot. It has "
                "no fan-out, since each window is gone when it is used: call window() or repeat() of the Dataset once more, or "
                "materialize() the Dataset and use that."
            )
        self._used = by

    def _next(self, by: str, stage: Stage | None, **changes: Any) -> DatasetPipeline:
        self._use(by)
        stages = (*self._stages, stage) if stage is not None else self._stages
        made = DatasetPipeline(self._source, context=self._context, length=self._length, stages=stages, kept=self._kept)
        made.__dict__.update(changes)
        return made

    def _source(self) -> Windows:
        """The windows without the stages; what schema() has looked at is still there."""
        if self._begun is None:
            return self._windows()
        begun, self._begun = self._begun, None
        return begun

    def _made(self, make: Make) -> Dataset:
        ds = make()
        if not ds._old:
            ds = ds.lazy()
        for stage in self._stages:
            ds = stage(ds)
        return ds

    def repeat(self, times: int | None = None) -> DatasetPipeline:
        """So many epochs of these windows; None: without end.

        >>> import weir
        >>> weir.range(4, parallelism=2).window(blocks_per_window=1).repeat(3).count()
        12
        """
        check_times(times)
        if self._length == math.inf:
            raise ValueError("Cannot repeat a pipeline of infinite length: repeat() without a number has no end")

        def windows() -> Windows:
            seen: list[Make] = []
            for _, make in self._source():
                seen.append(make)
                yield 0, make
            for epoch in itertools.count(1) if times is None else range(1, times):
                if not seen:
                    return
                for make in seen:
                    yield epoch, make

        length = None if self._length is None else math.inf if times is None else self._length * times
        return self._next("repeat", None, _windows=windows, _length=math.inf if times is None else length)

    def foreach_window(self, fn: Stage) -> DatasetPipeline:
        """Lets a function make a Dataset of each window's.

        >>> import weir
        >>> pipe = weir.range(4, parallelism=2).window(blocks_per_window=1)
        >>> pipe.foreach_window(lambda window: window.limit(1)).take_all()
        [{'id': 0}, {'id': 2}]
        """
        if not callable(fn):
            raise TypeError(f"foreach_window takes a function of a Dataset, not {fn!r}")

        def stage(ds: Dataset) -> Dataset:
            made = fn(ds)
            if not isinstance(made, Dataset):
                raise TypeError(f"foreach_window: the function returned {type(made).__name__} for a window, and not a Dataset")
            return made

        return self._next("foreach_window", stage)

    def _each(self, method: str, *args: Any, **options: Any) -> DatasetPipeline:
        return self._next(method, lambda ds: getattr(ds, method)(*args, **options))

    def _each_function(self, method: str, *args: Any, **options: Any) -> DatasetPipeline:
        getattr(Dataset(Call(Range(1), _ANY), self._context), method)(*args, **options)  # mistakes are found now
        return self._each(method, *args, **options)

    def map(self, fn: Any, **options: Any) -> DatasetPipeline:
        """Dataset.map of each window.

        >>> import weir
        >>> weir.range(2).repeat(1).map(lambda row: {"x": -row["id"]}).take_all()
        [{'x': 0}, {'x': -1}]
        """
        return self._each_function("map", fn, **options)

    def map_batches(self, fn: Any, **options: Any) -> DatasetPipeline:
        """Dataset.map_batches of each window.

        >>> import weir
        >>> weir.range(2).repeat(1).map_batches(lambda batch: {"x": -batch["id"]}).take_all()
        [{'x': 0}, {'x': -1}]
        """
        return self._each_function("map_batches", fn, **options)

    def flat_map(self, fn: Any, **options: Any) -> DatasetPipeline:
        """Dataset.flat_map of each window.

        >>> import weir
        >>> weir.range(2).repeat(1).flat_map(lambda row: [row, row]).count()
        4
        """
        return self._each_function("flat_map", fn, **options)

    def filter(self, fn: Any = None, expr: Any = None, **options: Any) -> DatasetPipeline:
        """Dataset.filter of each window.

        >>> import weir
        >>> weir.range(4).repeat(1).filter(lambda row: row["id"] > 2).take_all()
        [{'id': 3}]
        """
        return self._each_function("filter", fn, expr, **options)

    def add_column(self, col: str, fn: Any, **options: Any) -> DatasetPipeline:
        """Dataset.add_column of each window.

        >>> import weir
        >>> weir.range(1).repeat(1).add_column("x", lambda batch: batch["id"] + 1).take_all()
        [{'id': 0, 'x': 1}]
        """
        return self._each_function("add_column", col, fn, **options)

    def drop_columns(self, cols: list[str], **options: Any) -> DatasetPipeline:
        """Dataset.drop_columns of each window.

        >>> import weir
        >>> weir.from_items([{"a": 1, "b": 2}]).repeat(1).drop_columns(["a"]).take_all()
        [{'b': 2}]
        """
        return self._each("drop_columns", cols, **options)

    def select_columns(self, cols: str | list[str], **options: Any) -> DatasetPipeline:
        """Dataset.select_columns of each window.

        >>> import weir
        >>> weir.from_items([{"a": 1, "b": 2}]).repeat(1).select_columns(["a"]).take_all()
        [{'a': 1}]
        """
        return self._each("select_columns", cols, **options)

    def rename_columns(self, names: dict[str, str] | list[str], **options: Any) -> DatasetPipeline:
        """Dataset.rename_columns of each window.

        >>> import weir
        >>> weir.range(1).repeat(1).rename_columns({"id": "n"}).take_all()
        [{'n': 0}]
        """
        return self._each("rename_columns", names, **options)

    def repartition_each_window(self, num_blocks: int, *, shuffle: bool = False) -> DatasetPipeline:
        """Dataset.repartition of each window.

        >>> import weir
        >>> pipe = weir.range(4).repeat(1).repartition_each_window(2)
        >>> [len(batch["id"]) for batch in pipe.iter_batches(batch_size=None)]
        [2, 2]
        """
        return self._next("repartition_each_window", lambda ds: ds.repartition(num_blocks, shuffle=shuffle))

    def random_shuffle_each_window(
        self, *, seed: int | None = None, num_blocks: int | None = None, **options: Any
    ) -> DatasetPipeline:
        """The rows of each window in random order; of another one in each window and epoch, also with a seed.

        >>> import weir
        >>> pipe = weir.range(100).repeat(1).random_shuffle_each_window(seed=1)
        >>> rows = [row["id"] for row in pipe.iter_rows()]
        >>> rows == sorted(rows), sorted(rows) == list(range(100))
        (False, True)
        """
        from weir._transform import remote_args

        remote_args("random_shuffle_each_window", options)
        number = itertools.count()

        def stage(ds: Dataset) -> Dataset:
            return shuffled(ds, None if seed is None else seed + next(number), num_blocks)

        return self._next("random_shuffle_each_window", stage)

    def randomize_block_order_each_window(self, *, seed: int | None = None) -> DatasetPipeline:
        """The blocks of each window in random order; rows stay in their blocks.

        >>> import weir
        >>> pipe = weir.range(6, parallelism=3).window(blocks_per_window=3).randomize_block_order_each_window(seed=1)
        >>> sorted(len(batch["id"]) for batch in pipe.iter_batches(batch_size=None))
        [2, 2, 2]
        """

        def stage(ds: Dataset) -> Dataset:
            from random import Random

            blocks = list(ds.materialize()._blocks())
            Random(seed).shuffle(blocks)
            return of_blocks(blocks, self._context, ds._op)

        return self._next("randomize_block_order_each_window", stage)

    def sort_each_window(self, key: str | list[str] | None = None, descending: bool = False) -> DatasetPipeline:
        """The rows of each window in the order of a column, or of several.

        >>> import weir
        >>> weir.range(3).repeat(1).sort_each_window("id", descending=True).take_all()
        [{'id': 2}, {'id': 1}, {'id': 0}]
        """

        def stage(ds: Dataset) -> Dataset:
            return ds.sort(key if key is not None else ds.columns() or [], descending)

        return self._next("sort_each_window", stage)

    def rewindow(self, *, blocks_per_window: int, preserve_epoch: bool = True) -> DatasetPipeline:
        """Other windows of the same rows, of so many blocks each. With preserve_epoch none has rows of two epochs.

        >>> import weir
        >>> pipe = weir.range(10, parallelism=10).window(blocks_per_window=2).rewindow(blocks_per_window=5)
        >>> [window.count() for window in pipe.iter_datasets()]
        [5, 5]
        """
        check_number(blocks_per_window, "blocks_per_window")

        def windows() -> Windows:
            held: list[Any] = []
            epoch = 0
            for number, make in self._source():
                if preserve_epoch and number != epoch and held:
                    yield epoch, maker(held, self._context)
                    held = []
                epoch = number
                held += self._made(make).materialize()._blocks()
                while len(held) >= blocks_per_window:
                    yield epoch, maker(held[:blocks_per_window], self._context)
                    held = held[blocks_per_window:]
            if held:
                yield epoch, maker(held, self._context)

        length = math.inf if self._length == math.inf else None
        return self._next("rewindow", None, _windows=windows, _stages=(), _length=length)

    def split(self, n: int, *, equal: bool = False, locality_hints: list[Any] | None = None) -> list[DatasetPipeline]:
        """n pipelines that share the rows of each window; with `equal` each gets as many, and what is left over is dropped.
        Each can be read in a thread of its own, or in a task or actor that it is given to. What one has not read yet is kept for it.

        >>> import weir
        >>> first, second = weir.range(8, parallelism=4).repeat(2).split(2, equal=True)
        >>> first.count(), second.count()
        (8, 8)
        """
        check_number(n, "n")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"The length of locality_hints {len(locality_hints)} doesn't equal the number of splits {n}.")
        self._use("split")
        shared = Shared(((epoch, self._made(make)) for epoch, make in self._source()), n, equal, self._context)
        return [
            DatasetPipeline(lambda i=i: shared.windows(i), context=self._context, length=self._length, kept=True)  # type: ignore[misc]
            for i in range(n)
        ]

    def split_at_indices(self, indices: list[int]) -> list[DatasetPipeline]:
        """Pipelines of the rows of each window before, between and behind these indices.

        >>> import weir
        >>> [part.count() for part in weir.range(10).repeat(1).split_at_indices([2, 5])]
        [2, 3, 5]
        """
        if not indices or sorted(indices) != list(indices) or indices[0] < 0:
            raise ValueError(f"indices must be sorted, not negative, and at least one, not {indices!r}")
        self._use("split_at_indices")
        n = len(indices) + 1
        shared = Shared(
            ((epoch, self._made(make)) for epoch, make in self._source()), n, False, self._context, tuple(indices)
        )
        return [
            DatasetPipeline(lambda i=i: shared.windows(i), context=self._context, length=self._length, kept=True)  # type: ignore[misc]
            for i in range(n)
        ]

    # ---- consuming: windows ----

    def iter_datasets(self) -> Iterator[Dataset]:
        """The windows, one after another.

        >>> import weir
        >>> pipe = weir.range(4, parallelism=2).window(blocks_per_window=1)
        >>> [window.take_all() for window in pipe.iter_datasets()]
        [[{'id': 0}, {'id': 1}], [{'id': 2}, {'id': 3}]]
        """
        self._use("iter_datasets")
        return self._datasets()

    def _datasets(self) -> Iterator[Dataset]:
        begun = time.perf_counter()
        source = self._source()
        while True:
            asked = time.perf_counter()
            found = next(source, None)
            if found is None:
                break
            ds = self._made(found[1])
            self._count += 1
            self._waited.append(time.perf_counter() - asked)
            yield ds
            self._texts.append(f"== Pipeline Window {self._count} ==\n{ds.stats()}")
            self._total = time.perf_counter() - begun

    def iter_epochs(self, max_epoch: int = -1) -> Iterator[DatasetPipeline]:
        """A pipeline for each epoch; at most `max_epoch`, where that is above 0. What is left of one is skipped.

        >>> import weir
        >>> [epoch.count() for epoch in weir.range(3).repeat(2).iter_epochs()]
        [3, 3]
        """
        self._use("iter_epochs")
        return self._epochs(max_epoch)

    def _epochs(self, max_epoch: int) -> Iterator[DatasetPipeline]:
        source = self._source()
        following = next(source, None)
        given = 0
        while following is not None and (max_epoch <= 0 or given < max_epoch):
            epoch = following[0]

            def windows(epoch: int = epoch) -> Windows:
                nonlocal following
                while following is not None and following[0] == epoch:
                    window = following
                    following = next(source, None)
                    yield window

            rest = windows()
            made = DatasetPipeline(lambda rest=rest: rest, context=self._context, stages=self._stages, kept=self._kept)  # type: ignore[misc]
            made._texts = self._texts
            yield made
            given += 1
            for _ in rest:
                pass

    # ---- consuming: rows ----

    def _stream(self, by: str) -> Dataset:
        """All windows as one Dataset, which can be read once."""
        self._use(by)
        return Dataset(_Stream(self._batches, self._kept), self._context)

    def _batches(self) -> Iterator[Batch]:
        for ds in self._datasets():
            run = ds._new_run()
            run.asking = _progress.Asking()  # the program may print at any time
            if not isinstance(ds._op, Blocks):  # else what made them is more worth telling
                ds._last_run = run
            yield from run

    def iter_rows(self, *, prefetch_blocks: int = 0) -> Iterator[dict[str, Any]]:
        """The rows of all windows.

        >>> import weir
        >>> [row["id"] for row in weir.range(2).repeat(2).iter_rows()]
        [0, 1, 0, 1]
        """
        return iter(self._stream("iter_rows").iter_rows())

    def iter_batches(
        self,
        *,
        prefetch_blocks: int = 0,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterator[Any]:
        """Batches of the rows of all windows; one may have rows of two.

        >>> import weir
        >>> [len(batch["id"]) for batch in weir.range(3).repeat(2).iter_batches(batch_size=4)]
        [4, 2]
        """
        options = dict(
            prefetch_batches=max(prefetch_blocks, prefetch_batches),
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        return iter(self._stream("iter_batches").iter_batches(**options))  # type: ignore[arg-type]

    def iter_torch_batches(self, **options: Any) -> Iterator[Any]:
        """Dataset.iter_torch_batches over the rows of all windows.

        >>> import torch, weir
        >>> [batch["id"].tolist() for batch in weir.range(2).repeat(2).iter_torch_batches(batch_size=4)]
        [[0, 1, 0, 1]]
        """
        options["prefetch_batches"] = max(options.pop("prefetch_blocks", 0), options.get("prefetch_batches", 1))
        return iter(self._stream("iter_torch_batches").iter_torch_batches(**options))

    def iter_tf_batches(self, **options: Any) -> Iterator[Any]:
        """Dataset.iter_tf_batches over the rows of all windows.

        >>> import weir
        >>> batches = weir.range(4).repeat(2).iter_tf_batches(batch_size=4)  # doctest: +SKIP
        """
        options["prefetch_batches"] = max(options.pop("prefetch_blocks", 0), options.get("prefetch_batches", 1))
        stream: Any = self._stream("iter_tf_batches")
        return iter(stream.iter_tf_batches(**options))

    def to_torch(self, **options: Any) -> Any:
        """Dataset.to_torch over the rows of all windows: an IterableDataset, which can be read once.

        >>> import weir
        >>> [features.tolist() for features, _ in weir.range(2).repeat(2).to_torch(batch_size=2)]
        [[[0], [1]], [[0], [1]]]
        """
        stream: Any = self._stream("to_torch")
        return stream.to_torch(**options)

    def to_tf(self, *args: Any, **options: Any) -> Any:
        """Dataset.to_tf over the rows of all windows.

        >>> import weir
        >>> ds = weir.range(4).repeat(2).to_tf("id", "id")  # doctest: +SKIP
        """
        stream: Any = self._stream("to_tf")
        return stream.to_tf(*args, **options)

    def take(self, limit: int = 20) -> list[dict[str, Any]]:
        """The first rows.

        >>> import weir
        >>> weir.range(2).repeat().take(3)
        [{'id': 0}, {'id': 1}, {'id': 0}]
        """
        return list(itertools.islice(self._stream("take").iter_rows(), max(0, limit)))

    def take_all(self, limit: int | None = None) -> list[dict[str, Any]]:
        """All rows; ValueError if there are more than `limit`.

        >>> import weir
        >>> weir.range(1).repeat(2).take_all()
        [{'id': 0}, {'id': 0}]
        """
        self._check_end("take_all")
        rows = []
        for row in self._stream("take_all").iter_rows():
            rows.append(row)
            if limit is not None and len(rows) > limit:
                raise ValueError(f"The dataset has more than the given limit of {limit} records.")
        return rows

    def show(self, limit: int = 20) -> None:
        """Prints the first rows.

        >>> import weir
        >>> weir.range(1).repeat().show(2)
        {'id': 0}
        {'id': 0}
        """
        for row in self.take(limit):
            print(row)

    def show_windows(self, limit_per_dataset: int = 10) -> None:
        """Prints the first rows of each window.

        >>> import weir
        >>> weir.range(2, parallelism=2).window(blocks_per_window=1).show_windows()
        === Epoch 0 ===
        --- Window 0 ---
        {'id': 0}
        --- Window 1 ---
        {'id': 1}
        """
        self._use("show_windows")
        last = None
        for number, (epoch, make) in enumerate(self._source()):
            if epoch != last:
                print(f"=== Epoch {epoch} ===")
                last = epoch
            print(f"--- Window {number} ---")
            self._made(make).show(limit_per_dataset)

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """The columns, of the first window; the pipeline can still be read.

        >>> import weir
        >>> pipe = weir.range(2).repeat(2)
        >>> pipe.schema().names, pipe.count()
        (['id'], 4)
        """
        if self._schema is None and fetch_if_missing:
            if self._used:
                self._use("schema")
            source = self._source()
            first = next(source, None)
            self._begun = source if first is None else itertools.chain([first], source)
            if first is not None:
                self._schema = self._made(first[1]).schema()
        return self._schema

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """The columns' names.

        >>> import weir
        >>> weir.range(2).repeat(2).columns()
        ['id']
        """
        schema = self.schema(fetch_if_missing)
        return schema.names if schema is not None else None

    def count(self) -> int:
        """The number of rows of all windows.

        >>> import weir
        >>> weir.range(2).repeat(3).count()
        6
        """
        self._check_end("count")
        self._use("count")
        return sum(ds.count() for ds in self._datasets())

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """The sum of a column over all windows.

        >>> import weir
        >>> weir.range(3).repeat(2).sum("id")
        6
        """
        self._check_end("sum")
        self._use("sum")
        total: Any = None
        for ds in self._datasets():
            part = ds.sum(on, ignore_nulls)
            if part is None and not ignore_nulls:
                return None
            total = part if total is None else total if part is None else added(total, part)
        return total

    def _check_end(self, method: str) -> None:
        if self._length == math.inf:
            raise ValueError(f"{method}() of a pipeline without end has no end: use take(), iter_epochs() or repeat(times)")

    # ---- writing ----

    def write_parquet(self, path: str, **options: Any) -> None:
        """Dataset.write_parquet of each window, into one folder.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(4, parallelism=2).window(blocks_per_window=1).write_parquet(folder)
        >>> weir.read_parquet(folder).count()
        4
        """
        self._write("write_parquet", path, options)

    def write_csv(self, path: str, **options: Any) -> None:
        """Dataset.write_csv of each window, into one folder.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(4, parallelism=2).window(blocks_per_window=1).write_csv(folder)
        >>> weir.read_csv(folder).count()
        4
        """
        self._write("write_csv", path, options)

    def write_json(self, path: str, **options: Any) -> None:
        """Dataset.write_json of each window, into one folder.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(4, parallelism=2).window(blocks_per_window=1).write_json(folder)
        >>> weir.read_json(folder).count()
        4
        """
        self._write("write_json", path, options)

    def write_numpy(self, path: str, **options: Any) -> None:
        """Dataset.write_numpy of each window, into one folder.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(4, parallelism=2).window(blocks_per_window=1).write_numpy(folder, column="id")
        >>> weir.read_numpy(folder).count()
        4
        """
        self._write("write_numpy", path, options)

    def _write(self, method: str, path: str, options: dict[str, Any]) -> None:
        self._check_end(method)
        self._use(method)
        for number, ds in enumerate(self._datasets()):
            if number and "mode" in options:
                options = {**options, "mode": "append"}  # what is there now is this pipeline's own
            getattr(ds, method)(path, **options)

    # ---- about it ----

    def stats(self, exclude_first_window: bool = True) -> str:
        """What the last windows did, and how long the program waited for them.

        >>> import weir
        >>> pipe = weir.range(4, parallelism=2).window(blocks_per_window=1).map(lambda row: row)
        >>> _ = list(pipe.iter_rows())
        >>> print(pipe.stats())  # doctest: +ELLIPSIS
        == Pipeline Window 1 ==
        Stage 1 read->map: 1/1 blocks executed in ...
        """
        if not self._count:
            return "No stats available: This pipeline hasn't been run yet."
        waited = self._waited[1:] if exclude_first_window and len(self._waited) > 1 else self._waited
        from weir import _stats

        low, high = _stats._seconds(min(waited)), _stats._seconds(max(waited))
        mean, total = _stats._seconds(sum(waited) / len(waited)), _stats._seconds(sum(waited))
        return "\n".join(
            [
                *self._texts,
                "##### Overall Pipeline Time Breakdown #####",
                f"* Time stalled waiting for next dataset: {_stats._spread(low, high, mean, total)}",
                f"* Total time: {_stats._seconds(self._total)}",
                "",
            ]
        )

    @property
    def length(self) -> float | None:
        """How many windows there are; inf: without end; None: not known yet.

        >>> import weir
        >>> weir.range(4, parallelism=2).window(blocks_per_window=1).length, weir.range(4).repeat().length
        (2, inf)
        """
        return self._length

    def __getattr__(self, name: str) -> Any:
        if name in _ONCE_NAMED:
            return getattr(self, f"{name}_each_window")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"DatasetPipeline(num_windows={self._length}, num_stages={len(self._stages)})"

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("`DatasetPipeline` objects aren't iterable. Call iter_rows(), iter_batches() or iter_datasets().")

    def __len__(self) -> int:
        raise AttributeError("Use `pipe.count()` for the rows of a DatasetPipeline and `pipe.length` for its windows.")

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        """Its windows are made here, where the Dataset is, as the process that has the pickle asks for them."""
        from weir import _elsewhere

        if self._handed is None:
            self._use("pickle")
            self._handed = _elsewhere.handed((epoch, lambda make=make: self._made(make)) for epoch, make in self._source())  # type: ignore[misc]
        return _unpickled, (*self._handed, self._context, self._length)


def _unpickled(address: str, number: int, context: DataContext, length: float | None) -> DatasetPipeline:
    from weir._elsewhere import windows_from

    return DatasetPipeline(lambda: windows_from(address, number), context=context, length=length, kept=True)


class _Any:
    """Stands for a function in front of one that is only checked."""

    name, kind, is_class = "Map(_)", "map", False


_ANY = _Any()


class _Stream(_parts.LocalRows):
    """The batches of all windows as a source."""

    __slots__ = ("kept",)

    def __init__(self, make: Callable[[], Iterator[Batch]], kept: bool) -> None:
        super().__init__(make)
        self.kept = kept

    @property
    def inputs(self) -> tuple[Op, ...]:
        # Whoever hands out tensors looks for kept rows: those must not be written to.
        return (Blocks("Windows", [], ""),) if self.kept else ()


def windowed(ds: Dataset, blocks_per_window: int | None, bytes_per_window: int | None) -> DatasetPipeline:
    """What Dataset.window makes.

    >>> import weir
    >>> windowed(weir.range(4, parallelism=4), 2, None).length
    2
    """
    if blocks_per_window is not None and bytes_per_window is not None:
        raise ValueError("Only one windowing scheme can be specified: blocks_per_window or bytes_per_window.")
    if blocks_per_window is not None:
        check_number(blocks_per_window, "blocks_per_window")
    if bytes_per_window is not None:
        bytes_per_window = byte_count(bytes_per_window, "bytes_per_window")
    count = (blocks_per_window or DEFAULT_BLOCKS) if bytes_per_window is None else None
    if not is_read(ds._op):
        kept = Kept(ds)
        return DatasetPipeline(
            lambda: ((0, make) for make in kept.windows(count, bytes_per_window)), context=ds.context, kept=True
        )
    length = -(-block_count(ds._op, ds.context) // count) if count is not None else None
    return DatasetPipeline(
        lambda: ((0, make) for make in read_windows(ds, count, bytes_per_window)), context=ds.context, length=length
    )


def repeated(ds: Dataset, times: int | None) -> DatasetPipeline:
    """What Dataset.repeat makes.

    >>> import weir
    >>> repeated(weir.range(4), 3).count()
    12
    """
    check_times(times)
    reads = is_read(ds._op)
    kept = Kept(ds)

    def windows() -> Windows:
        for epoch in itertools.count() if times is None else range(times):
            yield epoch, (lambda: ds._then(ds._op)) if reads else kept.dataset

    return DatasetPipeline(windows, context=ds.context, length=math.inf if times is None else times, kept=not reads)
