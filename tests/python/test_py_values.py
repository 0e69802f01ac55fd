"""Python values into batches and back: weir._weir.Batch against plain Python, NumPy and pyarrow."""
import datetime as dt
import decimal
import enum
import re
import uuid
from collections import OrderedDict, UserDict, deque, namedtuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from weir import _weir

OBJECT = "weir.python_object"
FIXED = "arrow.fixed_shape_tensor"
RAGGED = "arrow.variable_shape_tensor"
UTC = dt.timezone.utc


class Text(str):
    pass


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


Pair = namedtuple("Pair", "a b")


def extension(batch, at=0):
    return batch.schema()[at][3].get(b"ARROW:extension:name", b"").decode()


def column(values):
    """The type of a column made of these values, and what comes back as rows; by both ways in."""
    batch = _weir.batch_from_rows([{"c": value} for value in values])
    assert batch == _weir.batch_from_columns({"c": list(values)})
    return extension(batch) or batch.schema()[0][1], [row["c"] for row in batch.rows()]


# values, type, what comes back (the values themselves unless given)
INFERRED = [
    ([1, 2], "int64"),
    ([1, None], "int64"),
    ([1, 2.5], "double", [1.0, 2.5]),
    ([2.5, 1], "double", [2.5, 1.0]),
    ([2.5, 2 ** 60 + 1], OBJECT),
    ([True, False], "bool"),
    ([True, None], "bool"),
    ([True, 2], OBJECT),
    ([2, True], OBJECT),
    ([True, 2.5], OBJECT),
    (["a", "b"], "string"),
    (["a\0b", ""], "string"),
    (["a", 1], OBJECT),
    ([b"a", None], "binary"),
    ([b"a", "a"], "binary", [b"a", b"a"]),
    (["a", b"b"], "string", ["a", "b"]),
    (["a", b"\xff"], OBJECT),
    ([None, None], "null"),
    ([2 ** 70], OBJECT),
    ([1, 2 ** 70], OBJECT),
    ([2 ** 63], OBJECT),
    ([-2 ** 63, 2 ** 63 - 1], "int64"),
    ([np.int8(1), np.int8(2)], "int8", [1, 2]),
    ([np.int8(1), np.int16(300)], "int16", [1, 300]),
    ([np.int8(1), 300], "int64", [1, 300]),
    ([np.uint8(1), np.int8(-1)], "int16", [1, -1]),
    ([np.uint64(2 ** 63)], "uint64", [2 ** 63]),
    ([np.uint64(2 ** 63), np.int64(-1)], OBJECT),
    ([np.uint64(7), np.int64(-1)], "int64", [7, -1]),
    ([np.float32(1.5)], "float", [1.5]),
    ([np.float32(1.5), 2.5], "double", [1.5, 2.5]),
    ([np.float32(1.5), 3], "double", [1.5, 3.0]),
    ([np.float16(1.5), np.float32(2)], "float", [1.5, 2.0]),
    ([np.float16(1.5)], "halffloat", [1.5]),
    ([np.bool_(True)], "bool", [True]),
    ([np.int32(3), None], "int32", [3, None]),
    ([np.str_("a")], "string", ["a"]),
    ([np.bytes_(b"a")], "binary", [b"a"]),
    ([np.datetime64("2020-01-01")], "date32[day]", [dt.date(2020, 1, 1)]),
    ([np.datetime64("2020-01-01T00:00:01"), None], "timestamp[s]", [dt.datetime(2020, 1, 1, 0, 0, 1), None]),
    ([np.datetime64("NaT"), np.datetime64("2020-01-01", "s")], "timestamp[s]", [None, dt.datetime(2020, 1, 1)]),
    ([np.datetime64("2020-01-01T05", "h")], "timestamp[s]", [dt.datetime(2020, 1, 1, 5)]),
    ([np.timedelta64(3, "s")], "duration[s]", [dt.timedelta(seconds=3)]),
    ([np.timedelta64(3, "D")], "duration[s]", [dt.timedelta(days=3)]),
    ([np.timedelta64("NaT"), np.timedelta64(3, "m")], "duration[s]", [None, dt.timedelta(minutes=3)]),
    ([np.datetime64("2020-01", "M"), np.datetime64("1969", "Y")], "date32[day]", [dt.date(2020, 1, 1), dt.date(1969, 1, 1)]),
    ([np.datetime64("2020-01-01", "D"), np.datetime64(5, "25ms")], "timestamp[ms]",
     [dt.datetime(2020, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 125000)]),
    ([[np.datetime64("2020-01-01", "s")], [None], [np.datetime64("NaT", "s")]], "list<item: timestamp[s]>",
     [[dt.datetime(2020, 1, 1)], [None], [None]]),
    ([{"t": np.datetime64(5, "ms"), "d": [np.timedelta64(-7, "us")]}], "struct<t: timestamp[ms], d: list<item: duration[us]>>",
     [{"t": dt.datetime(1970, 1, 1, 0, 0, 0, 5000), "d": [dt.timedelta(microseconds=-7)]}]),
    ([[{"t": np.timedelta64(3, "s")}]], "list<item: struct<t: duration[s]>>", [[{"t": dt.timedelta(seconds=3)}]]),
    ([{"t": np.array([1, "NaT", 3], "M8[us]")[::-2]}], "struct<t: list<item: timestamp[us]>>",
     [{"t": [dt.datetime(1970, 1, 1, 0, 0, 0, 3), dt.datetime(1970, 1, 1, 0, 0, 0, 1)]}]),
    ([{"t": np.array([1, 2], ">m8[s]")}, {"t": [np.timedelta64(3, "s")]}], "struct<t: list<item: duration[s]>>",
     [{"t": [dt.timedelta(seconds=1), dt.timedelta(seconds=2)]}, {"t": [dt.timedelta(seconds=3)]}]),
    ([{"t": np.datetime64("2020-01-01")}], OBJECT),
    ([[np.timedelta64(3, "h")]], OBJECT),
    ([[np.datetime64(5, "25ms")]], OBJECT),
    ([[np.datetime64(5, "s"), np.datetime64(5, "ms")]], OBJECT),
    ([[np.datetime64(5, "s"), dt.datetime(2020, 1, 1)]], OBJECT),
    ([[np.datetime64(5, "s"), np.timedelta64(5, "s")]], OBJECT),
    ([dt.datetime(2020, 1, 1)], "timestamp[s]"),
    ([dt.datetime(2020, 1, 1, 0, 0, 0, 5000)], "timestamp[ms]"),
    ([dt.datetime(2020, 1, 1, 0, 0, 0, 5), None, dt.datetime(1, 1, 1)], "timestamp[us]"),
    ([dt.datetime(2020, 1, 1, tzinfo=UTC)], "timestamp[s, tz=UTC]"),
    ([dt.datetime(2020, 6, 1, tzinfo=ZoneInfo("Europe/Berlin"))], "timestamp[s, tz=Europe/Berlin]"),
    ([dt.datetime(2020, 6, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30)))],
     "timestamp[s, tz=-05:30]"),
    ([dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1)], OBJECT),
    ([[dt.datetime(2020, 1, 1)], []], "list<item: timestamp[us]>"),
    ([{"t": [dt.datetime(2020, 1, 1, tzinfo=UTC)]}, {"t": None}], "struct<t: list<item: timestamp[us, tz=UTC]>>"),
    ([dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)], "date32[day]"),
    ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)], OBJECT),
    ([dt.time(1, 2, 3, 4), dt.time(23, 59, 59)], "time64[us]"),
    ([dt.time(1, tzinfo=UTC)], OBJECT),
    ([dt.timedelta(1), None, dt.timedelta(microseconds=-3)], "duration[us]"),
    ([decimal.Decimal("1.50")], "decimal128(3, 2)"),
    ([decimal.Decimal("-1.5"), decimal.Decimal("100.25")], "decimal128(5, 2)"),
    ([decimal.Decimal("1.5"), 3], "decimal128(2, 1)", [decimal.Decimal("1.5"), decimal.Decimal("3.0")]),
    ([3, decimal.Decimal("1.5")], "decimal128(2, 1)", [decimal.Decimal("3.0"), decimal.Decimal("1.5")]),
    ([decimal.Decimal("1E+5")], "decimal128(6, 0)"),
    ([decimal.Decimal("0.0010")], "decimal128(4, 4)"),
    ([decimal.Decimal(10) ** 60], "decimal256(61, 0)"),
    ([decimal.Decimal("1E-80")], OBJECT),
    ([decimal.Decimal("1.5"), 2.5], OBJECT),
    ([[1, 2], [3]], "list<item: int64>"),
    ([[1], None, []], "list<item: int64>"),
    ([[]], "list<item: null>"),
    ([[1], [2.5]], "list<item: double>", [[1.0], [2.5]]),
    ([["a"], [1]], OBJECT),
    ([[[1]], [[2], []]], "list<item: list<item: int64>>"),
    ([[1], 1], OBJECT),
    ([(1, 2)], "list<item: int64>", [[1, 2]]),
    ([{1}], "list<item: int64>", [[1]]),
    ([frozenset({1})], OBJECT),
    ([Pair(1, 2)], "list<item: int64>", [[1, 2]]),
    ([deque([1])], OBJECT),
    ([{"a": 1}, {"b": 2}], "struct<a: int64, b: int64>", [{"a": 1, "b": None}, {"a": None, "b": 2}]),
    ([{}], "struct<>"),
    ([{}, {"a": 1}, None], "struct<a: int64>", [{"a": None}, {"a": 1}, None]),
    ([{"a": 1}, {"a": "x"}], OBJECT),
    ([{1: 2}], OBJECT),
    ([{"b": 1, "a": 2}, {"c": 3, "a": 1}], "struct<b: int64, a: int64, c: int64>",
     [{"b": 1, "a": 2, "c": None}, {"b": None, "a": 1, "c": 3}]),
    ([OrderedDict(a=1)], "struct<a: int64>", [{"a": 1}]),
    ([UserDict(a=1)], OBJECT),
    ([{"a": np.zeros(2, np.float32)}], "struct<a: list<item: float>>", [{"a": [0.0, 0.0]}]),
    ([[np.array(["a", "b"])]], "list<item: list<item: string>>", [[["a", "b"]]]),
    ([[1.0], np.zeros(3)], "list<item: double>", [[1.0], [0.0, 0.0, 0.0]]),
    ([np.array(1), np.array(2)], "int64", [1, 2]),
    ([Text("x")], "string", ["x"]),
    ([Colour.RED], OBJECT),
    ([Level.LOW], "int64", [1]),
    ([bytearray(b"x"), memoryview(b"y")], "binary", [b"x", b"y"]),
    ([uuid.UUID(int=5), None], "arrow.uuid"),
    ([[uuid.UUID(int=5)]], OBJECT),
    ([{"u": uuid.UUID(int=5)}], OBJECT),
    ([uuid.UUID(int=5), 5], OBJECT),
    ([1j], OBJECT),
    ([object, int], OBJECT),
]


@pytest.mark.parametrize("case", INFERRED, ids=lambda case: re.sub(" at 0x[0-9a-f]+", "", repr(case[0]))[:60])
def test_inferred_types(case):
    values, type = case[:2]
    got_type, got = column(values)
    expected = case[2] if len(case) > 2 else values
    assert got_type == type
    assert got == expected
    assert [kind(a) for a in got] == [kind(b) for b in expected]


def kind(value):
    return value.__class__


def test_nan_is_a_float_and_none_is_null():
    type, got = column([float("nan"), None, 1.0])
    assert type == "double"
    assert got[0] != got[0] and got[1:] == [None, 1.0]


def test_columns_in_the_order_of_their_first_appearance():
    batch = _weir.batch_from_rows([{"b": 1}, {"a": 2, "b": 3}, UserDict(c=4)])
    assert batch.names == ["b", "a", "c"]
    assert batch.rows() == [{"b": 1, "a": None, "c": None}, {"b": 3, "a": 2, "c": None},
                            {"b": None, "a": None, "c": 4}]


def test_rows_without_columns_and_columns_without_rows():
    batch = _weir.batch_from_rows([{}, {}])
    assert (batch.num_rows, batch.names, batch.rows(), batch.numpy()) == (2, [], [{}, {}], {})
    assert _weir.batch_from_columns({}).num_rows == 0
    assert _weir.batch_from_columns({}, num_rows=5).num_rows == 5
    assert _weir.batch_from_rows([]).num_rows == 0
    empty = _weir.batch_from_columns({"a": [], "b": np.zeros((0, 3), np.int8)})
    assert empty.rows() == []
    assert empty.numpy()["b"].shape == (0, 3)


# ---- columns of arrays ----

def test_numpy_columns_keep_their_type_in_any_layout():
    base = np.arange(24, dtype=np.int32).reshape(6, 4)
    cases = {
        "plain": base[:, 0], "reversed": base[::-1, 1], "swapped": base[:, 2].astype(">i4"),
        "askew": np.frombuffer(b"\0" + base[:, 3].tobytes(), np.int32, 6, 1),
    }
    batch = _weir.batch_from_columns(cases)
    for (name, array), (got_name, got) in zip(cases.items(), batch.numpy().items(), strict=True):
        assert name == got_name and got.dtype == np.int32
        np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["bool", "i1", "u8", "f2", "f4", "f8", "M8[us]", "m8[s]", ">f4"])
def test_arrays_of_several_dimensions_are_tensors(dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4) % 2, order=order).astype(dtype)
    batch = _weir.batch_from_columns({"t": array})
    assert extension(batch) == FIXED
    assert batch.schema()[0][3][b"ARROW:extension:metadata"] == b'{"shape":[3,4]}'
    got = batch.numpy()["t"]
    assert got.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, array)
    np.testing.assert_array_equal(np.stack([row["t"] for row in batch.rows()]), array)
    np.testing.assert_array_equal(batch.slice(1, 2).numpy()["t"], array[1:])


def test_arrays_in_rows():
    same = _weir.batch_from_rows([{"x": np.full((2, 3), n, np.float32)} for n in range(4)])
    assert extension(same) == FIXED and same.numpy()["x"].shape == (4, 2, 3)
    assert not same.rows()[0]["x"].flags.writeable
    holes = _weir.batch_from_rows([{"x": np.ones(2)}, {"x": None}, {}])
    assert extension(holes) == FIXED
    assert [None if v is None else v.tolist() for v in holes.numpy()["x"]] == [[1.0, 1.0], None, None]
    ragged = _weir.batch_from_rows([{"x": np.ones((2, n), np.int16)} for n in (1, 0, 3)] + [{"x": None}])
    assert extension(ragged) == RAGGED
    shapes = [None if row["x"] is None else (row["x"].shape, row["x"].dtype) for row in ragged.rows()]
    assert shapes == [((2, 1), np.int16), ((2, 0), np.int16), ((2, 3), np.int16), None]
    assert ragged.slice(2, 4).numpy()["x"][0].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert extension(_weir.batch_from_rows([{"x": np.ones(2)}, {"x": np.ones((2, 2))}])) == OBJECT
    assert extension(_weir.batch_from_rows([{"x": np.ones(2, complex)}])) == OBJECT
    assert extension(_weir.batch_from_columns({"x": np.ones((2, 3), np.longdouble)})) == OBJECT


def test_text_and_object_arrays():
    batch = _weir.batch_from_columns({
        "u": np.array(["a", "bcd", ""]), "s": np.array([b"a", b"bcd", b""]),
        "o": np.array([1, None, 3], object), "l": np.array([[1, 2], None, [3]], object),
        "t": np.array([np.ones(2), np.zeros(2), np.ones(2)] + [0], object)[:3],
        "d": np.array(["2020-01-01", "NaT", "1900-02-03"], "M8[D]"),
        "m": np.ma.masked_array([1, 2, 3], [False, True, False]),
    })
    assert [field[1] for field in batch.schema()] == [
        "string", "binary", "int64", "list<item: int64>", "fixed_size_list<item: double>[2]", "date32[day]", "int64"]
    rows = batch.rows()
    assert [row["m"] for row in rows] == [1, None, 3]
    assert [row["d"] for row in rows] == [dt.date(2020, 1, 1), None, dt.date(1900, 2, 3)]
    assert batch.numpy()["d"].dtype == "M8[D]" and np.isnat(batch.numpy()["d"][1])


def test_columns_of_other_libraries():
    pa, pd, torch = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "torch"))
    grad = torch.arange(3, dtype=torch.float32, requires_grad=True)
    batch = _weir.batch_from_columns({
        "t": grad, "t2": torch.ones(3, 2, dtype=torch.int8), "s": pd.Series([1.0, float("nan"), 3.0], index=[5, 6, 7]),
        "a": pa.array(["x", None, "z"]), "c": pa.chunked_array([[1], [], [2, 3]]),
        "x": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 3, pa.binary(16))),
    })
    assert [field[1] for field in batch.schema()] == [
        "float", "fixed_size_list<item: int8>[2]", "double", "string", "int64", "fixed_size_binary[16]"]
    assert extension(batch, 5) == "arrow.uuid"
    assert [row["s"] for row in batch.rows()] == [1.0, None, 3.0]
    rows = _weir.batch_from_rows([{"t": torch.ones(2)}, {"t": torch.zeros(2)}])
    assert extension(rows) == FIXED and rows.numpy()["t"].dtype == np.float32
    assert _weir.batch_from_columns({"t": [torch.ones(2), torch.zeros(2)]}) == rows
    assert extension(_weir.batch_from_columns({"t": [None, torch.ones(2), torch.ones(3)]})) == RAGGED
    assert column([torch.tensor(1), torch.tensor(2)]) == ("int64", [1, 2])
    assert _weir.batch_from_columns({"e": pa.chunked_array([], pa.int8())}).schema()[0][1] == "int8"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_arrays_of_derived_classes_are_arrays():
    matrix = np.matrix([[1, 2], [3, 4]])
    for rows in ([matrix, matrix], [matrix, matrix[:1]]):
        made = [row["m"] for row in _weir.batch_from_rows([{"m": m} for m in rows]).rows()]
        assert [type(m) for m in made] == [np.ndarray, np.ndarray]
        assert [m.tolist() for m in made] == [m.tolist() for m in rows]
    assert [row["m"].tolist() for row in _weir.batch_from_columns({"m": matrix}).rows()] == [[1, 2], [3, 4]]


def test_values_that_say_no_more_than_they_are():
    for value in (np.void(b"abc"), np.timedelta64(5), np.array([1, 2], dtype="m8")):
        for made in (_weir.batch_from_rows([{"x": value}]), _weir.batch_from_columns({"x": [value]})):
            back = made.rows()[0]["x"]
            assert type(back) is type(value) and back.dtype == value.dtype and np.all(back == value)


def test_long_longs_are_integers():
    for scalar, kind in ((np.longlong(-5), "int64"), (np.ulonglong(2**64 - 1), "uint64")):
        for value, type_text in ((scalar, kind), ([scalar], f"list<item: {kind}>")):
            made = _weir.batch_from_rows([{"x": value}, {"x": None}])
            assert made.schema()[0][1] == type_text and made.rows()[0]["x"] == value


def test_arrays_of_arrow_in_rows_are_lists():
    pa = pytest.importorskip("pyarrow")
    rows = [{"a": pa.array([1, None])}, {"a": pa.chunked_array([[3], []])}, {"a": None}]
    batch = _weir.batch_from_rows(rows)
    assert batch.schema()[0][1] == "list<item: int64>" and [row["a"] for row in batch.rows()] == [[1, None], [3], None]


def test_numbers_are_borrowed_and_let_go():
    import gc
    import weakref
    array = np.arange(1000)
    batch = _weir.batch_from_columns({"x": array})
    address = array.ctypes.data
    view = batch.numpy()["x"]
    assert view.ctypes.data == address and not view.flags.writeable
    held = weakref.ref(array)
    del array, batch
    gc.collect()
    assert held() is not None, "the view lives"
    assert view[-5:].tolist() == [995, 996, 997, 998, 999]
    part = view[10:20]
    del view
    gc.collect()
    assert held() is not None
    del part
    gc.collect()
    assert held() is None


def test_writable_arrays_are_copies():
    array = np.arange(5)
    batch = _weir.batch_from_columns({"x": array, "t": np.zeros((5, 2)), "m": array.astype("M8[s]"), "s": list("abcde")})
    for got in batch.numpy(writable=True).values():
        assert got.flags.writeable
    got = batch.numpy(writable=True)
    got["x"][:] = 7
    got["t"][:] = 7
    assert batch.numpy()["x"].tolist() == [0, 1, 2, 3, 4] and batch.numpy()["t"].sum() == 0
    with pytest.raises(ValueError):
        batch.numpy()["x"][0] = 1
    with pytest.raises(ValueError):
        batch.numpy()["x"].flags.writeable = True


@pytest.mark.parametrize("values", [["x", "\ud800"], [["x"], ["\ud800", None]], [{"a": "x"}, {"a": "\udfff"}], ["\ud800", None, "é"]])
def test_texts_with_lone_surrogates_are_objects(values):
    """They have no UTF-8."""
    for batch in (_weir.batch_from_rows([{"c": value} for value in values]), _weir.batch_from_columns({"c": values})):
        assert [row["c"] for row in batch.rows()] == values
        assert b"ARROW:extension:name" in batch.schema()[0][3]


# ---- errors ----

def test_errors_name_the_column_the_row_and_the_type():
    def fails(text, make, *args):
        with pytest.raises((ValueError, TypeError)) as caught:
            make(*args)
        assert text in str(caught.value), str(caught.value)

    fails("column 'g', row 1, a value of type generator", _weir.batch_from_rows, [{"g": 1}, {"g": (n for n in [1])}])
    fails("row 1 is a value of type int", _weir.batch_from_rows, [{"a": 1}, 5])
    fails("row 0 is a value of type list", _weir.batch_from_rows, [[("a", 1)]])
    fails("row 0 is a value of type NoneType", _weir.batch_from_rows, [None])
    fails("not by 5 of type int", _weir.batch_from_rows, [{5: 1}])
    fails("contains a NUL", _weir.batch_from_rows, [{"a\0": 1}])
    fails("column 'x' is of type int", _weir.batch_from_columns, {"x": 5})
    fails("column 'x' is of type str", _weir.batch_from_columns, {"x": "abc"})
    fails("column 'x' is of type generator", _weir.batch_from_columns, {"x": (n for n in [1])})
    fails("column 'x' is an array without dimensions", _weir.batch_from_columns, {"x": np.array(5)})
    fails("'x' has 2 rows, 'y' has 3", _weir.batch_from_columns, {"x": [1, 2], "y": np.arange(3)})
    fails("a mapping of names to columns is wanted, not a value of type list", _weir.batch_from_columns, [1])
    fails("'x' has 2 rows, not 3", lambda: _weir.batch_from_columns({"x": [1, 2]}, num_rows=3))


def test_nesting_without_end_is_an_object():
    deep = 1
    for _ in range(150):
        deep = [deep]
    assert column([deep])[0] == OBJECT
    ring = []
    ring.append(ring)
    assert extension(_weir.batch_from_columns({"r": [ring]})) == OBJECT
    level = 1
    for _ in range(90):
        level = {"a": level}
    assert column([level])[1] == [level]


def test_values_that_change_while_they_are_read():
    rows = [{"a": 1} for _ in range(3)]

    class Sly(dt.datetime):
        def __sub__(self, other):
            rows.clear()
            return super().__sub__(other)

    rows[1]["a"] = Sly(2020, 1, 1)
    rows[0]["a"] = rows[2]["a"] = dt.datetime(2020, 1, 1)
    assert _weir.batch_from_rows(rows).num_rows == 3


def test_slices_and_parts():
    batch = _weir.batch_from_columns({"a": list(range(10)), "b": list("abcdefghij")})
    assert batch.slice(2, 4).rows() == [{"a": 2, "b": "c"}, {"a": 3, "b": "d"}]
    assert batch.slice(-3).num_rows == 3 and batch.slice(8, 100).num_rows == 2 and batch.slice(5, 2).num_rows == 0
    assert batch.rows(9) == [{"a": 9, "b": "j"}] and batch.rows(0, -9) == [{"a": 0, "b": "a"}]
    assert batch.select(["b"]).names == ["b"] and batch.select([1, 0]).names == ["b", "a"]
    assert batch.column("a").tolist() == list(range(10)) and batch.column(-1)[0] == "a"
    with pytest.raises(KeyError):
        batch.column("c")
    with pytest.raises(IndexError):
        batch.column(2)
    assert batch.filter(bytes([1, 0] * 5)).column(0).tolist() == [0, 2, 4, 6, 8]
    assert batch.filter(np.arange(10) > 7).rows() == batch.rows(8)
    assert len(batch) == 10 and "10 rows: a: int64, b: string" in repr(batch)
    assert batch == batch.slice(0) and batch != batch.slice(1)
    with pytest.raises(TypeError):
        hash(batch)
    with pytest.raises(TypeError):
        _weir.Batch()


def test_columns_of_one_name():
    pa = pytest.importorskip("pyarrow")
    batch, = _weir.batch_from_arrow(pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"]))
    for make in (batch.rows, batch.numpy):
        with pytest.raises(ValueError, match="two columns are named 'a'"):
            make()


# ---- objects ----

def test_pickled_objects_stay_bytes_when_they_come_from_elsewhere():
    pa = pytest.importorskip("pyarrow")
    batch = _weir.batch_from_rows([{"o": Colour.RED}, {"o": None}])
    assert batch.rows() == [{"o": Colour.RED}, {"o": None}]
    assert batch.numpy()["o"].tolist() == [Colour.RED, None]
    table = pa.record_batch(batch)
    strange, = _weir.batch_from_arrow(table)
    assert isinstance(strange.rows()[0]["o"], bytes) and not extension(strange)
    own, = _weir.batch_from_arrow(table, objects=True)
    assert own.rows() == batch.rows()
    column = _weir.batch_from_columns({"o": table.column(0)})
    assert isinstance(column.rows()[0]["o"], bytes) and not extension(column)


@pytest.mark.parametrize("end", ["parquet", "arrow"])
def test_no_file_is_ever_unpickled(tmp_path, end):
    pa = pytest.importorskip("pyarrow")
    import pickle

    import pyarrow.parquet as pq

    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "sprung"), "w")

    field = pa.field("o", pa.binary(), metadata={"ARROW:extension:name": OBJECT, "other": "x"})
    table = pa.table([pa.array([pickle.dumps(Trap())])], schema=pa.schema([field]))
    path = str(tmp_path / f"a.{end}")
    if end == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    flow = _weir.Flow(_weir.Session())
    flow.step("read", [path])
    task = flow.start()
    batch = task.next()
    assert isinstance(batch.rows()[0]["o"], bytes) and isinstance(batch.numpy()["o"][0], bytes)
    assert not (tmp_path / "sprung").exists()


# ---- several batches ----

def test_concat_unifies():
    a = _weir.batch_from_rows([{"x": 1, "y": "a"}])
    b = _weir.batch_from_rows([{"y": "b", "x": 2.5, "z": [1]}])
    c = _weir.batch_from_rows([{"x": None, "y": None}])
    assert _weir.batch_concat([a, b, c]).rows() == [
        {"x": 1.0, "y": "a", "z": None}, {"x": 2.5, "y": "b", "z": [1]}, {"x": None, "y": None, "z": None}]
    assert _weir.batch_concat([a]) == a
    assert _weir.batch_concat([]).num_rows == 0
    none = _weir.batch_from_rows([{}, {}])
    assert _weir.batch_concat([none, none]).num_rows == 4


def test_concat_does_not_round_integers():
    """Floats beside integers of more digits than a double has: an error, where the floats are numbers; where they are nothing but nulls,
    the column is of integers."""
    many = 2**53 + 1
    numbers = _weir.batch_from_rows([{"x": many}, {"x": None}])
    with pytest.raises(ValueError, match=f"the integer {many} has more digits than double"):
        _weir.batch_concat([numbers, _weir.batch_from_rows([{"x": 0.5}])])
    with pytest.raises(ValueError, match="-9007199254740993"):
        _weir.batch_concat([_weir.batch_from_rows([{"x": 0}, {"x": -many}]).slice(1), _weir.batch_from_rows([{"x": 0.5}])])
    nulls = _weir.batch_from_rows([{"x": 0.5}, {"x": None}]).slice(1)
    assert _weir.batch_concat([nulls, numbers, nulls]).rows() == [{"x": None}, {"x": many}, {"x": None}, {"x": None}]
    exact = _weir.batch_from_rows([{"x": 2**53}])
    assert _weir.batch_concat([exact, _weir.batch_from_rows([{"x": 0.5}])]).rows() == [{"x": 2.0**53}, {"x": 0.5}]
    assert _weir.batch_concat([nulls, nulls.slice(0, 0)]).rows() == [{"x": None}]


def test_concat_of_tensors_and_objects():
    parts = [_weir.batch_from_columns({"t": np.full((2, n), n, np.int32)}) for n in (1, 3, 1)]
    whole = _weir.batch_concat(parts)
    assert extension(whole) == RAGGED
    assert [row["t"].tolist() for row in whole.rows()] == [[1], [1], [3, 3, 3], [3, 3, 3], [1], [1]]
    again = _weir.batch_concat([whole.slice(1, 3), parts[1].slice(1)])
    assert [row["t"].tolist() for row in again.rows()] == [[1], [3, 3, 3], [3, 3, 3]]
    same = _weir.batch_concat([parts[0], parts[2]])
    assert extension(same) == FIXED and same.numpy()["t"].tolist() == [[1]] * 4
    holes = _weir.batch_concat([_weir.batch_from_rows([{"t": None}]), parts[0]])
    assert extension(holes) == FIXED and holes.rows()[0] == {"t": None}
    objects = _weir.batch_from_rows([{"t": object}])
    with pytest.raises(TypeError, match="Python objects in one block and tensors in another"):
        _weir.batch_concat([objects, parts[0]])
    for value in (1, "x", [1, None], {"a": 2.5}, b"z", True, None):  # each a Python object then
        others = _weir.batch_from_rows([{"t": value}, {"t": None}])
        whole = _weir.batch_concat([others, objects, others.slice(1)])
        assert whole.rows() == [{"t": value}, {"t": None}, {"t": object}, {"t": None}] and extension(whole) == extension(objects)
    several = _weir.batch_concat([_weir.batch_from_rows([{"t": 1}]), _weir.batch_from_rows([{"t": "x"}]), objects])
    assert [row["t"] for row in several.rows()] == [1, "x", object]
    assert _weir.batch_concat([objects, objects]).rows() == [{"t": object}] * 2
    with pytest.raises(TypeError):
        _weir.batch_concat([_weir.batch_from_rows([{"t": 1}]), _weir.batch_from_rows([{"t": "x"}])])
    with pytest.raises(TypeError, match="a Batch is wanted"):
        _weir.batch_concat([parts[0], 5])


# ---- times that Python's own types do not hold ----

NANOS = """
import sys
sys.modules["pandas"] = None
import datetime as dt
import numpy as np
from weir import _weir
batch = _weir.batch_from_columns({"t": np.array([1_000, 1_001], "M8[ns]"), "d": np.array([2_000, 2_001], "m8[ns]")})
one, two = batch.rows()
assert one == {"t": dt.datetime(1970, 1, 1, 0, 0, 0, 1), "d": dt.timedelta(microseconds=2)}, one
assert type(one["t"]) is dt.datetime and type(one["d"]) is dt.timedelta
assert two["t"] == np.datetime64(1_001, "ns") and two["d"] == np.timedelta64(2_001, "ns"), two
assert "pyarrow" not in sys.modules
"""


def test_nanoseconds_without_pandas():
    import subprocess
    import sys
    subprocess.run([sys.executable, "-c", NANOS], check=True)


def test_nanoseconds_with_pandas():
    pd = pytest.importorskip("pandas")
    stamp = pd.Timestamp("2020-02-03 04:05:06.123456789", tz="Europe/Berlin")
    type, got = column([stamp, None])
    assert type == "timestamp[ns, tz=Europe/Berlin]" and got == [stamp, None] and isinstance(got[0], pd.Timestamp)
    type, got = column([pd.Timedelta(5, "ns"), pd.NaT])
    assert type == "duration[ns]" and got == [pd.Timedelta(5, "ns"), None]
    assert column([pd.NaT, pd.Timestamp("2020-01-01")]) == ("timestamp[s]", [None, dt.datetime(2020, 1, 1)])


def test_years_that_python_has_not():
    batch = _weir.batch_from_columns({"t": np.array([2 ** 60]).astype("M8[s]")})
    with pytest.raises(ValueError, match="column 't': .* outside the years 1 to 9999"):
        batch.rows()
    assert batch.numpy()["t"].astype("i8")[0] == 2 ** 60
    with pytest.raises(ValueError, match="column 'd'"):
        _weir.batch_from_columns({"d": np.array([2 ** 30]).astype("M8[D]")}).rows()


LAZY = """
import sys
from weir import _weir
batch = _weir.batch_from_rows([{"a": 1, "b": "x", "c": [1.5], "d": {"e": None}}])
assert batch.rows() == [{"a": 1, "b": "x", "c": [1.5], "d": {"e": None}}]
assert _weir.batch_concat([batch, batch]).num_rows == 2 and repr(batch) and batch.nbytes
for name in ("numpy", "pandas", "pyarrow", "torch", "cloudpickle"):
    assert name not in sys.modules, name
"""


def test_nothing_is_imported_before_it_is_needed():
    import subprocess
    import sys
    subprocess.run([sys.executable, "-c", LAZY], check=True)


def test_every_allocation_may_fail():
    import subprocess
    import sys
    from pathlib import Path
    pytest.importorskip("_testcapi")
    ran = subprocess.run([sys.executable, str(Path(__file__).with_name("no_memory.py"))], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    assert len(said) == 1 and int(said[0].split()[0]) > 300, ran.stdout


# Where the package differs from Ray Data on purpose: zones are kept, times of a day are not lost, unsigned and signed numbers
# meet in a wider one, days are dates, a unit does not depend on a None beside it.
OTHERWISE = ["uint8", "uint64", "datetime64", "timedelta64", "tzinfo", "(2020, 1, 1), datetime", "5), None", "<U1", "array(["]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_types_are_those_of_ray_data():
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("ray")
    from ray.data._internal.tensor_extensions.arrow import convert_to_pyarrow_array
    compared = 0
    for values, type, *_ in INFERRED:
        if any(word in repr(values) for word in OTHERWISE):
            continue
        theirs = convert_to_pyarrow_array(values, "c").type
        name = OBJECT if "pickled_object" in str(theirs) else getattr(theirs, "extension_name", str(theirs))
        assert name == type, values
        compared += 1
    assert compared > 60 and pa


def test_units_of_time_that_no_type_holds_are_objects():
    """Picoseconds, months, days beyond 32 bits: neither a crash nor a loss, as scalars, as arrays and as rows of arrays."""
    pico = np.arange(4).astype("M8[ps]")
    far = np.array([1, 2**40], "M8[D]")
    for values in (pico, list(pico), np.arange(4).astype("m8[M]"), far, list(far)):
        batch = _weir.batch_from_columns({"x": values})
        assert extension(batch) == OBJECT
        assert [row["x"] for row in batch.rows()] == list(values)
    for values in (pico.reshape(2, 2), list(pico.reshape(2, 2)), far.reshape(1, 2), [pico[:1], pico]):
        batch = _weir.batch_from_columns({"x": values})
        assert extension(batch) == OBJECT
        for row, wanted in zip(batch.rows(), values, strict=True):
            np.testing.assert_array_equal(row["x"], wanted)


FAR = [
    [np.datetime64("9999-01-02", "s"), np.datetime64(7, "ns")],
    [np.timedelta64(2**62, "s"), np.timedelta64(1, "ns")],
    [np.datetime64(2**62, "h")],
    [np.timedelta64(-(2**60), "W")],
    [np.datetime64(2**60, "Y")],
]


@pytest.mark.parametrize("values", FAR, ids=lambda values: repr(values[0])[:40])
def test_times_that_one_unit_does_not_hold_are_objects(values):
    """Where NumPy wraps around, and gives a time of another century."""
    got_type, got = column(values)
    assert (got_type, got, [type(v) for v in got]) == (OBJECT, values, [type(v) for v in values])
    if len(values) == 1:
        array = np.array(values)
        assert _weir.batch_from_columns({"c": array}).rows()[0]["c"] == values[0]
        assert (_weir.batch_from_columns({"c": array.reshape(1, 1)}).rows()[0]["c"] == array).all()


def test_pandas_times_that_one_unit_does_not_hold_are_objects():
    pd = pytest.importorskip("pandas")
    for values in ([dt.datetime(1, 1, 1), pd.Timestamp(7)], [[dt.datetime(1, 1, 1)], [pd.Timestamp(7)]], [{"t": dt.timedelta(999999999)}, {"t": pd.Timedelta(7)}]):
        assert column(values) == (OBJECT, values)


def test_the_longest_time_of_a_unit():
    for unit in ("s", "ms", "us", "ns"):
        for kind in ("M8", "m8"):
            values = np.array([2**63 - 1, -(2**63) + 1], "i8").view(f"{kind}[{unit}]")
            for given in (list(values), [list(values)]):
                batch = _weir.batch_from_columns({"c": given})
                assert extension(batch) == ""
                back = batch.numpy()["c"]
                np.testing.assert_array_equal(back[0] if back.dtype == object else back, values)


@pytest.mark.parametrize("unit, whole", [("7s", "s"), ("25us", "us"), ("10ns", "ns"), ("100ms", "ms")])
def test_multiples_of_units_of_time(unit, whole):
    for kind in ("M8", "m8"):
        values = np.arange(-2, 3).astype(f"{kind}[{unit}]")
        np.testing.assert_array_equal(_weir.batch_from_columns({"x": values}).numpy()["x"], values.astype(f"{kind}[{whole}]"))


def test_uuids_are_what_arrow_has(tmp_path):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    import weir

    values = [uuid.UUID(int=3), None, uuid.UUID(int=2**127)]
    ds = weir.from_items([{"u": value, "i": i} for i, value in enumerate(values)], override_num_blocks=1)
    assert ds.schema().types[0] == pa.uuid()
    wanted = [None if value is None else value.bytes for value in values]
    assert ds.take_batch()["u"].tolist() == wanted
    in_pandas = pa.array(values, pa.uuid()).to_pandas().tolist()  # bytes before pyarrow 26
    assert ds.take_batch(batch_format="pandas")["u"].tolist() == in_pandas
    assert ds.take_batch(batch_format="pyarrow")["u"].to_pylist() == values
    assert [row["u"] for row in ds.map(lambda row: {"u": row["u"]}).take_all()] == values
    assert [row["u"] for row in ds.sort("u", descending=True).take_all()] == [values[2], values[0], None]
    assert {row["u"] for row in ds.groupby("u").count().take_all()} == set(values)
    ds.write_parquet(str(tmp_path))
    assert [row["u"] for row in weir.read_parquet(str(tmp_path)).sort("i").take_all()] == values
    for frame in (pd.DataFrame({"u": values}), pd.DataFrame({"u": values, "i": range(3)})):
        assert [row["u"] for row in weir.from_pandas(frame).take_all()] == values
        assert weir.from_pandas(frame).limit(3).to_pandas()["u"].tolist() == values
        assert [row["u"] for row in weir.from_pandas(frame).map_batches(lambda batch: batch, batch_format="pandas").take_all()] == values


def test_tensors_of_types_that_numpy_lacks():
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        for values in ([torch.tensor([1.5, 2.0], dtype=dtype)], torch.tensor([[1.5, 2.0]], dtype=dtype)):
            made = _weir.batch_from_columns({"x": values}).numpy()["x"]
            assert made.dtype == np.float32 and made.tolist() == [[1.5, 2.0]]
    assert _weir.batch_from_columns({"x": [torch.tensor([1 + 2j]).conj()]}).rows()[0]["x"].tolist() == [1 - 2j]
