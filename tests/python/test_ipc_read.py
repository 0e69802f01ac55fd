"""Arrow files and streams through the engine: what pyarrow and Polars write is read equal, and what weir writes they read.

Random tables come from hypothesis (small, all types) or from a seed (thousands of rows in one batch, so that columns are
read in several pieces). What was written is the oracle.
"""
import gzip
import os
import random
import subprocess

import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.ipc
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import arrow_strategies
import random_tables
import weir_chain
from test_roundtrip import same
from weir_chain import ChainError, quote

RANDOM = settings(max_examples=60, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
WRITINGS = {
    "file": {"file": True}, "stream": {}, "file-lz4": {"file": True, "compression": "lz4"},
    "file-zstd": {"file": True, "compression": "zstd"}, "stream-lz4": {"compression": "lz4"},
    "legacy": {"use_legacy_format": True, "metadata_version": pa.ipc.MetadataVersion.V4},
}


def write(path, table, file=False, batch_rows=None, **options):
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as out, new(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in table.to_batches(batch_rows):
            writer.write_batch(batch)
    return path


def read(path, then="", **options):
    return weir_chain.stream(f"read {quote(path)}{then}", **options)


def plain(table):
    """The table with the types that weir gives to views, runs and small decimals."""
    fields = [arrow_strategies.plain_field(field) for field in table.schema]
    columns = []
    for at, field in enumerate(fields):
        column = table.column(at)
        if field.type == table.schema.field(at).type:
            columns.append(column)
            continue
        chunks = [decoded(chunk) for chunk in column.chunks]
        columns.append(pa.chunked_array([chunk.cast(field.type) for chunk in chunks], field.type))
    return pa.table(columns, schema=pa.schema(fields, metadata=table.schema.metadata))


def decoded(array):
    return pc.run_end_decode(array) if pa.types.is_run_end_encoded(array.type) else array


# ---- types ----

@RANDOM
@given(st.data())
def test_random_types(tmp_path_factory, data):
    """All types in all ways of writing, several batches, empty ones among them."""
    type = data.draw(arrow_strategies.types(depth=3, imports=True))
    arrays = data.draw(st.lists(arrow_strategies.arrays(type), min_size=1, max_size=3))
    if any(pa.types.is_dictionary(type) for type in every_type(type)):
        arrays = arrays[:1]  # dictionaries that are replaced have a test of their own
    how = data.draw(st.sampled_from(sorted(WRITINGS)))
    note(f"{type} {how}")
    path = tmp_path_factory.mktemp("ipc") / "t.arrow"
    field = pa.field("c", type)
    batches = [pa.record_batch([array], schema=pa.schema([field])) for array in arrays]
    try:
        write(path, pa.Table.from_batches(batches), **WRITINGS[how])
    except pa.ArrowNotImplementedError:
        return
    got = read(path)
    assert got.schema.field(0).type == arrow_strategies.plain_type(type)
    rows = [row for chunk in got.column(0).chunks for row in arrow_strategies.rows(chunk)]
    assert rows == [row for array in arrays for row in arrow_strategies.rows(array)]


def every_type(type):
    yield type
    if pa.types.is_dictionary(type):
        yield from every_type(type.value_type)
    elif pa.types.is_run_end_encoded(type):
        yield from every_type(type.value_type)
    else:
        for i in range(type.num_fields):
            yield from every_type(type.field(i).type)


ROWS = 30_000


def wide_table(seed):
    """Leaves, nested types and foreign layouts, in one batch that no window holds."""
    rng = np.random.default_rng(seed)
    types = [random_tables.LEAVES[i] for i in rng.permutation(len(random_tables.LEAVES))[:10]]
    types += [random_tables.NESTED[i] for i in rng.permutation(len(random_tables.NESTED))[:4]]
    types += [random_tables.DICTIONARIES[rng.integers(0, 3)], random_tables.INSIDE[rng.integers(0, 5)]]
    table = random_tables.table(rng, types, ROWS)
    texts = random_tables.column(rng, pa.string(), ROWS)
    table = table.append_column("view", texts.cast(pa.string_view()))
    table = table.append_column("long_view", pc.binary_repeat(texts, 3).cast(pa.binary_view()))
    table = table.append_column("runs", pc.run_end_encode(pa.array(np.sort(rng.integers(0, 500, ROWS)))))
    lists = random_tables.column(rng, pa.list_(pa.string()), ROWS)
    table = table.append_column("list_view", pa.ListViewArray.from_arrays(
        lists.offsets[:-1], pa.array(np.diff(lists.offsets.to_numpy()), pa.int32()), lists.values))
    small = pa.array(rng.integers(-10**6, 10**6, ROWS), pa.int32()).cast(pa.decimal64(18, 0))
    return table.append_column("small", small).combine_chunks()


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", sorted(set(WRITINGS) - {"legacy"}))
@pytest.mark.parametrize("seed", range(3))
def test_wide_tables_in_pieces(tmp_path, seed, how):
    table = wide_table(seed)
    path = write(tmp_path / "t.arrow", table, **WRITINGS[how])
    want = plain(table)
    same(read(path, memory_limit=256 << 20), want)
    # Rows from the middle of the batch, and few columns.
    names = [want.column_names[i] for i in random.Random(seed).sample(range(want.num_columns), 3)]
    got = weir_chain.stream(f"read {quote(path)} --columns {','.join(names)} then limit {ROWS - 777}")
    same(got, want.select(names).slice(0, ROWS - 777))


@pytest.mark.parametrize("batch_rows", [1, 63, 64, 1000, 4096, 4097])
@pytest.mark.parametrize("how", ["file", "stream", "file-zstd"])
def test_batches_of_every_size(tmp_path, how, batch_rows):
    rng = np.random.default_rng(batch_rows)
    count = min(batch_rows * 7 + 5, 20_000)
    table = random_tables.table(rng, [pa.int64(), pa.bool_(), pa.string(), pa.list_(pa.int16())], count)
    path = write(tmp_path / "t.arrow", table, batch_rows=batch_rows, **WRITINGS[how])
    same(read(path), table)


def test_polars_files(tmp_path):
    frame = polars.DataFrame({
        "s": ["short", None, "a text of more than twelve bytes"] * 9000, "i": range(27000),
        "l": [["x", None]] * 27000, "d": [None, 1.5, 2.5] * 9000,
        "c": polars.Series(["a", "b", "a"] * 9000).cast(polars.Categorical),
        "e": polars.Series(["x", "y", None] * 9000, dtype=polars.Enum(["x", "y"]))})
    for compression in ["uncompressed", "lz4", "zstd"]:
        for level in [polars.CompatLevel.newest(), polars.CompatLevel.oldest()]:
            for end, kind in [(".arrow", frame.write_ipc), (".arrows", frame.write_ipc_stream)]:
                kind(tmp_path / f"t{end}", compression=compression, compat_level=level)
                assert read(tmp_path / f"t{end}").to_pylist() == frame.to_dicts()


@pytest.mark.parametrize("file", [True, False])
def test_dictionary_deltas(tmp_path, file):
    values = [["a"], ["a", "b"], ["a", "b", None, "c"]] + ([] if file else [["z"]])
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([len(v) - 1, None, 0] * 50, pa.int8()), v)
                               for v in values])
    table = pa.table({"d": column, "s": pa.chunked_array([chunk.cast(pa.string()) for chunk in column.chunks])})
    path = write(tmp_path / "t.arrow", table, file=file, emit_dictionary_deltas=True)
    got = read(path)
    assert got["d"].to_pylist() == got["s"].to_pylist() == table["s"].to_pylist()
    assert read(path, " then filter 'd == \"a\"'").num_rows == table["s"].to_pylist().count("a")


def test_replaced_dictionaries_in_streams(tmp_path):
    chunks = [pa.DictionaryArray.from_arrays(pa.array([0, 1] * 3000, pa.int16()), [f"x{i}", f"y{i}"]) for i in range(9)]
    inner = [pa.ListArray.from_arrays(pa.array(range(0, 6001), pa.int32()), chunk) for chunk in chunks]
    table = pa.table({"d": pa.chunked_array(chunks), "l": pa.chunked_array(inner)})
    path = write(tmp_path / "t.arrows", table)
    assert read(path).to_pylist() == table.to_pylist()
    assert read(path, " then select d").to_pylist() == table.select(["d"]).to_pylist()


def test_nested_and_large_dictionaries(tmp_path):
    inner = pa.array(["x", "y", "x"]).dictionary_encode()
    values = pa.StructArray.from_arrays([inner, pa.array([1, 2, 3])], ["k", "n"])
    outer = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1] * 2000, pa.int8()), values)
    large = pa.DictionaryArray.from_arrays(pa.array(np.arange(8000) * 20, pa.int32()),
                                           pa.array([f"value number {i}" for i in range(160_000)]))
    table = pa.table({"o": outer, "g": large})
    for file in [True, False]:
        path = write(tmp_path / "t.arrow", table, file=file)
        assert read(path).to_pylist() == table.to_pylist()
        assert read(path, " then select g").to_pylist() == table.select(["g"]).to_pylist()


def test_metadata_and_extension_types(tmp_path):
    field = pa.field("u", pa.binary(16), metadata={"ARROW:extension:name": "arrow.uuid", "own": "word"})
    schema = pa.schema([field, pa.field("n", pa.int8(), nullable=False)], metadata={"key": "välue"})
    table = pa.table([[b"0123456789abcdef", None], pa.array([1, 2], pa.int8())], schema=schema)
    path = tmp_path / "t.arrow"
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, schema, metadata={"of": "the file"}) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata={"of": "the batch"})
    got = read(path)
    assert got.schema.metadata == {b"key": "välue".encode()}
    assert not got.schema.field("n").nullable
    assert got.schema.field("u").type == pa.uuid()
    assert got.schema.field("u").metadata[b"own"] == b"word"
    assert got["u"].combine_chunks().storage.to_pylist() == table["u"].to_pylist() and got["n"].to_pylist() == [1, 2]


# ---- edges ----

@pytest.mark.parametrize("how", sorted(WRITINGS))
def test_nothing_in_it(tmp_path, how):
    empty = pa.table({"i": pa.array([], pa.int64()), "s": pa.array([], pa.string()),
                      "d": pa.array([], pa.string()).dictionary_encode()})
    none = pa.schema([("a", pa.int32())])
    path = write(tmp_path / "t.arrow", empty, **WRITINGS[how])
    assert read(path).num_rows == 0 and read(path).column_names == ["i", "s", "d"]
    path = write(tmp_path / "t.arrow", none.empty_table(), **WRITINGS[how])  # no batch at all
    assert read(path).num_rows == 0
    batches = [pa.record_batch([pa.array(rows, pa.int32())], schema=none) for rows in ([], [1], [], [], [2, 3], [])]
    path = write(tmp_path / "t.arrow", pa.Table.from_batches(batches), **WRITINGS[how])
    assert read(path)["a"].to_pylist() == [1, 2, 3]
    assert weir_chain.run(f"read {quote(path)} then count").rows_out == 3


def test_no_columns(tmp_path):
    batch = pa.record_batch([pa.array([1, 2, 3])], ["a"]).select([])
    for file in [True, False]:
        path = write(tmp_path / "t.arrow", pa.Table.from_batches([batch, batch]), file=file)
        assert read(path).num_columns == 0
        assert weir_chain.run(f"read {quote(path)} then count").rows_out == 6


def test_names_do_not_matter(tmp_path):
    """A stream that is called a file, a file without a name that tells, a mixture of both in a folder."""
    table = pa.table({"a": [1, 2, 3]})
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "1.arrow", table)
    write(tmp_path / "in" / "2.feather", table, file=True)
    write(tmp_path / "in" / "3.ipc", table, file=True, compression="zstd")
    write(tmp_path / "in" / "4.arrows", table)
    assert weir_chain.stream(f"read {quote(tmp_path / 'in')} --format arrow")["a"].to_pylist() == [1, 2, 3] * 4
    for file in [True, False]:
        assert read(write(tmp_path / "no_name", table, file=file))["a"].to_pylist() == [1, 2, 3]


def test_schemas_that_differ(tmp_path):
    write(tmp_path / "1.arrow", pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}), file=True)
    write(tmp_path / "2.arrow", pa.table({"b": ["y"], "a": pa.array([2], pa.int32())}), file=True)
    got = read(tmp_path / "*.arrow")
    assert got.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize("how", sorted(WRITINGS))
def test_pipes_and_compressed_files(tmp_path, weir_command, how):
    """Read from front to back: of each batch what lies between the first and the last wanted buffer."""
    table = random_tables.table(np.random.default_rng(2), [pa.int64(), pa.string(), pa.list_(pa.int16()), pa.bool_(),
                                                           pa.dictionary(pa.int8(), pa.string())], 20_000)
    path = write(tmp_path / "t.arrow", table, batch_rows=3000, **WRITINGS[how])
    for columns in [["c0", "c1", "c2", "c3", "c4"], ["c3"], ["c1", "c4"]]:
        chain = [weir_command, "read", "-", "--format", "arrow", "then", "select", ",".join(columns), "then", "write", "-",
                 "--format", "arrows"]
        cat = subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE)
        done = subprocess.run(chain, stdin=cat.stdout, capture_output=True, check=True)
        cat.wait()
        got = pa.ipc.open_stream(done.stdout).read_all()
        assert got.to_pylist() == table.select(columns).to_pylist()
    (tmp_path / "t.arrow.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    assert read(tmp_path / "t.arrow.gz").to_pylist() == table.to_pylist()
    (tmp_path / "t.arrow.gz").write_bytes(gzip.compress(path.read_bytes()[:path.stat().st_size // 2], 1))
    with pytest.raises(ChainError, match="t.arrow.gz.*cut short"):
        read(tmp_path / "t.arrow.gz")


def test_large_offsets_into_one_batch(tmp_path):
    """One lane begins in the middle of a batch whose rows are very uneven."""
    sizes = [0] * 40_000 + [100_000] * 150 + [3] * 40_000
    texts = pa.array(["x" * size for size in sizes], pa.large_string())
    views = texts.cast(pa.string_view())
    table = pa.table({"i": range(len(sizes)), "t": texts, "v": views,
                      "l": pa.array([[1] * (size // 50) for size in sizes])})
    path = write(tmp_path / "t.arrow", table, file=True)
    got = read(path, memory_limit=128 << 20, threads=2)
    assert got["i"].to_pylist() == list(range(len(sizes)))
    assert pc.utf8_length(got["t"]).to_pylist() == pc.utf8_length(got["v"]).to_pylist() == sizes
    assert pc.list_value_length(got["l"]).to_pylist() == [size // 50 for size in sizes]


# ---- memory ----

def limited(command, chain, limit):
    return subprocess.run([command, "--memory-limit", limit, "read", *chain], capture_output=True, text=True, timeout=300)


def test_a_batch_larger_than_the_limit(tmp_path, weir_command):
    """One batch of 300 MB passes at 64 MiB: only rows of it are ever in memory."""
    count = 5_000_000
    table = pa.table({"i": np.arange(count), "f": np.arange(count) / 8,
                      "s": pa.array(np.arange(count)).cast(pa.string()),
                      "v": pa.array(np.arange(count) % 1000).cast(pa.string()).cast(pa.string_view())})
    path = write(tmp_path / "t.arrow", table.combine_chunks(), file=True)
    assert os.path.getsize(path) > 200 << 20
    done = limited(weir_command, [str(path), "then", "filter", "i % 2 == 0", "then", "write", str(tmp_path / "out.arrow")],
                   "64M")
    assert done.returncode == 0, done.stderr
    got = pa.ipc.open_file(pa.memory_map(str(tmp_path / "out.arrow"))).read_all()
    assert got.num_rows == count // 2 and got["v"][12345].as_py() == str(24690 % 1000)


def test_a_compressed_buffer_larger_than_the_limit(tmp_path, weir_command):
    table = pa.table({"i": np.zeros(20_000_000, np.int64), "j": np.zeros(20_000_000, np.int8)})
    path = write(tmp_path / "t.arrow", table, file=True, compression="zstd")
    done = limited(weir_command, [str(path), "then", "filter", "i > 0", "then", "count"], "64M")
    assert done.returncode != 0
    assert "column i" in done.stderr and "t.arrow" in done.stderr, done.stderr
    # The other column is never touched.
    done = limited(weir_command, [str(path), "then", "filter", "j == 0", "then", "count"], "96M")
    assert done.returncode == 0 and "20000000" in done.stdout, done.stderr


# ---- refusals ----

def test_feather_v1(tmp_path):
    pa.feather.write_feather(pa.table({"a": [1]}), str(tmp_path / "old.feather"), version=1)
    with pytest.raises(ChainError, match="first version of Feather"):
        read(tmp_path / "old.feather")


def test_other_files(tmp_path):
    (tmp_path / "t.arrow").write_bytes(b"a,b\n1,2\n" * 100)
    with pytest.raises(ChainError, match="t.arrow"):
        read(tmp_path / "t.arrow")
    (tmp_path / "t.arrow").write_bytes(b"")
    with pytest.raises(ChainError, match="nothing in it"):
        read(tmp_path / "t.arrow")


def test_big_endian(tmp_path):
    """Endianness is a field of the schema that pyarrow never sets: a schema with metadata, of which the vtable's first entry
    is made to point at a word that is 1."""
    data = bytearray(write(tmp_path / "t.arrows", pa.table({"a": [1]})).read_bytes())
    found = False
    for at in range(8, 300, 2):
        changed = bytearray(data)
        changed[at:at + 2] = (4).to_bytes(2, "little")
        (tmp_path / "t.arrows").write_bytes(changed)
        try:
            read(tmp_path / "t.arrows")
        except ChainError as error:
            found |= "big-endian" in str(error)
    assert found


def damaged(data, dice):
    for size in sorted({dice.randrange(len(data)) for _ in range(60)} | {0, 1, 4, 7, 8, len(data) - 1}):
        yield data[:size]
    for _ in range(250):
        at = dice.randrange(len(data))
        yield data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1:]


@pytest.mark.parametrize("how", sorted(WRITINGS))
def test_damage_is_an_error_or_a_valid_table(tmp_path, how):
    rng = np.random.default_rng(7)
    types = [pa.int32(), pa.string(), pa.list_(pa.string()), pa.dictionary(pa.int8(), pa.string()), pa.bool_()]
    table = random_tables.table(rng, types, 60)
    table = table.append_column("v", pa.array(["a text of more than twelve bytes", None, "x"] * 20, pa.string_view()))
    data = write(tmp_path / "t.arrow", table, **WRITINGS[how]).read_bytes()
    refused = total = 0
    for changed in damaged(data, random.Random(7)):
        total += 1
        path = tmp_path / "t.arrow"
        path.write_bytes(changed)
        try:
            read(path).validate(full=True)
        except ChainError as error:
            assert "t.arrow" in str(error), error
            refused += 1
    assert refused > total / 10


def test_a_file_cut_short_says_where(tmp_path):
    table = pa.table({"a": range(10000)})
    path = write(tmp_path / "t.arrows", table, batch_rows=1000)
    whole = path.read_bytes()
    path.write_bytes(whole[:-500])
    with pytest.raises(ChainError, match=r"t\.arrows.*byte \d+.*cut short"):
        read(path)
    path = write(tmp_path / "t.arrow", table, file=True)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ChainError, match=r"t\.arrow.*cut short"):
        read(path)


# ---- what weir writes ----

def written(path, table, options=""):
    weir_chain.run(f"batches then write {quote(path)} {options}", table)
    return path


def pyarrow_reads(path):
    with pa.memory_map(str(path)) as data:
        magic = data.read(6)
        data.seek(0)
        table = (pa.ipc.open_file(data) if magic == b"ARROW1" else pa.ipc.open_stream(data)).read_all()
        table.validate(full=True)
        return table


def values_type(type):
    """The type as it is written: without dictionaries."""
    type = arrow_strategies.plain_type(type)
    if pa.types.is_dictionary(type):
        return values_type(type.value_type)
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(values_type(field.type)) for field in type])
    if pa.types.is_map(type):
        return pa.map_(type.key_field.with_type(values_type(type.key_type)),
                       type.item_field.with_type(values_type(type.item_type)), type.keys_sorted)
    if pa.types.is_fixed_size_list(type):
        return pa.list_(type.value_field.with_type(values_type(type.value_type)), type.list_size)
    if pa.types.is_large_list(type):
        return pa.large_list(type.value_field.with_type(values_type(type.value_type)))
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(values_type(type.value_type)))
    return type


@RANDOM
@given(st.data())
def test_random_types_written(tmp_path_factory, data):
    type = data.draw(arrow_strategies.types(depth=3))
    arrays = data.draw(st.lists(arrow_strategies.arrays(type), min_size=1, max_size=3))
    end = data.draw(st.sampled_from([".arrow", ".arrows", ".feather", ".ipc"]))
    codec = data.draw(st.sampled_from(["none", "lz4", "zstd"]))
    note(f"{type} {end} {codec}")
    path = tmp_path_factory.mktemp("ipc") / f"t{end}"
    schema = pa.schema([pa.field("c", type, metadata={"m": "n"})], metadata={"key": "value"})
    written(path, pa.Table.from_batches([pa.record_batch([array], schema=schema) for array in arrays]),
            f"--compression {codec}")
    got = pyarrow_reads(path)
    assert (path.read_bytes()[:6] == b"ARROW1") == (end != ".arrows")
    assert got.schema.field(0).type == values_type(type)
    assert got.schema.metadata[b"key"] == b"value" and got.schema.field(0).metadata[b"m"] == b"n"
    rows = [row for chunk in got.column(0).chunks for row in arrow_strategies.rows(chunk)]
    assert rows == [row for array in arrays for row in arrow_strategies.rows(array)]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("end", [".arrow", ".arrows"])
def test_large_tables_written(tmp_path, end, codec):
    table = random_tables.table(np.random.default_rng(11), [pa.int64(), pa.string(), pa.bool_(), pa.float32(),
                                                            pa.list_(pa.string()), pa.decimal128(9, 2)], 200_000)
    path = written(tmp_path / f"t{end}", table, f"--compression {codec}")
    same(pyarrow_reads(path), table)
    same(read(path), table)
    by_polars = polars.read_ipc(path) if end == ".arrow" else polars.read_ipc_stream(path)
    assert by_polars["c0"].to_list() == table["c0"].to_pylist()
    assert by_polars["c1"].to_list() == table["c1"].to_pylist()


def test_several_files_and_parts(tmp_path):
    table = pa.table({"i": range(300_000), "s": [f"text {i}" for i in range(300_000)]})
    source = write(tmp_path / "in.arrow", table, file=True, batch_rows=10_000)
    weir_chain.run(f"read {quote(source)} then write {quote(tmp_path / 'out')} --format arrow --rows-per-file 70000",
                   threads=2)
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) > 1 and all(file.suffix == ".arrow" for file in files)
    assert pa.concat_tables([pyarrow_reads(file) for file in files])["i"].to_pylist() == list(range(300_000))
    weir_chain.run(f"read {quote(tmp_path / 'out')} --format arrow then write {quote(tmp_path / 'one.feather')}",
                   threads=2)
    same(pyarrow_reads(tmp_path / "one.feather"), table)
    assert pa.feather.read_table(str(tmp_path / "one.feather")).num_rows == 300_000


def test_written_buffers_lie_on_64_bytes(tmp_path):
    table = pa.table({"i": pa.array([1, None, 3]), "s": ["a", None, "ccc"], "l": [[1], None, []]})
    path = written(tmp_path / "t.arrow", table)
    data = pa.py_buffer(path.read_bytes())
    for column in pa.ipc.open_file(data).read_all().columns:
        for buffer in column.chunk(0).buffers():
            if buffer is not None and buffer.size:
                assert (buffer.address - data.address) % 64 == 0


def test_nothing_written(tmp_path):
    table = pa.table({"i": pa.array([], pa.int64())})
    for end in [".arrow", ".arrows"]:
        path = written(tmp_path / f"t{end}", table)
        assert pyarrow_reads(path).schema == table.schema and pyarrow_reads(path).num_rows == 0


def test_pipes_get_the_stream(tmp_path, weir_command):
    path = write(tmp_path / "t.arrow", pa.table({"a": [1, 2, 3]}), file=True)
    for name in ["arrow", "arrows"]:
        done = subprocess.run([weir_command, "read", str(path), "then", "write", "-", "--format", name],
                              capture_output=True, check=True)
        assert pa.ipc.open_stream(done.stdout).read_all()["a"].to_pylist() == [1, 2, 3]


def test_codecs_of_other_formats_are_refused(tmp_path):
    with pytest.raises(ChainError, match="lz4 or zstd"):
        written(tmp_path / "t.arrow", pa.table({"a": [1]}), "--compression snappy")
