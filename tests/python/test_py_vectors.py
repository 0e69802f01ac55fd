"""Vectors of numbers through chunks, functions and tensors: the rows are those of the file however they are cut."""
import random

import numpy
import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.compute")
pytest.importorskip("pyarrow.parquet")

import weir  # noqa: E402


def table_of(rng, rows, size, nulls):
    """Columns of fixed width; from a random row on, nulls in some of them."""
    numbers = numpy.random.default_rng(rng.randrange(1 << 30))
    from_row = rng.randrange(rows) if nulls else rows
    mask = numpy.array([i >= from_row and rng.random() < 0.3 for i in range(rows)])
    none = numpy.zeros(rows, bool)
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(numbers.random(rows * size, dtype=numpy.float32)), size,
                                                     mask=pyarrow.array(mask) if "v" in nulls else None)
    return pyarrow.table({
        "i": numpy.arange(rows), "v": vectors,
        "x": pyarrow.array(numbers.random(rows), mask=mask if "x" in nulls else none),
        "w": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(numbers.integers(0, 99, rows * 3, dtype=numpy.int16)), 3)})


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(24))
def test_rows_through_chunks(tmp_path, seed):
    rng = random.Random(seed)
    print("seed", seed)
    rows, size = rng.randrange(1, 60_000), rng.choice([1, 5, 64])
    table = table_of(rng, rows, size, rng.choice(["", "", "v", "x", "vx"]))
    for part in range(3):
        begin, end = rows * part // 3, rows * (part + 1) // 3
        pyarrow.parquet.write_table(table.slice(begin, end - begin), tmp_path / f"{part}.parquet", use_dictionary=False,
                                    compression=rng.choice(["none", "snappy"]), row_group_size=rng.choice([rows, 5000, 777]))
    ds = weir.read_parquet(str(tmp_path))
    want = table
    if rng.random() < 0.3:
        ds = ds.filter(expr="i % 3 != 1")
        want = want.filter(pyarrow.compute.not_equal(pyarrow.array([i % 3 for i in range(rows)]), 1))
    if rng.random() < 0.3:
        ds, want = ds.select_columns(["w", "i"]), want.select(["w", "i"])
    if rng.random() < 0.5:
        size = rng.choice([None, 1, 100, 1024, 5000])
        got = pyarrow.table(ds.map_batches(lambda batch: batch, batch_size=size if size != 1 else 7, batch_format="pyarrow"))
    else:
        got = pyarrow.table(ds.materialize())
    assert got.column_names == want.column_names
    for name in want.column_names:
        assert got[name].combine_chunks().equals(want[name].combine_chunks()), name


def test_batches_of_any_size(tmp_path):
    """Tensors may be written to, and writing to one changes no other."""
    torch = pytest.importorskip("torch")
    table = table_of(random.Random(1), 20_000, 64, "").select(["i", "v"])
    pyarrow.parquet.write_table(table, tmp_path / "v.parquet", use_dictionary=False, compression="none", row_group_size=3000)
    want = table["v"].combine_chunks().flatten().to_numpy().reshape(-1, 64)
    for size in (256, 1000, 1024, 7000):
        at = 0
        for batch in weir.read_parquet(str(tmp_path)).iter_torch_batches(batch_size=size):
            assert batch["v"].shape == (min(size, 20_000 - at), 64) and batch["v"].dtype == torch.float32
            assert (batch["v"].numpy() == want[at:at + len(batch["v"])]).all()
            batch["v"].fill_(-1)
            at += len(batch["v"])
        assert at == 20_000
