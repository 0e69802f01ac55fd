"""Where the things under test are: WEIR_BUILD names the folder with the command, the library and the package (build)."""
import ctypes
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("WEIR_BUILD", "build")).absolute()
# For the tests, and for every Python that they start.
sys.path.insert(0, str(BUILD / "python"))
os.environ["PYTHONPATH"] = os.pathsep.join([str(BUILD / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])

# Whoever starts the tests in the background has interrupts ignored, and so would every program that they interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def weir_build():
    return BUILD


@pytest.fixture(scope="session")
def weir_command(weir_build):
    """The path of the command."""
    path = weir_build / "weir"
    assert path.exists(), f"{path} is not there: run make, or set WEIR_BUILD"
    return str(path)


@pytest.fixture(scope="session")
def libweir(weir_build):
    """The library, by ctypes."""
    return ctypes.CDLL(str(weir_build / "libweir.so"))
