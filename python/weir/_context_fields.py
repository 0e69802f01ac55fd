"""The fields of DataContext: their names and defaults in Ray 2.60, the variables of the environment that change these, and what they do
here. docs/context.md says the same to users, and a test compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

MIB = 1 << 20

# Why a field does nothing.
CLUSTER = "weir runs on one machine"
SHUFFLE = "for Ray's shuffles only"
SCHEDULER = "weir's scheduler balances by what it measures"
LOGS = "weir writes no log files"
DRAWN = "there is only one way to draw progress"
ALWAYS = "it is always so"
READER = "for Ray's readers only"
CONNECTOR = "the package that reads and writes has its own rules for trying again"


class Field:
    """One field. `effect` or `reason`: what it does, or why it does nothing."""

    __slots__ = ("default", "effect", "env", "name", "reason")

    def __init__(self, name: str, default: Any, effect: str = "", reason: str = "", env: str = "") -> None:
        self.name, self.default, self.effect, self.reason, self.env = name, default, effect, reason, env

    def value(self) -> Any:
        """What a new context has: the environment's value, or else the default."""
        default = self.default() if isinstance(self.default, Made) else self.default
        text = os.environ.get(self.env) if self.env else None
        return default if text is None else _parsed(text, default, self.env)


class Made:
    """A default that every context has its own of."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __call__(self) -> Any:
        return self.make()


_YES, _NO = ("1", "true", "yes"), ("0", "false", "no", "")


def _parsed(text: str, default: Any, name: str) -> Any:
    """A variable's text as what the field's default is."""
    words = text.strip().lower()
    try:
        if isinstance(default, bool):
            if words not in _YES + _NO:
                raise ValueError
            value: Any = words in _YES
            return not value if name == "RAY_DATA_DISABLE_PROGRESS_BARS" else value
        if isinstance(default, int):
            return int(words)
        if isinstance(default, float) or default is None:
            return float(words)
    except ValueError:
        what = "1 or 0" if isinstance(default, bool) else "a number"
        raise ValueError(f"the environment's {name} is {what}, not {text!r}") from None
    return type(default)(text)


AWS_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
)


def fields() -> list[Field]:
    """All of them, Ray's in its order and those of older versions after them."""
    from weir import context as c
    from weir.extensions.formats import FixedShapeTensorFormat

    return [
        Field("target_max_block_size", 128 * MIB, effect="largest size of a block that materialize(), iter_batches(batch_size=None) and functions without batch_size get; "
              "None: none"),
        Field("target_min_block_size", MIB, effect="materialize() puts smaller blocks together"),
        Field("streaming_read_buffer_size", 32 * MIB, reason=READER),
        Field("enable_pandas_block", True, effect="False: `from_pandas` turns frames into tables, so dtypes are Arrow's from then on and expressions compute as Arrow does"),
        Field("actor_prefetcher_enabled", False, reason="workers are given the next batches ahead, see max_tasks_in_flight_per_actor"),
        Field("autoscaling_config", Made(c.AutoscalingConfig), reason=SCHEDULER),
        Field("use_push_based_shuffle", False, effect="True: the same as shuffle_strategy = \"sort_shuffle_push_based\"", env="RAY_DATA_PUSH_BASED_SHUFFLE"),
        Field("_shuffle_strategy", c.ShuffleStrategy.SHUFFLE_V2, effect="with a strategy that sorts, aggregates of groups come in the order of their keys",
              env="RAY_DATA_DEFAULT_SHUFFLE_STRATEGY"),
        Field("pipeline_push_based_shuffle_reduce_tasks", True, reason=SHUFFLE),
        Field("default_hash_shuffle_parallelism", 200, reason=SHUFFLE),
        Field("shuffle_compression", "zstd", reason=SHUFFLE, env="RAY_DATA_SHUFFLE_COMPRESSION"),
        Field("hash_shuffle_reduce_batch_size", 16, reason=SHUFFLE, env="RAY_DATA_HASH_SHUFFLE_REDUCE_BATCH_SIZE"),
        Field("hash_shuffle_reduce_get_timeout_s", 1800.0, reason=SHUFFLE, env="RAY_DATA_HASH_SHUFFLE_REDUCE_GET_TIMEOUT_S"),
        Field("shuffle_input_batch_bytes", 1024 * MIB, reason=SHUFFLE, env="RAY_DATA_SHUFFLE_INPUT_BATCH_BYTES"),
        Field("max_hash_shuffle_aggregators", None, reason=SHUFFLE),
        Field("min_hash_shuffle_aggregator_wait_time_in_s", 300, reason=SHUFFLE, env="RAY_DATA_MIN_HASH_SHUFFLE_AGGREGATOR_WAIT_TIME_IN_S"),
        Field("hash_shuffle_aggregator_health_warning_interval_s", 30, reason=SHUFFLE,
              env="RAY_DATA_HASH_SHUFFLE_AGGREGATOR_HEALTH_WARNING_INTERVAL_S"),
        Field("max_hash_shuffle_finalization_batch_size", None, reason=SHUFFLE),
        Field("join_operator_actor_num_cpus_override", None, reason=SHUFFLE),
        Field("hash_shuffle_operator_actor_num_cpus_override", None, reason=SHUFFLE),
        Field("hash_aggregate_operator_actor_num_cpus_override", None, reason=SHUFFLE),
        Field("use_disk_based_hash_shuffle", False, reason=SHUFFLE, env="RAY_DATA_ENABLE_DISK_SHUFFLE"),
        Field("gpu_shuffle_num_actors", None, reason=SHUFFLE),
        Field("gpu_shuffle_rmm_pool_size", None, reason=SHUFFLE),
        Field("gpu_shuffle_spill_memory_limit", "auto", reason=SHUFFLE),
        Field("gpu_shuffle_setup_timeout_s", 120.0, reason=SHUFFLE),
        Field("scheduling_strategy", "SPREAD", reason=CLUSTER),
        Field("scheduling_strategy_large_args", "DEFAULT", reason=CLUSTER),
        Field("large_args_threshold", 50 * MIB, reason=CLUSTER),
        Field("use_polars", False, reason=SHUFFLE),
        Field("use_polars_sort", False, reason=SHUFFLE),
        Field("use_legacy_dataset_ids", False, reason="ids are random", env="RAY_DATA_USE_LEGACY_DATASET_IDS"),
        Field("decoding_size_estimation", True, reason=READER),
        Field("min_parallelism", 200, reason="see read_op_min_num_blocks", env="RAY_DATA_DEFAULT_MIN_PARALLELISM"),
        Field("read_op_min_num_blocks", 200, effect="the least number of blocks of a read with a Datasource; what num_blocks() returns for a Dataset that has not run"),
        Field("use_datasource_v2", True, reason=READER, env="RAY_DATA_USE_DATASOURCE_V2"),
        Field("enable_tensor_extension_casting", True, effect="False: tensors in pandas frames are TensorArray columns instead of object columns", env="RAY_DATA_ENABLE_TENSOR_EXTENSION_CASTING"),
        Field("arrow_fixed_shape_tensor_format", FixedShapeTensorFormat.V2, effect="the type of tensors that create_arrow_fixed_shape_tensor_type makes"),
        Field("use_arrow_tensor_v2", True, reason="see arrow_fixed_shape_tensor_format", env="RAY_DATA_USE_ARROW_TENSOR_V2"),
        Field("enable_fallback_to_arrow_object_ext_type", None, effect="False: values that no Arrow type can hold, from functions or `from_items`, raise an ArrowConversionError; otherwise they are kept as Python objects"),
        Field("enable_auto_log_stats", False, effect="stats() of every run is logged at its end"),
        Field("verbose_stats_logs", False, reason="stats() is always complete"),
        Field("accurate_map_phase_timing", False, reason=ALWAYS),
        Field("per_stage_map_timing", False, reason="stats() has times for each operator"),
        Field("trace_allocations", False, reason="memory is accounted for by the engine", env="RAY_DATA_TRACE_ALLOCATIONS"),
        Field("execution_options", Made(c.ExecutionOptions), effect="see below"),
        Field("use_ray_tqdm", True, reason=DRAWN, env="RAY_TQDM"),
        Field("enable_progress_bars", True, effect="a run that takes longer than half a second shows its progress on a terminal or in a notebook", env="RAY_DATA_DISABLE_PROGRESS_BARS"),
        Field("enable_operator_progress_bars", True, effect="progress has a line for each operator, not just one for all"),
        Field("enable_progress_bar_name_truncation", True, effect="long names of operators are shortened in progress lines", env="RAY_DATA_ENABLE_PROGRESS_BAR_NAME_TRUNCATION"),
        Field("enable_rich_progress_bars", False, reason=DRAWN, env="RAY_DATA_ENABLE_RICH_PROGRESS_BARS"),
        Field("enable_get_object_locations_for_metrics", False, reason=CLUSTER),
        Field("write_file_retry_on_errors", AWS_ERRORS, reason="see retried_io_errors"),
        Field("warn_on_driver_memory_usage_bytes", 2048 * MIB, reason="no data goes through the program's own memory"),
        Field("actor_task_retry_on_errors", False, effect="calls of a class are tried again after an error: after any, or after those in the list"),
        Field("actor_init_retry_on_errors", False, effect="constructors are tried again after an error"),
        Field("actor_init_max_retries", 3, effect="how often actor_init_retry_on_errors tries again"),
        Field("max_consecutive_actor_init_deaths", 0, reason="a constructor that ends its process ends the run", env="RAY_DATA_MAX_CONSECUTIVE_ACTOR_INIT_DEATHS"),
        Field("retried_map_errors", False, effect="functions, also generators and async ones, are called again after an error: after any, or after those whose `Class: message` contains a text, or matches a regular expression, of the list"),
        Field("max_map_retries", 0, effect="how often retried_map_errors tries again, with random pauses of up to 2 s, 4 s and so on in between"),
        Field("op_resource_reservation_enabled", True, reason=SCHEDULER, env="RAY_DATA_ENABLE_OP_RESOURCE_RESERVATION"),
        Field("op_resource_reservation_ratio", 0.5, reason=SCHEDULER, env="RAY_DATA_OP_RESERVATION_RATIO"),
        Field("output_backpressure_guard_release_interval_s", None, reason=SCHEDULER, env="RAY_DATA_OUTPUT_BACKPRESSURE_GUARD_RELEASE_INTERVAL_S"),
        Field("max_errored_blocks", 0, effect="how many tasks may fail; their rows are left out. −1: any number"),
        Field("execution_no_progress_timeout_s", 1800, effect="a run whose functions return nothing for so many seconds raises ExecutionTimeoutError; ≤ 0 or None: never",
              env="RAY_DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S"),
        Field("log_internal_stack_trace", False, effect="under compat the logger ray.data gets the whole stack of a function's error",
              env="RAY_DATA_LOG_INTERNAL_STACK_TRACE"),
        Field("raise_original_map_exception", False, effect="an error of a function is raised without UserCodeException among its classes",
              env="RAY_DATA_RAISE_ORIGINAL_MAP_EXCEPTION"),
        Field("print_on_execution_start", True, reason="weir prints nothing"),
        Field("s3_try_create_dir", False, reason="files are written to this machine"),
        Field("wait_for_min_actors_s", -1, effect="a run begins as soon as the first worker of a class is ready; if none is after so many seconds, it raises a GetTimeoutError", env="RAY_DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S"),
        Field("max_tasks_in_flight_per_actor", None, effect="how many batches a worker of a class is given in advance"),
        Field("retried_io_errors", Made(lambda: [*AWS_ERRORS, "AWS Error SERVICE_UNAVAILABLE"]),
              effect="reads and writes of Datasources and Datasinks are tried again after an error that contains such a text"),
        Field("lance_config", Made(c.LanceConfig), reason=CONNECTOR),
        Field("iceberg_config", Made(c.IcebergConfig), reason=CONNECTOR),
        Field("delta_config", Made(c.DeltaConfig), reason=CONNECTOR),
        Field("enable_per_node_metrics", False, reason=CLUSTER, env="RAY_DATA_PER_NODE_METRICS"),
        Field("enable_stats_summary_collection", False, effect="list_stats_summaries() returns the figures of every run that has ended", env="RAY_DATA_ENABLE_STATS_SUMMARY_COLLECTION"),
        Field("override_object_store_memory_limit_fraction", None, reason="the limit is weir.init(memory_limit=…)"),
        Field("memory_usage_poll_interval_s", 1, reason=SCHEDULER),
        Field("dataset_logger_id", None, reason=LOGS),
        Field("issue_detectors_config", Made(c.IssueDetectorsConfiguration), reason=SCHEDULER),
        Field("isolate_read_workers", False, reason="files are read by the engine, in no worker", env="RAY_DATA_ISOLATE_READ_WORKERS"),
        Field("downstream_capacity_backpressure_ratio", 2.0, reason=SCHEDULER, env="RAY_DATA_DOWNSTREAM_CAPACITY_BACKPRESSURE_RATIO"),
        Field("enable_dynamic_output_queue_size_backpressure", False, reason=SCHEDULER, env="RAY_DATA_ENABLE_DYNAMIC_OUTPUT_QUEUE_SIZE_BACKPRESSURE"),
        Field("enable_lineage_reconstruction_resource_accounting", True, reason=CLUSTER,
              env="RAY_DATA_ENABLE_LINEAGE_RECONSTRUCTION_RESOURCE_ACCOUNTING"),
        Field("enforce_schemas", False, effect="True: a run whose rows come to the program, or are kept, ends with an ArrowTypeError if the type of a column in one block cannot be merged with that in earlier blocks (int64 and string, say); what one function hands to the next is not checked", env="RAY_DATA_ENFORCE_SCHEMAS"),
        Field("pandas_block_ignore_metadata", False, effect="True: what pandas noted about an Arrow table's index and dtypes is ignored", env="RAY_DATA_PANDAS_BLOCK_IGNORE_METADATA"),
        Field("enable_arrow_backed_pandas_conversion", True, effect="DataFrames have pandas' Arrow types; False: NumPy's",
              env="RAY_DATA_ENABLE_ARROW_BACKED_PANDAS_CONVERSION"),
        Field("batch_to_block_arrow_format", True, reason=ALWAYS, env="RAY_DATA_DEFAULT_BATCH_TO_BLOCK_ARROW_FORMAT"),
        Field("_checkpoint_config", None, effect="writes that were interrupted resume where they were: docs/extending.md"),
        Field("custom_execution_callback_classes", Made(list), effect="objects of these classes are called when a run begins, has ended or has failed"),
        Field("default_map_logical_memory_enabled", False, reason="what functions need is measured", env="RAY_DATA_DEFAULT_MAP_LOGICAL_MEMORY_ENABLED"),
        Field("_enable_ray_data_reconstruction", None, reason=CLUSTER),
        Field("object_store_reservation_overshoot_ratio", None, reason=SCHEDULER, env="RAY_DATA_OBJECT_STORE_RESERVATION_OVERSHOOT_RATIO"),
        Field("object_store_memory_pressure_fraction", None, reason=SCHEDULER, env="RAY_DATA_OBJECT_STORE_MEMORY_PRESSURE_FRACTION"),
    ]


def old_fields() -> list[Field]:
    """Those of older versions of Ray Data that scripts still set."""
    return [
        Field("block_splitting_enabled", True, effect="False: blocks may be larger than target_max_block_size"),
        Field("target_shuffle_max_block_size", 1024 * MIB, effect="largest size of a block after sort, random_shuffle, groupby and join, if that is less than target_max_block_size"),
        Field("optimize_fuse_stages", True, effect="False: stats() and explain() show every step as a separate operator"),
        Field("optimize_fuse_read_stages", True, effect="the same for reads and the step after them"),
        Field("optimize_fuse_shuffle_stages", True, reason=SHUFFLE),
        Field("optimize_reorder_stages", True, reason="plans are always optimised"),
        Field("optimizer_enabled", True, reason="plans are always optimised"),
        Field("eager_free", False, reason="memory is given back as soon as nobody has it"),
        Field("use_streaming_executor", True, reason=ALWAYS),
        Field("new_execution_backend", True, reason=ALWAYS),
        Field("strict_mode", True, reason=ALWAYS),
        Field("use_ray_data_streaming_executor", True, reason=ALWAYS),
        Field("enable_tensor_extension_serialization", True, reason=ALWAYS),
        Field("batch_format", "default", reason="map_batches and iter_batches have it as an argument"),
    ]
