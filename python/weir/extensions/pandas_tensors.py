"""Tensors as pandas columns: an ExtensionArray over one NumPy array, or over arrays of different shapes."""

from __future__ import annotations

import ast
import numbers
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from weir.extensions.ragged import create_ragged_ndarray, possibly_ragged


@pd.api.extensions.register_extension_dtype
class TensorDtype(pd.api.extensions.ExtensionDtype):  # type: ignore[misc]
    """The dtype of tensor columns: the shape of one tensor, None where it varies, and the dtype of its elements.

    >>> TensorDtype((2, 3), np.dtype("int64"))
    TensorDtype(shape=(2, 3), dtype=int64)
    """

    base = None

    def __init__(self, shape: Sequence[int | None] | None, dtype: Any) -> None:
        self._shape = (None,) if shape is None else tuple(shape)  # None: any shape, with as many dimensions as there are
        self._dtype = np.dtype(dtype)

    @property
    def type(self) -> Any:
        """The class of its values.

        >>> import numpy
        >>> TensorDtype((2, 2), numpy.float32).type.__name__
        'TensorArrayElement'
        """
        return TensorArrayElement

    @property
    def element_dtype(self) -> Any:
        """NumPy's dtype of the elements.

        >>> import numpy
        >>> TensorDtype((2, 2), numpy.float32).element_dtype
        dtype('float32')
        """
        return self._dtype

    @property
    def element_shape(self) -> tuple[int | None, ...]:
        """Of each tensor; None where it differs.

        >>> import numpy
        >>> TensorDtype((2, 2), numpy.float32).element_shape
        (2, 2)
        """
        return self._shape

    @property
    def is_variable_shaped(self) -> bool:
        """Whether shapes differ: None in each dimension.

        >>> import numpy
        >>> TensorDtype((None, None), numpy.float32).is_variable_shaped
        True
        """
        return all(size is None for size in self._shape)

    @property
    def name(self) -> str:
        """What dtypes shows.

        >>> import numpy
        >>> TensorDtype((2, 2), numpy.float32).name
        'TensorDtype(shape=(2, 2), dtype=float32)'
        """
        return f"TensorDtype(shape={self._shape}, dtype={self._dtype})"

    @classmethod
    def construct_from_string(cls, string: str) -> TensorDtype:
        """Of its name.

        >>> TensorDtype.construct_from_string("TensorDtype(shape=(2,), dtype=float32)").element_shape
        (2,)
        """
        if not isinstance(string, str):
            raise TypeError(f"'construct_from_string' expects a string, got {type(string)}")
        found = re.fullmatch(r"(?:TensorDtype|numpy\.ndarray)\(shape=(\((?:(?:\d+|None),?\s?)*\)), dtype=([\w\[\]<>]+)\)", string)
        if found is None:
            raise TypeError(
                f"Cannot construct a '{cls.__name__}' from '{string}'; expected a string like "
                "'TensorDtype(shape=(1, 2, 3), dtype=int64)'."
            )
        return cls(ast.literal_eval(found[1]), np.dtype(found[2]))

    @classmethod
    def construct_array_type(cls) -> Any:
        """The class of arrays.

        >>> TensorDtype.construct_array_type().__name__
        'TensorArray'
        """
        return TensorArray

    def __from_arrow__(self, array: Any) -> TensorArray:
        import pyarrow as pa

        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        shape = self._shape
        is_fixed = all(size is not None for size in shape)
        made = [_from_chunk(chunk, shape, is_fixed) for chunk in chunks if len(chunk)]
        if not made:
            sizes = tuple(size or 0 for size in shape)
            return TensorArray(np.empty((0, *sizes) if is_fixed else 0, dtype=self._dtype if is_fixed else object))
        return TensorArray(made[0] if len(made) == 1 else np.concatenate(made))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.name == other
        return isinstance(other, TensorDtype) and self._shape == other._shape and self._dtype == other._dtype

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def _is_boolean(self) -> bool:
        return bool(self._dtype == np.bool_)


def _from_chunk(chunk: Any, shape: tuple[Any, ...], is_fixed: bool) -> Any:
    import pyarrow as pa

    if isinstance(chunk.type, pa.FixedShapeTensorType):
        from weir._formats import dense

        return dense(chunk)
    values = chunk.to_numpy(zero_copy_only=False)
    if is_fixed and values.dtype == object:
        values = np.stack(values)
    return values.reshape((len(chunk), *shape)) if is_fixed else values


def _unwrapped(value: Any) -> Any:
    return value._tensor if isinstance(value, (TensorArray, TensorArrayElement)) else value


def _operator(name: str) -> Callable[[Any, Any], Any]:
    plain = getattr(operator, name if hasattr(operator, name) else name + "_")

    def forward(self: Any, other: Any) -> Any:
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented
        return TensorArray(plain(self._tensor, _unwrapped(other)))

    return forward


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    plain = getattr(operator, name if hasattr(operator, name) else name + "_")

    def backward(self: Any, other: Any) -> Any:
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented
        return TensorArray(plain(_unwrapped(other), self._tensor))

    return backward


class _Tensors:
    """Operators and casts, over `_tensor`."""

    _tensor: Any

    def __complex__(self) -> complex:
        return complex(self._tensor)

    def __float__(self) -> float:
        return float(self._tensor)

    def __int__(self) -> int:
        return int(self._tensor)

    @property
    def numpy_dtype(self) -> Any:
        """Of the array that it wraps.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).numpy_dtype
        dtype('float64')
        """
        return self._tensor.dtype

    @property
    def numpy_ndim(self) -> int:
        """Of the array that it wraps.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).numpy_ndim
        2
        """
        return int(self._tensor.ndim)

    @property
    def numpy_shape(self) -> tuple[int, ...]:
        """Of the array that it wraps.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).numpy_shape
        (3, 2)
        """
        return tuple(self._tensor.shape)

    @property
    def numpy_size(self) -> int:
        """Of the array that it wraps.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).numpy_size
        6
        """
        return int(self._tensor.size)


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")


def _give_operators(cls: type) -> None:
    for name in (*_ARITHMETIC, "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"):
        setattr(cls, f"__{name}__", _operator(name))
    for name in (*_ARITHMETIC, "and", "or", "xor"):
        setattr(cls, f"__r{name}__", _reflected(name))
    cls.__hash__ = None  # type: ignore[assignment]


class TensorArrayElement(_Tensors):
    """One tensor of a column.

    >>> TensorArray(np.arange(4).reshape(2, 2))[1]
    array([2, 3])
    """

    def __init__(self, values: Any) -> None:
        self._tensor = values

    def to_numpy(self) -> Any:
        """As an array.

        >>> import numpy
        >>> TensorArray(numpy.arange(4).reshape(2, 2))[1].to_numpy()
        array([2, 3])
        """
        return np.asarray(self._tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._tensor, dtype=dtype)

    def __repr__(self) -> str:
        return repr(self._tensor)

    def __str__(self) -> str:
        return str(self._tensor)


class TensorArray(_Tensors, pd.api.extensions.ExtensionArray):  # type: ignore[misc]
    """A column of tensors, whose shapes may differ.

    >>> column = TensorArray(np.arange(12).reshape(3, 2, 2))
    >>> pd.DataFrame({"t": column})["t"].sum()
    array([[12, 15],
           [18, 21]])
    """

    SUPPORTED_REDUCERS: dict[str, Any] = {
        "sum": np.sum,
        "all": np.all,
        "any": np.any,
        "min": np.min,
        "max": np.max,
        "mean": np.mean,
        "median": np.median,
        "prod": np.prod,
        "std": np.std,
        "var": np.var,
    }

    def __init__(self, values: Any) -> None:
        if isinstance(values, TensorArrayElement):
            values = np.asarray(values)[None]
        elif isinstance(values, TensorArray):
            values = values._tensor
        elif not isinstance(values, np.ndarray) and not hasattr(values, "__len__"):
            raise TypeError(
                "Expected a numpy.ndarray or sequence of numpy.ndarray, but received "
                f"{values} of type {type(values).__name__} instead."
            )
        elif not isinstance(values, np.ndarray):
            items = [_unwrapped(v) for v in values]
            values = possibly_ragged(items)
        if values.dtype == object and len(values):
            odd = next((v for v in values if not isinstance(_unwrapped(v), (np.ndarray, list, tuple))), None)
            if odd is not None:
                raise TypeError(
                    "Expected a well-typed ndarray or an object-typed ndarray of ndarray pointers, but got an object-typed ndarray "
                    f"containing an unsupported element of type {type(odd)} and value {odd!r}."
                )
            values = possibly_ragged([np.asarray(_unwrapped(v)) for v in values])
        if values.ndim == 0:
            values = values[None]
        self._tensor = values

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> TensorArray:
        if copy and isinstance(scalars, np.ndarray):
            scalars = scalars.copy()
        return cls(scalars)

    @classmethod
    def _from_factorized(cls, values: Any, original: Any) -> TensorArray:
        raise NotImplementedError("tensors are not factorized")

    def _values_for_factorize(self) -> Any:
        raise NotImplementedError("tensors are not factorized")

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            found = self._tensor[item]
            return TensorArrayElement(found) if isinstance(found, np.ndarray) else found
        if isinstance(item, TensorArray):
            item = item._tensor.astype(bool)
            if item.ndim > 1:
                item = item.reshape(len(item), -1).all(axis=1)
        if isinstance(item, slice):
            return TensorArray(self._tensor[item])
        if isinstance(item, tuple):
            return TensorArray(self._tensor[item])
        return TensorArray(self._tensor[pd.api.indexers.check_array_indexer(self, item)])

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, (int, np.integer, slice)):
            key = pd.api.indexers.check_array_indexer(self, key)
        if isinstance(value, pd.Series):
            value = value.array
        value = _unwrapped(value)
        if isinstance(value, list):
            value = [_unwrapped(v) for v in value]
        if value is None or (isinstance(value, Sequence) and not len(value)):
            value = np.full_like(self._tensor[key], np.nan)
        self._tensor[key] = value

    def __len__(self) -> int:
        return len(self._tensor)

    @property
    def is_variable_shaped(self) -> bool:
        """Whether shapes differ.

        >>> import numpy
        >>> TensorArray([numpy.zeros(1), numpy.zeros(2)]).is_variable_shaped
        True
        """
        return bool(self._tensor.dtype == object)

    @property
    def dtype(self) -> TensorDtype:
        """Its dtype.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).dtype.element_shape
        (2,)
        """
        if self.is_variable_shaped:
            first = self._tensor[0] if len(self._tensor) else np.empty(0)
            return TensorDtype((None,) * first.ndim, first.dtype)
        return TensorDtype(self._tensor.shape[1:], self._tensor.dtype)

    @property
    def nbytes(self) -> int:
        """Of the elements.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).nbytes
        48
        """
        if self.is_variable_shaped:
            return int(sum(one.nbytes for one in self._tensor))
        return int(self._tensor.nbytes)

    def isna(self) -> Any:
        """Which tensors are all NaN, or not there.

        >>> import numpy
        >>> TensorArray(numpy.array([[1, numpy.nan], [numpy.nan, numpy.nan]])).isna()
        array([False,  True])
        """
        if self.is_variable_shaped:
            return np.array([_all_nan(one) for one in self._tensor], dtype=bool)
        if self._tensor.dtype.kind not in "fcmM":
            return np.zeros(len(self), dtype=bool)
        nans = np.isnan(self._tensor)
        return nans.reshape(len(self), -1).all(axis=1) if self._tensor[0:1].size else np.zeros(len(self), dtype=bool)

    def take(self, indices: Any, allow_fill: bool = False, fill_value: Any = None) -> TensorArray:
        """These, in this order; with allow_fill, -1 is a missing one: `fill_value`, or NaN.

        >>> import numpy
        >>> TensorArray(numpy.arange(4.0).reshape(2, 2)).take([1, -1], allow_fill=True).to_numpy()
        array([[ 2.,  3.],
               [nan, nan]])
        """
        places = np.asarray(indices, dtype=np.intp)
        if not allow_fill:
            return TensorArray(self._tensor.take(places, axis=0))
        if len(places) and (places < -1).any():
            raise ValueError("negative values in indices other than -1 cannot be filled")
        if len(places) and places.max(initial=-1) >= len(self):
            raise IndexError("out of bounds value in 'indices'.")
        if not (places < 0).any():
            return TensorArray(self._tensor.take(places, axis=0))
        fill = np.nan if fill_value is None or fill_value is pd.NA else _unwrapped(fill_value)
        if self.is_variable_shaped:
            missing = np.full_like(self._tensor[0], np.nan, dtype=float) if len(self) else np.array([np.nan])
            return TensorArray(create_ragged_ndarray([self._tensor[i] if i >= 0 else missing for i in places]))
        kind = np.result_type(self._tensor.dtype, np.asarray(fill).dtype)
        made = np.empty((len(places), *self._tensor.shape[1:]), dtype=kind)
        made[...] = fill
        made[places >= 0] = self._tensor[places[places >= 0]]
        return TensorArray(made)

    def copy(self) -> TensorArray:
        """With elements of its own.

        >>> import numpy
        >>> one = TensorArray(numpy.zeros((3, 2)))
        >>> numpy.shares_memory(one.copy().to_numpy(), one.to_numpy())
        False
        """
        return TensorArray(self._tensor.copy())

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TensorArray]) -> TensorArray:
        shapes = {one.dtype.element_shape for one in to_concat}
        if len(shapes) > 1 or any(one.is_variable_shaped for one in to_concat):
            return TensorArray(create_ragged_ndarray([tensor for one in to_concat for tensor in one._tensor]))
        return TensorArray(np.concatenate([one._tensor for one in to_concat]))

    def __contains__(self, item: object) -> bool:
        if isinstance(item, TensorArrayElement):
            array = np.asarray(item)
            if array.size == 1 and array.dtype.kind == "f" and np.isnan(array).all():
                return bool(self.isna().any())
            return any(np.array_equal(array, one) for one in self._tensor)
        return bool(super().__contains__(item))

    def _reduce(self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any) -> Any:
        if name not in self.SUPPORTED_REDUCERS:
            raise NotImplementedError(f"'{name}' aggregate not implemented.")
        options = {key: kwargs[key] for key in ("ddof",) if key in kwargs}
        result = self.SUPPORTED_REDUCERS[name](self._tensor, axis=0, **options)
        return TensorArray(np.asarray(result)[None]) if keepdims else TensorArrayElement(result)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether any element is true, as numpy.any.

        >>> import numpy
        >>> TensorArray(numpy.array([[0, 1], [0, 0]])).any()
        np.True_
        """
        result = self._tensor.any(axis=axis, out=out, keepdims=keepdims)
        return result if axis is None else TensorArray(result)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether all elements are true, as numpy.all.

        >>> import numpy
        >>> TensorArray(numpy.array([[0, 1], [0, 0]])).all()
        np.False_
        """
        result = self._tensor.all(axis=axis, out=out, keepdims=keepdims)
        return result if axis is None else TensorArray(result)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._tensor, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        if not all(isinstance(x, (TensorArray, np.ndarray, numbers.Number)) for x in (*inputs, *out)):
            return NotImplemented
        if out:
            kwargs["out"] = tuple(_unwrapped(x) for x in out)
        result = getattr(ufunc, method)(*(_unwrapped(x) for x in inputs), **kwargs)
        if isinstance(result, tuple):
            return tuple(TensorArray(x) for x in result)
        return None if method == "at" else TensorArray(result)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = pd.api.extensions.no_default) -> Any:
        """The array below, or a copy of it; `dtype`: with other elements.

        >>> import numpy
        >>> TensorArray(numpy.zeros((3, 2))).to_numpy().shape
        (3, 2)
        """
        if dtype is not None:
            return self._tensor.astype(pd.api.types.pandas_dtype(dtype), copy=True)
        return self._tensor.copy() if copy else self._tensor

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The array below, with elements of another dtype: objects are arrays, texts what they print. Of a TensorDtype, itself.

        >>> import numpy
        >>> TensorArray(numpy.ones((2, 2))).astype("int64")
        array([[1, 1],
               [1, 1]])
        """
        kind = pd.api.types.pandas_dtype(dtype)
        if isinstance(kind, TensorDtype):
            return self.copy() if copy else self
        if pd.api.types.is_object_dtype(kind):
            return create_ragged_ndarray(list(self._tensor))
        if pd.api.types.is_string_dtype(kind):
            texts = np.array([str(one) for one in self._tensor])
            return kind.construct_array_type()._from_sequence(texts, dtype=kind) if isinstance(kind, pd.StringDtype) else texts
        return self._tensor.astype(kind, copy=copy)

    def __arrow_array__(self, type: Any = None) -> Any:
        from weir.extensions.arrow_tensors import ArrowTensorArray, ArrowVariableShapedTensorArray

        return (ArrowVariableShapedTensorArray if self.is_variable_shaped else ArrowTensorArray).from_numpy(self._tensor)

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        width = _width(self._tensor)

        def formatted(value: Any) -> str:
            array = np.asarray(value, self._tensor.dtype)
            text = np.array2string(
                array, separator=", ", max_line_width=1 << 30, formatter={"all": lambda element: _text(element).rjust(width)}
            )
            return re.sub(r"\s*\n\s*", " ", text)

        return formatted

    def __repr__(self) -> str:
        return repr(self._tensor)

    def __str__(self) -> str:
        return str(self._tensor)


def _text(element: Any) -> str:
    return "NaN" if element != element else str(element)


def _width(tensors: Any) -> int:
    """How long the longest text of an element is: a column of tensors that are printed below each other. Large ones stand as they are."""
    if tensors.dtype.kind in "iu" and tensors.size:
        return max(len(str(tensors.min())), len(str(tensors.max())))
    return max(map(len, map(_text, tensors.flat)), default=0) if tensors.dtype.kind in "bfU" and tensors.size <= 100_000 else 0


def _all_nan(array: Any) -> bool:
    return array is None or (array.dtype.kind == "f" and bool(array.size) and bool(np.isnan(array).all()))


_give_operators(TensorArrayElement)
_give_operators(TensorArray)


def column_needs_tensor_extension(s: pd.Series) -> bool:
    """Whether a column holds arrays as plain objects.

    >>> column_needs_tensor_extension(pd.Series([np.zeros(2), np.zeros(2)]))
    True
    """
    return bool(s.dtype == object and not s.empty and isinstance(s.iloc[0], np.ndarray))
