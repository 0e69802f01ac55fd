"""A user's function on the driver's side: what was asked for, whether it can be, and what the engine needs to run it.

    CallSpec ─▶ check(spec)   when map_batches is called: the errors that need no run, the operator's name
             ─▶ prepare(spec, session)   when a run starts: pool sizes, the function pickled, the world a worker sees

A worker gets the driver's sys.path, working directory, environment and argv of the moment when the run starts. Nothing
is started here.
"""
from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

from weir import _formats, _fuse, _session, _setup
from weir._mistakes import ROWS_MAX, WrongArgument, WrongInTask, check_amounts

if TYPE_CHECKING:
    from weir import _errors
    from weir._weir import Batch

KINDS = {"map_batches": "MapBatches", "map": "Map", "flat_map": "FlatMap", "filter": "Filter", "read": "Read", "write": "Write"}
AUTO_BYTES = 16 << 20  # batch_size="auto"
# In front of a function. Of 8 MiB a quarter more time: what reader, function and consumer have in hands at once no longer fits
# into a processor's cache, and takes four times as many fresh pages (2 GB of vectors, 32 MiB of cache).
BLOCK_BYTES = 2 << 20
ROWS_BYTES = 64 << 10  # of a task of map, flat_map or filter: some thousand rows
WORKERS_MAX = 64       # of a pool that was given no size
ACTOR_RETRIES = 0xFFFF  # Ray Data's is without end
RETRY_BACKOFF_S = 2.0  # at most, before a function is called again because of retried_map_errors; then twice as long each time
# Set to the number of threads a worker may use, unless the user has set them.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# pyarrow's own allocator maps a GiB with its first value, or an eighth of that where the bound of a worker's memory refuses it: no bound
# could tell that from memory which is about to be used. The system's also gives back what it is told to.
ARROW_VARIABLES = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
LEARNED = ("pyarrow", "pandas")  # imported by the zygote once workers were seen to use them: 0.3 s a worker
START_BYTES = {"pandas": 48 << 20, "pyarrow": 24 << 20}  # what a worker has in memory before its first batch, where that is more than NumPy
PIECES = 8  # of a result in a worker: one is at most such a part of the limit, divided by the number of workers
PIECE_MIN = 1 << 20
LEARNED_LIMIT = 2_000_000_000  # below it, the 40 MB that they take in the zygote are better left to the run


class _ByValue:
    """A function in a pickle of its own."""

    __slots__ = ("bytes",)

    def __init__(self, bytes: bytes) -> None:
        self.bytes = bytes

    def value(self) -> Any:
        import pickle

        return pickle.loads(self.bytes)


class CallSpec:
    """A map_batches, map, flat_map or filter with a Python function, as it was called.

    >>> spec = CallSpec("map_batches", lambda batch: batch, batch_size=100)
    >>> check(spec)
    >>> spec.name
    'MapBatches(<lambda>)'
    """

    def __init__(self, kind: str, fn: Any, fn_args: Sequence[Any] | None = None,
                 fn_kwargs: Mapping[str, Any] | None = None, fn_constructor_args: Sequence[Any] | None = None,
                 fn_constructor_kwargs: Mapping[str, Any] | None = None, batch_size: int | str | None = None,
                 batch_format: str | None = "default", zero_copy_batch: bool = True, compute: Any = None,
                 concurrency: Any = None, num_cpus: float | None = None, num_gpus: float | None = None,
                 memory: float | None = None, runtime_env: Mapping[str, Any] | None = None, name: str = "",
                 context: Any = None, max_concurrency: int | None = None, keys: Sequence[str] | None = None,
                 resources: Mapping[str, float] | None = None, group: Any = None, keeps_rows: bool = False) -> None:
        self.kind, self.fn = kind, fn
        self.fn_args, self.fn_kwargs = fn_args, fn_kwargs
        self.fn_constructor_args, self.fn_constructor_kwargs = fn_constructor_args, fn_constructor_kwargs
        self.batch_size, self.batch_format, self.zero_copy_batch = batch_size, batch_format, zero_copy_batch
        self.compute, self.concurrency = compute, concurrency
        self.num_cpus, self.num_gpus, self.memory = num_cpus, num_gpus, memory
        self.runtime_env, self.name, self.context = runtime_env, name, context
        self.max_concurrency = max_concurrency
        self.resources = resources  # of the user's own naming, of which weir.init(resources=…) says how much there is
        self.group = group  # the placement group that it is in (group_of)
        self.attempts_max = 0  # 1: the first time that its process ends is the end of the run (max_restarts=0)
        self.frames = False  # its rows are those of a pandas frame still (_plan.rules_of)
        self.write_bytes = 0  # of a write: what a task gets, about
        self.takes_groups = keys is not None  # its tasks are whole groups, few at first
        self.keeps_rows = keeps_rows or kind == "map"  # it makes one row of each
        self.keys = keys  # of map_groups: what its groups are equal in; batches come marked (_grouped.py)
        self.piece = 0  # bytes of a result that a worker gives at once; 0: any
        self.whole = False  # its batches are the user's blocks
        self.as_actor = False  # its workers are told to be actors, though it is a function

    def __copy__(self) -> CallSpec:
        made = CallSpec.__new__(CallSpec)
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """A function that cannot be found by its name elsewhere goes by value, whoever pickles: spawned processes use plain pickle."""
        state = dict(self.__dict__)
        if getattr(self.fn, "__module__", None) == "__main__" or "<" in getattr(self.fn, "__qualname__", ""):
            import cloudpickle

            state["fn"] = _ByValue(cloudpickle.dumps(self.fn))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        fn = state["fn"]
        self.__dict__.update(state, fn=fn.value() if isinstance(fn, _ByValue) else fn)

    @property
    def is_class(self) -> bool:
        return isinstance(self.fn, type)


def function_name(fn: Any) -> str:
    """A function's name as Ray Data shows it.

    >>> function_name(len), function_name(lambda row: row)
    ('len', '<lambda>')
    """
    if isinstance(fn, MethodType):
        return f"{type(fn.__self__).__name__}.{fn.__name__}"
    if hasattr(fn, "func") and hasattr(fn, "keywords"):  # functools.partial
        return function_name(fn.func)
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def operator_name(kind: str, fn: Any) -> str:
    """
    >>> operator_name("flat_map", len)
    'FlatMap(len)'
    """
    return f"{KINDS[kind]}({function_name(fn)})"


# ---- at the call ----

def check(spec: CallSpec) -> None:
    """Raises what can be known without running; gives the spec its name."""
    if not callable(spec.fn):
        called = ": give the function itself, not what it returned" if spec.fn is None else ""
        raise WrongInTask(f"{spec.kind} takes a function or a class, not {spec.fn!r}{called}")
    if spec.is_class and "__call__" not in {name for cls in spec.fn.__mro__ for name in vars(cls)}:
        raise WrongInTask(f"{spec.kind}: the class {spec.fn.__name__} has no __call__ method")
    if not spec.is_class and (spec.fn_constructor_args is not None or spec.fn_constructor_kwargs is not None):
        which = "fn_constructor_args" if spec.fn_constructor_args is not None else "fn_constructor_kwargs"
        raise ValueError(f"{which} can only be given with a class, and {function_name(spec.fn)} is a function")
    _formats.check_format(spec.batch_format)
    _check_batch_size(spec)
    pool_sizes(spec)
    check_amounts(vars(spec))
    if spec.num_gpus and spec.num_gpus > 1 and spec.num_gpus != int(spec.num_gpus):
        raise WrongArgument(f"num_gpus is a part of one GPU, or a whole number of them, not {spec.num_gpus!r}")
    _check_runtime_env(spec.runtime_env)
    if not spec.name:
        spec.name = operator_name(spec.kind, spec.fn)


def _check_batch_size(spec: CallSpec) -> None:
    size = spec.batch_size
    if size is None or size == "auto":
        if size is None and spec.num_gpus and spec.kind == "map_batches":
            raise ValueError("map_batches with num_gpus needs a batch_size: the largest with which the GPU's memory suffices "
                             "is best")
        return
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise WrongArgument(f'batch_size is a number of rows, None or "auto", not {size!r}')
    spec.batch_size = min(int(size), ROWS_MAX)
    if spec.batch_size < 1:
        raise ValueError(f"batch_size is at least 1, not {size}")


def _check_runtime_env(env: Mapping[str, Any] | None) -> None:
    if env:
        from weir.runtime_env import prepared

        prepared(env)


def pool_sizes(spec: CallSpec) -> dict[str, int]:
    """slots_min, slots_max, slots_first and in_flight; 0 leaves it to the engine.

    >>> class Model:
    ...     def __call__(self, batch): return batch
    >>> pool_sizes(CallSpec("map_batches", Model, concurrency=(2, 4)))
    {'slots_min': 2, 'slots_max': 4, 'slots_first': 2, 'in_flight': 0}
    """
    sizes = {"slots_min": 0, "slots_max": 0, "slots_first": 0, "in_flight": 0}
    compute = spec.compute
    if compute is None and spec.concurrency is not None:
        return sizes | _from_concurrency(spec)
    if compute is None or (isinstance(compute, str) and compute == ("actors" if spec.is_class else "tasks")):
        return sizes
    is_actors = compute == "actors" or hasattr(compute, "min_size")
    is_tasks = compute == "tasks" or (not is_actors and hasattr(compute, "size"))
    if not is_actors and not is_tasks:
        raise ValueError(f"compute is a TaskPoolStrategy or an ActorPoolStrategy, not {compute!r}")
    if spec.is_class and is_tasks:
        raise ValueError(f"{function_name(spec.fn)} is a class and needs an ActorPoolStrategy, or no compute at all; "
                         f"got {compute!r}")
    if not spec.is_class and is_actors:
        raise ValueError(f"{function_name(spec.fn)} is a function and needs a TaskPoolStrategy, or no compute at all; "
                         f"got {compute!r}")
    if is_tasks:
        return sizes | {"slots_max": _limited(getattr(compute, "size", None))}
    return sizes | {"slots_min": _limited(compute.min_size), "slots_max": _limited(compute.max_size),
                    "slots_first": _limited(compute.initial_size),
                    "in_flight": _limited(getattr(compute, "max_tasks_in_flight_per_actor", None))}


def slots_at_most(spec: CallSpec, state: _session.State, context: Any) -> int:
    """How many workers of this function the GPUs and execution_options.resource_limits are enough for; 0: any number."""
    limits = context.execution_options.resource_limits
    others = context.execution_options.exclude_resources
    context.execution_options.validate()
    most = math.inf
    if spec.num_gpus:
        total = state.num_gpus if state.num_gpus is not None else float(len(gpu_pool()))
        total -= others.gpu
        if spec.num_gpus > total:
            raise ValueError(
                f"{spec.name} wants {spec.num_gpus:g} GPU{'' if spec.num_gpus == 1 else 's'} a worker, and there "
                f"{'is' if total == 1 else 'are'} {total:g}: "
                "weir.init(num_gpus=…) declares GPUs that are not found"
            )
        most = workers_on(min(total, limits.gpu), spec.num_gpus)
    cpus = cpus_of(spec)
    if cpus and not state.num_cpus:
        raise ValueError(f"{spec.name} wants {cpus:g} CPU a worker, and the session has 0: init(num_cpus=…) says how many there are, and "
                         "num_cpus=0 lets it run without one")
    if cpus > state.num_cpus:
        _warn_of_cpus(spec.name, cpus, state.num_cpus)
    if cpus:
        most = min(most, limits.cpu / cpus)
        if cpus > 1:  # it has so many threads, and several workers beside each other would have more than there are CPUs
            most = min(most, state.num_cpus / cpus)
        if others.cpu:
            most = min(most, (state.num_cpus - others.cpu) / cpus)
    if spec.memory:
        most = min(most, limits.memory / spec.memory)
        if state.logical_memory is not None:
            most = min(most, state.logical_memory / spec.memory)
    for name, amount in (spec.resources or {}).items():
        there = state.resources.get(name, 0.0)
        if amount > there:
            raise ValueError(
                f"{spec.name} wants {amount:g} of {name!r} a worker, and there is {there:g}: weir.init(resources={{{name!r}: …}}) says how "
                "much there is"
            )
        most = min(most, there / amount)
    return 0 if math.isinf(most) else max(1, int(most))


_warned: set[tuple[str, float, float]] = set()


def _warn_of_cpus(name: str, wanted: float, there: float) -> None:
    """Once. Where Ray waits for a machine that has so many, there is none to come: it runs on what is there."""
    if (name, wanted, there) in _warned:
        return
    _warned.add((name, wanted, there))
    import logging

    logging.getLogger("weir").warning(
        "%s wants num_cpus=%g a worker, and the session has %g: it runs in one worker, whose libraries may start %g threads. A smaller num_cpus "
        "lets several run at once; weir.init(num_cpus=…) says how many there are", name, wanted, there, wanted)


def _limited(value: Any) -> int:
    return 0 if value is None or value == float("inf") else int(value)


def _from_concurrency(spec: CallSpec) -> dict[str, int]:
    wanted = spec.concurrency
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if wanted < 1:
            raise ValueError(f"concurrency is at least 1, not {wanted}")
        if not spec.is_class:
            return {"slots_max": wanted}
        return {"slots_min": wanted, "slots_max": wanted, "slots_first": wanted}
    if not isinstance(wanted, tuple) or len(wanted) not in (2, 3) or not all(type(n) is int for n in wanted):
        raise ValueError(f"concurrency is a number, (min, max) or (min, max, initial), not {wanted!r}")
    if not spec.is_class:
        raise ValueError(f"concurrency={wanted!r} needs a class; {function_name(spec.fn)} is a function, for which a single "
                         "number is the most that run at once")
    low, high, first = (*wanted, wanted[0])[:3]
    if not 1 <= low <= high or not low <= first <= high:
        raise ValueError(f"concurrency is (min, max) or (min, max, initial) with 1 ≤ min ≤ initial ≤ max, not {wanted!r}")
    return {"slots_min": low, "slots_max": high, "slots_first": first}


# ---- at the start of a run ----

def prepare(spec: CallSpec, session: Any = None, gpus_before: float = 0) -> dict[str, Any]:
    """What Flow.call takes: the fields of a call step, and setup=(fd, size). The caller closes the descriptor after
    it. `session`: asked for num_gpus, when it has it. `gpus_before`: what steps of the same run have already."""
    if not spec.name:
        check(spec)
    context = spec.context
    head = {**function_head(spec), **world(spec, session, gpus_before), "resources": resources_of(spec)}
    setup = _setup.write(head, function_objects(spec), spec.name)
    is_auto = spec.batch_size == "auto"
    return {
        "name": spec.name, **fitting_sizes(spec, session),
        "batch_rows": spec.batch_size * batches_of_task(spec) if isinstance(spec.batch_size, int) else 0,
        "chunk_bytes": AUTO_BYTES if is_auto else _chunk_bytes(spec),
        # One batch is the unit of work, of retrying, and of what several workers share. Rows are many to a task.
        "fine": int(spec.kind not in ("map_batches", "write") or spec.takes_groups
                    or (spec.kind == "map_batches" and isinstance(spec.batch_size, int))),
        "milli_cpus": round(1000 * cpus_of(spec)), "milli_gpus": round(1000 * (spec.num_gpus or 0)),
        "memory": int(spec.memory or 0), "start": START_BYTES.get(spec.batch_format or "", 0), "errored_max": int(getattr(context, "max_errored_blocks", 0)),
        "user_retries": _user_retries(spec), "attempts_max": spec.attempts_max, "setup": setup,
    }


def _chunk_bytes(spec: CallSpec) -> int:
    if spec.kind == "write":
        return spec.write_bytes
    return block_bytes(spec.context) if spec.kind == "map_batches" else ROWS_BYTES


def block_bytes(context: Any) -> int:
    """Of the blocks that a function without batch_size gets."""
    most = getattr(context, "target_max_block_size", None)
    return max(1, min(int(most), BLOCK_BYTES)) if most and context.block_splitting_enabled else BLOCK_BYTES


def piece_bytes(spec: CallSpec, state: _session.State) -> int:
    """A worker gives a result of more in parts, so that what is done with the first of them makes room for the next."""
    workers = min(pool_sizes(spec)["slots_max"] or WORKERS_MAX, max(1, int(state.num_cpus)))
    return max(PIECE_MIN, state.native.memory_limit // (PIECES * workers))


def run_with(spec: CallSpec, context: Any, state: _session.State, whole: bool) -> None:
    """Makes a copy of a step ready for one run. `context`: the Dataset's that runs, which may have been changed since the step was added."""
    spec.context, spec.piece, spec.whole = context, piece_bytes(spec, state), whole


def workers_on(gpus: float, share: float) -> float:
    """How many workers have `share` of one GPU each, or so many.

    >>> workers_on(4, 0.5), workers_on(4, 0.6), workers_on(4, 3), workers_on(0.5, 0.25)
    (8, 4, 1, 2)
    """
    if share < 1 <= gpus and not math.isinf(gpus):
        return int(gpus) * int(1 / share + 1e-9)
    return gpus if math.isinf(gpus) else int(gpus / share + 1e-9)


def fitting_sizes(spec: CallSpec, session: Any = None) -> dict[str, int]:
    """pool_sizes, as far as there are CPUs and GPUs for it. A pool without a size has as many workers as can be busy."""
    sizes = pool_sizes(spec)
    if spec.num_gpus:
        gpus = gpu_pool(getattr(session, "num_gpus", None))
        most = int(workers_on(len(gpus), spec.num_gpus))
        if most < 1:
            raise ValueError(f"{spec.name} needs num_gpus={spec.num_gpus:g}, and there {'are' if gpus else 'is'} "
                             f"{len(gpus) or 'none'}; weir.init(num_gpus=…) says how many there are")
        return {name: min(size or (most if name == "slots_max" else 0), most) if name != "in_flight" else size
                for name, size in sizes.items()}
    if not sizes["slots_max"] and spec.num_cpus and spec.num_cpus < 1:
        cpus = float(getattr(session, "num_cpus", None) or len(os.sched_getaffinity(0)))
        sizes["slots_max"] = max(1, min(WORKERS_MAX, int(cpus / spec.num_cpus + 1e-9)))
    return sizes


def batches_of_task(spec: CallSpec) -> int:
    """One; an async function, and one in threads, has several going at once."""
    from weir import _apply

    if _in_threads(spec):
        return calls_at_once(spec) or 1
    return (calls_at_once(spec) or _apply.ASYNC_BATCHES) if _apply.is_async(spec.fn) else 1


def calls_at_once(spec: CallSpec) -> int | None:
    """How many calls one worker may have going, if they can; None: nobody has said it."""
    return getattr(spec.compute, "max_concurrent_calls_per_actor", None) or spec.max_concurrency


def _in_threads(spec: CallSpec) -> bool:
    """Whether calls of a function that is not async go on at once."""
    from weir import _apply

    asked = getattr(spec.compute, "enable_true_multi_threading", False) and (calls_at_once(spec) or 1) > 1
    return bool(asked) and not _apply.is_async(spec.fn)


def function_head(spec: CallSpec) -> dict[str, Any]:
    """How the function is to be called."""
    return {
        "kind": spec.kind, "name": spec.name, "is_class": spec.is_class, "is_actor": spec.is_class or spec.as_actor, "batch_size": spec.batch_size,
        "batch_format": spec.batch_format, "zero_copy": bool(spec.zero_copy_batch),
        "arrow_backed": bool(getattr(spec.context, "enable_arrow_backed_pandas_conversion", True)),
        "objects": getattr(spec.context, "enable_fallback_to_arrow_object_ext_type", None) is not False,
        "frames": spec.frames, "retried": _retried(spec), "constructor_retries": _constructor_retries(spec.context),
        "max_concurrency": calls_at_once(spec), "in_threads": _in_threads(spec), "keys": None if spec.keys is None else list(spec.keys),
        "piece": spec.piece, "whole": spec.whole, "takes_groups": spec.takes_groups,
    }


def group_of(strategy: Any) -> tuple[bytes, list[dict[str, float]], bool] | None:
    """The placement group that a scheduling strategy puts functions into, as weir.core.context has it; None: into none."""
    group = getattr(strategy, "placement_group", None)
    return None if group is None else (group.id.binary(), group.bundle_specs, bool(strategy.placement_group_capture_child_tasks))


def function_objects(spec: CallSpec) -> dict[str, Any]:
    """What is pickled."""
    group = spec.group or group_of(getattr(spec.context, "scheduling_strategy", None))
    return {"fn": spec.fn, "fn_args": tuple(spec.fn_args or ()), "fn_kwargs": dict(spec.fn_kwargs or {}),
            "fn_constructor_args": tuple(spec.fn_constructor_args or ()),
            "fn_constructor_kwargs": dict(spec.fn_constructor_kwargs or {}), "context": spec.context, "group": group}


def run_local(spec: CallSpec, batches: Iterable[Batch]) -> Iterator[Batch]:
    """local_mode: the function runs here, on the thread that takes the results, and nothing is pickled. Each batch is a
    task. What it raises is what a worker's error would be, with the original as __cause__."""
    from weir import _apply, _errors

    if not spec.name:
        check(spec)

    def failure(payload: bytes) -> BaseException:
        origin = None if batch is None else (True, [("its input", batch.num_rows, before, before + batch.num_rows - 1)])
        return _errors.from_failure(payload, spec.name, origin, bool(getattr(spec.context, "raise_original_map_exception", False)))

    head = function_head(spec)
    if _user_retries(spec):  # which the engine sees to where there is one
        head["retried"] = {"times": _user_retries(spec), "texts": [], "names": [], "all": True, "backoff_s": 0.0}
    most = int(getattr(spec.context, "max_errored_blocks", 0))
    errored = before = 0
    batch: Batch | None = None
    try:
        function = _apply.make(head, function_objects(spec))
    except _apply.Constructing as error:
        assert error.__cause__ is not None
        raise failure(_errors.pack(error.__cause__, "constructor")) from error.__cause__
    try:
        for number, batch in enumerate(batches):
            function.task = number
            results = _apply.apply(function, batch)
            while True:
                try:
                    if most:  # all of a task, or nothing
                        results = iter(list(results))
                    result = next(results, None)
                except (Exception, SystemExit) as error:  # Ctrl-C is the program's, and so is the end of this generator
                    if isinstance(error, _apply.Stopped) and isinstance(error.__cause__, StopIteration):
                        error = error.__cause__
                    kind: _errors.Kind = "returned" if isinstance(error, _errors.WrongReturn) else "error"
                    payload = _errors.pack(error, kind, function.rows, batch.num_rows, columns=batch.names, group=_apply.group_of(function, batch))
                    if not most or 0 < most <= errored:
                        raise failure(payload) from error
                    errored += 1
                    _errors.tell_left_out(spec.name, None, payload, most - errored if most > 0 else None)
                    result = None
                if result is None:
                    break
                yield result
            before += batch.num_rows
    finally:
        function.close()


def cpus_of(spec: CallSpec) -> float:
    """Logical CPUs of a running call: one, or none beside a GPU, when nothing was said."""
    if spec.num_cpus is not None:
        return spec.num_cpus
    return 0 if spec.num_gpus else 1


def resources_of(spec: CallSpec) -> dict[str, float]:
    """What a running call has of what Ray calls resources.

    >>> resources_of(CallSpec("map", len, num_cpus=2)), resources_of(CallSpec("map", len, num_gpus=0.5))
    ({'CPU': 2.0}, {'GPU': 0.5})
    """
    amounts = {"CPU": cpus_of(spec), "GPU": spec.num_gpus, "memory": spec.memory}
    return {name: float(amount) for name, amount in amounts.items() if amount}


def _user_retries(spec: CallSpec) -> int:
    # A list of errors is the worker's to look at (head["retried"]): only it has the exception.
    wanted = getattr(spec.context, "actor_task_retry_on_errors", False) if spec.is_class else False
    return ACTOR_RETRIES if wanted is True else 0


def _retried(spec: CallSpec) -> dict[str, Any] | None:
    """Which errors of a call are tried again in the worker, and how often."""
    wanted: Any = getattr(spec.context, "retried_map_errors", False)
    times = int(getattr(spec.context, "max_map_retries", 0) or 0)
    backoff = RETRY_BACKOFF_S
    of_actors = getattr(spec.context, "actor_task_retry_on_errors", False)
    if spec.is_class and of_actors and of_actors is not True:
        wanted, times, backoff = of_actors, ACTOR_RETRIES, 0.0
    if not wanted or times < 1 or spec.batch_format == _fuse.BATCH:  # of several functions each sees to it itself
        return None
    items = [wanted] if isinstance(wanted, (str, type)) else ([] if wanted is True else list(wanted))
    return {"times": times, "texts": [item for item in items if isinstance(item, str)],
            "names": [f"{item.__module__}.{item.__qualname__}" for item in items if isinstance(item, type)],
            "all": wanted is True, "backoff_s": backoff}


def _constructor_retries(context: Any) -> int:
    if not getattr(context, "actor_init_retry_on_errors", False):
        return 0
    return max(0, int(getattr(context, "actor_init_max_retries", 3)))


def gpus_of(spec: CallSpec) -> float:
    """How many GPUs a step has when its pool is at its smallest.

    >>> gpus_of(CallSpec("map", len, num_gpus=0.5)), gpus_of(CallSpec("map", len))
    (0.5, 0.0)
    """
    return float(spec.num_gpus or 0) * max(1, pool_sizes(spec)["slots_min"])


def _merged_env(all: Mapping[str, Any] | None, own: Mapping[str, Any] | None) -> dict[str, Any]:
    """The session's runtime_env with the step's on top; variables are put together."""
    made = {**(all or {}), **(own or {})}
    variables = {**((all or {}).get("env_vars") or {}), **((own or {}).get("env_vars") or {})}
    return made | ({"env_vars": variables} if variables else {})


def world(spec: CallSpec, session: Any = None, gpus_before: float = 0) -> dict[str, Any]:
    """What a worker of this run sees of the world: the driver's, as it is now, and runtime_env on top."""
    env = _merged_env(getattr(session, "runtime_env", None), spec.runtime_env)
    folder = env.get("working_dir")
    try:
        cwd: str | None = os.getcwd()
    except OSError:  # it was removed; a worker stays where the zygote is
        cwd = None
    path = [entry if entry else (cwd or "") for entry in sys.path if isinstance(entry, str)]
    # Behind the program's folder, where an interpreter that is started with it has it.
    wanted = (env.get("env_vars") or {}).get("PYTHONPATH") or ""
    path[1:1] = _absolute([entry for entry in wanted.split(os.pathsep) if entry])
    if folder is not None:
        cwd = os.path.abspath(folder)
        path = [cwd, *path]
    if env.get("py_modules"):
        from weir.runtime_env import search_path

        path = [*search_path(env), *path]
    threads = max(1, int(spec.num_cpus or 1))
    environ = dict(os.environ)
    for name in THREAD_VARIABLES:
        if spec.num_cpus is not None or name not in environ:
            environ[name] = str(threads)
    for name, value in ARROW_VARIABLES.items():
        environ.setdefault(name, value)
    environ.update(env.get("env_vars") or {})
    share = {"memory": _session.share_of(session)} if isinstance(session, _session.State) else {}
    gpus = gpu_pool(getattr(session, "num_gpus", None)) if spec.num_gpus else []
    first = int(gpus_before) % len(gpus) if gpus else 0
    return {"sys_path": path, "cwd": cwd, "environ": environ, "argv": list(getattr(sys, "argv", [""])),
            "threads": threads, "num_gpus": float(spec.num_gpus or 0), "core": _core_address(session),
            "gpus": gpus[first:] + gpus[:first], **share}


def _core_address(session: Any) -> str | None:
    """Where a function's get, put and remote calls go: to this session, or to the one that this process is a worker of."""
    if session is None:
        return None
    runtime = sys.modules.get("weir.core.runtime")
    if runtime is not None and runtime.worker is not None:
        return str(runtime.worker.client.address)
    from weir.core import door

    return door.address(session)


def gpu_pool(declared: float | None = None) -> list[str]:
    """The GPUs to hand out, as CUDA_VISIBLE_DEVICES names them. CUDA itself is not asked.

    >>> gpu_pool(2)
    ['0', '1']
    """
    if declared:
        return [str(i) for i in range(int(declared))]
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
    if inherited is not None:
        return [entry.strip() for entry in inherited.split(",") if entry.strip() not in ("", "-1", "NoDevFiles")]
    try:
        return [str(i) for i in range(len(os.listdir("/proc/driver/nvidia/gpus")))]
    except OSError:
        return []


# ---- the zygote ----

_hash_seed: str | None = None


def zygote_command(preload: Sequence[str] = (), learn: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """argv and environment of the process from which workers are forked."""
    global _hash_seed
    if not sys.executable:
        raise RuntimeError("worker processes need Python's interpreter, and sys.executable does not say where it is")
    if _hash_seed is None:
        _hash_seed = os.environ.get("PYTHONHASHSEED", "random")
        if _hash_seed == "random":
            # One for the session, so that a zygote that had to be started again hashes as the first one did.
            _hash_seed = str(int.from_bytes(os.urandom(4), "little"))
    env = dict(os.environ) | {name: "1" for name in THREAD_VARIABLES} | {"PYTHONHASHSEED": _hash_seed}
    env.pop("PYTHONINSPECT", None)
    # Its other one starts a thread when it is imported, but for this.
    for name, value in {"JE_ARROW_MALLOC_CONF": "background_thread:false", **ARROW_VARIABLES}.items():
        env.setdefault(name, value)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_zygote.py")
    words = [word for entry in _absolute(sys.path) for word in ("--path", entry)]
    if "weir.compat.arrow_modules" in sys.modules:  # what the script says of pyarrow, its functions say, too
        preload = ("weir.compat.arrow_modules", *preload)
    words += [word for module in preload for word in ("--preload", module)]
    words += [word for module in learn for word in ("--learn", module)]
    return [sys.executable, *interpreter_flags(), program, *words], env


def _absolute(path: Sequence[Any]) -> Iterator[str]:
    """The folders of a search path, as far as they can be told: the working directory may be gone."""
    for entry in path:
        if isinstance(entry, str):
            try:
                yield os.path.abspath(entry)
            except OSError:
                continue


def interpreter_flags() -> list[str]:
    """The options this interpreter was started with, as far as they change how code runs."""
    flags = sys.flags
    words = ["-P"]  # the zygote's own folder is not to be searched for modules
    for name, option in (("dont_write_bytecode", "-B"), ("ignore_environment", "-E"), ("no_user_site", "-s"),
                         ("no_site", "-S")):
        if getattr(flags, name):
            words.append(option)
    words += ["-O"] * flags.optimize + ["-b"] * flags.bytes_warning
    for option in sys.warnoptions:
        words += ["-W", option]
    for key, value in getattr(sys, "_xoptions", {}).items():
        if key in ("dev", "utf8", "faulthandler", "no_debug_ranges", "int_max_str_digits", "frozen_modules",
                   "warn_default_encoding"):
            words += ["-X", key if value is True else f"{key}={value}"]
    return words
