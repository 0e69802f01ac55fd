"""ray.data.checkpoint.checkpoint_filter: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.checkpoint.checkpoint_filter weir.checkpoint weir.block weir.schema weir.ray_types",
    "Block CHECKPOINT_RECOVERY_MAX_ATTEMPTS CHECKPOINT_RECOVERY_MAX_BACKOFF_S CheckpointFilter CheckpointManager "
    "IdColumnCheckpointManager NumpyArrayBasedCheckpointFilter PENDING_CHECKPOINT_SUFFIX Schema",
)
