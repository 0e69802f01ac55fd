"""Python values into batches and back: weir._weir.Batch against plain Python, NumPy and pyarrow."""
import datetime as dt
import decimal
import enum
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
    ([dt.datetime(2020, 1, 1)], "timestamp[s]"),
    ([dt.datetime(2020, 1, 1, 0, 0, 0, 5000)], "timestamp[ms]"),
    ([dt.datetime(2020, 1, 1, 0, 0, 0, 5), None, dt.datetime(1, 1, 1)], "timestamp[us]"),
    ([dt.datetime(2020, 1, 1, tzinfo=UTC)], "timestamp[s, tz=UTC]"),
    ([dt.datetime(2020, 6, 1, tzinfo=ZoneInfo("Europe/Berlin"))], "timestamp[s, tz=Europe/Berlin]"),
    ([dt.datetime(2020, 6, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30)))],
     "timestamp[s, tz=-05:30]"),
    ([dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1)], OBJECT),
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
    ([uuid.UUID(int=5)], OBJECT),
    ([1j], OBJECT),
    ([object, int], OBJECT),
]


@pytest.mark.parametrize("case", INFERRED, ids=lambda case: repr(case[0])[:60])
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
