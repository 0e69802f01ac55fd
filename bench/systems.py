"""The systems and how each is started on a job: a command line, and how its own report is read back."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jobs
import measure

HERE = Path(__file__).resolve().parent
OUT = jobs.ROOT / "out"
NAMES = ("weir", "polars", "duckdb", "pyarrow")
JUDGED = ("polars", "duckdb")  # weir is compared with the faster of these

# Settings between which the warm-up round chooses, the faster taken. Both times are recorded.
VARIANTS = {"duckdb": ("one file", "file per thread")}


@dataclasses.dataclass
class Sample:
    """One run of one system. seconds is what is compared: for weir the whole process, for a peer the job alone."""

    system: str
    variant: str
    seconds: float
    wall_s: float
    import_s: float
    cpu_s: float
    peak_mib: float
    hwm_mib: float
    foreign: float
    noisy: bool
    version: str = ""
    answer: str = ""
    error: str = ""


def failed(system, variant, error):
    return Sample(system, variant, 0, 0, 0, 0, 0, 0, 0, False, error=error)


def weir_command():
    """The weir command: WEIR_BUILD names it or its build folder, else build/ of this repository. None: not built."""
    place = Path(os.environ.get("WEIR_BUILD") or HERE.parent / "build")
    if place.is_file():
        return str(place.resolve())
    for found in [place / "weir", *sorted(place.glob("**/weir"))]:
        if found.is_file() and os.access(found, os.X_OK):
            return str(found.resolve())
    return None


def weir_literal(value):
    if isinstance(value, list):
        return f"({','.join(map(weir_literal, value))})"
    if isinstance(value, dict):
        (kind, text), = value.items()
        return f'{kind}("{text}")'
    return f'"{value}"' if isinstance(value, str) else repr(value)


def weir_arguments(job, out, limit_mib):
    if job.kind == "head":
        return ["head", str(job.folder), "-n", "1"]
    if job.kind == "count":
        return ["count", str(job.folder)]
    source = job.files if job.repeat_to else [f"{job.folder}/*.{job.input}"]
    terms = [f"{column} is not None" if op == "is valid" else f"{column} {op} {weir_literal(value)}"
             for column, op, value in job.where]
    arguments = ["read", *source]
    if terms:
        arguments += ["then", "filter", " and ".join(terms)]
    if job.total:
        arguments += ["then", "with", f"total = {jobs.TOTAL}"]
    if job.select:
        arguments += ["then", "select", ",".join(job.select)]
    if job.kind == "load":
        return arguments + ["then", "count"]
    arguments += ["then", "write", f"{out}/", "--mode", "overwrite", "--format", job.output]
    return arguments + (["--memory-limit", f"{limit_mib}M"] if limit_mib else [])


def peer_arguments(job, system, variant, out, threads, limit_mib):
    spec = {
        "kind": job.kind,
        "folder": str(job.folder),
        "files": job.files if job.kind in ("write", "load") else [],
        "input": job.input,
        "where": job.where,
        "select": job.select,
        "total": job.total,
        "output": job.output,
        "out": str(out),
        "threads": threads,
        "variant": variant,
        "limit_mib": limit_mib,
    }
    path = OUT / f"{system}.json"
    path.write_text(json.dumps(spec))
    return [sys.executable, str(HERE / "peer.py"), system, str(path)]


def error_text(run):
    if run.timed_out:
        return f"killed after {run.wall_s:.0f} s"
    lines = [line for line in (run.stderr or run.stdout).strip().splitlines() if line.strip()]
    return f"exit {run.rc}: {(lines or ['no message'])[-1].strip()[:300]}"


def start(job, system, variant, threads, limit_mib, timeout_s):
    """Runs the job once. The output, if any, is left in out_folder(system) for the check."""
    out = out_folder(system)
    remove_output(system)
    OUT.mkdir(parents=True, exist_ok=True)
    if system == "weir":
        program = weir_command()
        if not program:
            return failed(system, variant, "not built")
        command = [program, *weir_arguments(job, out, limit_mib)]
    else:
        out.mkdir()
        command = peer_arguments(job, system, variant, out, threads, limit_mib)
    run = measure.run(command, timeout_s=timeout_s)
    if run.rc or run.timed_out:
        return failed(system, variant, error_text(run))
    own = {} if system == "weir" else json.loads(run.stdout.strip().splitlines()[-1])
    whole_process = system == "weir" or job.kind == "head"
    return Sample(
        system=system,
        variant=variant,
        seconds=run.wall_s if whole_process else own["job_s"],
        wall_s=run.wall_s,
        import_s=own.get("import_s", 0.0),
        cpu_s=run.cpu_s,
        peak_mib=run.peak_mib,
        hwm_mib=run.hwm_mib,
        foreign=run.foreign,
        noisy=run.noisy,
        version=own.get("version", ""),
        answer=str(own.get("answer", "")) if own else run.stdout,
    )


def out_folder(system):
    return OUT / system


def remove_output(system):
    shutil.rmtree(out_folder(system), ignore_errors=True)
    shutil.rmtree(f"{out_folder(system)}.tmp", ignore_errors=True)


def weir_version():
    program = weir_command()
    if not program:
        return "not built"
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    return done.stdout.strip() or f"no --version (exit {done.returncode})"
