"""More nodes of expressions: names, functions, choices, all columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weir._expr_tree import Expr, LiteralExpr, _paren, _wrap, col, lit
from weir._mistakes import WrongInTask

if TYPE_CHECKING:
    from weir.datatype import DataType

__all__ = ["AliasExpr", "CallExpr", "StarExpr", "UDFExpr", "WhenExpr", "col", "lit", "star", "when"]  # col, lit: for examples


class AliasExpr(Expr):
    """An expression with a name; made by ``Expr.alias``.

    >>> (col("x") * 2).alias("z")
    ALIAS('z')
        └── MUL
            ├── left: COL('x')
            └── right: LIT(2)
    """

    __slots__ = ("_data_type", "expr", "_name", "_is_rename")

    def __init__(self, data_type: Any, expr: Expr, _name: str, _is_rename: bool = False) -> None:
        if not isinstance(_name, str):
            raise TypeError(f"an alias is a str, not {type(_name).__qualname__}")
        self._data_type, self._is_rename = data_type, _is_rename
        self.expr: Expr = expr.expr if isinstance(expr, AliasExpr) else expr
        self._name = _name

    @property
    def data_type(self) -> DataType:
        """That of what it names.

        >>> lit(1).alias("b").data_type
        DataType(arrow:int64)
        """
        return self.expr.data_type

    @property
    def name(self) -> str:
        """The name.

        >>> col("a").alias("b").name
        'b'
        """
        return self._name

    def alias(self, name: str) -> Expr:
        """Another name instead of this one.

        >>> print(col("a").alias("b").alias("c").describe())
        col('a').alias('c')
        """
        return AliasExpr(None, self.expr, name, self._is_rename)

    def _unalias(self) -> Expr:
        return self.expr

    def get_type(self, input_schema: Any) -> Any:
        """That of what it names.

        >>> import pyarrow
        >>> col("a").alias("b").get_type(pyarrow.schema([("a", "int8")]))
        DataType(int8)
        """
        return self.expr.get_type(input_schema)

    def nullable(self, input_schema: Any) -> bool:
        """That of what it names.

        >>> lit(1).alias("b").nullable(None)
        False
        """
        return self.expr.nullable(input_schema)

    def to_field(self, input_schema: Any) -> Any:
        """The field of what it names, under its own name.

        >>> import pyarrow
        >>> col("a").alias("b").to_field(pyarrow.schema([("a", "int8")]))
        pyarrow.Field<b: int8>
        """
        inner = self.expr.to_field(input_schema)
        return super().to_field(input_schema) if inner is None else inner.with_name(self._name)

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return (("", self.expr),)

    def _key(self) -> tuple[Any, ...]:
        return (self._name, self._is_rename)

    def _label(self) -> str:
        return f"ALIAS({self._name!r}){' [rename]' if self._is_rename else ''}"

    def _inline(self) -> str:
        return f"{_paren(self.expr)}.alias({self._name!r})"

    def _compile(self) -> str:
        return self.expr._compile()

    def _compile_filter(self) -> str:
        return self.expr._compile_filter()

    def _arrow(self) -> Any:
        return self.expr._arrow()


class UDFExpr(Expr):
    """A function over columns: one of the user, made by calling what ``udf`` decorates, which runs in workers; or (CallExpr) one
    that the engine has.

    >>> from weir.expressions import udf
    >>> @udf(return_dtype="int64")
    ... def twice(x):
    ...     return [2 * v for v in x.to_pylist()]
    >>> twice(col("a"))
    UDF(twice)
        └── arg[0]: COL('a')
    """

    __slots__ = ("fn", "args", "kwargs", "_data_type")

    def __init__(self, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Expr], data_type: Any = None) -> None:
        self.fn, self.args, self.kwargs, self._data_type = fn, list(args), dict(kwargs), data_type

    @property
    def data_type(self) -> DataType:
        """What the function was said to return.

        >>> from weir.expressions import udf
        >>> udf("int64")(abs)(col("a")).data_type
        DataType(arrow:int64)
        """
        from weir.datatype import DataType

        return DataType(object if self._data_type is None else self._data_type)

    @property
    def return_dtype(self) -> Any:
        """As ``udf`` was told it.

        >>> from weir.expressions import udf
        >>> udf("int64")(abs)(col("a")).return_dtype
        'int64'
        """
        return self._data_type

    @property
    def callable_class_spec(self) -> Any:
        """The class and its arguments, where the function is an object of a class that workers make; else None.

        >>> from weir.expressions import udf
        >>> udf("int64")(abs)(col("a")).callable_class_spec
        """
        return getattr(self.fn, "callable_class_spec", None)

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return (*((f"arg[{i}]", arg) for i, arg in enumerate(self.args)),
                *((f"kwarg[{key!r}]", arg) for key, arg in self.kwargs.items()))

    def _key(self) -> tuple[Any, ...]:
        spec = self.callable_class_spec
        return (self.fn if spec is None else spec, str(self._data_type))

    def _fn_name(self) -> str:
        return getattr(self.fn, "__name__", type(self.fn).__name__)

    def _label(self) -> str:
        return f"UDF({self._fn_name()})"

    def _inline(self) -> str:
        words = [arg._inline() for arg in self.args] + [f"{key}={arg._inline()}" for key, arg in self.kwargs.items()]
        return f"{self._fn_name()}({', '.join(words)})"

    def needs_python(self) -> bool:
        """Always, of a function of the user.

        >>> from weir.expressions import udf
        >>> udf("int64")(abs)(col("a")).needs_python()
        True
        """
        return True


# Names that Ray Data shows for functions of its own.
_LABELS = {"cast": "cast_udf", "list.sort": "_list_sort", "list.flatten": "_list_flatten", "map.keys": "_project_map",
           "map.values": "_project_map", "arr.to_list": "_to_list"}


class CallExpr(UDFExpr):
    """A function of the engine, by its name; made by methods and namespaces.

    >>> print(col("s").str.upper().describe())
    col('s').str.upper()
    """

    __slots__ = ("function", "options")

    def __init__(self, function: str, args: Iterable[Expr], options: Mapping[str, Any]) -> None:
        super().__init__(self._run, args, {})
        self.function, self.options = function, dict(options)

    def _run(self, *values: Any) -> Any:
        """The function over arrays, with pyarrow."""
        import pyarrow.compute as pc

        from weir._expr_functions import FUNCTIONS

        return FUNCTIONS[self.function].arrow(pc, list(values), self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        return CallExpr, (self.function, tuple(self.args), self.options)

    @property
    def data_type(self) -> DataType:
        """What the function returns, where that is the same for all columns.

        >>> col("s").str.upper().data_type, col("s").str.len().data_type, lit(1.5).ceil().data_type
        (DataType(arrow:string), DataType(arrow:int32), DataType(arrow:double))
        """
        from weir._expr_types import call_type

        return call_type(self)

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return tuple((f"arg[{i}]", arg) for i, arg in enumerate(self.args))

    def _key(self) -> tuple[Any, ...]:
        return (self.function, self.options)

    def _label(self) -> str:
        return f"UDF({_LABELS.get(self.function, 'udf')})"

    def _inline(self) -> str:
        # Options that were left alone are not shown, nor the name of the first.
        words = [arg._inline() for arg in self.args[1:]]
        shown = [pair for pair in self.options.items() if pair[1] is not None and pair != ("safe", True)]
        words += [(f"{value!r}" if i == 0 else f"{key}={value!r}") for i, (key, value) in enumerate(shown)]
        return f"{_paren(self.args[0])}.{self.function}({', '.join(words)})"

    def _text(self) -> str | None:
        from weir._expr_functions import FUNCTIONS

        make = FUNCTIONS[self.function].text
        args = [arg._compile() for arg in self.args]
        try:
            return make(args, self.options) if make else None
        except (TypeError, ValueError, AttributeError) as error:
            options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
            raise WrongInTask(f"{self.function}({options}): an argument is not what it takes: {error}") from error

    def needs_python(self) -> bool:
        """Whether an argument does, or the engine does not have the function with these options.

        >>> col("t").dt.strftime("%Y").needs_python(), col("t").dt.strftime("%Z").needs_python()
        (False, True)
        """
        return Expr.needs_python(self) or self._text() is None

    def _compile(self) -> str:
        text = None if Expr.needs_python(self) else self._text()
        if text is None:
            raise ValueError(f"{self._inline()} needs Python")
        return text

    def _arrow(self) -> Any:
        import pyarrow.compute as pc

        from weir._expr_functions import FUNCTIONS

        function = FUNCTIONS[self.function]
        if not function.is_expression:
            raise TypeError(f"{self._inline()} has no form in pyarrow's expressions")
        return function.arrow(pc, [arg._arrow() for arg in self.args], self.options)


class WhenExpr(Expr):
    """The value that belongs to the first condition that is true; made by ``when``.

    >>> print((when(col("a") > 0, "up").otherwise("down")).describe())
    when(col('a') > 0, 'up').otherwise('down')
    """

    __slots__ = ("branches", "default")

    def __init__(self, branches: tuple[tuple[Expr, Expr], ...], default: Expr) -> None:
        self.branches, self.default = branches, default

    def when(self, condition: Expr, value: Any) -> WhenExpr:
        """A further condition, looked at where those before are not true.

        >>> print((when(col("a") > 9, "high").when(col("a") > 3, "middle").otherwise("low")).describe())
        when(col('a') > 9, 'high').when(col('a') > 3, 'middle').otherwise('low')
        """
        return WhenExpr((*self.branches, (_wrap(condition), _wrap(value))), self.default)

    def otherwise(self, value: Any) -> WhenExpr:
        """The value where no condition is true; without it that is null.

        >>> print((when(col("a") > 0, col("a")).otherwise(0)).describe())
        when(col('a') > 0, col('a')).otherwise(0)
        """
        return WhenExpr(self.branches, _wrap(value))

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        pairs = [(f"{label}[{i}]", part) for i, branch in enumerate(self.branches)
                 for label, part in zip(("when", "then"), branch, strict=True)]
        return (*pairs, ("otherwise", self.default))

    def _key(self) -> tuple[Any, ...]:
        return ()

    def _label(self) -> str:
        return "WHEN"

    def _inline(self) -> str:
        whens = ".".join(f"when({condition._inline()}, {value._inline()})" for condition, value in self.branches)
        if isinstance(self.default, LiteralExpr) and self.default.value is None:
            return whens
        return f"{whens}.otherwise({self.default._inline()})"

    def _compile(self) -> str:
        text = self.default._compile()
        for condition, value in reversed(self.branches):
            text = f"if_else(coalesce({condition._compile()}, False), {value._compile()}, {text})"
        return text

    def _arrow(self) -> Any:
        import pyarrow.compute as pc

        value = self.default._arrow()
        for condition, then in reversed(self.branches):
            value = pc.if_else(pc.coalesce(condition._arrow(), pc.scalar(False)), then._arrow(), value)
        return value


class StarExpr(Expr):
    """All columns; made by ``star``.

    >>> star()
    COL(*)
    """

    __slots__ = ()

    def _key(self) -> tuple[Any, ...]:
        return ()

    def _label(self) -> str:
        return "COL(*)"

    def _inline(self) -> str:
        return "col(*)"


def when(condition: Expr, value: Any) -> WhenExpr:
    """``value`` where the condition is true; add further ``when`` and an ``otherwise``.

    >>> print(when(col("a").is_null(), "none").otherwise("some").describe())
    when(col('a').is_null(), 'none').otherwise('some')
    """
    return WhenExpr(((_wrap(condition), _wrap(value)),), LiteralExpr(None))


def star() -> StarExpr:
    """All columns of the input.

    >>> print(star().describe())
    col(*)
    """
    return StarExpr()
