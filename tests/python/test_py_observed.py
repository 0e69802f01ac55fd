"""Behaviours of Ray Data 2.60 that are easily got wrong, one test each, as far as this package has the operators."""
import math
import os
import re
import sys

import pytest

import weir


def test_1_batches_have_exactly_their_size_but_for_the_last_of_a_task():
    sizes = lambda blocks: [r["n"] for r in weir.range(1000, override_num_blocks=blocks).map_batches(
        lambda b: {"n": [len(b["id"])]}, batch_size=100).take_all()]
    for blocks in (100, 9, 1):
        found = sizes(blocks)
        full = found.count(100)
        # Tasks hold at least that many rows, so each short batch comes behind a full one.
        assert sum(found) == 1000 and max(found) == 100 and len(found) - full <= full
    assert [len(b["id"]) for b in weir.range(10, override_num_blocks=4).iter_batches(batch_size=4)] == [4, 4, 2]
    assert [len(b["id"]) for b in weir.range(10, override_num_blocks=2).iter_batches(batch_size=None)] == [5, 5]


@pytest.mark.parametrize("rows, blocks, size, sizes", [
    (10, 1, 4, [2, 4, 4]), (10, 5, 2, [2] * 5), (10, 5, 10, [10]), (10, 5, 4, [2, 4, 4]), (10, 5, None, [2] * 5), (10, 1, None, [10]),
    (100, 100, 30, [10, 30, 30, 30])])
def test_1_batches_are_those_of_ray_data(rows, blocks, size, sizes):
    """As 2.60 cuts them, blocks that are too small put together; None is a batch a block."""
    ds = weir.range(rows, override_num_blocks=blocks)
    assert sorted(r["n"] for r in ds.map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=size).take_all()) == sizes


def test_1_the_last_batch_may_be_left_out():
    sizes = lambda **more: [len(b["id"]) for b in weir.range(10, override_num_blocks=4).iter_batches(**more)]
    assert sizes(batch_size=4, drop_last=True) == [4, 4] and sizes(batch_size=100) == [10] and sizes(batch_size=100, drop_last=True) == []


def test_2_empty_blocks_never_reach_a_function():
    def not_empty(batch):
        assert len(batch["id"]) > 0
        return batch

    assert weir.range(1000).filter(expr="id > 990").repartition(20).map_batches(not_empty).count() == 9
    assert weir.range(1000, override_num_blocks=10).filter(expr="id < 5").map_batches(not_empty).count() == 5
    for ds in (weir.from_items([]), weir.range(0)):
        assert ds.schema() is None and list(ds.iter_batches()) == [] and ds.sum("id") is None
        with pytest.raises(ValueError, match="The dataset is empty."):
            ds.take_batch()


def test_2_what_comes_of_no_rows():
    for ds in (weir.from_items([]), weir.range(0)):
        assert (ds.take(), ds.count(), list(ds.iter_rows()), ds.columns()) == ([], 0, [], None)
        assert [ds.min("id"), ds.max("id"), ds.mean("id"), ds.std("id")] == [None] * 4
        assert ds.map_batches(lambda b: 1 / 0).take_all() == [] and ds.map(lambda r: 1 / 0).count() == 0
    for ds in (weir.range(10).filter(lambda r: False), weir.range(10).filter(expr="id > 100")):
        assert ds.sum("id") is None and ds.groupby("id").count().take_all() == []
        with pytest.raises(ValueError, match="The dataset is empty."):
            ds.take_batch()
    assert weir.range(10).filter(expr="id > 100").schema().names == ["id"] == weir.range(10).limit(0).schema().names


def test_2_blocks_without_rows_among_others():
    pa = pytest.importorskip("pyarrow")
    none = pa.table({"a": pa.array([], pa.int64())})
    ds = weir.from_arrow([none, pa.table({"a": [1, 2]}), none])
    assert none.schema.names == weir.from_arrow(none).columns() and weir.from_arrow(none).sum("a") is None
    assert [len(b["a"]) for b in ds.iter_batches(batch_size=None)] == [2] and ds.num_blocks() == 3
    for batch_format in ("numpy", "pandas", "pyarrow"):
        counted = ds.map_batches(lambda b: {"n": [len(b["a"])]}, batch_format=batch_format, batch_size=None)
        assert counted.take_all() == [{"n": 2}], batch_format
    assert ds.sort("a", descending=True).take_all() == [{"a": 2}, {"a": 1}] and ds.zip(ds).take(1) == [{"a": 1, "a_1": 1}]


def test_3_aggregates_of_one_and_of_several_columns():
    ds = weir.from_items([{"a": 1, "b": 2.5}, {"a": 3, "b": None}])
    assert ds.sum("a") == 4 and ds.sum(["a", "b"]) == {"sum(a)": 4, "sum(b)": 2.5}
    assert math.isnan(weir.range(1).std("id")) and weir.from_items([{"a": None}]).mean("a") is None


MIXED = [{"a": 1, "b": 2.5, "g": "x"}, {"a": 3, "b": None, "g": "y"}, {"a": None, "b": math.nan, "g": None}, {"a": 5, "b": 1.0, "g": "x"}]


@pytest.mark.parametrize("blocks", [1, 4])
def test_3_names_and_nulls_of_aggregates(blocks):
    from weir.aggregate import Count, Max, Mean, Min, Sum

    ds = weir.from_items(MIXED, override_num_blocks=blocks)
    assert (ds.sum(["a"]), ds.mean(["a"]), ds.std(["a"])) == (9, 3, 2) and round(ds.std("a", ddof=0), 6) == 1.632993
    assert ds.groupby(None).sum("a").take_all() == [{"sum(a)": 9}] and ds.groupby(None).count().take_all() == [{"count()": 4}]
    assert ds.aggregate(Count("a")) == {"count(a)": 4} == {"count(a)": ds.aggregate(Count())["count()"]}
    assert ds.aggregate(Count("a", ignore_nulls=True)) == {"count(a)": 3}
    assert ds.aggregate(Sum("a"), Mean("a"), Min("g"), Max("g")) == {"sum(a)": 9, "mean(a)": 3, "min(g)": "x", "max(g)": "y"}
    nothing = weir.from_items([{"a": None}, {"a": None}], override_num_blocks=min(blocks, 2))
    assert [nothing.mean("a"), nothing.sum("a"), nothing.min("a"), nothing.std("a")] == [None] * 4


SPECIAL = [{"x": 3.0, "i": 0}, {"x": math.nan, "i": 1}, {"x": None, "i": 2}, {"x": 1.0, "i": 3}, {"x": math.inf, "i": 4}, {"x": -math.inf, "i": 5}]


@pytest.mark.parametrize("blocks", [1, 3, 6])
def test_4_numbers_nan_null_in_both_directions(blocks):
    ds = weir.from_items(SPECIAL, override_num_blocks=blocks)
    assert [row["i"] for row in ds.sort("x").take_all()] == [5, 3, 0, 4, 1, 2]
    assert [row["i"] for row in ds.sort("x", descending=True).take_all()] == [4, 0, 3, 5, 1, 2]
    assert [row["i"] for row in ds.map(lambda row: row).sort("x").take_all()] == [5, 3, 0, 4, 1, 2]
    groups = ds.union(ds).groupby("x").count().take_all()
    assert sorted((str(row["x"]), row["count()"]) for row in groups) == [(name, 2) for name in ("-inf", "1.0", "3.0", "None", "inf", "nan")]
    assert sorted(map(str, ds.unique("x"))) == ["-inf", "1.0", "3.0", "None", "inf", "nan"]
    assert None in weir.from_items(MIXED, override_num_blocks=min(blocks, 4)).unique("g")


def test_4_texts_and_bools_with_nulls():
    values = lambda ds: [row["item"] for row in ds.take_all()]
    assert values(weir.from_items([True, None, False]).sort("item")) == [False, True, None]
    assert values(weir.from_items(["b", None, "a", ""]).sort("item", descending=True)) == ["b", "a", "", None]


@pytest.mark.parametrize("blocks", [1, 3])
def test_5_any_null_makes_the_result_none(blocks):
    ds = weir.from_items([{"a": 1, "g": 1}, {"a": None, "g": 1}, {"a": 3, "g": 2}], override_num_blocks=blocks)
    for name in ("sum", "mean", "std", "min", "max"):
        assert getattr(ds, name)("a", ignore_nulls=False) is None, name
    for name in ("sum", "mean", "max"):
        found = {row["g"]: row[f"{name}(a)"] for row in getattr(ds.groupby("g"), name)("a", ignore_nulls=False).take_all()}
        assert found == {1: None, 2: 3}, name
    special = weir.from_items(SPECIAL, override_num_blocks=blocks)
    assert (special.min("x"), special.max("x"), special.max("x", ignore_nulls=False)) == (-math.inf, math.inf, None)


def test_5_nulls_and_nan_in_aggregates():
    ds = weir.from_items([{"a": 1.0}, {"a": None}, {"a": float("nan")}])
    assert ds.min("a") == 1.0 == ds.max("a") and ds.min("a", ignore_nulls=False) is None
    assert weir.from_items([1, None]).sum("item", ignore_nulls=False) is None


def test_6_the_schema_is_the_first_blocks():
    odd = weir.range(10).map_batches(lambda b: {"x": [None]} if b["id"][0] == 0 else {"x": [1], "y": [2]}, batch_size=5)
    assert odd.schema().names == ["x"] and odd.schema().type_texts == ["null"]


def test_7_every_consumption_runs_everything_again(tmp_path):
    log = tmp_path / "log"

    def note(batch):
        with open(log, "a") as file:
            file.write("x")
        return batch

    ds = weir.range(3).map_batches(note)
    ds.take_all(), ds.count(), list(ds.iter_rows())
    assert log.read_text() == "xxx"
    kept = ds.materialize()
    kept.take_all(), kept.count()
    assert log.read_text() == "xxxx"


def test_6_a_ragged_column_may_look_fixed():
    np = pytest.importorskip("numpy")
    ragged = weir.range(4, override_num_blocks=2).map(lambda row: {"t": np.ones(2 + row["id"])})
    assert ragged.schema().type_texts == ["ArrowTensorTypeV2(shape=(2,), dtype=double)"]  # of the first row
    assert [row["t"].shape for row in ragged.take_all()] == [(2,), (3,), (4,), (5,)]


def test_7_orders_of_a_shuffle():
    order = lambda ds: [row["id"] for row in ds.take_all()]
    new, same = weir.range(50, override_num_blocks=5).random_shuffle(), weir.range(50, override_num_blocks=5).random_shuffle(seed=3)
    assert order(new) != order(new) and sorted(order(new)) == list(range(50)) and order(same) == order(same)
    drawn, moved = weir.range(50).random_sample(0.5, seed=1), weir.range(50, override_num_blocks=5).randomize_block_order(seed=1)
    assert order(drawn) == order(drawn) and order(moved) == order(moved)


def test_8_mistakes_at_the_call(tmp_path):
    with pytest.raises(FileNotFoundError):
        weir.read_parquet(str(tmp_path / "nothing"))
    for bad in (dict(batch_format="x"), dict(batch_size=0), dict(fn_constructor_args=[1])):
        with pytest.raises(ValueError):
            weir.range(1).map_batches(lambda b: b, **bad)
    with pytest.raises(KeyError):
        weir.range(1).drop_columns(["x"])
    weir.range(1).map(lambda r: r).drop_columns(["x"])  # not known before it runs
    for read in (weir.read_csv, weir.read_json, weir.read_text, weir.read_binary_files):
        with pytest.raises(FileNotFoundError):
            read(str(tmp_path / "nothing"))
    for bad in (lambda ds: ds.sort("x"), lambda ds: ds.groupby("x"), lambda ds: ds.map(lambda r: r, fn_constructor_kwargs={"a": 1}),
                lambda ds: ds.iter_batches(batch_size=0), lambda ds: ds.iter_batches(batch_format="x")):
        with pytest.raises(ValueError):
            bad(weir.range(1))
    weir.range(1).select_columns(["x"])
    with pytest.raises(KeyError):  # at run
        weir.range(1).select_columns(["x"]).take()


class Model:
    def __call__(self, batch):
        return {"pid": [os.getpid()] * len(batch["id"])}


def test_9_pools():
    op = lambda **more: weir.range(1).map_batches(Model, **more)._op.spec.compute
    assert op() == weir.ActorPoolStrategy() and op(concurrency=3) == weir.ActorPoolStrategy(size=3)
    assert op(concurrency=(2, 4)) == weir.ActorPoolStrategy(min_size=2, max_size=4, initial_size=2)
    assert weir.range(1).map(lambda r: r, concurrency=3)._op.spec.compute == weir.TaskPoolStrategy(3)
    pids = {r["pid"] for r in weir.range(1000, override_num_blocks=50).map_batches(Model, concurrency=2).take_all()}
    assert 1 <= len(pids) <= 2 and os.getpid() not in pids


def test_10_what_a_dataset_is_not():
    ds = weir.range(5)
    with pytest.raises(AttributeError):
        len(ds)
    with pytest.raises(TypeError):
        iter(ds)
    with pytest.raises(NotImplementedError):
        ds.num_blocks()
    with pytest.raises(ValueError):
        ds.take_all(4)
    assert ds and weir.range(0)


def test_11_blocks_and_names():
    assert [len(b["id"]) for b in weir.range(10).repartition(3).iter_batches(batch_size=None)] == [3, 3, 4]
    assert weir.range(1).columns() == ["id"] and weir.from_items([1]).columns() == ["item"]


def test_11_clashes():
    a, b = weir.from_items([{"x": 1, "y": 2}, {"x": 3, "y": 4}]), weir.from_items([{"x": 5, "z": 6}, {"x": 7, "z": 8}])
    assert a.zip(b).take(1) == [{"x": 1, "y": 2, "x_1": 5, "z": 6}]
    assert a.zip(b).zip(b).columns() == ["x", "y", "x_1", "z", "x_2", "z_1"]
    with pytest.raises(ValueError):
        a.zip(weir.range(3)).take_all()
    joined = lambda **more: a.join(a, join_type="inner", num_partitions=1, on=("x",), **more)
    with pytest.raises(ValueError, match="suffix"):
        joined().take_all()
    assert sorted(joined(right_suffix="_r").take_all(), key=str) == [{"x": 1, "y": 2, "y_r": 2}, {"x": 3, "y": 4, "y_r": 4}]


@pytest.mark.parametrize("value, text", [("None", "None"), ("[1, 2]", "list"), ("b['id']", "ndarray"), ("{'x': 5}", "'x'"),
                                         ("{'x': [1], 'y': [1, 2]}", "lengths"), ("'text'", "str")])
def test_12_a_function_that_returns_the_wrong_thing(value, text):
    from weir.exceptions import RayTaskError, UserCodeException

    fn = eval(f"lambda b: {value}")
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        weir.range(4).map_batches(fn).take()
    assert isinstance(caught.value, RayTaskError) and not isinstance(caught.value, UserCodeException)
    with pytest.raises(ValueError):
        weir.range(4).map(lambda r: 5).take()


def test_13_written_files(tmp_path):
    weir.range(10).write_parquet(str(tmp_path / "a"))
    weir.range(10).write_csv(str(tmp_path / "b"))
    assert re.match(r"^\w+_\w{32}_000000-0\.parquet$", os.listdir(tmp_path / "a")[0])
    assert re.match(r"^\w+_\w{32}_000000\.csv$", os.listdir(tmp_path / "b")[0])
    with pytest.raises(ValueError):
        weir.range(10).write_parquet(str(tmp_path / "a"), mode="error")
    weir.range(10).write_parquet(str(tmp_path / "a"), mode="ignore")
    assert len(os.listdir(tmp_path / "a")) == 1


@pytest.mark.parametrize("options, sizes", [
    (dict(max_rows_per_file=4), [1] * 5 + [4] * 5), (dict(min_rows_per_file=7), [5, 10, 10]),
    (dict(min_rows_per_file=5, max_rows_per_file=5), [5] * 5), (dict(min_rows_per_file=8, max_rows_per_file=10), [5, 10, 10])])
def test_13_rows_per_file_are_ray_datas(tmp_path, options, sizes):
    weir.range(25, override_num_blocks=5).write_parquet(str(tmp_path / "out"), **options)
    assert sorted(weir.read_parquet(str(path)).count() for path in (tmp_path / "out").iterdir()) == sizes
    with pytest.raises(ValueError):
        weir.range(3).write_parquet(str(tmp_path / "none"), min_rows_per_file=5, max_rows_per_file=3)


def test_14_types_of_folders_and_names_of_files(tmp_path):
    weir.range(2).write_parquet(str(tmp_path / "year=2024" / "g=a b"))
    weir.range(1).write_parquet(str(tmp_path / "year=2025" / "g=é"))
    (tmp_path / "note.txt").write_text("no Parquet")
    (tmp_path / "_x.parquet").write_text("nor this")
    (tmp_path / ".y.parquet").write_text("nor this")
    rows = lambda **more: sorted((tuple(row.values()) for row in weir.read_parquet(tmp_path, **more).take_all()), key=str)
    assert rows() == [(0, "2024", "a b"), (0, "2025", "é"), (1, "2024", "a b")]
    typed = weir.Partitioning("hive", field_types={"year": int})
    assert rows(partitioning=typed) == [(0, 2024, "a b"), (0, 2025, "é"), (1, 2024, "a b")] and rows(partitioning=None) == [(0,), (0,), (1,)]
    assert weir.read_parquet(tmp_path, include_paths=True).columns() == ["id", "year", "g", "path"]


def test_14_reading(tmp_path):
    folder = tmp_path / "year=2024"
    folder.mkdir()
    (folder / "a.txt").write_text("one\r\n\ntwo\n")
    (folder / "_b.txt").write_text("hidden\n")
    assert weir.read_text(tmp_path).take() == [{"text": "one"}, {"text": "two"}]
    ds = weir.read_text(tmp_path, partitioning=weir.Partitioning("hive"), include_paths=True)
    assert ds.columns() == ["text", "year", "path"] and ds.take(1)[0]["year"] == "2024"
    with pytest.raises(ValueError):
        weir.read_parquet(tmp_path).take()


def test_15_torch_batches():
    torch = pytest.importorskip("torch")
    one = lambda items, **more: next(iter(weir.from_items(items).iter_torch_batches(**more)))["item"]
    assert one([0.5]).dtype == torch.float64 and one([1]).dtype == torch.int64
    assert one([1, None]).dtype == torch.float64 and one([[1, 2], [3, 4]]).shape == (2, 2)
    with pytest.raises(RuntimeError, match="collate_fn"):
        one([[1], [1, 2]])
    with pytest.raises(TypeError):
        one(["a"])
    with pytest.raises(ValueError):
        weir.range(1).iter_torch_batches(collate_fn=lambda b: b, dtypes=torch.int8)


def test_15_types_of_torch():
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    from decimal import Decimal

    one = lambda values, **more: next(iter(weir.from_items([{"a": value} for value in values]).iter_torch_batches(**more)))["a"]
    assert [one([value]).dtype for value in (True, np.float32(1), np.uint16(3), np.int8(1))] == [torch.bool, torch.float32, torch.uint16, torch.int8]
    assert one([1.5, None]).isnan().tolist() == [False, True] and one([np.ones((2, 2))] * 2).shape == (2, 2, 2)
    assert one([1], dtypes=torch.float16).dtype == torch.float16 and one([1], dtypes={"a": torch.int8}).dtype == torch.int8
    for values in ([True, None], [Decimal(1)], [{"z": 1}], [np.ones(2), np.ones(3)]):
        with pytest.raises(RuntimeError, match="collate_fn"):  # Ray Data's, for what NumPy has as objects
            one(values)
    for values in (["a"], [b"x"], [True, None]):
        with pytest.raises(TypeError, match="collate_fn"):
            one(values)


def test_mistakes_of_ray_data_that_are_not_copied():
    pa = pytest.importorskip("pyarrow")
    words = weir.from_arrow(pa.table({"c": pa.array(["a", "b", None, "a"]).dictionary_encode()}))
    assert [batch["c"].tolist() for batch in words.iter_batches()] == [["a", "b", None, "a"]]
    assert [row["c"] for row in words.map_batches(lambda b: b).take_all()] == ["a", "b", None, "a"]
    for blocks in (1, 2):
        assert weir.from_items([2**63 - 1, 1], override_num_blocks=blocks).sum("item") == 2**63
        numbers = weir.from_items([1.0, math.nan], override_num_blocks=blocks)
        assert math.isnan(numbers.sum("item")) and math.isnan(numbers.mean("item"))
    assert weir.from_items([-7]).with_column("half", weir.col("item") // 2).take() == [{"item": -7, "half": -4.0}]
    for passes in (dict(fn=lambda row: row["id"] >= 8), dict(expr="id >= 8"), dict(expr=weir.col("id") >= 8)):
        assert weir.range(100).limit(10).filter(**passes).take_all() == [{"id": 8}, {"id": 9}]


def test_lists_of_one_length_are_a_view_of_two_dimensions():
    pa, np = pytest.importorskip("pyarrow"), pytest.importorskip("numpy")
    table = pa.table({"v": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))})
    for ds in (weir.from_arrow(table), weir.from_arrow(table).map_batches(lambda b: b, batch_format="pyarrow")):
        (batch,) = ds.iter_batches()
        assert batch["v"].shape == (2, 2) == np.stack(batch["v"]).shape and not batch["v"].flags.writeable and batch["v"].base is not None


def test_prints_arrive_labelled(capsys):
    def talk(batch):
        print("to stdout")
        print("to stderr", file=sys.stderr)
        return batch

    weir.range(3).map_batches(talk).take_all()
    weir.range(3).map_batches(talk).count()
    out, err = capsys.readouterr()
    assert len(re.findall(r"^\(MapBatches\(talk\) pid=\d+\) to stdout$", out, re.MULTILINE)) == 2
    assert len(re.findall(r"^\(MapBatches\(talk\) pid=\d+\) to stderr$", err, re.MULTILINE)) == 2


def test_errors_arrive_with_their_types():
    from weir.exceptions import RayTaskError, UserCodeException

    def bad(row):
        raise LookupError(f"row {row['id']}")

    for use in (lambda ds: ds.take(), lambda ds: ds.count(), lambda ds: ds.materialize(), lambda ds: list(ds.iter_rows())):
        with pytest.raises(LookupError, match="row 0") as caught:
            use(weir.range(3).map(bad))
        assert isinstance(caught.value, RayTaskError) and isinstance(caught.value, UserCodeException)
        assert "Map(bad)" in str(caught.value)


def test_errored_blocks_may_be_left_out():
    with weir.DataContext.current(weir.DataContext(max_errored_blocks=-1)):
        ds = weir.range(100, override_num_blocks=10)
    assert ds.map_batches(lambda b: b if b["id"][0] != 30 else 1 / 0).count() == 90


def test_columns_that_nobody_declared_may_hold_nulls():
    pa = pytest.importorskip("pyarrow")
    assert weir.range(3).to_arrow().schema == pa.schema([("id", pa.int64())])
    assert weir.range(3).groupby("id").count().to_arrow().schema == pa.schema([("id", pa.int64()), ("count()", pa.int64())])
    given = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert weir.from_arrow(pa.table({"a": [1]}, schema=given)).to_arrow().schema == given  # said so


@pytest.mark.parametrize("word", ["str", "int", "object"])
def test_words_of_python_are_no_types_of_arrow(word):
    with pytest.raises(TypeError, match=f"was given type <class 'str'>.*DataType\\({word}\\)"):
        weir.datatype.DataType(word)


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_masks_in_pandas(shape):
    """Tensors of booleans, of which pyarrow makes no array."""
    np, _ = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    masks = np.arange(4 * math.prod(shape)).reshape(4, *shape) % 3 == 0
    ds = weir.range(4, override_num_blocks=1).map_batches(lambda batch: {"mask": masks})
    for frame in (ds.to_pandas(), ds.take_batch(4, batch_format="pandas")):
        assert [mask.dtype for mask in frame["mask"]] == [np.dtype(bool)] * 4 and (np.stack(frame["mask"]) == masks).all()
    assert (ds.limit(2).take_batch(4)["mask"] == masks[:2]).all()
    sums = ds.map_batches(lambda frame: frame.assign(n=[int(mask.sum()) for mask in frame["mask"]])[["n"]], batch_format="pandas")
    assert [row["n"] for row in sums.take_all()] == [int(mask.sum()) for mask in masks]
