"""Concatenator: several columns of numbers become one of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, number_types, vector
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import numpy

__all__ = ["Concatenator"]


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.concatenator")
class Concatenator(ColumnPreprocessor):
    """One column of vectors in the place of several of numbers.

    Args:
        columns: the columns, in the order in which they are to stand in the vector. They go away.
        output_column_name: the name of the column with the vectors.
        dtype: the NumPy type of the vectors; None: one that holds all columns.
        raise_if_missing: as it always is here: a column that is not there is an error.
        flatten: columns may have lists, whose elements are put one behind the other.

    >>> import weir
    >>> ds = weir.from_items([{"x": 1, "y": 0.5, "z": "a"}])
    >>> Concatenator(["x", "y"]).transform(ds).take()
    [{'z': 'a', 'concat_out': array([1. , 0.5])}]
    """

    columns = Field[list[str]]()
    output_column_name = Field[str]()
    dtype = Field["numpy.dtype[Any] | None"]()
    raise_if_missing = Field[bool]()
    flatten = Field[bool]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_column_name", "dtype", "raise_if_missing", "flatten")
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        output_column_name: str = "concat_out",
        dtype: Any = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
    ) -> None:
        super().__init__()
        self._columns, self._output_column_name, self._dtype = columns, output_column_name, dtype
        self._raise_if_missing, self._flatten = raise_if_missing, flatten

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        super()._set_serializable_fields({"flatten": False, **fields}, version)  # which older ones do not have

    def get_output_columns(self) -> list[str]:
        """The column that it writes, in a list.

        >>> Concatenator(["a"]).get_output_columns()
        ['concat_out']
        """
        return [self._output_column_name]

    def __repr__(self) -> str:
        defaults = {"output_column_name": "concat_out", "columns": None, "dtype": None, "raise_if_missing": False, "flatten": False}
        shown = (f"{name}={vars(self)['_' + name]}" for name, default in defaults.items() if vars(self)["_" + name] != default)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _dropped(self, names: Sequence[str]) -> list[str]:
        return list(self._columns)

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        kinds = number_types(known, self._columns)
        if not kinds or self._output_column_name in self._columns:
            return None
        import numpy as np

        kind = str(np.result_type(*kinds) if self._dtype is None else np.dtype(self._dtype))
        # Beside nulls, which make floats of whole numbers, NumPy's type may be a wider one.
        is_same = set(kinds) == {kind} or kind == "float64" or (kind == "float32" and self._dtype is not None)
        if not is_same and not (self._dtype is None and kind.startswith(("int", "uint"))):
            return None
        return {self._output_column_name: vector(kind, [column(name) for name in self._columns])}

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        parts = []
        for name in self._columns:
            array = given.array(name)
            if array.dtype.kind == "O" and self._flatten:
                return {self._output_column_name: self._by_rows(given)}
            if array.ndim > 1 and not self._flatten or array.dtype.kind not in "iufbO" or _has_others(array):
                return {self._output_column_name: self._as_lists(given)}
            if array.dtype.kind == "O":
                array = given.floats(name)
            parts.append(array.reshape(given.rows, -1))
        vectors = np.concatenate(parts, axis=1) if parts else np.empty((given.rows, 0))
        return {self._output_column_name: vectors if self._dtype is None else vectors.astype(self._dtype)}

    def _as_lists(self, given: Given) -> Any:
        """With texts, or with vectors that stay what they are: a list a row."""
        import numpy as np

        rows = [list(values) for values in zip(*(given.array(name) for name in self._columns), strict=True)]
        if self._dtype is None:
            return rows
        try:
            return np.array(rows, self._dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a row of {', '.join(self._columns)} is no vector of {np.dtype(self._dtype)}: flatten=True puts the elements of vectors "
                f"beside the other columns ({error})"
            ) from error

    def _by_rows(self, given: Given) -> Any:
        """With lists, which may be of different lengths."""
        import numpy as np

        rows = []
        for values in zip(*(given.array(name) for name in self._columns), strict=True):
            row = np.concatenate([np.atleast_1d(np.nan if value is None else value).ravel() for value in values])
            rows.append(row if self._dtype is None else row.astype(self._dtype))
        return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows


def _has_others(array: Any) -> bool:
    """Whether a column of objects has some that are no numbers."""
    import decimal

    return array.dtype.kind == "O" and any(not isinstance(v, (int, float, decimal.Decimal)) and v is not None for v in array.tolist())
