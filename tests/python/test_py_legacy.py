"""Names and behaviours of older versions of Ray Data: lazy(), fully_executed(), blocks that are known before a run, old texts."""
import re

import pytest

import weir


@pytest.fixture
def folder(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.csv").write_text(f"id\n{2 * i}\n{2 * i + 1}\n")
    return str(tmp_path)


@pytest.fixture
def context():
    made = weir.DataContext.get_current().copy()
    with weir.DataContext.current(made):
        yield made


@pytest.mark.parametrize("method", ["lazy", "experimental_lazy"])
def test_lazy_runs_nothing_until_rows_are_wanted(method, tmp_path):
    log = tmp_path / "log"

    def note(row):
        log.write_text("ran")
        return row

    ds = getattr(weir.range(4), method)().map(note)
    assert not ds.is_fully_executed() and not log.exists()
    assert ds.take(1) == [{"id": 0}] and log.exists()


def test_fully_executed_keeps_the_rows_in_the_dataset_itself(tmp_path):
    log = tmp_path / "log"

    def note(row):
        with open(log, "a") as file:
            file.write("x")
        return row

    ds = weir.range(4, parallelism=2).experimental_lazy().map(note)
    assert ds.fully_executed() is ds and ds.is_fully_executed() and isinstance(ds, weir.MaterializedDataset)
    assert ds.count() == 4 and ds.take_all()[-1] == {"id": 3} and log.read_text() == "xxxx"
    assert ds.fully_executed() is ds and ds.num_blocks() == 2
    assert weir.from_items([1]).fully_executed().count() == 1
    assert weir.range(4).force_reads().is_fully_executed()


def test_metadata_is_there_after_each_step():
    ds = weir.range(10)
    assert ds.count() == 10 and ds.schema().names == ["id"]
    ds = ds.map(lambda row: {"x": row["id"], "y": 1})
    assert ds.schema().names == ["x", "y"] and ds.count() == 10
    assert ds.filter(lambda row: row["x"] > 7).count() == 2


def test_number_of_blocks_before_a_run(folder):
    assert weir.read_csv(folder).lazy().num_blocks() == 4
    assert weir.read_csv(folder, parallelism=2).lazy().num_blocks() == 2
    assert weir.range(1000).lazy().num_blocks() == 200 and weir.range(5).lazy().num_blocks() == 5
    assert weir.range(1000, parallelism=7).lazy().map(lambda row: row).num_blocks() == 7
    assert weir.range(10).lazy().repartition(3).num_blocks() == 3
    assert weir.range(10).lazy().repartition(target_num_rows_per_block=4).num_blocks() == 3
    assert weir.range(10, parallelism=2).lazy().union(weir.range(10, parallelism=3)).num_blocks() == 5
    with pytest.raises(NotImplementedError):
        weir.range(10).num_blocks()
    context = weir.DataContext.get_current().copy()
    context.read_op_min_num_blocks = 20
    with weir.DataContext.current(context):
        assert weir.range(1000).lazy().num_blocks() == 20


def test_the_old_repr(folder, tmp_path):
    assert repr(weir.range(10, parallelism=2).lazy()) == "Dataset(num_blocks=2, num_rows=10, schema={id: int64})"
    assert repr(weir.read_csv(folder)).startswith("Dataset(num_blocks=4, num_rows=?, schema=")
    assert repr(weir.read_csv(folder, parallelism=2).lazy()) == "Dataset(num_blocks=2, num_rows=?, schema=Unknown schema)"
    ds = weir.range(10, parallelism=2).experimental_lazy().map(len)
    assert repr(ds) == "Map(len)\n+- Dataset(num_blocks=2, num_rows=10, schema={id: int64})"
    assert repr(weir.range(10, parallelism=2).lazy().fully_executed()) == \
        "Dataset(num_blocks=2, num_rows=10, schema={id: int64})"
    assert repr(weir.from_items([1]).lazy()) == "Dataset(num_blocks=1, num_rows=1, schema={item: int64})"


def test_get_internal_block_refs_waits_for_all_data(folder):
    assert len(weir.range(100, parallelism=7).get_internal_block_refs()) == 7
    (__import__("pathlib").Path(folder) / "3.csv").write_bytes(b'id\n"never closed\n')
    assert weir.read_csv(folder).take(2) == [{"id": 0}, {"id": 1}]  # deferred: the last file is not touched
    assert weir.read_csv(folder).schema().names == ["id"]
    with pytest.raises(Exception, match="3.csv"):
        weir.read_csv(folder).get_internal_block_refs()


def test_stats_of_the_old_kind():
    ds = weir.range(8, parallelism=4).experimental_lazy().map_batches(lambda b: b).filter(lambda row: True).fully_executed()
    text = ds.stats()
    assert re.search(r"^Stage 1 read->map_batches->filter: \d+/\d+ blocks executed in [\d.]+s$", text, re.MULTILINE)
    for line in ("Remote wall time", "Remote cpu time", "Output num rows"):
        assert re.search(rf"^\* {line}: \S+ min, \S+ max, \S+ mean, \S+ total$", text, re.MULTILINE), line
    assert "Operator" not in text
    assert "Operator 1 ReadRange->MapBatches(<lambda>)" in weir.range(8).map_batches(lambda b: b).materialize().stats()


def test_fusion_can_be_switched_off(context):
    chain = lambda: weir.range(8).map(len).map(abs)
    assert "[ReadRange->Map(len)->Map(abs)]" in chain().execution_plan()
    context.optimize_fuse_read_stages = False
    plan = chain().execution_plan()
    assert "[Map(len)->Map(abs)]" in plan and "ReadRange->" not in plan
    context.optimize_fuse_stages = False
    assert "->" not in chain().execution_plan()
    context.optimize_fuse_stages = False
    ds = weir.range(8).lazy().map(lambda row: row).map(lambda row: row).fully_executed()
    assert [line for line in ds.stats().splitlines() if line.startswith("Stage")][0].startswith("Stage 1 read: ")
    assert "Stage 3 map: " in ds.stats()


def test_compute_as_texts():
    class Pid:
        def __call__(self, batch):
            import os

            return {"pid": [os.getpid()]}

    import os

    assert weir.range(4).map_batches(lambda b: {"pid": [os.getpid()]}, compute="tasks").take(1)[0]["pid"] != os.getpid()
    assert weir.range(4).map_batches(Pid, compute="actors").count() == 1
    assert weir.range(4).map_batches(lambda b: b, compute="actors").count() == 4
    with pytest.raises(ValueError, match="ActorPoolStrategy for the class Pid"):
        weir.range(4).map_batches(Pid, compute="tasks")
