"""A program that uses the interface passes mypy --strict, and so does the package. Skipped without mypy."""
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.same_without
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from __future__ import annotations

from typing import Any

import weir
from weir import DataContext, Dataset, col, lit


class Model:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"score": batch["id"] * self.factor}


def double(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["id"] * 2}


def main() -> int:
    weir.init(memory_limit="1GB", ignore_reinit_error=True)
    context: DataContext = DataContext.get_current()
    context.max_errored_blocks = 3
    ds: Dataset = weir.range(10).filter(expr=col("id") > lit(2)).with_column("y", col("id") + 1)
    scores = ds.map_batches(Model, fn_constructor_args=[2.0], concurrency=(1, 2), batch_size=4).limit(3)
    rows: list[dict[str, Any]] = scores.take_all() + ds.map(double).take(1)
    kept: weir.MaterializedDataset = ds.repartition(2).materialize()
    blocks: int = kept.num_blocks()
    schema = kept.schema()
    names: list[str] = schema.names if schema is not None else []
    for batch in ds.iter_batches(batch_size=2, batch_format="numpy", drop_last=True):
        print(batch["id"])
    ds.write_parquet("/nowhere/else", mode=weir.SaveMode.OVERWRITE, compression="zstd")
    read = weir.read_parquet("in", filter=col("a") > 3, columns=["a"], partitioning=weir.Partitioning("hive"))
    pool = weir.ActorPoolStrategy(min_size=1, max_size=2)
    return len(rows) + blocks + len(names) + read.count() + pool.min_size
"""


def mypy(weir_build, *paths):
    """With the same options each time, so that what it has found out of the package is used again."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(weir_build / "mypy_cache"), "--config-file", str(ROOT / "pyproject.toml"),
         "--disable-error-code", "import-untyped", "--no-warn-unused-ignores", *map(str, paths)], capture_output=True, text=True, cwd=ROOT, timeout=600)


def test_the_package_and_a_program_that_uses_it(weir_build, tmp_path):
    pytest.importorskip("mypy")
    package = ROOT / "python" / "weir"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = mypy(weir_build, package, program)
    assert done.returncode == 0, done.stdout
    program.write_text(PROGRAM.replace('weir.range(10)', 'weir.range("ten")'))
    done = mypy(weir_build, package, program)
    assert done.returncode == 1 and "range" in done.stdout, done.stdout
