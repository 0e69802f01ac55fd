"""Arrays of pyarrow out of columns as users have them: of values that Arrow knows, of tensors, and else of pickled objects.

>>> [str(convert_to_pyarrow_array(values, "a").type) for values in ([[1, 2], [3]], [1j])]
['list<item: int64>', 'extension<ray.data.arrow_pickled_object<ArrowPythonObjectType>>']

Sources and blocks of other people call these by the names that Ray Data has for them. What functions return goes another way (src/pyext).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.extensions.arrow_objects import ArrowPythonObjectArray
from weir.extensions.arrow_tensors import ArrowTensorArray
from weir.extensions.errors import ArrowConversionError

PICKLED = "ray.data.arrow_pickled_object"
_SECONDS, _NANOSECONDS = ("Y", "M", "W", "D", "h", "m", "s"), ("ns", "ps", "fs", "as")  # of NumPy, in Arrow's coarsest and finest unit
TEXT_MAX = (1 << 31) - 1  # bytes of a value that offsets of 32 bits reach


def convert_to_pyarrow_array(column_values: Sequence[Any], column_name: str) -> Any:
    """An array of a column: tensors where the values are arrays; pickled objects where Arrow has no type for them, unless the context's
    enable_fallback_to_arrow_object_ext_type is False: then ArrowConversionError."""
    from weir.context import DataContext

    try:
        if len(column_values) and _are_tensors(column_values):
            return ArrowTensorArray.from_numpy(_as_array(column_values), column_name=column_name)
        return convert_to_native_array(column_values, column_name)
    except ArrowConversionError:
        if DataContext.get_current().enable_fallback_to_arrow_object_ext_type is False:
            raise
    return ArrowPythonObjectArray.from_objects(column_values)


def pyarrow_table_from_pydict(pydict: Mapping[str, Any]) -> Any:
    """A Table of columns by name; ArrowConversionError where Arrow cannot hold one.

    >>> pyarrow_table_from_pydict({"a": [1, 2]}).num_rows
    2
    """
    try:
        return pa.Table.from_pydict(dict(pydict))
    except Exception as error:
        raise ArrowConversionError(str(pydict)[:200]) from error


def convert_to_native_array(column_values: Sequence[Any], column_name: str) -> Any:
    """The same of types that Arrow has itself; else ArrowConversionError."""
    kind: Any = None
    values: Any = column_values
    try:
        if len(values) and isinstance(values[0], datetime.datetime):
            values = np.array([np.datetime64("NaT" if value is None else _plain_time(value)) for value in values])
        kind = infer_pyarrow_type(values)
        if kind is not None and pa.types.is_timestamp(kind) and isinstance(values, np.ndarray):
            values = values.astype(f"datetime64[{kind.unit}]")
        elif len(values) and isinstance(values[0], pa.ListScalar):
            values = [value if value.is_valid else None for value in values]
        return pa.array(values, type=kind)
    except Exception as error:
        text = str(column_values)
        shown = text if len(text) <= 200 else text[:200] + "..."
        raise ArrowConversionError(shown, column_name, kind) from error


def infer_pyarrow_type(column_values: Sequence[Any]) -> Any:
    """Arrow's type of a column; None where it has no values.

    >>> infer_pyarrow_type(np.ones(1, "datetime64[D]")), infer_pyarrow_type(["a", 1])
    (TimestampType(timestamp[s]), DataType(string))
    """
    if not len(column_values):
        return None
    if isinstance(column_values, np.ndarray) and column_values.dtype.kind == "M":
        return pa.timestamp(_unit(column_values.dtype))
    if isinstance(column_values, np.ndarray) and column_values.ndim == 1 and column_values.dtype.kind in "biuf":
        return pa.from_numpy_dtype(column_values.dtype)
    kind = pa.infer_type(column_values)
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        if any(isinstance(value, (str, bytes)) and len(value) > TEXT_MAX for value in column_values):
            return pa.large_binary() if pa.types.is_binary(kind) else pa.large_string()
    return kind


def raise_on_pickle_object_columns(table: Any) -> None:
    """ValueError that names columns of pickled objects, or of such inside others: to load them is to run what a file holds. Not where
    RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR=1 says that files are trusted."""
    import os

    if os.environ.get("RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR", "0").lower() in ("1", "true"):
        return
    found = [field.name for field in table.schema if _holds_pickles(field.type)]
    if found:
        raise ValueError(
            f"the columns {found} are of {PICKLED!r}: to load them is to run code that their file holds. Set "
            "RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR=1 if you trust whoever wrote it"
        )


def _holds_pickles(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.extension_name == PICKLED or _holds_pickles(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _holds_pickles(kind.value_type)
    return any(_holds_pickles(kind.field(place).type) for place in range(kind.num_fields))


def _are_tensors(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim > 1 or (values.dtype == object and isinstance(values[0], np.ndarray))
    return (_is_array_like(values) and values.ndim > 1) or _is_array_like(values[0])


def _is_array_like(value: Any) -> bool:
    """What NumPy makes an array of without a copy, such as a tensor of torch; not pyarrow's own, nor a scalar."""
    return hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0 and not isinstance(value, (pa.Array, pa.ChunkedArray, pa.Scalar, np.generic))


def _as_array(values: Any) -> Any:
    from weir.extensions.ragged import possibly_ragged

    if not isinstance(values, np.ndarray):
        values = np.asarray(values) if _is_array_like(values) else possibly_ragged([np.asarray(value) for value in values])
    return values.astype(f"datetime64[{_unit(values.dtype)}]") if values.dtype.kind == "M" else values


def _unit(dtype: Any) -> str:
    """Arrow's unit for a time of NumPy."""
    unit: str = np.datetime_data(dtype)[0]
    return "s" if unit in _SECONDS else "ns" if unit in _NANOSECONDS else unit


def _plain_time(value: Any) -> Any:
    """To nanoseconds, where it is pandas'; in UTC, where it has a zone: NumPy has none."""
    if hasattr(value, "to_datetime64"):
        return value.to_datetime64()
    return value if value.tzinfo is None else value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
