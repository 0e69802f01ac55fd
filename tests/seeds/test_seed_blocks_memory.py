"""The examples of "Memory Optimization: Blocks, Backpressure & Configuration", as printed."""
import ast

import pytest


def test_expected_heap_memory(run):
    out = run('''
    from ray.data.context import DataContext
    import ray

    # Check current memory configuration
    ctx = DataContext.get_current()
    cluster_cpus = int(ray.cluster_resources()["CPU"])

    expected_memory_mb = (cluster_cpus * ctx.target_max_block_size) / (1024 * 1024)
    print(f"Expected heap memory usage: {expected_memory_mb:.1f} MB")
    print(f"Max block size: {ctx.target_max_block_size / (1024*1024):.1f} MB")
    ''', before="import ray; ray.init(num_cpus=6)")
    assert out == "Expected heap memory usage: 768.0 MB\nMax block size: 128.0 MB\n"


def test_configure_for_workload(run):
    out = run('''
    from ray.data.context import DataContext

    def configure_for_workload(workload_type):
        """Configure optimal block sizes based on workload characteristics."""
        ctx = DataContext.get_current()

        if workload_type == "etl_processing":
            # ETL workloads benefit from balanced block sizes
            ctx.target_max_block_size = 256 * 1024 * 1024  # 256 MB
            ctx.target_min_block_size = 64 * 1024 * 1024   # 64 MB
            return "ETL optimized: 256MB max, 64MB min"

        elif workload_type == "image_processing":
            # Image processing needs GPU memory optimization
            ctx.target_max_block_size = 128 * 1024 * 1024  # 128 MB
            ctx.target_min_block_size = 32 * 1024 * 1024   # 32 MB
            return "Image optimized: 128MB max, 32MB min"

        elif workload_type == "large_analytics":
            # Analytics benefits from larger blocks for vectorization
            ctx.target_max_block_size = 512 * 1024 * 1024  # 512 MB
            ctx.target_min_block_size = 128 * 1024 * 1024  # 128 MB
            return "Analytics optimized: 512MB max, 128MB min"

        elif workload_type == "memory_constrained":
            # Memory-constrained environments need smaller blocks
            ctx.target_max_block_size = 64 * 1024 * 1024   # 64 MB
            ctx.target_min_block_size = 16 * 1024 * 1024   # 16 MB
            return "Memory optimized: 64MB max, 16MB min"
    ''', after='''
    import ray
    for kind, most, least in (("etl_processing", 256, 64), ("image_processing", 128, 32), ("large_analytics", 512, 128), ("memory_constrained", 64, 16)):
        print(configure_for_workload(kind))
        ctx = ray.data.range(1).context
        assert (ctx.target_max_block_size, ctx.target_min_block_size) == (most << 20, least << 20)
    ''')
    assert out.splitlines()[0] == "ETL optimized: 256MB max, 64MB min" and len(out.splitlines()) == 4


BALANCED = '''
    # Balanced resource allocation to prevent backpressure
    def configure_balanced_pipeline():
        """Configure pipeline to prevent backpressure through balanced resources."""

        # Load data with appropriate parallelization
        ds = ray.data.read_parquet(
            "s3://large-data/",
            override_num_blocks=32  # Match downstream processing capacity
        )

        # Configure transforms with balanced resource allocation
        processed = ds.map_batches(
            cpu_intensive_transform,
            concurrency=8,    # Limit concurrency to prevent resource exhaustion
            num_cpus=2,       # Allocate sufficient CPU per task
            batch_size=1000   # Balance memory usage and throughput
        ).map_batches(
            gpu_intensive_transform,
            concurrency=4,    # Fewer GPU tasks due to resource constraints
            num_gpus=1,       # One GPU per task
            batch_size=32     # Smaller batches for GPU memory
        )

        return processed
'''


def test_balanced_pipeline(run):
    run(BALANCED, before='''
    import ray
    ray.init(num_cpus=16, num_gpus=4)
    cpu_intensive_transform = lambda batch: {"x": batch["id"] * 2}
    def gpu_intensive_transform(batch):
        import os
        assert len(batch["x"]) <= 32 and os.environ["CUDA_VISIBLE_DEVICES"] in "0123"
        return {"y": batch["x"] + 1}
    ''', after='''
    rows = configure_balanced_pipeline().take_all()
    assert sorted(row["y"] for row in rows) == [2 * i + 1 for i in range(400)]
    ''')


def test_prevent_cpu_backpressure(run):
    run('''
    # Problem: CPU-intensive operations causing backpressure
    def prevent_cpu_backpressure():
        """Prevent CPU backpressure through proper resource allocation."""

        # Check available CPU resources
        available_cpus = int(ray.cluster_resources()["CPU"])

        # Configure CPU-intensive operations
        cpu_optimized = ds.map_batches(
            cpu_heavy_function,
            num_cpus=2,                           # Allocate sufficient CPU
            concurrency=available_cpus // 2,      # Don't oversubscribe CPUs
            batch_size=500                        # Balance memory and CPU usage
        )

        return cpu_optimized
    ''', before='''
    import ray
    ray.init(num_cpus=4)
    ds = ray.data.range(2000)
    cpu_heavy_function = lambda batch: {"n": [len(batch["id"])]}
    ''', after='''
    assert [row["n"] for row in prevent_cpu_backpressure().take_all()] == [500] * 4
    ''')


def test_prevent_gpu_backpressure(run):
    run('''
    # Problem: GPU operations causing memory pressure and stalls
    def prevent_gpu_backpressure():
        """Prevent GPU backpressure through memory-aware configuration."""

        # Check available GPU resources and memory
        available_gpus = int(ray.cluster_resources().get("GPU", 0))

        # Configure GPU operations with memory awareness
        gpu_optimized = ds.map_batches(
            gpu_intensive_function,
            num_gpus=1,                          # One GPU per actor
            concurrency=available_gpus,          # Match available GPUs
            batch_size=32,                       # Conservative for GPU memory
            memory=4*1024*1024*1024             # Reserve 4GB heap per actor
        )

        return gpu_optimized
    ''', before='''
    import ray
    ray.init(num_gpus=2, _memory=16 << 30)
    ds = ray.data.range(100)
    class gpu_intensive_function:
        def __call__(self, batch):
            return {"n": [len(batch["id"])]}
    ''', after='''
    assert sorted(row["n"] for row in prevent_gpu_backpressure().take_all()) == [4, 32, 32, 32]
    ''')


def test_fusion_friendly(run):
    out = run('''
    # Fusion-friendly: Compatible operations that can be combined
    fused_pipeline = ds \\
        .map(simple_transform) \\
        .filter(lambda row: row["value"] > 0) \\
        .map(another_simple_transform)  # These operations can be fused

    # Check execution plan to see fusion
    print(fused_pipeline.execution_plan())
    ''', before='''
    import ray
    ds = ray.data.read_parquet(path)
    simple_transform = lambda row: {"value": row["value"]}
    another_simple_transform = lambda row: {"double": row["value"] * 2}
    ''', after='''
    assert min(row["double"] for row in fused_pipeline.take_all()) == 2
    ''')
    assert "ReadParquet->Map(<lambda>)->Filter(<lambda>)->Map(<lambda>)" in out


BROKEN = '''
    # Fusion-breaking: Operations that prevent fusion
    broken_fusion = ds \\
        .map_batches(transform_1) \\
        .repartition(10) \\    # Repartition breaks fusion
        .map_batches(transform_2)  # Separate execution stage

    # Fusion-optimized: Combine operations when possible
    optimized_fusion = ds.map_batches(
        lambda batch: transform_2(transform_1(batch)),  # Combined in single stage
        batch_size=1000
    )
'''


def test_fusion_breaks(run):
    import textwrap

    with pytest.raises(SyntaxError):  # as printed: a comment stands behind a backslash
        ast.parse(textwrap.dedent(BROKEN))
    out = run(BROKEN.replace("    # Repartition breaks fusion", ""), before='''
    import ray
    ds = ray.data.read_parquet(path)
    transform_1 = lambda batch: {"x": batch["id"] + 1}
    transform_2 = lambda batch: {"x": batch["x"] * 2}
    ''', after='''
    plan = broken_fusion.execution_plan()
    print(plan)
    assert "MapBatches(<lambda>)->" not in plan.rpartition("Physical Plan (Optimized)")[2].replace("ReadParquet->MapBatches", "")
    kept = broken_fusion.materialize()
    assert kept.num_blocks() == 10
    key = lambda row: row["x"]
    assert sorted(kept.take_all(), key=key) == sorted(optimized_fusion.take_all(), key=key)
    optimized = optimized_fusion.execution_plan().rpartition("Physical Plan (Optimized)")[2]
    assert optimized.count("[MapBatches(") == 1 and "Repartition" not in optimized
    ''')
    assert "Repartition" in out


def test_fusion_by_block_counts(run):
    run('''
    # Match block counts between operations to encourage fusion
    def fusion_optimized_pipeline():
        """Configure pipeline for optimal stage fusion."""

        # Read with specific block count
        ds = ray.data.read_parquet(
            "s3://data/",
            override_num_blocks=16  # Explicit block count
        )

        # Transform without changing block structure
        transformed = ds \\
            .map(row_transform) \\
            .filter(lambda row: row["valid"]) \\
            .map(final_transform)  # All operations can be fused

        # Avoid operations that break fusion unnecessarily
        # DON'T: .repartition(), .random_shuffle(), .sort() unless required

        return transformed
    ''', before='''
    import ray
    row_transform = lambda row: {"id": row["id"], "valid": row["valid"]}
    final_transform = lambda row: {"id": row["id"]}
    ''', after='''
    ds = fusion_optimized_pipeline()
    assert "Map(<lambda>)->Filter(<lambda>)->Map(<lambda>)" in ds.execution_plan()
    assert sorted(row["id"] for row in ds.take_all()) == list(range(0, 400, 2))
    assert ray.data.read_parquet("s3://data/", override_num_blocks=16).materialize().num_blocks() == 16
    ''')


def test_backpressure_policies_by_name(run):
    """The two that the page names, and what a program would choose them by: it is told that all of them hold."""
    run('''
    import ray, warnings
    from ray.data._internal.execution.backpressure_policy import (
        ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY, ConcurrencyCapBackpressurePolicy, ResourceBudgetBackpressurePolicy)

    ctx = ray.data.DataContext.get_current()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ctx.set_config(ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY, [ConcurrencyCapBackpressurePolicy, ResourceBudgetBackpressurePolicy])
    assert ["has no effect" in str(warning.message) for warning in told] == [True], told
    assert ray.data.range(3).map(lambda row: row).count() == 3
    ''')


def test_backpressure_policies(run):
    run('''
    from ray.data.context import DataContext

    def configure_backpressure_policies():
        """Configure backpressure policies for optimal performance."""
        ctx = DataContext.get_current()

        # Configure resource limits to prevent backpressure
        ctx.execution_options.resource_limits.cpu = 80  # Reserve 20% CPU
        ctx.execution_options.resource_limits.object_store_memory = 8e9  # 8GB limit

        # Configure for locality optimization
        ctx.execution_options.locality_with_output = True  # For ML training

        # Enable deterministic execution if needed (may reduce performance)
        ctx.execution_options.preserve_order = False  # Default: optimize for speed

        return "Backpressure policies configured"
    ''', after='''
    import ray
    assert configure_backpressure_policies() == "Backpressure policies configured"
    limits = ray.data.range(3).context.execution_options.resource_limits
    assert (limits.cpu, limits.object_store_memory) == (80, 8e9)
    assert ray.data.range(100).map_batches(lambda batch: batch).count() == 100
    ''')


def test_diagnose_backpressure(run):
    block = '''
    # Diagnosis: Check for backpressure indicators
    def diagnose_backpressure():
        """Diagnose backpressure issues in your pipeline."""

        # Run pipeline and check execution stats
        result = ds.map_batches(your_transform).materialize()
        stats = result.stats()

        # Look for backpressure indicators
        if "backpressure" in str(stats).lower():
            print("Backpressure detected!")
            print("Solutions:")
            print("1. Reduce batch_size")
            print("2. Increase concurrency")
            print("3. Allocate more memory per task")
            print("4. Configure smaller block sizes")
    '''
    before = '''
    import time, ray
    ray.init(num_cpus=1)
    ds = ray.data.range({rows}, override_num_blocks=16)
    def your_transform(batch):
        time.sleep({pause})
        return batch
    '''
    assert run(block, before=before.format(rows=4, pause=0), after="diagnose_backpressure()") == ""
    # A slow function behind a read: the read has to wait for it.
    assert run(block, before=before.format(rows=8_000_000, pause=0.02), after="diagnose_backpressure()") == SOLUTIONS


SOLUTIONS = ("Backpressure detected!\nSolutions:\n1. Reduce batch_size\n2. Increase concurrency\n3. Allocate more memory per task\n"
             "4. Configure smaller block sizes\n")
