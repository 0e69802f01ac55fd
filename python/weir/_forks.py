"""A function that forks. The child may end as it likes, by os._exit or by another program; what comes out of the function by returning or raising,
as programs do that were not written for workers, is no worker: it ends there, before it takes another row or says a word to the driver.
"""
from __future__ import annotations

import os
import sys
import warnings
from typing import Any, NoReturn

is_fork = False
_going: list[Any] | None = None


def watch() -> None:
    """From now on, in this process and its forks."""
    os.register_at_fork(after_in_child=_begin)
    # Python 3.12 and later warn of forks where there are threads. A worker has one, that waits for the driver's end: it holds no lock that a child
    # could miss.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)


def going(items: list[Any] | None) -> None:
    """What a loop that cannot look here goes through: in a fork it is empty all at once."""
    global _going
    _going = items


def _begin() -> None:
    global is_fork
    is_fork = True
    if _going is not None:
        _going.clear()


def flush() -> None:
    """What this process has printed goes out, before the driver hears that a task has ended."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or replaced by something that cannot: what it held is the user's affair
            continue


def leave(error: BaseException | None = None) -> NoReturn:
    """Ends this process, a fork or an actor's, as the interpreter ends a program that came to its end, or raised."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code if error.code is not None else 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    elif error is not None:
        from weir import _errors

        print(_errors.user_traceback(error), file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)
