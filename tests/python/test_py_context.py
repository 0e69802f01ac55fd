"""The session, the settings, and what importing the package costs."""
import dataclasses
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import weir
import weir.context
from driver_scripts import wait_for


def run(code, **environment):
    """The output of a program of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HEAVY = ["numpy", "pandas", "pyarrow", "torch", "cloudpickle"]


def test_importing_loads_nothing_heavy():
    found = run(f"""
        import sys
        before = set(sys.modules)
        import weir
        print(sorted(set(sys.modules) - before), [m for m in {HEAVY} if m in sys.modules], __import__('threading').active_count())
    """)
    assert found.endswith("[] 1")
    assert "typing" not in found and "weir.dataset" not in found


def test_native_plans_load_nothing_heavy(tmp_path):
    found = run(f"""
        import sys, weir
        weir.range(1000).write_parquet({str(tmp_path / 'p')!r})
        weir.range(10).write_csv({str(tmp_path / 'c')!r})
        ds = weir.read_parquet({str(tmp_path / 'p')!r}).select_columns(["id"]).limit(10)
        assert ds.count() == 10 and len(ds.take(3)) == 3 and ds.columns() == ["id"]
        ds.show(1)
        assert weir.read_csv({str(tmp_path / 'c')!r}).take_all() == [{{"id": i}} for i in range(10)]
        repr(ds), repr(ds.schema())
        print([m for m in {HEAVY} if m in sys.modules])
    """)
    assert found.splitlines()[-1] == "[]"


def test_filters_load_nothing_heavy():
    found = run(f"""
        import sys, weir
        assert weir.range(10).filter(expr="id > 7").count() == 2
        assert weir.range(10).filter(expr=weir.col("id") > 7).take() == [{{"id": 8}}, {{"id": 9}}]
        print([m for m in {HEAVY} if m in sys.modules])
    """)
    assert found == "[]"


def test_memory_limit_comes_from_the_argument_or_the_environment():
    code = "import weir; {}; print(int(weir.cluster_resources()['memory']))"
    assert run(code.format("weir.init(memory_limit='1GB')")) == str(10**9)
    assert run(code.format("weir.init(memory_limit=300 << 20)"), WEIR_MEMORY_LIMIT="1G") == str(300 << 20)
    assert run(code.format("pass"), WEIR_MEMORY_LIMIT="512M") == str(512 << 20)
    assert run(code.format("pass"), RAY_object_store_memory="1000000000") == str(10**9)
    assert int(run(code.format("pass"))) > 0


@pytest.mark.parametrize("text, size", [("2GB", 2 * 10**9), ("512M", 512 << 20), ("1.5GiB", 3 << 29), ("64 MiB", 64 << 20),
                                        (123456789, 123456789), (8e9, 8 * 10**9), ("1000000", 10**6)])
def test_sizes(text, size):
    from weir._session import parse_bytes

    assert parse_bytes(text, "x") == size


@pytest.mark.parametrize("bad, error", [("2XB", ValueError), ("", ValueError), ("-1", ValueError), (0, ValueError),
                                        (-5, ValueError), (True, TypeError), ([], TypeError)])
def test_sizes_that_are_none(bad, error):
    from weir._session import parse_bytes

    with pytest.raises(error):
        parse_bytes(bad, "x")


def test_a_second_init_is_an_error_unless_ignored():
    assert run("""
        import weir
        weir.init(memory_limit="1GB")
        try:
            weir.init(memory_limit="2GB")
        except RuntimeError as error:
            assert "shutdown" in str(error)
        weir.init(memory_limit="2GB", ignore_reinit_error=True)
        assert int(weir.cluster_resources()["memory"]) == 10**9
        weir.shutdown()
        assert not weir.is_initialized()
        weir.init(memory_limit="2GB", num_cpus=1)
        resources = weir.cluster_resources()
        assert {name: resources[name] for name in ("CPU", "memory", "object_store_memory")} == {
            "CPU": 1.0, "memory": 2e9, "object_store_memory": 2e9}
        assert weir.available_resources()["object_store_memory"] <= 2e9
        for bad in (dict(num_cpus=-1), dict(num_cpus="2"), dict(num_gpus=-1), dict(preload="torch")):
            weir.shutdown()
            try:
                weir.init(**bad)
            except (TypeError, ValueError):
                continue
            raise AssertionError(bad)
        print("done")
    """) == "done"


def test_a_session_that_ended_takes_its_data_along():
    assert run("""
        import weir
        kept = weir.from_items([1, 2])
        assert kept.count() == 2
        weir.shutdown()
        try:
            kept.take()
        except ValueError as error:
            assert "session" in str(error)
        print(weir.range(2).count())
    """) == "2"


def test_a_forked_child_has_a_session_of_its_own():
    assert run("""
        import os, weir
        kept = weir.from_items([1, 2, 3])
        rows = iter(weir.range(10**6).iter_rows())
        next(rows)
        pid = os.fork()
        if pid == 0:
            good = weir.range(100).count() == 100
            for use in (kept.take, lambda: next(rows)):
                try:
                    use()
                    good = False
                except Exception:
                    pass
            os._exit(0 if good else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert kept.take_all() == [{"item": 1}, {"item": 2}, {"item": 3}] and next(rows) == {"id": 1}
        print("done")
    """) == "done"


def test_threads_share_the_session():
    assert run("""
        import threading, weir
        seen = []
        def work(n):
            seen.append(weir.range(n).count() + len(weir.range(n).take_all()))
        threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(1, 9)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(sorted(seen) == [2000 * i for i in range(1, 9)])
    """) == "True"


def test_contexts_are_copied_into_datasets():
    ctx = weir.DataContext.get_current()
    assert ctx is weir.DataContext.get_current() and weir.DatasetContext is weir.DataContext
    before = weir.range(1)
    ctx.max_errored_blocks = 7
    try:
        after = weir.range(1)
        assert before.context.max_errored_blocks == 0 and after.context.max_errored_blocks == 7
        assert after.limit(1).context.max_errored_blocks == 7
    finally:
        ctx.max_errored_blocks = 0
    assert after.context.max_errored_blocks == 7


def test_resource_limits_can_be_assigned():
    ctx = weir.DataContext().copy()
    ctx.execution_options.resource_limits.cpu = 80
    ctx.execution_options.resource_limits.object_store_memory = 8e9
    with pytest.warns(DeprecationWarning, match="no-op"):
        ctx.execution_options.locality_with_output = True
    assert ctx.execution_options.locality_with_output is False
    ctx.target_shuffle_max_block_size = 1 << 30
    ctx.block_splitting_enabled = False
    assert ctx.execution_options.resource_limits.cpu == 80 and "cpu=80" in repr(ctx.execution_options)
    assert weir.DataContext().execution_options.is_resource_limits_default()


def test_contexts_know_their_fields():
    with pytest.raises(AttributeError, match="no_such_field"):
        weir.DataContext().no_such_field
    with pytest.raises(TypeError, match="no_such_field"):
        weir.DataContext(no_such_field=1)
    with pytest.raises((TypeError, ValueError), match="checkpoint"):
        weir.DataContext().checkpoint_config = object()
    with pytest.raises(ValueError):
        weir.DataContext().shuffle_strategy = "by magic"
    ctx = weir.DataContext()
    ctx.set_config("mine", 3)
    assert ctx.get_config("mine") == 3 and ctx.copy().get_config("mine") == 3
    ctx.remove_config("mine")
    assert ctx.get_config("mine", 5) == 5
    assert pickle.loads(pickle.dumps(ctx)).target_max_block_size == 128 << 20


def test_a_context_for_a_block_holds_in_its_thread():
    other = weir.DataContext(max_errored_blocks=3)
    seen = []
    with weir.DataContext.current(other):
        assert weir.DataContext.get_current() is other
        thread = threading.Thread(target=lambda: seen.append(weir.DataContext.get_current() is other))
        thread.start()
        thread.join()
    assert seen == [False] and weir.DataContext.get_current() is not other


def test_strategies_check_their_numbers():
    pool = weir.ActorPoolStrategy()
    assert (pool.min_size, pool.max_size, pool.initial_size) == (1, float("inf"), 1)
    assert weir.ActorPoolStrategy(size=3) == weir.ActorPoolStrategy(min_size=3, max_size=3, initial_size=3)
    assert weir.TaskPoolStrategy(2) == weir.TaskPoolStrategy(size=2) != weir.TaskPoolStrategy()
    for bad in (dict(size=0), dict(size=1, min_size=1), dict(min_size=0), dict(min_size=3, max_size=2),
                dict(min_size=1, max_size=3, initial_size=4), dict(max_tasks_in_flight_per_actor=0)):
        with pytest.raises(ValueError):
            weir.ActorPoolStrategy(**bad)
    with pytest.raises(ValueError):
        weir.TaskPoolStrategy(0)


@pytest.mark.parametrize("most", [1, 4])
def test_tasks_that_an_actor_is_given_ahead(tmp_path, most):
    """One of two actors waits in its first call: what it was given besides waits with it, and the other does all the rest."""
    class Waits:
        has_begun = False

        def __call__(self, batch):
            (tmp_path / f"{os.getpid()}.{batch['id'][0]}").touch()
            while not self.has_begun and not (tmp_path / f"go {os.getpid()}").exists():
                time.sleep(0.002)
            self.has_begun = True
            return {"pid": [os.getpid()]}

    def taken(pid=""):
        return [path.name.split(".")[0] for path in tmp_path.glob(f"{pid}*.*")]

    ds = weir.range(12).materialize()
    ds = ds.map_batches(Waits, batch_size=1, compute=weir.ActorPoolStrategy(size=2, max_tasks_in_flight_per_actor=most))
    rows = []
    thread = threading.Thread(target=lambda: rows.extend(ds.take_all()))
    thread.start()
    try:
        wait_for(lambda: len(set(taken())) == 2)
        waiting, free = sorted(set(taken()))
        (tmp_path / f"go {free}").touch()
        wait_for(lambda: len(taken(free)) == 12 - most)
    finally:
        for pid in set(taken()):
            (tmp_path / f"go {pid}").touch()
        thread.join()
    assert sorted(str(row["pid"]) for row in rows) == sorted([waiting] * most + [free] * (12 - most))


class Model:
    def __call__(self, batch):
        return batch


def test_who_runs_a_function():
    from weir.compute import choose

    def fn(batch):
        return batch

    assert choose(fn, None, None) == weir.TaskPoolStrategy()
    assert choose(Model, None, None) == weir.ActorPoolStrategy()
    assert choose(fn, None, 3) == weir.TaskPoolStrategy(3)
    assert choose(Model, None, 3) == weir.ActorPoolStrategy(size=3)
    assert choose(Model, None, (2, 4)) == weir.ActorPoolStrategy(min_size=2, max_size=4, initial_size=2)
    assert choose(Model, None, (2, 4, 3)) == weir.ActorPoolStrategy(min_size=2, max_size=4, initial_size=3)
    assert choose(fn, "tasks", None) == weir.TaskPoolStrategy()
    assert choose(fn, weir.TaskPoolStrategy(), 2) == weir.TaskPoolStrategy()
    assert choose(Model, "actors", None) == weir.ActorPoolStrategy()
    for bad in ((fn, None, 0), (fn, None, (1, 2)), (fn, None, "a"), (Model, None, (0, 2)), (fn, "x", None), (fn, 5, None),
                (Model, weir.TaskPoolStrategy(), None), (Model, None, (1, 2, 3, 4))):
        with pytest.raises(ValueError):
            choose(*bad)


def test_the_same_names_under_weir_data():
    import weir.data as rd

    assert rd.range(2).take() == weir.range(2).take() and rd.Dataset is weir.Dataset
    with pytest.raises(AttributeError):
        rd.no_such_thing
    assert set(weir.__all__) <= set(dir(weir)) and weir.__all__ == sorted(weir.__all__) and set(weir.__all__) <= set(weir._WHERE)
    for name in weir.__all__:
        assert getattr(weir, name) is not None


def test_the_class_shows_defaults_as_a_dataclass_does():
    """What every context has its own of is not the class's."""
    assert (weir.DataContext.target_max_block_size, weir.DataContext.enable_progress_bars) == (128 << 20, True)
    assert "target_max_block_size" in dir(weir.DataContext)
    assert not hasattr(weir.DataContext, "execution_options") and not hasattr(weir.DataContext, "no_such_field")
    assert weir.context.AutoscalingConfig.actor_pool_util_upscaling_threshold == 1.75
    one = dataclasses.replace(weir.DataContext().autoscaling_config, actor_pool_max_upscaling_delta=3)
    assert dataclasses.asdict(one)["actor_pool_max_upscaling_delta"] == 3
    lists = [weir.context.DeltaConfig().commit_retried_errors for _ in range(2)]
    assert lists[0] == lists[1] and lists[0] is not lists[1]
