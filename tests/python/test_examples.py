"""examples/c: built as a user builds them, against an installed copy found by pkg-config, and run."""
import math
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@pytest.fixture(scope="session")
def installed(weir_build, tmp_path_factory):
    """The environment of a user who has weir installed, below a folder of its own (as DESTDIR does)."""
    place = tmp_path_factory.mktemp("installed")
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    subprocess.run(["meson", "install", "-C", weir_build, "--no-rebuild", "--quiet"], check=True,
                   env=dict(os.environ, DESTDIR=str(place)), capture_output=True)
    folder = next(place.rglob("weir.pc")).parent
    return dict(os.environ, PKG_CONFIG_LIBDIR=str(folder), PKG_CONFIG_SYSROOT_DIR=str(place),
                LD_LIBRARY_PATH=str(folder.parent))


@pytest.fixture(scope="session")
def examples(installed, tmp_path_factory):
    place = tmp_path_factory.mktemp("examples")
    for file in (ROOT / "examples/c").iterdir():
        shutil.copy(file, place)
    out = subprocess.run(["make", "-C", place, "CFLAGS=-std=c99 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror"],
                         env=installed, capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr

    def run(name, *args, code=0):
        ended = subprocess.run([place / name, *map(str, args)], env=installed, capture_output=True, text=True, timeout=120)
        assert ended.returncode == code, ended.stderr
        return ended
    run.place = place
    run.env = installed
    return run


def test_what_is_installed(installed):
    """A library, a header, a pkg-config file that names both and nothing else; the command."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "weir"], env=installed, capture_output=True, text=True,
                           check=True).stdout.split()
    assert flags[-1] == "-lweir" and {flag[:2] for flag in flags} <= {"-I", "-L", "-l"}, flags
    place = Path(installed["PKG_CONFIG_SYSROOT_DIR"])
    assert {path.name for path in place.rglob("*.h")} == {"weir.h", "base.h", "arrow_abi.h"}
    assert next(place.rglob("bin/weir")).exists()
    assert len(list(place.rglob("libweir.so.0"))) == 1


def test_convert(examples, tmp_path):
    table = pa.table({"id": pa.array(range(10_000), pa.int64()), "price": pa.array([i / 8 for i in range(10_000)]),
                      "name": [f"name, {i}\n\"quoted\"" if i % 7 else None for i in range(10_000)]})
    pa.csv.write_csv(table, tmp_path / "in.csv")
    examples("convert", tmp_path / "in.csv", tmp_path / "out.parquet")
    result = pq.read_table(tmp_path / "out.parquet")
    assert result.schema.names == table.schema.names
    assert result["id"].equals(table["id"]) and result["price"].equals(table["price"])
    assert "in.csv" in examples("convert", tmp_path / "no" / "in.csv", tmp_path / "o.parquet", code=1).stderr
    assert "exists" in examples("convert", tmp_path / "in.csv", tmp_path / "out.parquet", code=1).stderr


def test_filter_count(examples, tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"a b": pa.array(range(i * 100, i * 100 + 100), pa.int32()), "t": ["x"] * 100}),
                       tmp_path / f"{i}.parquet")
    files = sorted(tmp_path.iterdir())
    assert examples("filter_count", "a b", 249.5, *files).stdout.split("\n") == [
        "50 rows", "a b=250 t=x", "a b=251 t=x", "a b=252 t=x", ""]
    ended = examples("filter_count", "ab", 1, *files, code=1)
    assert "did you mean 'a b'" in ended.stderr and "weir schema" in ended.stderr


def test_group(examples, tmp_path):
    orders = pa.table({"customer": [i * 7919 % 25 for i in range(5000)], "price": [i % 97 for i in range(5000)]})
    customers = pa.table({"customer": list(range(24)), "name": [f"c{i}" for i in range(24)]})
    pq.write_table(orders, tmp_path / "orders.parquet")
    pq.write_table(customers, tmp_path / "customers.parquet")
    spent, count = [0] * 25, [0] * 25
    for customer, price in zip(orders["customer"].to_pylist(), orders["price"].to_pylist()):
        spent[customer] += price
        count[customer] += 1
    best = sorted(range(25), key=lambda c: (-spent[c], c))[:10]
    lines = examples("group", tmp_path / "customers.parquet", tmp_path / "orders.parquet").stdout.splitlines()
    names = [line.split(":")[0] for line in lines]
    assert [line.partition(": ")[2] for line in lines] == [f"{count[c]} orders, {spent[c]}" for c in best]
    assert [name for name, c in zip(names, best) if c != 24] == [f"c{c}" for c in best if c != 24]
    assert "price" in examples("group", tmp_path / "orders.parquet", tmp_path / "customers.parquet", code=1).stderr


def test_transform(examples, tmp_path):
    count = 300_000
    table = pa.table({"lat": pa.array([i % 180 - 90 if i % 11 else None for i in range(count)], pa.float64()),
                      "lon": pa.array([i % 360 - 180 for i in range(count)], pa.float64()),
                      "name": [str(i) for i in range(count)]})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=30_000)
    out = examples("transform", 52.5, 13.4, tmp_path / "in.parquet", tmp_path / "out.parquet").stdout
    assert out.startswith(f"{count} rows on ")
    result = pq.read_table(tmp_path / "out.parquet")
    assert result.select(["lat", "lon", "name"]).equals(table)

    def km(lat, lon):
        if lat is None:
            return None
        a, b = math.sin(math.radians(lat - 52.5) / 2), math.sin(math.radians(lon - 13.4) / 2)
        h = a * a + math.cos(math.radians(52.5)) * math.cos(math.radians(lat)) * b * b
        return 2 * 6371 * math.asin(math.sqrt(h))
    for i in range(0, count, 997):
        expected, got = km(table["lat"][i].as_py(), table["lon"][i].as_py()), result["km"][i].as_py()
        assert (expected is None) == (got is None) and (got is None or math.isclose(expected, got, rel_tol=1e-9))
    pq.write_table(pa.table({"lat": [1.0] * 50 + [91.0], "lon": [0.0] * 51}), tmp_path / "bad.parquet")
    error = examples("transform", 0, 0, tmp_path / "bad.parquet", tmp_path / "o.parquet", code=1).stderr
    assert "bad.parquet" in error and "operator distance, rows 0 to 50: there is no latitude 91" in error
    assert not (tmp_path / "o.parquet").exists()
    pq.write_table(pa.table({"lat": [1], "lon": [0.0]}), tmp_path / "ints.parquet")
    assert "column lat must be double" in examples("transform", 0, 0, tmp_path / "ints.parquet", tmp_path / "o.parquet",
                                                   code=1).stderr


def peak(pid):
    with open(f"/proc/{pid}/status") as status:
        return max(int(line.split()[1]) * 1024 for line in status if line.startswith(("RssAnon", "VmHWM")))


def test_stream(examples, tmp_path):
    rows = 12_000_000
    subprocess.run([Path(os.environ.get("WEIR_BUILD", ROOT / "build")) / "weir", "range", str(rows), "then", "with",
                    "x = id * 3 % 1000003, t = str(id)", "then", "write", tmp_path / "in.parquet"], check=True, cwd=ROOT)
    out = examples("stream", "x", tmp_path / "in.parquet").stdout.split()
    expected = pc.mean(pq.read_table(tmp_path / "in.parquet", columns=["x"])["x"]).as_py()
    assert out[0] == "mean" and math.isclose(float(out[1]), expected, rel_tol=1e-5)
    assert int(out[3]) == rows and float(out[7]) <= 64, out
    # Ctrl-C ends it: it says so, and it does not hang.
    running = subprocess.Popen([examples.place / "stream", "x", *[str(tmp_path / "in.parquet")] * 50], env=examples.env,
                               stderr=subprocess.PIPE, text=True)
    while not os.path.exists(f"/proc/{running.pid}/task") or len(os.listdir(f"/proc/{running.pid}/task")) < 3:
        time.sleep(0.001)  # until it runs; the outcome does not depend on when exactly
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=30)
    assert (running.returncode == 1 and "cancelled" in error) or running.returncode in (0, -signal.SIGINT), error
    assert "no column 'y'" in examples("stream", "y", tmp_path / "in.parquet", code=1).stderr


def test_source(examples, tmp_path):
    count = 2_500_000  # three splits
    records = bytearray()
    for i in range(count):
        records += struct.pack("<qd", i, math.nan if i % 5 == 0 else i / 4)
    (tmp_path / "in.bin").write_bytes(records)
    assert examples("source", tmp_path / "in.bin", tmp_path / "out.parquet").stdout == f"{count // 5 * 4} of {count} records\n"
    result = pq.read_table(tmp_path / "out.parquet")
    assert result.schema.field("time").type == pa.timestamp("ms", "UTC") or result.schema.field("time").type.tz == "UTC"
    times = result["time"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_pylist()
    assert times == [i for i in range(count) if i % 5]
    assert result["temperature"].to_pylist() == [i / 4 for i in range(count) if i % 5]
    assert "in.bin" in examples("source", tmp_path / "no" / "in.bin", tmp_path / "o.parquet", code=1).stderr
