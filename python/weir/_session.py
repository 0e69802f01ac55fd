"""The session of this process: the engine with its memory limit, made when first needed.

    init() ─▶ options ─▶ current() ─▶ State ─▶ shutdown()
                            │
                            └ made once, by whichever thread comes first; again after a fork, for the child

A forked child keeps the parent's State in `_inherited`, so that nothing of the parent's is ever released in the child.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._weir import Session
    from weir.stats import DatasetStatsSummary

_UNITS = {
    "": 1,
    "B": 1,
    "K": 1 << 10,
    "KB": 10**3,
    "KIB": 1 << 10,
    "M": 1 << 20,
    "MB": 10**6,
    "MIB": 1 << 20,
    "G": 1 << 30,
    "GB": 10**9,
    "GIB": 1 << 30,
    "T": 1 << 40,
    "TB": 10**12,
    "TIB": 1 << 40,
}


def parse_bytes(value: int | float | str, what: str) -> int:
    """A number of bytes, or a text such as "512M" (2^20), "2GB" (10^9) or "1.5GiB".

    >>> parse_bytes("2GB", "memory_limit"), parse_bytes("1.5GiB", "memory_limit"), parse_bytes(8e9, "memory_limit")
    (2000000000, 1610612736, 8000000000)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{what} is a number of bytes or a text such as '2GB', not {type(value).__name__}")
    if isinstance(value, str):
        text = value.strip()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
        unit = text[len(digits) :].strip().upper()
        try:
            number = float(digits.strip()) if unit in _UNITS else None
        except ValueError:
            number = None
        if number is None:
            raise ValueError(f"{what} is a number of bytes or a text such as '512M' or '2GB', not {value!r}")
        value = number * _UNITS[unit]
    if not 0 < value < 1 << 63:
        raise ValueError(f"{what} must be positive, not {value}")
    return int(value)


LIMIT_MIN = 64 << 20  # the engine's own; told where it is set, not at the first run
LIMIT_WORKER = 48 << 20  # what each worker wants beside it


def parse_limit(value: int | float | str, what: str) -> int:
    limit = parse_bytes(value, what)
    if limit < LIMIT_MIN:
        raise ValueError(f"{what} is {value!r}, which is too small: the least is {LIMIT_MIN >> 20} MiB, and functions want some "
                         f"{LIMIT_WORKER >> 20} MiB more for each worker")
    return limit


THREADS_MAX = 256  # num_cpus is logical and may be any number; these are real
STORE_MIN = 512 << 20  # a smaller object_store_memory is reported as it is; the limit, which includes the workers, is this


class State:
    """What one session is: the engine, and what init() was told."""

    def __init__(self, options: dict[str, Any]) -> None:
        from weir._weir import Session

        self.pid = os.getpid()
        self.id = os.urandom(8).hex()
        sharers = _sharers()
        cpus = max(1, len(os.sched_getaffinity(0)) // sharers)
        self.memory_limit: int = options.get("memory_limit") or _default_limit()
        if not self.memory_limit and sharers > 1:
            self.memory_limit = Session().memory_limit // sharers
        self.num_cpus: float = options["num_cpus"] if options.get("num_cpus") is not None else cpus
        self.num_gpus: float | None = options.get("num_gpus")
        self.preload: tuple[str, ...] = options.get("preload", ())
        self.local_mode: bool = options.get("local_mode", False)
        self.resources: dict[str, float] = options.get("resources") or {}  # of the user's own naming
        self.namespace: str = options.get("namespace") or ""
        self.runtime_env: dict[str, Any] | None = options.get("runtime_env")
        self.log_to_driver: bool = options.get("log_to_driver", True)
        self.object_store_memory: float | None = options.get("object_store_memory")  # as it was asked for
        self.logical_memory: float | None = options.get("memory")
        self.zygotes: dict[Any, Any] = {}
        spill_dir = options.get("spill_dir") or os.environ.get("RAY_TMPDIR") or None
        if spill_dir is not None and not options.get("spill_dir"):
            os.makedirs(spill_dir, exist_ok=True)
        self.spill_dir: str = spill_dir or os.environ.get("TMPDIR") or "/tmp"
        self.summaries: list[DatasetStatsSummary] = []  # of runs that have ended, if the context says so
        self.closers: list[Callable[[], None]] = []
        threads = options.get("num_cpus") or (cpus if sharers > 1 else None)
        self.native: Session = Session(
            memory_limit=self.memory_limit, threads=max(1, min(int(threads), THREADS_MAX)) if threads else 0, spill_dir=spill_dir
        )

    def close(self) -> None:
        while self.closers:
            self.closers.pop()()
        zygotes, self.zygotes = self.zygotes, {}
        for zygote in zygotes.values():
            zygote.close()


def _default_limit() -> int:
    """0: the engine takes 60 % of what the machine or its cgroup has."""
    text = os.environ.get("WEIR_MEMORY_LIMIT")
    if text:
        return parse_limit(text, "the environment's WEIR_MEMORY_LIMIT")
    text = os.environ.get("RAY_object_store_memory")
    return max(parse_bytes(text, "RAY_object_store_memory"), STORE_MIN) if text else 0


_sharing = 1


def share_machine(processes: int) -> None:
    """The next session takes that part of the machine, unless it is told how much."""
    global _sharing
    _sharing = processes


def _sharers() -> int:
    """How many processes like this one run side by side: torchrun says it in LOCAL_WORLD_SIZE."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(_sharing, int(text) if text.isdecimal() and int(text) > 0 else 1)


_lock = threading.RLock()
_state: State | None = None
_options: dict[str, Any] = {}
_initialized = False
_inherited: list[State] = []
forks = 0  # how many forks lie between the first process and this one


def current() -> State:
    """The session, made now if there is none."""
    global _state
    with _lock:
        if _state is None:
            _state = State(_options)
        return _state


def existing() -> State | None:
    """The session if there is one: for those who only look."""
    return _state


def at_shutdown(close: Callable[[], None]) -> None:
    """`close` is called when the session ends by shutdown(), the last one first, before its processes end."""
    current().closers.append(close)


def set_share(**options: Any) -> None:
    """This process is a worker: what a Dataset that it runs itself may use."""
    global _options, _initialized
    _options = options
    _initialized = True


def share_of(state: State) -> int:
    """Bytes that a Dataset may use that runs in a worker of this session, in a session of its own."""
    return max(256 << 20, int(state.native.memory()["limit"]) // (max(1, int(state.num_cpus)) + 1))


def check_process(forks_then: int) -> None:
    """Raises in a forked child for what the parent has begun."""
    if forks_then != forks:
        raise RuntimeError("this iterator belongs to the process that was forked: make a new one here")


def _after_fork_in_child() -> None:
    global _lock, _state, forks
    forks += 1
    _lock = threading.RLock()
    if _state is not None:
        _inherited.append(_state)
    _state = None


os.register_at_fork(after_in_child=_after_fork_in_child)


def init(
    memory_limit: int | float | str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    preload: Iterable[str] = (),
    local_mode: bool = False,
    spill_dir: str | os.PathLike[str] | None = None,
    object_store_memory: int | float | None = None,
    ignore_reinit_error: bool = False,
    resources: Mapping[str, float] | None = None,
    namespace: str | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    log_to_driver: bool = True,
    memory: int | float | None = None,
) -> None:
    """Says how weir may use this machine. Nobody has to call it: the first Dataset that runs takes the defaults.

    Args:
        memory_limit: bytes, or a text such as "2GB", that the engine, its store and its workers together may use. Default:
            the environment's WEIR_MEMORY_LIMIT, or 60 % of what the machine or its cgroup has. Processes that torchrun starts
            share it: each takes its part of this and of the CPUs.
        num_cpus: how many CPUs to use; default: those that this process may run on. 0: tasks, actors and functions run only with
            num_cpus=0 of their own; what the engine does itself has one thread for each CPU.
        num_gpus: how many GPUs to hand out; default: those that are there.
        preload: modules that worker processes have imported before they are needed.
        local_mode: functions run in this process, on one thread, where breakpoint() works.
        spill_dir: the folder for what does not fit into memory.
        object_store_memory: Ray's name; the same as memory_limit when that is not given, but at least 512 MiB, since the limit
            includes what Ray does not count there: the workers.
        ignore_reinit_error: a second init() changes nothing and is no error.
        resources: further resources that tasks and actors may ask for, by name.
        namespace: where named actors of this program are looked up.
        runtime_env: env_vars and working_dir that hold for every worker.
        log_to_driver: False: what functions print is not shown.
        memory: bytes that cluster_resources() tells as "memory", which functions and actors with memory= share; default: the limit.

    >>> import weir
    >>> weir.init(memory_limit="1GB", ignore_reinit_error=True)
    >>> weir.is_initialized()
    True
    """
    global _options, _initialized
    if isinstance(preload, str):
        raise TypeError('preload is a list of module names, such as ["torch"]')
    options: dict[str, Any] = {
        "memory_limit": None,
        "num_cpus": _count(num_cpus, "num_cpus", zero=True),
        "num_gpus": _count(num_gpus, "num_gpus", zero=True),
        "preload": tuple(preload),
        "local_mode": bool(local_mode),
        "spill_dir": os.fspath(spill_dir) if spill_dir is not None else None,
        "resources": _named_resources(resources),
        "namespace": namespace,
        "runtime_env": dict(runtime_env) if runtime_env is not None else None,
        "log_to_driver": bool(log_to_driver),
    }
    if object_store_memory is not None:
        options["object_store_memory"] = float(parse_bytes(object_store_memory, "object_store_memory"))
        if memory_limit is None:
            memory_limit = max(options["object_store_memory"], STORE_MIN)
    if memory_limit is not None:
        options["memory_limit"] = parse_limit(memory_limit, "memory_limit")
    if memory is not None:
        options["memory"] = float(parse_bytes(memory, "memory"))
    with _lock:
        if _state is not None or _initialized:
            if ignore_reinit_error:
                return
            raise RuntimeError("weir runs already: call weir.init() before the first Dataset runs, or weir.shutdown() first")
        _options = options
        _initialized = True


def _named_resources(resources: Mapping[str, float] | None) -> dict[str, float]:
    made: dict[str, float] = {}
    for name, amount in (resources or {}).items():
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise ValueError(f"resources cannot have {name!r}: use num_cpus, num_gpus, memory_limit or object_store_memory")
        count = _count(amount, f"resources[{name!r}]", zero=True)
        assert count is not None
        made[name] = float(count)
    return made


def _count(value: float | None, what: str, zero: bool = False) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is a number, not {type(value).__name__}")
    if value < 0 or (value == 0 and not zero):
        raise ValueError(f"{what} must be positive, not {value}")
    return value


def shutdown() -> None:
    """Ends the session and its processes. Data that was materialised in it is gone; the next Dataset makes a new session.

    >>> import weir
    >>> weir.shutdown()
    >>> weir.is_initialized()
    False
    """
    global _state, _options, _initialized
    with _lock:
        state, _state = _state, None
        _options = {}
        _initialized = False
    if state is not None:
        state.close()


def is_initialized() -> bool:
    """Whether there is a session, or init() has said how to make one.

    >>> import weir
    >>> weir.range(1).count(), weir.is_initialized()
    (1, True)
    """
    return _initialized or _state is not None


def cluster_resources() -> dict[str, float]:
    """What this machine gives, under Ray's names.

    >>> import weir
    >>> weir.cluster_resources()["CPU"] >= 1
    True
    """
    node = _node()
    if node is not None and not node.is_driver:
        of_driver: dict[str, float] = node.call("cluster_resources")
        return of_driver
    state = current()
    limit = float(state.native.memory().get("limit", state.memory_limit))
    resources = {
        **({"CPU": float(state.num_cpus)} if state.num_cpus else {}),
        "memory": limit if state.logical_memory is None else state.logical_memory,
        "object_store_memory": limit if state.object_store_memory is None else state.object_store_memory,
    }
    gpus = float(state.num_gpus) if state.num_gpus is not None else float(_gpus_found())
    if gpus:
        resources["GPU"] = gpus
    return resources | state.resources | {"node:127.0.0.1": 1.0, "node:__internal_head__": 1.0}


def _gpus_found() -> int:
    from weir._call import gpu_pool

    return len(gpu_pool())


def session_dir() -> str:
    """A folder of this session's own name, below the one for temporary files. It is not made here."""
    import tempfile

    state = existing()
    return os.path.join(tempfile.gettempdir(), f"weir-{os.getpid()}" + (f"-{state.id}" if state is not None else ""))


def available_resources() -> dict[str, float]:
    """What of it is free now.

    >>> import weir
    >>> weir.available_resources()["object_store_memory"] > 0
    True
    """
    node = _node()
    if node is not None:
        of_node: dict[str, float] = node.call("available_resources")
        return of_node
    return with_free(cluster_resources(), current(), {})


def with_free(resources: dict[str, float], state: State, free: Mapping[str, float]) -> dict[str, float]:
    """The same less what is in use; `free`: what tasks and actors have left."""
    resources.update((name, max(0.0, amount)) for name, amount in free.items() if name in resources)
    used = float(state.native.memory().get("used", 0))
    for name in ("memory", "object_store_memory"):
        resources[name] = max(0.0, resources[name] - used)
    return resources


def _node() -> Any:
    """Who gives CPUs to tasks and actors, when there are any: this process's, or the driver's in a worker."""
    core = sys.modules.get("weir.core.runtime")
    return core.here() if core is not None else None
