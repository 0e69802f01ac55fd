"""The methods of a Dataset that write files in the engine's own formats. What becomes of their arguments: _write.py."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any


class SaveMode(str, enum.Enum):
    """What a write does if something is there already: add to it, replace it, leave it alone, or refuse.

    >>> import weir
    >>> weir.SaveMode("overwrite")
    <SaveMode.OVERWRITE: 'overwrite'>
    """

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"
    UPSERT = "upsert"


class Writes:
    """What Dataset inherits: a method for each format."""

    def write_parquet(
        self,
        path: str,
        *,
        partition_cols: list[str] | None = None,
        filesystem: Any = None,
        catalog: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: Any = None,
        arrow_parquet_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        min_bytes_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        **arrow_parquet_args: Any,
    ) -> None:
        """Writes Parquet files into a folder. They appear complete and all at once, when the write has succeeded.

        Args:
            path: the folder. If there are no rows, nothing is written.
            partition_cols: columns that become folders like `year=2024/`.
            mode: what to do if the folder exists: "append" (the default), "overwrite", "ignore", "error".
            min_rows_per_file, max_rows_per_file, min_bytes_per_file: bounds on the size of files; the lower ones hold
                as long as there are rows.
            filename_provider: names the files (docs/extending.md).
            filesystem: one of pyarrow.fs or fsspec; the files are made here and copied there.
            arrow_parquet_args: compression, compression_level, row_group_size, use_dictionary and others. pyarrow writes
                the files, in workers, if the engine's writer does not have one of them; what neither has is refused.
                `arrow_parquet_args_fn` returns more of them.
            try_create_dir: False: a folder that is not there is an error.
            arrow_open_stream_args: compression; buffer_size is taken, too.
            concurrency, ray_remote_args: without effect unless pyarrow writes, since no tasks do.
            python_objects: (one of arrow_parquet_args) "pickle": columns of Python objects are written as bytes, each
                the pickle of its object, and read back as bytes. A program that trusts the file unpickles them:
                pickle.loads(row["x"]). Without this argument such a column is an error.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(1000).write_parquet(folder, mode="overwrite", compression="zstd")
        >>> weir.read_parquet(folder).count()
        1000
        """
        from weir import _write

        _write.write(self, "parquet", locals())  # type: ignore[arg-type]

    def write_csv(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: Any = None,
        arrow_csv_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        **arrow_csv_args: Any,
    ) -> None:
        """Writes CSV files into a folder. `arrow_csv_args`: `write_options` of pyarrow.csv; `path`, `mode` and the
        other arguments are those of write_parquet().

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(2).write_csv(folder)
        >>> weir.read_csv(folder).take()
        [{'id': 0}, {'id': 1}]
        """
        from weir import _write

        _write.write(self, "csv", locals())  # type: ignore[arg-type]

    def write_json(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: Any = None,
        pandas_json_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        **pandas_json_args: Any,
    ) -> None:
        """Writes JSON lines into a folder: one object per row. `pandas_json_args`: those of pandas.DataFrame.to_json; with
        any other than `compression`, pandas writes the files, in workers. `path`, `mode` and the other arguments are
        those of write_parquet().

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(2).write_json(folder)
        >>> weir.read_json(folder).take()
        [{'id': 0}, {'id': 1}]
        """
        from weir import _write

        _write.write(self, "json", locals())  # type: ignore[arg-type]
