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


@pytest.mark.parametrize("codec", CODECS)
def test_codec_is_used(write, codec):
    table = pyarrow.table({"a": [f"some text that repeats {i % 100}" for i in range(5000)]})
    path, _ = write(table, codec=codec, dictionary=False)
    name = {"none": "UNCOMPRESSED", "lz4_raw": "LZ4"}.get(codec, codec.upper())
    assert check(path, table).metadata.row_group(0).column(0).compression == name


def types_table(rows=3000, seed=1):
    """Every flat type of Arrow that Parquet can hold, extremes first."""
    random = numpy.random.default_rng(seed)

    def ints(bits, signed):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return numpy.concatenate([numpy.array([low, high, 0, 1], dtype=object),
                                  [low + int(random.integers(1 << 62)) % (high - low) for _ in range(rows - 4)]])

    def mask(values):
        return [None if i % 11 == 5 else value for i, value in enumerate(values)]

    small = [int(value) for value in random.integers(-2**31, 2**31, rows)]
    large = [int(value) for value in random.integers(-2**43, 2**43, rows)]
    words = [bytes(random.integers(0, 256, int(n), dtype="uint8")) for n in random.integers(0, 40, rows)]
    texts = ["é" * int(n) + str(n) for n in random.integers(0, 200, rows)]
    floats = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0] + list(random.normal(size=rows - 5))
    columns = {"null": pyarrow.nulls(rows), "bool": pyarrow.array(mask([bool(v % 3) for v in small]))}
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            type_ = getattr(pyarrow, f"{'' if signed else 'u'}int{bits}")()
            columns[str(type_)] = pyarrow.array(mask([int(v) for v in ints(bits, signed)]), type_)
    columns["half"] = pyarrow.array(mask([numpy.float16(v) for v in floats]), pyarrow.float16())
    columns["float"] = pyarrow.array(mask(floats), pyarrow.float32())
    columns["double"] = pyarrow.array(mask(floats), pyarrow.float64())
    for precision, scale in ((5, 2), (9, 0), (10, 3), (18, 18), (19, 4), (38, 10)):
        values = [decimal.Decimal(v % 10**min(precision, 9)).scaleb(-scale) * (1 if v % 2 else -1) for v in small]
        columns[f"decimal{precision}"] = pyarrow.array(mask(values), pyarrow.decimal128(precision, scale))
    for precision, scale in ((7, 1), (40, 0), (76, 30)):
        values = [decimal.Decimal(v % 10**min(precision, 9)).scaleb(-scale) * (1 if v % 2 else -1) for v in small]
        columns[f"wide{precision}"] = pyarrow.array(mask(values), pyarrow.decimal256(precision, scale))
    columns["date32"] = pyarrow.array(mask([v % 100000 for v in small]), pyarrow.int32()).cast(pyarrow.date32())
    columns["date64"] = columns["date32"].cast(pyarrow.date64())
    for unit, per_day in (("s", 86400), ("ms", 86400000)):
        columns[f"time32{unit}"] = pyarrow.array(mask([v % per_day for v in small]), pyarrow.time32(unit))
    for unit, per_day in (("us", 86400 * 10**6), ("ns", 86400 * 10**9)):
        columns[f"time64{unit}"] = pyarrow.array(mask([v % per_day for v in large]), pyarrow.time64(unit))
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Zurich"):
            columns[f"timestamp{unit}{zone}"] = pyarrow.array(mask(large), pyarrow.timestamp(unit, zone))
        columns[f"duration{unit}"] = pyarrow.array(mask(large), pyarrow.duration(unit))
    columns["binary"] = pyarrow.array(mask(words), pyarrow.binary())
    columns["large_binary"] = pyarrow.array(mask(words), pyarrow.large_binary())
    columns["string"] = pyarrow.array(mask(texts), pyarrow.string())
    columns["large_string"] = pyarrow.array(mask(texts), pyarrow.large_string())
    for width in (1, 4, 16, 100):
        values = [bytes(random.integers(0, 256, width, dtype="uint8")) for _ in range(rows)]
        columns[f"fixed{width}"] = pyarrow.array(mask(values), pyarrow.binary(width))
    columns["dictionary"] = pyarrow.array(mask([f"k{v % 20}" for v in small])).dictionary_encode()
    columns["dictionary8"] = pyarrow.array(mask([f"k{v % 20}" for v in small])).cast(
        pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))
    return pyarrow.table(columns)


def as_read(table):
    """What comes back when pyarrow itself writes the table: seconds as milliseconds, for one."""
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    return pyarrow.parquet.read_table(pyarrow.BufferReader(sink.getvalue()))


def same(table, expected):
    """Equal, NaN to NaN: pyarrow has no such comparison for tables."""
    assert table.schema.equals(expected.schema), f"{table.schema}\n{expected.schema}"
    for name in table.schema.names:
        got, want = table[name].combine_chunks(), expected[name].combine_chunks()
        if pyarrow.types.is_floating(got.type):
            assert got.is_null().equals(want.is_null()), name
            numpy.testing.assert_array_equal(got.to_numpy(False), want.to_numpy(False), err_msg=name)
        elif pyarrow.types.is_dictionary(got.type):
            assert got.cast(got.type.value_type).equals(want.cast(want.type.value_type)), name
        else:
            assert got.equals(want), name


@pytest.mark.parametrize("form", "fdc")
@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("dictionary", [False, True])
def test_every_type_comes_back(write, form, v2, dictionary):
    table = types_table()
    if form == "c":
        table = pyarrow.concat_tables([table.slice(3, 1)] * 3000).combine_chunks()
    path, _ = write(table, forms=form * table.num_columns, data_page_v2=v2, dictionary=dictionary)
    same(read(path), as_read(table))


@pytest.mark.parametrize("form", "fd")
def test_selected_rows_only(write, form):
    table = types_table(9000)
    keep = numpy.random.default_rng(5).random(9000) < 0.2
    path, _ = write(table, keep=keep, forms=form * table.num_columns, vector_rows=1000)
    same(read(path), as_read(table.filter(pyarrow.array(keep))))


@pytest.mark.parametrize("type_", [pyarrow.month_day_nano_interval()])
def test_types_that_parquet_lacks_are_refused(write, type_):
    with pytest.raises(WriteError, match="column c.*month_day_nano.*cannot be written to Parquet"):
        write(pyarrow.table({"c": pyarrow.nulls(3, type_)}))
    with pytest.raises(WriteError, match="column c.*at least one field"):
        write(pyarrow.table({"c": pyarrow.array([{}], pyarrow.struct([]))}))


def test_a_null_where_none_may_be(write):
    schema = pyarrow.schema([pyarrow.field("a", pyarrow.int64(), nullable=False)])
    with pytest.raises(WriteError, match="column a.*null"):
        write(pyarrow.table({"a": pyarrow.array([1, None])}, schema=schema))
    path, _ = write(pyarrow.table({"a": [1, 2]}, schema=schema))
    assert read(path).schema.equals(schema)


def test_metadata_travels(write):
    field = pyarrow.field("a", pyarrow.int64(), metadata={b"unit": b"m", b"PARQUET:field_id": b"7"})
    schema = pyarrow.schema([field], metadata={b"origin": b"a test", b"other": b""})
    path, _ = write(pyarrow.table({"a": [1]}, schema=schema))
    assert read(path).schema.equals(schema, check_metadata=True)
    assert pyarrow.parquet.ParquetFile(path).schema.to_arrow_schema().field(0).metadata[b"PARQUET:field_id"] == b"7"


def test_no_rows_and_no_columns(write):
    for table in (types_table(10).slice(0, 0), pyarrow.table({"a": pyarrow.array([], pyarrow.string())})):
        path, _ = write(table)
        same(read(path), as_read(table))


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_several_parts_in_one_file(write, parts):
    table = flat_table(50000)
    path, _ = write(table, parts=parts, row_group_rows=8192)
    file = check(path, table)
    assert file.metadata.num_row_groups >= 50000 // 8192
    assert duckdb.sql(f"select count(*), sum(few) from '{path}'").fetchall() == [(
        50000, pyarrow.compute.sum(table["few"]).as_py())]


def leaf_types():
    return st.sampled_from([
        pyarrow.int64(), pyarrow.int32(), pyarrow.int8(), pyarrow.float64(), pyarrow.string(), pyarrow.bool_(),
        pyarrow.binary(3), pyarrow.large_string(), pyarrow.date32(), pyarrow.timestamp("us", "UTC"),
        pyarrow.decimal128(12, 2)])


def types():
    def wrap(children):
        fields = st.lists(children, min_size=1, max_size=3).flatmap(lambda types: st.lists(
            st.booleans(), min_size=len(types), max_size=len(types)).map(lambda nullable: pyarrow.struct([
                pyarrow.field(f"f{i}", type_, nullable=n) for i, (type_, n) in enumerate(zip(types, nullable))])))
        return st.one_of(
            children.map(pyarrow.list_), children.map(pyarrow.large_list), fields,
            st.tuples(children, st.integers(1, 3)).map(lambda pair: pyarrow.list_(*pair)),
            leaf_types().flatmap(lambda key: children.map(lambda value: pyarrow.map_(key, value))))
    return st.recursive(leaf_types(), wrap, max_leaves=5)


def value_of(type_, random, nullable=True):
    if nullable and random.random() < 0.15:
        return None
    if pyarrow.types.is_struct(type_):
        return {field.name: value_of(field.type, random, field.nullable) for field in type_}
    if pyarrow.types.is_map(type_):
        return [(value_of(type_.key_type, random, False), value_of(type_.item_type, random))
                for _ in range(random.choice([0, 1, 2, 5]))]
    if pyarrow.types.is_fixed_size_list(type_):
        return [value_of(type_.value_type, random) for _ in range(type_.list_size)]
    if pyarrow.types.is_list(type_) or pyarrow.types.is_large_list(type_):
        return [value_of(type_.value_type, random) for _ in range(random.choice([0, 0, 1, 3, 20]))]
    if pyarrow.types.is_boolean(type_):
        return random.random() < 0.5
    if pyarrow.types.is_integer(type_):
        return random.randrange(-100, 100)
    if pyarrow.types.is_floating(type_):
        return random.choice([0.0, -1.5, 1e300, random.random()])
    if pyarrow.types.is_fixed_size_binary(type_):
        return bytes(random.randrange(256) for _ in range(3))
    if pyarrow.types.is_date32(type_):
        return datetime.date(2000, 1, 1) + datetime.timedelta(random.randrange(10000))
    if pyarrow.types.is_timestamp(type_):
        return datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(
            microseconds=random.randrange(10**15))
    if pyarrow.types.is_decimal(type_):
        return decimal.Decimal(random.randrange(-10**11, 10**11)).scaleb(-2)
    return random.choice(["", "a", "word", "longer than a view holds", "é" * random.randrange(40)])


@settings(max_examples=int(os.environ.get("WEIR_EXAMPLES", "60")), deadline=None,
          suppress_health_check=list(HealthCheck))
@given(columns=st.lists(types(), min_size=1, max_size=3), random=st.randoms(use_true_random=False),
       rows=st.sampled_from([1, 7, 100, 1500]), select=st.booleans(), codec=st.sampled_from(CODECS),
       dictionary=st.booleans(), v2=st.booleans(), parts=st.integers(1, 3), vector_rows=st.sampled_from([0, 64, 513]),
       group=st.sampled_from([0, 300]), form=st.sampled_from("fd"),
       encoding=st.sampled_from([None, None, "plain", "delta", "byte_stream_split"]))
def test_random_nested_tables(write, columns, random, rows, select, codec, dictionary, v2, parts, vector_rows, group,
                              form, encoding):
    note(str(columns))
    table = pyarrow.table({
        f"c{i}": pyarrow.array([value_of(type_, random) for _ in range(rows)], type_)
        for i, type_ in enumerate(columns)})
    keep = numpy.array([random.random() < 0.4 for _ in range(rows)]) if select else None
    path, _ = write(table, keep=keep, codec=codec, dictionary=dictionary, data_page_v2=v2, parts=parts,
                    vector_rows=vector_rows, row_group_rows=group, forms=form * len(columns), encoding=encoding)
    expected = table.filter(pyarrow.array(keep)) if select else table
    try:
        as_read(expected)
    except pyarrow.ArrowInvalid:  # pyarrow does not read its own file: fixed-size lists inside null structs
        return
    check(path, expected)


@pytest.mark.parametrize("encoding", [None, "plain", "delta", "byte_stream_split"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("nulls", [0, 0.3])
def test_encodings(write, encoding, codec, nulls):
    table = flat_table(45000, nulls, seed=3)
    path, _ = write(table, encoding=encoding, codec=codec)
    file = check(path, table)
    used = {file.schema.column(i).name: set(file.metadata.row_group(0).column(i).encodings) - {"RLE"}
            for i in range(table.num_columns)}
    if encoding == "plain":
        assert set.union(*used.values()) == {"PLAIN"}
    elif encoding == "delta":
        assert used["random"] == {"DELTA_BINARY_PACKED"} and used["text"] == {"DELTA_LENGTH_BYTE_ARRAY"}
        assert used["double"] == {"PLAIN"}
    elif encoding == "byte_stream_split":
        assert used["double"] == {"BYTE_STREAM_SPLIT"} and used["random"] == {"PLAIN"}
    else:
        assert used["few"] == used["word"] == {"PLAIN", "RLE_DICTIONARY"}
        assert used["sorted"] == {"DELTA_BINARY_PACKED"}
        assert used["random"] == {"PLAIN"} and used["text"] == {"DELTA_LENGTH_BYTE_ARRAY"}


def test_integers_of_every_width_in_deltas(write):
    random = numpy.random.default_rng(7)
    columns = {f"b{bits}": random.integers(-2**bits, 2**bits, 1000) for bits in range(0, 63)}
    columns["extremes"] = numpy.where(random.random(1000) < 0.5, -2**63, 2**63 - 1)
    for bits in range(0, 31):
        columns[f"n{bits}"] = random.integers(-2**bits, 2**bits, 1000).astype("int32")
    columns["narrow"] = numpy.where(random.random(1000) < 0.5, -2**31, 2**31 - 1).astype("int32")
    table = pyarrow.table(columns)
    for rows in (1000, 129, 128, 1):
        check(write(table.slice(0, rows), encoding="delta")[0], table.slice(0, rows))


def others_agree(path, expected):
    """DuckDB and Polars see the same rows."""
    got = duckdb.sql(f"select * from read_parquet('{path}')").to_arrow_table()
    assert got.cast(expected.schema).combine_chunks().equals(expected.combine_chunks())
    got = polars.read_parquet(path).to_arrow()
    assert got.cast(expected.schema).combine_chunks().equals(expected.combine_chunks())


@pytest.mark.sample(6)
@pytest.mark.parametrize("encoding", [None, "plain", "delta", "byte_stream_split"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("v2", [False, True])
def test_duckdb_and_polars_read_it(write, encoding, codec, v2):
    table = flat_table(45000, 0.2, seed=4)
    lists = [None if i % 7 == 0 else list(range(i % 5)) for i in range(45000)]
    structs = [None if i % 9 == 0 else {"x": i, "y": None if i % 2 else [f"s{i % 30}"]} for i in range(45000)]
    table = table.append_column("list", pyarrow.array(lists)).append_column("struct", pyarrow.array(structs))
    path, _ = write(table, encoding=encoding, codec=codec, data_page_v2=v2, row_group_rows=20000)
    others_agree(path, table)


def test_dictionary_given_up_half_way(write):
    """Few values at first, distinct ones later: coded pages, then others, in one chunk."""
    rows = 200000
    table = pyarrow.table({
        "int": numpy.concatenate([numpy.arange(60000) % 50, numpy.arange(rows - 60000) * 7919 % 1000003]),
        "text": [f"key {i % 50}" for i in range(60000)] + [f"value {i} of its own" for i in range(rows - 60000)]})
    path, _ = write(table)
    file = check(path, table)
    for i in range(2):
        encodings = set(file.metadata.row_group(0).column(i).encodings)
        assert "RLE_DICTIONARY" in encodings and any("DELTA" in encoding for encoding in encodings)
    others_agree(path, table)


@pytest.mark.parametrize("rows_repeat", [1, 3, 7, 8, 9, 15, 64, 5000])
def test_runs_of_codes(write, rows_repeat):
    values = numpy.repeat(numpy.random.default_rng(rows_repeat).integers(0, 37, 9000 // rows_repeat + 1), rows_repeat)
    table = pyarrow.table({"a": values[:9000], "b": [f"v{v}" for v in values[:9000]]})
    path, _ = write(table)
    check(path, table)



def test_pages_of_nulls_before_the_first_values(write):
    """A chunk has one codec, also when the first page with values would rather have none."""
    table = pyarrow.table({"i": pyarrow.array([None] * 60_000 + [7] * 10 + [None] * 30_000, pyarrow.int64())})
    path, _ = write(table, row_group_rows=200_000)
    assert read(path).equals(table)
    others_agree(path, table)


def test_statistics(write):
    nan = float("nan")
    table = pyarrow.table({
        "int": pyarrow.array([3, None, -5, 9]), "unsigned": pyarrow.array([1, 2**63 + 5, None, 7], pyarrow.uint64()),
        "float": [nan, 0.0, nan, 2.5], "negative zero": [-0.0, 5.0, -0.0, 1.0], "nan": [nan] * 4,
        "text": ["b", "a" * 100, "é" * 70, None], "high": ["\U0010ffff" * 40, "\U0010ffff" * 40, "x", "x"],
        "bytes": pyarrow.array([b"\xff" * 70, b"a", b"b", b"c"]), "bool": [True, True, None, True],
        "null": pyarrow.array([None] * 4, pyarrow.int32()), "fixed": pyarrow.array([b"ab", b"zz", b"aa", None],
                                                                                   pyarrow.binary(2)),
        "decimal": pyarrow.array([decimal.Decimal(-3), decimal.Decimal(2), None, decimal.Decimal(-9)],
                                 pyarrow.decimal128(30, 0)),
        "half": pyarrow.array([numpy.float16(v) for v in (nan, -2.0, 0.0, 1.5)], pyarrow.float16())})
    for dictionary in (False, True):
        path, _ = write(table, dictionary=dictionary)
        group = pyarrow.parquet.ParquetFile(path).metadata.row_group(0)
        found = {group.column(i).path_in_schema: group.column(i).statistics for i in range(group.num_columns)}
        assert (found["int"].min, found["int"].max, found["int"].null_count) == (-5, 9, 1)
        assert (found["unsigned"].min, found["unsigned"].max) == (1, 2**63 + 5)
        assert (found["float"].min, found["float"].max) == (0.0, 2.5)
        assert numpy.signbit(found["float"].min) and numpy.signbit(found["negative zero"].min)
        assert not found["nan"].has_min_max and not found["null"].has_min_max and found["null"].null_count == 4
        assert found["text"].min == "a" * 64 and "é" * 31 < found["text"].max < "ê" * 40
        assert not found["high"].has_min_max and not found["bytes"].has_min_max
        assert (found["bool"].min, found["bool"].max) == (True, True)
        assert (found["fixed"].min, found["fixed"].max) == (b"aa", b"zz")
        assert (found["decimal"].min, found["decimal"].max) == (decimal.Decimal(-9), decimal.Decimal(2))
        for i in range(group.num_columns):
            name = group.column(i).path_in_schema
            assert group.column(i).has_offset_index
            assert group.column(i).has_column_index == (name not in ("nan", "high", "bytes", "null")) or name == "null"
    path, _ = write(table, statistics=False, page_index=False)
    group = pyarrow.parquet.ParquetFile(path).metadata.row_group(0)
    assert not group.column(0).statistics.has_min_max and not group.column(0).has_offset_index


def test_a_thousand_columns_in_little_memory(write):
    random = numpy.random.default_rng(11)
    columns = {f"i{i}": random.integers(0, 1 << 40, 12000) for i in range(350)}
    columns |= {f"d{i}": random.random(12000) for i in range(350)}
    words = numpy.array([f"word {i}" for i in range(400)], dtype=object)
    columns |= {f"s{i}": words[random.integers(0, 400, 12000)] for i in range(300)}
    table = pyarrow.table(columns)
    path, probe = write(table, grant=32 << 20, vector_rows=128)  # vectors hold about 1 MiB
    file = check(path, table)
    assert probe.held_peak <= 32 << 20
    # Row groups are cut by what they hold, not vector by vector.
    assert 1 <= file.metadata.num_row_groups <= 40


def test_values_far_larger_than_a_page(write):
    table = pyarrow.table({"a": [b"x" * (24 << 20), None, b"", b"y" * 1000] * 2, "b": [1, 2, 3, 4] * 2})
    for dictionary in (False, True):
        path, probe = write(table, vector_rows=1, grant=200 << 20, dictionary=dictionary)
        check(path, table)
    table = pyarrow.table({"a": [list(range(1200000)), [], None, [1]]})
    path, probe = write(table, grant=200 << 20)
    check(path, table)


def plain_types():
    leaves = st.sampled_from([pyarrow.int64(), pyarrow.int32(), pyarrow.float64(), pyarrow.string(), pyarrow.bool_(),
                              pyarrow.date32(), pyarrow.timestamp("us", "UTC")])
    return st.recursive(leaves, lambda children: st.one_of(
        children.map(pyarrow.list_), st.lists(children, min_size=1, max_size=3).map(
            lambda types: pyarrow.struct([(f"f{i}", type_) for i, type_ in enumerate(types)]))), max_leaves=5)


@settings(max_examples=int(os.environ.get("WEIR_EXAMPLES", "30")), deadline=None,
          suppress_health_check=list(HealthCheck))
@given(columns=st.lists(plain_types(), min_size=1, max_size=3), random=st.randoms(use_true_random=False),
       rows=st.sampled_from([1, 50, 3000]), codec=st.sampled_from(CODECS), v2=st.booleans(),
       encoding=st.sampled_from([None, None, "plain", "delta", "byte_stream_split"]))
def test_random_nested_tables_elsewhere(write, columns, random, rows, codec, v2, encoding):
    note(str(columns))
    table = pyarrow.table({
        f"c{i}": pyarrow.array([value_of(type_, random) for _ in range(rows)], type_)
        for i, type_ in enumerate(columns)})
    path, _ = write(table, codec=codec, data_page_v2=v2, encoding=encoding, row_group_rows=700)
    others_agree(path, table)


class Thrift:
    """The compact protocol, as much of it as Parquet's indexes need: a struct is a dict by field id."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value, shift = 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            number = self.varint()
            return (number >> 1) ^ -(number & 1)
        if kind == 8:
            size = self.varint()
            self.at += size
            return bytes(self.data[self.at - size:self.at])
        if kind in (9, 10):
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(self.byte() if head & 15 in (1, 2) else head & 15) for _ in range(size)]
        assert kind == 12
        return self.struct()

    def struct(self):
        fields, last = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            last = last + (head >> 4) if head >> 4 else self.value(4)
            fields[last] = self.value(head & 15)


@pytest.mark.parametrize("parts", [1, 3])
def test_the_page_index_tells_where_pages_are_and_what_they_hold(write, parts):
    rows = 130000
    random = numpy.random.default_rng(12)
    numbers = random.integers(-10**12, 10**12, rows)
    table = pyarrow.table({
        "sorted": numpy.arange(rows) * 3, "down": -numpy.arange(rows), "number": numbers,
        "some": pyarrow.array(numbers, mask=(numpy.arange(rows) // 20000 % 2 == 0)),
        "text": [f"{v:x}" for v in numbers], "word": [f"w{v % 90:02}" for v in numbers],
        "list": pyarrow.array([[int(v)] * int(v % 3) for v in numbers])})
    path, _ = write(table, parts=parts, row_group_rows=70000)
    data = path.read_bytes()
    footer = Thrift(data[-8 - int.from_bytes(data[-8:-4], "little"):-8]).struct()
    assert sum(group[3] for group in footer[4]) == rows
    begin = 0
    for group in footer[4]:
        for name, chunk in zip(table.schema.names, group[1]):
            locations = Thrift(data[chunk[4]:chunk[4] + chunk[5]]).struct()[1]
            index = Thrift(data[chunk[6]:chunk[6] + chunk[7]]).struct()
            column = table[name].slice(begin, group[3]).to_pylist()
            assert len(locations) == len(index[1]) == len(index[2]) == len(index[3]) == len(index[5])
            assert locations[0][1] == chunk[3][9] and locations[0][3] == 0
            firsts = [location[3] for location in locations] + [group[3]]
            bounds = []
            for i, location in enumerate(locations):
                header = Thrift(data[location[1]:location[1] + location[2]])
                fields = header.struct()
                assert fields[1] == 0 and header.at + fields[3] == location[2]
                values = column[firsts[i]:firsts[i + 1]]
                if name == "list":
                    assert fields[5][1] == sum(max(1, len(value)) for value in values)
                    empty = sum(not value for value in values)
                    values = [item for value in values for item in value] + [None] * empty
                else:
                    assert fields[5][1] == len(values)
                present = [value for value in values if value is not None]
                assert index[5][i] == len(values) - len(present)
                assert index[1][i] == (not present)
                if present:
                    low, high = index[2][i], index[3][i]
                    if name in ("text", "word"):
                        low, high = low.decode(), high.decode()
                    else:
                        low, high = (int.from_bytes(value, "little", signed=True) for value in (low, high))
                    assert (low, high) == (min(present), max(present))
                    bounds.append((low, high))
            if len(bounds) > 1:
                assert index[4] == {"sorted": 1, "down": 2}.get(name, index[4])
            assert len(locations) >= group[3] // 24096
        begin += group[3]
    assert begin == rows


def test_every_type_means_the_same_to_duckdb_and_polars(write, tmp_path):
    """What they make of weir's file is what they make of pyarrow's, type by type."""
    table = types_table(2000)
    for name in table.schema.names:
        column = table.select([name])
        path, _ = write(column)
        other = tmp_path / "other.parquet"
        pyarrow.parquet.write_table(column, other)
        for reader in (lambda file: duckdb.sql(f"select * from read_parquet('{file}')").to_arrow_table(),
                       lambda file: polars.read_parquet(file).to_arrow()):
            try:
                expected = reader(other)
            except Exception:  # a type that this library does not know
                continue
            same(reader(path), expected)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), column=st.sampled_from(["sorted", "few", "double", "price", "int32", "word", "text"]),
       place=st.floats(0, 1), nulls=st.sampled_from([0, 0.3]))
def test_duckdb_prunes_by_our_statistics(write, seed, column, place, nulls):
    table = flat_table(30000, nulls, seed=seed)
    path, _ = write(table, row_group_rows=6000)
    values = pyarrow.compute.drop_null(table[column]).sort().combine_chunks()
    bound = values[int(place * (len(values) - 1))]
    literal = f"'{bound}'" if column in ("word", "text") else repr(bound.as_py())
    for operator, function in ((">", "greater"), ("=", "equal"), ("<", "less")):
        wanted = pyarrow.compute.sum(getattr(pyarrow.compute, function)(table[column], bound)).as_py()
        found = duckdb.sql(f"select count(*) from read_parquet('{path}') where \"{column}\" {operator} {literal}")
        assert found.fetchall() == [(wanted or 0,)], f"{column} {operator} {literal}, seed {seed}"


def test_extension_types_come_back(write):
    tensor = pyarrow.fixed_shape_tensor(pyarrow.float32(), [2, 3])
    storage = pyarrow.array([[float(i + k) for k in range(6)] for i in range(100)], pyarrow.list_(pyarrow.float32(), 6))
    table = pyarrow.table({"tensor": pyarrow.ExtensionArray.from_storage(tensor, storage),
                           "json": pyarrow.array([f'{{"a": {i}}}' for i in range(100)], pyarrow.json_()),
                           "uuid": pyarrow.array([i.to_bytes(16, "big") for i in range(100)], pyarrow.uuid())})
    path, _ = write(table)
    got = read(path)
    assert got.schema.field("tensor").type == tensor
    assert got.equals(table)


def test_dictionaries_inside_lists_and_structs(write):
    random = numpy.random.default_rng(13)
    words = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(random.integers(0, 5, 4000), pyarrow.int16(), mask=random.random(4000) < 0.1),
        pyarrow.array(["a", None, "a longer word of its own", "", "é"]))
    offsets = pyarrow.array(numpy.concatenate([[0], numpy.sort(random.integers(0, 4001, 999)), [4000]]), pyarrow.int32())
    lists = pyarrow.ListArray.from_arrays(offsets, words)
    structs = pyarrow.StructArray.from_arrays([words.slice(7, 1000), lists], names=["word", "list"],
                                              mask=pyarrow.array(random.random(1000) < 0.2))
    table = pyarrow.table({"struct": structs.slice(100), "list": lists.slice(100), "flat": words.slice(3, 900)})
    path, _ = write(table, keep=numpy.arange(900) % 3 != 1)
    got = read(path)
    expected = table.filter(pyarrow.array(numpy.arange(900) % 3 != 1))
    for name in table.schema.names:
        assert got[name].to_pylist() == expected[name].to_pylist()


@pytest.mark.parametrize("form", ["flat", "dictionary", "nulls"])
def test_pages_of_long_texts_are_no_larger_than_others(write, form):
    """A vector of rows may hold far more bytes than a page should: its rows are spread over several."""
    rows = 1500
    texts = [None if form == "nulls" and i % 3 == 0 else chr(97 + i % 26) * 10000 + str(i if form != "dictionary" else i % 700) for i in range(rows)]
    path, _ = write(pyarrow.table({"a": texts}), dictionary=form == "dictionary", grant=200 << 20, codec="none")
    data = path.read_bytes()
    assert pyarrow.parquet.read_table(path)["a"].to_pylist() == texts
    group, = Thrift(data[-8 - int.from_bytes(data[-8:-4], "little"):-8]).struct()[4]
    chunk = group[1][0]
    sizes = [location[2] for location in Thrift(data[chunk[4]:chunk[4] + chunk[5]]).struct()[1]]
    assert max(sizes) < 2.2 * (1 << 20), sizes
