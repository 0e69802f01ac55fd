"""SimpleImputer: something in the place of what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, in_engine, is_there, literal, no_such_column, number
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from weir.dataset import Dataset

__all__ = ["SimpleImputer"]

STRATEGIES = ("mean", "most_frequent", "constant")


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.simple_imputer")
class SimpleImputer(ColumnPreprocessor):
    """A value in the place of null and NaN, and of a column that is not there.

    Args:
        columns: the columns to fill, each by itself.
        strategy: "mean" of the values that are there, the "most_frequent" of them, or a "constant".
        fill_value: the constant.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"x": 0.0, "y": "a"}, {"x": None, "y": None}, {"x": 3.0, "y": "a"}])
    >>> SimpleImputer(["x"]).fit_transform(ds).take()
    [{'x': 0.0, 'y': 'a'}, {'x': 1.5, 'y': None}, {'x': 3.0, 'y': 'a'}]
    >>> SimpleImputer(["y"], strategy="constant", fill_value="?").transform(ds).take(2)
    [{'x': 0.0, 'y': 'a'}, {'x': None, 'y': '?'}]
    """

    columns = Field[list[str]]()
    strategy = Field[str]()
    fill_value = Field[Any]()
    output_columns = Field[list[str]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "strategy", "fill_value")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "strategy", "fill_value", "output_columns")

    def __init__(
        self, columns: list[str], strategy: str = "mean", fill_value: Any = None, *, output_columns: list[str] | None = None
    ) -> None:
        super().__init__()
        if strategy not in STRATEGIES:
            raise ValueError(f"Strategy {strategy} is not supported. There are {', '.join(STRATEGIES)}")
        if strategy == "constant" and fill_value is None:
            raise ValueError('`fill_value` must be set when using "constant" strategy')
        self._columns, self._strategy, self._fill_value = columns, strategy, fill_value
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)
        self._is_fittable = strategy != "constant"

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        super()._set_serializable_fields(fields, version)
        self._is_fittable = self._strategy != "constant"

    def _needed(self) -> list[str]:
        return []

    def _fit(self, ds: Dataset) -> SimpleImputer:
        if self._strategy == "mean":
            from weir.aggregate import Mean

            names = ds._known_names()
            missing = [name for name in self._columns if names is not None and name not in names]
            if missing:
                raise no_such_column(self, missing, names or [])
            # NaN is missing, too: of the values that are there, the mean is a number.
            there = in_engine(ds, {name: f"({column(name)} if {is_there(name)} else None)" for name in self._columns})
            wanted = list(dict.fromkeys(self._columns))
            found = there.aggregate(*map(Mean, wanted)) or {}
            self.stats_ |= {f"mean({name})": found.get(f"mean({name})") for name in wanted}
        else:
            from weir.preprocessors._counts import counted

            for name, counter in counted(ds, self._columns, self).items():
                counter.pop(None, None)
                first = counter.most_common(1)
                self.stats_[f"most_frequent({name})"] = first[0][0] if first else None
        return self

    def _fill(self, name: str) -> Any:
        value = self._fill_value if self._strategy == "constant" else self.stats_[f"{self._strategy}({name})"]
        if value is None:
            raise ValueError(f"Column {name} has no fill value: it had no values when the SimpleImputer was fitted")
        return value

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        if known is None:
            return None  # whether a column is there is seen when its rows come
        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            try:
                value = number(self._fill(name)) if self._strategy == "mean" else literal(self._fill(name))
            except (TypeError, OverflowError):
                return None
            made[output] = f"({column(name)} if {is_there(name)} else {value})" if name in known else value
        return made

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        made: dict[str, Any] = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            value = self._fill(name)
            if name not in given.names:
                made[output] = [value] * given.rows
                continue
            array = given.array(name)
            if array.dtype.kind in "iub" and self._strategy != "mean":
                made[output] = array
            elif array.dtype.kind in "iuf" and isinstance(value, (int, float)):
                filled = np.where(np.isnan(array), value, array) if array.dtype.kind == "f" else array
                is_whole = given.type_of(name).startswith(("int", "uint")) and self._strategy != "mean" and float(value).is_integer()
                made[output] = filled.astype(np.int64) if is_whole else filled.astype(np.float64)
            else:
                rows = [row[name] for row in given._batch.select([name]).rows()]
                made[output] = [value if v is None or (isinstance(v, float) and v != v) else v for v in rows]
        return made
