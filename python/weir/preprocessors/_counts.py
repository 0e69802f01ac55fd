"""What `fit` learns beside plain aggregates: how often each value occurs, and quantiles.

Values are counted by the engine's groups, a pass for each column, where the Dataset is native; of lists, and behind functions,
which would run again for each pass, batch by batch as the engine hands them out. Among equally frequent values the first seen comes
first, either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir.preprocessors._columns import Given, column, in_engine, is_there, no_such_column, plain, types_of

if TYPE_CHECKING:
    from weir._weir import Batch
    from weir.dataset import Dataset


def batches(ds: Dataset, columns: Sequence[str], preprocessor: object) -> Iterator[Batch]:
    """The batches of a run, with these columns only where they are known."""
    wanted = list(dict.fromkeys(columns))
    names = ds._known_names()
    if names is not None:
        missing = [name for name in wanted if name not in names]
        if missing:
            raise no_such_column(preprocessor, missing, names)
        ds = ds.select_columns(wanted)
    for batch in ds._new_run():
        missing = [name for name in wanted if name not in batch.names]
        if missing:
            raise no_such_column(preprocessor, missing, batch.names)
        yield batch


def counted(ds: Dataset, columns: Sequence[str], preprocessor: object, in_lists: bool = False) -> dict[str, Counter[Any]]:
    """How often each value occurs, by column; None stands for null and NaN. `in_lists`: of columns of lists, their elements."""
    known = types_of(ds) or {}
    if all(known.get(name, "").startswith(_GROUPED) for name in columns):
        return {name: _grouped(ds, name) for name in columns}
    found: dict[str, Counter[Any]] = {name: Counter() for name in columns}
    for batch in batches(ds, columns, preprocessor):
        given = Given(batch, batch.names, preprocessor)
        for name, counter in found.items():
            counter.update(_values(given, name, in_lists))
    return found


# Types whose values the engine groups, and which come back as they are.
_GROUPED = ("string", "large_string", "int", "uint", "bool", "double", "float", "date32", "decimal128")


def _grouped(ds: Dataset, name: str) -> Counter[Any]:
    from weir.aggregate import Count, Min
    from weir.expressions import monotonically_increasing_id

    count, first, row = f"{name} count", f"{name} first", f"{name} row"
    numbered = ds.select_columns([name]).with_column(row, monotonically_increasing_id())
    groups = numbered.groupby(name).aggregate(Count(alias_name=count), Min(row, alias_name=first)).take_all()
    made: Counter[Any] = Counter()
    for group in sorted(groups, key=lambda group: int(group[first])):
        made[plain(group[name])] += group[count]
    return made


def _values(given: Given, name: str, in_lists: bool) -> Iterable[Any] | dict[Any, int]:
    import numpy as np

    array = given.array(name)
    if array.ndim == 1 and array.dtype.kind in "iub":
        values, first, counts = np.unique(array, return_index=True, return_counts=True)
        order = np.argsort(first)
        return dict(zip(values[order].tolist(), counts[order].tolist(), strict=True))
    rows = given.values(name)
    if in_lists and is_listed(given.type_of(name)):
        return (element for row in rows if row is not None for element in row)
    return rows


def is_listed(type_name: str) -> bool:
    """Whether a type is one of lists.

    >>> is_listed("list<item: string>"), is_listed("string")
    (True, False)
    """
    return type_name.startswith(("list<", "large_list<", "fixed_size_list<", "tensor", "extension<arrow.fixed_shape_tensor"))


def tokens(ds: Dataset, columns: Sequence[str], split: Callable[[str], list[str]], preprocessor: object) -> dict[str, Counter[Any]]:
    """How often each token occurs, by column."""
    found: dict[str, Counter[Any]] = {name: Counter() for name in columns}
    for batch in batches(ds, columns, preprocessor):
        given = Given(batch, batch.names, preprocessor)
        for name, counter in found.items():
            for text in given.values(name):
                if text is not None:
                    counter.update(split(text))
    return found


def quantiles(ds: Dataset, columns: Sequence[str], wanted: Sequence[float], precision: int) -> dict[str, list[float | None]]:
    """Quantiles of each column, about, in memory that does not grow with the data; None for a column without values."""
    from weir.aggregate import ApproximateQuantile

    names = ds._known_names()
    missing = [name for name in columns if names is not None and name not in names]
    if missing:
        raise no_such_column("RobustScaler", missing, names or [])
    # NaN is no value.
    there = in_engine(ds, {name: f"({column(name)} if {is_there(name)} else None)" for name in columns})
    found = there.aggregate(*(ApproximateQuantile(name, list(wanted), precision) for name in dict.fromkeys(columns))) or {}
    return {name: found.get(f"approx_quantile({name})") or [None] * len(wanted) for name in columns}

