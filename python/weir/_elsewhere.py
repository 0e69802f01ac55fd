"""Rows that another process keeps: what a materialised Dataset is after it was pickled to a process of the same user, and where the
windows of a DatasetPipeline come from that went there.

    Blocks  ─ pickle ─▶ (session, number, address) ─ unpickle there ─▶ Elsewhere ─ each run ─▶ a connection ─▶ batches, as a split's
    windows ─ pickle ─▶ (address, number)          ─ unpickle there ─▶ windows_from ─ one connection ─▶ an epoch and a Dataset, one by one

The process that has the rows listens on one socket for all that it pickled. A pickle is no reference that could be counted, so
the last KEPT_MAX of them are kept until the session ends; what was dropped before that cannot be read any more. A window is made
when the other process asks for it, and let go of when that process has none of it left: it says so when it asks for the next.
"""

from __future__ import annotations

import itertools
import json
import pickle
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir import _session
from weir._arrange import Arranged
from weir._plan import Blocks

if TYPE_CHECKING:
    from weir._run import Run
    from weir._streaming_split import Receiver
    from weir._weir import Batch
    from weir._windows import Windows
    from weir.core.channel import Connection

KEPT_MAX = 64

_servers: dict[str, Any] = {}  # by session; one, but for what a fork left
_pickled: OrderedDict[int, Blocks] = OrderedDict()
_windows: dict[int, Windows] = {}  # of pipelines that were pickled, until somebody takes them
_numbers = itertools.count()


class Elsewhere(Arranged):
    """The source in the other process: reads the rows from the one that has them."""

    __slots__ = ("address", "key", "count", "lender", "_name", "__weakref__")
    kind = "Read"

    def __init__(self, address: str, key: int, count: int, name: str) -> None:
        self.input = None
        self.address = address
        self.key = key
        self.count = count
        self.lender: Receiver | None = None  # of a window: it is kept there as long as this connection stands
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def rows(self) -> int | None:
        return self.count

    def batches(self, run: Run) -> Iterator[Batch]:
        from weir._streaming_split import Receiver

        yield from Receiver(self.address, {"split": 0, "blocks": self.key}).batches()


def _address() -> str:
    """Of this session's socket, which is made now if there is none."""
    state = _session.current()
    if state.id not in _servers:
        from weir.core.channel import Server

        _servers[state.id] = Server(_serve)
        _session.at_shutdown(_pickled.clear)
        _session.at_shutdown(_windows.clear)
    return str(_servers[state.id].address)


def address_of(blocks: Blocks) -> str | None:
    """Where another process finds these rows; None where they are not of this process's session."""
    state = _session.existing()
    if state is None or state.id != blocks.session:
        return None
    _pickled[id(blocks)] = blocks
    _pickled.move_to_end(id(blocks))
    while len(_pickled) > KEPT_MAX:
        _pickled.popitem(last=False)
    return _address()


def handed(windows: Windows) -> tuple[str, int]:
    """Where another process finds these windows: the first that asks for one gets them all."""
    number = next(_numbers)
    _windows[number] = windows
    return _address(), number


def windows_from(address: str, number: int) -> Windows:
    """They in the other process."""
    from weir._streaming_split import Receiver

    receiver = Receiver(address, {"windows": number})
    given: dict[int, weakref.ref[Any]] = {}
    while True:
        gone = [key for key, op in given.items() if op() is None]
        found = receiver.question(gone=gone)
        for key in gone:
            del given[key]
        if found is None:
            return
        epoch, key, data = found
        ds = pickle.loads(data)
        given[key] = weakref.ref(ds._op)
        if isinstance(ds._op, Elsewhere):  # else it never left this process
            ds._op.lender = receiver
        make = lambda ds=ds: ds  # noqa: E731
        del ds
        yield epoch, make
        del make


def _serve(connection: Connection) -> None:
    from weir._streaming_split import Coordinator, Sender
    from weir.dataset import Dataset

    first = json.loads(connection.recv()[0])
    if "windows" in first:
        _serve_windows(_windows.pop(int(first["windows"]), None), connection)
        return
    blocks = _pickled.get(int(first["blocks"]))
    if blocks is not None:  # else the other end is told by the end of the connection
        Sender(Coordinator(Dataset(blocks), 1, False), 0, connection).serve()


def _serve_windows(windows: Windows | None, connection: Connection) -> None:
    from weir._streaming_split import pickled_error

    held: dict[int, Blocks] = {}  # what the other process may still read
    try:
        while True:
            question = json.loads(connection.recv()[0])
            for key in question["gone"]:
                _forget(key, held.pop(key))
            try:
                answer = pickle.dumps(("ok", _next_of(windows, held)))
            except BaseException as error:
                answer = pickled_error(error)
            connection.send(answer)
    finally:
        for key, blocks in held.items():
            _forget(key, blocks)


def _next_of(windows: Windows | None, held: dict[int, Blocks]) -> tuple[int, int, bytes] | None:
    if windows is None:
        raise RuntimeError("Pipeline cannot be read multiple times: this DatasetPipeline was pickled, and another copy of it is read")
    found = next(windows, None)
    if found is None:
        return None
    epoch, make = found
    kept = make().materialize()
    blocks = kept._op
    assert isinstance(blocks, Blocks)
    held[id(blocks)] = blocks
    return epoch, id(blocks), pickle.dumps(kept)


def _forget(key: int, blocks: Blocks) -> None:
    if _pickled.get(key) is blocks:
        del _pickled[key]
