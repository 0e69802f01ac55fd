"""Sinks that write files: a row each, or a block each.

A file is written under a hidden name and renamed when it is whole, so nobody sees half of one; a task that is tried again
replaces its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weir.datasource.datasink import WRITE_UUID, Datasink, TaskContext, WriteResult
from weir.datasource.filename_provider import FilenameProvider, row_filename, task_filename
from weir.datasource.listing import is_local, local_paths, plain_path
from weir.datasource.other_systems import Elsewhere

if TYPE_CHECKING:
    from weir.block import Block, BlockAccessor


class _FileDatasink(Datasink[Any]):
    """What both have in common."""

    def __init__(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str | None = None,
        mode: Any = "append",
    ) -> None:
        from weir.context import DataContext
        from weir.dataset import SaveMode

        # What belongs elsewhere is made here and sent at the end.
        self._elsewhere = None if is_local(filesystem) else Elsewhere(filesystem, path)
        if self._elsewhere is not None:
            from pyarrow.fs import LocalFileSystem

            filesystem, path = LocalFileSystem(), self._elsewhere.folder
        path = local_paths(filesystem, path)
        self._data_context = DataContext.get_current()
        self.unresolved_path = path
        self.path = os.path.abspath(plain_path(path))
        self.filesystem = filesystem
        self.try_create_dir = try_create_dir
        self.open_stream_args = open_stream_args or {}
        self.filename_provider = filename_provider or FilenameProvider(dataset_uuid, file_format)
        self.dataset_uuid = dataset_uuid
        self.file_format = file_format
        self.mode = SaveMode(mode)
        self.has_created_dir = False
        self._skip_write = False
        self._write_started = False

    def open_output_stream(self, path: str) -> Any:
        """The file to write to: pyarrow's where open_stream_args ask for what only it has, else Python's.

        >>> import os, tempfile
        >>> sink = RowBasedFileDatasink(tempfile.mkdtemp(), open_stream_args={"compression": "gzip"})
        >>> path = os.path.join(sink.path, "a.gz")
        >>> with sink.open_output_stream(path) as file: _ = file.write(b"text")
        >>> import gzip
        >>> gzip.open(path).read()
        b'text'
        """
        if self.open_stream_args:
            from pyarrow.fs import LocalFileSystem

            return LocalFileSystem().open_output_stream(path, **self.open_stream_args)
        return open(path, "wb")

    def on_write_start(self, schema: Any = None) -> None:
        from weir.dataset import SaveMode

        if self._write_started:
            return
        self._write_started = True
        if self._elsewhere is not None and not self._elsewhere.begins(self.mode, self.try_create_dir):
            self._skip_write = True
        elif self._elsewhere is not None:
            os.makedirs(self.path)
        elif os.path.exists(self.path):
            if self.mode in (SaveMode.ERROR, SaveMode.CREATE):
                raise ValueError(
                    f"Path {self.path} already exists. If this is unexpected, use mode='ignore' to ignore those files"
                )
            if self.mode is SaveMode.IGNORE:
                self._skip_write = True
                return
            if self.mode is SaveMode.OVERWRITE:
                for entry in os.scandir(self.path):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        os.unlink(entry.path)
        elif self.try_create_dir:
            os.makedirs(self.path)
            self.has_created_dir = True

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> Any:
        from weir.block import BlockAccessor, BlockBuilder

        made = BlockBuilder()
        for block in blocks:
            made.add_block(block)
        whole = BlockAccessor.for_block(made.build())
        if whole.num_rows():
            self.write_block(whole, 0, ctx)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        """Writes one block, of which a BlockAccessor is given: to one file, or to one for each row. `ctx` is the task.

        >>> import os, tempfile, pyarrow as pa
        >>> from weir.block import BlockAccessor
        >>> class Counts(BlockBasedFileDatasink):
        ...     def write_block_to_file(self, block, file):
        ...         file.write(str(block.num_rows()).encode())
        >>> sink = Counts(tempfile.mkdtemp(), file_format="txt")
        >>> sink.write_block(BlockAccessor.for_block(pa.table({"a": [1, 2]})), 0, TaskContext(0, kwargs={WRITE_UUID: "w"}))
        >>> os.listdir(sink.path)
        ['w_000000.txt']
        """
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        if self._elsewhere is not None:
            self._elsewhere.send(self.mode)
            self._elsewhere.close()
        if self.has_created_dir and write_result.num_rows == 0:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def supports_distributed_writes(self) -> bool:
        return not str(self.unresolved_path).startswith("local://")

    def _write_file(self, name: str, write: Any) -> None:
        """`write(file)` under a hidden name, which becomes the real one; tried again as retried_io_errors says."""
        from weir.datasource._retry import call_with_retry

        path = os.path.join(self.path, name)
        folder, base = os.path.split(path)
        hidden = os.path.join(folder, f".{base}.{os.getpid()}")

        def once() -> None:
            if folder != self.path:
                os.makedirs(folder, exist_ok=True)
            try:
                with self.open_output_stream(hidden) as file:
                    write(file)
                os.rename(hidden, path)
            except BaseException:
                if os.path.exists(hidden):
                    os.unlink(hidden)
                raise

        call_with_retry(once, self._data_context.retried_io_errors)


class RowBasedFileDatasink(_FileDatasink):
    """Writes each row to a file of its own. A subclass has write_row_to_file.

    >>> import os, tempfile, weir
    >>> class Texts(RowBasedFileDatasink):
    ...     def write_row_to_file(self, row, file):
    ...         file.write(str(row["id"]).encode())
    >>> folder = tempfile.mkdtemp()
    >>> weir.range(2).write_datasink(Texts(folder, file_format="txt"))
    >>> sorted(open(os.path.join(folder, name)).read() for name in os.listdir(folder))
    ['0', '1']
    """

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        """Writes a row, a dict, to a file that is open; it is closed afterwards. For each row there is a file of its own.

        >>> import io
        >>> class Texts(RowBasedFileDatasink):
        ...     def write_row_to_file(self, row, file):
        ...         file.write(str(row["id"]).encode())
        >>> file = io.BytesIO()
        >>> Texts("out").write_row_to_file({"id": 7}, file)
        >>> file.getvalue()
        b'7'
        """
        raise NotImplementedError

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        for number, row in enumerate(block.iter_rows(False)):
            name = row_filename(self.filename_provider, row, ctx.kwargs[WRITE_UUID], ctx.task_idx, number)
            self._write_file(name, lambda file, row=row: self.write_row_to_file(row, file))


class BlockBasedFileDatasink(_FileDatasink):
    """Writes each block to a file. A subclass has write_block_to_file.

    >>> import os, tempfile, weir
    >>> class Counts(BlockBasedFileDatasink):
    ...     def write_block_to_file(self, block, file):
    ...         file.write(str(block.num_rows()).encode())
    >>> folder = tempfile.mkdtemp()
    >>> weir.range(9).write_datasink(Counts(folder, min_rows_per_file=9))
    >>> [open(os.path.join(folder, name)).read() for name in os.listdir(folder)]
    ['9']
    """

    def __init__(self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any) -> None:
        super().__init__(path, **file_datasink_kwargs)
        self._min_rows_per_file = min_rows_per_file

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        """Writes a block, of which a BlockAccessor is given, to a file that is open; it is closed afterwards.

        >>> import io, pyarrow as pa
        >>> from weir.block import BlockAccessor
        >>> class Counts(BlockBasedFileDatasink):
        ...     def write_block_to_file(self, block, file):
        ...         file.write(str(block.num_rows()).encode())
        >>> file = io.BytesIO()
        >>> Counts("out").write_block_to_file(BlockAccessor.for_block(pa.table({"a": [1, 2]})), file)
        >>> file.getvalue()
        b'2'
        """
        raise NotImplementedError

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        name = task_filename(self.filename_provider, ctx.kwargs[WRITE_UUID], ctx.task_idx)
        self._write_file(name, lambda file: self.write_block_to_file(block, file))

    @property
    def min_rows_per_write(self) -> int | None:
        return self._min_rows_per_file
