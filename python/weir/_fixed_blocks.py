"""Blocks that the user has fixed: by a number of blocks, by rows a block, by blocks that were given.

What functions make of such a block is one block, too; where nobody has said anything, blocks are as large as it suits the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir._plan import Blocks, Call, Op, Range, ReadBlocks, ReadTasks, RepartitionRows, Step, chain

if TYPE_CHECKING:
    from weir.context import DataContext


def has_fixed_blocks(part: Op) -> bool:
    """Whether the user said how many blocks there are, or how large: then what functions make of one is one, too."""
    source, *steps = chain(part)
    if (isinstance(source, Range) and source.blocks) or (isinstance(source, Blocks) and source.fixed):
        return True
    if isinstance(source, ReadTasks):
        return True
    return any(isinstance(step, ReadBlocks) for step in steps)


def largest_fixed_block(part: Op, context: DataContext, most: int) -> tuple[int | None, int]:
    """Where blocks are fixed, how large the largest is, 0 if that is not known, else None; and the most that is one: blocks that are
    there already may be any size, a read makes none that are larger than the context says."""
    ops = chain(part)
    source = ops[0]
    if len(ops) > 1 and isinstance(ops[1], Call) and ops[1].spec.kind == "read":
        return 0, most  # its rows are tasks, each of which makes blocks of its own
    largest = max((block.nbytes for block in source.blocks), default=0) if isinstance(source, Blocks) else 0
    if not isinstance(source, Blocks) and context.target_max_block_size:
        most = min(most, context.target_max_block_size)
    return (largest if has_fixed_blocks(part) else None), most


def has_exact_blocks(part: Op) -> bool:
    """Whether blocks end where a step said, at a row: no exchange has come after it."""
    from weir._exchange import Exchange

    made = False
    for step in reversed(chain(part)):
        if isinstance(step, Exchange):
            return False
        if isinstance(step, RepartitionRows) or (isinstance(step, Range) and step.blocks and not made):
            return True
        made = made or isinstance(step, Call)  # what functions make of a block is put together by where it came from
    return False


def sizes_kept(part: Op) -> list[int]:
    """The rows of each block, where they are known and no step changes them; else none."""
    source, *steps = chain(part)
    if not isinstance(source, Blocks) or not all(isinstance(step, Step) and step.keeps_rows and step.keeps_blocks for step in steps):
        return []
    return [block.num_rows for block in source.blocks if block.num_rows]


def reads_in_tasks(part: Op) -> bool:
    """Whether rows of the source are tasks, each of which makes blocks of its own."""
    return any(isinstance(step, Call) and step.spec.kind == "read" for step in chain(part))


def makes_blocks(part: Op) -> bool:
    """Whether functions make blocks of those that the user wanted."""
    return has_fixed_blocks(part) and any(isinstance(step, Call) for step in chain(part)) and partitions_of(part) is None


def partitions_of(part: Op) -> int | None:
    """How many blocks the user wanted of the exchange that made them (num_partitions)."""
    from weir._exchange import Exchange

    for step in reversed(chain(part)):
        if isinstance(step, Exchange):
            return step.partitions
        if not isinstance(step, (Call, Step)):
            break
    return None


def keeps_fixed_blocks(op: Op) -> bool:
    """The same of a plan that is not taken apart yet."""
    return any(step.kind in ("Repartition", "StreamingRepartition") for step in chain(op)) or has_fixed_blocks(op)
