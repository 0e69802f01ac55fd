"""CSV to Parquet: read, clean, enrich with a Python function, write, look at the result.

    python etl.py [FOLDER]

Makes a few CSV files of orders in FOLDER (a temporary one by default) and writes a folder of Parquet files beside them.
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import weir
from weir.expressions import col

CITIES = ["Basel", "Bern", "Genève", "Lugano", "Zürich"]


def make_orders(folder: Path, files: int = 4, rows: int = 25_000) -> None:
    """CSV as it comes: some prices are missing, some amounts are nonsense."""
    draw = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        with open(folder / f"orders-{number}.csv", "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["order", "city", "price", "amount", "day"])
            for row in range(rows):
                price = "" if draw.random() < 0.01 else f"{draw.uniform(1, 500):.2f}"
                amount = draw.choice([-1, *range(1, 9)])
                day = f"2026-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
                writer.writerow([number * rows + row, draw.choice(CITIES), price, amount, day])


def add_total(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Price times amount, and a fifth off from one hundred on."""
    total = batch["price"] * batch["amount"]
    batch["total"] = np.where(total >= 100, total * 0.8, total).round(2)
    return batch


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="weir-etl-"))
    make_orders(folder / "csv")

    orders = (
        weir.read_csv(str(folder / "csv"))
        .filter(expr=col("price").is_not_null() & (col("amount") > 0))  # in C, while the file is read
        .map_batches(add_total)  # in worker processes, on views of shared memory
        .select_columns(["order", "city", "day", "total"])
    )
    orders.write_parquet(str(folder / "parquet"), mode="overwrite")

    written = weir.read_parquet(str(folder / "parquet"))
    print(written.schema())
    print(f"{written.count()} orders, {written.sum('total'):.2f} in all, {written.mean('total'):.2f} on average")
    written.filter(expr=col("city") == "Zürich").show(3)


if __name__ == "__main__":
    main()
