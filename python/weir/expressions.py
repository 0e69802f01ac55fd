"""Expressions over columns, with the names and the rules of Ray Data: ``col``, ``lit``, operators, methods, namespaces.

An expression is an immutable tree that knows nothing of data. ``filter(expr=…)`` and ``with_column`` hand it to the
engine as text (``Expr._compile``) in the functions named ``arrow_…`` of docs/expressions.md, which compute as
pyarrow.compute does. What the engine has no function for, and functions of the user (``udf``), run in workers
(``Expr.needs_python``).

    >>> from weir.expressions import col, lit
    >>> print((col("price") * lit(2)).alias("double").describe())
    (col('price') * 2).alias('double')
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weir._expr_nodes import AliasExpr, CallExpr, StarExpr, UDFExpr, WhenExpr, star, when
from weir._expr_places import MonotonicallyIncreasingIdExpr, RandomExpr, UUIDExpr
from weir._expr_tree import BinaryExpr, ColumnExpr, Expr, LiteralExpr, Operation, UnaryExpr, _wrap, col, lit

if TYPE_CHECKING:
    from weir.datatype import DataType

__all__ = [
    "AliasExpr", "BinaryExpr", "CallExpr", "ColumnExpr", "DownloadExpr", "Expr", "LiteralExpr",
    "MonotonicallyIncreasingIdExpr", "Operation", "RandomExpr", "StarExpr", "UDFExpr", "UUIDExpr", "UnaryExpr",
    "UnnestExpr", "WhenExpr", "col", "download", "lit", "monotonically_increasing_id", "pyarrow_udf", "random", "star",
    "udf", "unnest", "uuid", "when",
]

PyArrowComputeUDFExpr = CallExpr
_NAMESPACES = ("_ArrayNamespace", "_DatetimeNamespace", "_ListNamespace", "_MapNamespace", "_StringNamespace",
               "_StructNamespace")


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        from weir import _expr_namespaces

        return getattr(_expr_namespaces, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_rename_expr(expr: Expr) -> bool:
    """Whether it gives a column another name, as rename_columns does.

    >>> is_rename_expr(col("a")._rename("b")), is_rename_expr(col("a").alias("b"))
    (True, False)
    """
    return isinstance(expr, AliasExpr) and expr._is_rename and isinstance(expr.expr, ColumnExpr)


def expand_star_exprs(exprs: list[Expr], input_schema: Any) -> list[Expr]:
    """What a projection is column by column: a star is all columns, a renamed one in the place of its source. The list itself where it has no star, or
    nobody knows the columns.

    >>> import pyarrow
    >>> [part.describe() for part in expand_star_exprs([star(), col("b")._rename("c")], pyarrow.schema([("a", "int8"), ("b", "int8")]))]
    ["col('a')", "col('b').alias('c')"]
    """
    if input_schema is None or not any(isinstance(part, StarExpr) for part in exprs):
        return exprs
    renamed: dict[Any, Expr] = {part.expr.name: part for part in exprs if isinstance(part, AliasExpr) and is_rename_expr(part) and part.expr.name in input_schema.names}
    expanded: list[Expr] = []
    for part in exprs:
        if isinstance(part, StarExpr):
            expanded += [renamed.get(name, ColumnExpr(name)) for name in input_schema.names]
        elif not any(part is moved for moved in renamed.values()):
            expanded.append(part)
    return expanded


def exprlist_to_fields(exprs: list[Expr], input_schema: Any) -> list[Any] | None:
    """The columns that a projection gives, as pyarrow's fields; a later one takes the place of an earlier one of its name. None where the type of
    one is not known.

    >>> import pyarrow
    >>> exprlist_to_fields([star(), (col("a") + 1.5).alias("a")], pyarrow.schema([("a", "int64")]))
    [pyarrow.Field<a: double>]
    """
    fields: dict[str, Any] = {}
    for part in expand_star_exprs(exprs, input_schema):
        field = part.to_field(input_schema)
        if field is None:
            return None
        fields[field.name] = field
    return list(fields.values())


class DownloadExpr(Expr):
    """The bytes that a column's addresses lead to; made by ``download``.

    >>> download("uri")
    DOWNLOAD('uri')
    """

    __slots__ = ("uri_column_name", "filesystem")

    def __init__(self, uri_column_name: str, filesystem: Any = None) -> None:
        self.uri_column_name, self.filesystem = uri_column_name, filesystem

    @property
    def data_type(self) -> DataType:
        """Bytes.

        >>> download("uri").data_type
        DataType(arrow:binary)
        """
        from weir.datatype import DataType

        return DataType("binary")

    def _key(self) -> tuple[Any, ...]:
        return (self.uri_column_name,)

    def _label(self) -> str:
        return f"DOWNLOAD({self.uri_column_name!r})"

    def _inline(self) -> str:
        return f"download({self.uri_column_name!r})"

    def _columns(self) -> set[str]:
        return {self.uri_column_name}

    def needs_python(self) -> bool:
        """Always: files are read in workers.

        >>> download("uri").needs_python()
        True
        """
        return True


class UnnestExpr(Expr):
    """A struct as one column a field; made by ``unnest``.

    >>> unnest(col("s"))
    UNNEST
        └── COL('s')
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def _children(self) -> tuple[tuple[str, Expr], ...]:
        return (("", self.expr),)

    def _key(self) -> tuple[Any, ...]:
        return ()

    def _label(self) -> str:
        return "UNNEST"

    def _inline(self) -> str:
        return f"unnest({self.expr._inline()})"

    def alias(self, name: str) -> Expr:
        """There is none: the fields name the columns.

        >>> unnest(col("s")).alias("x")
        Traceback (most recent call last):
        TypeError: unnest() cannot be aliased: its columns are named by the struct's fields. Give it to with_columns as it is.
        """
        raise TypeError("unnest() cannot be aliased: its columns are named by the struct's fields. "
                        "Give it to with_columns as it is.")

    def expand_projection(self, input_schema: Any) -> list[Expr]:
        """One expression a field, named by it; the struct's type comes from the expression or the pyarrow schema.

        >>> import pyarrow
        >>> kind = pyarrow.struct([("x", pyarrow.int8()), ("y", pyarrow.string())])
        >>> [part.name for part in unnest(col("s")).expand_projection(pyarrow.schema([("s", kind)]))]
        ['x', 'y']
        """
        import collections

        kind = self.expr.get_type(input_schema)
        if kind is None:
            raise ValueError("unnest() needs to know the struct's type when the plan is made, and it is not known: give it a "
                             "function that says it (@udf(return_dtype=DataType.struct(...))), or a column of a dataset whose "
                             "schema is known (behind map or map_batches it is not; materialize() makes it known)")
        if not str(kind).startswith("struct<"):
            raise TypeError(f"unnest() is for structs, and {self.expr._inline()} is {kind}")
        names = [kind[i].name for i in range(kind.num_fields)]
        twice = sorted(name for name, count in collections.Counter(names).items() if count > 1)
        if twice:
            raise ValueError(f"unnest() cannot make columns of a struct that has fields twice: {twice}")
        return [self.expr.struct.field_by_index(i).alias(name) for i, name in enumerate(names)]


class _ClassUDF:
    """An instance of the user's class that comes to be at its first call, in the worker, once a process."""

    def __init__(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.cls, self.args, self.kwargs = cls, args, kwargs
        self.__name__ = cls.__name__
        self.callable_class_spec = (cls, args, kwargs)
        self._instance: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _ClassUDF, (self.cls, self.args, self.kwargs)

    def init(self) -> None:
        """Makes the object, once a process."""
        if self._instance is None:
            self._instance = self.cls(*self.args, **self.kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.init()
        result = self._instance(*args, **kwargs)
        if hasattr(result, "__await__") or hasattr(result, "__anext__"):
            import asyncio

            result = asyncio.run(_awaited(result))
        return result


async def _awaited(value: Any) -> Any:
    """What was awaited; the last thing that an async generator yields."""
    if not hasattr(value, "__anext__"):
        return await value
    last = None
    async for last in value:
        pass
    return last


def _udf_maker(fn: Callable[..., Any], return_dtype: Any) -> Callable[..., UDFExpr]:
    def make(*args: Any, **kwargs: Any) -> UDFExpr:
        return UDFExpr(fn, tuple(map(_wrap, args)), {key: _wrap(value) for key, value in kwargs.items()}, return_dtype)

    if not isinstance(fn, _ClassUDF):
        functools.update_wrapper(make, fn)
    make._original_fn = fn  # type: ignore[attr-defined]
    return make


def udf(return_dtype: Any) -> Callable[[Any], Any]:
    """Decorates a function (or a class with ``__call__``) so that it can be called with expressions. It gets a
    pyarrow.ChunkedArray for each argument, holding many rows, and returns an array, or anything that makes one, of as many values.

    >>> @udf(return_dtype="int64")
    ... def add_one(x):
    ...     import pyarrow.compute as pc
    ...     return pc.add(x, 1)
    >>> print((add_one(col("a")) * 2).describe())
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
    """The same as ``udf``: arguments are always pyarrow.ChunkedArrays.

    >>> print(pyarrow_udf("int64")(abs)(col("a")).describe())
    abs(col('a'))
    """
    return udf(return_dtype)


def download(uri_column_name: str, *, filesystem: Any = None) -> DownloadExpr:
    """The bytes of the files that a column names: paths and file:// addresses, or whatever a pyarrow ``filesystem`` opens. Files
    are read by several threads; null where there is none or it cannot be read.

    >>> import tempfile, weir
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"abc")
    ...     file.flush()
    ...     rows = weir.from_items([{"uri": file.name}, {"uri": "/no/such/file"}]).with_column("bytes", download("uri"))
    ...     rows.select_columns(["bytes"]).take()
    [{'bytes': b'abc'}, {'bytes': None}]
    """
    if not isinstance(uri_column_name, str):
        raise TypeError(f"download takes the name of a column (uri_column_name), not {uri_column_name!r}")
    return DownloadExpr(uri_column_name, filesystem)


def unnest(expr: Expr) -> UnnestExpr:
    """A struct as one column per field, for ``with_columns``.

    >>> import weir
    >>> ds = weir.from_items([{"s": {"x": 1, "y": "a"}}])
    >>> ds.with_columns(unnest(col("s"))).take()
    [{'s': {'x': 1, 'y': 'a'}, 'x': 1, 'y': 'a'}]
    """
    if isinstance(expr, UnnestExpr):
        raise TypeError("unnest() cannot be nested inside another unnest().")
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest() expects an expression, got {type(expr).__name__}.")
    return UnnestExpr(expr)


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> RandomExpr:
    """Random numbers between 0 and 1. With a seed they are the same whatever number of workers there is; and the same in every
    run with ``reseed_after_execution=False``, else those of the run's number.

    >>> import weir
    >>> ds = weir.range(3).with_column("r", random(seed=1, reseed_after_execution=False))
    >>> ds.take() == ds.take()
    True
    """
    return RandomExpr(seed, reseed_after_execution)


def uuid() -> UUIDExpr:
    """A random UUID (version 4) for each row, as text.

    >>> import weir
    >>> [len(row["u"]) for row in weir.range(2).with_column("u", uuid()).take()]
    [36, 36]
    """
    return UUIDExpr()


def monotonically_increasing_id() -> MonotonicallyIncreasingIdExpr:
    """Numbers that grow from row to row: the block's in the upper 31 bits, the row's in it in the lower 33.

    >>> import weir
    >>> weir.range(2).with_column("n", monotonically_increasing_id()).take()
    [{'id': 0, 'n': 0}, {'id': 1, 'n': 1}]
    """
    return MonotonicallyIncreasingIdExpr()
