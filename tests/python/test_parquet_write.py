"""Parquet files that weir writes, opened by pyarrow, DuckDB and Polars."""
import ctypes
import datetime
import decimal
import os
from pathlib import Path

import duckdb
import numpy
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st


class Probe(ctypes.Structure):
    _fields_ = [
        ("stream", ctypes.c_void_p), ("keep", ctypes.c_void_p), ("forms", ctypes.c_char_p), ("path", ctypes.c_char_p),
        ("codec", ctypes.c_char_p), ("encoding", ctypes.c_char_p), ("row_group_rows", ctypes.c_int64),
        ("row_group_bytes", ctypes.c_int64), ("grant", ctypes.c_int64), ("vector_rows", ctypes.c_uint32),
        ("parts", ctypes.c_uint32), ("codec_level", ctypes.c_int32), ("dictionary", ctypes.c_uint8),
        ("page_index", ctypes.c_uint8), ("statistics", ctypes.c_uint8), ("data_page_v2", ctypes.c_uint8),
        ("rows_written", ctypes.c_uint64), ("held_peak", ctypes.c_uint64), ("message", ctypes.c_char * 1024)]


capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_void_p
capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class WriteError(Exception):
    pass


@pytest.fixture(scope="session")
def probe_library(weir_build):
    return ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so")))


@pytest.fixture(scope="session")
def write(probe_library, tmp_path_factory):
    """write(table, …) → (path, probe). Rows in chunks of `vector_rows`; `keep` a bool a row."""
    folder = tmp_path_factory.mktemp("parquet")
    count = [0]

    def call(table, keep=None, forms=None, codec="snappy", encoding=None, row_group_rows=0, row_group_bytes=0, grant=0,
             vector_rows=0, parts=1, codec_level=0, dictionary=True, page_index=True, statistics=True,
             data_page_v2=False):
        count[0] += 1
        path = folder / f"{count[0] % 50}.parquet"
        capsule = table.__arrow_c_stream__()  # releases the stream at its end
        address = capsule_pointer(capsule, b"arrow_array_stream")
        if keep is not None:
            keep = numpy.ascontiguousarray(keep, dtype=numpy.uint8)
        probe = Probe(
            stream=address, keep=keep.ctypes.data if keep is not None else None, forms=forms and forms.encode(),
            path=str(path).encode(), codec=codec.encode(), encoding=encoding and encoding.encode(),
            row_group_rows=row_group_rows, row_group_bytes=row_group_bytes, grant=grant, vector_rows=vector_rows,
            parts=parts, codec_level=codec_level, dictionary=dictionary, page_index=page_index, statistics=statistics,
            data_page_v2=data_page_v2)
        code = probe_library.weir_probe_parquet_write(ctypes.byref(probe))
        if code:
            raise WriteError(probe.message.decode())
        return path, probe

    return call


def read(path):
    return pyarrow.parquet.read_table(path)


def check(path, expected):
    """Equal for pyarrow, types and all, and whole for its validation."""
    table = read(path)
    table.validate(full=True)
    assert table.schema.equals(expected.schema), f"{table.schema}\n{expected.schema}"
    assert table.combine_chunks().equals(expected.combine_chunks())
    return pyarrow.parquet.ParquetFile(path)


CODECS = ["none", "snappy", "gzip", "zstd", "lz4_raw", "brotli"]


def flat_table(rows=10000, nulls=0.1, seed=0):
    random = numpy.random.default_rng(seed)

    def array(values, type_=None):
        return pyarrow.array(values, type=type_, mask=random.random(rows) < nulls if nulls else None)

    words = numpy.array([f"word{i}" * (i % 7) for i in range(300)], dtype=object)
    long_words = numpy.array([f"{random.integers(1 << 60)}" * (1 + i % 5) for i in range(rows)], dtype=object)
    return pyarrow.table({
        "sorted": array(numpy.sort(random.integers(0, rows * 3, rows))),
        "random": array(random.integers(-2**62, 2**62, rows)),
        "few": array(random.integers(0, 10, rows)),
        "double": array(random.normal(size=rows)),
        "price": array(numpy.round(random.uniform(1, 100, rows), 1)),
        "int32": array(random.integers(-1000, 1000, rows).astype("int32")),
        "date": array(random.integers(0, 3000, rows).astype("int32")).cast(pyarrow.date32()),
        "word": array(words[random.integers(0, 300, rows)], pyarrow.string()),
        "text": array(long_words, pyarrow.string()),
        "bool": array(random.random(rows) < 0.3),
        "one": array(numpy.full(rows, 7)),
    })


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("nulls", [0, 0.1, 1])
def test_flat_columns_come_back(write, codec, nulls):
    table = flat_table(70000, nulls)
    path, _ = write(table, codec=codec)
    file = check(path, table)
    assert file.metadata.created_by.startswith("weir version ")
    assert file.metadata.num_rows == 70000
