"""Scalers: each column minus a number, divided by another. Both are learnt in one pass; the engine does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from weir.data_batch_conversion import BatchFormat
from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, nothing, number
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from weir.dataset import Dataset

__all__ = ["MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"]

EPSILON = 1e-8  # what is narrower than this counts as constant


class _Scaler(ColumnPreprocessor):
    """(x - centre) / width."""

    columns = Field[list[str]]()
    output_columns = Field[list[str]]()

    def __init__(self, columns: list[str], output_columns: list[str] | None = None) -> None:
        super().__init__()
        self._columns = columns
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _line(self, name: str) -> tuple[Any, Any] | None:
        """Centre and width of a column; None: nothing was learnt about it, since it had no values."""
        raise NotImplementedError

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            line = self._line(name)
            if line is None:
                made[output] = nothing(name)
            elif line[1] == 0:
                made[output] = f"({column(name)} * {number(0)})"
            else:
                made[output] = f"(({column(name)} - {number(line[0])}) / {number(line[1])})"
        return made

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            line, values = self._line(name), given.floats(name)
            if line is None:
                made[output] = np.full(given.rows, np.nan)
            elif line[1] == 0:
                made[output] = values * 0.0
            else:
                made[output] = (values - float(line[0])) / float(line[1])
        return made


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.standard_scaler")
class StandardScaler(_Scaler):
    """Each column minus its mean, divided by its standard deviation (of all values, ddof=0). A constant column becomes zeros.

    Args:
        columns: the columns to scale, each by itself.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"a": -2, "b": 1}, {"a": 0, "b": 1}, {"a": 2, "b": 1}])
    >>> scaler = StandardScaler(["a", "b"]).fit(ds)
    >>> [(round(row["a"], 3), row["b"]) for row in scaler.transform(ds).take()]
    [(-1.225, 0.0), (0.0, 0.0), (1.225, 0.0)]
    >>> scaler.stats_["mean(a)"]
    0.0
    """

    _format: ClassVar[BatchFormat] = BatchFormat.ARROW

    def _fit(self, ds: Dataset) -> StandardScaler:
        from weir.aggregate import Mean, Std

        plan = self._stat_computation_plan
        plan.add_aggregator(aggregator_fn=Mean, columns=self._columns)
        plan.add_aggregator(aggregator_fn=lambda name: Std(name, ddof=0), columns=self._columns)
        return self

    def _line(self, name: str) -> tuple[Any, Any] | None:
        mean, std = self.stats_[f"mean({name})"], self.stats_[f"std({name})"]
        return None if mean is None or std is None else (mean, 1 if std < EPSILON else std)


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.min_max_scaler")
class MinMaxScaler(_Scaler):
    """Each column by its range: the least value becomes 0, the greatest 1. A constant column becomes zeros.

    Args:
        columns: the columns to scale, each by itself.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> MinMaxScaler(["id"], output_columns=["x"]).fit_transform(weir.range(3)).take()
    [{'id': 0, 'x': 0.0}, {'id': 1, 'x': 0.5}, {'id': 2, 'x': 1.0}]
    """

    def _fit(self, ds: Dataset) -> MinMaxScaler:
        from weir.aggregate import Max, Min

        self._stat_computation_plan.add_aggregator(aggregator_fn=Min, columns=self._columns)
        self._stat_computation_plan.add_aggregator(aggregator_fn=Max, columns=self._columns)
        return self

    def _line(self, name: str) -> tuple[Any, Any] | None:
        least, greatest = self.stats_[f"min({name})"], self.stats_[f"max({name})"]
        if least is None or greatest is None:
            return None
        width = greatest - least
        return least, 1 if width < EPSILON else width


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.max_abs_scaler")
class MaxAbsScaler(_Scaler):
    """Each column divided by its greatest value without sign. A column of zeros stays zeros.

    Args:
        columns: the columns to scale, each by itself.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"a": -4}, {"a": 2}])
    >>> MaxAbsScaler(["a"]).fit_transform(ds).take()
    [{'a': -1.0}, {'a': 0.5}]
    """

    def _fit(self, ds: Dataset) -> MaxAbsScaler:
        from weir.aggregate import AbsMax

        self._stat_computation_plan.add_aggregator(aggregator_fn=AbsMax, columns=self._columns)
        return self

    def _line(self, name: str) -> tuple[Any, Any] | None:
        most = self.stats_[f"abs_max({name})"]
        return None if most is None else (0, 1 if most == 0 else most)


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.robust_scaler")
class RobustScaler(_Scaler):
    """Each column minus its median, divided by the distance of two quantiles, so that few extreme values change little. A column
    without such a distance becomes zeros.

    Args:
        columns: the columns to scale, each by itself.
        quantile_range: the lower and the upper quantile, between 0 and 1.
        output_columns: their names afterwards; None: the same.
        quantile_precision: of approximate quantiles, as ApproximateQuantile has it: more is more exact and takes more memory.

    >>> import weir
    >>> ds = weir.from_items([{"a": value} for value in (1, 2, 3, 4, 5)])
    >>> RobustScaler(["a"]).fit_transform(ds).take()
    [{'a': -1.0}, {'a': -0.5}, {'a': 0.0}, {'a': 0.5}, {'a': 1.0}]
    """

    DEFAULT_QUANTILE_PRECISION: ClassVar[int] = 800

    quantile_range = Field[tuple[float, float]]()
    quantile_precision = Field[int]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "quantile_range", "quantile_precision")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "quantile_range", "output_columns")

    def __init__(
        self,
        columns: list[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: list[str] | None = None,
        quantile_precision: int = DEFAULT_QUANTILE_PRECISION,
    ) -> None:
        super().__init__(columns, output_columns)
        self._quantile_range = quantile_range
        self._quantile_precision = quantile_precision

    def _fit(self, ds: Dataset) -> RobustScaler:
        from weir.preprocessors._counts import quantiles

        low, high = self._quantile_range
        for name, found in quantiles(ds, self._columns, [low, 0.5, high], self._quantile_precision).items():
            for title, value in zip(("low_quantile", "median", "high_quantile"), found, strict=True):
                self.stats_[f"{title}({name})"] = value
        return self

    def _line(self, name: str) -> tuple[Any, Any] | None:
        low, middle, high = (self.stats_[f"{title}({name})"] for title in ("low_quantile", "median", "high_quantile"))
        return None if low is None or middle is None or high is None else (middle, high - low)
