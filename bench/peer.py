"""One job in one peer, in a process of its own: python peer.py SYSTEM SPEC.json

The last line of the output is a JSON object: import_s (loading the library), job_s (the job itself), version and, for
head and count, the answer. Each peer runs at its best documented settings; SPEC's variant chooses between two where
neither is always the faster.
"""

import datetime
import json
import os
import sys
import time

TOTAL_SQL = "price * (1 - discount)"


def moment(value):
    """{"date": …} and {"timestamp": …} as Python has them; anything else as it is."""
    if not isinstance(value, dict):
        return value
    return datetime.date.fromisoformat(value["date"]) if "date" in value else datetime.datetime.fromisoformat(
        value["timestamp"])


def run_polars(spec):
    os.environ["POLARS_MAX_THREADS"] = str(spec["threads"])
    import polars as pl

    def job():
        if spec["kind"] == "head":
            return str(pl.scan_parquet(spec["folder"]).head(1).collect(engine="streaming").row(0)[0])
        if spec["kind"] == "count":
            return pl.scan_parquet(spec["folder"]).select(pl.len()).collect(engine="streaming").item()
        if spec["input"] == "csv":
            frame = pl.scan_csv(spec["files"], try_parse_dates=True)
        elif spec["input"] == "jsonl":
            # The others find out that these are times.
            frame = pl.scan_ndjson(spec["files"]).with_columns(pl.col("ts").str.to_datetime("%Y-%m-%d %H:%M:%S"))
        else:
            frame = pl.scan_parquet(spec["files"])
        for column, op, value in spec["where"]:
            left, value = pl.col(column), moment(value)
            frame = frame.filter(left.is_not_null() if op == "is valid" else left > value if op == ">" else
                                 left < value if op == "<" else left.is_in(value))
        if spec["total"]:
            frame = frame.with_columns(total=pl.col("price") * (1 - pl.col("discount")))
        if spec["kind"] == "load":
            return frame.select(pl.len()).collect(engine="streaming").item()
        if spec["select"]:
            frame = frame.select(spec["select"])
        target = f"{spec['out']}/part.{spec['output']}"
        if spec["output"] == "csv":
            frame.sink_csv(target, maintain_order=False, engine="streaming")
        elif spec["output"] == "jsonl":
            frame.sink_ndjson(target, maintain_order=False, engine="streaming")
        else:
            frame.sink_parquet(target, compression="snappy", maintain_order=False, engine="streaming")

    return pl.__version__, job


def run_duckdb(spec):
    import duckdb

    def literal(value):
        if isinstance(value, list):
            return f"({', '.join(map(literal, value))})"
        if isinstance(value, dict):
            (kind, text), = value.items()
            return f"{kind} '{text}'"
        if isinstance(value, int):
            return str(value)
        return f"'{value}'" if isinstance(value, str) else f"{value}::DOUBLE"

    def job():
        con = duckdb.connect()
        con.execute(f"SET threads={spec['threads']}")
        con.execute("SET preserve_insertion_order=false")
        if spec["limit_mib"]:
            con.execute(f"SET memory_limit='{spec['limit_mib']}MiB'")
            con.execute(f"SET temp_directory='{spec['out']}.tmp'")
        if spec["kind"] == "head":
            return str(con.execute(f"SELECT * FROM read_parquet('{spec['folder']}/*.parquet') LIMIT 1").fetchone()[0])
        if spec["kind"] == "count":
            return con.execute(f"SELECT count(*) FROM read_parquet('{spec['folder']}/*.parquet')").fetchone()[0]
        columns = ", ".join(f"{TOTAL_SQL} AS total" if c == "total" else c for c in spec["select"]) or "*"
        where = " AND ".join(f'"{column}" IS NOT NULL' if op == "is valid" else f'"{column}" {op} {literal(value)}'
                             for column, op, value in spec["where"]) or "true"
        files = ", ".join(f"'{f}'" for f in spec["files"])
        reader = {"jsonl": "read_ndjson"}.get(spec["input"], f"read_{spec['input']}")
        source = f"{reader}([{files}])"
        if spec["kind"] == "load":
            return con.execute(f"SELECT count(*) FROM {source} WHERE {where}").fetchone()[0]
        target, options = f"{spec['out']}/part.{spec['output']}", ""
        form = {"parquet": "parquet, COMPRESSION snappy", "csv": "csv", "jsonl": "json"}[spec["output"]]
        if spec["variant"] == "file per thread":
            target, options = f"{spec['out']}/parts", ", PER_THREAD_OUTPUT true"
        con.execute(
            f"COPY (SELECT {columns} FROM {source} WHERE {where}) "
            f"TO '{target}' (FORMAT {form}{options})"
        )

    return duckdb.__version__, job


def run_pyarrow(spec):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    pa.set_cpu_count(spec["threads"])

    def job():
        if spec["kind"] == "head":
            return str(ds.dataset(spec["folder"], format="parquet").head(1)[0][0].as_py())
        if spec["kind"] == "count":
            return ds.dataset(spec["folder"], format="parquet").count_rows()
        source = ds.dataset(spec["files"], format={"jsonl": "json"}.get(spec["input"], spec["input"]))
        predicate = None
        for column, op, value in spec["where"]:
            left, value = pc.field(column), moment(value)
            term = (left.is_valid() if op == "is valid" else left > value if op == ">" else left < value if op == "<" else
                    left.isin(value))
            predicate = term if predicate is None else predicate & term
        if spec["kind"] == "load":
            return source.count_rows(filter=predicate)
        columns = None
        if spec["select"]:
            columns = {c: pc.field(c) for c in spec["select"]}
            if spec["total"]:
                columns["total"] = pc.field("price") * (pc.scalar(1.0) - pc.field("discount"))
        if spec["output"] == "jsonl":
            raise NotImplementedError("pyarrow writes no JSON")
        if spec["output"] == "csv":
            scanner = source.scanner(columns=columns, filter=predicate, use_threads=True)
            ds.write_dataset(scanner, spec["out"], format="csv", existing_data_behavior="overwrite_or_ignore")
            return
        parquet = ds.ParquetFileFormat()
        ds.write_dataset(
            source.scanner(columns=columns, filter=predicate, use_threads=True),
            spec["out"],
            format=parquet,
            file_options=parquet.make_write_options(compression="snappy"),
            existing_data_behavior="overwrite_or_ignore",
        )

    return pa.__version__, job


RUNNERS = {"polars": run_polars, "duckdb": run_duckdb, "pyarrow": run_pyarrow}


def main():
    system, path = sys.argv[1:]
    with open(path) as f:
        spec = json.load(f)
    start = time.perf_counter()
    version, job = RUNNERS[system](spec)
    imported = time.perf_counter()
    answer = job()
    done = time.perf_counter()
    print(json.dumps({"import_s": imported - start, "job_s": done - imported, "version": version, "answer": answer}))


if __name__ == "__main__":
    main()
