"""Aggregations for ``Dataset.aggregate``: Count, Sum, Min, Max, Mean, Std, AbsMax, with Ray Data's names and parameters.

    >>> import weir
    >>> from weir.aggregate import Max, Mean
    >>> weir.range(4).aggregate(Max("id"), Mean("id", alias_name="middle"))
    {'max(id)': 3, 'middle': 1.5}
"""

from __future__ import annotations

__all__ = ["AbsMax", "AggregateFn", "Count", "Max", "Mean", "Min", "Std", "Sum"]


class AggregateFn:
    """What the aggregations have in common; those of the user are not there yet.

    >>> Sum("a").name
    'sum(a)'
    """

    _function = ""
    _title = ""

    def __init__(self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        if type(self) is AggregateFn:
            raise NotImplementedError("aggregations of the user's own are not there yet; there are " + ", ".join(__all__))
        if not isinstance(on, str) and not (on is None and self._function == "count"):
            raise ValueError(f"Column to aggregate on has to be provided (got {on})")
        self.on = on
        self.ignore_nulls = bool(ignore_nulls)
        self.name = alias_name or f"{self._title or self._function}({on or ''})"
        self.ddof = 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.on!r})"


class Count(AggregateFn):
    """How many rows; with ignore_nulls=True, how many values of the column.

    >>> import weir
    >>> weir.range(3).aggregate(Count())
    {'count()': 3}
    """

    _function = "count"

    def __init__(self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name)


class Sum(AggregateFn):
    """The sum. Integers of any size, floats without rounding but once at the end.

    >>> import weir
    >>> weir.range(3).aggregate(Sum("id"))
    {'sum(id)': 3}
    """

    _function = "sum"


class Min(AggregateFn):
    """The smallest value; NaN is none.

    >>> import weir
    >>> weir.range(3).aggregate(Min("id"))
    {'min(id)': 0}
    """

    _function = "min"


class Max(AggregateFn):
    """The largest value; NaN is none.

    >>> import weir
    >>> weir.range(3).aggregate(Max("id"))
    {'max(id)': 2}
    """

    _function = "max"


class AbsMax(AggregateFn):
    """The largest value without its sign.

    >>> import weir
    >>> weir.from_items([{"a": -3}, {"a": 2}]).aggregate(AbsMax("a"))
    {'abs_max(a)': 3}
    """

    _function = "absmax"
    _title = "abs_max"


class Mean(AggregateFn):
    """The mean.

    >>> import weir
    >>> weir.range(3).aggregate(Mean("id"))
    {'mean(id)': 1.0}
    """

    _function = "mean"


class Std(AggregateFn):
    """The standard deviation: of a sample (ddof=1) or of all there is (ddof=0).

    >>> import weir
    >>> weir.range(3).aggregate(Std("id"))
    {'std(id)': 1.0}
    """

    _function = "std"

    def __init__(
        self, on: str | None = None, ddof: int = 1, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
            raise ValueError(f"ddof is an integer of at least 0, not {ddof!r}")
        self.ddof = ddof
