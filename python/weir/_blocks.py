"""Blocks and batches as pieces of one row of rows: put together, cut, and cut elsewhere.

A block is a Batch, a Block that the engine keeps, perhaps on disk, or a Group of neighbours that count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from weir._plan import Blocks, cut_sizes

if TYPE_CHECKING:
    from weir._weir import Batch, Block

JOINED_BYTES = 256 << 20  # what repartition(n) copies into blocks that are in one piece
PARTED_BYTES = 16 << 20  # the same where the number of blocks is asked for, and not how large each is
UNEVEN_BYTES = 1 << 20  # of blocks that are small


def columns_of(block: Any) -> list[tuple[str, str, Any]]:
    """Names, types and metadata: whether a column may hold nulls makes no difference."""
    return [(name, type_text, metadata) for name, type_text, _, metadata in block.schema()]


def empty_of(op: Blocks) -> Batch:
    """No rows, and the columns that all blocks have together: one of nulls in the first block has its type from another."""
    from weir._weir import TypeMismatchError, batch_concat

    chunks = [chunk for block in op.blocks if block.num_rows for chunk in getattr(block, "chunks", (block,))] or op.blocks[:1]
    different: dict[str, Any] = {}
    for chunk in chunks:
        different.setdefault(repr(columns_of(chunk)), chunk)
    empty = [as_batch(chunk).slice(0, 0) for chunk in different.values()]
    try:
        return batch_concat(empty) if len(empty) > 1 else empty[0]
    except TypeMismatchError:  # rows may be of many kinds; the first ones speak for them
        return empty[0]


class Group:
    """Neighbouring chunks as one block; they are joined only for who wants them as one batch."""

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = chunks
        self.num_rows = sum(chunk.num_rows for chunk in chunks)
        self.nbytes = sum(chunk.nbytes for chunk in chunks)

    def schema(self) -> Any:
        return self.chunks[0].schema()

    def batch(self) -> Batch:
        return joined([as_batch(chunk) for chunk in self.chunks])


def grouped(blocks: list[Block], size: int) -> list[Any]:
    """Chunks that are smaller than a block should be go together, up to that size."""
    out: list[Any] = []
    held: list[Block] = []
    for block in [*blocks, None]:
        if held and (block is None or sum(b.nbytes for b in held) >= size or columns_of(block) != columns_of(held[0])):
            out.append(held[0] if len(held) == 1 else Group(held))
            held = []
        if block is not None:
            held.append(block)
    return out


def as_made(blocks: list[Any], most: int | None, most_joined: int, by_chunk: bool) -> list[Any]:
    """What functions made of one block, batch by batch, is one, or several of about `most` bytes. `by_chunk`: that block was not a split
    of the run, but a chunk of one."""
    is_small = sum(b.nbytes for b in blocks) <= most_joined
    out: list[Any] = []
    held: list[Any] = []
    for block in [*blocks, None]:
        if held and (
            block is None
            or block.place[: 1 + by_chunk] != held[0].place[: 1 + by_chunk]
            or (most and not is_small and sum(b.nbytes for b in held) >= most)
        ):
            out += split_large(_as_one(held, is_small), most)
            held = []
        if block is not None:
            held.append(block)
    return out


def _as_one(held: list[Any], is_small: bool) -> list[Any]:
    if len(held) == 1:
        return held
    if not is_small:
        return [Group(held)] if is_uniform(held) else held
    try:
        return [joined([as_batch(block) for block in held])]
    except (TypeError, ValueError, NotImplementedError):  # there is no type for all values of a column
        return held


def split_large(blocks: Iterable[Any], most: int | None) -> Iterator[Any]:
    """Blocks of at most 1.5 × `most`, but at least a row: larger ones are cut into pieces of about that size."""
    for block in blocks:
        if not most or block.num_rows < 2 or block.nbytes < 1.5 * most:
            yield block
            continue
        rows = max(1, -(-most * block.num_rows // block.nbytes))
        batch = as_batch(block)
        for first in range(0, block.num_rows, rows):
            yield batch.slice(first, min(first + rows, block.num_rows))


def chunks_of(blocks: Iterable[Any]) -> list[Any]:
    """What the engine reads: groups taken apart; of blocks that are all empty one, for its columns."""
    listed = list(blocks)
    found = [chunk for block in listed if block.num_rows for chunk in getattr(block, "chunks", (block,))]
    return found or listed[:1]


def as_batch(block: Block | Batch) -> Batch:
    """A block's rows: it comes back from disk if it was there."""
    return block.batch() if hasattr(block, "batch") else block


def cut_blocks(
    blocks: list[Any], count: int, most_joined: int = JOINED_BYTES, keep: Callable[[Batch], list[Any]] | None = None
) -> list[Any]:
    """`count` blocks of the same rows in the same order; at most one a row, since empty ones reach nobody. Of more than
    `most_joined` bytes a block stays the chunks that it has, which may lie on disk; a function that takes blocks as they are gets
    those."""
    total = sum(b.num_rows for b in blocks)
    return cut_at(blocks, [1] * total if count > total else cut_sizes(total, count), most_joined, keep)


def parted(blocks: list[Any], count: int) -> list[Any]:
    """`count` blocks of the same rows in the same order, about as large as each other: chunks stay whole, and nothing is copied.
    There are at least so many."""
    total, seen = sum(b.num_rows for b in blocks), 0
    held: list[list[Any]] = [[]]
    for left, block in zip(range(len(blocks), 0, -1), blocks):
        # The next one begins where its share does, or where each of the rest has a chunk left.
        if held[-1] and len(held) < count and (seen * count >= len(held) * total or left <= count - len(held)):
            held.append([])
        held[-1].append(block)
        seen += block.num_rows
    return [chunks[0] if len(chunks) == 1 else Group(chunks) for chunks in held]


def cut_at(
    blocks: list[Any], sizes: Iterable[int], most_joined: int, keep: Callable[[Batch], list[Any]] | None = None
) -> list[Any]:
    """Blocks of so many rows each. `keep`: makes blocks of pieces of much data, which would hold on to the whole."""
    is_small = sum(b.nbytes for b in blocks) <= most_joined
    out: list[Any] = []
    pieces = iter([b for b in blocks if b.num_rows])
    block, at = None, 0
    for size in sizes:
        held: list[Any] = []
        while size:
            if block is None:
                block, at = next(pieces), 0
            take = min(size, block.num_rows - at)
            whole = at == 0 and take == block.num_rows
            piece = block if whole else as_batch(block).slice(at, at + take)
            held += [piece] if whole or is_small or keep is None else keep(piece)
            at += take
            size -= take
            if at == block.num_rows:
                block = None
        if len(held) == 1:
            out.append(held[0])
        elif held:
            out.append(joined([as_batch(b) for b in held]) if is_small and is_uniform(held) else Group(held))
    return out


def is_uneven(blocks: list[Any], rows: int) -> bool:
    """Whether some blocks have rows enough for a batch and others have not: then which come together must not depend on which is there
    first. Not of large ones, which would have to be there as a whole before a later one may go on."""
    sizes = [block.num_rows for block in blocks]
    return bool(sizes) and min(sizes) < rows <= max(sizes) and max(block.nbytes for block in blocks) <= UNEVEN_BYTES


def is_uniform(blocks: list[Any]) -> bool:
    return all(columns_of(block) == columns_of(blocks[0]) for block in blocks[1:])


def rebatched(batches: Iterator[Batch], size: int, drop_last: bool) -> Iterator[Batch]:
    """Batches of exactly `size` rows, the very last one aside."""
    held: list[Batch] = []
    rows = 0
    for batch in batches:
        count, at = batch.num_rows, 0
        if rows == 0 and count == size:
            yield batch
            continue
        while rows + count - at >= size:
            take = size - rows
            piece = batch.slice(at, at + take)
            at += take
            if held:
                held.append(piece)
                piece = joined(held)
                held, rows = [], 0
            yield piece
        if at < count:
            held.append(batch.slice(at, count) if at else batch)
            rows += count - at
    if held and not drop_last:
        yield joined(held)


def resized(batches: Iterator[Batch], sizes: list[int]) -> Iterator[Batch]:
    """Batches of these sizes, one after another."""
    batch: Batch | None = None
    at = 0
    for size in sizes:
        held: list[Batch] = []
        while size:
            if batch is None:
                batch, at = next(batches, None), 0
                if batch is None:
                    break
            take = min(size, batch.num_rows - at)
            held.append(batch if take == batch.num_rows else batch.slice(at, at + take))
            at += take
            size -= take
            if at == batch.num_rows:
                batch = None
        if held:
            yield joined(held)


def joined(batches: list[Batch]) -> Batch:
    """One batch of several, their schemas unified."""
    from weir._errors import ArrowConversionError
    from weir._weir import batch_concat

    if len(batches) == 1:
        return batches[0]
    try:
        return batch_concat(batches)
    except ArrowConversionError:
        raise
    except (ValueError, TypeError) as error:
        raise ArrowConversionError(
            f"{error}: blocks of this Dataset differ, and do not fit into one batch. Let the function return the same type for every "
            "batch, or take a batch a block with batch_size=None"
        ) from None
