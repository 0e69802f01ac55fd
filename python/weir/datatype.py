"""Types of columns, with the names of Ray Data: ``DataType.int64()``, ``DataType.list(DataType.string())`` … A type is one of
Arrow's (by its name: pyarrow is asked only for its own objects), of NumPy's, or a Python class.

    >>> DataType.int64()
    DataType(arrow:int64)
    >>> DataType.list(DataType.string()) == DataType("list<item: string>")
    True
"""

from __future__ import annotations

import datetime
import importlib
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

from weir._expr_literals import type_name

__all__ = ["DataType", "TypeCategory"]

_Bool: TypeAlias = bool  # DataType has a function of this name
_Type = type
_PYARROW_NAMES = {"date32": "date32[day]", "date64": "date64[ms]", "boolean": "bool", "utf8": "string", "float32": "float",
                  "float64": "double", "float16": "halffloat", "date": "date32[day]"}
_NO_NAMES = {"str", "int", "bytes", "object", "list", "dict", "datetime"}  # Python's words, which are no types of Arrow
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


class TypeCategory(str, Enum):
    """Kinds of types, for ``DataType.is_of``.

    >>> DataType.list(DataType.int8()).is_of(TypeCategory.LIST)
    True
    """

    LIST = "list"
    LARGE_LIST = "large_list"
    STRUCT = "struct"
    MAP = "map"
    TENSOR = "tensor"
    TEMPORAL = "temporal"


def _module(value: Any) -> str:
    return _Type(value).__module__.partition(".")[0]


class DataType:
    """A type of columns. Made by the functions below, or of a pyarrow type, a NumPy dtype, a Python class, or Arrow's name of one.

    >>> DataType("timestamp[us]"), DataType(float)
    (DataType(arrow:timestamp[us]), DataType(python:float))
    """

    __slots__ = ("_given", "_kind", "_text")

    def __init__(self, _physical_dtype: Any) -> None:
        given: Any = _physical_dtype._given if isinstance(_physical_dtype, DataType) else _physical_dtype
        if isinstance(given, str) and given not in _NO_NAMES:
            self._kind, self._text = "arrow", _PYARROW_NAMES.get(given, given)
        elif isinstance(given, _Type):
            self._kind, self._text = "python", given.__name__
        elif any(base.__module__ == "pyarrow.lib" and base.__name__ == "DataType" for base in _Type(given).__mro__):
            self._kind, self._text = "arrow", str(given)
        elif _module(given) == "numpy" and hasattr(given, "itemsize"):
            self._kind, self._text = "numpy", str(given)
        else:
            raise TypeError("DataType supports only PyArrow DataType, NumPy dtype, or Python type, but was given type "
                            f"{_Type(given)}." + (f" For Python's type say DataType({given})." if isinstance(given, str) else ""))
        self._given: Any = given

    @property
    def _physical_dtype(self) -> Any:
        return self.to_arrow_dtype() if self._kind == "arrow" else self._given

    @property
    def name(self) -> str:
        """The name by which the engine knows it.

        >>> DataType.float64().name
        'double'
        """
        return re.sub(r"^(date32|date64)\[\w+\]$", r"\1", self._text) if self._kind == "arrow" else type_name(self._given)

    def __repr__(self) -> str:
        return f"DataType({self._kind}:{self._text})"

    def __eq__(self, other: object) -> _Bool:
        return isinstance(other, DataType) and (self._kind, self._text) == (other._kind, other._text)

    def __hash__(self) -> int:
        return hash((self._kind, self._text))

    def __reduce__(self) -> tuple[Any, ...]:
        return DataType, (self._given,)

    # ---- what it is ----

    def is_arrow_type(self) -> _Bool:
        """Whether it is one of Arrow's.

        >>> DataType.int8().is_arrow_type(), DataType(int).is_arrow_type()
        (True, False)
        """
        return self._kind == "arrow"

    def is_numpy_type(self) -> _Bool:
        """Whether it is one of NumPy's.

        >>> DataType.from_numpy("int8").is_numpy_type()
        True
        """
        return self._kind == "numpy"

    def is_python_type(self) -> _Bool:
        """Whether it is a Python class.

        >>> DataType(str).is_python_type()
        True
        """
        return self._kind == "python"

    def is_of(self, category: TypeCategory | str) -> _Bool:
        """Whether it is of a kind, given as TypeCategory or by its name; of a name that is none it is not.

        >>> DataType.timestamp("s").is_of("temporal"), DataType.int8().is_of("nosuch")
        (True, False)
        """
        try:
            category = TypeCategory(category)
        except ValueError:
            return False
        if category is TypeCategory.LARGE_LIST:
            return self._starts("large_list")
        return bool({TypeCategory.LIST: self.is_list_type, TypeCategory.STRUCT: self.is_struct_type,
                     TypeCategory.MAP: self.is_map_type, TypeCategory.TENSOR: self.is_tensor_type,
                     TypeCategory.TEMPORAL: self.is_temporal_type}[category]())

    def _starts(self, *names: str) -> _Bool:
        """Whether Arrow's name begins so; of a dictionary or of runs, that of their values."""
        if self._kind != "arrow":
            return False
        inner = re.match(r"dictionary<values=(.+?), |run_end_encoded<.*values: (.+)>", self._text)
        text = next((group for group in inner.groups() if group), "") if inner else self._text
        return bool(re.match(r"(?:" + "|".join(names) + r")(?![a-z0-9_])", text))

    def _is_numpy(self, kinds: str) -> _Bool:
        return self._kind == "numpy" and self._given.kind in kinds

    def _is_python(self, *types: type) -> _Bool:
        return self._kind == "python" and self._given in types

    def is_list_type(self) -> _Bool:
        """Whether it is a list of Arrow's, of whatever size.

        >>> DataType.fixed_size_list(DataType.int8(), 2).is_list_type()
        True
        """
        return self._kind == "arrow" and bool(re.match(r"(large_)?(list|list_view)<|fixed_size_list<", self._text))

    def is_tensor_type(self) -> _Bool:
        """Whether it holds arrays of several dimensions.

        >>> DataType.int8().is_tensor_type()
        False
        """
        return self._kind == "arrow" and ("Tensor" in _Type(self._given).__name__ or "tensor" in self._text)

    def is_struct_type(self) -> _Bool:
        """Whether it is a struct.

        >>> DataType.struct([("x", DataType.int8())]).is_struct_type()
        True
        """
        return self._kind == "arrow" and self._text.startswith("struct<")

    def is_map_type(self) -> _Bool:
        """Whether it is a map.

        >>> DataType.map(DataType.string(), DataType.int8()).is_map_type()
        True
        """
        return self._kind == "arrow" and self._text.startswith("map<")

    def is_nested_type(self) -> _Bool:
        """Whether it is a list, a struct, a map or a union.

        >>> DataType.list(DataType.int8()).is_nested_type(), DataType.int8().is_nested_type()
        (True, False)
        """
        return self.is_list_type() or self._starts("struct", "map", "dense_union", "sparse_union")

    def is_null_type(self) -> _Bool:
        """Whether it has no value but null.

        >>> DataType("null").is_null_type()
        True
        """
        return self._kind == "arrow" and self._text == "null"

    def is_boolean_type(self) -> _Bool:
        """Whether it is true or false.

        >>> DataType.bool().is_boolean_type()
        True
        """
        return self._starts("bool") or self._is_numpy("b") or self._is_python(_Bool)

    def is_integer_type(self) -> _Bool:
        """Whether it holds whole numbers.

        >>> DataType.uint8().is_integer_type(), DataType(int).is_integer_type()
        (True, True)
        """
        return self._starts(*_INTEGERS) or self._is_numpy("iu") or self._is_python(int)

    def is_uint64_type(self) -> _Bool:
        """Whether it is uint64.

        >>> DataType.uint64().is_uint64_type()
        True
        """
        return self._starts("uint64") or (self._kind == "numpy" and self._text == "uint64")

    def is_floating_type(self) -> _Bool:
        """Whether it holds floats.

        >>> DataType.float32().is_floating_type()
        True
        """
        return self._starts("halffloat", "float", "double") or self._is_numpy("f") or self._is_python(float)

    def is_numerical_type(self) -> _Bool:
        """Whether it holds numbers; decimals are.

        >>> DataType("decimal128(5, 2)").is_numerical_type(), DataType.string().is_numerical_type()
        (True, False)
        """
        return (self.is_integer_type() or self.is_floating_type() or self._starts("decimal[0-9]+") or self._is_numpy("c")
                or self._is_python(complex))

    def is_string_type(self) -> _Bool:
        """Whether it holds text.

        >>> DataType.string().is_string_type(), DataType(str).is_string_type()
        (True, True)
        """
        return self._starts("string", "large_string", "string_view") or self._is_numpy("US") or self._is_python(str)

    def is_binary_type(self) -> _Bool:
        """Whether it holds bytes.

        >>> DataType.binary().is_binary_type()
        True
        """
        names = ("binary", "large_binary", "binary_view", "fixed_size_binary")
        return self._starts(*names) or self._is_numpy("V") or self._is_python(bytes, bytearray)

    def is_temporal_type(self) -> _Bool:
        """Whether it holds dates, times or lengths of time.

        >>> DataType.temporal("date32").is_temporal_type()
        True
        """
        names = ("timestamp", "date32", "date64", "time32", "time64", "duration", "month_day_nano_interval", "month_interval",
                 "day_time_interval")
        return self._starts(*names) or self._is_numpy("mM") or self._is_python(
            datetime.datetime, datetime.date, datetime.time, datetime.timedelta)

    # ---- as others' types ----

    def to_arrow_dtype(self, values: Sequence[Any] | None = None) -> Any:
        """The type as pyarrow's, which must be installed. That of a Python class is inferred from values.

        >>> DataType.float32().to_arrow_dtype()
        DataType(float)
        >>> DataType(int).to_arrow_dtype([1, 2])
        DataType(int64)
        """
        if self._kind == "arrow":
            if not isinstance(self._given, str):
                return self._given
            from weir._expr_python import arrow_type

            return arrow_type(self.name)
        import pyarrow

        if self._kind == "numpy":
            return pyarrow.from_numpy_dtype(self._given)
        assert values is not None and len(values) > 0, (
            "Values are required to infer Arrow type if the provided type is a Python type")
        return pyarrow.infer_type(values)

    def to_numpy_dtype(self) -> Any:
        """The type as NumPy's; object where NumPy has none.

        >>> DataType.float32().to_numpy_dtype()
        dtype('float32')
        >>> DataType.string().to_numpy_dtype()
        dtype('O')
        """
        import numpy

        if self._kind == "numpy":
            return self._given
        if self._kind == "arrow":
            try:
                return numpy.dtype(self.to_arrow_dtype().to_pandas_dtype())
            except (TypeError, ValueError, NotImplementedError):
                pass
        return numpy.dtype("object")

    def to_python_type(self) -> type:
        """The Python class that it is.

        >>> DataType(str).to_python_type()
        <class 'str'>
        """
        if self._kind != "python":
            raise ValueError(f"DataType {self} is not backed by a Python type. "
                             "Use to_arrow_dtype() or to_numpy_dtype() for conversion.")
        assert isinstance(self._given, _Type)
        return self._given

    def to_cudf_type(self) -> Any:
        """The type as cuDF's, which must be installed.

        >>> DataType.int8().to_cudf_type()
        Traceback (most recent call last):
        ImportError: DataType.to_cudf_type() requires cuDF to be installed.
        """
        try:
            cudf = importlib.import_module("cudf")
        except ImportError as error:
            raise ImportError("DataType.to_cudf_type() requires cuDF to be installed.") from error
        if self.is_string_type():
            return "str"
        return cudf.dtype(self._given if self._kind != "arrow" else self.to_numpy_dtype())

    @classmethod
    def from_arrow(cls, arrow_type: Any) -> DataType:
        """Of a pyarrow type.

        >>> import pyarrow
        >>> DataType.from_arrow(pyarrow.int32())
        DataType(arrow:int32)
        """
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: Any) -> DataType:
        """Of a NumPy type.

        >>> DataType.from_numpy("float32")
        DataType(numpy:float32)
        """
        import numpy

        return cls(numpy.dtype(numpy_dtype))

    @classmethod
    def from_cudf(cls, cudf_dtype: Any) -> DataType:
        """Of a cuDF type; cuDF must be installed.

        >>> DataType.from_cudf("int8")
        Traceback (most recent call last):
        ImportError: DataType.from_cudf() requires cuDF to be installed.
        """
        try:
            cudf = importlib.import_module("cudf")
        except ImportError as error:
            raise ImportError("DataType.from_cudf() requires cuDF to be installed.") from error
        return cls.from_numpy(cudf.dtype(cudf_dtype))

    @classmethod
    def from_dtype(cls, dtype: Any) -> DataType | None:
        """Of whatever names a type: pyarrow's, NumPy's or pandas' types, their names, Python classes. None: of nothing known.

        >>> DataType.from_dtype("float32"), DataType.from_dtype(str), DataType.from_dtype(None)
        (DataType(numpy:float32), DataType(python:str), None)
        """
        if dtype is None or isinstance(dtype, DataType):
            return dtype
        if hasattr(dtype, "pyarrow_dtype"):  # pandas.ArrowDtype
            return cls(dtype.pyarrow_dtype)
        if _Type(dtype).__name__ == "StringDtype":
            return cls("string")
        if isinstance(dtype, _Type) and dtype.__module__ != "numpy":
            return cls(dtype)
        if _module(dtype) == "pyarrow":
            return cls(dtype)
        try:
            return cls.from_numpy(getattr(dtype, "numpy_dtype", dtype))
        except (TypeError, ValueError):
            return None

    @classmethod
    def infer_dtype(cls, value: Any) -> DataType:
        """Of a value: Arrow's type for it, else its class.

        >>> DataType.infer_dtype(1), DataType.infer_dtype("a"), DataType.infer_dtype(object())
        (DataType(arrow:int64), DataType(arrow:string), DataType(python:object))
        """
        plain = {_Bool: "bool", int: "int64", float: "double", str: "string", bytes: "binary", _Type(None): "null"}
        if _Type(value) in plain and not (_Type(value) is int and not -(1 << 63) <= value < 1 << 63):
            return cls(plain[_Type(value)])
        if _module(value) == "numpy" and hasattr(value, "dtype"):
            return cls(value.dtype)
        try:
            import pyarrow

            return cls(pyarrow.infer_type([value]))
        except (ImportError, ValueError, TypeError, NotImplementedError, OverflowError):
            return cls(_Type(value))

    # ---- types of types ----

    @classmethod
    def list(cls, value_type: Any) -> DataType:
        """Lists of a type.

        >>> DataType.list(DataType.int8())
        DataType(arrow:list<item: int8>)
        """
        return cls(f"list<item: {_arrow_text(value_type)}>")

    @classmethod
    def large_list(cls, value_type: Any) -> DataType:
        """Lists with offsets of 64 bits.

        >>> DataType.large_list(DataType.int8())
        DataType(arrow:large_list<item: int8>)
        """
        return cls(f"large_list<item: {_arrow_text(value_type)}>")

    @classmethod
    def fixed_size_list(cls, value_type: Any, list_size: int) -> DataType:
        """Lists of one length.

        >>> DataType.fixed_size_list(DataType.int8(), 3)
        DataType(arrow:fixed_size_list<item: int8>[3])
        """
        return cls(f"fixed_size_list<item: {_arrow_text(value_type)}>[{int(list_size)}]")

    @classmethod
    def struct(cls, fields: Sequence[tuple[str, Any]]) -> DataType:
        """Structs of named fields.

        >>> DataType.struct([("x", DataType.int8()), ("y", DataType.string())])
        DataType(arrow:struct<x: int8, y: string>)
        """
        return cls(f"struct<{', '.join(f'{name}: {_arrow_text(kind)}' for name, kind in fields)}>")

    @classmethod
    def map(cls, key_type: Any, value_type: Any) -> DataType:
        """Maps.

        >>> DataType.map(DataType.string(), DataType.int8())
        DataType(arrow:map<string, int8>)
        """
        return cls(f"map<{_arrow_text(key_type)}, {_arrow_text(value_type)}>")

    @classmethod
    def tensor(cls, shape: tuple[int, ...], dtype: DataType) -> DataType:
        """Arrays of one shape; needs pyarrow.

        >>> DataType.tensor((2, 3), DataType.int8()).is_tensor_type()
        True
        """
        from weir.extensions.tensor_extension import ArrowTensorType

        return cls(ArrowTensorType(shape, dtype.to_arrow_dtype()))

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        """Arrays of several shapes; needs pyarrow.

        >>> DataType.variable_shaped_tensor(DataType.int8(), 2).is_tensor_type()
        True
        """
        from weir.extensions.tensor_extension import ArrowVariableShapedTensorType

        return cls(ArrowVariableShapedTensorType(dtype.to_arrow_dtype(), ndim))

    @classmethod
    def temporal(cls, temporal_type: str, unit: str | None = None, tz: str | None = None) -> DataType:
        """timestamp, date32, date64, time32, time64 or duration.

        >>> DataType.temporal("timestamp", "ms", "UTC"), DataType.temporal("time32")
        (DataType(arrow:timestamp[ms, tz=UTC]), DataType(arrow:time32[s]))
        """
        kind = temporal_type.lower()
        units = {"timestamp": ("us", "s", "ms", "ns"), "time32": ("s", "ms"), "time64": ("us", "ns"),
                 "duration": ("us", "s", "ms", "ns")}
        if kind in ("date32", "date64"):
            return cls(kind)
        if kind not in units:
            raise ValueError(f"Invalid temporal_type '{temporal_type}'. Must be one of: 'timestamp', 'date32', 'date64', "
                             "'time32', 'time64', 'duration'")
        unit = unit or units[kind][0]
        if unit not in units[kind]:
            raise ValueError(f"{kind} unit must be {' or '.join(map(repr, units[kind]))}, got {unit}")
        return cls(f"{kind}[{unit}{f', tz={tz}' if tz and kind == 'timestamp' else ''}]")

    @classmethod
    def timestamp(cls, unit: str = "us", tz: str | None = None) -> DataType:
        """Instants in units of s, ms, us or ns, with or without a zone.

        >>> DataType.timestamp("ms", "UTC")
        DataType(arrow:timestamp[ms, tz=UTC])
        """
        return cls.temporal("timestamp", unit, tz)

    @classmethod
    def duration(cls, unit: str = "us") -> DataType:
        """Lengths of time.

        >>> DataType.duration()
        DataType(arrow:duration[us])
        """
        return cls.temporal("duration", unit)

    @classmethod
    def decimal128(cls, precision: int, scale: int = 0) -> DataType:
        """Decimals of up to 38 digits.

        >>> DataType.decimal128(10, 2)
        DataType(arrow:decimal128(10, 2))
        """
        return cls(f"decimal128({precision}, {scale})")

    @classmethod
    def int8(cls) -> DataType:
        """Create a DataType representing whole numbers of 8 bits.

        Returns:
            A DataType with PyArrow int8 type.

        >>> DataType.int8()
        DataType(arrow:int8)
        """
        return cls("int8")

    @classmethod
    def int16(cls) -> DataType:
        """Create a DataType representing whole numbers of 16 bits.

        Returns:
            A DataType with PyArrow int16 type.

        >>> DataType.int16()
        DataType(arrow:int16)
        """
        return cls("int16")

    @classmethod
    def int32(cls) -> DataType:
        """Create a DataType representing whole numbers of 32 bits.

        Returns:
            A DataType with PyArrow int32 type.

        >>> DataType.int32()
        DataType(arrow:int32)
        """
        return cls("int32")

    @classmethod
    def int64(cls) -> DataType:
        """Create a DataType representing whole numbers of 64 bits.

        Returns:
            A DataType with PyArrow int64 type.

        >>> DataType.int64()
        DataType(arrow:int64)
        """
        return cls("int64")

    @classmethod
    def uint8(cls) -> DataType:
        """Create a DataType representing whole numbers of 8 bits without a sign.

        Returns:
            A DataType with PyArrow uint8 type.

        >>> DataType.uint8()
        DataType(arrow:uint8)
        """
        return cls("uint8")

    @classmethod
    def uint16(cls) -> DataType:
        """Create a DataType representing whole numbers of 16 bits without a sign.

        Returns:
            A DataType with PyArrow uint16 type.

        >>> DataType.uint16()
        DataType(arrow:uint16)
        """
        return cls("uint16")

    @classmethod
    def uint32(cls) -> DataType:
        """Create a DataType representing whole numbers of 32 bits without a sign.

        Returns:
            A DataType with PyArrow uint32 type.

        >>> DataType.uint32()
        DataType(arrow:uint32)
        """
        return cls("uint32")

    @classmethod
    def uint64(cls) -> DataType:
        """Create a DataType representing whole numbers of 64 bits without a sign.

        Returns:
            A DataType with PyArrow uint64 type.

        >>> DataType.uint64()
        DataType(arrow:uint64)
        """
        return cls("uint64")

    @classmethod
    def float32(cls) -> DataType:
        """Create a DataType representing floats of 32 bits.

        Returns:
            A DataType with PyArrow float32 type.

        >>> DataType.float32()
        DataType(arrow:float)
        """
        return cls("float")

    @classmethod
    def float64(cls) -> DataType:
        """Create a DataType representing floats of 64 bits.

        Returns:
            A DataType with PyArrow float64 type.

        >>> DataType.float64()
        DataType(arrow:double)
        """
        return cls("double")

    @classmethod
    def bool(cls) -> DataType:
        """Create a DataType representing true or false.

        Returns:
            A DataType with PyArrow bool type.

        >>> DataType.bool()
        DataType(arrow:bool)
        """
        return cls("bool")

    @classmethod
    def string(cls) -> DataType:
        """Create a DataType representing text.

        Returns:
            A DataType with PyArrow string type.

        >>> DataType.string()
        DataType(arrow:string)
        """
        return cls("string")

    @classmethod
    def binary(cls) -> DataType:
        """Create a DataType representing bytes.

        Returns:
            A DataType with PyArrow binary type.

        >>> DataType.binary()
        DataType(arrow:binary)
        """
        return cls("binary")


def _arrow_text(kind: Any) -> str:
    """The name of Arrow's type inside of another."""
    kind = kind if isinstance(kind, DataType) else DataType(kind)
    if kind.is_python_type():
        kind.to_arrow_dtype()  # says that there is none without values
    return kind._text if kind.is_arrow_type() else str(kind.to_arrow_dtype())
