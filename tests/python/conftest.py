"""Where the things under test are: WEIR_BUILD names the folder with the command and the library (build)."""
import ctypes
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def weir_build():
    return (ROOT / os.environ.get("WEIR_BUILD", "build")).absolute()


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
