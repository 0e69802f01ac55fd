"""The options of remote functions and actors: checked, and made into what the node understands.

Everything Ray takes is obeyed, refused by name, or listed in WITHOUT_EFFECT, which is what one machine has no use for.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weir.core.labels import check_fallbacks, check_selector
from weir.core.tasks import DYNAMIC, RETRIES, STREAMING, Options

COMMON = ("num_cpus", "num_gpus", "memory", "resources", "name", "runtime_env", "scheduling_strategy", "placement_group",
          "placement_group_bundle_index", "placement_group_capture_child_tasks", "accelerator_type", "object_store_memory",
          "label_selector", "fallback_strategy", "enable_task_events", "_labels", "_metadata")
FUNCTION = ("max_calls", "max_retries", "retry_exceptions", "num_returns", "_generator_backpressure_num_objects",
            "_num_objects_per_yield")
ACTOR = ("max_concurrency", "max_restarts", "max_task_retries", "max_pending_calls", "namespace", "lifetime", "get_if_exists",
         "concurrency_groups", "allow_out_of_order_execution", "enable_tensor_transport")
METHOD = ("num_returns", "max_task_retries", "retry_exceptions", "concurrency_group", "name", "enable_task_events",
          "_generator_backpressure_num_objects", "_num_objects_per_yield", "tensor_transport")
# One machine places everything on itself, and keeps no record of tasks.
WITHOUT_EFFECT = ("accelerator_type", "label_selector", "fallback_strategy", "enable_task_events", "_labels", "_metadata",
                  "allow_out_of_order_execution")
ASYNC_CONCURRENCY = 1000

REMOTE = ("The @ray.remote decorator must be applied using no arguments and no parentheses, for example '@ray.remote', or it must be "
          "applied using some of the arguments in the list {names}, for example '@ray.remote(num_returns=2, "
          "resources={{\"CustomResource\": 1}})'.")


def _number(name: str, value: Any, low: float = 0) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"The type of keyword '{name}' must be a number or None, but received type {type(value)}")
    if value < low:
        raise ValueError(f"The quantity of resource {name} cannot be negative" if low == 0 else
                         f"The keyword '{name}' only accepts None, {low:g} or more, not {value}")


def _count(name: str, low: int = -1) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"The type of keyword '{name}' must be int or None, but received type {type(value)}")
        if value < low:
            infinite = "None, 0, -1" if low == -1 else "None, 0"
            raise ValueError(f"The keyword '{name}' only accepts {infinite} or a positive integer, where -1 means infinity." if low == -1 else
                             f"The keyword '{name}' only accepts {infinite} or a positive integer.")

    return check


def _num_returns(value: Any) -> None:
    if value is None or value in ("dynamic", "streaming"):
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise (ValueError if isinstance(value, str) else TypeError)(
            f"num_returns is a number, 'streaming' or 'dynamic', not {value!r}")
    if value < 0:
        raise ValueError(f"num_returns only accepts None, a non-negative integer, 'streaming' (for generators), or 'dynamic', not {value}")


def _resources(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"The type of keyword 'resources' must be dict or None, but received type {type(value)}")
    if "CPU" in value or "GPU" in value:
        raise ValueError("Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in 'resources' keyword")
    for name, amount in value.items():
        _number(str(name), amount)


def _retry_exceptions(value: Any) -> None:
    if isinstance(value, bool) or (isinstance(value, (list, tuple)) and all(
            isinstance(item, type) and issubclass(item, Exception) for item in value)):
        return
    raise (ValueError if isinstance(value, (list, tuple)) else TypeError)(
        "retry_exceptions must be either a boolean or a list of exceptions")


def _gpus(value: Any) -> None:
    _number("num_gpus", value)
    if value is not None and value > 1 and value != int(value):
        raise ValueError(f"num_gpus must be a whole number when it is more than 1, not {value}")


def _groups(value: Any) -> None:
    if value is None or (isinstance(value, list) and not value):
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"concurrency_groups is a dict such as {{'io': 2}}, of names to how many calls run at once, not {value!r}")
    for name, most in value.items():
        if not isinstance(name, str) or isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"concurrency_groups[{name!r}] is {most!r}, and has to be how many calls run at once: 1 or more")


def _refused(name: str, but: tuple[Any, ...], why: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if value not in but:
            raise ValueError(f"{name}={value!r} is not supported: {why}")

    return check


def _text(name: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if value is not None and not isinstance(value, str):
            raise TypeError(f"The type of keyword '{name}' must be str or None, but received type {type(value)}")
        if name == "name" and value == "":
            raise ValueError("Actor name cannot be an empty string.")

    return check


_CHECKS: dict[str, Callable[[Any], None]] = {
    "num_cpus": lambda value: _number("num_cpus", value),
    "num_gpus": _gpus,
    "memory": lambda value: _number("memory", value),
    "resources": _resources,
    "max_calls": _count("max_calls", 0),
    "max_retries": _count("max_retries"),
    "max_restarts": _count("max_restarts"),
    "max_task_retries": _count("max_task_retries"),
    "max_pending_calls": _count("max_pending_calls"),
    "max_concurrency": _count("max_concurrency", 0),
    "num_returns": _num_returns,
    "retry_exceptions": _retry_exceptions,
    "label_selector": check_selector,
    "fallback_strategy": check_fallbacks,
    "name": _text("name"),
    "namespace": _text("namespace"),
    "lifetime": _refused("lifetime", (None, "detached", "non_detached"),
                         "actor `lifetime` argument must be one of 'detached', 'non_detached' and 'None'."),
    "object_store_memory": _refused("object_store_memory", (None,), "tasks and actors share the session's memory"),
    "concurrency_groups": lambda value: _groups(value),
    "concurrency_group": _text("concurrency_group"),
    "enable_tensor_transport": _refused("enable_tensor_transport", (None, False), "tensors go through shared memory"),
    "tensor_transport": _refused("tensor_transport", (None, "object_store"), "tensors go through shared memory"),
    "_num_objects_per_yield": _refused("_num_objects_per_yield", (None, 1), "a generator gives one object at a time"),
    "_generator_backpressure_num_objects": _refused("_generator_backpressure_num_objects", (None, -1, *range(1, 1000)),
                                                    "use a number above 0, or -1 for no limit"),
}


def check(options: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The options, if all are known and good.

    >>> check({"num_cpus": 2}, COMMON)
    {'num_cpus': 2}
    """
    for name, value in options.items():
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            raise ValueError(f"Invalid option keyword {name} for remote functions or actors. Valid ones are "
                             f"{sorted(known)}." + (f" Did you mean {near[0]}?" if near else ""))
        if name in _CHECKS:
            _CHECKS[name](value)
    return dict(options)


def returns_of(value: Any, is_generator: bool) -> int:
    """num_returns as a number."""
    if value is None:
        return STREAMING if is_generator else 1
    return STREAMING if value == "streaming" else DYNAMIC if value == "dynamic" else int(value)


def amounts(options: Mapping[str, Any], cpus: float) -> dict[str, float]:
    """The resources that options ask for."""
    wanted: dict[str, float] = {}
    given = options.get("num_cpus")
    for name, value in (("CPU", cpus if given is None else given), ("GPU", options.get("num_gpus")), ("memory", options.get("memory"))):
        if value:
            wanted[name] = float(value)
    for name, value in (options.get("resources") or {}).items():
        if value:
            wanted[name] = float(value)
    return wanted


def made(name: str, options: Mapping[str, Any], is_actor: bool) -> Options:
    """What the node is told of a function's, or an actor's, options."""
    result = Options(name, amounts(options, 0.0 if is_actor else 1.0))
    if is_actor and options.get("num_cpus") is None:
        result.placing = amounts(options, 1.0)
    retries = options.get("max_task_retries" if is_actor else "max_retries")
    result.max_retries = (0 if is_actor else RETRIES) if retries is None else int(retries)
    env = options.get("runtime_env")
    result.runtime_env = runtime_env(env) if env else None
    result.max_calls = int(options.get("max_calls") or 0)
    limit = options.get("_generator_backpressure_num_objects")
    result.backpressure = int(limit) if limit and limit > 0 else 0
    _place(result, options)
    return result


def runtime_env(env: Any) -> dict[str, Any]:
    """What of it weir does; the rest is refused by name."""
    from weir.runtime_env import check_packages

    wanted = dict(env)
    for name, value in wanted.items():
        if name in ("pip", "uv") and value:
            check_packages(name, value)
        elif name not in ("env_vars", "working_dir", "config", "excludes") and value:
            raise ValueError(f"runtime_env[{name!r}] is not supported: env_vars and working_dir are, the rest is the driver's own "
                             "environment")
    for name, value in (wanted.get("env_vars") or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"runtime_env['env_vars'] is a dict of str to str, not {name!r}: {value!r}")
    return {name: value for name, value in wanted.items() if name in ("env_vars", "working_dir") and value}


def _place(result: Options, options: Mapping[str, Any]) -> None:
    from weir.core.placement import NodeAffinitySchedulingStrategy, PlacementGroup, PlacementGroupSchedulingStrategy

    strategy = options.get("scheduling_strategy")
    group: Any = options.get("placement_group")
    bundle = options.get("placement_group_bundle_index", -1)
    captures = options.get("placement_group_capture_child_tasks")
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        if group not in (None, "default"):
            raise ValueError("Placement groups should be specified via the scheduling_strategy option. The placement_group option is "
                             "deprecated.")
        group, bundle = strategy.placement_group, strategy.placement_group_bundle_index
        captures = strategy.placement_group_capture_child_tasks
    elif isinstance(strategy, NodeAffinitySchedulingStrategy):
        from weir.core.context import get_runtime_context

        if not strategy.soft and strategy.node_id != get_runtime_context().get_node_id():
            raise ValueError(f"there is no node {strategy.node_id}: a session has one, {get_runtime_context().get_node_id()}")
    elif strategy is None and group is None:
        from weir.core import placement

        group = placement.of_children()
        captures = group is not None
    elif isinstance(strategy, str) and strategy not in ("DEFAULT", "SPREAD"):
        raise ValueError(f"Invalid scheduling strategy {strategy}: 'DEFAULT', 'SPREAD' or one of weir.util.scheduling_strategies")
    if isinstance(group, PlacementGroup):
        if not group.is_empty:
            result.group, result.bundle = group.id.binary(), -1 if bundle is None else int(bundle)
            result.captures = bool(captures)
    elif group not in (None, "default"):
        raise TypeError(f"placement_group is a PlacementGroup, not {group!r}")
