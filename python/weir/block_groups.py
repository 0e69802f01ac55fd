"""Blocks in groups: what BlockAccessor can do with aggregations, block by block.

>>> import pyarrow as pa
>>> from weir.aggregate import Sum
>>> from weir.block import BlockAccessor
>>> parts = [BlockAccessor.for_block(pa.table({"k": [1, 1, 2], "a": [n, 2, 3]}))._aggregate(SortKey("k"), (Sum("a"),)) for n in (1, 10)]
>>> BlockAccessor._combine_aggregated_blocks(parts, SortKey("k"), (Sum("a"),))[0].to_pydict()
{'k': [1, 2], 'sum(a)': [15, 6]}

GroupedData.aggregate has nothing to do with this: the engine groups, and _grouped.py where aggregations are of one's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weir.block_order import Ordered, SortKey

if TYPE_CHECKING:
    from weir.aggregate import AggregateFn
    from weir.block import Block, BlockMetadataWithSchema

__all__: list[str] = []  # BlockAccessor is made of this


class Grouped(Ordered):
    """BlockAccessor's members that concern groups; they are for the engine's own use.

    >>> from weir.block import BlockAccessor
    >>> issubclass(BlockAccessor, Grouped)
    True
    """

    def _aggregate(self, sort_key: SortKey, aggs: Sequence[AggregateFn]) -> Block:
        """A row of partial results for each group of rows, which are sorted by the key; one of all rows where there is no key."""
        from weir._grouped import result_names
        from weir.block import BlockAccessor

        keys, made = sort_key.get_columns(), BlockAccessor.builder()
        if keys and not self.num_rows():
            return self._empty()
        names = result_names(aggs)
        for values, rows in self._iter_groups_sorted(sort_key):
            key = values[0] if len(values) == 1 else values
            parts = [agg.accumulate_block(agg.init(key), rows) for agg in aggs]
            made.add({**dict(zip(keys, values)), **dict(zip(names, parts))})
        return made.build()

    @classmethod
    def _combine_aggregated_blocks(
        cls, blocks: Sequence[Block], sort_key: SortKey, aggs: Sequence[AggregateFn], finalize: bool = True
    ) -> tuple[Block, BlockMetadataWithSchema]:
        """One row for each group of several such blocks, in the key's order; `finalize`: of results, else of partial ones again."""
        from weir._grouped import result_names
        from weir.block import BlockAccessor, BlockExecStats, BlockMetadataWithSchema

        stats = BlockExecStats.builder()
        keys, names = sort_key.get_columns(), result_names(aggs)
        groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[list[Any]]]] = {}
        for block in blocks:
            for row in BlockAccessor.for_block(block).iter_rows(True):
                at = tuple(_same_nan(row[name]) for name in keys)
                _, parts = groups.setdefault(at, ({name: row[name] for name in keys}, [[] for _ in aggs]))
                for part, name in zip(parts, names):
                    part.append(row[name])
        made = BlockAccessor.builder()
        for key, parts in groups.values():
            combined = [_combined(agg, part) for agg, part in zip(aggs, parts)]
            made.add({**key, **{name: agg.finalize(one) if finalize else one for name, agg, one in zip(names, aggs, combined)}})
        block = made.build()
        if keys and groups:
            block = BlockAccessor.for_block(block).sort(sort_key)
        return block, BlockMetadataWithSchema.from_block(block, block_exec_stats=stats.build())


_NAN = object()


def _same_nan(value: Any) -> Any:
    return _NAN if value != value else value


def _combined(agg: AggregateFn, parts: list[Any]) -> Any:
    """One partial result of a group's."""
    from weir.aggregate import VectorizedAggregateFnV2

    if isinstance(agg, VectorizedAggregateFnV2) and agg._native() is None:  # weir's own can do either
        import pyarrow as pa

        return agg._combine_column(pa.chunked_array([pa.array(parts)]))
    made = parts[0]
    for part in parts[1:]:
        made = agg.merge(made, part)
    return made
