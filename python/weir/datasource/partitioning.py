"""What folders say about their files: partitions, and filters over them."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any


class PartitionStyle(str, enum.Enum):
    """How folders say what their files belong to.

    >>> PartitionStyle("hive"), PartitionStyle.DIRECTORY.value
    (<PartitionStyle.HIVE: 'hive'>, 'dir')
    """

    HIVE = "hive"
    DIRECTORY = "dir"


class Partitioning:
    """How partitions are read off paths: `hive` ("year=2024/") or `dir` ("2024/", named by `field_names`).

    Args:
        style: "hive" or "dir".
        base_dir: the folder under which partitions begin; files elsewhere have none.
        field_names: the partitions' names, in the order of the folders.
        field_types: int, float, bool or str for some of them; str is what they are otherwise.
        filesystem: a pyarrow or fsspec file system of this machine.

    >>> import weir
    >>> weir.Partitioning("dir", base_dir="in", field_names=["year", "month"])
    Partitioning(style='dir', base_dir='in', field_names=['year', 'month'], field_types={}, filesystem=None)
    """

    def __init__(
        self,
        style: PartitionStyle | str,
        base_dir: str | None = None,
        field_names: list[str] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: Any = None,
    ) -> None:
        from weir.datasource.listing import is_local, local_paths

        if base_dir or is_local(filesystem):
            base_dir = local_paths(filesystem, base_dir, True)
        self.style = PartitionStyle(style)
        self.base_dir = base_dir or ""
        self.field_names = list(field_names) if field_names is not None else None
        self.field_types = dict(field_types or {})

    @property
    def filesystem(self) -> None:
        """None: paths are of this machine.

        >>> print(Partitioning("hive").filesystem)
        None
        """
        return None

    @property
    def normalized_base_dir(self) -> str:
        """The folder under which partitions begin, with a slash at its end; empty where none was given.

        >>> Partitioning("hive", base_dir="file:///data/in").normalized_base_dir
        '/data/in/'
        """
        text = self.base_dir
        for scheme in ("local://", "file://"):
            text = text.removeprefix(scheme)
        return text if not text or text.endswith("/") else text + "/"

    @property
    def resolved_filesystem(self) -> Any:
        """pyarrow's, of this machine.

        >>> Partitioning("hive").resolved_filesystem.type_name
        'local'
        """
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem()

    def to_pyarrow(self) -> Any:
        """The same as pyarrow.dataset has it.

        >>> made = Partitioning("hive", field_names=["year"], field_types={"year": int}).to_pyarrow()
        >>> type(made).__name__, str(made.schema)
        ('HivePartitioning', 'year: int64')
        """
        import pyarrow as pa
        import pyarrow.dataset

        kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        schema = pa.schema([(name, kinds.get(self.field_types.get(name, str), pa.string())) for name in self.field_names or []])
        is_hive = self.style is PartitionStyle.HIVE
        return (pa.dataset.HivePartitioning if is_hive else pa.dataset.DirectoryPartitioning)(schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partitioning) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.style, self.base_dir))

    def __repr__(self) -> str:
        return (
            f"Partitioning(style={self.style.value!r}, base_dir={self.base_dir!r}, field_names={self.field_names!r}, "
            f"field_types={self.field_types!r}, filesystem=None)"
        )


class PathPartitionParser:
    """Reads the partitions off a path.

    >>> PathPartitionParser.of("hive")("in/year=2024/a.csv")
    {'year': '2024'}
    """

    def __init__(self, partitioning: Partitioning) -> None:
        if partitioning.style is PartitionStyle.DIRECTORY and not partitioning.field_names:
            raise ValueError("Directory partitioning needs field_names, since folders do not name their fields")
        self._partitioning = partitioning

    @staticmethod
    def of(
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionParser:
        """A parser for this style; the arguments are Partitioning's.

        >>> PathPartitionParser.of("dir", base_dir="in", field_names=["year"], field_types={"year": int})("in/2024/a.csv")
        {'year': 2024}
        """
        return PathPartitionParser(Partitioning(style, base_dir, field_names, field_types, filesystem))

    @property
    def scheme(self) -> Partitioning:
        """What it was made of.

        >>> PathPartitionParser.of("hive").scheme.style.value
        'hive'
        """
        return self._partitioning

    def __call__(self, path: str) -> dict[str, Any]:
        scheme = self._partitioning
        below = _below(path, scheme.base_dir)
        if below is None:
            return {}
        parts = [p for p in os.path.dirname(below).split("/") if p]
        values: dict[str, Any] = self._hive(path, parts) if scheme.style is PartitionStyle.HIVE else self._folders(path, parts)
        for name, kind in scheme.field_types.items():
            if name in values:
                values[name] = _cast(values[name], kind)
        return values

    def evaluate_predicate_on_partition(self, path: str, predicate: Any) -> bool:
        """Whether the file may hold rows for which an expression of the partitions is true. One without partitions does not; one
        for which the expression cannot be computed may.

        >>> import weir
        >>> parser = PathPartitionParser.of("hive", field_types={"year": int})
        >>> parser.evaluate_predicate_on_partition("in/year=2023/a.csv", weir.col("year") > 2023)
        False
        """
        values = self(path)
        if not values:
            return False
        import pyarrow as pa

        from weir._expr_python import column_of

        try:
            return bool(column_of(predicate, pa.table({name: [value] for name, value in values.items()}))[0].as_py())
        except (KeyError, ValueError, TypeError, NotImplementedError):  # pyarrow's own errors are among these
            return True

    def _hive(self, path: str, parts: list[str]) -> dict[str, Any]:
        from urllib.parse import unquote

        names = self._partitioning.field_names
        values = {unquote(key): unquote(value) for key, _, value in (p.partition("=") for p in parts if p.count("=") == 1)}
        if names and values and list(values) != names:
            raise ValueError(f"{path!r} has the partitions {list(values)}, not {names}")
        return dict(values)

    def _folders(self, path: str, parts: list[str]) -> dict[str, Any]:
        names = self._partitioning.field_names or []
        if parts and len(parts) != len(names):
            raise ValueError(
                f"{path!r} lies in {len(parts)} folders below {self._partitioning.base_dir!r}; {names} names {len(names)}"
            )
        return {name: value for name, value in zip(names, parts) if name is not None}


def _cast(value: str, kind: type) -> Any:
    if kind is bool:
        return value.lower() == "true"
    return kind(value) if kind in (int, float) else value


def _below(path: str, base: str) -> str | None:
    """The path without the folder that partitions begin under; None: it lies elsewhere."""
    if not base:
        return path
    from weir.datasource.listing import plain_path

    full, folder = os.path.abspath(path) + ("/" if path.endswith("/") else ""), os.path.abspath(plain_path(base)).rstrip("/") + "/"
    return full[len(folder) :] if full.startswith(folder) else None


class PathPartitionFilter:
    """Keeps the files whose partitions a function likes.

    Args:
        path_partition_parser: how partitions are read off a path.
        filter_fn: given a dict of a file's partitions, says whether it is read; a file without partitions is an empty dict.

    >>> import weir
    >>> only = weir.PathPartitionFilter.of(lambda values: values["year"] == "2024")
    >>> only(["in/year=2023/a.csv", "in/year=2024/b.csv"])
    ['in/year=2024/b.csv']
    """

    def __init__(self, path_partition_parser: PathPartitionParser, filter_fn: Callable[[dict[str, str]], bool]) -> None:
        self._parser = path_partition_parser
        self._filter_fn = filter_fn

    @staticmethod
    def of(
        filter_fn: Callable[[dict[str, str]], bool],
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionFilter:
        """A filter over partitions of this style; the arguments behind the function are Partitioning's.

        >>> only = PathPartitionFilter.of(lambda values: values["year"] > 2023, field_types={"year": int})
        >>> only(["in/year=2023/a.csv", "in/year=2024/b.csv"])
        ['in/year=2024/b.csv']
        """
        return PathPartitionFilter(PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem), filter_fn)

    @property
    def parser(self) -> PathPartitionParser:
        """How it reads partitions.

        >>> PathPartitionFilter.of(bool).parser("in/year=2024/b.csv")
        {'year': '2024'}
        """
        return self._parser

    def apply(self, path: str) -> bool:
        """Whether this file is kept.

        >>> PathPartitionFilter.of(lambda values: "year" in values).apply("in/b.csv")
        False
        """
        return bool(self._filter_fn(self._parser(path)))

    def __call__(self, paths: list[str]) -> list[str]:
        return [path for path in paths if self.apply(path)] if self._filter_fn is not None else paths
