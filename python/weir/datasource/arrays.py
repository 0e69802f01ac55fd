"""Sources and sinks of arrays: .npy files, torch and Hugging Face datasets."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir.datasource.datasource import Datasource, ReadTask
from weir.datasource.file_based_datasource import FileBasedDatasource
from weir.datasource.file_datasink import BlockBasedFileDatasink

if TYPE_CHECKING:
    from weir.block import BlockAccessor
    from weir.context import DataContext

TORCH_ROWS = 32  # items of a torch dataset that go into one batch
HUGGINGFACE_ROWS = 4096


class NumpyDatasource(FileBasedDatasource):
    """The arrays of .npy files, in a column `data`."""

    _FILE_EXTENSIONS = ["npy"]

    def __init__(
        self, paths: str | list[str], numpy_load_args: dict[str, Any] | None = None, allow_pickle: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(paths, **kwargs)
        loading = dict(numpy_load_args or {})
        if loading.pop("allow_pickle", None) is not None:
            warnings.warn("`allow_pickle` in `numpy_load_args` is ignored. Use `read_numpy(..., allow_pickle=True)`.", stacklevel=2)
        self.numpy_load_args = loading
        self.allow_pickle = allow_pickle

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        if not open_args and self.resolve_compression(path, open_args) is None:
            return open(path, "rb")  # pyarrow is not needed for it
        return super()._open_input_source(filesystem, path, **open_args)

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import numpy as np

        from weir._weir import batch_from_columns

        file = f if isinstance(f, io.BufferedReader) else io.BytesIO(f.readall())
        yield batch_from_columns({"data": np.load(file, allow_pickle=self.allow_pickle, **self.numpy_load_args)})

    def _read_file(self, path: str) -> Iterator[Any]:
        for block in super()._read_file(path):
            yield block


class NumpyDatasink(BlockBasedFileDatasink):
    """One column as .npy files."""

    def __init__(self, path: str, column: str, **kwargs: Any) -> None:
        super().__init__(path, file_format="npy", **kwargs)
        self.column = column

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        import numpy as np

        np.save(file, block.to_numpy(self.column))


class TorchDatasource(Datasource):
    """The items of a torch dataset, in a column `item`, read by one task."""

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self._dataset = dataset

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockMetadata

        return [ReadTask(_Items(self._dataset), BlockMetadata(None, None), per_task_row_limit=per_task_row_limit)]


class _Items:
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self) -> Iterator[Any]:
        from weir._weir import batch_from_rows

        dataset = self.dataset
        items = iter(dataset) if hasattr(dataset, "__iter__") else (dataset[i] for i in range(len(dataset)))
        held: list[dict[str, Any]] = []
        for item in items:
            held.append({"item": item})
            if len(held) == TORCH_ROWS:
                yield batch_from_rows(held)
                held = []
        if held:
            yield batch_from_rows(held)


class HuggingFaceDatasource(Datasource):
    """The rows of a streaming Hugging Face dataset, read by one task."""

    def __init__(self, dataset: Any, batch_size: int = HUGGINGFACE_ROWS) -> None:
        super().__init__()
        self._dataset = dataset
        self._batch_size = batch_size

    def estimate_inmemory_data_size(self) -> int | None:
        return getattr(self._dataset, "dataset_size", None)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockMetadata

        reader = _Streamed(self._dataset, self._batch_size)
        return [ReadTask(reader, BlockMetadata(None, None), per_task_row_limit=per_task_row_limit)]


class _Streamed:
    def __init__(self, dataset: Any, size: int) -> None:
        self.dataset, self.size = dataset, size

    def __call__(self) -> Iterator[Any]:
        if getattr(self.dataset, "features", ()) is None:  # behind map(): tables of its own have types of their own, which datasets cannot join
            import pyarrow as pa

            yield from (pa.table(batch) for batch in self.dataset.iter(batch_size=self.size))
            return
        yield from self.dataset.with_format("arrow").iter(batch_size=self.size)
