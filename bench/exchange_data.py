"""The tables of exchanges.py, from fixed seeds, as Parquet; made on first use in bench/data/exchanges/, a folder a number of rows.

| table | rows | content |
|---|---|---|
| groups | n | keys with 6, n/30 and n/3 values as numbers and as texts, six keys with ten values each, three values |
| rows | n | a random, a rising and a Zipf-distributed number to sort by, and payload: a double, a text |
| left, right | 5n/3, n/6 | what is joined: each key of right once, a few of left's in none |
| kilo | n/15 | a number and 1,016 random bytes |
| lineitem, orders, customer | n, n/4, n/40 | the columns of TPC-H's that its first and third query look at |
| mixed | 10n/3 | doubles of both signs between 1e-12 and 1e12 |
"""

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent / "data" / "exchanges"
VERSION = 1
FILES = 8
ROW_GROUP = 500_000
ROWS = {"small": 300_000, "medium": 7_500_000, "standard": 30_000_000}


def counts(n):
    """The rows of each table."""
    return {"groups": n, "rows": n, "left": n * 5 // 3, "right": n // 6, "kilo": n // 15, "lineitem": n, "orders": n // 4,
            "customer": n // 40, "mixed": n * 10 // 3}


def texts(prefix, numbers, digits):
    """Each number as prefix and digits."""
    import numpy as np
    import pyarrow as pa

    width = len(prefix) + digits
    cells = np.empty((len(numbers), width), dtype=np.uint8)
    cells[:, : len(prefix)] = np.frombuffer(prefix.encode(), dtype=np.uint8)
    left = numbers.astype(np.int64)
    for place in range(width - 1, len(prefix) - 1, -1):
        left, digit = np.divmod(left, 10)
        cells[:, place] = digit + ord("0")
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(cells)])


def groups(rng, first, count, n):
    million, many = n // 30, n // 3
    small, middle, large = rng.integers(0, 6, count), rng.integers(0, million, count), rng.integers(0, many, count)
    table = {
        "i6": small, "i1m": middle, "i10m": large,
        "s6": texts("id", small, 3), "s1m": texts("id", middle, 10), "s10m": texts("id", large, 10),
    }
    for name in "abcd":
        table[name] = rng.integers(0, 10, count).astype("int32")
    for name in "ef":
        table[name] = texts("id", rng.integers(0, 10, count), 3)
    table |= {"v1": rng.integers(1, 6, count), "v2": rng.integers(1, 16, count), "v3": rng.integers(0, 10**8, count) / 1e6}
    return table


def rows(rng, first, count, n):
    import numpy as np

    return {
        "random": rng.integers(-(2**62), 2**62, count),
        "rising": np.arange(first, first + count),
        "zipf": np.minimum(rng.zipf(1.2, count), 2**40),
        "x": rng.random(count),
        "note": texts("note", rng.integers(0, 10**8, count), 8),
    }


def left(rng, first, count, n):
    return {"k": rng.integers(0, n // 6 + n // 60, count), "v": rng.random(count)}


def right(rng, first, count, n):
    import numpy as np

    # Each number once, in no order: a multiple that has no factor in common with their count.
    keys = np.arange(first, first + count) * 1_000_003 % (n // 6)
    return {"k": keys, "w": rng.integers(0, 1000, count)}


def kilo(rng, first, count, n):
    import numpy as np
    import pyarrow as pa

    data = rng.bytes(count * 1016)
    return {"id": np.arange(first, first + count), "bytes": pa.Array.from_buffers(pa.binary(), count, [
        None, pa.py_buffer((np.arange(count + 1) * 1016).astype("int32")), pa.py_buffer(data)])}


def lineitem(rng, first, count, n):
    import numpy as np

    order = rng.integers(0, n // 4, count)
    ship = rng.integers(8036, 10562, count).astype("int32")  # days
    return {
        "l_orderkey": order, "l_quantity": rng.integers(1, 51, count).astype("float64"),
        "l_extendedprice": rng.integers(90_000, 10_500_000, count) / 100, "l_discount": rng.integers(0, 11, count) / 100,
        "l_tax": rng.integers(0, 9, count) / 100,
        "l_returnflag": np.array(["A", "N", "R"])[rng.integers(0, 3, count)],
        "l_linestatus": np.array(["F", "O"])[rng.integers(0, 2, count)], "l_shipdate": ship,
    }


def orders(rng, first, count, n):
    import numpy as np

    return {"o_orderkey": np.arange(first, first + count), "o_custkey": rng.integers(0, n // 40, count),
            "o_orderdate": rng.integers(8036, 10442, count).astype("int32"), "o_shippriority": np.zeros(count, dtype="int32")}


def customer(rng, first, count, n):
    import numpy as np

    segments = np.array(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"])
    return {"c_custkey": np.arange(first, first + count), "c_mktsegment": segments[rng.integers(0, 5, count)]}


def mixed(rng, first, count, n):
    return {"x": 10.0 ** rng.uniform(-12, 12, count) * rng.choice([-1.0, 1.0], count)}


TABLES = {f.__name__: f for f in (groups, rows, left, right, kilo, lineitem, orders, customer, mixed)}


def make_table(folder, name, n):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = counts(n)[name]
    stamp = folder / f"{name}.json"
    if stamp.exists() and json.loads(stamp.read_text()) == VERSION:
        return
    print(f"making {folder / name} …", file=sys.stderr, flush=True)
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir(parents=True)
    for part in range(FILES):
        first, end = count * part // FILES, count * (part + 1) // FILES
        table = TABLES[name](np.random.default_rng([list(TABLES).index(name), n, part]), first, end - first, n)
        pq.write_table(pa.table(table), folder / name / f"{part}.parquet", row_group_size=ROW_GROUP,
                       compression="none" if name in ("kilo", "mixed") else "snappy",
                       use_dictionary=name not in ("kilo", "mixed"))
    stamp.write_text(json.dumps(VERSION))


def make(n, names):
    """The folder with these tables, for `n` rows."""
    folder = ROOT / str(n)
    for name in names:
        make_table(folder, name, n)
    return folder


def decoded_bytes(folder, name, columns):
    """What the columns of a table take as Arrow arrays."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(folder / name / "0.parquet")
    sample = file.read_row_group(0, columns=list(columns))
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in (folder / name).glob("*.parquet"))
    return sample.nbytes * rows // max(1, sample.num_rows)
