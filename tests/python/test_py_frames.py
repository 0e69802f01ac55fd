"""Frames that a Dataset is made of come back as pandas with the dtypes that they had."""

import pytest

import weir


def frames():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [0.5, None, 2.5],
            "s": ["a", "b", None],
            "o": pd.Series(["x", "y", "z"], dtype=object),
            "c": pd.Categorical(["u", "v", "u"]),
            "n": pd.array([1, None, 3], dtype="Int64"),
            "b": [True, False, True],
            "small": pd.array([1, 2, 3], dtype="uint8").to_numpy("uint8"),
        }
    )
    return [frame, frame]


def dtypes(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", [weir.from_pandas, weir.from_blocks])
@pytest.mark.parametrize("size", [None, 2, 4])
def test_batches_have_the_frames_dtypes(make, size):
    given = frames()
    wanted = dtypes(given[0])
    batches = list(make(given).iter_batches(batch_size=size, batch_format="pandas"))
    assert [dtypes(batch) for batch in batches] == [wanted] * len(batches)
    seen = make(given).map_batches(lambda batch: {"seen": [str(dtypes(batch))]}, batch_format="pandas", batch_size=size)
    assert {row["seen"] for row in seen.take_all()} == {str(wanted)}


def test_so_has_what_keeps_the_rows_as_they_are():
    given = frames()
    wanted = dtypes(given[0])
    ds = weir.from_pandas(given)
    for kept in (ds.limit(4), ds.repartition(1), ds.union(ds), ds.filter(expr="i > 1"), ds.materialize()):
        assert dtypes(kept.to_pandas()) == wanted
    assert dtypes(ds.take_batch(5, batch_format="pandas")) == wanted
    assert dtypes(ds.select_columns(["s", "i"]).to_pandas()) == {"s": wanted["s"], "i": wanted["i"]}


def test_what_a_function_returns_is_arrows():
    ds = weir.from_pandas(frames()).map_batches(lambda batch: batch[["i"]], batch_format="pandas")
    assert dtypes(ds.to_pandas()) == {"i": "int64[pyarrow]"}


def test_texts_of_frames_are_strings_and_large_ones_in_tables():
    ds = weir.from_pandas(frames())
    schema = ds.schema()
    assert str(dict(zip(schema.names, schema.types))["s"]) == "string"
    assert str(ds.take_batch(2, batch_format="pyarrow").schema.field("s").type) == "large_string"


def test_values_stay():
    given = frames()
    rows = weir.from_pandas(given[0]).take_all()
    assert [row["f"] for row in rows] == [0.5, None, 2.5] and [row["s"] for row in rows] == ["a", "b", None]
    import pandas as pd

    batch = weir.from_pandas(given[0]).take_batch(3, batch_format="pandas")
    pd.testing.assert_frame_equal(batch, given[0])


def test_without_columns_there_are_no_rows():
    ds = weir.from_items([{"a": 1, "b": 2}]).drop_columns(["a", "b"])
    assert ds.take_all() == [] and ds.count() == 0 and ds.schema() is None


def test_objects_stay_objects():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    given = pd.DataFrame({"l": [[1, None], [2, 3, 4], None], "d": [{"a": 1}, None, {"a": 2}], "n": pd.Series([1, 2, 3], dtype=object)})
    batch = weir.from_pandas(given).take_batch(3, batch_format="pandas")
    assert dtypes(batch) == {"l": "object", "d": "object", "n": "object"}
    assert batch["l"].tolist() == [[1, None], [2, 3, 4], None] and batch["d"][0] == {"a": 1} and batch["n"].tolist() == [1, 2, 3]


def test_values_that_arrow_has_no_type_for_stay_objects():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, "x", 2**70], "n": [1, 2, 3]})
    rows = frame.to_dict("records")
    ds = weir.from_pandas(frame)
    assert ds.take_all() == list(ds.iter_rows()) == ds.map(lambda row: row).take_all() == rows
    assert weir.from_blocks([frame]).take_batch()["a"].tolist() == [1, "x", 2**70]
    assert weir.from_pandas(frame[["a"]]).zip(weir.from_pandas(frame[["n"]])).take_all() == rows
    assert ds.to_pandas().equals(frame)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["str", "string", "object", "category", "Int64", "datetime64[ns]"])
def test_a_column_that_is_replaced_has_its_own_dtype(dtype: str) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    values = [1, 2, 3] if dtype == "Int64" else pd.to_datetime(["2024-01-01"] * 3) if dtype.startswith("date") else ["x", "y", "x"]
    ds = weir.from_pandas(pd.DataFrame({"a": pd.Series(values, dtype=dtype), "n": [1, 2, 3]}))
    assert ds.to_pandas()["a"].dtype == dtype
    frame = ds.with_column("a", weir.col("n") * 1.5).to_pandas()
    assert frame["a"].dtype == "float64" and list(frame["a"]) == [1.5, 3.0, 4.5]
    seen = ds.with_column("a", weir.col("n") * 1.5).map_batches(lambda f: {"kind": [str(f["a"].dtype)]}, batch_format="pandas")
    assert {row["kind"] for row in seen.take_all()} == {"float64"}


def test_encoders_of_a_frames_texts() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from weir.preprocessors import OneHotEncoder, OrdinalEncoder

    ds = weir.from_pandas(pd.DataFrame({"a": ["x", "y", "x"], "n": [1, 2, 3]}))
    encoded = OrdinalEncoder(["a"]).fit_transform(ds).to_pandas()
    assert pd.api.types.is_integer_dtype(encoded["a"].dtype) and list(encoded["a"]) == [0, 1, 0]
    assert [list(value) for value in OneHotEncoder(["a"]).fit_transform(ds).to_pandas()["a"]] == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("is_arrow", [True, False])
def test_files_that_pandas_wrote_are_arrows(tmp_path, is_arrow):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"s": ["a", None], "b": [True, False], "i": pd.array([1, None], dtype="Int64")}).set_index("b").to_parquet(tmp_path / "a.parquet")
    with weir.DataContext.current(weir.DataContext.get_current().copy()) as context:
        context.enable_arrow_backed_pandas_conversion = is_arrow
        ds = weir.read_parquet(str(tmp_path))
    batch = next(iter(ds.iter_batches(batch_format="pandas")))
    assert list(batch.columns) == list(ds.to_pandas().columns) == ds.columns() == ["s", "i", "b"]
    assert batch["b"].tolist() == [True, False]
    assert str(batch["i"].dtype) == ("int64[pyarrow]" if is_arrow else "float64")


@pytest.mark.parametrize("kind", ["named", "bare", "range", "two"])
def test_the_index_of_a_table_that_pandas_made(kind, tmp_path):
    """Ray Data 2.60: the same in to_pandas, batches and what keeps the columns; a column as any other in rows and files."""
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    index = {"named": pd.Index(["p", "q", "r"], name="key"), "bare": pd.Index([5, 7, 9]), "range": pd.RangeIndex(10, 13),
             "two": pd.MultiIndex.from_arrays([["p", "q", "r"], [1, 2, 3]], names=["k", "l"])}[kind]
    frame = pd.DataFrame({"a": [1, 2, 3], "s": ["x", "y", None]}, index=index)
    table = pa.Table.from_pandas(frame)
    ds = weir.from_arrow(table)
    assert ds.schema().names == table.column_names and list(ds.take(1)[0]) == table.column_names
    for made in (ds.to_pandas(), next(iter(ds.iter_batches(batch_format="pandas"))), ds.sort("a").to_pandas(),
                 ds.map_batches(lambda batch: batch, batch_format="pyarrow").to_pandas()):
        assert list(made.index) == list(index) and made.index.names == list(index.names) and list(made.columns) == ["a", "s"]
    selected = ds.select_columns(["a"]).to_pandas()
    assert list(selected.columns) == ["a"]
    if kind != "range":
        assert list(ds.filter(expr="a > 1").to_pandas().index) == list(index)[1:]
        assert list(selected.index) == [0, 1, 2]
    both = weir.from_arrow([table, table]).to_pandas()
    assert list(both.index) == list(range(6)) and list(both.columns) == ["a", "s"]
    frame.to_parquet(tmp_path / "f.parquet")
    read = weir.read_parquet(str(tmp_path / "f.parquet")).to_pandas()
    assert list(read.index) == [0, 1, 2] and list(read.columns) == table.column_names


def test_metadata_of_tables_may_be_ignored():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 6], name="k")))
    context = weir.DataContext.get_current()
    context.pandas_block_ignore_metadata = True
    try:
        assert list(weir.from_arrow(table).to_pandas().columns) == ["a", "k"]
    finally:
        context.pandas_block_ignore_metadata = False


def test_files_written_from_frames_have_arrow_types(tmp_path):
    """Ray Data 2.60 gives the same."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"b": pd.array([True, None], dtype="boolean"), "i": pd.array([1, None], dtype="Int64"), "c": pd.Categorical(["x", "y"]),
                          "d": pd.to_datetime(["2020-01-01", None]).astype("datetime64[us]"), "l": [[1], None]})
    weir.from_pandas(frame).write_parquet(str(tmp_path / "p"))
    kinds = weir.read_parquet(str(tmp_path / "p")).to_pandas().dtypes.astype(str).to_dict()
    assert kinds["b"] == "bool[pyarrow]" and kinds["i"] == "int64[pyarrow]" and kinds["d"] == "timestamp[us][pyarrow]"
    assert kinds["c"] == "category" and kinds["l"].startswith("list<")
