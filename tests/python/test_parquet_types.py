"""Every type that pyarrow, DuckDB and Polars put into Parquet files, read by weir."""
import ctypes
import datetime
import decimal
import os

import duckdb
import numpy
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import parquet_probe


@pytest.fixture(scope="session")
def read(weir_build):
    return parquet_probe.Reader(ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so"))))


D = decimal.Decimal

# type → values without None
VALUES = {
    pyarrow.bool_(): [True, False, True],
    pyarrow.int8(): [-128, 127, 0], pyarrow.int16(): [-2**15, 2**15 - 1, 7],
    pyarrow.int32(): [-2**31, 2**31 - 1, 7], pyarrow.int64(): [-2**63, 2**63 - 1, 7],
    pyarrow.uint8(): [0, 255, 3], pyarrow.uint16(): [0, 2**16 - 1, 3], pyarrow.uint32(): [0, 2**32 - 1, 3],
    pyarrow.uint64(): [0, 2**64 - 1, 3],
    pyarrow.float16(): [1.5, -2.0, 65504.0], pyarrow.float32(): [1.5, float("inf"), -0.0],
    pyarrow.float64(): [1e300, float("-inf"), 0.1],
    pyarrow.date32(): [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1)],
    pyarrow.date64(): [datetime.date(1600, 1, 1), datetime.date(2200, 12, 31), datetime.date(1970, 1, 1)],
    pyarrow.time32("s"): [1, 86399, 0], pyarrow.time32("ms"): [1, 86_399_999, 0],
    pyarrow.time64("us"): [1, 86_399_999_999, 0], pyarrow.time64("ns"): [1, 86_399_999_999_999, 0],
    **{pyarrow.timestamp(unit, zone): [-1, 10**9, 0] for unit in ("s", "ms", "us", "ns")
       for zone in (None, "UTC", "Europe/Zurich", "+02:00")},
    **{pyarrow.duration(unit): [-1, 10**9, 0] for unit in ("s", "ms", "us", "ns")},
    pyarrow.string(): ["", "Zürich", "x" * 300], pyarrow.large_string(): ["", "Zürich", "x" * 300],
    pyarrow.binary(): [b"", b"\x00\xff", b"x" * 300], pyarrow.large_binary(): [b"", b"\x00\xff", b"x" * 300],
    pyarrow.binary(1): [b"a", b"\x00", b"\xff"], pyarrow.binary(16): [b"a" * 16, b"\x00" * 16, b"\xff" * 16],
    pyarrow.binary(33): [b"a" * 33, b"\x00" * 33, b"\xff" * 33],
    pyarrow.decimal128(1, 0): [D(9), D(-9), D(0)], pyarrow.decimal128(9, 3): [D("999999.999"), D("-1.5"), D(0)],
    pyarrow.decimal128(18, 0): [D(10**18 - 1), D(-10**18 + 1), D(0)],
    pyarrow.decimal128(38, 10): [D("1234567890123456789012345678.0123456789"), D("-0.0000000001"), D(0)],
    pyarrow.decimal128(20, 5): [D("123456789012345.12345"), D("-0.00001"), D(0)],
    pyarrow.decimal256(20, 5): [D("123456789012345.12345"), D("-0.00001"), D(0)],
    pyarrow.decimal256(76, 0): [D(10**76 - 1), D(-10**76 + 1), D(0)],
    pyarrow.dictionary(pyarrow.int32(), pyarrow.string()): ["a", "b", "a"],
    pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()): [1, 2, 1],
    pyarrow.dictionary(pyarrow.uint16(), pyarrow.large_string(), ordered=True): ["a", "b", "a"],
    pyarrow.list_(pyarrow.int64()): [[1, None], [], [2]],
    pyarrow.large_list(pyarrow.string()): [["a", None], [], [""]],
    pyarrow.list_(pyarrow.float32(), 2): [[1.0, 2.0], [3.0, None], [5.0, 6.0]],
    pyarrow.list_(pyarrow.field("item", pyarrow.int32(), nullable=False), 3): [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    pyarrow.struct([("a", pyarrow.int32()), ("b", pyarrow.list_(pyarrow.string()))]):
        [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, {"a": 3, "b": []}],
    pyarrow.map_(pyarrow.string(), pyarrow.int32()): [[("a", 1), ("b", None)], [], [("", 0)]],
    pyarrow.map_(pyarrow.int16(), pyarrow.list_(pyarrow.bool_()), keys_sorted=True): [[(1, [True])], [], [(2, None)]],
    pyarrow.list_(pyarrow.timestamp("s", "UTC")): [[1, None], [], [2]],
    pyarrow.list_(pyarrow.decimal128(30, 2)): [[D("1.25"), None], [], [D("-3.00")]],
    pyarrow.struct([("t", pyarrow.time32("s")), ("d", pyarrow.date64()), ("u", pyarrow.large_binary())]):
        [{"t": 1, "d": datetime.date(2000, 1, 1), "u": b"x"}, {"t": None, "d": None, "u": None},
         {"t": 2, "d": datetime.date(1950, 1, 1), "u": b""}],
}


def same(got, want):
    assert got.schema.remove_metadata() == want.schema.remove_metadata()
    for name in want.column_names:
        a, b = got.column(name).combine_chunks(), want.column(name).combine_chunks()
        a.validate(full=True)
        assert a.to_pylist() == b.to_pylist() if not a.type.equals(pyarrow.float16()) else a.equals(b), name


@pytest.mark.parametrize("kind", list(VALUES), ids=str)
def test_arrow_types_come_back_as_they_went(read, tmp_path, kind):
    values = VALUES[kind]
    table = pyarrow.Table.from_arrays(
        [pyarrow.array(values * 50, kind), pyarrow.array((values + [None]) * 37 + [None, None], kind)],
        schema=pyarrow.schema([pyarrow.field("all", kind, nullable=False), pyarrow.field("some", kind)]))
    path = tmp_path / "type.parquet"
    for options in ({}, {"use_dictionary": False}, {"data_page_version": "2.0", "data_page_size": 50},
                    {"store_decimal_as_integer": True}):
        pyarrow.parquet.write_table(table, path, **options)
        same(read(path), table)
        same(read(path, every=3, phase=1), take(table, range(1, 150, 3)))


def take(table, rows):
    return pyarrow.concat_tables([table.slice(row, 1) for row in rows])


def test_unsigned_in_files_of_version_1(read, tmp_path):
    table = pyarrow.table({"u": pyarrow.array([1, None, 2**32 - 1], pyarrow.uint32())})
    pyarrow.parquet.write_table(table, tmp_path / "u.parquet", version="1.0")
    same(read(tmp_path / "u.parquet"), table)


def test_int96(read, tmp_path):
    times = [None, 0, -1, 10**18, -9 * 10**18, 1_600_000_000_123_456_789]
    table = pyarrow.table({"t": pyarrow.array(times * 10, pyarrow.timestamp("ns"))})
    for dictionary in (False, True):
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True,
                                    use_dictionary=dictionary)
        same(read(tmp_path / "t.parquet"), table)


def test_extension_types(read, tmp_path):
    tensor = pyarrow.fixed_shape_tensor(pyarrow.int32(), [2, 2])
    table = pyarrow.table({
        "uuid": pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), pyarrow.array([b"x" * 16, None], pyarrow.binary(16))),
        "tensor": pyarrow.ExtensionArray.from_storage(
            tensor, pyarrow.array([[1, 2, 3, 4], None], pyarrow.list_(pyarrow.int32(), 4))),
    })
    pyarrow.parquet.write_table(table, tmp_path / "e.parquet")
    got = read(tmp_path / "e.parquet")
    assert got.schema == table.schema
    assert got.column("uuid").to_pylist() == table.column("uuid").to_pylist()
    assert got.column("tensor").combine_chunks().storage.equals(table.column("tensor").combine_chunks().storage)


def test_metadata_of_schema_and_fields(read, tmp_path):
    field = pyarrow.field("a", pyarrow.int32(), metadata={"unit": "km"})
    table = pyarrow.Table.from_arrays([pyarrow.array([1], pyarrow.int32())],
                                      schema=pyarrow.schema([field], metadata={"made": "by hand"}))
    pyarrow.parquet.write_table(table, tmp_path / "m.parquet")
    got = read(tmp_path / "m.parquet")
    assert got.schema.field("a").metadata == {b"unit": b"km"}
    assert got.schema.metadata == {b"made": b"by hand"}


def test_without_arrow_schema(read, tmp_path):
    """Types are then the file's own; pyarrow's reader is the oracle."""
    kinds = [kind for kind in VALUES if not pyarrow.types.is_map(kind)]
    table = pyarrow.table({str(i): pyarrow.array(VALUES[kind] + [None], kind) for i, kind in enumerate(kinds)})
    path = tmp_path / "bare.parquet"
    pyarrow.parquet.write_table(table, path, store_schema=False)
    got, want = read(path), pyarrow.parquet.read_table(path)
    for name, kind in zip(want.column_names, kinds):
        a, b = got.column(name).combine_chunks(), want.column(name).combine_chunks()
        assert a.type == b.type, kind
        assert a.equals(b), kind


DUCKDB = """
    select (i % 2 = 0) as bool, i::tinyint as i8, i::smallint as i16, i::integer as i32, i::bigint as i64,
           i::utinyint as u8, i::usmallint as u16, i::uinteger as u32, i::ubigint as u64,
           i::float as f, i::double as d, (i / 7)::decimal(4, 2) as dec4, (i / 7)::decimal(9, 3) as dec9,
           (i / 7)::decimal(18, 5) as dec18, (i / 7)::decimal(38, 10) as dec38,
           'text ' || i as t, encode('bytes ' || i) as b, date '2020-01-01' + i::integer as day,
           time '01:02:03.456789' as clock, timestamp '2020-01-01 01:02:03.456789' + to_seconds(i) as ts,
           timestamptz '2020-01-01 01:02:03.456789+00' + to_seconds(i) as tz,
           epoch_ms(i * 1000)::timestamp_ms as ts_ms, make_timestamp_ns(i * 1000003)::timestamp_ns as ts_ns,
           (case when i % 3 = 0 then 'a' else 'bb' end)::enum('a', 'bb') as e,
           md5(i::varchar)::uuid as u, [i, null, i + 1] as list, [[i], [], null] as lists,
           {'a': i, 'b': 't' || i, 'c': [i]} as struct, map {i: 'x', i + 1: null} as map,
           case when i % 4 > 0 then i end as some, '{"a": 1}'::json as js
    from range(100) r(i)
"""


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "uncompressed", "lz4_raw", "brotli"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_duckdb_writes(read, tmp_path, codec, version):
    path = tmp_path / "duck.parquet"
    duckdb.sql(f"copy ({DUCKDB}) to '{path}' (format parquet, compression {codec}, parquet_version {version})")
    got, want = read(path), pyarrow.parquet.read_table(path)
    for name in want.column_names:
        a, b = got.column(name), want.column(name)
        a.validate(full=True)
        b = pyarrow.chunked_array([chunk.storage if hasattr(chunk, "storage") else chunk for chunk in b.chunks])
        if b.type != a.type:
            b = b.cast(a.type)
        assert a.to_pylist() == b.to_pylist(), name


def test_duckdb_intervals(read, tmp_path):
    path = tmp_path / "interval.parquet"
    duckdb.sql(f"""copy (select interval (i) month + interval (i + 1) day + interval (i + 2) second as v
                         from range(20) r(i)) to '{path}'""")
    got = read(path).column("v")
    assert got.type == pyarrow.month_day_nano_interval()
    assert got.to_pylist() == [pyarrow.MonthDayNano([i, i + 1, (i + 2) * 10**9]) for i in range(20)]


def test_polars_writes(read, tmp_path):
    path = tmp_path / "polars.parquet"
    frame = polars.DataFrame({
        "i": [1, None, 3], "f": [1.5, None, float("inf")], "s": ["a", None, "Zürich"], "b": [b"x", None, b""],
        "bool": [True, None, False], "day": [datetime.date(2020, 1, 1), None, datetime.date(1960, 1, 1)],
        "at": [datetime.datetime(2020, 1, 1, 1, 2, 3, 456789), None, datetime.datetime(1960, 1, 1)],
        "clock": [datetime.time(1, 2, 3, 456789), None, datetime.time(0)],
        "list": [[1, None], None, []], "deep": [[["a"], []], None, [None]],
        "struct": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 3, "b": ""}],
        "took": [datetime.timedelta(seconds=1), None, datetime.timedelta(microseconds=5)],
    }).with_columns(
        polars.col("s").cast(polars.Categorical).alias("cat"), polars.col("s").cast(polars.Enum(["a", "Zürich"])).alias("enum"),
        polars.col("i").cast(polars.UInt8).alias("u8"), polars.col("i").cast(polars.Int16).alias("i16"),
        polars.col("i").cast(polars.Decimal(20, 3)).alias("dec"),
        polars.Series("array", [[1, 2], None, [3, None]], polars.Array(polars.Int64, 2)),
        polars.col("at").dt.replace_time_zone("Europe/Zurich").alias("zoned"))
    for codec in ("snappy", "zstd", "lz4", "gzip", "brotli", "uncompressed"):
        frame.write_parquet(path, compression=codec)
        got, want = read(path), pyarrow.parquet.read_table(path)
        for name in want.column_names:
            a, b = got.column(name), want.column(name)
            a.validate(full=True)
            assert a.to_pylist() == b.to_pylist(), name


SCALARS = [kind for kind in VALUES if not pyarrow.types.is_nested(kind) and not pyarrow.types.is_dictionary(kind)]


@settings(max_examples=int(os.environ.get("WEIR_EXAMPLES", 100)), deadline=None, print_blob=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), codec=st.sampled_from(["none", "snappy", "zstd", "lz4", "gzip"]),
       page=st.sampled_from([10, 300, 1 << 20]), version=st.sampled_from(["1.0", "2.0"]), dictionary=st.booleans())
def test_random_flat_tables(read, tmp_path, data, codec, page, version, dictionary):
    count = data.draw(st.integers(1, 6), "columns")
    rows = data.draw(st.integers(0, 300), "rows")
    seed = data.draw(st.integers(0, 2**32), "seed")
    random = numpy.random.default_rng(seed)
    columns, fields = [], []
    for number in range(count):
        kind = data.draw(st.sampled_from(SCALARS), "type")
        nulls = data.draw(st.sampled_from([0.0, 0.01, 0.5, 1.0]), "nulls")
        values = VALUES[kind]
        column = [None if random.random() < nulls else values[random.integers(len(values))] for _ in range(rows)]
        columns.append(pyarrow.array(column, kind))
        fields.append(pyarrow.field(f"c{number}", kind, nullable=nulls > 0))
    table = pyarrow.Table.from_arrays(columns, schema=pyarrow.schema(fields))
    path = tmp_path / "flat.parquet"
    pyarrow.parquet.write_table(table, path, compression=codec, data_page_size=page, data_page_version=version,
                                use_dictionary=dictionary, write_batch_size=16)
    note(str(table.schema))
    same(read(path), table)
