"""Runs: a plan becomes flows, flows become tasks, tasks give batches.

    plan ─▶ resolve ─▶ parts ─▶ Build.flow ─▶ Flow.start ─▶ Task.next … ─▶ batches

A part is a chain that the engine runs in one go. Most plans have one. Where a plan has something that is no step of the
engine, it is taken apart here:

    Repartition(n)             what lies before it runs into blocks, which are cut; the part begins with them
    Union with functions, or   each side is a part, with the steps behind the union in each of them
    of different schemas
    blocks of several schemas  a part for each row of equal ones
    Limit behind several parts its rows are collected first

Nothing here is kept between runs: every consumption lists and reads its files anew.
"""

from __future__ import annotations

import copy
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from weir import _fuse, _progress, _session, _watch
from weir._blocks import JOINED_BYTES, PARTED_BYTES, Group, as_batch, as_made, as_they_come, batches_of, block_most, bundling, columns_of, copied, cut_at, cut_blocks, cut_rows, enforced, grouped, is_uniform, joined, lends_rows, limited, parted, rebatched, resized, rows_between, split_large
from weir._fixed_blocks import has_exact_blocks, has_fixed_blocks, largest_fixed_block, makes_blocks, partitions_of, reads_in_tasks, sizes_kept
from weir._loop import mapped
from weir._plan import Blocks, Call, Limit, Op, Range, Read, ReadBlocks, ReadTasks, Repartition, RepartitionRows, Source, Step, Union
from weir._plan import chain, has_few_blocks, is_repeatable, told, walk
from weir._plan import with_input as with_input  # for others, too
from weir.datasource import Listing
from weir.schema import Schema

if TYPE_CHECKING:
    from weir._weir import Batch, Block, Flow, Task
    from weir.context import DataContext

BLOCK_SHARE = 16  # of the memory limit: blocks up to this part of it go to functions whole, which may need some ten times as much
WORKER_START = 16 << 20  # what a worker has before it works
FINE_ROWS = 16  # of a block's first task: nobody knows how long a function of rows takes

End = Literal["collect", "count", "sink", "blocks"]


class Differs(Exception):
    """A batch has other columns than those before it, which are in an exchange already (_handover.py)."""


class translated:
    """Around what waits for a run, or asks a plan that ends in `op`: weir._errors.translated, which is imported when there is an error."""

    __slots__ = ("context", "run", "op")

    def __init__(self, context: DataContext, run: Run | None = None, op: Op | None = None) -> None:
        self.context = context
        self.run = run
        self.op = op if run is None else run.op

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            from weir._errors import translate

            broken = self.run.broken if self.run is not None else None
            if isinstance(broken, Differs):
                raise broken from None
            made = broken if broken is not None else translate(error, self.context, self.op)
            if self.run is not None and self.run.observer is not None:
                self.run.observer.failed(made)
            if "weir.compat.logs" in sys.modules and not (self.run is not None and self.run.is_trial):
                sys.modules["weir.compat.logs"].tell(made, self.context)
            if made is not error:
                raise made from None


class Build:
    """What the making of one run's flows shares."""

    def __init__(self, context: DataContext) -> None:
        self.context = context
        self.state = _session.current()
        self.execution: int = context._executed()[0]  # how often the Dataset has run
        # Rows of the blocks at this place of the chain, where the user said so: of each, or of one after another.
        self.block_rows: int | list[int] | None = None
        self.rows_before: int | list[int] | None = None  # the same in front of an exchange, which may cut its output likewise
        self.read_blocks: int | None = None  # how many pieces a read is cut into
        self.first_rows = FINE_ROWS  # a function of rows gets so many of the first block at first
        self.rows_least = 1  # and so many of each, where that is more
        self.is_counting = False
        self.fixed_bytes: int | None = None  # where the user said what the blocks are: of the largest, as far as is known
        self.given: list[Any] = []  # blocks that the part begins with
        self.block_most = 0  # a function that takes blocks gets larger ones in pieces
        self.may_pace = True  # batches of a task may be as many as fit its time: nothing depends on where chunks end
        self.calls: list[str] = []
        self.actors: list[str] = []  # those of them that are classes
        self.gpus = 0.0  # that the calls so far have

    def check_session(self, session: str) -> None:
        if session != self.state.id:
            raise ValueError(
                "this Dataset was materialised in a session that has ended (weir.shutdown(), or a fork): make it again"
            )

    def count_rows(self, op: Op) -> int:
        """The rows of a read, by its footers."""
        build = Build(self.context)
        build.execution, build.is_counting = self.execution, True
        task = build.flow(op).start(end="count")
        task.wait()
        return int(task.stats()["rows_out"])

    def seed_of(self, seed: Any) -> int:
        """The engine's seed, of what a method was given: a number, a RandomSeedConfig, or None for any."""
        found = seed if seed is None or isinstance(seed, int) else seed.number(self.execution)
        return self.random_seed() if found is None else int(found)

    def seed_and_run(self, seed: Any) -> tuple[int, int | None]:
        """What rows are drawn by: the seed as it was given, and the run's number where each run draws others."""
        number, again = (seed, False) if seed is None or isinstance(seed, int) else (seed.seed, seed.reseed_after_execution)
        if number is None:
            return self.random_seed(), None
        return int(number) & (1 << 63) - 1, self.execution if again else None

    def random_seed(self) -> int:
        return int.from_bytes(os.urandom(8), "little") >> 1

    def flow(self, op: Op) -> Flow:
        """The steps of a part."""
        from weir._weir import Flow

        flow = Flow(self.state.native)
        steps = chain(op)
        self.block_rows = None
        self.given = list(steps[0].blocks) if isinstance(steps[0], Blocks) else []
        self.fixed_bytes, self.block_most = largest_fixed_block(op, self.context, self.state.native.memory_limit // BLOCK_SHARE)
        self.first_rows = FINE_ROWS if has_fixed_blocks(op) else 1
        self.has_call = False
        self.reads_tasks = any(isinstance(step, Call) and step.spec.kind == "read" for step in steps)
        self.read_blocks = next((step.count for step in steps if isinstance(step, ReadBlocks)), None)
        for first, *others in _fuse.runs(steps, self.context):
            step = first
            if isinstance(step, Call) or (isinstance(step, Step) and not step.keeps_blocks):
                rows, self.block_rows = self.block_rows, None
                self.rows_before = rows
                if isinstance(step, Call) and isinstance(rows, int) and step.spec.batch_size is None:
                    step = _with_batch_size(step, rows)
            elif isinstance(step, Limit) and isinstance(self.block_rows, list):
                self.block_rows = None
            if others and isinstance(step, Call):
                self.add_calls(flow, [step.spec, *(other.spec for other in others if isinstance(other, Call))])
            else:
                step.add(flow, self)
        return flow

    def add_calls(self, flow: Flow, specs: list[Any]) -> None:
        """Functions that run in one worker."""
        from weir import _call

        specs = [copy.copy(spec) for spec in specs]
        takes_blocks = any(map(_fuse.takes_blocks, specs))
        for spec in specs:
            _call.run_with(spec, self.context, self.state, takes_blocks and self.fixed_bytes is not None)
        try:
            self.add_call(flow, _fuse.fused(specs, self.block_most), _fuse.shape(specs), takes_blocks)
        except (TypeError, ValueError):
            for spec in specs:  # whichever is at fault says so by its own name
                os.close(_call.prepare(spec, self.state)["setup"][0])
            raise

    def add_call(self, flow: Flow, spec: Any, shape: dict[str, int] | None = None, takes_blocks: bool = False) -> None:
        from weir import _call

        spec = copy.copy(spec)
        takes_blocks = self.fixed_bytes is not None and (takes_blocks or (shape is None and _fuse.takes_blocks(spec)))
        _call.run_with(spec, self.context, self.state, takes_blocks)
        most = _call.slots_at_most(spec, self.state, self.context)
        zygote = _zygote(self.state, spec.batch_format)  # first: it imports what it needs while this process pickles
        prepared = _call.prepare(spec, self.state, self.gpus) | (shape or {})
        if self.fixed_bytes is not None:
            prepared.update(bundling(self.given, prepared["batch_rows"]))
            if takes_blocks:
                self._give_blocks(prepared)
        self.has_call = True
        # Where tasks that fail are left out, they are one batch each, and so is what reads or writes.
        prepared["paced"] = int(spec.kind == "map_batches" and self.may_pace and not prepared["errored_max"] and not self.reads_tasks)
        prepared["fine_first"] = prepared["fine"] * max(self.first_rows, self.rows_least)
        prepared["fine"] *= max(FINE_ROWS, self.rows_least)
        self.gpus += _call.gpus_of(spec)
        fd, size = prepared.pop("setup")
        if most:
            prepared["slots_max"] = min(prepared["slots_max"] or most, most)
            for name in ("slots_min", "slots_first"):
                prepared[name] = min(prepared[name], most)
        try:
            flow.call(prepared, setup=(fd, size), launcher=zygote)
        finally:
            os.close(fd)
        self.calls.append(spec.name)
        if spec.is_class:
            self.actors.append(spec.name)

    def _give_blocks(self, prepared: dict[str, Any]) -> None:
        """Tasks are blocks, whole, since the user said what these are: a function may count on it."""
        prepared["memory"] = prepared["memory"] or 4 * max(prepared["chunk_bytes"], min(self.fixed_bytes or 0, self.block_most)) + WORKER_START
        prepared["chunk_bytes"] = max(prepared["chunk_bytes"], self.block_most)
        prepared["fine"] = 0
        if self.has_call and not prepared["batch_rows"]:
            prepared["whole_splits"] = 1


def _zygote(state: _session.State, batch_format: str | None = None) -> Any:
    """`batch_format`: what the first workers are going to need."""
    from weir import _call
    from weir._weir import Zygote

    with _session._lock:
        if "zygote" not in state.zygotes:
            learn = _call.LEARNED if state.native.memory_limit >= _call.LEARNED_LIMIT else ()
            known = [batch_format] if batch_format in learn and batch_format in sys.modules else []
            state.zygotes["zygote"] = Zygote(*_call.zygote_command((*state.preload, *known), learn))
        return state.zygotes["zygote"]


def _with_batch_size(op: Call, rows: int) -> Call:
    spec = copy.copy(op.spec)
    spec.batch_size = rows
    return Call(op.input, spec)  # type: ignore[arg-type]


# ---- parts ----


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
        return _by_schema(op)
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
        return [LocalRows(lambda: _local(op, run.collect(parts), run))]
    if isinstance(op, Limit) and (len(parts) > 1 or isinstance(parts[0], Blocks)):
        return _first_rows(op.count, parts, run)
    if isinstance(op, RepartitionRows) and len(parts) > 1:
        blocks = list(rebatched(run.collect(parts), op.count, False))
        return _by_schema(Blocks("Repartition", blocks, run.build.state.id, fixed=True))
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
        return [LocalRows(lambda: _local(call, run.collect([made]), run))]
    return [call]


def _local(op: Op, batches: Iterator[Batch], run: Run) -> Iterator[Batch]:
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
    return _by_schema(Blocks(part.name, run.blocks_of(part), run.build.state.id))


def _by_schema(op: Blocks) -> list[Op]:
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


WHOLE_ROWS = 1 << 40  # more than a file has
SMALL_BYTES = 64 << 20  # files up to this size are read first where an exact number of blocks was asked for


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
    return _by_schema(Blocks("Limit", blocks, run.build.state.id))


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


def _with_blocks(part: Op, run: Run) -> list[Op] | None:
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


CHUNK_BYTES = 8 << 20  # about what the engine's own are
ROWS_TOGETHER = 65536


# ---- running ----


def _watched(wait: Callable[[], Any], watch: _watch.Watch) -> Any:
    """wait(), unless nothing moves for too long."""
    watch.since = time.monotonic()
    try:
        with watch:
            return wait()
    except Exception:
        if watch.expired:
            raise watch.error() from None
        raise
    finally:
        watch.since = 0.0
        del wait, watch  # a traceback that somebody keeps does not keep the task


class Run:
    """One consumption of a plan."""

    def __init__(self, op: Op, context: DataContext) -> None:
        self.op = op
        self.context = context
        self.build = Build(context)
        self.build.may_pace = not is_repeatable(op)
        context._set_executed(self.build.execution + 1)
        self.stats: list[dict[str, Any]] = []
        self._disk: tuple[int, int] | None = None  # what the session had written to disk and read back when this run began
        self._spilled: tuple[int, int] | None = None
        self.left_out = 0  # tasks that failed, and that max_errored_blocks let go
        self._task: Task | None = None  # the one that gives batches now
        self._finished = False
        self.observer = _watch.observer(self)
        self.inner: list[Run] = []  # whose rows this one takes
        self.making: list[tuple[Op, Run]] = []  # sources that are being made, each by a run (_handover.py)
        self.operators_before = 0  # of the plan, that are listed in front of those that are resolved now
        self._feeding: list[Run] = []  # those of the task that runs now
        self.broken: BaseException | None = None  # what went wrong in them
        self.is_inner = False
        self.is_waited_for = False  # an inner one, before anything else of the run begins: it may show what it does
        self.is_uncut = False  # who takes rows cuts them into blocks himself
        self.gives_blocks = False  # where the user said what the blocks are, who iterates gets them, not what comes at once
        self.last_place = (0, 0)  # of an inner run's last batch, as Block.place
        self.asking: _progress.Asking | None = None  # where the program works between its batches
        self.began_ns = time.monotonic_ns()
        self.is_trial = False  # an error of it is no news: there is another way
        self.empty: Batch | None = None  # columns of results without rows
        self.meanwhile: Callable[[], None] | None = None  # what this process does while workers are being started
        self.given_rows = 0  # to whoever iterates over it
        self.given_schema: Schema | None = None
        self.lends = self.build.state.local_mode  # batches lie in memory that others read later: kept rows, what functions returned here

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return self._finished

    @finished.setter
    def finished(self, value: bool) -> None:
        self._finished = value
        if not value:
            return
        self._spilled = None  # parts may have come to their end before
        self._spilled = self.spilled
        if self.observer is not None:
            self.observer.succeeded()
        if self.context.enable_stats_summary_collection and self.stats and not self.is_inner:
            from weir import stats

            stats.report(self)

    @property
    def spilled(self) -> tuple[int, int]:
        """Bytes that the session has written to disk since this run began, and read back, until its end: blocks and what waits between
        stages as well as exchanges, of other runs at the same time, too."""
        if self._spilled is not None or self._disk is None:
            return self._spilled or (0, 0)
        written, read = self.build.state.native.spilled()
        return written - self._disk[0], read - self._disk[1]

    def within(self, op: Op) -> Run:
        """Another run, whose rows this one takes: it ends with this one."""
        run = Run(op, self.context)
        run.is_inner = True
        run.build.may_pace = run.build.may_pace and self.build.may_pace
        run.build.execution = self.build.execution
        self.context._set_executed(self.build.execution + 1)
        self.inner.append(run)
        return run

    def parts(self) -> list[Op]:
        self._disk = self.build.state.native.spilled()
        if self.observer is not None:
            self.observer.begins()
        with translated(self.context, self):
            return resolve(self.op, self)

    def __iter__(self) -> Iterator[Batch]:
        return self.given(self.parts())

    def given(self, parts: list[Op], batch_rows: int = 0) -> Iterator[Batch]:
        """The batches of all parts for the user, counted; those of parts inside the run, which the same rows may pass, are not."""
        for batch in self.collect(parts, batch_rows):
            if self.given_schema is None:
                self.given_schema = Schema(batch).as_text()
            self.given_rows += batch.num_rows
            yield batch
            del batch

    def own(self, batch: Batch) -> Batch:
        """A batch that the user gets: whatever writes to it past its flag (torch, ctypes) writes to nobody else's rows. What lies in the
        store is mapped privately for each who asks."""
        return copied(batch) if self.lends else batch

    def collect(self, parts: list[Op], batch_rows: int = 0) -> Iterator[Batch]:
        """The batches of the parts, one part after another. Whoever drops the iterator stops the run."""
        batches = self._collect(parts, batch_rows)
        try:
            yield from enforced(batches) if self.context.enforce_schemas else batches
        except GeneratorExit:  # the program has what it wanted
            if self.observer is not None:
                self.observer.succeeded()
            raise
        self.finished = True

    def _collect(self, parts: list[Op], batch_rows: int) -> Iterator[Batch]:
        for part in parts:
            limit = part.count if isinstance(part, Limit) else None
            if isinstance(part, LocalRows):
                self.lends = self.lends or lends_rows(self.op)
                yield from part.make()
                continue
            if isinstance(part, Blocks):
                self.lends = self.lends or lends_rows(part)
                most = self.build.state.native.memory_limit // 4
                for block in part.blocks:
                    if block.num_rows:
                        yield from batches_of(block, most)
                continue
            yield from self._collect_part(part, limit, batch_rows)

    def _collect_part(self, part: Op, limit: int | None, batch_rows: int) -> Iterator[Batch]:
        if limit == 0:
            return
        batches = self._taken([self._start(part, "collect", batch_rows)], limit)
        if any(isinstance(op, LocalRows) for op in walk(part)):
            batches = self._or_again(batches, part, limit, batch_rows)
        if self.meanwhile is not None and self.build.calls:
            self.meanwhile()
        rows = self.build.block_rows
        if rows and self.is_uncut:
            pass
        elif isinstance(rows, list):
            batches = resized(batches, rows)
        elif rows:
            batches = rebatched(batches, rows, False)
        elif self.gives_blocks and limit is None and makes_blocks(part):
            most = min(block_most(part, self.context) or JOINED_BYTES, JOINED_BYTES, self.build.state.native.memory_limit // BLOCK_SHARE)
            batches = as_they_come(batches, lambda: self.last_place[: 1 + reads_in_tasks(part)], most)
        elif not batch_rows and (most := block_most(part, self.context) or 0) and most < CHUNK_BYTES:
            batches = split_large(batches, most)
        yield from batches

    def _or_again(self, batches: Iterator[Batch], part: Op, limit: int | None, batch_rows: int) -> Iterator[Batch]:
        """The batches; where their columns came to differ in front of an exchange, or rows came back changed from disk before any was
        seen, those of rows that are all kept first."""
        from weir._weir import SpillError

        is_seen = False
        try:
            for batch in batches:
                is_seen = True
                yield batch
                del batch
            return
        except (Differs, SpillError) as error:
            if is_seen:
                raise
            part = self._kept_first(part, error)
        yield from self._taken([self._start(part, "collect", batch_rows)], limit)

    def _kept_first(self, part: Op, error: BaseException) -> Op:
        from weir import _handover

        if any(isinstance(op, LocalRows) and not isinstance(op, _handover.Made) for op in walk(part)):
            raise error
        logging.getLogger("weir").warning("%s; all is read again", error)
        self.broken = None
        return _handover.kept(part, self)

    def taken(self, part: Op) -> Iterator[Batch]:
        """A part's batches as they come."""
        return self._taken([self._start(part, "collect")], None)

    def _taken(self, held: list[Task], limit: int | None) -> Iterator[Batch]:
        """The batches of a task, which is taken out of the list: frames that a traceback keeps do not keep what it has on disk."""
        task = held.pop()
        watch = _watch.watch(task, self.context, bool(self.build.calls), self.build.actors)
        try:
            while True:
                with translated(self.context, self):
                    batch = task.next() if watch is None else _watched(task.next, watch)
                self._tell_left_out(task)
                if batch is None:
                    break
                if self.is_inner or self.gives_blocks:
                    self.last_place = task.place()
                count = batch.num_rows
                if not count:
                    self.empty = self.empty or batch
                    continue
                if limit is not None:
                    if count > limit:
                        batch, count = batch.slice(0, limit), limit
                    limit -= count
                yield batch
                del batch  # it is free while the next one is made
                if limit == 0:
                    break
        finally:
            self._end(task)
            del task, watch

    def _start(self, part: Op, end: End, batch_rows: int = 0) -> Task:
        with translated(self.context, self):
            self.build.block_rows = None
            flow = self.build.flow(part)
            self._feed(part)
            # Many batches at once: one that reaches over the end of what comes together is copied.
            together = batch_rows * max(1, ROWS_TOGETHER // batch_rows) if batch_rows else 0
            task = self._task = flow.start(end=end, batch_rows=together)
            task.show(_progress.show)
            _progress.begin(task, self)
            return task

    def _feed(self, part: Op) -> None:
        """The part is what runs now, and ends those that make its rows."""
        found = set(walk(part)) if self.making else ()
        self._feeding = [run for source, run in self.making if source in found]

    def asks(self) -> None:
        """The program waits for its next batch from now on."""
        if self.asking is not None:
            self.asking.since_ns = time.monotonic_ns()

    def works(self) -> None:
        """The program has it, and may print: what was drawn is taken off."""
        if self.asking is not None:
            self.asking.since_ns = 0
            task = self._task
            if task is not None:
                task.hide()

    def cancel(self) -> None:
        """From any thread: whoever waits for the run's next batch stops waiting."""
        for run in [*self.inner, *(run for _, run in self.making)]:
            run.cancel()
        task = self._task
        if task is not None:
            task.cancel()

    def _end(self, task: Task) -> None:
        if os.getpid() != self.build.state.pid:
            return  # a forked child leaves alone what its parent runs
        for run in [*self.inner, *self._feeding]:
            run.cancel()
        if self._task is task:
            self._task = None  # a Dataset keeps its last run: not what that run needed
        try:
            task.close()
        finally:
            self._tell_left_out(task)
            self.stats.append(task.stats())

    def _tell_left_out(self, task: Task) -> None:
        """Logs the tasks that failed and that max_errored_blocks let go; callbacks are told that the run goes on."""
        if self.observer is not None:
            self.observer.step()
        for operator, origin, payload in task.left_out() if self.context.max_errored_blocks else ():
            from weir._errors import tell_left_out

            self.left_out += 1
            most = self.context.max_errored_blocks
            tell_left_out(operator, origin, payload, most - self.left_out if most > 0 else None)

    def wait(self, part: Op, end: End, flow_end: Callable[[Flow], None] | None = None) -> Task:
        """Runs a part to its end without rows for the program. `flow_end` adds what ends the flow.

        Nothing of it has been seen before: where rows came back changed from disk all of it is run again, once. (Without functions, and
        where nothing is kept, the engine does that itself.)
        """
        from weir._weir import SpillError

        try:
            return self._waited(part, end, flow_end)
        except (SpillError, Differs) as error:
            if not (self.build.calls or end == "blocks" or self.making):
                raise
            part = self._kept_first(part, error)
        return self._waited(part, end, flow_end)

    def _waited(self, part: Op, end: End, flow_end: Callable[[Flow], None] | None) -> Task:
        with translated(self.context, self):
            self.build.block_rows = None
            flow = self.build.flow(part)
            self._feed(part)
            if flow_end is not None:
                flow_end(flow)
            task = flow.start(end=end)
            task.show(_progress.show)
            _progress.begin(task, self)
        watch = _watch.watch(task, self.context, bool(self.build.calls), self.build.actors)
        try:
            with translated(self.context, self):
                if watch is None:
                    task.wait()
                else:
                    _watched(task.wait, watch)
        except BaseException:
            for run in self._feeding:
                run.cancel()
            self._tell_left_out(task)
            self.stats.append(task.stats())
            del task, watch
            raise
        self._tell_left_out(task)
        self.stats.append(task.stats())
        return task

    def keep(self, batch: Batch) -> list[Block]:
        """The rows as blocks of their own, which may go to disk."""
        task = self.build.flow(Blocks("", [batch], self.build.state.id)).start(end="blocks")
        try:
            task.wait()
        except BaseException:
            del task, batch  # a traceback that somebody keeps does not keep what is on disk
            raise
        return task.blocks()

    def _kept_as_cut(self, part: Op) -> list[Any]:
        """A part's batches as blocks; beyond a share of the limit they are the engine's, which may put them on disk."""
        out: list[Any] = []
        room = share = self.build.state.native.memory_limit // 8
        try:
            for block in self._cut(part, share // 2):
                if room >= 0 > room - block.nbytes:  # those before are as much in the way
                    out = [self._one_kept(before) for before in out]
                room -= block.nbytes
                out.append(block if room >= 0 or isinstance(block, Group) else self._one_kept(block))
        except BaseException:
            out.clear()  # as above
            raise
        return out

    def _cut(self, part: Op, most: int) -> Iterator[Any]:
        """A part's rows, cut where its blocks end. What is larger than `most` is never in memory as a whole: its pieces are kept by the engine."""
        rows = 0
        sizes: Iterator[int] | None = None
        kept: list[Block] = []
        held: list[Batch] = []  # behind these
        self.is_uncut = True
        try:
            for batch in self.collect([part]):
                if sizes is None:  # known when the run has begun
                    given = self.build.block_rows
                    sizes = (size for size in given if size) if isinstance(given, list) else itertools.repeat(given or 0)
                at = 0
                while at < batch.num_rows:
                    if not rows:
                        size = next(sizes) or batch.num_rows  # 0: batches are blocks already
                    take = min(size - rows, batch.num_rows - at)
                    held.append(batch if take == batch.num_rows else batch.slice(at, at + take))
                    at += take
                    rows += take
                    if rows < size and sum(piece.nbytes for piece in held) > most:
                        kept += self._keep_all(held)
                    if rows == size:
                        yield Group(kept + self._keep_all(held)) if kept else joined(held)
                        kept, held, rows = [], [], 0
                del batch
            if rows:
                yield Group(kept + self._keep_all(held)) if kept else joined(held)
        finally:
            self.is_uncut = False

    def _keep_all(self, held: list[Batch]) -> list[Block]:
        """The list is empty then: what was in it is free as soon as it is joined."""
        if not held:
            return []
        whole = joined(held)
        held.clear()
        return self.keep(whole)

    def _one_kept(self, batch: Batch) -> Any:
        pieces = self.keep(batch)
        return pieces[0] if len(pieces) == 1 else Group(pieces)

    def blocks_of(self, part: Op, as_cut: bool = True) -> list[Block | Batch]:
        """A part's rows, kept by the engine; as_cut False: for who does not care where blocks end."""
        if isinstance(part, Blocks):
            return [b for b in part.blocks if b.num_rows]
        if isinstance(part, LocalRows) and not isinstance(part, Streamed):
            return [b for b in part.make() if b.num_rows]
        if as_cut and (parts := _with_blocks(part, self)) is not None:
            return [block for made in parts for block in self.blocks_of(made)]
        self.build.block_rows = None
        if as_cut and has_exact_blocks(part):
            return self._kept_as_cut(part)
        task = self.wait(part, "blocks")
        made = task.blocks()
        blocks: list[Any] = [b for b in made if b.num_rows]
        if made and not blocks:
            self.empty = self.empty or as_batch(made[0])
        return self.as_blocks(part, blocks) if as_cut else blocks

    def as_blocks(self, part: Op, blocks: list[Any]) -> list[Any]:
        """What a part has made as the blocks that it has."""
        if has_exact_blocks(part):
            return blocks
        rows = sum(block.num_rows for block in blocks)
        most_joined = min(JOINED_BYTES, self.build.state.native.memory_limit // 4)
        last = chain(part)[-1]
        if isinstance(last, ReadBlocks):
            cut = cut_blocks(blocks, max(1, min(last.count, rows)), most_joined, self.keep) if blocks else blocks
            return list(split_large(cut, block_most(last, self.context), True))
        if blocks and isinstance(self.build.block_rows, int):  # behind an exchange of small blocks
            return cut_blocks(blocks, -(-rows // self.build.block_rows), most_joined, self.keep)
        most = block_most(last, self.context)
        count = partitions_of(part)
        size = sum(b.nbytes for b in blocks)
        if count and rows and is_uniform(blocks) and (not most or size <= most * count):
            if size > PARTED_BYTES and len(blocks) >= count:
                return parted(blocks, count)
            return cut_blocks(blocks, min(count, rows), most_joined, self.keep)
        if has_fixed_blocks(part):
            sizes = sizes_kept(part)
            if sum(sizes) == rows:
                return blocks if len(sizes) == len(blocks) else cut_at(blocks, sizes, most_joined, self.keep)
            return as_made(blocks, most, most_joined, reads_in_tasks(part))
        least = self.context.target_min_block_size
        return list(split_large(grouped(blocks, min(least, most) if most else least), most))

    def blocks(self) -> list[Block | Batch]:
        """Everything, kept."""
        from weir._exchange import RepartitionKeys, Sort

        # Who has blocks may shuffle them with a seed.
        self.build.may_pace = self.build.may_pace and has_fixed_blocks(self.op)
        found = [b for part in self.parts() for b in self.blocks_of(part)]
        if self.context.enforce_schemas:
            found = list(enforced(found))
        wanted = self.op.count if isinstance(self.op, (Repartition, RepartitionKeys)) else self.op.block_count if isinstance(self.op, Sort) else 0
        if 0 < len(found) < wanted:  # as many as the user said, though no row came into some
            one = found[0].chunks[0] if isinstance(found[0], Group) else found[0]
            found += [as_batch(one).slice(0, 0)] * (wanted - len(found))
        self.finished = True
        return found

    def count(self) -> int:
        """How many rows."""
        total = 0
        for part in self.parts():
            known = part.rows() if isinstance(part, (Blocks, Range)) else None
            total += known if known is not None else self._count_part(part)
        self.finished = True
        return total

    def _count_part(self, part: Op) -> int:
        if isinstance(part, LocalRows) or (any(isinstance(op, Limit) for op in chain(part)) and not part.is_native):
            return sum(batch.num_rows for batch in self.collect([part]))
        return int(self.wait(part, "count").stats()["rows_out"])
