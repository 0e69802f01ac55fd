"""Aggregates over a whole Dataset: sum, min, max, mean, std, absmax, count.

The engine's step ``summarise`` gives a row for each part of the input: how many rows, nulls and NaN a column has there,
the least and the greatest value, and the sums as bytes that lose nothing (src/ops/summary.h). Here they are put
together. Parts may have a column in different types (a function gave int64 in one block, double or only null in
another): whole numbers are added as Python's, floats as fractions, so the result is the same whatever the parts were.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from weir._expr_literals import quote_name
from weir._plan import Op, Step, quoted

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Batch
    from weir.aggregate import AggregateFn
    from weir.dataset import Dataset

_DIGITS, _SQUARE_DIGITS = 68, 136  # of base 2 ** 32, the lowest standing for 2 ** -1074, of squares 2 ** -2148
_INTEGER, _REAL, _DECIMAL = 1, 2, 3


class Summarise(Step):
    """What is known of each part."""

    __slots__ = ()
    kind = "Aggregate"

    def __init__(self, input: Op, words: Sequence[str]) -> None:
        super().__init__(input, "summarise", words, "Aggregate")

    @property
    def keeps_rows(self) -> bool:
        return False


def whole(ds: Dataset, function: str, columns: list[str] | None, ignore_nulls: bool, ddof: int) -> Any:
    """A value, or a dict of them for several columns; None for a Dataset without rows."""
    from weir import aggregate

    kinds: dict[str, Any] = {
        "sum": aggregate.Sum, "min": aggregate.Min, "max": aggregate.Max, "mean": aggregate.Mean, "std": aggregate.Std,
    }
    if columns is None:
        schema = ds.schema()
        if schema is None:
            return None
        columns = list(schema.names)
    options = {"ddof": ddof} if function == "std" else {}
    result = aggregated(ds, [kinds[function](name, ignore_nulls=ignore_nulls, **options) for name in columns])
    return next(iter(result.values())) if result is not None and len(result) == 1 else result


def _columns(ds: Dataset) -> str:
    from weir._errors import listed

    names = ds.columns()
    return f": its columns are {listed(names)}" if names else ""


def aggregated(ds: Dataset, items: Sequence[AggregateFn]) -> dict[str, Any] | None:
    """The results by name; None for a Dataset without rows and columns."""
    from weir import _grouped
    from weir._weir import NameUnknownError

    if not items:
        raise ValueError("aggregate needs at least one aggregation")
    try:
        return of_all(ds._op, items, ds._new_run())
    except NameUnknownError as error:
        missing = _missing(error, _grouped.needed(items))
        if missing is None:
            raise
        raise ValueError(
            f"You specified the column {missing!r}, but there's no such column in the dataset{_columns(ds)}."
        ) from error


def unique(ds: Dataset, column: str, ignore_nulls: bool) -> list[Any]:
    """The different values of a column."""
    from weir import _grouped
    from weir._exchange import check_columns
    from weir._weir import TypeMismatchError
    from weir.aggregate import Unique

    if not isinstance(column, str):
        raise ValueError(f"Column to aggregate on has to be provided (got {column})")
    check_columns(ds, [column])
    rows = ds._op.rows()
    found: list[Any] = []
    if rows is not None and rows <= ORDERED_MAX:
        for batch in ds._new_run(Step(ds._op, "select", [quoted(column)])):
            found += batch.values(0)
        if all(type(value) in (int, str, bool, type(None)) for value in found):
            return [value for value in dict.fromkeys(found) if value is not None or not ignore_nulls]
        found = []
    try:
        for batch in ds._new_run(_grouped.Distinct(ds._op, [column])):
            found += batch.values(0)
    except TypeMismatchError:  # lists and maps are no keys; they are put in order instead
        found = list((ds.aggregate(Unique(column, ignore_nulls=False)) or {}).get(f"unique({column})", ()))
    if ignore_nulls:
        found = [value for value in found if value is not None]
    if len(found) <= ORDERED_MAX:
        with contextlib.suppress(TypeError):  # what has no order
            found.sort(key=lambda value: (value is not None, value))
    return found


_OF_NOTHING: dict[str, Callable[[], Any]] = {
    "count": int, "unique": list, "list": list, "value_counts": lambda: {"values": [], "counts": []},
}  # what the engine's functions make of no rows; of others it is null
ORDERED_MAX = 1 << 16  # so many values that an order costs nothing
_SUMMARISED = frozenset({"count", "sum", "min", "max", "absmax", "mean", "std"})
_ROWS = "__weir_rows__"


def of_all(input: Op, items: Sequence[AggregateFn], run: Run) -> dict[str, Any] | None:
    """The results of all rows of a plan, by name. None: there are no rows and no columns."""
    found = _of_rows(input, items, run)
    return found if found is not None else _of_no_rows(input, items, run)


def _of_no_rows(input: Op, items: Sequence[AggregateFn], run: Run) -> dict[str, Any] | None:
    """What comes out where all rows are gone: a count is 0, a sum null. A user's aggregation is given a block without rows, if its
    columns are known."""
    from weir import _grouped, _plan
    from weir.dataset import Dataset

    schema = Dataset(input, run.build.context).schema(fetch_if_missing=False)  # functions are not run again for it
    if schema is None and _plan.is_nothing(input):
        return None
    results: list[Any] = []
    for item in items:
        if item._native() is not None:
            made = _OF_NOTHING.get(getattr(item, "_function", ""))
            results.append(made() if made is not None else None)
        elif schema is None:
            return None
        else:
            block = schema.base_schema.empty_table()
            results.append(_grouped._plain(item.finalize(item.accumulate_block(item.init(()), block))))
    return dict(zip(_grouped.result_names(items), results))


def _of_rows(input: Op, items: Sequence[AggregateFn], run: Run) -> dict[str, Any] | None:
    """The results; None: there are no rows."""
    from weir import _grouped, _parts
    from weir._weir import TypeMismatchError

    names = _grouped.result_names(items)
    own: list[Any] = list(items)
    found = _grouped.engine_words(items)
    if found is None:
        results = _grouped.accumulated(input, items, run)
        return None if results is None else dict(zip(names, results))
    if _are_counted_apart(own):
        words = [f"count({quote_name(item.on)})" if item._ignore_nulls else "count()" for item in own]
        with contextlib.suppress(TypeMismatchError):  # lists have no place in a hash table
            return _in_one_row(_grouped.Distinct(input, [own[0].on]), names, words, items, run)
    if _need_values(own):
        return _in_one_row(input, names, found, items, run)
    columns = list(dict.fromkeys(item.on for item in own if item.on is not None))
    # count() alone still needs a row for each part.
    words_of_parts = [
        f'"{i}" = {item._function}({"" if item.on is None else quote_name(item.on)})' for i, item in enumerate(own)
    ]
    parts: list[dict[str, Any]] = []
    for batch in run.collect(_parts.resolve(Summarise(input, words_of_parts), run)):
        parts.extend(batch.rows())
    if not parts:
        return None
    rows = sum(part["rows"] for part in parts)
    merged = {name: Merged(parts, i) for i, name in enumerate(columns)}
    return {
        name: _result(item, merged[item.on] if item.on is not None else None, rows) for name, item in zip(names, own)
    }


def batch_of_all(input: Op, items: Sequence[AggregateFn], run: Run) -> Batch | None:
    """The same as a batch of one row: lists have values of the column's type, whatever they are."""
    from weir import _grouped
    from weir._weir import batch_from_rows

    words = _grouped.engine_words(items)
    if words is not None and _need_values(items) and not _are_counted_apart(items):
        found = _group_of_all(input, _grouped.result_names(items), words, items, run)
        if found is not None:
            return found
        row = _of_no_rows(input, items, run)
        return None if row is None else batch_from_rows([row])
    row = of_all(input, items, run)
    return None if row is None else batch_from_rows([row])


def _need_values(items: Sequence[Any]) -> bool:
    """Whether summaries of parts are not enough."""
    return any(item._function not in _SUMMARISED for item in items)


def _are_counted_apart(items: Sequence[Any]) -> bool:
    """Different values of one column: a hash table of them is enough, where the engine would put all rows in order."""
    return {item._function for item in items} == {"count_distinct"} and len({item.on for item in items}) == 1


def _group_of_all(input: Op, names: Sequence[str], words: Sequence[str], items: Sequence[AggregateFn], run: Run) -> Batch | None:
    """A group of all rows; None: there are none."""
    from weir import _grouped, _parts

    plan = _grouped.Group(input, [], zip([*names, _ROWS], [*words, "count()"]), _grouped.needed(items))
    batch = next((batch for batch in run.collect(_parts.resolve(plan, run)) if batch.num_rows), None)
    return None if batch is None or not batch.select([_ROWS]).values(0)[0] else batch.select(list(names))


def _in_one_row(
    input: Op, names: Sequence[str], words: Sequence[str], items: Sequence[AggregateFn], run: Run
) -> dict[str, Any] | None:
    batch = _group_of_all(input, names, words, items, run)
    return None if batch is None else batch.rows()[0]


def _missing(error: Exception, columns: list[str]) -> str | None:
    named = getattr(error, "column", None)
    return str(named) if named else next((c for c in columns if f"'{c}'" in str(error)), None)


def _result(item: Any, column: Merged | None, rows: int) -> Any:
    if column is None:
        return rows
    if item._function == "count":
        return column.count if item.ignore_nulls else rows
    if not column.count or (column.nulls and not item.ignore_nulls):
        return None
    if item._function == "sum":
        return column.sum()
    if item._function == "mean":
        return column.mean()
    if item._function == "std":
        return column.std(item._ddof)
    bounds = column.bounds()
    if bounds is None:
        return math.nan  # there are values, and all are NaN
    if item._function == "absmax":
        return max(map(magnitude, bounds))
    return bounds[0] if item._function == "min" else bounds[1]


def magnitude(value: Any) -> Any:
    """abs() rounds a Decimal to the digits of the program's context."""
    return value.copy_abs() if isinstance(value, decimal.Decimal) else abs(value)


class Merged:
    """One column's summaries of all parts."""

    def __init__(self, parts: Iterable[dict[str, Any]], number: int) -> None:
        self.count = self.nulls = 0
        self._bounds: list[Any] = []
        self.integers = self.integer_squares = 0
        self.reals = self.real_squares = self.decimal_reals = Fraction(0)
        self.decimals: decimal.Decimal | None = None
        self.special = {"nan": False, "plus": False, "minus": False}
        self.has_reals = False
        self.scale: int | None = None  # of durations: digits of a second
        self.durations = 0
        for part in parts:
            nulls = part[f"{number}:nulls"]
            self.nulls += nulls
            self.count += part["rows"] - nulls
            if part["rows"] == nulls:
                continue
            self._bounds += [value for side in ("least", "greatest")
                             if (value := part.get(f"{number}:{side}")) is not None]
            sums = part.get(f"{number}:sums")
            if sums is not None:
                self._add(bytes(sums))

    def _add(self, data: bytes) -> None:
        kind, scale = struct.unpack_from("<Ii", data)
        if kind == _INTEGER:
            total = int.from_bytes(data[8:24], "little", signed=True)
            if scale >= 0:
                self.durations += total * 10 ** (9 - scale)
                self.scale = max(scale, self.scale or 0)
                return
            self.integers += total
            self.integer_squares += int.from_bytes(data[24:48], "little")
        elif kind == _DECIMAL:
            total = int.from_bytes(data[8:40], "little", signed=True)
            with decimal.localcontext(prec=200):
                self.decimals = (self.decimals or decimal.Decimal(0)) + decimal.Decimal(total).scaleb(-scale)
            if len(data) > 40:  # the floats nearest to the decimals, for std
                self.decimal_reals += _fraction(data, 48)
                self.real_squares += _fraction(data, 48 + _DIGITS * 8, squares=True)
        elif kind == _REAL:
            self.has_reals = True
            nan, plus, minus, has_squares = data[8:12]
            self.special = {key: self.special[key] or bool(flag)
                            for key, flag in zip(self.special, (nan, plus, minus), strict=True)}
            self.reals += _fraction(data, 16)
            if has_squares:
                self.real_squares += _fraction(data, 16 + _DIGITS * 8, squares=True)

    def _special(self) -> float | None:
        """What NaN and infinities make of a sum; None: there are none."""
        if self.special["nan"] or (self.special["plus"] and self.special["minus"]):
            return math.nan
        return math.inf if self.special["plus"] else -math.inf if self.special["minus"] else None

    def _exact(self) -> Fraction:
        return self.reals + self.integers + (Fraction(self.decimals) if self.decimals is not None else 0)

    def sum(self) -> Any:
        if self.scale is not None:
            return _duration(Fraction(self.durations), self.scale)
        if self.has_reals:
            special = self._special()
            return _float(self._exact()) if special is None else special
        if self.decimals is not None:
            with decimal.localcontext(prec=200):
                return self.decimals + self.integers
        return self.integers

    def mean(self) -> Any:
        if self.scale is not None:
            return _duration(Fraction(self.durations, self.count), self.scale)
        special = self._special()
        if special is not None:
            return special
        if self.decimals is not None and not self.has_reals:
            with decimal.localcontext(prec=38):
                return (self.decimals + self.integers) / self.count
        return _float(self._exact() / self.count)

    def std(self, ddof: int) -> float:
        if self.count <= ddof or self._special() is not None:
            return math.nan
        total = self.reals + self.integers + self.decimal_reals
        squares = self.real_squares + self.integer_squares
        variance = (squares - total * total / self.count) / (self.count - ddof)
        return root(variance) if variance > 0 else 0.0

    def bounds(self) -> tuple[Any, Any] | None:
        if not self._bounds:
            return None
        try:
            return min(self._bounds), max(self._bounds)
        except TypeError as error:
            kinds = sorted({type(value).__name__ for value in self._bounds})
            raise TypeError(f"a column with values of {' and '.join(kinds)} has no least and no greatest") from error


def _fraction(data: bytes, at: int, squares: bool = False) -> Fraction:
    digits = struct.unpack_from(f"<{_SQUARE_DIGITS}Q" if squares else f"<{_DIGITS}q", data, at)
    return Fraction(sum(digit << (32 * i) for i, digit in enumerate(digits) if digit), 1 << (2148 if squares else 1074))


def _duration(nanoseconds: Fraction, scale: int) -> Any:
    """As rows have it: of nanoseconds, what has a place for them."""
    if scale < 9:
        return datetime.timedelta(microseconds=round(nanoseconds / 1000))
    import numpy

    from weir._weir import batch_from_rows

    try:
        whole = numpy.timedelta64(round(nanoseconds), "ns")
    except OverflowError:
        raise OverflowError(f"a duration of {round(nanoseconds)} ns does not fit the type duration[ns]") from None
    return batch_from_rows([{"duration": whole}]).values(0)[0]


def _float(value: Fraction) -> float:
    """The nearest float, infinite past the largest."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def root(value: Fraction) -> float:
    """The square root of a fraction, which itself may be too large or too small for a float."""
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    scaled = value / (Fraction(4) ** shift)
    try:
        return math.ldexp(math.sqrt(scaled.numerator / scaled.denominator), shift)
    except OverflowError:
        return math.inf
