"""One run of one system on one job with a Python function, in a process of its own; functions.py starts it.

    python bench/function_jobs.py SYSTEM JOB DATA [MEMORY_LIMIT]

Prints one line of JSON: seconds for the import, for starting the system (ray.init), for the job, and the job's answer,
which must agree between systems. Every system gets the job as its own documentation would write it.
"""

import json
import os
import sys
import time

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
VECTOR = 256
A, B = 0.25, 1.5


# ---- the functions, the same for all ----

def scale(x):
    return (x - A) / B


def row_function(row):
    row["total"] = row["price"] * (1 - row["discount"])
    row["name"] = row["name"].upper()
    return row


def weights():
    import numpy as np

    return np.random.default_rng(5).standard_normal((VECTOR, 16)).astype(np.float32)


def stacked(column):
    """A NumPy batch's vectors as one array; Ray Data gives an object array of vectors."""
    import numpy as np

    return np.stack(column) if column.dtype == object else column


# ---- weir, and Ray Data by the same program ----

def batch_scale(batch):
    return {"v": scale(stacked(batch["v"]))}


class Product:
    def __init__(self):
        self.weights = weights()

    def __call__(self, batch):
        return {"y": stacked(batch["v"]) @ self.weights}


def hold(batch):
    """Ten times its batch, for a moment."""
    v = stacked(batch["v"])
    copies = [v + i for i in range(10)]
    return {"v": copies[3] - 3}


def head_sum(batches, column):
    """The consumer: touches every batch, hardly any byte."""
    total, rows = 0.0, 0
    for batch in batches:
        v = stacked(batch[column])
        total += float(v[:, 0].sum(dtype="float64"))
        rows += len(v)
    return {"rows": rows, "sum": round(total, 1)}


def dataset_job(data_module, job, folder, actors):
    if job in ("vectors-map", "vectors-hold"):
        function = batch_scale if job == "vectors-map" else hold
        ds = data_module.read_parquet(f"{folder}/vectors").map_batches(function)
        return head_sum(ds.iter_batches(batch_size=None), "v")
    if job == "vectors-class":
        ds = data_module.read_parquet(f"{folder}/vectors").map_batches(Product, **actors)
        return head_sum(ds.iter_batches(batch_size=None), "y")
    if job == "vectors-torch":
        total, rows = 0.0, 0
        for batch in data_module.read_parquet(f"{folder}/vectors").iter_torch_batches(batch_size=1024):
            total += float(batch["v"][:, 0].double().sum())
            rows += len(batch["v"])
        return {"rows": rows, "sum": round(total, 1)}
    if job == "rows-map":
        ds = data_module.read_parquet(f"{folder}/rows").map(row_function)
        total, rows = 0.0, 0
        for batch in ds.iter_batches(batch_size=None):
            total += float(batch["total"].sum())
            rows += len(batch["total"])
        return {"rows": rows, "sum": round(total, 1)}
    if job == "tiny-blocks":
        ds = data_module.range(100_000, override_num_blocks=5000).map_batches(lambda b: {"id": b["id"] + 1})
        return {"sum": int(sum(b["id"].sum() for b in ds.materialize().iter_batches(batch_size=None)))}
    if job == "identity-batches":
        rows, size = 10_000_000, 1024
        count = data_module.range(rows).map_batches(lambda batch: batch, batch_size=size).count()
        return {"rows": count, "batches": -(-rows // size)}
    if job == "first-row-native":
        return {"columns": len(data_module.read_parquet(f"{folder}/rows").take(1)[0])}
    if job == "first-row-function":
        return {"columns": len(data_module.read_parquet(f"{folder}/rows").map(row_function).take(1)[0])}
    raise KeyError(job)


def run_weir(job, folder):
    import weir

    if job == "vectors-torch":
        import torch  # noqa: F401  the others have it imported before their clock starts, too
    limit = sys.argv[4] if len(sys.argv) > 4 else None
    started = time.perf_counter()
    if limit:
        weir.init(memory_limit=limit)
    return started, lambda: dataset_job(weir, job, folder, {"compute": weir.ActorPoolStrategy(size=1)})


def run_ray(job, folder):
    import logging

    import ray
    import ray.data

    if job == "vectors-torch":
        import torch  # noqa: F401

    started = time.perf_counter()
    ray.init(num_cpus=THREADS, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return started, lambda: dataset_job(ray.data, job, folder, {"compute": ray.data.ActorPoolStrategy(size=1)})


# ---- Polars ----

def run_polars(job, folder):
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl

    started = time.perf_counter()

    def vectors(function, width):
        def apply(series):
            return pl.Series(function(series.to_numpy()), dtype=pl.Array(pl.Float32, width))

        frame = pl.scan_parquet(f"{folder}/vectors/*.parquet").select(
            pl.col("v").map_batches(apply, return_dtype=pl.Array(pl.Float32, width), is_elementwise=True))
        out = frame.select(pl.len().alias("rows"), pl.col("v").arr.get(0).cast(pl.Float64).sum().alias("sum"))
        row = out.collect(engine="streaming").row(0, named=True)
        return {"rows": row["rows"], "sum": round(row["sum"], 1)}

    def rows():
        fields = pl.scan_parquet(f"{folder}/rows/*.parquet").collect_schema()
        kind = pl.Struct({**fields, "total": pl.Float64})
        frame = pl.scan_parquet(f"{folder}/rows/*.parquet").select(
            pl.struct(pl.all()).map_elements(row_function, return_dtype=kind).alias("r"))
        out = frame.select(pl.len().alias("rows"), pl.col("r").struct.field("total").sum().alias("sum"))
        row = out.collect(engine="streaming").row(0, named=True)
        return {"rows": row["rows"], "sum": round(row["sum"], 1)}

    if job == "vectors-map":
        return started, lambda: vectors(scale, VECTOR)
    if job == "vectors-class":
        product = weights()
        return started, lambda: vectors(lambda v: v @ product, 16)
    if job == "rows-map":
        return started, rows
    if job == "first-row-native":
        return started, lambda: {"columns": pl.scan_parquet(f"{folder}/rows/*.parquet").head(1).collect(
            engine="streaming").width}
    return started, None


# ---- Daft ----

def run_daft(job, folder):
    import daft
    import numpy as np

    started = time.perf_counter()
    vector = daft.DataType.fixed_size_list(daft.DataType.float32(), VECTOR)

    if job == "vectors-map":
        @daft.func.batch(return_dtype=vector)
        def scaled(v):
            arrow = v.to_arrow()
            values = np.asarray(arrow.flatten() if hasattr(arrow, "flatten") else arrow.values)
            import pyarrow as pa

            return pa.FixedSizeListArray.from_arrays(pa.array(scale(values)), VECTOR)

        def run():
            total, rows = 0.0, 0
            frame = daft.read_parquet(f"{folder}/vectors/*.parquet").select(scaled(daft.col("v")).alias("v"))
            for part in frame.iter_partitions():
                column = part.to_arrow()["v"].combine_chunks()
                values = np.asarray(column.flatten()).reshape(-1, VECTOR)
                total += float(values[:, 0].sum(dtype="float64"))
                rows += len(values)
            return {"rows": rows, "sum": round(total, 1)}

        return started, run
    if job == "first-row-native":
        return started, lambda: {"columns": len(daft.read_parquet(f"{folder}/rows/*.parquet").limit(
            1).to_pydict())}
    return started, None


# ---- PyTorch's DataLoader ----

def run_dataloader(job, folder):
    import glob

    import numpy as np
    import pyarrow.parquet as pq
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    started = time.perf_counter()

    class Vectors(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            for path in sorted(glob.glob(f"{folder}/vectors/*.parquet"))[info.id::info.num_workers]:
                for batch in pq.ParquetFile(path).iter_batches(batch_size=1024):
                    values = np.asarray(batch.column(0).flatten()).reshape(-1, VECTOR)
                    yield {"v": torch.from_numpy(values.copy())}

    def run():
        total, rows = 0.0, 0
        for batch in DataLoader(Vectors(), batch_size=None, num_workers=THREADS):
            total += float(batch["v"][:, 0].double().sum())
            rows += len(batch["v"])
        return {"rows": rows, "sum": round(total, 1)}

    return started, run if job == "vectors-torch" else None


SYSTEMS = {"weir": run_weir, "ray": run_ray, "compat": run_ray, "daft": run_daft, "polars": run_polars, "dataloader": run_dataloader}


def main():
    system, job, folder = sys.argv[1:4]
    begun = time.perf_counter()
    started, work = SYSTEMS[system](job, folder)
    ready = time.perf_counter()
    answer = work()
    done = time.perf_counter()
    print(json.dumps({"import_s": started - begun, "start_s": ready - started, "job_s": done - ready, "answer": answer}))


if __name__ == "__main__":
    main()
