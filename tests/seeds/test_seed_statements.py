"""What the documents say in prose, as far as it can be checked on one machine. Where they disagree, the newer one holds.
"""
import re
import time

import pytest

import weir


@pytest.fixture
def context():
    made = weir.DataContext().copy()
    with weir.DataContext.current(made):
        yield made


@pytest.fixture
def files(tmp_path):
    """Four CSV files; the last one is broken."""
    for i in range(4):
        (tmp_path / f"{i}.csv").write_text(f"id\n{2 * i}\n{2 * i + 1}\n")
    (tmp_path / "3.csv").write_bytes(b'id\n"never closed\n')
    return str(tmp_path)


@pytest.fixture
def large(tmp_path):
    """Two Parquet files of 8 MB each, in row groups of 0.8 MB."""
    np, pa = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for i in range(2):
        pq.write_table(pa.table({"x": np.random.default_rng(i).random(1_000_000)}), tmp_path / f"{i}.parquet", row_group_size=100_000)
    return str(tmp_path)


# ---- blocks ----


def test_defaults_of_block_sizes():
    context = weir.DataContext()
    assert context.target_max_block_size == 128 << 20 and context.target_min_block_size == 1 << 20
    assert context.target_shuffle_max_block_size == 1 << 30 or context.target_shuffle_max_block_size is None


@pytest.mark.parametrize("workload, most", [("etl", 256), ("image", 128), ("analytics", 512), ("memory_constrained", 64)])
def test_presets(context, workload, most):
    weir.configure_for(workload)
    assert weir.DataContext.get_current().target_max_block_size == most << 20
    assert weir.range(3).context.target_max_block_size == most << 20


def test_the_shuffle_preset_is_about_shuffles_only(context):
    weir.configure_for("shuffle")
    current = weir.DataContext.get_current()
    assert current.target_shuffle_max_block_size == 1 << 30 and current.target_max_block_size == 128 << 20


def test_reads_and_functions_split_what_gets_too_large(context, large):
    context.target_max_block_size = 1 << 20
    blocks = weir.read_parquet(large).materialize()
    sizes = [batch.nbytes for batch in blocks.iter_batches(batch_size=None, batch_format="pyarrow")]
    assert len(sizes) >= 10 and max(sizes) <= 1.5 * (1 << 20)
    made = weir.range(1).map_batches(lambda b: {"x": [0.5] * 1_000_000}).materialize()
    assert made.num_blocks() >= 5 and made.count() == 1_000_000


def test_blocks_are_split_above_one_and_a_half_times_the_target(context):
    context.target_max_block_size = 1 << 20
    rows = lambda n: weir.range(1).map_batches(lambda b, n=n: {"x": [0.5] * n}).materialize().num_blocks()
    assert rows(int(1.3 * (1 << 17))) == 1 and rows(int(1.7 * (1 << 17))) == 2


def test_a_row_is_never_split(context):
    context.target_max_block_size = 1 << 20
    kept = weir.range(1).map(lambda row: {"x": b"x" * (4 << 20)}).materialize()
    assert kept.num_blocks() == 1 and len(kept.take(1)[0]["x"]) == 4 << 20


def test_splitting_can_be_switched_off(context, large):
    context.target_max_block_size = 1 << 20
    context.block_splitting_enabled = True
    assert len(weir.read_parquet(large).get_internal_block_refs()) >= 10
    context.block_splitting_enabled = False
    ds = weir.read_parquet(large)
    assert len(ds.get_internal_block_refs()) == 2 and ds.count() == 2_000_000  # a block a file
    assert len(ds.filter(expr="x > 0.5").get_internal_block_refs()) == 2
    assert weir.range(1).map_batches(lambda b: {"x": [0.5] * 1_000_000}).materialize().num_blocks() == 1


def test_a_maximum_of_eight_gib_can_be_said(large):
    weir.DatasetContext.get_current().target_max_block_size = 8192 * 1024 * 1024
    try:
        assert weir.read_parquet(large).context.target_max_block_size == 8 << 30
        assert weir.read_parquet(large).count() == 2_000_000
    finally:
        weir.DatasetContext.get_current().target_max_block_size = 128 << 20


def test_small_blocks_are_put_together(context):
    """Not many tiny ones: target_min_block_size."""
    assert weir.range(1000).map(lambda row: row).materialize().num_blocks() == 1


# ---- reading ----


def test_parallelism_is_the_number_of_blocks(files):
    assert len(weir.range(1000, parallelism=50).get_internal_block_refs()) == 50
    assert weir.range(1000, parallelism=1000).materialize().num_blocks() == 1000


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_parallelism_of_a_read_of_files(large, count):
    """"use ray.data.read_parquet(path, parallelism=1000) to create up to 1000 read tasks"; here fewer than files are obeyed, too."""
    ds = weir.read_parquet(large, parallelism=count)
    assert len(ds.get_internal_block_refs()) == count and ds.count() == 2_000_000


@pytest.mark.parametrize("look", [lambda ds: ds.schema().names == ["id"], lambda ds: ds.take(2) == [{"id": 0}, {"id": 1}],
                                  lambda ds: ds.show(2) is None, lambda ds: "num_blocks=4" in repr(ds)])
def test_reads_are_deferred(files, look):
    assert look(weir.read_csv(files))


def test_transformations_that_run_read_all(files):
    with pytest.raises(ValueError, match="3.csv"):
        weir.read_csv(files).map(lambda row: row).materialize()


def test_the_repr_has_the_number_of_read_tasks(large):
    assert repr(weir.read_parquet(large)).startswith("Dataset(num_blocks=2, num_rows=")


def test_get_internal_block_refs_waits_for_all(files):
    with pytest.raises(ValueError, match="3.csv"):
        weir.read_csv(files).get_internal_block_refs()


@pytest.mark.parametrize("cpus", [0.25, 0.5, 1])
def test_fractions_of_cpus_for_reads(large, cpus):
    assert weir.read_parquet(large, ray_remote_args={"num_cpus": cpus}).count() == 2_000_000


def test_only_the_columns_that_are_asked_for_are_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x" * 1000, "y" * 1000]}), path, compression=None, use_dictionary=False)
    data = bytearray(path.read_bytes())
    at = data.find(b"x" * 1000)
    data[at - 40 : at] = b"\xff" * 40  # the page of b is damaged: who reads only a does not notice
    path.write_bytes(data)
    assert weir.read_parquet(str(path), columns=["a"]).take_all() == [{"a": 1}, {"a": 2}]
    with pytest.raises(Exception):
        weir.read_parquet(str(path)).take_all()


# ---- fusion ----


def plan(ds):
    return ds.execution_plan().rpartition("Physical Plan (Optimized)")[2].partition("-------- Engine")[0]


class Model:
    def __call__(self, batch):
        return batch


def test_reads_and_maps_are_fused():
    same = lambda batch: batch
    ds = weir.range(10).map_batches(same).filter(lambda row: True).map(lambda row: row).flat_map(lambda row: [row])
    assert "ReadRange->MapBatches(<lambda>)->Filter(<lambda>)->Map(<lambda>)->FlatMap(<lambda>)" in plan(ds)


@pytest.mark.parametrize("break_it", [
    lambda ds: ds.repartition(2).map_batches(Model),                       # all-to-all
    lambda ds: ds.map_batches(Model, num_gpus=1, batch_size=8),            # CPU → GPU
    lambda ds: ds.map_batches(Model, num_cpus=2),                          # other resources
    lambda ds: ds.map_batches(Model).map_batches(lambda batch: batch),     # nothing behind actors
])
def test_what_breaks_fusion(break_it):
    made = plan(break_it(weir.range(10).map_batches(lambda batch: batch)))
    assert "MapBatches(<lambda>)->MapBatches(Model)->" not in made
    assert made.count("MapBatches") == 2 and len([line for line in made.splitlines() if "MapBatches" in line]) == 2 or "->MapBatches(Model)]" in made


def test_more_blocks_than_files_break_fusion(large):
    made = plan(weir.read_parquet(large, override_num_blocks=16).map_batches(lambda batch: batch))
    assert "[MapBatches(<lambda>)]" in made and "[ReadParquet->SplitBlocks(8)]" in made


def test_stats_show_fused_stages_in_the_old_words():
    ds = weir.range(100, parallelism=4).experimental_lazy().map_batches(lambda batch: batch).fully_executed()
    assert re.search(r"^Stage \d+ read->map_batches: \d+/\d+ blocks executed in \S+$", ds.stats(), re.MULTILINE)
    pipe = weir.range(100, parallelism=4).window().map_batches(lambda batch: batch).random_shuffle_each_window()
    pipe.take_all()
    found = re.search(r"^Stage \d+ read->map_batches->shuffle_map: (\d+)/\1 blocks executed in \S+\n((?:\* .*\n)+)", pipe.stats(), re.MULTILINE)
    lines = found.group(2).splitlines()
    for title in ("Remote wall time", "Remote cpu time", "Output num rows"):
        assert any(re.fullmatch(rf"\* {title}: \S+ min, \S+ max, \S+ mean, \S+ total", line) for line in lines), title


def test_repartition_equalises_blocks():
    sizes = [len(b["id"]) for b in weir.range(1000).filter(lambda row: row["id"] > 500).repartition(7).iter_batches(batch_size=None)]
    assert sum(sizes) == 499 and len(sizes) == 7 and max(sizes) - min(sizes) <= 1


# ---- tasks and actors ----


def test_actors_keep_their_state():
    class Counting:
        def __init__(self):
            self.calls = 0

        def __call__(self, batch):
            self.calls += 1
            return {"calls": [self.calls]}

    ds = weir.range(100).map_batches(Counting, compute="actors", batch_size=10, concurrency=None)
    assert max(row["calls"] for row in ds.take_all()) > 1
    ds = weir.range(100).map_batches(Counting, batch_size=10, compute=weir.ActorPoolStrategy(size=1))
    assert [row["calls"] for row in ds.take_all()] == list(range(1, 11))


def test_a_class_without_a_strategy_is_not_made_for_each_batch(tmp_path):
    class Noted:
        def __init__(self, folder):
            import os
            import uuid

            open(os.path.join(folder, uuid.uuid4().hex), "w").close()

        def __call__(self, batch):
            return batch

    weir.range(1000).map_batches(Noted, batch_size=10, fn_constructor_args=[str(tmp_path)]).materialize()
    assert 1 <= len(list(tmp_path.iterdir())) < 50


def running_at_once(ds):
    """How many calls ran at the same time at most, by what each says about its begin and end."""

    def timed(batch):
        begun = time.time()
        time.sleep(0.03)
        return {"begun": [begun], "ended": [time.time()]}

    spans = [(row["begun"], row["ended"]) for row in ds(timed).take_all()]
    return max(sum(a < end and begin < b for a, b in spans) for begin, end in spans)


def test_concurrency_caps_tasks():
    assert running_at_once(lambda fn: weir.range(16, override_num_blocks=16).map_batches(fn, batch_size=1, concurrency=1)) == 1


def test_resource_limits_are_numbers_of_cpus(context):
    context.execution_options.resource_limits.cpu = 1
    assert running_at_once(lambda fn: weir.range(16, override_num_blocks=16).map_batches(fn, batch_size=1)) == 1


# ---- memory ----


def test_execution_streams():
    """Rows come out while the rest has not been read, and leaving the loop ends it."""
    begun = time.monotonic()
    for batch in weir.range(10**12).map_batches(lambda batch: batch).iter_batches(batch_size=10):
        assert batch["id"][0] == 0
        break
    assert time.monotonic() - begun < 30


def test_a_slow_consumer_holds_the_rest_back(tmp_path):
    log = tmp_path / "log"

    def note(batch):
        with open(log, "a") as file:
            file.write("x")
        return {"x": [b"y" * (1 << 20)]}

    rows = iter(weir.range(100_000).map_batches(note, batch_size=1).iter_rows())
    next(rows)
    seen = -1
    while seen != (seen := len(log.read_text())):  # until nothing moves any more
        time.sleep(0.5)
    assert seen < 50_000
    rows.close() if hasattr(rows, "close") else None


SPILL = """
    import ray
    ds = ray.data.range(40, override_num_blocks=40).map_batches(lambda b: {"x": [bytes([int(b["id"][0])]) * (4 << 20)]}, batch_size=1)
    kept = ds.materialize()                      # 160 MB, with room for 100
    assert [row["x"][0] for row in kept.iter_rows()] == list(range(40))
    assert [row["x"][0] for row in kept.iter_rows()] == list(range(40))
"""


def test_what_does_not_fit_goes_to_disk_and_comes_back(run):
    run(SPILL, before="import ray; ray.init(object_store_memory=100 << 20, num_cpus=1)")


def test_a_dataset_that_is_gone_leaves_its_memory(run):
    run("""
    import ray
    ray.init(object_store_memory=600 << 20)
    free = lambda: ray.available_resources()["object_store_memory"]
    before = free()
    for _ in range(3):                            # 144 MB each: there is room for one after another
        kept = None
        kept = ray.data.range(18_000_000).materialize()
        assert before - free() > 100 << 20
        assert "Spilled" not in kept.stats(), kept.stats()
    """)


def test_intermediate_results_are_given_back_as_soon_as_they_are_used(run):
    """A chain whose steps each make 400 MB, within 250 MB."""
    run("""
    import numpy as np
    import ray
    ray.init(object_store_memory=250 << 20, num_cpus=1)
    ctx = ray.data.DataContext.get_current()
    ctx.optimize_fuse_stages = False
    ds = ray.data.range(100).experimental_lazy().map_batches(lambda b: {"x": np.zeros((len(b["id"]), 1 << 19))}, batch_size=1)
    ds = ds.map_batches(lambda b: {"x": b["x"] + 1}, batch_size=1).filter(lambda row: row["x"][0] > 0)
    assert sum(1 for row in ds.iter_rows()) == 100
    """)


def test_the_environment_sets_the_object_store(run):
    run("""
    import ray
    assert abs(ray.cluster_resources()["object_store_memory"] - 700_000_000) < 1000, ray.cluster_resources()
    """, env={"RAY_object_store_memory": "700000000"})


def test_errors_of_the_documents_exist(run):
    run("""
    import ray.exceptions
    assert issubclass(ray.exceptions.ObjectLostError, ray.exceptions.RayError)
    assert issubclass(ray.exceptions.WorkerCrashedError, ray.exceptions.RayError)
    """)


def test_order_is_kept_or_free(context):
    assert weir.DataContext().execution_options.preserve_order is False
    context.execution_options.preserve_order = True
    found = weir.range(10_000, override_num_blocks=20).map_batches(lambda b: b, batch_size=100).take_all()
    assert [row["id"] for row in found] == list(range(10_000))


# ---- lazily ----


def test_metadata_can_be_looked_at_after_each_step():
    ds = weir.range(10)
    assert (ds.count(), ds.schema().names) == (10, ["id"])
    ds = ds.map_batches(lambda batch: {"x": batch["id"], "y": batch["id"] * 2})
    assert (ds.count(), ds.schema().names) == (10, ["x", "y"])


@pytest.mark.parametrize("consume", [lambda ds: ds.take(), lambda ds: list(ds.iter_batches()), lambda ds: ds.fully_executed(),
                                     lambda ds: list(ds.to_torch(batch_size=4)) if hasattr(ds, "to_torch") else ds.count()])
def test_lazy_operations_run_when_they_are_consumed(tmp_path, consume):
    log = tmp_path / "log"

    def note(batch):
        log.write_text("ran")
        return batch

    ds = weir.range(4).experimental_lazy().map_batches(note)
    assert not log.exists()
    consume(ds)
    assert log.exists()


# ---- pipelines, as the document's examples have them ----


def test_block_move_example(run):
    """A chain with fusion switched off."""
    run("""
    import ray
    from ray.data.context import DatasetContext

    ctx = DatasetContext.get_current()
    ctx.optimize_fuse_stages = False

    def area(df):
        df["area"] = df["amount"] * df["value"]
        return df

    ds = ray.data.read_parquet(path).experimental_lazy() \\
        .map_batches(area, batch_format="pandas") \\
        .filter(lambda row: row["area"] > 15)
    """, after="""
    assert "->" not in ds.execution_plan()
    assert sorted(row["id"] for row in ds.take_all()) == list(range(151, 400))
    """)


def test_pipelines_for_training_and_for_inference(run):
    run("""
    import ray
    from ray.data.dataset_pipeline import DatasetPipeline
    import ray.data.dataset_pipelines

    # Training: read again in every epoch, without end, in another order each time.
    pipe = ray.data.read_parquet(path).repeat().random_shuffle_each_window()
    orders = []
    for epoch in pipe.iter_epochs(2):
        orders.append([i for batch in epoch.iter_batches(batch_size=100) for i in batch["id"].tolist()])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(400)) and orders[0] != orders[1]

    # Inference: a file at a time.
    class Double:
        def __call__(self, batch):
            return {"y": batch["value"] * 2}

    pipe = ray.data.read_parquet(path).window(blocks_per_window=1).map_batches(Double, compute="actors", batch_size=256)
    assert isinstance(pipe, DatasetPipeline) and ray.data.dataset_pipelines.DatasetPipeline is DatasetPipeline
    pipe.write_json(out)
    assert ray.data.read_json(out).count() == 400
    """)


def test_no_fan_out():
    pipe = weir.range(10).repeat(2)
    pipe.map(lambda row: row)
    with pytest.raises(RuntimeError, match="no fan-out"):
        pipe.map_batches(lambda batch: batch)


def test_what_was_read_before_a_pipeline_is_dropped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n")
    ds = weir.read_csv(str(path))
    assert ds.take() == [{"id": 1}]
    path.write_text("id\n2\n")
    assert ds.repeat(1).take_all() == [{"id": 2}]


def by_group(ds):
    return sorted((row["g"], row["sum(x)"], row["count()"]) for row in ds.take_all())


def test_groups_are_the_same_however_many_blocks_there_are():
    """"groupby require data blocks to be partitioned by value"; "you can .repartition() the dataset to reduce the number of blocks
    prior to shuffle/groupby operations"."""
    from weir.aggregate import Count, Sum

    expected = [(g, sum(range(g, 10_000, 7)), len(range(g, 10_000, 7))) for g in range(7)]
    for blocks in (1, 4, 200):
        ds = weir.range(10_000, override_num_blocks=blocks).map_batches(lambda batch: {"g": batch["id"] % 7, "x": batch["id"]})
        assert by_group(ds.groupby("g").aggregate(Sum("x"), Count())) == expected
        assert by_group(ds.repartition(2).groupby("g").aggregate(Sum("x"), Count())) == expected
        assert [row["x"] for row in ds.sort("x", descending=True).take(3)] == [9999, 9998, 9997]


def test_groups_are_no_square_of_the_blocks():
    """"this strategy generates O(n^2) intermediate objects where n is the number of input blocks": here groups are a few, whatever n,
    and small blocks are as many behind a sort as before."""
    kept = weir.range(20_000, override_num_blocks=400).map_batches(lambda batch: {"g": batch["id"] % 3, "x": batch["id"]}).materialize()
    assert kept.num_blocks() == 400
    assert kept.groupby("g").count().materialize().num_blocks() <= 3
    assert kept.sort("x").materialize().num_blocks() <= 400


# ---- what one task makes, and who makes it ----


def test_of_several_outputs_of_a_task_one_has_to_fit(run):
    """"when a task has multiple output blocks, only one needs to fit in memory at any given time": 480 MB of one row, within 250 MB."""
    run("""
    import numpy as np
    import ray
    ray.init(object_store_memory=250 << 20, num_cpus=1)

    def many(batch):
        for i in range(60):
            yield {"x": np.full((1, 1 << 20), i, dtype=np.int64)}

    found = [int(row["x"][0]) for row in ray.data.range(1).map_batches(many).iter_rows()]
    assert found == list(range(60))
    """)


@pytest.mark.parametrize("kind", ["csv", "text", "json"])
def test_files_of_text_are_split_too(context, tmp_path, kind):
    """"automatic block splitting avoids out-of-memory errors when reading very large single files"; weir splits JSON, too."""
    line = {"csv": "{0},{0}\n", "text": "line {0}\n", "json": '{{"a": {0}, "b": {0}}}\n'}[kind]
    (tmp_path / f"a.{kind}").write_text(("a,b\n" if kind == "csv" else "") + "".join(line.format(i) for i in range(40_000)))
    context.target_max_block_size = 100_000
    read = {"csv": weir.read_csv, "text": weir.read_text, "json": weir.read_json}[kind]
    kept = read(str(tmp_path)).materialize()
    sizes = [batch.nbytes for batch in kept.iter_batches(batch_size=None, batch_format="pyarrow")]
    assert kept.count() == 40_000 and len(sizes) >= 4 and max(sizes) <= 160_000


def test_files_are_put_together_for_few_tasks(tmp_path):
    """"Many small files: batch files per read task with override_num_blocks"."""
    for i in range(40):
        (tmp_path / f"{i:02}.csv").write_text(f"id\n{i}\n")
    kept = weir.read_csv(str(tmp_path), override_num_blocks=4).materialize()
    assert kept.num_blocks() == 4 and [row["id"] for row in kept.take_all()] == list(range(40))


def test_shuffles_fuse_with_what_is_before_them_only():
    same = lambda batch: batch
    made = plan(weir.range(10).map_batches(same).random_shuffle().map_batches(same))
    (shuffle,) = [line for line in made.splitlines() if "RandomShuffle" in line]
    assert "MapBatches(<lambda>)->RandomShuffle" in shuffle and "RandomShuffle->" not in shuffle


class Pid:
    def __call__(self, batch):
        import os

        time.sleep(0.02)
        return {"pid": [os.getpid()]}


@pytest.mark.parametrize("strategy, least, most", [({"size": 1}, 1, 1), ({"size": 2}, 2, 2), ({"min_size": 1, "max_size": 2}, 1, 2)])
def test_pools_have_as_many_workers_as_was_said(strategy, least, most):
    """"Use ActorPoolStrategy(size=N) to limit concurrent workers"."""
    ds = weir.range(40, override_num_blocks=40).map_batches(Pid, batch_size=1, compute=weir.ActorPoolStrategy(**strategy), num_cpus=0.1)
    assert least <= len({row["pid"] for row in ds.take_all()}) <= most


def test_what_a_worker_that_died_had_is_made_again(tmp_path):
    """"Enable object reconstruction (default in streaming execution)"."""

    def once(batch):
        import os

        if batch["id"][0] == 5 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return batch

    found = weir.range(10, override_num_blocks=10).map_batches(once, batch_size=1).take_all()
    assert [row["id"] for row in found] == list(range(10)) and (tmp_path / "died").exists()


def test_a_local_shuffle_is_one_of_what_is_in_its_buffer():
    """"use local_shuffle_buffer_size instead of random_shuffle() when possible"."""
    batches = weir.range(1000, override_num_blocks=100).iter_batches(batch_size=10, local_shuffle_buffer_size=50, local_shuffle_seed=1)
    found = [int(i) for batch in batches for i in batch["id"]]
    assert sorted(found) == list(range(1000)) and found != sorted(found)
    assert all(i < 10 * (at // 10 + 1) + 200 for at, i in enumerate(found))  # nothing comes long before its time


def test_both_modes_of_repartition():
    ds = weir.range(100, override_num_blocks=10)
    first = [batch["id"].tolist() for batch in ds.repartition(2).iter_batches(batch_size=None)]
    assert first == [list(range(50)), list(range(50, 100))]  # the least that has to be moved
    second = [batch["id"].tolist() for batch in ds.repartition(2, shuffle=True).iter_batches(batch_size=None)]
    assert sorted(second[0] + second[1]) == list(range(100)) and len(second) == 2 and abs(len(second[0]) - len(second[1])) <= 20
