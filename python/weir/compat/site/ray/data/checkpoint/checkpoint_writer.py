"""ray.data.checkpoint.checkpoint_writer: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.checkpoint.checkpoint_writer weir.checkpoint",
    "BatchBasedCheckpointWriter CheckpointWriter PENDING_CHECKPOINT_SUFFIX PendingCheckpoint",
)
