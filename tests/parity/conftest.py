"""As for tests/python: what is under test lies in WEIR_BUILD (build)."""
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = (HERE.parents[1] / os.environ.get("WEIR_BUILD", "build")).absolute() / "python"
for folder in (HERE, PACKAGE):
    sys.path.insert(0, str(folder))
os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
