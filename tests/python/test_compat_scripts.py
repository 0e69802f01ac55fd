"""Scripts as users of Ray Data write them print under compat what they print on Ray 2.60: recorded/compat_scripts has that.

    for each: python compat_scripts/NAME.py > recorded/compat_scripts/NAME.txt      (with ray[data] installed)
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NEEDS = {"torch_ingest": ["torch"], "inference": ["pandas", "pyarrow"], "quickstart": ["pandas", "pyarrow"], "sources_and_sinks": ["pandas", "pyarrow"],
         "expressions": ["pyarrow", "pandas"], "splits": ["pandas", "pyarrow"], "text": ["pyarrow"], "user_guide": ["pandas", "pyarrow"]}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", sorted(path.stem for path in (HERE / "compat_scripts").glob("*.py")))
def test_a_script_prints_what_it_prints_on_ray(name, tmp_path):
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed)
    done = subprocess.run([sys.executable, "-m", "weir.compat", HERE / "compat_scripts" / f"{name}.py"], capture_output=True, text=True,
                          timeout=300, env=os.environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (HERE / "recorded/compat_scripts" / f"{name}.txt").read_text()
