"""Functions that follow each other run in the same worker, one after another, on the rows of one task:

    lanes ─ chunk ─▶ worker: f ─▶ g ─▶ h ─ chunk ─▶ lanes            instead of a process, and a way there and back, for each

Which ones: functions with equal resources that leave the number of workers to weir, as Ray Data fuses them, but for classes: their
pools have sizes of their own. A function behind one that changes the number of rows, and wants batches of a size, is on its own:
its batches would be cut short at the end of every task. So is one behind a function that gets whole blocks: tasks that are filled up to
the size would not be blocks any more.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._call import CallSpec
    from weir._plan import Op
    from weir._weir import Batch

BATCH = "engine"  # a batch_format of ours: the batch as it is


def fuses(chain: Sequence[CallSpec], spec: CallSpec, context: Any) -> bool:
    """Whether `spec` runs in the worker of those before it."""
    from weir import _apply, _call

    before = chain[-1]
    if not getattr(context, "optimize_fuse_stages", True):
        return False
    for one in (before, spec):
        if one.kind not in _call.KINDS or one.kind == "write" or one.is_class or any(_call.pool_sizes(one).values()):
            return False
        if one.batch_size == "auto" or _apply.is_async(one.fn):
            return False
    if (before.num_cpus, before.num_gpus, before.memory) != (spec.num_cpus, spec.num_gpus, spec.memory):
        return False
    if (before.runtime_env or {}) != (spec.runtime_env or {}) or (before.resources or {}) != (spec.resources or {}):
        return False
    if before.group is not spec.group:
        return False
    if not isinstance(spec.batch_size, int):
        return True
    if any(one.kind == "map_batches" and one.batch_size is None for one in chain):
        return False
    return before.kind in ("map", "map_batches") and before.keys is None


def takes_blocks(spec: CallSpec) -> bool:
    """Whether its batches are the blocks, as they are."""
    return spec.kind == "map_batches" and spec.batch_size is None and not spec.takes_groups


def fused(specs: Sequence[CallSpec], block_bytes: int) -> CallSpec:
    """One call that does the work of several. `block_bytes`: results of one are put together for the next up to that, where it takes
    blocks."""
    made = copy.copy(specs[0])
    made.kind, made.fn, made.batch_format, made.batch_size = "map_batches", Chain(specs, block_bytes), BATCH, None
    made.fn_args = made.fn_kwargs = made.keys = None  # of groups only the first is, and it knows
    made.name = "->".join(spec.name for spec in specs)
    return made


def shape(specs: Sequence[CallSpec]) -> dict[str, int]:
    """How the engine cuts tasks for them (fields of a call, see _call.prepare): as many rows as the largest batch."""
    from weir import _call

    sizes = [spec.batch_size for spec in specs if isinstance(spec.batch_size, int)]
    is_rows = all(spec.kind != "map_batches" for spec in specs)
    return {
        "batch_rows": max(sizes, default=0),
        "chunk_bytes": _call.ROWS_BYTES if is_rows else _call.block_bytes(specs[0].context),
        "fine": int(is_rows or bool(sizes) or specs[0].takes_groups),
    }


def runs(steps: Sequence[Op], context: Any) -> list[list[Op]]:
    """The steps of a chain; calls that run together are together."""
    from weir._plan import Call

    out: list[list[Op]] = []
    for step in steps:
        before = [op.spec for op in out[-1] if isinstance(op, Call)] if out else []
        if isinstance(step, Call) and before and fuses(before, step.spec, context):
            out[-1].append(step)
        else:
            out.append([step])
    return out


class Chain:
    """Several functions as one. Pickles as what is needed to make them.

    `place`: which of them raised, and on which of the task's rows, as far as that can be told; `group`: of which group, by its key."""

    place: tuple[str, tuple[int, int]] | None = None
    group = ""

    def __init__(self, specs: Sequence[CallSpec], block_bytes: int) -> None:
        from weir import _call

        self.block_bytes = block_bytes
        self.parts = [(_call.function_head(spec), _call.function_objects(spec)) for spec in specs]
        self.functions: list[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self.parts, "functions": None, "block_bytes": self.block_bytes}

    def __call__(self, batch: Batch) -> Iterator[Batch]:
        from weir import _apply

        if self.functions is None:
            self.functions = [_apply.make(head, objects) for head, objects in self.parts]
        self.place, self.group = None, ""
        stream: Iterable[Batch] = [batch]
        is_same = True  # row i here is of the task's row i
        for function in self.functions:
            stream = self._applied(function, stream, batch.num_rows, is_same)
            is_same = is_same and function.kind == "map"
        return iter(stream)

    def _applied(self, function: Any, stream: Iterable[Batch], count: int, is_same: bool) -> Iterator[Batch]:
        """`count`: of the task's rows; `is_same`: it can be told which of them a row is."""
        from weir import _apply

        first = 0
        for batch in self._gathered(function, stream, count):
            try:
                yield from _apply.apply(function, batch)
            except GeneratorExit:
                raise
            except BaseException:
                low, high = function.rows
                self.group = _apply.group_of(function, batch)
                self.place = (function.name, (first + low, first + high) if is_same else (0, count - 1))
                raise
            first += batch.num_rows

    def _gathered(self, function: Any, stream: Iterable[Batch], count: int) -> Iterator[Batch]:
        """The batches that a function is given. Where they are what the memory went to, it is to blame, not who made them."""
        from weir import _apply, _shortage

        waiting = [0, 0]  # rows and bytes of what has come and not been handed on

        def come(batch: Batch) -> Batch:
            waiting[0] += batch.num_rows
            waiting[1] += batch.nbytes
            return batch

        def gone(batch: Batch) -> Batch:
            waiting[0] = max(0, waiting[0] - batch.num_rows)
            waiting[1] = max(0, waiting[1] - batch.nbytes)
            return batch

        batches: Iterator[Batch] = map(come, stream)
        if isinstance(function.batch_size, int):
            from weir._blocks import rebatched

            batches = rebatched(batches, function.batch_size, False)
        elif function.kind == "map_batches" and not function.keys:
            batches = _apply.merged(batches, self.block_bytes)
        try:
            yield from map(gone, batches)
        except Exception as error:
            if waiting[1] < _shortage.anon_bytes() // 2 or not isinstance(function.batch_size, int) or not _shortage.shortage.explains(error):
                raise
            self.place = (function.name, (0, count - 1))
            raise MemoryError(f"of a batch of {function.batch_size} rows, {waiting[0]} were there, of {waiting[1] / 1e6:.0f} MB, when there was no memory "
                              f"for more ({error})") from error
