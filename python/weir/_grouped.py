"""Groups: what groupby and the aggregations of whole Datasets run.

    aggregations of weir      Group: `group KEYS ITEMS` in the engine
    one of them is a user's   Groups ─▶ Call(GroupAggregates): all in workers, group by group; where a group may be large, parts of
                              groups first: Groups(may_cut) ─▶ Call(PartAggregates) ─▶ Groups ─▶ Call(JoinAggregates)
    of a whole Dataset        Whole: partial results of the engine (_aggregate.py) or, of a user's, of workers, put together here
    map_groups                Groups ─▶ Call with a mark

Groups (`groups KEYS --mark`) gives the rows of each group one after another, with a number of the group as last column; what a
worker gets is cut between groups only, and the worker finds them by that number (`_apply.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir._exchange import Exchange
from weir._expr_literals import quote_name
from weir._plan import Blocks, Call, Op, Step, quoted

if TYPE_CHECKING:
    from weir._build import Build
    from weir._run import Run
    from weir._weir import Batch, Flow
    from weir.aggregate import AggregateFn

MARK = "__weir_group__"  # the column that numbers groups, which no function sees
PARTIAL = "__weir_partial__"  # the column with what is known of a part of a group
WHOLE_BYTES = 4 << 20  # of so little no group is cut


class _Keyed(Exchange):
    """An exchange by the values of columns."""

    __slots__ = ("keys", "columns")

    def __init__(
        self, input: Op, verb: str, keys: Sequence[str], words: Sequence[str], name: str, columns: Sequence[str] | None
    ) -> None:
        super().__init__(input, verb, [", ".join(map(quoted, keys)), *words], name)
        self.keys = tuple(keys)
        self.columns = tuple(columns) if columns is not None else None  # those it needs; None: all

    @property
    def keeps_rows(self) -> bool:
        return False

    def parts(self, run: Run) -> list[Op] | None:
        from weir import _parts, _plan
        from weir._weir import NameUnknownError

        assert self.input is not None
        op: Any = self
        if self.columns and not self.input.is_native:  # only these are kept
            op = _plan.with_input(self, Step(self.input, "select", [quoted(name) for name in self.columns]))
        try:
            parts = Exchange.parts(op, run)
        except NameUnknownError as error:
            missing = error.column or next((c for c in self.columns or () if c in str(error)), None)
            if missing is None:
                raise
            raise ValueError(f"{_ABSENT.format(missing)}: {error}") from error
        before = parts[0].input if parts else None
        if isinstance(before, (Blocks, _parts.Streamed)):  # of others it is known at the call
            blocks = before.blocks if isinstance(before, Blocks) else [before.first]
            names = {field[0]: None for block in blocks for field in block.schema()}
            for key in self.keys:
                if key not in names:
                    raise ValueError(f"{_ABSENT.format(key)}. The dataset has columns: {list(names)}")
        return parts


_ABSENT = "You specified the column '{}', but there's no such column in the dataset"


class Group(_Keyed):
    """A row for each group: its keys, and aggregates of it. Without aggregates, the different keys."""

    __slots__ = ("partitions",)

    def __init__(
        self,
        input: Op,
        keys: Sequence[str],
        items: Iterable[tuple[str, str]],
        columns: Iterable[str],
        partitions: int | None = None,
    ) -> None:
        words = [f"{quote_name(name)} = {word}" for name, word in items]
        super().__init__(input, "group", keys, words, "Aggregate", list(dict.fromkeys([*keys, *columns])))
        self.partitions = partitions


class Distinct(_Keyed):
    """The different values of a column."""

    __slots__ = ()

    def __init__(self, input: Op, keys: Sequence[str]) -> None:
        super().__init__(input, "unique", keys, [], "Aggregate", keys)


class Groups(_Keyed):
    """All rows, those of a group one after another, with the group's number behind them."""

    __slots__ = ("partitions", "may_cut")

    def __init__(
        self,
        input: Op,
        keys: Sequence[str],
        columns: Sequence[str] | None = None,
        partitions: int | None = None,
        may_cut: bool = False,
    ) -> None:
        super().__init__(input, "groups", keys, [], "GroupBy", columns)
        self.partitions = partitions
        self.may_cut = may_cut  # workers may get a part of a group

    def add(self, flow: Flow, build: Build) -> None:
        flow.step(self.verb, self.words, [("mark", MARK), *([("cut", None)] if self.may_cut else [])])


# ---- in workers ----


def boundaries(batch: Batch) -> tuple[Batch, list[tuple[int, int]]]:
    """The batch without its mark, and where its groups begin and end."""
    import numpy as np

    marks = batch.column(MARK)
    cuts = (np.flatnonzero(marks[1:] != marks[:-1]) + 1).tolist()
    names = [name for name in batch.names if name != MARK]
    return batch.select(names), list(zip([0, *cuts], [*cuts, batch.num_rows]))


def key_text(keys: Sequence[str], batch: Batch, row: int) -> str:
    """Which group a row is of, for errors."""
    if not keys or row >= batch.num_rows:
        return "of all rows" if not keys else ""
    values = batch.select(list(keys)).rows(row, row + 1)[0]
    texts = [f"{key} = {value!r}" for key, value in values.items()]
    return ", ".join(text if len(text) <= 100 else text[:99] + "…" for text in texts)


def regrouped(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Batches with marks, cut between groups: what chunks are for workers, for a function that runs in this process."""
    from weir._blocks import joined

    held: list[Batch] = []
    for batch in batches:
        if held and held[-1].column(MARK)[-1] == batch.column(MARK)[0]:
            held.append(batch)
            if batch.column(MARK)[-1] == batch.column(MARK)[0]:
                continue
            batch = joined(held)
            held = []
        elif held:
            yield joined(held)
            held = []
        _, ranges = boundaries(batch)
        last = ranges[-1][0]
        if last:
            yield batch.slice(0, last)
        held = [batch.slice(last)]
    if held:
        yield joined(held)


def _block(batch: Batch) -> Any:
    """What a user's aggregation is given: a Table, or the batch itself where pyarrow is not installed."""
    from weir import _formats

    try:
        return _formats.to_arrow(batch)
    except ImportError:
        return batch


def _plain(value: Any) -> Any:
    """A result as values of rows are."""
    if hasattr(value, "as_py"):
        return value.as_py()
    if hasattr(value, "to_pylist"):
        return value.to_pylist()
    return list(value) if isinstance(value, (set, frozenset)) else value


def _combined(aggregate: AggregateFn, accumulators: list[Any]) -> Any:
    """One partial result of several."""
    from weir.aggregate import VectorizedAggregateFnV2

    if isinstance(aggregate, VectorizedAggregateFnV2):
        values = [_plain(accumulator) for accumulator in accumulators]
        try:
            import pyarrow as pa
        except ImportError:
            return aggregate._combine_column(values)
        try:
            return aggregate._combine_column(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # no values of a column: they are given as they are
            return aggregate._combine_column(values)
    found = accumulators[0]
    for accumulator in accumulators[1:]:
        found = aggregate.merge(found, accumulator)
    return found


class _OfGroups:
    """Makes a row of each group of a batch. `group`: the one that it is at, for errors."""

    group = ""

    def __init__(self, keys: Sequence[str], aggregates: Sequence[AggregateFn], names: Sequence[str]) -> None:
        self.keys, self.aggregates, self.names = list(keys), list(aggregates), list(names)

    def row(self, key: Any, part: Batch) -> dict[str, Any]:
        raise NotImplementedError

    def accumulators(self, key: Any, part: Batch) -> list[Any]:
        """What each aggregation has of these rows."""
        block = _block(part)
        return [aggregate.accumulate_block(aggregate.init(key), block) for aggregate in self.aggregates]

    def __call__(self, batch: Batch) -> Any:
        from weir._weir import batch_from_rows, batch_zip

        rows, ranges = boundaries(batch)
        made: list[dict[str, Any]] = []
        firsts = []
        for begin, end in ranges:
            part = rows.slice(begin, end)
            first = part.select(self.keys).rows(0, 1)[0]
            self.group = key_text(self.keys, part, 0)
            made.append(self.row(next(iter(first.values())) if len(first) == 1 else tuple(first.values()), part))
            firsts.append(first)
        self.group = ""
        try:
            import numpy as np
        except ImportError:
            return batch_from_rows([{**first, **row} for first, row in zip(firsts, made)])
        keys = rows.select(self.keys).take(np.array([begin for begin, _ in ranges], np.int64))
        # Not by way of a Table: what came as one is never unpickled, and results may be any Python objects.
        return batch_zip([keys, batch_from_rows(made)])


class GroupAggregates(_OfGroups):
    """The results of each group."""

    def row(self, key: Any, part: Batch) -> dict[str, Any]:
        found = zip(self.names, self.aggregates, self.accumulators(key, part))
        return {name: _plain(aggregate.finalize(_combined(aggregate, [one]))) for name, aggregate, one in found}


class PartAggregates(_OfGroups):
    """What the aggregations have of each group, or of a part of one, as bytes."""

    def row(self, key: Any, part: Batch) -> dict[str, Any]:
        import cloudpickle

        return {PARTIAL: cloudpickle.dumps(self.accumulators(key, part), protocol=5)}


class JoinAggregates(_OfGroups):
    """The results of each group, of which each row has what the aggregations have of a part of it."""

    def row(self, key: Any, part: Batch) -> dict[str, Any]:
        import pickle

        parts = [pickle.loads(row[PARTIAL]) for row in part.select([PARTIAL]).rows()]
        return {
            name: _plain(aggregate.finalize(_combined(aggregate, [found[i] for found in parts])))
            for i, (name, aggregate) in enumerate(zip(self.names, self.aggregates))
        }


class Accumulates:
    """Makes partial results of a batch, as bytes."""

    def __init__(self, aggregates: Sequence[AggregateFn]) -> None:
        self.aggregates = list(aggregates)

    def __call__(self, batch: Batch) -> Any:
        import cloudpickle

        from weir._weir import batch_from_rows

        block = _block(batch)
        found = [a.accumulate_block(a.init(()), block) for a in self.aggregates]
        return batch_from_rows([{"partial": cloudpickle.dumps(found, protocol=5)}])


def in_workers(input: Op, fn: Any, name: str = "Aggregate") -> Call:
    """A function of weir's own over batches of the engine."""
    from weir import _call, _fuse

    spec = _call.CallSpec("map_batches", fn, batch_format=_fuse.BATCH, name=name)
    spec.takes_groups = isinstance(input, Groups) and not input.may_cut
    return Call(input, spec)


# ---- aggregations ----


def result_names(aggregates: Sequence[AggregateFn], keys: Sequence[str] = ()) -> list[str]:
    """The columns of the results: a name that is there already gets a number."""
    found: list[str] = []
    for aggregate in aggregates:
        name, number = aggregate.name, 1
        while name in found:
            number += 1
            name = f"{aggregate.name}_{number}"
        if name in keys:
            raise ValueError(f"the aggregation {name!r} has the name of a column that is grouped by: give it an alias_name")
        found.append(name)
    return found


def needed(aggregates: Sequence[AggregateFn]) -> list[str]:
    """The columns that they are about, as far as they say so."""
    return [name for a in aggregates if (name := getattr(a, "_target_col_name", None)) is not None]


def engine_words(aggregates: Sequence[AggregateFn]) -> list[str] | None:
    """What the engine calls the aggregations; None: workers have to do them."""
    from weir.aggregate import native_word

    words = [native_word(aggregate) for aggregate in aggregates]
    return None if any(word is None for word in words) else [word for word in words if word is not None]


def grouped(input: Op, keys: Sequence[str], aggregates: Sequence[AggregateFn], partitions: int | None = None) -> Op:
    """A row for each group."""
    names = result_names(aggregates, keys)
    words = engine_words(aggregates)
    if not keys:
        return Whole(input, aggregates)
    if words is not None:
        return Group(input, keys, zip(names, words), needed(aggregates), partitions)
    if _is_little(input):
        return in_workers(Groups(input, keys, partitions=partitions), GroupAggregates(keys, aggregates, names))
    parts = in_workers(Groups(input, keys, may_cut=True), PartAggregates(keys, aggregates, names))
    return in_workers(Groups(parts, keys, partitions=partitions), JoinAggregates(keys, aggregates, names))


def _is_little(op: Op) -> bool:
    """Rows that are in memory already, and few."""
    while op.input is not None:
        op = op.input
    return isinstance(op, Blocks) and sum(int(block.nbytes) for block in op.blocks) <= WHOLE_BYTES


class Whole(Op):
    """One row about all rows; none, where there are none."""

    __slots__ = ("aggregates",)
    kind = "Aggregate"
    native = False

    def __init__(self, input: Op, aggregates: Sequence[AggregateFn]) -> None:
        self.input = input
        self.aggregates = tuple(aggregates)

    @property
    def name(self) -> str:
        return "Aggregate"

    def parts(self, run: Run) -> list[Op] | None:
        from weir import _aggregate

        assert self.input is not None
        batch = _aggregate.batch_of_all(self.input, self.aggregates, run)
        return [] if batch is None else [Blocks("Aggregate", [batch], run.build.state.id)]


def accumulated(input: Op, aggregates: Sequence[AggregateFn], run: Run) -> list[Any] | None:
    """The results of aggregations of which one is a user's; None: there are no rows."""
    import pickle

    from weir import _parts

    partials: list[list[Any]] = []
    for batch in run.collect(_parts.resolve(in_workers(input, Accumulates(aggregates)), run)):
        partials += [pickle.loads(row["partial"]) for row in batch.rows()]
    if not partials:
        return None
    return [
        _plain(aggregate.finalize(_combined(aggregate, [partial[i] for partial in partials])))
        for i, aggregate in enumerate(aggregates)
    ]
