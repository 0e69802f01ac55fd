"""Dataset: a plan, and what can be done with it.

A Dataset never changes; each method that transforms (`_transform.py`) makes a new one with one operator more. Nothing runs
before somebody wants rows, and every consumption runs everything anew; materialize() keeps.
"""

from __future__ import annotations

import copy as copy_module
import os
import re
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from weir import _blocks, _build, _parts, _plan, _run, _translated
from weir._arrange import RandomizeBlocks
from weir._convert import Conversions
from weir._legacy import Legacy
from weir._exchange import Exchanges
from weir._join import Joins
from weir._mistakes import ROWS_MAX, WrongArgument, WrongObject
from weir._fixed_blocks import keeps_fixed_blocks
from weir._plan import Blocks, Limit, Op, Read, Step
from weir._splits import Splits
from weir._transform import Transforms
from weir._weir import TypeMismatchError, batch_from_columns, batch_zip
from weir._writes import SaveMode as SaveMode
from weir._writes import Writes
from weir._zip import Zip
from weir.context import DataContext
from weir.schema import Schema

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from weir._weir import Batch
    from weir.aggregate import AggregateFn
    from weir._loop import IterationTimes
    from weir.grouped_data import GroupedData
    from weir.iterator import DataIterator


class Dataset(Transforms, Splits, Writes, Conversions, Legacy, Exchanges, Joins):
    """Rows that are read, transformed and handed out as a stream.

    Made by weir.range, weir.read_parquet and the like.

    >>> import weir
    >>> ds = weir.range(1000).filter(expr="id > 997")
    >>> ds.count()
    2
    >>> ds.take_all()
    [{'id': 998}, {'id': 999}]
    """

    def __init__(self, op: Op, context: DataContext | None = None) -> None:
        self._op = op
        self._context = (context or DataContext.get_current()).copy()
        self._name: str | None = None
        self._uuid = os.urandom(12).hex()
        self._last_run: _run.Run | None = None
        self._made: _run.Run | None = None  # of rows that are kept, the run that made them
        self._iteration: IterationTimes | None = None
        self._schema_known: Schema | None = None
        self._given: tuple[int, Schema] | None = None  # rows and columns that a run over all of it has given
        self._frames: list[pandas.DataFrame] = []  # what from_pandas was given, as long as nothing is done with it

    def _then(self, op: Op) -> Dataset:
        made = Dataset.__new__(Dataset)
        made.__dict__.update(self.__dict__)
        made._op = op
        counted = self._context._executed()
        made._context = self._context.copy()
        made._context.__dict__["_executions"] = counted
        made._uuid = os.urandom(12).hex()
        made._last_run = made._made = made._iteration = made._schema_known = made._given = None
        made._frames = []
        made.__dict__.pop("_history", None)  # of rows that are there, how they came to be is their own affair
        return made

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_last_run"] = state["_made"] = state["_iteration"] = state["_schema_known"] = state["_given"] = None
        return state

    def _note_given(self) -> None:
        run = self._last_run
        if run is not None and run.finished and run.op is self._op and run.given_schema is not None:
            self._given = run.given_rows, run.given_schema

    def _new_run(self, op: Op | None = None) -> _run.Run:
        self._note_given()
        return _run.Run(op if op is not None else self._op, self._context)

    if not TYPE_CHECKING:  # else every name would be one

        def __getattr__(self, name):
            from weir import _other_words

            raise _other_words.lacking(self, name, _other_words.OF_DATASETS)

    # ---- consuming: a few rows ----

    def take(self, limit: int = 20) -> list[dict[str, Any]]:
        """The first rows, at most `limit`, as a list of dicts. Only what they need is read and computed.

        >>> import weir
        >>> weir.range(100).take(2)
        [{'id': 0}, {'id': 1}]
        """
        rows: list[dict[str, Any]] = []
        limit = _count_of(limit, "limit")
        if limit <= 0:
            return rows
        run = self._last_run = self._new_run(Limit(self._op, limit))
        for batch in run:
            rows.extend(_blocks.rows_of(batch, run))
        return rows

    def take_all(self, limit: int | None = None) -> list[dict[str, Any]]:
        """All rows, as a list. ValueError if there are more than `limit`.

        >>> import weir
        >>> weir.range(2).take_all()
        [{'id': 0}, {'id': 1}]
        """
        rows: list[dict[str, Any]] = []
        limit = _no_limit(limit)
        op = self._op if limit is None else Limit(self._op, max(0, limit) + 1)
        run = self._last_run = self._new_run(op)
        for batch in run:
            rows.extend(_blocks.rows_of(batch, run))
            if limit is not None and len(rows) > limit:
                raise ValueError(f"The dataset has more than the given limit of {limit} records. take({limit}) gives the first of them, take_all() all.")
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Any:
        """The first rows, at most `batch_size`, as one batch in a `batch_format` (as for map_batches). ValueError if
        there are none.

        >>> import weir
        >>> weir.range(100).take_batch(3)
        {'id': array([0, 1, 2])}
        """
        from weir import _formats
        from weir._loop import check_iteration

        check_iteration(None, batch_format, 1, None)
        run = self._last_run = self._new_run(Limit(self._op, max(0, _count_of(batch_size, "batch_size"))))
        batches = list(run)
        if not batches:
            raise ValueError("The dataset is empty.")
        arrow_backed = bool(self._context.enable_arrow_backed_pandas_conversion)
        return _formats.to_format(run.own(_blocks.joined(batches)), batch_format, True, arrow_backed, frames=bool(_plan.rules_of(self._op)))

    def show(self, limit: int = 20) -> None:
        """Prints the first rows, at most `limit`, one per line.

        >>> import weir
        >>> weir.range(2).show()
        {'id': 0}
        {'id': 1}
        """
        for row in self.take(limit):
            print(row)

    # ---- consuming: about the data ----

    def count(self) -> int:
        """The number of rows. For Parquet files without further steps it comes from their footers.

        >>> import weir
        >>> weir.range(10).count()
        10
        """
        known = self._op.rows()
        if known is not None and all(isinstance(op, (_plan.Range, Blocks, Limit, Step)) for op in _plan.walk(self._op)):
            return known
        if isinstance(self._op, _plan.ReadTasks):
            told = self._op.known_rows(self._context)
            if told is not None:
                return told
        run = self._last_run = self._new_run()
        return run.count()

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """The columns and their types; None if there are no rows. Native plans need no run. After functions, the first
        row goes through all of them; if a function fails with a single row, or makes nulls or empty lists of it, the
        first block does.

        Args:
            fetch_if_missing: False: None also where files that do not state their columns would have to be read.

        >>> import weir
        >>> weir.range(10).schema().names
        ['id']
        """
        if self._schema_known is None and not fetch_if_missing:
            op = _behind_filters(_without_cuts(self._op))
            return Dataset(op, self._context)._find_schema(may_run=False) if _tells_columns(op) else None
        if self._schema_known is None:
            found = self._find_schema()
            self._schema_known = found.of_frames() if found is not None and _plan.rules_of(self._op) else found
        return self._schema_known

    def _find_schema(self, may_run: bool = True) -> Schema | None:
        op = _without_cuts(self._op)
        if _plan.is_nothing(op):
            return None
        if isinstance(op, Blocks):
            empty = _blocks.empty_of(op)
            return Schema(empty) if len(empty.names) or any(block.num_rows for block in op.blocks) else None
        typed = _in_common_columns(op) if op.is_native else None
        if typed is not None and all(_has_one_schema(source) for source in _plan.walk(typed)):
            build = _build.Build(self._context)
            try:
                with _translated.translated(self._context, op=op):
                    return Schema(build.flow(typed).schema())
            except TypeMismatchError:  # columns of a union have no common type: the rows are what they are, and the first one's count
                if not any(isinstance(step, _plan.Union) for step in _plan.walk(op)):
                    raise
        if isinstance(op, Zip) and all(map(_tells_columns, op.inputs)):
            sides = [Dataset(side, self._context)._find_schema(may_run) for side in op.inputs]
            if all(side is not None and side._batch is not None for side in sides):
                return Schema(batch_zip([side._batch.slice(0, 0) for side in sides if side is not None and side._batch is not None]))
        if not may_run:
            return None
        for plan, may_fail in ((_parts.few_rows_in(op, 1), not op.is_native), (Limit(op, 1), False)):
            run = self._new_run(plan)
            found = self._try_schema(run, may_fail)
            if found is not None and not op.is_native and not _parts.cuts_rows_anew(self._op) and any(map(_NULL.search, found.type_texts)):
                run = self._new_run(_parts.few_rows_in(op, FEW_ROWS))
                run.build.rows_least = FEW_ROWS
                return self._try_schema(run, True) or found
            if found is not None:
                return found
        if not op.is_native:  # results without rows reach nobody but who keeps them
            run = self._new_run()
            run.blocks()
        return Schema(run.empty) if run.empty is not None else None

    def _try_schema(self, run: _run.Run, may_fail: bool) -> Schema | None:
        """The schema of the first rows of a run. None: there are none, or a function needs more of them."""
        run.is_trial = may_fail
        try:
            return next((Schema(batch) for batch in run), None)
        except Exception as error:
            from weir._errors import is_of_run

            if not may_fail or not is_of_run(error, self._context):
                raise
            return None

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """The columns' names.

        >>> import weir
        >>> weir.range(10).columns()
        ['id']
        """
        schema = self.schema(fetch_if_missing)
        return schema.names if schema is not None else None

    def size_bytes(self) -> int:
        """How many bytes the rows take in memory. This runs the whole plan.

        >>> import weir
        >>> weir.range(10).size_bytes()
        80
        """
        if isinstance(self._op, Blocks):
            return sum(int(b.nbytes) for b in self._op.blocks)
        if isinstance(self._op, _plan.Range):
            return self._op.count * 8
        run = self._last_run = self._new_run()
        return sum(int(batch.nbytes) for batch in run)

    def num_blocks(self) -> int:
        """Of a MaterializedDataset, how many blocks it has; others do not know.

        >>> import weir
        >>> weir.range(4).num_blocks()
        Traceback (most recent call last):
        ...
        NotImplementedError: Number of blocks is only available for `MaterializedDataset`, because the number of blocks may dynamically change during execution. Call `ds.materialize()` to get a `MaterializedDataset`.
        """
        if self._old:
            from weir import _legacy

            return _legacy.block_count(self._op, self._context)
        raise NotImplementedError(
            "Number of blocks is only available for `MaterializedDataset`, because the number of blocks may dynamically "
            "change during execution. Call `ds.materialize()` to get a `MaterializedDataset`."
        )

    def input_files(self) -> list[str]:
        """The files that a run reads.

        >>> import weir
        >>> weir.range(10).input_files()
        []
        """
        from weir.datasource.other_systems import shown

        found: dict[str, None] = {}
        for op in _plan.walk(self._op):
            if isinstance(op, Read):
                found.update(dict.fromkeys(map(shown, op.files())))
            elif isinstance(op, _plan.ReadTasks):
                found.update(dict.fromkeys(map(shown, op.input_files(self._context))))
        return list(found)

    # ---- consuming: aggregates ----

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """The sum of a column, or of several.

        Args:
            on: a column's name; or a list of names, or None for all columns, which gives a dict with names like
                "sum(a)".
            ignore_nulls: False: a null makes the result None.

        None if there are no values. A NaN makes the sum NaN.

        >>> import weir
        >>> weir.range(10).sum("id"), weir.range(0).sum("id")
        (45, None)
        >>> weir.from_items([{"a": 1, "b": 2}, {"a": None, "b": 3}]).sum(["a", "b"])
        {'sum(a)': 1, 'sum(b)': 5}
        """
        return self._aggregate("sum", on, ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """The smallest value. NaN only if there is nothing else. `on`, `ignore_nulls` and None: as for sum().

        >>> import weir
        >>> weir.range(10).min("id")
        0
        """
        return self._aggregate("min", on, ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """The largest value. NaN only if there is nothing else. `on`, `ignore_nulls` and None: as for sum().

        >>> import weir
        >>> weir.from_items([{"a": float("nan")}, {"a": 1.0}]).max("a")
        1.0
        """
        return self._aggregate("max", on, ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """The mean. `on`, `ignore_nulls` and None: as for sum().

        >>> import weir
        >>> weir.range(10).mean("id")
        4.5
        """
        return self._aggregate("mean", on, ignore_nulls)

    def std(self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """The standard deviation: of a sample, or with ddof=0 of all there is. For one value it is NaN. `on`,
        `ignore_nulls` and None: as for sum().

        >>> import weir
        >>> weir.range(3).std("id")
        1.0
        """
        if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
            raise WrongArgument(f"ddof is an integer of at least 0, not {ddof!r}")
        return self._aggregate("std", on, ignore_nulls, ddof)

    def aggregate(self, *aggs: AggregateFn) -> dict[str, Any] | None:
        """Several aggregations in one pass, as a dict by their names; None if there are no rows and no columns are known.

        >>> import weir
        >>> from weir.aggregate import Max, Sum
        >>> weir.range(10).aggregate(Sum("id"), Max("id"))
        {'sum(id)': 45, 'max(id)': 9}
        """
        from weir import _aggregate
        from weir.aggregate import AggregateFn

        for agg in aggs:
            if not isinstance(agg, AggregateFn):
                raise WrongObject(f"aggregate takes aggregations such as weir.aggregate.Sum, not {agg!r}")
        return _aggregate.aggregated(self, aggs)

    def groupby(self, key: str | list[str] | None, num_partitions: int | None = None) -> GroupedData:
        """Groups the rows that are equal in a column, or in several. With None, or without columns, all rows are one
        group.

        `num_partitions`: the number of blocks of the result, if it is materialized and has as many rows. How groups are
        divided while they are made depends on memory and processors.

        >>> import weir
        >>> ds = weir.from_items([{"k": "a", "x": 1}, {"k": "b", "x": 2}, {"k": "a", "x": 3}])
        >>> ds.groupby("k").mean("x").sort("k").take_all()
        [{'k': 'a', 'mean(x)': 2.0}, {'k': 'b', 'mean(x)': 2.0}]
        """
        from weir.grouped_data import grouped_by

        return grouped_by(self, key, num_partitions)

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any]:
        """The distinct values of a column, None among them unless ignore_nulls is set. A small number of values comes
        in an order: that of the rows if these are known to be few, otherwise that of the values. Many values come in no
        particular order.

        >>> import weir
        >>> weir.from_items([3, 1, 2, 1]).unique("item")
        [3, 1, 2]
        """
        from weir import _aggregate

        return _aggregate.unique(self, column, ignore_nulls)

    def _aggregate(self, function: str, on: Any, ignore_nulls: bool, ddof: int = 1) -> Any:
        from weir import _aggregate

        if on is not None and not isinstance(on, str) and not (
            isinstance(on, (list, tuple)) and on and all(isinstance(c, str) for c in on)
        ):
            raise ValueError(f"`on` is a column, a list of columns or None, not {on!r}")
        columns = [on] if isinstance(on, str) else list(on) if on is not None else None
        return _aggregate.whole(self, function, columns, ignore_nulls, ddof)

    # ---- consuming: everything ----

    def iterator(self) -> DataIterator:
        """This Dataset, for code that only consumes it.

        >>> import weir
        >>> [row["id"] for row in weir.range(2).iterator().iter_rows()]
        [0, 1]
        """
        from weir.iterator import DataIterator

        return DataIterator(self)

    def iter_rows(self) -> Iterable[dict[str, Any]]:
        """The rows, one after another. Leaving the loop stops the run.

        >>> import weir
        >>> for row in weir.range(10**9).iter_rows():
        ...     if row["id"] == 2:
        ...         break
        """
        return self.iterator().iter_rows()

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
        """Batches of `batch_size` rows; with None each block is one. See DataIterator.iter_batches. With `batch_format`
        None, rows of from_pandas come as frames and all others as pyarrow.Tables.

        >>> import weir
        >>> [batch["id"].tolist() for batch in weir.range(5).iter_batches(batch_size=2, drop_last=True)]
        [[0, 1], [2, 3]]
        """
        if batch_format is None and self._frames:
            batch_format = "pandas"
        return self.iterator().iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=_collate_fn,
        )

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Batches as dicts of torch tensors. See DataIterator.iter_torch_batches.

        >>> import torch, weir
        >>> [batch["id"].sum().item() for batch in weir.range(4).iter_torch_batches(batch_size=2)]
        [1, 5]
        """
        return self.iterator().iter_torch_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            device=device,
            collate_fn=collate_fn,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            pin_memory=pin_memory,
        )

    def materialize(self) -> MaterializedDataset:
        """Runs everything and keeps the rows, in memory or on disk as the limit allows.

        >>> import weir
        >>> kept = weir.range(10).repartition(2).materialize()
        >>> kept.num_blocks(), kept.count()
        (2, 10)
        """
        run = self._new_run()
        blocks = run.blocks() or _columns_only(self, run)
        kept = Blocks(self._op.name, blocks, run.build.state.id, keeps_fixed_blocks(self._op), _plan.rules_of(self._op))
        made = MaterializedDataset(kept, self._context)
        made._name, made._history, made._old = self._name, self._op, self._old
        made._made = made._last_run = self._last_run = run
        return made

    def to_pandas(self, limit: int | None = None) -> pandas.DataFrame:
        """All rows as one DataFrame; ValueError if there are more than `limit`.

        >>> import weir
        >>> weir.range(3).to_pandas()["id"].tolist()
        [0, 1, 2]
        """
        from weir import _formats

        pd = _formats._need("pandas", "to_pandas")
        frames = self._frames
        if frames and _no_limit(limit) is None:
            self._last_run = self._last_run or self._new_run()  # so that stats() tells of rows that were given
            return _formats.without_tensor_arrays(pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0].copy())
        batches = self._all_batches("to_pandas", limit)
        if not batches:
            return pd.DataFrame()
        arrow_backed = bool(self._context.enable_arrow_backed_pandas_conversion)
        return _formats.frame_of(batches, arrow_backed, frames=bool(_plan.rules_of(self._op)))

    def to_arrow(self, limit: int | None = None) -> pyarrow.Table:
        """All rows as one pyarrow.Table; ValueError if there are more than `limit`.

        >>> import weir
        >>> weir.range(3).to_arrow().num_rows
        3
        """
        from weir import _formats

        pa = _formats._need("pyarrow", "to_arrow")
        batches = self._all_batches("to_arrow", limit)
        if not batches:
            schema = self.schema()
            return schema.base_schema.empty_table() if schema is not None else pa.table({})
        return _formats.to_arrow(_blocks.joined(batches))

    def _all_batches(self, method: str, limit: int | None) -> list[Batch]:
        limit = _no_limit(limit)
        op = self._op if limit is None else Limit(self._op, max(0, limit) + 1)
        run = self._last_run = self._new_run(op)
        batches = []
        rows = 0
        for batch in run:
            batches.append(batch)
            rows += batch.num_rows
            if limit is not None and rows > limit:
                raise ValueError(
                    f"the dataset has more than the given limit of {limit} rows. If you are sure that all of them fit in local "
                    f"memory, set ds.{method}(limit=None) to disable limits."
                )
        return batches if len(batches) > 1 else [run.own(batch) for batch in batches]  # several are copied when they are joined

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        from weir._stream import stream

        return stream(self, requested_schema)

    # ---- about the plan ----

    @property
    def context(self) -> DataContext:
        """The settings that it was made with.

        >>> import weir
        >>> weir.range(3).context.max_errored_blocks
        0
        """
        return self._context

    @property
    def name(self) -> str | None:
        """The name that set_name() has given it.

        >>> import weir
        >>> weir.range(3).name is None
        True
        """
        return self._name

    def set_name(self, name: str | None) -> None:
        """Gives it a name, which repr and stats show.

        >>> import weir
        >>> ds = weir.range(3)
        >>> ds.set_name("numbers")
        >>> ds.name
        'numbers'
        """
        self._name = name

    def get_dataset_id(self) -> str:
        """A text that identifies this Dataset; no other one has it.

        >>> import weir
        >>> weir.range(3).get_dataset_id().startswith("dataset_")
        True
        """
        return f"{self._name or 'dataset'}_{self._uuid}"

    def copy(self, _deep_copy: bool = False, _as: type | None = None) -> Dataset:
        """The same plan.

        >>> import weir
        >>> weir.range(3).copy().count()
        3
        """
        return copy_module.copy(self)

    def stats(self) -> str:
        """What the last run of this Dataset did: tasks, blocks, rows and time by operator, and memory.

        >>> import weir
        >>> kept = weir.range(10).materialize()
        >>> "Operator 1 ReadRange" in kept.stats()
        True
        """
        from weir import _stats

        return _stats.text(self)

    def explain(self) -> None:
        """Prints the plan as it was written and as it runs; then what the engine makes of it, or of the part before the
        first function: what was pushed where, and estimates.

        >>> import weir
        >>> weir.range(3).limit(2).explain()  # doctest: +ELLIPSIS
        <BLANKLINE>
        -------- Logical Plan --------
        Limit[limit=2]
        +- Read[ReadRange]
        ...
        """
        from weir import _stats

        print(_stats.explained(self))

    def has_serializable_lineage(self) -> bool:
        """Whether the plan can be pickled and used anywhere. It cannot if its rows are only in this process.

        >>> import weir
        >>> weir.range(3).has_serializable_lineage(), weir.from_items([1]).has_serializable_lineage()
        (True, False)
        """
        return not any(isinstance(op, Blocks) for op in _plan.walk(self._op))

    def serialize_lineage(self) -> bytes:
        """The plan as bytes.

        >>> import weir
        >>> weir.Dataset.deserialize_lineage(weir.range(3).serialize_lineage()).count()
        3
        """
        if not self.has_serializable_lineage():
            raise ValueError("a Dataset whose rows are in memory has no plan to make it anew: write it to files")
        import cloudpickle

        return bytes(cloudpickle.dumps(self))

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """The Dataset from serialize_lineage(). As with pickle, reading runs code that is in the bytes: use it only for
        bytes that you trust.

        >>> import weir
        >>> weir.Dataset.deserialize_lineage(weir.range(2).serialize_lineage()).take()
        [{'id': 0}, {'id': 1}]
        """
        import pickle

        found = pickle.loads(serialized_ds)
        if not isinstance(found, Dataset):
            raise ValueError(f"these bytes are no Dataset, but {type(found).__name__}")
        found._uuid = os.urandom(12).hex()
        return found

    def __repr__(self) -> str:
        from weir import _show

        return _show.shown(self)

    def _repr_html_(self) -> str:
        from weir import _show

        return _show.html(self)

    def __len__(self) -> int:
        raise AttributeError("Use `ds.count()` to compute the length of a distributed Dataset. This may be an expensive operation.")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "`Dataset` objects aren't iterable. To iterate records, call `ds.iter_rows()` or `ds.iter_batches()`."
        )

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(
            f"a Dataset has no items: for columns, call `ds.select_columns([{key!r}])`; for rows, `ds.take(n)`, `ds.limit(n)` or "
            "`ds.to_pandas()`"
        )

    def __bool__(self) -> bool:
        return True


class MaterializedDataset(Dataset):
    """A Dataset whose rows are kept: it can be consumed again and again without running anything.

    >>> import weir
    >>> weir.from_items([1, 2, 3]).count()
    3
    """

    _history: Op | None = None

    def _blocks(self) -> tuple[Any, ...]:
        if not isinstance(self._op, Blocks):  # another process has the rows: from now on this one does, too
            run = self._new_run()
            self._op = Blocks(self._op.name, run.blocks(), run.build.state.id)
        return self._op.blocks

    def num_blocks(self) -> int:
        """How many blocks there are.

        >>> import weir
        >>> weir.range(10).repartition(5).materialize().num_blocks()
        5
        """
        return len(self._blocks())

    def materialize(self) -> MaterializedDataset:
        """Itself, since it is.

        >>> import weir
        >>> kept = weir.from_items([1])
        >>> kept.materialize() is kept
        True
        """
        if self._last_run is None:  # so that stats() tells of rows that were given
            self._last_run = self._new_run()
        return self


def _count_of(value: Any, name: str) -> int:
    """A number of rows that a method was given."""
    if isinstance(value, str) or not hasattr(value, "__int__"):
        raise WrongArgument(f"{name} is a number of rows, not {value!r}")
    return min(int(value), ROWS_MAX)


def _no_limit(limit: int | None) -> int | None:
    """float("inf") is accepted as a limit, and means that there is none."""
    return None if limit is None or limit == float("inf") else limit


def _behind_filters(op: Op) -> Op:
    """What functions that leave rows out, and nothing else, are called with."""
    while isinstance(op, _plan.Call) and op.spec.kind == "filter":
        assert op.input is not None
        op = op.input
    return op


_NULL = re.compile(r"(?<!not )\bnull\b")  # of a value that was None, or of an empty list
FEW_ROWS = 100  # that are looked at then


def _tells_columns(op: Op) -> bool:
    """Whether the columns are known without reading rows. Parquet files state theirs; CSV and JSON files do not."""
    if isinstance(op, Zip):
        return all(map(_tells_columns, op.inputs))
    return op.is_native and not any(isinstance(source, _plan.Read) and source.format != "parquet" for source in _plan.walk(op))


def _without_cuts(op: Op) -> Op:
    """The plan with the same columns without steps that only say where blocks end, and in which order they come: these would want all
    rows."""
    return _rebuilt(op, lambda step: None if isinstance(step, (_plan.Repartition, _plan.RepartitionRows, RandomizeBlocks)) else step)


def _in_common_columns(op: Op) -> Op:
    """The plan over a block without rows in place of blocks whose types differ and have a common one."""

    def common(step: Op) -> Op:
        if not isinstance(step, Blocks) or not step.blocks or _has_one_schema(step):
            return step
        found = _blocks.common_columns(_blocks.chunks_of([block for block in step.blocks if block.num_rows]))
        return step if found is None else Blocks(step.name, [found], step.session, step.fixed, step.rules)

    return _rebuilt(op, common)


def _rebuilt(op: Op, change: Callable[[Op], Op | None]) -> Op:
    """The plan with each step changed; None leaves it out."""
    made: Op | None = None
    for step in _plan.chain(op):
        changed = change(step)
        if changed is None:
            continue
        made = changed if made is None else _plan.with_input(changed, made)
        if isinstance(made, _plan.Union):
            made = _plan.Union(made.inputs[0], [_rebuilt(other, change) for other in made.others])
    return op if made is None else made


def _has_one_schema(op: Op) -> bool:
    if not isinstance(op, Blocks):
        return True
    rows = [b for b in op.blocks if b.num_rows] or op.blocks[:1]
    return bool(rows) and all(_blocks.columns_of(b) == _blocks.columns_of(rows[0]) for b in rows[1:])


def _columns_only(ds: Dataset, run: _run.Run) -> list[Batch]:
    """What stands for blocks without rows: their columns, where those are known. As in Ray Data, rows tell them behind functions of rows,
    and there are as many blocks as tasks would have made."""
    from weir._exchange import RepartitionKeys
    from weir._legacy import block_count

    made = ds._op
    wanted = made.count if isinstance(made, (_plan.Repartition, RepartitionKeys)) else None
    count = wanted or 1
    while isinstance(made, _plan.Repartition) and made.input is not None:
        made = made.input
    before: Op | None = made
    while before is not None and (isinstance(before, _plan.Call) or (isinstance(before, Step) and before.verb == "filter")):
        before = before.input
    if made is ds._op and isinstance(before, (_plan.Range, Read, _plan.ReadBlocks, Blocks)):
        count = block_count(before, ds._context)
    if isinstance(made, _plan.Call) and made.spec.kind in ("map", "flat_map", "filter"):
        return [batch_from_columns({})] * count
    if run.empty is not None:
        return [run.empty] * count
    has_columns = wanted or ds._op.rows() != 0 or isinstance(_plan.chain(ds._op)[0], Blocks)
    schema = ds.schema(fetch_if_missing=ds._op.is_native) if has_columns else None
    if schema is not None and schema._batch is not None:
        return [schema._batch] * count
    return [batch_from_columns({})] * count if wanted else []


for _base in Dataset.__mro__[1:-1]:  # errors of wrong arguments name the method as programs know it
    for _name, _method in vars(_base).items():
        if isinstance(_method, FunctionType):
            _method.__qualname__ = f"Dataset.{_name}"
            _method.__module__ = __name__  # where pickle finds it by that name
