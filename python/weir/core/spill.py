"""Objects on disk: a file without a name takes the place of shared memory where the limit has no room.

    file(folder, size) ─▶ a descriptor to write the object into          moved(folder, fd, size) ─▶ one with what lies in a memfd

Whoever wants the object maps the file as it would map the memory. Its pages are the kernel's, to be given up when others need
them, so they count towards no limit, and nothing has to be brought back. The file goes with its last descriptor.
"""
from __future__ import annotations

import os


def file(folder: str, size: int) -> int:
    """An empty file of that size whose blocks are there: a full disk is an OSError here, and no signal later.

    >>> import os, tempfile
    >>> fd = file(tempfile.gettempdir(), 5000)
    >>> os.fstat(fd).st_size
    5000
    >>> os.close(fd)
    """
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # not every file system has files without a name from the start
        import tempfile

        fd, path = tempfile.mkstemp("", "weir-object-", folder)
        os.unlink(path)
    try:
        os.posix_fallocate(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def moved(folder: str, fd: int, size: int) -> int:
    """The first `size` bytes of `fd`, which stays the caller's, in a file."""
    made = file(folder, size)
    try:
        at = 0
        while at < size:
            count = os.sendfile(made, fd, at, size - at)
            if not count:
                raise OSError(f"an object of {size:,} bytes ends after {at:,}")
            at += count
    except BaseException:
        os.close(made)
        raise
    return made
