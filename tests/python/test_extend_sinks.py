"""Sinks of one's own: write() runs in workers, the driver is told how it went, and what fails is cleaned up."""
import os
import sqlite3

import numpy as np
import pytest

import weir
from weir.block import BlockAccessor
from weir.datasource import (BlockBasedFileDatasink, Datasink, DummyOutputDatasink, FilenameProvider, RowBasedFileDatasink,
                             WriteResult)

pa = pytest.importorskip("pyarrow")


class Kept(Datasink):
    """Writes a file for each task, and the driver's half to `log`."""

    def __init__(self, folder, fail=None, min_rows=None):
        self.folder, self.fail, self.rows_min = str(folder), fail, min_rows
        self.log = []
        self.prefix = "unset"

    def on_write_start(self, schema=None):
        self.log.append(("start", schema))
        self.prefix = "set"
        if self.fail == "start":
            raise RuntimeError("no start")

    def write(self, blocks, ctx):
        rows = [row["id"] for block in blocks for row in BlockAccessor.for_block(block).iter_rows(True)]
        if self.fail == "write" and 0 in rows:
            raise ValueError("no write")
        if self.fail == "die" and not os.path.exists(f"{self.folder}/died-{ctx.task_idx}"):
            open(f"{self.folder}/died-{ctx.task_idx}", "w").close()
            os.kill(os.getpid(), 9)
        with open(f"{self.folder}/{self.prefix}-{ctx.kwargs['write_uuid']}-{ctx.task_idx}", "w") as file:
            file.write(" ".join(map(str, rows)))
        return {"task": ctx.task_idx, "rows": len(rows), "pid": os.getpid()}

    def on_write_complete(self, write_result):
        self.log.append(("complete", write_result))
        if self.fail == "complete":
            raise RuntimeError("no commit")

    def on_write_failed(self, error):
        self.log.append(("failed", error))

    @property
    def min_rows_per_write(self):
        return self.rows_min


def written(folder):
    return sorted(int(n) for name in os.listdir(folder) if name.startswith("set-") for n in (folder / name).read_text().split())


def test_a_write(tmp_path):
    sink = Kept(tmp_path)
    weir.range(100).repartition(4).write_datasink(sink)
    assert [kind for kind, _ in sink.log] == ["start", "complete"]
    assert sink.log[0][1] == pa.schema([("id", pa.int64())])
    result = sink.log[1][1]
    assert isinstance(result, WriteResult) and result.num_rows == 100 and result.size_bytes == 800
    assert len({one["task"] for one in result.write_returns}) == 4
    assert all(one["pid"] != os.getpid() for one in result.write_returns)
    assert written(tmp_path) == list(range(100))


def test_behind_functions(tmp_path):
    sink = Kept(tmp_path)
    weir.range(10).map(lambda row: {"id": row["id"] + 5}).write_datasink(sink)
    assert sink.log[0][1].names == ["id"]
    assert written(tmp_path) == list(range(5, 15))


def test_errors(tmp_path):
    for fail, kind, text in (("start", RuntimeError, "no start"), ("write", ValueError, "no write"), ("complete", RuntimeError, "no commit")):
        sink = Kept(tmp_path, fail)
        with pytest.raises(kind, match=text) as caught:
            weir.range(10).write_datasink(sink)
        assert sink.log[-1][0] == "failed" and sink.log[-1][1] is caught.value
        assert [kind for kind, _ in sink.log].count("failed") == 1


def test_an_error_of_a_function_before_it_is_the_sinks_too(tmp_path):
    sink = Kept(tmp_path)

    def bad(row):
        raise LookupError("bad row")

    with pytest.raises(LookupError):
        weir.range(10).map(bad).write_datasink(sink)
    assert sink.log[-1][0] == "failed"


def test_a_dead_worker_is_tried_again_with_the_same_number(tmp_path):
    sink = Kept(tmp_path, "die")
    weir.range(40).repartition(4).write_datasink(sink)
    assert written(tmp_path) == list(range(40))
    assert len({one["task"] for one in sink.log[-1][1].write_returns}) == 4
    assert len([name for name in os.listdir(tmp_path) if name.startswith("died-")]) == 4


def test_nothing_to_write(tmp_path):
    sink = Kept(tmp_path)
    weir.range(0).write_datasink(sink)
    assert sink.log[-1][0] == "complete" and sink.log[-1][1].num_rows == 0


def test_rows_of_a_write(tmp_path):
    sink = Kept(tmp_path, min_rows=25)
    weir.range(100).repartition(10).write_datasink(sink)
    sizes = sorted(one["rows"] for one in sink.log[-1][1].write_returns)
    assert sum(sizes) == 100 and len(sizes) < 10 and all(size >= 25 for size in sizes[1:])


def test_parts_of_a_union_have_their_own_numbers(tmp_path):
    sink = Kept(tmp_path)
    weir.range(10).map(lambda r: r).union(weir.from_items([{"id": 100}])).write_datasink(sink)
    tasks = [one["task"] for one in sink.log[-1][1].write_returns]
    assert len(set(tasks)) == len(tasks) and written(tmp_path) == [*range(10), 100]


def test_numbers_of_tasks_have_no_gaps(tmp_path):
    sink = Kept(tmp_path)
    weir.range(100, override_num_blocks=10).map(lambda r: r).union(weir.range(30, override_num_blocks=3)).write_datasink(sink)
    assert sorted(one["task"] for one in sink.log[-1][1].write_returns) == list(range(13))


def test_concurrency_is_a_bound(tmp_path):
    sink = Kept(tmp_path)
    weir.range(100).repartition(8).write_datasink(sink, concurrency=1)
    assert len({one["pid"] for one in sink.log[-1][1].write_returns}) == 1


def test_what_is_no_sink():
    with pytest.raises(TypeError, match="Datasink"):
        weir.range(1).write_datasink("out/")
    with pytest.raises(NotImplementedError):
        weir.range(1).write_datasink(Datasink())


def test_names():
    class MyDatasink(Datasink):
        pass

    class _Hidden(Datasink):
        pass

    assert (MyDatasink().get_name(), _Hidden().get_name(), DummyOutputDatasink().get_name()) == ("My", "Hidden", "DummyOutput")
    sink = DummyOutputDatasink()
    sink.enabled = False
    with pytest.raises(ValueError, match="disabled"):
        weir.range(3).write_datasink(sink)
    assert (sink.num_ok, sink.num_failed) == (0, 1)


def test_results_combine():
    assert WriteResult.combine(WriteResult(1, 2, ["a"]), WriteResult(3, 4, [None])) == WriteResult(4, 6, ["a", None])
    assert WriteResult.combine() == WriteResult(0, 0, [])


# ---- a user's: SQLite, committed at the end, cleaned up on failure ----


class SQLite(Datasink):
    """Writes to a table of its own for each write, which becomes the real one at the end."""

    def __init__(self, path, poison=None):
        self.path, self.poison, self.staging = str(path), poison, ""

    def connect(self):
        connection = sqlite3.connect(self.path, timeout=60)
        return connection

    def on_write_start(self, schema):
        self.staging = f"staging_{os.urandom(4).hex()}"
        with self.connect() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"CREATE TABLE {self.staging} (task INTEGER, {', '.join(schema.names)})")

    def write(self, blocks, ctx):
        with self.connect() as connection:
            connection.execute(f"DELETE FROM {self.staging} WHERE task = ?", (ctx.task_idx,))
            for block in blocks:
                for row in BlockAccessor.for_block(block).iter_rows(True):
                    if row["id"] == self.poison:
                        raise ValueError("poison")
                    connection.execute(f"INSERT INTO {self.staging} VALUES (?, ?, ?)", (ctx.task_idx, row["id"], row["name"]))

    def on_write_complete(self, write_result):
        with self.connect() as connection:
            connection.execute(f"ALTER TABLE {self.staging} RENAME TO result")

    def on_write_failed(self, error):
        with self.connect() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self.staging}")


def tables(path):
    return [name for (name,) in sqlite3.connect(path).execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def test_sqlite(tmp_path):
    path = tmp_path / "a.db"
    ds = weir.range(500).repartition(5).map(lambda row: {"id": row["id"], "name": f"row {row['id']}"})
    with pytest.raises(ValueError, match="poison"):
        ds.write_datasink(SQLite(path, poison=321))
    assert tables(path) == []
    ds.write_datasink(SQLite(path))
    assert tables(path) == ["result"]
    assert sqlite3.connect(path).execute("SELECT count(*), sum(id), count(DISTINCT id) FROM result").fetchone() == (500, 124750, 500)


# ---- files ----


class Lines(BlockBasedFileDatasink):
    def __init__(self, path, **kwargs):
        super().__init__(path, file_format="txt", **kwargs)

    def write_block_to_file(self, block, file):
        for row in block.iter_rows(True):
            file.write(f"{row['id']}\n".encode())


class One(RowBasedFileDatasink):
    def write_row_to_file(self, row, file):
        if row["id"] == 13:
            raise ValueError("unlucky")
        file.write(str(row["id"]).encode())


class Named(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"part{task_index}.txt"


class NamedAsBefore(FilenameProvider):
    def get_filename_for_block(self, block, write_uuid, task_index, block_index):
        return f"old{task_index}-{block_index}.txt"

    def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
        return f"row{row['id']}.txt"


def texts(folder):
    return sorted((folder / name).read_text() for name in os.listdir(folder))


def test_blocks_as_files(tmp_path):
    out = tmp_path / "out"
    ds = weir.range(6).repartition(2)
    ds.write_datasink(Lines(str(out)))
    assert texts(out) == ["0\n1\n2\n", "3\n4\n5\n"]
    assert all(name.endswith(".txt") and name[-10:-4].isdigit() for name in os.listdir(out))
    ds.write_datasink(Lines(str(out), filename_provider=Named(), mode="overwrite"))
    assert len(os.listdir(out)) == 2 and all(name.startswith("part") for name in os.listdir(out))
    ds.write_datasink(Lines(str(out), filename_provider=NamedAsBefore()))
    assert sorted(name[:3] for name in os.listdir(out)) == ["old", "old", "par", "par"]
    ds.write_datasink(Lines(str(out), mode="ignore"))
    assert len(os.listdir(out)) == 4
    with pytest.raises(ValueError, match="already exists"):
        ds.write_datasink(Lines(str(out), mode="error"))
    weir.range(0).write_datasink(Lines(str(tmp_path / "empty")))
    assert not (tmp_path / "empty").exists()


def test_rows_as_files(tmp_path):
    weir.range(3).write_datasink(One(str(tmp_path), file_format="txt"))
    assert texts(tmp_path) == ["0", "1", "2"]
    assert sorted(name.rsplit("_", 2)[1:] for name in os.listdir(tmp_path)) == [["000000", f"00000{i}.txt"] for i in range(3)]
    weir.range(3).write_datasink(One(str(tmp_path), filename_provider=NamedAsBefore(), mode="overwrite"))
    assert sorted(os.listdir(tmp_path)) == ["row0.txt", "row1.txt", "row2.txt"]


def test_no_half_file_is_seen(tmp_path):
    with pytest.raises(ValueError, match="unlucky"):
        weir.range(20).write_datasink(One(str(tmp_path)))
    assert "13" not in texts(tmp_path) and not any(name.startswith(".") for name in os.listdir(tmp_path))


def test_names_that_lead_elsewhere(tmp_path):
    class Bad(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return "../outside"

    with pytest.raises(ValueError, match="outside"):
        weir.range(3).write_datasink(Lines(str(tmp_path / "out"), filename_provider=Bad()))
    assert not (tmp_path / "outside").exists()


def test_arrays(tmp_path):
    weir.range_tensor(6, shape=(2,), override_num_blocks=2).write_numpy(str(tmp_path), column="data")
    arrays = sorted((np.load(tmp_path / name) for name in os.listdir(tmp_path)), key=lambda a: a[0, 0])
    assert [a.tolist() for a in arrays] == [[[0, 0], [1, 1], [2, 2]], [[3, 3], [4, 4], [5, 5]]]
    assert all(name.endswith(".npy") for name in os.listdir(tmp_path))
    with pytest.raises(ValueError, match="nothing"):
        weir.range(3).write_numpy(str(tmp_path), column="nothing")


def test_images(tmp_path):
    """A file for each row, of which the pixels come back; gray ones with and without a channel."""
    pytest.importorskip("PIL")
    rng = np.random.default_rng(7)
    for name, shape, back in (("rgb", (8, 6, 3), (8, 6, 3)), ("rgba", (8, 6, 4), (8, 6, 4)), ("gray", (8, 6), (8, 6)), ("one", (8, 6, 1), (8, 6))):
        pixels = rng.integers(0, 256, (5, *shape), dtype=np.uint8)
        weir.from_numpy(pixels).write_images(str(tmp_path / name), "data")
        names = sorted(os.listdir(tmp_path / name))
        assert len(names) == 5 and all(one.endswith(".png") for one in names)
        found = [row["image"] for row in weir.read_images(str(tmp_path / name)).take_all()]
        assert {one.tobytes() for one in found} == {one.tobytes() for one in pixels} and {one.shape for one in found} == {back}
    weir.from_numpy(pixels).write_images(str(tmp_path / "jpg"), "data", "jpg")
    assert len(weir.read_images(str(tmp_path / "jpg")).take_all()) == 5 and os.listdir(tmp_path / "jpg")[0].endswith(".jpg")


def test_what_is_no_image(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(ValueError, match="column 'data': Pillow makes no png image of float64 of shape \\(2, 2, 3\\)"):
        weir.from_numpy(np.zeros((1, 2, 2, 3))).write_images(str(tmp_path / "a"), "data")
    with pytest.raises(KeyError, match="no column 'image' among"):
        weir.from_numpy(np.zeros((1, 2, 2, 3), np.uint8)).write_images(str(tmp_path / "a"), "image")


def test_sql(tmp_path):
    path = str(tmp_path / "a.db")
    sqlite3.connect(path).execute("CREATE TABLE t (id, name)").connection.commit()
    weir.range(300).map(lambda r: {"id": r["id"], "name": str(r["id"])}).write_sql(
        "INSERT INTO t VALUES (?, ?)", lambda: sqlite3.connect(path), concurrency=1)
    assert sqlite3.connect(path).execute("SELECT count(*), sum(id), max(name) FROM t").fetchone() == (300, 44850, "99")
    with pytest.raises(sqlite3.OperationalError):
        weir.range(3).write_sql("INSERT INTO missing VALUES (?)", lambda: sqlite3.connect(path), concurrency=1)


@pytest.mark.parametrize("name", ["write_mongo", "write_kafka", "write_clickhouse", "to_spark"])
def test_what_is_absent_says_so(name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(weir.range(1), name)("x")


def test_local_mode(tmp_path):
    import subprocess
    import sys

    script = ("import weir, sys, os; sys.path.insert(0, %r); weir.init(local_mode=True)\n"
              "from test_extend_sinks import Kept\n"
              "sink = Kept(%r)\n"
              "weir.range(10).map(lambda row: row).write_datasink(sink)\n"
              "assert sink.log[-1][1].num_rows == 10\n"
              "assert {one['pid'] for one in sink.log[-1][1].write_returns} == {os.getpid()}\n")
    subprocess.run([sys.executable, "-c", script % (os.path.dirname(__file__), str(tmp_path))], check=True)


# ---- the engine's own files ----


class Parts(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"rows-{task_index}"


def test_names_of_parquet_csv_and_json(tmp_path):
    ds = weir.range(10).repartition(2)
    ds.write_parquet(str(tmp_path / "p"), filename_provider=Parts(), mode="overwrite")
    assert sorted(os.listdir(tmp_path / "p")) == ["rows-0-0.parquet", "rows-1-0.parquet"]
    ds.write_csv(str(tmp_path / "c"), filename_provider=Parts())
    assert sorted(os.listdir(tmp_path / "c")) == ["rows-0", "rows-1"]
    ds.write_json(str(tmp_path / "j"), filename_provider=NamedAsBefore())
    assert sorted(os.listdir(tmp_path / "j")) == ["old0-0.txt", "old1-0.txt"]
    assert weir.read_parquet(str(tmp_path / "p")).count() == 10


def test_a_name_that_is_there_already_is_replaced_with_a_warning(tmp_path):
    for count in (10, 20):
        ds = weir.range(count).repartition(2)
        if count == 20:
            with pytest.warns(UserWarning, match="write_uuid"):
                ds.write_csv(str(tmp_path), filename_provider=Parts())
        else:
            ds.write_csv(str(tmp_path), filename_provider=Parts())
        assert weir.read_csv(str(tmp_path)).count() == count

    class Same(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return "one.parquet"

    with pytest.raises(ValueError, match="must differ"):
        weir.range(10).repartition(2).write_parquet(str(tmp_path / "p"), filename_provider=Same(), mode="overwrite")
    assert weir.read_csv(str(tmp_path)).count() == 20


def test_folders_stream_and_appear_together(tmp_path, monkeypatch):
    from weir import _pieces

    monkeypatch.setattr(_pieces, "_held_bytes", lambda run: 4000)
    out = tmp_path / "out"
    ds = weir.range(5000, override_num_blocks=20).map(lambda row: {"id": row["id"], "part": f"p{row['id'] % 4}"})
    ds.write_parquet(str(out), partition_cols=["part"])
    assert sorted(os.listdir(out)) == ["part=p0", "part=p1", "part=p2", "part=p3"]
    assert all(len(os.listdir(out / name)) > 1 for name in os.listdir(out))
    rows = weir.read_parquet(str(out)).take_all()
    assert sorted(row["id"] for row in rows) == list(range(5000)) and all(row["part"] == f"p{row['id'] % 4}" for row in rows)

    def fails(row):
        if row["id"] == 4999:
            raise ValueError("at the end")
        return {"id": row["id"], "part": 1}

    with pytest.raises(ValueError, match="at the end"):
        weir.range(5000, override_num_blocks=20).map(fails).write_parquet(str(out), partition_cols=["part"])
    assert weir.read_parquet(str(out)).count() == 5000 and os.listdir(tmp_path) == ["out"]


def test_files_of_so_many_rows_or_bytes(tmp_path, monkeypatch):
    from weir import _pieces

    monkeypatch.setattr(_pieces, "_held_bytes", lambda run: 4000)
    import pyarrow.parquet as pq

    def sizes(folder):
        return [pq.read_metadata(folder / name).num_rows for name in sorted(os.listdir(folder))]

    weir.range(1000, override_num_blocks=9).write_parquet(str(tmp_path / "r"), min_rows_per_file=300)
    assert sizes(tmp_path / "r") == [333, 333, 334]  # three blocks each
    weir.range(1000).write_parquet(str(tmp_path / "c"), min_rows_per_file=300)
    assert sizes(tmp_path / "c") == [300, 300, 300, 100]
    weir.range(1000, override_num_blocks=9).write_parquet(str(tmp_path / "b"), min_bytes_per_file=2000)
    assert sum(sizes(tmp_path / "b")) == 1000 and all(size >= 250 for size in sizes(tmp_path / "b")[:-1])
    weir.range(1000).write_parquet(str(tmp_path / "m"), min_rows_per_file=400, max_rows_per_file=400)
    assert sizes(tmp_path / "m") == [400, 400, 200]


def test_parts_of_different_schemas_appear_together(tmp_path):
    weir.from_items([{"a": 1}]).union(weir.from_items([{"b": "x"}])).write_parquet(str(tmp_path / "out"))
    assert len(os.listdir(tmp_path / "out")) == 2 and os.listdir(tmp_path) == ["out"]
