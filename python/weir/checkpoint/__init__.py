"""Writes that go on where they were killed: rows are known by an id column, and those that were written are not written again.

>>> import tempfile, weir
>>> from weir.checkpoint import CheckpointConfig
>>> folder = tempfile.mkdtemp()
>>> context = weir.DataContext.get_current()
>>> context.checkpoint_config = CheckpointConfig("id", folder + "/checkpoint")
>>> weir.range(100).write_parquet(folder + "/out")
>>> context.checkpoint_config = None
>>> weir.read_parquet(folder + "/out").count()
100

Each piece of output is committed by itself, with the ids of its rows: see docs/extending.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weir.checkpoint.interfaces import (
    CheckpointBackend,
    CheckpointConfig,
    InvalidCheckpointingConfig,
    InvalidCheckpointingOperators,
)

if TYPE_CHECKING:
    from weir.checkpoint.checkpoint_filter import (
        CheckpointFilter,
        CheckpointManager,
        IdColumnCheckpointManager,
        NumpyArrayBasedCheckpointFilter,
    )

__all__ = [
    "CheckpointBackend",
    "CheckpointConfig",
    "CheckpointFilter",
    "CheckpointManager",
    "IdColumnCheckpointManager",
    "InvalidCheckpointingConfig",
    "InvalidCheckpointingOperators",
    "NumpyArrayBasedCheckpointFilter",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("weir.checkpoint.checkpoint_filter"), name)
