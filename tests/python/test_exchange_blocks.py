"""The blocks that exchanges make, where they lie when they are many, and what stats() says of a join."""
import re

import pytest

import weir


@pytest.fixture
def small_session(tmp_path):
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit="64MiB", spill_dir=str(tmp_path))
    yield
    weir.shutdown()


def test_num_partitions_are_the_blocks_of_what_is_kept():
    left, right = weir.range(1000), weir.range(500).with_column("b", weir.col("id") * 3)
    assert left.join(right, "inner", 4).materialize().num_blocks() == 4
    assert left.join(right, "inner", 4).filter(expr="b > 30").materialize().num_blocks() == 4
    assert left.join(right.limit(3), "inner", 7).materialize().num_blocks() == 3
    assert left.join(right.filter(expr="id < 0"), "inner", 7).materialize().count() == 0
    groups = weir.range(1000).with_column("k", weir.col("id") % 10)
    assert groups.groupby("k", num_partitions=5).count().materialize().num_blocks() == 5
    assert groups.groupby("k", num_partitions=50).sum("id").materialize().num_blocks() == 10
    made = groups.groupby("k", num_partitions=3).map_groups(lambda g: {"n": [len(g["k"])]}, batch_format="numpy").materialize()
    assert made.num_blocks() == 3 and made.take_all() == [{"n": 100}] * 10


def operators_of(ds):
    """Name, rows in and rows out of each operator."""
    found = re.findall(r"^Operator \d+ (.*?): .*?Total input num rows: (\d+) .*?Total output num rows: (\d+) ", ds.stats(), re.M | re.S)
    return [(name, int(rows_in), int(rows_out)) for name, rows_in, rows_out in found]


@pytest.mark.parametrize("swapped", [False, True])
def test_stats_of_a_join_have_both_sides(swapped):
    left = weir.range(1000).filter(expr="id > 10").with_column("a", weir.col("id") * 2)
    right = weir.range(500).with_column("b", weir.col("id") * 3)
    if swapped:
        left, right = right, left
    names = [("ReadRange->Filter(col('id') > 10)->Project", 0, 989), ("ReadRange->Project", 0, 500)]
    ds = left.join(right, "inner", 4).with_column("c", weir.lit(1)).materialize()
    assert operators_of(ds) == [*(names[::-1] if swapped else names), ("Join(num_partitions=4)", 1489, 489), ("Project", 489, 489)]


@pytest.mark.parametrize("functions", ["left", "right", "both"])
def test_stats_of_a_join_behind_functions(functions):
    left, right = weir.range(1000).with_column("a", weir.col("id") * 2), weir.range(500).filter(expr="id >= 100")
    if functions != "right":
        left = left.map_batches(lambda batch: batch)
    if functions != "left":
        right = right.map_batches(lambda batch: batch)
    found = operators_of(left.join(right, "inner", 4).sort("id").materialize())
    assert [name.partition("(")[0] for name, _, _ in found] == [
        "ReadRange->Project" + "->MapBatches" * (functions != "right"), "ReadRange->Filter", "Join", "Sort"]
    assert [rows for _, _, rows in found] == [1000, 400, 400, 400]


def test_stats_of_a_zip_tell_what_went_to_disk(small_session):
    """Its sides are blocks, and no exchange's."""
    def side(name):
        ds = weir.range(1_000_000, override_num_blocks=16)
        for i in range(6):
            ds = ds.with_column(f"{name}{i}", weir.col("id") * (i + 3))
        return ds.drop_columns(["id"])

    ds = side("a").zip(side("b"))
    assert sum(len(batch["a0"]) for batch in ds.iter_batches(batch_size=None)) == 1_000_000
    summary = ds.get_stats_summary()
    assert 96e6 / 2 < summary.dataset_bytes_spilled < 96e6 * 1.1
    assert 96e6 / 2 < summary.global_bytes_restored < 96e6 * 1.1
    assert f"* Disk: {summary.dataset_bytes_spilled} bytes written there meanwhile" in ds.stats()
    assert weir.range(10).sort("id").materialize().get_stats_summary().dataset_bytes_spilled == 0


@pytest.mark.same_without
def test_blocks_beyond_the_memory(small_session):
    """Blocks of a size that somebody asked for are kept by the engine, which puts them on disk."""
    ds = weir.range(12_000_000, override_num_blocks=30).with_column("k", weir.col("id") % 7)
    kept = ds.materialize()
    assert kept.num_blocks() == 30 and kept.count() == 12_000_000
    del kept
    assert weir.range(15_000_000).repartition(6).materialize().num_blocks() == 6
    kept = ds.repartition(3, keys=["k"]).materialize()
    assert kept.num_blocks() <= 3 and kept.count() == 12_000_000
    del kept
    seen = 0
    for batch in ds.zip(weir.range(12_000_000, override_num_blocks=7).rename_columns({"id": "other"})).iter_batches(batch_size=None):
        assert (batch["id"] == batch["other"]).all()
        seen += len(batch["id"])
    assert seen == 12_000_000


def test_a_library_for_which_there_is_no_memory(monkeypatch):
    """That is told from one that is not installed, and is the governor's to deal with."""
    import importlib

    from weir import _formats

    def fails(name):
        raise ImportError("/x/pandas/_libs/groupby.so: failed to map segment from shared object")

    monkeypatch.setattr(importlib, "import_module", fails)
    with pytest.raises(MemoryError, match="no memory to load pandas"):
        _formats._need("pandas", "to_pandas")


@pytest.mark.parametrize("limit", ["64MiB", "1GiB"])
def test_many_small_blocks_are_few_runs(limit, tmp_path):
    """Which blocks are put together depends on them alone, and so does the order of a shuffle."""
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=limit, spill_dir=str(tmp_path))
    try:
        blocks = weir.from_items([{"x": (i * 7919) % 20011} for i in range(20011)]).repartition(1000).materialize()
        assert blocks.num_blocks() == 1000
        ordered = blocks.sort("x")
        assert [row["x"] for row in ordered.iter_rows()] == list(range(20011))
        runs = int(re.search(r"(\d+) sorted runs", ordered.stats()).group(1))
        assert 64 <= runs <= 140
        shuffled = [row["x"] for row in blocks.random_shuffle(seed=5).iter_rows()]
        assert sorted(shuffled) == list(range(20011)) and shuffled[:3] == [5769, 8226, 11978]
        few = weir.from_items([{"x": i} for i in range(100)]).repartition(10).materialize().sort("x", descending=True)
        assert [row["x"] for row in few.iter_rows()] == list(range(99, -1, -1))
        assert "10 sorted runs" in few.stats()
    finally:
        weir.shutdown()
