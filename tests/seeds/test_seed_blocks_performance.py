"""The examples of "Performance & Troubleshooting" and of the "Performance Optimization Guide", as printed."""
import re

import pytest


def test_out_of_memory_prevention(run):
    run('''
import ray

ctx = ray.data.DataContext.get_current()

# Block size bounds (defaults are usually fine)
ctx.target_min_block_size = 1 * 1024 * 1024       # 1 MiB
ctx.target_max_block_size = 128 * 1024 * 1024      # 128 MiB

# Shuffle block size (larger to avoid tiny blocks)
ctx.target_shuffle_max_block_size = 1024 * 1024 * 1024  # 1 GiB
    ''', before="import ray; before = ray.data.DataContext.get_current().copy()", after='''
    made = ray.data.range(3).context
    assert (made.target_min_block_size, made.target_max_block_size, made.target_shuffle_max_block_size) == (1 << 20, 128 << 20, 1 << 30)
    assert (before.target_min_block_size, before.target_max_block_size) == (1 << 20, 128 << 20)  # the defaults
    ''')


def test_operator_fusion(run):
    run('''
# These three operations execute as ONE task per block:
ds = ray.data.read_parquet(path)
ds = ds.map_batches(tokenize)
ds = ds.map_batches(normalize)
    ''', before='''
    import ray
    def tokenize(batch):
        return {"n": [len(text.split()) for text in batch["text"]]}
    def normalize(batch):
        return {"n": batch["n"] / 2}
    ''', after='''
    assert "ReadParquet->MapBatches(tokenize)->MapBatches(normalize)" in ds.execution_plan()
    kept = ds.materialize()
    assert "Operator 1 ReadParquet->MapBatches(tokenize)->MapBatches(normalize): " in kept.stats() and "Operator 2" not in kept.stats()
    assert kept.sum("n") == 400
    ''')


def test_actor_pool_strategy(run):
    run('''
# Fixed pool
compute=ray.data.ActorPoolStrategy(size=4)

# Autoscaling pool
compute=ray.data.ActorPoolStrategy(min_size=1, max_size=8)
    ''', before="import ray", after='''
    assert (compute.min_size, compute.max_size) == (1, 8)
    class Model:
        def __call__(self, batch):
            return batch
    assert ray.data.range(100).map_batches(Model, compute=compute, batch_size=10).count() == 100
    assert ray.data.range(100).map_batches(lambda batch: batch, compute=compute).count() == 100
    ''')


def test_batch_sizes(run):
    run('''
# Small batch_size = more overhead, less memory
# Large batch_size = less overhead, more memory, better GPU utilization
ds.map_batches(fn, batch_size=64)   # good for GPU inference
ds.map_batches(fn, batch_size=4096) # good for simple numpy ops
    ''', before='''
    import ray
    ds = ray.data.range(10000, override_num_blocks=1)
    fn = lambda batch: {"n": [len(batch["id"])]}
    ''', after='''
    assert max(row["n"] for row in ds.map_batches(fn, batch_size=64).take_all()) == 64
    assert max(row["n"] for row in ds.map_batches(fn, batch_size=4096).take_all()) == 4096
    ''')


def test_parquet_best_practices(run):
    run('''
# Column pruning (projection pushdown) — only read what you need
ds = ray.data.read_parquet(path, columns=["text", "label"])

# Row filtering (predicate pushdown)
ds = ray.data.read_parquet(path, filter=pyarrow.compute.field("year") >= 2024)

# More IO parallelism for network-bound reads
ds = ray.data.read_parquet(path, ray_remote_args={"num_cpus": 0.25})
    ''', before="import ray, pyarrow.compute", after='''
    assert ray.data.read_parquet(path, columns=["text", "label"]).columns() == ["text", "label"]
    assert {row["year"] for row in ray.data.read_parquet(path, filter=pyarrow.compute.field("year") >= 2024).take_all()} == {2024, 2025, 2026, 2027}
    assert ds.count() == 400
    ''')


def test_reading_images(run, inputs):
    Image = pytest.importorskip("PIL.Image")
    (inputs / "images").mkdir(exist_ok=True)
    for i, size in enumerate([(10, 20), (300, 300), (5, 5)]):
        Image.new("RGBA" if i else "RGB", size, (i, 2, 3)).save(inputs / "images" / f"{i}.png")
    run('''
# Read images as numpy arrays
ds = ray.data.read_images("s3://bucket/images/", mode="RGB", size=(224, 224))

# With include_paths for metadata
ds = ray.data.read_images(path, include_paths=True)
# Schema: {image: numpy.ndarray, path: string}
    ''', before='''
    import ray
    path = inputs + "/images"
    ''', after='''
    batch = ray.data.read_images("s3://bucket/images/", mode="RGB", size=(224, 224)).take_batch()
    assert batch["image"].shape == (3, 224, 224, 3) and batch["image"].dtype == "uint8"
    assert ds.columns() == ["image", "path"]
    shapes = {row["path"].rpartition("/")[2]: row["image"].shape for row in ds.take_all()}
    assert shapes == {"0.png": (20, 10, 3), "1.png": (300, 300, 4), "2.png": (5, 5, 4)}
    ''')


GPU_PIPELINE = '''
# 1. Read on CPU (many cheap workers)
ds = ray.data.read_parquet(path, ray_remote_args={"num_cpus": 0.25})

# 2. CPU preprocessing (fused with read if possible)
ds = ds.map_batches(preprocess_fn, batch_size=256)

# 3. GPU inference (few expensive workers)
ds = ds.map_batches(
    GPUModel,
    num_gpus=1,
    batch_size=32,
    compute=ray.data.ActorPoolStrategy(size=4),
)

# 4. Write output
ds.write_parquet("s3://bucket/results/")
'''


@pytest.mark.parametrize("cpus", [8, 1])
def test_gpu_pipeline(run, cpus):
    """On Ray it hangs where actors hold all CPUs; with one CPU it must move, too."""
    run(GPU_PIPELINE, before=f'''
    import ray
    ray.init(num_cpus={cpus}, num_gpus=4)
    ''' + '''
    preprocess_fn = lambda batch: {"id": batch["id"], "x": batch["amount"] * 2}
    class GPUModel:
        def __init__(self):
            import os
            self.device = int(os.environ["CUDA_VISIBLE_DEVICES"])
        def __call__(self, batch):
            assert len(batch["x"]) <= 32
            return {"id": batch["id"], "y": batch["x"] + 1}
    ''', after='''
    found = ray.data.read_parquet(out)
    assert found.count() == 400 and found.sum("y") == 2 * sum(range(400)) + 400
    plan = ds.execution_plan()
    assert "TaskPoolMapOperator[MapBatches(<lambda>)]" in plan and "ActorPoolMapOperator[MapBatches(GPUModel)]" in plan  # CPU → GPU breaks fusion
    ''')


def test_execution_stats(run):
    out = run('''
# Materialize and print detailed stats
materialized = ds.materialize()
print(materialized.stats())
    ''', before='''
    import ray
    ds = ray.data.read_parquet(path).map_batches(lambda batch: batch)
    ''')
    assert re.search(r"Operator 1 ReadParquet->MapBatches\(<lambda>\): \d+ tasks executed, \d+ blocks produced in [\d.]+s", out)
    assert "rows/s" in out


def test_batch_formats(run):
    run('''
# Specify the format you want
ds.map_batches(fn, batch_format="pandas")   # pandas DataFrame
ds.map_batches(fn, batch_format="numpy")    # Dict[str, np.ndarray]
ds.iter_torch_batches(batch_size=64)        # Dict[str, torch.Tensor]
    ''', before='''
    import ray
    ds = ray.data.range(100)
    fn = lambda batch: {"kind": [type(batch).__name__]}
    ''', after='''
    assert ds.map_batches(fn, batch_format="pandas").take(1) == [{"kind": "DataFrame"}]
    assert ds.map_batches(fn, batch_format="numpy").take(1) == [{"kind": "dict"}]
    batches = list(ds.iter_torch_batches(batch_size=64))
    assert [len(b["id"]) for b in batches] == [64, 36] and type(batches[0]["id"]).__name__ == "Tensor"
    ''')


# ---- the guide ----


def test_optimize_block_sizes(run):
    run('''
    import ray
    from ray.data.context import DataContext

    def optimize_block_sizes():
        """Optimize block sizes for different workloads."""

        ctx = DataContext.get_current()

        # For large analytical workloads
        ctx.target_max_block_size = 256 * 1024 * 1024  # 256MB

        # For memory-constrained environments
        ctx.target_max_block_size = 32 * 1024 * 1024   # 32MB

        # For GPU workloads
        ctx.target_max_block_size = 64 * 1024 * 1024   # 64MB
    ''', after='''
    optimize_block_sizes()
    assert ray.data.range(3).context.target_max_block_size == 64 << 20
    ''')


def test_memory_pressure(run):
    run('''
    def handle_memory_pressure():
        """Handle memory pressure in large workloads."""

        # Use streaming execution
        large_dataset = ray.data.read_parquet("s3://large-data/")

        # Process without materializing
        result = large_dataset \\
            .filter(lambda row: row["amount"] > 100) \\
            .map_batches(transform_function) \\
            .write_parquet("s3://output/")

        return result
    ''', before='''
    import ray
    transform_function = lambda batch: {"x": batch["amount"]}
    ''', after='''
    assert handle_memory_pressure() is None
    assert ray.data.read_parquet(out).count() == 299
    ''')


def test_resource_allocation(run):
    run('''
    def optimize_resource_allocation():
        """Optimize CPU and GPU resource allocation."""

        # CPU-intensive operations
        cpu_result = dataset.map_batches(
            cpu_processing,
            num_cpus=2,
            num_gpus=0
        )

        # GPU-intensive operations
        gpu_result = dataset.map_batches(
            gpu_processing,
            num_cpus=1,
            num_gpus=1,
            compute=ray.data.ActorPoolStrategy(size=4)
        )

    ''', before='''
    import ray
    ray.init(num_cpus=8, num_gpus=4)
    dataset = ray.data.range(100)
    cpu_processing = lambda batch: {"n": [len(batch["id"])]}
    gpu_processing = cpu_processing
    ''', after='''
    optimize_resource_allocation()
    # num_gpus without batch_size, and a function with an ActorPoolStrategy.
    assert sum(r["n"] for r in dataset.map_batches(gpu_processing, num_cpus=1, num_gpus=1, compute=ray.data.ActorPoolStrategy(size=4)).take_all()) == 100
    assert sum(r["n"] for r in dataset.map_batches(cpu_processing, num_cpus=2, num_gpus=0).take_all()) == 100
    ''')


def test_profiler(run):
    pytest.importorskip("psutil")
    run('''
    import time
    import psutil

    class PerformanceProfiler:
        """Profile Ray Data pipeline performance."""

        def profile_operation(self, batch, operation_func):
            """Profile individual operations."""

            start_time = time.time()
            start_memory = psutil.virtual_memory().used

            result = operation_func(batch)

            end_time = time.time()
            end_memory = psutil.virtual_memory().used

            metrics = {
                'duration': end_time - start_time,
                'memory_delta': (end_memory - start_memory) / (1024 * 1024),
                'throughput': len(batch) / (end_time - start_time)
            }

            return result, metrics
    ''', after='''
    import ray
    def measured(batch):
        result, metrics = PerformanceProfiler().profile_operation(batch, lambda b: {"x": b["id"] * 2})
        return {"x": result["x"], "seconds": [metrics["duration"]] * len(result["x"])}
    rows = ray.data.range(10).map_batches(measured).take_all()
    assert [row["x"] for row in rows] == list(range(0, 20, 2)) and all(row["seconds"] > 0 for row in rows)
    ''')


def test_cloud_costs(run):
    run('''
    def optimize_cloud_costs():
        """Optimize costs for cloud deployments."""

        # Use spot instances for fault-tolerant workloads
        def spot_instance_processing():
            try:
                result = dataset.map_batches(processing_func)
                return result
            except ray.exceptions.WorkerCrashedError:
                # Retry on spot interruption
                return dataset.map_batches(processing_func)

        # Optimize instance types
        def select_optimal_instances(workload_type):
            if workload_type == 'cpu_intensive':
                return {'instance_type': 'c5.4xlarge', 'cpu_cores': 16}
            elif workload_type == 'memory_intensive':
                return {'instance_type': 'r5.2xlarge', 'memory_gb': 64}
            elif workload_type == 'gpu_required':
                return {'instance_type': 'p3.2xlarge', 'gpus': 1}
    ''', before='''
    import os, ray
    dataset = ray.data.range(10)
    processing_func = lambda batch: os._exit(1)
    ''', after='''
    optimize_cloud_costs()
    # The error of that name is what a worker's death raises.
    try:
        dataset.map_batches(processing_func).take_all()
    except ray.exceptions.WorkerCrashedError as error:
        assert isinstance(error, ray.exceptions.RayError)
    else:
        raise AssertionError
    ''')
