"""Parquet files that pyarrow, DuckDB and Polars wrote, read by weir."""
import ctypes
import os

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import parquet_probe
from parquet_probe import ReadError


@pytest.fixture(scope="session")
def read(weir_build):
    return parquet_probe.Reader(ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so"))))


def same(got, want):
    """Equal values and nulls; types may differ where Arrow's reader keeps less."""
    assert got.num_rows == want.num_rows
    assert got.column_names == want.column_names
    for name in want.column_names:
        a, b = got.column(name), want.column(name)
        if a.type != b.type:
            b = b.cast(a.type)
        assert a.combine_chunks().to_pylist() == b.combine_chunks().to_pylist() or a.equals(b), (name, a.type, b.type)
        for chunk in a.chunks:
            chunk.validate(full=True)


def flat_table(rows=30_000, seed=1):
    random = numpy.random.default_rng(seed)
    words = numpy.array(["air", "truck", "", "a text that is longer than twelve bytes", "Zürich"])
    return pyarrow.table({
        "long": pyarrow.array(random.integers(-2**62, 2**62, rows)),
        "small": pyarrow.array(random.integers(0, 40, rows)),
        "double": pyarrow.array(random.random(rows)),
        "word": pyarrow.array(words[random.integers(0, 5, rows)]),
        "unique": pyarrow.array([f"row {i} of {rows}" + "x" * (i % 17) for i in range(rows)]),
        "int": pyarrow.array(random.integers(-2**31, 2**31, rows).astype("int32")),
        "date": pyarrow.array(random.integers(0, 20000, rows).astype("int32")).cast(pyarrow.date32()),
        "bool": pyarrow.array(random.random(rows) < 0.3),
        "null_long": pyarrow.array(random.integers(0, 2**40, rows), mask=random.random(rows) < 0.2),
        "null_word": pyarrow.array(words[random.integers(0, 5, rows)], mask=random.random(rows) < 0.5),
        "null_unique": pyarrow.array([None if i % 3 == 0 else f"{i}" * (i % 5) for i in range(rows)]),
        "null_bool": pyarrow.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.1),
        "never": pyarrow.array([None] * rows, pyarrow.int64()),
        "rarely": pyarrow.array([i if i % 9973 == 5 else None for i in range(rows)], pyarrow.float64()),
    })


def required(table):
    return table.cast(pyarrow.schema([field.with_nullable(table.column(field.name).null_count > 0)
                                      for field in table.schema]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
@pytest.mark.parametrize("nulls", ["optional", "required"])
def test_flat_columns(read, tmp_path, codec, nulls):
    table = flat_table() if nulls == "optional" else required(flat_table())
    for options in ({}, {"data_page_size": 3000}, {"use_dictionary": False}, {"row_group_size": 7001},
                    {"dictionary_pagesize_limit": 2000}, {"data_page_version": "2.0"}):
        path = tmp_path / "flat.parquet"
        pyarrow.parquet.write_table(table, path, compression=codec, **options)
        same(read(path), table)


@pytest.mark.parametrize("every, phase", [(2, 0), (7, 3), (100, 99), (5000, 17), (29_999, 0)])
@pytest.mark.parametrize("options", [{}, {"data_page_size": 3000}, {"use_dictionary": False, "data_page_size": 1000}],
                         ids=str)
def test_selected_rows(read, tmp_path, every, phase, options):
    table = flat_table()
    path = tmp_path / "flat.parquet"
    for table in (table, required(table)):
        pyarrow.parquet.write_table(table, path, **options)
        same(read(path, every=every, phase=phase), table.take(numpy.arange(phase, len(table), every)))


def test_vectors_that_nobody_decodes(read, tmp_path):
    table = flat_table(100_000)
    path = tmp_path / "flat.parquet"
    pyarrow.parquet.write_table(table, path, data_page_size=3000, use_dictionary=False)
    read(path, columns=[0])
    whole = read.stats.bytes_decompressed
    got = read(path, vectors=9)
    pieces = [table.slice(begin, 4096) for begin in range(0, len(table), 4096 * 9)]
    same(got, pyarrow.concat_tables(pieces))
    read(path, columns=[0], vectors=9)
    assert read.stats.bytes_decompressed < whole / 5


@pytest.mark.parametrize("index", [False, True])
def test_ranges_cover_the_file_once(read, tmp_path, index):
    table = flat_table(100_000)
    path = tmp_path / "flat.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=60_000, data_page_size=20_000, write_page_index=index)
    for target in (1, 100_000, 3_000_000, 1 << 40):
        same(read(path, bytes_target=target), table)
    for begin, end in ((0, 1), (59_990, 60_010), (99_999, 100_000), (12_345, 77_777)):
        same(read(path, rows=(begin, end)), table.slice(begin, end - begin))


def test_columns_in_any_order_and_none(read, tmp_path):
    table = flat_table(5000)
    path = tmp_path / "flat.parquet"
    pyarrow.parquet.write_table(table, path)
    same(read(path, columns=[5, 0, 3]), table.select(["int", "long", "word"]))
    assert read(path, columns=[]).num_columns == 0


# ── encodings ──

ENCODINGS = {
    "PLAIN": ["i32", "i64", "f", "d", "text", "bytes", "fixed", "flag", "half"],
    "DELTA_BINARY_PACKED": ["i32", "i64", "sorted", "same"],
    "DELTA_LENGTH_BYTE_ARRAY": ["text", "bytes"],
    "DELTA_BYTE_ARRAY": ["text", "bytes", "fixed", "paths"],
    "BYTE_STREAM_SPLIT": ["i32", "i64", "f", "d", "fixed", "half"],
    "RLE": ["flag"],
}


def encodings_table(rows=20_000):
    random = numpy.random.default_rng(5)
    columns = {
        "i32": random.integers(-2**31, 2**31, rows).astype("int32"),
        "i64": random.integers(-2**63, 2**63, rows, dtype="int64"),
        "sorted": numpy.cumsum(random.integers(0, 1000, rows)),
        "same": numpy.full(rows, -7),
        "f": random.random(rows).astype("float32"),
        "d": random.standard_normal(rows),
        "half": random.standard_normal(rows).astype("float16"),
        "flag": numpy.repeat(random.random(rows // 100) < 0.5, 100),
        "text": ["" if i % 10 == 0 else f"Text {i} mit Umläuten äöü" * (i % 4) for i in range(rows)],
        "bytes": [random.bytes(i % 40) for i in range(rows)],
        "paths": [f"/a/long/common/path/{i // 100:05}/{i % 100:02}.png" for i in range(rows)],
    }
    table = pyarrow.table(columns)
    fixed = pyarrow.array([random.bytes(5) for _ in range(rows)], pyarrow.binary(5))
    table = table.append_column("fixed", fixed)
    table = table.set_column(table.schema.get_field_index("bytes"), "bytes", table["bytes"].cast(pyarrow.binary()))
    holes = pyarrow.array(random.random(rows) < 0.25)
    for name in table.column_names:
        values = pyarrow.compute.if_else(holes, pyarrow.scalar(None, table[name].type), table[name])
        table = table.append_column("null_" + name, values)
    return table


@pytest.mark.sample(2)
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_encodings(read, tmp_path, encoding, version):
    names = [prefix + name for name in ENCODINGS[encoding] for prefix in ("", "null_")]
    table = encodings_table().select(names)
    path = tmp_path / "encoded.parquet"
    for page in (1000, 1 << 20):
        pyarrow.parquet.write_table(table, path, use_dictionary=False, column_encoding={n: encoding for n in names},
                                    data_page_version=version, data_page_size=page)
        used = pyarrow.parquet.read_metadata(path).row_group(0).column(0).encodings
        assert encoding in used, used
        same(read(path), table)
        for every, phase in ((3, 1), (1000, 999)):
            same(read(path, every=every, phase=phase), table.take(numpy.arange(phase, len(table), every)))
        same(read(path, rows=(11_111, 15_000)), table.slice(11_111, 3889))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_checksums(read, tmp_path, codec, version):
    """With them no changed bit of a page goes unnoticed."""
    table = flat_table(500).select(["long", "word", "null_unique"])
    path = tmp_path / "sum.parquet"
    pyarrow.parquet.write_table(table, path, compression=codec, write_page_checksum=True, data_page_version=version,
                                use_dictionary=False)
    same(read(path), table)
    data = bytearray(path.read_bytes())
    metadata = pyarrow.parquet.read_metadata(path).row_group(0)
    noticed = 0
    for number in range(metadata.num_columns):
        column = metadata.column(number)
        begin = column.dictionary_page_offset or column.data_page_offset
        # Headers have no checksum: the last third of a chunk is one page's body.
        for at in range(begin + column.total_compressed_size * 2 // 3, begin + column.total_compressed_size, 397):
            data[at] ^= 4
            path.write_bytes(data)
            data[at] ^= 4
            with pytest.raises(ReadError):
                read(path)
            noticed += 1
    assert noticed >= 6


def test_codecs_of_every_name(read, tmp_path):
    """Both page versions: v2 leaves its levels uncompressed."""
    table = flat_table(3000)
    for codec in ("snappy", "gzip", "brotli", "zstd", "lz4", "none"):
        for version in ("1.0", "2.0"):
            path = tmp_path / "codec.parquet"
            pyarrow.parquet.write_table(table, path, compression=codec, data_page_version=version)
            same(read(path), table)


# ── nested ──

def element_values(kind):
    return {
        "int": st.integers(-2**31, 2**31 - 1), "text": st.text(max_size=20), "bool": st.booleans(),
        "double": st.floats(allow_nan=False), "bytes": st.binary(max_size=20),
    }[kind]


ARROW = {"int": pyarrow.int64(), "text": pyarrow.string(), "bool": pyarrow.bool_(), "double": pyarrow.float64(),
         "bytes": pyarrow.binary()}


@st.composite
def types(draw, depth=3):
    """(Arrow type, strategy of non-null values)"""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "struct", "map"] if depth else ["leaf"]))
    if kind == "leaf":
        name = draw(st.sampled_from(sorted(ARROW)))
        return ARROW[name], element_values(name)
    if kind == "list":
        inner, values = draw(types(depth=depth - 1))
        nullable = draw(st.booleans())
        item = pyarrow.field("element", inner, nullable)
        return pyarrow.list_(item), st.lists(st.none() | values if nullable else values, max_size=4)
    if kind == "map":
        inner, values = draw(types(depth=depth - 1))
        return (pyarrow.map_(pyarrow.string(), inner),
                st.lists(st.tuples(st.text(max_size=5), st.none() | values), max_size=3))
    fields, strategies = [], {}
    for number in range(draw(st.integers(1, 3))):
        inner, values = draw(types(depth=depth - 1))
        nullable = draw(st.booleans())
        fields.append(pyarrow.field(f"f{number}", inner, nullable))
        strategies[f"f{number}"] = st.none() | values if nullable else values
    return pyarrow.struct(fields), st.fixed_dictionaries(strategies)


@st.composite
def tables(draw):
    count = draw(st.integers(1, 3))
    rows = draw(st.integers(0, 40))
    fields, columns = [], []
    for number in range(count):
        inner, values = draw(types())
        nullable = draw(st.booleans())
        column = draw(st.lists(st.none() | values if nullable else values, min_size=rows, max_size=rows))
        fields.append(pyarrow.field(f"c{number}", inner, nullable))
        columns.append(pyarrow.array(column, inner))
    repeat = draw(st.sampled_from([1, 1, 5, 300]))
    schema = pyarrow.schema(fields)
    table = pyarrow.Table.from_arrays(columns, schema=schema)
    return pyarrow.concat_tables([table] * repeat)


OPTIONS = st.fixed_dictionaries({
    "compression": st.sampled_from(["none", "snappy", "zstd"]),
    "data_page_size": st.sampled_from([1, 100, 2000, 1 << 20]),
    "write_batch_size": st.sampled_from([1, 7, 1024]),
    "data_page_version": st.sampled_from(["1.0", "2.0"]),
    "use_dictionary": st.booleans(),
    "write_page_index": st.booleans(),
    "row_group_size": st.sampled_from([1 << 20, 33]),
})


@settings(max_examples=int(os.environ.get("WEIR_EXAMPLES", 150)), deadline=None, print_blob=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(table=tables(), options=OPTIONS, every=st.sampled_from([1, 1, 2, 5, 100]))
def test_random_nested_tables(read, tmp_path, table, options, every):
    path = tmp_path / "nested.parquet"
    pyarrow.parquet.write_table(table, path, **options)
    note(f"{table.schema} {options}")
    got = read(path, every=every, bytes_target=1000)
    same(got, table.take(numpy.arange(0, len(table), every)))


@settings(max_examples=int(os.environ.get("WEIR_EXAMPLES", 60)), deadline=None, print_blob=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(table=tables(), options=OPTIONS, every=st.sampled_from([1, 1, 3]), grant=st.sampled_from([150, 250, 400, 800]))
def test_random_nested_tables_with_little_memory(read, tmp_path, table, options, every, grant):
    """So little that pages are given back after every vector. It is enough, or that is what the error says."""
    path = tmp_path / "nested.parquet"
    pyarrow.parquet.write_table(table, path, **options)
    note(f"{table.schema} {options}")
    try:
        got = read(path, every=every, grant=grant << 10)
    except ReadError as error:
        assert "granted" in str(error)
        return
    same(got, table.take(numpy.arange(0, len(table), every)))


def test_rows_that_span_pages(read, tmp_path):
    """A list of 30,000 values in pages of 1,000 bytes: old pages do not stop at the ends of rows."""
    lists = [list(range(30_000)), [], None, [1, None, 3], list(range(5_000))] * 3
    texts = [[f"text {i}" for i in range(7_000)], None, [], ["", None]] * 3 + [["x"]] * 3
    table = pyarrow.table({"numbers": pyarrow.array(lists, pyarrow.list_(pyarrow.int64())),
                           "texts": pyarrow.array(texts, pyarrow.list_(pyarrow.string()))})
    for version in ("1.0", "2.0"):
        for dictionary in (False, True):
            path = tmp_path / "span.parquet"
            pyarrow.parquet.write_table(table, path, data_page_size=1000, write_batch_size=64,
                                        data_page_version=version, use_dictionary=dictionary)
            same(read(path), table)
            same(read(path, every=4), table.take(numpy.arange(0, len(table), 4)))
            same(read(path, rows=(7, 12)), table.slice(7, 5))


def deep_table(depth):
    kind, value = pyarrow.int64(), 7
    for level in range(depth):
        if level % 2:
            kind, value = pyarrow.list_(kind), [value]
        else:
            kind, value = pyarrow.struct([("f", kind)]), {"f": value}
    return pyarrow.table({"deep": pyarrow.array([value, None, value], kind)})


def test_deep_nesting(read, tmp_path):
    path = tmp_path / "deep.parquet"
    table = deep_table(58)
    pyarrow.parquet.write_table(table, path)
    got = read(path).column("deep").combine_chunks()
    assert got.equals(table.column("deep").combine_chunks().cast(got.type))
    # pyarrow takes no more than 64 levels from others, so that the leaves are looked at here.
    table = deep_table(126)
    pyarrow.parquet.write_table(table, path)
    assert read.leaf_lengths(path) == [2]
    pyarrow.parquet.write_table(deep_table(140), path)
    with pytest.raises(ReadError, match="128 levels"):
        read.leaf_lengths(path)


# ── memory ──

@pytest.mark.parametrize("options", [{}, {"dictionary_pagesize_limit": 20_000, "data_page_size": 30_000}], ids=str)
@pytest.mark.parametrize("count, grant", [(300, 24 << 20), pytest.param(1000, 88 << 20, marks=pytest.mark.full)])
def test_many_columns_within_a_grant(read, tmp_path, count, grant, options):
    """Pages of all columns would need several times the grant: columns take turns, pages are inflated again."""
    rows, random = 20_000, numpy.random.default_rng(3)
    words = numpy.array([f"a word of the dictionary, number {i}" for i in range(3000)])
    columns = {}
    for number in range(count):
        kind = number % 5
        if kind == 0:
            values = pyarrow.array(random.random(rows))
        elif kind == 1:
            values = pyarrow.array(random.integers(0, 2**60, rows), mask=random.random(rows) < 0.1)
        elif kind == 2:
            values = pyarrow.array(words[random.integers(0, 3000, rows)])
        elif kind == 3:
            values = pyarrow.array(numpy.char.add("unique text ", random.integers(0, 2**40, rows).astype(str)))
        else:
            values = pyarrow.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.5)
        columns[f"c{number}"] = values
    table = pyarrow.table(columns)
    path = tmp_path / "wide.parquet"
    dictionaries = [f"c{i}" for i in range(count) if i % 5 == 2 or (options and i % 5 != 4)]
    pyarrow.parquet.write_table(table, path, use_dictionary=dictionaries, **options)
    got = read(path)
    assert got.equals(table)
    unlimited, inflated = read.peak, read.stats.bytes_decompressed
    got = read(path, grant=grant)
    assert got.equals(table)
    assert read.peak <= grant < unlimited / 2
    assert read.stats.bytes_decompressed < 25 * inflated
    got = read(path, grant=grant, every=13)
    assert got.equals(table.take(numpy.arange(0, rows, 13)))


def test_a_page_of_64_mib(read, tmp_path):
    """Text of 64 MiB in one page, with others beside it, in an account of 150 MiB."""
    random = numpy.random.default_rng(4)
    rows = 66_000
    texts = [random.bytes(512).hex() for _ in range(1000)]
    table = pyarrow.table({"text": pyarrow.array([texts[i % 1000] + str(i) for i in range(rows)]),
                           "number": pyarrow.array(numpy.arange(rows))})
    path = tmp_path / "large.parquet"
    pyarrow.parquet.write_table(table, path, data_page_size=1 << 30, use_dictionary=False, write_batch_size=1 << 20,
                                compression="snappy", max_rows_per_page=1 << 30)
    got = read(path, grant=150 << 20)
    assert got.equals(table)
    with pytest.raises(ReadError, match="granted"):
        read(path, grant=20 << 20)


def test_large_pages_of_several_columns(read, tmp_path):
    """Six pages of 16 MiB and lists of one: more than the grant together, so that they take turns."""
    random = numpy.random.default_rng(8)
    texts = [random.bytes(256).hex() for _ in range(1000)]
    rows = 32_000
    columns = {f"t{n}": pyarrow.array([texts[(i + n) % 1000] for i in range(rows)]) for n in range(5)}
    columns["l"] = pyarrow.array([[texts[i % 1000]] for i in range(rows)])
    columns["n"] = pyarrow.array(numpy.arange(rows))
    table = pyarrow.table(columns)
    path = tmp_path / "large.parquet"
    pyarrow.parquet.write_table(table, path, data_page_size=1 << 30, use_dictionary=False, write_batch_size=1 << 20,
                                max_rows_per_page=1 << 30)
    for every in (1, 9):
        got = read(path, grant=96 << 20, every=every)
        same(got, table.take(numpy.arange(0, rows, every)))
        assert read.peak <= 96 << 20
