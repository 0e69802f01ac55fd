"""Functions that follow each other run in one worker, and nothing shows of it but the processes that are not there."""
import os
import re

import pytest

np = pytest.importorskip("numpy")

import weir  # noqa: E402


def pids(ds):
    """For each row the processes that it passed."""
    return [tuple(row["pids"]) for row in ds.take_all()]


def seen(row):
    return {**row, "pids": [*row.get("pids", []), os.getpid()]}


def test_functions_share_a_process():
    passed = pids(weir.range(50).map(seen).map(seen).filter(lambda row: row["id"] % 2 == 0).flat_map(lambda row: [seen(row)]))
    assert len(passed) == 25 and all(len(set(p)) == 1 and len(p) == 3 for p in passed)
    assert os.getpid() not in {p for row in passed for p in row}


class Seen:
    def __call__(self, row):
        return seen(row)


@pytest.mark.sample(3)
@pytest.mark.parametrize("behind", [
    lambda ds: ds.map(Seen),
    lambda ds: ds.map(seen, concurrency=1),
    lambda ds: ds.map(seen, num_cpus=0.5),
    lambda ds: ds.map(seen, memory=50_000_000),
    lambda ds: ds.map(seen, runtime_env={"env_vars": {"A": "b"}}),
    lambda ds: ds.limit(10).map(seen),
    lambda ds: ds.with_column("x", weir.col("id")).map(seen),
], ids=["class", "concurrency", "num_cpus", "memory", "runtime_env", "limit", "native"])
def test_what_is_different_runs_apart(behind):
    assert all(len(set(p)) == 2 for p in pids(behind(weir.range(20).map(seen))))


def test_it_can_be_switched_off():
    ds = weir.range(20)
    ds.context.optimize_fuse_stages = False
    assert all(len(set(p)) == 2 for p in pids(ds.map(seen).map(seen)))


def test_batches_keep_their_sizes():
    def sized(batch):
        return {**batch, "n": np.full(len(batch["id"]), len(batch["id"]))}

    ds = weir.range(1000).map(lambda row: row).map_batches(sized, batch_size=300)
    assert sorted({row["n"] for row in ds.take_all()}) == [100, 300]
    # Behind what changes the number of rows a task is filled up to the size, by not being in the same worker: of its batches only
    # the last may be smaller.
    ds = weir.range(1000).filter(lambda row: row["id"] % 2 == 0).map_batches(sized, batch_size=100)
    assert max(row["n"] for row in ds.take_all()) == 100
    ds = weir.range(100).map_batches(sized, batch_size=10).map_batches(lambda b: {"m": [len(b["n"])]}, batch_size=40)
    assert sorted(row["m"] for row in ds.take_all()) == [20, 40, 40]


def test_generators_frames_and_several_blocks():
    def doubled(batch):
        yield batch
        yield {"id": batch["id"] + 1000}

    ds = weir.range(40, override_num_blocks=4).map_batches(doubled).map(lambda row: {"id": row["id"] + 1}).map_batches(lambda b: b)
    assert sorted(row["id"] for row in ds.take_all()) == sorted([i + 1 for i in range(40)] + [i + 1001 for i in range(40)])


def test_errors_name_the_function_and_the_row():
    def fails(row):
        if row["id"] == 41:
            raise KeyError("here")
        return row

    with pytest.raises(KeyError) as raised:
        weir.range(100).map(lambda row: row).map(fails).map(lambda row: row).take_all()
    assert "Map(fails) failed on row 41 of range" in str(raised.value)
    with pytest.raises(KeyError) as raised:
        weir.range(100).flat_map(lambda row: [row]).map(fails).take_all()
    assert re.search(r"Map\(fails\) failed on (rows? \d|the \d+ rows it was given)", str(raised.value))  # how many a task has is a matter of time
    with pytest.raises(ValueError, match=r"MapBatches\(<lambda>\) returned what cannot be used"):
        weir.range(5).map(lambda row: row).map_batches(lambda batch: [1]).take_all()


def test_what_cannot_be_pickled_is_named():
    import threading

    lock = threading.Lock()
    with pytest.raises(TypeError, match="the variable 'lock'"):
        weir.range(5).map(lambda row: row).map(lambda row: {"x": lock}).take_all()


def test_stats_show_one_operator():
    ds = weir.range(100).map(lambda row: row).map_batches(lambda batch: batch)
    ds.take_all()
    first, *others = [line for line in ds.stats().splitlines() if line.startswith("Operator ")]
    assert first.startswith("Operator 1 ReadRange->Map(<lambda>)->MapBatches(<lambda>): ") and not others


def test_blocks_without_rows_and_columns_that_change():
    ds = weir.range(30, override_num_blocks=3).filter(lambda row: row["id"] >= 10).map(
        lambda row: {"v": row["id"] if row["id"] < 20 else str(row["id"])}).map(lambda row: {"w": row["v"]})
    assert [row["w"] for row in ds.take_all()] == [*range(10, 20), *map(str, range(20, 30))]


def test_a_function_without_batch_size_sees_blocks_whatever_follows():
    def sized(batch):
        return {**batch, "n": np.full(len(batch["id"]), len(batch["id"]))}

    def again(batch):
        return {"n": batch["n"], "m": np.full(len(batch["n"]), len(batch["n"]))}

    def seen(ds):
        return [(row["n"], row["m"]) for row in ds.take_all()]

    blocks = weir.range(12, override_num_blocks=4)
    assert seen(blocks.map_batches(sized).map_batches(again, batch_size=6)) == [(3, 6)] * 12
    assert seen(blocks.map_batches(sized).map_batches(again, batch_size=2)) == [(3, 2), (3, 2), (3, 1)] * 4
    assert seen(blocks.map_batches(sized).map(lambda row: row).map_batches(again, batch_size=6)) == [(3, 6)] * 12


@pytest.mark.parametrize("blocks, rows, batch_size", [(4, 100, 30), (6, 4, 3), (3, 7, 7), (5, 10, 9), (2, 50_001, 1000)])
def test_batches_end_with_their_block(blocks, rows, batch_size):
    """What is left of a block that has a batch's rows is a batch of its own, and not the beginning of the next block's first."""
    ds = weir.range(blocks * rows, override_num_blocks=blocks)
    for input in (ds, ds.materialize()):
        seen = input.map_batches(lambda batch: {"first": batch["id"][:1], "rows": [len(batch["id"])]}, batch_size=batch_size).take_all()
        expected = [(block * rows + first, min(batch_size, rows - first)) for block in range(blocks) for first in range(0, rows, batch_size)]
        assert [(row["first"], row["rows"]) for row in seen] == expected


# ---- blocks behind functions, where the user said what the blocks are (as Ray Data 2.60 has them) ----


def rows_of(ds):
    kept = ds.materialize()
    rows = [len(batch["id"]) for batch in kept.iter_batches(batch_size=None)]
    assert len(rows) == kept.num_blocks()
    return rows


@pytest.mark.parametrize("batch_size, expected", [(None, [25] * 4), (5, [25] * 4), (7, [25] * 4), (25, [25] * 4), (40, [50] * 2), (50, [50] * 2)])
def test_what_functions_make_of_a_block_is_a_block(batch_size, expected):
    ds = weir.range(100, override_num_blocks=4)
    for input in (ds, ds.materialize(), weir.range(100).repartition(4)):
        assert rows_of(input.map_batches(lambda batch: batch, batch_size=batch_size)) == expected
        assert rows_of(input.map_batches(lambda batch: {"id": np.repeat(batch["id"], 2)}, batch_size=batch_size)) == [2 * n for n in expected]


def test_rows_that_are_made_of_a_block_are_a_block():
    ds = weir.range(1000, override_num_blocks=3)
    assert rows_of(ds.map(lambda row: row)) == [333, 333, 334]
    assert rows_of(ds.flat_map(lambda row: [row, row])) == [666, 666, 668]
    assert rows_of(ds.filter(lambda row: row["id"] % 2 == 0)) == [167, 166, 167]
    assert rows_of(ds.filter(lambda row: row["id"] >= 400)) == [266, 334]


class Count:
    def __call__(self, batch):
        return {"n": [len(batch["id"])]}


def test_a_function_without_batch_size_gets_whole_blocks():
    """However large they are, and whatever made them: a function may need all rows of one."""
    million, count = 1_000_000, Count()
    ds = weir.range(million, override_num_blocks=2)
    halves = [{"n": million // 2}] * 2
    assert weir.range(million).repartition(1).map_batches(count.__call__).take_all() == [{"n": million}]
    for input in (ds, ds.materialize()):
        assert input.map_batches(count.__call__, batch_size=None).take_all() == halves
        assert input.map_batches(lambda batch: batch, batch_size=3000).map_batches(count.__call__).take_all() == halves
        assert input.map_batches(lambda batch: batch, batch_size=3000).map_batches(Count, concurrency=1).take_all() == halves
        assert input.map_batches(lambda batch: batch).filter(expr="id >= 0").map_batches(Count, concurrency=2).take_all() == halves
    rows = weir.range(20_000, override_num_blocks=2)
    assert rows.map(lambda row: row).map_batches(Count, concurrency=2).take_all() == [{"n": 10_000}] * 2


def test_blocks_behind_functions_are_files(tmp_path):
    ds = weir.range(1000, override_num_blocks=4)
    cases = {
        "batches": ds.map_batches(lambda batch: batch, batch_size=30), "rows": ds.map(lambda row: row), "blocks": ds.map_batches(lambda batch: batch),
        "repartition": weir.range(1000).repartition(4).map(lambda row: row), "steps": ds.map(lambda row: row).filter(expr="id >= 0"),
    }
    for name, made in cases.items():
        made.write_csv(str(tmp_path / name))
        files = sorted((tmp_path / name).glob("*.csv"))
        assert [file.read_text().split()[1] for file in files] == ["0", "250", "500", "750"], name


def test_small_batches_share_tasks():
    """A task costs more than a batch of a function that does little."""
    ds = weir.range(200_000, override_num_blocks=1).map_batches(lambda batch: {"n": [len(batch["id"])]}, batch_size=100)
    assert ds.count() == 2000
    kept = ds.materialize()
    tasks = int(re.search(r"MapBatches\(.*\): (\d+) tasks", kept.stats()).group(1))
    assert tasks < 1000
    assert kept.take_all() == [{"n": 100}] * 2000


def test_results_of_one_block_that_differ_are_one_block():
    def different(batch):
        return {"a": batch["id"]} if batch["id"][0] % 2 == 0 else {"a": batch["id"], "b": batch["id"] * 0.5}

    kept = weir.range(10, override_num_blocks=1).map_batches(different, batch_size=5).materialize()
    assert kept.num_blocks() == 1
    assert kept.take_all()[4:6] == [{"a": 4, "b": None}, {"a": 5, "b": 2.5}]
