"""What functions make in front of an exchange.

    part ─▶ batches ─┬─ up to an eighth of the memory limit:  Blocks, all of them there before the exchange begins
                     └─ more:  Made, those batches and what is still to come ─▶ exchange

An exchange puts on disk what is too much for the memory. If all that a function makes were kept as blocks first, it would be written
twice; so much of it goes into the exchange while the function runs, in two runs that share the memory.

The rows' columns are those that the batches of the beginning have together. One that comes later and has others cannot be put with
rows that are in the exchange already: then all is made again, and kept first (`Run`, Differs).
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir import _progress
from weir._blocks import Group, columns_of, joined
from weir._fixed_blocks import has_exact_blocks
from weir._plan import Blocks, Op, walk
from weir._parts import LocalRows, Streamed
from weir._run import Run
from weir._translated import Differs

if TYPE_CHECKING:
    from weir._weir import Batch

HELD_SHARE = 8  # of the memory limit: so much is looked at before the exchange begins


class Held:
    """A batch, and where its rows come from: a block that is there as long as the run."""

    __slots__ = ("rows", "place", "num_rows", "nbytes")

    def __init__(self, rows: Batch, place: tuple[int, int]) -> None:
        self.rows = rows
        self.place = place
        self.num_rows = rows.num_rows
        self.nbytes = rows.nbytes

    def schema(self) -> Any:
        return self.rows.schema()

    def batch(self) -> Batch:
        return self.rows


class Made(Streamed):
    """Batches that functions are still making."""

    __slots__ = ("part",)
    native = True  # its columns are known

    def __init__(self, part: Op, first: Batch, batches: Iterator[Batch], run: Run) -> None:
        super().__init__(first, lambda: batches, run)
        self.part = part

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        from weir._weir import batch_stream

        return batch_stream(self.first, lambda: self._noted(self._alike()))

    def _alike(self) -> Iterator[Batch]:
        """The batches with the columns of the first ones."""
        from weir._errors import ArrowConversionError

        fields = self.first.schema()
        for batch in self.make():
            if batch.schema() != fields:
                try:
                    batch = joined([self.first, batch])
                except ArrowConversionError as error:
                    raise Differs(str(error)) from None
                if batch.schema() != fields:
                    raise Differs(f"a later block has the columns {batch.schema()}")
            yield batch
            del batch


def may_begin(part: Op, run: Run, beside: Op | None = None) -> bool:
    """Whether an exchange may begin with the part's rows while they are made: they can be made again, no step says which of them are
    a block, and nothing else of the run waits half made but what the exchange takes `beside` them."""
    from weir._exchange import RepartitionKeys

    found = set(walk(part))
    waiting = found | set(walk(beside)) if beside is not None else found
    return not any(isinstance(op, RepartitionKeys) or (isinstance(op, LocalRows) and not isinstance(op, Made)) for op in found) and all(
        source in waiting for source, _ in run.making
    )


def begun(part: Op, run: Run, operators_kept: int) -> Op | None:
    """The rows of a part with functions, for an exchange: blocks, or what is being made. None: there are none."""
    inner = run.within(part)
    run.inner.remove(inner)  # it ends with the part that its rows are for
    inner.observer = None
    within = set(walk(part))
    inner.making = [(source, maker) for source, maker in run.making if source in within]
    for source, _ in inner.making:
        source.run = inner  # type: ignore[attr-defined]
    inner.operators_before = run.operators_before
    inner.is_trial = True  # who takes the rows tells of errors
    inner.is_waited_for, inner.asking = True, _progress.Asking()
    inner.build.gpus = run.build.gpus
    batches = _noting(part, inner, run, operators_kept)
    held: deque[Held] = deque()
    size, most = 0, run.build.state.native.memory_limit // HELD_SHARE
    inner.asks()
    try:
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            del batch
            if size > most and (first := _together(held)) is not None:
                run.build.gpus = inner.build.gpus
                run.build.calls += inner.build.calls
                made = Made(part, first, _all(held, batches), run)
                run.making.append((made, inner))
                return made
    except BaseException:
        held.clear()  # a traceback that somebody keeps does not keep rows
        raise
    finally:
        inner.works()  # from now on the exchange shows what it does,
        inner.at_work(False)  # and takes the rows as they come
    run.build.gpus = inner.build.gpus
    run.empty = run.empty or inner.empty
    blocks = [_plain(block) for block in inner.as_blocks(part, list(held))]
    return Blocks(part.name, blocks, run.build.state.id) if blocks else None


def _plain(block: Any) -> Any:
    if isinstance(block, Group):
        return Group([_plain(chunk) for chunk in block.chunks])
    return block.rows if isinstance(block, Held) else block


def _together(held: deque[Held]) -> Batch | None:
    """No rows, and the columns of all these, of which each may have nulls; None: they do not fit together."""
    from weir._errors import ArrowConversionError

    different: dict[str, Batch] = {}
    for block in held:
        different.setdefault(repr(columns_of(block)), block.rows.slice(0, 0))
    empties = list(different.values())
    try:
        return joined(empties + empties[:1])
    except ArrowConversionError:
        return None


def _noting(part: Op, inner: Run, run: Run, operators_kept: int) -> Iterator[Held]:
    """The part's batches; at their end the run has what was done for them."""
    first, before = len(run.stats), run.operators_before
    try:
        for batch in inner.collect([part]) if has_exact_blocks(part) else inner.taken(part):
            yield Held(batch, inner.last_place)
            del batch
    finally:
        for figures in inner.stats:  # these are about the operators up to the exchange
            if "operators_placed" not in figures:
                figures["operators_kept"] = before + figures.get("operators_kept", operators_kept)
                figures["operators_from"] = before + figures.get("operators_from", 0)
                figures["operators_placed"] = True
        run.stats[first:first] = inner.stats
        run.left_out += inner.left_out


def _all(held: deque[Held], rest: Iterator[Held]) -> Iterator[Batch]:
    while held:
        yield held.popleft().rows
    for block in rest:
        yield block.rows
        del block


def kept(op: Op, run: Run) -> Op:
    """The same part, of rows that are made again, all of them before it begins."""
    if isinstance(op, Made):
        return Blocks(op.part.name, run.blocks_of(op.part), run.build.state.id)
    if not any(isinstance(before, Made) for before in walk(op)):
        return op
    made: Any = copy.copy(op)
    made.input = kept(made.input, run)
    if op.others:
        made.others = tuple(kept(other, run) for other in made.others)
    if hasattr(op, "other"):
        made.other = kept(made.other, run)
    return made  # type: ignore[no-any-return]
