#!/usr/bin/env python3
"""Preprocessors: fit and transform by weir and by Ray Data, of the same data, in the same run.

    bench/preprocessors.py [--rows N] [--jobs PART,…] [--systems weir,ray] [--rounds N] [--timeout S] [--list]

A system is a process of its own that imports and starts up first, reads the rows into memory (materialize) and then runs each job
once to warm up and `rounds` times for its time: fit, transform, and all blocks made (materialize). Sums over the results must agree.
Printed are medians and Ray Data's divided by weir's. RobustScaler is not Ray Data's without the package datasketches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE / "data" / "preprocessors"
VERSION = 1
FILES = 8
SYSTEMS = ("weir", "ray")
WORDS = ("stone", "river", "weir", "water", "gate", "flood", "bank", "mill", "wheel", "ford")


def make(rows: int) -> Path:
    """The rows as Parquet files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = ROOT / f"{VERSION}-{rows}"
    if folder.exists():
        return folder
    part_folder = folder.with_suffix(".part")
    part_folder.mkdir(parents=True, exist_ok=True)
    words = np.array(WORDS)
    for part in range(FILES):
        rng, n = np.random.default_rng([7, part]), rows // FILES
        holed = rng.random(n) < 0.1
        pq.write_table(pa.table({
            "a": rng.standard_normal(n), "b": rng.random(n) * 100, "c": rng.integers(0, 1000, n).astype(float),
            "holed": pa.array(rng.random(n), mask=holed), "kind": words[rng.integers(0, len(words), n)],
            "text": [" ".join(row) for row in words[rng.integers(0, len(words), (n, 6))]],
        }), part_folder / f"{part}.parquet")
    part_folder.rename(folder)
    return folder


def jobs(p: Any) -> dict[str, tuple[Any, list[str]]]:
    """By name: how it is made, and the columns whose sum is the answer."""
    import numpy as np

    return {
        "StandardScaler": (lambda: p.StandardScaler(["a", "b"]), ["a", "b"]),
        "MinMaxScaler": (lambda: p.MinMaxScaler(["a", "b", "c"]), ["a", "b", "c"]),
        "RobustScaler": (lambda: p.RobustScaler(["a", "b"]), []),
        "SimpleImputer": (lambda: p.SimpleImputer(["holed"]), ["holed"]),
        "UniformKBinsDiscretizer": (lambda: p.UniformKBinsDiscretizer(["b"], 20), ["b"]),
        "OrdinalEncoder": (lambda: p.OrdinalEncoder(["kind"]), ["kind"]),
        "OneHotEncoder": (lambda: p.OneHotEncoder(["kind"]), []),
        "Concatenator": (lambda: p.Concatenator(["a", "b", "c"], "v", np.float32), []),
        "FeatureHasher": (lambda: p.FeatureHasher(["b", "c"], 16, "v"), []),
        "HashingVectorizer": (lambda: p.HashingVectorizer(["text"], 16), []),
        "CountVectorizer": (lambda: p.CountVectorizer(["text"]), []),
        "Chain": (lambda: p.Chain(p.SimpleImputer(["holed"]), p.StandardScaler(["a", "b", "holed"]), p.OrdinalEncoder(["kind"]),
                                  p.Concatenator(["a", "b", "holed"], "v")), ["kind"]),
    }


def run_system(system: str, folder: str, names: list[str], rounds: int) -> None:
    """The jobs of one system; a line of JSON for each."""
    if system == "ray":
        import logging

        import ray
        import ray.data.preprocessors as p
        from ray import data

        ray.init(num_cpus=2, logging_level=logging.ERROR, include_dashboard=False)
        data.DataContext.get_current().enable_progress_bars = False
    else:
        import weir as data
        from weir import preprocessors as p
    ds = data.read_parquet(folder).materialize()
    for name, (new, columns) in jobs(p).items():
        if name not in names:
            continue
        times = []
        try:
            for at in range(rounds + 1):
                begin = time.perf_counter()
                made = new().fit_transform(ds) if new()._is_fittable else new().transform(ds)
                made = made.materialize()
                times.append(time.perf_counter() - begin)
                if at == 0:
                    found = {column: float(made.sum(column)) for column in columns} | {"rows": made.count()}
            result: dict[str, Any] = {"seconds": statistics.median(times[1:]), "answer": found}
        except Exception as error:  # printed in the table
            result = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:100]}
        print(json.dumps({"job": name, **result}), flush=True)


def same(a: dict[str, float], b: dict[str, float]) -> bool:
    return all(abs(a[key] - b[key]) <= 1e-6 * max(1.0, abs(a[key]), a["rows"]) for key in a)


def report(found: dict[str, dict[str, dict[str, Any]]], names: list[str]) -> int:
    """The table; how many answers differ."""
    wrong = 0
    print(f"{'job':26}{'weir':>10}{'Ray Data':>12}{'ratio':>9}")
    for name in names:
        mine, theirs = (found.get(system, {}).get(name, {}) for system in SYSTEMS)
        words = [f"{one['seconds']:.3f} s" if "seconds" in one else "–" for one in (mine, theirs)]
        ratio = f"{theirs['seconds'] / mine['seconds']:.0f} ×" if "seconds" in mine and "seconds" in theirs else ""
        note = next((one["error"] for one in (mine, theirs) if "error" in one), "")
        if ratio and not same(mine["answer"], theirs["answer"]):
            wrong += 1
            note = f"answers differ: {mine['answer']} {theirs['answer']}"
        print(f"{name:26}{words[0]:>10}{words[1]:>12}{ratio:>9}  {note}".rstrip())
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--jobs", default="")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=1200, help="seconds for all jobs of a system")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--run", nargs=2, metavar=("SYSTEM", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    parts = [part for part in args.jobs.split(",") if part]
    names = [name for name in jobs(None) if not parts or any(part in name for part in parts)]
    if args.list:
        print("\n".join(names))
        return 0
    if args.run:
        run_system(*args.run, names, args.rounds)
        return 0
    folder = make(args.rows)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    env = dict(os.environ)
    if env.get("WEIR_PYTHON"):
        env["PYTHONPATH"] = env["WEIR_PYTHON"]
    for system in args.systems.split(","):
        words = [sys.executable, __file__, "--jobs", args.jobs, "--rounds", str(args.rounds), "--run", system, str(folder)]
        with tempfile.TemporaryFile("w+") as out:  # kept however the run ends
            try:
                code = subprocess.run(words, env=env, stdout=out, text=True, timeout=args.timeout).returncode
            except subprocess.TimeoutExpired:
                code = -1
            out.seek(0)
            lines = [json.loads(line) for line in out.read().splitlines() if line.startswith("{")]
        found[system] = {line["job"]: line for line in lines}
        if code:
            print(f"{system}: " + (f"exit {code}" if code > 0 else "it was stopped before its last job"), file=sys.stderr)
    return report(found, names)


if __name__ == "__main__":
    sys.exit(main())
