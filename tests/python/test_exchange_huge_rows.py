"""Rows of up to a sixteenth of the memory limit go through each exchange, in amounts that do not fit."""
import pytest

import weir
from driver_scripts import not_sanitized

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = not_sanitized
LIMIT = 64 << 20
SIZES = [60_000, 4_000_000]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Files of some 130 MB of rows that are one long text each; a row is a row group, and takes little room."""
    folder, made = tmp_path_factory.mktemp("huge"), {}
    for size in SIZES:
        count = 2 * LIMIT // size
        with pq.ParquetWriter(folder / f"{size}.parquet", pa.schema([("k", pa.int64()), ("t", pa.string())]), compression="zstd") as writer:
            for i in range(count):
                writer.write_table(pa.table({"k": [i * 2654435761 % 4294967291], "t": [f"{i:09d}" + "abcdefghij" * (size // 10)]}))
        made[size] = (str(folder / f"{size}.parquet"), count)
    return made


JOBS = {
    "sort": lambda ds, path: ds.sort("k"),
    "random_shuffle": lambda ds, path: ds.random_shuffle(seed=1),
    "repartition by keys": lambda ds, path: ds.repartition(8, keys=["k"]),
    "group by them": lambda ds, path: ds.groupby("t").count(),
    "aggregate them": lambda ds, path: ds.groupby("k").aggregate(weir.aggregate.Max("t")),
    "join": lambda ds, path: ds.join(weir.read_parquet(path).rename_columns({"t": "u"}), "inner", 4, on=("k",)),
    "zip": lambda ds, path: ds.zip(weir.read_parquet(path, columns=["k"]).rename_columns({"k": "l"})),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("job", JOBS)
def test_each_exchange(job, size, tables, tmp_path):
    path, count = tables[size]
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=LIMIT, spill_dir=str(tmp_path))
    try:
        seen, keys = set(), []
        for batch in JOBS[job](weir.read_parquet(path), path).iter_batches(batch_size=None, batch_format="pyarrow"):
            texts = batch[next(name for name in batch.column_names if name in ("t", "max(t)"))].to_pylist()
            assert all(len(text) == 9 + size // 10 * 10 for text in texts)
            seen |= {int(text[:9]) for text in texts}
            keys += batch["k"].to_pylist() if "k" in batch.column_names else []
            del batch, texts
        assert seen == set(range(count))
        assert job != "sort" or keys == sorted(keys)
        assert list(tmp_path.iterdir()) == []
    finally:
        weir.shutdown()
