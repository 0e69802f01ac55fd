"""Blocks by reference, with what is known of them: what Dataset.iter_internal_ref_bundles gives.

>>> import weir
>>> bundles = list(weir.range(10, override_num_blocks=2).iter_internal_ref_bundles())
>>> [(bundle.num_rows(), weir.get(bundle.block_refs[0]).num_rows) for bundle in bundles]
[(5, 5), (5, 5)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weir.block import BlockMetadata


@dataclass(frozen=True)
class BlockSlice:
    """Rows of a block.

    >>> BlockSlice(2, 5).num_rows
    3
    """

    start_offset: int
    end_offset: int

    @property
    def num_rows(self) -> int:
        """How many.

        >>> BlockSlice(2, 2).num_rows
        0
        """
        return self.end_offset - self.start_offset


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """A reference to a block, and what is known of it.

    >>> BlockEntry(None, BlockMetadata(4, 32)).metadata.num_rows
    4
    """

    ref: Any
    metadata: BlockMetadata


@dataclass(frozen=True)
class RefBundle:
    """Blocks that belong together; mostly one.

    >>> RefBundle([BlockEntry(None, BlockMetadata(4, 32))], None, False, slices=[BlockSlice(0, 1)]).size_bytes()
    8
    """

    blocks: Sequence[BlockEntry]
    schema: Any
    owns_blocks: bool
    slices: Sequence[BlockSlice | None] | None = None
    output_split_idx: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        object.__setattr__(self, "slices", tuple(self.slices) if self.slices is not None else (None,) * len(self.blocks))
        for entry in self.blocks:
            if not isinstance(entry, BlockEntry):
                raise AssertionError(f"RefBundle.blocks holds BlockEntry objects, not {type(entry).__name__}")
            if entry.metadata.size_bytes is None:
                raise ValueError(f"The size in bytes of the block must be known: {entry}")
        assert self.slices is not None
        if len(self.slices) != len(self.blocks):
            raise AssertionError("Number of blocks and slices must match")
        for entry, part in zip(self.blocks, self.slices):
            rows = entry.metadata.num_rows
            if part is not None and not 0 <= part.start_offset <= part.end_offset <= (part.end_offset if rows is None else rows):
                raise AssertionError(f"Slice range [{part.start_offset}, {part.end_offset}) exceeds block num_rows: {rows}")

    @property
    def block_refs(self) -> list[Any]:
        """The references.

        >>> import weir
        >>> [bundle] = weir.range(3).iter_internal_ref_bundles()
        >>> weir.get(bundle.block_refs[0]).to_pydict()
        {'id': [0, 1, 2]}
        """
        return [entry.ref for entry in self.blocks]

    @property
    def metadata(self) -> list[BlockMetadata]:
        """What is known of each block.

        >>> import weir
        >>> [bundle] = weir.range(3).iter_internal_ref_bundles()
        >>> bundle.metadata[0].num_rows
        3
        """
        return [entry.metadata for entry in self.blocks]

    def num_rows(self) -> int | None:
        """Of all blocks; None where one does not know.

        >>> RefBundle([BlockEntry(None, BlockMetadata(None, 32))], None, False).num_rows() is None
        True
        """
        rows = [entry.metadata.num_rows if part is None else part.num_rows for entry, part in zip(self.blocks, self.slices or ())]
        return None if None in rows else sum(row for row in rows if row is not None)

    def size_bytes(self) -> int:
        """Of all blocks; of a part of a block, as much as it has of its rows.

        >>> RefBundle([BlockEntry(None, BlockMetadata(4, 32))], None, False).size_bytes()
        32
        """
        total = 0
        for entry, part in zip(self.blocks, self.slices or ()):
            size, rows = entry.metadata.size_bytes or 0, entry.metadata.num_rows
            total += size if part is None or not rows or rows == part.num_rows else max(1, round(size / rows * part.num_rows))
        return total

    def destroy_if_owned(self) -> None:
        """Nothing to do: a block goes with its reference.

        >>> RefBundle([], None, True).destroy_if_owned()
        """

    def slice(self, needed_rows: int) -> tuple[RefBundle, RefBundle]:
        """The first rows, and the others.

        >>> bundle = RefBundle([BlockEntry(None, BlockMetadata(4, 32)), BlockEntry(None, BlockMetadata(2, 16))], None, True)
        >>> [part.slices for part in bundle.slice(5)]
        [(BlockSlice(start_offset=0, end_offset=4), BlockSlice(start_offset=0, end_offset=1)), (BlockSlice(start_offset=1, end_offset=2),)]
        """
        rows = self.num_rows()
        if rows is None:
            raise AssertionError("Cannot slice a RefBundle with unknown number of rows.")
        if not 0 < needed_rows < rows:
            raise AssertionError(f"needed_rows must be positive and less than the {rows} rows that the bundle has, not {needed_rows}")
        first: list[tuple[BlockEntry, BlockSlice]] = []
        rest: list[tuple[BlockEntry, BlockSlice]] = []
        for entry, part in zip(self.blocks, self.slices or ()):
            whole = part if part is not None else BlockSlice(0, entry.metadata.num_rows or 0)
            cut = whole.start_offset + min(needed_rows, whole.num_rows)
            needed_rows -= cut - whole.start_offset
            if cut > whole.start_offset or whole.num_rows == 0 and not rest:
                first.append((entry, BlockSlice(whole.start_offset, cut)))
            if cut < whole.end_offset or whole.num_rows == 0 and rest:
                rest.append((entry, BlockSlice(cut, whole.end_offset)))
        made = [RefBundle([e for e, _ in part], self.schema, False, [s for _, s in part]) for part in (first, rest)]
        return made[0], made[1]

    @classmethod
    def merge_ref_bundles(cls, bundles: Iterable[RefBundle]) -> RefBundle:
        """One bundle of all blocks, with the first schema that names a column.

        >>> RefBundle.merge_ref_bundles([RefBundle([BlockEntry(None, BlockMetadata(n, 8))], None, True) for n in (1, 2)]).num_rows()
        3
        """
        given = list(bundles)
        schemas = [bundle.schema for bundle in given if bundle.schema is not None]
        schema = next((schema for schema in schemas if schema.names), schemas[0] if schemas else None)
        entries = [entry for bundle in given for entry in bundle.blocks]
        return cls(entries, schema, all(bundle.owns_blocks for bundle in given), [part for bundle in given for part in bundle.slices or ()])

    def __len__(self) -> int:
        return len(self.blocks)

    def __str__(self) -> str:
        lines = [f"RefBundle({len(self.blocks)} blocks,", f"  {self.num_rows()} rows,", f"  schema={self.schema},",
                 f"  owns_blocks={self.owns_blocks},", "  blocks=("]
        for i, (entry, part) in enumerate(zip(self.blocks, self.slices or ())):
            shown = part if part is not None else "None (full block)"
            rows = "unknown" if entry.metadata.num_rows is None else entry.metadata.num_rows
            lines.append(f"    {i}: {rows} rows, {entry.metadata.size_bytes} bytes, slice={shown}")
        return "\n".join([*lines, "  )", ")"])


def _ref_bundles_iterator_to_block_refs_list(bundles: Iterable[RefBundle]) -> list[Any]:
    """The references of all blocks: suites for Ray Data look for it here.

    >>> import weir
    >>> len(_ref_bundles_iterator_to_block_refs_list(weir.range(4, override_num_blocks=2).iter_internal_ref_bundles()))
    2
    """
    return [ref for bundle in bundles for ref in bundle.block_refs]
