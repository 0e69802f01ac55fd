"""Writes with a checkpoint: what was written before is left out, and each piece of output is committed by itself.

    Checkpoint.begin(ds, folder)   None: no checkpoint is wanted, or this plan cannot have one
        .plan                      the plan, with a filter behind each source if there is something to leave out
        .piece(ids, name)          around the writing of a piece: pending ids before it, committed after
        .finish()                  all is written

A piece of a native write is appended by the engine, whose journal makes its files appear together or not at all; one that
was killed in between is found pending, and its files are removed.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weir import _plan
from weir._plan import Call, Op, Range, Read, ReadBlocks, ReadTasks, Source, Union

if TYPE_CHECKING:
    from weir.checkpoint.interfaces import CheckpointConfig
    from weir.dataset import Dataset


class Checkpoint:
    """That of one write."""

    def __init__(self, ds: Dataset, config: CheckpointConfig, folder: str | None) -> None:
        from weir.checkpoint.checkpoint_filter import IdColumnCheckpointManager, clean_pending
        from weir.checkpoint.checkpoint_writer import CheckpointWriter

        self.config = config
        clean_pending(config.folder, folder)
        manager: Any = (config.checkpoint_manager_cls or IdColumnCheckpointManager)(
            checkpoint_config=config, data_context=ds.context
        )
        is_own = config.checkpoint_manager_cls is not None or config.checkpoint_filter_cls is not None
        loaded = manager.load_checkpoint(folder, config.filesystem)[0] if is_own else manager._ids()
        self.is_resumed = loaded is not None
        self.plan = _filtered(ds._op, ds, config, loaded) if self.is_resumed else ds._op
        self.writer = CheckpointWriter.create(config)

    @staticmethod
    def begin(ds: Dataset, folder: str | None) -> Checkpoint | None:
        """The checkpoint of a write into `folder` (None: to something else), where one is wanted and possible."""
        config = getattr(ds.context, "checkpoint_config", None)
        if config is None:
            return None
        if not all(isinstance(op, (Read, ReadTasks, Range)) for op in _plan.walk(ds._op) if isinstance(op, Source)):
            warnings.warn(
                "You've enabled checkpointing, but the logical plan doesn't support checkpointing. Checkpointing will be "
                "disabled: rows that are in memory cannot be read again.",
                stacklevel=4,
            )
            return None
        return Checkpoint(ds, config, folder)

    @contextmanager
    def piece(self, ids: Any, name: str) -> Iterator[None]:
        """Around the writing of the rows with these ids, into files whose names begin with `name`."""
        pending = self.writer.write_pending_checkpoint(ids, name)
        yield
        if pending is not None:
            self.writer.commit_checkpoint(pending)

    def finish(self) -> None:
        """All is written."""
        if self.config.delete_checkpoint_on_success:
            shutil.rmtree(self.config.folder, ignore_errors=True)


def check_ids(config: CheckpointConfig, names: list[str]) -> None:
    """ValueError if the id column was lost on the way."""
    if config.id_column not in names:
        raise ValueError(
            f"ID column {config.id_column} is absent in the block to be written. Do not drop or rename this column."
        )


def _filtered(op: Op, ds: Dataset, config: CheckpointConfig, loaded: Any) -> Op:
    """The plan with a filter behind each source."""
    from weir import _call, _plan
    from weir.checkpoint.checkpoint_filter import Remaining

    if isinstance(op, (Source, ReadBlocks)):
        spec = _call.CallSpec(
            kind="map_batches",
            fn=Remaining,
            fn_constructor_args=(config, loaded),
            batch_format="pyarrow",
            name="CheckpointFilter",
            context=ds.context,
        )
        _call.check(spec)
        return Call(op, spec)
    assert op.input is not None
    made = _plan.with_input(op, _filtered(op.input, ds, config, loaded))
    if isinstance(made, Union):
        made = Union(made.input, [_filtered(other, ds, config, loaded) for other in made.others])  # type: ignore[arg-type]
    return made
