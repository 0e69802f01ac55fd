"""Types by name, for ``Expr.cast`` and ``udf``: ``DataType.int64()``, ``DataType.list(DataType.string())`` …

    >>> DataType.int64()
    DataType(int64)
    >>> DataType.list(DataType.string()) == DataType("list<item: string>")
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weir._expr_literals import type_name

__all__ = ["DataType"]


class DataType:
    """A type of columns. Made by the functions below, or of a name, a pyarrow, NumPy or Python type.

    >>> DataType("timestamp[us]"), DataType(float)
    (DataType(timestamp[us]), DataType(double))
    """

    __slots__ = ("name",)

    def __init__(self, type: Any) -> None:
        self.name: str = type.name if isinstance(type, DataType) else type_name(type)

    def __repr__(self) -> str:
        return f"DataType({self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def to_arrow_dtype(self) -> Any:
        """The type as pyarrow's, which must be installed.

        >>> DataType.float32().to_arrow_dtype()
        DataType(float)
        """
        from weir._expr_python import arrow_type

        return arrow_type(self.name)

    @classmethod
    def from_arrow(cls, arrow_type: Any) -> DataType:
        """Of a pyarrow type.

        >>> import pyarrow
        >>> DataType.from_arrow(pyarrow.int32())
        DataType(int32)
        """
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: Any) -> DataType:
        """Of a NumPy type.

        >>> import numpy
        >>> DataType.from_numpy(numpy.dtype("float32"))
        DataType(float)
        """
        import numpy

        return cls(numpy.dtype(numpy_dtype))

    @classmethod
    def list(cls, value_type: Any) -> DataType:
        """Lists of a type.

        >>> DataType.list(DataType.int8())
        DataType(list<item: int8>)
        """
        return cls(f"list<item: {cls(value_type).name}>")

    @classmethod
    def large_list(cls, value_type: Any) -> DataType:
        """Lists with offsets of 64 bits.

        >>> DataType.large_list(DataType.int8())
        DataType(large_list<item: int8>)
        """
        return cls(f"large_list<item: {cls(value_type).name}>")

    @classmethod
    def fixed_size_list(cls, value_type: Any, list_size: int) -> DataType:
        """Lists of one length.

        >>> DataType.fixed_size_list(DataType.int8(), 3)
        DataType(fixed_size_list<item: int8>[3])
        """
        return cls(f"fixed_size_list<item: {cls(value_type).name}>[{int(list_size)}]")

    @classmethod
    def struct(cls, fields: Sequence[tuple[str, Any]]) -> DataType:
        """Structs of named fields.

        >>> DataType.struct([("x", DataType.int8()), ("y", DataType.string())])
        DataType(struct<x: int8, y: string>)
        """
        return cls(f"struct<{', '.join(f'{name}: {cls(kind).name}' for name, kind in fields)}>")

    @classmethod
    def map(cls, key_type: Any, value_type: Any) -> DataType:
        """Maps.

        >>> DataType.map(DataType.string(), DataType.int8())
        DataType(map<string, int8>)
        """
        return cls(f"map<{cls(key_type).name}, {cls(value_type).name}>")

    @classmethod
    def timestamp(cls, unit: str = "us", tz: str | None = None) -> DataType:
        """Instants in units of s, ms, us or ns, with or without a zone.

        >>> DataType.timestamp("ms", "UTC")
        DataType(timestamp[ms, tz=UTC])
        """
        return cls(f"timestamp[{unit}{f', tz={tz}' if tz else ''}]")

    @classmethod
    def duration(cls, unit: str = "us") -> DataType:
        """Lengths of time.

        >>> DataType.duration()
        DataType(duration[us])
        """
        return cls(f"duration[{unit}]")

    @classmethod
    def decimal128(cls, precision: int, scale: int = 0) -> DataType:
        """Decimals of up to 38 digits.

        >>> DataType.decimal128(10, 2)
        DataType(decimal128(10, 2))
        """
        return cls(f"decimal128({precision}, {scale})")

    @classmethod
    def int8(cls) -> DataType:
        """Whole numbers of 8 bits.

        >>> DataType.int8()
        DataType(int8)
        """
        return cls("int8")

    @classmethod
    def int16(cls) -> DataType:
        """Whole numbers of 16 bits.

        >>> DataType.int16()
        DataType(int16)
        """
        return cls("int16")

    @classmethod
    def int32(cls) -> DataType:
        """Whole numbers of 32 bits.

        >>> DataType.int32()
        DataType(int32)
        """
        return cls("int32")

    @classmethod
    def int64(cls) -> DataType:
        """Whole numbers of 64 bits.

        >>> DataType.int64()
        DataType(int64)
        """
        return cls("int64")

    @classmethod
    def uint8(cls) -> DataType:
        """Whole numbers of 8 bits without a sign.

        >>> DataType.uint8()
        DataType(uint8)
        """
        return cls("uint8")

    @classmethod
    def uint16(cls) -> DataType:
        """Whole numbers of 16 bits without a sign.

        >>> DataType.uint16()
        DataType(uint16)
        """
        return cls("uint16")

    @classmethod
    def uint32(cls) -> DataType:
        """Whole numbers of 32 bits without a sign.

        >>> DataType.uint32()
        DataType(uint32)
        """
        return cls("uint32")

    @classmethod
    def uint64(cls) -> DataType:
        """Whole numbers of 64 bits without a sign.

        >>> DataType.uint64()
        DataType(uint64)
        """
        return cls("uint64")

    @classmethod
    def float32(cls) -> DataType:
        """Floats of 32 bits.

        >>> DataType.float32()
        DataType(float)
        """
        return cls("float")

    @classmethod
    def float64(cls) -> DataType:
        """Floats of 64 bits.

        >>> DataType.float64()
        DataType(double)
        """
        return cls("double")

    @classmethod
    def bool(cls) -> DataType:
        """True or false.

        >>> DataType.bool()
        DataType(bool)
        """
        return cls("bool")

    @classmethod
    def string(cls) -> DataType:
        """Text.

        >>> DataType.string()
        DataType(string)
        """
        return cls("string")

    @classmethod
    def binary(cls) -> DataType:
        """Bytes.

        >>> DataType.binary()
        DataType(binary)
        """
        return cls("binary")
