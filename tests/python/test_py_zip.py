"""Datasets side by side: against a plain model of lists, with blocks that are cut differently, in little memory."""

import random

import pytest

import weir
from driver_scripts import not_sanitized

SEED = 20261115


def blocks_of(rows: list[dict], rng: random.Random) -> weir.Dataset:
    """The rows in blocks of random sizes, made in one of several ways."""
    ds = weir.from_items(rows, override_num_blocks=rng.randint(1, min(7, len(rows))))
    way = rng.randrange(4)
    if way == 0:
        return ds.repartition(rng.randint(1, len(rows)))
    if way == 1:
        return ds.map(lambda row: row)
    if way == 2:
        pytest.importorskip("pyarrow")
        return ds.map_batches(lambda batch: batch, batch_size=rng.randint(1, 9), batch_format="pyarrow")
    return ds


@pytest.mark.parametrize("round", range(12))
def test_as_lists_are_zipped(round):
    rng = random.Random(SEED + round)
    print("seed", SEED + round)
    count, sides = rng.randint(1, 60), rng.randint(2, 4)
    names = ["a", "b", "a_1", "c"]
    tables, want = [], [{} for _ in range(count)]
    for _ in range(sides):
        chosen = rng.sample(names, rng.randint(1, 3))
        rows = [{name: rng.choice([i, None, float(i)]) if name == "b" else i * 10 + at for at, name in enumerate(chosen)}
                for i in range(count)]
        tables.append(rows)
        for i, row in enumerate(rows):
            for name, value in row.items():
                free, number = name, 1
                while free in want[i]:
                    free, number = f"{name}_{number}", number + 1
                want[i][free] = value
    first, *others = (blocks_of(rows, rng) for rows in tables)
    zipped = first.zip(*others)
    assert zipped.take_all() == want
    assert zipped.columns() == list(want[0])
    assert zipped.count() == count
    assert zipped.limit(3).take_all() == want[:3]


def test_names_are_numbered():
    ds = weir.range(2).zip(weir.range(2), weir.range(2))
    assert ds.columns() == ["id", "id_1", "id_2"]
    assert ds.zip(weir.range(2)).columns() == ["id", "id_1", "id_2", "id_3"]
    one = weir.from_items([{"id": 1, "id_1": 2}])
    assert one.zip(weir.from_items([{"id": 3, "id_1": 4}])).take_all() == [{"id": 1, "id_1": 2, "id_2": 3, "id_1_1": 4}]


def test_unequal_rows_and_wrong_things():
    with pytest.raises(ValueError, match="different number of rows: 3, 4"):
        weir.range(3).zip(weir.range(4)).materialize()
    with pytest.raises(ValueError, match="different number of rows: 3, 0"):
        weir.range(3).zip(weir.range(3), weir.range(3).filter(expr="id < 0")).take_all()
    with pytest.raises(TypeError, match="Datasets"):
        weir.range(3).zip([1, 2, 3])
    assert weir.range(3).zip().take_all() == weir.range(3).take_all()
    assert weir.range(0).zip(weir.range(0)).take_all() == []


def test_before_and_behind_functions():
    left = weir.range(1000).map(lambda row: {"x": row["id"] * 2})
    right = weir.range(1000, override_num_blocks=7).map_batches(lambda b: {"y": b["id"] + 1})
    zipped = left.zip(right)
    assert zipped.schema().names == ["x", "y"]
    got = zipped.map_batches(lambda b: {"z": b["x"] + b["y"]}).filter(expr="z > 2990").take_all()
    assert got == [{"z": 3 * i + 1} for i in range(1000) if 3 * i + 1 > 2990]
    assert zipped.sort("y", descending=True).take(1) == [{"x": 1998, "y": 1000}]


def test_the_largest_side_says_which_blocks_there_are():
    small = weir.range(100).repartition(10)
    large = weir.range_tensor(100, shape=(50,)).repartition(4)
    assert small.zip(large).materialize().num_blocks() == 4
    assert large.zip(small).materialize().num_blocks() == 4


def test_blocks_of_several_types():
    mixed = weir.from_items([{"a": 1}, {"a": 2.5}, {"b": "x"}], override_num_blocks=3).map(lambda row: row)
    assert mixed.zip(weir.range(3)).take_all() == [
        {"a": 1.0, "b": None, "id": 0}, {"a": 2.5, "b": None, "id": 1}, {"a": None, "b": "x", "id": 2}]


def test_pieces_of_large_chunks():
    from weir import _weir, _zip

    chunk = _weir.batch_from_columns({"x": list(range(1000))})
    assert list(_zip._rows_of_pieces([chunk, chunk], chunk.nbytes)) == [1000, 1000]
    assert list(_zip._rows_of_pieces([chunk], chunk.nbytes // 4)) == [250] * 4
    assert list(_zip._rows_of_pieces([chunk], 1)) == [1] * 1000


@pytest.mark.same_without
@not_sanitized
@pytest.mark.parametrize("cpus", [1, 2, 7])
def test_far_more_than_the_memory(cpus, tmp_path):
    """About 150 MB at 80 MB, of which less than half is for what is kept."""
    weir.shutdown()
    weir.init(memory_limit="80MiB", num_cpus=cpus, spill_dir=str(tmp_path))
    try:
        rows = 300_000
        wide = weir.range_tensor(rows, shape=(60,), override_num_blocks=37)
        other = weir.range(rows, override_num_blocks=11).with_column("twice", weir.col("id") * 2)
        seen = 0
        for batch in wide.zip(other).iter_batches(batch_size=10_000):
            assert (batch["data"][:, 7] == batch["id"]).all() and (batch["twice"] == 2 * batch["id"]).all()
            assert batch["id"][0] == seen
            seen += len(batch["id"])
        assert seen == rows
        assert wide.zip(other).filter(expr="id % 1000 == 0").count() == rows // 1000
    finally:
        weir.shutdown()
