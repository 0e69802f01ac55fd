"""The last splits of many bytes are smaller than the others, so that lanes are done together; each row is in one of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

import weir  # noqa: E402
from weir.expressions import col  # noqa: E402

FILES, GROUPS, ROWS = 4, 17, 1_000_000  # 544 MB of numbers, a few kilobytes of files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("last")
    schema = pa.schema([("x", pa.int64())])
    for file in range(FILES):
        with pq.ParquetWriter(made / f"{file}.parquet", schema) as writer:
            for group in range(file * GROUPS, (file + 1) * GROUPS):
                writer.write_table(pa.table({"x": pa.array(np.full(ROWS, group))}), row_group_size=ROWS)
    return made


def test_every_row_once(folder: Path) -> None:
    counts = weir.read_parquet(str(folder)).groupby("x").count()
    found = {row["x"]: row["count()"] for row in counts.take_all()}
    assert found == {group: ROWS for group in range(FILES * GROUPS)}


def test_the_last_are_small(folder: Path) -> None:
    none = weir.read_parquet(str(folder)).filter(expr=col("x") * 2 == 1).materialize()
    tasks = re.search(r"(\d+) tasks executed", none.stats())
    assert none.count() == 0 and tasks and 20 <= int(tasks.group(1)) <= 40, none.stats()
