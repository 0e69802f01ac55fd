"""DataContext as Ray 2.60's: its fields and defaults, what they do, and that the page says so."""
import dataclasses
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import weir
from weir import _context_fields
from weir.context import ExecutionCallback, ExecutionOptions, ExecutionResources

ROOT = Path(__file__).resolve().parents[2]
RECORDED = json.loads((ROOT / "tests/python/recorded/ray_2_60_names.json").read_text())


@pytest.fixture
def context():
    """A context of the test's own, in force."""
    made = weir.DataContext()
    with weir.DataContext.current(made):
        yield made


def run(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_fields_and_defaults_are_rays():
    fields = {field.name for field in dataclasses.fields(weir.DataContext)}
    assert fields == set(RECORDED["context"])
    made = weir.DataContext()
    told = {name: re.sub(r", detectors=\[.*", ", detectors=[])", entry["default"]) for name, entry in RECORDED["context"].items()}
    assert {name: repr(getattr(made, name)) for name in fields} == told


def test_it_can_be_used_as_a_dataclass():
    made = dataclasses.replace(weir.DataContext(), max_errored_blocks=4)
    assert made.max_errored_blocks == 4 and dataclasses.is_dataclass(made)
    assert dataclasses.asdict(made)["max_errored_blocks"] == 4


def test_the_constants_of_the_module_are_rays():
    from weir import context

    for name, entry in RECORDED["modules"]["ray.data.context"]["names"].items():
        if entry["kind"] == "value":
            assert repr(getattr(context, name)) == entry["value"], name


def test_the_page_is_as_the_code():
    done = subprocess.run([sys.executable, ROOT / "tools/context_page.py", "--check"], env=os.environ)
    assert done.returncode == 0, "run tools/context_page.py"
    page = (ROOT / "docs/context.md").read_text()
    for field in [*_context_fields.fields(), *_context_fields.old_fields()]:
        assert bool(field.effect) != bool(field.reason), field.name
        assert page.count(f"\n| `{field.name.lstrip(chr(95))}` |") == 1, field.name


def test_what_is_said_to_have_an_effect_is_looked_at():
    folder = Path(weir.__file__).parent
    text = "".join(path.read_text() for path in folder.rglob("*.py") if path.name not in ("_context_fields.py",) and "site" not in path.parts)
    names = [field.name for field in [*_context_fields.fields(), *_context_fields.old_fields()] if field.effect]
    own = (folder / "context.py").read_text()
    assert [name for name in names if text.count(name) <= own.count(name) and name not in ("_checkpoint_config", "custom_execution_callback_classes", "_shuffle_strategy", "use_push_based_shuffle")] == []


def test_unknown_names_are_kept_and_warned_of_once():
    made = weir.DataContext()
    with pytest.warns(UserWarning, match="'max_erored_blocks'; did you mean 'max_errored_blocks'") as seen:
        made.max_erored_blocks = 3
        made.max_erored_blocks = 4
    assert len(seen) == 1
    assert made.max_erored_blocks == 4 and pickle.loads(pickle.dumps(made)).max_erored_blocks == 4
    assert made.copy().max_erored_blocks == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.optimize_fuse_stages = False
        made.use_streaming_executor = True
        made._of_my_own = 1


@pytest.mark.parametrize("field, value, kind, said", [
    ("target_max_block_size", "128MB", TypeError, "DataContext.target_max_block_size is a number or None, not '128MB'"),
    ("target_min_block_size", -1, ValueError, "DataContext.target_min_block_size is at least 0, not -1"),
    ("target_max_block_size", float("nan"), ValueError, "at least 0, not nan"),
    ("max_errored_blocks", "all", TypeError, "DataContext.max_errored_blocks is a number, not 'all'"),
    ("max_errored_blocks", None, TypeError, "is a number, not None"), ("target_min_block_size", None, TypeError, "is a number, not None"),
    ("max_map_retries", True, TypeError, "is a number, not True"),
    ("max_tasks_in_flight_per_actor", 0, ValueError, "at least 1, not 0"),
    ("execution_no_progress_timeout_s", [1], TypeError, "a number or None")])
def test_numbers_are_looked_at_where_they_are_set(field, value, kind, said):
    made = weir.DataContext()
    before = getattr(made, field)
    with pytest.raises(kind, match=said):
        setattr(made, field, value)
    with pytest.raises(kind, match=said):
        weir.DataContext(**{field: value})
    assert getattr(made, field) == before


def test_numbers_of_every_kind_are_taken():
    np = pytest.importorskip("numpy")
    made = weir.DataContext(target_max_block_size=np.int64(5), max_errored_blocks=-1, wait_for_min_actors_s=0.5, max_tasks_in_flight_per_actor=None)
    made.target_max_block_size = 1.5 * (1 << 20)
    made.target_max_block_size = made.execution_no_progress_timeout_s = None
    assert weir.range(3).count() == 3


@pytest.mark.parametrize("wrong, said", [
    (lambda options: setattr(options, "preserve_ordr", True), "ExecutionOptions has no field 'preserve_ordr'; did you mean 'preserve_order'?"),
    (lambda options: setattr(options.resource_limits, "cpus", 2), "ExecutionResources has no field 'cpus'; did you mean 'cpu'?"),
    (lambda options: setattr(options, "speed", 9), "ExecutionOptions has no field 'speed'. It is kept, and has no effect")])
def test_misspelt_options_are_told_of(wrong, said):
    with pytest.warns(UserWarning) as seen:
        wrong(weir.DataContext().execution_options)
    assert [str(warning.message)[: len(said)] for warning in seen] == [said] and seen[0].filename == __file__


def test_limits_are_resources():
    options = weir.DataContext().execution_options
    for set_it in (lambda: setattr(options, "resource_limits", {"CPU": 2}), lambda: weir.ExecutionOptions(exclude_resources={"CPU": 2})):
        with pytest.raises(TypeError, match=r"is an ExecutionResources, such as ExecutionResources\(cpu=2\), not {'CPU': 2}"):
            set_it()


def test_old_names():
    made = weir.DataContext()
    with pytest.warns(DeprecationWarning, match="shuffle_compression"):
        made.hash_shuffle_compression = "lz4"
    assert made.shuffle_compression == made.hash_shuffle_compression == "lz4"
    made.use_push_based_shuffle = True
    assert made.shuffle_strategy.value == "sort_shuffle_push_based"
    made.use_polars = True
    assert made.use_polars_sort
    made.target_shuffle_max_block_size = 1 << 20
    assert made.target_max_block_size == 128 << 20


def test_what_can_be_set_can_be_given():
    assert weir.DataContext(shuffle_strategy="hash_shuffle").shuffle_strategy.value == "hash_shuffle"
    with pytest.raises(TypeError, match="no field 'execution_callback_classes'"):
        weir.DataContext(execution_callback_classes=[])


def test_derived_datasets_inherit_and_the_one_that_runs_counts(context):
    def seen(batch):
        current = weir.DataContext.get_current()
        return {"x": [current.max_errored_blocks, current.get_config("key")]}

    context.max_errored_blocks = 2
    context.set_config("key", 7)
    ds = weir.range(4).map_batches(seen)
    context.max_errored_blocks = 3
    assert [row["x"] for row in ds.take_all()] == [2, 7]
    ds.context.max_errored_blocks = 5
    assert [row["x"] for row in ds.limit(10).take_all()] == [5, 7]


def test_a_change_after_the_step_counts():
    ds = weir.range(10).map_batches(lambda batch: {"x": 1 / (batch["id"] - 3)} if (batch["id"] != 3).all() else 1 // 0, batch_size=1)
    ds.context.max_errored_blocks = 1
    assert ds.count() == 9


def test_sizes_of_blocks(context):
    def rows(batch):
        return {"n": [len(batch["id"])]}

    assert weir.range(200_000).map_batches(rows).count() == 1
    context.target_max_block_size = 1 << 20
    assert 6 <= weir.range(10**6).materialize().num_blocks() <= 9
    assert 6 <= weir.range(10**6).map_batches(rows).count() <= 9
    assert len(list(weir.range(10**6).iter_batches(batch_size=None))) >= 6
    context.target_max_block_size = 1
    kept = weir.range(10).materialize()
    assert kept.num_blocks() == 10 and kept.take_all() == [{"id": i} for i in range(10)]
    context.block_splitting_enabled = False
    assert weir.range(10).materialize().num_blocks() == 1


def test_no_progress(context):
    def hang(batch):
        if batch["id"][0] == 20:
            time.sleep(60)
        return batch

    context.execution_no_progress_timeout_s = 0.5
    ds = weir.range(100).map_batches(hang, batch_size=10)
    for use in (ds.take_all, ds.materialize):
        with pytest.raises(weir.exceptions.ExecutionTimeoutError, match=r"0.5 s .*MapBatches\(hang\)"):
            use()

    def slow(batch):
        time.sleep(0.2)
        return batch

    assert weir.range(50).map_batches(slow, batch_size=10, concurrency=1).count() == 50


class Told(ExecutionCallback):
    seen = []

    def before_execution_starts(self, executor):
        Told.seen.append("begins")

    def after_execution_succeeds(self, executor):
        Told.seen.append("ended")

    def after_execution_fails(self, executor, error):
        Told.seen.append(type(error).__mro__[-3].__name__)


def test_callbacks(context, monkeypatch):
    context.custom_execution_callback_classes = [Told]
    weir.range(3).map(lambda row: row).materialize()
    with pytest.raises(ZeroDivisionError):
        weir.range(3).map(lambda row: 1 // 0).take_all()
    assert Told.seen[:3] == ["begins", "ended", "begins"] and len(Told.seen) == 4
    context.custom_execution_callback_classes = []
    monkeypatch.setenv("RAY_DATA_EXECUTION_CALLBACKS", "no.such.Thing")
    with pytest.raises(ValueError, match="no.such.Thing"):
        weir.range(3).take()
    monkeypatch.setenv("RAY_DATA_EXECUTION_CALLBACKS", "os.getcwd")
    with pytest.raises(ValueError, match="Expected a subclass of ExecutionCallback"):
        weir.range(3).take()


class Steps(ExecutionCallback):
    seen = []

    def before_execution_starts(self, executor):
        Steps.seen.append("begins")

    def on_execution_step(self, executor):
        Steps.seen.append("step")

    def after_execution_succeeds(self, executor):
        Steps.seen.append("ended")

    def after_execution_fails(self, executor, error):
        Steps.seen.append("failed")


@pytest.mark.parametrize("ends", ["take_all", "count", "materialize", "write", "failed", "left", "batches left"])
def test_callbacks_are_told_of_steps(context, ends, tmp_path):
    context.custom_execution_callback_classes = [Steps]
    Steps.seen.clear()
    ds = weir.range(3, override_num_blocks=3)
    if ends == "failed":
        with pytest.raises(ZeroDivisionError):
            ds.map(lambda row: 1 // 0).take_all()
    elif ends == "write":
        ds.map(lambda row: row).write_csv(str(tmp_path / "out"))
    elif ends == "left":
        next(rows := iter(ds.iter_rows()))
        del rows
    elif ends == "batches left":
        for batch in ds.iter_batches(batch_size=1):
            break
    else:
        getattr(ds.map(lambda row: row), ends)()
    assert Steps.seen[0] == "begins" and Steps.seen[-1] == ("failed" if ends == "failed" else "ended") and Steps.seen.count("step") >= 1
    assert {"begins", "ended", "failed"}.isdisjoint(Steps.seen[1:-1])


@pytest.mark.parametrize("most, bad", [(2, 1), (2, 2), (-1, 5)])
def test_tasks_that_failed_are_counted(context, most, bad):
    context.max_errored_blocks = most
    ds = weir.range(5, override_num_blocks=5).map(lambda row: {"id": row["id"] // (row["id"] >= bad)})
    assert sorted(row["id"] for row in ds.take_all()) == list(range(bad, 5))
    metrics = ds.get_stats_summary().extra_metrics
    assert metrics["num_tasks_failed"] == bad and metrics["rows_task_outputs_generated"] == 5 - bad


def test_stats_in_the_log(context, caplog):
    context.enable_auto_log_stats = True
    with caplog.at_level(logging.INFO):
        weir.range(3).map(lambda row: row).count()
    assert "Operator 1 ReadRange->Map(<lambda>)" in caplog.text


def test_resources():
    limits = ExecutionResources(cpu=2)
    assert (limits.cpu, limits.gpu, limits.memory) == (2, 0.0, 0)
    options = ExecutionOptions(resource_limits=limits)
    assert options.resource_limits == ExecutionResources.for_limits(cpu=2) and options.resource_limits.gpu == float("inf")
    options.resource_limits.object_store_memory = 8e9
    options.resource_limits.cpu = 1.5
    assert limits.cpu == 2 and "object_store_memory=7.5GiB" in repr(options)
    both = limits.add(ExecutionResources(1, 1, 10, 20))
    assert both == ExecutionResources(3, 1, 10, 20) and both.subtract(limits) == ExecutionResources(1, 1, 10, 20)
    assert both.scale(2).cpu == 6 and both.max(limits) == both and both.floordiv(limits).cpu == 1
    assert limits.satisfies_limit(both) and not both.satisfies_limit(limits)
    assert ExecutionResources.from_resource_dict(both.to_resource_dict()) == both and hash(both) == hash(both.copy())
    options.exclude_resources = ExecutionResources(cpu=1)
    with pytest.raises(ValueError, match="cpu"):
        options.validate()
    with pytest.raises(ValueError, match="one machine"):
        options.label_selector = {"a": "b"}
    with pytest.raises(TypeError):
        limits.cpu = "2"


def test_limits_bound_the_workers(context):
    def who(batch):
        time.sleep(0.05)
        return {"pid": [os.getpid()]}

    context.execution_options.resource_limits.cpu = 1
    assert len({row["pid"] for row in weir.range(80).map_batches(who, batch_size=10, num_cpus=1, concurrency=4).take_all()}) == 1
    context.execution_options.resource_limits = ExecutionResources(memory=100 << 20)
    assert len({row["pid"] for row in weir.range(80).map_batches(who, batch_size=10, memory=60 << 20, concurrency=4).take_all()}) == 1


def test_the_environment():
    code = "import weir; c = weir.DataContext.get_current(); print({})"
    assert run(code.format("c.raise_original_map_exception, c.enable_progress_bars, c.min_parallelism"),
               RAY_DATA_RAISE_ORIGINAL_MAP_EXCEPTION="1", RAY_DATA_DISABLE_PROGRESS_BARS="1", RAY_DATA_DEFAULT_MIN_PARALLELISM="7") == "True False 7"
    assert run(code.format("c.execution_options.verbose_progress, c.shuffle_strategy.value"), RAY_DATA_VERBOSE_PROGRESS="0",
               RAY_DATA_DEFAULT_SHUFFLE_STRATEGY="hash_shuffle") == "False hash_shuffle"
    assert run("import weir; print(weir.cluster_resources()['object_store_memory'])", RAY_object_store_memory="700000000") == "700000000.0"
    bad = subprocess.run([sys.executable, "-c", code.format("1")], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "RAY_DATA_DEFAULT_MIN_PARALLELISM": "many"})
    assert "RAY_DATA_DEFAULT_MIN_PARALLELISM is a number, not 'many'" in bad.stderr


def test_presets(context):
    for kind, most, least in (("etl", 256, 64), ("image", 128, 32), ("analytics", 512, 128), ("memory_constrained", 64, 16), ("training", 256, 64)):
        made = weir.configure_for(kind)
        assert made is context and (made.target_max_block_size >> 20, made.target_min_block_size >> 20) == (most, least)
    assert weir.configure_for("shuffle").target_shuffle_max_block_size == 1 << 30
    with pytest.raises(ValueError, match="'etl'"):
        weir.configure_for("everything")


def test_set_current_in_workers_is_of_that_dataset_only(context):
    context.max_map_retries = 9
    first = weir.range(2).map(lambda row: {"x": weir.DataContext.get_current().max_map_retries})
    context.max_map_retries = 8
    second = weir.range(2).map(lambda row: {"x": weir.DataContext.get_current().max_map_retries})
    assert first.take()[0]["x"] == 9 and second.take()[0]["x"] == 8


def test_objects_that_are_not_to_be_kept():
    np = pytest.importorskip("numpy")
    from weir.exceptions import RayTaskError
    from weir.extensions import ArrowConversionError

    def objects(batch):
        return {"o": np.array([object() for _ in batch["id"]], dtype=object)}

    assert len(weir.range(2).map_batches(objects).take_all()) == 2
    with weir.DataContext.current(weir.DataContext(enable_fallback_to_arrow_object_ext_type=False)):
        for ds in (weir.range(2).map(lambda row: {"o": object()}), weir.range(2).map_batches(objects)):
            with pytest.raises(ArrowConversionError, match="Error converting column 'o' to Arrow") as raised:
                ds.take_all()
            assert isinstance(raised.value, RayTaskError)
        with pytest.raises(ArrowConversionError, match="Error converting column 'o'"):
            weir.from_items([{"o": object()}])
        assert len(weir.range(2).map(lambda row: {"ragged": np.zeros(row["id"] + 1), "set": {1}}).take_all()) == 2


def test_schemas_that_are_enforced():
    pa = pytest.importorskip("pyarrow")

    def wider(batch):
        return {"a": batch["id"]} if batch["id"][0] == 0 else {"a": batch["id"].astype(float), "c": batch["id"]}

    def other(batch):
        return {"a": batch["id"]} if batch["id"][0] == 0 else {"a": batch["id"].astype(str)}

    source = weir.range(4, override_num_blocks=2)
    assert source.map_batches(other).take_all()[2:] == [{"a": "2"}, {"a": "3"}]
    with weir.DataContext.current(weir.DataContext(enforce_schemas=True)):
        source = weir.range(4, override_num_blocks=2)
        assert source.map_batches(wider).take_all() == [{"a": 0}, {"a": 1}, {"a": 2.0, "c": 2}, {"a": 3.0, "c": 3}]
        for consume in (weir.Dataset.take_all, weir.Dataset.materialize):
            with pytest.raises(pa.ArrowTypeError, match="Field a has incompatible types: int64 vs string"):
                consume(source.map_batches(other))
