"""Blocks in order: what BlockAccessor can do with a sort key.

>>> import pyarrow as pa
>>> from weir.block import BlockAccessor
>>> BlockAccessor.for_block(pa.table({"a": [2, 3, 1]})).sort(SortKey("a", descending=True)).column("a").to_pylist()
[3, 2, 1]

Dataset.sort has nothing to do with this: the engine sorts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.block import Block, BlockMetadataWithSchema

__all__ = ["SortKey", "SortTaskSpec", "find_partition_index", "sort_key"]


class SortKey:
    """By which columns, and which way.

    >>> SortKey(["a", "b"], descending=[True, False]).to_arrow_sort_args()
    [('a', 'descending'), ('b', 'ascending')]
    """

    def __init__(
        self, key: str | list[str] | None = None, descending: bool | list[bool] = False, boundaries: list[Any] | None = None
    ) -> None:
        columns = [] if key is None else [key] if isinstance(key, str) else key
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise ValueError(f"Key must be a string or a list of strings, but got {key}.")
        ways = [descending] * len(columns) if isinstance(descending, bool) else list(descending)
        if len(ways) != len(columns):
            raise ValueError("Length of `descending` does not match the length of the key.")
        if boundaries:
            if not all(isinstance(item, (int, float)) for item in boundaries):
                raise ValueError("The type of items in boundaries must be int or float.")
            boundaries = sorted(set(boundaries))
        self._columns, self._descending, self._boundaries = columns, ways, boundaries

    def get_columns(self) -> list[str]:
        """The columns, the first counts most.

        >>> SortKey(["a", "b"]).get_columns()
        ['a', 'b']
        """
        return self._columns

    def get_descending(self) -> list[bool]:
        """Which of them begin with the largest.

        >>> SortKey(["a", "b"], descending=True).get_descending()
        [True, True]
        """
        return self._descending

    @property
    def boundaries(self) -> list[Any] | None:
        """Where ranges are cut, if the user said so: in order, each once.

        >>> SortKey("a", boundaries=[20, 10, 20]).boundaries
        [10, 20]
        """
        return self._boundaries

    def to_arrow_sort_args(self) -> list[tuple[str, str]]:
        """As pyarrow takes it.

        >>> SortKey("a").to_arrow_sort_args()
        [('a', 'ascending')]
        """
        return [(name, "descending" if down else "ascending") for name, down in zip(self._columns, self._descending)]

    def to_pandas_sort_args(self) -> tuple[list[str], list[bool]]:
        """As pandas takes it: the columns, and which of them begin with the smallest.

        >>> SortKey("a", descending=True).to_pandas_sort_args()
        (['a'], [False])
        """
        return self._columns, [not down for down in self._descending]

    def validate_schema(self, schema: Any) -> None:
        """ValueError if a column is not there. Nothing is known of a schema without columns, nor of None.

        >>> import pyarrow as pa
        >>> SortKey("b").validate_schema(pa.schema([("a", pa.int64())]))
        Traceback (most recent call last):
        ...
        ValueError: You specified the column 'b', but there's no such column in the dataset. The dataset has columns: ['a']
        """
        names = list(schema.names) if schema is not None else []
        for name in self._columns if names else ():
            if name not in names:
                raise ValueError(
                    f"You specified the column '{name}', but there's no such column in the dataset. The dataset has columns: {names}"
                )


def sort_key(key: SortKey | str | Sequence[str] | None) -> SortKey:
    """A key of what a caller gave.

    >>> sort_key("a").get_columns()
    ['a']
    """
    if key is None or callable(key):
        raise NotImplementedError(f"Table sort key must be a column name, was: {key}")
    if hasattr(key, "get_columns"):
        return key  # type: ignore[return-value]
    return SortKey(key if isinstance(key, str) else list(key))


class SortTaskSpec:
    """Where a sort of blocks cuts them into ranges, by rows that are taken at random.

    >>> import pyarrow as pa
    >>> SortTaskSpec.get_boundaries_from_samples([pa.table({"a": [4, 1, 3, 2]})], SortKey("a"), 2)
    [(3,)]
    """

    SORT_SAMPLE_POINTS_PER_PARTITION = 10

    @staticmethod
    def sample_boundaries(blocks: Sequence[Any], sort_key: SortKey, num_reducers: int) -> list[tuple[Any, ...] | None]:
        """What lies between so many ranges of about as many rows, of references to blocks: tuples of the key's values.

        >>> import weir, pyarrow as pa
        >>> block = weir.put(pa.table({"a": list(range(100))}))
        >>> [first, second] = SortTaskSpec.sample_boundaries([block], SortKey("a"), 3)
        >>> 0 < first[0] < second[0] < 99
        True
        """
        import weir
        from weir.block import BlockAccessor

        count = num_reducers * SortTaskSpec.SORT_SAMPLE_POINTS_PER_PARTITION // max(1, len(blocks))
        samples = [BlockAccessor.for_block(weir.get(block)).sample(count, sort_key) for block in blocks]
        return SortTaskSpec.get_boundaries_from_samples(samples, sort_key, num_reducers)

    @staticmethod
    def get_boundaries_from_samples(samples: Sequence[Any], sort_key: SortKey, num_reducers: int) -> list[tuple[Any, ...] | None]:
        """The same of blocks that hold samples; of no rows at all, None for each.

        >>> import pyarrow as pa
        >>> SortTaskSpec.get_boundaries_from_samples([pa.table({"a": [4, 1, 3, 2]}), pa.table({"a": [6, 5]})], SortKey("a"), 3)
        [(3,), (5,)]
        """
        from weir.block import BlockAccessor

        made = BlockAccessor.builder()
        for sample in samples:
            if BlockAccessor.for_block(sample).num_rows():
                made.add_block(BlockAccessor.for_block(sample).to_arrow())
        if not made.num_rows():
            return [None] * (num_reducers - 1)
        ordered = BlockAccessor.for_block(BlockAccessor.for_block(made.build()).sort(sort_key))
        rows = [tuple(row[name] for name in sort_key.get_columns()) for row in ordered.iter_rows(True)]
        return [rows[len(rows) * number // num_reducers] for number in range(1, num_reducers)]


class Ordered:
    """BlockAccessor's members that concern order. Nulls and NaN come last either way.

    >>> from weir.block import BlockAccessor
    >>> issubclass(BlockAccessor, Ordered)
    True
    """

    _block: Any

    def num_rows(self) -> int:
        raise NotImplementedError

    def slice(self, start: int, end: int, copy: bool = False) -> Any:
        raise NotImplementedError

    def take(self, indices: Any) -> Any:
        raise NotImplementedError

    def select(self, columns: Any) -> Any:
        raise NotImplementedError

    def to_arrow(self) -> Any:
        raise NotImplementedError

    def _empty(self) -> Any:
        """A block without columns of the same kind."""
        import pyarrow as pa

        return pa.table({})

    def _sorted(self, key: SortKey) -> Any:
        import pyarrow.compute as pc

        return self.take(pc.sort_indices(self.to_arrow(), sort_keys=key.to_arrow_sort_args()))

    def sort(self, sort_key: Any) -> Any:
        """The rows in the order of a SortKey. Nulls and NaN come last either way.

        >>> import pyarrow as pa
        >>> from weir.block import BlockAccessor
        >>> BlockAccessor.for_block(pa.table({"a": [1, None, 3]})).sort(SortKey("a", descending=True)).to_pydict()
        {'a': [3, 1, None]}
        """
        key = _key(sort_key)
        if not key.get_columns():
            raise AssertionError(f"Sorting columns couldn't be empty (got {key.get_columns()})")
        return self._sorted(key) if self.num_rows() else self._empty()

    def sample(self, n_samples: int, sort_key: Any) -> Any:
        """The key's columns of some rows at random; of all of them where there are no more.

        >>> import pyarrow as pa
        >>> from weir.block import BlockAccessor
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})).sample(2, SortKey("a")).num_rows
        2
        """
        from weir.block import BlockAccessor

        key = _key(sort_key)
        if not self.num_rows():
            return self._empty()
        rows = random.sample(range(self.num_rows()), min(n_samples, self.num_rows()))
        return BlockAccessor.for_block(self.select(key.get_columns())).take(rows)

    def sort_and_partition(self, boundaries: list[Any], sort_key: Any) -> list[Any]:
        """Sorted, and cut in front of the first row that is not before a boundary: a block more than there are boundaries.

        >>> import pyarrow as pa
        >>> from weir.block import BlockAccessor
        >>> parts = BlockAccessor.for_block(pa.table({"a": [5, 1, 3]})).sort_and_partition([(3,)], SortKey("a"))
        >>> [part.to_pydict() for part in parts]
        [{'a': [1]}, {'a': [3, 5]}]
        """
        from weir.block import BlockAccessor

        key = _key(sort_key)
        if not self.num_rows():
            return [self._empty() for _ in range(len(boundaries) + 1)]
        return BlockAccessor.for_block(self.sort(key))._find_partitions_sorted(boundaries, key)

    def _find_partitions_sorted(self, boundaries: list[Any], sort_key: Any) -> list[Any]:
        from weir.block import BlockAccessor

        key = _key(sort_key)
        values = BlockAccessor.for_block(self.select(key.get_columns())).to_arrow().combine_chunks()
        cuts = [0]
        for boundary in boundaries:
            pivot = boundary if isinstance(boundary, (tuple, list)) else (boundary,)
            cuts.append(_place(values, pivot, key.get_descending(), cuts[-1]))
        cuts.append(self.num_rows())
        return [self.slice(first, last) for first, last in zip(cuts, cuts[1:])]

    @staticmethod
    def merge_sorted_blocks(blocks: list[Block], sort_key: Any) -> tuple[Block, BlockMetadataWithSchema]:
        """One block of several that are sorted, in order, and what is known of it.

        >>> import pyarrow as pa
        >>> from weir.block import BlockAccessor
        >>> block, known = BlockAccessor.merge_sorted_blocks([pa.table({"a": [1, 4]}), pa.table({"a": [2]})], SortKey("a"))
        >>> block.to_pydict(), known.num_rows
        ({'a': [1, 2, 4]}, 3)
        """
        from weir.block import BlockAccessor, BlockExecStats, BlockMetadataWithSchema

        stats = BlockExecStats.builder()
        made = BlockAccessor.builder()
        for block in blocks:
            if BlockAccessor.for_block(block).num_rows():
                made.add_block(BlockAccessor.for_block(block).to_arrow())
        block = made.build()
        if made.num_rows():
            block = BlockAccessor.for_block(block).sort(sort_key)
        return block, BlockMetadataWithSchema.from_block(block, block_exec_stats=stats.build())

    def _get_group_boundaries_sorted(self, keys: list[str]) -> Any:
        """Where groups begin in rows that are sorted by `keys`, and where the last ends. Nulls are one group, and so is NaN."""
        import numpy as np

        from weir.block import BlockAccessor

        count = self.num_rows()
        if not count:
            return np.array([], np.int32)
        if not keys:
            return np.array([0, count])
        import pyarrow as pa
        import pyarrow.compute as pc

        table = BlockAccessor.for_block(self.select(keys)).to_arrow().combine_chunks()
        begins = np.zeros(count, bool)
        begins[0] = True
        for name in keys:
            column = table.column(name)
            same = pc.equal(column.slice(1), column.slice(0, count - 1)).fill_null(False).to_numpy().astype(bool)
            none = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy().astype(bool)
            begins[1:] |= ~(same | (none[1:] & none[:-1]))
        return np.append(np.flatnonzero(begins), count)

    def _iter_groups_sorted(self, sort_key: Any) -> Iterator[tuple[Any, Any]]:
        """(key values, rows) of each group of rows that are sorted by the key."""
        from weir.block import BlockAccessor

        names = _key(sort_key).get_columns()
        if not names:
            yield (), self._block
            return
        cuts = self._get_group_boundaries_sorted(names).tolist()
        for first, last in zip(cuts, cuts[1:]):
            group = self.slice(first, last)
            row = next(iter(BlockAccessor.for_block(BlockAccessor.for_block(group).slice(0, 1)).iter_rows(True)))
            yield tuple(row[name] for name in names), group


_key = sort_key


def find_partition_index(table: Any, desired: Sequence[Any], sort_key: Any) -> int:
    """In front of which row of a sorted block a boundary lies: one value for each of the key's columns.

    >>> import pyarrow as pa
    >>> find_partition_index(pa.table({"a": [1, 2, 3]}), (2,), SortKey("a"))
    1
    """
    from weir.block import BlockAccessor

    key = _key(sort_key)
    values = BlockAccessor.for_block(BlockAccessor.for_block(table).select(key.get_columns())).to_arrow().combine_chunks()
    return _place(values, desired, key.get_descending(), 0)


def _place(table: Any, pivot: Sequence[Any], descending: list[bool], first: int) -> int:
    """The number of the first row at or behind `first` that does not come before the pivot."""
    low, high = first, table.num_rows
    while low < high:
        middle = (low + high) // 2
        if _is_before([column[middle].as_py() for column in table.columns], pivot, descending):
            low = middle + 1
        else:
            high = middle
    return int(low)


def _is_before(row: Sequence[Any], pivot: Sequence[Any], descending: Sequence[bool]) -> bool:
    """As Ray Data has it: what equals the pivot lies behind it, but before it where the first column descends."""
    for value, other, down in zip(row, pivot, descending):
        value, other = (None if item is None or item != item else item for item in (value, other))
        if value is None or other is None:
            if value is other:
                continue
            return other is None
        if value != other:
            return bool(value > other) if down else bool(value < other)
    return descending[0]
