"""Where other processes reach this session: a socket that is opened early and cheaply, and a node behind it when somebody comes.

A function of a Dataset may call get, put or a remote function without anybody having told the driver before. So workers are always given an
address; the rest of weir.core is loaded when the first of them connects, or when the driver itself needs it.
"""
from __future__ import annotations

import threading
from typing import Any

from weir import _session
from weir.core.channel import Connection, Server

_lock = threading.Lock()
_open: tuple[Any, Server] | None = None  # the session's State, and its server


def server(state: Any) -> Server:
    """The session's, opened now if it is not."""
    global _open
    with _lock:
        if _open is None or _open[0] is not state:
            _open = (state, Server(_connected))
            _session.at_shutdown(_forget)
        return _open[1]


def _forget() -> None:
    """The session is over: its memory goes with the last who knows it."""
    global _open
    _open = None


def address(state: Any) -> str:
    """Of the session."""
    return server(state).address


def _connected(connection: Connection) -> bool:
    from weir.core import runtime

    node: Any = runtime.get()
    return bool(node.connected(connection))
