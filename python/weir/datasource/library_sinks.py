"""Files that pandas or pyarrow write, in workers: of writes whose arguments the engine's own writers do not have.

    _write.write ─▶ NotNative ─▶ sink(…) ─▶ Dataset.write_datasink ─▶ a task has a block ─▶ write_block: to_json, write_dataset
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from weir.datasource.datasink import WRITE_UUID, TaskContext
from weir.datasource.file_datasink import BlockBasedFileDatasink, _FileDatasink
from weir.datasource.filename_provider import task_filename

if TYPE_CHECKING:
    from weir.block import BlockAccessor


class PandasJSON(BlockBasedFileDatasink):
    """JSON as pandas.DataFrame.to_json writes it."""

    def __init__(self, path: str, *, arguments: dict[str, Any], **more: Any) -> None:
        compressed = arguments.get("compression") or (more.get("open_stream_args") or {}).get("compression")
        ending = {"gzip": ".gz", "gz": ".gz", "bz2": ".bz2", "zstd": ".zst", "xz": ".xz"}.get(str(compressed), "")
        super().__init__(path, file_format="json" + ending, **more)
        self.arguments = {"orient": "records", "lines": True, **arguments}

    @staticmethod
    def knows(arguments: dict[str, Any]) -> None:
        """Raises a TypeError if pandas has no such argument."""
        import inspect

        import pandas as pd

        inspect.signature(pd.DataFrame.to_json).bind(None, None, **arguments)

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        block.to_pandas().to_json(file, **self.arguments)


class ArrowParquet(_FileDatasink):
    """Parquet as pyarrow.dataset writes it."""

    def __init__(
        self, path: str, *, arguments: dict[str, Any], partition_cols: list[str], max_rows_per_file: int | None,
        min_rows_per_file: int | None, min_bytes_per_file: int | None, **more: Any,
    ) -> None:
        super().__init__(path, file_format="parquet", **more)
        self.arguments = dict(arguments)
        self.flavor = self.arguments.pop("partitioning_flavor", "hive")
        self.row_group_size = self.arguments.pop("row_group_size", None)
        self.partition_cols = partition_cols
        self.rows_max, self.rows_min, self.bytes_min = max_rows_per_file, min_rows_per_file, min_bytes_per_file

    @staticmethod
    def knows(arguments: dict[str, Any]) -> None:
        """Raises a TypeError if pyarrow has no such argument."""
        import pyarrow.dataset as ds

        own = {n: v for n, v in arguments.items() if n not in ("partitioning_flavor", "row_group_size")}
        ds.ParquetFileFormat().make_write_options(**own)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        import pyarrow.dataset as ds

        from weir.datasource._retry import call_with_retry

        task = task_filename(self.filename_provider, ctx.kwargs[WRITE_UUID], ctx.task_idx).removesuffix(".parquet")
        hidden = os.path.join(self.path, f".{task}.{os.getpid()}")
        rows: dict[str, int] = {}
        if self.rows_max is not None:
            rows["max_rows_per_file"] = self.rows_max
        group = min((n for n in (self.row_group_size, self.rows_max) if n is not None), default=None)
        if group is not None:
            rows["max_rows_per_group"] = group

        def once() -> None:
            try:
                ds.write_dataset(
                    block.to_arrow(), hidden, format="parquet", basename_template=f"{task}-{{i}}.parquet", partitioning=self.partition_cols or None,
                    partitioning_flavor=self.flavor if self.partition_cols else None, file_options=ds.ParquetFileFormat().make_write_options(**self.arguments),
                    **rows,
                )
                for folder, _, names in os.walk(hidden):
                    to = os.path.normpath(os.path.join(self.path, os.path.relpath(folder, hidden)))
                    os.makedirs(to, exist_ok=True)
                    for name in names:
                        os.rename(os.path.join(folder, name), os.path.join(to, name))
            finally:
                shutil.rmtree(hidden, ignore_errors=True)

        call_with_retry(once, self._data_context.retried_io_errors)

    @property
    def min_rows_per_write(self) -> int | None:
        return self.rows_min

    @property
    def min_bytes_per_write(self) -> int | None:
        return self.bytes_min
