"""Tensors as Arrow columns: pyarrow's ExtensionTypes with Ray Data's names and layout.

    ArrowTensorType, V2             list<T> or large_list<T>, prod(shape) items a row; metadata: the shape as JSON
    ArrowVariableShapedTensorType   struct<data: large_list<T>, shape: list<int64>>; metadata: the number of dimensions

The engine's own batches have arrow.fixed_shape_tensor and arrow.variable_shape_tensor; `weir._tensors` goes between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.extensions import formats
from weir.extensions.errors import ArrowConversionError
from weir.extensions.formats import FixedShapeTensorFormat
from weir.extensions.ragged import create_ragged_ndarray

__all__ = [
    "ArrowTensorArray",
    "ArrowTensorScalar",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorFormat",
    "create_arrow_fixed_shape_tensor_type",
    "get_arrow_extension_fixed_shape_tensor_types",
    "get_arrow_extension_tensor_types",
    "get_arrow_extension_variable_shape_tensor_types",
]

_CHARACTER = 4  # bytes of a character of NumPy's texts


class ArrowTensorScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One tensor.

    >>> import numpy
    >>> ArrowTensorArray.from_numpy(numpy.arange(4).reshape(2, 2))[1].to_numpy()
    array([2, 3])
    """

    def as_py(self, **options: Any) -> Any:
        """As an array; None where there is none.

        >>> import numpy
        >>> ArrowTensorArray.from_numpy(numpy.arange(4).reshape(2, 2))[0].as_py()
        array([0, 1])
        """
        return self.type._array_of(self)

    def to_numpy(self) -> Any:
        """As an array.

        >>> import numpy
        >>> ArrowTensorArray.from_numpy(numpy.zeros((1, 2, 3)))[0].to_numpy().shape
        (2, 3)
        """
        return self.as_py()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.as_py(), dtype=dtype)


class _FixedShapeType(pa.ExtensionType):  # type: ignore[misc]
    """What both versions share."""

    OFFSET_DTYPE: Any

    def __init__(self, shape: Sequence[int], storage: pa.DataType, name: str) -> None:
        self._shape = tuple(shape)
        super().__init__(storage, name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each tensor.

        >>> ArrowTensorTypeV2((2, 3), pa.float32()).shape
        (2, 3)
        """
        return self._shape

    @property
    def value_type(self) -> pa.DataType:
        """Of its elements.

        >>> ArrowTensorTypeV2((2, 3), pa.float32()).value_type
        DataType(float)
        """
        return self.storage_type.value_type

    def to_pandas_dtype(self) -> Any:
        """pandas' side of it.

        >>> ArrowTensorTypeV2((2, 3), pa.float32()).to_pandas_dtype().name
        'TensorDtype(shape=(2, 3), dtype=float32)'
        """
        from weir.extensions.pandas_tensors import TensorDtype

        return TensorDtype(self._shape, self.value_type.to_pandas_dtype())

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self._shape).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return cls(_shape_of(serialized), storage_type.value_type)  # type: ignore[call-arg]

    def __arrow_ext_class__(self) -> Any:
        return ArrowTensorArray

    def __arrow_ext_scalar_class__(self) -> Any:
        return ArrowTensorScalar

    def _array_of(self, scalar: Any) -> Any:
        if scalar.value is None:
            return None
        return to_array(scalar.value.values).reshape(self._shape)

    def __reduce__(self) -> Any:
        return type(self).__arrow_ext_deserialize__, (self.storage_type, self.__arrow_ext_serialize__())

    def __str__(self) -> str:
        return f"{type(self).__name__}(shape={self._shape}, dtype={self.value_type})"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.shape == self._shape and other.value_type == self.value_type

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.extension_name, self.value_type, self._shape))


def _shape_of(serialized: bytes) -> Any:
    try:
        return tuple(json.loads(serialized))
    except ValueError:
        raise ValueError(
            "the metadata of this tensor column is no JSON: it was written by Ray 2.49 to 2.54, which pickled it, and weir does "
            "not unpickle what files hold"
        ) from None


class ArrowTensorType(_FixedShapeType):
    """Tensors of one shape, in lists with 32-bit offsets (less than 2^31 elements a column).

    >>> ArrowTensorType((2, 3), pa.int64())
    ArrowTensorType(shape=(2, 3), dtype=int64)
    """

    OFFSET_DTYPE = pa.int32()

    def __init__(self, shape: Sequence[int], dtype: pa.DataType) -> None:
        super().__init__(shape, pa.list_(dtype), "ray.data.arrow_tensor")


class ArrowTensorTypeV2(_FixedShapeType):
    """Tensors of one shape, in lists with 64-bit offsets.

    >>> ArrowTensorTypeV2((2, 3), pa.int64()).storage_type
    LargeListType(large_list<item: int64>)
    """

    OFFSET_DTYPE = pa.int64()

    def __init__(self, shape: Sequence[int], dtype: pa.DataType) -> None:
        super().__init__(shape, pa.large_list(dtype), "ray.data.arrow_tensor_v2")


class ArrowVariableShapedTensorType(pa.ExtensionType):  # type: ignore[misc]
    """Tensors of different shapes, with the same number of dimensions.

    >>> ArrowVariableShapedTensorType(pa.int64(), 2)
    ArrowVariableShapedTensorType(ndim=2, dtype=int64)
    """

    OFFSET_DTYPE = pa.int64()

    def __init__(self, dtype: pa.DataType, ndim: int) -> None:
        self._ndim = ndim
        storage = pa.struct([("data", pa.large_list(dtype)), ("shape", pa.list_(pa.int64()))])
        super().__init__(storage, "ray.data.arrow_variable_shaped_tensor")

    @property
    def ndim(self) -> int:
        """How many dimensions a tensor has.

        >>> ArrowVariableShapedTensorType(pa.int64(), ndim=2).ndim
        2
        """
        return self._ndim

    @property
    def shape(self) -> tuple[None, ...]:
        """None for each dimension.

        >>> ArrowVariableShapedTensorType(pa.int64(), ndim=2).shape
        (None, None)
        """
        return (None,) * self._ndim

    @property
    def value_type(self) -> pa.DataType:
        """Of the elements.

        >>> ArrowVariableShapedTensorType(pa.int64(), ndim=2).value_type
        DataType(int64)
        """
        return self.storage_type["data"].type.value_type

    def to_pandas_dtype(self) -> Any:
        """pandas' side of it.

        >>> ArrowVariableShapedTensorType(pa.int64(), ndim=2).to_pandas_dtype().is_variable_shaped
        True
        """
        from weir.extensions.pandas_tensors import TensorDtype

        return TensorDtype(self.shape, self.value_type.to_pandas_dtype())

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self._ndim).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        try:
            ndim = int(json.loads(serialized))
        except ValueError:
            raise ValueError("the metadata of this tensor column is no JSON, and weir does not unpickle what files hold") from None
        return cls(storage_type["data"].type.value_type, ndim)

    def __arrow_ext_class__(self) -> Any:
        return ArrowVariableShapedTensorArray

    def __arrow_ext_scalar_class__(self) -> Any:
        return ArrowTensorScalar

    def _array_of(self, scalar: Any) -> Any:
        if scalar.value is None:
            return None
        return to_array(scalar.value["data"].values).reshape(scalar.value["shape"].as_py())

    def __reduce__(self) -> Any:
        return type(self).__arrow_ext_deserialize__, (self.storage_type, self.__arrow_ext_serialize__())

    def __str__(self) -> str:
        return f"ArrowVariableShapedTensorType(ndim={self._ndim}, dtype={self.value_type})"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        # Numbers of dimensions may be mixed, so they make no difference.
        return isinstance(other, ArrowVariableShapedTensorType) and other.value_type == self.value_type

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.extension_name, self.value_type))


class ArrowTensorArray(pa.ExtensionArray):  # type: ignore[misc]
    """Tensors of one shape.

    >>> ArrowTensorArray.from_numpy(np.zeros((4, 2, 2))).type
    ArrowTensorTypeV2(shape=(2, 2), dtype=double)
    """

    @classmethod
    def from_numpy(cls, arr: Any, *, column_name: str | None = None) -> Any:
        """Of an array, or of arrays: of numbers a plain pyarrow.Array, of different shapes a variable-shaped one. `column_name`: for errors.

        >>> import numpy
        >>> str(ArrowTensorArray.from_numpy(numpy.zeros((4, 2))).type), str(ArrowTensorArray.from_numpy(numpy.zeros(4)).type)
        ('ArrowTensorTypeV2(shape=(2,), dtype=double)', 'double')
        """
        if not isinstance(arr, np.ndarray) and isinstance(arr, Iterable):
            items = list(arr)
            if items and isinstance(items[0], np.ndarray):
                is_one = len({item.shape for item in items}) == 1
                arr = np.stack(items) if is_one else create_ragged_ndarray(items)
            else:
                arr = items
        if not isinstance(arr, np.ndarray):
            raise ValueError(f"Must give ndarray or iterable of ndarrays, got {type(arr)} {arr}")
        try:
            return _from_array(arr)
        except ArrowConversionError:
            raise
        except Exception as error:
            column = f"column: '{column_name}', " if column_name else ""
            text = f"{column}shape: {arr.shape}, dtype: {arr.dtype}, data: {arr}"
            raise ArrowConversionError(text[:200]) from error

    def to_numpy(self, zero_copy_only: bool = True) -> Any:
        """All tensors as one array, without a copy where the elements are numbers.

        >>> import numpy
        >>> ArrowTensorArray.from_numpy(numpy.arange(4).reshape(2, 2)).to_numpy()
        array([[0, 1],
               [2, 3]])
        """
        storage = self.storage
        if storage.null_count:
            return create_ragged_ndarray([scalar.as_py() for scalar in self])
        return to_array(storage.flatten()).reshape((len(self), *self.type.shape))

    def to_numpy_ndarray(self, zero_copy_only: bool = True) -> Any:
        """The same.

        >>> import numpy
        >>> ArrowTensorArray.from_numpy(numpy.zeros((4, 2))).to_numpy_ndarray().shape
        (4, 2)
        """
        return self.to_numpy(zero_copy_only)

    def to_var_shaped_tensor_array(self, ndim: int) -> Any:
        """The same as tensors whose shapes may differ, of `ndim` dimensions.

        >>> import numpy
        >>> ArrowTensorArray.from_numpy(numpy.zeros((4, 2))).to_var_shaped_tensor_array(1).type.ndim
        1
        """
        shape = self.type.shape
        if ndim < len(shape):
            raise ValueError(f"Can't convert {self.type} to var-shaped tensor type with ndim={ndim}")
        full = (1,) * (ndim - len(shape)) + shape
        data = self.storage.cast(pa.large_list(self.type.value_type))
        return _variable(self.type.value_type, ndim, data, pa.array([list(full)] * len(self), pa.list_(pa.int64())))


class ArrowVariableShapedTensorArray(pa.ExtensionArray):  # type: ignore[misc]
    """Tensors of different shapes.

    >>> ArrowVariableShapedTensorArray.from_numpy([np.zeros((1, 2)), np.zeros((2, 2))]).type
    ArrowVariableShapedTensorType(ndim=2, dtype=double)
    """

    SHAPES_ARRAY_TYPE = pa.list_(pa.int64())

    @classmethod
    def from_numpy(cls, arr: Any) -> Any:
        """Of arrays with the same number of dimensions.

        >>> import numpy
        >>> made = ArrowVariableShapedTensorArray.from_numpy([numpy.zeros((1, 2)), numpy.zeros((2, 1))])
        >>> [scalar.as_py().shape for scalar in made]
        [(1, 2), (2, 1)]
        """
        if not isinstance(arr, (list, tuple, np.ndarray)):
            raise ValueError(
                f"ArrowVariableShapedTensorArray can only be constructed from an ndarray or a list/tuple of ndarrays, but got: {type(arr)}"
            )
        if not len(arr):
            raise ValueError("Creating empty ragged tensor arrays is not supported.")
        arrays = [_plain(np.asarray(a)) for a in arr]
        dimensions = {a.ndim for a in arrays}
        if len(dimensions) > 1:
            raise ValueError(
                "ArrowVariableShapedTensorArray only supports tensor elements that all have the same number of dimensions, but "
                f"got tensor elements with dimensions: {', '.join(map(str, sorted(dimensions)))}"
            )
        flat = np.concatenate([np.ravel(a) for a in arrays])
        values = _values(flat)
        offsets = np.concatenate([[0], np.cumsum([a.size for a in arrays])])
        data = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
        return _variable(values.type, dimensions.pop(), data, pa.array([list(a.shape) for a in arrays], pa.list_(pa.int64())))

    def to_numpy(self, zero_copy_only: bool = True) -> Any:
        """An array of arrays.

        >>> import numpy
        >>> [one.shape for one in ArrowVariableShapedTensorArray.from_numpy([numpy.zeros(1), numpy.zeros(2)]).to_numpy()]
        [(1,), (2,)]
        """
        return create_ragged_ndarray([scalar.as_py() for scalar in self])

    def to_var_shaped_tensor_array(self, ndim: int) -> Any:
        """The same with more dimensions, of length 1.

        >>> import numpy
        >>> made = ArrowVariableShapedTensorArray.from_numpy([numpy.zeros(1), numpy.zeros(2)]).to_var_shaped_tensor_array(2)
        >>> [one.shape for one in made.to_numpy()]
        [(1, 1), (1, 2)]
        """
        mine = self.type.ndim
        if ndim == mine:
            return self
        if ndim < mine:
            raise ValueError(f"Can't convert {self.type} to var-shaped tensor type with ndim={ndim}")
        shapes = [[1] * (ndim - mine) + list(shape) for shape in self.storage.field("shape").to_pylist()]
        return _variable(self.type.value_type, ndim, self.storage.field("data"), pa.array(shapes, pa.list_(pa.int64())))


def _variable(value_type: pa.DataType, ndim: int, data: Any, shapes: Any) -> Any:
    storage = pa.StructArray.from_arrays([data, shapes], ["data", "shape"])
    return ArrowVariableShapedTensorType(value_type, ndim).wrap_array(storage)


def _from_array(array: Any) -> Any:
    if array.ndim == 1 and array.dtype != object:
        return pa.array(array)
    if array.dtype == object:
        if array.ndim != 1 or not len(array) or not isinstance(array[0], np.ndarray):
            if len(array) and np.isscalar(array.flat[0]) and array.ndim == 1:
                return pa.array(array)
            array = _plain(array)
            return _from_array(array) if array.dtype != object else pa.array(array.tolist())
        if len({np.shape(item) for item in array}) > 1:
            return ArrowVariableShapedTensorArray.from_numpy(array)
        array = np.stack([_plain(item) for item in array])
    shape = array.shape[1:]
    values = _values(np.ravel(np.ascontiguousarray(array)))
    kind = create_arrow_fixed_shape_tensor_type(shape, values.type)
    size = int(np.prod(shape))
    if isinstance(kind, pa.FixedShapeTensorType):
        # FixedSizeListArray.from_arrays counts by the values, of which tensors without elements have none.
        return kind.wrap_array(pa.Array.from_buffers(kind.storage_type, len(array), [None], children=[values]))
    return wrapped(kind, values, len(array), size)


def wrapped(kind: _FixedShapeType, values: Any, count: int, size: int) -> Any:
    """An array of `count` tensors over the values of all of them."""
    offsets = pa.array(np.arange(count + 1, dtype=np.int64) * size, kind.OFFSET_DTYPE)
    lists = pa.LargeListArray if kind.OFFSET_DTYPE == pa.int64() else pa.ListArray
    return kind.wrap_array(lists.from_arrays(offsets, values))


def _plain(array: Any) -> Any:
    """Numbers that came as objects, nulls as NaN."""
    if array.dtype != object:
        return array
    return pa.array(np.ravel(array)).to_numpy(zero_copy_only=False).reshape(array.shape)


def _values(flat: Any) -> Any:
    """One-dimensional values as an Arrow array; texts by their bytes."""
    if flat.dtype.kind == "U":
        if flat.dtype.byteorder == ">":
            raise ValueError(f"Only little-endian string tensors are supported, but got: {flat.dtype}")
        kind = pa.binary(max(1, flat.dtype.itemsize))
        return pa.Array.from_buffers(kind, len(flat), [None, pa.py_buffer(np.ascontiguousarray(flat))])
    if flat.dtype.kind == "M" and np.datetime_data(flat.dtype)[0] not in ("s", "ms", "us", "ns"):
        flat = flat.astype("datetime64[s]")
    return pa.array(flat)


def to_array(values: Any) -> Any:
    """The elements of tensors as an array, without a copy but for bits."""
    if pa.types.is_fixed_size_binary(values.type):
        width = values.type.byte_width
        buffer = values.buffers()[1]
        kind = np.dtype(f"<U{width // _CHARACTER}")
        return np.frombuffer(buffer, dtype=kind, count=len(values), offset=values.offset * width)
    return values.to_numpy(zero_copy_only=False)


def create_arrow_fixed_shape_tensor_type(shape: Sequence[int], dtype: pa.DataType) -> Any:
    """The type of tensors of one shape that the context's arrow_fixed_shape_tensor_format says.

    >>> create_arrow_fixed_shape_tensor_type((2,), pa.float32())
    ArrowTensorTypeV2(shape=(2,), dtype=float)
    """
    if any(size is None for size in shape):
        raise AssertionError(f"the shape {shape} is not fixed")
    chosen = formats.current()
    is_number = pa.types.is_integer(dtype) or pa.types.is_floating(dtype)
    if chosen is FixedShapeTensorFormat.ARROW_NATIVE and is_number:
        return pa.fixed_shape_tensor(dtype, list(shape))
    return (ArrowTensorType if chosen is FixedShapeTensorFormat.V1 else ArrowTensorTypeV2)(shape, dtype)


def get_arrow_extension_fixed_shape_tensor_types() -> tuple[Any, ...]:
    """The classes of types of tensors of one shape.

    >>> ArrowTensorTypeV2 in get_arrow_extension_fixed_shape_tensor_types()
    True
    """
    return (ArrowTensorType, ArrowTensorTypeV2, pa.FixedShapeTensorType)


def get_arrow_extension_variable_shape_tensor_types() -> tuple[Any, ...]:
    """The class of types of tensors of different shapes.

    >>> [kind.__name__ for kind in get_arrow_extension_variable_shape_tensor_types()]
    ['ArrowVariableShapedTensorType']
    """
    return (ArrowVariableShapedTensorType,)


def get_arrow_extension_tensor_types() -> tuple[Any, ...]:
    """All of them.

    >>> isinstance(ArrowTensorTypeV2((2,), pa.int64()), get_arrow_extension_tensor_types())
    True
    """
    return (*get_arrow_extension_fixed_shape_tensor_types(), *get_arrow_extension_variable_shape_tensor_types())


def _register() -> None:
    for kind in (ArrowTensorType((0,), pa.int64()), ArrowTensorTypeV2((0,), pa.int64()), ArrowVariableShapedTensorType(pa.int64(), 0)):
        try:
            pa.register_extension_type(kind)
        except pa.ArrowKeyError:  # another library has taken the name
            continue


_register()
