"""Blocks that are larger than the memory: who asked for few of them gets their rows all the same, whatever comes behind."""
import numpy as np
import pytest

import weir
from driver_scripts import not_sanitized

pytestmark = not_sanitized

ROWS = 4_000_000  # of 24 bytes, in blocks of two thirds of the limit and more


@pytest.fixture(scope="module", autouse=True)
def session(tmp_path_factory):
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit="64MiB", spill_dir=str(tmp_path_factory.mktemp("spill")))
    yield
    weir.shutdown()


def rows():
    return weir.range(ROWS).with_column("k", (weir.col("id") * 7919) // 5).with_column("x", weir.col("id") * 3)


def large():
    return rows().repartition(2)


def numbers(*datasets, column="id", batch_size=4096):
    """The column of all of them, one after another; each value once."""
    found = [batch[column].copy() for ds in datasets for batch in ds.iter_batches(batch_size=batch_size)]
    return np.concatenate(found)


WAYS = {
    "read again": lambda: [large()],
    "kept": lambda: [large().materialize()],
    "cut again": lambda: [large().repartition(3)],
    "by keys, kept, cut again": lambda: [rows().repartition(2, keys=["k"]).materialize().repartition(3)],
    "rows a block": lambda: [large().repartition(target_num_rows_per_block=3_000_000).materialize()],
    "split": lambda: large().split(3),
    "split at rows": lambda: large().split_at_indices([5, 1_500_000]),
    "train and test": lambda: large().train_test_split(0.3),
    "other order of blocks": lambda: [large().randomize_block_order(seed=1)],
    "zip": lambda: [large().zip(rows().select_columns(["x"]).rename_columns({"x": "again"}).repartition(3))],
    "steps": lambda: [large().with_column("y", weir.col("x") + 1)],
    "shuffle": lambda: [large().random_shuffle(seed=3)],
    "shards": lambda: [large().shard(2, 0), large().shard(2, 1)],
}


UNORDERED = ("other order of blocks", "shuffle", "by keys, kept, cut again", "shards")


@pytest.mark.sample(4)
@pytest.mark.same_without
@pytest.mark.parametrize("way", WAYS)
def test_every_row_is_there_once(way):
    found = numbers(*WAYS[way]())
    if way not in UNORDERED:
        assert (np.diff(found) == 1).all()
    assert len(found) == ROWS and (np.sort(found) == np.arange(ROWS)).all()


def test_rows_a_block_are_those_asked_for():
    kept = rows().repartition(target_num_rows_per_block=3_500_000).materialize()
    assert kept.num_blocks() == 2 and kept.count() == ROWS


def test_parts_of_them():
    assert (numbers(large().limit(3_000_000)) == np.arange(3_000_000)).all()
    assert (numbers(rows().union(rows()).limit(ROWS + 5)) == np.arange(ROWS + 5) % ROWS).all()
    assert large().take(2) == [{"id": 0, "k": 0, "x": 0}, {"id": 1, "k": 1583, "x": 3}]
    assert large().materialize().num_blocks() == 2
    assert len(repr(large().materialize())) > 0


def test_exchanges_and_aggregates_of_them():
    assert large().sum("x") == 3 * ROWS * (ROWS - 1) // 2
    assert large().groupby("x").count().count() == ROWS
    assert large().join(weir.range(1000), "left_semi", 4, on=("x",), right_on=("id",)).count() == 334
    assert (numbers(large().sort("id", descending=True)) == np.arange(ROWS)[::-1]).all()


def test_halves_of_groups():
    """One of the two groups has nearly all rows."""
    ds = rows().with_column("label", weir.col("id") < 7)
    train, test = ds.train_test_split(0.25, stratify="label")
    assert (np.sort(numbers(train, test)) == np.arange(ROWS)).all()
    assert sorted(numbers(test)) == [6, *range(ROWS - (ROWS - 7) // 4, ROWS)]
    assert train.columns() == test.columns() == ["id", "k", "x", "label"]


@pytest.mark.parametrize("descending", [False, True])
def test_boundaries(descending):
    kept = rows().sort("x", descending, boundaries=[-1, 30, 6_000_001.5, 1e12]).materialize()
    assert kept.num_blocks() == 5
    wanted = [2_000_001 - 10, 10, ROWS - 2_000_001]
    assert sorted(block.num_rows for block in kept._blocks()) == sorted([0, 0, *wanted])
    found = numbers(kept)
    assert (found == (np.arange(ROWS)[::-1] if descending else np.arange(ROWS))).all()


def test_rows_by_key():
    found = rows().to_random_access_dataset("x").multiget([3, ROWS * 3 - 3, 4])
    assert [row and row["id"] for row in found] == [1, ROWS - 1, None]
