"""Commands that look at data: stats, sample, validate, cat, convert; the verbs profile and sample."""
import csv
import decimal
import io
import json
import math
import random
import subprocess
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

SEED = 20261116


@pytest.fixture
def weir(weir_command):
    def run(*words, code=0, **options):
        done = subprocess.run([weir_command, *map(str, words)], capture_output=True, timeout=60, **options)
        assert done.returncode == code, done.stderr.decode()
        return done
    return run


@pytest.fixture(scope="module")
def table():
    rng = random.Random(SEED)
    n = 20_000

    def maybe(make):
        return [None if rng.random() < 0.1 else make() for _ in range(n)]

    return pa.table({
        "key": pa.array(range(n), pa.int64()),
        "tiny": pa.array(maybe(lambda: rng.randrange(-128, 128)), pa.int8()),
        "big": pa.array(maybe(lambda: rng.randrange(2**64)), pa.uint64()),
        "real": pa.array(maybe(lambda: rng.choice([rng.gauss(0, 1e6), math.inf, math.nan, -0.0, 0.0])), pa.float64()),
        "half": pa.array(maybe(lambda: rng.gauss(0, 10)), pa.float32()).cast(pa.float16()),
        "text": pa.array(maybe(lambda: "zügig"[:rng.randrange(6)] * rng.randrange(5)), pa.string()),
        "unique": pa.array([f"a longer value {i:08}" for i in range(n)], pa.large_string()),
        "raw": pa.array(maybe(lambda: rng.randbytes(rng.randrange(4))), pa.binary()),
        "flag": pa.array(maybe(lambda: rng.random() < 0.5), pa.bool_()),
        "day": pa.array(maybe(lambda: rng.randrange(-30000, 30000)), pa.int32()).cast(pa.date32()),
        "at": pa.array(maybe(lambda: rng.randrange(2**50)), pa.timestamp("us", tz="UTC")),
        "money": pa.array(maybe(lambda: decimal.Decimal(rng.randrange(-10**9, 10**9)) / 100), pa.decimal128(12, 2)),
        "code": pa.array(maybe(lambda: rng.choice(["x", "y", "zz"])), pa.string()).dictionary_encode(),
        "empty": pa.nulls(n, pa.int32()),
        "none": pa.nulls(n),
        "list": pa.array(maybe(lambda: [1] * rng.randrange(3)), pa.list_(pa.int64())),
    })


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    for i in range(4):
        pq.write_table(table.slice(i * 5000, 5000), path / f"part-{i}.parquet", row_group_size=1300)
    return path


def stats(weir, *words):
    lines = weir(*words, "-o", "jsonl").stdout.decode().splitlines()
    return {row["column"]: row for row in map(json.loads, lines)}


def as_python(text, type):
    """A bound as weir prints it, read back by pyarrow."""
    if pa.types.is_timestamp(type):
        return pc.strptime(pa.scalar(text[:19].replace("T", " ")), "%Y-%m-%d %H:%M:%S", "us").as_py().replace(
            microsecond=int((text[19:].strip("Z").split("+")[0].strip(".") or "0").ljust(6, "0")))
    return pa.scalar(text).cast(type).as_py()


@pytest.mark.parametrize("threads", [1, 4])
def test_stats_agree_with_pyarrow(weir, table, folder, threads):
    found = stats(weir, "stats", folder, "--threads", threads)
    assert list(found) == table.column_names
    for name in table.column_names:
        column, row = table[name], found[name]
        assert row["rows"] == len(column)
        assert row["nulls"] == column.null_count
        values = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        if pa.types.is_list(values.type):
            assert row["min"] is None and row["distinct"] is None
            continue
        distinct = len(values.drop_null().unique()) - (1 if name == "real" else 0)  # -0.0 is 0.0
        assert abs(row["distinct"] - distinct) <= max(1, 0.03 * distinct), name
        kept = [v for v in values.drop_null().to_pylist() if v == v]
        if not kept:
            assert row["min"] is None and row["max"] is None
        elif name == "raw":
            assert row["min"] is not None
        elif name == "half":
            assert float(row["min"]) == float(min(kept)) and float(row["max"]) == float(max(kept))
        elif name == "at":
            assert as_python(row["min"], values.type) == min(kept).replace(tzinfo=None)
            assert as_python(row["max"], values.type) == max(kept).replace(tzinfo=None)
        else:
            assert as_python(row["min"], values.type) == min(kept)
            assert as_python(row["max"], values.type) == max(kept)


def test_quick_stats_are_those_of_a_pass(weir, table, folder, tmp_path):
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=999)
    pq.write_table(table, tmp_path / "b.parquet", write_statistics=False)
    for path in (folder, folder / "part-1.parquet", tmp_path / "a.parquet"):
        slow, quick = stats(weir, "stats", path), stats(weir, "stats", path, "--quick")
        for name, row in slow.items():
            if name != "list":
                assert quick[name] == {**row, "distinct": None}, name
        assert quick["list"]["nulls"] is None
    # Without statistics everything is looked at.
    assert stats(weir, "stats", tmp_path / "b.parquet") == stats(weir, "stats", tmp_path / "b.parquet", "--quick")
    lines = weir("explain", f"read {tmp_path}/a.parquet then profile --quick").stdout.decode()
    assert "profile, from footers" in lines and "stops after 0 rows" in lines


def test_profile_ends_a_chain(weir, table, folder):
    found = stats(weir, "read", folder, "then", "filter", "key < 700 and flag", "then", "select", "key,text", "then", "profile")
    kept = table.filter(pc.and_(pc.less(table["key"], 700), table["flag"]))
    assert list(found) == ["key", "text"]
    assert found["key"]["rows"] == len(kept)
    assert found["key"]["max"] == str(pc.max(kept["key"]).as_py())


def test_stats_of_nothing(weir, tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    assert stats(weir, "stats", tmp_path / "a.parquet")["a"] == {
        "column": "a", "type": "int64", "rows": 0, "nulls": 0, "min": None, "max": None, "distinct": 0}


def test_stats_table_for_people(weir, folder):
    out = weir("stats", folder, "-o", "table").stdout.decode()
    assert out.splitlines()[0].split() == ["column", "type", "rows", "nulls", "min", "max", "distinct"]


def sample(weir, *words):
    return [int(row["key"]) for row in csv.DictReader(io.StringIO(weir(*words).stdout.decode()))]


def test_sample_is_the_same_for_any_number_of_threads(weir, folder):
    draws = [sample(weir, "sample", folder, "--columns", "key", "-n", 500, "--seed", 3, "--threads", t) for t in (1, 2, 5)]
    assert draws[0] == draws[1] == draws[2]
    assert draws[0] == sorted(set(draws[0])) and len(draws[0]) == 500
    assert sample(weir, "sample", folder, "--columns", "key", "-n", 500, "--seed=4") != draws[0]


def test_sample_takes_all_when_there_are_few(weir, folder):
    assert sample(weir, "read", folder, "then", "filter", "key < 9", "then", "select", "key", "then", "sample", 20) == list(range(9))
    assert sample(weir, "sample", folder, "-n", 0, "--columns", "key") == []


def test_every_row_is_drawn_equally_often(weir, folder):
    """Chi-square over 40 buckets of 500 rows: 60 draws of 1,000 rows; df 39, p = 0.0001 at 84."""
    counts = Counter()
    for seed in range(60):
        counts.update(key // 500 for key in sample(weir, "sample", folder, "--columns", "key", "-n", 1000, "--seed", seed))
    expected = 60 * 1000 / 40
    assert sum((counts[b] - expected) ** 2 / expected for b in range(40)) < 84


def test_sample_carries_every_type(weir, table, folder, tmp_path):
    out = weir("sample", folder, "-n", 300, "-o", "arrow").stdout
    drawn = pa.ipc.open_stream(out).read_all()
    expected = table.take(drawn["key"])
    for name in table.column_names:
        if name != "real":  # NaN is not equal to itself
            assert drawn[name].to_pylist() == expected[name].to_pylist(), name


def test_seed_must_be_a_number(weir, folder):
    assert b"--seed wants a whole number" in weir("sample", folder, "--seed", "x", code=2).stderr


def test_validate_names_what_is_wrong_and_goes_on(weir, folder, tmp_path):
    good = (folder / "part-0.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(good)
    (tmp_path / "b.parquet").write_bytes(good[:-100])
    damaged = bytearray(good)
    damaged[200:260] = bytes(60)
    (tmp_path / "c.parquet").write_bytes(damaged)
    (tmp_path / "notes.md").write_text("nothing")
    done = weir("validate", tmp_path, code=1)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"{tmp_path}/a.parquet: good, 5000 rows, 16 columns"
    assert lines[1].startswith(f"{tmp_path}/b.parquet: ") and "good" not in lines[1]
    assert lines[2].startswith(f"{tmp_path}/c.parquet: ") and "column" in lines[2]
    assert lines[3] == "1 good, 2 bad, 1 of no format that weir reads"
    assert weir("validate", tmp_path / "a.parquet").stdout.decode().count("\n") == 1
    assert b"no such file" in weir("validate", tmp_path / "nothing", code=1).stderr


def test_cat_passes_everything_on(weir, table, folder):
    rows = list(csv.DictReader(io.StringIO(weir("cat", folder, "--columns", "key,text").stdout.decode())))
    assert [int(row["key"]) for row in rows] == table["key"].to_pylist()
    lines = weir("cat", folder, "--columns", "key", "-o", "jsonl").stdout.decode().splitlines()
    assert [json.loads(line)["key"] for line in lines] == table["key"].to_pylist()
    assert b"head shows tables" in weir("cat", folder, "-o", "table", code=2).stderr


def test_convert_takes_options_of_both_sides(weir, table, folder, tmp_path):
    weir("convert", folder, "--columns", "key,tiny", tmp_path / "all.parquet", "--compression", "zstd")
    back = pq.read_table(tmp_path / "all.parquet")
    assert back.equals(table.select(["key", "tiny"]))
    assert pq.ParquetFile(tmp_path / "all.parquet").metadata.row_group(0).column(0).compression == "ZSTD"
    weir("convert", folder, f"--columns=key", tmp_path / "out" / "")
    assert pq.read_table(tmp_path / "out")["key"].to_pylist() == table["key"].to_pylist()
    assert b"convert what into what" in weir("convert", folder, code=2).stderr
    assert b"exists" in weir("convert", folder, tmp_path / "all.parquet", code=1).stderr


def test_what_is_not_read_from_front_to_back_comes_from_a_pipe_too(weir, table, folder):
    data = (folder / "part-2.parquet").read_bytes()
    assert weir("read", "-", "then", "count", input=data).stdout == b"5000\n"
    keys = weir("read", "-", "--format", "parquet", "then", "filter", "key < 10_005", "then", "select", "key", input=data)
    assert keys.stdout == b"key\n10000\n10001\n10002\n10003\n10004\n"
    assert b"TMPDIR" not in weir("read", "-", "then", "count", input=data[:5000], code=1).stderr
    failed = weir("read", "-", "then", "count", input=data, code=1, env={"TMPDIR": "/nowhere"})
    assert b"/nowhere" in failed.stderr
