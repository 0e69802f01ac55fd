"""Which tests run now: each process of pytest writes it into the folder WEIR_RUNNING, where tools/run_tests.py looks when time is up."""
import os
import time
from pathlib import Path

import pytest

FOLDER = os.environ.get("WEIR_RUNNING")


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
