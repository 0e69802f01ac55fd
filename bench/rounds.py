"""Runs one job: warms the files, one warm-up round with full checks, then the timed rounds, systems in turn.

Each timed round starts with the limit probe (limits.py) and then runs the systems one after the other, the first of
them changing from round to round. What a run produced is looked at after its clock has stopped, and removed.
"""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import jobs
import limits
import systems

HERE = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Contestant:
    label: str
    system: str
    limit_mib: int = 0


@dataclasses.dataclass
class Entry:
    """What one contestant did in one job."""

    samples: list = dataclasses.field(default_factory=list)  # of the timed rounds
    variants: dict = dataclasses.field(default_factory=dict)  # warm-up seconds of each setting tried
    check: dict = dataclasses.field(default_factory=dict)
    variant: str = ""
    error: str = ""


@dataclasses.dataclass
class Outcome:
    job: jobs.Job
    entries: dict  # label: Entry
    probes: list = dataclasses.field(default_factory=list)
    probe_error: str = ""


class Checker:
    """The process that looks at outputs (check.py), kept for the whole run."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "check.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C ends the benchmark, which then closes it
        )

    def look(self, folder, whole):
        self.process.stdin.write(f"{'+' if whole else ''}{folder}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the checker has died"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def contestants(job, names):
    if not job.bounded:
        return [Contestant(name, name) for name in names]
    limit = jobs.BOUNDED_LIMIT_MIB
    field = [Contestant(f"weir {limit}M", "weir", limit), Contestant("weir", "weir")]
    field += [Contestant(f"duckdb {limit}M", "duckdb", limit), Contestant("polars", "polars")]
    return [c for c in field if c.system in names]


def warm(job):
    """Brings the input into the page cache."""
    buffer = bytearray(1 << 20)
    for path in sorted(set(job.files)):
        with open(path, "rb", buffering=0) as f:
            while f.readinto(buffer):
                pass


def answer_error(job, sample):
    """head must show the first row and count the right number. A peer's head may give any row: it is told not to keep
    the order."""
    if job.kind == "head":
        right = job.facts["first_value"] in sample.answer if sample.system == "weir" else sample.answer
    else:
        right = str(job.facts["rows"]) in sample.answer.replace(",", "")
    return "" if right else f"wrong answer: {sample.answer.strip()[:100]!r}"


def run_once(job, who, variant, checker, whole, args):
    sample = systems.start(job, who.system, variant, args.threads, who.limit_mib, args.timeout)
    look = {}
    if not sample.error and job.kind == "write":
        look = checker.look(systems.out_folder(who.system), whole)
        sample.error = look.get("error", "")
    elif not sample.error:
        sample.error = answer_error(job, sample)
    systems.remove_output(who.system)
    return sample, look


def warm_up(job, field, checker, args):
    """One untimed run each, fully checked; of a system's settings the faster is kept for the rounds."""
    entries = {who.label: Entry() for who in field}
    for who in field:
        entry, best = entries[who.label], None
        options = systems.VARIANTS.get(who.system, ("",)) if job.kind == "write" else ("",)
        for variant in options:
            sample, look = run_once(job, who, variant, checker, True, args)
            if sample.error:
                entry.error = sample.error
                continue
            entry.variants[variant] = sample.seconds
            entry.check = look
            if best is None or sample.seconds < best:
                best, entry.variant = sample.seconds, variant
        if entry.variants:
            entry.error = ""
    return entries


def compare(entries):
    """Marks the entries whose rows or checksum differ from what most others wrote; one against one, weir is wrong."""
    in_turn = sorted(entries.items(), key=lambda item: item[0].startswith("weir"))
    sums = [(e.check["rows"], e.check.get("sum")) for _, e in in_turn if e.check and not e.error]
    if not sums:
        return
    right = max(sums, key=sums.count)
    for entry in entries.values():
        if not entry.check or entry.error:
            continue
        found = (entry.check["rows"], entry.check.get("sum"))
        if found != right:
            entry.error = f"WRONG RESULT: {found[0]} rows, {found[1]}; most others: {right[0]} rows, {right[1]}"


def probe(job, outcome, args):
    """The limit for this round; for a job that lists its files repeatedly, as many times as much."""
    if job.kind not in ("write", "load") or outcome.probe_error:
        return
    written = [e.check["bytes"] for e in outcome.entries.values() if e.check and not e.error]
    times = len(job.files) / job.facts["files"]
    try:
        found = limits.probe(job, args.threads, int(min(written, default=0) / times))
    except limits.Unavailable as e:
        outcome.probe_error = str(e)
        return
    found["limit_s"] = (found["decompress_s"] + found["write_s"]) * times
    outcome.probes.append(found)


def run_job(job, names, checker, args):
    field = contestants(job, names)
    warm(job)
    entries = warm_up(job, field, checker, args)
    compare(entries)
    outcome = Outcome(job, entries)
    for turn in range(min(args.rounds, 3) if job.bounded else args.rounds):
        probe(job, outcome, args)
        shift = turn % len(field)
        for who in field[shift:] + field[:shift]:
            entry = entries[who.label]
            if entry.error:
                continue
            sample, look = run_once(job, who, entry.variant, checker, False, args)
            entry.error = sample.error
            if not entry.error and look and look["rows"] != entry.check["rows"]:
                entry.error = f"WRONG RESULT in round {turn + 1}: {look['rows']} rows, before {entry.check['rows']}"
            sample.answer = ""
            entry.samples.append((turn, sample))
    return outcome
