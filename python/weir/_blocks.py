"""Blocks and batches as pieces of one row of rows: put together, cut, and cut elsewhere.

A block is a Batch, a Block that the engine keeps, perhaps on disk, or a Group of neighbours that count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from weir._plan import Blocks, Op, cut_sizes, walk

if TYPE_CHECKING:
    from weir._loop import Holding, Waiting
    from weir._run import Run
    from weir._weir import Batch, Block
    from weir.context import DataContext

JOINED_BYTES = 256 << 20  # what repartition(n) copies into blocks that are in one piece
PARTED_BYTES = 16 << 20  # the same where the number of blocks is asked for, and not how large each is
PINNED_BYTES = 8 << 20  # of a batch, that a small part of it may keep in memory
UNEVEN_BYTES = 1 << 20  # of blocks that are small


def columns_of(block: Any) -> list[tuple[str, str, Any]]:
    """Names, types and metadata: whether a column may hold nulls makes no difference."""
    return [(name, type_text, metadata) for name, type_text, _, metadata in block.schema()]


def enforced(blocks: Iterable[Any]) -> Iterator[Any]:
    """The blocks; pyarrow's ArrowTypeError at one with a column whose type cannot be merged with that of blocks before it."""
    import pyarrow as pa

    merged: Any = None
    last: list[tuple[str, str, Any]] = []
    for block in blocks:
        if (columns := columns_of(block)) != last:
            last = columns
            schema = pa.schema(as_batch(block))
            plain = pa.schema([field for field in schema if b"ARROW:extension:name" not in (field.metadata or {})])
            merged = plain if merged is None else pa.unify_schemas([merged, plain], promote_options="permissive")
        yield block


def empty_of(op: Blocks) -> Batch:
    """No rows, and the columns that all blocks have together: one of nulls in the first block has its type from another."""
    chunks = [chunk for block in op.blocks if block.num_rows for chunk in getattr(block, "chunks", (block,))] or op.blocks[:1]
    common = common_columns(chunks)
    return as_batch(chunks[0]).slice(0, 0) if common is None else common  # rows may be of many kinds; the first ones speak for them


def common_columns(chunks: Iterable[Any]) -> Batch | None:
    """No rows, and the columns of all chunks in types that hold them all; None where there is no such type."""
    from weir._weir import TypeMismatchError, batch_concat

    different: dict[str, Any] = {}
    for chunk in chunks:
        different.setdefault(repr(columns_of(chunk)), chunk)
    empty = [as_batch(chunk).slice(0, 0) for chunk in different.values()]
    try:
        return batch_concat(empty) if len(empty) > 1 else empty[0]
    except TypeMismatchError:
        return None


class Group:
    """Neighbouring chunks as one block; they are joined only for who wants them as one batch."""

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = [chunk for block in chunks for chunk in getattr(block, "chunks", (block,))]  # groups are made of groups, too
        self.num_rows = sum(chunk.num_rows for chunk in self.chunks)
        self.nbytes = sum(chunk.nbytes for chunk in self.chunks)

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


def block_most(op: Op, context: DataContext) -> int | None:
    """About how large a block that `op` makes may be. None: as large as it gets."""
    from weir._exchange import Exchange

    if not context.block_splitting_enabled:
        return None
    sizes = [context.target_max_block_size]
    if isinstance(op, Exchange):
        sizes.append(context.target_shuffle_max_block_size)
    return min((size for size in sizes if size), default=None)


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


def as_they_come(batches: Iterator[Any], place: Callable[[], tuple[int, ...]], most: int) -> Iterator[Any]:
    """as_made for a loop, which does not wait for the last one: batches of one place() are a block, or several of about `most` bytes."""
    held: list[Any] = []
    at: tuple[int, ...] = ()
    is_cut = False
    for batch in batches:
        if held and place() != at:
            yield from _as_one(held, True)
            held, is_cut = [], False
        at = place()
        held.append(batch)
        del batch
        while sum(b.nbytes for b in held) >= (most if is_cut else 1.5 * most):
            first, *others = _as_one(held, True)
            rows = -(-most * first.num_rows // max(1, first.nbytes))
            if not others and 0 < rows < first.num_rows:
                held, is_cut = [first.slice(rows, first.num_rows)], True
                yield first.slice(0, rows)
            else:  # of several types, or one row
                held, is_cut = [], True
                yield from (first, *others)
    yield from _as_one(held, True) if held else ()


def _as_one(held: list[Any], is_small: bool) -> list[Any]:
    if len(held) == 1:
        return held
    if not is_small:
        return [Group(held)] if is_uniform(held) else held
    try:
        return [joined([as_batch(block) for block in held])]
    except (TypeError, ValueError, NotImplementedError):  # there is no type for all values of a column
        return held


def split_large(blocks: Iterable[Any], most: int | None, is_read: bool = False) -> Iterator[Any]:
    """Blocks of less than 1.5 × `most`, but at least a row: of larger ones pieces of that size are cut off, until the rest is none. What
    is read comes bit by bit, and is cut as soon as there is so much of it."""
    for block in blocks:
        if not most or block.num_rows < 2 or block.nbytes < 1.5 * most:
            yield block
            del block
            continue
        rows, large = max(1, -(-most * block.num_rows // block.nbytes)), 1.5 * most * block.num_rows / block.nbytes
        batch = as_batch(block)
        del block
        first, count = 0, batch.num_rows
        while first < count:
            last = first + rows if is_read or count - first >= large else count
            yield batch.slice(first, min(last, count))
            first = last
        del batch


def chunks_of(blocks: Iterable[Any]) -> list[Any]:
    """What the engine reads: groups taken apart; of blocks that are all empty one, for its columns."""
    listed = list(blocks)
    found = [chunk for block in listed if block.num_rows for chunk in getattr(block, "chunks", (block,))]
    return found or listed[:1]


def as_batch(block: Block | Batch) -> Batch:
    """A block's rows: it comes back from disk if it was there."""
    return block.batch() if hasattr(block, "batch") else block


def lends_rows(op: Op) -> bool:
    """Whether a plan begins with rows that lie in this process's own memory: a batch of them is those rows, and no map of them."""
    return any(
        not hasattr(chunk, "batch")
        for part in walk(op)
        if isinstance(part, Blocks)
        for block in part.blocks
        for chunk in getattr(block, "chunks", (block,))
    )


def rows_of(batch: Batch, taker: Waiting | Run) -> list[dict[str, Any]]:
    """Rows for the user. Values are made for him; tensors are arrays over the batch's memory."""
    is_seen = taker.lends and any(metadata for _, _, _, metadata in batch.schema())
    return (taker.own(batch) if is_seen else batch).rows()


def batches_of(block: Any, most: int) -> Iterator[Batch]:
    """A block's rows as one batch; if they are more than `most` bytes, as many as it has chunks."""
    if block.nbytes <= most or not isinstance(block, Group):
        yield as_batch(block)
        return
    for chunk in block.chunks:
        yield as_batch(chunk)


def piece_of(block: Any, begin: int, end: int) -> Any:
    """Some rows of a block as one. Of a group only the chunks at the edges are looked at: it may be larger than the memory."""
    if end - begin == block.num_rows:
        return block
    if not isinstance(block, Group):
        return as_batch(block).slice(begin, end)
    pieces = rows_between(block.chunks, begin, end)
    return pieces[0] if len(pieces) == 1 else Group(pieces)


def rows_between(blocks: Iterable[Any], begin: int, end: int) -> list[Any]:
    """The blocks of these rows: whole ones as they are, the edges cut."""
    out: list[Any] = []
    at = 0
    for block in blocks:
        a, b = max(begin - at, 0), min(end - at, block.num_rows)
        if a < b:
            out.append(piece_of(block, a, b))
        at += block.num_rows
    return out


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
            piece = piece_of(block, at, at + take)
            held += [piece] if whole or is_small or keep is None else _kept(piece, keep)
            at += take
            size -= take
            if at == block.num_rows:
                block = None
        if len(held) == 1:
            out.append(held[0])
        elif held:
            out.append(_one_of(held, is_small, keep))
    return out


def _one_of(pieces: list[Any], is_small: bool, keep: Callable[[Batch], list[Any]] | None) -> Any:
    """One block of several pieces: a column that has several types gets one that holds them all, where there is such a type."""
    from weir._weir import batch_concat

    chunks = [chunk for piece in pieces for chunk in getattr(piece, "chunks", (piece,))]
    if is_uniform(chunks):
        return joined([as_batch(chunk) for chunk in chunks]) if is_small else Group(chunks)
    common = common_columns(chunks)
    if common is None:
        return Group(chunks)
    if is_small:
        return joined([as_batch(chunk) for chunk in chunks])
    columns = columns_of(common)
    made: list[Any] = []
    for chunk in chunks:
        if columns_of(chunk) == columns:
            made.append(chunk)
        else:
            batch = batch_concat([common, as_batch(chunk)])
            made += [batch] if keep is None else keep(batch)
    return Group(made)


def _kept(piece: Any, keep: Callable[[Batch], list[Any]]) -> list[Any]:
    """What is a slice of a chunk is kept apart from it; whole ones are."""
    chunks = piece.chunks if isinstance(piece, Group) else [piece]
    return [made for chunk in chunks for made in ([chunk] if hasattr(chunk, "batch") else keep(chunk))]


def is_uneven(blocks: list[Any], rows: int) -> bool:
    """Whether some blocks have rows enough for a batch and others have not: then which come together must not depend on which is there
    first. Not of large ones, which would have to be there as a whole before a later one may go on."""
    sizes = [block.num_rows for block in blocks]
    return bool(sizes) and min(sizes) < rows <= max(sizes) and max(block.nbytes for block in blocks) <= UNEVEN_BYTES


def bundling(blocks: list[Any], rows: int) -> dict[str, int]:
    """How the engine puts given blocks together for batches of so many rows: whole blocks, until there are as many.

    One of two batches or more that small ones are put in front of is not cut into its batches either: the first would go with them, and the
    others be a block of their own behind it."""
    uneven = is_uneven(blocks, rows)
    how = {"keeps_splits": 1 + uneven}
    gathered = 0
    for block in blocks if uneven else ():
        if 0 < gathered < rows and block.num_rows >= 2 * rows:
            how["fine"] = 0
        gathered = (0 if gathered >= rows else gathered) + block.num_rows
    return how


def is_uniform(blocks: list[Any]) -> bool:
    return all(columns_of(block) == columns_of(blocks[0]) for block in blocks[1:])


def limited(batches: Iterator[Batch], count: int) -> Iterator[Batch]:
    """The first rows of all."""
    if count <= 0:
        return
    for batch in batches:
        yield batch if batch.num_rows <= count else batch.slice(0, count)
        count -= batch.num_rows
        if count <= 0:
            return


def rebatched(batches: Iterator[Batch], size: int, drop_last: bool, holding: Holding | None = None) -> Iterator[Batch]:
    """Batches of exactly `size` rows, the very last one aside. `holding`: is told what copies of them take."""
    held: list[Batch] = []
    rows = 0
    try:
        for batch in batches:
            count, at = batch.num_rows, 0
            if rows == 0 and count == size:
                yield batch
                del batch
                continue
            is_large = batch.nbytes > PINNED_BYTES
            while rows + count - at >= size:
                take = size - rows
                piece = batch.slice(at, at + take)
                at += take
                if held:
                    held.append(piece)
                    piece = joined(held)
                    held, rows = [], 0
                    if holding is not None:
                        holding.expect(2 * piece.nbytes)  # the program has one while the next is made
                elif is_large and count - at < size and 4 * size < count:
                    piece = copied(piece)  # the last of it: whoever looks at it while the next batch is made does not hold them all
                yield piece
                del piece
            if at < count:
                rest = batch.slice(at, count) if at else batch
                held.append(copied(rest) if is_large and 4 * (count - at) < count else rest)
                rows += count - at
                del rest
            del batch  # it is free while the next one is made
        if held and not drop_last:
            yield joined(held)
    finally:
        if holding is not None:
            holding.expect(0)


def cut_rows(blocks: Iterator[Batch], count: int, strict: bool) -> Iterator[Batch]:
    """Blocks of so many rows: exactly where that is said, else no block is put together with another."""
    if strict:
        yield from rebatched(blocks, count, False)
        return
    for block in blocks:
        for at in range(0, block.num_rows, count):
            yield block.slice(at, min(at + count, block.num_rows))


def copied(batch: Batch) -> Batch:
    """The same rows in memory of their own."""
    import numpy

    return batch.take(numpy.arange(batch.num_rows))


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
