"""Datasets side by side: row i of the result has the columns of row i of each of them.

All sides are kept first, since only then it is known whether they have as many rows. Then pieces of them that begin and end with
the same rows are put together, without copying a value where their blocks are cut alike:

    a:  ├──────── block ────────┼──── block ────┤        the largest side's blocks are those of the result
    b:  ├── block ──┼── block ──┼──┼── block ───┤
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir._arrange import Arranged
from weir._fixed_blocks import keeps_fixed_blocks
from weir._plan import Blocks, Op, rules_of

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Batch


PIECES = 16  # the limit divided by this is what a piece of all sides has: several of them are in memory at once


class Zip(Arranged):
    """The columns of several inputs, row by row."""

    __slots__ = ("others",)
    kind = "Zip"
    pairs_rows = True

    def __init__(self, input: Op, others: Sequence[Op]) -> None:
        self.input = input
        self.others = tuple(others)

    def rows(self) -> int | None:
        known = [op.rows() for op in self.inputs]
        return known[0] if all(rows == known[0] for rows in known) else None

    def parts(self, run: Run) -> list[Op]:
        from weir import _blocks, _parts

        sides = [_kept(op, run) for op in self.inputs]
        counts = [sum(block.num_rows for block in side) for side in sides]
        for count in counts[1:]:
            if count != counts[0]:
                raise ValueError(f"Cannot zip datasets of different number of rows: {counts[0]}, {count}")
        if not counts[0]:
            return []
        sizes = [sum(block.nbytes for block in side) for side in sides]
        lead = sizes.index(max(sizes))
        state = run.build.state
        if sum(sizes) <= min(_blocks.JOINED_BYTES, state.native.memory_limit // 8):
            fixed = keeps_fixed_blocks(self.inputs[lead])
            made = _zipped(sides, [block.num_rows for block in sides[lead]], bool(rules_of(self)))
            return _parts.resolve(Blocks("Zip", list(made), state.id, fixed), run)
        sides = [_blocks.chunks_of(side) for side in sides]  # of much, a block may be more than there is memory
        most = state.native.memory_limit // (PIECES * len(sides))
        return _parts.streamed(_zipped(sides, list(_rows_of_pieces(sides[lead], most)), bool(rules_of(self))), run)


def _kept(op: Op, run: Run) -> list[Any]:
    """An input's rows as blocks that are read again one by one."""
    from weir import _parts

    blocks = [block for part in _parts.resolve(op, run) for block in run.blocks_of(part)]
    return [block for block in blocks if block.num_rows]


def _rows_of_pieces(chunks: Sequence[Any], most: int) -> Iterator[int]:
    """How many rows the pieces have that chunks are cut into, each of about `most` bytes or a whole chunk."""
    for chunk in chunks:
        rows = chunk.num_rows
        count = min(rows, max(1, round(chunk.nbytes / most)))
        yield from (rows * (i + 1) // count - rows * i // count for i in range(count))


def _zipped(sides: Sequence[Sequence[Any]], rows: list[int], frames: bool) -> Iterator[Batch]:
    from weir import _blocks, _formats
    from weir._weir import batch_zip

    pieces = [_blocks.resized(_alike(side), rows) for side in sides]
    for batches in zip(*pieces, strict=True):
        zipped = batch_zip(batches)
        yield _formats.side_by_side(batches, zipped) if frames else zipped


def _alike(blocks: Sequence[Any]) -> Iterator[Batch]:
    """The batches of blocks, which have the same columns: those of all of them, where they differ."""
    from weir import _blocks

    first = _blocks.columns_of(blocks[0])
    if all(_blocks.columns_of(block) == first for block in blocks[1:]):
        yield from map(_blocks.as_batch, blocks)
        return
    known: list[Any] = []
    empties: list[Batch] = []
    for block in blocks:
        columns = _blocks.columns_of(block)
        if columns not in known:
            known.append(columns)
            empties.append(_blocks.as_batch(block).slice(0, 0))
    empty = _blocks.joined(empties)
    for block in blocks:
        yield _blocks.joined([empty, _blocks.as_batch(block)])
