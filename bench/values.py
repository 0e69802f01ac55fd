#!/usr/bin/env python3
"""How fast batches become rows and NumPy arrays, and how fast Python values become batches; pyarrow beside it.

    bench/values.py [--rows 1000000] [--repeat 5]

Prints the best of several runs, a line each: what, seconds, and nanoseconds a value. WEIR_PYTHON names the folder that
the package is imported from (build/python).
"""
import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, os.environ.get("WEIR_PYTHON") or str(Path(__file__).resolve().parents[1] / "build" / "python"))

import numpy as np

from weir import _weir


def best(work, repeat):
    least = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        result = work()
        least = min(least, time.process_time() - start)
        del result
    return least


def show(what, seconds, values):
    print(f"{what:44} {seconds * 1e3:10.3f} ms {seconds / values * 1e9:9.1f} ns a value", flush=True)
    return seconds


def table(rows):
    """4 columns of ints, 3 of floats, 3 of strings."""
    random = np.random.default_rng(5)
    columns = {f"i{n}": random.integers(0, 10 ** 9, rows) for n in range(4)}
    columns |= {f"f{n}": random.random(rows) for n in range(3)}
    columns |= {f"s{n}": [f"text {k}" for k in random.integers(0, 10 ** 6, rows)] for n in range(3)}
    return _weir.batch_from_columns(columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()

    batch = table(args.rows)
    values = args.rows * 10
    pieces = range(0, args.rows, 4096)
    show("rows of 10 columns, all at once", best(lambda: batch.rows(), args.repeat), values)
    show("rows of 10 columns, 4,096 at a time",
         best(lambda: [len(batch.rows(at, at + 4096)) for at in pieces], args.repeat), values)
    rows = batch.rows()
    show("a batch of those rows", best(lambda: _weir.batch_from_rows(rows), args.repeat), values)
    show("the same, 4,096 at a time",
         best(lambda: [_weir.batch_from_rows(rows[at:at + 4096]) for at in pieces], args.repeat), values)
    try:
        import pyarrow as pa
        arrow = pa.record_batch(batch)
        show("pyarrow: to_pylist", best(lambda: arrow.to_pylist(), 1), values)
        show("pyarrow: Table.from_pylist", best(lambda: pa.Table.from_pylist(rows), 1), values)
    except ImportError:
        pass
    del rows

    wide = _weir.batch_from_columns({f"c{n}": np.arange(100) for n in range(2000)})
    show("2,000 columns to NumPy", best(lambda: wide.numpy(), 20), 2000)
    arrays = wide.numpy()
    show("2,000 NumPy columns to a batch", best(lambda: _weir.batch_from_columns(arrays), 20), 2000)
    one = _weir.batch_from_columns({"x": np.arange(1000)})
    show("1 column to NumPy", best(lambda: [one.numpy() for _ in range(1000)], 5), 1000)
    texts = batch.select(["s0"])
    show("strings to NumPy", best(lambda: texts.numpy(), args.repeat), args.rows)
    lists = _weir.batch_from_columns({"l": [[1, 2, 3]] * 100_000})
    show("lists to NumPy", best(lambda: lists.numpy(), args.repeat), 100_000)
    show("lists of 3 to rows", best(lambda: lists.rows(), args.repeat), 100_000)
    plain = [[1, 2, 3]] * 100_000
    show("lists of 3 from Python", best(lambda: _weir.batch_from_columns({"l": plain}), args.repeat), 100_000)
    dicts = [{"a": 1, "b": 2.5}] * 100_000
    show("dicts of 2 from Python", best(lambda: _weir.batch_from_columns({"d": dicts}), args.repeat), 100_000)
    tensors = [{"x": np.zeros(64, np.float32)} for _ in range(10_000)]
    show("rows with an array each to a tensor column", best(lambda: _weir.batch_from_rows(tensors), args.repeat), 10_000)
    times = _weir.batch_from_columns({"t": np.arange(100_000).astype("M8[us]")})
    show("timestamps to rows", best(lambda: times.rows(), args.repeat), 100_000)
    moments = times.rows()
    show("rows of timestamps to a batch", best(lambda: _weir.batch_from_rows(moments), args.repeat), 100_000)


if __name__ == "__main__":
    main()
