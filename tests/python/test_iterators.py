"""Iterators: local shuffles, torch, DataLoader workers, TensorFlow and JAX (stood in for where they are not installed)."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

import weir  # noqa: E402
from weir import _weir  # noqa: E402
from weir.collate_fn import ArrowBatchCollateFn, CollateFn, NumpyBatchCollateFn  # noqa: E402

torch = pytest.importorskip("torch")


# ---- local shuffles ----


def shuffled(rows: int, **arguments: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in weir.range(rows).iter_batches(**arguments)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 400), st.integers(1, 900), st.integers(0, 2**32), st.booleans())
def test_shuffle(rows: int, size: int, buffer: int, seed: int, drop_last: bool) -> None:
    arguments = {
        "batch_size": size, "local_shuffle_buffer_size": buffer, "local_shuffle_seed": seed, "drop_last": drop_last,
    }
    batches = shuffled(rows, **arguments)
    flat = [i for batch in batches for i in batch]
    assert len(flat) == (rows // size * size if drop_last else rows)
    assert len(set(flat)) == len(flat) and set(flat) <= set(range(rows))
    assert all(len(batch) == size for batch in batches[:-1])
    assert batches == shuffled(rows, **arguments)


def test_a_shuffle_is_one() -> None:
    """Within a buffer that holds everything each row may be anywhere, and each place has any row."""
    rows = 4000
    firsts = [shuffled(rows, batch_size=100, local_shuffle_buffer_size=rows, local_shuffle_seed=s)[0] for s in range(40)]
    drawn = np.array(firsts)
    assert abs(drawn.mean() - rows / 2) < 60  # 3.3 standard deviations
    assert len(np.unique(drawn)) > 2300


def test_a_buffer_bounds_how_far_rows_move_ahead() -> None:
    size, buffer = 64, 1000
    seen = 0
    for batch in shuffled(300_000, batch_size=size, local_shuffle_buffer_size=buffer, local_shuffle_seed=1):
        # What was not read yet cannot be drawn: a block, the buffer and half of it more.
        assert max(batch) < seen + 65536 + 2 * buffer + size
        seen += size


def test_shuffles_of_every_kind_of_column() -> None:
    rows = [{"s": f"{i}" * (i % 5), "l": list(range(i % 4)), "t": [[i, 1], [2, 3]], "n": None if i % 7 == 0 else i} for i in range(500)]
    ds = weir.from_items([{**row, "t": np.array(row["t"])} for row in rows])
    found = []
    for batch in ds.iter_batches(batch_size=13, local_shuffle_buffer_size=60, batch_format="pyarrow"):
        found += batch.to_pylist()
    key = lambda row: (str(row["n"]), row["s"], row["l"])  # noqa: E731
    assert sorted(map(key, found)) == sorted(map(key, rows))


SEED = 20261115


def test_take_of_lists() -> None:
    random = np.random.default_rng(SEED)
    print("seed", SEED)
    length = 300
    lists = [None if random.random() < 0.1 else random.integers(0, 9, random.integers(0, 6)).tolist() for _ in range(length)]
    with_nulls = [[None if v == 3 else v for v in values] if values else values for values in lists]
    fixed = [None if random.random() < 0.1 else random.random(4).tolist() for _ in range(length)]
    table = pa.table(
        {
            "plain": pa.array(lists, pa.list_(pa.int32())),
            "large": pa.array(lists, pa.large_list(pa.int16())),
            "nulls": pa.array(with_nulls, pa.list_(pa.int64())),
            "texts": pa.array([v if v is None else [str(i) for i in v] for v in lists]),
            "fixed": pa.array(fixed, pa.list_(pa.float64(), 4)),
            "whole": pa.array([v or [0.0] * 4 for v in fixed], pa.list_(pa.float32(), 4)),
            "bools": pa.array([[i % 2 == 0, i % 3 == 0] for i in range(length)], pa.list_(pa.bool_(), 2)),
        }
    )
    (batch,) = _weir.batch_from_arrow(table)
    for begin, end in ((0, length), (17, 251)):
        part, expected = batch.slice(begin, end), table.slice(begin, end - begin)
        for _ in range(5):
            rows = random.integers(0, end - begin, 400)
            assert pa.table(pa.record_batch(part.take(rows))).to_pylist() == expected.take(rows).to_pylist()


# ---- torch ----


def test_tensors_may_be_written_to() -> None:
    kept = weir.range(100).materialize()
    for _ in range(2):
        for batch in kept.iterator().iter_torch_batches(batch_size=50):
            batch["id"] += 1000
    assert kept.take(1) == [{"id": 0}]
    it, = weir.range(100).streaming_split(1)
    for batch in it.iter_torch_batches(batch_size=7):
        batch["id"] *= 2


def test_collate_functions() -> None:
    class Lists(ArrowBatchCollateFn):
        def __call__(self, batch: pa.Table) -> Any:
            half = batch.num_rows // 2
            ids = torch.as_tensor(np.array(batch["id"]))
            return [ids[:half], ids[half:]], [ids]

    (made,) = weir.range(4).iter_torch_batches(collate_fn=Lists())
    assert [t.tolist() for t in made] == [[0, 1, 2, 3], [0, 1, 2, 3]]

    class Plain(NumpyBatchCollateFn):
        def __call__(self, batch: dict[str, Any]) -> Any:
            batch["id"][0] = 7  # it is the function's own
            return batch["id"].tolist()

    assert list(weir.range(3).iter_torch_batches(collate_fn=Plain(), batch_size=3)) == [[7, 1, 2]]
    assert isinstance(Plain(), CollateFn)


def test_a_collate_function_that_fails() -> None:
    def fails(batch: Any) -> Any:
        raise OSError("collate")

    with pytest.raises(OSError, match="collate"):
        list(weir.range(10).iter_torch_batches(collate_fn=fails))


def test_to_torch_columns() -> None:
    ds = weir.from_items([{"a": i, "b": i * 2.0, "y": i % 2} for i in range(5)])
    batches = list(ds.iterator().to_torch(label_column="y", feature_columns=["b"], batch_size=2, drop_last=True))
    assert [tuple(f.shape) for f, _ in batches] == [(2, 1), (2, 1)]
    assert batches[0][1].tolist() == [[0], [1]]
    (pair,) = ds.to_torch(label_column="y", feature_columns={"x": ["a", "b"]}, batch_size=5, feature_column_dtypes=torch.float32)
    assert pair[0]["x"].dtype == torch.float32 and tuple(pair[0]["x"].shape) == (5, 2)
    with pytest.raises((KeyError, ValueError), match="nothing"):
        list(ds.iterator().to_torch(feature_columns=["nothing"]))
    with pytest.raises(TypeError, match="feature_column_dtypes"):
        ds.iterator().to_torch(feature_columns=[["a"]], feature_column_dtypes={"a": torch.float32})


LOADER = """
    import json, sys
    import torch, weir
    from torch.utils.data import DataLoader
    if __name__ == "__main__":
        ds = weir.read_parquet(sys.argv[1]).map_batches(lambda b: {"id": b["id"] * 2})
        made = ds.iterator().to_torch(batch_size=10)
        out = {}
        for workers, method, epochs in ((0, None, 2), (1, "fork", 1), (3, "fork", 2), (2, "spawn", 1)):
            loader = DataLoader(made, batch_size=None, num_workers=workers, multiprocessing_context=method)
            for epoch in range(epochs):
                out[f"{workers} {method} {epoch}"] = sorted(v for f, _ in loader for v in f[:, 0].tolist())
        try:
            list(DataLoader(weir.from_items([1, 2]).iterator().to_torch(), batch_size=None, num_workers=2))
        except Exception as error:
            out["kept"] = str(error)
        print(json.dumps(out))
"""


def test_workers_of_a_loader_have_a_part_each(tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"id": np.arange(number * 50, number * 50 + 50)}), tmp_path / f"{number}.parquet")
    script = tmp_path / "loader.py"
    script.write_text(textwrap.dedent(LOADER))
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    out = json.loads(done.stdout.splitlines()[-1])
    assert "cannot share them" in out.pop("kept")
    assert len(out) == 6
    for name, values in out.items():
        assert values == list(range(0, 200, 2)), name


# ---- TensorFlow and JAX ----


def test_absent_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorflow", "jax"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match="tensorflow"):
        weir.range(3).iter_tf_batches()
    with pytest.raises(ModuleNotFoundError, match="tensorflow must be installed"):
        weir.range(3).to_tf("id", "id")
    with pytest.raises(ImportError, match="jax"):
        weir.range(3).iter_jax_batches()


class FakeTensorFlow(types.ModuleType):
    """As much of TensorFlow as is called here; its tensors are NumPy's."""

    string = "string"

    class TensorSpec:
        def __init__(self, shape: Any, dtype: Any = None, name: Any = None) -> None:
            self.shape, self.dtype, self.name = shape, dtype, name

    class RaggedTensorSpec:
        def __init__(self, shape: Any, dtype: Any = None) -> None:
            self.shape, self.dtype = shape, dtype

    class dtypes:
        as_dtype = staticmethod(np.dtype)

    class ragged:
        @staticmethod
        def constant(values: Any, dtype: Any = None) -> Any:
            return ("ragged", values, dtype)

    class data:
        class Options:
            def __init__(self) -> None:
                self.experimental_distribute = types.SimpleNamespace()

        class experimental:
            class AutoShardPolicy:
                OFF = "off"

        class Dataset:
            def __init__(self, generate: Any, signature: Any) -> None:
                self.generate, self.signature = generate, signature

            @classmethod
            def from_generator(cls, generate: Any, output_signature: Any) -> Any:
                return cls(generate, output_signature)

            def with_options(self, options: Any) -> Any:
                assert options.experimental_distribute.auto_shard_policy == "off"
                return self

            def __iter__(self) -> Any:
                return self.generate()

    @staticmethod
    def convert_to_tensor(array: Any, dtype: Any = None) -> Any:
        return np.asarray(array, dtype=None if dtype in (None, "string") else dtype)


def test_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", FakeTensorFlow("tensorflow"))
    ds = weir.from_items([{"a": float(i), "s": str(i), "l": list(range(i)), "t": np.ones((2, 3)) * i} for i in range(1, 5)])
    batches = list(ds.select_columns(["a", "t"]).iter_tf_batches(batch_size=3, dtypes={"a": np.float32}))
    assert batches[0]["a"].dtype == np.float32 and batches[0]["t"].shape == (3, 2, 3)
    made = ds.to_tf("a", ["s", "t"], additional_columns="l", batch_size=2)
    features, labels, more = made.signature
    assert features.shape == (None,) and labels["t"].shape == (None, 2, 3) and labels["s"].dtype == "string"
    assert isinstance(more, FakeTensorFlow.RaggedTensorSpec)
    for _ in range(2):  # it may be read again
        first = next(iter(made))
        assert first[0].tolist() == [1.0, 2.0] and first[1]["s"].tolist() == ["1", "2"]
        assert first[2][:2] == ("ragged", [[0], [0, 1]])
    with pytest.raises(ValueError, match="no column named 'nothing'"):
        ds.to_tf("nothing", "a")
    with pytest.raises(ValueError, match="column 'l' has values of different shapes"):
        list(ds.select_columns(["l"]).iter_tf_batches(batch_size=4))


class FakeJax(types.ModuleType):
    """As much of JAX as is called here: one process with two devices; its arrays are NumPy's."""

    class sharding:
        Mesh = NamedSharding = staticmethod(lambda *arguments: arguments)
        PartitionSpec = staticmethod(lambda *arguments: arguments)

    local_device_count = staticmethod(lambda: 2)
    process_count = staticmethod(lambda: 1)
    devices = staticmethod(lambda: [0, 1])

    @staticmethod
    def make_array_from_process_local_data(sharding: Any, array: Any, shape: Any) -> Any:
        assert array.shape == shape
        return np.array(array)


def test_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", FakeJax("jax"))
    ds = weir.range(10)
    batches = ds.iter_jax_batches(batch_size=4, drop_last=True, dtypes=np.float32)
    for _ in range(2):
        assert [batch["id"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    padded = list(ds.iter_jax_batches(batch_size=4, paddings={"id": -1}))
    assert padded[-1]["id"].tolist() == [8, 9, -1, -1]
    with pytest.raises(ValueError, match="divisible by the number of local JAX devices"):
        ds.iter_jax_batches(batch_size=3)
    with pytest.raises(ValueError, match="local batch size"):
        list(weir.range(9).iter_jax_batches(batch_size=4))

    class First(NumpyBatchCollateFn):
        def __call__(self, batch: dict[str, Any]) -> Any:
            return batch["id"]

    assert [b.tolist() for b in ds.iter_jax_batches(batch_size=10, collate_fn=First())] == [list(range(10))]


def test_a_shuffle_buffer_is_as_large_as_it_was_asked_to_be(monkeypatch):
    """Also where batches come in pieces many times as large: rows that were drawn do not stay for long."""
    from weir import _local_shuffle

    held = []

    class Watched(_local_shuffle.Buffer):
        def add(self, batch):
            super().add(batch)
            held.append(sum(piece.num_rows for piece in self.pieces))

    monkeypatch.setattr(_local_shuffle, "Buffer", Watched)
    source = weir.range_tensor(200_000, shape=(64,), override_num_blocks=2).materialize()  # 512 B a row, 50 MB a block
    batches = list(source.iter_batches(batch_size=1000, local_shuffle_buffer_size=20_000, local_shuffle_seed=1))
    ids = np.concatenate([batch["data"][:, 0] for batch in batches])
    assert sorted(ids) == list(range(200_000)) and len(batches) == 200
    assert max(held) <= 2.5 * 20_000
    assert np.abs(np.arange(200_000) - ids)[:100_000].mean() > 2_000  # drawn from far and near
