#!/usr/bin/env python3
"""Exchanges on data of ten times their memory limit: time, memory, bytes on disk, and how both grow.

    bench/bounded.py [--data 5G] [--limit 512M] [--jobs PART,…] [--mode bounded,growth] [--remove] [--list]

One table (64 bytes a row, uncompressed Parquet, made on first use in bench/data/bounded/, --remove deletes it) goes through each job in a
process of its own. weir's processes are looked at from outside every 5 ms: what counts is the largest sum of their proportional
anonymous and shared memory, less what the interpreter held before weir.init. Bytes written are those that the process gave to the
system, bytes read back those that the engine counts. Just before each job the disk is probed where weir spills.

| job | what | bytes it is measured by |
|---|---|---|
| sort | all rows by a random number | the rows |
| sort-20g | the same of four times the rows at twice the limit | the rows |
| shuffle | random_shuffle | the rows |
| repartition | repartition(64, keys=) by a number of which each row has another | the rows |
| group | by that number, six maxima and a sum | keys and accumulators: 72 bytes a group |
| unique | by seven columns, counted | keys and accumulators: 64 bytes a group |
| join | one half of the rows with the other, each row with one | the rows of both |

Asked for: the limit and a tenth of it; bytes written at most 1.1 × the rows, 1.2 × the state of groups; 60 % of what the disk allows (bytes
written and read back at the rates of the probe ÷ the time); four times the rows in at most 4.8 times the time, in memory and spilling.
Nothing here fails because of a time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import measure
import report

HERE = Path(__file__).resolve().parent
ROOT = HERE / "data" / "bounded"
VERSION = 1
ROW_BYTES = 64
FILES = 16  # of which the first half is the join's left side
NAMES = ("id", "k", "j", "c1", "c2", "c3", "c4", "c5")
PROBE_BYTES = 1 << 30
DISK_SPARE = 2 << 30
MEMORY_TIMES = 2  # the data, in the page cache or as rows, and the result, or what is spilled
GIVEN_UP_S = 900

# job: (times the data, times the limit, bytes of a row that are counted, share of them that may be written)
JOBS = {
    "sort": (1, 1, ROW_BYTES, 1.1),
    "shuffle": (1, 1, ROW_BYTES, 1.1),
    "repartition": (1, 1, ROW_BYTES, 1.1),
    "group": (1, 1, 72, 1.2),
    "unique": (1, 1, 64, 1.2),
    "join": (1, 1, ROW_BYTES, 1.1),
    "sort-20g": (4, 2, ROW_BYTES, 1.1),
}
GROWTH = ("sort", "shuffle", "group", "join")


# ---- the table ----

def make(rows):
    """The folder of a table of so many rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = ROOT / str(rows)
    mark = folder / "made.json"
    if mark.exists() and json.loads(mark.read_text()) == VERSION:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    each, half = rows // FILES, rows // 2
    for number in range(FILES):
        rng = np.random.default_rng(number)
        first = number * each
        ids = np.arange(first, first + each, dtype=np.int64)
        # Products with odd numbers are permutations of 64 bits: each row has another k, and each row of a half another j.
        columns = {"id": ids, "k": (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64),
                   "j": ((ids % half).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)).view(np.int64)}
        columns |= {name: rng.integers(-(2**62), 2**62, each) for name in NAMES[3:]}
        pq.write_table(pa.table(columns), folder / f"{number:02}.parquet", compression="none", use_dictionary=False, row_group_size=1 << 18)
    mark.write_text(json.dumps(VERSION))
    return folder


# ---- a job, in a process of its own ----

def own_written():
    with open("/proc/self/io") as f:
        return int(next(line for line in f if line.startswith("wchar:")).split()[1])


def dataset(job, files, times):
    import weir
    from weir.aggregate import Max, Sum

    ds = weir.read_parquet([str(path) for path in files] * times)
    if job == "sort":
        return ds.sort("k")
    if job == "shuffle":
        return ds.random_shuffle(seed=1)
    if job == "repartition":
        return ds.repartition(64, keys=["k"])
    if job == "group":
        return ds.groupby("k").aggregate(Sum("id"), *(Max(name) for name in NAMES[2:]))
    if job == "unique":
        return ds.groupby(list(NAMES[1:])).count()
    half = len(files) // 2
    left = weir.read_parquet([str(path) for path in files[:half]])
    right = weir.read_parquet([str(path) for path in files[half:]]).rename_columns({name: f"r_{name}" for name in NAMES if name != "j"})
    return left.join(right, "inner", 64, on=("j",))


def child(job, folder, times, limit, threads, spill):
    import weir

    before = measure.pss_bytes(os.getpid())
    weir.init(num_cpus=threads, **({"memory_limit": limit, "spill_dir": spill} if limit else {}))
    ds = dataset(job, sorted(Path(folder).glob("*.parquet")), times)
    begun, written, rows = time.monotonic(), own_written(), 0
    for batch in ds.iter_batches(batch_size=None, batch_format="numpy"):
        rows += len(next(iter(batch.values())))
        del batch
    seconds = time.monotonic() - begun
    figures = ds.get_stats_summary()
    told = [line.strip(" *") for line in ds.stats().splitlines() if "bytes spilled" in line]
    print(json.dumps({"held": before, "rows": rows, "seconds": seconds, "written": own_written() - written,
                      "spilled": figures.dataset_bytes_spilled, "restored": figures.global_bytes_restored, "told": told}))


# ---- around it ----

def run_job(job, folder, times, limit, args):
    """What the job said, with its peak; or an error."""
    measure.use_memory(MEMORY_TIMES * times * args.data)
    spill = ROOT / "spill"
    spill.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")  # threads that wait for work by spinning take a core from weir
    if os.environ.get("WEIR_PYTHON"):
        environment["PYTHONPATH"] = str(Path(os.environ["WEIR_PYTHON"]).resolve())
    command = [sys.executable, str(HERE / "bounded.py"), "--child", job, str(folder), str(times), str(limit), str(args.threads), str(spill)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peaks, stop = [0], threading.Event()
    thread = threading.Thread(target=measure.sample_pss, args=(os.getpid(), peaks, stop))
    thread.start()
    try:
        out, err = process.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"error": f"killed after {args.timeout:.0f} s"}
    except BaseException:
        process.kill()
        raise
    finally:
        stop.set()
        thread.join()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        return {"error": f"exit {process.returncode}: {(err.strip().splitlines() or ['no message'])[-1][:300]}"}
    left = sorted(path.name for path in spill.iterdir())
    if left:
        return {"error": f"spill files are left: {left[:3]}"}
    found = json.loads(lines[-1])
    return found | {"peak": peaks[0] - found["held"]}


def run_bounded(job, args):
    times, limits, row_bytes, most = JOBS[job]
    rows, limit = args.data // ROW_BYTES // FILES * FILES, args.limit * limits
    folder = make(rows)
    counted = rows * times * row_bytes
    free = shutil.disk_usage(ROOT).free
    if free < counted * 1.3 + DISK_SPARE:
        return {"mode": "bounded", "job": job, "error": f"{free / 1e9:.0f} GB are free, not enough for {counted / 1e9:.0f} GB"}
    rates = measure.probe_disk(ROOT, min(PROBE_BYTES, max(64 << 20, args.data)))
    found = run_job(job.split("-")[0], folder, times, limit, args)
    if "error" not in found:
        expected = rows // 2 if job == "join" else rows * times
        if found["rows"] != expected:
            found = {"error": f"{found['rows']} rows, not {expected}"}
    return {"mode": "bounded", "job": job, "bytes": counted, "limit": limit, "most": most, "rates": rates} | found


def run_growth(job, args):
    """A quarter of the rows and all of them: of half of the table without a limit, of all of it with one."""
    result = {"mode": "growth", "job": job}
    for name, share, limit in (("memory", 2, 0), ("spilling", 1, args.limit)):
        runs = []
        for part in (4, 1):
            rows = args.data // ROW_BYTES // share // part // FILES * FILES
            runs.append(run_job(job, make(rows), 1, limit, args))
        result[name] = next(({"error": run["error"]} for run in runs if "error" in run), {"seconds": [run.get("seconds") for run in runs]})
    return result


# ---- report ----

def print_bounded(results):
    rows = []
    for r in results:
        if "error" in r:
            print(f"- {r['job']}: {r['error']}")
            continue
        bound = r["written"] / r["rates"][0] + r["restored"] / r["rates"][1]
        written = r["written"] / r["bytes"]
        share = bound / r["seconds"]
        rows.append([
            r["job"], f"{r['bytes'] / 1e6:.0f} MB", f"{r['limit'] / 1e6:.0f} MB", f"{r['seconds']:.1f} s",
            f"{r['peak'] / r['limit']:.2f} ×{'' if r['peak'] <= 1.1 * r['limit'] else ' NOT KEPT'}",
            f"{written:.2f} × (≤ {r['most']}){'' if written <= r['most'] else ' NOT KEPT'}", f"{r['restored'] / r['bytes']:.2f} ×",
            f"{100 * share:.0f} %{'' if share >= 0.6 else ' BELOW'}", f"{r['rates'][0] / 1e6:.0f} / {r['rates'][1] / 1e6:.0f} MB/s"])
    if rows:
        print(report.table(["bounded", "data or state", "limit", "time", "peak ÷ limit (≤ 1.1)", "written ÷ data", "read back ÷ data",
                            "of the disk bound (≥ 60 %)", "disk: write / read"], rows))
    for r in results:
        for line in r.get("told", []):
            print(f"- {r['job']}: {line}")


def print_growth(results):
    rows = []
    for r in results:
        for name in ("memory", "spilling"):
            if "error" in r[name]:
                print(f"- {r['job']}, {name}: {r[name]['error']}")
                continue
            few, all_rows = r[name]["seconds"]
            rows.append([r["job"], name, f"{few:.2f} s", f"{all_rows:.2f} s",
                         f"{all_rows / few:.2f} × (≤ 4.8){'' if all_rows <= 4.8 * few else ' NOT KEPT'}"])
    if rows:
        print(report.table(["growth", "where", "a quarter", "all", "4 × the rows take"], rows))


def size_of(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(float(text[:-1]) * (1 << units[text[-1].upper()])) if text[-1].upper() in units else int(text)


def main():
    if sys.argv[1:2] == ["--child"]:
        job, folder, times, limit, threads, spill = sys.argv[2:8]
        child(job, folder, int(times), int(limit), int(threads), spill)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=size_of, default=size_of("5G"), help="bytes of rows, such as 512M")
    parser.add_argument("--limit", type=size_of, default=0, help="memory_limit; a tenth of the data unless it is given")
    parser.add_argument("--jobs", default="", help="only jobs whose name contains one of these texts")
    parser.add_argument("--mode", default="bounded,growth")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=GIVEN_UP_S)
    parser.add_argument("--remove", action="store_true", help="delete the tables at the end")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    args.limit = args.limit or max(64 << 20, args.data // 10)
    names = {"bounded": tuple(JOBS), "growth": GROWTH}
    chosen = [(mode, job) for mode in args.mode.split(",") for job in names[mode]
              if not args.jobs or any(part in job for part in args.jobs.split(","))]
    if args.list:
        print("\n".join(f"{mode} {job}" for mode, job in chosen))
        return
    results = []
    try:
        for mode, job in chosen:
            begun = time.monotonic()
            results.append((run_bounded if mode == "bounded" else run_growth)(job, args))
            print(f"{mode} {job}: {time.monotonic() - begun:.0f} s{' ' + results[-1]['error'] if 'error' in results[-1] else ''}",
                  file=sys.stderr, flush=True)
    finally:
        print_bounded([r for r in results if r["mode"] == "bounded"])
        print_growth([r for r in results if r["mode"] == "growth"])
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "bounded.json").write_text(json.dumps(results, indent=1))
        shutil.rmtree(ROOT if args.remove else ROOT / "spill", ignore_errors=True)


if __name__ == "__main__":
    main()
