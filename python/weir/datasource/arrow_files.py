"""Files that pyarrow or Python read in workers, where the engine's own reader has no word for an option.

>>> import os, tempfile, weir
>>> from pyarrow import csv
>>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
>>> _ = open(path, "w").write("done\\nyes\\nno\\n")
>>> weir.read_csv(path, convert_options=csv.ConvertOptions(true_values=["yes"], false_values=["no"])).take_all()
[{'done': True}, {'done': False}]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from weir.datasource.file_based_datasource import FileBasedDatasource


class CSVDatasource(FileBasedDatasource):
    """Rows of CSV files; `arrow_csv_args`: read_options, parse_options and convert_options of pyarrow.csv."""

    _FILE_EXTENSIONS = ["csv", "csv.gz", "csv.br", "csv.zst", "csv.lz4"]

    def __init__(self, paths: str | list[str], arrow_csv_args: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(paths, **kwargs)
        self.arrow_csv_args = {name: value for name, value in (arrow_csv_args or {}).items() if name != "memory_pool"}

    def get_name(self) -> str:
        return "CSV"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv

        try:
            with csv.open_csv(f, **self.arrow_csv_args) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"Failed to read CSV file: {path}. Check that it is one, and its parse_options; file_extensions=['csv'] passes over "
                f"others. {error}"
            ) from error


class HashedParquetDatasource(FileBasedDatasource):
    """Rows of Parquet files with a column `row_hash`, a number made of the file's path and the row's place in it."""

    _FILE_EXTENSIONS = ["parquet"]

    def __init__(self, paths: str | list[str], columns: list[str] | None = None, skip: tuple[str, ...] = (), **kwargs: Any) -> None:
        listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        wanted = [path for path in listed if os.path.abspath(path) not in skip]
        super().__init__(wanted or listed, **kwargs)
        self.columns = columns
        kept = [(path, size) for path, size in zip(self._files, self._sizes) if os.path.abspath(path) not in skip]
        if not kept:
            raise ValueError(f"No files found under {paths}: skip_paths leaves none of them.")
        self._files, self._sizes = [path for path, _ in kept], [size for _, size in kept]

    def get_name(self) -> str:
        return "Parquet"

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        import pyarrow as pa

        return pa.OSFile(path) if filesystem is None else filesystem.open_input_file(path)  # it is not read from its beginning

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import parquet

        first = 0
        with parquet.ParquetFile(f) as file:
            there = file.schema_arrow.names
            columns = None if self.columns is None else [name for name in self.columns if name in there and name != "row_hash"]
            for batch in file.iter_batches(columns=columns):
                table = pa.Table.from_batches([batch])
                if "row_hash" in table.column_names:
                    table = table.drop_columns(["row_hash"])
                yield table.append_column("row_hash", pa.array(row_hashes(path, first, batch.num_rows)))
                first += batch.num_rows

    def _read_file(self, path: str) -> Iterator[Any]:
        for table in super()._read_file(path):
            yield table.select([*(name for name in table.column_names if name != "row_hash"), "row_hash"])


def row_hashes(path: str, first: int, count: int) -> Any:
    """The hashes of rows `first` and on: Ray Data's, so that rows can be found again by them. The path's MD5 plus the row's number, mixed as
    splitmix64 does.

    >>> row_hashes("a", 0, 1).dtype
    dtype('uint64')
    """
    import hashlib

    import numpy as np

    seed = int.from_bytes(hashlib.md5(path.encode()).digest()[:8], "little")
    mixed = np.arange(first, first + count, dtype=np.uint64) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


class JSONLinesDatasource(FileBasedDatasource):
    """JSON a line each, as Python reads it, for lines of which the engine makes no columns: arrays, whose columns are "0", "1" and so on, null
    where a row is shorter than the longest of its file; and objects whose values of one name have no type in common, which stay as they
    are: a message that is a text here and a list there."""

    PEEK_BYTES = 1 << 20  # of the first file, looked at before anything is read
    BLOCK_BYTES = 8 << 20  # of lines in a block

    @classmethod
    def is_one(cls, path: str) -> bool:
        """Whether a file, or the first one of a folder, begins with an array, or with objects that do not go together."""
        while os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
            if not names:
                return False
            path = os.path.join(path, names[0])
        if not os.path.isfile(path):
            return False
        if path.endswith(".gz"):
            import gzip

            with gzip.open(path) as packed:
                return _are_odd(packed.read(cls.PEEK_BYTES), cls.PEEK_BYTES)
        with open(path, "rb") as file:
            return _are_odd(file.read(cls.PEEK_BYTES), cls.PEEK_BYTES)

    def get_name(self) -> str:
        return "JSON"

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        if not open_args and self.resolve_compression(path, open_args) is None:
            return open(path, "rb")  # pyarrow is not needed for it
        return super()._open_input_source(filesystem, path, **open_args)

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import io
        import json

        lines = f if isinstance(f, io.BufferedReader) else io.BufferedReader(f)  # pyarrow's have no lines
        rows: list[Any] = []
        bytes_held = 0
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: this is no JSON: {error}") from error
            if not isinstance(row, (list, dict)) or (rows and type(row) is not type(rows[0])):
                wanted = "an array is expected, as in the lines before" if rows and isinstance(rows[0], list) else "an object is expected"
                raise ValueError(f"{path}, line {number}: {line[:40]!r} stands where {wanted}")
            rows.append(row)
            bytes_held += len(line)
            if bytes_held >= self.BLOCK_BYTES and isinstance(row, dict):
                yield _columns(rows)
                rows, bytes_held = rows[:0], 0
        if rows:
            yield _columns(rows)


def _columns(rows: list[Any]) -> Any:
    """A block of rows that are all arrays, or all objects."""
    from weir._weir import batch_from_columns

    if isinstance(rows[0], list):
        width = max(map(len, rows), default=0)
        return batch_from_columns({str(at): [row[at] if at < len(row) else None for row in rows] for at in range(width)})
    return batch_from_columns({name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)})


def _are_odd(text: bytes, most: int) -> bool:
    """Whether lines are arrays, or objects whose values of one name are of several kinds. `most`: where a longer text was cut.

    >>> _are_odd(b'[1]', 9), _are_odd(b'{"a": 1}', 99), _are_odd(b'{"a": [1]}\\n{"a": "x"}', 99)
    (True, False, True)
    """
    import json

    if text.lstrip()[:1] == b"[":
        return True
    lines = text.split(b"\n")
    seen: dict[tuple[str, ...], type] = {}
    for line in lines[:-1] if len(text) == most else lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            return False  # the engine says what is wrong, and where
        if isinstance(row, dict) and _clash(row, (), seen):
            return True
    return False


def _clash(value: Any, at: tuple[str, ...], seen: dict[tuple[str, ...], type]) -> bool:
    """Whether a value is of another kind than one before it in the same place; integers and other numbers are one kind."""
    if value is None:
        return False
    kind = float if type(value) is int else type(value)
    if seen.setdefault(at, kind) is not kind:
        return True
    if kind is dict:
        return any(_clash(inner, (*at, name), seen) for name, inner in value.items())
    return kind is list and any(_clash(inner, (*at, ""), seen) for inner in value)


class TextDatasource(FileBasedDatasource):
    """Lines of text in any encoding that Python has, in a column `text`."""

    def __init__(
        self, paths: str | list[str], *, drop_empty_lines: bool = False, encoding: str = "utf-8", **kwargs: Any
    ) -> None:
        super().__init__(paths, **kwargs)
        self.drop_empty_lines = drop_empty_lines
        self.encoding = encoding

    def get_name(self) -> str:
        return "Text"

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        if not open_args and self.resolve_compression(path, open_args) is None:
            return open(path, "rb")  # pyarrow is not needed for it
        return super()._open_input_source(filesystem, path, **open_args)

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        from weir._weir import batch_from_columns

        lines = f.read().decode(self.encoding).split("\n")
        if lines[-1] == "":
            lines.pop()
        lines = [line.removesuffix("\r") for line in lines]
        if self.drop_empty_lines:
            lines = [line for line in lines if line.strip()]
        if lines:
            yield batch_from_columns({"text": lines})
