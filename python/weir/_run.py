"""Runs: a plan becomes parts, parts become flows, flows become tasks, tasks give batches.

    plan ─▶ _parts.resolve ─▶ parts ─▶ Build.flow ─▶ Flow.start ─▶ Task.next … ─▶ batches

Nothing here is kept between runs: every consumption lists and reads its files anew.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from weir import _progress, _watch
from weir._blocks import JOINED_BYTES, PARTED_BYTES, Group, as_batch, as_made, as_they_come, batches_of, block_most, copied, cut_at, cut_blocks, enforced, grouped, is_uniform, joined, lends_rows, parted, rebatched, resized, split_large
from weir._build import BLOCK_SHARE, Build
from weir._fixed_blocks import has_exact_blocks, has_fixed_blocks, makes_blocks, partitions_of, reads_in_tasks, sizes_kept
from weir._parts import LocalRows, Streamed, resolve, with_blocks
from weir._plan import Blocks, Limit, Op, Range, ReadBlocks, Repartition
from weir._plan import chain, is_repeatable, walk
from weir._translated import Differs, translated
from weir.schema import Schema

if TYPE_CHECKING:
    from weir._weir import Batch, Block, Flow, Task
    from weir.context import DataContext

CHUNK_BYTES = 8 << 20  # about what the engine's own are
ROWS_TOGETHER = 65536

End = Literal["collect", "count", "sink", "blocks"]


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
        is_empty = True
        try:
            while True:
                with translated(self.context, self):
                    batch = task.next() if watch is None else _watched(task.next, watch)
                self._tell_left_out(task)
                if batch is None:
                    if is_empty and self.empty is None:
                        self.empty = task.empty()
                    break
                if self.is_inner or self.gives_blocks:
                    self.last_place = task.place()
                count = batch.num_rows
                if not count:
                    self.empty = self.empty or batch
                    continue
                is_empty = False
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
        self.at_work(False)
        if self.asking is not None:
            self.asking.since_ns = time.monotonic_ns()

    def works(self) -> None:
        """The program has it, and may print: what was drawn is taken off."""
        self.at_work(True)
        if self.asking is not None:
            self.asking.since_ns = 0
            task = self._task
            if task is not None:
                task.hide()

    def at_work(self, at_work: bool) -> None:
        """From any thread: whether the program works with what it has, also while another thread takes the next batch."""
        task = self._task
        if task is not None:
            task.at_work(at_work)

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
        if as_cut and (parts := with_blocks(part, self)) is not None:
            return [block for made in parts for block in self.blocks_of(made)]
        self.build.block_rows = None
        if as_cut and has_exact_blocks(part):
            return self._kept_as_cut(part)
        task = self.wait(part, "blocks")
        made = task.blocks()
        blocks: list[Any] = [b for b in made if b.num_rows]
        if not blocks:
            self.empty = self.empty or (as_batch(made[0]) if made else task.empty())
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
