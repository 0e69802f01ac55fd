"""The benchmark's tables: seeded, written with pyarrow, kept between runs.

A dataset is one shape (flat, wide, strings, lists, tiny, lines, events) in one codec and one layout, for instance
flat-snappy-50f. It lies in bench/data/<size>/<name>/, with its facts (rows, decoded bytes, files) beside it in
<name>.json, so that the folder itself holds nothing but data files. lines and events are text, with csv and jsonl for codecs. The rows of a shape come in 50 parts, each from
its own seed: the layouts of a shape hold the same rows, and a dataset can be made without making the others.

    python bench/data.py --size standard [name ...]     make what is missing or out of date
"""

import argparse
import concurrent.futures
import datetime
import functools
import json
import shutil
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

VERSION = 1  # raise it when a generator changes: every dataset is then made again
ROOT = Path(__file__).resolve().parent / "data"
PARTS = 50
SEED = 20260815

# Rows per shape. tiny is a number of files, each of TINY_ROWS rows.
ROWS = {
    "small": {"flat": 1_000_000, "flatq": 250_000, "wide": 5_000, "strings": 20_000, "lists": 200_000, "tiny": 10_000,
              "lines": 500_000, "events": 200_000},
    "standard": {
        "flat": 20_000_000,
        "flatq": 4_000_000,
        "wide": 50_000,
        "strings": 200_000,
        "lists": 2_000_000,
        "tiny": 10_000,
        "lines": 6_000_000,
        "events": 2_000_000,
    },
    "large": {
        "flat": 60_000_000,
        "flatq": 12_000_000,
        "wide": 100_000,
        "strings": 1_000_000,
        "lists": 6_000_000,
        "tiny": 10_000,
        "lines": 30_000_000,
        "events": 8_000_000,
    },
}
TINY_ROWS = 100
WIDE_COLUMNS = 1000
LAYOUTS = ("1x1", "1x50", "50f")

# flat is the table of the main jobs, in every layout. The other codecs take flatq, the same table with fewer rows, and
# the other shapes take the other codecs in one layout only: the full cross would be 30 GB of files.
DATASETS = (
    [f"flat-snappy-{layout}" for layout in LAYOUTS]
    + [f"flatq-{codec}-{layout}" for codec in ("zstd", "none") for layout in LAYOUTS]
    + [f"{shape}-snappy-{layout}" for shape in ("wide", "strings", "lists") for layout in LAYOUTS]
    + [f"{shape}-{codec}-1x50" for shape in ("wide", "strings", "lists") for codec in ("zstd", "none")]
    + ["tiny-snappy-10000f"]
    + ["lines-csv-1f", "lines-csv-2000f"]
    + ["events-jsonl-1f", "events-jsonl-2000f"]
)

WORDS = (
    "above accounts across after against along alongside among around asymptotes attainments bold boost braids brave "
    "busily careful carefully cajole close closely courts daring deposits dependencies detect dogged dolphins doubt "
    "doze dugouts engage epitaphs escapades even ever excuses express fast final final fluffily foxes frays furious "
    "furiously gifts grouches grow haggle hockey ideas impress instructions integrate ironic kindle lose maintain "
    "mold multipliers nag never notornis orbits packages patterns pending permanent pinto players platelets poach "
    "print promise quick quickly quiet realms regular requests ruthless sauternes sentiments serve silent sleep slow "
    "slyly solve special stealthy sublate theodolites thin tithes unusual unwind use wake warhorses warthogs waters"
).split()


@functools.cache
def text_pool(size=1 << 22):
    """Random words, from which strings are cut at random places."""
    rng = np.random.default_rng([SEED, size])
    text = " ".join(np.asarray(WORDS)[rng.integers(0, len(WORDS), size // 5)])
    return np.frombuffer(text[:size].encode(), np.uint8)


def offsets_of(lengths):
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def random_strings(rng, pool, rows, shortest, longest):
    """rows strings of shortest..longest bytes cut from the pool, made without a Python object per string."""
    lengths = rng.integers(shortest, longest + 1, rows, dtype=np.int32)
    starts = rng.integers(0, len(pool) - longest, rows, dtype=np.int32)
    offsets = offsets_of(lengths)
    picks = np.repeat(starts - offsets[:-1], lengths)
    picks += np.arange(len(picks), dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(pool[picks]))


def choice_strings(rng, rows, values, weights=None):
    codes = rng.choice(len(values), rows, p=weights).astype(np.int32)
    return pa.DictionaryArray.from_arrays(codes, pa.array(values)).cast(pa.string())


def flat_part(rng, rows, part):
    """Ten columns after TPC-H's lineitem; price is uniform over 0…105000, so a bound on it keeps a known share."""
    steps = rng.choice(np.array([0, 0, 0, 1, 1, 2], np.int64), rows)
    first = np.int64(7_000_001 + part * rows * 2)
    days = (datetime.date(1992, 1, 2) - datetime.date(1970, 1, 1)).days
    return pa.table(
        {
            "orderkey": first + np.cumsum(steps),
            "partkey": rng.integers(1, 666_667, rows, dtype=np.int64),
            "quantity": rng.integers(1, 51, rows).astype(np.float64),
            "price": rng.integers(0, 10_500_000, rows) / 100.0,
            "discount": rng.integers(0, 11, rows) / 100.0,
            "tax": rng.integers(0, 9, rows) / 100.0,
            "flag": choice_strings(rng, rows, ["A", "N", "R"], [0.25, 0.5, 0.25]),
            "status": choice_strings(rng, rows, ["O", "F"]),
            "shipdate": pa.array(rng.integers(days, days + 2526, rows, dtype=np.int32)).cast(pa.date32()),
            "comment": random_strings(rng, text_pool(), rows, 10, 43),
        }
    )


def wide_part(rng, rows, part):
    """1,000 columns: key (uniform 0…1), then doubles, integers and strings in turn, a tenth of them with nulls."""
    pool = text_pool(1 << 18)
    columns = {"key": pa.array(rng.random(rows))}
    for i in range(1, WIDE_COLUMNS):
        mask = rng.random(rows) < 0.1 if i % 10 == 7 else None
        if i % 5 in (0, 1):
            values = pa.array(rng.integers(0, 10 ** (2 + i % 5), rows, dtype=np.int64), mask=mask)
        elif i % 5 in (2, 3):
            values = pa.array(rng.normal(100.0, 15.0, rows).round(3), mask=mask)
        else:
            values = random_strings(rng, pool, rows, 4, 16)
        columns[f"c{i:04}"] = values
    return pa.table(columns)


def strings_part(rng, rows, part):
    return pa.table(
        {
            "id": np.int64(part) * rows + np.arange(rows, dtype=np.int64),
            "key": rng.random(rows),
            "body": random_strings(rng, text_pool(), rows, 200, 2000),
        }
    )


def lists_part(rng, rows, part):
    """Lists of integers, strings and structs; about one list in twenty is empty and one in fifty null."""

    def lengths(longest):
        count = rng.integers(0, longest + 1, rows, dtype=np.int32)
        count[rng.random(rows) < 0.05] = 0
        return count

    def lists(count, values):
        mask = pa.array(rng.random(rows) < 0.02)
        return pa.ListArray.from_arrays(pa.array(offsets_of(count)), values, mask=mask)

    pool = text_pool(1 << 20)
    ints, tags, items = lengths(8), lengths(4), lengths(5)
    elements = int(items.sum())
    item = pa.StructArray.from_arrays(
        [
            pa.array(rng.integers(0, 1_000_000, elements, dtype=np.int64)),
            pa.array(rng.integers(1, 51, elements).astype(np.float64)),
            random_strings(rng, pool, elements, 4, 20),
        ],
        names=["id", "quantity", "name"],
    )
    return pa.table(
        {
            "id": np.int64(part) * rows + np.arange(rows, dtype=np.int64),
            "key": rng.random(rows),
            "ints": lists(ints, pa.array(rng.integers(0, 1 << 40, int(ints.sum()), dtype=np.int64))),
            "tags": lists(tags, random_strings(rng, pool, int(tags.sum()), 3, 12)),
            "items": lists(items, item),
        }
    )


def lines_part(rng, rows, part):
    """Sixteen columns after TPC-H's lineitem, for text: one comment in ten has a comma and needs quotes."""
    flat = flat_part(rng, rows, part)
    days = (datetime.date(1992, 1, 2) - datetime.date(1970, 1, 1)).days
    comment = pc.if_else(pa.array(rng.random(rows) < 0.1), pc.replace_substring(flat["comment"], " ", ", "), flat["comment"])
    return pa.table(
        {
            "orderkey": flat["orderkey"],
            "partkey": flat["partkey"],
            "suppkey": rng.integers(1, 10_001, rows, dtype=np.int64),
            "linenumber": rng.integers(1, 8, rows, dtype=np.int64),
            "quantity": rng.integers(1, 51, rows, dtype=np.int64),
            "price": flat["price"],
            "discount": flat["discount"],
            "tax": flat["tax"],
            "flag": flat["flag"],
            "status": flat["status"],
            "shipdate": flat["shipdate"],
            "commitdate": pa.array(rng.integers(days, days + 2526, rows, dtype=np.int32)).cast(pa.date32()),
            "received": pa.array(rng.integers(days, days + 2526, rows) * 86400 + rng.integers(0, 86400, rows)).cast(
                pa.timestamp("s")
            ),
            "instruct": choice_strings(rng, rows, ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]),
            "mode": choice_strings(rng, rows, ["TRUCK", "MAIL", "REG AIR", "AIR", "FOB", "RAIL", "SHIP"]),
            "comment": comment,
        }
    )


def events_part(rng, rows, part):
    """Thirty fields as logs have them: numbers and texts, a time, a flag, nulls, a list and two structs."""
    days = (datetime.date(2024, 1, 1) - datetime.date(1970, 1, 1)).days
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    columns = {
        "id": np.int64(part) * rows + np.arange(rows, dtype=np.int64),
        "ts": pa.array(days * 86400 + rng.integers(0, 366 * 86400, rows)).cast(pa.timestamp("s")),
        "user": pc.binary_join_element_wise("user", pa.array(rng.integers(0, 100_000, rows)).cast(pa.string()), "_"),
        "price": rng.integers(0, 100_000, rows) / 100.0,
        "quantity": rng.integers(1, 51, rows, dtype=np.int64),
        "ok": pa.array(rng.random(rows) < 0.5),
    }
    columns |= {f"i{i}": rng.integers(0, 10 ** (i + 2), rows, dtype=np.int64) for i in range(8)}
    columns |= {f"f{i}": rng.random(rows) * 100 for i in range(6)}
    columns |= {f"s{i}": random_strings(rng, text_pool(1 << 20), rows, 3, 30) for i in range(6)}
    count = rng.integers(0, 4, rows, dtype=np.int32)
    columns["tags"] = pa.ListArray.from_arrays(pa.array(offsets_of(count)), choice_strings(rng, int(count.sum()), words))
    columns["geo"] = pa.StructArray.from_arrays([pa.array(rng.uniform(-90, 90, rows).round(6)),
                                                 pa.array(rng.uniform(-180, 180, rows).round(6))], ["lat", "lon"])
    columns["note"] = pa.array(np.where(rng.random(rows) < 0.1, 'a "quoted" note', "a plain note"))
    columns["device"] = pa.StructArray.from_arrays([choice_strings(rng, rows, words),
                                                    pa.array(rng.integers(0, 100, rows, dtype=np.int64),
                                                             mask=rng.random(rows) < 0.3)], ["os", "version"])
    return pa.table(columns)


# In the order of their seeds: new ones go to the end.
MAKERS = {"flat": flat_part, "flatq": flat_part, "lists": lists_part, "strings": strings_part, "wide": wide_part,
          "lines": lines_part, "events": events_part}


def parts(shape, rows):
    for part in range(PARTS):
        rng = np.random.default_rng([SEED, list(MAKERS).index(shape), part])
        yield MAKERS[shape](rng, rows // PARTS, part)


def write_tiny(folder, files):
    rng = np.random.default_rng([SEED, 99])
    words = choice_strings(rng, TINY_ROWS, WORDS)
    table = pa.table({"id": np.arange(TINY_ROWS), "x": rng.random(TINY_ROWS), "s": words})
    for i in range(files):
        pq.write_table(table, folder / f"part-{i:05}.parquet", compression="snappy")
    return files * TINY_ROWS, files * table.nbytes


def write_parts(folder, shape, codec, layout, rows):
    """The tables of a shape as files. Returns rows and decoded bytes."""
    total = decoded = 0
    writer, kept = None, []
    for part, table in enumerate(parts(shape, rows)):
        total, decoded = total + table.num_rows, decoded + table.nbytes
        if layout == "50f":
            pq.write_table(table, folder / f"part-{part:05}.parquet", compression=codec)
        elif layout == "1x50":
            writer = writer or pq.ParquetWriter(folder / "part-00000.parquet", table.schema, compression=codec)
            writer.write_table(table, row_group_size=table.num_rows)
        else:
            kept.append(table)
    if writer:
        writer.close()
    if kept:
        whole = pa.concat_tables(kept)
        pq.write_table(whole, folder / "part-00000.parquet", compression=codec, row_group_size=whole.num_rows)
    return total, decoded


def write_text(folder, shape, codec, layout, rows):
    """The parts as CSV, quotes where they are needed, or as JSON lines; in one file, or each part in as many as make 2,000."""
    total = decoded = 0
    form = "(HEADER)" if codec == "csv" else "(FORMAT json)"
    con = duckdb.connect()
    files_a_part = 1 if layout == "1f" else int(layout[:-1]) // PARTS
    whole = None
    for part, table in enumerate(parts(shape, rows)):
        total, decoded = total + table.num_rows, decoded + table.nbytes
        if layout == "1f":
            con.register("part", table)
            con.execute("CREATE TABLE lines AS FROM part" if part == 0 else "INSERT INTO lines FROM part")
            whole = folder / f"part-00000.{codec}"
            continue
        step = -(-table.num_rows // files_a_part)
        for i in range(files_a_part):
            con.register("part", table.slice(i * step, step))
            con.execute(f"COPY part TO '{folder}/part-{part * files_a_part + i:05}.{codec}' {form}")
    if whole:
        con.execute(f"COPY lines TO '{whole}' {form}")
    return total, decoded


def facts_path(size, name):
    return ROOT / size / f"{name}.json"


def wanted_facts(size, name):
    return {"name": name, "size": size, "version": VERSION, "rows_asked": ROWS[size][name.split("-")[0]]}


def is_current(size, name):
    try:
        facts = json.loads(facts_path(size, name).read_text())
    except (OSError, ValueError):
        return False
    return wanted_facts(size, name).items() <= facts.items() and (ROOT / size / name).is_dir()


def names_in(file):
    if file.suffix == ".csv":
        with open(file) as f:
            return f.readline().strip().split(",")
    if file.suffix == ".jsonl":
        with open(file) as f:
            return list(json.loads(f.readline()))
    return pq.read_schema(file).names


def first_value(file):
    if file.suffix == ".csv":
        with open(file) as f:
            return f.readlines(200)[1].split(",")[0]
    if file.suffix == ".jsonl":
        with open(file) as f:
            return str(next(iter(json.loads(f.readline()).values())))
    with pq.ParquetFile(file) as opened:
        batch = next(opened.iter_batches(1, columns=[opened.schema_arrow.names[0]]))
    return str(batch[0][0].as_py())


def make(size, name):
    """Make one dataset; the facts are written last, so a run that was cut short is made again."""
    started = time.monotonic()
    shape, codec, layout = name.split("-")
    folder = ROOT / size / name
    facts_path(size, name).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asked = ROWS[size][shape]
    if shape == "tiny":
        rows, decoded = write_tiny(folder, asked)
    elif codec in ("csv", "jsonl"):
        rows, decoded = write_text(folder, shape, codec, layout, asked)
    else:
        rows, decoded = write_parts(folder, shape, codec, layout, asked)
    files = sorted(folder.iterdir())
    facts = wanted_facts(size, name) | {
        "rows": rows,
        "decoded_bytes": decoded,
        "files": len(files),
        "file_bytes": sum(f.stat().st_size for f in files),
        "columns": names_in(files[0]),
        "first_value": first_value(files[0]),
        "seconds": round(time.monotonic() - started, 1),
        "pyarrow": pa.__version__,
    }
    facts_path(size, name).write_text(json.dumps(facts, indent=1))
    return facts


def main():
    parser = argparse.ArgumentParser(description="Make the benchmark's datasets.")
    parser.add_argument("--size", choices=ROWS, default="standard")
    parser.add_argument("names", nargs="*", help="datasets (default: all)")
    args = parser.parse_args()
    unknown = set(args.names) - set(DATASETS)
    if unknown:
        parser.error(f"no such dataset: {', '.join(sorted(unknown))}; there are {', '.join(DATASETS)}")
    missing = [name for name in args.names or DATASETS if not is_current(args.size, name)]
    if not missing:
        return
    print(f"making {len(missing)} datasets in {ROOT / args.size}", file=sys.stderr)
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for facts in pool.map(make, [args.size] * len(missing), missing):
            print(
                f"  {facts['name']}: {facts['rows']:,} rows, {facts['files']} files, "
                f"{facts['file_bytes'] / 1e6:,.0f} MB, {facts['decoded_bytes'] / 1e6:,.0f} MB decoded, "
                f"{facts['seconds']} s",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
