"""Which tests run now: each process of pytest writes it into the folder WEIR_RUNNING, where tools/run_tests.py looks when time is up.
Which have failed: the first process writes it into the file WEIR_FAILED.

And which run at all: of the cases of a test with the mark sample(n) its first and about one in n of the others, chosen by their names, so that
it is always the same; of a test with many cases and without the mark about every other one. With WEIR_FULL or WEIR_ALL all of them; with WEIR_THIN=n
about one in n of all tests."""
import os
import time
import zlib
from pathlib import Path

import pytest

FOLDER = os.environ.get("WEIR_RUNNING")
FAILED = os.environ.get("WEIR_FAILED")
MANY_CASES = 16
WHOLE = {"test_same_as_ray", "test_docstrings"}  # each case is a claim of its own
THIN = int(os.environ.get("WEIR_THIN", "1"))


def chosen(items):
    """Those that run, in their order."""
    cases = {}
    for item in items:
        cases.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    kept = set()
    for (_, name), found in cases.items():
        mark = found[0].get_closest_marker("sample")
        one_in = mark.args[0] if mark else 2 if len(found) > MANY_CASES and name not in WHOLE else 1
        one_in *= THIN
        kept.update(item for number, item in enumerate(found)
                    if (number == 0 and THIN == 1) or zlib.crc32(item.name.encode()) % one_in == 0)
    return [item for item in items if item in kept]


def pytest_collection_modifyitems(config, items):
    if os.environ.get("WEIR_FULL") or os.environ.get("WEIR_ALL"):
        return
    kept = chosen(items)
    if len(kept) < len(items) and len(items) > 1:  # one that was asked for by name runs
        gone = set(items) - set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item in gone])
        items[:] = kept


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
