"""Values, types and names as the engine's expressions write them."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from enum import Enum
from typing import Any

from weir._mistakes import WrongInTask

_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_ESCAPES.update({n: f"\\x{n:02x}" for n in (*range(32), 127) if n not in _ESCAPES})


def text_literal(value: str) -> str:
    """A text as the engine reads it.

    >>> print(text_literal('say "é"'))
    "say \\"é\\""
    """
    value.encode()  # surrogates alone are no text
    return f'"{value.translate(_ESCAPES)}"'


def _typed(value: object, type_name: str) -> str:
    return f"literal({text_literal(str(value))}, {text_literal(type_name)})"


def compile_literal(value: Any) -> str:
    """A Python value as a literal of the engine; TypeError when it has none."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, Enum):
        value = value.value
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        return _numpy(value)
    if hasattr(value, "as_py"):  # a scalar of pyarrow
        return "None" if value.as_py() is None else _typed_or_plain(value.as_py(), str(value.type))
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"{value} does not fit the integers of expressions (int64, uint64)")
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else _typed(float(value), "double")
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "b'" + "".join(f"\\x{byte:02x}" for byte in bytes(value)) + "'"
    if isinstance(value, datetime.datetime):
        return _datetime(value)
    if isinstance(value, datetime.date):
        return _typed(value.isoformat(), "date32")
    if isinstance(value, datetime.time) and value.tzinfo is None:
        return _typed(value.isoformat(), "time64[us]")
    if isinstance(value, datetime.timedelta):
        return _typed(value // datetime.timedelta(microseconds=1), "duration[us]")
    if isinstance(value, decimal.Decimal) and value.is_finite():
        _, digits, exponent = value.as_tuple()
        scale = max(-int(exponent), 0)
        precision = max(len(digits) + max(int(exponent), 0), scale, 1)
        return _typed(f"{value:f}", f"decimal{128 if precision <= 38 else 256}({precision}, {scale})")
    raise WrongInTask(f"a value of type {kind.__qualname__} cannot stand in an expression: {value!r:.80}")


def _typed_or_plain(value: Any, type_name: str) -> str:
    if isinstance(value, (list, dict)):
        raise TypeError(f"a value of type {type_name} cannot stand in an expression")
    if isinstance(value, (bool, str, bytes)):
        return compile_literal(value)
    if isinstance(value, datetime.datetime):
        return _datetime(value)
    if isinstance(value, datetime.timedelta):
        return compile_literal(value)
    return _typed(value.isoformat() if hasattr(value, "isoformat") else value, re.sub(r"\[day\]|\[ms\]$", "", type_name)
                  if type_name.startswith("date") else type_name)


def _datetime(value: datetime.datetime) -> str:
    nanosecond = getattr(value, "nanosecond", 0)  # of a pandas.Timestamp
    unit, digits = ("ns", f"{nanosecond:03d}") if nanosecond else ("us", "")
    zone, mark = ("", "") if value.tzinfo is None else (", tz=UTC", "Z")
    if zone:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return _typed(f"{value.isoformat(' ', 'microseconds')}{digits}{mark}", f"timestamp[{unit}{zone}]")


def _numpy(value: Any) -> str:
    kind, width = value.dtype.kind, value.dtype.itemsize
    if kind == "b":
        return str(bool(value))
    if kind in "iu":
        return _typed(int(value), f"{'u' if kind == 'u' else ''}int{width * 8}")
    if kind == "f" and width in (4, 8):
        return _typed(float(value), "float" if width == 4 else "double")
    if kind == "M":
        if str(value) == "NaT":
            return "None"
        unit = str(value.dtype)[11:-1]
        if unit == "D":
            return _typed(value, "date32")
        if unit in ("s", "ms", "us", "ns"):
            return _typed(str(value).replace("T", " "), f"timestamp[{unit}]")
    if kind == "m" and str(value.dtype)[12:-1] in ("s", "ms", "us", "ns"):
        unit = str(value.dtype)[12:-1]
        return "None" if str(value) == "NaT" else _typed(int(value.astype("int64")), f"duration[{unit}]")
    if kind in "US":
        return compile_literal(value.item())
    raise TypeError(f"a value of type {value.dtype} cannot stand in an expression")


def type_name(target: Any) -> str:
    """The name of a type given as text, as a pyarrow, NumPy or Python type, or as something that has to_arrow_dtype.

    >>> type_name("int32"), type_name(float)
    ('int32', 'double')
    """
    python_types = {int: "int64", float: "double", str: "string", bytes: "binary", bool: "bool",
                    datetime.datetime: "timestamp[us]", datetime.date: "date32"}
    if isinstance(target, str):
        return target
    if type(target).__module__ == "weir.datatype":
        return str(target.name)
    if hasattr(target, "to_arrow_dtype"):
        target = target.to_arrow_dtype()
    if isinstance(target, type) and target in python_types:
        return python_types[target]
    module = type(target).__module__.partition(".")[0]
    if module == "pyarrow":
        return re.sub(r"^(date32|date64)\[\w+\]$", r"\1", str(target))
    if module == "numpy" or (isinstance(target, type) and target.__module__ == "numpy"):
        name = str(getattr(target, "name", "")) or target.__name__
        names = {"float16": "halffloat", "float32": "float", "float64": "double", "bool_": "bool", "str": "string"}
        return names.get(name, name.replace("datetime64[", "timestamp["))
    raise TypeError(f"{target!r} is not a type; give a text such as 'int64' or 'timestamp[us]', or a pyarrow type")


_TYPE_WORDS = frozenset(
    "null bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 halffloat float double decimal decimal128 decimal256 date32 date64 time32 "
    "time64 timestamp duration month_interval day_time_interval month_day_nano_interval binary large_binary string large_string "
    "fixed_size_binary list large_list fixed_size_list struct map dictionary boolean int half float16 float32 float64 date utf8 str "
    "large_utf8 bytes list_view large_list_view string_view binary_view extension run_end_encoded sparse_union dense_union".split())


def check_type(name: str) -> None:
    """TypeError if a type's name does not begin with the word of one. What is inside of brackets is the engine's to read.

    >>> check_type("list<item: int8>")
    """
    found = re.match(r"[a-z0-9_]*", name.strip())
    word = found.group() if found is not None else ""
    if word in _TYPE_WORDS:
        return
    import difflib

    near = difflib.get_close_matches(word, sorted(_TYPE_WORDS), 1, 0.5)
    raise TypeError(f"target_type must be a ray.data.datatype.DataType, or stand for one: {name!r} is not a type" + (f": did you mean {near[0]!r}? " if near else ": ") +
                    "types are DataType's (DataType.int64(), DataType.string()), pyarrow's, or texts such as 'int64' and 'timestamp[us]'")


def quote_name(name: str) -> str:
    """A column's name as the verbs with, select, rename and drop read it."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
