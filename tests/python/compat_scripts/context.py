import ray, copy
from ray.data import DataContext, ExecutionOptions, ExecutionResources
from ray.data.context import DatasetContext
ctx = DataContext.get_current()
print(ctx.target_max_block_size, ctx.target_min_block_size, DatasetContext is DataContext)
ctx.execution_options.verbose_progress = False
ctx.execution_options.preserve_order = True
ctx.enable_progress_bars = False
ctx.execution_options.resource_limits = ExecutionResources(cpu=2)
print(ctx.execution_options.resource_limits, ctx.execution_options.exclude_resources.cpu)
opts = ExecutionOptions(preserve_order=True, resource_limits=ExecutionResources(cpu=1, object_store_memory=1e9))
print(opts)
ctx.set_config("k", {"a": 1}); print(ctx.get_config("k"), ctx.get_config("z", 3)); ctx.remove_config("k"); print(ctx.get_config("k"))
ds = ray.data.range(20, override_num_blocks=4).map(lambda r: r)
print([r["id"] for r in ds.take_all()] == list(range(20)))
ctx.max_errored_blocks = 2
print(ds.context.max_errored_blocks, ray.data.range(1).context.max_errored_blocks)
def seen(r):
    from ray.data import DataContext
    return {"v": DataContext.get_current().max_errored_blocks}
print(ray.data.range(1).map(seen).take_all(), ds.map(seen).take(1))
c2 = copy.deepcopy(ctx); c2.max_errored_blocks = 9; print(ctx.max_errored_blocks)
ctx.target_max_block_size = 1024 * 1024
print(6 <= ray.data.range(1_000_000).materialize().num_blocks())
print("Operator" in ray.data.range(10).map(lambda r: r).materialize().stats())
from ray.data._internal.execution.interfaces import ExecutionOptions as EO
print(EO is ExecutionOptions)
from ray.data import ActorPoolStrategy, TaskPoolStrategy
print(ActorPoolStrategy(size=2).min_size, TaskPoolStrategy(3).size)
