"""Expressions computed with pyarrow in a worker: those with functions of the user, or that the engine does not have.

``Dataset.with_column(s)`` and ``filter`` turn such an expression into a map_batches of a ``Projector`` or a ``Selector``
over pyarrow tables. Results are those of the engine: the same rules, tested against each other.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weir._expr_literals import type_name
from weir._expr_tree import COMPARISONS, FRAME, computed_as, frame_rules
from weir.expressions import (
    AliasExpr,
    BinaryExpr,
    CallExpr,
    ColumnExpr,
    DownloadExpr,
    Expr,
    LiteralExpr,
    Operation,
    UDFExpr,
    UnaryExpr,
    WhenExpr,
)

if TYPE_CHECKING:
    import pyarrow


def _pyarrow() -> Any:
    try:
        import pyarrow.compute
    except ImportError as error:
        raise ModuleNotFoundError("this expression runs with pyarrow, which is not installed: pip install pyarrow") from error
    return pyarrow


def arrow_type(name: Any) -> Any:
    """pyarrow's type of a name such as ``int64``; whatever else is given goes by its name.

    >>> arrow_type("decimal128(5, 2)")
    Decimal128Type(decimal128(5, 2))
    """
    import re

    pa = _pyarrow()
    if isinstance(name, pa.DataType):
        return name
    name = type_name(name)
    decimal = re.fullmatch(r"decimal(128|256)\((\d+), *(-?\d+)\)", name)
    if decimal:
        return getattr(pa, f"decimal{decimal[1]}")(int(decimal[2]), int(decimal[3]))
    temporal = re.fullmatch(r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)(?:, *tz=(.+))?\]", name)
    if temporal:
        words = [temporal[2]] if temporal[3] is None else [temporal[2], temporal[3]]
        return getattr(pa, temporal[1])(*words)
    listed = re.fullmatch(r"(large_)?list<(?:(\w+): )?(.*)>", name)
    if listed:
        return (pa.large_list if listed[1] else pa.list_)(pa.field(listed[2] or "item", arrow_type(listed[3])))
    fixed = re.fullmatch(r"fixed_size_list<(?:(\w+): )?(.*)>\[(\d+)\]", name)
    if fixed:
        return pa.list_(pa.field(fixed[1] or "item", arrow_type(fixed[2])), int(fixed[3]))
    if name.startswith("struct<") and name.endswith(">"):
        parts = (part.partition(": ") for part in _parts(name[7:-1]))
        return pa.struct([(field, arrow_type(kind)) for field, _, kind in parts])
    if name.startswith("map<") and name.endswith(">"):
        key, value, *_ = _parts(name[4:-1])
        return pa.map_(arrow_type(key), arrow_type(value))
    binary = re.fullmatch(r"fixed_size_binary\[(\d+)\]", name)
    if binary:
        return pa.binary(int(binary[1]))
    return pa.type_for_alias({"boolean": "bool", "date": "date32", "utf8": "string"}.get(name, name))


def _parts(text: str) -> list[str]:
    """What stands between commas that are in no brackets."""
    depth, parts = 0, [""]
    for c in text:
        depth += (c in "<([") - (c in ">)]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _floor_division(x: Any, y: Any, wants_rest: bool, stays_whole: bool = False) -> Any:
    pa = _pyarrow()
    pc = pa.compute
    both_whole = all(pa.types.is_integer(side.type) for side in (x, y))
    quotient = pc.divide(x, y)
    if both_whole:
        # Cut towards zero so far: one less where the rest has the other sign than y.
        rest = pc.subtract(x, pc.multiply(quotient, y))
        is_low = pc.and_kleene(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(y, 0)))
        rest = pc.if_else(is_low, pc.add(rest, y), rest)
        quotient = pc.if_else(is_low, pc.subtract(quotient, 1), quotient)
        found = rest if wants_rest else quotient
        return found if stays_whole else pc.cast(found, pa.float64(), safe=False)
    whole = pc.floor(quotient)
    return pc.subtract(x, pc.multiply(whole, y)) if wants_rest else whole


def _is_text(value: Any) -> bool:
    types = _pyarrow().types
    kind = value.type.value_type if types.is_dictionary(value.type) else value.type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _binary(expr: BinaryExpr, table: pyarrow.Table) -> Any:
    pa = _pyarrow()
    pc = pa.compute
    x = evaluate(expr.left, table)
    if expr.op in (Operation.IN, Operation.NOT_IN):
        values = expr._values()
        found = pc.is_in(x, pa.array(values, x.type)) if values else pc.and_kleene(pc.is_null(x), False)
        return found if expr.op is Operation.IN else pc.invert(found)
    y = evaluate(expr.right, table)
    rules = frame_rules.get()
    if expr.op in (Operation.FLOORDIV, Operation.MOD):
        return _floor_division(x, y, expr.op is Operation.MOD, bool(rules))
    if rules and expr.op is Operation.DIV and all(pa.types.is_integer(side.type) for side in (x, y)):
        return pc.divide(pc.cast(x, pa.float64(), safe=False), pc.cast(y, pa.float64(), safe=False))
    if expr.op is Operation.ADD and (_is_text(x) or _is_text(y)):
        for side in (x, y):
            if not _is_text(side) and not pa.types.is_null(side.type):
                raise TypeError(f"{expr.describe()} joins texts: expected string-like pyarrow values, got {side.type}. cast(DataType.string()) makes texts of it")
        return pc.binary_join_element_wise(pc.cast(x, pa.string()), pc.cast(y, pa.string()), "")
    names = {
        Operation.ADD: "add", Operation.SUB: "subtract", Operation.MUL: "multiply", Operation.DIV: "divide",
        Operation.GT: "greater", Operation.LT: "less", Operation.GE: "greater_equal", Operation.LE: "less_equal",
        Operation.EQ: "equal", Operation.NE: "not_equal", Operation.AND: "and_kleene", Operation.OR: "or_kleene",
    }
    found = getattr(pc, names[expr.op])(x, y)
    return pc.fill_null(found, expr.op is Operation.NE) if rules == FRAME and expr.op in COMPARISONS else found


def _udf(expr: UDFExpr, table: pyarrow.Table) -> Any:
    pa = _pyarrow()

    def argument(part: Expr) -> Any:
        # Plain values go as they are; columns as a table has them, so that what programs do with those (combine_chunks) works.
        if isinstance(part, LiteralExpr):
            return part.value
        value = evaluate(part, table)
        return pa.chunked_array([value]) if isinstance(value, pa.Array) else value

    result = expr.fn(*map(argument, expr.args), **{key: argument(part) for key, part in expr.kwargs.items()})
    if not isinstance(result, (pa.Array, pa.ChunkedArray, pa.Scalar)):
        if type(result).__module__.partition(".")[0] == "pandas":
            result = pa.array(result, from_pandas=True)
        elif hasattr(result, "__len__") and not isinstance(result, (str, bytes, Mapping)):
            result = pa.array(result)
        else:
            raise TypeError(f"{expr._fn_name()} returned invalid type {type(result).__qualname__}. Expected type: pyarrow.Array, "
                            "pyarrow.ChunkedArray, numpy.ndarray, pandas.Series or a list, with as many values as it was given")
    if not isinstance(result, pa.Scalar) and len(result) != table.num_rows:
        raise ValueError(f"{expr._fn_name()} returned {len(result)} values for {table.num_rows} rows")
    return result


def of_block(expr: Expr, block: Any) -> Any:
    """An expression's values over a block, a table or a pandas frame: a column of its kind, or a plain value for all rows.

    >>> import pandas as pd
    >>> from weir.expressions import col
    >>> of_block(col("a") / 2, pd.DataFrame({"a": [1, 2]})).tolist()
    [0.5, 1.0]
    """
    pa = _pyarrow()
    if isinstance(block, pa.Table):
        value = evaluate(expr, block)
        return value.as_py() if isinstance(value, pa.Scalar) else value
    from weir import _formats

    with computed_as(_formats.frame_rules([block])):
        value = evaluate(expr, pa.Table.from_pandas(block, preserve_index=False))
    return value.as_py() if isinstance(value, pa.Scalar) else value.to_pandas()


def evaluate(expr: Expr, table: pyarrow.Table) -> Any:
    """An expression's values over a table: an array, or a scalar that stands for all rows.

    >>> import pyarrow as pa
    >>> from weir.expressions import col
    >>> evaluate(col("a") // 2, pa.table({"a": [-7, 7]})).to_pylist()
    [-4.0, 3.0]
    """
    pa = _pyarrow()
    pc = pa.compute
    if isinstance(expr, ColumnExpr):
        if expr.name not in table.column_names:
            raise KeyError(f"column {expr.name!r} is not among {table.column_names}")
        return table[expr.name]
    if isinstance(expr, LiteralExpr):
        return expr.value if isinstance(expr.value, pa.Scalar) else pa.scalar(expr.value)
    if isinstance(expr, AliasExpr):
        return evaluate(expr.expr, table)
    if isinstance(expr, BinaryExpr):
        return _binary(expr, table)
    if isinstance(expr, UnaryExpr):
        names = {Operation.NOT: "invert", Operation.IS_NULL: "is_null", Operation.IS_NOT_NULL: "is_valid"}
        return getattr(pc, names[expr.op])(evaluate(expr.operand, table))
    if isinstance(expr, CallExpr):
        from weir._expr_functions import FUNCTIONS

        return FUNCTIONS[expr.function].arrow(pc, [evaluate(arg, table) for arg in expr.args], expr.options)
    if isinstance(expr, WhenExpr):
        value = evaluate(expr.default, table)
        for condition, then in reversed(expr.branches):
            value = pc.if_else(pc.coalesce(evaluate(condition, table), False), evaluate(then, table), value)
        return value
    if isinstance(expr, UDFExpr):
        return _udf(expr, table)
    if isinstance(expr, DownloadExpr):
        if expr.uri_column_name not in table.column_names:
            raise ValueError(f"column {expr.uri_column_name!r} is not among {table.column_names}")
        return pa.array(_read_all(table[expr.uri_column_name].to_pylist(), expr.filesystem), pa.binary())
    raise ValueError(f"{expr._inline()} is not an expression that can be computed")


def column_of(expr: Expr, table: pyarrow.Table) -> Any:
    pa = _pyarrow()
    value = evaluate(expr, table)
    return pa.repeat(value, table.num_rows) if isinstance(value, pa.Scalar) else value


_THREADS = 16  # that read files
_ROWS_AT_ONCE, _BLOCK_BYTES = 64, 64 << 20  # of downloads


def _read_one(uri: Any, filesystem: Any) -> bytes | None:
    import urllib.parse

    if not isinstance(uri, str):
        return None
    try:
        if filesystem is not None:
            with filesystem.open_input_stream(uri) as stream:
                return bytes(stream.read())
        scheme, colon, rest = uri.partition("://")
        if colon and scheme not in ("file", "local"):
            raise NotImplementedError(
                f"download() reads paths and file:// addresses, or through filesystem=…; this is {uri!r:.200}")
        with open(urllib.parse.unquote(rest) if colon else uri, "rb") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _read_all(uris: list[Any], filesystem: Any) -> list[bytes | None]:
    """The files' bytes, None where there are none, read by several threads."""
    from concurrent.futures import ThreadPoolExecutor

    if len(uris) < 2:
        return [_read_one(uri, filesystem) for uri in uris]
    with ThreadPoolExecutor(min(_THREADS, len(uris))) as pool:
        return list(pool.map(lambda uri: _read_one(uri, filesystem), uris))


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for _, child in expr._children():
        yield from _walk(child)


def has_class(expr: Expr) -> bool:
    """Whether a class of the user's is called somewhere in it.

    >>> from weir.expressions import col
    >>> has_class(col("a") + 1)
    False
    """
    return any(isinstance(part, UDFExpr) and part.callable_class_spec is not None for part in _walk(expr))


def _replaced(expr: Expr, drawn: dict[str, Expr]) -> Expr:
    """The expression with columns for what depends on the row's place; `drawn` gets what they are."""
    if expr.is_volatile() and not expr._children():
        name = f"__weir_drawn_{len(drawn)}"
        drawn[name] = expr
        return ColumnExpr(name)
    if not expr.is_volatile():
        return expr
    new = copy.copy(expr)
    if isinstance(new, UDFExpr):
        new.args = [_replaced(arg, drawn) for arg in new.args]
        new.kwargs = {key: _replaced(arg, drawn) for key, arg in new.kwargs.items()}
        if isinstance(new, CallExpr):
            return CallExpr(new.function, new.args, new.options)
    elif isinstance(new, BinaryExpr):
        new.left, new.right = _replaced(new.left, drawn), _replaced(new.right, drawn)
    elif isinstance(new, UnaryExpr):
        new.operand = _replaced(new.operand, drawn)
    elif isinstance(new, AliasExpr):
        new.expr = _replaced(new.expr, drawn)
    elif isinstance(new, WhenExpr):
        new.branches = tuple((_replaced(a, drawn), _replaced(b, drawn)) for a, b in new.branches)
        new.default = _replaced(new.default, drawn)
    return new


def split_places(columns: Mapping[str, Expr], predicate: Expr | None) -> tuple[dict[str, Expr], dict[str, Expr], Any]:
    """Columns that the engine draws first, and the expressions over them.

    >>> from weir.expressions import col, random
    >>> drawn, columns, _ = split_places({"x": random(seed=1) + col("a")}, None)
    >>> list(drawn), columns["x"].describe()
    (['__weir_drawn_0'], "col('__weir_drawn_0') + col('a')")
    """
    drawn: dict[str, Expr] = {}
    made = {name: _replaced(expr, drawn) for name, expr in columns.items()}
    return drawn, made, None if predicate is None else _replaced(predicate, drawn)


class Projector:
    """A function for map_batches(batch_format="pyarrow") that adds or replaces columns; all see the input's columns.

    >>> import pyarrow as pa
    >>> from weir.expressions import col
    >>> Projector({"b": col("a") + 1})(pa.table({"a": [1]})).to_pydict()
    {'a': [1], 'b': [2]}
    """

    def __init__(self, columns: Mapping[str, Expr], dropped: tuple[str, ...] = (), rules: str = "") -> None:
        self.columns, self.dropped, self.rules = dict(columns), dropped, rules
        self.__name__ = "Project"

    def exprs(self) -> list[Expr]:
        """All expressions.

        >>> from weir.expressions import col
        >>> len(Projector({"b": col("a")}).exprs())
        1
        """
        return list(self.columns.values())

    def __call__(self, table: pyarrow.Table) -> Any:
        if any(isinstance(part, DownloadExpr) for expr in self.exprs() for part in _walk(expr)):
            return self._in_pieces(table)
        return self._project(table)

    def _in_pieces(self, table: pyarrow.Table) -> Iterator[pyarrow.Table]:
        """Downloads make rows large: they are handed on in tables of a bounded size."""
        pa = _pyarrow()
        done: list[Any] = []
        for begin in range(0, max(table.num_rows, 1), _ROWS_AT_ONCE):
            done.append(self._project(table.slice(begin, _ROWS_AT_ONCE)))
            if sum(part.nbytes for part in done) >= _BLOCK_BYTES:
                yield pa.concat_tables(done)
                done = []
        if done:
            yield pa.concat_tables(done)

    def _project(self, table: pyarrow.Table) -> pyarrow.Table:
        with computed_as(self.rules):
            made = {name: column_of(expr, table) for name, expr in self.columns.items()}
        for name, values in made.items():
            place = table.schema.get_field_index(name)
            table = table.append_column(name, values) if place < 0 else table.set_column(place, name, values)
        return table.drop_columns(list(self.dropped)) if self.dropped else table


class Selector:
    """A function for map_batches(batch_format="pyarrow") that keeps the rows for which the expression is true.

    >>> import pyarrow as pa
    >>> from weir.expressions import col
    >>> Selector(col("a") > 1)(pa.table({"a": [1, 2, None]})).to_pydict()
    {'a': [2]}
    """

    def __init__(self, expr: Expr, dropped: tuple[str, ...] = (), rules: str = "") -> None:
        self.expr, self.dropped, self.rules = expr, dropped, rules
        self.__name__ = f"Filter({expr.describe()})"

    def exprs(self) -> list[Expr]:
        """All expressions.

        >>> from weir.expressions import col
        >>> len(Selector(col("a") > 1).exprs())
        1
        """
        return [self.expr]

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        with computed_as(self.rules):
            kept = table.filter(column_of(self.expr, table))
        return kept.drop_columns(list(self.dropped)) if self.dropped else kept


class Actor:
    """A Projector or a Selector with classes of the user's in it: their objects are made when the actor is.

    >>> import pyarrow as pa
    >>> from weir.expressions import col
    >>> Actor(Projector({"b": col("a") + 1}))(pa.table({"a": [1]})).to_pydict()
    {'a': [1], 'b': [2]}
    """

    def __init__(self, made: Projector | Selector) -> None:
        self.made = made
        for part in (part for expr in made.exprs() for part in _walk(expr)):
            if isinstance(part, UDFExpr) and part.callable_class_spec is not None:
                part.fn.init()  # type: ignore[attr-defined]

    def __call__(self, table: pyarrow.Table) -> Any:
        return self.made(table)


# ---- what pyarrow.compute has no single function for


def _by_chunk(function: Any) -> Any:
    @functools.wraps(function)
    def call(values: Any, *options: Any) -> Any:
        pa = _pyarrow()
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        return function(pa, values, *options)

    return call


def _relist(pa: Any, values: Any, lengths: Any, items: Any) -> Any:
    """Lists of these lengths (null: a null list) over items."""
    import itertools

    ends = list(itertools.accumulate((length or 0 for length in lengths), initial=0))
    is_null = [length is None for length in lengths] + [False]
    offsets = pa.array([None if null else end for null, end in zip(is_null, ends, strict=True)], pa.int32())
    return pa.ListArray.from_arrays(offsets, items)


@_by_chunk
def list_sort(pa: Any, values: Any, order: str, null_placement: str) -> Any:
    """Each list sorted.

    >>> import pyarrow as pa
    >>> list_sort(pa.array([[3, None, 1], None]), "ascending", "at_end").to_pylist()
    [[1, 3, None], None]
    """
    pc = pa.compute
    items, rows = pc.list_flatten(values), pc.list_parent_indices(values)
    table = pa.table({"row": rows, "item": items, "is_null": pc.is_null(items)})
    nulls = "ascending" if null_placement == "at_end" else "descending"
    table = table.take(pc.sort_indices(table, sort_keys=[("row", "ascending"), ("is_null", nulls), ("item", order)]))
    sorted_items = table["item"].combine_chunks()
    return _relist(pa, values, pc.list_value_length(values).to_pylist(), sorted_items)


@_by_chunk
def list_flatten(pa: Any, values: Any) -> Any:
    """Lists of lists as lists of what these hold.

    >>> import pyarrow as pa
    >>> list_flatten(pa.array([[[1], [2, 3]], None, [None]])).to_pylist()
    [[1, 2, 3], None, []]
    """
    pc = pa.compute
    inner = pc.list_flatten(values)
    if not isinstance(inner, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        raise TypeError(f"list.flatten is for lists of lists, not for {values.type}")
    lengths = [None if row is None else sum(len(part or ()) for part in row) for row in values.to_pylist()]
    return _relist(pa, values, lengths, pc.list_flatten(inner))


@_by_chunk
def map_part(pa: Any, values: Any, part: str) -> Any:
    """Keys or values (items) of maps, as lists.

    >>> import pyarrow as pa
    >>> map_part(pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "keys").to_pylist()
    [['a'], None]
    """
    if not pa.types.is_map(values.type):
        raise TypeError(f"map.keys and map.values are for maps, not for {values.type}")
    kind = values.type.key_type if part == "keys" else values.type.item_type
    at = 0 if part == "keys" else 1
    return pa.array([None if row is None else [pair[at] for pair in row] for row in values.to_pylist()], pa.list_(kind))


@_by_chunk
def array_to_list(pa: Any, values: Any) -> Any:
    """Arrays of a fixed size, tensors too, as lists.

    >>> import pyarrow as pa
    >>> array_to_list(pa.array([[1, 2]], pa.list_(pa.int64(), 2))).type
    ListType(list<item: int64>)
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_fixed_size_list(values.type):
        return pa.compute.cast(values, pa.list_(values.type.value_type))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return values
    raise TypeError(f"arr.to_list is for arrays, not for {values.type}")
