"""Files of other file systems: of any object of pyarrow or fsspec that is not this machine's disks.

    fetched(filesystem, paths)       copies the files below the paths here, and says where they are
    Elsewhere(filesystem, path)      a folder there: a write makes its files in `folder`, here, and send() copies them

The engine reads and writes files of this machine alone, so whatever a format can do it can do with copies. They lie below the session's
folder for what does not fit into memory, and go when the process ends; those of a process that was killed, when the next one makes some. `shown` is the path of a copy as its own file system has it.

    …/weir-files-x1y2/0/ab/c/a.csv   a copy of /c/a.csv of the first file system
    …/weir-files-x1y2/0/r/c/a.csv    a copy of c/a.csv: both lose as many characters
"""

from __future__ import annotations

import atexit
import fcntl
import glob
import os
import re
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from weir._mistakes import WrongArgument

THREADS = 8  # files that are copied at once
PIECE_BYTES = 8 << 20  # of a file, at a time
PREFIX, LOCK = "weir-files-", ".held"
_COPY = re.compile(r"/weir-files-[^/]+/\d+/(?:ab(?=/)|r/)")

_lock = threading.Lock()  # guards what follows
_roots: list[tuple[Any, str]] = []  # each file system that was read from, and where its copies are
_folder: _Folder | None = None  # the folder of all copies


def through_pyarrow(filesystem: Any) -> Any:
    """A file system of pyarrow or fsspec as pyarrow has them."""
    from weir._formats import _need

    is_fsspec = any(base.__module__ == "fsspec.spec" for base in type(filesystem).__mro__)
    if not is_fsspec and not any(base.__module__.startswith("pyarrow.") for base in type(filesystem).__mro__):
        raise WrongArgument(f"filesystem is an object of pyarrow.fs or fsspec, not {filesystem!r:.200} of {type(filesystem)}")
    _need("pyarrow", f"filesystem={type(filesystem).__name__}")
    from pyarrow import fs

    if not is_fsspec and not isinstance(filesystem, fs.FileSystem):
        raise WrongArgument(f"filesystem is an object of pyarrow.fs or fsspec, not {filesystem!r:.200} of {type(filesystem)}")
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)) if is_fsspec else filesystem


def shown(path: str) -> str:
    """The path of a copy as its file system has it; others as they are.

    >>> shown("/tmp/weir-files-x1y2/0/r/bucket/a.csv"), shown("/tmp/weir-files-x1y2/12/ab/c/a.csv"), shown("/tmp/a.csv")
    ('bucket/a.csv', '/c/a.csv', '/tmp/a.csv')
    """
    found = _COPY.search(path)
    return path if found is None else path[found.end() :]


def shown_from(path: str) -> int:
    """How many characters of a copy's path are not its file system's: 0 for other files."""
    found = _COPY.search(path)
    return 0 if found is None else found.end()


def plain(path: Any) -> str:
    """A path without what names its file system."""
    if not isinstance(path, (str, os.PathLike)):
        raise WrongArgument(f"a path must be str or pathlib.Path, not {path!r} of {type(path)}")
    text = str(os.fspath(path))
    return text.split("://", 1)[1] if "://" in text else text


def fetched(filesystem: Any, paths: Any, ignore_missing: bool) -> Any:
    """Where copies of these files and folders are. FileNotFoundError for what is not there."""
    system = through_pyarrow(filesystem)
    if isinstance(paths, (list, tuple)):
        return [_fetched(filesystem, system, plain(path), ignore_missing) for path in paths]
    return _fetched(filesystem, system, plain(paths), ignore_missing)


def _root(filesystem: Any) -> str:
    """The folder of a file system's copies."""
    global _folder

    with _lock:
        for known, root in _roots:
            if known is filesystem:
                return root
        if _folder is None:
            _folder = _Folder()
        root = os.path.join(_folder.path, str(len(_roots)))
        _roots.append((filesystem, root))
        return root


def _place(root: str, path: str) -> str:
    return f"{root}/ab{path}" if path.startswith("/") else f"{root}/r/{path}"


def _fetched(filesystem: Any, system: Any, path: str, ignore_missing: bool) -> str:
    from pyarrow.fs import FileSelector, FileType

    root = _root(filesystem)
    info = system.get_file_info(path)
    if info.type == FileType.NotFound:
        if not ignore_missing:
            raise FileNotFoundError(f"{path}: there is no such file or folder in {type(filesystem).__name__}")
        return _place(root, path)
    if info.type == FileType.File:
        _copy(system, info, _place(root, path))
        return _place(root, path)
    found = [i for i in system.get_file_info(FileSelector(path, recursive=True)) if i.type == FileType.File]
    # Some begin the names in a folder with a slash, however the folder was called.
    is_rooted = found[0].path.startswith("/") if found else path.startswith("/")
    folder = _place(root, ("/" if is_rooted else "") + path.strip("/"))
    wanted = {_place(root, one.path): one for one in found}
    os.makedirs(folder, exist_ok=True)
    for where, _, names in os.walk(folder):  # those of an earlier read that are not there any more
        for name in names:
            if os.path.join(where, name) not in wanted:
                os.unlink(os.path.join(where, name))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda item: _copy(system, item[1], item[0]), wanted.items()))
    return folder + ("/" if path.endswith("/") else "")


def _copy(system: Any, info: Any, target: str) -> None:
    """A file as it is there, unless the copy has its size and its time."""
    if info.mtime_ns is not None and os.path.exists(target):
        known = os.stat(target)
        if known.st_size == info.size and known.st_mtime_ns == info.mtime_ns:
            return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    hidden = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{threading.get_ident()}")
    try:
        with system.open_input_stream(info.path, compression=None) as source, open(hidden, "wb") as made:
            shutil.copyfileobj(source, made, PIECE_BYTES)
        if info.mtime_ns is not None:
            os.utime(hidden, ns=(info.mtime_ns, info.mtime_ns))
        os.rename(hidden, target)
    finally:
        if os.path.exists(hidden):
            os.unlink(hidden)


# ---- folders for copies ----


class _Folder:
    """A folder that is there as long as its process wants it. The lock of a file in it says that the process lives."""

    def __init__(self) -> None:
        from weir import _session

        above = _session.current().spill_dir or tempfile.gettempdir()
        _sweep(above)
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=above)
        self._pid = os.getpid()
        self._lock = os.open(os.path.join(self.path, LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        atexit.register(self.remove)

    def remove(self) -> None:
        if os.getpid() == self._pid and self._lock >= 0:  # a forked child leaves it to its parent
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1
            atexit.unregister(self.remove)


def _sweep(above: str) -> None:
    """Removes what processes left that were killed."""
    for left in glob.glob(os.path.join(glob.escape(above), f"{PREFIX}*", LOCK)):
        try:
            lock = os.open(left, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # gone, or another user's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(os.path.dirname(left), ignore_errors=True)
        except OSError:  # its process lives
            pass
        finally:
            os.close(lock)


class Elsewhere:
    """A folder of another file system that is written to: the files are made here, in `folder`, and sent when all are there."""

    def __init__(self, filesystem: Any, path: Any) -> None:
        self.system = through_pyarrow(filesystem)
        self.path = plain(path)
        self.name = type(filesystem).__name__
        self._held = _Folder()
        self.folder = os.path.join(self._held.path, "out")

    def begins(self, mode: Any, try_create_dir: bool) -> bool:
        """Whether there is something to write: as `mode` says of a folder that is there."""
        from pyarrow.fs import FileType

        from weir.dataset import SaveMode

        kind = self.system.get_file_info(self.path).type
        if kind == FileType.NotFound:
            if not try_create_dir:
                raise FileNotFoundError(f"{self.path} is not there in {self.name}, and try_create_dir=False")
            return True
        if mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(f"Path {self.path} already exists. If this is unexpected, use mode='ignore' to ignore those files")
        if kind == FileType.File:
            raise NotADirectoryError(f"{self.path} of {self.name} is a file, and a folder of files is written")
        return bool(mode is not SaveMode.IGNORE)

    def send(self, mode: Any) -> None:
        """Copies what was made there; what was there goes first, if it is to be overwritten."""
        from weir.dataset import SaveMode

        if mode is SaveMode.OVERWRITE:
            self.system.create_dir(self.path, recursive=True)
            self.system.delete_dir_contents(self.path)
        made = [os.path.join(where, name) for where, _, names in os.walk(self.folder) for name in sorted(names)]
        targets = {source: os.path.join(self.path, os.path.relpath(source, self.folder)) for source in made}
        for folder in sorted({os.path.dirname(target) for target in targets.values()}):
            self.system.create_dir(folder, recursive=True)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda item: self._send(*item), targets.items()))

    def _send(self, source: str, target: str) -> None:
        with open(source, "rb") as file, self.system.open_output_stream(target, compression=None) as out:
            shutil.copyfileobj(file, out, PIECE_BYTES)

    def close(self) -> None:
        """The files here are not needed any more."""
        self._held.remove()

    def __reduce__(self) -> Any:
        return _nowhere, ()  # workers make files in the folder, and know no more


def _nowhere() -> None:
    return None
