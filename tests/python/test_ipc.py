"""Arrow IPC: what weir writes, other libraries open as it is, and what they write, weir reads equal.

The library under test is libweir_probe.so, which has the engine and a few functions for tests; tables go in and out by
the C Stream Interface.
"""
import ctypes
import gc
import importlib.util
import io
import random
from pathlib import Path

import nanoarrow.ipc
import polars
import pyarrow as pa
import pyarrow.ipc
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("make_corpus", ROOT / "tests/fuzz/make_corpus.py")
corpus = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(corpus)

SAMPLES = dict(corpus.ipc_arrays())  # an array a type


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ["get_schema", "get_next", "get_last_error", "release", "private"]]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("capacity", ctypes.c_size_t),
                ("account", ctypes.c_void_p)]


class WeirError(Exception):
    pass


class Probe:
    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        self.lib.weir_probe_new.restype = ctypes.c_void_p
        self.lib.weir_probe_used.restype = ctypes.c_int64
        self.lib.weir_probe_format_error.restype = ctypes.c_char_p
        self.mem = ctypes.c_void_p(self.lib.weir_probe_new(ctypes.c_int64(1 << 30), self.new_error()))

    @staticmethod
    def new_error():
        return ctypes.create_string_buffer(8192)  # a struct weir_error, and room to spare

    def check(self, code, error):
        if code:
            text = ctypes.create_string_buffer(2000)
            raise WeirError(self.lib.weir_probe_format_error(error, text, ctypes.c_size_t(len(text))).decode())

    def used(self):
        return self.lib.weir_probe_used(self.mem)

    def write(self, table, file=False):
        """The bytes of the table's batches, as weir lays them."""
        stream, text, error = Stream(), Text(), self.new_error()
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches())._export_to_c(ctypes.addressof(stream))
        self.check(self.lib.weir_probe_ipc_write(self.mem, ctypes.byref(stream), int(file), ctypes.byref(text), error),
                   error)
        out = ctypes.string_at(text.data, text.size)
        self.lib.weir_probe_ipc_free(ctypes.byref(text))
        return out

    def read(self, data, shift=0):
        stream, error = Stream(), self.new_error()
        self.check(self.lib.weir_probe_ipc_read(self.mem, data, ctypes.c_uint64(len(data)), ctypes.c_uint64(shift),
                                                ctypes.byref(stream), error), error)
        try:
            return pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)).read_all()
        except (pa.ArrowException, OSError) as error:
            raise WeirError(str(error)) from error


@pytest.fixture(scope="module")
def probe(weir_build):
    path = weir_build / "libweir_probe.so"
    assert path.exists(), f"{path} is not there: build with -Dtests=true, or set WEIR_BUILD"
    probe = Probe(path)
    yield probe
    gc.collect()
    assert probe.used() == 0


def plain_type(type):
    """The type that weir gives to views, runs and small decimals."""
    if pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_binary_view(type):
        return pa.binary()
    if pa.types.is_decimal32(type) or pa.types.is_decimal64(type):
        return pa.decimal128(type.precision, type.scale)
    if isinstance(type, pa.RunEndEncodedType):
        return plain_type(type.value_type)
    if isinstance(type, pa.ListViewType):
        return pa.list_(type.value_field)
    if isinstance(type, pa.LargeListViewType):
        return pa.large_list(type.value_field)
    return type


def assert_same(back, table):
    back.validate(full=True)
    assert back.schema.equals(table.schema, check_metadata=True), f"{back.schema}\n{table.schema}"
    assert back.equals(table), f"{back.to_pylist()}\n{table.to_pylist()}"


# What weir writes

PLAIN = {name: array for name, array in SAMPLES.items() if plain_type(array.type) == array.type}


@pytest.mark.parametrize("name", PLAIN)
def test_written_types_are_read_by_pyarrow(probe, name):
    array = PLAIN[name]
    field = pa.field("c", array.type, metadata={"ARROW:extension:name": "test.kind"} if name == "binary" else None)
    table = pa.table([array], schema=pa.schema([field], metadata={"key": "value"}))
    assert_same(pa.ipc.open_stream(probe.write(table)).read_all(), table)
    assert_same(pa.ipc.open_file(probe.write(table, file=True)).read_all(), table)


def test_converted_layouts_are_written_plain(probe):
    table = pa.table({name: array.slice(0, 2) for name, array in SAMPLES.items() if name not in PLAIN})
    back = pa.ipc.open_stream(probe.write(table)).read_all()
    assert [field.type for field in back.schema] == [plain_type(field.type) for field in table.schema]
    assert back.to_pylist() == table.to_pylist()


def baseline(read, table):
    """What another library makes of pyarrow's own bytes; None where it does not know the type."""
    try:
        return read(corpus.ipc_bytes(table))
    except BaseException:  # Polars panics, and those are no Exceptions
        return None


def by_polars(data):
    return polars.read_ipc_stream(io.BytesIO(data)).to_arrow()


def by_nanoarrow(data):
    with nanoarrow.ipc.InputStream.from_readable(io.BytesIO(data)) as stream:
        return pa.RecordBatchReader.from_stream(stream).read_all()


@pytest.mark.parametrize("read, known_min", [(by_polars, 24), (by_nanoarrow, 28)])
def test_written_types_are_read_by_others(probe, read, known_min):
    known = 0
    for array in PLAIN.values():
        table = pa.table({"c": array})
        expected = baseline(read, table)
        if expected is None:
            continue
        known += 1
        assert_same(read(probe.write(table)), expected)
    assert known >= known_min


def test_buffers_lie_on_64_bytes(probe):
    table = pa.table({"i": pa.array([1, None, 3]), "s": ["a", None, "ccc"], "l": [[1], None, []]})
    data = probe.write(table)
    address = pa.py_buffer(data).address
    for column in pa.ipc.open_stream(data).read_all().columns:
        for buffer in column.chunk(0).buffers():
            if buffer is not None and buffer.size:
                assert (buffer.address - address) % 64 == 0


def test_slices_take_only_their_own_bytes(probe):
    table = pa.table({"s": ["x" * 1000] * 1000, "l": [list(range(100))] * 1000, "b": [True, None] * 500})
    for offset, length in [(0, 1), (13, 3), (999, 1), (500, 0)]:
        part = table.slice(offset, length)
        data = probe.write(part)
        assert len(data) < 3000 + 2500 * length
        assert_same(pa.ipc.open_stream(data).read_all(), part)


def test_no_nulls_no_bitmap(probe):
    array = pa.array([1, None, 3]).slice(2)
    batch = pa.ipc.open_stream(probe.write(pa.table({"a": array}))).read_next_batch()
    assert batch.column(0).buffers()[0] is None


def test_dictionaries_are_written_when_they_change(probe):
    values = [["a", "b"], ["a", "b"], ["c"]]
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int16()), v) for v in values])
    table = pa.table({"d": column})
    data = probe.write(table)
    assert pa.ipc.open_stream(data).read_all().to_pylist() == table.to_pylist()
    reader = pa.ipc.open_stream(data)
    reader.read_all()
    assert reader.stats.num_dictionary_batches == 2 and reader.stats.num_record_batches == 3


# What others write

@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("options", [{}, {"file": True}, {"compression": "lz4"}, {"compression": "zstd"},
                                     {"use_legacy_format": True, "metadata_version": pa.ipc.MetadataVersion.V4}],
                         ids=["stream", "file", "lz4", "zstd", "legacy"])
def test_types_of_pyarrow_are_read(probe, name, options):
    array = SAMPLES[name]
    table = pa.table({"c": array})
    back = probe.read(corpus.ipc_bytes(table, **options))
    back.validate(full=True)
    assert back.schema.field(0).type == plain_type(array.type)
    assert back.to_pylist() == table.to_pylist()


def test_polars_files_are_read(probe):
    frame = polars.DataFrame({"s": ["short", None, "a text of more than twelve bytes"] * 50, "i": range(150),
                              "l": [["x", None]] * 150, "c": polars.Series(["a", "b", "a"] * 50).cast(polars.Categorical)})
    for compression in ["uncompressed", "lz4", "zstd"]:
        for level in [polars.CompatLevel.newest(), polars.CompatLevel.oldest()]:
            for write in [frame.write_ipc, frame.write_ipc_stream]:
                out = io.BytesIO()
                write(out, compression=compression, compat_level=level)
                assert probe.read(out.getvalue()).to_pylist() == frame.to_dicts()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_large_compressed_buffers(probe, compression):
    dice = random.Random(5)
    table = pa.table({"same": [7] * 300_000, "noise": [dice.getrandbits(62) for _ in range(300_000)],
                      "text": [f"row {i % 1000}" for i in range(300_000)]})
    assert_same(probe.read(corpus.ipc_bytes(table, compression=compression)), table)


@pytest.mark.parametrize("file", [False, True])
def test_dictionary_deltas(probe, file):
    values = [["a"], ["a", "b"], ["a", "b", "c"]] + ([] if file else [["z"]])
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([len(v) - 1, None, 0], pa.int8()), v)
                               for v in values])
    table = pa.table({"d": column})
    back = probe.read(corpus.ipc_bytes(table, file=file, emit_dictionary_deltas=True))
    assert back.to_pylist() == table.to_pylist()


def test_nested_dictionaries(probe):
    inner = pa.array(["x", "y", "x"]).dictionary_encode()
    values = pa.StructArray.from_arrays([inner, pa.array([1, 2, 3])], ["k", "n"])
    outer = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1], pa.int8()), values)
    table = pa.table({"d": pa.ListArray.from_arrays([0, 1, 1, 4], outer), "e": inner})
    assert probe.read(corpus.ipc_bytes(table)).to_pylist() == table.to_pylist()
    assert pa.ipc.open_stream(probe.write(table)).read_all().to_pylist() == table.to_pylist()


def test_converted_layouts_inside_others(probe):
    views = pa.array(["short", None, "a text of more than twelve bytes", "z"], pa.string_view())
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int16()), pa.array([[1], None]))
    coded = pa.RunEndEncodedArray.from_arrays(pa.array([1, 5], pa.int64()), pa.array(["p", "q"]).dictionary_encode())
    table = pa.table({
        "d": pa.DictionaryArray.from_arrays(pa.array([3, 2, 1, None, 0], pa.int8()), views),
        "l": pa.ListViewArray.from_arrays([3, 0, 1, 1, 0], [1, 3, 0, 2, 4], views),
        "s": pa.StructArray.from_arrays([pa.array(["a", None, "b" * 20, "", "c"], pa.string_view()), coded], ["v", "c"]),
        "r": runs,
        "after": pa.array(range(5)),
    })
    assert probe.read(corpus.ipc_bytes(table)).to_pylist() == table.to_pylist()


def test_bytes_off_every_boundary(probe):
    table = pa.table({name: array.take(pa.array([0, 1])) for name, array in PLAIN.items() if "dictionary" not in name})
    for shift in [1, 2, 4, 8]:
        assert_same(probe.read(corpus.ipc_bytes(table), shift=shift), table)


def test_unknown_types_are_refused_by_name(probe):
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    with pytest.raises(WeirError, match="u.*union"):
        probe.read(corpus.ipc_bytes(pa.table({"u": union})))


def test_errors_name_the_place(probe):
    good = corpus.ipc_bytes(pa.table({"s": pa.array([{"t": ["seven letters"]}])}))
    at = good.rindex(b"seven letters")
    with pytest.raises(WeirError, match=r"column s\.t\.item, row 0, byte \d+: .*UTF-8"):
        probe.read(good[:at] + b"\xff" + good[at + 1:])


# Random tables, both ways

LEAVES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 65535),
    pa.int64(): st.integers(-2**63, 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.timestamp("us", "UTC"): st.integers(-10**15, 10**15),
    pa.decimal128(20, 2): st.decimals(-10**9, 10**9, places=2),
    pa.null(): st.none(),
}


def fields(types):
    return st.lists(st.tuples(types, st.booleans()), max_size=3).map(
        lambda list: [pa.field(f"f{i}", type, nullable=True) for i, (type, _) in enumerate(list)])


TYPES = st.recursive(
    st.sampled_from(list(LEAVES)),
    lambda types: st.one_of(types.map(pa.list_), types.map(pa.large_list), types.map(lambda t: pa.list_(t, 2)),
                            fields(types).map(pa.struct), types.map(lambda t: pa.map_(pa.int8(), t))),
    max_leaves=5)


def values(type):
    if pa.types.is_struct(type):
        value = st.fixed_dictionaries({field.name: values(field.type) for field in type})
    elif pa.types.is_map(type):
        value = st.dictionaries(st.integers(-128, 127), values(type.item_type), max_size=3).map(
            lambda items: list(items.items()))
    elif pa.types.is_fixed_size_list(type):
        value = st.lists(values(type.value_type), min_size=2, max_size=2)
    elif pa.types.is_list(type) or pa.types.is_large_list(type):
        value = st.lists(values(type.value_type), max_size=3)
    else:
        value = LEAVES[type]
    return st.none() | value


@st.composite
def tables(draw):
    types = draw(st.lists(TYPES, min_size=1, max_size=4))
    count = draw(st.integers(0, 12))
    columns = [pa.array(draw(st.lists(values(type), min_size=count, max_size=count)), type) for type in types]
    offset = draw(st.integers(0, count))
    return pa.table(columns, names=[f"c{i}" for i in range(len(columns))]).slice(offset)


RANDOM = settings(max_examples=examples(150), deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))


@RANDOM
@given(tables())
def test_random_tables_are_written(probe, table):
    assert_same(pa.ipc.open_stream(probe.write(table)).read_all(), table)
    assert_same(pa.ipc.open_file(probe.write(table, file=True)).read_all(), table)


@RANDOM
@given(tables(), st.sampled_from([None, "lz4", "zstd"]), st.booleans(), st.sampled_from([0, 1, 8]))
def test_random_tables_are_read(probe, table, compression, file, shift):
    assert_same(probe.read(corpus.ipc_bytes(table, file=file, compression=compression), shift), table)


# Damage

# Where pyarrow's full validation asks for nothing that weir leaves open (days of date64, digits of decimals).
CHECKED = ["binary", "bool", "dictionary", "int32", "large_string", "list", "map", "string", "string_view", "struct",
           "run_end_encoded", "list_view", "fixed_list", "deltas", "file", "file_dictionary", "lz4", "zstd", "legacy"]


@pytest.mark.parametrize("name", CHECKED)
def test_damage_is_an_error_or_a_valid_table(probe, name):
    good = (ROOT / "tests/fuzz/corpus/ipc" / name).read_bytes()
    seed = sum(name.encode())
    print("seed", seed)
    dice = random.Random(seed)
    cases = [good[:size] for size in range(0, len(good), 3)]
    for at in range(len(good)):
        cases.append(good[:at] + bytes([good[at] ^ 1 << dice.randrange(8)]) + good[at + 1:])
    refused = 0
    for data in cases:
        try:
            probe.read(data).validate(full=True)
        except WeirError as error:
            assert str(error)
            refused += 1
    assert refused > len(cases) / 10
