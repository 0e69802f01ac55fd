"""What Ray Data had before it was lazy and streaming, for scripts of that time.

Everything here is lazy already, so lazy() and experimental_lazy() change nothing of how a plan runs. They mark a Dataset, and
what is made of it, as one of the old kind: it knows its number of blocks before it runs, its repr is the old line, and its
stats have the old words.

    Dataset(num_blocks=4, num_rows=100, schema={id: int64})
    Stage 1 read->map_batches: 4/4 blocks executed in 0.12s

window() and repeat() make a DatasetPipeline (dataset_pipeline.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir import _plan
from weir._plan import Blocks, Call, Limit, Op, Range, Read, ReadBlocks, Repartition, RepartitionRows, Source, Step, Union

if TYPE_CHECKING:
    from weir._run import Run
    from weir.context import DataContext
    from weir.dataset import Dataset, MaterializedDataset
    from weir.dataset_pipeline import DatasetPipeline
    from weir.ref_bundle import RefBundle
    from weir.stats import DatasetStatsSummary


class Legacy:
    """What Dataset inherits of older versions."""

    _op: Op
    _context: DataContext
    _last_run: Run | None
    _old: bool = False  # made by the old API

    if TYPE_CHECKING:

        def _then(self, op: Op) -> Dataset: ...

        def materialize(self) -> MaterializedDataset: ...

        def get_dataset_id(self) -> str: ...

        def iter_internal_ref_bundles(self) -> Iterator[RefBundle]: ...

        def get_stats_summary(self, detail: bool = False) -> DatasetStatsSummary: ...

        def set_name(self, name: str | None) -> None: ...

    def lazy(self) -> Dataset:
        """The same, as a Dataset of the old kind: nothing of it runs before its rows are wanted.

        >>> import weir
        >>> weir.range(10, parallelism=2).lazy()
        Dataset(num_blocks=2, num_rows=10, schema={id: int64})
        """
        if isinstance(self._op, Blocks):
            made: Any = copy.copy(self)
        else:
            made = self._then(self._op)
        made._old = True
        return made  # type: ignore[no-any-return]

    def experimental_lazy(self) -> Dataset:
        """lazy(), by its first name.

        >>> import weir
        >>> ds = weir.range(10, parallelism=2).experimental_lazy().map_batches(lambda batch: batch)
        >>> ds.is_fully_executed(), ds.fully_executed().is_fully_executed()
        (False, True)
        """
        return self.lazy()

    def fully_executed(self) -> MaterializedDataset:
        """Runs everything now and keeps the rows, in this Dataset itself.

        >>> import weir
        >>> ds = weir.range(10, parallelism=2)
        >>> ds.fully_executed() is ds
        True
        >>> ds.num_blocks()
        2
        """
        from weir.dataset import MaterializedDataset

        if not isinstance(self._op, Blocks):
            made = self.materialize()
            self._op, self._last_run = made._op, made._last_run
            self.__dict__["_history"] = made._history
        self._old = True
        self.__class__ = MaterializedDataset
        assert isinstance(self, MaterializedDataset)
        return self

    def force_reads(self) -> MaterializedDataset:
        """fully_executed(), by its first name.

        >>> import weir
        >>> weir.range(10, parallelism=2).force_reads().num_blocks()
        2
        """
        return self.fully_executed()

    def is_fully_executed(self) -> bool:
        """Whether its rows are there.

        >>> import weir
        >>> weir.range(3).is_fully_executed(), weir.from_items([1]).is_fully_executed()
        (False, True)
        """
        return isinstance(self._op, Blocks)

    def window(self, *, blocks_per_window: int | None = None, bytes_per_window: int | None = None) -> DatasetPipeline:
        """Cuts it into windows of so many blocks (10), or of up to so many bytes, that are worked on one after another. A read
        becomes part of that: each window reads its own files, each time that it is wanted. Of anything else, the rows are
        kept.

        >>> import weir
        >>> pipe = weir.range(10, parallelism=5).window(blocks_per_window=2)
        >>> [window.count() for window in pipe.iter_datasets()]
        [4, 4, 2]
        """
        from weir import dataset_pipeline

        return dataset_pipeline.windowed(self, blocks_per_window, bytes_per_window)  # type: ignore[arg-type]

    def repeat(self, times: int | None = None) -> DatasetPipeline:
        """So many epochs of it; None: without end. A read runs anew in each of them; of anything else, the rows are kept.

        >>> import weir
        >>> weir.range(3).repeat(2).take_all()
        [{'id': 0}, {'id': 1}, {'id': 2}, {'id': 0}, {'id': 1}, {'id': 2}]
        """
        from weir import dataset_pipeline

        return dataset_pipeline.repeated(self, times)  # type: ignore[arg-type]

    def dataset_format(self) -> str:
        """The format of blocks: Arrow's, always.

        >>> import weir
        >>> weir.range(3).dataset_format()
        'arrow'
        """
        return "arrow"

    def execution_plan(self) -> str:
        """What explain() prints, as a text.

        >>> import weir
        >>> "Read[ReadRange]" in weir.range(3).execution_plan()
        True
        """
        from weir import _stats

        return _stats.explained(self)  # type: ignore[arg-type]

    def get_internal_block_refs(self) -> list[Any]:
        """References to the blocks, as pyarrow.Tables; waits until all data is there. Of more than a quarter of the memory limit,
        and without pyarrow, the engine's own handles, which can be counted.

        >>> import weir
        >>> refs = weir.range(4).repartition(2).get_internal_block_refs()
        >>> len(refs), weir.get(refs[0]).num_rows
        (2, 2)
        """
        from importlib.util import find_spec

        from weir import _session

        kept = self.materialize()
        blocks = kept._blocks()
        limit = int(_session.current().native.memory_limit)
        if find_spec("pyarrow") is None or sum(int(block.nbytes) for block in blocks) * 4 > limit:
            return list(blocks)
        return list(kept.to_arrow_refs())

    # ---- not public in Ray Data either, but suites written for it look there ----

    @property
    def _logical_plan(self) -> LogicalPlan:
        return LogicalPlan(self._op, self._context)

    @property
    def _plan(self) -> LogicalPlan:
        return LogicalPlan(self._op, self._context)

    def _block_num_rows(self) -> list[int]:
        return [int(block.num_rows) for block in self.materialize()._blocks()]

    def _has_computed_output(self) -> bool:
        return self.is_fully_executed()

    def _get_stats_summary(self) -> DatasetStatsSummary:
        return self.get_stats_summary()

    def _set_name(self, name: str | None) -> None:
        self.set_name(name)

    def _get_uuid(self) -> str:
        return self.get_dataset_id()

    def _execute(self) -> RefBundle:
        from weir.ref_bundle import RefBundle

        bundles = list(self.iter_internal_ref_bundles())
        return RefBundle([entry for bundle in bundles for entry in bundle.blocks], bundles[0].schema if bundles else None, True)


class LogicalPlan:
    """What is asked of a plan before it runs.

    >>> import weir
    >>> weir.range(10, override_num_blocks=5)._logical_plan.initial_num_blocks()
    5
    """

    def __init__(self, op: Op, context: DataContext) -> None:
        self._op = op
        self._context = context

    def initial_num_blocks(self) -> int:
        """How many blocks it will have, as far as that is known."""
        return block_count(self._op, self._context)


# ---- how many blocks ----


def block_count(op: Op, context: DataContext) -> int:
    """How many blocks a plan will have, as far as that can be known before it runs: one for each task that reads, and what
    reads make stays as it is. Cutting too large blocks can make more of them."""
    from weir._exchange import RepartitionKeys

    if isinstance(op, Blocks):
        return len(op.blocks)
    if isinstance(op, Range):
        return op.blocks or range_blocks(op, context)
    if isinstance(op, Read):
        return len(op.files())
    if isinstance(op, (ReadBlocks, Repartition, RepartitionKeys)):
        return op.count
    if isinstance(op, RepartitionRows):
        rows = op.rows()
        if rows is not None:
            return -(-rows // op.count)
    return sum(block_count(before, context) for before in op.inputs) or 1


def range_blocks(op: Range, context: DataContext) -> int:
    """Of numbers that nobody has cut: so many as reads are cut into at least, one a row at most."""
    return max(1, min(int(context.read_op_min_num_blocks), op.count))


# ---- repr ----


def shown(ds: Dataset) -> str:
    """repr of a Dataset of the old kind: a line, or a tree where there is more than its source."""
    op = ds._op
    if not isinstance(op, (Source, ReadBlocks)) or isinstance(op, Blocks) and getattr(ds, "_history", None) is None:
        return _tree(ds, op)
    return _line(ds, op)


def _line(ds: Dataset, op: Op) -> str:
    from weir.dataset import Dataset

    try:
        blocks = str(block_count(op, ds.context))
    except (OSError, ValueError):  # the files are gone; whoever runs it will be told
        blocks = "?"
    read = op.input if isinstance(op, ReadBlocks) else op
    schema = None
    if not isinstance(read, Read) or read.format == "parquet":
        try:
            schema = Dataset(read, ds.context).schema() if read is not None else None
        except Exception:  # what is wrong with the files is for whoever runs it
            schema = None
    fields = "Unknown schema"
    if schema is not None:
        fields = "{" + ", ".join(f"{n}: {t}" for n, t in zip(schema.names, schema.type_texts)) + "}"
    rows = op.rows()
    return f"Dataset(num_blocks={blocks}, num_rows={'?' if rows is None else rows}, schema={fields})"


def _tree(ds: Dataset, op: Op) -> str:
    lines: list[str] = []
    at: Op | None = op
    while at is not None:
        is_source = at.input is None or isinstance(at, ReadBlocks)
        text = _line(ds, at) if is_source else at.name
        lines.append(f"{'   ' * (len(lines) - 1)}+- {text}" if lines else text)
        at = None if is_source else at.input
    return "\n".join(lines)


# ---- stats ----

SHUFFLED = "RandomShuffle"  # what DatasetPipeline.random_shuffle_each_window calls its step


def old_name(op: Op) -> str:
    """A step's name in the old words: that of the method."""
    if isinstance(op, (Call, Step)) and op.name.startswith("Read"):
        return "read"
    if isinstance(op, Call):
        return str(op.spec.kind)
    if isinstance(op, ReadBlocks):
        return "split"
    if isinstance(op, Source):
        return "read"
    if isinstance(op, Repartition):
        return "shuffle_map" if op.name == SHUFFLED else "repartition"
    if isinstance(op, RepartitionRows):
        return "repartition"
    if isinstance(op, Limit):
        return "limit"
    if isinstance(op, Union):
        return "union"
    words = {"filter": "filter", "shuffle": "shuffle_map", "sort": "sort", "group": "groupby", "unique": "groupby", "join": "join"}
    return words.get(op.verb, "map_batches") if isinstance(op, Step) else "map_batches"


def stats(ds: Dataset) -> str:
    """stats() of a Dataset of the old kind."""
    from weir import _stats

    run = ds._last_run
    if run is None or not run.stats:
        return ""
    op = getattr(ds, "_history", None) or run.op
    groups = _stats.groups(op, ds.context)
    seconds = sum(s.get("elapsed_ns", 0) for s in run.stats) / 1e9
    stages = _stats._stages(run.stats, groups, ds.context)
    if len(groups) > 1 and groups[-1][0].name == SHUFFLED:  # it is done by those who read and map
        groups[-2:], stages[-2:] = [groups[-2] + groups[-1]], [stages[-1]]
    lines: list[str] = []
    number = 0
    for group, stage in zip(groups, stages):
        if isinstance(group[0], Blocks) and len(group) == 1:
            continue
        names = [old_name(o) for o in group]
        number += 1
        lines += _stage(number, "->".join(n for i, n in enumerate(names) if i == 0 or n != "read"), stage, seconds)
    memory = _stats._memory(run.stats[-1], run.spilled)
    return "\n".join([*lines, *memory, *_stats._iteration(ds)]).rstrip("\n") + "\n"


def _stage(number: int, name: str, stage: dict[str, Any], seconds: float) -> list[str]:
    from weir import _stats

    blocks, rows, size = max(1, stage.get("blocks", 0)), stage.get("rows", 0), stage.get("bytes", 0)
    spent = stage.get("ns", 0) / 1e9
    mean = _stats._seconds(spent / max(1, stage.get("tasks", 0)))
    lines = [f"Stage {number} {name}: {blocks}/{blocks} blocks executed in {round(seconds, 2)}s"]
    for title in ("Remote wall time", "Remote cpu time"):
        lines.append(f"* {title}: {_stats._spread(mean, mean, mean, _stats._seconds(spent))}")
    for title, total in (("Output num rows", rows), ("Output size bytes", size)):
        lines.append(f"* {title}: {_stats._spread(total // blocks, total // blocks, total // blocks, total)}")
    lines.append(f"* Tasks per node: {blocks} min, {blocks} max, {blocks} mean; 1 nodes used")
    return [*lines, *_stats.backpressure(stage, seconds), ""]
