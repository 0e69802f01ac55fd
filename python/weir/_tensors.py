"""Between the engine's tensors and Ray Data's Arrow types: what a user's tables have, and what batches are made of.

    engine                                                           users' tables
    arrow.fixed_shape_tensor over fixed_size_list<T>[n]        ◀─▶   ArrowTensorTypeV2 over large_list<T> (or V1, or as it is)
    arrow.variable_shape_tensor over struct<data, shape>       ◀─▶   ArrowVariableShapedTensorType
    weir.python_object over binary                             ◀─▶   ArrowPythonObjectType over large_binary

Elements are not copied; offsets are made anew.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from weir._formats import PYTHON_OBJECT, RAGGED_TENSOR, _extension_name

if TYPE_CHECKING:
    import pyarrow

FIXED_TENSOR = "arrow.fixed_shape_tensor"
_THEIRS = "ray.data."


def make_known(batch: Any) -> None:
    """Registers Ray Data's tensor types with pyarrow, where a column came from a file with them."""
    for _, _, _, metadata in batch.schema():
        if metadata and dict(metadata).get(b"ARROW:extension:name", b"").startswith(_THEIRS.encode()):
            import weir.extensions.arrow_tensors  # noqa: F401

            return


# ---- out ----


def to_users(table: pyarrow.Table) -> pyarrow.Table:
    """The engine's table with the types that users know."""
    for i, field in enumerate(table.schema):
        name = _extension_name(field)
        if name not in (FIXED_TENSOR, RAGGED_TENSOR, PYTHON_OBJECT):
            continue
        import pyarrow as pa

        column = table.column(i)
        kind = users_type(field)
        if kind is None:
            continue
        chunks = [_to_users(chunk, kind) for chunk in column.chunks]
        table = table.set_column(i, pa.field(field.name, kind), pa.chunked_array(chunks, kind))
    return table


def users_type(field: pyarrow.Field) -> Any:
    """What users know a column of the engine as; None: as it is."""
    import pyarrow as pa

    name = _extension_name(field)
    kind = field.type
    storage = getattr(kind, "storage_type", kind)
    if name == FIXED_TENSOR:
        from weir.extensions import arrow_tensors

        shape = kind.shape if isinstance(kind, pa.FixedShapeTensorType) else _shape_of(field)
        made = arrow_tensors.create_arrow_fixed_shape_tensor_type(tuple(shape), storage.value_type)
        return None if isinstance(made, pa.FixedShapeTensorType) else made
    if name == RAGGED_TENSOR:
        from weir.extensions import arrow_tensors

        return arrow_tensors.ArrowVariableShapedTensorType(storage.field("data").type.value_type, storage.field("shape").type.list_size)
    if name == PYTHON_OBJECT:
        from weir.extensions.arrow_objects import ArrowPythonObjectType

        return ArrowPythonObjectType()
    return None


def _shape_of(field: pyarrow.Field) -> list[int]:
    import json

    return list(json.loads((field.metadata or {}).get(b"ARROW:extension:metadata", b"{}"))["shape"])


def _to_users(chunk: Any, kind: Any) -> Any:
    import pyarrow as pa

    storage = getattr(chunk, "storage", chunk)
    name = kind.extension_name
    if name == "ray.data.arrow_pickled_object":
        return kind.wrap_array(storage.cast(pa.large_binary()))
    if name == "ray.data.arrow_variable_shaped_tensor":
        parts = kind.storage_type
        data, shapes = storage.field("data"), storage.field("shape")
        mask = storage.is_null() if storage.null_count else None
        made = [data.cast(parts.field("data").type), shapes.cast(parts.field("shape").type)]
        return kind.wrap_array(pa.StructArray.from_arrays(made, ["data", "shape"], mask=mask))
    from weir.extensions.arrow_tensors import wrapped

    size = storage.type.list_size
    values = storage.values.slice(storage.offset * size, len(storage) * size)
    if not storage.null_count:
        return wrapped(kind, values, len(storage), size)
    whole = wrapped(kind, values, len(storage), size).storage
    lists = type(whole)
    return kind.wrap_array(lists.from_arrays(whole.offsets, values, mask=storage.is_null()))


# ---- in ----


def from_users(value: Any) -> Any:
    """A user's table, record batch or array with the engine's types; anything else as it is."""
    pa = sys.modules.get("pyarrow")
    if pa is None:
        return value
    if isinstance(value, pa.RecordBatch):
        return _table_from_users(pa.Table.from_batches([value]), pa) if _has_theirs(value.schema) else value
    if isinstance(value, pa.Table):
        return _table_from_users(value, pa) if _has_theirs(value.schema) else value
    return value


def _has_theirs(schema: Any) -> bool:
    return any(str(getattr(field.type, "extension_name", "")).startswith(_THEIRS) for field in schema)


def _table_from_users(table: Any, pa: Any) -> Any:
    for i, field in enumerate(table.schema):
        if not str(getattr(field.type, "extension_name", "")).startswith(_THEIRS):
            continue
        chunks = [engine_array(chunk) for chunk in table.column(i).chunks]
        made, metadata = engine_type(field.type)
        table = table.set_column(i, pa.field(field.name, made, metadata=metadata), pa.chunked_array(chunks, made))
    return table


def has_objects(table: Any) -> bool:
    """Whether a user's table has columns of pickled objects, which are the user's own."""
    pa = sys.modules.get("pyarrow")
    if pa is None or not isinstance(table, (pa.Table, pa.RecordBatch)):
        return False
    return any(getattr(field.type, "extension_name", "") == "ray.data.arrow_pickled_object" for field in table.schema)


def engine_type(kind: Any) -> tuple[Any, dict[str, str] | None]:
    """The engine's type for one of theirs, and the field's metadata that makes it one."""
    import pyarrow as pa

    if kind.extension_name == "ray.data.arrow_pickled_object":
        return pa.large_binary(), {"ARROW:extension:name": PYTHON_OBJECT}
    if kind.extension_name == "ray.data.arrow_variable_shaped_tensor":
        value = kind.storage_type.field("data").type.value_type
        made = pa.struct([("data", pa.list_(value)), ("shape", pa.list_(pa.int32(), kind.ndim))])
        return made, {"ARROW:extension:name": RAGGED_TENSOR, "ARROW:extension:metadata": "{}"}  # pyarrow wants an object there
    return pa.fixed_shape_tensor(kind.storage_type.value_type, list(kind.shape)), None


def engine_array(array: Any) -> Any:
    """An array of one of their types as the engine's."""
    import numpy as np
    import pyarrow as pa

    kind = array.type
    if kind.extension_name == "ray.data.arrow_pickled_object":
        return array.storage
    made, _ = engine_type(kind)
    storage = array.storage
    if kind.extension_name == "ray.data.arrow_variable_shaped_tensor":
        mask = storage.is_null() if storage.null_count else None
        parts = [storage.field("data").cast(made.field("data").type), storage.field("shape").cast(made.field("shape").type)]
        return pa.StructArray.from_arrays(parts, fields=list(made), mask=mask)
    size = int(np.prod(kind.shape, dtype=np.int64))
    if storage.null_count:
        return pa.ExtensionArray.from_storage(made, storage.cast(pa.list_(kind.storage_type.value_type, size)))
    values = storage.flatten()
    if len(values) != len(storage) * size:
        raise ValueError(f"a tensor column of the shape {tuple(kind.shape)} has {len(values)} elements in {len(storage)} rows")
    if not size:
        return pa.ExtensionArray.from_storage(made, pa.array([[]] * len(storage), made.storage_type))
    return pa.ExtensionArray.from_storage(made, pa.FixedSizeListArray.from_arrays(values, size))


def marked(array: Any) -> Any:
    """A user's array, alone, so that the engine knows what it is: as a one-column table where a mark is needed."""
    if not str(getattr(getattr(array, "type", None), "extension_name", "")).startswith(_THEIRS):
        return array
    import pyarrow as pa

    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    kind, metadata = engine_type(array.type)
    made = [engine_array(chunk) for chunk in chunks]
    joined = pa.concat_arrays(made) if len(made) != 1 else made[0]
    return _Marked(joined, pa.field("", kind, metadata=metadata)) if metadata else joined


class _Marked:
    """An array with the metadata of a field."""

    def __init__(self, array: Any, field: Any) -> None:
        self.array, self.field = array, field

    def __len__(self) -> int:
        return len(self.array)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.field.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]
