"""One run of one system on one job that moves rows, in a process of its own; exchanges.py starts it.

    python bench/exchange_jobs.py SYSTEM JOB FOLDER [--limit BYTES] [--times N]

Prints one line of JSON: seconds for import, start and job; what the process held when the session began; and the job's answer,
made of the result after the clock has stopped, which must agree between systems. The result of a job is all its rows in the
system's memory. With a limit the rows are streamed instead, each batch is dropped after it was looked at, and what went to
disk is told; --times lists the files of the larger table again and again. A verb that is not there yet is {"skipped": …}.
"""

import argparse
import glob
import json
import math
import os
import time

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
LIMIT_DAY, Q3_DAY = 10471, 9204
SIX = ["a", "b", "c", "d", "e", "f"]
# job: what it is, the table whose rows are moved, the columns of it that are read
JOBS = {
    "group-int-6": ("group", "groups", ["i6"]),
    "group-int-1m": ("group", "groups", ["i1m"]),
    "group-int-10m": ("group", "groups", ["i10m"]),
    "group-string-6": ("group", "groups", ["s6"]),
    "group-string-1m": ("group", "groups", ["s1m"]),
    "group-string-10m": ("group", "groups", ["s10m"]),
    "group-six-keys": ("group", "groups", SIX),
    "sort-random": ("sort", "rows", ["random"]),
    "sort-presorted": ("sort", "rows", ["rising"]),
    "sort-zipf": ("sort", "rows", ["zipf"]),
    "sort-two-keys": ("sort", "rows", ["zipf", "note"]),
    "join": ("join", "left", ["k"]),
    "shuffle": ("shuffle", "kilo", []),
    "q1": ("q1", "lineitem", []),
    "q3": ("q3", "lineitem", []),
    "sum-mixed": ("sum", "mixed", []),
}
VALUES = ["v1", "v2", "v3"]
TABLES = {"join": ["left", "right"], "q3": ["lineitem", "orders", "customer"]}
Q1_SUMS = ["l_quantity", "l_extendedprice", "disc_price", "charge"]


def tables_of(job):
    return TABLES.get(job, [JOBS[job][1]])


def columns_of(job):
    kind, _, keys = JOBS[job]
    return {"group": [*keys, *VALUES], "sort": ["random", "rising", "zipf", "x", "note"], "join": ["k", "v"],
            "shuffle": ["id", "bytes"], "sum": ["x"]}.get(kind)


def files(folder, table, times=1):
    return sorted(glob.glob(f"{folder}/{table}/*.parquet")) * times


# ---- answers ----

def numbers(column):
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        # Keys are letters and digits; flags, of which there are few rows, letters alone.
        digits = pc.replace_substring_regex(pc.cast(column, pa.string()), r"[^0-9]", "")
        if pc.any(pc.equal(digits, "")).as_py():
            digits = pa.array([str(sum(text.encode())) for text in column.to_pylist()])
        column = pc.cast(digits, pa.int64())
    elif pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type) or pa.types.is_binary_view(column.type):
        column = pc.binary_length(column)
    return np.asarray(column).astype(np.float64)


SLICE = 1 << 18  # rows that are looked at together: what an answer takes counts towards a system's peak


def leading(values):
    """Some nine digits of numbers that may be sums, which systems round in their own ways."""
    import numpy as np

    part, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(part, 30)), exponent - 30)


class Answer:
    """Figures of a result that its rows' order does not change, except where the job is to make one."""

    def __init__(self, job):
        self.kind, _, self.keys = JOBS[job]
        self.rows, self.sums, self.mixed, self.last, self.is_ordered, self.moved = 0, {}, 0.0, None, True, 0

    def add(self, batch):
        import numpy as np

        first = None
        for name in batch.schema.names:
            column = batch.column(batch.schema.names.index(name))
            values = numbers(column)
            self.sums[name] = self.sums.get(name, 0.0) + math.fsum([float(values.sum())])
            first = values if first is None else first
            # Which key a value belongs to shows in a sum of products.
            self.mixed += sum(float((first[at : at + SLICE] % 1009 * (leading(values[at : at + SLICE]) % 1013)).sum())
                              for at in range(0, len(values), SLICE))
        if self.kind == "sort":
            self._order(np.asarray(batch.column(batch.schema.names.index(self.keys[0]))))
        if self.kind == "shuffle":
            self.moved += int((first[1:] != first[:-1] + 1).sum())
        self.rows += batch.num_rows

    def _order(self, keys):
        if len(keys):
            self.is_ordered &= bool((keys[1:] >= keys[:-1]).all()) and (self.last is None or bool(keys[0] >= self.last))
            self.last = keys[-1]

    def result(self):
        out = {"rows": self.rows, "sums": [float(f"{self.sums[name]:.9g}") for name in sorted(self.sums)]}
        if self.kind == "sort":
            out["ordered"] = self.is_ordered
        elif self.kind == "shuffle":
            out["moved"] = self.moved > 0.9 * self.rows
        else:
            out["mixed"] = float(f"{self.mixed:.7g}")
        return out


def answer_of(job, batches):
    answer = Answer(job)
    for batch in batches:
        answer.add(batch)
    return answer.result()


class Glance:
    """What a stream of batches is asked for: hardly anything, so that the job's time is the engine's."""

    def __init__(self, job):
        self.key = JOBS[job][2][0] if JOBS[job][0] == "sort" else None
        self.rows, self.last, self.is_ordered = 0, None, True

    def add(self, batch):
        if self.key and batch.num_rows:
            column = batch.column(batch.schema.names.index(self.key))
            first, last = column[0].as_py(), column[-1].as_py()
            self.is_ordered &= first <= last and (self.last is None or self.last <= first)
            self.last = last
        self.rows += batch.num_rows


def error_in_ulps(total, folder):
    """How far a sum of the mixed table is from the nearest double to the true one."""
    import itertools

    import pyarrow.parquet as pq

    exact = math.fsum(itertools.chain.from_iterable(
        pq.read_table(path)["x"].to_numpy().tolist() for path in files(folder, "mixed")))
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in files(folder, "mixed"))
    return {"rows": rows, "ulps": abs(total - exact) / math.ulp(exact)}


# ---- weir, and Ray Data by the same program ----

def dataset_of(module, job, folder, times):
    kind, table, keys = JOBS[job]
    read = lambda name, columns=None, n=1: module.read_parquet(files(folder, name, n), columns=columns)  # noqa: E731
    if kind == "group":
        from importlib import import_module

        of = import_module(f"{module.__name__}.aggregate")
        ds = read(table, [*keys, *VALUES], times).groupby(keys if len(keys) > 1 else keys[0])
        return ds.aggregate(of.Sum("v1"), of.Max("v2"), of.Mean("v3"))
    if kind == "sort":
        return read(table, None, times).sort(keys if len(keys) > 1 else keys[0])
    if kind == "join":
        return read("left", None, times).join(read("right"), join_type="inner", num_partitions=2 * THREADS, on=("k",))
    if kind == "shuffle":
        return read(table, None, times).random_shuffle(seed=1)
    if kind == "q1":
        return q1(module, read("lineitem", None, times))
    return q3(module, read("lineitem", None, times), read("orders"), read("customer"))


def expressions(module):
    from importlib import import_module

    made = import_module(f"{module.__name__}.expressions")
    return made.col, made.lit


def q1(module, lineitem):
    from importlib import import_module

    of = import_module(f"{module.__name__}.aggregate")
    col, lit = expressions(module)
    ds = lineitem.filter(expr=col("l_shipdate") <= lit(LIMIT_DAY))
    ds = ds.with_column("disc_price", col("l_extendedprice") * (lit(1) - col("l_discount")))
    ds = ds.with_column("charge", col("disc_price") * (lit(1) + col("l_tax")))
    ds = ds.groupby(["l_returnflag", "l_linestatus"]).aggregate(
        *(of.Sum(name) for name in Q1_SUMS), of.Mean("l_quantity"), of.Mean("l_extendedprice"), of.Mean("l_discount"), of.Count())
    return ds.sort(["l_returnflag", "l_linestatus"])


def q3(module, lineitem, orders, customer):
    from importlib import import_module

    of = import_module(f"{module.__name__}.aggregate")
    col, lit = expressions(module)
    customer = customer.filter(expr=col("c_mktsegment") == lit("BUILDING"))
    orders = orders.filter(expr=col("o_orderdate") < lit(Q3_DAY))
    ds = orders.join(customer, join_type="inner", num_partitions=2 * THREADS, on=("o_custkey",), right_on=("c_custkey",))
    lineitem = lineitem.filter(expr=col("l_shipdate") > lit(Q3_DAY))
    lineitem = lineitem.with_column("revenue", col("l_extendedprice") * (lit(1) - col("l_discount")))
    lineitem = lineitem.select_columns(["l_orderkey", "revenue"])
    ds = lineitem.join(ds, join_type="inner", num_partitions=2 * THREADS, on=("l_orderkey",), right_on=("o_orderkey",))
    ds = ds.groupby(["l_orderkey", "o_orderdate", "o_shippriority"]).aggregate(of.Sum("revenue"))
    return ds.sort("sum(revenue)", descending=True).limit(10)


def dataset_job(module, job, folder, options):
    """What is timed, and what makes the answer of it."""
    if JOBS[job][0] == "sum":
        return (lambda: module.read_parquet(files(folder, "mixed", options.times)).sum("x"),
                lambda total: error_in_ulps(total, folder))
    ds = dataset_of(module, job, folder, options.times)
    if options.limit:
        def stream():
            glance = Glance(job)
            for batch in ds.iter_batches(batch_size=None, batch_format="pyarrow"):
                glance.add(batch)
            return glance

        return stream, lambda glance: {"rows": glance.rows, "ordered": glance.is_ordered, **moved(ds)}
    return ds.materialize, lambda kept: answer_of(job, kept.iter_batches(batch_size=None, batch_format="pyarrow"))


def moved(ds):
    """Bytes that went to disk and came back."""
    figures = ds.get_stats_summary()
    return {"spilled": figures.dataset_bytes_spilled, "restored": figures.global_bytes_restored}


def held_bytes():
    with open("/proc/self/smaps_rollup") as f:
        return sum(int(line.split()[1]) * 1024 for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


def run_weir(job, folder, options):
    import pyarrow.compute  # noqa: F401  what looks at the batches is not the engine's
    import weir

    started = time.perf_counter()
    held = held_bytes()
    weir.init(**({"memory_limit": options.limit} if options.limit else {}), num_cpus=THREADS)
    work, answer = dataset_job(weir, job, folder, options)
    return started, work, lambda result: {**answer(result), "held": held}


def run_ray(job, folder, options):
    import logging

    import ray
    import ray.data

    started = time.perf_counter()
    ray.init(num_cpus=THREADS, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return (started, *dataset_job(ray.data, job, folder, options))


# ---- Polars ----

def run_polars(job, folder, options):
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl

    started = time.perf_counter()
    kind, table, keys = JOBS[job]
    scan = lambda name: pl.scan_parquet(files(folder, name))  # noqa: E731
    if kind == "sum":
        return (started, lambda: scan("mixed").select(pl.col("x").sum()).collect(engine="streaming").item(),
                lambda total: error_in_ulps(total, folder))
    if kind == "group":
        frame = scan(table).group_by(keys).agg(
            pl.col("v1").sum().alias("sum(v1)"), pl.col("v2").max().alias("max(v2)"), pl.col("v3").mean().alias("mean(v3)"))
    elif kind == "sort":
        frame = scan(table).sort(keys)
    elif kind == "join":
        frame = scan("left").join(scan("right"), on="k")
    elif kind == "shuffle":
        frame = None
    elif kind == "q1":
        price = pl.col("l_extendedprice") * (1 - pl.col("l_discount"))
        frame = scan("lineitem").filter(pl.col("l_shipdate") <= LIMIT_DAY).with_columns(disc_price=price).with_columns(
            charge=pl.col("disc_price") * (1 + pl.col("l_tax"))).group_by("l_returnflag", "l_linestatus").agg(
            *(pl.col(name).sum().alias(f"sum({name})") for name in Q1_SUMS),
            *(pl.col(name).mean().alias(f"mean({name})") for name in ("l_quantity", "l_extendedprice", "l_discount")),
            pl.len().alias("count()")).sort("l_returnflag", "l_linestatus")
    else:
        customer = scan("customer").filter(pl.col("c_mktsegment") == "BUILDING")
        orders = scan("orders").filter(pl.col("o_orderdate") < Q3_DAY).join(customer, left_on="o_custkey", right_on="c_custkey")
        frame = scan("lineitem").filter(pl.col("l_shipdate") > Q3_DAY).with_columns(
            revenue=pl.col("l_extendedprice") * (1 - pl.col("l_discount"))).join(
            orders, left_on="l_orderkey", right_on="o_orderkey").group_by("l_orderkey", "o_orderdate", "o_shippriority").agg(
            pl.col("revenue").sum().alias("sum(revenue)")).sort("sum(revenue)", descending=True).head(10)

    def work():
        if frame is None:
            return scan(table).collect(engine="streaming").sample(fraction=1.0, shuffle=True, seed=1)
        return frame.collect(engine="streaming")

    return started, work, lambda result: answer_of(job, (part.to_arrow() for part in result.iter_slices(100_000)))


# ---- DuckDB ----

def sql_of(job, folder):
    kind, table, keys = JOBS[job]
    scan = lambda name: f"read_parquet({files(folder, name)!r})"  # noqa: E731
    if kind == "group":
        names = ", ".join(keys)
        return f"SELECT {names}, sum(v1)::BIGINT \"sum(v1)\", max(v2) \"max(v2)\", avg(v3) \"mean(v3)\" FROM {scan(table)} GROUP BY {names}"
    if kind == "sort":
        return f"SELECT * FROM {scan(table)} ORDER BY {', '.join(keys)}"
    if kind == "join":
        return f"SELECT k, v, w FROM {scan('left')} l JOIN {scan('right')} r USING (k)"
    if kind == "shuffle":
        return f"SELECT * FROM {scan(table)} ORDER BY random()"
    if kind == "sum":
        return f"SELECT sum(x) FROM {scan('mixed')}"
    if kind == "q1":
        price = "l_extendedprice * (1 - l_discount)"
        return f"""SELECT l_returnflag, l_linestatus, sum(l_quantity) "sum(l_quantity)",
            sum(l_extendedprice) "sum(l_extendedprice)", sum({price}) "sum(disc_price)",
            sum({price} * (1 + l_tax)) "sum(charge)", avg(l_quantity) "mean(l_quantity)",
            avg(l_extendedprice) "mean(l_extendedprice)", avg(l_discount) "mean(l_discount)", count(*) "count()"
            FROM {scan('lineitem')} WHERE l_shipdate <= {LIMIT_DAY} GROUP BY ALL ORDER BY 1, 2"""
    return f"""SELECT l_orderkey, o_orderdate, o_shippriority, sum(l_extendedprice * (1 - l_discount)) "sum(revenue)"
        FROM {scan('customer')} c, {scan('orders')} o, {scan('lineitem')} l
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < {Q3_DAY}
        AND l_shipdate > {Q3_DAY} GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY 4 DESC LIMIT 10"""


def run_duckdb(job, folder, options):
    import duckdb

    started = time.perf_counter()
    # Without the order kept, what a sort has made leaves it in pieces that lie in any order.
    connection = duckdb.connect(config={"threads": THREADS, "preserve_insertion_order": JOBS[job][0] == "sort"})
    query = sql_of(job, folder)
    if JOBS[job][0] == "sum":
        return started, lambda: connection.execute(query).fetchone()[0], lambda total: error_in_ulps(total, folder)
    return started, lambda: connection.sql(query).to_arrow_table(), lambda table: answer_of(job, table.to_batches())


SYSTEMS = {"weir": run_weir, "polars": run_polars, "duckdb": run_duckdb, "ray": run_ray}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=list(SYSTEMS))
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("folder")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    begun = time.perf_counter()
    try:
        started, work, ask = SYSTEMS[options.system](options.job, options.folder, options)
        ready = time.perf_counter()
        result = work()
        done = time.perf_counter()
    except (AttributeError, NotImplementedError) as error:
        print(json.dumps({"skipped": str(error).splitlines()[0][:150]}))
        return
    answer = ask(result)
    out = {"import_s": started - begun, "start_s": ready - started, "job_s": done - ready}
    out |= {name: answer.pop(name, 0) for name in ("held", "spilled", "restored", "ulps")}
    print(json.dumps(out | {"answer": answer}))


if __name__ == "__main__":
    main()
