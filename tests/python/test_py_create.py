"""Making Datasets of numbers and of Python objects."""
import datetime
import decimal
import pickle
import random

import pytest

import weir

SEED = 20261115


def test_range_counts_from_zero():
    assert weir.range(3).take_all() == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert weir.range(0).take_all() == [] and weir.range(-1).take_all() == []
    assert weir.range(5_000_000).count() == 5_000_000
    assert weir.range(3).schema().names == ["id"]
    with pytest.raises(TypeError):
        weir.range("3")


@pytest.mark.parametrize("n, blocks, sizes", [(10, 3, [3, 3, 4]), (10, 5, [2] * 5), (3, 5, [1, 1, 1]), (7, 1, [7])])
def test_range_has_as_many_blocks_as_asked(n, blocks, sizes):
    assert weir.range(n, override_num_blocks=-1).count() == n  # as many as it thinks right
    for ds in (weir.range(n, override_num_blocks=blocks), weir.range(n, parallelism=blocks)):
        assert [len(b["id"]) for b in ds.iter_batches(batch_size=None)] == sizes
        assert [r["id"] for r in ds.take_all()] == list(range(n))
        assert ds.materialize().num_blocks() == len(sizes)


@pytest.mark.parametrize("bad", [dict(override_num_blocks=0), dict(parallelism=0), dict(override_num_blocks=2, parallelism=2),
                                 dict(concurrency=0)])
def test_numbers_that_make_no_sense(bad):
    with pytest.raises(ValueError):
        weir.range(10, **bad)
    if "concurrency" not in bad:
        with pytest.raises(ValueError):
            weir.from_items([1], **bad)


def test_range_tensor():
    numpy = pytest.importorskip("numpy")
    batch = weir.range_tensor(3, shape=(2, 2)).take_batch()
    assert batch["data"].shape == (3, 2, 2) and batch["data"].dtype == numpy.int64
    assert batch["data"][2].tolist() == [[2, 2], [2, 2]]
    rows = weir.range_tensor(2, shape=(2,)).take_all()
    assert [r["data"].tolist() for r in rows] == [[0, 0], [1, 1]]


def test_items_are_rows_or_values():
    assert weir.from_items([{"a": 1, "b": "x"}, {"a": None, "b": "y"}]).take() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
    assert weir.from_items([1, None, 3]).take() == [{"item": 1}, {"item": None}, {"item": 3}]
    assert weir.from_items(range(3)).count() == 3
    for bad in (5, "abc", iter([1])):
        with pytest.raises(TypeError):
            weir.from_items(bad)


VALUES = [7, -1.5, True, "text", b"bytes", None, datetime.datetime(2024, 2, 29, 12, 30, 15, 125000), datetime.date(2024, 2, 29),
          datetime.timedelta(seconds=90), decimal.Decimal("1.20"), [1, None, 3], {"x": 1, "y": ["a"]}]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_values_come_back_as_they_were(value):
    assert weir.from_items([{"v": value}, {"v": None}]).take() == [{"v": value}, {"v": None}]
    found = weir.from_items([{"item": value}]).take()[0]["item"]
    assert found == value and type(found) is type(value)


def test_no_items():
    ds = weir.from_items([])
    assert ds.schema() is None and ds.columns() is None and ds.count() == 0 and ds.take() == [] and ds.num_blocks() == 0
    assert list(ds.iter_batches()) == [] and list(ds.iter_rows()) == []


@pytest.mark.parametrize("count, blocks, sizes", [(10, 3, [4, 3, 3]), (10, None, [1] * 10), (401, None, [3] + [2] * 199), (2, 5, [1, 1]), (4, 2, [2, 2])])
def test_items_in_blocks(count, blocks, sizes):
    ds = weir.from_items(list(range(count)), override_num_blocks=blocks)
    assert ds.num_blocks() == len(sizes)
    assert [len(b["item"]) for b in ds.iter_batches(batch_size=None)] == sizes


def test_items_of_unequal_keys():
    assert weir.from_items([{"a": 1}, {"b": 2}]).take() == [{"a": 1}, {"b": 2}]


def test_arrow_tables():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, 2, None], "s": ["x", None, "z"], "l": [[1], [], None]})
    assert weir.from_arrow(table).take_all() == table.to_pylist()
    assert weir.from_arrow([table, table.slice(1)]).count() == 5
    assert weir.from_arrow(table.to_batches()[0]).take_all() == table.to_pylist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert weir.from_arrow(sink.getvalue().to_pybytes()).take_all() == table.to_pylist()
    assert weir.from_arrow(table, override_num_blocks=3).num_blocks() == 3
    for few in (table, table.slice(0, 0)):  # more than rows: some are empty, and functions do not see them
        ds = weir.from_arrow(few, override_num_blocks=50)
        assert ds.num_blocks() == ds.materialize().num_blocks() == 50 and ds.count() == few.num_rows and ds.schema().names == table.column_names
        assert len(ds.map_batches(lambda b: {"n": [1]}, batch_size=None).take_all()) == few.num_rows
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert weir.from_arrow(reader).take_all() == table.to_pylist()
    with pytest.raises(TypeError):
        weir.from_arrow(5)


def test_frames_of_polars_and_duckdb():
    polars = pytest.importorskip("polars")
    assert weir.from_arrow(polars.DataFrame({"a": [1, 2], "s": ["x", None]})).take() == [{"a": 1, "s": "x"}, {"a": 2, "s": None}]
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    assert weir.from_arrow(duckdb.sql("select 1 as a, 'x' as s").arrow()).take() == [{"a": 1, "s": "x"}]


def test_pandas_frames():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.5, None], "s": ["x", None], "n": [1, 2]}, index=[5, 6])
    ds = weir.from_pandas(frame)
    assert ds.take() == [{"a": 1.5, "s": "x", "n": 1}, {"a": None, "s": None, "n": 2}]
    back = ds.to_pandas()
    pd.testing.assert_frame_equal(back, frame)
    back.loc[5, "a"] = 9.0
    assert ds.to_pandas().loc[5, "a"] == 1.5
    assert weir.from_pandas([frame, frame]).num_blocks() == 2
    assert weir.from_pandas([frame, frame]).count() == 4
    assert weir.from_pandas(frame, override_num_blocks=2).num_blocks() == 2
    with pytest.raises(TypeError):
        weir.from_pandas([5])


def test_numpy_arrays():
    np = pytest.importorskip("numpy")
    assert weir.from_numpy(np.arange(3)).take() == [{"data": 0}, {"data": 1}, {"data": 2}]
    ds = weir.from_numpy([np.ones((2, 3)), np.zeros((1, 3))])
    assert ds.num_blocks() == 2 and ds.count() == 3
    assert ds.take_batch()["data"].shape == (3, 3)
    array = np.arange(4)
    ds = weir.from_numpy(array)
    array[0] = 99
    assert ds.take(1) == [{"data": 0}]
    with pytest.raises(ValueError):
        weir.from_numpy(np.array(5))


def test_blocks():
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    ds = weir.from_blocks([pa.table({"a": [1, 2]}), pd.DataFrame({"a": [3]})])
    assert ds.num_blocks() == 2 and ds.take_all() == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_tensors_and_objects():
    np = pytest.importorskip("numpy")
    rows = weir.from_items([{"t": np.ones((2, 2))}, {"t": np.zeros((2, 2))}]).take()
    assert [r["t"].tolist() for r in rows] == [[[1.0, 1.0]] * 2, [[0.0, 0.0]] * 2]
    rows = weir.from_items([{"t": np.ones(2)}, {"t": np.zeros(3)}]).take()
    assert [r["t"].shape for r in rows] == [(2,), (3,)]
    big = 2**70
    assert weir.from_items([{"o": big}, {"o": {1, 2}}]).take()[0]["o"] == big


def test_many_random_tables():
    seed = SEED
    rng = random.Random(seed)
    makers = [lambda: rng.randrange(-2**63, 2**63), lambda: rng.random(), lambda: "".join(rng.choices("äb\0c", k=rng.randrange(9))),
              lambda: rng.randbytes(rng.randrange(5)), lambda: rng.random() < 0.5,
              lambda: [rng.randrange(100) for _ in range(rng.randrange(4))]]
    for _ in range(50):
        columns = {f"c{i}": rng.choice(makers) for i in range(rng.randrange(1, 6))}
        rows = [{name: None if rng.random() < 0.2 else make() for name, make in columns.items()} for _ in range(rng.randrange(1, 40))]
        ds = weir.from_items(rows, override_num_blocks=rng.choice([None, 1, 3]))
        assert ds.take_all() == rows, seed
        assert list(ds.iter_rows()) == rows, seed


def test_a_materialised_dataset_pickles_within_its_session():
    ds = weir.from_items([1, 2])
    assert pickle.loads(pickle.dumps(ds)).take() == ds.take()
    plan = weir.range(10).limit(3)
    assert pickle.loads(pickle.dumps(plan)).take() == plan.take()
    assert plan.has_serializable_lineage() and not ds.has_serializable_lineage()
    assert weir.Dataset.deserialize_lineage(plan.serialize_lineage()).take() == plan.take()
    with pytest.raises(ValueError):
        ds.serialize_lineage()
    data = pickle.dumps(weir.from_items([5]))
    assert pickle.loads(data).take() == [{"item": 5}]
    weir.shutdown()
    with pytest.raises(RuntimeError, match="session"):
        pickle.loads(data).take()


@pytest.mark.parametrize("form", ["pandas", "arrow", "blocks", "numpy", "refs"])
def test_lists_of_tables_are_blocks_behind_functions_too(tmp_path, form):
    """Who gives several tables has cut them: rows of one make one block, small ones come together only where batch_size needs it."""
    pa, pd, np = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "numpy"))
    core = pytest.importorskip("weir.core")
    sizes = [2, 3, 1, 4]
    frames = [pd.DataFrame({"x": range(size)}) for size in sizes]
    ds = {
        "pandas": lambda: weir.from_pandas(frames),
        "arrow": lambda: weir.from_arrow([pa.table({"x": list(range(size))}) for size in sizes]),
        "blocks": lambda: weir.from_blocks(frames),
        "numpy": lambda: weir.from_numpy([np.arange(size) for size in sizes]),
        "refs": lambda: weir.from_pandas_refs([core.put(frame) for frame in frames]),
    }[form]()
    assert [block.num_rows for block in ds.map(lambda row: row).materialize()._op.blocks] == sizes
    assert [block.num_rows for block in ds.map_batches(lambda batch: batch, batch_size=3).materialize()._op.blocks] == [5, 5]
    ds.map(lambda row: row).write_csv(str(tmp_path))
    assert len(list(tmp_path.glob("*.csv"))) == 4


def test_what_is_given_instead_of_data_is_named():
    with pytest.raises(TypeError, match="from_pandas takes a DataFrame or a list of these, not 5 of type int"):
        weir.from_pandas(5)
    with pytest.raises(TypeError, match="from_blocks takes a list of DataFrames and Arrow tables, not 5"):
        weir.from_blocks(5)
    with pytest.raises(TypeError, match=r"from_numpy takes an array or a list of these, not \{'a': 1\} of type dict"):
        weir.from_numpy({"a": 1})


def test_frames_that_are_no_rows():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for columns, text in (([1], r"this is a DataFrame with the columns \[1\]; column names are str"), (["a", "a"], "several columns of one name")):
        with pytest.raises(ValueError, match=text) as caught:
            weir.from_pandas(pd.DataFrame([[2] * len(columns)], columns=columns))
        assert type(caught.value) is ValueError


def test_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(FileNotFoundError, match="a.csv: this link leads to .*gone.csv, and there is no such file"):
        weir.read_csv(str(tmp_path / "a.csv"))


def test_options_of_another_kind_are_refused_at_the_call(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "a.json").write_text('{"a": 1}\n')
    for name in ("read", "parse", "convert"):
        with pytest.raises(TypeError, match=rf"{name}_options is a pyarrow.csv.{name.title()}Options, not 5 of type int"):
            weir.read_csv(str(tmp_path / "a.csv"), **{f"{name}_options": 5})
    with pytest.raises(TypeError, match="read_options is a pyarrow.json.ReadOptions, not 'x'"):
        weir.read_json(str(tmp_path / "a.json"), read_options="x")


def test_later_writes_of_the_program_are_not_seen():
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    array, times, frame = np.arange(3), np.arange(3).astype("M8[s]"), pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    items = [{"x": [1], "y": np.zeros(2)}]
    of_array, of_times, of_frame, of_items = weir.from_numpy(array), weir.from_numpy([times]), weir.from_pandas(frame), weir.from_items(items)
    of_blocks = weir.from_blocks([frame])
    array[:] = 9
    times[:] = 9
    frame.iloc[0, 1] = 9
    frame["a"] = 9
    items[0]["x"].append(9)
    items[0]["y"][:] = 9
    assert [row["data"] for row in of_array.take_all()] == [0, 1, 2]
    assert [row["data"].second for row in of_times.take_all()] == [0, 1, 2]
    for ds in (of_frame, of_blocks):
        assert ds.take_all() == [{"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}]
        assert ds.to_pandas().values.tolist() == [[1, 0.5], [2, 1.5]]
    assert of_items.take_all()[0]["x"] == [1] and of_items.take_all()[0]["y"].tolist() == [0, 0]
    made = of_frame.to_pandas()
    made.iloc[0, 0] = 9
    assert of_frame.to_pandas()["a"].tolist() == [1, 2]
