"""Rows that another process keeps: what a materialised Dataset is after it was pickled to a process of the same user.

    Blocks ─ pickle ─▶ (session, number, address) ─ unpickle there ─▶ Elsewhere ─ each run ─▶ a connection ─▶ batches, as a split's

The process that has the rows listens on one socket for all that it pickled. A pickle is no reference that could be counted, so
the last KEPT_MAX of them are kept until the session ends; what was dropped before that cannot be read any more.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir import _session
from weir._arrange import Arranged
from weir._plan import Blocks

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Batch
    from weir.core.channel import Connection

KEPT_MAX = 64

_servers: dict[str, Any] = {}  # by session; one, but for what a fork left
_pickled: OrderedDict[int, Blocks] = OrderedDict()


class Elsewhere(Arranged):
    """The source in the other process: reads the rows from the one that has them."""

    __slots__ = ("address", "key", "count", "_name")
    kind = "Read"

    def __init__(self, address: str, key: int, count: int, name: str) -> None:
        self.input = None
        self.address = address
        self.key = key
        self.count = count
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def rows(self) -> int | None:
        return self.count

    def batches(self, run: Run) -> Iterator[Batch]:
        from weir._streaming_split import Receiver

        yield from Receiver(self.address, {"split": 0, "blocks": self.key}).batches()


def address_of(blocks: Blocks) -> str | None:
    """Where another process finds these rows; None where they are not of this process's session."""
    state = _session.existing()
    if state is None or state.id != blocks.session:
        return None
    if state.id not in _servers:
        from weir.core.channel import Server

        _servers[state.id] = Server(_serve)
        _session.at_shutdown(_pickled.clear)
    _pickled[id(blocks)] = blocks
    _pickled.move_to_end(id(blocks))
    while len(_pickled) > KEPT_MAX:
        _pickled.popitem(last=False)
    return str(_servers[state.id].address)


def _serve(connection: Connection) -> None:
    from weir._streaming_split import Coordinator, Sender
    from weir.dataset import Dataset

    key = int(json.loads(connection.recv()[0])["blocks"])
    blocks = _pickled.get(key)
    if blocks is not None:  # else the other end is told by the end of the connection
        Sender(Coordinator(Dataset(blocks), 1, False), 0, connection).serve()
