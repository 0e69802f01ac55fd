"""Sources of one's own whose data lies in files: a subclass says how one file is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir._errors import listed
from weir.datasource._retry import iterate_with_retry
from weir.datasource.datasource import Datasource, ReadTask
from weir.datasource.file_meta_provider import BaseFileMetadataProvider, DefaultFileMetadataProvider
from weir.datasource.listing import FileShuffleConfig, check_paths, is_local, local_paths
from weir.datasource.other_systems import shown
from weir.datasource.partitioning import Partitioning, PathPartitionFilter, PathPartitionParser

if TYPE_CHECKING:
    from weir.block import Block
    from weir.context import DataContext

__all__ = ["FileBasedDatasource", "FileShuffleConfig"]


class FileBasedDatasource(Datasource):
    """Reads files; a subclass has _read_stream, a generator of blocks.

    Args:
        paths, partitioning, partition_filter, file_extensions, ignore_missing_paths, include_paths, shuffle, filesystem: as for read_csv(), but
            for partitioning, which is none unless it is given.
        open_stream_args: of pyarrow's open_input_stream; `compression` is known by a file's ending.
        meta_provider: finds files and their sizes.
        schema: kept for the subclass.

    >>> import os, tempfile, pyarrow as pa, weir
    >>> class Words(FileBasedDatasource):
    ...     _FILE_EXTENSIONS = ["words"]
    ...     def _read_stream(self, f, path):
    ...         yield pa.table({"word": f.readall().decode().split()})
    >>> folder = tempfile.mkdtemp()
    >>> _ = open(os.path.join(folder, "a.words"), "w").write("one two")
    >>> weir.read_datasource(Words(folder, file_extensions=Words._FILE_EXTENSIONS)).take_all()
    [{'word': 'one'}, {'word': 'two'}]
    """

    _WRITE_FILE_PER_ROW = False
    _FILE_EXTENSIONS: str | list[str] | None = None
    # So many files of a task are read at once, each in a thread; 0: one after another.
    _NUM_THREADS_PER_TASK = 0

    def __init__(
        self,
        paths: str | list[str],
        *,
        filesystem: Any = None,
        schema: Any = None,
        open_stream_args: dict[str, Any] | None = None,
        meta_provider: BaseFileMetadataProvider | None = None,
        partition_filter: PathPartitionFilter | None = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
        shuffle: Any = None,
        include_paths: bool = False,
        file_extensions: list[str] | None = None,
    ) -> None:
        from weir.context import DataContext

        super().__init__()
        paths = local_paths(filesystem, paths, ignore_missing_paths)
        if not (shuffle is None or shuffle == "files" or isinstance(shuffle, FileShuffleConfig)):
            raise ValueError(f"Invalid value for 'shuffle': {shuffle}. Valid values are None, 'files', `FileShuffleConfig`.")
        self._source_paths = paths
        self._schema = schema
        self._data_context = DataContext.get_current()
        self._open_stream_args = open_stream_args
        self._meta_provider = meta_provider if meta_provider is not None else DefaultFileMetadataProvider()
        self._partition_filter = partition_filter
        self._partitioning = partitioning
        self._ignore_missing_paths = ignore_missing_paths
        self._include_paths = include_paths
        self._shuffle = shuffle
        # The paths are this machine's by now; only pyarrow's own opens them as it was given.
        is_own = type(filesystem).__module__.startswith("pyarrow") and not hasattr(filesystem, "base_path") and is_local(filesystem)
        self._filesystem: Any = filesystem if is_own else None
        wanted = list(check_paths(paths, ignore_missing_paths))
        pairs = list(
            self._meta_provider.expand_paths(wanted, filesystem, partitioning, ignore_missing_paths=ignore_missing_paths)
        )
        if not pairs:
            raise ValueError(
                f"No files found under {wanted}. Note that listing skips names starting with '_' or '.'."
                + (" Paths that do not exist were also skipped because 'ignore_missing_paths' is set to True." if ignore_missing_paths else "")
            )
        sizes = dict(pairs)
        files = list(sizes)
        if partition_filter is not None:
            files = partition_filter(files)
            if not files:
                raise ValueError("No input files found to read. Please double check that 'partition_filter' field is set properly.")
        if file_extensions is not None:
            endings = tuple("." + e.lower().lstrip(".") for e in file_extensions)
            found, files = files, [path for path in files if path.lower().endswith(endings)]
            if not files:
                raise ValueError(
                    f"No input files found to read with the following file extensions: {file_extensions}, among {listed(found)}. "
                    "Please double check that 'file_extensions' field is set properly."
                )
        self._files = files
        self._sizes = [sizes[path] for path in files]

    def _paths(self) -> list[str]:
        return self._files

    def _file_sizes(self) -> list[Any]:
        return self._sizes

    def __getstate__(self) -> dict[str, Any]:
        # A task brings its own paths: the list of all of them stays here.
        return {**self.__dict__, "_files": [], "_sizes": [], "_source_paths": []}

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(size for size in self._sizes if size is not None)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir._plan import cut_sizes

        pairs = list(zip(self._paths(), self._file_sizes()))
        if self._shuffle is not None:
            from random import Random

            index = int(getattr(data_context, "_execution_idx", 0) or 0)
            seed = self._shuffle.get_seed(index) if isinstance(self._shuffle, FileShuffleConfig) else None
            Random(seed).shuffle(pairs)
        tasks = []
        at = 0
        for count in cut_sizes(len(pairs), max(1, min(parallelism, len(pairs)))):
            part, at = pairs[at : at + count], at + count
            paths = [path for path, _ in part]
            metadata = self._meta_provider(paths, rows_per_file=self._rows_per_file(), file_sizes=[size for _, size in part])
            tasks.append(ReadTask(_Files(self, paths), metadata, per_task_row_limit=per_task_row_limit))
        return tasks

    def _rows_per_file(self) -> int | None:
        """How many rows each file has, where that is known."""
        return None

    def _read_stream(self, f: Any, path: str) -> Iterator[Block]:
        """The blocks of one file."""
        raise NotImplementedError("Subclasses of FileBasedDatasource must implement _read_stream().")

    def resolve_compression(self, path: str, open_args: dict[str, Any]) -> str | None:
        """How a file is compressed: as open_stream_args say, else by its name; None: not at all.

        >>> import tempfile
        >>> _ = open((folder := tempfile.mkdtemp()) + "/a.txt.gz", "w")
        >>> source = FileBasedDatasource(folder)
        >>> source.resolve_compression("a.txt.gz", {}), source.resolve_compression("a.txt", {})
        ('gzip', None)
        """
        given = open_args.get("compression")
        if given is not None:
            return str(given)
        ending = os.path.splitext(path)[1]
        return {".gz": "gzip", ".bz2": "bz2", ".lz4": "lz4", ".zst": "zstd", ".br": "brotli", ".snappy": "snappy"}.get(ending)

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        """An open file, as pyarrow has them; decompressed."""
        from weir._formats import _need

        _need("pyarrow", type(self).__name__)
        from pyarrow.fs import LocalFileSystem

        compression = self.resolve_compression(path, open_args)
        if compression == "snappy":
            raise ValueError(f"{path}: files compressed with snappy are not read")
        open_args["compression"] = compression
        open_args.setdefault("buffer_size", self._data_context.streaming_read_buffer_size)
        return (filesystem or LocalFileSystem()).open_input_stream(path, **open_args)

    def _read_file(self, path: str) -> Iterator[Any]:
        from weir.block import BlockAccessor

        partitions = PathPartitionParser(self._partitioning)(path) if self._partitioning is not None else {}

        def blocks() -> Iterator[Any]:
            with self._open_input_source(self._filesystem, path, **dict(self._open_stream_args or {})) as file:
                yield from self._read_stream(file, path)

        for block in iterate_with_retry(blocks, self._data_context.retried_io_errors):
            for name, value in partitions.items():
                block = _with_partition(block, name, value)
            yield BlockAccessor.for_block(block).fill_column("path", shown(path)) if self._include_paths else block

    @property
    def supports_distributed_reads(self) -> bool:
        return not str(self._source_paths).startswith("local://")


class _Files:
    """The function of a read task: these files of a source."""

    def __init__(self, source: FileBasedDatasource, paths: list[str]) -> None:
        self.source = source
        self.paths = paths

    def __call__(self) -> Iterator[Any]:
        threads = min(self.source._NUM_THREADS_PER_TASK, len(self.paths))
        if threads <= 1:
            for path in self.paths:
                yield from self.source._read_file(path)
            return
        yield from _in_threads(self.source, self.paths, threads)


def _in_threads(source: FileBasedDatasource, paths: list[str], threads: int) -> Iterator[Any]:
    """The blocks of the files in order, several files being read at a time; a few blocks of each wait."""
    import queue
    import threading

    end = object()
    stop = threading.Event()
    lines: list[queue.Queue[Any]] = [queue.Queue(2) for _ in paths]
    turns = iter(range(len(paths)))
    lock = threading.Lock()

    def put(line: queue.Queue[Any], item: Any) -> bool:
        while not stop.is_set():
            try:
                line.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        while not stop.is_set():
            with lock:
                number = next(turns, None)
            if number is None:
                return
            try:
                for block in source._read_file(paths[number]):
                    if not put(lines[number], block):
                        return
                put(lines[number], end)
            except BaseException as error:
                put(lines[number], _Raised(error))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for line in lines:
            while (item := line.get()) is not end:
                if isinstance(item, _Raised):
                    raise item.error
                yield item
    finally:
        stop.set()
        for worker in workers:
            worker.join()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _with_partition(block: Any, name: str, value: Any) -> Any:
    """The block with a column for its folder; one that is there already must say the same."""
    from weir.block import BlockAccessor

    accessor = BlockAccessor.for_block(block)
    if name not in accessor.column_names():
        return accessor.fill_column(name, value)
    found = set(accessor.to_arrow().column(name).unique().to_pylist())
    held = found - {None}
    try:
        cast = type(next(iter(held), value))(value)
    except (ValueError, TypeError):
        cast = value
    if held and held != {cast}:
        raise ValueError(
            f"Partition column {name} exists in table data, but partition value '{value}' is different from in-data values: "
            f"{sorted(map(str, held))}."
        )
    if len(held) == len(found):
        return block
    table = accessor.to_arrow()
    return table.set_column(table.column_names.index(name), name, [[cast] * table.num_rows])
