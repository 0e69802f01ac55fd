"""Numbers of things: random for each process, then counted, so that making one costs nothing.

    object  28 bytes: task, and the number of the value among what it returns      actor  16      node, worker  28
    task    24 bytes                                                               job     4
"""
from __future__ import annotations

import itertools
import os

OBJECT, TASK, ACTOR = 28, 24, 16

_prefix = os.urandom(16)
_count = itertools.count(1)


def new_task() -> bytes:
    """A task's.

    >>> len(new_task()), new_task() != new_task()
    (24, True)
    """
    return _prefix + next(_count).to_bytes(8, "big")


def object_of(task: bytes, index: int) -> bytes:
    """Of the value `index` of a task.

    >>> len(object_of(new_task(), 1))
    28
    """
    return task + index.to_bytes(4, "little")


def new_object() -> bytes:
    """Of a value that was put.

    >>> len(new_object())
    28
    """
    return object_of(new_task(), 1)


def new_actor() -> bytes:
    """An actor's.

    >>> len(new_actor())
    16
    """
    return os.urandom(ACTOR)


def _anew() -> None:
    global _prefix, _count
    _prefix = os.urandom(16)
    _count = itertools.count(1)


os.register_at_fork(after_in_child=_anew)
