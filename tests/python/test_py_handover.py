"""What functions make in front of an exchange: little is kept first, much goes into the exchange while it is made, and is written to disk
once."""
import os

import numpy as np
import pytest

import weir
from driver_scripts import not_sanitized

pytestmark = [pytest.mark.same_without, not_sanitized]
ROWS = 1_000_000
LIMIT = 128 << 20


@pytest.fixture(autouse=True)
def session(tmp_path):
    (tmp_path / "spill").mkdir()
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=LIMIT, spill_dir=str(tmp_path / "spill"))
    yield
    assert os.listdir(tmp_path / "spill") == []
    weir.shutdown()


def made(batch):
    ids = batch["id"]
    return {"id": ids, "k": ids * 2654435761 % 4294967291, **{f"c{i}": ids * i for i in range(6)}}


def keys(ds, name="k"):
    return np.concatenate([batch[name].copy() for batch in ds.iter_batches(batch_size=None)])


def test_it_is_written_once():
    ds = weir.range(4 * ROWS).map_batches(made, batch_size=10000).sort("k")
    assert (keys(ds) == np.sort(np.arange(4 * ROWS) * 2654435761 % 4294967291)).all()
    # 2.0 where all is kept first. Rows that wait for the function, or that it has made, stay in memory as long as they are taken: 1.2
    # where they do not.
    assert ds.get_stats_summary().dataset_bytes_spilled <= 1.15 * 4 * ROWS * 64
    assert "MapBatches(made)" in ds.stats() and "Sort" in ds.stats()


@pytest.mark.sample(2)
@pytest.mark.parametrize("end", ["count", "loop"])
def test_blocks_that_are_put_together_before_it(end):
    """Blocks of several chunks, out of blocks of several chunks."""
    ds = weir.range(ROWS).map_batches(made, batch_size=4096).repartition(3).random_shuffle(seed=3)
    assert ds.count() == ROWS if end == "count" else (np.sort(keys(ds, "id")) == np.arange(ROWS)).all()


def test_two_of_them_one_behind_the_other():
    ds = weir.range(ROWS).map_batches(made).sort("k").map_batches(lambda b: b).sort("id", descending=True)
    assert (keys(ds, "id") == np.arange(ROWS)[::-1]).all()


def test_two_of_them_side_by_side():
    one = weir.range(ROWS).map_batches(made)
    assert one.sort("k").union(one.sort("id", descending=True)).count() == 2 * ROWS
    joined = one.sort("k").join(one.select_columns(["k"]).random_shuffle(), "inner", 4, on=("k",))
    assert joined.count() == ROWS


def other(batch):
    ids = batch["id"] + JOINED // 4
    return {"k": ids * 2654435761 % 4294967291, "other": ids, **{f"d{i}": ids * i for i in range(6)}}


JOINED = 400_000  # rows of each side, three quarters of which have a partner


def test_sides_of_a_join_are_written_once():
    ds = weir.range(2 * ROWS).map_batches(made, batch_size=10000).join(weir.range(2 * ROWS).map_batches(other, batch_size=10000), "inner", 64, on=("k",))
    ids = keys(ds, "id")
    assert (np.sort(ids) == np.arange(JOINED // 4, 2 * ROWS)).all()
    assert ds.get_stats_summary().dataset_bytes_spilled <= 1.25 * 4 * ROWS * 64  # 2.0 where they are kept first
    assert "MapBatches(made)" in ds.stats() and "MapBatches(other)" in ds.stats()


WITHOUT_LEFT, BOTH, WITHOUT_RIGHT = np.arange(JOINED // 4), np.arange(JOINED // 4, JOINED), np.arange(JOINED, JOINED + JOINED // 4)


@pytest.mark.sample(6)
@pytest.mark.parametrize("how, left, right", [
    ("inner", [BOTH], [BOTH]), ("left_outer", [WITHOUT_LEFT, BOTH], [BOTH]), ("right_outer", [BOTH], [BOTH, WITHOUT_RIGHT]),
    ("full_outer", [WITHOUT_LEFT, BOTH], [BOTH, WITHOUT_RIGHT]), ("left_semi", [BOTH], None), ("left_anti", [WITHOUT_LEFT], None),
    ("right_semi", None, [BOTH]), ("right_anti", None, [WITHOUT_RIGHT])])
def test_each_way_to_join_what_is_being_made(how, left, right):
    ds = weir.range(JOINED).map_batches(made).join(weir.range(JOINED).map_batches(other), how, 16, on=("k",))
    for name, wanted in (("id", left), ("other", right)):
        if wanted is not None:
            found = keys(ds, name)
            assert np.array_equal(np.sort(found[~np.isnan(found)] if found.dtype.kind == "f" else found), np.concatenate(wanted))


def test_joins_of_joins_and_of_the_same_rows():
    one = weir.range(JOINED).map_batches(made)
    three = one.select_columns(["k", "id"]).join(weir.range(JOINED).map_batches(other).join(one.rename_columns({"id": "again"}), "inner", 8, on=("k",)), "inner", 8, on=("k",))
    assert (np.sort(keys(three, "again")) == BOTH).all()
    assert (np.sort(keys(one.join(one.rename_columns({name: "r_" + name for name in ("id", *(f"c{i}" for i in range(6)))}), "inner", 8, on=("k",)), "r_id"))
            == np.arange(JOINED)).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("small", ["left", "right"])
def test_a_side_of_few_rows(small):
    few, many = weir.range(1000), weir.range(JOINED)
    sides = (few.map_batches(made), many.map_batches(made)) if small == "left" else (many.map_batches(made), few.map_batches(made))
    ds = sides[0].select_columns(["id", "k"]).join(sides[1].rename_columns({"id": "theirs"}), "inner", 8, on=("k",))
    assert (np.sort(keys(ds, "theirs")) == np.arange(1000)).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_side_that_fails_or_changes_late(side):
    def late(batch, error=None):
        if batch["id"].max() < JOINED * 0.9:
            return made(batch)
        if error:
            raise error
        return made(batch) | {"late": batch["id"]}

    for error in (RuntimeError("planted"), None):
        one = weir.range(JOINED).map_batches(late, fn_kwargs={"error": error}, batch_size=10000)
        two = weir.range(JOINED).map_batches(other)
        ds = one.join(two, "inner", 8, on=("k",)) if side == "left" else two.join(one, "inner", 8, on=("k",))
        if error:
            with pytest.raises(Exception, match="planted"):
                ds.count()
        else:
            assert (np.sort(keys(ds, "id")) == BOTH).all()
    assert weir.range(10).map_batches(made).sort("k").count() == 10


@pytest.mark.sample(4)
@pytest.mark.parametrize("end", ["loop", "count", "materialize", "write"])
def test_columns_that_differ_late_are_made_again(end, tmp_path):
    def changing(batch):
        rows = made(batch)
        if batch["id"].max() >= ROWS * 0.9:
            rows["k"], rows["late"] = rows["k"] + 0.5, rows["id"]
        return rows

    ds = weir.range(ROWS).map_batches(changing, batch_size=10000).sort("k")
    if end == "loop":
        k = keys(ds)
        assert len(k) == ROWS and (np.diff(k) >= 0).all() and (k % 1 == 0.5).sum() == ROWS // 10
    elif end == "count":
        assert ds.count() == ROWS
    elif end == "materialize":
        kept = ds.materialize()
        assert kept.count() == ROWS and "late" in kept.columns()
    else:
        ds.write_parquet(str(tmp_path / "out"))
        assert weir.read_parquet(str(tmp_path / "out")).count() == ROWS


def test_types_that_fit_are_cast():
    def narrow(batch):
        rows = made(batch)
        if batch["id"].max() >= ROWS * 0.9:
            rows["c0"] = rows["c0"].astype(np.int32)
            del rows["c5"]
        return rows

    calls = weir.range(ROWS).map_batches(narrow, batch_size=10000).sort("k")
    batches = [batch["c0"].dtype for batch in calls.iter_batches(batch_size=None)]
    assert set(batches) == {np.dtype(np.int64)}


@pytest.mark.sample(4)
@pytest.mark.parametrize("operator", ["sort", "shuffle", "group", "keys"])
def test_a_function_that_fails_late(operator):
    def failing(batch):
        if batch["id"].max() >= ROWS * 0.9:
            raise RuntimeError("planted")
        return made(batch)

    ds = weir.range(ROWS).map_batches(failing, batch_size=10000)
    ds = {"sort": lambda: ds.sort("k"), "shuffle": lambda: ds.random_shuffle(), "group": lambda: ds.groupby("k").count(),
          "keys": lambda: ds.repartition(4, keys=["k"])}[operator]()
    with pytest.raises(Exception, match="planted"):
        ds.count()
    with pytest.raises(Exception, match="planted"):
        for _ in ds.iter_batches():
            pass


def test_a_loop_that_is_left_ends_the_functions():
    ds = weir.range(ROWS).map_batches(made).sort("k")
    for _ in ds.iter_batches():
        break
    assert weir.range(10).map_batches(made).sort("k").count() == 10


def test_a_key_that_is_not_there():
    ds = weir.range(ROWS).map_batches(made)
    with pytest.raises(Exception, match="nothere"):
        ds.groupby("nothere").count().take_all()
    with pytest.raises(Exception, match="nothere"):
        ds.sort("nothere").take_all()


def test_a_seed_gives_the_same_order_whoever_is_quick(tmp_path):
    """Where rows come to lie must not depend on how many batches a worker was given at a time."""
    def orders():
        ds = weir.range(150_000).map_batches(lambda batch: batch, batch_size=500)
        yield keys(ds.random_shuffle(seed=3), "id")
        yield keys(ds.random_sample(0.1, seed=3), "id")
        yield keys(ds.materialize().random_shuffle(seed=3), "id")
    wanted = list(orders())
    assert (np.sort(wanted[0]) == np.arange(150_000)).all() and not (wanted[0] == np.sort(wanted[0])).all()
    for cpus in (1, 7):
        weir.shutdown()
        weir.init(num_cpus=cpus, memory_limit=LIMIT, spill_dir=str(tmp_path / "spill"))
        for first, again in zip(wanted, orders(), strict=True):
            assert np.array_equal(first, again)


def test_a_seed_gives_the_same_order_whatever_memory_there_is(tmp_path):
    """A row goes by its number in the input: not by how much of it was looked at first, how it was cut, or how many lanes there were."""
    rows = 1_300_000  # more than a section of the input has (ops/exchange/numbers.h)
    wanted = None
    for cpus, limit in ((2, 1 << 30), (1, 64 << 20), (7, 96 << 20)):
        weir.shutdown()
        weir.init(num_cpus=cpus, memory_limit=limit, spill_dir=str(tmp_path / "spill"))
        ds = weir.range(rows).map_batches(lambda batch: {"id": batch["id"]})
        for shuffled in (ds, ds.materialize()):
            order = keys(shuffled.random_shuffle(seed=3), "id")
            wanted = order if wanted is None else wanted
            assert np.array_equal(order, wanted)
        del shuffled, ds
    assert (np.sort(wanted) == np.arange(rows)).all() and abs(np.corrcoef(wanted, np.arange(rows))[0, 1]) < 0.01
