"""What Ray's remote arguments do to the operators of a Dataset."""

import logging
import warnings

import pytest

import weir
import weir.datatype
from weir.util import RayDeprecationWarning

HERE = __file__


def test_those_that_choose_among_machines_are_taken():
    ds = weir.range(3).map(lambda r: r, label_selector={"zone": "a"}, fallback_strategy=[], accelerator_type="A100", max_calls=1)
    assert ds.take_all() == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_resources_of_ones_own_bound_the_workers():
    weir.shutdown()
    weir.init(num_cpus=4, resources={"licence": 1})
    try:
        import os

        pids = weir.range(64, override_num_blocks=16).map_batches(lambda b: {"pid": [os.getpid()]}, resources={"licence": 1}, batch_size=4)
        assert len(pids.unique("pid")) == 1
        assert weir.range(2).map(lambda r: r, resources={"licence": 0.5}).count() == 2
        with pytest.raises(ValueError, match=r"wants 2 of 'licence' a worker, and there is 1: weir.init"):
            weir.range(2).map(lambda r: r, resources={"licence": 2}).take_all()
        with pytest.raises(ValueError, match="'seat'"):
            weir.range(2).map(lambda r: r, resources={"seat": 1}).take_all()
    finally:
        weir.shutdown()


def test_more_cpus_than_there_are_run_with_a_warning(caplog):
    """Ray waits for a machine that has them. None is to come, so it runs, in one worker."""
    import os

    cpus = weir.cluster_resources()["CPU"]

    def look(batch):
        return {"pid": [os.getpid()]}
    ds = weir.range(64, override_num_blocks=16).map_batches(look, batch_size=4, num_cpus=500)
    assert len({row["pid"] for row in ds.take_all()}) == 1 and ds.count() == 16
    (record,) = [record for record in caplog.records if "num_cpus=500" in record.message]
    assert record.levelname == "WARNING"
    assert f"MapBatches(look) wants num_cpus=500 a worker, and the session has {cpus:g}: it runs in one worker" in record.message


def test_search_paths_of_an_environment_are_searched(tmp_path):
    """Workers are running already when they get their variables, and look at them all the same."""
    (tmp_path / "only_there.py").write_text("VALUE = 5\n")

    def look(row):
        import only_there

        return {"x": only_there.VALUE}

    ds = weir.range(1).map(look, runtime_env={"env_vars": {"PYTHONPATH": f":{tmp_path}"}})
    assert ds.take_all() == [{"x": 5}]
    with pytest.raises(ModuleNotFoundError):
        weir.range(1).map(look).take_all()


def test_workers_of_several_cpus_are_fewer():
    """Each has so many threads: together they have no more than there are CPUs."""
    import os
    import time

    def slow(batch):
        time.sleep(0.02)
        return {"pid": [os.getpid()], "threads": [os.environ["OMP_NUM_THREADS"]]}

    weir.shutdown()
    weir.init(num_cpus=4)
    try:
        for cpus, most in ((2, 2), (3, 1), (5, 1)):
            rows = weir.range(16, override_num_blocks=16).map_batches(slow, num_cpus=cpus, batch_size=1).take_all()
            assert len({row["pid"] for row in rows}) <= most and rows[0]["threads"] == str(cpus)
        pool = weir.range(16, override_num_blocks=16).map_batches(slow, num_cpus=2, batch_size=1, compute=weir.TaskPoolStrategy(4))
        assert len(pool.unique("pid")) <= 2
    finally:
        weir.shutdown()


def test_a_function_that_gives_the_arguments():
    with pytest.warns(RayDeprecationWarning, match="ray_remote_args_fn"):
        ds = weir.range(2).map(lambda r: {"x": __import__("os").environ["FROM_FN"]},
                               ray_remote_args_fn=lambda: {"runtime_env": {"env_vars": {"FROM_FN": "yes"}}, "scheduling_strategy": "SPREAD"})
    assert ds.take_all() == [{"x": "yes"}] * 2
    with pytest.warns(RayDeprecationWarning), pytest.raises(ValueError, match="max_calls"):
        weir.range(2).map(lambda r: r, ray_remote_args_fn=lambda: {"max_calls": 1})
    with pytest.warns(RayDeprecationWarning), pytest.raises(TypeError, match="returns a dict"):
        weir.range(2).map(lambda r: r, ray_remote_args_fn=lambda: 5)


CALLS = {
    "map": lambda ds: ds.map(lambda r: r, scheduling_strategy="SPREAD"),
    "map_batches": lambda ds: ds.map_batches(lambda b: b, scheduling_strategy="SPREAD"),
    "flat_map": lambda ds: ds.flat_map(lambda r: [r], scheduling_strategy="SPREAD"),
    "filter": lambda ds: ds.filter(expr=weir.col("id") > 0, scheduling_strategy="SPREAD"),
    "with_columns": lambda ds: ds.with_columns({"x": weir.col("id")}, scheduling_strategy="SPREAD"),
    "add_column": lambda ds: ds.add_column("x", lambda b: b["id"], scheduling_strategy="SPREAD"),
    "select_columns": lambda ds: ds.select_columns(["id"], scheduling_strategy="SPREAD"),
    "rename_columns": lambda ds: ds.rename_columns({"id": "x"}, scheduling_strategy="SPREAD"),
}


@pytest.mark.parametrize("method", CALLS)
def test_loose_remote_arguments_are_outdated_once_and_at_the_callers_line(method):
    with pytest.warns(RayDeprecationWarning, match="ray_remote_args") as seen:
        CALLS[method](weir.range(2))
    assert len(seen) == 1 and seen[0].filename == HERE


def test_named_ones_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RayDeprecationWarning)
        weir.range(2).map(lambda r: r, num_cpus=1, memory=1).add_column("x", lambda b: b["id"], num_cpus=1)


def test_cpus_beside_a_gpu_are_told_of(caplog):
    with caplog.at_level(logging.WARNING, logger="weir"):
        weir.range(1).map(lambda r: r, num_cpus=1, num_gpus=1)
    assert "both num_cpus and num_gpus" in caplog.text


def test_add_column_says_what_its_function_returns():
    pytest.importorskip("pyarrow")
    for batch_format in ("numpy", "pyarrow"):
        with pytest.raises(weir.exceptions.UserCodeException, match=f"For {batch_format} batch format"):
            weir.range(2).add_column("x", lambda b: [1], batch_format=batch_format).take_all()


@pytest.mark.parametrize("names, text", [
    ({"a": 1}, "rename_columns requires both keys and values in the 'names' to be strings."),
    (["x", 1], "rename_columns requires all elements in the 'names' to be strings."),
])
def test_names_are_texts(names, text):
    with pytest.raises(ValueError) as error:
        weir.from_items([{"a": 1, "b": 2}]).rename_columns(names)
    assert str(error.value).startswith(text) and repr(names) in str(error.value)


def test_compute_counts_before_concurrency():
    import os

    class Pid:
        def __call__(self, batch):
            return {"pid": [os.getpid()]}

    ds = weir.range(8, override_num_blocks=8).map_batches(Pid, compute=weir.ActorPoolStrategy(size=1), concurrency=3, batch_size=1)
    assert len(ds.unique("pid")) == 1


def test_declared_memory_bounds_the_workers():
    from weir import ray_api

    weir.shutdown()
    ray_api.init(num_cpus=4, _memory=300 << 20)
    try:
        import os

        pids = weir.range(64, override_num_blocks=16).map_batches(lambda b: {"pid": [os.getpid()]}, memory=200 << 20, batch_size=4)
        assert len(pids.unique("pid")) == 1
    finally:
        weir.shutdown()


def test_children_of_an_operator_in_a_placement_group_are_in_it():
    from weir.core.placement import PlacementGroupSchedulingStrategy, placement_group

    weir.shutdown()
    weir.init(num_cpus=2)
    try:
        group = placement_group([{"CPU": 1}, {"CPU": 1}])

        class Parent:
            def __init__(self):
                self.double = weir.remote(lambda x: 2 * x)  # a CPU each, and the group has them all

            def __call__(self, row):
                return {"x": weir.get(self.double.remote(row["id"]), timeout=60)}

        strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
        with pytest.warns(RayDeprecationWarning):
            ds = weir.range(3).map(Parent, scheduling_strategy=strategy)
        assert ds.take_all() == [{"x": 0}, {"x": 2}, {"x": 4}]
    finally:
        weir.shutdown()


def test_filters_by_expressions_have_no_actors():
    with pytest.raises(ValueError, match="no object to keep in actors"):
        weir.range(3).filter(expr=weir.col("id") > 1, compute=weir.ActorPoolStrategy(size=2))


def test_no_columns_more_is_no_change():
    assert weir.range(2).with_columns({}).take_all() == [{"id": 0}, {"id": 1}]


def test_fields_of_structs_are_named_or_counted_from_zero():
    struct = weir.col("s").struct
    for key in (True, 1.5):
        with pytest.raises(TypeError, match="Struct indices must be strings or integers"):
            struct[key]
    with pytest.raises(TypeError, match="must be an integer"):
        struct.field_by_index("0")
    with pytest.raises(ValueError, match="must be non-negative, got -1"):
        struct[-1]


def test_a_function_of_expressions_returns_columns():
    pytest.importorskip("pyarrow")
    from weir.expressions import udf

    for value in ({"a": 1}, "text", 5):
        fn = udf(return_dtype=weir.datatype.DataType.int64())(lambda column, value=value: value)
        with pytest.raises(weir.exceptions.UserCodeException, match=f"returned invalid type {type(value).__name__}. Expected type"):
            weir.range(2).with_column("x", fn(weir.col("id"))).take_all()


def test_the_last_of_an_async_generator_is_the_column():
    pc = pytest.importorskip("pyarrow.compute")
    from weir.expressions import udf

    @udf(return_dtype=weir.datatype.DataType.int64())
    class Twice:
        async def __call__(self, column):
            yield column
            yield pc.multiply(column, 2)

    assert weir.range(3).with_column("x", Twice()(weir.col("id"))).take_all()[2] == {"id": 2, "x": 4}


def test_workers_of_classes_are_actors_by_their_numbers():
    class Telling:
        def __init__(self):
            self.id = weir.get_runtime_context().get_actor_id()

        def __call__(self, batch):
            context = weir.get_runtime_context()
            try:
                context.current_actor
            except RuntimeError as error:
                said = str(error)
            return {"ids": [context.get_actor_id()], "same": [self.id == context.get_actor_id()], "name": [context.get_actor_name()], "said": [said]}

    rows = weir.range(4, override_num_blocks=4).map_batches(Telling, batch_size=None, concurrency=2).take_all()
    assert {len(row["ids"]) for row in rows} == {32} and len({row["ids"] for row in rows}) <= 2 and all(row["same"] for row in rows)
    assert {row["name"] for row in rows} == {""} and "no handle" in rows[0]["said"]
    rows = weir.range(1).map(lambda row: {"id": str(weir.get_runtime_context().get_actor_id())}).take_all()
    assert rows == [{"id": "None"}]


@pytest.mark.parametrize("rows", [2, None])
def test_a_class_in_threads_of_its_worker(rows):
    """enable_true_multi_threading: nobody gets further before all three calls are there."""

    class Meeting:
        def __init__(self):
            import threading

            self.all_there = threading.Barrier(3)

        def __call__(self, batch):
            self.all_there.wait(60)
            return {"x": batch["id"] * 2}

    strategy = weir.ActorPoolStrategy(size=1, max_concurrent_calls_per_actor=3, enable_true_multi_threading=True)
    found = weir.range(12).map_batches(Meeting, batch_size=rows, compute=strategy).take_all()
    assert [row["x"] for row in found] == list(range(0, 24, 2))
    with pytest.raises(TypeError, match="max_concurrency is how many calls a worker has going at once, 1 or more, not 'x'"):
        weir.range(3).map_batches(Meeting, max_concurrency="x")
