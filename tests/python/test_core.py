"""weir's objects, tasks and actors do what Ray's do: answers of core_behaviours.py, recorded from Ray 2.60 in core_answers.json."""
import doctest
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import core_behaviours as behaviours  # noqa: E402

import weir  # noqa: E402
import weir.core  # noqa: E402
import weir.data  # noqa: E402
import weir.exceptions  # noqa: E402
from weir import ray_api  # noqa: E402

ANSWERS = json.loads((Path(__file__).parent / "core_answers.json").read_text())

# Where weir differs, and why.
DIFFERENT = {
    # Ray interrupts no time.sleep, and its kill may come after the next call.
    "cancel_a_running_task": ["RayError", "TaskCancelledError"],
    "killed_actors": [["ActorDiedError", "RayActorError", "RayError"], ["ValueError"]],
}


def as_ray():
    """weir under the names that the cases use."""
    names = {name: getattr(weir, name) for name in ("get", "put", "wait", "remote", "kill", "cancel", "method", "get_actor", "get_gpu_ids",
                                                    "get_runtime_context", "cluster_resources", "available_resources", "ObjectRef")}
    util = SimpleNamespace(ActorPool=weir.core.ActorPool, placement_group=weir.core.placement_group, scheduling_strategies=weir.core,
                           remove_placement_group=weir.core.remove_placement_group)
    return SimpleNamespace(**names, exceptions=weir.exceptions, util=util, data=weir.data, nodes=ray_api.nodes)


@pytest.fixture(scope="module")
def session():
    weir.shutdown()
    weir.init(num_cpus=2, num_gpus=2, resources={"thing": 2})
    yield as_ray()
    weir.shutdown()


CORE = Path(__file__).resolve().parents[2] / "python/weir/core"


@pytest.mark.parametrize("name", sorted(path.stem for path in CORE.glob("*.py") if ">>> " in path.read_text()))
def test_docstrings(session, name):
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.testmod(importlib.import_module(f"weir.core.{name}"), optionflags=flags).failed == 0


def test_every_case_has_an_answer():
    assert set(ANSWERS) == set(behaviours.CASES)


@pytest.mark.parametrize("name", list(behaviours.CASES))
def test_as_ray(session, name):
    assert behaviours.run(session, name) == DIFFERENT.get(name, ANSWERS[name])


def test_a_generator_with_one_return():
    """num_returns=1 for a generator is the one value that it gives, and an error where it gives none."""
    @weir.remote(max_retries=0)
    def numbers(count):
        for number in range(count):
            yield [number]

    @weir.remote
    class Numbers:
        def numbers(self, count):
            for number in range(count):
                yield [number]

    actor = Numbers.remote()
    for remote in (numbers, actor.numbers):
        one = remote.options(num_returns=1)
        assert weir.get(one.remote(1)) == weir.get(one.remote(3)) == [0]
        with pytest.raises(ValueError, match="returned 0 objects, but num_returns=1"):
            weir.get(one.remote(0))


def test_packages_of_a_runtime_env_are_looked_for(session):
    @weir.remote(runtime_env={"pip": ["numpy"], "env_vars": {"A": "1"}})
    def seen():
        import os

        return os.environ["A"]

    assert weir.get(seen.remote()) == "1"
    with pytest.raises(weir.exceptions.RuntimeEnvSetupError, match="no-such-package"):
        seen.options(runtime_env={"uv": {"packages": ["no-such-package"]}}).remote()
    with pytest.raises(ValueError, match="'conda'"):
        seen.options(runtime_env={"conda": "other"}).remote()
