"""Writes that were killed go on: each id is in the output exactly once."""
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

import weir
from weir import _pieces
from weir.block import BlockAccessor
from weir.checkpoint import (CheckpointBackend, CheckpointConfig, CheckpointFilter, CheckpointManager,
                             InvalidCheckpointingConfig, NumpyArrayBasedCheckpointFilter)
from weir.checkpoint.checkpoint_writer import CheckpointWriter, PendingCheckpoint
from weir.checkpoint.util import PrefixTrie, build_pending_checkpoint_trie
from weir.datasource import BlockBasedFileDatasink, Datasink


@pytest.fixture
def context():
    held = weir.DataContext.get_current()
    yield held
    held.checkpoint_config = None


@pytest.fixture
def numbers(tmp_path):
    folder = tmp_path / "in"
    for i in range(10):
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": range(i * 100, i * 100 + 100), "name": [f"n{j}" for j in range(100)]}), folder / f"{i}.parquet")
    return str(folder)


def ids(folder):
    return sorted(row["id"] for row in weir.read_parquet(str(folder)).take_all())


# ---- configurations ----


def test_configurations(tmp_path, monkeypatch):
    config = CheckpointConfig("id", str(tmp_path))
    assert (config.id_column, config.checkpoint_path, config.backend) == ("id", str(tmp_path), CheckpointBackend.FILE_STORAGE)
    assert config.delete_checkpoint_on_success is True and config.write_num_threads == 3
    for bad in (None, "", 5):
        with pytest.raises(InvalidCheckpointingConfig, match="non-empty string"):
            CheckpointConfig(bad, str(tmp_path))
    for bad in ("relative/path", "s3://bucket/x"):
        with pytest.raises(InvalidCheckpointingConfig, match="Invalid checkpoint path"):
            CheckpointConfig("id", bad)
    monkeypatch.delenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", raising=False)
    with pytest.raises(InvalidCheckpointingConfig, match="RAY_DATA_CHECKPOINT_PATH_BUCKET"):
        CheckpointConfig("id")
    monkeypatch.setenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", str(tmp_path))
    assert CheckpointConfig("id").checkpoint_path == f"{tmp_path}/ray_data_checkpoint"
    with pytest.raises(InvalidCheckpointingConfig, match="subclass of `CheckpointFilter`"):
        CheckpointConfig("id", str(tmp_path), checkpoint_filter_cls=int)

    class Abstract(CheckpointFilter):
        pass

    with pytest.raises(InvalidCheckpointingConfig, match="abstract"):
        CheckpointConfig("id", str(tmp_path), checkpoint_filter_cls=Abstract)
    with pytest.warns(FutureWarning):
        CheckpointConfig("id", str(tmp_path), override_backend=CheckpointBackend.FILE_STORAGE)


def test_the_context_takes_one(context, tmp_path):
    context.checkpoint_config = {"id_column": "id", "checkpoint_path": str(tmp_path)}
    assert isinstance(context.checkpoint_config, CheckpointConfig)
    with pytest.raises(TypeError):
        context.checkpoint_config = 5


def test_prefixes():
    trie = build_pending_checkpoint_trie(["/c/ab.pending.parquet", "/c/x.parquet"], ".pending.parquet")
    assert [trie.has_prefix_of(word) for word in ("ab", "abc", "a", "x", "")] == [True, True, False, False, False]
    assert not PrefixTrie().has_prefix_of("a")


def test_the_writer(tmp_path):
    writer = CheckpointWriter.create(CheckpointConfig("id", str(tmp_path / "c")))
    pending = writer.write_pending_checkpoint(pa.array([1, 2]), "p")
    assert pending == PendingCheckpoint(str(tmp_path / "c/p.pending.parquet"), str(tmp_path / "c/p.parquet"))
    assert os.listdir(tmp_path / "c") == ["p.pending.parquet"]
    writer.commit_checkpoint(pending)
    writer.commit_checkpoint(pending)
    assert os.listdir(tmp_path / "c") == ["p.parquet"] and pq.read_table(pending.committed_path)["id"].to_pylist() == [1, 2]
    assert writer.write_pending_checkpoint(pa.array([]), "q") is None
    with pytest.raises(FileNotFoundError):
        writer.commit_checkpoint(PendingCheckpoint("/nowhere/a", "/nowhere/b"))
    writer.write_block_checkpoint(BlockAccessor.for_block(pa.table({"id": [3], "x": [4]})))
    assert len(os.listdir(tmp_path / "c")) == 2


def test_the_filter(tmp_path):
    config = CheckpointConfig("id", str(tmp_path))
    kept = NumpyArrayBasedCheckpointFilter(config, np.array([1, 3, 9])).filter_rows_for_block(pa.table({"id": [0, 1, 2, 3, 10]}))
    assert kept["id"].to_pylist() == [0, 2, 10]
    texts = NumpyArrayBasedCheckpointFilter(config, np.array(["a", "c"], dtype=object))
    assert texts.filter_rows_for_block(pa.table({"id": ["a", "b", "z"]}))["id"].to_pylist() == ["b", "z"]
    with pytest.raises(ValueError, match="id"):
        texts.filter_rows_for_block(pa.table({"x": [1]}))


# ---- writes ----


def test_a_write_that_succeeds_leaves_nothing(context, numbers, tmp_path):
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"))
    weir.read_parquet(numbers).map(lambda row: row).write_parquet(str(tmp_path / "out"))
    assert ids(tmp_path / "out") == list(range(1000)) and not (tmp_path / "c").exists()


@pytest.mark.parametrize("write", ["write_parquet", "write_csv", "write_json"])
def test_what_is_written_is_not_written_again(context, numbers, tmp_path, write):
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "c")
    context.checkpoint_config = CheckpointConfig("id", checkpoint, delete_checkpoint_on_success=False)
    getattr(weir.read_parquet(numbers).filter(expr="id < 400"), write)(out)
    first = set(os.listdir(out))
    assert len(os.listdir(checkpoint)) >= 1
    getattr(weir.read_parquet(numbers), write)(out)
    read = {"write_parquet": weir.read_parquet, "write_csv": weir.read_csv, "write_json": weir.read_json}[write]
    context.checkpoint_config = None
    assert sorted(row["id"] for row in read(out).take_all()) == list(range(1000))
    assert first <= set(os.listdir(out))


@pytest.mark.parametrize("sizes", [{}, {"min_rows_per_file": 1000}])
def test_what_was_made_before_an_error_is_kept(context, tmp_path, sizes, monkeypatch):
    """Long before a second is over, and while files want more rows than there are."""
    config = CheckpointConfig("id", str(tmp_path / "notes"), delete_checkpoint_on_success=False)
    context.checkpoint_config = config
    log, fixed, taken = str(tmp_path / "log"), tmp_path / "fixed", tmp_path / "taken"

    class Watched(_pieces.Finished):
        """Says when the first fifteen rows have come to be written."""

        rows = 0

        def __next__(self):
            batch = super().__next__()
            Watched.rows += batch.num_rows
            if Watched.rows >= 15:
                taken.touch()
            return batch

    monkeypatch.setattr(_pieces, "Finished", Watched)

    def last_fails(batch):
        with open(log, "a") as file:
            file.write("x" * len(batch["id"]))
        if 19 in batch["id"] and not fixed.exists():
            end = time.monotonic() + 60
            while not taken.exists() and time.monotonic() < end:  # an error overtakes rows that are still on their way
                time.sleep(0.01)
            raise ValueError("out of luck")
        return batch

    def write():
        weir.range(20).map_batches(last_fails, batch_size=5, concurrency=1).write_parquet(str(tmp_path / "out"), **sizes)

    with pytest.raises(ValueError, match="out of luck"):
        write()
    assert sorted(pq.read_table(config.checkpoint_path)["id"].to_pylist()) == list(range(15))
    assert ids(tmp_path / "out") == list(range(15))
    assert os.path.getsize(log) == 20
    fixed.touch()
    write()
    assert os.path.getsize(log) == 25
    assert ids(tmp_path / "out") == list(range(20))


def test_overwrite_goes_on_too(context, numbers, tmp_path):
    out = str(tmp_path / "out")
    weir.range(5).write_parquet(out)
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"), delete_checkpoint_on_success=False)
    weir.read_parquet(numbers).filter(expr="id < 400").write_parquet(out, mode="overwrite")
    assert len(ids(out)) == 400
    weir.read_parquet(numbers).write_parquet(out, mode="overwrite")
    assert ids(out) == list(range(1000))


def test_folders_and_sizes(context, numbers, tmp_path):
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"))
    ds = weir.read_parquet(numbers).with_column("part", weir.col("id") % 3)
    ds.write_parquet(str(tmp_path / "a"), partition_cols=["part"])
    assert ids(tmp_path / "a") == list(range(1000)) and sorted(os.listdir(tmp_path / "a")) == ["part=0.0", "part=1.0", "part=2.0"]
    weir.read_parquet(numbers).write_parquet(str(tmp_path / "b"), min_rows_per_file=300)
    sizes = sorted(pq.read_metadata(tmp_path / "b" / name).num_rows for name in os.listdir(tmp_path / "b"))
    assert sizes == [100, 300, 300, 300]


def test_what_was_not_finished_is_removed(context, numbers, tmp_path):
    out, checkpoint = tmp_path / "out", tmp_path / "c"
    out.mkdir(), checkpoint.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), checkpoint / "half.pending.parquet")
    pq.write_table(pa.table({"id": [1, 2], "name": ["x", "y"]}), out / "half-0.parquet")
    pq.write_table(pa.table({"id": [7]}), checkpoint / "whole.parquet")
    pq.write_table(pa.table({"id": [7], "name": ["z"]}), out / "whole-0.parquet")
    context.checkpoint_config = CheckpointConfig("id", str(checkpoint))
    weir.read_parquet(numbers).write_parquet(str(out))
    assert ids(out) == list(range(1000)) and not (out / "half-0.parquet").exists() and (out / "whole-0.parquet").exists()


def test_the_id_column_must_stay(context, numbers, tmp_path):
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"))
    with pytest.raises(ValueError, match="ID column id is absent"):
        weir.read_parquet(numbers).drop_columns(["id"]).write_parquet(str(tmp_path / "out"))
    with pytest.raises(ValueError, match="ID column id is absent"):
        weir.read_parquet(numbers).rename_columns({"id": "x"}).write_datasink(Kept(tmp_path))


def test_rows_in_memory_have_no_checkpoint(context, tmp_path):
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"))
    with pytest.warns(UserWarning, match="Checkpointing will be disabled"):
        weir.from_items([{"id": 1}]).write_parquet(str(tmp_path / "out"))
    assert ids(tmp_path / "out") == [1]


def test_classes_of_ones_own(context, numbers, tmp_path):
    pytest.importorskip("weir.core.objects")

    class Odd(CheckpointFilter):
        """Leaves out odd ids, whatever was written."""

        def filter_rows_for_block(self, block):
            return block.filter(pa.array(block["id"].to_numpy() % 2 == 0))

    class Loads(CheckpointManager):
        def load_checkpoint(self, data_file_dir=None, data_file_filesystem=None):
            return weir.put(np.array([1])), 8

    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"), checkpoint_filter_cls=Odd, checkpoint_manager_cls=Loads)
    weir.read_parquet(numbers).write_parquet(str(tmp_path / "out"))
    assert ids(tmp_path / "out") == list(range(0, 1000, 2))


# ---- sinks ----


class Kept(Datasink):
    def __init__(self, folder):
        self.folder = str(folder)

    def write(self, blocks, ctx):
        for block in blocks:
            with open(f"{self.folder}/{ctx.task_idx}-{os.urandom(4).hex()}.ids", "w") as file:
                file.write(" ".join(str(row["id"]) for row in BlockAccessor.for_block(block).iter_rows(True)))


class Lines(BlockBasedFileDatasink):
    def write_block_to_file(self, block, file):
        if os.path.exists(self.path + ".fail") and 500 in block.to_numpy("id"):
            raise ValueError("now")
        file.write("\n".join(str(row["id"]) for row in block.iter_rows(True)).encode())


def test_sinks(context, numbers, tmp_path):
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"), delete_checkpoint_on_success=False)
    with pytest.warns(UserWarning, match="non-file datasink"):
        weir.read_parquet(numbers).filter(expr="id < 300").write_datasink(Kept(tmp_path))
        weir.read_parquet(numbers).write_datasink(Kept(tmp_path))
    found = [int(n) for path in tmp_path.glob("*.ids") for n in path.read_text().split()]
    assert sorted(found) == list(range(1000))


def test_file_sinks_that_fail(context, numbers, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "out.fail").touch()
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "c"))
    with pytest.raises(ValueError, match="now"):
        weir.read_parquet(numbers).write_datasink(Lines(str(out)))
    (tmp_path / "out.fail").unlink()
    weir.read_parquet(numbers).write_datasink(Lines(str(out), mode="overwrite"))
    found = Counter(int(line) for path in out.iterdir() for line in path.read_text().split())
    assert sorted(found) == list(range(1000)) and set(found.values()) == {1}
    assert not (tmp_path / "c").exists()


# ---- killed ----

SCRIPT = """
import sys, time, weir
from weir.checkpoint import CheckpointConfig
weir.init(num_cpus=2)
source, out, checkpoint = sys.argv[1:4]
weir.DataContext.get_current().checkpoint_config = CheckpointConfig("id", checkpoint)
def slow(batch):
    time.sleep(0.02)
    return batch
weir.read_parquet(source).map_batches(slow, batch_size=10).write_parquet(out)
print("done")
"""


def test_a_driver_that_is_killed_again_and_again(numbers, tmp_path):
    import weir._pieces

    out, checkpoint = tmp_path / "out", tmp_path / "c"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("import sys, time, weir\n", "import sys, time, weir\nimport weir._pieces\nweir._pieces.PIECE_SECONDS = 0.05\n"))
    command = [sys.executable, str(script), numbers, str(out), str(checkpoint)]
    kills = 0
    for attempt in range(6):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        committed = len(os.listdir(checkpoint)) if checkpoint.exists() else 0
        deadline = time.monotonic() + 120
        while child.poll() is None and time.monotonic() < deadline:
            now = len(os.listdir(checkpoint)) if checkpoint.exists() else 0
            if attempt < 4 and now >= committed + 2:
                child.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        text, _ = child.communicate()
        if "done" in text:
            break
    assert "done" in text and kills >= 1
    found = Counter(ids(out))
    assert sorted(found) == list(range(1000)) and set(found.values()) == {1}
    assert not checkpoint.exists()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
