"""Whole pipelines with exchanges on random tables, from a seed: key types × nulls × skew × sizes × blocks × limits × 1, 2 and 7
lanes, against a model in plain Python; and larger ones that spill, against DuckDB."""
import math
import os
import struct
from collections import Counter

import numpy as np
import pytest

import weir

pa = pytest.importorskip("pyarrow")
import random_tables  # noqa: E402

SEED = int(os.environ.get("WEIR_SEED", "1"))
LIMITS = ["64MiB", "80MiB", "512MiB"]

KEYS = [kind for kind in random_tables.LEAVES if not pa.types.is_null(kind)] + random_tables.DICTIONARIES + [
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
    pa.struct([("s", pa.struct([("t", pa.timestamp("us", "UTC")), ("d", pa.decimal128(9, 2))])), ("f", pa.float32())]),
]


def exact(table):
    """Times as numbers, dictionaries as their values: what Python has a value for."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
            field = table.schema.field(i)
        if pa.types.is_temporal(field.type):
            number = pa.int32() if field.type.bit_width == 32 else pa.int64()
            table = table.set_column(i, field.name, pa.chunked_array([chunk.view(number) for chunk in table.column(i).chunks], number))
    return table


def plain(value):
    """A value that is equal to itself, and to no other that a group would tell from it."""
    if isinstance(value, dict):
        return tuple((name, plain(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(plain(inner) for inner in value)
    if isinstance(value, float):
        return ("nan",) if value != value else struct.pack("d", value)
    return value


def rows_of(ds, columns=None):
    """All rows as Python has them."""
    tables = [table for table in ds.iter_batches(batch_size=None, batch_format="pyarrow")]
    if not tables:
        return []
    table = exact(pa.concat_tables(tables, promote_options="permissive"))
    return table.select(columns).to_pylist() if columns else table.to_pylist()


def picks(rng, distinct, count):
    shape = rng.integers(0, 4)
    if shape == 0:
        return rng.integers(0, distinct, count)
    if shape == 1:  # one key has half of the rows
        return np.where(rng.random(count) < 0.5, 0, rng.integers(0, distinct, count))
    if shape == 2:
        return np.zeros(count, np.int64)
    return np.minimum(rng.zipf(1.3, count) - 1, distinct - 1)


def keys_of(rng, kind, count):
    distinct = int(rng.choice([1, 3, 40, 700]))
    return random_tables.column(rng, kind, distinct).take(pa.array(picks(rng, distinct, count)))


def random_case(rng):
    """(table, its blocks, names of the keys)"""
    count = int(rng.choice([0, 1, 7, 300, 3000]))
    names = [f"k{i}" for i in range(int(rng.choice([1, 1, 2, 3])))]
    columns = {name: keys_of(rng, KEYS[rng.integers(0, len(KEYS))], count) for name in names}
    columns["i"] = pa.array(range(count), pa.int64())
    columns["v"] = pa.array(rng.integers(-1000, 1000, count), pa.int64(), mask=rng.random(count) < rng.choice([0, 0.2, 1]))
    columns["f"] = pa.array(rng.integers(-1000, 1000, count) / 8)
    table = pa.table(columns)
    blocks = int(rng.choice([1, 2, 5, 30]))
    cuts = sorted(rng.integers(0, count, blocks - 1, endpoint=True).tolist())
    pieces = [table.slice(begin, end - begin) for begin, end in zip([0, *cuts], [*cuts, count])]
    return table, pieces, names


def key_of(row, names):
    return tuple(plain(row[name]) for name in names)


def ordered(value):
    """Where a value comes among others: numbers, then NaN, then None."""
    if value is None:
        return (2, 0)
    if isinstance(value, float):
        return (1, 0) if value != value else (0, value)
    return (0, value)


class Descending:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __eq__(self, other):
        return other.value == self.value


def check_sort(ds, rows, names, rng):
    if not all_have_order(ds, names):
        return
    downs = [bool(rng.integers(0, 2)) for _ in names]

    def place(row):
        places = []
        for name, down in zip(names, downs):
            rank, value = ordered(row[name])
            places.append((rank, Descending(value) if down and rank == 0 else value))
        return places

    wanted = [row["i"] for row in sorted(rows, key=place)]
    assert [row["i"] for row in rows_of(ds.sort(names, descending=downs), ["i"])] == wanted


def all_have_order(ds, names):
    """No structs, also where all of a column are null."""
    schema = ds.schema()
    return schema is None or not any(pa.types.is_struct(kind) for name, kind in zip(schema.names, schema.types) if name in names)


def check_aggregate(ds, rows, names, rng):
    from weir.aggregate import Count, Max, Mean, Min, Sum

    groups = {}
    for row in rows:
        groups.setdefault(key_of(row, names), []).append(row)
    found = rows_of(ds.groupby(names).aggregate(
        Count(alias_name="n"), Sum("v", alias_name="s"), Min("f", alias_name="lo"), Max("i", alias_name="hi"), Mean("f", alias_name="m")))
    assert len(found) == len(groups)
    for row in found:
        mine = groups[key_of(row, names)]
        values = [one["v"] for one in mine if one["v"] is not None]
        assert row["n"] == len(mine) and row["s"] == (sum(values) if values else None)
        assert row["lo"] == min(one["f"] for one in mine) and row["hi"] == max(one["i"] for one in mine)
        assert row["m"] == pytest.approx(math.fsum(one["f"] for one in mine) / len(mine), rel=1e-14, abs=1e-14)


def check_unique(ds, rows, names, rng):
    wanted = {plain(row[names[0]]) for row in rows}
    found = rows_of(ds.select_columns(names[:1]).groupby(names[:1]).count(), names[:1]) if rows else []
    assert Counter(plain(row[names[0]]) for row in found) == Counter(wanted)


def check_shuffle(ds, rows, names, rng):
    found = [row["i"] for row in rows_of(ds.random_shuffle(seed=9), ["i"])]
    assert sorted(found) == [row["i"] for row in rows]
    return found


def check_repartition(ds, rows, names, rng):
    count = int(rng.integers(1, 9))
    made = ds.repartition(count, keys=names, sort=bool(rng.integers(0, 2)) and all_have_order(ds, names))
    place, all_rows, blocks = {}, [], 0
    for number, batch in enumerate(made.iter_batches(batch_size=None, batch_format="pyarrow")):
        blocks += 1
        for row in exact(pa.table(batch)).to_pylist():
            assert place.setdefault(key_of(row, names), number) == number
            all_rows.append(row["i"])
    assert sorted(all_rows) == [row["i"] for row in rows] and blocks <= count


def check_join(ds, rows, names, rng):
    how = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti", "right_anti"][rng.integers(0, 8)]
    other = ds.filter(expr="i % 3 == 0").drop_columns(["v", "f"]).rename_columns({"i": "j"})

    def key(row):
        values = [0.0 if isinstance(row[name], float) and row[name] == 0 else row[name] for name in names]
        return None if None in values else tuple(map(plain, values))

    if any(isinstance(row[name], dict) for row in rows for name in names) or not rows:
        return
    rights = {}
    for row in rows:
        if row["i"] % 3 == 0:
            rights.setdefault(key(row), []).append(row["i"])
    nothing = rights.pop(None, [])
    if sum(len(rights.get(key(row), ())) for row in rows) > 1_000_000:
        return
    pairs = [(row["i"], j) for row in rows for j in rights.get(key(row), ())]
    lefts, has_right = {i for i, _ in pairs}, {j for _, j in pairs}
    all_rights = [j for js in rights.values() for j in js] + nothing
    if how.endswith(("semi", "anti")):
        mine = [row["i"] for row in rows] if how.startswith("left") else all_rights
        seen = lefts if how.startswith("left") else has_right
        wanted = Counter(i for i in mine if (i in seen) == how.endswith("semi"))
        found = rows_of(ds.join(other, how, 4, on=tuple(names)))
        assert Counter(row["i" if how.startswith("left") else "j"] for row in found) == wanted
        return
    if how in ("left_outer", "full_outer"):
        pairs += [(row["i"], None) for row in rows if row["i"] not in lefts]
    if how in ("right_outer", "full_outer"):
        pairs += [(None, j) for j in all_rights if j not in has_right]
    found = rows_of(ds.join(other, how, 4, on=tuple(names)), ["i", "j"])
    assert Counter((row["i"], row["j"]) for row in found) == Counter(pairs), how


def check_zip(ds, rows, names, rng):
    found = rows_of(ds.zip(ds.select_columns(["i"]).rename_columns({"i": "again"}).repartition(3)))
    assert [(row["i"], row["again"]) for row in found] == [(row["i"], row["i"]) for row in rows]


def check_map_groups(ds, rows, names, rng):
    def count(group):
        return {"first": [int(group["i"].min())], "n": [len(group["i"])]}

    groups = {}
    for row in rows:
        groups.setdefault(key_of(row, names), []).append(row["i"])
    found = ds.groupby(names).map_groups(count, batch_format="numpy").take_all()
    assert sorted((row["first"], row["n"]) for row in found) == sorted((mine[0], len(mine)) for mine in groups.values())


CHECKS = [check_sort, check_aggregate, check_unique, check_shuffle, check_repartition, check_join, check_zip]


def run_seed(seed, check=None):
    rng = np.random.default_rng(seed)
    table, pieces, names = random_case(rng)
    check = check or CHECKS[rng.integers(0, len(CHECKS))]
    has_function = check is check_map_groups or rng.integers(0, 6) == 0
    limit = "512MiB" if has_function else LIMITS[rng.integers(0, len(LIMITS))]
    threads = [1, 2, 7] if rng.integers(0, 4) == 0 and not has_function else [int(rng.choice([1, 2, 7]))]
    types = {name: str(table.schema.field(name).type) for name in names}
    print(f"seed {seed}: {check.__name__}, {table.num_rows} rows, {len(pieces)} blocks, {types}, {limit}, {threads} lanes, function {has_function}")
    rows = exact(table).to_pylist()
    state, results = rng.bit_generator.state, []
    for count in threads:
        weir.shutdown()
        weir.init(num_cpus=count, memory_limit=limit)
        ds = weir.from_arrow(pieces)
        if has_function:
            ds = ds.map_batches(lambda batch: batch, batch_format="pyarrow")
        rng.bit_generator.state = state
        results.append(check(ds, rows, names, rng))
    assert all(result == results[0] for result in results)


@pytest.fixture(autouse=True)
def end():
    yield
    weir.shutdown()


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(60))
def test_pipelines(number):
    run_seed(SEED * 1_000_000 + number)


@pytest.mark.parametrize("number", range(6))
def test_functions_of_groups(number):
    run_seed(SEED * 1_000_000 + 500_000 + number, check_map_groups)


@pytest.mark.long
def test_many_pipelines():
    for number in range(5000):
        run_seed(SEED * 1_000_000 + 100_000 + number)


# ---- tables that spill ----

def spilling_case(rng, rows):
    distinct = int(rng.choice([1, 100, rows // 10, rows]))
    numbers = picks(rng, distinct, rows)
    kind = rng.integers(0, 6)
    if kind == 0:
        keys = pa.array(numbers * 2654435761 % (1 << 40))
    elif kind == 1:
        keys = pa.array(np.char.add("key ", numbers.astype(str)))
    elif kind == 2:
        keys = pa.array(numbers / 7)
    elif kind == 3:
        keys = pa.array(numbers).cast(pa.timestamp("us", "UTC"))
    elif kind == 4:
        keys = pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(30, 2))
    else:
        keys = pa.array(numbers).cast(pa.uint64())
    if rng.integers(0, 2):
        keys = pa.array(keys.to_pylist(), keys.type, mask=rng.random(rows) < 0.1) if rows < 1000 else keys.take(
            pa.array(np.arange(rows), mask=rng.random(rows) < 0.1))
    return pa.table({"k": keys, "i": pa.array(range(rows), pa.int64()), "v": pa.array(rng.integers(-1000, 1000, rows)),
                     "text": pa.array(np.char.add("some text in row ", np.arange(rows).astype(str)))}), distinct


def own(table):
    """A copy: what the engine gave counts towards its limit while it is held."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def run_spilling(seed, rows, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    table, distinct = spilling_case(rng, rows)
    file = str(tmp_path / "rows.parquet")
    pq.write_table(table, file, row_group_size=rows // int(rng.choice([1, 5, 30])) + 1)
    threads = int(rng.choice([1, 2, 7]))
    print(f"seed {seed}: {rows} rows, {distinct} keys of {table.schema.field('k').type}, {threads} lanes")
    connection = duckdb.connect(config={"threads": 2})
    weir.shutdown()
    weir.init(num_cpus=threads, memory_limit="64MiB", spill_dir=str(tmp_path))
    ds = weir.read_parquet(file)

    def same(ds, query, order):
        found = pa.concat_tables([own(batch) for batch in ds.iter_batches(batch_size=None, batch_format="pyarrow")])
        wanted = connection.sql(query).to_arrow_table()
        assert found.num_rows == wanted.num_rows and set(found.column_names) == set(wanted.column_names)
        found = found.select(wanted.column_names)
        if order:
            found, wanted = found.sort_by([(name, "ascending") for name in order]), wanted.sort_by([(name, "ascending") for name in order])
        for name in wanted.column_names:
            assert found[name].cast(wanted.schema.field(name).type).combine_chunks().equals(wanted[name].combine_chunks()), name

    where = f"read_parquet('{file}')"
    same(ds.sort(["k", "i"], descending=[True, False]), f"SELECT * FROM {where} ORDER BY k DESC NULLS LAST, i", None)
    from weir.aggregate import Count, Max, Sum
    same(ds.groupby("k").aggregate(Count(alias_name="n"), Sum("v", alias_name="s"), Max("text", alias_name="t")),
         f"SELECT k, count(*) n, sum(v)::BIGINT s, max(text) t FROM {where} GROUP BY k", ["k"])
    same(ds.random_shuffle(seed=seed), f"SELECT * FROM {where}", ["i"])
    same(ds.repartition(5, keys=["k"]), f"SELECT * FROM {where}", ["i"])
    other = ds.filter(expr="i % 50 == 0").select_columns(["k", "i"]).rename_columns({"i": "j"})
    few = ds.filter(expr="i % 40 == 1")
    pairs = f"(SELECT * FROM {where} WHERE i % 40 = 1) l LEFT JOIN (SELECT k, i j FROM {where} WHERE i % 50 = 0) r USING (k)"
    if connection.sql(f"SELECT count(*) FROM {pairs}").fetchall()[0][0] < 1_000_000:
        same(few.join(other, "left_outer", 4, on=("k",)), f"SELECT l.*, j FROM {pairs}", ["i", "j"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("number", range(3))
def test_tables_that_spill(number, tmp_path):
    run_spilling(SEED * 1000 + number, 500_000, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_larger_tables_that_spill(number, tmp_path):
    run_spilling(SEED * 1000 + 100 + number, 3_000_000, tmp_path)
