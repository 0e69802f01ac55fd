"""repartition in its four modes, and the command's repartition and top: against lists and Polars, on 1, 2 and 7 lanes."""

import random
import subprocess

import polars as pl
import pytest

import weir

SEED = 711


def blocks(ds: weir.Dataset) -> list[list[dict]]:
    pytest.importorskip("pyarrow")
    return [batch.to_pylist() for batch in ds.iter_batches(batch_size=None, batch_format="pyarrow")]


def table(count: int, rng: random.Random) -> list[dict]:
    return [{"id": i,
             "k": rng.choice([None, rng.randint(0, 5)]),
             "s": rng.choice(["", "a", "ä", "long " * 9, None]),
             "x": rng.choice([0.0, float("nan"), 1.5, None])} for i in range(count)]


def test_num_blocks_and_rows_per_block():
    ds = weir.range(10)
    assert [len(b) for b in blocks(ds.repartition(3))] == [3, 3, 4]
    assert [len(b) for b in blocks(ds.repartition(target_num_rows_per_block=4))] == [4, 4, 2]
    assert [len(b) for b in blocks(ds.repartition(target_num_rows_per_block=4, strict=True))] == [4, 4, 2]
    assert ds.repartition(3).materialize().num_blocks() == 3
    assert ds.repartition(20).count() == 10
    shuffled = ds.repartition(3, shuffle=True).materialize()
    assert shuffled.num_blocks() == 3 and sorted(row["id"] for row in shuffled.take_all()) == list(range(10))


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"keys": ["id"]}, {"keys": ["id"], "sort": True}], ids=str)
def test_as_many_blocks_though_there_are_no_rows(options):
    for ds in (weir.range(10).filter(expr=weir.col("id") > 100), weir.range(10).limit(0)):
        made = ds.repartition(3, **options).materialize()
        assert made.num_blocks() == 3 and made.columns() == ["id"]
        assert made.repartition(2, keys=["id"]).sort("id").rename_columns({"id": "x"}).take_all() == []


@pytest.mark.parametrize("round", range(8))
def test_rows_with_equal_keys_are_in_one_block(round):
    rng = random.Random(SEED + round)
    print("seed", SEED + round)
    rows = table(rng.choice([1, 7, 500]), rng)
    keys = rng.sample(["k", "s"], rng.randint(1, 2))
    count, sort = rng.randint(1, 9), rng.random() < 0.5
    ds = weir.from_items(rows, override_num_blocks=rng.randint(1, min(5, len(rows))))
    if rng.random() < 0.3:
        ds = ds.map(lambda row: row)
    kept = ds.repartition(count, keys=keys, sort=sort).materialize()
    found = blocks(kept)
    assert len(found) <= count == kept.num_blocks()  # some have no rows
    assert kept.columns() == ["id", "k", "s", "x"]
    place: dict = {}
    for number, block in enumerate(found):
        for row in block:
            assert place.setdefault(tuple(row[key] for key in keys), number) == number
        order = [tuple((row[key] is None, row[key] if row[key] is not None else 0 if key == "k" else "") for key in keys)
                 for row in block]
        order = [tuple((null, v.encode() if isinstance(v, str) else v) for null, v in one) for one in order]
        ids = [row["id"] for row in block]
        assert list(zip(order, ids)) == sorted(zip(order, ids)) if sort else ids == sorted(ids)
    assert sorted(row["id"] for block in found for row in block) == [row["id"] for row in rows]


def test_the_same_on_any_number_of_lanes(tmp_path):
    pl.DataFrame({"id": range(200_000), "k": [i * 7919 % 1009 for i in range(200_000)]}).write_parquet(
        tmp_path / "a.parquet", row_group_size=9000)
    seen = []
    for cpus, limit in ((1, "64MiB"), (2, "512MiB"), (7, "80MiB")):
        weir.shutdown()
        weir.init(num_cpus=cpus, memory_limit=limit, spill_dir=str(tmp_path))
        ds = weir.read_parquet(str(tmp_path / "a.parquet")).repartition(5, keys=["k"])
        seen.append([[row["id"] for row in block] for block in blocks(ds)])
        weir.shutdown()
    assert seen[0] == seen[1] == seen[2]
    assert [len(block) for block in seen[0]] == [len(block) for block in seen[1]] and len(seen[0]) == 5


def test_the_columns_are_those_of_before():
    ds = weir.range(20, override_num_blocks=10).repartition(3, keys=["id"])
    assert ds.columns() == ["id"] and ds.sum() == 190
    assert ds.filter(expr=weir.col("id") > 17).columns() == ["id"]


def test_one_key_needs_no_list():
    ds = weir.range(100, override_num_blocks=4).map(lambda row: {"mod": row["id"] % 5, "id": row["id"]})
    assert blocks(ds.repartition(3, keys="mod")) == blocks(ds.repartition(3, keys=["mod"]))


def test_what_is_wrong_with_the_arguments():
    ds = weir.from_items([{"a": 1, "l": [1]}])
    with pytest.raises(ValueError, match="no such column"):
        ds.repartition(2, keys=["b"])
    with pytest.raises(TypeError, match="list of columns"):
        ds.repartition(2, keys=[1])
    with pytest.warns(UserWarning, match="`keys` is ignored"):
        ds.repartition(target_num_rows_per_block=1, keys=["a"])
    with pytest.warns(UserWarning, match="`strict` is ignored"):
        ds.repartition(2, strict=True)
    with pytest.raises(TypeError, match="no key"):
        ds.repartition(2, keys=["l"]).materialize()


def test_the_command(weir_command, tmp_path):
    def weir(*words, code=0):
        done = subprocess.run([weir_command, *map(str, words)], capture_output=True)
        assert done.returncode == code, done.stderr
        return done

    rng = random.Random(SEED)
    frame = pl.DataFrame({"id": range(5000), "k": [rng.randint(0, 300) for _ in range(5000)],
                          "x": [rng.choice([None, rng.random()]) for _ in range(5000)]})
    frame.write_parquet(tmp_path / "in.parquet", row_group_size=700)
    for threads in ("1", "2", "7"):
        def run(*words):
            return weir("--threads", threads, "read", tmp_path / "in.parquet", "then", *words)

        def files(*words):
            out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
            run(*words, "then", "write", out)
            return [pl.read_parquet(path) for path in sorted(out.iterdir())]

        parts = files("repartition", "--blocks", "7")
        assert [len(part) for part in parts] == [(i + 1) * 5000 // 7 - i * 5000 // 7 for i in range(7)]
        assert pl.concat(parts).equals(frame)
        parts = files("repartition", "--rows-per-block", "800")
        assert [len(part) for part in parts] == [800] * 6 + [200] and pl.concat(parts).equals(frame)
        parts = files("repartition", "--blocks", "4", "--keys", "k", "--sort")
        assert all(part.equals(part.sort("k", "id")) for part in parts)
        assert pl.concat(parts).sort("id").equals(frame)
        assert sum(part["k"].n_unique() for part in parts) == frame["k"].n_unique()
        lines = run("top", "5", "by", "k desc, x asc", "then", "select", "id").stdout.decode().split()
        want = frame.sort(["k", "x"], descending=[True, False], nulls_last=True, maintain_order=True)["id"].head(5)
        assert lines == ["id", *map(str, want)]
        lines = run("top", "3", "by", "x", "then", "filter", "id >= 0", "then", "select", "id").stdout.decode().split()
        want = frame.sort("x", descending=True, nulls_last=True, maintain_order=True)["id"].head(3)
        assert lines == ["id", *map(str, want)]
    assert b"either --blocks or --rows-per-block" in weir("range", "3", "then", "repartition", code=2).stderr
    assert b"only with --keys" in weir("range", "3", "then", "repartition", "--blocks", "2", "--sort", code=2).stderr
    assert b"number of rows" in weir("range", "3", "then", "top", "x", "by", "id", code=2).stderr


def epochs(ds: weir.Dataset) -> list[list[int]]:
    return [[row["id"] for row in ds.take_all()] for _ in range(3)]


def test_epochs_are_counted_for_all_that_is_made_of_a_dataset():
    """A loop that makes the shuffle anew for each epoch gets another order each time; a second program the same ones."""
    def orders():
        ds = weir.range(50)
        return [[row["id"] for row in ds.random_shuffle(seed=weir.RandomSeedConfig(5)).take_all()] for _ in range(3)]

    first = orders()
    assert len({tuple(order) for order in first}) == 3 and first == orders()


def test_seeds_by_epoch(tmp_path):
    """The n-th run of a Dataset is the same for the same seed, whatever else has run; another than the others, unless it is said."""
    for i in range(12):
        pl.DataFrame({"id": [i]}).write_parquet(tmp_path / f"{i:02}.parquet")
    each, fixed = weir.RandomSeedConfig(5), weir.RandomSeedConfig(5, reseed_after_execution=False)
    files, same_files = weir.FileShuffleConfig(5), weir.FileShuffleConfig(5, reseed_after_execution=False)
    ways = {
        "random_shuffle": lambda seed, _: weir.range(50).random_shuffle(seed=seed),
        "random_sample": lambda seed, _: weir.range(50).random_sample(0.5, seed=seed),
        "randomize_block_order": lambda seed, _: weir.range(50, override_num_blocks=10).randomize_block_order(seed=seed),
        "files": lambda _, shuffle: weir.read_parquet(str(tmp_path), shuffle=shuffle),
    }
    for name, make in ways.items():
        first = epochs(make(each, files))
        weir.range(3).take_all()
        assert first == epochs(make(each, files)), name
        assert first[0] != first[1] != first[2] != first[0], name
        a, b, c = epochs(make(fixed, same_files))
        assert a == b == c, name
    with pytest.raises(ValueError, match="RandomSeedConfig"):
        weir.range(3).random_shuffle(seed="a")
