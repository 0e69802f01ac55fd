"""Exchanges on 1, 2 and 7 lanes and workers, in memory and spilling, with and without functions around them: what has an order has the
same, what has none the same rows."""
import hashlib

import numpy as np
import pytest

import weir

pytestmark = pytest.mark.same_without
ROWS, BLOCKS = 1_200_000, 40
LIMITS = {"memory": None, "spilling": "64MiB", "functions": None}


@pytest.fixture(autouse=True)
def end():
    yield
    weir.shutdown()


def table(way):
    """Rows of 56 bytes where they spill; a few of the same through a function."""
    ds = weir.range(ROWS if way == "spilling" else ROWS // 50, override_num_blocks=BLOCKS)
    if way == "functions":
        return ds.map_batches(lambda b: {**b, "k": b["id"] * 2654435761 % 1009 * 1.0, "x": b["id"] * 40503 % 65521 / 8}, batch_size=500)
    ds = ds.with_column("k", weir.col("id") * 2654435761 % 1009).with_column("x", weir.col("id") * 40503 % 65521 / 8)
    for i in range(4):
        ds = ds.with_column(f"c{i}", weir.col("id") * (i + 3))
    return ds


def of_group(group):
    return {"k": group["k"][:1], "n": np.array([len(group["k"])]), "sum": np.array([group["x"].sum()])}


def user_aggregate():
    from weir.aggregate import AggregateFn
    return AggregateFn(init=lambda key: 0, accumulate_row=lambda total, row: total + row["id"], merge=lambda a, b: a + b,
                       finalize=lambda total: total, name="total")


def own_sum(ds):
    return ds.limit(600).groupby("k").aggregate(user_aggregate())


def native_aggregate(ds):
    from weir.aggregate import Count, Max, Mean, Quantile, Sum
    return ds.groupby("k").aggregate(Count(), Sum("id"), Mean("x"), Max("x"), Quantile("x", q=0.5))


ORDERED = {
    "sort": lambda ds: ds.sort(["k", "x"], descending=[True, False]),
    "sort of equal keys": lambda ds: ds.with_column("few", weir.col("k") % 3).sort("few"),
    "random_shuffle": lambda ds: ds.random_shuffle(seed=5),
    "repartition": lambda ds: ds.repartition(7),
    "repartition shuffled": lambda ds: ds.repartition(7, shuffle=True),
    "repartition by rows": lambda ds: ds.repartition(target_num_rows_per_block=10_001),
    "repartition by rows, strict": lambda ds: ds.repartition(target_num_rows_per_block=10_001, strict=True),
    "repartition by keys": lambda ds: ds.repartition(9, keys=["k"]),
    "repartition by keys, sorted": lambda ds: ds.repartition(9, keys=["k"], sort=True),
    "zip": lambda ds: ds.zip(weir.range(ds.count(), override_num_blocks=7).with_column("twice", weir.col("id") * 2).select_columns(["twice"])),
}
UNORDERED = {
    "group": native_aggregate,
    "many groups": lambda ds: ds.groupby("id").max("x"),
    "user-written": own_sum,
    "map_groups": lambda ds: ds.groupby("k").map_groups(of_group, batch_format="numpy"),
    "unique": lambda ds: weir.from_items([{"x": value} for value in ds.unique("x")]),
    "join": lambda ds: ds.join(weir.range(2018).with_column("k", weir.col("id") % 1009).with_column("y", weir.col("id") * 3)
                               .select_columns(["k", "y"]), "left_outer", 4, on=("k",)),
}


def digest(ds, is_ordered):
    """Columns, rows and their order as one text."""
    batches = [{name: values.copy() for name, values in batch.items()} for batch in ds.iter_batches(batch_size=None)]
    names = sorted(batches[0])
    columns = [np.concatenate([batch[name] for batch in batches]) for name in names]
    if not is_ordered:
        order = np.lexsort(columns)
        columns = [column[order] for column in columns]
    text = hashlib.sha256()
    for column in columns:
        text.update(np.ascontiguousarray(column).tobytes())
    return names, len(columns[0]), text.hexdigest()


@pytest.mark.sample(12)
@pytest.mark.parametrize("way", LIMITS)
@pytest.mark.parametrize("name", [*ORDERED, *UNORDERED])
def test_lanes_do_not_show(name, way, tmp_path):
    is_ordered = name in ORDERED
    found = {}
    for cpus in (1, 2, 7):
        weir.shutdown()
        # A function's process has some 30 MB of its own.
        limit = "400MiB" if name in ("user-written", "map_groups") and way == "spilling" else LIMITS[way]
        weir.init(num_cpus=cpus, spill_dir=str(tmp_path), **({"memory_limit": limit} if limit else {}))
        ds = {**ORDERED, **UNORDERED}[name](table(way))
        if way == "functions":
            ds = ds.map_batches(lambda b: {**b, "seen": np.ones(len(next(iter(b.values()))), np.int8)}, batch_size=300)
        found[cpus] = digest(ds, is_ordered)
    assert found[1][1] > 0
    assert found[1] == found[2] == found[7], found


@pytest.mark.parametrize("cpus", [1, 12])
def test_more_runs_than_can_be_open(cpus, tmp_path):
    """A thousand small runs: neighbours are merged first, and equal keys stay in order."""
    rows = 4_000_000
    weir.shutdown()
    weir.init(num_cpus=cpus, memory_limit="64MiB", spill_dir=str(tmp_path))
    given = weir.range(rows, override_num_blocks=1000).with_column("few", weir.col("id") * 7919 % 3).with_column("k", weir.col("id") * 3)
    ds = given.sort("few")
    ids = np.concatenate([batch["id"] for batch in ds.iter_batches(batch_size=None)])
    assert "depth 2" in ds.stats(), ds.stats()
    assert (ids == np.argsort(np.arange(rows) * 7919 % 3, kind="stable")).all()


def test_a_random_order_of_many_runs(tmp_path):
    """That in steps, whose runs have their numbers on disk, is the one in memory."""
    orders = []
    for limit in ("64MiB", "1GiB"):
        weir.shutdown()
        weir.init(num_cpus=2, memory_limit=limit, spill_dir=str(tmp_path))
        ds = weir.range(3_000_000, override_num_blocks=1000).with_column("k", weir.col("id") * 3).random_shuffle(seed=11)
        orders.append(np.concatenate([batch["id"] for batch in ds.iter_batches(batch_size=None)]))
        assert ("depth 2" in ds.stats()) == (limit == "64MiB"), ds.stats()
    assert (orders[0] == orders[1]).all()
    assert (np.sort(orders[0]) == np.arange(3_000_000)).all() and (np.diff(orders[0]) < 0).mean() > 0.49
