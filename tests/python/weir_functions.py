"""Runs functions in this process as a worker would: spec → worker's function → batches."""
import os

import numpy as np

from weir import _apply, _call, _errors, _fuse, _weir, _worker
from weir._call import CallSpec  # noqa: F401


def batch_of(**columns):
    return _weir.batch_from_columns(columns)


def function_of(spec):
    """What a worker makes of a spec; objects are not pickled, so that a test sees what its function did."""
    if spec.batch_format != _fuse.BATCH:  # it is no user's
        _call.check(spec)
    return _apply.make(_call.function_head(spec), _call.function_objects(spec))


def mapped(fd, size):
    """A setup as a worker maps it."""
    import mmap
    try:
        return mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(fd)


def run(spec, batch):
    function = function_of(spec) if isinstance(spec, CallSpec) else spec
    return list(_apply.apply(function, batch))


def rows_of(batches):
    return [row for batch in batches for row in batch.rows()]


def failure_of(spec, batch, original=False, origin=None):
    """The exception that the driver raises for what a function does to a batch."""

    class Worker:
        payload = None
        memory = None

        def at(self, first, count):
            pass

        def output(self, result):
            pass

        def done(self):
            raise AssertionError("it did not fail")

        def failed(self, payload, memory=False):
            self.payload, self.memory = payload, memory

    class Task:
        number = 0
        rows_kept = 0

    function, worker, task = function_of(spec), Worker(), Task()
    task.batch = batch
    _worker.run_task(worker, function, task)
    return _errors.from_failure(worker.payload, spec.name, origin, original)


def error_of(spec, batch):
    return str(failure_of(spec, batch))


def arange(n):
    return batch_of(id=np.arange(n))
