"""Types of expressions before anything runs: what functions return for all columns, and what comes of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._expr_nodes import CallExpr
    from weir._expr_tree import Expr
    from weir.datatype import DataType

_DOUBLE = {"ln", "log10", "log2", "exp", "sin", "cos", "tan", "asin", "acos", "atan"}
_INT32 = {"str.len", "str.byte_len", "str.find", "str.count", "str.find_regex", "str.count_regex", "list.len", "dt.year",
          "dt.month", "dt.day", "dt.hour", "dt.minute", "dt.second"}
_BOOL = {"str.starts_with", "str.ends_with", "str.contains", "str.match", "str.match_regex", "is_nan"}
_OBJECT = {"str.split", "str.split_regex", "str.split_whitespace", "list.flatten", "struct.field", "struct.field_by_index",
           "map.keys", "map.values", "list.get", "if_else", "coalesce"}


def call_type(expr: CallExpr) -> DataType:
    """The type that Ray Data gives a function's result: a fixed one, or that of the first argument.

    >>> from weir.expressions import col
    >>> call_type(col("a").exp()), call_type(col("a").cast("int8"))
    (DataType(arrow:double), DataType(arrow:int8))
    """
    from weir.datatype import DataType

    name = expr.function
    if name == "cast":
        return DataType(expr.options["type"])
    if name in _DOUBLE:
        return DataType("double")
    if name in _INT32:
        return DataType("int32")
    if name in _BOOL or name.startswith("str.is_"):
        return DataType("bool")
    if name in _OBJECT or not expr.args:
        return _nested_type(expr)
    if name.startswith("str.") or name == "dt.strftime":
        return DataType("string")
    first: Expr = expr.args[0]
    return first.data_type


def _nested_type(expr: CallExpr) -> DataType:
    """Of a part of something nested whose type is known, with pyarrow; else unknown."""
    from weir.datatype import DataType

    inner = expr.args[0].data_type if expr.args else DataType(object)
    if not inner.is_arrow_type() or not inner.is_nested_type() or expr.function.startswith("str."):
        return DataType(object)
    kind, name = inner.to_arrow_dtype(), expr.function
    try:
        if name == "struct.field":
            return DataType(kind.field(expr.options["name"]).type)
        if name == "struct.field_by_index":
            return DataType(kind[expr.options["index"]].type)
        if name == "list.get":
            return DataType(kind.value_type)
        if name == "list.flatten":
            return DataType.list(DataType(kind.value_type.value_type))
        if name in ("map.keys", "map.values"):
            return DataType.list(DataType(kind.key_type if name == "map.keys" else kind.item_type))
    except (KeyError, IndexError, AttributeError):
        pass
    return DataType(object)


def type_over(expr: Expr, schema: Any) -> Any:
    """pyarrow's type of an expression over columns of a pyarrow schema, as the engine types it; None: it cannot be.

    >>> import pyarrow
    >>> from weir.expressions import col
    >>> type_over(col("a") + 1.5, pyarrow.schema([("a", pyarrow.int8())]))
    DataType(double)
    """
    if expr.needs_python() or schema is None:
        kind = expr.data_type
        return kind.to_arrow_dtype() if kind.is_arrow_type() else None
    import pyarrow

    import weir

    table = pyarrow.Table.from_arrays([pyarrow.nulls(1, field.type) for field in schema], schema=pyarrow.schema(
        [field.with_nullable(True) for field in schema])) if len(schema) else pyarrow.table({"": [None]})
    try:
        found = weir.from_arrow(table).with_column("x", expr).schema()
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return None
    return None if found is None else dict(zip(found.names, found.types, strict=True)).get("x")
