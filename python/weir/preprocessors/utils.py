"""What preprocessors are made with: the plan of what `fit` computes, the default tokenizer and the hash of the vectorizers.

A plan is filled by `_fit` and run by `fit`: its aggregations go through the data together, in one pass; functions of its own
are called one after another.

    >>> import weir
    >>> from weir.aggregate import Max, Min
    >>> plan = StatComputationPlan()
    >>> plan.add_aggregator(aggregator_fn=Min, columns=["id"])
    >>> plan.add_aggregator(aggregator_fn=Max, columns=["id"], post_process_fn=float)
    >>> plan.compute(weir.range(5))
    {'min(id)': 0, 'max(id)': 4.0}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.data_batch_conversion import BatchFormat
    from weir.dataset import Dataset

__all__ = [
    "AggregateStatSpec",
    "BaseStatSpec",
    "CallableStatSpec",
    "StatComputationPlan",
    "make_post_processor",
    "migrate_private_fields",
    "simple_hash",
    "simple_split_tokenizer",
]


def simple_split_tokenizer(value: str) -> list[str]:
    """The text cut at each blank.

    >>> simple_split_tokenizer("a b  c")
    ['a', 'b', '', 'c']
    """
    return value.split(" ")


def simple_hash(value: object, num_features: int) -> int:
    """A number below `num_features` that depends on the value's text alone: SHA-256 of it, as one large number.

    >>> simple_hash("a", 1000) == simple_hash("a", 1000) < 1000
    True
    """
    import hashlib

    return int.from_bytes(hashlib.sha256(str(value).encode()).digest(), "big") % num_features


def _same(value: Any) -> Any:
    return value


class BaseStatSpec:
    """Something to compute, and what is made of the result.

    >>> BaseStatSpec(stat_fn=len).post_process_fn(3)
    3
    """

    def __init__(self, *, stat_fn: Any, post_process_fn: Callable[[Any], Any] = _same) -> None:
        self.stat_fn = stat_fn
        self.post_process_fn = post_process_fn


class AggregateStatSpec(BaseStatSpec):
    """An aggregation over one column.

    >>> from weir.aggregate import Sum
    >>> AggregateStatSpec(aggregator_fn=Sum("a"), column="a").stat_fn.name
    'sum(a)'
    """

    def __init__(
        self,
        *,
        aggregator_fn: Any,
        post_process_fn: Callable[[Any], Any] = _same,
        column: str | None = None,
        batch_format: BatchFormat | None = None,
    ) -> None:
        super().__init__(stat_fn=aggregator_fn, post_process_fn=post_process_fn)
        self.column = column
        self.batch_format = batch_format


class CallableStatSpec(BaseStatSpec):
    """A function that computes something for several columns at once.

    >>> CallableStatSpec(stat_fn=dict, stat_key_fn=str, post_key_fn=str, columns=["a"]).columns
    ['a']
    """

    def __init__(
        self,
        *,
        stat_fn: Callable[..., Any],
        stat_key_fn: Callable[[str], str] | None,
        post_key_fn: Callable[[str], str] | None,
        post_process_fn: Callable[[Any], Any] = _same,
        columns: list[str],
    ) -> None:
        super().__init__(stat_fn=stat_fn, post_process_fn=post_process_fn)
        self.columns = columns
        self.stat_key_fn = stat_key_fn
        self.post_key_fn = post_key_fn


class StatComputationPlan:
    """What `fit` has to compute. See the module's example.

    >>> StatComputationPlan().has_custom_stat_fn()
    False
    """

    def __init__(self) -> None:
        self._specs: list[BaseStatSpec] = []

    def reset(self) -> None:
        """Forgets everything.

        >>> StatComputationPlan().reset()
        """
        self._specs.clear()

    def add_aggregator(
        self,
        *,
        aggregator_fn: Callable[[str], Any],
        post_process_fn: Callable[[Any], Any] = _same,
        columns: Iterable[str],
        batch_format: BatchFormat | None = None,
    ) -> None:
        """An aggregation for each column: `aggregator_fn` makes it of the column's name.

        >>> from weir.aggregate import Mean
        >>> StatComputationPlan().add_aggregator(aggregator_fn=Mean, columns=["a", "b"])
        """
        for column in columns:
            made = aggregator_fn(column)
            self._specs.append(AggregateStatSpec(
                aggregator_fn=made, post_process_fn=post_process_fn, column=column, batch_format=batch_format))

    def add_callable_stat(
        self,
        *,
        stat_fn: Callable[..., Any],
        stat_key_fn: Callable[[str], str],
        post_key_fn: Callable[[str], str] | None = None,
        post_process_fn: Callable[[Any], Any] = _same,
        columns: list[str],
    ) -> None:
        """A function of `stat_key_fn` that gives a dict: what is under `stat_key_fn(column)` is processed and stored under
        `post_key_fn(column)`.

        >>> plan = StatComputationPlan()
        >>> plan.add_callable_stat(stat_fn=lambda key: {key("a"): 1}, stat_key_fn=lambda c: f"own({c})", columns=["a"])
        >>> import weir
        >>> plan.compute(weir.range(1))
        {'own(a)': 1}
        """
        self._specs.append(CallableStatSpec(
            stat_fn=stat_fn, stat_key_fn=stat_key_fn, post_key_fn=post_key_fn or stat_key_fn, post_process_fn=post_process_fn,
            columns=columns))

    def compute(self, dataset: Dataset) -> dict[str, Any]:
        """Everything, by its name. Aggregates of no rows are None.

        >>> import weir
        >>> StatComputationPlan().compute(weir.range(1))
        {}
        """
        stats: dict[str, Any] = {}
        aggregates = list(self)
        if aggregates:
            # The same aggregation may be asked for twice: it is computed once.
            wanted = {spec.stat_fn.name: spec.stat_fn for spec in aggregates}
            found = dataset.aggregate(*wanted.values()) or {}
            for spec in aggregates:
                stats[spec.stat_fn.name] = spec.post_process_fn(found.get(spec.stat_fn.name))
        for own in self._specs:
            if isinstance(own, CallableStatSpec):
                result = own.stat_fn(own.stat_key_fn)
                for column in own.columns:
                    key = own.stat_key_fn(column) if own.stat_key_fn else column
                    stats[own.post_key_fn(column) if own.post_key_fn else key] = own.post_process_fn(result[key])
        return stats

    def has_custom_stat_fn(self) -> bool:
        """Whether there are functions beside the aggregations.

        >>> StatComputationPlan().has_custom_stat_fn()
        False
        """
        return any(isinstance(spec, CallableStatSpec) for spec in self._specs)

    def __iter__(self) -> Iterator[AggregateStatSpec]:
        return iter([spec for spec in self._specs if isinstance(spec, AggregateStatSpec)])


def make_post_processor(base_fn: Callable[[Any], Any], callbacks: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """One function that calls several, each with the result of the one before.

    >>> make_post_processor(int, [abs, str])("-3")
    '3'
    """

    def process(value: Any) -> Any:
        value = base_fn(value)
        for callback in callbacks:
            value = callback(value)
        return value

    return process


def migrate_private_fields(obj: Any, *, fields: Mapping[str, Any]) -> None:
    """Gives an unpickled object its attributes under their present names. `fields`: present name → an object with
    `public_field`, the older name, and `default` where there is one: a value, or something callable of the object in a wrapper
    with `_factory`.

    >>> import types
    >>> old = types.SimpleNamespace(columns=["a"])
    >>> migrate_private_fields(old, fields={"_columns": types.SimpleNamespace(public_field="columns")})
    >>> old
    namespace(_columns=['a'])
    """
    known = vars(obj)
    for name, older in fields.items():
        if name in known:
            continue
        if older.public_field in known:
            known[name] = known.pop(older.public_field)
        elif not hasattr(older, "default"):
            raise ValueError(f"this is no {type(obj).__name__}: it has no {name!r}")
        else:
            known[name] = older.default(obj) if hasattr(older.default, "_factory") else older.default
