"""JSON through the engine: files, folders, pipes and compressed names; ranges on two lanes; runs that begin again; limits."""
import bz2
import gzip
import json
import lzma
import os
import random
import subprocess

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from weir_chain import ChainError, quote, run, stream
from weir_ctypes import ROOT

WEIR = ROOT / os.environ.get("WEIR_BUILD", "build") / "weir"


def weir(*words, input=None):
    return subprocess.run([WEIR, *map(str, words)], input=input, capture_output=True)


def events(count, seed=1):
    rng = random.Random(seed)
    words = ["alpha", "beta", 'ga"mma', "дельта", "x" * 30, ""]
    return [{
        "id": n, "price": rng.choice([n / 7, float(n), None]), "name": rng.choice(words), "ok": rng.random() < 0.5,
        "tags": [rng.choice(words) for _ in range(rng.randint(0, 3))],
        "geo": {"lat": rng.uniform(-90, 90), "at": {"zone": rng.choice(words)}} if rng.random() < 0.8 else None,
        **({"rare": rng.randint(0, 9)} if rng.random() < 0.3 else {}),
    } for n in range(count)]


def complete(rows):
    return [{**row, "rare": row.get("rare")} for row in rows]


LAYOUTS = {
    "lines": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "array": lambda rows: json.dumps(rows),
    "pretty": lambda rows: json.dumps(rows, indent=2),
    "objects": lambda rows: "".join(json.dumps(row, indent=1) for row in rows),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_come_back_in_order(tmp_path, layout):
    rows = events(40000)
    path = tmp_path / "x.json"
    path.write_text(LAYOUTS[layout](rows))
    table = stream(f"read {quote(path)}")
    assert [row["id"] for row in table.select(["id"]).to_pylist()] == list(range(40000))
    order = table.schema.names
    assert [{name: row[name] for name in order} for row in complete(rows)] == table.to_pylist()


def test_the_same_answers_as_duckdb(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(LAYOUTS["lines"](events(60000, seed=5)))
    theirs = duckdb.sql(f"select name, price, geo.lat as lat, len(tags) as n from read_json('{path}') where id % 3 = 1 and ok")
    ours = stream(f"read {quote(path)} then filter 'id % 3 == 1 and ok' then with lat=geo.lat 'n=len(tags)' then select name,price,lat,n")
    assert ours.to_pylist() == theirs.arrow().read_all().to_pylist()


def test_some_columns(tmp_path):
    rows = events(30000)
    path = tmp_path / "x.jsonl"
    path.write_text(LAYOUTS["lines"](rows))
    table = stream(f"read {quote(path)} --columns name,id then filter 'id > 29990'")
    assert table.to_pylist() == [{"name": row["name"], "id": row["id"]} for row in rows[29991:]]


def test_compressed_names_and_pipes(tmp_path):
    rows = events(5000)
    text = LAYOUTS["lines"](rows).encode()
    for name, data in {"a.jsonl": text, "a.json.gz": gzip.compress(text), "a.ndjson.bz2": bz2.compress(text),
                       "a.jsonl.xz": lzma.compress(text)}.items():
        (tmp_path / name).write_bytes(data)
        assert stream(f"read {quote(tmp_path / name)}").num_rows == 5000
    done = weir("read", "-", "--format", "jsonl", "then", "filter", "id >= 4998", "then", "select", "id", "then", "write", "-",
                "--format", "jsonl", input=text)
    assert done.stdout == b'{"id":4998}\n{"id":4999}\n', done.stderr
    done = weir("read", "-", "--format", "json", "then", "count", input=json.dumps(rows).encode())
    assert done.stdout.split()[-1] == b"5000", done.stderr


def test_ten_thousand_small_files(tmp_path):
    for n in range(10000):
        (tmp_path / f"{n:05}.json").write_text('[{"n": %d}, {"n": %d}]' % (2 * n, 2 * n + 1) if n % 2 else
                                               '{"n": %d}\n{"n": %d}' % (2 * n, 2 * n + 1))
    table = stream(f"read {quote(tmp_path)}")
    assert table.column("n").to_pylist() == list(range(20000))


def test_folders_with_partitions_and_paths(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "x.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    table = stream(f"read {quote(tmp_path)} --path-column from")
    assert table.column("year").to_pylist() == [2020, 2020, 2021, 2021] and table.column("from")[0].as_py().endswith("x.jsonl")


# ---- data that disagrees with the sample ----

def late(tmp_path, *lines):
    """A file whose last lines no sample sees: behind the head, before the middle."""
    path = tmp_path / "late.jsonl"
    row = '{"a": 1, "s": {"x": 1}, "l": [1]}\n'
    path.write_text(row * 60000 + "".join(line + "\n" for line in lines) + row * 10000)
    assert path.stat().st_size < 8 << 20
    return path


def test_a_run_into_files_begins_again(tmp_path):
    path = late(tmp_path, '{"a": 2.5, "s": {"x": "t", "y": true}, "l": [0.5]}', '{"new": [{"k": 1}]}')
    out = tmp_path / "out.parquet"
    done = weir("read", path, "then", "write", out)
    assert done.returncode == 0 and b"reading again" in done.stderr
    table = pa.parquet.read_table(out)
    assert table.schema == pa.schema([
        ("a", pa.float64()), ("s", pa.struct([("x", pa.string()), ("y", pa.bool_())])), ("l", pa.list_(pa.float64())),
        ("new", pa.list_(pa.struct([("k", pa.int64())])))])
    assert table.slice(60000, 2).to_pylist() == [
        {"a": 2.5, "s": {"x": "t", "y": True}, "l": [0.5], "new": None},
        {"a": None, "s": None, "l": None, "new": [{"k": 1}]}]
    assert table.slice(0, 1).to_pylist() == [{"a": 1.0, "s": {"x": "1", "y": None}, "l": [1.0], "new": None}]
    assert table.num_rows == 70002


@pytest.mark.parametrize("line, column", [('{"a": "x"}', "a"), ('{"new": 1}', "new"), ('{"s": [1]}', "s")])
def test_rows_that_have_left_cannot_be_taken_back(tmp_path, line, column):
    path = late(tmp_path, line)
    done = weir("read", path, "then", "write", "-", "--format", "jsonl")
    assert done.returncode != 0
    assert b"late.jsonl" in done.stderr and b"line 60001" in done.stderr and f"column {column}".encode() in done.stderr
    assert b"--infer all" in done.stderr
    for fix in (["--infer", "all"], ["--types", f"{column}=string", "--unexpected", "ignore"]):
        done = weir("read", path, *fix, "then", "count")
        assert done.stdout.split()[-1] == b"70001", done.stderr


def test_errors_in_later_ranges_have_their_line(tmp_path):
    rows = [{"id": n, "text": "x" * (n % 100)} for n in range(100000)]
    text = LAYOUTS["lines"](rows)
    path = tmp_path / "x.jsonl"
    path.write_text(text + '{"id": 1e}\n' + '{"id": 2}\n')
    with pytest.raises(ChainError, match="line 100001.*column 8"):
        stream(f"read {quote(path)} --types id=int64,text=string --infer sample then filter 'id >= 0'")
    pretty = json.dumps(rows, indent=1)
    broken = pretty[: -len('"\n }\n]')] + '" x\n }\n]'
    path.write_text(broken)
    with pytest.raises(ChainError, match=f"line {broken.count(chr(10)) - 1}\\b"):
        stream(f"read {quote(path)}")


# ---- limits ----

def test_a_long_line(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text('{"a": "short"}\n{"a": "%s"}\n{"a": "end"}\n' % ("x" * 60_000_000))
    done = weir("--memory-limit", "64M", "read", path, "then", "write", tmp_path / "no.parquet")
    assert done.returncode != 0 and b"line 2" in done.stderr and b"60000009 bytes" in done.stderr, done.stderr
    done = weir("--memory-limit", "400M", "read", path, "then", "write", tmp_path / "yes.jsonl")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "yes.jsonl").stat().st_size > 60_000_000


def test_a_small_limit(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(LAYOUTS["lines"](events(100000)))
    done = weir("--memory-limit", "64M", "read", path, "then", "write", tmp_path / "x.parquet")
    assert done.returncode == 0, done.stderr
    assert pa.parquet.read_metadata(tmp_path / "x.parquet").num_rows == 100000


def test_what_weir_writes_comes_back(tmp_path):
    table = pa.table({
        "i": pa.array([1, None, -(2**63)], pa.int64()), "d": pa.array([0.1, 1e300, None]), "t": pa.array(["a\"\n", "é😀", None]),
        "ts": pa.array([0, 10**15, None], pa.timestamp("us")), "day": pa.array([0, 20000, None], pa.date32()),
        "dec": pa.array([None, 1, 2], pa.decimal128(20, 3)), "l": pa.array([[1], [], None], pa.list_(pa.int8())),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "s": pa.array([{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None], pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
    })
    out = tmp_path / "x.jsonl"
    run(f"batches then write {quote(out)}", table)
    types = ",".join(f"{field.name}={field.type}" for field in table.schema)
    back = stream(f"read {quote(out)} --types '{types}'")
    assert back.to_pylist() == table.to_pylist()


def test_a_long_line_behind_many_is_named_with_its_size(tmp_path):
    path = tmp_path / "long.jsonl"
    with open(path, "w") as out:
        out.writelines(f'{{"id": {i}, "text": "t"}}\n' for i in range(200_000))
        out.write('{"id": -1, "text": "' + "x" * 80_000_000 + '"}\n')
    done = weir("--memory-limit", "64M", "read", path, "then", "write", tmp_path / "no.parquet")
    message = done.stderr.decode()
    assert done.returncode == 1 and "line 200001" in message, message
    assert "the record that begins here has 80000022 bytes" in message, message
