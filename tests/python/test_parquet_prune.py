"""Row groups and pages that statistics, page index and bloom filters rule out: never a row too few, and few too many."""
import ctypes
import datetime
import decimal
import os
import re
import subprocess

import duckdb
import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

import parquet_probe

ROWS = 40_000


@pytest.fixture(scope="session")
def read(weir_build):
    return parquet_probe.Reader(ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so"))))


def table():
    random = numpy.random.default_rng(7)
    row = numpy.arange(ROWS)
    return pyarrow.table({
        "row": row,
        "i8": (row // 400 % 100).astype("int8"),
        "u32": (row * 100_000).astype("uint32"),
        "f": numpy.where(row % 1000 == 5, numpy.nan, row / 7),
        "text": [f"key {i:06}" for i in row],
        "day": pyarrow.array((row // 10).astype("int32")).cast(pyarrow.date32()),
        "at": pyarrow.array(row * 1000).cast(pyarrow.timestamp("s")),
        "dec": pyarrow.array(row).cast(pyarrow.decimal128(25, 2)),
        "bool": row >= 30_000,
        "some": pyarrow.array(row, mask=row < 20_000),
        "random": random.integers(0, 1000, ROWS),
    })


PREDICATES = {
    "row < 100": lambda t: pyarrow.compute.less(t["row"], 100),
    "row == 12345": lambda t: pyarrow.compute.equal(t["row"], 12345),
    "row > 39990 or row < 5": lambda t: pyarrow.compute.or_(pyarrow.compute.greater(t["row"], 39990),
                                                           pyarrow.compute.less(t["row"], 5)),
    "i8 > 98": lambda t: pyarrow.compute.greater(t["i8"], 98),
    "u32 > 3999000000": lambda t: pyarrow.compute.greater(t["u32"], 3999000000),
    "f < 3.0": lambda t: pyarrow.compute.less(t["f"], 3.0),
    "text == 'key 020000'": lambda t: pyarrow.compute.equal(t["text"], "key 020000"),
    "text >= 'key 0399'": lambda t: pyarrow.compute.greater_equal(t["text"], "key 0399"),
    "bool == True": lambda t: t["bool"],
    "bool": lambda t: t["bool"],
    "not bool": lambda t: pyarrow.compute.invert(t["bool"]),
    "bool == False and row > 29000": lambda t: pyarrow.compute.and_(pyarrow.compute.invert(t["bool"]),
                                                                   pyarrow.compute.greater(t["row"], 29000)),
    "some is not None and some < 20100": lambda t: pyarrow.compute.fill_null(pyarrow.compute.less(t["some"], 20100), False),
    "some is None and row > 19000": lambda t: pyarrow.compute.and_(pyarrow.compute.is_null(t["some"]),
                                                                  pyarrow.compute.greater(t["row"], 19000)),
    "row in (3, 39999)": lambda t: pyarrow.compute.is_in(t["row"], pyarrow.array([3, 39999])),
    "row < 0": lambda t: pyarrow.compute.less(t["row"], 0),
}


@pytest.mark.parametrize("layout", ["row groups", "pages", "both", "neither"])
@pytest.mark.parametrize("predicate", list(PREDICATES))
def test_no_row_is_lost(read, tmp_path, layout, predicate):
    want = table()
    path = tmp_path / "pruned.parquet"
    pyarrow.parquet.write_table(
        want, path, row_group_size=2000 if layout in ("row groups", "both") else ROWS, data_page_size=2000,
        write_batch_size=200, write_page_index=layout in ("pages", "both"), use_dictionary=False)
    columns = sorted({want.schema.get_field_index(name) for name in want.column_names if name in predicate} | {0})
    got = read(path, columns=columns, predicate=predicate)
    kept = set(got["row"].to_pylist())
    must = set(want.filter(PREDICATES[predicate](want))["row"].to_pylist())
    assert must <= kept
    assert len(kept) == got.num_rows
    if layout == "neither":
        assert predicate == "row < 0" or got.num_rows == ROWS
    else:
        # a page of booleans holds 16,000 rows
        assert got.num_rows <= len(must) + (16_000 if "bool" in predicate else 5000)
    rows = got["row"].to_pylist()
    assert rows == sorted(rows)
    for name in got.column_names:  # NaN is not equal to itself, but prints the same
        assert str(got[name].to_pylist()) == str(want[name].take(pyarrow.array(rows, pyarrow.int64())).to_pylist())


def test_pages_that_are_ruled_out_are_not_read(read, tmp_path):
    path = tmp_path / "pruned.parquet"
    pyarrow.parquet.write_table(table(), path, data_page_size=2000, write_batch_size=200, write_page_index=True,
                                use_dictionary=False)
    read(path)
    whole = read.stats.bytes_decompressed
    got = read(path, predicate="row >= 20000 and row < 20010")
    assert got.num_rows <= 1000
    assert read.stats.bytes_decompressed < whole / 20
    assert read.stats.pages_pruned > 10


def test_dates_and_decimals(read, tmp_path):
    """By their bounds, not by expressions on them: the groups that are left hold the value."""
    path = tmp_path / "pruned.parquet"
    pyarrow.parquet.write_table(table(), path, row_group_size=2000)
    day = table()["day"][20_000].as_py()
    got = read(path, predicate=f"day == date('{day.isoformat()}')")
    assert 20_000 in got["row"].to_pylist() and got.num_rows <= 4000
    assert isinstance(day, datetime.date) and isinstance(table()["dec"][0].as_py(), decimal.Decimal)


def test_bloom_filters(read, tmp_path):
    path = tmp_path / "bloom.parquet"
    duckdb.sql(f"""copy (select (i * 7919) % 100003 as n, 'text ' || ((i * 7919) % 100003 % 900) as t, i from range(40000) r(i))
                   to '{path}' (format parquet, row_group_size 4000, dictionary_size_limit 1000000)""")
    metadata = pyarrow.parquet.read_metadata(path)
    assert metadata.num_row_groups > 5
    values = duckdb.sql(f"select distinct t from '{path}'").fetchall()
    for predicate, sql in (("t == 'text 17'", "t = 'text 17'"), ("n == 123", "n = 123"), ("t == 'text 12345'", "false"),
                           ("n in (1, 2)", "n in (1, 2)")):
        want = {row for (row,) in duckdb.sql(f"select i from '{path}' where {sql}").fetchall()}
        got = read(path, predicate=predicate)
        assert want <= set(got["i"].to_pylist())
        if sql == "false":
            assert got.num_rows < 40_000 / 2
    assert len(values) == 900


def test_nan_is_no_bound(read, tmp_path):
    """All of a row group NaN: pyarrow then leaves the bounds out; others may not."""
    path = tmp_path / "nan.parquet"
    want = pyarrow.table({"f": numpy.concatenate([numpy.full(1000, numpy.nan), numpy.arange(1000.0)])})
    pyarrow.parquet.write_table(want, path, row_group_size=1000)
    assert read(path, predicate="not (f < 5.0)").num_rows == 2000
    assert read(path, predicate="f != 5.0").num_rows == 2000


def test_stats_say_how_many_rows_were_ruled_out(weir_command, tmp_path):
    table = pyarrow.table({"a": range(100_000)})
    pyarrow.parquet.write_table(table, tmp_path / "groups.parquet", row_group_size=10_000)
    pyarrow.parquet.write_table(table, tmp_path / "pages.parquet", write_page_index=True, data_page_size=8192)
    for name in ("groups", "pages"):
        run = subprocess.run([weir_command, "read", str(tmp_path / f"{name}.parquet"), "then", "filter", "a > 85000", "then",
                              "write", str(tmp_path / name), "--stats"], capture_output=True, text=True, check=True)
        read = int(re.search(r"^read +(\d+)", run.stderr, re.M)[1])
        ruled_out = int(re.search(r"^(\d+) rows of the input ruled out", run.stderr, re.M)[1])
        assert 14_999 <= read <= 20_000 and read + ruled_out == 100_000, run.stderr
    run = subprocess.run([weir_command, "read", str(tmp_path / "groups.parquet"), "then", "count", "--stats"],
                         capture_output=True, text=True, check=True)
    assert "ruled out" not in run.stderr
