"""Small functions of Ray's own modules that sources and sinks of other people call: what they promise, for files of this machine."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def check_import(obj: Any, *, module: str, package: str) -> None:
    """ImportError that names the package, where an object needs a module that cannot be imported.

    >>> check_import(object(), module="json", package="json")
    """
    try:
        import_module(module)
    except ImportError as error:
        raise ImportError(f"`{type(obj).__name__}` depends on {module!r}, which cannot be imported: pip install {package}") from error


def check_pyarrow_version() -> None:
    """ImportError where pyarrow is not there: any version will do."""
    import pyarrow  # noqa: F401


def get_pyarrow_version() -> Any:
    """The version of pyarrow as the package `packaging` has versions; None: there is no pyarrow.

    >>> get_pyarrow_version() is None or get_pyarrow_version().major >= 1
    True
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        text = version("pyarrow")
    except PackageNotFoundError:
        return None
    from packaging.version import Version

    return Version(text)


def is_local_scheme(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> bool:
    """Whether paths begin with local://; ValueError where some do and some do not.

    >>> is_local_scheme(["local:///a", "local:///b"]), is_local_scheme("/a")
    (True, False)
    """
    texts = [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
    count = sum(text.startswith("local://") for text in texts)
    if 0 < count < len(texts):
        raise ValueError(f"all paths must begin with local://, or none: {texts}")
    return count > 0


def truncated_repr(obj: Any) -> str:
    """The first 200 characters of str(obj).

    >>> truncated_repr([1])
    '[1]'
    """
    text = str(obj)
    return text if len(text) <= 200 else text[:200] + "..."


def call_with_retry(
    f: Callable[[], T], description: str, *, match: list[str] | None = None, max_attempts: int = 10, max_backoff_s: float = 32
) -> T:
    """What f() returns, after up to so many attempts: errors are tried again whose text has one of `match`; None: all.

    >>> call_with_retry(lambda: 1, "count")
    1
    """
    from weir.datasource import _retry

    return _retry.call_with_retry(f, [""] if match is None else match, max_attempts, max_backoff_s)


def iterate_with_retry(
    iterable_factory: Callable[[], Iterable[T]],
    description: str,
    *,
    match: list[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: float = 32,
    unwrap_cause: bool = False,
) -> Iterator[T]:
    """The items of what the factory makes; after an error it is made again, up to so many times, and what was handed out is skipped.
    `unwrap_cause`: the text of the error's cause counts, too.

    >>> list(iterate_with_retry(lambda: [1, 2], "read"))
    [1, 2]
    """
    from weir.datasource import _retry

    def is_meant(error: BaseException) -> bool:
        told = [error, error.__cause__] if unwrap_cause and error.__cause__ is not None else [error]
        text = "\n".join(f"{type(one).__name__}: {one}" for one in told)
        return match is None or any(pattern in text or re.search(pattern, text) for pattern in match)

    return _retry.iterate_with_retry(iterable_factory, match, max_attempts, max_backoff_s, is_meant)


def merge_resources_to_ray_remote_args(
    num_cpus: float | None, num_gpus: float | None, memory: float | None, ray_remote_args: dict[str, Any]
) -> dict[str, Any]:
    """The options of a task with these resources among them, where they are given.

    >>> merge_resources_to_ray_remote_args(1, None, None, {"max_retries": 2})
    {'max_retries': 2, 'num_cpus': 1}
    """
    given = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory}
    return {**ray_remote_args, **{name: value for name, value in given.items() if value is not None}}


def max_chunk_size(table: Any, max_chunk_size_bytes: int) -> int | None:
    """How many rows of a table make so many bytes, at least one; None where it has none.

    >>> import pyarrow as pa
    >>> max_chunk_size(pa.table({"a": [1, 2, 3, 4]}), 20)
    2
    """
    return max(1, max_chunk_size_bytes * table.num_rows // table.nbytes) if table.nbytes else None


def make_hashable(obj: Any) -> Any:
    """Options as something that can be a key: lists and dicts as tuples, the dicts' in the order of their keys.

    >>> make_hashable({"b": [1], "a": 2})
    (('a', 2), ('b', (1,)))
    """
    if isinstance(obj, (list, tuple)):
        return tuple(make_hashable(item) for item in obj)
    if isinstance(obj, dict):
        return tuple(sorted(((make_hashable(key), make_hashable(value)) for key, value in obj.items()), key=lambda pair: pair[0]))
    if isinstance(obj, Hashable):
        return obj
    raise ValueError(f"Type {type(obj)} is not hashable")


def cached_remote_fn(fn: Any, **ray_remote_args: Any) -> Any:
    """A remote function, or class of actors, with these options; the same one for the same function."""
    import weir.core

    key = fn, repr(sorted(ray_remote_args.items()))
    if key not in _remote:
        _remote[key] = weir.core.remote(**ray_remote_args)(fn) if ray_remote_args else weir.core.remote(fn)
    return _remote[key]


_remote: dict[tuple[Any, str], Any] = {}


def unwrap_protocol(path: str | os.PathLike[str]) -> str:
    """A path without what stands in front of ://.

    >>> unwrap_protocol("file:///a/b.csv"), unwrap_protocol("s3://me@bucket/b"), unwrap_protocol("/a/b?c#d")
    ('/a/b.csv', 'bucket/b', '/a/b?c#d')
    """
    text = os.fspath(path)
    scheme, colon, rest = text.partition("://")
    if not colon:
        return text
    place, slash, inner = rest.partition("/")
    return (place.rpartition("@")[2] if scheme == "s3" else place) + slash + inner


def has_file_extension(path: str, extensions: list[str] | None) -> bool:
    """Whether a path ends in one of these, in whatever letters; None: any will do.

    >>> has_file_extension("a.CSV", ["csv"]), has_file_extension("a.csv", [".json"]), has_file_extension("a", None)
    (True, False, True)
    """
    ends = None if extensions is None else tuple("." + end.lower().removeprefix(".") for end in extensions)
    return ends is None or path.partition("?")[0].lower().endswith(ends)


def resolve_paths_and_filesystem(paths: Any, filesystem: Any = None) -> tuple[list[str], Any]:
    """Paths as their file system has them, and that file system: pyarrow's of this machine, unless another is given."""
    import pyarrow.fs

    from weir.datasource import plain_path

    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(given, (list, tuple)) or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise ValueError(f"paths must be str, pathlib.Path, or a list of these, not {paths!r}")
    if not given:
        raise ValueError("Must provide at least one path.")
    if filesystem is not None and not isinstance(filesystem, pyarrow.fs.FileSystem):
        filesystem = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))
    if filesystem is None:
        filesystem = pyarrow.fs.LocalFileSystem()
        return [filesystem.normalize_path(urllib.parse.unquote(plain_path(path)) if "://" in os.fspath(path) else os.fspath(path)) for path in given], filesystem
    return [filesystem.normalize_path(unwrap_protocol(path)) for path in given], filesystem
