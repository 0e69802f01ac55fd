"""Which files a read takes, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from weir._mistakes import WrongArgument
from weir.datasource.examples import NAMES as EXAMPLES
from weir.datasource.examples import example_file
from weir.datasource.partitioning import PathPartitionFilter


@dataclass(unsafe_hash=True)
class FileShuffleConfig:
    """Reads files in random order: a new one each time, or always the one of `seed`.

    Args:
        seed: None: nothing is repeatable.
        reseed_after_execution: each run of a Dataset has another order, the n-th run of it the same in each program.

    >>> import weir
    >>> weir.FileShuffleConfig(seed=7)
    FileShuffleConfig(seed=7, reseed_after_execution=True)
    """

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError(f"Seed must be an integer or None, not {self.seed!r}")

    def get_seed(self, execution_idx: int = 0) -> int | None:
        """The seed of the run with this number, counted from 0; None without a seed.

        >>> always = FileShuffleConfig(seed=7, reseed_after_execution=False)
        >>> always.get_seed(0), always.get_seed(1)
        (7, 7)
        >>> FileShuffleConfig(seed=7).get_seed(0) == FileShuffleConfig(seed=7).get_seed(1)
        False
        """
        if self.seed is None or not self.reseed_after_execution:
            return self.seed
        return hash((self.seed, execution_idx))


class Listing(NamedTuple):
    """What a read takes out of its paths, decided each time it runs.

    >>> Listing(("in",), ("csv",), False, None, None, False, ()).extensions
    ('csv',)
    """

    paths: tuple[str, ...]
    extensions: tuple[str, ...] | None
    all_by_extension: bool  # of files that are named in the list too, not only of those in folders
    partition_filter: PathPartitionFilter | None
    shuffle: FileShuffleConfig | None
    ignore_missing: bool
    skip: tuple[str, ...]


def plain_path(path: Any) -> str:
    """A path of this machine as text; what only other systems have is refused.

    >>> import pathlib
    >>> plain_path(pathlib.Path("in") / "a.csv"), plain_path("file:///in/a.csv")
    ('in/a.csv', '/in/a.csv')
    """
    if not isinstance(path, (str, os.PathLike)):
        raise WrongArgument(f"a path must be str or pathlib.Path, not {path!r} of {type(path)}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise WrongArgument(f"a path must be text, not {type(text).__name__}")
    if text.startswith(("local://", "file://")):
        return text.split("://", 1)[1]
    scheme, colon, rest = text.partition("://")
    if scheme == "example" and colon:
        found = example_file(rest)
        if found is None:
            raise FileNotFoundError(
                f"{text!r}: example:// are files that came with Ray's package (ray/data/examples/data); of these weir has "
                f"{', '.join(EXAMPLES)}: give the path of {'your own ' + os.path.basename(rest) if rest else 'a file of your own'}"
            )
        return found
    if colon and scheme.isalnum():
        raise ValueError(f"{text!r}: files are read and written on this machine. filesystem=… (of pyarrow.fs or fsspec) opens {scheme}://; or copy "
                         "the files, or mount the store")
    return text


def local_paths(filesystem: Any, paths: Any, ignore_missing: bool = False) -> Any:
    """The paths as this machine's, for a file system that is this machine's: pyarrow's or fsspec's own, one of fsspec in pyarrow's
    clothes, or a folder of these. Of files of others copies are made.

    >>> from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
    >>> local_paths(SubTreeFileSystem("/tmp/a", LocalFileSystem()), ["b.csv"])
    ['/tmp/a/b.csv']
    """
    folder = _local_folder(filesystem)
    if folder is None:
        from weir.datasource.other_systems import fetched

        return fetched(filesystem, paths, ignore_missing)
    if not folder or not isinstance(paths, (str, os.PathLike, list, tuple)):
        return paths
    if isinstance(paths, (list, tuple)):
        return [os.path.join(folder, os.fspath(path).lstrip("/")) for path in paths]
    return os.path.join(folder, os.fspath(paths).lstrip("/"))


def is_local(filesystem: Any) -> bool:
    """Whether files of a file system are this machine's."""
    return _local_folder(filesystem) is not None


def _local_folder(filesystem: Any) -> str | None:
    """The folder that paths of a file system lie below; "" for any; None where it is not this machine's."""
    kind = type(filesystem).__name__
    if filesystem is None or kind == "LocalFileSystem":
        return ""
    if kind == "SubTreeFileSystem":
        outer = _local_folder(filesystem.base_fs)
        return None if outer is None else os.path.join(outer, filesystem.base_path.lstrip("/") if outer else filesystem.base_path)
    if kind == "DirFileSystem":
        outer = _local_folder(filesystem.fs)
        return None if outer is None else os.path.join(outer, filesystem.path.lstrip("/") if outer else filesystem.path)
    if kind == "PyFileSystem":
        inner = getattr(filesystem.handler, "fs", None)
        return None if inner is None else _local_folder(inner)
    return None


def check_paths(paths: Any, ignore_missing: bool, skip: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The paths as a tuple of absolute ones, without those to be skipped; FileNotFoundError for one that is not there, unless
    `ignore_missing`.

    >>> check_paths(["/", "/no/such/file"], ignore_missing=True)
    ('/', '/no/such/file')
    """
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
        if not text:
            raise FileNotFoundError("an empty text is no path: '.' is the folder in which the program runs")
        full = os.path.abspath(text) + ("/" if text.endswith("/") and text.strip("/") else "")
        if full in skip:
            continue
        if not os.path.exists(full):
            if _is_pattern(full):
                full = _pattern_checked(text, full, ignore_missing)
            elif not ignore_missing:
                raise FileNotFoundError(not_there(text, full))
        out.append(full)
    return tuple(out)


def not_there(text: str, full: str) -> str:
    """What is known about a path that is not there: how far it goes, and what lies there."""
    if os.path.islink(full.rstrip("/")):
        return f"{text}: this link leads to {os.readlink(full.rstrip('/'))}, and there is no such file or folder"
    folder = os.path.dirname(full.rstrip("/"))
    while not os.path.isdir(folder) and folder not in ("", "/"):
        folder = os.path.dirname(folder)
    from weir._errors import listed, nearest

    missing = os.path.relpath(full.rstrip("/"), folder).split("/")[0]
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
        holds = f" and holds {listed(names, 5)}{nearest(missing, names)}" if names else ""
    except OSError as error:
        holds = f" and cannot be looked into: {error.strerror}"
    what = "no file matches this pattern" if _is_pattern(full) else "there is no such file or folder"
    return f"{text}: {what}; {folder} is there{holds}"


def _is_pattern(path: str) -> bool:
    return any(c in path for c in "*?[")


def _pattern_checked(text: str, path: str, ignore_missing: bool) -> str:
    from glob import iglob

    if not ignore_missing and next(iglob(path, recursive=True), None) is None:
        raise FileNotFoundError(not_there(text, path))
    return path


def list_files(listing: Listing, execution: int = 0) -> list[str]:
    """The files of a read, in the order of their paths (or shuffled), by Ray's rules: folders are entered, names that begin
    with "." or "_" are not. `execution`: which run this is, for a shuffle that has a seed.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("b.csv", "a.csv", "_c.csv"): open(f"{folder}/{name}", "w").close()
    >>> [path.removeprefix(folder) for path in list_files(Listing((folder,), None, False, None, None, False, ()))]
    ['/a.csv', '/b.csv']
    """
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
        files = [f for f in files if not any(f == s or f.startswith(s.rstrip("/") + "/") for s in listing.skip)]
    if listing.partition_filter is not None:
        files = listing.partition_filter(files)
    if listing.shuffle is not None:
        from random import Random

        Random(listing.shuffle.get_seed(execution)).shuffle(files)
    if not files:
        raise ValueError(_none_found(listing))
    return files


def _none_found(listing: Listing) -> str:
    text = f"No files found under {list(listing.paths)}. Note that listing skips names starting with '_' or '.'"
    if listing.extensions is not None:
        text += f". No input files found to read with the following file extensions: {list(listing.extensions)} (`file_extensions`)"
    if listing.partition_filter is not None:
        text += ". No input files found to read after 'partition_filter'"
    return text + "."


def check_some(listing: Listing) -> None:
    """ValueError if there is nothing to read now. Looks no further than the first file of a folder; a partition_filter has its
    say when the read runs."""
    wanted = _by_extension(listing.extensions)
    for path in listing.paths:
        if not os.path.isdir(path) or any(map(wanted, _files_of(path))):
            return
    if not listing.ignore_missing:
        raise ValueError(_none_found(listing))


def _by_extension(extensions: tuple[str, ...] | None) -> Callable[[str], bool]:
    if extensions is None:
        return lambda path: True
    endings = tuple("." + e.lower().lstrip(".") for e in extensions)
    return lambda path: path.lower().endswith(endings)


def _walk(folder: str) -> list[str]:
    return sorted(_files_of(folder))


def _files_of(folder: str) -> Iterator[str]:
    """The files in a folder and those in it, as they come."""
    folders = [folder.rstrip("/") or "/"]
    while folders:
        current = folders.pop()
        with os.scandir(current) as entries:
            for entry in entries:
                hidden = entry.name.startswith((".", "_"))
                if entry.is_dir():
                    if not hidden or "=" in entry.name:
                        folders.append(entry.path)
                elif not hidden and entry.is_file():
                    yield entry.path
