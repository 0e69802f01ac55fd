"""Many columns and a predicate that keeps few rows: the reader finds the rows first and decodes the other columns for them
alone. What it reads must be what pyarrow reads, for every type, encoding and way of asking."""
import ctypes
import decimal
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_probe
from parquet_probe import ReadError

ROWS = 24_000
COLUMNS = 90


@pytest.fixture(scope="module")
def read(weir_build):
    return parquet_probe.Reader(ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so"))))


def column(rng, kind, rows):
    mask = rng.random(rows) < 0.15 if kind % 2 else None
    words = np.array([f"word {i} " + "x" * int(i % 40) for i in range(5000)])
    match kind % 11:
        case 0:
            return pa.array(rng.integers(0, 300, rows), mask=mask)
        case 1:
            return pa.array(rng.integers(0, 1 << 60, rows), mask=mask)
        case 2:
            return pa.array(rng.normal(size=rows), mask=mask)
        case 3:
            return pa.array(words[rng.integers(0, 5000, rows)], mask=mask)
        case 4:  # few values first, then many: codes, then plain values
            few, many = words[rng.integers(0, 20, rows // 2)], [f"{x:016x}" * 3 for x in rng.integers(0, 1 << 60, rows - rows // 2)]
            return pa.array(np.concatenate([few, many]), mask=mask)
        case 5:
            return pa.array(rng.random(rows) < 0.3, mask=mask)
        case 6:
            return pa.array(rng.integers(-100, 100, rows), mask=mask).cast(pa.int8())
        case 7:
            return pa.array([decimal.Decimal(int(x)) / 100 for x in rng.integers(-10**9, 10**9, rows)],
                            pa.decimal128(20, 2), mask=mask)
        case 8:
            return pa.array([bytes(x) for x in rng.integers(0, 256, (rows, 11), dtype=np.uint8)], pa.binary(11), mask=mask)
        case 9:
            return pa.array(rng.integers(0, 10**9, rows), mask=mask).cast(pa.timestamp("ms"))
        case _:
            return pa.nulls(rows)


@pytest.fixture(scope="module")
def table():
    seed = 20261115
    print("seed", seed)
    rng = np.random.default_rng(seed)
    columns = {"id": pa.array(np.arange(ROWS))}
    for i in range(1, COLUMNS):
        columns[f"c{i}"] = column(rng, i, ROWS)
    columns["list"] = pa.array([[i, i + 1] if i % 3 else None for i in range(ROWS)])
    return pa.table(columns)


LAYOUTS = {
    "snappy": dict(compression="snappy"),
    "none": dict(compression="none"),
    "zstd v2": dict(compression="zstd", data_page_version="2.0"),
    "small pages": dict(compression="snappy", data_page_size=4096, write_page_index=True),
    "plain": dict(compression="snappy", use_dictionary=False),
    "three groups": dict(compression="snappy", row_group_size=9000),
}


@pytest.fixture(scope="module", params=list(LAYOUTS))
def path(request, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("picks") / "wide.parquet"
    pq.write_table(table, path, **{"row_group_size": ROWS, **LAYOUTS[request.param]})
    return path


def rows_of(table, every, phase, begin=0, end=ROWS):
    return table.take(np.arange(begin, end)[np.arange(begin, end) % every == phase])


@pytest.mark.sample(4)
@pytest.mark.parametrize("grant", [0, 3 << 20, 8 << 20])
@pytest.mark.parametrize("every, phase", [(7, 3), (100, 99), (4000, 17)])
def test_the_rows_that_the_predicate_keeps(read, table, path, every, phase, grant):
    try:
        got = read(path, predicate=f"id % {every} == {phase}", every=every, phase=phase, grant=grant)
    except ReadError as error:
        assert grant == 3 << 20 and "granted" in str(error)
        return
    assert got.equals(rows_of(table, every, phase))


def test_rows_that_it_does_not_keep_are_there_too(read, table, path):
    assert read(path, predicate="id % 50 == 3", every=10, phase=3).equals(rows_of(table, 10, 3))
    assert read(path, predicate="id % 50 == 3").equals(table)
    assert read(path, predicate="id < 100 or id % 1000 == 3", every=1000, phase=3).equals(rows_of(table, 1000, 3))
    assert read(path, predicate="id % 10 == 3", every=20, phase=13).equals(rows_of(table, 20, 13))


def test_ranges(read, table, path):
    for begin, end in ((0, ROWS), (1, ROWS - 1), (5000, 17001), (11000, 11010)):
        got = read(path, predicate="id % 9 == 4", every=9, phase=4, rows=(begin, end))
        assert got.equals(rows_of(table, 9, 4, begin, end))


def test_vectors_that_nobody_decodes(read, table, path):
    got = read(path, predicate="id % 9 == 4", every=9, phase=4, vectors=3)
    assert got.num_rows < ROWS // 9
    want = rows_of(table, 9, 4)
    assert got.equals(want.filter(pc.is_in(want["id"], got["id"])))


def test_a_predicate_that_fails_is_left_to_the_filter(read, table, path):
    assert read(path, predicate="100 // (id - 20000) == 0 and id % 9 == 4", every=9, phase=4).equals(rows_of(table, 9, 4))


def test_a_damaged_column_is_an_error_and_others_are_not(read, table, tmp_path):
    path = tmp_path / "damaged.parquet"
    pq.write_table(table, path, row_group_size=ROWS, compression="snappy")
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(3)
    with open(path, "r+b") as file:
        file.seek(chunk.dictionary_page_offset + 2000)
        file.write(b"\xff" * 64)
    with pytest.raises(ReadError, match="c3"):
        read(path, predicate="id % 9 == 4", every=9, phase=4)
    others = [i for i in range(COLUMNS) if i != 3]
    got = read(path, columns=others, predicate="id % 9 == 4", every=9, phase=4)
    assert got.equals(rows_of(table, 9, 4).select(others))


def test_errors_name_the_row_or_the_rows_of_the_page(read, tmp_path):
    path, rows, bad = tmp_path / "text.parquet", 10_000, 7777
    offsets = np.arange(rows + 1, dtype=np.int32) * 8
    data = bytearray(b"a text. " * rows)
    data[bad * 8 + 3] = 0xff
    text = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(bytes(data)))
    table = pa.table({"text": text, "number": pa.array(np.arange(rows))})
    pq.write_table(table, path, row_group_size=5000, use_dictionary=False, compression="none", store_schema=False)
    with pytest.raises(ReadError, match=rf"row {bad}\b"):
        read(path)
    assert read(path, rows=(0, 5000)).num_rows == 5000
    # A page that cannot be inflated is all of its rows, wherever the vector that met it begins.
    pq.write_table(table, path, row_group_size=5000, use_dictionary=False, compression="snappy", data_page_size=1 << 12,
                   column_encoding={"text": "PLAIN", "number": "PLAIN"}, max_rows_per_page=500)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    with open(path, "r+b") as file:
        file.seek(chunk.data_page_offset + chunk.total_compressed_size * 5 // 8)
        file.write(b"\xff" * 40)
    with pytest.raises(ReadError, match=r"column number, rows \d+") as error:
        read(path, columns=[1], rows=(0, 5000))
    first, last = map(int, re.search(r"rows (\d+)\D+(\d+)", str(error.value)).groups())
    assert 2500 <= first < last < 4000 and last - first < 1100


def test_pages_are_inflated_once_and_memory_stays_small(read, table, tmp_path):
    path = tmp_path / "wide.parquet"
    pq.write_table(table, path, row_group_size=ROWS, compression="snappy")
    read(path, every=100)
    peak, pages = read.peak, read.stats.pages_decoded
    got = read(path, predicate="id % 100 == 0", every=100)
    assert got.equals(rows_of(table, 100, 0))
    assert read.peak < peak / 2
    assert read.stats.pages_decoded <= pages + 4
    # In little memory too, where without the picks each page is inflated for every stretch of rows.
    read(path, every=100, grant=8 << 20)
    again = read.stats.pages_decoded
    read(path, predicate="id % 100 == 0", every=100, grant=8 << 20)
    assert read.stats.pages_decoded < again / 3
    assert read.peak <= 8 << 20
