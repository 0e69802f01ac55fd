"""Rows of up to a sixteenth of the memory limit go through each exchange, and larger ones through some, in amounts that do not fit."""
import random

import pytest

import weir
from driver_scripts import not_sanitized

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pc = pytest.importorskip("pyarrow.compute")
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
    "sort by them": lambda ds, path: ds.sort("t", descending=True),
    "random_shuffle": lambda ds, path: ds.random_shuffle(seed=1),
    "repartition by keys": lambda ds, path: ds.repartition(8, keys=["k"]),
    "group by them": lambda ds, path: ds.groupby("t").count(),
    "aggregate them": lambda ds, path: ds.groupby("k").aggregate(weir.aggregate.Max("t")),
    "join": lambda ds, path: ds.join(weir.read_parquet(path).rename_columns({"t": "u"}), "inner", 4, on=("k",)),
    "zip": lambda ds, path: ds.zip(weir.read_parquet(path, columns=["k"]).rename_columns({"k": "l"})),
}


@pytest.mark.sample(8)
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


@pytest.fixture
def session(tmp_path):
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=LIMIT, spill_dir=str(tmp_path))
    yield
    weir.shutdown()


EIGHTHS = ["sort", "random_shuffle", "repartition by keys", "join", "zip"]


@pytest.fixture(scope="module")
def eighths(tmp_path_factory):
    path = tmp_path_factory.mktemp("eighth") / "rows.parquet"
    order = random.Random(1).sample(range(40), 40)
    with pq.ParquetWriter(path, pa.schema([("k", pa.int64()), ("t", pa.string())]), compression="zstd") as writer:
        for i in order:
            writer.write_table(pa.table({"k": [i], "t": [f"{i:09d}" + "abcdefgh" * 1_000_000]}))
    return str(path)


@pytest.mark.sample(5)
@pytest.mark.parametrize("cpus", [1, 2, 7])
@pytest.mark.parametrize("job", EIGHTHS)
def test_rows_of_an_eighth_of_the_limit(job, cpus, eighths, tmp_path):
    """A merge has one of them open, however many runs there are."""
    weir.shutdown()
    weir.init(num_cpus=cpus, memory_limit=LIMIT, spill_dir=str(tmp_path))
    try:
        seen = []
        for batch in JOBS[job](weir.read_parquet(eighths), eighths).iter_batches(batch_size=None, batch_format="pyarrow"):
            seen += [(k, int(t.as_py()[:9])) for k, t in zip(batch["k"].to_pylist(), batch["t"])]
            del batch
        assert [k for k, _ in seen] == [t for _, t in seen]
        assert sorted(k for k, _ in seen) == list(range(40))
        assert job != "sort" or seen == sorted(seen)
    finally:
        weir.shutdown()


WIDE = {
    "texts": lambda: pa.array([chr(97 + i % 26) * 50_000 for i in range(40)]),
    "lists": lambda: pa.array([[i] * 6_000 for i in range(40)], pa.list_(pa.int64())),
    "one text": lambda: pa.array(["x" * (1_000_000 if i == 7 else 10) for i in range(40)]),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("how", ["inner", "left_outer", "full_outer"])
@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("keys", ["one row each", "many rows each"])
def test_few_wide_rows_joined_to_many(keys, wide, how, session):
    """A vector of the result has no more bytes than others, though the rows that it is made of repeat."""
    column, many = WIDE[wide](), 1_500
    length = pc.list_value_length if wide == "lists" else pc.binary_length
    sizes = [len(value) for value in column.to_pylist()]
    groups = 40 if keys == "one row each" else 4
    wides = weir.from_arrow(pa.table({"k": [i % groups for i in range(40)], "w": column}))
    left = [7 if wide == "one text" and i % 3 else i % (groups + 1) for i in range(many)]  # one of the keys has no partner
    narrow = weir.from_arrow(pa.table({"k": left, "i": range(many)}))
    partners = {k: [size for i, size in enumerate(sizes) if i % groups == k] for k in range(groups)}
    rows = sum(len(partners.get(k, ())) or (how != "inner") for k in left)
    rest = sum(len(found) for k, found in partners.items() if k not in left) if how == "full_outer" else 0
    total = sum(sum(partners.get(k, ())) for k in left) + sum(sum(found) for k, found in partners.items() if k not in left and rest)
    for joined in (narrow.join(wides, how, 4, on=("k",)), wides.join(narrow, {"left_outer": "right_outer"}.get(how, how), 4, on=("k",))):
        seen = found = 0
        for batch in joined.iter_batches(batch_size=None, batch_format="pyarrow"):
            seen += batch.num_rows
            found += pc.sum(length(batch["w"])).as_py() or 0
            assert batch.nbytes < LIMIT / 2
            del batch
        assert (seen, found) == (rows + rest, total)


def test_wide_rows_without_a_partner(session):
    """Those of the side that is held come last, a vector at a time."""
    wides = weir.from_arrow(pa.table({"k": range(300), "w": [chr(97 + i % 26) * 50_000 for i in range(300)]}))
    narrow = weir.from_arrow(pa.table({"k": range(1000, 1010), "i": range(10)}))
    seen = []
    for batch in narrow.join(wides, "right_outer", 4, on=("k",)).iter_batches(batch_size=None, batch_format="pyarrow"):
        seen += batch["k"].to_pylist()
        assert pc.all(pc.equal(pc.binary_length(batch["w"]), 50_000)).as_py()
        del batch
    assert sorted(seen) == list(range(300))


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("made", ["AsList", "Unique"])
def test_groups_of_wide_values_beside_many_narrow_ones(made, cpus, session, tmp_path_factory):
    """Results are put out by their bytes, and keys are read by theirs: groups that come one after another may be wide all of a sudden."""
    weir.shutdown()
    weir.init(num_cpus=cpus, memory_limit=LIMIT)
    path = tmp_path_factory.mktemp("values") / "rows.parquet"
    with pq.ParquetWriter(path, pa.schema([("g", pa.int64()), ("t", pa.string())]), compression="zstd") as writer:
        for i in range(60):
            writer.write_table(pa.table({"g": [*range(i * 1000, i * 1000 + 1000), *range(-i * 50 - 50, -i * 50)],
                                         "t": ["ab"] * 1000 + [f"{-g:06d}" * 8_000 for g in range(-i * 50 - 50, -i * 50)]}))
    seen, lengths = [], []
    ds = weir.read_parquet(str(path)).groupby("g").aggregate(getattr(weir.aggregate, made)("t", alias_name="l"))
    for batch in ds.iter_batches(batch_size=None, batch_format="pyarrow"):
        seen += batch["g"].to_pylist()
        lengths += pc.binary_length(pc.list_flatten(batch["l"])).to_pylist()
        assert batch.nbytes < LIMIT / 4
        del batch
    assert sorted(seen) == list(range(-3000, 60_000))
    assert lengths == [48_000 if g < 0 else 2 for g in seen]


@pytest.mark.sample(4)
@pytest.mark.parametrize("common", [0, 1021, 1024, 50_000])
def test_long_keys_that_begin_alike(common, session, tmp_path_factory):
    """Fences have the first kilobyte of a key: what is equal there is told apart by reading, or equal altogether. Rows of any size are beside each other."""
    draw = random.Random(common)
    rows = []
    for i in range(200):
        text = None if draw.random() < 0.05 else "p" * common + f"{draw.randrange(20):03d}" + "\0x"[draw.randrange(2)] * draw.randrange(3) + "q" * draw.choice([5, 2_000, 300_000, 900_000])
        rows.append({"i": i, "g": draw.randrange(3), "t": text})
    path = tmp_path_factory.mktemp("alike") / "rows.parquet"
    with pq.ParquetWriter(path, pa.schema([("i", pa.int64()), ("g", pa.int64()), ("t", pa.string())]), compression="zstd") as writer:
        for begin in range(0, len(rows), 3):
            writer.write_table(pa.Table.from_pylist(rows[begin : begin + 3], writer.schema))
    for is_descending in (False, True):
        wanted = sorted((row for row in rows if row["t"] is not None), key=lambda row: row["t"].encode(), reverse=is_descending)
        wanted += [row for row in rows if row["t"] is None]
        seen = [i for batch in weir.read_parquet(str(path)).sort("t", descending=is_descending).iter_batches(batch_size=None) for i in batch["i"].tolist()]
        assert seen == [row["i"] for row in wanted]
    groups = {}
    for row in rows:
        groups.setdefault((row["g"], row["t"]), []).append(row["i"])
    made = weir.read_parquet(str(path)).groupby(["g", "t"]).map_groups(lambda group: {"first": [min(group["i"])], "count": [len(group["i"])]}, batch_format="numpy")
    assert sorted((row["first"], row["count"]) for row in made.take_all()) == sorted((min(found), len(found)) for found in groups.values())


def test_rows_that_are_too_large(session, tmp_path, tmp_path_factory):
    """Which row it is, how large, of what operator, and what would help."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    with pq.ParquetWriter(path, pa.schema([("k", pa.int64()), ("t", pa.string())]), compression="zstd") as writer:
        for i in range(6):
            writer.write_table(pa.table({"k": [-i], "t": ["abcdefgh" * 2_500_000]}))
    ds = weir.read_parquet(str(path))
    large = "; the row has 19.1 MiB"
    for job, operator, size in ((ds.sort("k"), "sort", large), (ds.random_shuffle(seed=1), "shuffle", large), (ds.groupby("t").count(), "(group|read, column t)", "")):
        with pytest.raises(MemoryError, match=rf"rows\.parquet: operator {operator}, row \d+: .* MiB more .* give at least .*{size}"):
            for _ in job.iter_batches(batch_size=None):
                pass
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_has_no_room_for_a_worker(session):
    """pandas alone takes most of it. The advice is true."""
    pytest.importorskip("pandas")

    def groups():
        return weir.range(10_000).map_batches(lambda batch: {"k": batch["id"] % 7}).groupby("k").map_groups(lambda group: group[:1], batch_format="pandas").count()

    with pytest.raises(MemoryError, match=r"one worker of each stage needs 56.0 MiB, and what else is in memory leaves .*: give at least") as raised:
        groups()
    enough = float(str(raised.value).split("give at least ")[1].split(" MiB")[0])
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=int((enough + 8) * 2**20))
    assert groups() == 7
