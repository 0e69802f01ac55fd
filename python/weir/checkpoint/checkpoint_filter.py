"""Going on: what an unfinished run has left is removed, what was written is loaded, and rows that it names are left out."""

from __future__ import annotations

import abc
import os
from typing import TYPE_CHECKING, Any

from weir.checkpoint.checkpoint_writer import PENDING_CHECKPOINT_SUFFIX
from weir.checkpoint.interfaces import CheckpointConfig
from weir.checkpoint.util import build_pending_checkpoint_trie

if TYPE_CHECKING:
    from weir.context import DataContext
    from weir.dataset import Dataset

PENDING_ENDING = f"{PENDING_CHECKPOINT_SUFFIX}.parquet"


def clean_pending(folder: str, data_folder: str | None) -> int:
    """Removes the data of pieces that were not finished, then what says so. How many there were."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    pending = [os.path.join(folder, name) for name in names if name.endswith(PENDING_ENDING)]
    if not pending:
        return 0
    if data_folder is not None:
        trie = build_pending_checkpoint_trie(pending, PENDING_ENDING)
        for place, _, files in os.walk(data_folder):
            for name in files:
                if trie.has_prefix_of(name):
                    os.unlink(os.path.join(place, name))
    for path in pending:
        os.unlink(path)
    return len(pending)


class CheckpointManager(abc.ABC):
    """Loads what was written. One of a user's own gives load_checkpoint's answer to a CheckpointFilter of their own.

    >>> import tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.from_items([{"id": 3}, {"id": 1}]).write_parquet(folder)
    >>> manager = CheckpointManager(CheckpointConfig("id", folder), weir.DataContext())
    >>> ids, size = manager.load_checkpoint()
    >>> weir.get(ids), size
    (array([1, 3]), 16)
    """

    def __init__(self, checkpoint_config: CheckpointConfig, data_context: DataContext) -> None:
        self.checkpoint_config = checkpoint_config
        self.checkpoint_path = checkpoint_config.checkpoint_path
        self.checkpoint_path_unwrapped = checkpoint_config.folder
        self.filesystem = checkpoint_config.filesystem
        self.id_column = checkpoint_config.id_column
        self.checkpoint_path_partition_filter = checkpoint_config.checkpoint_path_partition_filter
        self._data_context = data_context

    def load_checkpoint(self, data_file_dir: str | None = None, data_file_filesystem: Any = None) -> tuple[Any, int]:
        """A reference to the sorted ids and their size in bytes; (None, 0): there are none. Pieces that were not finished are
        removed, in `data_file_dir` too, which is a folder of this machine whatever `data_file_filesystem` is.

        >>> import weir
        >>> CheckpointManager(CheckpointConfig("id", "/nowhere"), weir.DataContext()).load_checkpoint()
        (None, 0)
        """
        import weir
        from weir.datasource.listing import is_local

        if not is_local(data_file_filesystem):
            raise ValueError("load_checkpoint: data_file_filesystem has to be one of this machine: writes with a checkpoint make their files here")
        clean_pending(self.checkpoint_path_unwrapped, data_file_dir)
        ids = self._ids()
        return (None, 0) if ids is None else (weir.put(ids), int(ids.nbytes))

    def _ids(self) -> Any:
        """The sorted ids as an array; None: there are none."""
        import numpy as np

        import weir

        folder = self.checkpoint_path_unwrapped
        if not _has_files(folder):
            return None
        ds = weir.read_parquet(folder, partition_filter=self.checkpoint_path_partition_filter)
        ds.context.checkpoint_config = None
        ds = self._preprocess_data_pipeline(ds).select_columns([self.id_column])
        arrays = [batch.numpy()[self.id_column] for batch in ds._new_run()]
        if not arrays:
            return None
        ids = np.concatenate(arrays)
        ids.sort()
        return ids

    def _preprocess_data_pipeline(self, checkpoint_ds: Dataset) -> Dataset:
        return checkpoint_ds

    def _validate_loaded_checkpoint(self, schema: Any, metadata: Any) -> None:
        """For subclasses."""


class IdColumnCheckpointManager(CheckpointManager):
    """Loads the ids of an id column.

    >>> issubclass(IdColumnCheckpointManager, CheckpointManager)
    True
    """


def _has_files(folder: str) -> bool:
    return any(name.endswith(".parquet") and not name.startswith(".") for _, _, files in os.walk(folder) for name in files)


class CheckpointFilter(abc.ABC):
    """Leaves out rows that were written. Made in each worker, with what the manager loaded.

    >>> import pyarrow as pa
    >>> class Later(CheckpointFilter):
    ...     def filter_rows_for_block(self, block): return block.slice(self.checkpoint_ref)
    >>> Later(CheckpointConfig("id", "/tmp/checkpoint"), 1).filter_rows_for_block(pa.table({"id": [4, 5]})).to_pydict()
    {'id': [5]}
    """

    def __init__(self, config: CheckpointConfig, checkpoint_ref: Any = None) -> None:
        self.ckpt_config = config
        self.id_column = config.id_column
        self.checkpoint_ref = checkpoint_ref

    @abc.abstractmethod
    def filter_rows_for_block(self, block: Any) -> Any:
        """The rows of a pyarrow.Table that are still to be written.

        >>> import numpy, pyarrow as pa
        >>> known = NumpyArrayBasedCheckpointFilter(CheckpointConfig("id", "/tmp/checkpoint"), numpy.array([1, 3]))
        >>> known.filter_rows_for_block(pa.table({"id": [1, 2, 3, 4]})).to_pydict()
        {'id': [2, 4]}
        """


class NumpyArrayBasedCheckpointFilter(CheckpointFilter):
    """Looks ids up in a sorted array, or in what a reference to one gives.

    >>> import numpy
    >>> NumpyArrayBasedCheckpointFilter(CheckpointConfig("id", "/tmp/checkpoint"), numpy.array([1, 3])).checkpointed_ids
    array([1, 3])
    """

    def __init__(self, checkpoint_config: CheckpointConfig, checkpoint_ref: Any) -> None:
        import numpy as np

        super().__init__(checkpoint_config, checkpoint_ref)
        if not isinstance(checkpoint_ref, np.ndarray):
            import weir

            checkpoint_ref = weir.get(checkpoint_ref)
        self.checkpointed_ids: Any = checkpoint_ref

    def filter_rows_for_block(self, block: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        if self.id_column not in block.column_names:
            raise ValueError(f"the id column {self.id_column!r} of the checkpoint is not in the rows that are read: {block.column_names}")
        known = self.checkpointed_ids
        if not len(known) or not block.num_rows:
            return block
        ids = block.column(self.id_column).to_numpy()
        places = np.searchsorted(known, ids)
        places[places == len(known)] = 0
        return block.filter(pa.array(known[places] != ids))


class Remaining:
    """The function of the step behind a source: the rows that are still to be written."""

    def __init__(self, config: CheckpointConfig, loaded: Any) -> None:
        self.filter = (config.checkpoint_filter_cls or NumpyArrayBasedCheckpointFilter)(config, loaded)

    def __call__(self, block: Any) -> Any:
        return self.filter.filter_rows_for_block(block)
