"""DataContext: the settings of this process, copied into each Dataset when it is made.

Every field that Ray Data 2.60 has can be read and set here. `OBEYED` names those that change what weir does; the others
tune machinery that weir does not have (a cluster's scheduler, its object store, its shuffle actors), and setting them to
something else changes nothing.
"""

from __future__ import annotations

import copy
import enum
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

DEFAULT_BATCH_SIZE = 1024
DEFAULT_TARGET_MAX_BLOCK_SIZE = 128 << 20
DEFAULT_TARGET_MIN_BLOCK_SIZE = 1 << 20


class ShuffleStrategy(str, enum.Enum):
    """The names that Ray has for ways to shuffle; weir has one way."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"


class _Plain:
    """A bag of named values with a readable text."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class AutoscalingConfig(_Plain):
    """When pools of actors grow and shrink."""

    def __init__(
        self,
        actor_pool_util_upscaling_threshold: float = 1.75,
        actor_pool_util_downscaling_threshold: float = 0.5,
        actor_pool_max_upscaling_delta: int | None = None,
    ) -> None:
        super().__init__(
            actor_pool_util_upscaling_threshold=actor_pool_util_upscaling_threshold,
            actor_pool_util_downscaling_threshold=actor_pool_util_downscaling_threshold,
            actor_pool_max_upscaling_delta=actor_pool_max_upscaling_delta,
        )


class ExecutionResources:
    """How much of each resource; every field may be assigned.

    >>> import weir
    >>> limits = weir.ExecutionResources(cpu=2)
    >>> limits.object_store_memory = 8e9
    >>> limits.cpu, limits.object_store_memory
    (2, 8000000000.0)
    """

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        self.cpu: float = cpu if cpu is not None else 0.0
        self.gpu: float = gpu if gpu is not None else 0.0
        self.object_store_memory: float = object_store_memory if object_store_memory is not None else 0.0
        self.memory: float = memory if memory is not None else 0.0

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Limits: what is not given has none."""

        def limit(value: float | None) -> float:
            return math.inf if value is None else value

        return cls(limit(cpu), limit(gpu), limit(object_store_memory), limit(memory))

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Nothing of anything."""
        return cls(0.0, 0.0, 0.0, 0.0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """No limit."""
        return cls.for_limits()

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """The same, with some fields changed."""
        return ExecutionResources(
            self.cpu if cpu is None else cpu,
            self.gpu if gpu is None else gpu,
            self.object_store_memory if object_store_memory is None else object_store_memory,
            self.memory if memory is None else memory,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResources) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ExecutionResources(cpu={self.cpu}, gpu={self.gpu}, object_store_memory={_bytes_text(self.object_store_memory)}, "
            f"memory={_bytes_text(self.memory)})"
        )


def _bytes_text(value: float) -> str:
    if math.isinf(value):
        return "inf"
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}GiB"


class ExecutionOptions:
    """Options of a run.

    >>> import weir
    >>> options = weir.DataContext.get_current().execution_options
    >>> options.resource_limits.cpu = 80
    >>> options.preserve_order = True
    """

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        preserve_order: bool = False,
        actor_locality_enabled: bool = True,
        verbose_progress: bool | None = None,
        label_selector: dict[str, str] | None = None,
    ) -> None:
        if label_selector is not None:
            raise ValueError("label_selector chooses nodes of a cluster, and weir runs on one machine")
        self.resource_limits = ExecutionResources.inf() if resource_limits is None else resource_limits
        self.exclude_resources = ExecutionResources.zero() if exclude_resources is None else exclude_resources
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = True if verbose_progress is None else verbose_progress
        self.label_selector: dict[str, str] | None = None
        self.locality_with_output: bool | list[str] = False

    def is_resource_limits_default(self) -> bool:
        """Whether nothing is limited."""
        return self.resource_limits == ExecutionResources.inf()

    def validate(self) -> None:
        """Raises ValueError for limits that exclude each other."""
        for name in ("cpu", "gpu", "object_store_memory"):
            limit = getattr(self.resource_limits, name)
            if not math.isinf(limit) and getattr(self.exclude_resources, name) > 0:
                raise ValueError(f"resource_limits and exclude_resources cannot both be set for {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionOptions) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ExecutionOptions(resource_limits={self.resource_limits}, exclude_resources={self.exclude_resources}, "
            f"preserve_order={self.preserve_order}, actor_locality_enabled={self.actor_locality_enabled}, "
            f"verbose_progress={self.verbose_progress}, label_selector={self.label_selector})"
        )


_AWS_TRANSIENT = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
)

# What weir looks at.
OBEYED = frozenset(
    {
        "target_min_block_size",
        "execution_options",
        "actor_task_retry_on_errors",
        "actor_init_retry_on_errors",
        "actor_init_max_retries",
        "retried_map_errors",
        "max_map_retries",
        "max_errored_blocks",
        "raise_original_map_exception",
        "max_tasks_in_flight_per_actor",
        "enable_arrow_backed_pandas_conversion",
    }
)


def _defaults() -> dict[str, Any]:
    return {
        "target_max_block_size": DEFAULT_TARGET_MAX_BLOCK_SIZE,
        "target_min_block_size": DEFAULT_TARGET_MIN_BLOCK_SIZE,
        "streaming_read_buffer_size": 32 << 20,
        "enable_pandas_block": True,
        "actor_prefetcher_enabled": False,
        "autoscaling_config": AutoscalingConfig(),
        "use_push_based_shuffle": False,
        "_shuffle_strategy": ShuffleStrategy.SHUFFLE_V2,
        "pipeline_push_based_shuffle_reduce_tasks": True,
        "default_hash_shuffle_parallelism": 200,
        "shuffle_compression": "zstd",
        "hash_shuffle_reduce_batch_size": 16,
        "hash_shuffle_reduce_get_timeout_s": 1800.0,
        "shuffle_input_batch_bytes": 1 << 30,
        "max_hash_shuffle_aggregators": None,
        "min_hash_shuffle_aggregator_wait_time_in_s": 300,
        "hash_shuffle_aggregator_health_warning_interval_s": 30,
        "max_hash_shuffle_finalization_batch_size": None,
        "join_operator_actor_num_cpus_override": None,
        "hash_shuffle_operator_actor_num_cpus_override": None,
        "hash_aggregate_operator_actor_num_cpus_override": None,
        "use_disk_based_hash_shuffle": False,
        "gpu_shuffle_num_actors": None,
        "gpu_shuffle_rmm_pool_size": None,
        "gpu_shuffle_spill_memory_limit": "auto",
        "gpu_shuffle_setup_timeout_s": 120.0,
        "scheduling_strategy": "SPREAD",
        "scheduling_strategy_large_args": "DEFAULT",
        "large_args_threshold": 50 << 20,
        "use_polars": False,
        "use_polars_sort": False,
        "use_legacy_dataset_ids": False,
        "decoding_size_estimation": True,
        "min_parallelism": 200,
        "read_op_min_num_blocks": 200,
        "use_datasource_v2": True,
        "enable_tensor_extension_casting": True,
        "arrow_fixed_shape_tensor_format": "v2",
        "use_arrow_tensor_v2": True,
        "enable_fallback_to_arrow_object_ext_type": None,
        "enable_auto_log_stats": False,
        "verbose_stats_logs": False,
        "accurate_map_phase_timing": False,
        "per_stage_map_timing": False,
        "trace_allocations": False,
        "execution_options": ExecutionOptions(),
        "use_ray_tqdm": True,
        "enable_progress_bars": True,
        "enable_operator_progress_bars": True,
        "enable_progress_bar_name_truncation": True,
        "enable_rich_progress_bars": False,
        "enable_get_object_locations_for_metrics": False,
        "write_file_retry_on_errors": _AWS_TRANSIENT,
        "warn_on_driver_memory_usage_bytes": 2 << 30,
        "actor_task_retry_on_errors": False,
        "actor_init_retry_on_errors": False,
        "actor_init_max_retries": 3,
        "max_consecutive_actor_init_deaths": 0,
        "retried_map_errors": False,
        "max_map_retries": 0,
        "op_resource_reservation_enabled": True,
        "op_resource_reservation_ratio": 0.5,
        "output_backpressure_guard_release_interval_s": None,
        "max_errored_blocks": 0,
        "execution_no_progress_timeout_s": 1800,
        "log_internal_stack_trace": False,
        "raise_original_map_exception": False,
        "print_on_execution_start": True,
        "s3_try_create_dir": False,
        "wait_for_min_actors_s": -1,
        "max_tasks_in_flight_per_actor": None,
        "retried_io_errors": [*_AWS_TRANSIENT, "AWS Error SERVICE_UNAVAILABLE"],
        "lance_config": None,
        "iceberg_config": None,
        "delta_config": None,
        "enable_per_node_metrics": False,
        "enable_stats_summary_collection": False,
        "override_object_store_memory_limit_fraction": None,
        "memory_usage_poll_interval_s": 1,
        "dataset_logger_id": None,
        "issue_detectors_config": None,
        "isolate_read_workers": False,
        "downstream_capacity_backpressure_ratio": 2.0,
        "enable_dynamic_output_queue_size_backpressure": False,
        "enable_lineage_reconstruction_resource_accounting": True,
        "enforce_schemas": False,
        "pandas_block_ignore_metadata": False,
        "enable_arrow_backed_pandas_conversion": True,
        "batch_to_block_arrow_format": True,
        "_checkpoint_config": None,
        "custom_execution_callback_classes": [],
        "default_map_logical_memory_enabled": False,
        "_enable_ray_data_reconstruction": None,
        "object_store_reservation_overshoot_ratio": None,
        "object_store_memory_pressure_fraction": None,
        # Names of older versions.
        "block_splitting_enabled": True,
        "target_shuffle_max_block_size": 1 << 30,
        "optimize_fuse_stages": True,
        "optimize_fuse_read_stages": True,
        "optimize_fuse_shuffle_stages": True,
        "optimizer_enabled": True,
        "eager_free": False,
    }


class DataContext:
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

    def __init__(self, **fields: Any) -> None:
        values = _defaults()
        for name in fields:
            if name not in values:
                raise TypeError(f"DataContext has no field {name!r}")
        values.update(fields)
        self.__dict__.update(values)
        self.__dict__["_kv_configs"] = {}

    @staticmethod
    def get_current() -> DataContext:
        """The context of this process, or of the current_as() block that this thread is in."""
        scoped: DataContext | None = getattr(_scoped, "context", None)
        if scoped is not None:
            return scoped
        global _current
        with _lock:
            if _current is None:
                _current = DataContext()
            return _current

    @staticmethod
    def _set_current(context: DataContext) -> None:
        global _current
        with _lock:
            _current = context

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
        """Ray's choice of shuffle; weir has one."""
        return self.__dict__["_shuffle_strategy"]  # type: ignore[no-any-return]

    @shuffle_strategy.setter
    def shuffle_strategy(self, value: ShuffleStrategy | str) -> None:
        self.__dict__["_shuffle_strategy"] = ShuffleStrategy(value)

    @property
    def checkpoint_config(self) -> None:
        """There are no checkpoints yet: only None can be set."""
        return None

    @checkpoint_config.setter
    def checkpoint_config(self, value: Any) -> None:
        if value is not None:
            raise ValueError("checkpoint_config is not supported: a run that failed is started again as a whole")

    def get_config(self, key: str, default: Any = None) -> Any:
        """A value that set_config() has put here."""
        return self._kv_configs.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Keeps a value under a name of the program's own."""
        self._kv_configs[key] = value

    def remove_config(self, key: str) -> None:
        """Forgets it."""
        self._kv_configs.pop(key, None)

    def copy(self) -> DataContext:
        """A copy that shares nothing with this one."""
        return copy.deepcopy(self)

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"DataContext has no field {name!r}")

    def __repr__(self) -> str:
        return f"DataContext({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items() if not k.startswith('_'))})"


DatasetContext = DataContext

_lock = threading.Lock()
_current: DataContext | None = None
_scoped = threading.local()
