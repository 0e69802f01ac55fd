"""Flows for the engine out of the parts of a plan, with what one run's flows share."""

from __future__ import annotations

import copy
import os
import sys
from typing import TYPE_CHECKING, Any

from weir import _fuse, _session
from weir._blocks import bundling
from weir._fixed_blocks import has_fixed_blocks, largest_fixed_block
from weir._plan import Blocks, Call, Limit, Op, ReadBlocks, Step, chain

if TYPE_CHECKING:
    from weir._weir import Flow
    from weir.context import DataContext

BLOCK_SHARE = 16  # of the memory limit: blocks up to this part of it go to functions whole, which may need some ten times as much
WORKER_START = 16 << 20  # what a worker has before it works
FINE_ROWS = 16  # of a block's first task: nobody knows how long a function of rows takes


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
        zygote = zygote_of(self.state, spec.batch_format)  # first: it imports what it needs while this process pickles
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


def zygote_of(state: _session.State, batch_format: str | None = None) -> Any:
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
