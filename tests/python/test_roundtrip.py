"""Parquet files of pyarrow, DuckDB and Polars read by weir, and weir's read by them: types × codecs × encodings.

Tables come from a seed (in the test's name) or from hypothesis; what pyarrow makes of the same bytes is the oracle.
"""
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import arrow_strategies
import random_tables
import weir_chain
from weir_chain import quote

ROWS = 700
CODECS = ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]
WEIR_CODECS = ["none", "snappy", "gzip", "lz4", "zstd"]


def same(got, want, where="", written=None):
    """Equal types and rows; NaN equals NaN, -0.0 is not 0.0. `written` is the table that became the file: a column whose
    type came back as it went (pyarrow makes milliseconds of seconds, weir does not) is compared with that instead."""
    __tracebackhide__ = True
    assert got.column_names == want.column_names, where
    assert got.num_rows == want.num_rows, where
    for at in range(want.num_columns):
        a, b = whole(got, at), whole(want, at)
        if written is not None and a.type == written.field(at).type:
            b = whole(written, at)
        label = f"{where} {want.field(at)}"
        assert a.type == b.type, label
        if not _floats(a.type) and a.equals(b):
            continue
        left, right = arrow_strategies.rows(a), arrow_strategies.rows(b)
        for row, (x, y) in enumerate(zip(left, right)):
            if x != y:
                pytest.fail(f"{label} row {row}: {x!r}, not {y!r}")
        assert len(left) == len(right), label


def whole(table, at):
    chunks = table.column(at)
    if not chunks.num_chunks:
        return pa.nulls(0, chunks.type)  # pyarrow cannot combine no chunks of some dictionaries
    array = chunks.combine_chunks()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _floats(type):
    if pa.types.is_floating(type):
        return True
    if pa.types.is_dictionary(type):
        return _floats(type.value_type)
    return any(_floats(type.field(i).type) for i in range(type.num_fields)) if pa.types.is_nested(type) else False


def encodings(type):
    """What pyarrow can write the type in besides its dictionaries."""
    found = ["PLAIN"]
    if pa.types.is_integer(type) or pa.types.is_temporal(type):
        found += ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    elif pa.types.is_decimal(type) or pa.types.is_fixed_size_binary(type) or pa.types.is_float16(type):
        found += ["BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"]
    elif pa.types.is_floating(type):
        found += ["BYTE_STREAM_SPLIT"]
    elif type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        found += ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    elif pa.types.is_boolean(type):
        found += ["RLE"]
    elif pa.types.is_null(type):
        found = []
    return found


def matrix(rng, rows):
    """A table with every leaf type once per encoding, and each column's encoding; None: a dictionary."""
    columns, chosen = {}, {}
    for type in random_tables.LEAVES:
        for encoding in [None] + encodings(type):
            name = f"{type} {encoding}".replace(".", "_")
            columns[name] = random_tables.column(rng, type, rows)
            chosen[name] = encoding
    for at, type in enumerate(random_tables.NESTED + random_tables.DICTIONARIES + random_tables.INSIDE):
        columns[f"nested {at}"] = random_tables.column(rng, type, rows)
        chosen[f"nested {at}"] = None
    return pa.table(columns), chosen


def pyarrow_write(table, path, chosen, **options):
    dictionary = [name for name, encoding in chosen.items() if encoding is None]
    encoded = {name: encoding for name, encoding in chosen.items() if encoding is not None}
    pq.write_table(table, path, use_dictionary=dictionary, column_encoding=encoded, **options)


def weir_read(path, **options):
    return weir_chain.stream(f"read {quote(path)}", **options)


@pytest.mark.sample(4)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_type_codec_and_encoding_of_pyarrow(tmp_path, codec, version):
    seed = CODECS.index(codec) * 2 + (version == "2.0")
    table, chosen = matrix(np.random.default_rng(seed), ROWS)
    path = tmp_path / "x.parquet"
    pyarrow_write(table, path, chosen, compression=codec, data_page_version=version, data_page_size=256,
                  write_page_index=bool(seed % 3), row_group_size=ROWS // (1 + seed % 2), write_batch_size=64)
    same(weir_read(path), pq.read_table(path), f"seed {seed}", table)


@pytest.mark.sample(3)
@pytest.mark.parametrize("codec", WEIR_CODECS)
def test_every_type_and_codec_through_weir_to_pyarrow(tmp_path, codec):
    seed = 100 + WEIR_CODECS.index(codec)
    table, _ = matrix(np.random.default_rng(seed), ROWS)
    path = tmp_path / "x.parquet"
    weir_chain.run(f"batches then write {quote(path)} --compression {codec} --row-group-rows 300", table, batch_rows=111)
    theirs = tmp_path / "theirs.parquet"
    pq.write_table(table, theirs)
    same(pq.read_table(path), pq.read_table(theirs), f"seed {seed}", table)
    same(weir_read(path), table, f"seed {seed}")


def duckdb_types():
    return [t for t in random_tables.LEAVES + random_tables.NESTED
            if not (pa.types.is_null(t) or pa.types.is_float16(t) or pa.types.is_decimal256(t) or
                    pa.types.is_duration(t) or t == pa.date64() or pa.types.is_fixed_size_list(t) or "map" in str(t))]


@pytest.mark.sample(4)
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw", "lz4"])
def test_files_of_duckdb(tmp_path, codec, version):
    seed = 200 + sum(map(ord, codec + version))
    rng = np.random.default_rng(seed)
    connection = duckdb.connect()
    connection.register("drawn", random_tables.table(rng, duckdb_types(), ROWS))
    path = tmp_path / "x.parquet"
    connection.execute("set preserve_insertion_order = true")
    try:
        connection.execute(f"copy drawn to '{path}' (format parquet, codec '{codec}', parquet_version '{version}', "
                           "row_group_size 2048)")
    except duckdb.Error as failed:
        if "codec" not in str(failed).lower():
            raise
        pytest.skip(str(failed))
    connection.execute(f"create view written as select * from read_parquet('{path}')")
    got = weir_read(path)
    for name in got.column_names:
        try:
            want = pq.read_table(path, columns=[name])
        except OSError:  # pyarrow cannot read the last page of some columns of DuckDB; DuckDB can
            want = connection.execute(f"select {name} from written").to_arrow_table().cast(got.select([name]).schema)
        same(got.select([name]), want, f"seed {seed}")


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_files_of_polars(tmp_path, codec):
    seed = 300 + sum(map(ord, codec))
    rng = np.random.default_rng(seed)
    types = [t for t in random_tables.LEAVES + random_tables.NESTED
             if not (pa.types.is_decimal256(t) or pa.types.is_float16(t) or "map" in str(t) or
                     (pa.types.is_decimal(t) and t.precision > 38) or pa.types.is_fixed_size_binary(t))]
    frame = polars.from_arrow(random_tables.table(rng, types, ROWS))
    path = tmp_path / "x.parquet"
    frame.write_parquet(path, compression=codec, row_group_size=311, data_page_size=400, statistics=True)
    same(weir_read(path), pq.read_table(path), f"seed {seed}")


def test_polars_reads_what_weir_wrote(tmp_path):
    rng = np.random.default_rng(17)
    types = [t for t in random_tables.LEAVES + random_tables.NESTED
             if not (pa.types.is_decimal256(t) or "map" in str(t))]
    table = random_tables.table(rng, types, ROWS)
    for codec in WEIR_CODECS:
        mine, theirs = tmp_path / f"{codec}-weir.parquet", tmp_path / f"{codec}-arrow.parquet"
        weir_chain.run(f"batches then write {quote(mine)} --compression {codec} --row-group-rows 256", table)
        pq.write_table(table, theirs)
        a, b = polars.read_parquet(mine), polars.read_parquet(theirs)
        assert a.schema == b.schema, codec
        for name in a.columns:
            assert a[name].equals(b[name]), f"seed 17 {codec} {name} {table.field(name)}"


def test_duckdb_reads_what_weir_wrote(tmp_path):
    rng = np.random.default_rng(18)
    types = [t for t in random_tables.LEAVES + random_tables.NESTED if not pa.types.is_null(t)]
    table = random_tables.table(rng, types, ROWS)
    for codec in WEIR_CODECS:
        mine, theirs = tmp_path / f"{codec}-weir.parquet", tmp_path / f"{codec}-arrow.parquet"
        weir_chain.run(f"batches then write {quote(mine)} --compression {codec} --row-group-rows 256", table)
        pq.write_table(table, theirs)
        connection = duckdb.connect()
        for name in table.column_names:
            results = []
            for path in (mine, theirs):
                try:
                    rows = connection.execute(f"select {name} from read_parquet('{path}')").fetchall()
                    results.append([arrow_strategies.canonical(row[0]) for row in rows])
                except duckdb.Error as failed:
                    results.append(type(failed))
            assert results[0] == results[1], f"seed 18 {codec} {name} {table.field(name)}"


def check_both_ways(tmp_path, table, options, codec, limit):
    path, back = tmp_path / "x.parquet", tmp_path / "y.parquet"
    pq.write_table(table, path, **options)
    want = pq.read_table(path)
    got = weir_read(path)
    same(got, want, "", table)
    weir_chain.run(f"read {quote(path)} then write {quote(back)} --compression {codec} {limit}")
    same(pq.read_table(back), want)
    same(weir_read(back), got)


def seeded_both_ways(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows = int([0, 1, 50, 4096, 4097, 9000][rng.integers(0, 6)])
    types = [random_tables.random_type(rng) for _ in range(int(rng.integers(1, 6)))]
    table = random_tables.table(rng, types, rows)
    options = dict(compression=CODECS[rng.integers(0, 6)], data_page_version=["1.0", "2.0"][rng.integers(0, 2)],
                   use_dictionary=bool(rng.integers(0, 2)), data_page_size=int([100, 5000, 1 << 20][rng.integers(0, 3)]),
                   write_page_index=bool(rng.integers(0, 2)), row_group_size=int([100, 3000, 1 << 20][rng.integers(0, 3)]),
                   dictionary_pagesize_limit=int([64, 1 << 20][rng.integers(0, 2)]), write_batch_size=64,
                   store_schema=bool(rng.integers(0, 4)))
    print(f"seed {seed}", table.schema, options)
    check_both_ways(tmp_path, table, options, WEIR_CODECS[rng.integers(0, 5)],
                    ["", "--row-group-rows 1000"][rng.integers(0, 2)])


@pytest.mark.parametrize("seed", range(40))
def test_random_tables_both_ways(tmp_path, seed):
    seeded_both_ways(tmp_path, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1600))
def test_more_random_tables_both_ways(tmp_path, seed):
    seeded_both_ways(tmp_path, seed)


def _parquet_can(type):
    """What Parquet has a place for."""
    if pa.types.is_interval(type) or pa.types.is_run_end_encoded(type):
        return False
    if pa.types.is_fixed_size_binary(type) and type.byte_width == 0:
        return False
    if pa.types.is_decimal(type) and (type.scale < 0):
        return False
    if pa.types.is_struct(type) and type.num_fields == 0:
        return False
    if pa.types.is_fixed_size_list(type) and type.list_size == 0:
        return False
    if pa.types.is_dictionary(type):
        return _parquet_can(type.value_type)
    if pa.types.is_nested(type):
        return all(_parquet_can(type.field(i).type) for i in range(type.num_fields))
    return True


@st.composite
def tables(draw):
    kinds = draw(st.lists(arrow_strategies.types(3).filter(_parquet_can), min_size=1, max_size=3))
    length = draw(st.integers(0, 20))
    columns = [draw(arrow_strategies.exact_arrays(kind, length)) for kind in kinds]
    return pa.table(columns, names=[f"c{i}" for i in range(len(kinds))])


def drawn_both_ways(folder, table, codec, version, dictionary, page):
    path, back = folder / "h.parquet", folder / "h2.parquet"
    note(str(table.schema))
    try:
        pq.write_table(table, path, compression=codec, data_page_version=version, use_dictionary=dictionary,
                       data_page_size=page, write_batch_size=2)
    except (pa.ArrowException, OSError):
        return  # pyarrow's own limits are not weir's
    got = weir_read(path)
    weir_chain.run(f"batches then write {quote(back)} --mode overwrite", table)
    same(weir_read(back), table)
    try:
        want = pq.read_table(path)
    except (pa.ArrowException, OSError):
        want = None
    if want is None or want.num_rows != table.num_rows:
        # pyarrow cannot read all that it writes, and loses rows that are nothing but empty lists in pages of version 2.
        assert got.num_rows == table.num_rows
        same(got, got, "", table)
        return
    same(got, want, "", table)
    same(pq.read_table(back), want)


def _drawn(examples):
    return lambda f: settings(max_examples=examples, deadline=None, print_blob=True,
                              suppress_health_check=list(HealthCheck))(
        given(table=tables(), codec=st.sampled_from(CODECS), version=st.sampled_from(["1.0", "2.0"]),
              dictionary=st.booleans(), page=st.sampled_from([1, 30, 1 << 20]))(f))


@_drawn(60)
def test_drawn_tables_both_ways(tmp_path_factory, table, codec, version, dictionary, page):
    drawn_both_ways(tmp_path_factory.getbasetemp(), table, codec, version, dictionary, page)


@pytest.mark.full
@_drawn(3000)
def test_more_drawn_tables_both_ways(tmp_path_factory, table, codec, version, dictionary, page):
    drawn_both_ways(tmp_path_factory.getbasetemp(), table, codec, version, dictionary, page)


def _inside(words, index, ordered):
    """Two rows that hold dictionaries inside a list, a struct and a map."""
    codes = pa.array([0, 1, None, 0], index)
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(words), ordered=ordered)
    return pa.table({
        "l": pa.ListArray.from_arrays([0, 3, 4], coded),
        "s": pa.StructArray.from_arrays([coded[1:3]], ["a"]),
        "m": pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), coded[2:]),
    })


@pytest.mark.parametrize("index,ordered", [(pa.int8(), False), (pa.uint32(), True)])
def test_dictionaries_inside_come_back_from_files_with_others(tmp_path, index, ordered):
    """Dictionaries that differ from file to file and from row group to row group."""
    parts = [_inside(words, index, ordered) for words in (["a", "b"], ["b", "c"], ["", "a"])]
    table = pa.concat_tables(parts)
    for at, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{at}.parquet", row_group_size=1)
    got = weir_read(tmp_path)
    assert got.schema.equals(pq.read_table(tmp_path / "0.parquet").schema)
    assert got.to_pylist() == table.to_pylist()
    out = tmp_path / "out" / "one.parquet"
    weir_chain.run(f"read {quote(tmp_path / '*.parquet')} then write {quote(out)}")
    back = pq.read_table(out)
    assert back.schema.equals(got.schema) and back.to_pylist() == table.to_pylist()


def test_dictionaries_inside_meet_plain_values(tmp_path):
    coded = _inside(["a", "b"], pa.int8(), False)
    plain = pa.table({"l": pa.array([["x"], None], pa.list_(pa.field("element", pa.string())))})
    pq.write_table(coded.select(["l"]), tmp_path / "b.parquet")
    pq.write_table(plain, tmp_path / "a.parquet")
    got = weir_read(tmp_path)
    assert got.to_pylist() == plain.to_pylist() + coded.select(["l"]).to_pylist()
    got = weir_chain.stream(f"read {quote(tmp_path / 'b.parquet')} then with 'x = l[0]'")
    assert got.column("x").to_pylist() == ["a", "a"]


@pytest.mark.parametrize("type,value,null", [
    (pa.int64(), 1, None), (pa.string(), "x", None), (pa.list_(pa.int8()), [1, 2], None),
    (pa.list_(pa.field("item", pa.int8(), nullable=False)), [1, 2], [3, None]),
    (pa.struct([pa.field("a", pa.list_(pa.field("item", pa.string(), nullable=False)))]), {"a": ["p", "q"]}, {"a": ["r", None]}),
    (pa.struct([pa.field("a", pa.int8(), nullable=False)]), {"a": 1}, {"a": None}),
], ids=str)
def test_a_null_that_may_not_be_is_found(tmp_path, type, value, null):
    for row in (0, 3, 4999):
        values = [value] * 5000
        values[row] = null
        schema = pa.schema([pa.field("c", type, nullable=null is not None)])
        table = pa.Table.from_arrays([pa.array(values, type)], schema=schema)
        with pytest.raises(weir_chain.ChainError, match=rf"column c\S*, row {row}: a null in a column that is declared not null"):
            weir_chain.run(f"batches then write {quote(tmp_path / 'x.parquet')}", table, batch_rows=5000)
