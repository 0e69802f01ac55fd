"""Figures of runs (get_stats_summary) and of columns (summary), as objects.

summary() is one pass over the rows, in this process, by pyarrow's functions: nothing is exchanged and only the counts of values
and a sample of each number column are kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from weir._run import Run
    from weir.dataset import Dataset


# ---- runs ----


@dataclass
class StatsSummary:
    """Least, greatest, mean, sum and number of some figure.

    >>> StatsSummary(1, 3, 2.0, 4, 2).to_dict()
    {'min': 1, 'max': 3, 'mean': 2.0, 'sum': 4, 'count': 2}
    """

    min: float
    max: float
    mean: float
    sum: float
    count: int

    def to_dict(self, *, mean_as_int: bool = False, include_sum: bool = True, include_count: bool = True) -> dict[str, float]:
        """The same as a dict."""
        out: dict[str, float] = {"min": self.min, "max": self.max, "mean": int(self.mean) if mean_as_int else self.mean}
        if include_sum:
            out["sum"] = self.sum
        if include_count:
            out["count"] = self.count
        return out


@dataclass
class OperatorStatsSummary:
    """What one operator did, or several that ran as one."""

    operator_name: str
    time_total_s: float
    block_execution_summary_str: str
    is_sub_operator: bool = False
    earliest_start_time: float | None = None
    latest_end_time: float | None = None
    wall_time: StatsSummary | None = None
    cpu_time: StatsSummary | None = None
    total_input_num_rows: int | None = None
    output_num_rows: StatsSummary | None = None
    output_size_bytes: StatsSummary | None = None
    task_rows: StatsSummary | None = None
    node_count: StatsSummary | None = None

    @property
    def num_rows_per_s(self) -> float:
        """Rows it gave, by the time of the run."""
        rows = self.output_num_rows.sum if self.output_num_rows is not None else 0
        return rows / self.time_total_s if self.time_total_s else 0.0

    @property
    def num_rows_per_task_s(self) -> float:
        """Rows it gave, by the time that its tasks took together."""
        rows = self.output_num_rows.sum if self.output_num_rows is not None else 0
        return rows / self.wall_time.sum if self.wall_time is not None and self.wall_time.sum else 0.0


@dataclass
class IterStatsSummary:
    """How a loop over the rows went, in seconds."""

    total_time: float = 0.0
    block_time: float = 0.0
    time_to_first_batch: float = 0.0
    user_time: float = 0.0
    batches_total: int = 0


@dataclass
class DatasetStatsSummary:
    """What the last run of a Dataset did. Made by Dataset.get_stats_summary.

    >>> import weir
    >>> summary = weir.range(10).materialize().get_stats_summary()
    >>> [(op.operator_name, op.output_num_rows.sum) for op in summary.operators_stats]
    [('ReadRange', 10)]
    """

    operators_stats: list[OperatorStatsSummary] = field(default_factory=list)
    iter_stats: IterStatsSummary = field(default_factory=IterStatsSummary)
    parents: list[DatasetStatsSummary] = field(default_factory=list)
    number: int = 0
    dataset_uuid: str = ""
    time_total_s: float = 0.0
    base_name: str = ""
    extra_metrics: dict[str, Any] = field(default_factory=dict)
    global_bytes_spilled: int = 0
    global_bytes_restored: int = 0
    dataset_bytes_spilled: int = 0
    text: str = ""

    def to_string(self, *_: Any, **__: Any) -> str:
        """The text of Dataset.stats()."""
        return self.text

    @property
    def num_rows_per_s(self) -> float:
        """Rows that came out, by the time of the run."""
        return self.operators_stats[-1].num_rows_per_s if self.operators_stats else 0.0

    def get_total_wall_time(self) -> float:
        """Seconds from the run's beginning to its end."""
        return self.time_total_s


def _spread(total: float, count: int) -> StatsSummary:
    mean = total / max(1, count)
    return StatsSummary(mean, mean, mean, total, count)


def of_run(ds: Dataset) -> DatasetStatsSummary:
    """The figures of the Dataset's last run, or of the run that materialised it; without one they are empty."""
    from weir import _stats

    out = DatasetStatsSummary(dataset_uuid=ds._uuid, text=ds.stats())
    times = ds._iteration
    if times is not None:
        out.iter_stats = IterStatsSummary(times.total, times.blocked, times.first, times.user, times.batches)
    run = ds._last_run
    if run is None or not run.stats:
        return out
    groups = _stats.groups(getattr(ds, "_history", None) or run.op, ds.context)
    seconds = out.time_total_s = sum(part.get("elapsed_ns", 0) for part in run.stats) / 1e9
    spilled, out.global_bytes_restored = _stats.spilled_bytes(run.stats)
    out.dataset_bytes_spilled = out.global_bytes_spilled = spilled
    for group, stage in zip(groups, _stats._stages(run.stats, groups, ds.context)):
        name = "->".join(op.name for op in group)
        tasks, blocks = stage.get("tasks", 0), stage.get("blocks", 0)
        spent = stage.get("ns", 0) / 1e9
        out.operators_stats.append(
            OperatorStatsSummary(
                name,
                seconds,
                f"{tasks} tasks executed, {blocks} blocks produced in {round(seconds, 2)}s",
                wall_time=_spread(spent, tasks),
                cpu_time=_spread(spent, tasks),
                total_input_num_rows=stage.get("rows_in", 0),
                output_num_rows=_spread(stage.get("rows", 0), blocks),
                output_size_bytes=_spread(stage.get("bytes", 0), blocks),
                task_rows=_spread(stage.get("rows", 0), tasks),
                node_count=StatsSummary(tasks, tasks, tasks, tasks, 1),
            )
        )
    out.number = len(out.operators_stats)
    out.base_name = out.operators_stats[-1].operator_name if out.operators_stats else ""
    return out


SUMMARIES_MAX = 10_000  # of a session's runs


def report(run: Run) -> None:
    """Keeps the figures of a run that has ended, for list_stats_summaries."""
    from weir.dataset import Dataset

    ds = Dataset(run.op, run.context)
    ds._last_run = run
    kept = run.build.state.summaries
    kept.append(of_run(ds))
    del kept[:-SUMMARIES_MAX]


def list_stats_summaries() -> list[DatasetStatsSummary]:
    """The figures of the runs that have ended in this session, in that order: of those that began while
    DataContext.enable_stats_summary_collection was set, the last 10,000.

    >>> import weir
    >>> ctx = weir.DataContext.get_current()
    >>> ctx.enable_stats_summary_collection = True
    >>> kept = weir.range(10).materialize()
    >>> [operator.operator_name for operator in weir.list_stats_summaries()[-1].operators_stats]
    ['ReadRange']
    >>> ctx.enable_stats_summary_collection = False
    """
    from weir import _session

    state = _session.existing()
    return list(state.summaries) if state is not None else []


# ---- columns ----

SAMPLE_ROWS = 1 << 16  # of each column of numbers, for its median
VALUES_MAX = 1 << 20  # different values that are counted; then those that are rare are forgotten
TOP = 10


class _Column:
    """The figures of one column, batch by batch."""

    def __init__(self, name: str, arrow_type: Any) -> None:
        import pyarrow as pa
        from numpy.random import default_rng

        types = pa.types
        self.name = name
        self.is_number = (
            types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type)
            or types.is_boolean(arrow_type)
        )
        self.is_time = types.is_temporal(arrow_type)
        self.is_null = types.is_null(arrow_type)
        self.rows = self.missing = self.nulls = self.zeros = 0
        self.mean = self.squares = 0.0
        self.least: Any = None
        self.greatest: Any = None
        self.counts: Counter[Any] = Counter()
        self.sample: list[float] = []
        self.random = default_rng(0)

    def add(self, column: Any) -> None:
        import pyarrow.compute as pc

        before = self.rows - self.nulls
        self.rows += len(column)
        self.missing += pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0
        self.nulls += column.null_count
        if self.is_null:
            return
        if self.is_number or self.is_time:
            ends = pc.min_max(column)
            self.least = _least(self.least, ends["min"].as_py())
            self.greatest = _greatest(self.greatest, ends["max"].as_py())
            if self.is_number:
                self._add_numbers(column, before)
        else:
            self._count(column)

    def _add_numbers(self, column: Any, before: int) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        values = np.asarray(pc.cast(column.drop_null(), pa.float64(), safe=False))
        if not len(values):
            return
        self.zeros += int((values == 0).sum())
        mean = float(values.mean())
        total = before + len(values)
        difference = mean - self.mean
        self.squares += float(((values - mean) ** 2).sum()) + difference**2 * before * len(values) / total
        self.mean += difference * len(values) / total
        # Each row is in the sample with the same probability: the t-th row takes a place with SAMPLE_ROWS / t.
        places = self.random.integers(0, np.arange(before + 1, total + 1))
        for place, value in zip(places[places < SAMPLE_ROWS].tolist(), values[places < SAMPLE_ROWS].tolist()):
            if len(self.sample) < SAMPLE_ROWS:
                self.sample.append(value)
            else:
                self.sample[place] = value

    def _count(self, column: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            for pair in pc.value_counts(column.drop_null()).to_pylist():
                self.counts[pair["values"]] += pair["counts"]
        except (pa.ArrowNotImplementedError, TypeError):  # lists and the like
            self.counts.update(repr(value) for value in column.drop_null().to_pylist())
        if len(self.counts) > VALUES_MAX:
            self.counts = Counter(dict(self.counts.most_common(VALUES_MAX // 2)))

    def figures(self) -> dict[str, Any]:
        out: dict[str, Any] = {"count": self.rows}
        if self.is_null:
            return out
        out["missing_pct"] = 100.0 * self.missing / self.rows if self.rows else None
        known = self.rows - self.nulls
        if self.is_number or self.is_time:
            out["min"], out["max"] = self.least, self.greatest
        if self.is_number:
            import numpy as np

            out["mean"] = self.mean if known else None
            out["std"] = math.sqrt(self.squares / known) if known else None
            out["zero_pct"] = 100.0 * self.zeros / known if known else None
            sample = [value for value in self.sample if value == value]
            out["approx_quantile[0]"] = float(np.quantile(sample, 0.5, method="inverted_cdf")) if sample else None
        elif not self.is_time:
            for number, (value, count) in enumerate(self.counts.most_common(TOP)):
                out[f"approx_topk[{number}]"] = {self.name: value, "count": count}
        return out


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else max(a, b)


@dataclass
class DatasetSummary:
    """Figures of the columns of a Dataset. Made by Dataset.summary.

    >>> import weir
    >>> summary = weir.from_items([{"a": 1}, {"a": 3}]).summary()
    >>> summary.columns
    ['a']
    """

    dataset_schema: pyarrow.Schema
    columns: list[str]
    figures: dict[str, dict[str, Any]]  # by column

    STATISTIC_COLUMN = "statistic"

    def to_pandas(self) -> pandas.DataFrame:
        """A row a statistic, a column a column.

        >>> import weir
        >>> frame = weir.from_items([{"a": 1}, {"a": 3}]).summary().to_pandas()
        >>> float(frame.set_index("statistic")["a"]["mean"])
        2.0
        """
        import pandas as pd

        names = sorted({name for figures in self.figures.values() for name in figures})
        columns: dict[str, Any] = {self.STATISTIC_COLUMN: names}
        for column in sorted(self.columns):
            columns[column] = [self.figures[column].get(name) for name in names]
        return pd.DataFrame(columns)

    def get_column_stats(self, column: str) -> pandas.DataFrame:
        """The statistics of one column: `statistic` and `value`.

        >>> import weir
        >>> stats = weir.from_items([{"a": 1}, {"a": 3}]).summary().get_column_stats("a")
        >>> dict(zip(stats["statistic"], stats["value"]))["max"]
        3
        """
        import pandas as pd

        if column not in self.figures:
            raise ValueError(f"Column '{column}' not found in summary tables")
        names = sorted({name for figures in self.figures.values() for name in figures})
        values = pd.Series([self.figures[column].get(name) for name in names], dtype=object)
        return pd.DataFrame({self.STATISTIC_COLUMN: names, "value": values})


def of_columns(ds: Dataset, columns: list[str] | None, mapping: Mapping[Any, Callable[[str], list[Any]]] | None) -> DatasetSummary:
    """One pass over the rows; a second for columns whose type has aggregations of the caller's."""
    from weir import _formats
    from weir.datatype import DataType

    _formats._need("pyarrow", "summary")
    schema = ds.schema()
    base: Any = schema.base_schema if schema is not None else None
    names = list(base.names) if base is not None else []
    for name in columns or []:
        if name not in names:
            raise ValueError(f"there is no column {name!r} to summarise; there are {names}")
    wanted = [name for name in names if columns is None or name in columns]
    own: dict[str, list[Any]] = {}
    for name in wanted:
        dtype = DataType.from_arrow(base.field(name).type)
        for key, factory in (mapping or {}).items():
            if name not in own and (dtype == key if isinstance(key, DataType) else dtype.is_of(key)):
                own[name] = factory(name)
    if not wanted:
        raise ValueError(
            "summary() requires at least one column with a supported type. "
            f"Columns provided: {columns if columns is not None else 'all'}."
        )
    found = {name: _Column(name, base.field(name).type) for name in wanted if name not in own}
    if found:
        for batch in ds.select_columns(list(found)).iter_batches(batch_size=None, batch_format="pyarrow"):
            for name, column in found.items():
                column.add(batch[name])
    figures = {name: column.figures() for name, column in found.items()}
    for name, aggregations in own.items():
        answer = ds.aggregate(*aggregations) or {}
        figures[name] = {key.removesuffix(f"({name})"): value for key, value in answer.items()}
    return DatasetSummary(base, wanted, {name: figures[name] for name in wanted})
