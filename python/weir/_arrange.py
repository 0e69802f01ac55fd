"""Operators that choose or arrange rows of whole inputs: mixes, blocks in random order, shards, random halves.

They are no steps of the engine. Those that can are moved into the sources while the plan is made (`sharded`); the others take
the batches of what lies before them in this process and hand them on, one at a time, to what lies behind:

    inputs ─▶ runs of their own ─ batches ─▶ here ─ batches ─▶ _parts.Streamed ─▶ steps and functions as ever
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir._fixed_blocks import keeps_fixed_blocks
from weir._plan import Blocks, Call, Op, Range, Read, ReadBlocks, RepartitionRows, Step, Union

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Batch


class MixStoppingCondition(enum.Enum):
    """When a mix ends: with the first input that has no rows left, or with the last.

    >>> import weir
    >>> weir.MixStoppingCondition("stop_on_shortest")
    <MixStoppingCondition.STOP_ON_SHORTEST: 'stop_on_shortest'>
    """

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"


@dataclass
class RandomSeedConfig:
    """A seed, and whether each run draws anew from it.

    Args:
        seed: None: nothing is repeatable.
        reseed_after_execution: each run of a Dataset draws differently: the n-th run of it the same in each program.
        use_timestamp_as_default: of old; without a seed, numbers come from the system in any case.

    >>> import weir
    >>> weir.RandomSeedConfig(7, reseed_after_execution=False).seed
    7
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError("Seed must be an integer or None.")

    @classmethod
    def create_seed_config(cls, seed: Any, *, use_timestamp_as_default: bool = False) -> RandomSeedConfig:
        """A RandomSeedConfig of what methods take as `seed`: a number (each run draws the same), None, or one of these.

        >>> RandomSeedConfig.create_seed_config(7)
        RandomSeedConfig(seed=7, reseed_after_execution=False, use_timestamp_as_default=False)
        """
        if isinstance(seed, RandomSeedConfig):
            return seed
        return cls(seed, reseed_after_execution=False, use_timestamp_as_default=use_timestamp_as_default)

    def number(self, execution: int) -> int | None:
        """The engine's seed for the run with this number, counted from 0; None: any.

        >>> RandomSeedConfig(7, reseed_after_execution=False).number(3), RandomSeedConfig().number(3)
        (7, None)
        """
        if self.seed is None:
            return None
        # Two odd constants of 64 bits: other runs of a seed are no runs of its neighbours. The engine hashes what comes out.
        mixed = self.seed * 0x9E3779B97F4A7C15 + (execution + 1) * 0xD1B54A32D192ED03 if self.reseed_after_execution else self.seed
        return mixed & (1 << 63) - 1

    def numbers(self, execution: int) -> Any:
        """NumPy's generator for the run with this number.

        >>> one, same, other = (RandomSeedConfig(7).numbers(run).random() for run in (0, 0, 1))
        >>> one == same, one == other
        (True, False)
        """
        from numpy.random import default_rng

        if self.seed is None:
            return default_rng()
        return default_rng([abs(self.seed), execution] if self.reseed_after_execution else [abs(self.seed)])


# ---- rows that pass through this process ----


class Arranged(Op):
    """An operator whose rows this process hands on."""

    __slots__ = ()
    native = False

    def batches(self, run: Run) -> Iterator[Batch]:
        raise NotImplementedError

    def parts(self, run: Run) -> list[Op]:
        from weir._parts import streamed

        return streamed(self.batches(run), run)


MIXED_ROWS = 1024  # of one input at a time, where nobody said how large its blocks are


class Mix(Arranged):
    """Rows of several inputs, block by block from the one that is furthest behind its share."""

    __slots__ = ("others", "weights", "stopping")
    kind = "Mix"

    def __init__(self, input: Op, others: Sequence[Op], weights: Sequence[float], stopping: MixStoppingCondition) -> None:
        self.input = input
        self.others = tuple(others)
        total = math.fsum(weights)
        self.weights = tuple(weight / total for weight in weights)
        self.stopping = stopping

    @property
    def name(self) -> str:
        names = ", ".join(op.name for op in self.inputs)
        return f"Mix({names}, weights={[round(weight, 2) for weight in self.weights]})"

    def batches(self, run: Run) -> Iterator[Batch]:
        sources = []
        for op in self.inputs:
            batches = iter(run.within(op))
            sources.append(batches if keeps_fixed_blocks(op) else _pieces(batches))
        heads = [next(source, None) for source in sources]
        rows = [0] * len(heads)
        shortest = self.stopping is MixStoppingCondition.STOP_ON_SHORTEST
        while True:
            left = [i for i, head in enumerate(heads) if head is not None]
            if not left or (shortest and len(left) < len(heads)):
                return
            total = sum(rows)
            # max gives the first of equals, as Ray's operator does.
            chosen = max(left, key=lambda i: (self.weights[i] * total - rows[i], self.weights[i]))
            batch = heads[chosen]
            assert batch is not None
            rows[chosen] += batch.num_rows
            heads[chosen] = next(sources[chosen], None)
            yield batch


def _pieces(batches: Iterator[Batch]) -> Iterator[Batch]:
    for batch in batches:
        size = min(MIXED_ROWS, -(-batch.num_rows // 4))
        for at in range(0, batch.num_rows, size):
            yield batch.slice(at, min(at + size, batch.num_rows))


class RowShard(Arranged):
    """Each n-th row: of inputs that cannot be cut without looking at them."""

    __slots__ = ("count", "index")
    kind = "Shard"

    def __init__(self, input: Op, count: int, index: int) -> None:
        self.input = input
        self.count = count
        self.index = index

    @property
    def name(self) -> str:
        return f"Shard({self.index}/{self.count})"

    def batches(self, run: Run) -> Iterator[Batch]:
        from array import array

        assert self.input is not None
        at = 0
        for batch in run.within(self.input):
            rows = batch.num_rows
            mine = array("q", range((self.index - at) % self.count, rows, self.count))
            at += rows
            if mine:
                yield batch.take(mine)


class RandomHalf(Arranged):
    """Each row with a probability, by its number: with the same seed, `rest` gives exactly those that it does not."""

    __slots__ = ("fraction", "seed", "rest")
    kind = "Filter"

    def __init__(self, input: Op, fraction: float, seed: int, rest: bool) -> None:
        self.input = input
        self.fraction = fraction
        self.seed = seed
        self.rest = rest

    @property
    def name(self) -> str:
        return f"Filter(random_split {'test' if self.rest else 'train'})"

    def batches(self, run: Run) -> Iterator[Batch]:
        from numpy.random import default_rng

        assert self.input is not None
        numbers = default_rng(self.seed)
        for batch in run.within(self.input):
            mask = numbers.random(batch.num_rows) < self.fraction
            kept = batch.filter((~mask if self.rest else mask).view("u1"))
            if kept.num_rows:
                yield kept


# ---- blocks in another order ----


class RandomizeBlocks(Op):
    """The blocks in random order. All rows are there before the first is given."""

    __slots__ = ("seed",)
    kind = "RandomizeBlocks"
    native = False

    def __init__(self, input: Op, seed: RandomSeedConfig) -> None:
        self.input = input
        self.seed = seed

    @property
    def name(self) -> str:
        return "RandomizeBlockOrder"

    def rows(self) -> int | None:
        assert self.input is not None
        return self.input.rows()

    def parts(self, run: Run) -> list[Op]:
        from weir import _blocks, _parts

        assert self.input is not None
        blocks = [b for part in _parts.resolve(self.input, run) for b in run.blocks_of(part)]
        state = run.build.state
        least = 2 * int(state.num_cpus)
        if len(blocks) < least and not keeps_fixed_blocks(self.input):
            blocks = _blocks.cut_blocks(blocks, least)
        order = self.seed.numbers(run.build.execution).permutation(len(blocks))
        mixed = Blocks(self.name, [blocks[i] for i in order.tolist()], state.id, fixed=True)
        return _parts.resolve(mixed, run)


# ---- shards ----

_COUNTED = ("parquet", "arrow", "ipc", "feather")  # formats whose files know how many rows they have


def sharded(op: Op, count: int, index: int) -> Op:
    """A plan of one shard's rows: the files, or the rows of each, are divided as far in front as can be."""
    from weir import _plan
    from weir._exchange import rows_of_part
    from weir._grouped import Distinct, Group, Groups
    from weir._join import Join

    if count == 1:
        return op
    if isinstance(op, Range):
        begin, end = op.count * index // count, op.count * (index + 1) // count
        blocks = max(1, op.blocks // count) if op.blocks else None
        return Range(end - begin, blocks, op.first + begin)
    if isinstance(op, Blocks):
        return _shard_of_blocks(op, count, index)
    if isinstance(op, Read) and op.part is None and (op.format in _COUNTED or len(op.files()) >= count):
        made = Read(op.name, op.format, op.listing, op.options, op.partitioning, op.columns, op.include_paths)
        made.part = (index, count)
        return made
    if isinstance(op, Union):
        return Union(sharded(op.input, count, index), [sharded(o, count, index) for o in op.others])  # type: ignore[arg-type]
    if isinstance(op, Groups):  # whole groups
        assert op.input is not None
        return _plan.with_input(op, rows_of_part(op.input, op.keys, count, index))
    if isinstance(op, (Group, Distinct)):  # these come in any order
        return rows_of_part(op, op.keys, count, index)
    if isinstance(op, Join):
        return rows_of_part(op, op.right_on if op.how.startswith("right") else op.on, count, index)
    if isinstance(op, (Call, Step, ReadBlocks, RepartitionRows)):
        assert op.input is not None
        return _plan.with_input(op, sharded(op.input, count, index))
    return RowShard(op, count, index)


def _shard_of_blocks(op: Blocks, count: int, index: int) -> Op:
    from weir._blocks import rows_between

    blocks = [block for block in op.blocks if block.num_rows]
    if len(blocks) >= count and op.fixed:
        return Blocks(op.name, blocks[index::count], op.session, op.fixed)
    total = sum(block.num_rows for block in blocks)
    begin, end = total * index // count, total * (index + 1) // count
    return Blocks(op.name, rows_between(blocks, begin, end), op.session, op.fixed)


def cut_at(blocks: Sequence[Any], indices: Sequence[int]) -> list[list[Any]]:
    """The blocks of the rows up to the first index, from there to the second, …, and the rest."""
    from weir._blocks import rows_between

    total = sum(block.num_rows for block in blocks)
    edges = [0, *(min(index, total) for index in indices), total]
    return [rows_between(blocks, begin, end) for begin, end in itertools.pairwise(edges)]
