"""Writing the ids of a piece: pending before its data, committed after.

    <piece>.pending.parquet ─▶ (data files <piece>… appear) ─▶ rename to <piece>.parquet

What is pending when a run begins was not finished: its data files are removed, and it too.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.checkpoint.interfaces import CheckpointBackend, CheckpointConfig

if TYPE_CHECKING:
    from weir.block import BlockAccessor

PENDING_CHECKPOINT_SUFFIX = ".pending"


@dataclass
class PendingCheckpoint:
    """A file of ids that does not count yet, and its name once it does."""

    pending_path: str
    committed_path: str


class CheckpointWriter:
    """Writes ids. `create` makes the one for a configuration."""

    def __init__(self, config: CheckpointConfig) -> None:
        self.ckpt_config = config
        self.checkpoint_path_unwrapped = config.folder
        self.id_col = config.id_column
        self.filesystem = config.filesystem
        self.write_num_threads = config.write_num_threads

    @abstractmethod
    def write_block_checkpoint(self, block: BlockAccessor) -> None:
        """The ids of a block that is written already."""

    def write_pending_checkpoint(self, id_column_data: Any, checkpoint_id: str) -> PendingCheckpoint | None:
        """The ids of a piece that is about to be written."""
        raise NotImplementedError("2-phase commit not implemented for this checkpoint writer")

    def commit_checkpoint(self, pending: PendingCheckpoint) -> None:
        """The piece is written."""
        raise NotImplementedError("2-phase commit not implemented for this checkpoint writer")

    @staticmethod
    def create(config: CheckpointConfig) -> CheckpointWriter:
        """The writer for a configuration."""
        if config.backend not in (CheckpointBackend.CLOUD_OBJECT_STORAGE, CheckpointBackend.FILE_STORAGE):
            raise NotImplementedError(f"Backend {config.backend} not implemented")
        return BatchBasedCheckpointWriter(config)


class BatchBasedCheckpointWriter(CheckpointWriter):
    """A Parquet file of ids for each piece."""

    def __init__(self, config: CheckpointConfig) -> None:
        super().__init__(config)
        os.makedirs(self.checkpoint_path_unwrapped, exist_ok=True)

    def write_block_checkpoint(self, block: BlockAccessor) -> None:
        if block.num_rows():
            pending = self.write_pending_checkpoint(block.to_arrow().column(self.id_col), os.urandom(16).hex())
            assert pending is not None
            self.commit_checkpoint(pending)

    def write_pending_checkpoint(self, id_column_data: Any, checkpoint_id: str) -> PendingCheckpoint | None:
        if not len(id_column_data):
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        base = os.path.join(self.checkpoint_path_unwrapped, checkpoint_id)
        pending = PendingCheckpoint(f"{base}{PENDING_CHECKPOINT_SUFFIX}.parquet", f"{base}.parquet")
        # Half a file must not look like a pending one: it is written under a name that nobody reads.
        hidden = os.path.join(self.checkpoint_path_unwrapped, f".{checkpoint_id}.{os.getpid()}")
        pq.write_table(pa.table({self.id_col: id_column_data}), hidden)
        os.rename(hidden, pending.pending_path)
        return pending

    def commit_checkpoint(self, pending: PendingCheckpoint) -> None:
        try:
            os.rename(pending.pending_path, pending.committed_path)
        except FileNotFoundError:
            if not os.path.exists(pending.committed_path):  # else it was committed before, and tried again
                raise FileNotFoundError(
                    f"Neither pending ({pending.pending_path}) nor committed ({pending.committed_path}) checkpoint exists"
                ) from None
