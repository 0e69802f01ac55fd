"""GroupedData: rows by groups, which Dataset.groupby makes. Nothing runs here.

>>> import weir
>>> ds = weir.from_items([{"k": "a", "x": 1}, {"k": "b", "x": 2}, {"k": "a", "x": 3}])
>>> ds.groupby("k").sum("x").sort("k").take_all()
[{'k': 'a', 'sum(x)': 4}, {'k': 'b', 'sum(x)': 2}]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from weir._exchange import InKeyOrder, check_columns
from weir._mistakes import WrongArgument, WrongObject
from weir.aggregate import AggregateFn, Count, Max, Mean, Min, Std, Sum

if TYPE_CHECKING:
    from weir.dataset import Dataset
    from weir.expressions import Expr

CDS_API_GROUP = "Computations or Descriptive Stats"
FA_API_GROUP = "Function Application"
EXPRESSION_API_GROUP = "Expressions"


class GroupedData:
    """Rows that are grouped by the values of columns. Null and NaN are groups of their own; in which order groups come is not said,
    but with a `shuffle_strategy` of the context that sorts.

    >>> import weir
    >>> weir.from_items([{"k": x % 2} for x in range(6)]).groupby("k").count().sort("k").take_all()
    [{'k': 0, 'count()': 3}, {'k': 1, 'count()': 3}]
    """

    def __init__(self, dataset: Dataset, key: str | list[str] | None, *, num_partitions: int | None) -> None:
        self._dataset = dataset
        self._key = key
        self._num_partitions = num_partitions

    if not TYPE_CHECKING:  # else every name would be one

        def __getattr__(self, name):
            from weir import _other_words

            raise _other_words.lacking(self, name, _other_words.OF_GROUPS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dataset={self._dataset}, key={self._key!r})"

    def _keys(self) -> list[str]:
        return [] if self._key is None else [self._key] if isinstance(self._key, str) else list(self._key)

    def aggregate(self, *aggs: AggregateFn) -> Dataset:
        """A row for each group: its key, and an aggregation a column. Without a key, one row.

        >>> import weir
        >>> from weir.aggregate import Mean, Sum
        >>> ds = weir.from_items([{"a": 1, "b": 1, "x": 4}, {"a": 1, "b": 1, "x": 6}])
        >>> ds.groupby(["a", "b"]).aggregate(Sum("x"), Mean("x", alias_name="m")).take_all()
        [{'a': 1, 'b': 1, 'sum(x)': 10, 'm': 5.0}]
        """
        from weir import _grouped

        for agg in aggs:
            if not isinstance(agg, AggregateFn):
                raise WrongObject(f"aggregate takes aggregations such as weir.aggregate.Sum, not {agg!r}")
        if not aggs:
            raise ValueError("Aggregate requires at least one aggregation")
        check_columns(self._dataset, _grouped.needed(aggs))
        keys = self._keys()
        made = _grouped.grouped(self._dataset._op, keys, aggs, self._num_partitions)
        return self._dataset._then(InKeyOrder(made, keys) if keys and self._dataset.context.shuffle_strategy.sorts else made)

    def _aggregate_on(self, kind: Any, on: str | list[str] | None, **options: Any) -> Dataset:
        if on is None:
            keys = self._keys()
            on = [name for name in self._dataset.columns() or [] if name not in keys]
        if not isinstance(on, (str, list, tuple)):
            raise ValueError(f"`on` is a column, a list of columns or None, not {on!r}")
        columns = [on] if isinstance(on, str) else list(on)
        if not columns:
            raise ValueError("At least 1 column to aggregate on has to be provided")
        return self.aggregate(*(kind(name, **options) for name in columns))

    def map_groups(
        self,
        fn: Callable[..., Any] | type,
        *,
        zero_copy_batch: bool = True,
        compute: Any = None,
        batch_format: str | None = "default",
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Calls a function for each group, with all of its rows as one batch. What it returns, or yields, are batches as those of
        map_batches. A group has to fit into memory; where there is an aggregation for the purpose, it is much faster.

        Args:
            fn: the function, or a class, of which each worker has one object.
            batch_format: "pandas", "numpy", "pyarrow", "torch" or None; "default" is "pandas" where pandas and pyarrow are
                installed, as it is in Ray Data, else "numpy".
            zero_copy_batch: batches are read-only views of shared memory; False gives copies that may be written to.

        >>> import weir
        >>> ds = weir.from_items([{"k": "a", "x": 1}, {"k": "a", "x": 3}, {"k": "b", "x": 5}])
        >>> shares = ds.groupby("k").map_groups(lambda g: {"k": g["k"], "share": g["x"] / g["x"].sum()}, batch_format="numpy")
        >>> shares.take_all()
        [{'k': 'a', 'share': 0.25}, {'k': 'a', 'share': 0.75}, {'k': 'b', 'share': 1.0}]
        """
        from weir import _grouped

        if not callable(fn):
            raise WrongObject(f"map_groups takes a function or a class (fn), not {fn!r}")
        keys = self._keys()
        ds = self._dataset._then(_grouped.Groups(self._dataset._op, keys, partitions=self._num_partitions))
        arguments = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory, "ray_remote_args_fn": ray_remote_args_fn}
        return ds._call(
            "map_batches",
            fn,
            compute,
            concurrency,
            arguments,
            ray_remote_args,
            batch_format=_default_format() if batch_format == "default" else batch_format,
            zero_copy_batch=zero_copy_batch,
            fn_args=None if fn_args is None else tuple(fn_args),
            fn_kwargs=fn_kwargs,
            fn_constructor_args=None if fn_constructor_args is None else tuple(fn_constructor_args),
            fn_constructor_kwargs=fn_constructor_kwargs,
            keys=keys,
        )

    def with_column(self, column_name: str, expr: Expr, **ray_remote_args: Any) -> Dataset:
        """Adds a column to the rows of each group. A function in the expression (a udf) sees one group at a time.

        >>> import weir
        >>> ds = weir.from_items([{"k": 1, "x": 1}, {"k": 1, "x": 2}])
        >>> ds.groupby("k").with_column("twice", weir.col("x") * 2).take_all()
        [{'k': 1, 'x': 1, 'twice': 2}, {'k': 1, 'x': 2, 'twice': 4}]
        """
        from weir.expressions import DownloadExpr, Expr

        if not isinstance(column_name, str) or not column_name:
            raise ValueError(f"column_name must be a non-empty string, got: {column_name!r}")
        if not isinstance(expr, Expr):
            raise WrongObject("expr must be an expression, such as weir.col('a') + 1")
        if isinstance(expr, DownloadExpr):
            raise TypeError("GroupedData.with_column does not support download expressions.")
        if not expr.needs_python():  # of each row by itself: groups make no difference
            return self._dataset.with_column(column_name, expr, **ray_remote_args)
        from weir import _plan
        from weir._expr_python import Actor, Projector, has_class, split_places

        drawn, columns, _ = split_places({column_name: expr}, None)
        groups = self
        if drawn:  # what the engine alone can draw: a column before, which goes away after
            words = [f"{_plan.quoted(name)}={one._compile()}" for name, one in drawn.items()]
            ds = self._dataset._then(_plan.Step(self._dataset._op, "with", words))
            groups = GroupedData(ds, self._key, num_partitions=self._num_partitions)
        made = Projector(columns, tuple(drawn))
        if any(has_class(one) for one in columns.values()):
            return groups.map_groups(Actor, fn_constructor_args=(made,), batch_format="pyarrow", **ray_remote_args)
        return groups.map_groups(made, batch_format="pyarrow", **ray_remote_args)

    def count(self) -> Dataset:
        """How many rows each group has.

        >>> import weir
        >>> weir.from_items([{"k": 1}, {"k": 1}]).groupby("k").count().take_all()
        [{'k': 1, 'count()': 2}]
        """
        return self.aggregate(Count())

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The sum of a column, of several, or of all but the keys.

        Args:
            on: a column's name, a list of names, or None for all but the keys.
            ignore_nulls: False: one null makes its group's result None. Of a group without values it is None in either case.

        >>> import weir
        >>> weir.from_items([{"k": 1, "x": 1}, {"k": 1, "x": 2}]).groupby("k").sum("x").take_all()
        [{'k': 1, 'sum(x)': 3}]
        """
        return self._aggregate_on(Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The smallest value; NaN only where there is nothing else. `on` and `ignore_nulls`: as for sum().

        >>> import weir
        >>> weir.from_items([{"k": 1, "x": 1}, {"k": 1, "x": 2}]).groupby("k").min("x").take_all()
        [{'k': 1, 'min(x)': 1}]
        """
        return self._aggregate_on(Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The largest value; NaN only where there is nothing else. `on` and `ignore_nulls`: as for sum().

        >>> import weir
        >>> weir.from_items([{"k": 1, "x": 1}, {"k": 1, "x": 2}]).groupby("k").max("x").take_all()
        [{'k': 1, 'max(x)': 2}]
        """
        return self._aggregate_on(Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """The mean. `on` and `ignore_nulls`: as for sum().

        >>> import weir
        >>> weir.from_items([{"k": 1, "x": 1}, {"k": 1, "x": 2}]).groupby("k").mean(["x"]).take_all()
        [{'k': 1, 'mean(x)': 1.5}]
        """
        return self._aggregate_on(Mean, on, ignore_nulls=ignore_nulls)

    def std(self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True) -> Dataset:
        """The standard deviation, of a sample unless ddof=0; of one value NaN. `on` and `ignore_nulls`: as for sum().

        >>> import weir
        >>> weir.from_items([{"k": 1, "x": 1}, {"k": 1, "x": 3}]).groupby("k").std("x", ddof=0).take_all()
        [{'k': 1, 'std(x)': 1.0}]
        """
        return self._aggregate_on(Std, on, ignore_nulls=ignore_nulls, ddof=ddof)


GroupedDataset = GroupedData  # its older name


def _default_format() -> str:
    from importlib.util import find_spec

    return "pandas" if find_spec("pandas") is not None and find_spec("pyarrow") is not None else "numpy"


def grouped_by(ds: Dataset, key: str | list[str] | None, num_partitions: int | None) -> GroupedData:
    """What Dataset.groupby makes.

    >>> import weir
    >>> grouped_by(weir.range(4), "id", None).count().count()
    4
    """
    if key is not None:
        if not isinstance(key, str) and not (isinstance(key, list) and all(isinstance(name, str) for name in key)):
            raise ValueError(f"Key must be a string or a list of strings, but got {key}.")
        check_columns(ds, [key] if isinstance(key, str) else key)
    if num_partitions is not None and (isinstance(num_partitions, bool) or not hasattr(num_partitions, "__index__")):
        raise WrongArgument(f"`num_partitions` must be a positive integer, not {num_partitions!r}")
    if num_partitions is not None and num_partitions <= 0:
        raise ValueError("`num_partitions` must be a positive integer")
    return GroupedData(ds, key, num_partitions=num_partitions)
