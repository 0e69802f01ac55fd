"""What Ray Data 2.60 warns of and refuses is warned of and refused where `import ray` is weir; weir's own programs are left alone."""
import subprocess
import sys

import pytest

import weir

SCRIPT = """
import logging, sys, warnings
import ray
said = []
class Keeps(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger("ray.data").addHandler(Keeps())
def seen(make):
    said.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    assert all(one.filename == "<string>" for one in caught), [one.filename for one in caught]
    return [one.category.__name__ for one in caught], [text.replace("``", "`").split("`")[1] for text in said if "`" in text]
ds = ray.data.range(4)
print(seen(lambda: ds.zip(ds)))
print(seen(lambda: ds.filter(expr="id > 1")))
print(seen(lambda: ds.filter(lambda row: True)))
print(seen(lambda: ds.filter(expr=ray.data.expressions.col("id") > 1)))
print(seen(lambda: ray.data.range(4, parallelism=2)))
print(seen(lambda: ds.map(lambda row: row, concurrency=2)))
ray.data.range(4).write_parquet(sys.argv[1])
print(seen(lambda: ray.data.read_parquet(sys.argv[1], columns=["id"])))
print(seen(lambda: ray.data.read_parquet(sys.argv[1])))
print(seen(lambda: ds.iterator().to_torch()))
print(seen(lambda: ds.filter(expr=ray.data.expressions.col("id") > 1, concurrency=2)))
options = ray.data.ExecutionOptions(exclude_resources=ray.data.ExecutionResources(cpu=1), actor_locality_enabled=False)
print(seen(lambda: setattr(options, "exclude_resources", None)))
print(seen(lambda: setattr(options, "actor_locality_enabled", True)))
"""

# The categories and the logged arguments of Ray 2.60.
EXPECTED = [(["RayDeprecationWarning"], []), (["DeprecationWarning"], []), (["UserWarning"], []), ([], []), ([], ["parallelism"]), ([], ["concurrency"]),
            (["DeprecationWarning"], []), ([], []), (["RayDeprecationWarning"], []), ([], ["concurrency"]), (["RayDeprecationWarning"], []),
            (["RayDeprecationWarning"], [])]


def test_what_is_outdated_in_ray(tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-m", "weir.compat", "-c", SCRIPT, str(tmp_path / "p")], capture_output=True, text=True)
    assert done.stdout.splitlines() == [str(one) for one in EXPECTED], done.stderr


@pytest.mark.filterwarnings("error")
def test_weir_itself_says_nothing():
    ds = weir.range(4)
    assert ds.zip(ds).filter(expr="id > 1").filter(lambda row: True).count() == 2
    assert weir.range(4, parallelism=2).map(lambda row: row, concurrency=1).count() == 4


def test_very_many_blocks(caplog):
    weir.range(20000, override_num_blocks=4999)
    assert not caplog.records
    weir.range(20000, override_num_blocks=5000)
    (record,) = caplog.records
    assert "number of read blocks of 5000" in record.getMessage()


@pytest.mark.parametrize("selector, kind", [(["a"], TypeError), ({"a": 1}, TypeError), ({"a": "b c!"}, ValueError), ({"a": "-x"}, ValueError),
                                            ({"a": "in(x"}, ValueError), ({"a": "x" * 64}, ValueError), ({"b c": "x"}, ValueError), ({"-a/c": "x"}, ValueError), ({5: "x"}, TypeError)])
def test_label_selectors_that_are_none(selector, kind):
    with pytest.raises(kind, match="label"):
        weir.range(4).map_batches(lambda batch: batch, label_selector=selector)
    with pytest.raises(kind, match="label"):
        weir.range(4).filter(expr="id > 1", label_selector=selector)
    with pytest.raises(kind, match="label"):
        weir.range(4).map(lambda row: row, fallback_strategy=[{"label_selector": selector}])
    with pytest.raises(kind, match="label"):
        weir.remote(label_selector=selector)(len)
    with pytest.raises(kind, match="label"):
        weir.remote(len).options(fallback_strategy=[{"label_selector": selector}])


@pytest.mark.parametrize("condition", ["b", "!b", "in(b,c)", "!in(b, c-d)", "ray.io_b"])
def test_label_selectors(condition):
    assert weir.range(4).map_batches(lambda batch: batch, label_selector={"a": condition}).count() == 4
    assert weir.get(weir.remote(len).options(label_selector={"ray.io/zone": condition}, fallback_strategy=[{"label_selector": {"a": condition}}]).remote("ab")) == 2


@pytest.mark.parametrize("strategy, kind", [({"label_selector": {}}, TypeError), ([{}], ValueError), (["a"], ValueError), ([{"num_cpus": 1}], ValueError)])
def test_wrong_fallbacks(strategy, kind):
    with pytest.raises(kind, match="fallback_strategy"):
        weir.range(4).map(lambda row: row, fallback_strategy=strategy)
    with pytest.raises(kind, match="fallback_strategy"):
        weir.remote(fallback_strategy=strategy)(len)



@pytest.mark.parametrize("name", ["max_restarts", "max_task_retries"])
def test_options_of_actors_are_none_of_functions(name):
    class Same:
        def __call__(self, batch):
            return batch

    with pytest.raises(ValueError, match=f"Invalid option keyword {name} for remote functions"):
        weir.range(4).map_batches(lambda batch: batch, **{name: 2})
    with pytest.warns(weir.util.RayDeprecationWarning):
        assert weir.range(4).map_batches(Same, concurrency=1, **{name: 2}).count() == 4


def test_first_sizes_of_pools():
    with pytest.raises(ValueError, match=r"initial_size \(3\) must be <= max_size \(2\)"):
        weir.ActorPoolStrategy(min_size=1, max_size=2, initial_size=3)
