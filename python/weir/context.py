"""DataContext: the settings of this process, copied into each Dataset when it is made.

Every field that Ray Data 2.60 has can be read and set here, and those of older versions that scripts still set. _context_fields.py says
of each what it does; docs/context.md tells it. Names that nobody knows are kept, too, with a warning.

    get_current() ──copied when a Dataset is made──▶ Dataset.context ──copied into those made of it──▶ …
                                                           └──pickled when it runs──▶ get_current() in its workers
"""

from __future__ import annotations

import copy
import enum
import math
import numbers
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weir.execution_options import ExecutionOptions as ExecutionOptions
from weir.execution_options import ExecutionResources as ExecutionResources
from weir.extensions.formats import FixedShapeTensorFormat

if TYPE_CHECKING:
    from weir._context_fields import Field

DEFAULT_BATCH_SIZE = 1024
LEGACY_DEFAULT_BATCH_SIZE = 1024
DEFAULT_TARGET_MAX_BLOCK_SIZE = 128 << 20
DEFAULT_TARGET_MIN_BLOCK_SIZE = 1 << 20
DEFAULT_SHUFFLE_TARGET_MAX_BLOCK_SIZE = 1 << 30
MAX_SAFE_BLOCK_SIZE_FACTOR = 1.5
EXECUTION_CALLBACKS_ENV_VAR = "RAY_DATA_EXECUTION_CALLBACKS"
OK_PREFIX, WARN_PREFIX = "✔️ ", "⚠️ "


class ShuffleStrategy(str, enum.Enum):
    """The names that Ray has for ways to shuffle. weir has one way; with those that sort, groups come in the order of their keys.

    >>> ShuffleStrategy("hash_shuffle").name
    'HASH_SHUFFLE'
    """

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    HASH_SHUFFLE_V2 = "shuffle_v2"  # its old name
    GPU_SHUFFLE = "gpu_shuffle"

    @property
    def sorts(self) -> bool:
        """Whether groups come in the order of their keys.

        >>> ShuffleStrategy.SORT_SHUFFLE_PULL_BASED.sorts, ShuffleStrategy.HASH_SHUFFLE.sorts
        (True, False)
        """
        return self in (ShuffleStrategy.SORT_SHUFFLE_PULL_BASED, ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED)

    @classmethod
    def _missing_(cls, value: object) -> ShuffleStrategy | None:
        if value != "hash_shuffle_v2":
            return None
        import warnings

        warnings.warn("`hash_shuffle_v2` is deprecated: it is `shuffle_v2` now", DeprecationWarning, stacklevel=3)
        return cls.SHUFFLE_V2


class _Plain:
    """Settings that belong together."""


@dataclass
class AutoscalingConfig(_Plain):
    """When pools of actors grow and shrink: DataContext.autoscaling_config.

    >>> import weir
    >>> weir.DataContext().autoscaling_config.actor_pool_util_upscaling_threshold
    1.75
    """

    actor_pool_util_upscaling_threshold: float = 1.75
    actor_pool_util_downscaling_threshold: float = 0.5
    actor_pool_max_upscaling_delta: int | None = None


_SERVICE_ERRORS = ["429", "503", "502", "500", "Too Many Requests", "Service Unavailable", "Internal Server Error"]
_SERVICE_ERRORS += ["Connection reset", "Connection refused", "Connection timed out", "Read timed out", "UNAVAILABLE", "DEADLINE_EXCEEDED"]


@dataclass
class LanceConfig(_Plain):
    """How Lance is retried: DataContext.lance_config.

    >>> LanceConfig(read_fragments_max_attempts=3).read_fragments_max_attempts
    3
    """

    read_fragments_errors_to_retry: list[str] = field(default_factory=lambda: ["LanceError(IO)"])
    read_fragments_max_attempts: int = 10
    read_fragments_retry_max_backoff_s: int = 32
    write_fragments_errors_to_retry: list[str] = field(default_factory=lambda: ["LanceError(IO)"])
    write_fragments_max_attempts: int = 10
    write_fragments_retry_max_backoff_s: int = 32


@dataclass
class IcebergConfig(_Plain):
    """How Iceberg is retried: DataContext.iceberg_config.

    >>> IcebergConfig().catalog_max_attempts
    5
    """

    write_file_max_attempts: int = 10
    write_file_retry_max_backoff_s: int = 32
    catalog_max_attempts: int = 5
    catalog_retry_max_backoff_s: int = 16
    catalog_retried_errors: list[str] = field(default_factory=_SERVICE_ERRORS.copy)
    read_file_tasks_sequentially: bool = True


@dataclass
class DeltaConfig(_Plain):
    """How Delta Lake is retried: DataContext.delta_config.

    >>> DeltaConfig(commit_max_attempts=2).commit_max_attempts
    2
    """

    commit_max_attempts: int = 5
    commit_retry_max_backoff_s: int = 16
    commit_retried_errors: list[str] = field(default_factory=_SERVICE_ERRORS.copy)
    credential_refresh_enabled: bool = True


@dataclass
class HangingExecutionIssueDetectorConfig(_Plain):
    """When a task counts as hanging.

    >>> HangingExecutionIssueDetectorConfig().detection_time_interval_s
    30.0
    """

    op_task_stats_min_count: int = 10
    op_task_stats_std_factor: int = 10
    detection_time_interval_s: float = 30.0


@dataclass
class HashShuffleAggregatorIssueDetectorConfig(_Plain):
    """When aggregators count as stuck.

    >>> HashShuffleAggregatorIssueDetectorConfig()
    HashShuffleAggregatorIssueDetectorConfig(detection_time_interval_s=30, min_wait_time_s=300)
    """

    detection_time_interval_s: int = 30
    min_wait_time_s: int = 300


@dataclass
class HighMemoryIssueDetectorConfig(_Plain):
    """How often memory is looked at.

    >>> HighMemoryIssueDetectorConfig(detection_time_interval_s=5)
    HighMemoryIssueDetectorConfig(detection_time_interval_s=5)
    """

    detection_time_interval_s: int = 30


@dataclass
class IssueDetectorsConfiguration(_Plain):
    """What Ray looks for while it runs: DataContext.issue_detectors_config.

    >>> import weir
    >>> weir.DataContext().issue_detectors_config.hanging_detector_config.op_task_stats_min_count
    10
    """

    hanging_detector_config: HangingExecutionIssueDetectorConfig = field(default_factory=HangingExecutionIssueDetectorConfig)
    hash_shuffle_detector_config: HashShuffleAggregatorIssueDetectorConfig = field(default_factory=HashShuffleAggregatorIssueDetectorConfig)
    high_memory_detector_config: HighMemoryIssueDetectorConfig = field(default_factory=HighMemoryIssueDetectorConfig)
    detectors: list[Any] = field(default_factory=list)


class ExecutionCallback:
    """Is told about runs; classes of this kind go into DataContext.custom_execution_callback_classes.

    >>> import weir
    >>> from weir.context import ExecutionCallback
    >>> class Told(ExecutionCallback):
    ...     def before_execution_starts(self, executor): print("begins")
    ...     def after_execution_succeeds(self, executor): print("has ended")
    >>> with weir.DataContext.current(weir.DataContext(custom_execution_callback_classes=[Told])):
    ...     ds = weir.range(3)
    >>> ds.take(1)
    begins
    has ended
    [{'id': 0}]
    """

    def before_execution_starts(self, executor: Any) -> None:
        """A run begins; `executor` is weir's object for it. What needs no run, such as the count of a range, has none.

        >>> import weir
        >>> class Told(ExecutionCallback):
        ...     def before_execution_starts(self, executor): print("begins")
        >>> with weir.DataContext.current(weir.DataContext(custom_execution_callback_classes=[Told])):
        ...     weir.range(3).take(1)
        begins
        [{'id': 0}]
        """

    def on_execution_step(self, executor: Any) -> None:
        """A part of it begins, or rows of it have come to the program. (Ray calls it in its loop; weir's is in C.)

        >>> import weir
        >>> steps = []
        >>> class Told(ExecutionCallback):
        ...     def on_execution_step(self, executor): steps.append(executor)
        >>> with weir.DataContext.current(weir.DataContext(custom_execution_callback_classes=[Told])):
        ...     _ = weir.range(3).take_all()
        >>> len(steps) > 0
        True
        """

    def after_execution_succeeds(self, executor: Any) -> None:
        """It has ended; also where the program has left a loop over its rows early.

        >>> import weir
        >>> class Told(ExecutionCallback):
        ...     def after_execution_succeeds(self, executor): print("has ended")
        >>> with weir.DataContext.current(weir.DataContext(custom_execution_callback_classes=[Told])):
        ...     for row in weir.range(3).iter_rows(): break
        has ended
        """

    def after_execution_fails(self, executor: Any, error: Exception) -> None:
        """It has failed with `error`, which the program gets afterwards.

        >>> import weir
        >>> class Told(ExecutionCallback):
        ...     def after_execution_fails(self, executor, error): print("failed:", error)
        >>> with weir.DataContext.current(weir.DataContext(custom_execution_callback_classes=[Told])):
        ...     ds = weir.from_items([{"a": "x"}]).filter(expr="a > 1")
        >>> try: ds.take()
        ... except TypeError: pass
        failed: expression: operator filter, column a: a > 1: '>' cannot compare string (a) with int64 (1)
        """


_tables: dict[str, Any] = {}


def _table() -> dict[str, Field]:
    """All fields by name."""
    if "fields" not in _tables:
        from weir import _context_fields

        _tables["fields"] = {field.name: field for field in [*_context_fields.fields(), *_context_fields.old_fields()]}
    return _tables["fields"]  # type: ignore[no-any-return]


class _DataclassFields:
    """dataclasses.fields(DataContext) has Ray's fields."""

    def __get__(self, instance: Any, owner: type) -> dict[str, Any]:
        if "dataclass" not in _tables:
            import dataclasses

            from weir import _context_fields

            made = {}
            for known in _context_fields.fields():
                is_made = isinstance(known.default, _context_fields.Made)
                field = dataclasses.field(**({"default_factory": known.default} if is_made else {"default": known.default}))
                field.name, field.type, field._field_type = known.name, Any, dataclasses._FIELD  # type: ignore[attr-defined]
                made[known.name] = field
            _tables["dataclass"] = made
        return _tables["dataclass"]  # type: ignore[no-any-return]


# Old name → the field that it is now.
_ALIASES = {
    "hash_shuffle_compression": "shuffle_compression",
    "use_external_hash_shuffle": "use_disk_based_hash_shuffle",
    "log_internal_stack_trace_to_stdout": "log_internal_stack_trace",
}
_ATOMS = {int, float, str, bool, type(None), bytes, ShuffleStrategy, FixedShapeTensorFormat}
_warned: set[str] = set()


def _copied(value: Any) -> Any:
    """A deep copy. Every Dataset makes one of its context, so the common kinds go the short way: what cannot change is shared."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [item if type(item) in _ATOMS else _copied(item) for item in value]
    if kind is ExecutionOptions or kind is ExecutionResources or isinstance(value, _Plain):
        made: Any = object.__new__(kind)
        made.__dict__.update({name: item if type(item) in _ATOMS else _copied(item) for name, item in value.__dict__.items()})
        return made
    if kind is tuple and all(type(item) in _ATOMS for item in value):
        return value
    return copy.deepcopy(value)


class _WithDefaults(type):
    """The class shows the defaults of its fields, as a dataclass does: those that every context has its own of it has not."""

    def __getattr__(cls, name: str) -> Any:
        from weir._context_fields import Made

        known = _table().get(name)
        if known is None or isinstance(known.default, Made):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        return known.value()

    def __dir__(cls) -> list[str]:
        from weir._context_fields import Made

        return [*super().__dir__(), *(name for name, known in _table().items() if not isinstance(known.default, Made))]


class DataContext(metaclass=_WithDefaults):
    """The settings with which Datasets are made.

    >>> import weir
    >>> ctx = weir.DataContext.get_current()
    >>> ctx.target_max_block_size == 128 << 20
    True
    >>> ctx.max_errored_blocks = 10
    >>> weir.range(3).context.max_errored_blocks
    10
    >>> ctx.max_errored_blocks = 0
    """

    __dataclass_fields__ = _DataclassFields()

    def __init__(self, **fields: Any) -> None:
        table = _table()
        for name in fields:
            if name not in table and getattr(getattr(DataContext, name, None), "fset", None) is None:
                raise TypeError(f"DataContext has no field {name!r}{_nearest(name)}")
        self.__dict__.update({name: field.value() for name, field in table.items()})
        self.__dict__["_kv_configs"] = {}
        for name, value in fields.items():
            setattr(self, name, value)

    @staticmethod
    def get_current() -> DataContext:
        """The context of this process, or of the current() block that this thread is in. In a function it is that of the Dataset which
        calls it.

        >>> import weir
        >>> weir.DataContext.get_current() is weir.DataContext.get_current()
        True
        """
        scoped: DataContext | None = getattr(_scoped, "context", None)
        if scoped is not None:
            return scoped
        global _current
        with _lock:
            if _current is None:
                _current = DataContext()
            return _current

    @staticmethod
    def _set_current(context: DataContext | None) -> DataContext | None:
        global _current
        with _lock:
            before, _current = _current, context
        return before

    @classmethod
    @contextmanager
    def current(cls, context: DataContext) -> Iterator[DataContext]:
        """Within the block, get_current() is `context`, in this thread.

        >>> import weir
        >>> with weir.DataContext.current(weir.DataContext(max_errored_blocks=3)):
        ...     weir.DataContext.get_current().max_errored_blocks
        3
        """
        before = getattr(_scoped, "context", None)
        _scoped.context = context
        try:
            yield context
        finally:
            _scoped.context = before

    @property
    def shuffle_strategy(self) -> ShuffleStrategy:
        """Ray's choice of shuffle. weir has one; with those of Ray's that sort, aggregates of groups come in the order of the keys.

        >>> import weir
        >>> context = weir.DataContext()
        >>> context.shuffle_strategy = "sort_shuffle_push_based"
        >>> context.shuffle_strategy.value
        'sort_shuffle_push_based'
        """
        if self.__dict__.get("use_push_based_shuffle"):
            return ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED
        return self.__dict__["_shuffle_strategy"]  # type: ignore[no-any-return]

    @shuffle_strategy.setter
    def shuffle_strategy(self, value: ShuffleStrategy | str) -> None:
        self.__dict__["_shuffle_strategy"] = ShuffleStrategy(value)

    @property
    def checkpoint_config(self) -> Any:
        """A weir.checkpoint.CheckpointConfig, or None: whether and where a write keeps what it has done. A dict is made into one.

        >>> import weir
        >>> context = weir.DataContext()
        >>> print(context.checkpoint_config)
        None
        >>> context.checkpoint_config = {"id_column": "id", "checkpoint_path": "/tmp/done"}
        >>> context.checkpoint_config.id_column
        'id'
        """
        return self.__dict__["_checkpoint_config"]

    @checkpoint_config.setter
    def checkpoint_config(self, value: Any) -> None:
        if value is not None:
            from weir.checkpoint import CheckpointBackend, CheckpointConfig

            if isinstance(value, dict):
                value = dict(value)
                backend = value.get("override_backend")
                if backend is not None:
                    if not isinstance(backend, str):
                        raise TypeError(f"Expected 'override_backend' to be a string, but got {type(backend)}.")
                    value["override_backend"] = CheckpointBackend[backend]
                value = CheckpointConfig(**value)
            elif not isinstance(value, CheckpointConfig):
                raise TypeError("checkpoint_config must be a CheckpointConfig instance, a dict, or None.")
        self.__dict__["_checkpoint_config"] = value

    @property
    def enable_ray_data_reconstruction(self) -> bool:
        """Whether lost data is made again by its readers. On one machine nothing is lost.

        >>> import weir
        >>> weir.DataContext().enable_ray_data_reconstruction
        False
        """
        return bool(self.__dict__["_enable_ray_data_reconstruction"])

    @property
    def execution_callback_classes(self) -> list[type]:
        """Those of custom_execution_callback_classes, and those that the environment's RAY_DATA_EXECUTION_CALLBACKS names.

        >>> import weir
        >>> class Told(ExecutionCallback): pass
        >>> [kind.__name__ for kind in weir.DataContext(custom_execution_callback_classes=[Told]).execution_callback_classes]
        ['Told']
        """
        classes: list[type] = []
        for path in filter(None, map(str.strip, os.environ.get(EXECUTION_CALLBACKS_ENV_VAR, "").split(","))):
            from importlib import import_module

            module, _, name = path.rpartition(".")
            try:
                found = getattr(import_module(module), name)
            except (ImportError, AttributeError, ValueError) as error:
                raise ValueError(f"Failed to import callback from '{path}': {error}") from error
            if not isinstance(found, type) or not issubclass(found, ExecutionCallback):
                raise ValueError(
                    f"Invalid callback class '{path}' specified in {EXECUTION_CALLBACKS_ENV_VAR}. Expected a subclass of "
                    f"ExecutionCallback, but got {found}."
                )
            classes.append(found)
        return [*classes, *self.custom_execution_callback_classes]

    def get_config(self, key: str, default: Any = None) -> Any:
        """A value that set_config() has put here; `default` where it has put none.

        >>> import weir
        >>> weir.DataContext().get_config("batch_of_mine", 32)
        32
        """
        return self._kv_configs.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Keeps a value under a name of the program's own. Functions find it in the context of their Dataset.

        >>> import weir
        >>> context = weir.DataContext()
        >>> context.set_config("batch_of_mine", 64)
        >>> context.copy().get_config("batch_of_mine")
        64
        """
        if key == "backpressure_policies.enabled":  # Ray Data looks its policies up under this name
            from weir import _outdated

            _outdated.at_caller(f"set_config({key!r}) has no effect: caps of concurrency, budgets of resources and what waits downstream all hold a "
                                "run back, and a policy of one's own cannot be put in their place", UserWarning)
        self._kv_configs[key] = value

    def remove_config(self, key: str) -> None:
        """Forgets it; nothing happens where there is none.

        >>> import weir
        >>> context = weir.DataContext()
        >>> context.set_config("batch_of_mine", 64)
        >>> context.remove_config("batch_of_mine")
        >>> print(context.get_config("batch_of_mine"))
        None
        """
        self._kv_configs.pop(key, None)

    def set_dataset_logger_id(self, dataset_id: str) -> None:
        """Sets dataset_logger_id, which names nothing here: weir writes no log files.

        >>> import weir
        >>> context = weir.DataContext()
        >>> context.set_dataset_logger_id("mine")
        >>> context.dataset_logger_id
        'mine'
        """
        self.dataset_logger_id = dataset_id

    def copy(self) -> DataContext:
        """A copy that shares nothing with this one.

        >>> import weir
        >>> context = weir.DataContext()
        >>> other = context.copy()
        >>> other.execution_options.preserve_order = True
        >>> context.execution_options.preserve_order
        False
        """
        return copy.deepcopy(self)

    def _executed(self) -> list[int]:
        """How often its Dataset has run: the one number of a list, which those that are made of it have, too (Dataset._then)."""
        counted: list[int] = self.__dict__.setdefault("_executions", [0])
        self.__dict__["_execution_idx"] = counted[0]
        return counted

    def _set_executed(self, number: int) -> None:
        self._executed()[0] = self.__dict__["_execution_idx"] = number

    def __deepcopy__(self, memo: dict[int, Any]) -> DataContext:
        made = DataContext.__new__(DataContext)
        made.__dict__.update({name: _copied(value) for name, value in self.__dict__.items()})
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _DEPRECATED and name in self.__dict__ and value != self.__dict__[name]:
            _warn_deprecated(name)
        if name in _ALIASES:
            _warn(name, f"`{name}` is deprecated: it is `{_ALIASES[name]}` now", DeprecationWarning)
            name = _ALIASES[name]
        elif name == "use_polars":
            self.__dict__["use_polars_sort"] = value
        elif name == "use_arrow_tensor_v2":
            self.__dict__["arrow_fixed_shape_tensor_format"] = FixedShapeTensorFormat.V2 if value else FixedShapeTensorFormat.V1
        elif name == "custom_execution_callback_classes":
            value = list(value)
        elif name not in self.__dict__ and not name.startswith("_") and not isinstance(getattr(type(self), name, None), property):
            _warn(name, f"DataContext has no field {name!r}{_nearest(name)} It is kept, and has no effect", UserWarning)
        if name in _NUMBERS:
            _check_number(name, value)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _ALIASES:
            return self.__dict__[_ALIASES[name]]
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"DataContext has no field {name!r}{_nearest(name)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataContext) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DataContext({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items() if not k.startswith('_'))})"


# Numbers that the engine or its workers take, whether they may be None, and the least: a wrong one is told of where it is set.
_NUMBERS: dict[str, tuple[bool, float]] = {
    "target_max_block_size": (True, 0),
    "target_min_block_size": (False, 0),
    "target_shuffle_max_block_size": (True, 0),
    "read_op_min_num_blocks": (False, 0),
    "max_errored_blocks": (False, -math.inf),
    "max_map_retries": (False, -math.inf),
    "actor_init_max_retries": (False, -math.inf),
    "max_tasks_in_flight_per_actor": (True, 1),
    "execution_no_progress_timeout_s": (True, -math.inf),
    "wait_for_min_actors_s": (False, -math.inf),
}


def _check_number(name: str, value: Any) -> None:
    may_be_none, least = _NUMBERS[name]
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        from weir._mistakes import WrongArgument

        raise WrongArgument(f"DataContext.{name} is a number{' or None' if may_be_none else ''}, not {value!r}")
    if not float(value) >= least:
        raise ValueError(f"DataContext.{name} is at least {least:g}, not {value}")


# Fields that will go away, and what is said when a script sets them.
_DEPRECATED = {
    "scheduling_strategy": "where work runs is the engine's affair",
    "scheduling_strategy_large_args": "where work runs is the engine's affair",
    "large_args_threshold": "where work runs is the engine's affair",
    "write_file_retry_on_errors": "set `retried_io_errors` instead",
    "use_push_based_shuffle": "set `shuffle_strategy` instead",
    "use_polars": "set `use_polars_sort` instead",
    "use_arrow_tensor_v2": "set `arrow_fixed_shape_tensor_format` instead",
    "join_operator_actor_num_cpus_override": "joins have no actors",
}


def _warn_deprecated(name: str) -> None:
    import warnings

    from weir.util import RayDeprecationWarning

    warnings.warn(f"`DataContext.{name}` is deprecated: {_DEPRECATED[name]}", RayDeprecationWarning, stacklevel=3)


def _nearest(name: str) -> str:
    import difflib

    known = [*_table(), *_ALIASES, "checkpoint_config", "shuffle_strategy"]
    near = difflib.get_close_matches(name, [other for other in known if not other.startswith("_")], 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else "."


def _warn(name: str, text: str, kind: type[Warning]) -> None:
    """Once for each name."""
    if name in _warned:
        return
    _warned.add(name)
    import warnings

    warnings.warn(text, kind, stacklevel=3)


DatasetContext = DataContext

_lock = threading.Lock()
_current: DataContext | None = None
_scoped = threading.local()


# Sizes of blocks for kinds of work; docs/context.md has the table.
_WORKLOADS: dict[str, dict[str, int]] = {
    "etl": {"target_max_block_size": 256 << 20, "target_min_block_size": 64 << 20},
    "image": {"target_max_block_size": 128 << 20, "target_min_block_size": 32 << 20},
    "analytics": {"target_max_block_size": 512 << 20, "target_min_block_size": 128 << 20},
    "memory_constrained": {"target_max_block_size": 64 << 20, "target_min_block_size": 16 << 20},
    "shuffle": {"target_shuffle_max_block_size": 1 << 30},
    "training": {"target_max_block_size": 256 << 20, "target_min_block_size": 64 << 20},
}


def configure_for(workload: str) -> DataContext:
    """Sets the sizes of blocks that suit a kind of work, in the current context, and returns it.

    >>> import weir
    >>> before = weir.DataContext.get_current().copy()
    >>> weir.configure_for("image").target_max_block_size == 128 << 20
    True
    >>> _ = weir.DataContext._set_current(before)
    """
    if workload not in _WORKLOADS:
        raise ValueError(f"configure_for takes one of {', '.join(map(repr, _WORKLOADS))}, not {workload!r}")
    context = DataContext.get_current()
    for name, value in _WORKLOADS[workload].items():
        setattr(context, name, value)
    return context


def set_progress_bars(enabled: bool) -> bool:
    """Whether runs show what they do, in the current context; returns whether they did.

    >>> import weir
    >>> before = weir.set_progress_bars(False)
    >>> weir.set_progress_bars(before)
    False
    """
    context = DataContext.get_current()
    before = bool(context.enable_progress_bars)
    context.enable_progress_bars = bool(enabled)
    return before


def __getattr__(name: str) -> Any:
    """DEFAULT_X is the default of the field x."""
    from weir import _context_fields

    if name.startswith("DEFAULT_"):
        own = _DEFAULTS_ELSEWHERE.get(name, name.removeprefix("DEFAULT_").lower())
        if isinstance(own, str):
            for candidate in (own, "_" + own):
                if candidate in _table():
                    default = _table()[candidate].default
                    value = default() if isinstance(default, _context_fields.Made) else default
                    return tuple(value) if isinstance(value, list) else value
        else:
            return own
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Those that are called otherwise, or are no fields.
_DEFAULTS_ELSEWHERE: dict[str, Any] = {
    "DEFAULT_ACTOR_MAX_TASKS_IN_FLIGHT_TO_MAX_CONCURRENCY_FACTOR": 2,
    "DEFAULT_ACTOR_POOL_UTIL_DOWNSCALING_THRESHOLD": 0.5,
    "DEFAULT_ACTOR_POOL_UTIL_UPSCALING_THRESHOLD": 1.75,
    "DEFAULT_AUTO_LOG_STATS": "enable_auto_log_stats",
    "DEFAULT_DECODING_SIZE_ESTIMATION_ENABLED": "decoding_size_estimation",
    "DEFAULT_DELTA_COMMIT_MAX_ATTEMPTS": 5,
    "DEFAULT_DELTA_COMMIT_RETRIED_ERRORS": tuple(_SERVICE_ERRORS),
    "DEFAULT_DELTA_COMMIT_RETRY_MAX_BACKOFF_S": 16,
    "DEFAULT_ENABLE_DISK_SHUFFLE": "use_disk_based_hash_shuffle",
    "DEFAULT_ENABLE_OP_RESOURCE_RESERVATION": "op_resource_reservation_enabled",
    "DEFAULT_ICEBERG_CATALOG_MAX_ATTEMPTS": 5,
    "DEFAULT_ICEBERG_CATALOG_RETRIED_ERRORS": tuple(_SERVICE_ERRORS),
    "DEFAULT_ICEBERG_CATALOG_RETRY_MAX_BACKOFF_S": 16,
    "DEFAULT_ICEBERG_WRITE_FILE_MAX_ATTEMPTS": 10,
    "DEFAULT_ICEBERG_WRITE_FILE_RETRY_MAX_BACKOFF_S": 32,
    "DEFAULT_LANCE_READ_FRAGMENTS_ERRORS_TO_RETRY": ("LanceError(IO)",),
    "DEFAULT_LANCE_READ_FRAGMENTS_MAX_ATTEMPTS": 10,
    "DEFAULT_LANCE_READ_FRAGMENTS_RETRY_MAX_BACKOFF_S": 32,
    "DEFAULT_LANCE_WRITE_FRAGMENTS_ERRORS_TO_RETRY": ("LanceError(IO)",),
    "DEFAULT_LANCE_WRITE_FRAGMENTS_MAX_ATTEMPTS": 10,
    "DEFAULT_LANCE_WRITE_FRAGMENTS_RETRY_MAX_BACKOFF_S": 32,
    "DEFAULT_MAX_HASH_SHUFFLE_AGGREGATORS": 128,
    "DEFAULT_MAX_NUM_BLOCKS_IN_STREAMING_GEN_BUFFER": 2,
    "DEFAULT_RAY_DATA_RAISE_ORIGINAL_MAP_EXCEPTION": "raise_original_map_exception",
    "DEFAULT_VERBOSE_STATS_LOG": "verbose_stats_logs",
}
