"""Scripts run under compat: `python -m weir.compat script.py`, with what they leave open in front and what is checked behind."""
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PACKAGE = (Path(__file__).resolve().parents[2] / os.environ.get("WEIR_BUILD", "build")).absolute() / "python"
sys.path.insert(0, str(PACKAGE))
os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with what the documents' buckets hold: large-data/, data/, images/ and Parquet files in `path`."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    import pyarrow.parquet as pq

    at = tmp_path_factory.mktemp("s3")
    for name in ("large-data", "data", "path"):
        (at / name).mkdir()
        for i in range(4):
            ids = range(100 * i, 100 * i + 100)
            table = pa.table({"id": list(ids), "value": [j - 150.0 for j in ids], "amount": [float(j) for j in ids], "valid": [j % 2 == 0 for j in ids],
                              "text": [f"text {j}" for j in ids], "label": [j % 3 for j in ids], "year": [2020 + j % 8 for j in ids]})
            pq.write_table(table, at / name / f"{i}.parquet", row_group_size=50)
    return at


@pytest.fixture
def run(inputs, tmp_path):
    """run(block, before=…, after=…): the block as printed; s3:// is a folder. Gives what it printed."""

    def started(block, before="", after="", env=None, fails=False):
        parts = []
        for part in (before, block, after):
            part = textwrap.dedent(part).strip("\n")
            parts.append(re.sub(r"s3://bucket/results/|s3://output/", f"{tmp_path}/out/", part).replace("s3://bucket/", f"{inputs}/").replace("s3://", f"{inputs}/"))
        script = tmp_path / "script.py"
        script.write_text(f"inputs = {str(inputs)!r}\npath = {str(inputs / 'path')!r}\nout = {str(tmp_path / 'out')!r}\n" + "\n".join(parts) + "\n")
        done = subprocess.run([sys.executable, "-m", "weir.compat", str(script)], capture_output=True, text=True, timeout=100,
                              env={**os.environ, **(env or {})}, cwd=tmp_path)
        if fails:
            assert done.returncode != 0, done.stdout
            return done.stderr
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return started
