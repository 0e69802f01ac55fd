"""Figures of runs (get_stats_summary) and of columns (summary), as objects. summary() is one Dataset.aggregate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weir.aggregate import (
    AggregateFnV2,
    ApproximateQuantile,
    ApproximateTopK,
    Count,
    Max,
    Mean,
    Min,
    MissingValuePercentage,
    Std,
    ZeroPercentage,
)

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
        """The same as a dict.

        Args:
            mean_as_int: cuts the mean off at the point.
            include_sum, include_count: whether these are in it.

        >>> StatsSummary(1, 4, 2.5, 5, 2).to_dict(mean_as_int=True, include_sum=False)
        {'min': 1, 'max': 4, 'mean': 2, 'count': 2}
        """
        out: dict[str, float] = {"min": self.min, "max": self.max, "mean": int(self.mean) if mean_as_int else self.mean}
        if include_sum:
            out["sum"] = self.sum
        if include_count:
            out["count"] = self.count
        return out


@dataclass
class OperatorStatsSummary:
    """What one operator did, or several that ran as one.

    >>> import weir
    >>> read = weir.range(10).materialize().get_stats_summary().operators_stats[0]
    >>> read.operator_name, read.output_num_rows.sum, read.is_sub_operator
    ('ReadRange', 10, False)
    """

    operator_name: str
    time_total_s: float
    block_execution_summary_str: str
    is_sub_operator: bool = False
    earliest_start_time: float | None = None
    latest_end_time: float | None = None
    wall_time: StatsSummary | None = None
    cpu_time: StatsSummary | None = None
    block_transform_time: StatsSummary | None = None
    total_input_num_rows: int | None = None
    output_num_rows: StatsSummary | None = None
    output_size_bytes: StatsSummary | None = None
    task_rows: StatsSummary | None = None
    node_count: StatsSummary | None = None

    @property
    def num_rows_per_s(self) -> float:
        """Rows it gave, by the time of the run; 0 where it took none.

        >>> OperatorStatsSummary("Read", 2.0, "", output_num_rows=StatsSummary(10, 10, 10, 10, 1)).num_rows_per_s
        5.0
        """
        rows = self.output_num_rows.sum if self.output_num_rows is not None else 0
        return rows / self.time_total_s if self.time_total_s else 0.0

    @property
    def num_rows_per_task_s(self) -> float:
        """Rows it gave, by the time that its tasks took together; 0 where they took none.

        >>> took = StatsSummary(2, 2, 2, 4, 2)
        >>> OperatorStatsSummary("Read", 2.0, "", wall_time=took, output_num_rows=StatsSummary(5, 5, 5, 10, 2)).num_rows_per_task_s
        2.5
        """
        rows = self.output_num_rows.sum if self.output_num_rows is not None else 0
        return rows / self.wall_time.sum if self.wall_time is not None and self.wall_time.sum else 0.0


class Seconds(float):
    """A time, which is also asked for as those of Ray Data are.

    >>> Seconds(1.5).get()
    1.5
    """

    def get(self) -> float:
        """All of it.

        >>> Seconds(0.25).get()
        0.25
        """
        return float(self)


@dataclass
class IterStatsSummary:
    """How a loop over the rows went, in seconds.

    >>> import weir
    >>> ds = weir.range(10)
    >>> for batch in ds.iter_batches(batch_size=5): pass
    >>> ds.get_stats_summary().iter_stats.batches_total
    2
    """

    total_time: Seconds = Seconds()
    block_time: Seconds = Seconds()
    time_to_first_batch: Seconds = Seconds()
    user_time: Seconds = Seconds()
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
        """The text of Dataset.stats().

        >>> import weir
        >>> ds = weir.range(10).materialize()
        >>> ds.get_stats_summary().to_string() == ds.stats()
        True
        """
        return self.text

    @property
    def num_rows_per_s(self) -> float:
        """Rows that came out, by the time of the run; 0 where there was none.

        >>> DatasetStatsSummary().num_rows_per_s
        0.0
        """
        return self.operators_stats[-1].num_rows_per_s if self.operators_stats else 0.0

    def get_total_wall_time(self) -> float:
        """Seconds from the run's beginning to its end.

        >>> DatasetStatsSummary(time_total_s=1.5).get_total_wall_time()
        1.5
        """
        return self.time_total_s

    def get_total_time_all_blocks(self) -> float:
        """Seconds that tasks took, together.

        >>> read = OperatorStatsSummary("Read", 2.0, "", wall_time=StatsSummary(2, 2, 2, 4, 2))
        >>> DatasetStatsSummary([read]).get_total_time_all_blocks()
        4
        """
        return sum(op.wall_time.sum for op in self.operators_stats if op.wall_time is not None)

    def get_total_cpu_time(self) -> float:
        """Seconds that tasks kept a CPU busy, together.

        >>> read = OperatorStatsSummary("Read", 2.0, "", cpu_time=StatsSummary(1, 2, 1.5, 3, 2))
        >>> DatasetStatsSummary([read]).get_total_cpu_time()
        3
        """
        return sum(op.cpu_time.sum for op in self.operators_stats if op.cpu_time is not None)


def _timed(stage: Mapping[str, Any], key: str, tasks: int) -> StatsSummary:
    """As workers measured it, task by task; else the operator's time, as if its tasks were alike."""
    times = stage.get("times") or {}
    if key not in times:
        return _spread(stage.get("ns", 0) / 1e9, tasks)
    low, high, total = (ns / 1e9 for ns in times[key])
    return StatsSummary(low, high, total / times["tasks"], total, times["tasks"])


def _spread(total: float, count: int) -> StatsSummary:
    mean = total / max(1, count)
    return StatsSummary(mean, mean, mean, total, count)


def of_run(ds: Dataset) -> DatasetStatsSummary:
    """The figures of the Dataset's last run, or of the run that materialised it; without one they are empty.

    >>> import weir
    >>> of_run(weir.range(10)).operators_stats
    []
    """
    from weir import _stats

    out = DatasetStatsSummary(dataset_uuid=ds._uuid, text=ds.stats())
    times = ds._iteration
    if times is not None:
        out.iter_stats = IterStatsSummary(Seconds(times.total), Seconds(times.blocked), Seconds(times.first), Seconds(times.user), times.batches)
    run = _stats.told(ds)
    if run is None:
        return out
    if not run.stats:
        out.operators_stats = [_operator(name, stage, 0.0) for name, stage in _stats.given_stages(run)]
    else:
        groups = _stats.groups(getattr(ds, "_history", None) or run.op, ds.context)
        seconds = out.time_total_s = sum(part.get("elapsed_ns", 0) for part in run.stats) / 1e9
        out.global_bytes_spilled, out.global_bytes_restored = run.spilled
        out.dataset_bytes_spilled = out.global_bytes_spilled
        for group, stage in zip(groups, _stats._stages(run.stats, groups, ds.context)):
            out.operators_stats.append(_operator(_stats.name_of(group), stage, seconds))
            out.extra_metrics = _counts(stage)
    out.number = len(out.operators_stats)
    out.base_name = out.operators_stats[-1].operator_name if out.operators_stats else ""
    return out


def _counts(stage: Mapping[str, Any]) -> dict[str, Any]:
    """What Ray Data calls the extra metrics of a Dataset, those of its last operator: the ones that weir counts, too."""
    return {
        "num_tasks_failed": stage.get("tasks_errored", 0), "num_task_outputs_generated": stage.get("blocks", 0), "rows_task_outputs_generated": stage.get("rows", 0),
        "bytes_task_outputs_generated": stage.get("bytes", 0),
    }


def _operator(name: str, stage: Mapping[str, Any], seconds: float) -> OperatorStatsSummary:
    tasks, blocks = stage.get("tasks", 0), stage.get("blocks", 0)
    return OperatorStatsSummary(
        name,
        seconds,
        f"{tasks} tasks executed, {blocks} blocks produced in {round(seconds, 2)}s",
        wall_time=_timed(stage, "wall_ns", tasks),
        cpu_time=_timed(stage, "cpu_ns", tasks),
        block_transform_time=_timed(stage, "wall_ns", tasks),
        total_input_num_rows=stage.get("rows_in", 0),
        output_num_rows=_spread(stage.get("rows", 0), blocks),
        output_size_bytes=_spread(stage.get("bytes", 0), blocks),
        task_rows=_spread(stage.get("rows", 0), tasks),
        node_count=StatsSummary(tasks, tasks, tasks, tasks, 1),
    )


SUMMARIES_MAX = 10_000  # of a session's runs


def report(run: Run) -> None:
    """Keeps the figures of a run that has ended, for list_stats_summaries. Called by the run itself.

    >>> import weir
    >>> with weir.DataContext.current(weir.DataContext(enable_stats_summary_collection=True)):
    ...     kept = weir.range(10).materialize()
    >>> weir.list_stats_summaries()[-1].base_name
    'ReadRange'
    """
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

TOP = 10


def _of_numbers(column: str) -> list[AggregateFnV2[Any, Any]]:
    return [
        Count(column), Mean(column), Min(column), Max(column), Std(column, ddof=0), ApproximateQuantile(column, [0.5]),
        MissingValuePercentage(column), ZeroPercentage(column),
    ]


def _of_times(column: str) -> list[AggregateFnV2[Any, Any]]:
    return [Count(column), Min(column), Max(column), MissingValuePercentage(column)]


def _of_others(column: str) -> list[AggregateFnV2[Any, Any]]:
    return [Count(column), MissingValuePercentage(column), ApproximateTopK(column, TOP)]


def _has_equality(arrow_type: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_map(arrow_type) or pa.types.is_union(arrow_type):
        return False
    return all(_has_equality(arrow_type.field(i).type) for i in range(arrow_type.num_fields))


def _aggregations(column: str, arrow_type: Any) -> list[AggregateFnV2[Any, Any]]:
    """The statistics of a column, by its type."""
    import pyarrow as pa

    types = pa.types
    if types.is_null(arrow_type):
        return [Count(column)]
    if types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type) or types.is_boolean(arrow_type):
        return _of_numbers(column)
    if types.is_temporal(arrow_type):
        return _of_times(column)
    return _of_others(column) if _has_equality(arrow_type) else [Count(column), MissingValuePercentage(column)]


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
    """One pass over the rows. `columns`: which; None: all. `mapping`: aggregations of the caller's for columns of some types.

    >>> import weir
    >>> of_columns(weir.from_items([{"a": 1}, {"a": 3}]), ["a"], None).figures["a"]["mean"]
    2.0
    """
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
    if not wanted:
        raise ValueError(
            "summary() requires at least one column with a supported type. "
            f"Columns provided: {columns if columns is not None else 'all'}."
        )
    made: dict[str, list[Any]] = {}
    for name in wanted:
        dtype = DataType.from_arrow(base.field(name).type)
        for key, factory in (mapping or {}).items():
            if name not in made and (dtype == key if isinstance(key, DataType) else dtype.is_of(key)):
                made[name] = list(factory(name))
        made.setdefault(name, _aggregations(name, base.field(name).type))
    items = [item for one in made.values() for item in one]
    answers = iter((ds.aggregate(*items) or dict.fromkeys(map(str, range(len(items))))).values())
    figures: dict[str, dict[str, Any]] = {}
    for name, one in made.items():
        found = figures[name] = {}
        for item in one:
            title, value = item.get_agg_name() if isinstance(item, AggregateFnV2) else item.name, next(answers)
            if isinstance(value, list):
                found.update({f"{title}[{number}]": part for number, part in enumerate(value)})
            else:
                found[title] = value
    return DatasetSummary(base, wanted, figures)
