"""Python objects as pandas columns that go to Arrow pickled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from weir.extensions.ragged import create_ragged_ndarray


@pd.api.extensions.register_extension_dtype
class PythonObjectDtype(pd.api.extensions.ExtensionDtype):  # type: ignore[misc]
    """The dtype of columns of Python objects.

    >>> PythonObjectDtype()
    python_object()
    """

    @classmethod
    def construct_from_string(cls, string: str) -> PythonObjectDtype:
        """Of its name; TypeError for another.

        >>> PythonObjectDtype.construct_from_string("python_object()")
        python_object()
        """
        if string != "python_object()":
            raise TypeError(f"Cannot construct a '{cls.__name__}' from '{string}'")
        return cls()

    @property
    def type(self) -> Any:
        """Any object.

        >>> PythonObjectDtype().type
        <class 'object'>
        """
        return object

    @property
    def name(self) -> str:
        """What dtypes shows.

        >>> PythonObjectDtype().name
        'python_object()'
        """
        return "python_object()"

    @classmethod
    def construct_array_type(cls) -> Any:
        """The class of arrays.

        >>> PythonObjectDtype.construct_array_type().__name__
        'PythonObjectArray'
        """
        return PythonObjectArray

    def __from_arrow__(self, array: Any) -> PythonObjectArray:
        return PythonObjectArray(array.to_pylist())

    def __repr__(self) -> str:
        return self.name


class PythonObjectArray(pd.api.extensions.ExtensionArray):  # type: ignore[misc]
    """A column of Python objects.

    >>> pd.Series(PythonObjectArray([{1}, "x"])).tolist()
    [{1}, 'x']
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = create_ragged_ndarray(list(values))

    @classmethod
    def _from_sequence(cls, scalars: Sequence[Any], *, dtype: Any = None, copy: bool = False) -> PythonObjectArray:
        return cls(scalars)

    @classmethod
    def _from_factorized(cls, values: Sequence[Any], original: Any) -> PythonObjectArray:
        return cls(values)

    def __getitem__(self, item: Any) -> Any:
        found = self.values[pd.api.indexers.check_array_indexer(self, item)]
        is_one = isinstance(item, (int, np.integer))
        return found if is_one else PythonObjectArray(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[key] = value

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, PythonObjectArray):
            return self.values == other.values
        return self.values == other if isinstance(other, np.ndarray) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = pd.api.extensions.no_default) -> Any:
        """As an array of objects; `dtype`: of another kind of elements.

        >>> PythonObjectArray([1j, {2}]).to_numpy()
        array([1j, {2}], dtype=object)
        """
        made = self.values
        if na_value is not pd.api.extensions.no_default:
            made = made.copy()
            made[self.isna()] = na_value
        if dtype is not None and dtype != object:
            return made.astype(dtype)
        return made.copy() if copy and made is self.values else made

    @property
    def dtype(self) -> PythonObjectDtype:
        """Its dtype.

        >>> PythonObjectArray([1j]).dtype
        python_object()
        """
        return PythonObjectDtype()

    @property
    def nbytes(self) -> int:
        """Of the pointers.

        >>> PythonObjectArray([1j, {2}]).nbytes
        16
        """
        return int(self.values.nbytes)

    def __arrow_array__(self, type: Any = None) -> Any:
        from weir.extensions.arrow_objects import ArrowPythonObjectArray

        return ArrowPythonObjectArray.from_objects(self.values)

    def isna(self) -> Any:
        """Which are None or NaN.

        >>> PythonObjectArray([1j, None]).isna()
        array([False,  True])
        """
        return np.array([value is None or (isinstance(value, float) and value != value) for value in self.values], dtype=bool)

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> PythonObjectArray:
        """These, in this order; with allow_fill, -1 is a missing one: `fill_value`, or NaN.

        >>> list(PythonObjectArray([1j, {2}]).take([1, -1], allow_fill=True))
        [{2}, nan]
        """
        if allow_fill and fill_value is None:
            fill_value = self.dtype.na_value
        return PythonObjectArray(pd.api.extensions.take(self.values, np.asarray(indices), allow_fill=allow_fill, fill_value=fill_value))

    def copy(self) -> PythonObjectArray:
        """With pointers of its own.

        >>> list(PythonObjectArray([1j]).copy())
        [1j]
        """
        return PythonObjectArray(self.values)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PythonObjectArray]) -> PythonObjectArray:
        return cls(np.concatenate([one.values for one in to_concat]))
