"""The trees of expressions: what all have in common, columns, values and operators; _expr_nodes.py has the others, and
weir.expressions is their public face."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from weir._expr_literals import check_type, compile_literal, text_literal, type_name
from weir._mistakes import WrongInTask

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.compute

    from weir._expr_namespaces import (
        _ArrayNamespace,
        _DatetimeNamespace,
        _ListNamespace,
        _MapNamespace,
        _StringNamespace,
        _StructNamespace,
    )
    from weir.datatype import DataType

class Operation(str, Enum):
    """The operators of expressions.

    >>> Operation.ADD.value
    'add'
    """

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    FLOORDIV = "floordiv"
    GT = "gt"
    LT = "lt"
    GE = "ge"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    IN = "in"
    NOT_IN = "not_in"


_SYMBOLS = {
    Operation.ADD: "+", Operation.SUB: "-", Operation.MUL: "*", Operation.DIV: "/", Operation.MOD: "%",
    Operation.FLOORDIV: "//", Operation.GT: ">", Operation.LT: "<", Operation.GE: ">=", Operation.LE: "<=",
    Operation.EQ: "==", Operation.NE: "!=", Operation.AND: "&", Operation.OR: "|", Operation.IN: "in",
    Operation.NOT_IN: "not in",
}
# The engine's functions for what it computes otherwise than its own operators do.
_ARITHMETIC = {
    Operation.ADD: "arrow_add", Operation.SUB: "arrow_subtract", Operation.MUL: "arrow_multiply",
    Operation.DIV: "arrow_divide", Operation.MOD: "arrow_mod", Operation.FLOORDIV: "arrow_floor_divide",
}
COMPARISONS = (Operation.GT, Operation.LT, Operation.GE, Operation.LE, Operation.EQ, Operation.NE)
_Str = str  # in Expr, str is a namespace

# Rows of a pandas frame that nothing but the engine has touched compute as pandas does: 7 / 2 is 3.5, 7 // 2 and 7 % 2 are integers;
# and comparisons of what is missing are false (!= true), unless the frame's dtypes have a missing value of their own.
FRAME, MASKED = "frame", "masked"
frame_rules: ContextVar[str] = ContextVar("frame_rules", default="")


@contextmanager
def computed_as(rules: str) -> Iterator[None]:
    """Expressions that are compiled or evaluated meanwhile follow these rules: FRAME, MASKED, or Arrow's where it is empty.

    >>> with computed_as(FRAME):
    ...     (col("a") / 2)._compile()
    '(col("a") / 2)'
    """
    token = frame_rules.set(rules)
    try:
        yield
    finally:
        frame_rules.reset(token)


def _wrap(value: Any) -> Expr:
    return value if isinstance(value, Expr) else LiteralExpr(value)


class Expr:
    """An expression over the columns of a row. Made by ``col``, ``lit`` and operators, never directly.

    >>> print(((col("a") > 2) & ~col("b").is_null()).describe())
    (col('a') > 2) & ~col('b').is_null()
    """

    __slots__ = ()

    @property
    def data_type(self) -> DataType:
        """The type of its values, as far as that is known without data; else ``DataType(object)``.

        >>> lit(1).data_type, col("a").is_null().data_type, col("a").data_type
        (DataType(arrow:int64), DataType(arrow:bool), DataType(python:object))
        """
        from weir.datatype import DataType

        return DataType(object)

    @property
    def name(self) -> _Str | None:
        """The name of the column that comes of it: of a column or an alias, else None.

        >>> col("a").name, (col("a") + 1).name
        ('a', None)
        """
        return None

    # -- trees

    def _children(self) -> tuple[tuple[_Str, Expr], ...]:
        """What it is made of, with the labels that repr shows."""
        return ()

    def _key(self) -> tuple[Any, ...]:
        """What tells it from others of its class, without its children."""
        raise NotImplementedError

    def _label(self) -> _Str:
        raise NotImplementedError

    def _inline(self) -> _Str:
        """One line, as operator names show it."""
        raise NotImplementedError

    def structurally_equals(self, other: object) -> bool:
        """Whether both are the same tree (``==`` makes an expression instead).

        >>> (col("a") + 1).structurally_equals(col("a") + 1)
        True
        >>> (col("a") + 1).structurally_equals(col("a") + 1.0)
        False
        """
        if type(self) is not type(other) or not isinstance(other, Expr):
            return False
        mine, theirs = self._children(), other._children()
        return (
            _same(self._key(), other._key())
            and [label for label, _ in mine] == [label for label, _ in theirs]
            and all(a.structurally_equals(b) for (_, a), (_, b) in zip(mine, theirs, strict=True))
        )

    def __repr__(self) -> _Str:
        lines = [self._label()]
        children = self._children()
        for i, (label, child) in enumerate(children):
            last = i == len(children) - 1
            first, *rest = repr(child).split("\n")
            lines.append(f"    {'└' if last else '├'}── {label + ': ' if label else ''}{first}")
            lines += [f"    {' ' if last else '│'}   {line[4:]}" for line in rest]
        return "\n".join(lines)

    def describe(self) -> _Str:
        """One line, as operators' names show it.

        >>> ((col("a") + 1) * 2).describe()
        "(col('a') + 1) * 2"
        """
        return self._inline()

    def __bool__(self) -> NoReturn:
        raise TypeError("an expression is neither true nor false before it is run: use & for and, | for or, ~ for not, "
                        "and (a < x) & (x < b) for a < x < b")

    __hash__ = object.__hash__

    def _unalias(self) -> Expr:
        return self

    # -- types

    def get_type(self, input_schema: Any) -> Any:
        """pyarrow's type of its values over columns of a pyarrow schema; None where it has none.

        >>> import pyarrow
        >>> (col("a") / 2).get_type(pyarrow.schema([("a", pyarrow.int8())]))
        DataType(int64)
        """
        from weir._expr_types import type_over

        return type_over(self, input_schema)

    def nullable(self, input_schema: Any) -> bool:
        """Whether a value may be null.

        >>> import pyarrow
        >>> lit(1).nullable(pyarrow.schema([])), col("a").is_null().nullable(pyarrow.schema([("a", "int8")]))
        (False, False)
        """
        return True

    def to_field(self, input_schema: Any) -> Any:
        """The column that comes of it, as pyarrow's field; None where it has no name or no type.

        >>> import pyarrow
        >>> (col("a") * 2.0).alias("b").to_field(pyarrow.schema([("a", "int8")]))
        pyarrow.Field<b: double>
        """
        import pyarrow

        kind = self.get_type(input_schema) if self.name is not None else None
        return None if kind is None else pyarrow.field(self.name, kind, nullable=self.nullable(input_schema))

    # -- for the engine

    def is_volatile(self) -> bool:
        """Whether a value depends on the row's place: random numbers, identifiers, row numbers.

        >>> from weir.expressions import random
        >>> (random(seed=1) * 2).is_volatile(), (col("a") * 2).is_volatile()
        (True, False)
        """
        return any(child.is_volatile() for _, child in self._children())

    def is_idempotent(self) -> bool:
        """Whether it gives the same each time, wherever it stands: it has no random numbers, identifiers, row numbers in it.

        >>> from weir.expressions import uuid
        >>> (col("a") * 2).is_idempotent(), uuid().is_idempotent()
        (True, False)
        """
        return not self.is_volatile()

    def expand_projection(self, input_schema: Any) -> list[Expr]:
        """The columns that it stands for: itself. unnest() stands for several.

        >>> [part.describe() for part in col("a").expand_projection(None)]
        ["col('a')"]
        """
        return [self]

    def needs_python(self) -> bool:
        """Whether it has to run in a worker: a function of the user, or one that the engine does not have.

        >>> (col("a") + 1).needs_python(), col("t").dt.strftime("%Z").needs_python()
        (False, True)
        """
        return any(child.needs_python() for _, child in self._children())

    def _compile(self) -> _Str:
        """The engine's text of it; ValueError when it needs Python or stands for several columns."""
        raise ValueError(f"{self._inline()} is not an expression that can be computed")

    def _compile_filter(self) -> _Str:
        """The engine's text of a predicate of which only the rows count where it is true: there false and null are one,
        and plainer text lets reads skip more."""
        return self._compile()

    def _columns(self) -> set[_Str]:
        """Names of the columns that it reads."""
        return set().union(*(child._columns() for _, child in self._children()))

    def _arrow(self) -> Any:
        raise TypeError(f"{self._inline()} has no form in pyarrow's expressions")

    def to_pyarrow(self) -> pyarrow.compute.Expression:
        """The same as an expression of pyarrow, which must be installed; TypeError where pyarrow has none.

        >>> (col("a") > 2).to_pyarrow()
        <pyarrow.compute.Expression (a > 2)>
        """
        return self._arrow()

    # -- operators

    def _binary(self, other: Any, op: Operation) -> Expr:
        return BinaryExpr(op, self, _wrap(other))

    def __add__(self, other: Any) -> Expr:
        return self._binary(other, Operation.ADD)

    def __radd__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.ADD)

    def __sub__(self, other: Any) -> Expr:
        return self._binary(other, Operation.SUB)

    def __rsub__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.SUB)

    def __mul__(self, other: Any) -> Expr:
        return self._binary(other, Operation.MUL)

    def __rmul__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.MUL)

    def __truediv__(self, other: Any) -> Expr:
        return self._binary(other, Operation.DIV)

    def __rtruediv__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.DIV)

    def __floordiv__(self, other: Any) -> Expr:
        return self._binary(other, Operation.FLOORDIV)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.FLOORDIV)

    def __mod__(self, other: Any) -> Expr:
        return self._binary(other, Operation.MOD)

    def __rmod__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.MOD)

    def __neg__(self) -> Expr:
        return self.negate()

    def __gt__(self, other: Any) -> Expr:
        return self._binary(other, Operation.GT)

    def __lt__(self, other: Any) -> Expr:
        return self._binary(other, Operation.LT)

    def __ge__(self, other: Any) -> Expr:
        return self._binary(other, Operation.GE)

    def __le__(self, other: Any) -> Expr:
        return self._binary(other, Operation.LE)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self._binary(other, Operation.EQ)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._binary(other, Operation.NE)

    def __and__(self, other: Any) -> Expr:
        return self._binary(other, Operation.AND)

    def __rand__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.AND)

    def __or__(self, other: Any) -> Expr:
        return self._binary(other, Operation.OR)

    def __ror__(self, other: Any) -> Expr:
        return _wrap(other)._binary(self, Operation.OR)

    def __invert__(self) -> Expr:
        return UnaryExpr(Operation.NOT, self)

    # -- null and membership

    def is_null(self) -> Expr:
        """Whether the value is null; NaN is not.

        >>> print(col("a").is_null().describe())
        col('a').is_null()
        """
        return UnaryExpr(Operation.IS_NULL, self)

    def is_not_null(self) -> Expr:
        """Whether there is a value.

        >>> print(col("a").is_not_null().describe())
        col('a').is_not_null()
        """
        return UnaryExpr(Operation.IS_NOT_NULL, self)

    def is_in(self, values: Iterable[Any] | Expr) -> Expr:
        """Whether the value is one of these. Null is one of them only when None is.

        >>> print(col("a").is_in([1, 2]).describe())
        col('a') in [1, 2]
        """
        return self._binary(values, Operation.IN)

    def not_in(self, values: Iterable[Any] | Expr) -> Expr:
        """Whether the value is none of these: the opposite of ``is_in``, for null too.

        >>> print(col("a").not_in([1, 2]).describe())
        col('a') not in [1, 2]
        """
        return self._binary(values, Operation.NOT_IN)

    def alias(self, name: _Str) -> Expr:
        """Gives the column that comes of it a name.

        >>> print(((col("a") + 1).alias("b")).describe())
        (col('a') + 1).alias('b')
        """
        from weir._expr_nodes import AliasExpr

        return AliasExpr(self.data_type, self, name, False)

    # -- numbers

    def _call(self, function: _Str, *arguments: Any, **options: Any) -> Expr:
        from weir._expr_nodes import CallExpr

        return CallExpr(function, (self, *map(_wrap, arguments)), options)

    def ceil(self) -> Expr:
        """Rounds up to a whole number.

        >>> print(col("a").ceil().describe())
        col('a').ceil()
        """
        return self._call("ceil")

    def floor(self) -> Expr:
        """Rounds down to a whole number.

        >>> print(col("a").floor().describe())
        col('a').floor()
        """
        return self._call("floor")

    def round(self) -> Expr:
        """Rounds to the nearest whole number, halves to the even one.

        >>> print(col("a").round().describe())
        col('a').round()
        """
        return self._call("round")

    def trunc(self) -> Expr:
        """Cuts the fraction off.

        >>> print(col("a").trunc().describe())
        col('a').trunc()
        """
        return self._call("trunc")

    def ln(self) -> Expr:
        """The natural logarithm.

        >>> print(col("a").ln().describe())
        col('a').ln()
        """
        return self._call("ln")

    def log10(self) -> Expr:
        """The logarithm to base 10.

        >>> print(col("a").log10().describe())
        col('a').log10()
        """
        return self._call("log10")

    def log2(self) -> Expr:
        """The logarithm to base 2.

        >>> print(col("a").log2().describe())
        col('a').log2()
        """
        return self._call("log2")

    def exp(self) -> Expr:
        """e to this power.

        >>> print(col("a").exp().describe())
        col('a').exp()
        """
        return self._call("exp")

    def sin(self) -> Expr:
        """The sine of radians.

        >>> print(col("a").sin().describe())
        col('a').sin()
        """
        return self._call("sin")

    def cos(self) -> Expr:
        """The cosine of radians.

        >>> print(col("a").cos().describe())
        col('a').cos()
        """
        return self._call("cos")

    def tan(self) -> Expr:
        """The tangent of radians.

        >>> print(col("a").tan().describe())
        col('a').tan()
        """
        return self._call("tan")

    def asin(self) -> Expr:
        """The angle in radians that has this sine.

        >>> print(col("a").asin().describe())
        col('a').asin()
        """
        return self._call("asin")

    def acos(self) -> Expr:
        """The angle in radians that has this cosine.

        >>> print(col("a").acos().describe())
        col('a').acos()
        """
        return self._call("acos")

    def atan(self) -> Expr:
        """The angle in radians that has this tangent.

        >>> print(col("a").atan().describe())
        col('a').atan()
        """
        return self._call("atan")

    def negate(self) -> Expr:
        """The number with the other sign; an integer that has none is an error.

        >>> print(col("a").negate().describe())
        col('a').negate()
        """
        return self._call("negate")

    def sign(self) -> Expr:
        """-1, 0 or 1.

        >>> print(col("a").sign().describe())
        col('a').sign()
        """
        return self._call("sign")

    def power(self, exponent: Any) -> Expr:
        """This number to a power; integers wrap around.

        >>> print(col("a").power(2).describe())
        col('a').power(2)
        """
        return self._call("power", exponent)

    def abs(self) -> Expr:
        """The number without its sign; an integer that has none is an error.

        >>> print(col("a").abs().describe())
        col('a').abs()
        """
        return self._call("abs")

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
        """The value as one of another type: a text such as ``"int32"``, a pyarrow type, or a DataType. A value that
        would change is an error unless safe is False.

        >>> print(col("a").cast("int32").describe())
        col('a').cast('int32')
        """
        if type(target_type).__module__ == "weir.datatype" and target_type.is_python_type():
            raise TypeError("a Python-type-backed DataType (DataType(int)) requires values to have an Arrow type, and cast has none: "
                            "use one such as DataType.int64() or DataType.string()")
        name = type_name(target_type)
        check_type(name)
        return self._call("cast", type=name, safe=safe)

    # -- namespaces

    @property
    def str(self) -> _StringNamespace:
        """Functions of text.

        >>> print(col("name").str.upper().describe())
        col('name').str.upper()
        """
        from weir._expr_namespaces import _StringNamespace

        return _StringNamespace(self)

    @property
    def list(self) -> _ListNamespace:
        """Functions of lists.

        >>> print(col("items").list[0].describe())
        col('items').list.get(0)
        """
        from weir._expr_namespaces import _ListNamespace

        return _ListNamespace(self)

    @property
    def struct(self) -> _StructNamespace:
        """Fields of structs.

        >>> print(col("user").struct["age"].describe())
        col('user').struct.field('age')
        """
        from weir._expr_namespaces import _StructNamespace

        return _StructNamespace(self)

    @property
    def map(self) -> _MapNamespace:
        """Functions of maps.

        >>> print(col("labels").map.keys().describe())
        col('labels').map.keys()
        """
        from weir._expr_namespaces import _MapNamespace

        return _MapNamespace(self)

    @property
    def dt(self) -> _DatetimeNamespace:
        """Functions of dates and times.

        >>> print(col("when").dt.year().describe())
        col('when').dt.year()
        """
        from weir._expr_namespaces import _DatetimeNamespace

        return _DatetimeNamespace(self)

    @property
    def arr(self) -> _ArrayNamespace:
        """Functions of arrays (tensors).

        >>> print(col("image").arr.to_list().describe())
        col('image').arr.to_list()
        """
        from weir._expr_namespaces import _ArrayNamespace

        return _ArrayNamespace(self)


def _same(a: Any, b: Any) -> bool:
    """Equal in value and type, all the way down; NaN is NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if a is b or (isinstance(a, float) and a != a and b != b):
        return True
    if hasattr(a, "tobytes") and hasattr(a, "dtype"):  # arrays of NumPy
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    return bool(a == b)


def _paren(expr: Expr) -> str:
    return f"({expr._inline()})" if isinstance(expr, BinaryExpr) else expr._inline()


class ColumnExpr(Expr):
    """A column by its name; made by ``col``.

    >>> col("a")
    COL('a')
    """

    __slots__ = ("_name",)

    def __init__(self, _name: str) -> None:
        if not isinstance(_name, str):
            raise TypeError(f"a column is named by a str, not by {type(_name).__qualname__}")
        self._name = _name

    @property
    def name(self) -> str:
        """The column's name.

        >>> col("a").name
        'a'
        """
        return self._name

    def _rename(self, name: str) -> Expr:
        from weir._expr_nodes import AliasExpr

        return AliasExpr(self.data_type, self, name, True)

    def _field(self, input_schema: Any) -> Any:
        at = input_schema.get_field_index(self._name) if input_schema is not None else -1
        return None if at < 0 else input_schema.field(at)

    def get_type(self, input_schema: Any) -> Any:
        """The column's type in the schema, or None.

        >>> import pyarrow
        >>> col("a").get_type(pyarrow.schema([("a", "int8")])), col("b").get_type(pyarrow.schema([]))
        (DataType(int8), None)
        """
        field = self._field(input_schema)
        return None if field is None else field.type

    def nullable(self, input_schema: Any) -> bool:
        """Whether the schema lets it be null.

        >>> import pyarrow
        >>> col("a").nullable(pyarrow.schema([pyarrow.field("a", "int8", nullable=False)]))
        False
        """
        field = self._field(input_schema)
        return True if field is None else bool(field.nullable)

    def to_field(self, input_schema: Any) -> Any:
        """The schema's own field, or None.

        >>> import pyarrow
        >>> col("a").to_field(pyarrow.schema([("a", "int8")]))
        pyarrow.Field<a: int8>
        """
        return self._field(input_schema)

    def _key(self) -> tuple[Any, ...]:
        return (self._name,)

    def _label(self) -> str:
        return f"COL({self._name!r})"

    def _inline(self) -> str:
        return f"col({self._name!r})"

    def _columns(self) -> set[str]:
        return {self._name}

    def _compile(self) -> str:
        return f"col({text_literal(self._name)})"

    def _arrow(self) -> Any:
        import pyarrow.compute

        return pyarrow.compute.field(self._name)


class LiteralExpr(Expr):
    """A value; made by ``lit``.

    >>> lit(5)
    LIT(5)
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def data_type(self) -> DataType:
        """The type of the value.

        >>> lit("x").data_type
        DataType(arrow:string)
        """
        from weir.datatype import DataType

        return DataType.infer_dtype(self.value)

    def nullable(self, input_schema: Any) -> bool:
        """Whether the value is None.

        >>> lit(None).nullable(None)
        True
        """
        return self.value is None

    def needs_python(self) -> bool:
        """The engine has no literals of lists, dicts and arrays.

        >>> lit(5).needs_python(), lit([1, 2]).needs_python()
        (False, True)
        """
        return isinstance(self.value, (list, dict)) or getattr(self.value, "ndim", 0) > 0

    def _key(self) -> tuple[Any, ...]:
        return (self.value,)

    def _label(self) -> str:
        text = repr(self.value)
        return f"LIT({text if len(text) <= 50 else text[:47] + '...'})"

    def _inline(self) -> str:
        text = repr(self.value)
        return text if len(text) <= 20 else text[:17] + "..."

    def _compile(self) -> str:
        return compile_literal(self.value)

    def _arrow(self) -> Any:
        import pyarrow.compute

        return pyarrow.compute.scalar(self.value)


class BinaryExpr(Expr):
    """An operator between two expressions.

    >>> col("x") + 5
    ADD
        ├── left: COL('x')
        └── right: LIT(5)
    """

    __slots__ = ("op", "left", "right")

    def __init__(self, op: Operation, left: Expr, right: Expr) -> None:
        self.op, self.left, self.right = op, left, right

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return ("left", self.left), ("right", self.right)

    def needs_python(self) -> bool:
        """A list of values to look among is none of the engine's literals, and needs not be.

        >>> col("a").is_in([1, 2]).needs_python(), (col("a") == lit([1, 2])).needs_python()
        (False, True)
        """
        is_among = self.op in (Operation.IN, Operation.NOT_IN) and isinstance(self.right, LiteralExpr)
        return self.left.needs_python() if is_among else super().needs_python()

    def _key(self) -> tuple[Any, ...]:
        return (self.op,)

    def _label(self) -> str:
        return self.op.name

    def _inline(self) -> str:
        return f"{_paren(self.left)} {_SYMBOLS[self.op]} {_paren(self.right)}"

    def _chain(self) -> list[Expr]:
        """a & b & c as one list."""
        found: list[Expr] = []
        left: Expr = self
        while isinstance(left, BinaryExpr) and left.op is self.op:
            found.append(left.right)
            left = left.left
        return [left, *reversed(found)]

    def _compile(self) -> str:
        if self.op in (Operation.IN, Operation.NOT_IN):
            return self._compile_in(exact=True)
        if self.op in (Operation.AND, Operation.OR):
            return "(" + f" {self.op.value} ".join(part._compile() for part in self._chain()) + ")"
        left, right = self.left._compile(), self.right._compile()
        rules = frame_rules.get()
        if self.op in _ARITHMETIC and not (rules and self.op in (Operation.DIV, Operation.FLOORDIV, Operation.MOD)):
            return f"{_ARITHMETIC[self.op]}({left}, {right})"
        text = f"({left} {_SYMBOLS[self.op]} {right})"
        if rules == FRAME and self.op in COMPARISONS:
            text = f"coalesce({text}, {self.op is Operation.NE})"
        return text

    def _compile_filter(self) -> str:
        if self.op in (Operation.AND, Operation.OR):
            return "(" + f" {self.op.value} ".join(part._compile_filter() for part in self._chain()) + ")"
        return self._compile_in(exact=False) if self.op is Operation.IN else self._compile()

    def _values(self) -> list[Any]:
        """The list on the right of in."""
        values = self.right.value if isinstance(self.right, LiteralExpr) else self.right
        if hasattr(values, "to_pylist"):
            return list(values.to_pylist())
        if isinstance(values, (str, bytes, Expr)) or not isinstance(values, Iterable):
            raise WrongInTask(f"is_in and not_in take a list of values, not {values!r:.80}")
        return list(values)

    def _compile_in(self, exact: bool) -> str:
        values, item = self._values(), self.left._compile()
        plain = [value for value in values if value is not None and not (isinstance(value, float) and value != value)]
        text = f"({item} in ({', '.join(map(compile_literal, plain))}{',' if len(plain) == 1 else ''}))"
        if exact:
            text = f"coalesce({text}, False)"
        if any(isinstance(value, float) and value != value for value in values):
            text = f"({text} or coalesce(is_nan({item}), False))"
        if any(value is None for value in values):
            text = f"({text} or is_null({item}))" if plain else f"is_null({item})"
        return f"(not {text})" if self.op is Operation.NOT_IN else text

    def _arrow(self) -> Any:
        import operator

        import pyarrow
        import pyarrow.compute as pc

        left = self.left._arrow()
        if self.op in (Operation.IN, Operation.NOT_IN):
            found = left.isin(pyarrow.array(self._values()))
            return found if self.op is Operation.IN else ~found
        right = self.right._arrow()
        if self.op is Operation.FLOORDIV:
            return _arrow_floor(pc, left, right)[0]
        if self.op is Operation.MOD:
            return _arrow_floor(pc, left, right)[1]
        # pyarrow's own + - * look whether the result fits, which the engine does not: they wrap.
        wrapping = {Operation.ADD: pc.add, Operation.SUB: pc.subtract, Operation.MUL: pc.multiply, Operation.DIV: pc.divide}
        if self.op in wrapping:
            return wrapping[self.op](left, right)
        names = {Operation.AND: "and_", Operation.OR: "or_"}
        return getattr(operator, names.get(self.op, self.op.value))(left, right)

    def nullable(self, input_schema: Any) -> bool:
        """Whether either side may be null.

        >>> (lit(1) + 2).nullable(None)
        False
        """
        return self.left.nullable(input_schema) or self.right.nullable(input_schema)


def _arrow_floor(pc: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x // y and x % y, rounded down, which Arrow's division of integers does not: so in float64."""
    whole = pc.floor(pc.divide(x.cast("double"), y))
    return whole, pc.subtract(x, pc.multiply(whole, y))


class UnaryExpr(Expr):
    """not, is_null, is_not_null.

    >>> ~col("a")
    NOT
        └── operand: COL('a')
    """

    __slots__ = ("op", "operand")

    def __init__(self, op: Operation, operand: Expr) -> None:
        self.op, self.operand = op, operand

    @property
    def data_type(self) -> DataType:
        """True or false.

        >>> (~col("a")).data_type
        DataType(arrow:bool)
        """
        from weir.datatype import DataType

        return DataType("bool")

    def nullable(self, input_schema: Any) -> bool:
        """Whether the operand may be null; is_null and is_not_null never are.

        >>> col("a").is_null().nullable(None), (~lit(True)).nullable(None)
        (False, False)
        """
        return self.op is Operation.NOT and self.operand.nullable(input_schema)

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return (("operand", self.operand),)

    def _key(self) -> tuple[Any, ...]:
        return (self.op,)

    def _label(self) -> str:
        return self.op.name

    def _inline(self) -> str:
        return f"~{_paren(self.operand)}" if self.op is Operation.NOT else f"{_paren(self.operand)}.{self.op.value}()"

    def _compile(self) -> str:
        operand = self.operand._compile()
        if self.op is Operation.NOT:
            return f"(not {operand})"
        return f"{'is_null' if self.op is Operation.IS_NULL else 'is_valid'}({operand})"

    def _arrow(self) -> Any:
        operand = self.operand._arrow()
        if self.op is Operation.NOT:
            return ~operand
        return operand.is_null() if self.op is Operation.IS_NULL else operand.is_valid()


def col(name: str) -> ColumnExpr:
    """A column by its name.

    >>> print((col("price") * col("quantity")).describe())
    col('price') * col('quantity')
    """
    return ColumnExpr(name)


def lit(value: Any) -> LiteralExpr:
    """A value, the same for all rows.

    >>> print((col("age") + lit(1)).describe())
    col('age') + 1
    """
    return LiteralExpr(value)
