"""Exchanges that spill rows of shapes that cost more than their bytes: hundreds of columns, dictionaries with many values, nested columns, nulls
everywhere. The rows are the same as pyarrow's, on 1, 2 and 7 lanes, and no more goes to disk than they are."""
import re

import numpy as np
import pytest

import weir

pa = pytest.importorskip("pyarrow")
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

LIMIT = 64 << 20


@pytest.fixture(autouse=True)
def apart():
    weir.shutdown()  # of tests before, which leave theirs
    yield
    weir.shutdown()


def texts(rng, rows, most):
    sizes = rng.integers(0, most + 1, rows)
    letters = rng.integers(97, 123, int(sizes.sum()), dtype=np.uint8)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(letters)])


def with_nulls(rng, array, share=0.3):
    return pc.if_else(pa.array(rng.random(len(array)) > share), array, pa.scalar(None, array.type))


def keys(rows):
    """Each number another one, in no order."""
    return (np.arange(rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def wide(rng):
    rows = 45_000
    columns = {f"c{i}": rng.random(rows) for i in range(180)} | {f"s{i}": texts(rng, rows, 12) for i in range(20)}
    return pa.table({"id": np.arange(rows), "k": keys(rows), **columns})


def coded(rng):
    """Each column's words are the same in all rows, and far more than a chunk has rows."""
    rows = 1_000_000
    words = pa.array([f"a word with the number {i}" for i in range(5000)])
    columns = {f"d{i}": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 5000, rows, dtype=np.int16)), words) for i in range(4)}
    columns["d0"] = pa.DictionaryArray.from_arrays(with_nulls(rng, pa.array(rng.integers(0, 5000, rows, dtype=np.int16))), words)
    columns["few"] = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, rows, dtype=np.int8)), pa.array(["x", "y", "z"]))
    return pa.table({"id": np.arange(rows), "k": keys(rows), **columns})


def nested(rng):
    rows = 700_000
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 5, rows))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(rng.integers(0, 1000, int(ends[-1]))))
    inner = pa.StructArray.from_arrays([with_nulls(rng, texts(rng, rows, 20)), pa.array(rng.random(rows))], ["a", "b"])
    return pa.table({"id": np.arange(rows), "k": keys(rows), "l": lists, "st": inner, "n": pa.nulls(rows),
                     "b": with_nulls(rng, pa.array(rng.random(rows) < 0.5)),
                     "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 3, dtype=np.float32)), 3)})


def as_values(table):
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


# What may go to disk: of rows with codes, what they and their values take.
SHAPES = {"wide": (wide, 1.1), "coded": (coded, 1.2), "nested": (nested, 1.1)}


def own(table):
    """A copy: what the engine gave counts towards its limit while it is held."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def rows_of(ds):
    found = pa.concat_tables([as_values(own(batch)) for batch in ds.iter_batches(batch_size=None, batch_format="pyarrow")])
    return found.combine_chunks(), ds.get_stats_summary().dataset_bytes_spilled


@pytest.mark.full
@pytest.mark.parametrize("cpus", [1, 2, 7])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_that_spill(shape, cpus, tmp_path):
    make, most = SHAPES[shape]
    table = make(np.random.default_rng(7))
    files = []
    for i in range(8):
        part = table.slice(table.num_rows * i // 8, table.num_rows * (i + 1) // 8 - table.num_rows * i // 8)
        files.append(str(tmp_path / f"{i}.parquet"))
        pq.write_table(part, files[-1], row_group_size=5_000 if shape == "wide" else 20_000)
    plain = as_values(table).combine_chunks()
    del table
    weir.init(num_cpus=cpus, memory_limit=LIMIT, spill_dir=str(tmp_path))
    ds = weir.read_parquet(files)

    found, spilled = rows_of(ds.sort("k"))
    assert found.equals(plain.take(pc.sort_indices(plain["k"])))
    assert LIMIT / 2 < spilled <= most * plain.nbytes

    found, spilled = rows_of(ds.random_shuffle(seed=3))
    assert not found["id"].equals(plain["id"])
    assert found.take(pc.sort_indices(found["id"])).equals(plain)
    assert LIMIT / 2 < spilled <= most * plain.nbytes

    found, spilled = rows_of(ds.repartition(16, keys=["k"]))
    assert found.take(pc.sort_indices(found["id"])).equals(plain)
    assert LIMIT / 2 < spilled <= most * plain.nbytes

    other = ds.select_columns(["k"]).rename_columns({"k": "j"})
    found, spilled = rows_of(ds.join(other, "full_outer", 8, on=("k",), right_on=("j",)))
    assert found.select(plain.column_names).take(pc.sort_indices(found["id"])).equals(plain)


@pytest.mark.parametrize("cpus", [2, 7])
def test_null_keys_are_in_no_partition_of_their_own(cpus, tmp_path):
    rng = np.random.default_rng(11)
    rows = 1_600_000
    table = pa.table({"id": np.arange(rows), "k": with_nulls(rng, pa.array(keys(rows)), 0.4), **{f"c{i}": rng.random(rows) for i in range(4)}})
    for i in range(8):
        pq.write_table(table.slice(rows * i // 8, rows // 8), tmp_path / f"{i}.parquet", row_group_size=20_000)
    nulls = table["k"].null_count
    weir.init(num_cpus=cpus, memory_limit=LIMIT, spill_dir=str(tmp_path))
    files = [str(tmp_path / f"{i}.parquet") for i in range(8)]
    right = weir.read_parquet(files).rename_columns({"id": "r", **{f"c{i}": f"d{i}" for i in range(4)}})
    joined = weir.read_parquet(files).join(right, "full_outer", 8, on=("k",))
    lefts, rights, pairs = [], [], 0
    for batch in joined.iter_batches(batch_size=None, batch_format="pyarrow"):
        left, right_ids = np.asarray(batch["id"].fill_null(-1)), np.asarray(batch["r"].fill_null(-1))
        lefts.append(left[left >= 0].copy())
        rights.append(right_ids[right_ids >= 0].copy())
        pairs += int((left == right_ids).sum())
    assert pairs == rows - nulls
    assert (np.sort(np.concatenate(lefts)) == np.arange(rows)).all() and (np.sort(np.concatenate(rights)) == np.arange(rows)).all()
    figures = joined.get_stats_summary()
    # Not once for each piece of a partition that has all of them.
    assert figures.global_bytes_restored <= 1.3 * figures.dataset_bytes_spilled


@pytest.mark.parametrize("cpus", [1, 2, 7])
def test_many_runs_of_every_width(cpus, tmp_path):
    """Of so many runs a merge copies each one's rows together before it puts them in order: values of each width, with nulls and stretches
    of one key among them, in memory and out of it."""
    rng = np.random.default_rng(cpus)
    files, each = 60, 9_000
    for number in range(files):
        k = np.where(rng.random(each) < 0.2, 7, rng.integers(-(2**40), 2**40, each))
        numbers = rng.integers(-100, 100, each)
        table = pa.table({
            "k": k, "place": np.arange(number * each, (number + 1) * each),
            "one": numbers.astype(np.int8), "two": numbers.astype(np.int16), "four": numbers.astype(np.float32),
            "nulls": pa.array(numbers, mask=rng.random(each) < 0.3), "sixteen": pa.array(numbers, pa.int64()).cast(pa.decimal128(30, 2)),
            "flags": numbers > 0, "texts": pa.array([f"text {n}" * (n & 3) for n in numbers]),
            "bytes": pa.array([n.to_bytes(11, "little", signed=True) for n in numbers.tolist()], pa.binary(11))})
        pq.write_table(table, tmp_path / f"{number:02}.parquet")
    for limit in (None, LIMIT):
        weir.init(num_cpus=cpus, **({"memory_limit": limit, "spill_dir": str(tmp_path)} if limit else {}))
        ds = weir.read_parquet(str(tmp_path), override_num_blocks=files).sort("k")
        came = pa.concat_tables(ds.iter_batches(batch_size=None, batch_format="pyarrow")).combine_chunks()
        assert int(re.search(r"(\d+) sorted runs", ds.stats())[1]) >= files
        kept = pa.concat_tables(ds.materialize().iter_batches(batch_size=None, batch_format="pyarrow")).combine_chunks()
        weir.shutdown()
        given = pq.read_table(tmp_path)
        expected = given.take(np.argsort(given["k"].to_numpy(), kind="stable")).combine_chunks()
        assert came.cast(expected.schema).equals(expected), limit
        assert kept.cast(expected.schema).equals(expected), limit
