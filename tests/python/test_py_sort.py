"""Dataset.sort and random_shuffle: what Ray Data's users expect of them, before and behind functions."""
import math
import random

import pytest

import weir


def ids(ds):
    return [row["id"] for row in ds.take_all()]


def rows(count, seed=0):
    rng = random.Random(seed)
    return [{"k": rng.choice([None, *range(5)]), "x": rng.choice([math.nan, None, rng.random()]), "id": i} for i in range(count)]


def place(value, is_descending):
    if value is None:
        return (2, 0)
    if value != value:
        return (1, 0)
    return (0, -value if is_descending else value)


@pytest.mark.parametrize("down", [[False, False], [True, False], [False, True], [True, True]])
@pytest.mark.parametrize("with_function", [False, True])
def test_order_is_numbers_nan_none_and_stable(down, with_function):
    given = rows(300)
    ds = weir.from_items(given, override_num_blocks=4)
    if with_function:
        ds = ds.map(lambda row: row)
    wanted = sorted(given, key=lambda row: (place(row["k"], down[0]), place(row["x"], down[1])))
    assert ids(ds.sort(["k", "x"], descending=down)) == [row["id"] for row in wanted]


def table_of_all_widths(count, seed):
    """Columns of each layout that a block of merged rows is made of, with nulls in some; `id` is the row's number."""
    pa, np = pytest.importorskip("pyarrow"), pytest.importorskip("numpy")
    rng = np.random.default_rng(seed)
    missing = rng.random(count) < 0.1
    return pa.table({
        "k": pa.array(rng.integers(0, count // 8, count), mask=missing),
        "flag": pa.array(rng.random(count) < 0.5, mask=rng.random(count) < 0.1),
        "small": pa.array(rng.integers(0, 100, count).astype("int8"), mask=missing),
        "text": pa.array(["x" * int(size) for size in rng.integers(0, 40, count)], mask=rng.random(count) < 0.1),
        "large": pa.array([f"y{i}" for i in range(count)], type=pa.large_string()),
        "id": np.arange(count),
    })


def kept_table(ds):
    import pyarrow as pa

    blocks = [pa.table(batch) for batch in ds.materialize().iter_batches(batch_size=None, batch_format="pyarrow")]
    for block in blocks:
        block.validate(full=True)
    return pa.concat_tables(blocks)


@pytest.mark.parametrize("down", [False, True])
def test_kept_rows_of_all_widths(down):
    table = table_of_all_widths(30_000, 1)
    found = kept_table(weir.from_arrow(table).sort("k", descending=down))
    keys = table["k"].to_pylist()
    wanted = sorted(range(table.num_rows), key=lambda i: (keys[i] is None, 0 if keys[i] is None else -keys[i] if down else keys[i]))
    assert found["id"].to_pylist() == wanted
    assert found.cast(table.schema).equals(table.take(wanted))


def test_kept_rows_of_a_shuffle_of_all_widths():
    table = table_of_all_widths(30_000, 2)
    found = kept_table(weir.from_arrow(table).random_shuffle(seed=1))
    wanted = found["id"].to_pylist()
    assert sorted(wanted) == list(range(table.num_rows)) and wanted != sorted(wanted)
    assert found.cast(table.schema).equals(table.take(wanted))


def test_kept_rows_of_which_few_neighbours_are_far_larger():
    """More in one vector than a block has."""
    pa = pytest.importorskip("pyarrow")
    count, first, large = 150_000, 70_000, 24
    texts = ["z" * (1 << 20) if first <= i < first + large else "a" for i in range(count)]
    table = pa.table({"id": range(count), "text": texts})
    places = [(7 * i) % count for i in range(count)]
    found = kept_table(weir.from_arrow(table.take(places)).sort("id"))
    assert found["id"].to_pylist() == list(range(count))
    assert found["text"].combine_chunks().equals(table["text"].combine_chunks())


def test_functions_behind_a_sort_see_the_order():
    ds = weir.range(1000).random_shuffle(seed=1).sort("id", descending=True).map(lambda row: {"id": row["id"] * 2})
    assert ids(ds) == [2 * i for i in reversed(range(1000))]


def test_blocks_of_several_schemas_are_unified():
    def change(row):
        return {"id": row["id"], "v": row["id"] if row["id"] < 10 else row["id"] + 0.5}

    ds = weir.range(20, override_num_blocks=20).map(change).sort("v", descending=True)
    assert ds.take(2) == [{"id": 19, "v": 19.5}, {"id": 18, "v": 18.5}]
    assert [type(row["v"]) for row in ds.take_all()] == [float] * 20


def test_limit_take_and_schema():
    ds = weir.range(100_000).sort("id", descending=True)
    assert ids(ds.limit(3)) == [99_999, 99_998, 99_997]
    assert ds.take(1) == [{"id": 99_999}]
    assert ds.schema().names == ["id"]
    assert ds.count() == 100_000


def test_boundaries_cut_blocks():
    ds = weir.from_items([{"a": a} for a in [5, None, 1, 9, 3, 3, 7]])
    blocks = [batch["a"].tolist() for batch in ds.sort("a", boundaries=[3, 7]).iter_batches(batch_size=None)]
    assert str(blocks) == "[[1], [3, 3, 5], [7.0, 9.0, nan]]"
    down = [[row["a"] for row in batch] for batch in
            [[{"a": a} for a in b["a"].tolist()] for b in ds.sort("a", True, boundaries=[3, 7]).iter_batches(batch_size=None)]]
    assert str(down) == "[[9, 7], [5, 3, 3], [1.0, nan]]"


@pytest.mark.parametrize("key, descending, text", [
    ("x", False, "no such column in the dataset. The dataset has columns: ['id']"),
    (["id", "y"], False, "'y'"),
    ([], False, "a column or a list of columns"),
    (None, False, "a column or a list of columns"),
    ("id", [True, False], "Length of `descending` does not match"),
])
def test_mistakes_are_found_at_the_call(key, descending, text):
    with pytest.raises(ValueError) as raised:
        weir.range(3).sort(key, descending=descending)
    assert text in str(raised.value)


@pytest.mark.parametrize("make", [
    lambda ds, key: ds.sort(key), lambda ds, key: ds.repartition(2, keys=[key]), lambda ds, key: ds.groupby(key).count(),
    lambda ds, key: ds.groupby("id").sum(key)])
def test_functions_are_not_called_before_rows_are_wanted(make, tmp_path):
    """To look whether a column is there would call a function, or make a class with its model; the run finds it."""

    def noted(batch):
        (tmp_path / "called").touch()
        return batch

    ds = weir.range(5).map_batches(noted)
    made, wrong = make(ds, "id"), make(ds, "idd")
    assert not (tmp_path / "called").exists()
    assert made.count() == 5 and (tmp_path / "called").exists()
    with pytest.raises(ValueError, match="'idd'"):
        wrong.take_all()


def test_without_rows():
    assert weir.range(0).sort("id").take_all() == []
    assert weir.from_items([]).random_shuffle().take_all() == []
    assert weir.range(5).filter(lambda row: False).random_shuffle(seed=1).count() == 0


def test_shuffles_are_new_each_run_or_by_seed():
    ds = weir.range(500)
    once = ds.random_shuffle()
    assert sorted(ids(once)) == list(range(500))
    assert ids(once) != ids(once)
    by_seed = ds.random_shuffle(seed=5)
    assert ids(by_seed) == ids(by_seed) == ids(ds.random_shuffle(seed=5)) != ids(ds.random_shuffle(seed=6))


def test_repartition_with_shuffle():
    ds = weir.range(100).repartition(4, shuffle=True).materialize()
    assert ds.num_blocks() == 4
    assert ids(ds) != list(range(100)) and sorted(ids(ds)) == list(range(100))


def test_beyond_the_limit():
    weir.shutdown()
    weir.init(memory_limit="128MB")
    try:
        ds = weir.range(3_000_000).with_column("x", weir.col("id") * 2654435761 % 1000003).with_column("text", weir.lit("y" * 60))
        first = last = None
        for batch in ds.sort(["x", "id"]).iter_batches(batch_size=100_000):
            pairs = batch["x"].astype("int64") * 3_000_000 + batch["id"]
            assert (pairs[1:] > pairs[:-1]).all() and (last is None or pairs[0] > last)
            first, last = first if first is not None else pairs[0], pairs[-1]
        assert weir.range(3_000_000).random_shuffle(seed=2).sum("id") == 2_999_999 * 1_500_000
    finally:
        weir.shutdown()


def test_stats_count_the_rows_of_each_operator() -> None:
    ds = weir.range(1000).filter(expr="id > 10").sort("id", descending=True).limit(5)
    assert [row["id"] for row in ds.take_all()] == [999, 998, 997, 996, 995]
    counts = [line.split(": ")[1] for line in ds.stats().splitlines() if "Total output num rows" in line]
    assert counts == ["989 rows", "5 rows", "5 rows"]


def test_blocks_behind_an_exchange_are_as_small_as_asked_for() -> None:
    ds = weir.range(100_000).random_shuffle(seed=1)
    assert ds.materialize().num_blocks() == 1
    ds.context.target_shuffle_max_block_size = 100_000
    kept = ds.materialize()
    assert 6 <= kept.num_blocks() <= 10
    assert sorted(row["id"] for row in kept.iter_rows()) == list(range(100_000))


@pytest.mark.parametrize("source", [
    lambda: weir.range(100, override_num_blocks=10),
    lambda: weir.from_items([{"id": i} for i in range(100)], override_num_blocks=10),
    lambda: weir.range(100, override_num_blocks=10).map(lambda row: row).materialize(),
    lambda: weir.range(100).repartition(target_num_rows_per_block=10),
])
def test_small_blocks_are_as_many_as_before(source):
    for ds in (source().sort("id"), source().random_shuffle(seed=1)):
        kept = ds.materialize()
        assert kept.num_blocks() == 10 and sorted(ids(kept)) == list(range(100))
        assert [len(batch["id"]) for batch in ds.iter_batches(batch_size=None)] == [10] * 10
        sizes = ds.map_batches(lambda batch: {"rows": [len(batch["id"])]}).take_all()
        assert [row["rows"] for row in sizes] == [10] * 10
        assert [len(batch["id"]) for batch in ds.iter_batches(batch_size=30)] == [30, 30, 30, 10]
        assert ds.map(lambda row: row).count() == 100 and len(ds.limit(15).take_all()) == 15


def skewed_keys(name, count, seed):
    """Keys that are sorted in different ways: few great and many small ones, one that most rows have, some that come in order."""
    import numpy as np

    rng = np.random.default_rng(seed)
    return {
        "zipf": lambda: np.minimum(rng.zipf(1.2, count), 2**62),
        "zipf below zero": lambda: -np.minimum(rng.zipf(1.1, count), 2**62),
        "half alike": lambda: np.where(rng.random(count) < 0.5, 0, rng.integers(-(2**62), 2**62, count)),
        "two values": lambda: rng.integers(0, 2, count) << 60,
        "all magnitudes": lambda: (2.0 ** rng.uniform(0, 62, count)).astype("int64"),
        "doubles": lambda: np.where(rng.random(count) < 0.3, -1e300, 10.0 ** rng.uniform(-300, 300, count)),
        "one far off": lambda: np.append(np.arange(count - 1) % 1000, 2**62),
        "in order": lambda: np.arange(count),
        "in order but for a few": lambda: np.where(rng.random(count) < 0.001, 5, np.arange(count)),
        "runs of files": lambda: np.arange(count) % (count // 4),
        "narrow": lambda: rng.zipf(1.5, count).clip(0, 2**30).astype("int32"),
    }[name]()


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("name", ["zipf", "zipf below zero", "half alike", "two values", "all magnitudes", "doubles", "one far off",
                                  "in order", "in order but for a few", "runs of files", "narrow"])
def test_keys_of_every_distribution(name, down):
    np, pa = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    count, seed = 60_000, 11
    keys, numbers = skewed_keys(name, count, seed), np.arange(count)
    tables = [pa.table({"k": k, "i": i, "t": pa.array([f"t{n % 977}" if n % 13 else None for n in i.tolist()])})
              for k, i in zip(np.array_split(keys, 5), np.array_split(numbers, 5))]
    batches = list(weir.from_arrow(tables).sort("k", descending=down).iter_batches(batch_size=None, batch_format="pyarrow"))
    got = pa.concat_tables(batches)
    wanted = np.argsort(-keys if down else keys, kind="stable")
    assert got["i"].to_pylist() == wanted.tolist(), seed
    assert got["k"].to_pylist() == keys[wanted].tolist(), seed
    assert got["t"].to_pylist() == [f"t{n % 977}" if n % 13 else None for n in wanted.tolist()], seed


@pytest.mark.sample(3)
@pytest.mark.parametrize("way", ["materialize", "iterate", "filter"])
@pytest.mark.parametrize("name", ["apart", "touching", "one inside another", "overlapping", "one backwards", "blocks backwards", "all alike"])
def test_large_blocks_that_come_in_order(name, way):
    """Such blocks go on as they are where nothing comes between; with equal keys those of the first block come first."""
    np, pa = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    count, blocks = 150_000, 5
    rising = np.arange(count)
    keys = {
        "apart": [rising + b * count for b in range(blocks)],
        "touching": [(rising + b * (count - 1)) // 7 for b in range(blocks)],
        "one inside another": [rising * (1000 if b == 1 else 1) + (500_000 if b == 1 else b * count) for b in range(blocks)],
        "overlapping": [rising + b * (count // 3) for b in range(blocks)],
        "one backwards": [(rising[::-1] if b == 2 else rising) + b * count for b in range(blocks)],
        "blocks backwards": [rising - b * count for b in range(blocks)],
        "all alike": [rising * 0 for _ in range(blocks)],
    }[name]
    tables = [pa.table({"k": k, "i": rising + b * count, "t": pa.array([None if n % 13 == 0 else f"t{n % 977}" for n in range(count)]),
                        "x": rising / 3}) for b, k in enumerate(keys)]
    ds = weir.from_arrow(tables).sort("k")
    if way == "filter":
        ds = ds.filter(expr="i >= 0")
    elif way == "materialize":
        ds = ds.materialize()
        assert ds.num_blocks() <= 4 * blocks
    got = pa.concat_tables(list(ds.iter_batches(batch_size=None, batch_format="pyarrow")))
    given = np.concatenate(keys)
    wanted = np.argsort(given, kind="stable")
    assert (got["i"].to_numpy() == wanted).all() and (got["k"].to_numpy() == given[wanted]).all()
    assert got["t"].equals(pa.chunked_array([pa.concat_tables(tables)["t"].combine_chunks().take(pa.array(wanted))]))
    assert (got["x"].to_numpy() == (wanted % count) / 3).all()


def test_python_objects_have_no_order() -> None:
    """Their bytes are pickles: an order of these, or the least of them, would mean nothing."""
    from weir.aggregate import CountDistinct, Max, MissingValuePercentage, Unique

    ds = weir.from_items([{"x": value, "k": 1} for value in (2**70, -(2**90), None, 2**70)])
    for wrong in (lambda: ds.sort("x"), lambda: ds.sort(["k", "x"]), lambda: ds.groupby("k").min("x"),
                  lambda: ds.groupby("k").aggregate(Unique("x")), lambda: ds.groupby("k").aggregate(Max("x"))):
        with pytest.raises(weir.exceptions.RayTaskError, match="column 'x' holds Python objects, which"):
            wrong().take_all()
    with pytest.raises(weir.exceptions.RayTaskError, match="column 'x' holds Python objects, which can only be counted"):
        ds.min("x")
    assert set(ds.unique("x")) == {None, 2**70, -(2**90)}
    assert ds.aggregate(CountDistinct("x"), MissingValuePercentage("x")) == {"count_distinct(x)": 2, "missing_pct(x)": 25.0}
