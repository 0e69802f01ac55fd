"""Expressions over columns, with the names and the rules of Ray Data: ``col``, ``lit``, operators, methods, namespaces.

An expression is an immutable tree that knows nothing of data. ``filter(expr=…)`` and ``with_column`` hand it to the
engine as text (``Expr._compile``) in the functions named ``arrow_…`` of docs/expressions.md, which compute as
pyarrow.compute does. What the engine has no function for, and functions of the user (``udf``), run in workers
(``Expr.needs_python``).

    >>> from weir.expressions import col, lit
    >>> print((col("price") * lit(2)).alias("double"))
    (col('price') * 2).alias('double')
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from weir._expr_literals import quote_name
from weir._expr_tree import (
    AliasExpr,
    BinaryExpr,
    CallExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    Operation,
    StarExpr,
    UnaryExpr,
    WhenExpr,
    _wrap,
    col,
    lit,
    star,
    when,
)

__all__ = [
    "AliasExpr", "BinaryExpr", "CallExpr", "ColumnExpr", "Expr", "LiteralExpr", "Operation", "StarExpr", "UDFExpr",
    "UnaryExpr", "WhenExpr", "col", "download", "lit", "monotonically_increasing_id", "pyarrow_udf", "random", "star",
    "udf", "unnest", "uuid", "when",
]


class UDFExpr(Expr):
    """A function of the user over columns; made by calling what ``udf`` decorates. It runs in workers.

    >>> @udf(return_dtype="int64")
    ... def twice(x):
    ...     return [2 * v for v in x.to_pylist()]
    >>> twice(col("a"))
    UDF(twice)
        └── arg[0]: COL('a')
    """

    __slots__ = ("fn", "args", "kwargs", "return_dtype")

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Expr, ...], kwargs: Mapping[str, Expr], return_dtype: Any
    ) -> None:
        self.fn, self.args, self.kwargs, self.return_dtype = fn, args, dict(kwargs), return_dtype

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return (*((f"arg[{i}]", arg) for i, arg in enumerate(self.args)),
                *((f"kwarg[{key!r}]", arg) for key, arg in self.kwargs.items()))

    def _key(self) -> tuple[Any, ...]:
        return (self.fn, str(self.return_dtype))

    def _fn_name(self) -> str:
        return getattr(self.fn, "__name__", type(self.fn).__name__)

    def _label(self) -> str:
        return f"UDF({self._fn_name()})"

    def _inline(self) -> str:
        words = [arg._inline() for arg in self.args] + [f"{key}={arg._inline()}" for key, arg in self.kwargs.items()]
        return f"{self._fn_name()}({', '.join(words)})"

    def needs_python(self) -> bool:
        """Always.

        >>> udf("int64")(abs)(col("a")).needs_python()
        True
        """
        return True


class _ClassUDF:
    """An instance of the user's class that comes to be at its first call, in the worker, once a process."""

    def __init__(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.cls, self.args, self.kwargs = cls, args, kwargs
        self.__name__ = cls.__name__
        self._instance: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _ClassUDF, (self.cls, self.args, self.kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._instance is None:
            self._instance = self.cls(*self.args, **self.kwargs)
        return self._instance(*args, **kwargs)


def _udf_maker(fn: Callable[..., Any], return_dtype: Any) -> Callable[..., UDFExpr]:
    def make(*args: Any, **kwargs: Any) -> UDFExpr:
        return UDFExpr(fn, tuple(map(_wrap, args)), {key: _wrap(value) for key, value in kwargs.items()}, return_dtype)

    if not isinstance(fn, _ClassUDF):
        functools.update_wrapper(make, fn)
    make._original_fn = fn  # type: ignore[attr-defined]
    return make


def udf(return_dtype: Any) -> Callable[[Any], Any]:
    """Decorates a function (or a class with ``__call__``) so that it can be called with expressions. It gets a pyarrow
    array for each argument, holding many rows, and returns an array, or anything that makes one, of as many values.

    >>> @udf(return_dtype="int64")
    ... def add_one(x):
    ...     import pyarrow.compute as pc
    ...     return pc.add(x, 1)
    >>> print(add_one(col("a")) * 2)
    add_one(col('a')) * 2
    """

    def decorate(fn: Any) -> Any:
        if not isinstance(fn, type):
            return _udf_maker(fn, return_dtype)

        def construct(*args: Any, **kwargs: Any) -> Callable[..., UDFExpr]:
            return _udf_maker(_ClassUDF(fn, args, kwargs), return_dtype)

        functools.update_wrapper(construct, fn, updated=())
        return construct

    return decorate


def pyarrow_udf(return_dtype: Any) -> Callable[[Any], Any]:
    """The same as ``udf``: arguments are always pyarrow arrays.

    >>> print(pyarrow_udf("int64")(abs)(col("a")))
    abs(col('a'))
    """
    return udf(return_dtype)


def _later(name: str) -> NoReturn:
    raise NotImplementedError(f"weir.expressions.{name} is not there yet")


def download(uri_column_name: str, *, filesystem: Any = None) -> Expr:
    """The bytes that a column's addresses lead to. Not there yet.

    >>> download("uri")
    Traceback (most recent call last):
    NotImplementedError: weir.expressions.download is not there yet
    """
    _later("download")


def unnest(expr: Expr) -> Expr:
    """A struct as one column per field. Not there yet.

    >>> unnest(col("s"))
    Traceback (most recent call last):
    NotImplementedError: weir.expressions.unnest is not there yet
    """
    _later("unnest")


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """Random numbers between 0 and 1. Not there yet; ``Dataset.random_sample`` is.

    >>> random()
    Traceback (most recent call last):
    NotImplementedError: weir.expressions.random is not there yet
    """
    _later("random")


def uuid() -> Expr:
    """Random identifiers. Not there yet.

    >>> uuid()
    Traceback (most recent call last):
    NotImplementedError: weir.expressions.uuid is not there yet
    """
    _later("uuid")


def monotonically_increasing_id() -> Expr:
    """Numbers that grow from row to row. Not there yet.

    >>> monotonically_increasing_id()
    Traceback (most recent call last):
    NotImplementedError: weir.expressions.monotonically_increasing_id is not there yet
    """
    _later("monotonically_increasing_id")


def _with_words(columns: Mapping[str, Expr]) -> list[str]:
    """The words of the engine's verb ``with``, one a column."""
    return [f"{quote_name(name)} = {expr._compile()}" for name, expr in columns.items()]
