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


def test_3_aggregates_of_one_and_of_several_columns():
    ds = weir.from_items([{"a": 1, "b": 2.5}, {"a": 3, "b": None}])
    assert ds.sum("a") == 4 and ds.sum(["a", "b"]) == {"sum(a)": 4, "sum(b)": 2.5}
    assert math.isnan(weir.range(1).std("id")) and weir.from_items([{"a": None}]).mean("a") is None


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


def test_8_mistakes_at_the_call(tmp_path):
    with pytest.raises(FileNotFoundError):
        weir.read_parquet(str(tmp_path / "nothing"))
    for bad in (dict(batch_format="x"), dict(batch_size=0), dict(fn_constructor_args=[1])):
        with pytest.raises(ValueError):
            weir.range(1).map_batches(lambda b: b, **bad)
    with pytest.raises(KeyError):
        weir.range(1).drop_columns(["x"])
    weir.range(1).map(lambda r: r).drop_columns(["x"])  # not known before it runs


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
