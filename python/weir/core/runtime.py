"""Which session this process belongs to: its own, another process's, or none yet.

    driver:  get() → Node (weir.core.node), in this process         worker, or whoever got a ref:  get() → Client

Both give the same: put, get, wait, submit, next_of, hold, drop, call.
"""
from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir.core.payload import Dumped, Map, Payload
    from weir.core.tasks import Task

Wanted = bytes | tuple[bytes, int]  # an object, or an item of a generator


class Runtime(Protocol):
    """What the driver's node and a client of it have in common."""

    address: str
    is_driver: bool

    def put(self, dumped: Dumped | Payload, id: bytes | None = None) -> bytes:
        """Keeps a value, or an error, and gives its number, counted once for this process."""

    def get(self, ids: Sequence[bytes], timeout: float | None) -> list[tuple[Payload, Map | None]] | None:
        """The values, as soon as all are there or one of them is an error; None: time is up."""

    def wait(self, ids: Sequence[Wanted], count: int, timeout: float | None) -> set[Wanted]:
        """Those that are there, once `count` are or time is up."""

    def submit(self, task: Task, dumped: Dumped) -> None:
        """Runs a task when it can; what it returns is counted once for this process."""

    def next_of(self, id: bytes, index: int, timeout: float | None) -> bytes | bool | None:
        """The number of item `index` of a generator; False: there are no more, None: time is up."""

    def hold(self, id: bytes) -> None:
        """One more reference in this process."""

    def drop(self, id: bytes) -> None:
        """One less. Any thread, any time, also inside other calls."""

    def call(self, name: str, *args: Any) -> Any:
        """One of the node's calls (weir.core.calls)."""

    def when_ready(self, id: bytes, done: Any) -> None:
        """Calls done() in some thread when the value is there."""


_lock = threading.RLock()
_runtime: Runtime | None = None
_address: str | None = None  # of the session that a worker belongs to
worker: Any = None           # weir.core.worker.Worker, in such a process
group: Any = None            # the placement group that a Dataset's operator was put into, in its workers (context.Group)
current: contextvars.ContextVar[Any] = contextvars.ContextVar("weir_task", default=None)  # what runs here


def get() -> Runtime:
    """This process's, made now if there is none."""
    if _runtime is not None:
        return _runtime
    return _make()


def existing() -> Runtime | None:
    """The same if there is one."""
    return _runtime


def drop(id: bytes, is_over: Callable[[], bool] = sys.is_finalizing) -> None:
    """A reference is gone. When the interpreter ends the session does too, and the modules that this needs may be gone already."""
    if not is_over() and _runtime is not None:
        _runtime.drop(id)


def here() -> Runtime | None:
    """The same, or the one of the session that this process belongs to."""
    return get() if _runtime is None and _address is not None else _runtime


def _make() -> Runtime:
    global _runtime
    with _lock:
        if _runtime is None:
            if _address is not None:
                from weir.core.client import Client

                _runtime = Client.connected(_address)
            else:
                _runtime = _node()
        return _runtime


def _node() -> Runtime:
    from weir import _session

    if _session.current().local_mode:
        from weir.core.local import LocalNode

        return LocalNode()
    from weir.core.node import Node

    return Node()


def belongs_to(address: str) -> None:
    """What is unpickled here comes from the session with this address: a process without one becomes part of it."""
    global _address
    if _runtime is None and _address is None and address:
        _address = address


def use(runtime: Runtime | None, address: str | None = None) -> None:
    """Sets what get() gives."""
    global _runtime, _address
    _runtime = runtime
    if address is not None:
        _address = address


def forget(runtime: Runtime) -> None:
    """It has ended."""
    global _runtime
    with _lock:
        if _runtime is runtime:
            _runtime = None


def _after_fork_in_child() -> None:
    """A child is a client of its parent's session."""
    global _lock, _runtime, _address
    _lock = threading.RLock()
    if _runtime is not None:
        _inherited.append(_runtime)
        _address = _runtime.address
    _runtime = None


_inherited: list[Any] = []  # of the parent's: nothing of it is released here

os.register_at_fork(after_in_child=_after_fork_in_child)
