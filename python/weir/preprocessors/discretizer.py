"""Discretizers: numbers become the number of the interval in which they lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, number
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from weir.dataset import Dataset

__all__ = ["CustomKBinsDiscretizer", "UniformKBinsDiscretizer"]

COMPARED_MAX = 64  # edges that the engine compares with; beyond, a search in workers


class Bins:
    """Intervals one beside the other, or (of a pandas.IntervalIndex) any that do not overlap."""

    def __init__(self, edges: Any, right: bool, include_lowest: bool, duplicates: str, name: str) -> None:
        import numpy as np

        self.right, self.include_lowest = right, include_lowest
        if type(edges).__name__ == "IntervalIndex":
            if edges.is_overlapping:
                raise ValueError(f"the intervals of column {name!r} overlap")
            self.lows, self.highs = np.asarray(edges.left, np.float64), np.asarray(edges.right, np.float64)
            self.low_is_in, self.high_is_in = edges.closed in ("left", "both"), edges.closed in ("right", "both")
            self.is_joined = False
            return
        made = np.asarray(list(edges), np.float64)
        if (np.diff(made) < 0).any():
            raise ValueError(f"bins of column {name!r} must increase monotonically: {made.tolist()}")
        unique = np.unique(made)
        if len(unique) < len(made):
            if duplicates != "drop":
                raise ValueError(f"bin edges of column {name!r} must be unique: {made.tolist()}. duplicates='drop' drops the others")
            made = unique
        self.lows, self.highs = made[:-1], made[1:]
        self.low_is_in, self.high_is_in = not right, right
        self.is_joined = True

    @property
    def count(self) -> int:
        """How many."""
        return len(self.lows)

    @property
    def is_unbounded(self) -> bool:
        """Whether every number lies in one of them."""
        return self.is_joined and self.count > 0 and self.lows[0] == -float("inf") and self.highs[-1] == float("inf")

    def of(self, values: Any) -> Any:
        """The interval of each number; -1: none."""
        import numpy as np

        if not self.count:
            return np.full(len(values), -1)
        order = np.argsort(self.lows, kind="stable")
        lows, highs = self.lows[order], self.highs[order]
        at = np.searchsorted(lows, values, side="right" if self.low_is_in else "left") - 1
        near = np.maximum(at, 0)
        is_in = (at >= 0) & (values <= highs[near] if self.high_is_in else values < highs[near])
        if self.is_joined and self.include_lowest and self.right:
            lowest = values == lows[0]
            near, is_in = np.where(lowest, 0, near), is_in | lowest
        return np.where(is_in, order[near], -1)

    def text(self, name: str) -> str | None:
        """The same as an expression; None: there are too many, or they do not lie side by side."""
        if not self.is_joined or not 0 < self.count <= COMPARED_MAX:
            return None
        x, above, below = column(name), ">" if self.right else ">=", "<=" if self.right else "<"
        first = ">=" if self.right and self.include_lowest else above
        within = f"({x} {first} {number(self.lows[0])} and {x} {below} {number(self.highs[-1])})"
        passed = " + ".join(f"int({x} {above} {number(low)})" for low in self.lows[1:]) or "0"
        return f"(({passed}) if {within} else None)"


class _Discretizer(ColumnPreprocessor):
    columns = Field[list[str]]()
    right = Field[bool]()
    include_lowest = Field[bool]()
    duplicates = Field[str]()
    dtypes = Field["dict[str, Any] | None"]()
    output_columns = Field[list[str]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "bins", "right", "include_lowest", "duplicates", "dtypes", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields

    def __init__(
        self, columns: list[str], bins: Any, right: bool, include_lowest: bool, duplicates: str, dtypes: dict[str, Any] | None,
        output_columns: list[str] | None,
    ) -> None:
        super().__init__()
        self._columns, self._bins, self._right = columns, bins, right
        self._include_lowest, self._duplicates, self._dtypes = include_lowest, duplicates, dtypes
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _check_bins(self) -> None:
        if isinstance(self._bins, dict) and not all(name in self._bins for name in self._columns):
            raise ValueError(f"If `bins` is a dictionary, it needs all of the columns {self._columns}: it has {list(self._bins)}")

    def _edges(self, name: str) -> Any:
        raise NotImplementedError

    def _made_bins(self, name: str) -> Bins:
        return Bins(self._edges(name), self._right, self._include_lowest, self._duplicates, name)

    def _labels(self, name: str) -> Any:
        """The CategoricalDtype that a column shall have; None: numbers."""
        found = (self._dtypes or {}).get(name)
        return found if type(found).__name__ == "CategoricalDtype" else None

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            text = self._made_bins(name).text(name)
            if text is None or self._labels(name) is not None:
                return None
            made[output] = text
        return made

    def _changed(self, given: Given) -> dict[str, Any]:
        from weir.preprocessors._categories import dictionary

        made: dict[str, Any] = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            bins, labels = self._made_bins(name), self._labels(name)
            codes = bins.of(given.floats(name))
            if labels is not None:
                categories = labels.categories.tolist()
                if len(categories) != bins.count:
                    raise ValueError(f"column {name!r} has {bins.count} bins, and its dtype {len(categories)} categories")
                made[output] = dictionary(codes, categories, labels.ordered)
            else:
                made[output] = codes if not (codes < 0).any() else [None if code < 0 else float(code) for code in codes.tolist()]
        return made


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.custom_kbins_discretizer")
class CustomKBinsDiscretizer(_Discretizer):
    """Each number as the number of its interval, between edges that are given; null outside of all, and then the others of its block are
    floating-point numbers. With -inf and inf as the outermost edges nothing is outside, and the engine does it without workers.

    Args:
        columns: the columns to convert.
        bins: the edges, or a pandas.IntervalIndex; a dict of these for each column.
        right: an interval has its upper edge, and not its lower one; False: the other way round.
        include_lowest: the first interval has its lower edge, too.
        duplicates: "drop" drops edges that are there twice, "raise" refuses them.
        dtypes: for columns, a pandas.CategoricalDtype whose categories name the intervals.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> CustomKBinsDiscretizer(["id"], bins=[0, 1, 3]).transform(weir.range(5)).take()
    [{'id': None}, {'id': 0.0}, {'id': 1.0}, {'id': 1.0}, {'id': None}]
    """

    bins = Field[Any]()
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        bins: Iterable[float] | Any,
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: dict[str, Any] | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, bins, right, include_lowest, duplicates, dtypes, output_columns)
        self._check_bins()

    def _edges(self, name: str) -> Any:
        return self._bins[name] if isinstance(self._bins, dict) else self._bins

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        # As in Ray Data, a block with a number outside of all intervals has doubles, others integers: an expression has one type.
        return super()._texts(known) if all(self._made_bins(name).is_unbounded for name in self._columns) else None


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.uniform_kbins_discretizer")
class UniformKBinsDiscretizer(_Discretizer):
    """Each number as the number of its interval: so many of equal width between the least and the greatest value of the column. The
    first begins a thousandth of the range earlier (with right=False the last ends later), so that all of them lie inside.

    Args:
        columns: the columns to convert.
        bins: how many intervals; a dict of numbers for each column.
        right: an interval has its upper edge, and not its lower one; False: the other way round.
        include_lowest: the first interval has its lower edge, too.
        duplicates: "drop" drops edges that are there twice, "raise" refuses them.
        dtypes: for columns, a pandas.CategoricalDtype whose categories name the intervals.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> [row["id"] for row in UniformKBinsDiscretizer(["id"], bins=2).fit_transform(weir.range(5)).take()]
    [0, 0, 0, 1, 1]
    """

    bins = Field[Any]()

    def __init__(
        self,
        columns: list[str],
        bins: int | dict[str, int],
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: dict[str, Any] | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, bins, right, include_lowest, duplicates, dtypes, output_columns)

    def _fit(self, ds: Dataset) -> UniformKBinsDiscretizer:
        from weir.aggregate import Max, Min

        self._check_bins()
        wanted = self._bins if isinstance(self._bins, dict) else dict.fromkeys(self._columns, self._bins)
        for count in wanted.values():
            if not isinstance(count, int):
                raise TypeError(f"`bins` must be an integer or a dict of integers, got {count!r}")
        found = ds.aggregate(*(kind(name) for kind in (Min, Max) for name in wanted)) or {}
        for name, count in wanted.items():
            self.stats_[name] = _uniform(name, found.get(f"min({name})"), found.get(f"max({name})"), count, self._right)
        return self

    def _edges(self, name: str) -> Any:
        return self.stats_[name]


def _uniform(name: str, least: Any, greatest: Any, count: int, right: bool) -> Any:
    """Edges of `count` intervals that hold everything between."""
    import numpy as np

    if least is None or greatest is None:
        raise ValueError(f"Column {name} has no values to bin: see what the discretizer was fitted with")
    low, high = float(least), float(greatest)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"column {name!r} has {low if np.isinf(low) else high}, and what is infinite has no intervals of equal width")
    if low == high:  # around the one value
        slack = 0.001 * abs(low) if low else 0.001
        return np.linspace(low - slack, high + slack, count + 1)
    edges = np.linspace(low, high, count + 1)
    slack = (high - low) * 0.001
    if right:
        edges[0] -= slack
    else:
        edges[-1] += slack
    return edges
