"""What a user says about checkpoints, and what is raised when that cannot be."""

from __future__ import annotations

import enum
import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.datasource import PathPartitionFilter


class InvalidCheckpointingConfig(Exception):
    """The configuration cannot be used.

    >>> try: CheckpointConfig(id_column=None, checkpoint_path="/tmp/checkpoint")
    ... except InvalidCheckpointingConfig as error: print(error)
    Checkpoint ID column must be a non-empty string, but got None
    """


class InvalidCheckpointingOperators(Exception):
    """Ray's name for a plan that cannot have a checkpoint. weir warns of it, and writes without one."""


class CheckpointBackend(enum.Enum):
    """Where checkpoints lie: weir has files of this machine.

    >>> CheckpointBackend["FILE_STORAGE"].value
    'FILE_STORAGE'
    """

    CLOUD_OBJECT_STORAGE = "CLOUD_OBJECT_STORAGE"
    FILE_STORAGE = "FILE_STORAGE"


class CheckpointConfig:
    """Whether and where writes keep what they have done: `DataContext.checkpoint_config`.

    Args:
        id_column: a column whose values are unique, and that every step keeps.
        checkpoint_path: a folder, by its full path; default: ray_data_checkpoint in RAY_DATA_CHECKPOINT_PATH_BUCKET.
        delete_checkpoint_on_success: whether the folder goes when all is written.
        checkpoint_path_partition_filter: which of its files to load.
        checkpoint_filter_cls, checkpoint_manager_cls: classes of one's own for leaving rows out and for loading.
        write_num_threads, override_backend: kept; a piece has one file of ids.

    >>> CheckpointConfig("id", "/tmp/checkpoint").delete_checkpoint_on_success
    True
    """

    DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR = "RAY_DATA_CHECKPOINT_PATH_BUCKET"
    DEFAULT_CHECKPOINT_PATH_DIR = "ray_data_checkpoint"
    CHECKPOINT_ACTOR_POOL_MIN_SIZE = 1
    CHECKPOINT_ACTOR_POOL_MAX_SIZE = 10
    CHECKPOINT_ACTOR_MEMORY_BYTES = 1 << 30

    def __init__(
        self,
        id_column: str | None = None,
        checkpoint_path: str | None = None,
        *,
        delete_checkpoint_on_success: bool = True,
        override_filesystem: Any = None,
        override_backend: CheckpointBackend | None = None,
        write_num_threads: int = 3,
        checkpoint_path_partition_filter: PathPartitionFilter | None = None,
        checkpoint_filter_cls: type | None = None,
        checkpoint_manager_cls: type | None = None,
    ) -> None:
        if not isinstance(id_column, str) or not id_column:
            raise InvalidCheckpointingConfig(f"Checkpoint ID column must be a non-empty string, but got {id_column}")
        _check_class(checkpoint_filter_cls, "CheckpointFilter", "checkpoint_filter_cls")
        _check_class(checkpoint_manager_cls, "CheckpointManager", "checkpoint_manager_cls")
        if override_backend is not None:
            warnings.warn("`override_backend` is deprecated: weir keeps checkpoints in files.", FutureWarning, stacklevel=2)
            if not isinstance(override_backend, CheckpointBackend):
                raise InvalidCheckpointingConfig(f"override_backend is a CheckpointBackend, not {override_backend!r}")
        self.id_column = id_column
        self.checkpoint_path: str = checkpoint_path or self._get_default_checkpoint_path()
        self.filesystem = self._local(override_filesystem)
        self.backend = override_backend or CheckpointBackend.FILE_STORAGE
        self.delete_checkpoint_on_success = delete_checkpoint_on_success
        self.write_num_threads = write_num_threads
        self.checkpoint_path_partition_filter = checkpoint_path_partition_filter
        self.checkpoint_filter_cls = checkpoint_filter_cls
        self.checkpoint_manager_cls = checkpoint_manager_cls
        self.checkpoint_actor_pool_min_size = self.CHECKPOINT_ACTOR_POOL_MIN_SIZE
        self.checkpoint_actor_pool_max_size = self.CHECKPOINT_ACTOR_POOL_MAX_SIZE
        self.checkpoint_actor_memory_bytes = self.CHECKPOINT_ACTOR_MEMORY_BYTES

    def _get_default_checkpoint_path(self) -> str:
        bucket = os.environ.get(self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR)
        if bucket is None:
            raise InvalidCheckpointingConfig(
                f"`{self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR}` env var is not set, please explicitly set "
                "`CheckpointConfig.checkpoint_path`."
            )
        return f"{bucket}/{self.DEFAULT_CHECKPOINT_PATH_DIR}"

    def _local(self, given: Any) -> Any:
        path = self.checkpoint_path
        if not isinstance(path, str) or not path.startswith(("/", "file://", "local://")):
            raise InvalidCheckpointingConfig(
                f"Invalid checkpoint path: {path}. It is the full path of a folder of this machine."
            )
        if given is not None and type(given).__name__ != "LocalFileSystem":
            raise InvalidCheckpointingConfig(f"override_filesystem is not supported: checkpoints are files of this machine, not {given!r}")
        try:
            from pyarrow.fs import LocalFileSystem
        except ImportError:
            raise InvalidCheckpointingConfig("checkpoints need pyarrow, which is not installed") from None
        return given or LocalFileSystem()

    @property
    def folder(self) -> str:
        """The folder without a scheme.

        >>> CheckpointConfig("id", "file:///tmp/checkpoint").folder
        '/tmp/checkpoint'
        """
        return self.checkpoint_path.removeprefix("local://").removeprefix("file://")


def _check_class(given: Any, base_name: str, argument: str) -> None:
    if given is None:
        return
    from weir.checkpoint import checkpoint_filter

    base = getattr(checkpoint_filter, base_name)
    if not (isinstance(given, type) and issubclass(given, base)):
        raise InvalidCheckpointingConfig(f"`{argument}` must be a subclass of `{base_name}`, but got {given}")
    if inspect.isabstract(given):
        raise InvalidCheckpointingConfig(f"`{argument}` must be a concrete class, but {given} is abstract")
