"""Random values through batches: plain Python, NumPy and pyarrow say what must come out. And nothing is left behind."""
import datetime as dt
import decimal
import gc
import math
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

pa = pytest.importorskip("pyarrow")

import arrow_strategies as arrows
from weir import _weir

RELAXED = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@st.composite
def tables(draw, imports=False):
    count = draw(st.integers(0, 9))
    types = draw(st.lists(arrows.types(3, imports), min_size=1, max_size=3))
    columns = []
    for type in types:
        columns.append(draw(arrows.exact_arrays(type, count + 4)).slice(draw(st.integers(0, 4)), count))
    return pa.record_batch(columns, names=[f"c{n}" for n in range(len(columns))])


def plain(value):
    """For comparison: floats by their bits, tuples as such."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return "NaT" if value != value else value


@RELAXED
@given(tables(imports=True))
def test_arrow_in_and_out(batch):
    got, = _weir.batch_from_arrow(batch)
    back = pa.record_batch(got)
    back.validate(full=True)
    assert got.num_rows == batch.num_rows and got.names == batch.schema.names
    for a, b in zip(batch.columns, back.columns, strict=True):
        assert arrows.rows(a) == arrows.rows(b)
    assert pa.table(got).num_rows == batch.num_rows
    assert _weir.batch_from_arrow(pa.Table.from_batches([batch]))[0] == got or not batch.num_rows


@RELAXED
@given(tables())
def test_rows_are_what_pyarrow_says(batch):
    got, = _weir.batch_from_arrow(batch)
    try:
        expected = batch.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        assume(False)
    try:
        rows = got.rows()
    except (ValueError, OverflowError) as error:
        assert "lies outside" in str(error) or "timedelta" in str(error)
        assume(False)
    assert plain(rows) == plain(expected)
    assert plain(got.rows(1, 3)) == plain(got.slice(1, 3).rows()) == plain(rows[1:3])


def model_numpy(array):
    """What a column must be in NumPy, by the table in docs."""
    type = array.type
    if pa.types.is_dictionary(type):
        return model_numpy(array.dictionary_decode())
    nulls = array.null_count
    if pa.types.is_null(type):
        return np.full(len(array), np.nan, np.float32)
    if pa.types.is_boolean(type):
        return np.array(array.to_pylist(), object if nulls else bool)
    if pa.types.is_integer(type):
        if not nulls:
            return np.array(array.to_pylist(), type.to_pandas_dtype())
        return np.array([np.nan if v is None else float(v) for v in array.to_pylist()])
    if pa.types.is_floating(type):
        return np.array([np.nan if v is None else v for v in array.to_pylist()], type.to_pandas_dtype())
    if pa.types.is_date(type) or pa.types.is_timestamp(type) or pa.types.is_duration(type):
        unit = "D" if pa.types.is_date32(type) else "ms" if pa.types.is_date64(type) else type.unit
        numbers = array.view(pa.int32() if type.bit_width == 32 else pa.int64()).to_pylist()
        kind = "m8" if pa.types.is_duration(type) else "M8"
        return np.array([-2 ** 63 if v is None else v for v in numbers], "i8").view(f"{kind}[{unit}]")
    return None


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
        if a.dtype == object:
            for x, y in zip(a.ravel(), b.ravel(), strict=True):
                same(x, y)
        else:
            np.testing.assert_array_equal(a, b)
    else:
        assert a == b


@RELAXED
@given(tables())
def test_numpy_is_what_the_table_says(batch):
    got, = _weir.batch_from_arrow(batch)
    try:
        columns, copies = got.numpy(), got.numpy(writable=True)
    except (ValueError, OverflowError) as error:
        assert "lies outside" in str(error) or "timedelta" in str(error)
        assume(False)
    for name, array in zip(batch.schema.names, batch.columns):
        assert len(columns[name]) == len(array)
        same(columns[name], copies[name]) if columns[name].dtype != object else None
        assert copies[name].flags.writeable
        expected = model_numpy(array)
        if expected is not None:
            same(columns[name], expected)
        elif pa.types.is_string(array.type) or pa.types.is_binary(array.type) or pa.types.is_decimal(array.type):
            assert columns[name].tolist() == array.to_pylist()
        elif pa.types.is_list(array.type):
            for item, scalar in zip(columns[name], array):
                assert (item is None) == (not scalar.is_valid)
                assert item is None or len(item) == len(scalar)
        elif pa.types.is_fixed_size_list(array.type) and not array.null_count:
            assert columns[name].shape[:2] == (len(array), array.type.list_size)


# ---- Python values ----

moments = st.datetimes(min_value=dt.datetime(1700, 1, 1), max_value=dt.datetime(2200, 1, 1))
leaves = st.one_of(
    st.booleans(), st.integers(-2 ** 63, 2 ** 63 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5), moments,
    st.dates(), st.times(), st.timedeltas(min_value=dt.timedelta(-10 ** 6), max_value=dt.timedelta(10 ** 6)),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-10 ** 9, max_value=10 ** 9))


def of_one_kind(kind):
    """A strategy of values that share a type, nested or not."""
    if kind[0] == "list":
        return st.lists(st.one_of(st.none(), of_one_kind(kind[1])), max_size=4)
    if kind[0] == "dict":
        return st.fixed_dictionaries({name: st.one_of(st.none(), of_one_kind(item)) for name, item in kind[1].items()})
    return {"bool": st.booleans(), "int": st.integers(-2 ** 63, 2 ** 63 - 1), "float": st.floats(),
            "str": st.text(st.characters(codec="utf-8"), max_size=5), "bytes": st.binary(max_size=5), "datetime": moments,
            "date": st.dates(), "time": st.times(),
            "delta": st.timedeltas(min_value=dt.timedelta(-10 ** 6), max_value=dt.timedelta(10 ** 6)),
            "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-10 ** 9,
                                   max_value=10 ** 9)}[kind[0]]


plain_kinds = st.sampled_from(["bool", "int", "float", "str", "bytes", "datetime", "date", "time", "delta",
                               "decimal"]).map(lambda name: (name,))
kinds = st.recursive(plain_kinds, lambda inner: st.one_of(
    inner.map(lambda item: ("list", item)),
    st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(lambda items: ("dict", items))), max_leaves=5)


@RELAXED
@given(st.data())
def test_values_of_one_kind_come_back(data):
    kind = data.draw(kinds)
    values = data.draw(st.lists(st.one_of(st.none(), of_one_kind(kind)), max_size=8))
    batch = _weir.batch_from_rows([{"c": value} for value in values])
    assert plain([row.get("c") for row in batch.rows()]) == plain(values)
    if values:
        assert b"ARROW:extension:name" not in batch.schema()[0][3]
        pa.record_batch(batch).validate(full=True)


@RELAXED
@given(st.lists(st.one_of(st.none(), leaves, st.lists(leaves, max_size=3),
                          st.dictionaries(st.text(max_size=2), leaves, max_size=3)), min_size=1, max_size=6))
def test_any_mix_comes_back(values):
    """As it is, but for ints among floats, bytes among texts and keys that some dicts lack."""
    batch = _weir.batch_from_columns({"c": values})
    got = [row["c"] for row in batch.rows()]
    if batch.schema()[0][3]:
        assert plain(got) == plain(values)
    pa.record_batch(batch).validate(full=True)
    assert batch == _weir.batch_from_rows([{"c": value} for value in values])


@RELAXED
@given(st.lists(st.one_of(st.integers(-2 ** 70, 2 ** 70), st.floats(), st.none()), min_size=1))
def test_ints_and_floats(values):
    got = [row["c"] for row in _weir.batch_from_columns({"c": values}).rows()]
    assert [v if v != v else float(v) if v is not None and abs(v) < 2 ** 53 else v for v in got].__repr__() == \
        [v if v != v else float(v) if v is not None and abs(v) < 2 ** 53 else v for v in values].__repr__()


@RELAXED
@given(hnp.arrays(st.one_of(hnp.boolean_dtypes(), hnp.integer_dtypes(endianness="?"), hnp.floating_dtypes(endianness="?"),
                            hnp.datetime64_dtypes(max_period="s", min_period="ns"),
                            hnp.timedelta64_dtypes(max_period="s", min_period="ns")),
                  hnp.array_shapes(max_dims=4, min_side=0, max_side=4)), st.randoms())
def test_arrays_come_back(array, random):
    if random.random() < 0.5:
        array = array.T
    if random.random() < 0.5:
        array = array[::-1]
    batch = _weir.batch_from_columns({"x": array})
    got = batch.numpy()["x"]
    assert got.dtype == array.dtype.newbyteorder("=") and got.shape == array.shape
    np.testing.assert_array_equal(got, array)
    pa.record_batch(batch).validate(full=True)
    cut = random.randrange(len(array) + 1)
    np.testing.assert_array_equal(batch.slice(cut).numpy()["x"], array[cut:])


# ---- nothing is left behind ----

def make_rows():
    return [{"i": 2 ** 40 + n, "f": n / 3, "s": f"é{n}", "b": bytes([n]), "l": [n, None], "d": {"a": n, "b": [str(n)]},
             "t": np.full(3, n), "r": np.ones(n % 3), "o": complex(n), "m": dt.datetime(2020, 1, 1, 0, 0, n),
             "e": decimal.Decimal(n) / 4, "k": None} for n in range(20)]


def fails(make, *args):
    try:
        make(*args)
    except (ValueError, TypeError):
        return
    raise AssertionError("no error")


LEAKS = {
    "from rows": lambda b: _weir.batch_from_rows(make_rows()),
    "from columns": lambda b: _weir.batch_from_columns(b.numpy()),
    "from arrow": lambda b: (_weir.batch_from_arrow(pa.record_batch(b)), _weir.batch_from_arrow(pa.table(b), objects=True)),
    "numpy": lambda b: (b.numpy(), b.numpy(writable=True), b.column("t"), b.slice(1, 2).numpy()),
    "rows": lambda b: b.rows(),
    "parts": lambda b: (b.slice(3).filter(bytes(17)), b.select(["i", "t"]), b.schema(), repr(b), b.names, b == b),
    "concat": lambda b: _weir.batch_concat([b, b.slice(3), b.slice(1, 2)]),
    "capsules": lambda b: (b.__arrow_c_stream__(), b.__arrow_c_array__(), b.__arrow_c_schema__()),
    "bad text": lambda b: fails(_weir.batch_from_rows, [{"a": "x"}, {"a": "\ud800"}]),
    "bad text below": lambda b: fails(_weir.batch_from_rows, [{"a": [{"b": "x"}]}, {"a": [{"b": "\ud800"}]}]),
    "bad object": lambda b: fails(_weir.batch_from_rows, [{"a": [1]}, {"a": (n for n in [1])}]),
    "bad row": lambda b: fails(_weir.batch_from_rows, [{"a": 1, "b": "x"}, 5]),
    "bad name": lambda b: fails(_weir.batch_from_rows, [{"a": [1], "b\0": 1}]),
    "lengths": lambda b: fails(_weir.batch_from_columns, {"a": np.arange(3), "b": [1, 2]}),
    "scalar": lambda b: fails(_weir.batch_from_columns, {"a": [[1]], "b": 5}),
    "key": lambda b: fails(_weir.batch_from_columns, {"a": [{"x": 1}], 5: [1]}),
    "types": lambda b: fails(_weir.batch_concat, [b, _weir.batch_from_rows([{"i": "x"}])]),
    "mask": lambda b: fails(b.filter, b"1"),
    "years": lambda b: fails(_weir.batch_from_columns({"m": np.array([2 ** 60]).astype("M8[us]")}).rows),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("what", LEAKS)
def test_no_references_are_lost(what):
    """Blocks of memory and references to None, over many calls; caches of others settle, so the best of some rounds counts."""
    batch = _weir.batch_from_rows(make_rows())
    work = LEAKS[what]
    lost = []
    gc.collect()
    bytes_used = _weir.batch_memory()
    for _ in range(6):
        gc.collect()
        blocks, nones = sys.getallocatedblocks(), sys.getrefcount(None)
        for _ in range(100):
            work(batch)
        gc.collect()
        assert _weir.batch_memory() == bytes_used
        lost.append(max(sys.getallocatedblocks() - blocks, sys.getrefcount(None) - nones))
        if lost[-1] < 50:
            return
    raise AssertionError(lost)


def test_foreign_memory_goes_when_the_last_view_does():
    gc.collect()
    before = pa.total_allocated_bytes()
    batch, = _weir.batch_from_arrow(pa.table({"x": pa.array(np.arange(100000) + 1).filter(pa.array([True] * 100000))}))
    gc.collect()
    assert pa.total_allocated_bytes() - before >= 800000
    view = batch.slice(10, 20).numpy()["x"]
    exported = pa.record_batch(batch.slice(5))
    del batch
    gc.collect()
    assert pa.total_allocated_bytes() - before >= 800000
    assert view.tolist() == list(range(11, 21))
    del view
    gc.collect()
    assert exported.column(0)[0].as_py() == 6
    del exported
    gc.collect()
    assert pa.total_allocated_bytes() - before < 800000
