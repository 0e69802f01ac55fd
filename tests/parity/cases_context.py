"""DataContext and what it changes; pools; enumerations."""
from parity import case, sub


@case("target_max_block_size", "target_min_block_size", "max_errored_blocks", "read_op_min_num_blocks", "use_push_based_shuffle",
      "actor_task_retry_on_errors", "retried_io_errors", "execution_no_progress_timeout_s", "op_resource_reservation_ratio",
      "verbose_stats_logs", "log_internal_stack_trace", "enable_tensor_extension_casting", "shuffle_strategy", "wait_for_min_actors_s")
def default(data, at, name):
    return getattr(data.DataContext(), name)


@case()
def a_dataset_keeps_its_context(data, at):
    ctx = data.DataContext.get_current()
    ctx.max_errored_blocks = 3
    ds = data.range(3)
    ctx.max_errored_blocks = 5
    return [ds.context.max_errored_blocks, ds.map(lambda r: r).context.max_errored_blocks, data.range(3).context.max_errored_blocks]


@case()
def workers_see_the_context(data, at):
    ctx = data.DataContext.get_current()
    ctx.max_errored_blocks = 7
    name = data.__name__

    def fn(row):
        import importlib

        return {"x": importlib.import_module(name).DataContext.get_current().max_errored_blocks}

    return data.range(1).map(fn).take_all()


@case()
def scoped(data, at):
    ctx = data.DataContext.get_current()
    other = ctx.copy()
    other.max_errored_blocks = 9
    with data.DataContext.current(other):
        inside = data.DataContext.get_current().max_errored_blocks
    return [inside, data.DataContext.get_current().max_errored_blocks]


@case()
def configs(data, at):
    ctx = data.DataContext.get_current()
    ctx.set_config("mine", 5)
    found = [ctx.get_config("mine"), ctx.get_config("other"), ctx.get_config("other", 1)]
    ctx.remove_config("mine")
    return [*found, ctx.get_config("mine")]


@case()
def unknown_names_are_kept(data, at):
    ctx = data.DataContext.get_current()
    ctx.something_of_old = 5
    return [ctx.something_of_old, data.range(1).context.something_of_old]


@case()
def dataset_context_is_the_same(data, at):
    return sub(data, "context").DatasetContext is data.DataContext


@case()
def errored_blocks(data, at):
    data.DataContext.get_current().max_errored_blocks = 1
    return data.range(10, override_num_blocks=5).map_batches(lambda b: b if b["id"][0] != 4 else 1 / 0).count()


@case()
def too_many_errored_blocks(data, at):
    data.DataContext.get_current().max_errored_blocks = 1
    return data.range(10, override_num_blocks=5).map_batches(lambda b: 1 / 0).count()


@case()
def numpy_backed_pandas(data, at):
    data.DataContext.get_current().enable_arrow_backed_pandas_conversion = False
    return data.from_items([{"a": 1, "s": "x"}]).to_pandas()


@case()
def raise_original(data, at):
    data.DataContext.get_current().raise_original_map_exception = True
    return data.range(1).map(lambda r: {"x": 1 // 0}).take_all()


@case("size=2", "min_size=1, max_size=3", "min_size=2", "min_size=1, max_size=4, initial_size=2", "", "size=0", "min_size=3, max_size=2",
      "size=2, min_size=1", "min_size=0", "min_size=1, max_size=3, initial_size=5", "max_tasks_in_flight_per_actor=0")
def actor_pools(data, at, text):
    pool = eval(f"pool({text})", {"pool": data.ActorPoolStrategy})
    return [pool.min_size, pool.max_size, pool.initial_size]


@case("", "size=3", "size=0")
def task_pools(data, at, text):
    return eval(f"pool({text})", {"pool": data.TaskPoolStrategy}).size


@case()
def pools_are_equal(data, at):
    return [data.ActorPoolStrategy(size=2) == data.ActorPoolStrategy(min_size=2, max_size=2), data.TaskPoolStrategy(2) == data.TaskPoolStrategy(3)]


@case("compute=data.ActorPoolStrategy(size=1)", "concurrency=1", "concurrency=(1, 2)", "num_cpus=0.5", "", "concurrency=0", "concurrency='a'",
      "concurrency=1, compute=data.ActorPoolStrategy(size=1)", "compute=data.TaskPoolStrategy(size=1)", "memory=10**7")
def how_a_class_runs(data, at, text):
    class Same:
        def __call__(self, batch):
            return batch

    options = eval(f"dict({text})", {"data": data})
    return data.range(4).map_batches(Same, **options).count()


@case("compute=data.TaskPoolStrategy(size=1)", "concurrency=1", "num_cpus=1", "concurrency=(1, 2)", "concurrency=-1", "nonsense=1", "num_cpus=-1")
def how_a_function_runs(data, at, text):
    options = eval(f"dict({text})", {"data": data})
    return data.range(4).map_batches(lambda b: b, **options).count()


@case()
def execution_options(data, at):
    options = data.ExecutionOptions()
    return [options.preserve_order, options.verbose_progress, options.locality_with_output if hasattr(options, "locality_with_output") else False,
            str(options.resource_limits), data.ExecutionOptions(preserve_order=True).preserve_order]


@case()
def execution_resources(data, at):
    made = data.ExecutionResources(cpu=2, object_store_memory=1 << 30)
    return [made.cpu, made.gpu, made.object_store_memory, str(made), made == data.ExecutionResources(cpu=2, object_store_memory=1 << 30)]


@case("SaveMode", "MixStoppingCondition")
def enumerations(data, at, name):
    found = getattr(data, name, None) or getattr(sub(data, "dataset"), name)
    return sorted(m.name for m in found)


@case()
def shuffle_strategies(data, at):
    return sorted(m.name for m in sub(data, "context").ShuffleStrategy)


@case("DEFAULT_TARGET_MAX_BLOCK_SIZE", "DEFAULT_READ_OP_MIN_NUM_BLOCKS", "DEFAULT_MAX_ERRORED_BLOCKS")
def constants(data, at, name):
    return getattr(sub(data, "context"), name)


@case((1, 4), (30, 0))
def classes_that_start_late(data, at, seconds, needed):
    """wait_for_min_actors_s: how long workers of a class may need to start."""
    import time

    class Slow:
        def __init__(self):
            time.sleep(needed)

        def __call__(self, batch):
            return batch

    data.DataContext.get_current().wait_for_min_actors_s = seconds
    return data.range(4, override_num_blocks=1).map(lambda row: {"a": row["id"]}).map_batches(Slow, concurrency=1, batch_size=2).take_all()


@case("target_max_block_size", "target_min_block_size", "use_polars_sort", "max_errored_blocks", "execution_options", "read_op_min_num_blocks",
      "issue_detectors_config", "scheduling_strategy", "no_such_field")
def defaults_of_the_class(data, at, name):
    return getattr(data.DataContext, name, "none")


@case()
def configurations_are_dataclasses(data, at):
    import dataclasses

    context = data.DataContext.get_current()
    changed = dataclasses.replace(context.autoscaling_config, actor_pool_max_upscaling_delta=3)
    return [dataclasses.asdict(changed), dataclasses.asdict(data.FileShuffleConfig(seed=3)), data.FileShuffleConfig.reseed_after_execution]
