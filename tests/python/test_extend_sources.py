"""Sources of one's own: tasks run in workers, are tried again, stop early, and say what they know. Answers are Ray 2.60's."""
import os
import sqlite3

import numpy as np
import pytest

import weir
from weir.block import BlockMetadata
from weir.datasource import (Datasource, DefaultFileMetadataProvider, FastFileMetadataProvider, FileBasedDatasource,
                             FileShuffleConfig, Partitioning, PathPartitionFilter, PathPartitionParser, Reader, ReadTask)

pa = pytest.importorskip("pyarrow")


class Numbers(Datasource):
    """n tasks of `rows` rows, in `blocks` blocks each."""

    def __init__(self, n, rows=10, blocks=1, folder=None):
        super().__init__()
        self.n, self.rows, self.blocks, self.folder = n, rows, blocks, folder

    def estimate_inmemory_data_size(self):
        return None

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        if self.folder:
            with open(os.path.join(self.folder, "asked"), "a") as file:
                print(parallelism, per_task_row_limit, file=file)

        def read(i):
            def blocks():
                if self.folder:
                    open(os.path.join(self.folder, f"ran-{i}-{os.getpid()}"), "w").close()
                for k in range(self.blocks):
                    yield pa.table({"task": [i] * self.rows, "block": [k] * self.rows})

            return blocks

        rows = self.rows * self.blocks
        return [ReadTask(read(i), BlockMetadata(rows, rows * 16, None, None), per_task_row_limit=per_task_row_limit)
                for i in range(self.n)]


def test_rows_come_in_the_order_of_tasks_and_blocks():
    rows = weir.read_datasource(Numbers(5, blocks=3)).take_all()
    assert [(r["task"], r["block"]) for r in rows] == [(i, k) for i in range(5) for k in range(3) for _ in range(10)]


def test_a_task_is_a_block():
    ds = weir.read_datasource(Numbers(7, blocks=2))
    assert ds.materialize().num_blocks() == 7
    assert [len(b["task"]) for b in ds.iter_batches(batch_size=None)] == [20] * 7


def test_tasks_run_in_workers(tmp_path):
    assert len(weir.read_datasource(Numbers(4, folder=str(tmp_path))).take_all()) == 40
    ran = [name for name in os.listdir(tmp_path) if name.startswith("ran-")]
    assert sorted(name.split("-")[1] for name in ran) == ["0", "1", "2", "3"]
    assert all(int(name.split("-")[2]) != os.getpid() for name in ran)


def test_parallelism_that_is_asked_for(tmp_path):
    weir.read_datasource(Numbers(2, folder=str(tmp_path)), override_num_blocks=3).count()
    assert (tmp_path / "asked").read_text().split() == ["3", "None"]
    with pytest.raises(ValueError, match="override_num_blocks"):
        weir.read_datasource(Numbers(2), override_num_blocks=0)
    with pytest.raises(ValueError, match="concurrency"):
        weir.read_datasource(Numbers(2), concurrency=0)


def test_names():
    assert "ReadNumbers" in weir.read_datasource(Numbers(1)).execution_plan()

    class LogsDatasource(Numbers):
        pass

    assert LogsDatasource(1).get_name() == "Logs"


def test_transforms_behind_it():
    ds = weir.read_datasource(Numbers(3)).filter(expr="task > 0").map(lambda row: {"x": row["task"] * 2})
    assert ds.sum("x") == 60
    assert ds.schema().names == ["x"]
    assert weir.read_datasource(Numbers(3)).limit(12).count() == 12
    assert weir.read_datasource(Numbers(2)).union(weir.read_datasource(Numbers(3))).count() == 50


def test_a_limit_stops_it(tmp_path):
    assert len(weir.read_datasource(Numbers(500, folder=str(tmp_path))).take(5)) == 5
    assert len([name for name in os.listdir(tmp_path) if name.startswith("ran-")]) < 250


def test_no_tasks():
    ds = weir.read_datasource(Numbers(0))
    assert ds.take_all() == [] and ds.schema() is None and ds.count() == 0


class Failing(Numbers):
    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        def fail():
            raise KeyError("no such record")

        return super().get_read_tasks(parallelism)[:1] + [ReadTask(fail, BlockMetadata(1, 8))]


def test_an_error_has_its_type_and_the_operator():
    with pytest.raises(KeyError) as caught:
        weir.read_datasource(Failing(1)).take_all()
    assert "ReadFailing" in str(caught.value) and "no such record" in str(caught.value)


def test_errored_blocks():
    context = weir.DataContext.get_current()
    context.max_errored_blocks = 1
    try:
        assert len(weir.read_datasource(Failing(1)).take_all()) == 10
    finally:
        context.max_errored_blocks = 0


class Dying(Numbers):
    """A worker dies over the first attempt at each task."""

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        def read(i):
            def blocks():
                yield pa.table({"task": [i]})
                mark = os.path.join(self.folder, f"died-{i}")
                if not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid(), 9)
                yield pa.table({"task": [i]})

            return blocks

        return [ReadTask(read(i), BlockMetadata(2, 16)) for i in range(self.n)]


def test_a_dead_worker_costs_nothing(tmp_path):
    rows = weir.read_datasource(Dying(3, folder=str(tmp_path))).take_all()
    assert [row["task"] for row in rows] == [0, 0, 1, 1, 2, 2]


def test_what_a_task_may_give():
    pd = pytest.importorskip("pandas")

    class Kinds(Datasource):
        def estimate_inmemory_data_size(self):
            return 100

        def get_read_tasks(self, parallelism):  # the signature of older versions
            def wrong():
                return 5

            blocks = {"table": lambda: [pa.table({"a": [1]})], "frame": lambda: [pd.DataFrame({"a": [2]})],
                      "dict": lambda: [{"a": np.array([3])}], "alone": lambda: pa.table({"a": [4]}), "wrong": wrong}
            return [ReadTask(blocks[kind], BlockMetadata(None, None)) for kind in self.kinds]

    source = Kinds()
    source.kinds = ["table", "frame", "dict", "alone"]
    assert [row["a"] for row in weir.read_datasource(source).take_all()] == [1, 2, 3, 4]
    source.kinds = ["wrong"]
    with pytest.raises(ValueError, match="list of blocks"):
        weir.read_datasource(source).take_all()


def test_the_row_limit_of_a_task():
    task = ReadTask(lambda: iter([pa.table({"a": [1, 2]}), pa.table({"a": [3, 4]})]), BlockMetadata(4, 32), per_task_row_limit=3)
    assert [block.num_rows for block in task()] == [2, 1]


def test_sources_of_the_old_kind():
    class Bound(Reader):
        def __init__(self, n):
            self.n = n

        def estimate_inmemory_data_size(self):
            return None

        def get_read_tasks(self, parallelism):
            return [ReadTask(lambda i=i: [pa.table({"a": [i]})], BlockMetadata(1, 8)) for i in range(self.n)]

    class WithReader(Datasource):
        def create_reader(self, n):
            return Bound(n)

    class Prepared(Datasource):
        def prepare_read(self, parallelism, n):
            return Bound(n).get_read_tasks(parallelism)

    for source in (WithReader(), Prepared()):
        assert source.should_create_reader
        assert [row["a"] for row in weir.read_datasource(source, n=3).take_all()] == [0, 1, 2]


def test_unpicklable_tasks_are_named():
    import threading

    class Locked(Datasource):
        def estimate_inmemory_data_size(self):
            return None

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            lock = threading.Lock()
            return [ReadTask(lambda: [lock], BlockMetadata(1, 1))]

    with pytest.raises(TypeError, match="lock"):
        weir.read_datasource(Locked()).take_all()


def test_tasks_that_take_much_along_are_told_of_once(monkeypatch):
    monkeypatch.setattr("weir._tasks._told", set())

    class Heavy(Numbers):
        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            rows = np.ones(1 << 18)

            def heavy():
                return [pa.table({"sum": [rows.sum()]})]

            return [ReadTask(heavy, BlockMetadata(1, 8)), ReadTask(heavy, BlockMetadata(1, 8))]

    with pytest.warns(UserWarning, match="The serialized size of your read function named 'heavy' is 2.0 MiB") as told:
        assert weir.read_datasource(Heavy(2)).take_all() == [{"sum": 2.0**18}] * 2
    assert len(told) == 1 and told[0].filename == __file__


def test_what_is_no_source():
    with pytest.raises(TypeError, match="Datasource"):
        weir.read_datasource("in/")


def test_local_mode():
    script = ("import weir, sys; sys.path.insert(0, %r); weir.init(local_mode=True)\n"
              "from test_extend_sources import Numbers\n"
              "import os\n"
              "ds = weir.read_datasource(Numbers(3))\n"
              "assert ds.count() == 30 and len(ds.take(4)) == 4\n"
              "assert ds.map(lambda row: {'pid': os.getpid()}).take(1) == [{'pid': os.getpid()}]\n") % os.path.dirname(__file__)
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", script], check=True)


def test_print_shows_what_tasks_say():
    """Answers are Ray's, which asks for the tasks when the Dataset is made."""
    table = "shape: (6, 1)\n╭───────╮\n│ x     │\n│ ---   │\n│ int64 │\n╰───────╯\n(Dataset isn't materialized)"

    class Told(Datasource):
        def __init__(self, rows, schema):
            self.rows, self.schema = rows, schema

        def estimate_inmemory_data_size(self):
            return None

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            meta = BlockMetadata(num_rows=self.rows, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(lambda: [pa.table({"x": [1, 2, 3]})], meta, schema=self.schema)] * 2

    columns = pa.schema([("x", pa.int64())])
    shown = lambda *told: repr(weir.read_datasource(Told(*told)))
    assert shown(3, columns) == table and shown(None, columns) == table.replace("6", "?", 1)
    assert shown(3, None) == "Dataset(num_rows=6, schema=Unknown schema)" and shown(None, None) == "Dataset(num_rows=?, schema=Unknown schema)"
    assert repr(weir.read_datasource(Told(3, columns)).map(lambda row: row)) == "Map(<lambda>)\n+- Dataset(num_rows=6, schema={x: int64})"


# ---- files ----


class Words(FileBasedDatasource):
    """A made-up format: a header line, then words."""

    _FILE_EXTENSIONS = ["words"]

    def _read_stream(self, f, path):
        header, *words = f.readall().decode().split()
        assert header == "WORDS1", path
        half = len(words) // 2
        yield pa.table({"word": words[:half]})
        yield pa.table({"word": words[half:]})


class ThreadedWords(Words):
    _NUM_THREADS_PER_TASK = 4


@pytest.fixture
def twenty(tmp_path):
    for i in range(20):
        (tmp_path / f"year={2000 + i % 2}").mkdir(exist_ok=True)
        (tmp_path / f"year={2000 + i % 2}" / f"f{i:02}.words").write_text(f"WORDS1 a{i} b{i} c{i}")
    (tmp_path / "year=2000" / "_skip.words").write_text("BAD")
    (tmp_path / "year=2000" / "note.txt").write_text("BAD")
    return tmp_path


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [Words, ThreadedWords])
@pytest.mark.parametrize("blocks", [None, 1, 7, 100])
def test_twenty_files(twenty, kind, blocks):
    ds = weir.read_datasource(kind(str(twenty), file_extensions=["words"]), override_num_blocks=blocks)
    words = [row["word"] for row in ds.take_all()]
    assert sorted(words) == sorted(f"{c}{i}" for i in range(20) for c in "abc")
    assert words[:3] == ["a0", "b0", "c0"]
    assert len(ds.input_files()) == 20
    assert ds.materialize().num_blocks() == min(blocks or max(1, int(2 * weir.cluster_resources()["CPU"])), 20)


def test_the_blocks_of_a_task_are_its_own():
    """However short reads are: what one task has read is not put together with what another has."""
    class Fives(Datasource):
        def get_read_tasks(self, parallelism, **_):
            def read(number):
                return lambda: iter([pa.table({"a": [number] * 5})])
            return [ReadTask(read(i), BlockMetadata(num_rows=5, size_bytes=40, input_files=None, exec_stats=None)) for i in range(20)]

        def estimate_inmemory_data_size(self):
            return 800

    ds = weir.read_datasource(Fives(), override_num_blocks=20)
    assert ds.materialize().num_blocks() == 20
    assert ds.map_batches(lambda batch: {"n": [len(batch["a"])]}).take_all() == [{"n": 5}] * 20
    assert [batch["a"].tolist() for batch in ds.iter_batches(batch_size=None)] == [[i] * 5 for i in range(20)]


def test_partitions_and_paths(twenty):
    ds = weir.read_datasource(Words(str(twenty), file_extensions=["words"], include_paths=True,
                                    partitioning=Partitioning("hive", field_types={"year": int})))
    row = ds.take(1)[0]
    assert row == {"word": "a0", "year": 2000, "path": str(twenty / "year=2000" / "f00.words")}
    only = PathPartitionFilter.of(lambda values: values.get("year") == "2001")
    assert weir.read_datasource(Words(str(twenty), file_extensions=["words"], partition_filter=only)).count() == 30


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        Words(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="No files found"):
        Words(str(tmp_path))
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValueError, match="file_extensions"):
        Words(str(tmp_path), file_extensions=["words"])
    with pytest.raises(ValueError, match="shuffle"):
        Words(str(tmp_path), shuffle="rows")


def test_shuffled_files(twenty):
    source = Words(str(twenty), file_extensions=["words"], shuffle=FileShuffleConfig(seed=3, reseed_after_execution=False))
    first = [row["word"] for row in weir.read_datasource(source).take_all()]
    assert first == [row["word"] for row in weir.read_datasource(source).take_all()]
    assert first != sorted(first, key=lambda word: int(word[1:]))


def test_compressed_files(tmp_path):
    import gzip

    (tmp_path / "a.words.gz").write_bytes(gzip.compress(b"WORDS1 x y"))
    assert weir.read_datasource(Words(str(tmp_path))).count() == 2


def test_errors_of_storage_are_tried_again(tmp_path):
    class Flaky(Words):
        def _read_stream(self, f, path):
            yield pa.table({"word": ["first"]})
            mark = path + ".tried"
            if not os.path.exists(mark):
                open(mark, "w").close()
                raise OSError("AWS Error SLOW_DOWN")
            yield pa.table({"word": ["second"]})

    (tmp_path / "a.words").write_text("")
    rows = weir.read_datasource(Flaky(str(tmp_path / "a.words"))).take_all()
    assert [row["word"] for row in rows] == ["first", "second"]


def test_metadata_providers(tmp_path):
    (tmp_path / "a").write_text("12345")
    assert list(DefaultFileMetadataProvider().expand_paths([str(tmp_path)], None)) == [(str(tmp_path / "a"), 5)]
    assert list(FastFileMetadataProvider().expand_paths(["x"], None)) == [("x", None)]
    metadata = DefaultFileMetadataProvider()(["a", "b"], rows_per_file=3, file_sizes=[1, 2])
    assert (metadata.num_rows, metadata.size_bytes, metadata.input_files) == (6, 3, ("a", "b"))


def test_partition_parsers():
    hive = PathPartitionParser.of(field_types={"year": int, "is": bool})
    assert hive("/a/year=2020/is=True/x.csv") == {"year": 2020, "is": True}
    folders = PathPartitionParser.of("dir", base_dir="/a", field_names=["year", "month"])
    assert folders("/a/2020/1/x.csv") == {"year": "2020", "month": "1"}
    assert folders("/b/2020/1/x.csv") == {}
    with pytest.raises(ValueError, match="2"):
        folders("/a/2020/x.csv")
    assert Partitioning("hive", field_names=["year"]).to_pyarrow().schema.names == ["year"]


# ---- databases and arrays ----


@pytest.fixture
def films(tmp_path):
    path = str(tmp_path / "films.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE film (id INTEGER, title TEXT, score REAL)")
    connection.executemany("INSERT INTO film VALUES (?, ?, ?)", [(i, f"film {i}", i / 2) for i in range(200)])
    connection.commit()
    connection.close()
    return path


def test_sql(films):
    ds = weir.read_sql("SELECT * FROM film", lambda: sqlite3.connect(films))
    assert ds.count() == 200
    assert ds.take(1) == [{"id": 0, "title": "film 0", "score": 0.0}]
    one = weir.read_sql("SELECT title FROM film WHERE id = ?", lambda: sqlite3.connect(films), sql_params=(7,))
    assert one.take_all() == [{"title": "film 7"}]


def test_sharded_sql(films):
    def connect():
        connection = sqlite3.connect(films)
        connection.create_function("mod", 2, lambda a, b: a % b)
        connection.create_function("same", 1, lambda a: a)
        return connection

    ds = weir.read_sql("SELECT * FROM film", connect, shard_keys=["id"], shard_hash_fn="same", override_num_blocks=3)
    assert sorted(row["id"] for row in ds.take_all()) == list(range(200))
    assert ds.materialize().num_blocks() == 3
    with pytest.raises(ValueError, match="shard_keys must be provided"):
        weir.read_sql("SELECT * FROM film", connect, override_num_blocks=2)
    with pytest.raises(ValueError, match="does not support sharding"):
        weir.read_sql("SELECT * FROM film", connect, shard_keys=["id"], override_num_blocks=2)


def test_what_is_no_connection():
    with pytest.raises(ValueError, match="DB API2"):
        weir.read_sql("SELECT 1", lambda: object()).take_all()


def test_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "b.npy", np.arange(6, 10).reshape(2, 2))
    (tmp_path / "c.txt").write_text("")
    ds = weir.read_numpy(str(tmp_path))
    assert ds.take_batch()["data"].tolist() == np.arange(10).reshape(5, 2).tolist()
    assert weir.read_numpy(str(tmp_path), include_paths=True).take(1)[0]["path"] == str(tmp_path / "a.npy")
    objects = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "o.npy", objects, allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        weir.read_numpy(str(tmp_path / "o.npy")).take_all()
    assert weir.read_numpy(str(tmp_path / "o.npy"), allow_pickle=True).count() == 1


def test_torch_datasets():
    torch = pytest.importorskip("torch")

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 70

        def __getitem__(self, i):
            return i * i

    class Streamed(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield from range(5)

    assert [row["item"] for row in weir.from_torch(Squares()).take_all()] == [i * i for i in range(70)]
    assert weir.from_torch(Streamed()).count() == 5
    pairs = torch.utils.data.TensorDataset(torch.arange(4), torch.arange(4) * 2)
    assert weir.from_torch(pairs).count() == 4


@pytest.mark.parametrize("name", ["read_hudi", "read_clickhouse", "read_bigquery", "read_mongo", "from_spark", "read_kafka"])
def test_what_is_absent_says_so(name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(weir, name)("in/")


def test_packages_that_are_not_installed():
    for name, package in (("from_huggingface", "datasets"), ("from_tf", "tensorflow"), ("read_delta", "deltalake")):
        try:
            __import__(package)
        except ImportError:
            with pytest.raises(ImportError, match=package):
                getattr(weir, name)([])


# ---- what a source is told ----


class Told(Numbers):
    def __init__(self, folder):
        super().__init__(3, folder=str(folder))

    def supports_projection_pushdown(self):
        return True

    def supports_predicate_pushdown(self):
        return True

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        with open(os.path.join(self.folder, "told"), "w") as file:
            print(self.get_projection_map(), self.get_current_predicate() is not None, file=file)
        return super().get_read_tasks(parallelism, per_task_row_limit, data_context)


def test_columns_rows_and_limits_reach_the_source(tmp_path):
    ds = weir.read_datasource(Told(tmp_path))
    assert ds.select_columns(["task"]).take(1) == [{"task": 0}]
    assert (tmp_path / "told").read_text() == "{'task': 'task'} False\n"
    assert (tmp_path / "asked").read_text().split()[-1] == "1"
    assert ds.filter(expr=weir.col("task") > 1).count() == 10
    assert (tmp_path / "told").read_text() == "None True\n"
    assert ds.limit(12).count() == 12 and (tmp_path / "asked").read_text().split()[-1] == "12"
    ds.filter(lambda row: True).limit(12).count()
    assert (tmp_path / "asked").read_text().split()[-1] == "None"


def test_count_believes_what_tasks_say(tmp_path):
    ds = weir.read_datasource(Numbers(4, folder=str(tmp_path)))
    assert ds.count() == 40 and not [name for name in os.listdir(tmp_path) if name.startswith("ran-")]


def test_many_blocks_of_large_files(tmp_path, monkeypatch):
    from weir import _parts

    monkeypatch.setattr(_parts, "SMALL_BYTES", 0)
    weir.range(1000).write_parquet(str(tmp_path / "a"))
    weir.range(500).write_parquet(str(tmp_path / "b"))
    for count in (1, 7, 40):
        ds = weir.read_parquet([str(tmp_path / "a"), str(tmp_path / "b")], override_num_blocks=count)
        assert ds.materialize().num_blocks() == count
        sizes = [len(batch["id"]) for batch in ds.iter_batches(batch_size=None)]
        assert len(sizes) == count and sum(sizes) == 1500 and max(sizes) - min(sizes) <= 1
    assert weir.read_parquet(str(tmp_path / "b"), override_num_blocks=900).materialize().num_blocks() == 500


def test_huggingface_datasets(monkeypatch):
    """With a stand-in that has what is used of the package, which need not be installed."""
    import sys
    import types

    class Dataset:
        def __init__(self, columns):
            self.table = pa.table(columns)

        def with_format(self, name):
            assert name == "arrow"
            return self

        def __getitem__(self, rows):
            return self.table[rows] if not isinstance(rows, slice) else self.table.slice(0, self.table.num_rows)

    class IterableDataset(Dataset):
        dataset_size = None

        def iter(self, batch_size):
            for first in range(0, self.table.num_rows, 2):
                yield self.table.slice(first, 2)

    fake = types.SimpleNamespace(Dataset=Dataset, IterableDataset=IterableDataset, DatasetDict=dict, IterableDatasetDict=dict)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    kept = weir.from_huggingface(Dataset({"a": [1, 2, 3]}), override_num_blocks=3)
    assert [row["a"] for row in kept.take_all()] == [1, 2, 3] and kept.num_blocks() == 3
    streamed = weir.from_huggingface(IterableDataset({"a": [1, 2, 3]}))
    assert [row["a"] for row in streamed.take_all()] == [1, 2, 3]
    with pytest.raises(DeprecationWarning, match="train"):
        weir.from_huggingface({"train": 1})
    with pytest.raises(TypeError, match="datasets.Dataset"):
        weir.from_huggingface(5)


def test_stats_of_a_source():
    ds = weir.read_datasource(Numbers(3)).map(lambda row: {"x": row["task"]}).materialize()
    assert "ReadNumbers->Map(<lambda>): 3 tasks executed, 3 blocks produced" in ds.stats()


class Asking(Datasource):
    """One row a task: which actor it runs in, and which task it is."""

    def estimate_inmemory_data_size(self):
        return None

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        def read():
            context = weir.get_runtime_context()
            yield pa.table({"actor": [context.get_actor_id()], "task": [context.get_task_id()], "name": [context.get_task_name()]},
                           pa.schema({"actor": pa.string(), "task": pa.string(), "name": pa.string()}))

        return [ReadTask(read, BlockMetadata(1, 8, None, None)) for _ in range(4)]


def test_tasks_know_the_actor_that_they_run_in():
    rows = weir.read_datasource(Asking(), compute=weir.ActorPoolStrategy(size=2)).take_all()
    assert len(rows) == 4 and {len(row["actor"]) for row in rows} == {32} and len({row["actor"] for row in rows}) <= 2
    rows = weir.read_datasource(Asking()).take_all()
    assert {row["actor"] for row in rows} == {None}
    assert len({row["task"] for row in rows}) == 4 and {len(row["task"]) for row in rows} == {48} and rows[0]["name"] == "ReadAsking"
    assert weir.get_runtime_context().get_task_id() is None and weir.get_runtime_context().get_actor_id() is None


def test_real_huggingface_datasets():
    datasets = pytest.importorskip("datasets")
    rows = [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}, {"a": 3, "s": None}]
    kept = datasets.Dataset.from_list(rows)
    assert weir.from_huggingface(kept).take_all() == rows and type(weir.from_huggingface(kept)) is weir.MaterializedDataset
    assert weir.from_huggingface(kept.select([2, 0])).take_all() == [rows[2], rows[0]]
    streamed = kept.to_iterable_dataset(num_shards=3)
    assert weir.from_huggingface(streamed).take_all() == rows and type(weir.from_huggingface(streamed)) is weir.Dataset
    mapped = weir.from_huggingface(streamed.map(lambda row: {"b": row["a"] * 2}))
    assert mapped.take_all() == [{**row, "b": row["a"] * 2} for row in rows]
    made = datasets.IterableDataset.from_generator(lambda: ({"z": i} for i in range(3)))
    assert weir.from_huggingface(made).sum("z") == 3
