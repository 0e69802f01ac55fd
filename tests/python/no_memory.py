"""Fails one allocation of Python's after the other while values are turned; for test_py_values.py, in a process of its own.

Prints a line for whatever came that was no MemoryError, and how many failed at all.
"""
import datetime as dt
import decimal
import gc

import _testcapi
import numpy as np

from weir import _weir

ROWS = [{"i": n + 2 ** 40, "f": n / 3, "s": f"é{n}" * 3, "b": b"xx", "l": [n + 1000, None], "d": {"a": n, "b": [str(n) * 5]},
         "m": dt.datetime(2020, 1, 1, 0, 0, n), "e": decimal.Decimal(n) / 4, "k": None, "z": n % 2 == 0} for n in range(5)]
TENSORS = [{"t": np.ones(3), "r": np.ones(n)} for n in range(3)]
LISTS = {"a": [1, 2, None], "b": ["a", "b", "c"], "c": [[1], [2.5], None]}


def main():
    batch, tensors = _weir.batch_from_rows(ROWS), _weir.batch_from_rows(TENSORS)
    work = [
        lambda: _weir.batch_from_rows(ROWS), lambda: _weir.batch_from_rows(TENSORS), lambda: _weir.batch_from_columns(LISTS),
        batch.rows, tensors.rows, batch.numpy, tensors.numpy, lambda: batch.numpy(writable=True),
        lambda: _weir.batch_concat([batch, batch.slice(1)]), lambda: (batch.schema(), repr(batch), batch.names),
        lambda: (batch.__arrow_c_array__(), batch.__arrow_c_stream__()),
        lambda: (batch.select(["i"]), batch.filter(b"\1\0\1\0\1"))]
    failed = 0
    for number, one in enumerate(work):
        one()  # what is imported at first use is there now
        before = _weir.batch_memory()
        at = well = 0
        while well < 25:
            at += 1
            try:
                _testcapi.set_nomemory(at, at + 1)
                try:
                    one()
                finally:
                    _testcapi.remove_mem_hooks()
                well += 1
            except MemoryError:
                failed += 1
                well = 0
            except BaseException as error:
                print(f"work {number}, allocation {at}: {error!r}")
                well = 0
        gc.collect()
        if _weir.batch_memory() != before:
            print(f"work {number}: {_weir.batch_memory() - before} bytes are left")
    print(failed, "failed")


main()
