"""Spilled bytes, where they lie in the file, are Arrow IPC messages that other libraries open as they are."""
import ctypes
import io
import os

import nanoarrow.ipc
import polars
import pyarrow as pa
import pytest


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ["get_schema", "get_next", "get_last_error", "release", "private"]]


END = b"\xff\xff\xff\xff\0\0\0\0"


@pytest.fixture(scope="module")
def probe(weir_build):
    lib = ctypes.CDLL(str(weir_build / "libweir_probe.so"))
    lib.weir_probe_new.restype = ctypes.c_void_p
    lib.weir_probe_used.restype = ctypes.c_int64
    lib.weir_probe_spill_new.restype = ctypes.c_void_p
    lib.weir_probe_spill_schema.restype = ctypes.c_void_p
    return lib


@pytest.fixture
def table():
    rows = 5000
    return pa.table({
        "number": pa.array([None if i % 7 == 0 else i * 31 for i in range(rows)], pa.int64()),
        "text": [None if i % 5 == 0 else f"row {i} " + "x" * (i % 40) for i in range(rows)],
        "real": [i / 3 for i in range(rows)],
        "list": [list(range(i % 4)) for i in range(rows)],
    })


def spilled(lib, table, directory, batch_rows):
    """The schema message and the bytes of each chunk, read from the nameless file, and where they lay."""
    error = ctypes.create_string_buffer(8192)
    mem = ctypes.c_void_p(lib.weir_probe_new(ctypes.c_int64(1 << 30), error))
    stream = Stream()
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=batch_rows))
    reader._export_to_c(ctypes.addressof(stream))
    probe = ctypes.c_void_p(lib.weir_probe_spill_new(mem, ctypes.byref(stream), str(directory).encode(), error))
    assert probe.value, error.raw
    assert os.listdir(directory) == []
    size = ctypes.c_size_t()
    schema = ctypes.string_at(lib.weir_probe_spill_schema(probe, ctypes.byref(size)), size.value)
    chunks, places = [], []
    offset, length = ctypes.c_uint64(), ctypes.c_uint64()
    while True:
        fd = lib.weir_probe_spill_place(probe, ctypes.c_size_t(len(chunks)), ctypes.byref(offset), ctypes.byref(length))
        if fd < 0:
            break
        chunks.append(os.pread(fd, length.value, offset.value))
        places.append(offset.value)
    lib.weir_probe_spill_free(probe)
    assert lib.weir_probe_used(mem) == 0
    lib.weir_probe_free(mem)
    return schema, chunks, places


def test_each_extent_opens_alone(probe, table, tmp_path):
    schema, chunks, places = spilled(probe, table, tmp_path, 700)
    batches = table.to_batches(max_chunksize=700)
    assert len(chunks) == len(batches) and all(place % 4096 == 0 for place in places)
    assert len(set(places)) == len(places)
    for chunk, batch in zip(chunks, batches):
        got = pa.ipc.read_record_batch(pa.py_buffer(chunk), table.schema)
        got.validate(full=True)
        assert got == batch
        assert pa.ipc.open_stream(schema + chunk + END).read_all().to_batches()[0] == batch
        frame = polars.read_ipc_stream(io.BytesIO(schema + chunk + END))
        assert frame.equals(polars.from_arrow(pa.Table.from_batches([batch])))


def test_extents_in_turn_are_a_block(probe, table, tmp_path):
    schema, chunks, _ = spilled(probe, table, tmp_path, 1024)
    block = schema + b"".join(chunks) + END
    assert pa.ipc.open_stream(block).read_all().equals(table)
    assert polars.read_ipc_stream(io.BytesIO(block)).equals(polars.from_arrow(table))
    with nanoarrow.ipc.InputStream.from_readable(io.BytesIO(block)) as stream:
        assert pa.table(nanoarrow.ArrayStream(stream)).equals(table)
