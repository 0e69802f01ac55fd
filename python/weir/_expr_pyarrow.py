"""Expressions of pyarrow (``read_parquet(filter=pyarrow.compute.field("a") > 3)``) as weir's.

What pyarrow prints of an expression leaves out types and quotes, and shortens lists; Substrait needs a schema that nobody has
yet. But an expression pickles itself, as an Arrow file whose schema's metadata is the tree, with repeated keys in the order
of a walk, and whose one row holds the literals and the functions' options:

    call=greater  field_ref=a  literal=0  end=greater          column 0: 3
"""

from __future__ import annotations

import ctypes
from typing import Any

from weir.expressions import BinaryExpr, CallExpr, ColumnExpr, Expr, LiteralExpr, Operation, UnaryExpr

_OPERATORS = {
    "greater": Operation.GT, "less": Operation.LT, "greater_equal": Operation.GE, "less_equal": Operation.LE,
    "equal": Operation.EQ, "not_equal": Operation.NE, "and_kleene": Operation.AND, "or_kleene": Operation.OR,
    "and": Operation.AND, "or": Operation.OR, "xor": Operation.NE, "add": Operation.ADD, "subtract": Operation.SUB,
    "multiply": Operation.MUL, "divide": Operation.DIV,
}
# pyarrow's name, and which of its options are ours under which name.
_FUNCTIONS: dict[str, tuple[str, dict[str, str]]] = {
    **{name: (name, {}) for name in (
        "ceil", "floor", "trunc", "ln", "log10", "log2", "exp", "sin", "cos", "tan", "asin", "acos", "atan", "sign",
        "power", "is_nan", "add_checked", "subtract_checked", "multiply_checked", "divide_checked", "if_else", "coalesce")},
    **{f"{name}_checked": (name, {}) for name in ("negate", "abs")},
    **{name: (f"dt.{name}", {}) for name in ("year", "month", "day", "hour", "minute", "second")},
    **{f"utf8_{name}": (f"str.{name}", {}) for name in (
        "upper", "lower", "capitalize", "title", "swapcase", "reverse", "is_alpha", "is_alnum", "is_digit", "is_decimal",
        "is_numeric", "is_space", "is_lower", "is_upper", "is_title", "is_printable")},
    "utf8_length": ("str.len", {}), "binary_length": ("str.byte_len", {}), "string_is_ascii": ("str.is_ascii", {}),
    "list_value_length": ("list.len", {}),
    **{arrow: (ours, {"pattern": "pattern", "ignore_case": "ignore_case"}) for arrow, ours in {
        "starts_with": "str.starts_with", "ends_with": "str.ends_with", "match_substring": "str.contains",
        "match_like": "str.match", "match_substring_regex": "str.match_regex", "find_substring": "str.find",
        "count_substring": "str.count"}.items()},
}


def _entries(schema: Any) -> list[tuple[str, str]]:
    """The schema's metadata, repeated keys too, which pyarrow's own dict has not: read from the C form."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # struct ArrowSchema: format, name, metadata, …; metadata: a count, then for each key and value a length and bytes.
    at = ctypes.cast(pointer(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))[2]
    if not at:
        return []

    def number() -> int:
        nonlocal at
        assert at is not None
        at += 4
        return int(ctypes.c_int32.from_address(at - 4).value)

    def text() -> str:
        nonlocal at
        size = number()
        assert at is not None
        at += size
        return ctypes.string_at(at - size, size).decode()

    return [(text(), text()) for _ in range(number())]


def from_pyarrow(expression: Any) -> Expr:
    """The same expression as weir's; ValueError when it has something that weir has not.

    >>> import pyarrow.compute as pc
    >>> print((from_pyarrow((pc.field("a") > 3) & pc.field("b").isin(["x", "y"]))).describe())
    (col('a') > 3) & (col('b') in ['x', 'y'])
    """
    import pyarrow

    try:
        batch = pyarrow.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
    except pyarrow.ArrowException as error:
        raise ValueError(f"the pyarrow expression {expression} cannot be used as a filter: {error}") from error
    entries = _entries(batch.schema)
    found, at = _read(entries, 0, batch)
    assert at == len(entries)
    return found


def _read(entries: list[tuple[str, str]], at: int, batch: Any) -> tuple[Expr, int]:
    """The expression that begins at an entry, and the entry behind it."""
    kind, value = entries[at]
    if kind == "field_ref":
        return ColumnExpr(value), at + 1
    if kind == "nested_field_ref":
        nested: Expr = ColumnExpr(entries[at + 1][1])
        for _, name in entries[at + 2 : at + 1 + int(value)]:
            nested = nested.struct.field(name)
        return nested, at + 1 + int(value)
    if kind == "literal":
        return _literal(batch.column(int(value))[0]), at + 1
    if kind != "call":
        raise ValueError(f"{kind}={value} is not known in a pyarrow expression")
    arguments: list[Expr] = []
    options: dict[str, Any] = {}
    at += 1
    while entries[at][0] != "end":
        if entries[at][0] == "options":
            scalar = batch.column(int(entries[at][1]))[0]
            options = {key: scalar[key] for key in scalar}
            at += 1
        else:
            argument, at = _read(entries, at, batch)
            arguments.append(argument)
    return _call(value, arguments, options), at + 1


def _literal(scalar: Any) -> Expr:
    import pyarrow

    plain = (pyarrow.int64(), pyarrow.float64(), pyarrow.string(), pyarrow.bool_(), pyarrow.date32(), pyarrow.binary())
    return LiteralExpr(scalar.as_py() if scalar.type in plain or not scalar.is_valid else scalar)


def _call(name: str, args: list[Expr], options: dict[str, Any]) -> Expr:
    if name in _OPERATORS:
        return BinaryExpr(_OPERATORS[name], args[0], args[1])
    if name == "invert":
        return UnaryExpr(Operation.NOT, args[0])
    if name == "is_valid":
        return UnaryExpr(Operation.IS_NOT_NULL, args[0])
    if name == "is_null":
        is_null = UnaryExpr(Operation.IS_NULL, args[0])
        return is_null | CallExpr("is_nan", (args[0],), {}) if options["nan_is_null"].as_py() else is_null
    if name == "is_in":
        values = options["value_set"].as_py()
        # 0 is MATCH: null is found when the list has one. The others are not made by pyarrow's expressions.
        if options["null_matching_behavior"].as_py() != 0:
            raise ValueError("is_in with another null_matching_behavior than MATCH is not supported in a filter")
        return BinaryExpr(Operation.IN, args[0], LiteralExpr(values))
    if name == "cast":
        to_type = options["to_type"].type
        is_safe = not any(options[key].as_py() for key in options if key.startswith("allow_"))
        return args[0].cast(to_type, safe=is_safe)
    if name in _FUNCTIONS:
        ours, wanted = _FUNCTIONS[name]
        given = {to: options[key].as_py() for key, to in wanted.items()}
        given = {key: value.decode() if isinstance(value, bytes) else value for key, value in given.items()}
        return CallExpr(ours, tuple(args), given)
    raise ValueError(f"pyarrow's function {name} is not supported in a filter")
