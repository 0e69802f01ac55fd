"""DatasetPipeline: windows, epochs, what is read again and what is kept, and that each can be read once."""
import math
import pickle
import threading

import pytest

import weir


def ids(pipe):
    return [row["id"] for row in pipe.iter_rows()]


@pytest.fixture
def folder(tmp_path):
    """Five CSV files of two rows each."""
    for i in range(5):
        (tmp_path / f"{i}.csv").write_text(f"id\n{2 * i}\n{2 * i + 1}\n")
    return tmp_path


class Counted:
    """A step that notes each row that goes through it, in a file."""

    def __init__(self, path):
        self.path = path

    def __call__(self, row):
        with open(self.path, "a") as file:
            file.write("x")
        return row

    @property
    def rows(self):
        return len(self.path.read_text()) if self.path.exists() else 0


def test_windows_of_files_read_them_when_they_are_wanted(folder):
    pipe = weir.read_csv(str(folder)).window(blocks_per_window=2)
    assert pipe.length == 3 and repr(pipe) == "DatasetPipeline(num_windows=3, num_stages=0)"
    windows = pipe.iter_datasets()
    assert next(windows).take_all() == [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 3}]
    (folder / "2.csv").write_text("id\n40\n")  # not read yet
    assert next(windows).take_all() == [{"id": 40}, {"id": 6}, {"id": 7}]
    assert next(windows).count() == 2 and next(windows, None) is None


def test_a_later_window_that_cannot_be_read_is_noticed_when_its_turn_comes(folder):
    pipe = weir.read_csv(str(folder)).window(blocks_per_window=1)
    (folder / "4.csv").write_bytes(b'id\n"never closed\n')
    rows = pipe.iter_rows()
    assert [next(rows)["id"] for _ in range(8)] == list(range(8))
    with pytest.raises(Exception, match="4.csv"):
        next(rows)


def test_each_epoch_reads_again(folder):
    epochs = weir.read_csv(str(folder)).repeat(2).iter_epochs()
    assert ids(next(epochs)) == list(range(10))
    (folder / "0.csv").write_text("id\n100\n")
    assert ids(next(epochs)) == [100, *range(2, 10)] and next(epochs, None) is None


def test_a_dataset_that_is_more_than_a_read_runs_once(folder, tmp_path):
    counted = Counted(tmp_path / "log")
    pipe = weir.read_csv(str(folder)).map(counted).repeat(3)
    assert counted.rows == 0  # nothing runs before somebody wants rows
    assert pipe.count() == 30 and counted.rows == 10


def test_steps_of_the_pipeline_run_in_each_epoch(folder, tmp_path):
    counted = Counted(tmp_path / "log")
    assert weir.read_csv(str(folder)).window(blocks_per_window=2).map(counted).repeat(3).count() == 30
    assert counted.rows == 30


def test_steps_wait_for_their_window(folder, tmp_path):
    counted = Counted(tmp_path / "log")
    pipe = weir.read_csv(str(folder)).window(blocks_per_window=1).map(counted)
    next(pipe.iter_datasets()).take_all()
    assert counted.rows == 2


@pytest.mark.parametrize("ds, windows", [
    (lambda: weir.range(10, parallelism=5), [4, 4, 2]),
    (lambda: weir.range(10, parallelism=5).map(lambda row: row), [4, 4, 2]),
    (lambda: weir.from_items([{"id": i} for i in range(10)], parallelism=5), [4, 4, 2]),
    (lambda: weir.range_tensor(10, parallelism=5), [4, 4, 2]),
    (lambda: weir.range(10, parallelism=5).union(weir.range(2)), [4, 4, 4]),
    (lambda: weir.range(0), []),
])
def test_windows_by_blocks(ds, windows):
    assert [window.count() for window in ds().window(blocks_per_window=2).iter_datasets()] == windows


def test_windows_are_of_ten_blocks_and_reads_of_two_hundred():
    sizes = [window.num_blocks() for window in weir.range(1000).window().iter_datasets()]
    assert sizes == [10] * 20
    assert sum(window.count() for window in weir.range(1000).window().iter_datasets()) == 1000
    assert ids(weir.range(1000).window()) == list(range(1000))


def test_windows_by_bytes(folder):
    sizes = [window.count() for window in weir.range(100, parallelism=10).window(bytes_per_window=240).iter_datasets()]
    assert sizes == [30, 30, 30, 10]
    # A block that is too large is a window of its own.
    assert [w.count() for w in weir.range(20, parallelism=2).window(bytes_per_window=1).iter_datasets()] == [10, 10]
    assert [w.count() for w in weir.read_csv(str(folder)).window(bytes_per_window=14).iter_datasets()] == [4, 4, 2]
    kept = weir.range(100, parallelism=10).map(lambda row: row)
    assert [w.count() for w in kept.window(bytes_per_window=240).iter_datasets()] == [30, 30, 30, 10]
    assert [w.count() for w in weir.range(100, parallelism=10).window(bytes_per_window=2.4e2).iter_datasets()] == [30, 30, 30, 10]
    with pytest.raises(ValueError, match="bytes_per_window is a number"):
        weir.range(4).window(bytes_per_window=1.5)


def test_the_first_names_of_what_is_done_to_each_window():
    halves = weir.range(8, parallelism=4).window(blocks_per_window=2)
    windows = [window.take_all() for window in halves.repartition(1).random_shuffle(seed=3).sort("id", descending=True).iter_datasets()]
    assert [[row["id"] for row in rows] for rows in windows] == [[3, 2, 1, 0], [7, 6, 5, 4]]
    with pytest.raises(AttributeError, match="'DatasetPipeline' object has no attribute 'shuffle'"):
        weir.range(8).repeat(1).shuffle


def test_wrong_windows_and_epochs():
    ds = weir.range(4)
    with pytest.raises(ValueError, match="Only one windowing scheme"):
        ds.window(blocks_per_window=1, bytes_per_window=1)
    for bad in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="blocks_per_window is a number"):
            ds.window(blocks_per_window=bad)
        with pytest.raises(ValueError, match="times is a number"):
            ds.repeat(bad)
    with pytest.raises(ValueError, match="infinite length"):
        ds.repeat().repeat(2)
    for method in ("count", "take_all", "sum"):
        with pytest.raises(ValueError, match="without end"):
            getattr(ds.repeat(), method)()


def test_columns_and_rows_chosen_by_the_read_belong_to_it(tmp_path):
    weir.range(10).write_parquet(str(tmp_path))
    pipe = weir.read_parquet(str(tmp_path), columns=["id"], filter=weir.col("id") > 6).repeat(2)
    epochs = pipe.iter_epochs()
    assert ids(next(epochs)) == [7, 8, 9]
    for file in tmp_path.iterdir():
        file.unlink()
    weir.range(8).write_parquet(str(tmp_path))
    assert ids(next(epochs)) == [7]


def test_repeat_without_end():
    assert [row["id"] for row in weir.range(3).repeat().take(8)] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert weir.range(3).repeat().length == math.inf
    seen = 0
    for epoch in weir.range(4, parallelism=2).window(blocks_per_window=1).repeat().iter_epochs(max_epoch=3):
        assert ids(epoch) == [0, 1, 2, 3]
        seen += 1
    assert seen == 3


def test_what_is_left_of_an_epoch_is_skipped():
    firsts = []
    for epoch in weir.range(6, parallelism=3).window(blocks_per_window=1).repeat(3).iter_epochs():
        firsts.append(next(epoch.iter_rows())["id"])
    assert firsts == [0, 0, 0]


def test_stages_before_and_behind_epochs():
    pipe = weir.range(4, parallelism=2).window(blocks_per_window=1).map_batches(lambda b: {"id": b["id"] + 1}).repeat(2)
    pipe = pipe.filter(lambda row: row["id"] % 2 == 0)
    assert repr(pipe) == "DatasetPipeline(num_windows=4, num_stages=2)"
    assert ids(pipe) == [2, 4, 2, 4]


def test_no_fan_out():
    pipe = weir.range(4).repeat(1)
    first = pipe.map(lambda row: row)
    for again in (lambda: pipe.map(lambda row: row), pipe.count, pipe.iter_rows, pipe.iter_datasets, lambda: pipe.split(2),
                  lambda: pipe.foreach_window(lambda ds: ds), pipe.repeat, pipe.iter_epochs, pipe.take):
        with pytest.raises(RuntimeError, match=r"cannot be read multiple times: map\(\) has taken.*no fan-out"):
            again()
    assert first.count() == 4
    with pytest.raises(RuntimeError, match="cannot be read multiple times"):
        first.count()


def test_schema_does_not_use_the_pipeline_up(folder):
    pipe = weir.read_csv(str(folder)).window(blocks_per_window=2).map(lambda row: {"x": row["id"]})
    assert pipe.schema().names == ["x"] == pipe.columns() and pipe.schema(fetch_if_missing=False).names == ["x"]
    assert [row["x"] for row in pipe.iter_rows()] == list(range(10))


def test_foreach_window():
    pipe = weir.range(6, parallelism=3).window(blocks_per_window=1)
    assert ids(pipe.foreach_window(lambda ds: ds.limit(1).union(weir.range(1)))) == [0, 0, 2, 0, 4, 0]
    with pytest.raises(TypeError, match="returned int for a window"):
        weir.range(6).repeat(1).foreach_window(lambda ds: 5).count()
    with pytest.raises(TypeError, match="takes a function"):
        weir.range(6).repeat(1).foreach_window(5)


def test_mistakes_are_found_when_a_step_is_added():
    pipe = weir.range(6).repeat(1)
    with pytest.raises(ValueError, match="batch_size"):
        pipe.map_batches(lambda b: b, batch_size=0)
    with pytest.raises(ValueError, match="takes a function"):
        pipe.map(5)
    assert pipe.count() == 6  # and the pipeline is as it was


def test_batches_go_across_windows():
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pipe = weir.range(10, parallelism=5).window(blocks_per_window=1)
    assert [len(b["id"]) for b in pipe.iter_batches(batch_size=4)] == [4, 4, 2]
    pipe = weir.range(10, parallelism=5).window(blocks_per_window=1)
    assert [len(b["id"]) for b in pipe.iter_batches(batch_size=4, drop_last=True, batch_format="pandas")] == [4, 4]
    pipe = weir.range(10, parallelism=5).window(blocks_per_window=2)
    assert [len(b["id"]) for b in pipe.iter_batches(batch_size=None)] == [2] * 5
    pipe = weir.range(100, parallelism=5).window(blocks_per_window=2)
    mixed = [i for b in pipe.iter_batches(batch_size=10, local_shuffle_buffer_size=30, local_shuffle_seed=1) for i in b["id"]]
    assert sorted(mixed) == list(range(100)) != mixed


def test_random_shuffle_each_window():
    pipe = weir.range(100, parallelism=4).window(blocks_per_window=2).random_shuffle_each_window(seed=3)
    windows = [[row["id"] for row in window.iter_rows()] for window in pipe.iter_datasets()]
    assert [sorted(w) for w in windows] == [list(range(50)), list(range(50, 100))]
    assert all(w != sorted(w) for w in windows) and [i - 50 for i in windows[1]] != windows[0]
    epochs = [ids(e) for e in weir.range(50).repeat(2).random_shuffle_each_window().iter_epochs()]
    assert sorted(epochs[0]) == sorted(epochs[1]) and epochs[0] != epochs[1]


def test_other_steps_of_each_window():
    pipe = weir.range(6, parallelism=3).window(blocks_per_window=3)
    assert [w.num_blocks() for w in pipe.repartition_each_window(2).iter_datasets()] == [2]
    pipe = weir.range(40, parallelism=20).window(blocks_per_window=20).randomize_block_order_each_window(seed=1)
    found = ids(pipe)
    assert sorted(found) == list(range(40)) != found and all(b == a + 1 for a, b in zip(found[::2], found[1::2]))
    pipe = weir.range(6, parallelism=3).window(blocks_per_window=1).sort_each_window("id", descending=True)
    assert ids(pipe) == [1, 0, 3, 2, 5, 4]
    with pytest.raises(ValueError, match="the column 'x', but there's no such column"):
        weir.range(6).repeat(1).sort_each_window("x").count()


def test_rewindow():
    pipe = weir.range(10, parallelism=10).window(blocks_per_window=3).map(lambda row: row).rewindow(blocks_per_window=4)
    assert [w.count() for w in pipe.iter_datasets()] == [4, 4, 2]
    two = lambda keep: [w.count() for w in weir.range(6, parallelism=6).repeat(2).rewindow(
        blocks_per_window=4, preserve_epoch=keep).iter_datasets()]
    assert two(True) == [4, 2, 4, 2] and two(False) == [4, 4, 4]


@pytest.mark.parametrize("equal", [False, True])
def test_split(equal):
    shards = weir.range(10, parallelism=5).repeat(2).split(3, equal=equal)
    counts = [None] * 3

    def consume(i):
        counts[i] = sorted(ids(shards[i]))

    threads = [threading.Thread(target=consume, args=[i]) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if equal:
        assert [len(c) for c in counts] == [6, 6, 6]
    else:
        assert sorted(i for c in counts for i in c) == sorted([*range(10)] * 2)


def test_small_files_are_split_by_rows(tmp_path):
    """Their rows lie in one block, as nobody has said how many there are to be; no split is left without rows for that."""
    for i in range(4):
        (tmp_path / f"{i}.csv").write_text("id\n" + "\n".join(map(str, range(10 * i, 10 * i + 10))) + "\n")
    first, second = weir.read_csv(str(tmp_path)).window(blocks_per_window=2).split(2)
    assert ids(first) == [*range(10), *range(20, 30)] and ids(second) == [*range(10, 20), *range(30, 40)]


def test_an_error_reaches_all_splits():
    shards = weir.range(4).repeat(1).map(lambda row: {"x": 1 // 0}).split(2)
    for shard in shards:
        with pytest.raises(ZeroDivisionError):
            shard.count()


class Trainer:
    """Reads its share of each epoch."""

    def train(self, shard):
        return [[row["x"] for row in epoch.iter_rows()] for epoch in shard.iter_epochs()]

    def batches(self, shard):
        return [batch["x"].tolist() for batch in shard.map_batches(lambda batch: {"x": batch["x"] * 10}).iter_batches(batch_size=4)]


def test_splits_go_to_actors():
    pipe = weir.range(8, parallelism=4).window(blocks_per_window=2).map(lambda row: {"x": row["id"]}).repeat(2)
    shards = pipe.split(2, equal=True)
    trainers = [weir.remote(Trainer).remote() for _ in shards]
    assert weir.get([trainer.train.remote(shard) for trainer, shard in zip(trainers, shards)]) == [[[0, 1, 4, 5]] * 2, [[2, 3, 6, 7]] * 2]
    shards = weir.range(8, parallelism=4).map(lambda row: {"x": row["id"]}).repeat(2).split(2)
    assert weir.get([trainer.batches.remote(shard) for trainer, shard in zip(trainers, shards)]) == [[[0, 10, 20, 30]] * 2, [[40, 50, 60, 70]] * 2]


def test_what_an_actor_has_read_of_a_pipeline_is_not_kept():
    from weir import _elsewhere

    before, seen = set(_elsewhere._pickled), []

    def noted(window):
        seen.append(len(set(_elsewhere._pickled) - before))
        return window

    pipe = weir.range(40, parallelism=10).window(blocks_per_window=1).foreach_window(noted)
    assert weir.get(weir.remote(lambda pipe: pipe.count()).remote(pipe)) == 40
    assert len(seen) == 10 and max(seen) <= 2


def test_a_pickled_pipeline_is_read_once():
    shard = pickle.loads(pickle.dumps(weir.range(4).repeat(2)))
    assert shard.length == 2 and shard.schema().names == ["id"] and shard.count() == 8
    pipe = weir.range(4).repeat(2)
    first, second = (pickle.loads(pickle.dumps(pipe)) for _ in range(2))
    with pytest.raises(RuntimeError, match=r"cannot be read multiple times: pickle\(\) has taken this DatasetPipeline"):
        pipe.count()
    assert first.count() == 8
    with pytest.raises(RuntimeError, match="cannot be read multiple times.*another copy of it is read"):
        second.count()


def test_an_error_of_a_window_reaches_the_actor():
    shard, _ = weir.range(4).repeat(1).map(lambda row: {"x": 1 // 0}).split(2)
    with pytest.raises(ZeroDivisionError):
        weir.get(weir.remote(Trainer).remote().train.remote(shard))


def test_splits_at_indices():
    parts = weir.range(10, parallelism=5).repeat(2).split_at_indices([2, 5])
    assert [ids(p) for p in parts] == [[0, 1] * 2, [2, 3, 4] * 2, [5, 6, 7, 8, 9] * 2]


def test_writes_all_windows(tmp_path):
    for format in ("parquet", "csv", "json"):
        pipe = weir.range(10, parallelism=5).window(blocks_per_window=2).map(lambda row: {"id": row["id"] + 1})
        getattr(pipe, f"write_{format}")(str(tmp_path / format), mode="overwrite")
        found = getattr(weir, f"read_{format}")(str(tmp_path / format)).take_all()
        assert sorted(row["id"] for row in found) == list(range(1, 11))


def test_torch_tensors_of_kept_rows_can_be_written_to():
    pytest.importorskip("torch")
    pipe = weir.range(4).map(lambda row: row).repeat(2)
    seen = []
    for batch in pipe.iter_torch_batches(batch_size=4):
        seen.append(batch["id"].tolist())
        batch["id"] += 100
    assert seen == [[0, 1, 2, 3]] * 2


def test_stats_have_the_old_words():
    pipe = weir.range(8, parallelism=4).window(blocks_per_window=2).map_batches(lambda b: b)
    assert "hasn't been run" in pipe.stats()
    pipe.count()
    text = pipe.stats()
    assert "== Pipeline Window 2 ==\nStage 1 read->map_batches: " in text and "blocks executed in" in text
    assert "* Remote wall time: " in text and "* Output num rows: " in text
    assert "##### Overall Pipeline Time Breakdown #####" in text
    pipe = weir.range(8, parallelism=4).window(blocks_per_window=2).map_batches(lambda b: b).random_shuffle_each_window()
    pipe.take_all()
    assert "Stage 1 read->map_batches->shuffle_map: " in pipe.stats()


def test_sum_show_and_what_a_pipeline_is_not(capsys):
    assert weir.range(4, parallelism=2).window(blocks_per_window=1).sum("id") == 6
    assert weir.from_items([1, None]).repeat(2).sum("item") == 2
    assert weir.from_items([{"a": 1, "b": 2}]).repeat(2).sum(["a", "b"]) == {"sum(a)": 2, "sum(b)": 4}
    weir.range(2).repeat().show(3)
    assert capsys.readouterr().out == "{'id': 0}\n{'id': 1}\n{'id': 0}\n"
    pipe = weir.range(4).repeat(1)
    with pytest.raises(TypeError, match="iter_rows"):
        iter(pipe)
    with pytest.raises(AttributeError, match="count"):
        len(pipe)


def test_leaving_a_loop_stops_the_window():
    for row in weir.range(10**12).repeat().map_batches(lambda b: b).iter_rows():
        if row["id"] == 3:
            break
