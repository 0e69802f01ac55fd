"""One column of a block: a pyarrow Array or ChunkedArray, or a pandas Series, and what can be asked of either.

>>> import pyarrow as pa
>>> column = BlockColumnAccessor.for_column(pa.array([1, None, 3]))
>>> column.sum(ignore_nulls=True), column.sum(ignore_nulls=False), column.count(ignore_nulls=True)
(4, None, 2)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy


class BlockColumnAccessor:
    """What can be asked of a column, whichever kind it is. Made by for_column.

    >>> import pandas as pd
    >>> BlockColumnAccessor.for_column(pd.Series([1.0, 3.0])).mean(ignore_nulls=True)
    np.float64(2.0)
    """

    def __init__(self, col: Any) -> None:
        self._column = col

    @staticmethod
    def for_column(col: Any) -> BlockColumnAccessor:
        """For a pyarrow.Array or ChunkedArray, or a pandas.Series.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, 2])).to_pylist()
        [1, 2]
        """
        arrow, pandas = sys.modules.get("pyarrow"), sys.modules.get("pandas")
        if arrow is not None and isinstance(col, (arrow.Array, arrow.ChunkedArray)):
            return ArrowBlockColumnAccessor(col)
        if pandas is not None and isinstance(col, pandas.Series):
            return PandasBlockColumnAccessor(col)
        raise TypeError(f"Expected either a pandas.Series or pyarrow.Array (ChunkedArray) (got {type(col)})")

    def count(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """How many values; `ignore_nulls`: without nulls. `as_py`: Python's number, else pyarrow's scalar.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, None])).count(ignore_nulls=True)
        1
        """
        raise NotImplementedError

    def sum(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """Their sum; None where nulls count and there is one, or there is no value.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, 2, None])).sum(ignore_nulls=True)
        3
        """
        raise NotImplementedError

    def min(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The smallest; None as for sum().

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([3, 1, None])).min(ignore_nulls=True)
        1
        """
        raise NotImplementedError

    def max(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The largest; None as for sum().

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([3, 1, None])).max(ignore_nulls=True)
        3
        """
        raise NotImplementedError

    def mean(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The mean; None as for sum().

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([3, 1])).mean(ignore_nulls=True)
        2.0
        """
        raise NotImplementedError

    def quantile(self, *, q: float, ignore_nulls: bool, as_py: bool = True) -> Any:
        """The value below which the part `q` of all lies; None as for sum().

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, 2, 3])).quantile(q=0.5, ignore_nulls=True)
        2.0
        """
        raise NotImplementedError

    def sum_of_squared_diffs_from_mean(self, *, ignore_nulls: bool, mean: Any = None, as_py: bool = True) -> Any:
        """What the variance is made of; None as for sum(). `mean`: that of all blocks, where it is not this column's.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([3, 1])).sum_of_squared_diffs_from_mean(ignore_nulls=True)
        2.0
        """
        raise NotImplementedError

    def unique(self) -> Any:
        """Each value once.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, 2, 1])).unique().to_pylist()
        [1, 2]
        """
        raise NotImplementedError

    def value_counts(self) -> dict[str, list[Any]] | None:
        """Each value once, and how often: {"values": […], "counts": […]}; None of no values.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, 2, 1])).value_counts()
        {'values': [1, 2], 'counts': [2, 1]}
        """
        raise NotImplementedError

    def hash(self) -> Any:
        """A number of 64 bits a row; equal values have equal ones, in a column of either kind.

        >>> import pyarrow as pa
        >>> first, second = BlockColumnAccessor.for_column(pa.array([7, 7])).hash()
        >>> first == second
        True
        """
        raise NotImplementedError

    def flatten(self) -> Any:
        """The values of lists, one after another.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([[1, 2], [3]])).flatten().to_pylist()
        [1, 2, 3]
        """
        raise NotImplementedError

    def dropna(self) -> Any:
        """Without nulls.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, None])).dropna().to_pylist()
        [1]
        """
        raise NotImplementedError

    def is_composed_of_lists(self) -> bool:
        """Whether the values are lists.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([[1], [2]])).is_composed_of_lists()
        True
        """
        raise NotImplementedError

    def to_pylist(self) -> list[Any]:
        """The values as Python's.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, None])).to_pylist()
        [1, None]
        """
        raise NotImplementedError

    def to_numpy(self, zero_copy_only: bool = False) -> numpy.ndarray[Any, Any]:
        """As an array. `zero_copy_only`: ValueError where that would take a copy.

        >>> import pyarrow as pa
        >>> BlockColumnAccessor.for_column(pa.array([1, 2])).to_numpy()
        array([1, 2])
        """
        raise NotImplementedError


class ArrowBlockColumnAccessor(BlockColumnAccessor):
    """Of pyarrow.

    >>> import pyarrow as pa
    >>> type(BlockColumnAccessor.for_column(pa.array([1]))).__name__
    'ArrowBlockColumnAccessor'
    """

    def _compute(self, function: str, as_py: bool, **options: Any) -> Any:
        import pyarrow.compute as pc

        found = getattr(pc, function)(self._column, **options)
        return found.as_py() if as_py else found

    def count(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._compute("count", as_py, mode="only_valid" if ignore_nulls else "all")

    def sum(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._compute("sum", as_py, skip_nulls=ignore_nulls)

    def min(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._compute("min", as_py, skip_nulls=ignore_nulls)

    def max(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._compute("max", as_py, skip_nulls=ignore_nulls)

    def mean(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._compute("mean", as_py, skip_nulls=ignore_nulls)

    def quantile(self, *, q: float, ignore_nulls: bool, as_py: bool = True) -> Any:
        found = self._compute("quantile", False, q=q, skip_nulls=ignore_nulls)[0]
        return found.as_py() if as_py else found

    def sum_of_squared_diffs_from_mean(self, *, ignore_nulls: bool, mean: Any = None, as_py: bool = True) -> Any:
        import pyarrow.compute as pc

        mean = self.mean(ignore_nulls=ignore_nulls) if mean is None else mean
        if mean is None:
            return None
        found = pc.sum(pc.power(pc.subtract(self._column, mean), 2), skip_nulls=ignore_nulls)
        return found.as_py() if as_py else found

    def unique(self) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.is_composed_of_lists():
            return pc.unique(self._column)
        kept = {repr(value): value for value in self._column.to_pylist()}
        return pa.array(list(kept.values()), self._column.type)

    def value_counts(self) -> dict[str, list[Any]] | None:
        import pyarrow.compute as pc

        found = pc.value_counts(self._column)
        if not len(found):
            return None
        return {name: found.field(name).to_pylist() for name in ("values", "counts")}

    def hash(self) -> Any:
        import pyarrow as pa

        return pa.array(_hashes(self._column))

    def flatten(self) -> Any:
        import pyarrow.compute as pc

        return pc.list_flatten(self._column)

    def dropna(self) -> Any:
        import pyarrow.compute as pc

        return pc.drop_null(self._column)

    def is_composed_of_lists(self) -> bool:
        import pyarrow as pa

        return bool(pa.types.is_list(self._column.type) or pa.types.is_large_list(self._column.type))

    def to_pylist(self) -> list[Any]:
        return list(self._column.to_pylist())

    def to_numpy(self, zero_copy_only: bool = False) -> numpy.ndarray[Any, Any]:
        array: numpy.ndarray[Any, Any] = self._column.to_numpy(zero_copy_only=zero_copy_only)
        return array


class PandasBlockColumnAccessor(BlockColumnAccessor):
    """Of pandas. Figures are NumPy's numbers, whatever `as_py` says.

    >>> import pandas as pd
    >>> BlockColumnAccessor.for_column(pd.Series([1, 2])).sum(ignore_nulls=True)
    np.int64(3)
    """

    def _has_none(self) -> bool:
        return not self._column.notna().any()

    def _first(self) -> Any:
        return next((value for value in self._column if value is not None), None)

    def count(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._column.count() if ignore_nulls else len(self._column)

    def sum(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return None if self._has_none() else self._column.sum(skipna=ignore_nulls, min_count=1)

    def min(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return None if self._has_none() else self._column.min(skipna=ignore_nulls)

    def max(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        return None if self._has_none() else self._column.max(skipna=ignore_nulls)

    def mean(self, *, ignore_nulls: bool, as_py: bool = True) -> Any:
        import pandas as pd

        total = self.sum(ignore_nulls=ignore_nulls)
        return total if total is None or pd.isna(total) else total / self.count(ignore_nulls=ignore_nulls)

    def quantile(self, *, q: float, ignore_nulls: bool, as_py: bool = True) -> Any:
        return self._column.quantile(q=q)

    def sum_of_squared_diffs_from_mean(self, *, ignore_nulls: bool, mean: Any = None, as_py: bool = True) -> Any:
        import pandas as pd

        mean = self.mean(ignore_nulls=ignore_nulls) if mean is None else mean
        if mean is None or pd.isna(mean):
            return mean
        return ((self._column - mean) ** 2).sum(skipna=ignore_nulls)

    def unique(self) -> Any:
        import pandas as pd

        column = self._column
        if self.is_composed_of_lists():
            column = column.map(lambda value: None if value is None else tuple(value))
        return pd.Series(column.unique())

    def value_counts(self) -> dict[str, list[Any]] | None:
        found = self._column.value_counts()
        if not len(found):
            return None
        return {"values": found.index.tolist(), "counts": found.values.tolist()}

    def hash(self) -> Any:
        import pandas as pd
        import pyarrow as pa

        from weir.block import BlockAccessor

        table = BlockAccessor.for_block(pd.DataFrame({"column": self._column})).to_arrow()
        return pd.Series(_hashes(table.column(0) if table.num_columns else pa.nulls(len(self._column))))

    def flatten(self) -> Any:
        column = self._column.map(lambda value: value.to_numpy() if hasattr(value, "to_numpy") else value)
        if self.is_composed_of_lists():
            column = column[column.map(lambda value: value is not None and len(value) > 0)]
        return column.explode(ignore_index=True)

    def dropna(self) -> Any:
        return self._column.dropna()

    def is_composed_of_lists(self) -> bool:
        import numpy as np

        first = self._first()
        return isinstance(first, (list, np.ndarray)) or type(first).__name__ == "TensorArrayElement"

    def to_pylist(self) -> list[Any]:
        return list(self._column.to_list())

    def to_numpy(self, zero_copy_only: bool = False) -> numpy.ndarray[Any, Any]:
        array: numpy.ndarray[Any, Any] = self._column.to_numpy(copy=not zero_copy_only)
        return array


def _hashes(column: Any) -> numpy.ndarray[Any, Any]:
    """Numbers by their bits (an integer in a column of floats is another value), anything else by its bytes as Python shows it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return _mixed(column, kind)
    if pa.types.is_floating(kind):
        values = np.asarray(pc.fill_null(column, 0), np.float64) + 0.0  # no −0.0
        values[np.isnan(values)] = np.nan
        return _mixed(pa.array(values, mask=np.asarray(column.is_null(), bool)), pa.float64())
    from hashlib import blake2b

    out = np.empty(len(column), np.int64)
    known: dict[str, int] = {}
    for row, value in enumerate(column.to_pylist()):
        text = repr(value.tolist() if hasattr(value, "tolist") else value)
        if text not in known:
            known[text] = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)
        out[row] = known[text]
    return out


def _mixed(column: Any, kind: Any) -> numpy.ndarray[Any, Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    none = np.asarray(column.is_null(), bool)
    if pa.types.is_unsigned_integer(kind):
        bits = np.asarray(pc.fill_null(column, 0), np.uint64)
    elif pa.types.is_floating(kind):
        bits = np.asarray(pc.fill_null(column, 0), np.float64).view(np.uint64)
    else:
        if pa.types.is_time32(kind) or pa.types.is_date32(kind):
            column = column.cast(pa.int32())
        elif pa.types.is_temporal(kind):
            column = column.cast(pa.int64())
        bits = np.asarray(pc.fill_null(column.cast(pa.int64()), 0), np.int64).view(np.uint64)
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    bits[none] = np.uint64(0x6E756C6C)
    return bits.view(np.int64)
