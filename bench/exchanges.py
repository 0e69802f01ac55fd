#!/usr/bin/env python3
"""What moves rows: sort, group, join, shuffle and two queries, weir against Polars, DuckDB and Ray Data, in the same run.

    bench/exchanges.py [--size small|medium|standard] [--jobs PART,…] [--systems NAME,…] [--mode NAME,…] [--rounds N] [--list]

Every run is a process of its own (exchange_jobs.py) on the same files (exchange_data.py); systems take turns, and the first of
them changes from round to round. A system's time is that of its job after import and start-up; the job ends when all rows of
the result are in the system's memory. Answers must agree. Modes:

  speed    medians, and each peer's time divided by weir's.
  bounded  weir alone, on data of ten times its limit: the memory of all its processes, sampled every 5 ms from outside, less
           what the interpreter held before; bytes written to disk and read back, and what share of the time the disk would have
           needed for them at the rates that a probe has measured just before.
  growth   weir alone, on a quarter of the rows and on all of them, in memory and at a limit of a tenth of the smaller table.

Nothing here fails because of a time.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

import exchange_data
import exchange_jobs
import measure
import report

HERE = Path(__file__).resolve().parent
SYSTEMS = ("weir", "polars", "duckdb", "ray")
MODES = ("speed", "bounded", "growth")
WANTED = {"polars": 1.1, "duckdb": 1.1, "ray": 8}
LIMIT_MIN = 64 << 20  # the smallest that weir takes
LIMIT_BOUNDED = {"small": 64 << 20, "medium": 128 << 20, "standard": 512 << 20}
BOUNDED = ("group-int-10m", "group-string-10m", "sort-random", "sort-zipf", "join", "shuffle")
GROWTH = ("group-int-1m", "group-int-10m", "sort-random", "join", "shuffle", "q3")
PROBE_BYTES = 1 << 30
MEMORY_TIMES = 2  # the rows, and the result


# ---- runs ----

def run_once(system, job, folder, args, limit=0, times=1):
    env = dict(os.environ, BENCH_THREADS=str(args.threads))
    build = os.environ.get("WEIR_PYTHON", "")
    if build:
        env["PYTHONPATH"] = build
    command = [sys.executable, str(HERE / "exchange_jobs.py"), system, job, str(folder), "--limit", str(limit), "--times", str(times)]
    run = measure.run(command, env=env, timeout_s=args.timeout)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.rc or not lines:
        tail = (run.stderr or run.stdout).strip().splitlines()[-1:] or ["no message"]
        return {"error": f"killed after {run.wall_s:.0f} s" if run.timed_out else f"exit {run.rc}: {tail[0][:200]}"}
    own = json.loads(lines[-1])
    if "skipped" in own:
        return {"error": f"skipped, it is not there yet: {own['skipped']}"}
    return own | {"seconds": own["job_s"], "peak_mib": run.peak_mib, "wall_s": run.wall_s, "noisy": run.noisy}


def summary(runs):
    good = [r for r in runs if "error" not in r]
    if len(good) < len(runs) or not good:
        return {"error": next((r["error"] for r in runs if "error" in r), "no run")}
    times = [r["seconds"] for r in good]
    return {"median_s": statistics.median(times), "spread": (max(times) - min(times)) / statistics.median(times),
            "peak_mib": max(r["peak_mib"] for r in good), "noisy": any(r["noisy"] for r in good), "runs": good}


def run_speed(job, args):
    folder = exchange_data.make(args.rows, exchange_jobs.tables_of(job))
    warm(folder, job)
    samples = {s: [] for s in args.systems}
    for turn in range(args.rounds + 1):  # the first is the warm-up
        order = args.systems[turn % len(args.systems):] + args.systems[: turn % len(args.systems)]
        for system in order:
            if samples[system] and "error" in samples[system][-1]:
                continue
            sample = run_once(system, job, folder, args)
            if turn > 0 or "error" in sample or not args.rounds:
                samples[system].append(sample)
    answers = {json.dumps(s[0]["answer"], sort_keys=True) for s in samples.values() if s and "answer" in s[0]}
    return {"mode": "speed", "job": job, "systems": {s: summary(runs) for s, runs in samples.items()},
            "agree": len(answers) <= 1, "answers": sorted(answers)}


def warm(folder, job):
    buffer = bytearray(1 << 20)
    for table in exchange_jobs.tables_of(job):
        for path in sorted((folder / table).glob("*.parquet")):
            with open(path, "rb", buffering=0) as f:
                while f.readinto(buffer):
                    pass


def sampled(system, job, folder, args, limit, times):
    """A run, with the largest proportional memory of all its processes."""
    peaks, stop = [0], threading.Event()
    thread = threading.Thread(target=measure.sample_pss, args=(os.getpid(), peaks, stop))
    thread.start()
    try:
        sample = run_once(system, job, folder, args, limit, times)
    finally:
        stop.set()
        thread.join()
    return sample, peaks[0]


def run_bounded(job, args):
    folder = exchange_data.make(args.rows, exchange_jobs.tables_of(job))
    table = exchange_jobs.JOBS[job][1]
    size = exchange_data.decoded_bytes(folder, table, exchange_jobs.columns_of(job))
    limit = args.limit or LIMIT_BOUNDED[args.size]
    times = max(1, round(10 * limit / size))
    if exchange_jobs.JOBS[job][0] == "group":  # more of the same rows are no more groups
        times, limit = 1, args.limit or max(LIMIT_MIN, size // 10)
    rates = measure.probe_disk(Path(os.environ.get("TMPDIR", "/tmp")), min(PROBE_BYTES, max(64 << 20, size * times)))
    warm(folder, job)
    sample, peak = sampled("weir", job, folder, args, limit, times)
    result = {"mode": "bounded", "job": job, "sample": sample, "limit": limit, "bytes": size * times, "write_rate": rates[0],
              "read_rate": rates[1]}
    if "error" not in sample:
        result["peak"] = peak - sample["held"]
        result["bound_s"] = sample["spilled"] / rates[0] + sample["restored"] / rates[1]
    return result


def run_growth(job, args):
    result = {"mode": "growth", "job": job}
    folders = [exchange_data.make(n, exchange_jobs.tables_of(job)) for n in (args.rows // 4, args.rows)]
    columns, table = exchange_jobs.columns_of(job), exchange_jobs.JOBS[job][1]
    few, many = (exchange_data.decoded_bytes(folder, table, columns) if columns else 0 for folder in folders)
    limit = max(LIMIT_MIN, few // 10)
    for name, bound in (("memory", 0), ("spilling", limit)):
        runs = [[], []]
        for _ in range(max(1, args.rounds)):
            for at, folder in enumerate(folders):
                warm(folder, job)
                measure.use_memory(MEMORY_TIMES * many)
                runs[at].append(run_once("weir", job, folder, args, bound))
        found = [summary(some) for some in runs]
        error = next((one["error"] for one in found if "error" in one), None)
        result[name] = {"error": error} if error else {
            "seconds": [one["median_s"] for one in found], "ratio": found[1]["median_s"] / found[0]["median_s"],
            "spilled": [one["runs"][-1]["spilled"] for one in found], "limit": bound}
    return result


# ---- report ----

def duration(seconds):
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def cell(entry):
    if entry is None:
        return ""
    if "error" in entry:
        return "skipped" if entry["error"].startswith("skipped") else "error"
    return f"{duration(entry['median_s'])} ±{entry['spread'] * 50:.0f} %" + (" ~" if entry["noisy"] else "")


def ratios(result):
    weir = result["systems"].get("weir", {}).get("median_s")
    found = [(s, entry["median_s"] / weir) for s, entry in result["systems"].items() if weir and s != "weir" and "median_s" in entry]
    return ", ".join(f"{s} {ratio:.2f}× (≥ {WANTED[s]})" for s, ratio in found)


def print_speed(results):
    labels = [s for s in SYSTEMS if any(s in r["systems"] for r in results)]
    peaks = [" / ".join(f"{r['systems'][s]['peak_mib']:.0f}" if "peak_mib" in r["systems"].get(s, {}) else "-" for s in labels)
             for r in results]
    rows = [[r["job"], ratios(r), *(cell(r["systems"].get(s)) for s in labels), peak] for r, peak in zip(results, peaks)]
    print(report.table(["job", "peer ÷ weir", *labels, f"peak MiB ({'/'.join(labels)})"], rows))
    for r in results:
        if not r["agree"]:
            print(f"- {r['job']}: ANSWERS DIFFER: {', '.join(r['answers'])}")
        for system, entry in r["systems"].items():
            if r["job"] == "sum-mixed" and "runs" in entry:
                print(f"- {r['job']}: {system} is {entry['runs'][-1]['ulps']:.0f} ulp from the exact sum")
            if "error" in entry:
                print(f"- {r['job']}: {system}: {entry['error']}")


def print_bounded(results):
    rows = []
    for r in results:
        sample = r["sample"]
        if "error" in sample:
            print(f"- {r['job']} bounded: {sample['error']}")
            continue
        allowed = r["limit"] * 1.1
        rows.append([
            r["job"], f"{r['bytes'] / 1e6:.0f} MB", f"{r['limit'] / 1e6:.0f} MB", duration(sample["seconds"]),
            f"{r['peak'] / 1e6:.0f} MB {'kept' if r['peak'] <= allowed else 'NOT KEPT'}",
            f"{sample['spilled'] / 1e6:.0f} MB ({sample['spilled'] / r['bytes']:.2f} ×)", f"{sample['restored'] / 1e6:.0f} MB",
            f"{100 * r['bound_s'] / sample['seconds']:.0f} % of {r['write_rate'] / 1e6:.0f}/{r['read_rate'] / 1e6:.0f} MB/s"])
    if rows:
        print(report.table(["bounded", "data", "limit", "time", "memory", "written", "read back", "disk bound (≥ 60 %)"], rows))


def print_growth(results):
    rows = []
    for r in results:
        for name in ("memory", "spilling"):
            one = r[name]
            if one["error"] if "error" in one else None:
                print(f"- {r['job']} growth, {name}: {one['error']}")
                continue
            rows.append([r["job"], name, *(duration(s) for s in one["seconds"]), f"{one['ratio']:.2f} × (≤ 4.8)",
                         " / ".join(f"{b / 1e6:.0f}" for b in one["spilled"])])
    if rows:
        print(report.table(["growth", "where", "a quarter", "all", "4 × the rows take", "MB written"], rows))


PRINTS = {"speed": print_speed, "bounded": print_bounded, "growth": print_growth}
RUNS = {"speed": run_speed, "bounded": run_bounded, "growth": run_growth}
JOBS_OF = {"speed": tuple(exchange_jobs.JOBS), "bounded": BOUNDED, "growth": GROWTH}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(exchange_data.ROWS), default="standard")
    parser.add_argument("--rows", type=int, default=0, help="instead of a size: rows of the largest tables")
    parser.add_argument("--jobs", default="", help="only jobs whose name contains one of these texts")
    parser.add_argument("--systems", default="weir,polars,duckdb")
    parser.add_argument("--mode", default=",".join(MODES))
    parser.add_argument("--limit", type=int, default=0, help="the limit of bounded runs, in bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    args.systems = args.systems.split(",")
    args.rows = args.rows or exchange_data.ROWS[args.size]
    chosen = [(mode, job) for mode in args.mode.split(",") for job in JOBS_OF[mode]
              if not args.jobs or any(part in job for part in args.jobs.split(","))]
    if args.list:
        print("\n".join(f"{mode} {job}" for mode, job in chosen))
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    results = []
    for mode, job in chosen:
        started = time.monotonic()
        results.append(RUNS[mode](job, args))
        print(f"{mode} {job}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    for mode in MODES:
        found = [r for r in results if r["mode"] == mode]
        if found:
            PRINTS[mode](found)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "exchanges.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
