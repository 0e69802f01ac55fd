"""Parts: chains that the engine runs in one go. Most plans are one. Where a plan has something that is no step of the engine, it is
taken apart here:

    Repartition(n)             what lies before it runs into blocks, which are cut; the part begins with them
    Union with functions, or   each side is a part, with the steps behind the union in each of them
    of different schemas
    blocks of several schemas  a part for each row of equal ones
    Limit behind several parts its rows are collected first
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weir._blocks import JOINED_BYTES, Group, block_most, columns_of, cut_blocks, cut_rows, is_uniform, limited, rebatched, rows_between, split_large
from weir._loop import mapped
from weir._plan import Blocks, Call, Limit, Op, Read, ReadBlocks, ReadTasks, Repartition, RepartitionRows, Source, Step, Union
from weir._plan import chain, has_few_blocks, told, walk, with_input
from weir._translated import translated
from weir.datasource import Listing

if TYPE_CHECKING:
    from weir._build import Build
    from weir._run import Run
    from weir._weir import Batch, Block, Flow
    from weir.context import DataContext

WHOLE_ROWS = 1 << 40  # more than a file has
SMALL_BYTES = 64 << 20  # files up to this size are read first where an exact number of blocks was asked for


class LocalRows(Source):
    """Rows that this process makes itself, batch by batch, as somebody takes them: what local_mode is made of."""

    __slots__ = ("make",)
    native = False

    def __init__(self, make: Callable[[], Iterator[Batch]]) -> None:
        super().__init__()
        self.make = make


class Streamed(LocalRows):
    """The same, with steps and functions of the engine behind it: it takes the batches from this process as it needs them."""

    __slots__ = ("first", "run")

    def __init__(self, first: Batch, make: Callable[[], Iterator[Batch]], run: Run) -> None:
        super().__init__(make)
        self.first = first
        self.run = run

    def add(self, flow: Flow, build: Build) -> None:
        flow.read_stream(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        from weir._stream import conforming
        from weir._weir import batch_concat, batch_stream

        empty = self.first.slice(0, 0)
        schema = batch_concat([empty, empty])  # whatever comes later, its columns may hold nulls
        return batch_stream(schema, lambda: self._noted(conforming(self.make(), schema)))

    def _noted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The engine knows errors of a stream by their text alone."""
        try:
            yield from batches
        except Exception as error:
            self.run.broken = error
            raise


def streamed(batches: Iterator[Batch], run: Run) -> list[Op]:
    """A part of batches that this process makes; none if there are none."""
    first = next(batches, None)
    if first is None:
        return []
    return [Streamed(first, lambda: itertools.chain([first], batches), run)]


def resolve(op: Op, run: Run) -> list[Op]:
    """The parts of a plan. Runs what has to be there before the rest can begin."""
    behind: list[Op] = []
    parts = _begun(op, run)
    while parts is None:
        behind.append(op)
        op = told(op, bool(run.context.max_errored_blocks))
        parts = _begun(op, run)
    for op in reversed(behind):
        parts = _behind(op, parts, run)
    return parts


def _begun(op: Op, run: Run) -> list[Op] | None:
    """The parts of what depends on nothing before it, or sees to that itself; None for all that goes by its input's parts."""
    parts = op.parts(run)
    if parts is not None:
        return parts
    if isinstance(op, Blocks):
        run.build.check_session(op.session)
        return by_schema(op)
    if isinstance(op, ReadTasks):
        return _resolve_tasks(op, run)
    if isinstance(op, Read) and not splits_blocks(run.context) and not run.build.state.local_mode:
        return [RepartitionRows(file, WHOLE_ROWS, False) for file in _by_file(op, run)]
    if isinstance(op, Source):
        return [op]
    if isinstance(op, Union):
        return _resolve_union(op, run)
    return None


def _behind(op: Op, parts: list[Op], run: Run) -> list[Op]:
    """The operator behind the parts of its input."""
    assert op.input is not None
    if isinstance(op, Repartition):
        return resolve(_cut(op, op.count, parts, run), run)
    if isinstance(op, ReadBlocks) and (_is_small(op.input) or not splits_blocks(run.context)):
        return resolve(_cut(op, op.count, parts, run, is_read=True), run)
    if not parts:
        return []
    if run.build.state.local_mode and (isinstance(op, Call) or any(isinstance(part, LocalRows) for part in parts)):
        return [LocalRows(lambda: local(op, run.collect(parts), run))]
    if isinstance(op, Limit) and (len(parts) > 1 or isinstance(parts[0], Blocks)):
        return _first_rows(op.count, parts, run)
    if isinstance(op, RepartitionRows) and len(parts) > 1:
        blocks = list(rebatched(run.collect(parts), op.count, False))
        return by_schema(Blocks("Repartition", blocks, run.build.state.id, fixed=True))
    if isinstance(op, RepartitionRows) and op.count != WHOLE_ROWS and has_few_blocks(parts[0], SMALL_BYTES):
        return resolve(Blocks(op.name, list(cut_rows(run.collect(parts), op.count, op.strict)), run.build.state.id, fixed=True), run)
    made = [with_input(op, part) for part in parts]
    if isinstance(op, Step) and not op.keeps_rows and not splits_blocks(run.context):
        made = [RepartitionRows(part, WHOLE_ROWS, False) for part in made]
    return made


def splits_blocks(context: DataContext) -> bool:
    """Whether blocks that get too large are cut. Else a file is a block, and files are read one after another."""
    return bool(context.block_splitting_enabled) and context.target_max_block_size is not None


def _by_file(op: Read, run: Run) -> list[Op]:
    listing = Listing((), None, False, None, None, op.listing.ignore_missing, ())
    return [
        Read(op.name, op.format, listing._replace(paths=(path,)), op.options, op.partitioning, op.columns, op.include_paths)
        for path in op.files(run.build.execution)
    ]


def _resolve_tasks(op: ReadTasks, run: Run) -> list[Op]:
    """Its tasks are asked for here, once a run: a source that has none is a plan without parts."""
    from weir import _tasks

    build = run.build
    tasks = op.tasks(build.context, build.state.num_cpus)
    if not tasks:
        return []
    batch = _tasks.tasks_batch(tasks, op.name)
    # Each task is a split of its own: what it makes stays apart in files, whoever was ready first.
    made = Blocks(op.name, [batch.slice(i, i + 1) for i in range(len(tasks))], build.state.id, fixed=True)
    call = Call(made, op.spec)
    if build.state.local_mode:
        return [LocalRows(lambda: local(call, run.collect([made]), run))]
    return [call]


def local(op: Op, batches: Iterator[Batch], run: Run) -> Iterator[Batch]:
    """One operator over the batches of this process."""
    if isinstance(op, Call):
        from weir import _call
        from weir._grouped import Groups, regrouped

        size = op.spec.batch_size
        if isinstance(op.input, Groups):
            batches = regrouped(batches)
        if isinstance(size, int):
            batches = rebatched(batches, size, False)
        yield from _call.run_local(op.spec, mapped(batches, run.own))
    elif isinstance(op, Limit):
        yield from limited(batches, op.count)
    elif isinstance(op, RepartitionRows):
        yield from rebatched(batches, op.count, False)
    else:
        for batch in batches:
            yield from run.collect([with_input(op, Blocks("Local", [batch], run.build.state.id))])


def _resolve_union(op: Union, run: Run) -> list[Op]:
    sides = [resolve(side, run) for side in op.inputs]
    if op.is_native and all(len(side) == 1 for side in sides) and _same_schema([side[0] for side in sides], run):
        made = with_input(op, sides[0][0])
        assert isinstance(made, Union)
        if any(side[0] is not other for side, other in zip(sides[1:], op.others)):
            made = Union(sides[0][0], [side[0] for side in sides[1:]])
        return [made]
    return [part for side in sides for part in side]


def _same_schema(sides: list[Op], run: Run) -> bool:
    """Whether the engine can take them as one: else each keeps its own columns and types."""
    with translated(run.context):
        schemas = [columns_of(run.build.flow(side).schema()) for side in sides]
    return all(schema == schemas[0] for schema in schemas[1:])


def kept(part: Op, run: Run) -> list[Op]:
    """The part's rows as blocks."""
    return by_schema(Blocks(part.name, run.blocks_of(part), run.build.state.id))


def by_schema(op: Blocks) -> list[Op]:
    """Neighbours of one schema go together; blocks without rows go away."""
    groups: list[list[Block | Batch]] = []
    last: Any = None
    for block in op.blocks:
        if not block.num_rows:
            continue
        schema = columns_of(block)
        if isinstance(block, Group) and not is_uniform(block.chunks):
            groups.extend([chunk] for chunk in block.chunks)
            last = None
            continue
        if groups and schema == last:
            groups[-1].append(block)
        else:
            groups.append([block])
            last = schema
    if len(groups) == 1 and len(groups[0]) == len(op.blocks):
        return [op]
    return [Blocks(op.name, group, op.session, op.fixed) for group in groups]


def _is_small(op: Op) -> bool:
    size = 0
    for path in op.files() if isinstance(op, Read) else []:
        size += os.stat(path).st_size
        if size > SMALL_BYTES:
            return False
    return True


def _cut(op: Op, count: int, parts: list[Op], run: Run, is_read: bool = False) -> Blocks:
    """So many blocks. Those of a read have at least a row each, and are cut further where they get too large."""
    blocks = [b for part in parts for b in run.blocks_of(part)]
    if is_read:
        count = max(1, min(count, sum(b.num_rows for b in blocks)))
    most_joined = min(JOINED_BYTES, run.build.state.native.memory_limit // 4)
    cut = cut_blocks(blocks, count, most_joined, run.keep)
    return Blocks(op.name, split_large(cut, block_most(op, run.context), True) if is_read else cut, run.build.state.id, fixed=True)


def _first_rows(count: int, parts: list[Op], run: Run) -> list[Op]:
    """They are there already, or kept: many would not fit into this process."""
    blocks: list[Any] = []
    for part in parts if count else ():
        if isinstance(part, Blocks):
            found = list(part.blocks)
        elif isinstance(part, LocalRows):
            found = list(limited(run.collect([part]), count))
        else:
            found = run.blocks_of(Limit(part, count), as_cut=False)
        found = rows_between(found, 0, count)
        blocks += found
        count -= sum(block.num_rows for block in found)
        if not count:
            break
    return by_schema(Blocks("Limit", blocks, run.build.state.id))


def cuts_rows_anew(op: Op) -> bool:
    """Whether a step says what the blocks are: the first of them may be one row."""
    return any(isinstance(step, (Repartition, RepartitionRows)) for step in walk(op))


def few_rows_in(op: Op, rows: int) -> Op:
    """The plan with so many rows for its first function: what its columns are can be seen by that, unless they are dropped on
    their way."""
    from weir._exchange import Exchange

    steps = chain(op)
    least = max((i for i, step in enumerate(steps) if step.pairs_rows), default=-1)
    first = next((i for i, step in enumerate(steps) if i > least and isinstance(step, (Call, Exchange))), None)
    if first is None:
        return Limit(op, rows)
    made: Op = Limit(steps[first].input, rows)  # type: ignore[arg-type]
    for step in steps[first:]:
        if not isinstance(step, (Repartition, RepartitionRows)):
            made = with_input(step, made)
    return Limit(made, rows)


def with_blocks(part: Op, run: Run) -> list[Op] | None:
    """The part behind blocks that are there, where a step says which rows are one; None: no step does."""
    from weir._exchange import Exchange, RepartitionKeys

    steps = chain(part)
    for i, step in reversed(list(enumerate(steps))):
        if isinstance(step, RepartitionKeys) and not step.marks:
            parts = step.as_blocks(run)
            for after in steps[i + 1 :]:
                parts = [with_input(after, made) for made in parts]
            return parts
        if isinstance(step, Exchange):
            break
    return None
