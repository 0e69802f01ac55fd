"""Aggregations for ``Dataset.aggregate`` and ``GroupedData.aggregate``, with Ray Data's names and parameters, and the classes from
which users make their own.

    >>> import weir
    >>> from weir.aggregate import Max, Mean
    >>> weir.range(4).aggregate(Max("id"), Mean("id", alias_name="middle"))
    {'max(id)': 3, 'middle': 1.5}

Those of weir run in the engine (`_native` is their word there). One of the user's own in the list, or a class that overrides a
method of them, makes all of the list run as Python in workers: for that, each has aggregate_block, combine and finalize, too.
"""

from __future__ import annotations

import abc
import enum
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir._expr_literals import quote_name
from weir._mistakes import WrongArgument

if TYPE_CHECKING:
    import pyarrow

    from weir.block import Block, BlockColumn

__all__ = [
    "AbsMax", "AggregateFn", "AggregateFnV2", "ApproximateQuantile", "ApproximateTopK", "AsList", "Count", "CountDistinct", "Max",
    "Mean", "Min", "MissingValuePercentage", "Quantile", "Std", "Sum", "Unique", "ValueCounter", "VectorizedAggregateFnV2",
    "ZeroPercentage",
]

AccumulatorType = TypeVar("AccumulatorType")
AggOutputType = TypeVar("AggOutputType")
SupportsRichComparisonType = TypeVar("SupportsRichComparisonType")


def is_null(value: Any) -> bool:
    """None, NaN and pandas' NaT and NA.

    >>> is_null(None), is_null(math.nan), is_null(0), is_null([])
    (True, True, False, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return (isinstance(value, float) or type(value).__module__ == "numpy") and getattr(value, "shape", ()) == () and bool(value != value)


# ---- those of users ----


class AggregateFn:
    """An aggregation of one's own, by functions. Where speed matters, AggregateFnV2 takes blocks.

    Args:
        init: what an aggregate begins with; is given the group's key (a tuple for several columns, or none).
        merge: of two aggregates of the same group, one.
        name: of the column with the results.
        accumulate_row: of an aggregate and a row, the next one; or
        accumulate_block: of an aggregate and a block.
        finalize: of the aggregate, the result.

    >>> import weir
    >>> squares = AggregateFn(init=lambda key: 0, accumulate_row=lambda a, row: a + row["id"] ** 2, merge=lambda a, b: a + b, name="squares")
    >>> weir.range(4).aggregate(squares)
    {'squares': 14}
    """

    def __init__(
        self,
        init: Callable[[Any], Any],
        merge: Callable[[Any, Any], Any],
        name: str,
        accumulate_row: Callable[[Any, dict[str, Any]], Any] | None = None,
        accumulate_block: Callable[[Any, Block], Any] | None = None,
        finalize: Callable[[Any], Any] | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("Exactly one of accumulate_row or accumulate_block must be provided.")
        if not isinstance(name, str):
            raise TypeError("`name` must be provided.")
        self.name = name
        self.init = init
        self.merge = merge
        self.accumulate_block = accumulate_block if accumulate_block is not None else _by_rows(accumulate_row)
        self.finalize = finalize if finalize is not None else _same

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        """The result's name and type, where they are known before a run; None: they are not.

        >>> import pyarrow as pa
        >>> Mean("a").output_field(pa.schema([("a", pa.int64())]))
        pyarrow.Field<mean(a): double>
        """
        return None

    def _native(self) -> str | None:
        """The engine's word for it; None: it has none."""
        return None


def _same(accumulator: Any) -> Any:
    return accumulator


def _by_rows(accumulate_row: Any) -> Callable[[Any, Any], Any]:
    def accumulate_block(accumulator: Any, block: Any) -> Any:
        from weir.block import BlockAccessor

        for row in BlockAccessor.for_block(block).iter_rows(public_row_format=False):
            accumulator = accumulate_row(accumulator, row)
        return accumulator

    return accumulate_block


_AGGREGATION_NAME = re.compile(r"([^(]+)(?:\(.*\))?$", re.DOTALL)


class AggregateFnV2(AggregateFn, abc.ABC, Generic[AccumulatorType, AggOutputType]):
    """An aggregation of one's own, as a class: aggregate_block makes a partial result of a block, combine puts two of them together,
    finalize makes the result.

    Args:
        name: of the column with the results.
        zero_factory: makes what it is for no rows at all.
        on: the column, which the class finds as get_target_column().
        ignore_nulls: a partial result that is None is left out; False: it makes the result None.

    >>> import weir
    >>> class Product(AggregateFnV2):
    ...     def __init__(self, on):
    ...         super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=True)
    ...     def aggregate_block(self, block):
    ...         return math.prod(block[self.get_target_column()].to_pylist())
    ...     def combine(self, current_accumulator, new):
    ...         return current_accumulator * new
    >>> weir.from_items([{"a": 2}, {"a": 5}]).aggregate(Product("a"))
    {'product(a)': 10}
    """

    def __init__(
        self, name: str, zero_factory: Callable[[], AccumulatorType], *, on: str | None, ignore_nulls: bool
    ) -> None:
        if not name:
            raise ValueError(f"Non-empty string has to be provided as name (got {name})")
        self._target_col_name = on
        self._ignore_nulls = bool(ignore_nulls)
        found = _AGGREGATION_NAME.match(name)
        self._agg_name = found[1] if found else name
        self._zero_factory = zero_factory
        combine, aggregate_block, finalize = self.combine, self.aggregate_block, self.finalize
        super().__init__(
            init=lambda key: None if ignore_nulls else zero_factory(),
            merge=_null_safe_merge(combine, self._ignore_nulls),
            name=name,
            accumulate_block=lambda _, block: _without_nulls(aggregate_block(block), ignore_nulls),
        )
        null_safe: Any = lambda accumulator: accumulator if is_null(accumulator) else finalize(accumulator)
        self.finalize = null_safe  # type: ignore[method-assign]

    def get_target_column(self) -> str | None:
        """The column.

        >>> Sum("a").get_target_column()
        'a'
        """
        return self._target_col_name

    def get_agg_name(self) -> str:
        """What it does, without the column.

        >>> Sum("a").get_agg_name()
        'sum'
        """
        return self._agg_name

    @abc.abstractmethod
    def aggregate_block(self, block: Block) -> AccumulatorType:
        """The partial result of one block, a table of pyarrow or a frame of pandas; None: it has none.

        >>> import pyarrow as pa
        >>> Max("a").aggregate_block(pa.table({"a": [1, 3, None]}))
        3
        """

    @abc.abstractmethod
    def combine(self, current_accumulator: AccumulatorType, new: AccumulatorType) -> AccumulatorType:
        """One partial result of two.

        >>> Max("a").combine(3, 5)
        5
        """

    def finalize(self, accumulator: AccumulatorType) -> AggOutputType | None:
        """The result, of the partial result of all blocks; as it is, unless a class says otherwise.

        >>> MissingValuePercentage("a").finalize([1, 4])
        25.0
        """
        return accumulator  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target_col_name!r})"


def _without_nulls(accumulator: Any, ignore_nulls: bool) -> Any:
    return None if ignore_nulls and is_null(accumulator) else accumulator


def _null_safe_merge(combine: Callable[[Any, Any], Any], ignore_nulls: bool) -> Callable[[Any, Any], Any]:
    """A partial result that is null: of rows that had no values, or, where nulls count, the result already."""

    def merge(current: Any, new: Any) -> Any:
        if is_null(new):
            return current if ignore_nulls else new
        if is_null(current):
            return new if ignore_nulls else current
        return combine(current, new)

    return merge


class VectorizedAggregateFnV2(AggregateFnV2[AccumulatorType, AggOutputType], abc.ABC):
    """One that puts all partial results of a group together at once, which come as a column.

    >>> import weir
    >>> class Total(VectorizedAggregateFnV2):
    ...     def __init__(self, on):
    ...         super().__init__(f"total({on})", lambda: 0, on=on, ignore_nulls=True)
    ...     def aggregate_block(self, block):
    ...         return sum(block[self.get_target_column()].to_pylist())
    ...     def _combine_column(self, accumulator_col):
    ...         return sum(accumulator_col.to_pylist())
    >>> weir.range(4).aggregate(Total("id"))
    {'total(id)': 6}
    """

    def combine(self, current_accumulator: AccumulatorType, new: AccumulatorType) -> AccumulatorType:
        raise NotImplementedError("this method should not be invoked for vectorized aggregations!")

    @abc.abstractmethod
    def _combine_column(self, accumulator_col: BlockColumn) -> AccumulatorType:
        """One partial result of a column of them."""


# ---- weir's own ----


class _Own(AggregateFnV2[Any, Any]):
    """What those of weir have in common: a word of the engine."""

    _function = ""  # of the engine
    _title = ""  # in the result's name
    _optional_column = False

    def __init__(
        self, on: str | None, ignore_nulls: bool, alias_name: str | None, zero_factory: Callable[[], Any]
    ) -> None:
        if not isinstance(on, str) and not (on is None and self._optional_column):
            raise ValueError(f"Column to aggregate on has to be provided (got {on})")
        super().__init__(alias_name or f"{self._title}({on or ''})", zero_factory, on=on, ignore_nulls=ignore_nulls)

    @property
    def on(self) -> str | None:
        """The column; None: none is needed.

        >>> Sum("a").on, Count().on
        ('a', None)
        """
        return self._target_col_name

    @property
    def ignore_nulls(self) -> bool:
        """Whether nulls are left out; else one of them makes the result null.

        >>> Sum("a").ignore_nulls, Sum("a", ignore_nulls=False).ignore_nulls
        (True, False)
        """
        return self._ignore_nulls

    def _numbers(self) -> tuple[float, ...]:
        """What the engine's word takes behind the column."""
        return ()

    def _native(self) -> str | None:
        words = [] if self.on is None else [quote_name(self.on)]
        words += [repr(number) for number in self._numbers()]
        if self.on is not None and not self.ignore_nulls:
            words.append("nulls")
        return f"{self._function}({', '.join(words)})"

    def _values(self, block: Any) -> list[Any]:
        """The column's, as Python has them."""
        from weir.block import BlockAccessor

        batch = BlockAccessor.for_block(block)._batch()
        name = self._target_col_name
        if name not in batch.names:
            raise ValueError(
                f"You specified the column '{name}', but there's no such column in the dataset. The dataset has columns: {batch.names}"
            )
        return [row[name] for row in batch.select([name]).rows()]

    def _known(self, block: Any) -> list[Any] | None:
        """The values without nulls; None: there are none, or a null makes the result null."""
        values = self._values(block)
        known = [value for value in values if value is not None]
        return None if not known or (len(known) < len(values) and not self._ignore_nulls) else known

    def _arrow_field(self, input_schema: Any, kernel: str) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        place = input_schema.get_field_index(self.on) if self.on is not None else -1
        if place < 0:
            return None
        values = pa.array([], input_schema.field(place).type)
        try:
            return pa.field(self.name, getattr(pc, kernel)(pc.abs(values) if isinstance(self, AbsMax) else values).type)
        except pa.ArrowException:
            return None


class _OwnColumn(_Own, VectorizedAggregateFnV2[Any, Any]):
    """Those that Ray Data has as vectorised ones; they can be combined in pairs all the same."""

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        raise NotImplementedError

    def _combine_column(self, accumulator_col: BlockColumn) -> Any:
        found: Any = None
        values = accumulator_col.to_pylist() if hasattr(accumulator_col, "to_pylist") else list(accumulator_col)
        for number, value in enumerate(values):
            found = self.merge(found, value) if number else value
        return found


class Count(_OwnColumn):
    """How many rows; with ignore_nulls=True, how many values of the column `on`. `alias_name`: the result's name.

    >>> import weir
    >>> weir.range(3).aggregate(Count())
    {'count()': 3}
    >>> weir.from_items([{"a": 1}, {"a": None}]).aggregate(Count("a", ignore_nulls=True, alias_name="known"))
    {'known': 1}
    """

    _function = _title = "count"
    _optional_column = True

    def __init__(self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name, lambda: 0)

    def aggregate_block(self, block: Block) -> int:
        from weir.block import BlockAccessor

        if self._target_col_name is None:
            return BlockAccessor.for_block(block).num_rows()
        values = self._values(block)
        return len(values) - (values.count(None) if self._ignore_nulls else 0)

    def combine(self, current_accumulator: int, new: int) -> int:
        return current_accumulator + new

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        import pyarrow as pa

        return pa.field(self.name, pa.int64(), nullable=False)


class Sum(_OwnColumn):
    """The sum. Floats are rounded once, at the end; integers that do not fit are an error of groups, and Python's of a whole Dataset.

    Args:
        on: the column.
        ignore_nulls: False: one null makes the result None. Of no values it is None in either case.
        alias_name: the result's name, in place of "sum(column)".

    >>> import weir
    >>> weir.range(3).aggregate(Sum("id"))
    {'sum(id)': 3}
    """

    _function = _title = "sum"

    def __init__(self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name, lambda: 0)

    def aggregate_block(self, block: Block) -> Any:
        values = self._known(block)
        return None if values is None else _total(values)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return current_accumulator + new

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        return self._arrow_field(input_schema, "sum")


def _total(values: Sequence[Any]) -> Any:
    first = values[0]
    if any(isinstance(value, float) for value in values):
        try:
            return math.fsum(values)
        except (OverflowError, ValueError):  # infinities of both signs
            return sum(values)
    return sum(values[1:], start=first) if not isinstance(first, bool) else sum(values)


class Min(_OwnColumn):
    """The smallest value; NaN only where there is nothing else. The arguments are those of Sum; `zero_factory`: what it begins with, where it runs in Python.

    >>> import weir
    >>> weir.range(3).aggregate(Min("id"))
    {'min(id)': 0}
    """

    _function = _title = "min"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = lambda: float("+inf"),
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name, zero_factory)

    def aggregate_block(self, block: Block) -> Any:
        values = self._known(block)
        return None if values is None else min([value for value in values if value == value], default=math.nan)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return min(current_accumulator, new)

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        return self._arrow_field(input_schema, "min")


class Max(_OwnColumn):
    """The largest value; NaN only where there is nothing else. The arguments are those of Sum; `zero_factory`: what it begins with, where it runs in Python.

    >>> import weir
    >>> weir.range(3).aggregate(Max("id"))
    {'max(id)': 2}
    """

    _function = _title = "max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = lambda: float("-inf"),
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name, zero_factory)

    def aggregate_block(self, block: Block) -> Any:
        values = self._known(block)
        return None if values is None else max([value for value in values if value == value], default=math.nan)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return max(current_accumulator, new)

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        return self._arrow_field(input_schema, "max")


class AbsMax(_OwnColumn):
    """The largest value without its sign.

    >>> import weir
    >>> weir.from_items([{"a": -3}, {"a": 2}]).aggregate(AbsMax("a"))
    {'abs_max(a)': 3}
    """

    _function = "absmax"
    _title = "abs_max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = lambda: 0,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name, zero_factory)

    def aggregate_block(self, block: Block) -> Any:
        from weir._aggregate import magnitude

        values = self._known(block)
        return None if values is None else max([magnitude(value) for value in values if value == value], default=math.nan)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return max(current_accumulator, new)

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        return self._arrow_field(input_schema, "max")


class Mean(_Own):
    """The mean. The arguments are those of Sum.

    >>> import weir
    >>> weir.range(3).aggregate(Mean("id"))
    {'mean(id)': 1.0}
    """

    _function = _title = "mean"

    def __init__(self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name, lambda: [0, 0])

    def aggregate_block(self, block: Block) -> list[Any] | None:
        values = self._known(block)
        return None if values is None else [_total(values), len(values)]

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

    def finalize(self, accumulator: list[Any]) -> Any:
        return accumulator[0] / accumulator[1] if accumulator[1] else math.nan

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        import pyarrow as pa

        return pa.field(self.name, pa.float64())


class Std(_Own):
    """The standard deviation: of a sample (ddof=1) or of all there is (ddof=0); of one value and ddof=1 NaN. The other arguments are those of Sum.

    >>> import weir
    >>> weir.range(3).aggregate(Std("id"))
    {'std(id)': 1.0}
    """

    _function = _title = "std"

    def __init__(
        self, on: str | None = None, ddof: int = 1, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
            raise WrongArgument(f"ddof is an integer of at least 0, not {ddof!r}")
        self._ddof = ddof
        super().__init__(on, ignore_nulls, alias_name, lambda: [0, 0, 0])

    def _numbers(self) -> tuple[float, ...]:
        return (self._ddof,)

    def aggregate_block(self, block: Block) -> list[Any] | None:
        values = self._known(block)
        if values is None:
            return None
        # Distances from one of the values have their digits however far from zero these are, and squares of them fit once scaled.
        distances = [float(value - values[0]) for value in values]
        if not all(map(math.isfinite, distances)):
            return [math.nan, math.nan, len(values)]
        exponent = math.frexp(max(map(abs, distances)))[1]
        scaled = [math.ldexp(distance, -exponent) for distance in distances]
        middle = math.fsum(scaled) / len(scaled)
        squares = math.fsum((distance - middle) * (distance - middle) for distance in scaled)
        scale = Fraction(2) ** exponent
        return [Fraction(squares) * scale * scale, Fraction(values[0]) + Fraction(middle) * scale, len(values)]

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        squares_a, mean_a, count_a = current_accumulator
        squares_b, mean_b, count_b = new
        count = count_a + count_b
        apart = mean_b - mean_a
        squares = squares_a + squares_b + apart * apart * count_a * count_b / count
        return [_shortened(squares), _shortened(mean_a + apart * count_b / count), count]

    def finalize(self, accumulator: list[Any]) -> float:
        from weir._aggregate import root

        squares, _, count = accumulator
        return root(Fraction(squares) / (count - self._ddof)) if count > self._ddof and squares == squares else math.nan

    def output_field(self, input_schema: pyarrow.Schema) -> pyarrow.Field | None:
        import pyarrow as pa

        return pa.field(self.name, pa.float64())


def _shortened(value: Any) -> Any:
    """A fraction to 200 bits: fractions of many blocks would else become long."""
    if not isinstance(value, Fraction):
        return value
    shift = 200 - value.numerator.bit_length() + value.denominator.bit_length()
    return Fraction(round(value * Fraction(2) ** shift)) / Fraction(2) ** shift


class Quantile(_OwnColumn):
    """The value below which a share of all lies, between two values interpolated.

    Args:
        q: the share, from 0 to 1; 0.5 is the median.

    >>> import weir
    >>> weir.range(4).aggregate(Quantile("id", q=0.5))
    {'quantile(id)': 1.5}
    """

    _function = _title = "quantile"

    def __init__(
        self, on: str | None = None, q: float = 0.5, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
            raise ValueError(f"q is a number from 0 to 1, not {q!r}")
        self._q = float(q)
        super().__init__(on, ignore_nulls, alias_name, list)

    def _numbers(self) -> tuple[float, ...]:
        return (self._q,)

    def aggregate_block(self, block: Block) -> list[Any]:
        return self._values(block)

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return current_accumulator + new

    def finalize(self, accumulator: list[Any]) -> float | None:
        known = sorted(float(value) for value in accumulator if not is_null(value))
        if not known or (any(value is None for value in accumulator) and not self._ignore_nulls):
            return None
        place = self._q * (len(known) - 1)
        below = math.floor(place)
        above = min(below + 1, len(known) - 1)
        share = place - below
        return known[below] if not share else known[below] + (known[above] - known[below]) * share


def _hashable(value: Any) -> Any:
    """Something that is equal for equal values: NaN is, and lists, dicts and arrays are, too."""
    if isinstance(value, float) and value != value:
        return "nan", ()
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return str(value.dtype), getattr(value, "shape", ()), value.tobytes()
    return type(value) is bool, value


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({_hashable(value): value for value in values}.values())


class Unique(_OwnColumn):
    """The different values, as a list, in no order.

    Args:
        ignore_nulls: None is no value.
        encode_lists: of a column of lists, the different elements of all lists (True or Unique.ListEncodingMode.FLATTEN), or
            a number for each different list (HASH). Without it, the different lists.

    >>> import weir
    >>> sorted(weir.from_items([1, 2, 1]).aggregate(Unique("item"))["unique(item)"])
    [1, 2]
    """

    _function = _title = "unique"

    class ListEncodingMode(str, enum.Enum):
        """What becomes of lists."""

        FLATTEN = "FLATTEN"
        HASH = "HASH"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: bool | ListEncodingMode | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name, list)
        mode = Unique.ListEncodingMode
        self._list_encoding_mode = encode_lists if isinstance(encode_lists, mode) else mode.FLATTEN if encode_lists is True else None

    def _native(self) -> str | None:
        return super()._native() if self._list_encoding_mode is None else None

    def aggregate_block(self, block: Block) -> list[Any]:
        values: Collection[Any] = self._values(block)
        if any(isinstance(value, list) for value in values):
            if self._list_encoding_mode is Unique.ListEncodingMode.FLATTEN:
                values = [item for value in values if value is not None for item in value]
            elif self._list_encoding_mode is Unique.ListEncodingMode.HASH:
                values = [None if value is None else _hash_of(value) for value in values]
        return _distinct(value for value in values if value is not None or not self._ignore_nulls)

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return _distinct([*current_accumulator, *new])


def _hash_of(value: Any) -> int:
    import hashlib
    import pickle

    return int.from_bytes(hashlib.blake2b(pickle.dumps(value, protocol=5), digest_size=8).digest(), "little", signed=True)


class CountDistinct(Unique):
    """How many different values there are.

    >>> import weir
    >>> weir.from_items([1, 2, 1]).aggregate(CountDistinct("item"))
    {'count_distinct(item)': 2}
    """

    _function = _title = "count_distinct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def finalize(self, accumulator: list[Any]) -> int:
        return len(accumulator)


class AsList(_OwnColumn):
    """All values of a group as a list, in the order of the rows.

    >>> import weir
    >>> weir.range(3).aggregate(AsList("id"))
    {'list(id)': [0, 1, 2]}
    """

    _function = _title = "list"

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False) -> None:
        super().__init__(on, ignore_nulls, alias_name, list)

    def aggregate_block(self, block: Block) -> list[Any]:
        return [value for value in self._values(block) if value is not None or not self._ignore_nulls]

    def combine(self, current_accumulator: list[Any], new: list[Any]) -> list[Any]:
        return current_accumulator + new


class ValueCounter(_Own):
    """How often each value is there: a dict of two lists, values and counts. None is a value.

    >>> import weir
    >>> weir.from_items(["a", "b", "a"]).aggregate(ValueCounter("item"))
    {'value_counter(item)': {'values': ['a', 'b'], 'counts': [2, 1]}}
    """

    _function = "value_counts"
    _title = "value_counter"

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__(on, True, alias_name, lambda: {"values": [], "counts": []})

    def _native(self) -> str | None:
        assert self.on is not None
        return f"value_counts({quote_name(self.on)}, nulls)"

    def aggregate_block(self, block: Block) -> dict[str, list[Any]]:
        return _counted((value, 1) for value in self._values(block))

    def combine(self, current_accumulator: dict[str, list[Any]], new: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return _counted(pair for part in (current_accumulator, new) for pair in zip(part["values"], part["counts"]))


def _counted(pairs: Iterable[tuple[Any, int]]) -> dict[str, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for value, count in pairs:
        found.setdefault(_hashable(value), [value, 0])[1] += count
    return {"values": [value for value, _ in found.values()], "counts": [count for _, count in found.values()]}


class MissingValuePercentage(_Own):
    """How many of a hundred values are None or NaN.

    >>> import weir
    >>> weir.from_items([{"a": 1}, {"a": None}]).aggregate(MissingValuePercentage("a"))
    {'missing_pct(a)': 50.0}
    """

    _function = "missing_percent"
    _title = "missing_pct"

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__(on, False, alias_name, lambda: [0, 0])

    def _native(self) -> str | None:
        assert self.on is not None
        return f"missing_percent({quote_name(self.on)})"

    def aggregate_block(self, block: Block) -> list[int]:
        values = self._values(block)
        return [sum(map(is_null, values)), len(values)]

    def combine(self, current_accumulator: list[int], new: list[int]) -> list[int]:
        return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

    def finalize(self, accumulator: list[int]) -> float | None:
        return accumulator[0] / accumulator[1] * 100.0 if accumulator[1] else None


class ZeroPercentage(_Own):
    """How many of a hundred values are 0. With ignore_nulls=False nulls count among the hundred.

    >>> import weir
    >>> weir.range(4).aggregate(ZeroPercentage("id"))
    {'zero_pct(id)': 25.0}
    """

    _function = "zero_percent"
    _title = "zero_pct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name, lambda: [0, 0])

    def aggregate_block(self, block: Block) -> list[int]:
        values = self._values(block)
        known = [value for value in values if value is not None]
        return [sum(value == 0 for value in known), len(known) if self._ignore_nulls else len(values)]

    def combine(self, current_accumulator: list[int], new: list[int]) -> list[int]:
        return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

    def finalize(self, accumulator: list[int]) -> float | None:
        return accumulator[0] / accumulator[1] * 100.0 if accumulator[1] else None


class ApproximateQuantile(_Own):
    """Values below which shares of all lie, about: in memory that does not grow with the data. No further package is needed.

    Args:
        quantiles: the shares, from 0 to 1.
        quantile_precision: the rank of a result is off by less than 1 / quantile_precision of all rows, nearly always (by a quarter
            of that, typically: 0.03 % with 800). Of up to 16 times as many values results are exact.

    >>> import weir
    >>> weir.range(5).aggregate(ApproximateQuantile("id", [0.0, 0.5, 1.0]))
    {'approx_quantile(id)': [0.0, 2.0, 4.0]}
    """

    _function = _title = "approx_quantile"

    def __init__(
        self, on: str, quantiles: list[float], quantile_precision: int = 800, alias_name: str | None = None
    ) -> None:
        if not quantiles or not all(isinstance(q, (int, float)) and 0 <= q <= 1 for q in quantiles):
            raise ValueError(f"quantiles is a list of numbers from 0 to 1, not {quantiles!r}")
        self._quantiles = [float(q) for q in quantiles]
        self._quantile_precision = int(quantile_precision)
        super().__init__(on, True, alias_name, list)

    def _numbers(self) -> tuple[float, ...]:
        return (self._quantile_precision, *self._quantiles)

    def aggregate_block(self, block: Block) -> list[float] | None:
        return [float(value) for value in self._values(block) if not is_null(value)] or None

    def combine(self, current_accumulator: list[float], new: list[float]) -> list[float]:
        return current_accumulator + new

    def finalize(self, accumulator: list[float]) -> list[float]:
        values = sorted(accumulator)
        return [values[min(len(values) - 1, math.floor(q * len(values)))] for q in self._quantiles]


class ApproximateTopK(_Own):
    """The most frequent values, as a list of dicts of value and count. No further package is needed.

    Args:
        k: how many.
        log_capacity: counts are exact where there are up to 2 ** log_capacity different values; else one is too great by at most
            the number of rows by that.
        encode_lists: of a column of lists, their elements are counted.

    >>> import weir
    >>> weir.from_items(["a", "b", "a"]).aggregate(ApproximateTopK("item", k=1))
    {'approx_topk(item)': [{'item': 'a', 'count': 2}]}
    """

    _function = "approx_top_k"
    _title = "approx_topk"

    def __init__(
        self, on: str, k: int, log_capacity: int = 15, alias_name: str | None = None, encode_lists: bool = False
    ) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k is a whole number of at least 1, not {k!r}")
        if isinstance(log_capacity, bool) or not isinstance(log_capacity, int) or not 1 <= log_capacity <= 24:
            raise ValueError(f"log_capacity is a whole number from 1 to 24, not {log_capacity!r}")
        self.k = k
        self._log_capacity = log_capacity
        self._encode_lists = bool(encode_lists)
        super().__init__(on, True, alias_name, lambda: {"values": [], "counts": []})

    def _numbers(self) -> tuple[float, ...]:
        return (self.k, self._log_capacity)

    def _native(self) -> str | None:
        return None if self._encode_lists else super()._native()

    def aggregate_block(self, block: Block) -> dict[str, list[Any]]:
        values = self._values(block)
        if self._encode_lists:
            values = [item for value in values for item in (value if isinstance(value, list) else [value])]
        return _counted((value, 1) for value in values if value is not None)

    def combine(self, current_accumulator: dict[str, list[Any]], new: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return _counted(pair for part in (current_accumulator, new) for pair in zip(part["values"], part["counts"]))

    def finalize(self, accumulator: dict[str, list[Any]]) -> list[dict[str, Any]]:
        pairs = sorted(zip(accumulator["values"], accumulator["counts"]), key=lambda pair: -pair[1])
        assert self.on is not None
        return [{self.on: value, "count": count} for value, count in pairs[: self.k]]


_METHODS = ("aggregate_block", "combine", "finalize", "_combine_column")


def native_word(aggregate: AggregateFn) -> str | None:
    """What the engine calls it; None where Python has to do it: it is a user's, or a class of weir's with methods of a user's.

    >>> native_word(Sum("a")), native_word(AggregateFn(lambda k: 0, max, "x", accumulate_row=lambda a, row: a))
    ('sum("a")', None)
    """
    cls = type(aggregate)
    if not isinstance(aggregate, _Own):
        return None
    if any(getattr(getattr(cls, name, None), "__module__", __name__) != __name__ for name in _METHODS):
        return None
    return aggregate._native()
