"""Rows that are there (a materialised Dataset's) inside a value: as bytes, which then lie apart in the value's memory.

    packed(batch) ─▶ a buffer ─▶ … ─▶ unpacked(buffer) ─▶ a batch of the process that has it
"""
from __future__ import annotations

import mmap
import os
import pickle
from typing import Any


def packed(batch: Any) -> pickle.PickleBuffer:
    """The rows, copied."""
    from weir import _session
    from weir._weir import batch_share

    shared = batch_share(_session.current().native, batch)
    try:
        _, fd, offset, size = shared.place()
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        with mmap.mmap(fd, size + offset - start, mmap.MAP_SHARED, mmap.PROT_READ, offset=start) as region:
            return pickle.PickleBuffer(region[offset - start:])
    finally:
        shared.close()


def unpacked(buffer: Any) -> Any:
    """The batch, in memory of this process's own."""
    from weir._setup import _write_at
    from weir._weir import batch_open

    view = memoryview(buffer)
    fd = os.memfd_create("weir-rows", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, view.nbytes)
        _write_at(fd, 0, view)
        return batch_open(fd, 0, view.nbytes)
    finally:
        os.close(fd)
