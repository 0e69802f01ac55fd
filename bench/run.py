"""The benchmark: weir against Polars, DuckDB and pyarrow on the same files. See README.md beside it.

    python bench/run.py [--size small|standard|large] [--jobs TEXT,…] [--systems NAME,…] [--rounds N] [--list]
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import jobs
import report
import rounds
import systems

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def arguments():
    parser = argparse.ArgumentParser(description="Benchmark weir against its peers on the same files.")
    parser.add_argument("--size", choices=list(jobs.BOUNDED_BYTES), default="standard")
    parser.add_argument("--jobs", default="", help="only jobs whose name contains one of these texts, comma-separated")
    parser.add_argument("--systems", default=",".join(systems.NAMES), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="cores given to every system")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a run is killed")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs and stop")
    args = parser.parse_args()
    args.systems = args.systems.split(",")
    unknown = set(args.systems) - set(systems.NAMES)
    if unknown:
        parser.error(f"no such system: {', '.join(sorted(unknown))}; there are {', '.join(systems.NAMES)}")
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    return args


def chosen_jobs(args):
    texts = [t for t in args.jobs.split(",") if t]
    chosen = [j for j in jobs.all_jobs(args.size) if not texts or any(t in j.name for t in texts)]
    if not chosen:
        sys.exit(f"no job's name contains any of {args.jobs!r}; --list shows them")
    return chosen


def prepare_data(chosen, size):
    names = sorted({job.dataset for job in chosen})
    subprocess.run([sys.executable, HERE / "data.py", "--size", size, *names], check=True)
    for job in chosen:
        jobs.load_facts(job)


def one_line(path, prefix=""):
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(prefix):
                return line[len(prefix) :].lstrip("\t :")
    except OSError:
        pass
    return "unknown"


def machine_facts(args):
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or "unknown",
        "size": args.size,
        "rounds": args.rounds,
        "cores used": f"{args.threads} of {os.cpu_count()}",
        "cpu": one_line("/proc/cpuinfo", "model name"),
        "memory": one_line("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "huge pages": one_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load at start": one_line("/proc/loadavg"),
        "python": platform.python_version(),
        "weir": systems.weir_version(),
    }


def add_versions(machine, result):
    for label, entry in result["systems"].items():
        if entry.get("version"):
            machine.setdefault(label.split()[0], entry["version"])


def save(name, results, machine):
    RESULTS.mkdir(exist_ok=True)
    text = report.markdown(results, machine)
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine, "jobs": results}, indent=1))
    for file in (f"{name}.md", "latest.md"):
        (RESULTS / file).write_text(text)
    return text


def progress(done, count, result, seconds):
    labels = result["systems"]
    cells = ", ".join(f"{label} {report.time_cell(entry)}" for label, entry in labels.items())
    ratio = f"{result['ratio']:.2f}" if "ratio" in result else "-"
    print(f"[{done}/{count}] {result['job']}: {ratio}  ({cells})  {seconds:.0f} s", file=sys.stderr, flush=True)


def main():
    args = arguments()
    if args.list:
        print("\n".join(job.name for job in jobs.all_jobs(args.size)))
        return
    chosen = chosen_jobs(args)
    prepare_data(chosen, args.size)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    machine = machine_facts(args)
    name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    results, text, stopped = [], "", False
    checker = rounds.Checker()
    try:
        for done, job in enumerate(chosen, 1):
            started = time.monotonic()
            outcome = rounds.run_job(job, args.systems, checker, args)
            result = report.figures(outcome)
            results.append(result)
            add_versions(machine, result)
            progress(done, len(chosen), result, time.monotonic() - started)
            text = save(name, results, machine)
    except KeyboardInterrupt:
        stopped = True
    finally:
        checker.close()
    if text:
        print(text)
        print(f"written to {RESULTS / name}.json and .md", file=sys.stderr)
    if stopped:
        sys.exit(f"stopped after {len(results)} of {len(chosen)} jobs")


if __name__ == "__main__":
    main()
