"""Which tests run now: each process of pytest writes it into the folder WEIR_RUNNING, where tools/run_tests.py looks when time is up.
Which have failed: the first process writes it into the file WEIR_FAILED. And which run at all: of the cases of a test with the mark sample(n), about one in n, chosen by their names, so that it is always the same."""
import os
import time
import zlib
from pathlib import Path

import pytest

FOLDER = os.environ.get("WEIR_RUNNING")
FAILED = os.environ.get("WEIR_FAILED")


def is_left_out(item):
    mark = item.get_closest_marker("sample")
    return mark is not None and zlib.crc32(item.name.encode()) % mark.args[0] != 0


def pytest_collection_modifyitems(config, items):
    if os.environ.get("WEIR_FULL"):
        return
    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_left_out(item)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if not FOLDER:
        return (yield)
    mark = Path(FOLDER) / str(os.getpid())
    mark.write_text(f"{time.monotonic()} {item.nodeid}")
    try:
        return (yield)
    finally:
        mark.write_text("")


def pytest_runtest_logreport(report):
    if FAILED and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(FAILED, "a") as out:
            out.write(report.nodeid + "\n")
