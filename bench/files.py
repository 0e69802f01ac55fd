#!/usr/bin/env python3
"""Arrow, text and binary files: weir against pyarrow, Polars and DuckDB, interleaved in the same run.

    bench/files.py [--rows N] [--rounds N] [--threads N] [--jobs PART] [--small-files N]

Jobs: a tenth of a table's rows from Arrow files of several layouts into Parquet, two columns of ten, lines of a log that
hold a word, and ten thousand small files of each kind. Every run is a process of its own; a peer's time is that of its job
after the import, weir's that of its whole process. Answers (rows) must agree. Printed are medians of the rounds, the ratio
to the fastest peer, and bytes of input a second beside a plain read of the same bytes. The data is made on first use in
bench/data/files/ and made again when VERSION rises.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import data
import measure
import systems

HERE = Path(__file__).resolve().parent
ROOT = HERE / "data" / "files"
OUT = ROOT / "out"
VERSION = 1
WHERE = ("price", 94_500.0)  # a tenth of the rows
WORD = "furiously theodolites"


# ---- data ----

def make_arrow(folder, rows):
    import numpy as np
    import polars
    import pyarrow as pa
    import pyarrow.ipc

    table = pa.concat_tables(data.flat_part(np.random.default_rng([7, part]), rows // 10, part)
                             for part in range(10))

    def write(name, table, new=pa.ipc.new_file, batch_rows=None, compression=None):
        with pa.OSFile(str(folder / name), "wb") as out, \
                new(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table, batch_rows)

    write("batches.arrow", table, batch_rows=65536)
    write("one-batch.arrow", table.combine_chunks())
    write("lz4.arrow", table, batch_rows=65536, compression="lz4")
    write("zstd.arrow", table, batch_rows=65536, compression="zstd")
    write("stream.arrows", table, new=pa.ipc.new_stream, batch_rows=65536)
    polars.from_arrow(table).write_ipc(folder / "polars.arrow")  # texts are views


def make_text(folder, rows):
    import numpy as np

    rng = np.random.default_rng([7, 99])
    with open(folder / "words.log", "w") as out:
        for _ in range(10):
            words = rng.choice(data.WORDS, (rows // 10, 9))
            out.write("\n".join(" ".join(line) for line in words) + "\n")


def make_small(folder, files):
    import pyarrow as pa
    import pyarrow.ipc

    table = pa.table({"id": range(100), "x": [i / 8 for i in range(100)], "s": [data.WORDS[i % 50] for i in range(100)]})
    text = "\n".join(" ".join(data.WORDS[(i * 7 + k) % 90] for k in range(9)) for i in range(100)) + "\n"
    for kind in ("arrow", "text", "binary"):
        (folder / f"small-{kind}").mkdir()
    for i in range(files):
        with pa.OSFile(str(folder / "small-arrow" / f"{i:05}.arrow"), "wb") as out, \
                pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        (folder / "small-text" / f"{i:05}.txt").write_text(text)
        (folder / "small-binary" / f"{i:05}.bin").write_bytes(text.encode()[: 100 + i % 6000])


def make(rows, files):
    folder = ROOT / f"{rows}-{files}"
    stamp = folder / "made.json"
    if stamp.exists() and json.loads(stamp.read_text()) == VERSION:
        return folder
    print(f"making {folder} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_arrow(folder, rows)
    make_text(folder, rows)
    make_small(folder, files)
    stamp.write_text(json.dumps(VERSION))
    return folder


# ---- jobs ----

def all_jobs(folder):
    """(name, kind, input)"""
    for name in ("batches.arrow", "one-batch.arrow", "polars.arrow", "lz4.arrow", "zstd.arrow", "stream.arrows"):
        yield f"filter/{name}", "filter", folder / name
    yield "select/batches.arrow", "select", folder / "batches.arrow"
    yield "lines/words.log", "lines", folder / "words.log"
    yield "small/arrow", "filter", folder / "small-arrow"
    yield "small/text", "lines", folder / "small-text"
    yield "small/binary", "blobs", folder / "small-binary"


def weir_chain(kind, source, out):
    if kind == "lines":
        return ["read", str(source), "--format", "text", "then", "filter", f'contains(text, "{WORD}")', "then", "count"]
    if kind == "blobs":
        return ["read", str(source), "--format", "binary", "then", "write", f"{out}/x.parquet", "--mode", "overwrite"]
    column, bound = WHERE if "small" not in str(source) else ("x", 11.2)
    chain = ["read", str(source), "--format", "arrow", "then", "filter", f"{column} > {bound}"]
    if kind == "select":
        chain += ["then", "select", "orderkey,price"]
    return chain + ["then", "write", f"{out}/x.parquet", "--mode", "overwrite"]


def in_polars(kind, source, out):
    import polars as pl

    if kind == "blobs":
        return None
    if kind == "lines":
        path = f"{source}/*.txt" if source.is_dir() else str(source)
        frame = pl.scan_lines(path, name="text").filter(pl.col("text").str.contains(WORD, literal=True))
        return lambda: frame.select(pl.len()).collect(engine="streaming").item()
    if source.suffix == ".arrows":
        def job():
            frame = pl.read_ipc_stream(source).lazy().filter(pl.col(WHERE[0]) > WHERE[1])
            frame.sink_parquet(f"{out}/x.parquet", compression="snappy", engine="streaming")
        return job
    column, bound = WHERE if source.is_file() else ("x", 11.2)

    def job():
        frame = pl.scan_ipc(f"{source}/*.arrow" if source.is_dir() else source).filter(pl.col(column) > bound)
        if kind == "select":
            frame = frame.select("orderkey", "price")
        frame.sink_parquet(f"{out}/x.parquet", compression="snappy", maintain_order=False, engine="streaming")
    return job


def in_pyarrow(kind, source, out):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.ipc
    import pyarrow.parquet as pq

    pa.set_cpu_count(int(os.environ["BENCH_THREADS"]))
    if kind in ("lines", "blobs"):
        return None
    column, bound = WHERE if source.is_file() else ("x", 11.2)

    def job():
        if source.suffix == ".arrows":
            reader = pa.ipc.open_stream(pa.memory_map(str(source)))
            with pq.ParquetWriter(f"{out}/x.parquet", reader.schema, compression="snappy") as writer:
                for batch in reader:
                    writer.write_batch(batch.filter(pc.field(column) > bound))
            return
        scanner = ds.dataset(source, format="ipc").scanner(
            filter=pc.field(column) > bound, columns=["orderkey", "price"] if kind == "select" else None)
        options = ds.ParquetFileFormat().make_write_options(compression="snappy")
        ds.write_dataset(scanner, out, format="parquet", file_options=options,
                         existing_data_behavior="overwrite_or_ignore")
    return job


def in_duckdb(kind, source, out):
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.ipc

    con = duckdb.connect()
    con.execute(f"SET threads={os.environ['BENCH_THREADS']}")
    con.execute("SET preserve_insertion_order=false")
    to = f"TO '{out}/x.parquet' (FORMAT parquet, COMPRESSION snappy)"
    if kind == "lines":
        path = f"{source}/*.txt" if source.is_dir() else source
        return lambda: con.execute(
            f"SELECT count(*) FROM read_csv('{path}', header=false, delim='\\x01', quote='', escape='', auto_detect=false, "
            f"columns={{'text': 'VARCHAR'}}) WHERE contains(text, '{WORD}')").fetchone()[0]
    if kind == "blobs":
        return lambda: con.execute(f"COPY (SELECT content FROM read_blob('{source}/*')) {to}") and None
    column, bound = WHERE if source.is_file() else ("x", 11.2)

    def job():
        if source.suffix == ".arrows":
            table = pa.ipc.open_stream(pa.memory_map(str(source)))
        else:
            table = ds.dataset(source, format="ipc")
        columns = "orderkey, price" if kind == "select" else "*"
        con.register("t", table)
        con.execute(f"COPY (SELECT {columns} FROM t WHERE {column} > {bound}) {to}")
    return job


PEERS = {"polars": in_polars, "pyarrow": in_pyarrow, "duckdb": in_duckdb}


def peer_main(name, kind, source, out):
    """In a process of its own."""
    job = PEERS[name](kind, Path(source), out)
    if job is None:
        print(json.dumps({"absent": True}))
        return
    begin = time.perf_counter()
    answer = job()
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "answer": answer}))


# ---- rounds ----

def rows_of(out):
    import pyarrow.dataset as ds
    return ds.dataset(out, format="parquet").count_rows()


def one(system, kind, source, threads):
    """(seconds, rows, peak MiB), or None where the system cannot, or a text that says why it failed."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    env = dict(os.environ, BENCH_THREADS=str(threads), POLARS_MAX_THREADS=str(threads))
    if system == "weir":
        command = [systems.weir_command(), *weir_chain(kind, source, OUT)]
    else:
        command = [sys.executable, str(Path(__file__)), "--peer", system, kind, str(source), str(OUT)]
    run = measure.run(["taskset", "-c", f"0-{threads - 1}", *command], env=env)
    if run.rc:
        return (run.stderr or run.stdout).strip().splitlines()[-1][:120]
    seconds, answer = run.wall_s, None
    if system == "weir":
        answer = int(run.stdout) if kind == "lines" else None
    else:
        told = json.loads(run.stdout.splitlines()[-1])
        if told.get("absent"):
            return None
        seconds, answer = told["seconds"], told["answer"]
    return seconds, rows_of(OUT) if answer is None else answer, run.peak_mib


def bytes_of(source):
    files = [source] if source.is_file() else list(source.iterdir())
    return sum(file.stat().st_size for file in files)


def plain_read_s(source):
    """The same bytes read by cat: what no reader can beat by much."""
    files = [str(source)] if source.is_file() else sorted(map(str, source.iterdir()))
    begin = time.perf_counter()
    with open(os.devnull, "wb") as out:
        subprocess.run(["cat", *files], stdout=out, check=True)
    return time.perf_counter() - begin


def bench(name, kind, source, args):
    times = {system: [] for system in ["weir", *PEERS]}
    peaks, answers, faults, reads = {}, {}, {}, []
    for round in range(-1, args.rounds):  # the first warms up
        reads.append(plain_read_s(source))
        order = list(times)
        for system in order[round % len(order):] + order[:round % len(order)]:
            if system in faults:
                continue
            got = one(system, kind, source, args.threads)
            if not isinstance(got, tuple):
                faults[system] = got or "cannot"
                continue
            answers[system] = got[1]
            if round >= 0:
                times[system].append(got[0])
                peaks[system] = max(peaks.get(system, 0), got[2])
    if len(set(answers.values())) > 1:
        print(f"{name}: ANSWERS DIFFER {answers}")
    medians = {system: statistics.median(runs) for system, runs in times.items() if runs}
    peers = {system: time for system, time in medians.items() if system != "weir"}
    ratio = f"{min(peers.values()) / medians['weir']:.2f} ×" if peers and "weir" in medians else "—"
    cells = [f"{medians[s]:.3f} s, {peaks[s]:.0f} MiB" if s in medians else faults.get(s, "—") for s in times]
    size = bytes_of(source)
    rates = f"{size / medians['weir'] / 1e9:.2f} / {size / statistics.median(reads) / 1e9:.2f}" if "weir" in medians else "—"
    print(f"| {name} | {' | '.join(cells)} | {ratio} | {rates} |", flush=True)


def main():
    if sys.argv[1:2] == ["--peer"]:
        peer_main(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--small-files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", default="", help="only jobs whose name holds this")
    args = parser.parse_args()
    folder = make(args.rows, args.small_files)
    print(f"| job | {' | '.join(['weir', *PEERS])} | weir against the fastest peer | GB/s: weir / cat |")
    print("|---" * (len(PEERS) + 4) + "|")
    for name, kind, source in all_jobs(folder):
        if args.jobs in name:
            bench(name, kind, source, args)
    shutil.rmtree(OUT, ignore_errors=True)


if __name__ == "__main__":
    main()
