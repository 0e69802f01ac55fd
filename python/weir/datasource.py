"""Which files a read takes, and what their folders say: partitions, filters, the order of files."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any, NamedTuple


class PartitionStyle(str, enum.Enum):
    """How folders say what their files belong to."""

    HIVE = "hive"
    DIRECTORY = "dir"


class Partitioning:
    """How partitions are read off paths: `hive` ("year=2024/") or `dir` ("2024/", named by `field_names`).

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
        if filesystem is not None:
            raise ValueError("Partitioning(filesystem=…) is not supported: files are read from this machine")
        self.style = PartitionStyle(style)
        self.base_dir = base_dir or ""
        self.field_names = list(field_names) if field_names is not None else None
        self.field_types = dict(field_types or {})
        if self.style is PartitionStyle.DIRECTORY and not self.field_names:
            raise ValueError("Directory partitioning needs field_names, since folders do not name their fields")

    @property
    def filesystem(self) -> None:
        """Files are on this machine."""
        return None

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
        self._partitioning = partitioning

    @staticmethod
    def of(
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionParser:
        """A parser for this style."""
        return PathPartitionParser(Partitioning(style, base_dir, field_names, field_types, filesystem))

    @property
    def scheme(self) -> Partitioning:
        """What it was made of."""
        return self._partitioning

    def __call__(self, path: str) -> dict[str, str]:
        scheme = self._partitioning
        folder = os.path.dirname(_below(path, scheme.base_dir))
        parts = [p for p in folder.split("/") if p]
        if scheme.style is PartitionStyle.HIVE:
            from urllib.parse import unquote

            pairs = [p.split("=", 1) for p in parts if "=" in p]
            values = {unquote(key): unquote(value) for key, value in pairs}
            if scheme.field_names is not None and values and list(values) != scheme.field_names:
                raise ValueError(f"{path!r} has the partitions {list(values)}, not {scheme.field_names}")
            return values
        names = scheme.field_names or []
        if not parts:
            return {}
        if len(parts) != len(names):
            raise ValueError(f"{path!r} lies in {len(parts)} folders below {scheme.base_dir!r}; {names} names {len(names)}")
        return {name: value for name, value in zip(names, parts) if name is not None}


def _below(path: str, base: str) -> str:
    """The path without the folder that partitions begin under."""
    if not base:
        return path
    full, folder = os.path.abspath(path), os.path.abspath(base).rstrip("/") + "/"
    return full[len(folder) :] if full.startswith(folder) else path


class PathPartitionFilter:
    """Keeps the files whose partitions a function likes.

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
        """A filter over partitions of this style."""
        return PathPartitionFilter(PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem), filter_fn)

    @property
    def parser(self) -> PathPartitionParser:
        """How it reads partitions."""
        return self._parser

    def apply(self, path: str) -> bool:
        """Whether this file is kept."""
        values = self._parser(path)
        types = self._parser.scheme.field_types
        typed = {name: types[name](value) if name in types else value for name, value in values.items()}
        return bool(self._filter_fn(typed))

    def __call__(self, paths: list[str]) -> list[str]:
        return [path for path in paths if self.apply(path)]


class FileShuffleConfig:
    """Reads files in random order: a new one each time, or always the one of `seed`.

    >>> import weir
    >>> weir.FileShuffleConfig(seed=7)
    FileShuffleConfig(seed=7, reseed_after_execution=True)
    """

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(f"Seed must be an integer or None, not {seed!r}")
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution

    def get_seed(self, execution_index: int = 0) -> int | None:
        """The seed of the run with this number."""
        if self.seed is None or not self.reseed_after_execution:
            return self.seed
        return hash((self.seed, execution_index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileShuffleConfig) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.seed, self.reseed_after_execution))

    def __repr__(self) -> str:
        return f"FileShuffleConfig(seed={self.seed}, reseed_after_execution={self.reseed_after_execution})"


class Listing(NamedTuple):
    """What a read takes out of its paths, decided each time it runs."""

    paths: tuple[str, ...]
    extensions: tuple[str, ...] | None
    all_by_extension: bool  # of files that are named in the list too, not only of those in folders
    partition_filter: PathPartitionFilter | None
    shuffle: FileShuffleConfig | None
    ignore_missing: bool
    skip: tuple[str, ...]


def plain_path(path: Any) -> str:
    """A path of this machine as text; what only other systems have is refused."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise ValueError(f"paths must be text, not {type(text).__name__}")
    if text.startswith(("local://", "file://")):
        return text.split("://", 1)[1]
    scheme, colon, _ = text.partition("://")
    if colon and scheme.isalnum():
        raise ValueError(f"{text!r}: files are read from this machine only; there is no reader for {scheme}://")
    return text


def check_paths(paths: Any, ignore_missing: bool) -> tuple[str, ...]:
    """The paths as a tuple of absolute ones; FileNotFoundError for one that is not there."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if not isinstance(paths, (list, tuple)):
        raise ValueError(f"paths must be str, pathlib.Path, or list, got {type(paths)}")
    if not paths:
        raise ValueError("Must provide at least one path.")
    out = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise ValueError(f"paths must be str, pathlib.Path, or list of these, got {type(path)} in the list")
        text = plain_path(path)
        full = os.path.abspath(text) + ("/" if text.endswith("/") and text.strip("/") else "")
        if not os.path.exists(full):
            if _is_pattern(full):
                full = _pattern_checked(full, ignore_missing)
            elif not ignore_missing:
                raise FileNotFoundError(text)
        out.append(full)
    return tuple(out)


def _is_pattern(path: str) -> bool:
    return any(c in path for c in "*?[")


def _pattern_checked(path: str, ignore_missing: bool) -> str:
    from glob import iglob

    if not ignore_missing and next(iglob(path, recursive=True), None) is None:
        raise FileNotFoundError(path)
    return path


def list_files(listing: Listing, execution: int = 0) -> list[str]:
    """The files of a read, in the order of their paths (or shuffled), by Ray's rules: folders are entered, names that begin
    with "." or "_" are not."""
    files: list[str] = []
    wanted = _by_extension(listing.extensions)
    named = wanted if listing.all_by_extension else _by_extension(None)
    for path in listing.paths:
        if os.path.isdir(path):
            files.extend(filter(wanted, _walk(path)))
        elif os.path.exists(path):
            files.extend(filter(named, [path]))
        elif _is_pattern(path):
            from glob import glob

            for match in sorted(glob(path, recursive=True)):
                files.extend(filter(wanted, _walk(match)) if os.path.isdir(match) else filter(named, [match]))
        elif not listing.ignore_missing:
            raise FileNotFoundError(path)
    if listing.skip:
        skip = tuple(os.path.abspath(s) for s in listing.skip)
        files = [f for f in files if not any(f == s or f.startswith(s.rstrip("/") + "/") for s in skip)]
    if listing.partition_filter is not None:
        files = listing.partition_filter(files)
    if listing.shuffle is not None:
        from random import Random

        Random(listing.shuffle.get_seed(execution)).shuffle(files)
    if not files:
        raise ValueError(
            f"No files found under {list(listing.paths)}. Note that listing skips names starting with '_' or '.'"
            + (", and what `file_extensions` and `partition_filter` leave out." if listing.extensions or listing.partition_filter else ".")
        )
    return files


def _by_extension(extensions: tuple[str, ...] | None) -> Callable[[str], bool]:
    if extensions is None:
        return lambda path: True
    endings = tuple("." + e.lower().lstrip(".") for e in extensions)
    return lambda path: path.lower().endswith(endings)


def _walk(folder: str) -> list[str]:
    found: list[str] = []
    folders = [folder.rstrip("/") or "/"]
    while folders:
        current = folders.pop()
        with os.scandir(current) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                hidden = entry.name.startswith((".", "_"))
                if entry.is_dir():
                    if not hidden or "=" in entry.name:
                        folders.append(entry.path)
                elif not hidden and entry.is_file():
                    found.append(entry.path)
    found.sort()
    return found
