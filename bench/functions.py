#!/usr/bin/env python3
"""Python functions and training batches: weir against Ray Data, Polars, Daft and PyTorch's DataLoader, in the same run; and
weir against itself when Ray Data's program runs through weir.compat (the system "compat").

    bench/functions.py [--size small|standard] [--jobs PART,…] [--systems NAME,…] [--rounds N] [--list]

Every run is a process of its own (function_jobs.py); systems take turns, and the first of them changes from round to round.
A system's time is that of its job after import and start-up; first-row jobs count the whole process. Answers must agree.
Printed are medians, each peer's time divided by weir's beside what the project asks of it, and the peak memory of the
whole process tree (anonymous + shared). The bounded job holds ten times its batch at a limit of 512 MB; its proportional
memory (PSS) is sampled every 5 ms from outside. The data is made on first use in bench/data/functions/.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import measure
import report

HERE = Path(__file__).resolve().parent
ROOT = HERE / "data" / "functions"
VERSION = 1
ROWS = {"small": (100_000, 100_000), "standard": (2_000_000, 1_000_000)}  # vectors, rows
FILES = 10
WHOLE_PROCESS = {"first-row-native": 150, "first-row-function": 400}  # ms that weir may take
IMPORT_ALLOWED = 40  # ms of `import weir`
# job: systems, and by how much weir should be ahead of each
JOBS = {
    "vectors-map": {"ray": 15, "polars": 2, "daft": 0, "compat": 0},
    "vectors-class": {"ray": 10, "polars": 0, "compat": 0},
    "rows-map": {"ray": 6, "polars": 1.2, "compat": 0},
    "vectors-torch": {"ray": 15, "dataloader": 5, "compat": 0},
    "tiny-blocks": {"ray": 50, "compat": 0},
    "identity-batches": {"ray": 0, "compat": 0},  # what a batch costs by itself
    "first-row-native": {"ray": 0, "polars": 0, "daft": 0, "compat": 0},
    "first-row-function": {"ray": 0, "compat": 0},
    "bounded": {},
}
SYSTEMS = ("weir", "ray", "daft", "polars", "dataloader", "compat")
BOUNDED_LIMIT = "512MB"
BOUNDED_ALLOWED = 564_000_000


# ---- data ----

def make_vectors(folder, rows):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for part in range(FILES):
        values = np.random.default_rng([3, part]).random(rows // FILES * 256, dtype=np.float32)
        table = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(values), 256)})
        pq.write_table(table, folder / f"{part}.parquet", compression="none", use_dictionary=False,
                       row_group_size=20_000)


def make_rows(folder, rows):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    words = np.array(["stone", "river", "weir", "Mühle", "water", "gate", "flood", "bank"])
    for part in range(FILES):
        rng, n = np.random.default_rng([4, part]), rows // FILES
        pq.write_table(pa.table({
            "id": np.arange(part * n, (part + 1) * n), "price": rng.random(n) * 1000, "discount": rng.random(n) / 10,
            "quantity": rng.integers(1, 50, n), "name": words[rng.integers(0, 8, n)],
            "flag": words[rng.integers(0, 3, n)], "day": rng.integers(0, 20000, n).astype("int32"),
            "open": rng.random(n) > 0.5, "x": rng.standard_normal(n), "y": rng.standard_normal(n),
        }), folder / f"{part}.parquet", compression="snappy")


def make(size):
    folder = ROOT / size
    stamp = folder / "made.json"
    if stamp.exists() and json.loads(stamp.read_text()) == VERSION:
        return folder
    print(f"making {folder} …", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_vectors(folder / "vectors", ROWS[size][0])
    make_rows(folder / "rows", ROWS[size][1])
    stamp.write_text(json.dumps(VERSION))
    return folder


def warm(folder):
    buffer = bytearray(1 << 20)
    for path in sorted(folder.rglob("*.parquet")):
        with open(path, "rb", buffering=0) as f:
            while f.readinto(buffer):
                pass


# ---- runs ----

def command(system, job, folder, limit):
    interpreter = [sys.executable, "-m", "weir.compat"] if system == "compat" else [sys.executable]
    return [*interpreter, str(HERE / "function_jobs.py"), system, job, str(folder), *([limit] if limit else [])]


def run_once(system, job, folder, args, limit=""):
    env = dict(os.environ, BENCH_THREADS=str(args.threads))
    build = os.environ.get("WEIR_PYTHON", "")
    if build:
        env["PYTHONPATH"] = build
    run = measure.run(command(system, job, folder, limit), env=env, timeout_s=args.timeout)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.rc or not lines:
        tail = (run.stderr or run.stdout).strip().splitlines()[-1:] or ["no message"]
        return {"error": f"killed after {run.wall_s:.0f} s" if run.timed_out else f"exit {run.rc}: {tail[0][:200]}"}
    own = json.loads(lines[-1])
    seconds = run.wall_s if job in WHOLE_PROCESS else own["job_s"]
    return {"seconds": seconds, "peak_mib": run.peak_mib, "answer": own["answer"], "wall_s": run.wall_s,
            "import_s": own["import_s"], "start_s": own["start_s"], "noisy": run.noisy}


def run_job(job, folder, args):
    field = [s for s in ("weir", *JOBS[job]) if s in args.systems]
    samples = {s: [] for s in field}
    for turn in range(args.rounds + 1):  # the first is the warm-up
        order = field[turn % len(field):] + field[: turn % len(field)]
        for system in order:
            if samples[system] and "error" in samples[system][-1]:
                continue
            sample = run_once(system, job, folder, args)
            if turn > 0 or "error" in sample:
                samples[system].append(sample)
    answers = {json.dumps(s[0]["answer"], sort_keys=True) for s in samples.values() if s and "answer" in s[0]}
    result = {"job": job, "systems": {}, "agree": len(answers) <= 1, "answers": sorted(answers)}
    for system, runs in samples.items():
        good = [r for r in runs if "error" not in r]
        if len(good) < len(runs) or not good:
            result["systems"][system] = {"error": next((r["error"] for r in runs if "error" in r), "no run")}
            continue
        times = [r["seconds"] for r in good]
        result["systems"][system] = {
            "median_s": statistics.median(times), "spread": (max(times) - min(times)) / statistics.median(times),
            "peak_mib": max(r["peak_mib"] for r in good), "noisy": any(r["noisy"] for r in good), "runs": good}
    return result


def run_bounded(folder, args):
    peaks, stop = [0], threading.Event()
    thread = threading.Thread(target=measure.sample_pss, args=(os.getpid(), peaks, stop))
    thread.start()
    try:
        sample = run_once("weir", "vectors-hold", folder, args, BOUNDED_LIMIT)
    finally:
        stop.set()
        thread.join()
    return {"job": "bounded", "sample": sample, "pss_peak": peaks[0]}


# ---- report ----

def cell(entry):
    if entry is None:
        return ""
    if "error" in entry:
        return "error"
    s = entry["median_s"]
    return (f"{s * 1000:.0f} ms" if s < 1 else f"{s:.2f} s") + f" ±{entry['spread'] * 50:.0f} %" + \
        (" ~" if entry["noisy"] else "")


def ratios(result):
    weir = result["systems"].get("weir", {}).get("median_s")
    parts = []
    for system, wanted in JOBS[result["job"]].items():
        entry = result["systems"].get(system, {})
        if weir and "median_s" in entry:
            asked = f" (≥ {wanted})" if wanted else ""
            parts.append(f"{system} {entry['median_s'] / weir:.1f}×{asked}")
    return ", ".join(parts)


def print_start(result):
    """What a job that is mostly start takes, beside what it may."""
    runs = result["systems"].get("weir", {}).get("runs")
    if result["job"] not in WHOLE_PROCESS or not runs:
        return
    figures = [(result["job"], "seconds", WHOLE_PROCESS[result["job"]])]
    if result["job"] == "first-row-native":
        figures.append(("import weir", "import_s", IMPORT_ALLOWED))
    for what, key, allowed in figures:
        ms = statistics.median(run[key] for run in runs) * 1000
        print(f"{what}: {ms:.0f} ms ({'kept' if ms <= allowed else 'NOT KEPT'}, ≤ {allowed} ms)")


def print_report(results):
    plain = [r for r in results if "systems" in r]
    if plain:
        labels = [s for s in SYSTEMS if any(s in r["systems"] for r in plain)]
        rows = [[r["job"], ratios(r), *(cell(r["systems"].get(s)) for s in labels),
                 " / ".join(f"{r['systems'][s]['peak_mib']:.0f}" if "peak_mib" in r["systems"].get(s, {}) else "-"
                            for s in labels)] for r in plain]
        print(report.table(["job", "peer ÷ weir", *labels, f"peak MiB ({'/'.join(labels)})"], rows))
    for r in plain:
        if not r["agree"]:
            print(f"- {r['job']}: ANSWERS DIFFER: {', '.join(r['answers'])}")
        for system, entry in r["systems"].items():
            if "error" in entry:
                print(f"- {r['job']}: {system}: {entry['error']}")
        if r["job"] == "identity-batches" and "runs" in r["systems"].get("weir", {}):
            runs = r["systems"]["weir"]["runs"]
            cost = statistics.median(run["seconds"] / run["answer"]["batches"] for run in runs) * 1e6
            print(f"identity-batches: {cost:.1f} µs a batch, with the start of the run and of its workers (≤ 20 µs)")
        print_start(r)
    for r in results:
        if r["job"] == "bounded":
            said = r["sample"].get("error") or f"{r['sample']['seconds']:.2f} s"
            verdict = "kept" if r["pss_peak"] <= BOUNDED_ALLOWED else "NOT KEPT"
            print(f"bounded at {BOUNDED_LIMIT}: {said}, proportional memory at most {r['pss_peak'] / 1e6:.0f} MB "
                  f"({verdict}, ≤ {BOUNDED_ALLOWED / 1e6:.0f} MB)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(ROWS), default="standard")
    parser.add_argument("--jobs", default="", help="only jobs whose name contains one of these texts")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    args.systems = args.systems.split(",")
    chosen = [j for j in JOBS if not args.jobs or any(t in j for t in args.jobs.split(","))]
    if args.list:
        print("\n".join(chosen))
        return
    folder = make(args.size)
    warm(folder)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    results = []
    for job in chosen:
        started = time.monotonic()
        results.append(run_bounded(folder, args) if job == "bounded" else run_job(job, folder, args))
        print(f"{job}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print_report(results)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "functions.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
