"""Values as they are kept and sent: a pickle, and the large buffers apart in one memfd.

    dump(value) ─▶ Dumped ─▶ Dumped.store() ─▶ Payload          Payload ─▶ load() ─▶ value, over read-only shared memory

A Payload is a tuple of plain things, so that it goes into messages as it is; its descriptor travels beside the message.

    data     the pickle, when it is small        places   (offset, size) of each buffer in the memfd, the pickle first when
    nested   ids that the value refers to                  data is None; a small buffer itself
    size     of the memfd, 0 for none            kind     VALUE, ERROR
    on_disk  the descriptor is a file's (spill.py)
"""
from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import threading
from typing import Any, NamedTuple

from weir import _setup

APART_MIN = _setup.APART_MIN  # buffers, and whole pickles, of this size lie in the memfd
VALUE, ERROR = 0, 1
DEPTH_MAX = 4
PLAIN_MAX = 64

_PLAIN = frozenset({int, float, str, bytes, bool, type(None), complex})


class Payload(NamedTuple):
    """A value at rest. `size` bytes of shared memory, or of a file, belong to it."""
    data: bytes | None
    places: tuple[tuple[int, int] | bytes, ...] = ()
    size: int = 0
    nested: tuple[bytes, ...] = ()
    kind: int = VALUE
    on_disk: bool = False

    @property
    def charged(self) -> int:
        """The bytes that count towards the limit."""
        return 0 if self.on_disk else self.size


class Map(mmap.mmap):
    """Shared memory that a value lies in. `ref`: the object stays, and counted, as long as views of it do."""
    ref: Any = None


class Nested(threading.local):
    """While a value is pickled here: the refs and handles that are met in it."""
    refs: list[Any] | None = None
    quiet = False  # pickled for somebody who keeps the refs himself


nested = Nested()


class Dumped:
    """A pickled value whose buffers are still the user's."""

    __slots__ = ("data", "buffers", "refs", "size", "kind")

    def __init__(self, data: bytes, buffers: list[memoryview | bytes], refs: list[Any], kind: int = VALUE) -> None:
        self.data = data
        self.buffers = buffers
        self.refs = refs
        self.kind = kind
        self.size = 0  # of the memfd
        for part, size in self._parts():
            if size:
                self.size = _aligned(self.size) + size

    def _parts(self) -> list[tuple[Any, int]]:
        """What goes with the pickle, and its size in the memfd: none of small buffers."""
        parts: list[tuple[Any, int]] = [(buffer, 0 if isinstance(buffer, bytes) else buffer.nbytes) for buffer in self.buffers]
        if len(self.data) >= APART_MIN:
            parts.insert(0, (self.data, len(self.data)))
        return parts

    def store(self, file: int = -1) -> tuple[Payload, int]:
        """As a payload with its descriptor, -1 for none; in `file`, which it takes over, if one is given. OSError: there is no memory,
        or no descriptor."""
        ids = tuple(ref.binary() for ref in self.refs)
        if not self.size:
            return Payload(self.data, tuple(part for part, _ in self._parts()), 0, ids, self.kind), -1
        on_disk = file >= 0
        fd = file if on_disk else os.memfd_create("weir-object", os.MFD_CLOEXEC)
        try:
            if not on_disk:
                os.ftruncate(fd, self.size)
            places: list[tuple[int, int] | bytes] = []
            at = 0
            for part, size in self._parts():
                if not size:
                    places.append(part)
                    continue
                at = _aligned(at)
                _setup._write_at(fd, at, part)
                places.append((at, size))
                at += size
        except BaseException:
            os.close(fd)
            raise
        return Payload(None if len(self.data) >= APART_MIN else self.data, tuple(places), self.size, ids, self.kind, on_disk), fd


def _aligned(offset: int) -> int:
    return -(-offset // _setup.ALIGNMENT) * _setup.ALIGNMENT


def is_plain(value: Any, depth: int = DEPTH_MAX) -> bool:
    """Whether pickle alone writes this rightly: nothing in it is of the program's own classes or functions.

    >>> is_plain((1, "a", [None, {"b": 2.0}])), is_plain(len), is_plain([object()])
    (True, False, False)
    """
    kind = type(value)
    if kind in _PLAIN:
        return True
    if not depth:
        return False
    if kind is tuple or kind is list:
        return len(value) <= PLAIN_MAX and all(is_plain(item, depth - 1) for item in value)
    if kind is dict:
        return len(value) <= PLAIN_MAX and all(type(key) in _PLAIN and is_plain(item, depth - 1) for key, item in value.items())
    numpy = sys.modules.get("numpy")
    return numpy is not None and kind is numpy.ndarray and value.dtype.kind in "biufcSUMm"


def dump(value: Any, what: str, kind: int = VALUE) -> Dumped:
    """Pickled. TypeError, naming the variable, for what cannot be."""
    buffers: list[memoryview | bytes] = []
    if is_plain(value):
        return Dumped(pickle.dumps(value, 5, buffer_callback=_taker(buffers)), buffers, [], kind)
    before, nested.refs = nested.refs, []
    try:
        file = io.BytesIO()
        try:
            _setup._dump_into(file, value, _taker(buffers))
        except Exception as error:
            raise TypeError(_setup._why_not({"fn_args": (value,)}, what, error).replace("fn_args[0]", "the value")) from error
        return Dumped(file.getvalue(), buffers, nested.refs, kind)
    finally:
        nested.refs = before


def _taker(buffers: list[memoryview | bytes]) -> Any:
    """Takes buffers out of the pickle: what is loaded with them is read-only, large or small."""

    def apart(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: goes in-band
            return True
        buffers.append(raw if raw.nbytes >= APART_MIN else bytes(raw))
        return False

    return apart


def open_map(fd: int, size: int, ref: Any = None) -> Map:
    """The memory of a payload's descriptor, which stays the caller's, to be read."""
    made = Map(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    made.ref = ref
    return made


def load(payload: Payload, shared: Map | None) -> Any:
    """The value. Large arrays in it are views of `shared`; none can be written to."""
    if shared is None:
        return pickle.loads(payload.data or b"", buffers=payload.places)
    view = memoryview(shared)
    places: Any = payload.places
    data: Any = payload.data
    if data is None:
        (at, size), *places = places
        data = view[at:at + size]
    return pickle.loads(data, buffers=[place if isinstance(place, bytes) else view[place[0]:place[0] + place[1]] for place in places])
