"""Expressions over rows of a pandas frame compute as pandas does, as long as nothing but the engine has touched them: Ray Data hands such
rows on as frames. Over everything else they compute as Arrow does."""
import pytest

import weir
from weir import col

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def frame():
    return pd.DataFrame({"a": [7, -7, 8], "b": [2, 2, 3], "f": [1.5, None, 0.0], "s": ["x", None, "z"]})


def computed(ds, expr):
    return [row["made"] for row in ds.with_column("made", expr).take_all()]


def test_division_of_integers(frame):
    ds = weir.from_pandas(frame)
    for expr, expected in (
        (col("a") / col("b"), frame.a / frame.b),
        (1 / col("a"), 1 / frame.a),
        (col("a") / 0, frame.a / 0),
        (col("a") // col("b"), frame.a // frame.b),
        (col("a") % col("b"), frame.a % frame.b),
        (col("a") / 2 + 1, frame.a / 2 + 1),
    ):
        made = ds.with_column("made", expr)
        assert made.to_pandas()["made"].tolist() == expected.tolist() and made.to_pandas()["made"].dtype == expected.dtype
        assert {type(value) for value in computed(ds, expr)} == {type(value) for value in expected.tolist()}
    arrow = weir.from_arrow(pa.table({"a": [7, -7, 8]}))
    assert computed(arrow, col("a") / 2) == [3, -3, 4] and computed(arrow, col("a") // 2) == [3.0, -4.0, 4.0]


def test_comparisons_of_what_is_missing(frame):
    ds = weir.from_pandas(frame)
    assert computed(ds, col("f") > 1) == (frame.f > 1).tolist() == [True, False, False]
    assert computed(ds, col("s") != "x") == (frame.s != "x").tolist() == [False, True, True]
    assert computed(ds, ~(col("f") > 1)) == [False, True, True]
    assert [row["a"] for row in ds.filter(expr=~(col("f") > 1)).take_all()] == [-7, 8]
    assert [row["a"] for row in weir.from_items(ds.take_all()).filter(expr=~(col("f") > 1)).take_all()] == [8]


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
def test_dtypes_with_a_missing_value_of_their_own(dtype):
    frame = pd.DataFrame({"a": pd.array([7, None, 8], dtype=dtype)})
    ds = weir.from_pandas(frame)
    assert computed(ds, col("a") > 7) == [False, None, True] and computed(ds, col("a") / 2) == [3.5, None, 4.0]


def test_filters_see_the_quotient(frame):
    assert [row["a"] for row in weir.from_pandas(frame).filter(expr=col("a") / col("b") > 3).take_all()] == [7]
    assert [row["a"] for row in weir.from_pandas(frame).filter(expr="a / b > 3").take_all()] == [7]


KEEP = {
    "itself": lambda ds: ds,
    "select": lambda ds: ds.select_columns(["a"]),
    "rename": lambda ds: ds.rename_columns({"a": "x"}).rename_columns({"x": "a"}),
    "limit": lambda ds: ds.limit(3),
    "repartition": lambda ds: ds.repartition(2),
    "union": lambda ds: ds.union(ds).limit(3),
    "materialize": lambda ds: ds.with_column("z", col("a")).materialize(),
    "split": lambda ds: ds.split(1)[0],
    "expression": lambda ds: ds.filter(expr=col("b") > 0),
}
LEAVE = {
    "sort": lambda ds: ds.sort("b"),
    "drop": lambda ds: ds.drop_columns(["b"]),
    "map": lambda ds: ds.map(lambda row: row),
    "batches": lambda ds: ds.map_batches(lambda batch: batch, batch_format="pandas"),
    "function": lambda ds: ds.filter(lambda row: True),
}


@pytest.mark.parametrize("name", KEEP)
def test_what_leaves_it_a_frame(frame, name):
    assert computed(KEEP[name](weir.from_pandas(frame)), col("a") / 2) == [3.5, -3.5, 4.0]


@pytest.mark.parametrize("name", LEAVE)
def test_what_makes_arrow_tables_of_it(frame, name):
    assert sorted(computed(LEAVE[name](weir.from_pandas(frame)), col("a") / 2)) == [-3, 3, 4]


def test_expressions_with_functions_compute_alike(frame):
    @weir.expressions.udf(weir.datatype.DataType.int64())
    def same(values):
        return values

    ds = weir.from_pandas(frame)
    assert computed(ds, same(col("a")) / col("b")) == (frame.a / frame.b).tolist()
    assert computed(ds, same(col("a")) // col("b")) == [3, -4, 2] and computed(ds, same(col("a")) % 2) == [1, 1, 0]
    assert computed(ds, same(col("a")) != col("f")) == [True, True, True]
    assert [row["a"] for row in ds.filter(expr=same(col("a")) / 2 > 3).take_all()] == [7, 8]


def test_blocks_that_are_frames(frame):
    assert computed(weir.from_blocks([frame, frame]), col("a") / 2) == [3.5, -3.5, 4.0] * 2
    assert computed(weir.from_blocks([pa.table({"a": [7]}), frame[["a"]]]), col("a") / 2) == [3, 3, -3, 4]


def test_rows_in_functions_are_those_of_the_frame():
    """What is missing among floats is NaN, with which functions can compute; times are pandas' own. Texts that are missing are None."""
    frame = pd.DataFrame({"f": [1.5, None], "t": pd.to_datetime(["2020-01-01", None]), "d": pd.to_timedelta([1, None], unit="s"), "s": ["x", None]})
    ds = weir.from_pandas(frame)

    def seen(row):
        return {"x": f"{row['f'] * 2} {row['t'].__class__.__name__} {row['d'].__class__.__name__} {row['s']}"}

    expected = ["3.0 Timestamp Timedelta x", "nan NaTType NaTType None"]
    assert [row["x"] for row in ds.map(seen).take_all()] == expected
    assert [row["x"] for row in ds.flat_map(lambda row: [seen(row)]).take_all()] == expected
    assert ds.filter(lambda row: row["f"] != row["f"]).take_all() == [{"f": None, "t": None, "d": None, "s": None}]
    assert [row["x"] for row in ds.limit(2).with_column("f", col("f") + 0).map(seen).take_all()] == expected
    assert [row["f"] is None for row in ds.sort("f").map_batches(lambda batch: batch, batch_format="pyarrow").take_all()] == [False, True]
    assert [row["x"] for row in ds.drop_columns(["d"]).map(lambda row: {"x": str(row["f"])}).take_all()] == ["1.5", "None"]
