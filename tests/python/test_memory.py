"""Runs of the command within a memory limit, measured from outside: the kernel's peak of the process (ru_maxrss, which is
VmHWM at its end) and the largest RssAnon + RssShmem seen.

Each run must finish with the exact result, or fail with an error that names file, column and limit, and its peak must not
pass the limit by more than 10 %.
"""
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from weir_chain import quote

MIB = 1 << 20

# A small process of its own starts the command: a child of this one would inherit pytest's peak.
MEASURE = """
import json, os, select, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
handle, shared = os.pidfd_open(pid), 0
while not select.select([handle], [], [], 0.004)[0]:
    try:
        lines = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if line.startswith("Rss"))
    except OSError:
        break
    shared = max(shared, sum(int(lines[key].split()[0]) for key in ("RssAnon", "RssShmem") if key in lines))
_, status, usage = os.wait4(pid, 0)
sys.stdout.flush()
os.write(3, json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss, shared]).encode())
"""


class Outcome:
    def __init__(self, code, peak_kib, private_kib, stdout, stderr):
        self.code, self.peak, self.private = code, peak_kib * 1024, private_kib * 1024
        self.stdout, self.stderr = stdout, stderr

    def __repr__(self):
        return (f"exit {self.code}, peak {self.peak / MIB:.1f} MiB, anonymous and shared {self.private / MIB:.1f} MiB\n"
                f"{self.stderr[-2000:]}")


@pytest.fixture
def limited(weir_command, tmp_path):
    """run(limit in MiB, words …) → Outcome; asserts the peak."""
    def run(limit, *words, timeout=600):
        report = tmp_path / "measured.json"
        command = [sys.executable, "-S", "-E", "-c", MEASURE, weir_command, *map(str, words), f"--memory-limit={limit}M"]
        done = subprocess.run(["bash", "-c", f'exec 3>{report}; exec "$@"', "measure", *command], capture_output=True,
                              text=True, timeout=timeout)
        assert done.returncode == 0, done.stderr
        outcome = Outcome(*json.loads(report.read_text()), done.stdout, done.stderr)
        print(words[:6], outcome)
        assert outcome.peak <= limit * 1.1 * MIB, outcome
        assert outcome.private <= limit * 1.1 * MIB, outcome
        return outcome
    return run


def finish(outcome):
    assert outcome.code == 0, outcome


def rows_of(path):
    return pq.read_metadata(path).num_rows if path.is_file() else sum(
        pq.read_metadata(p).num_rows for p in path.glob("*.parquet"))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="session")
def flat(data):
    """400,000 rows, 45 MB decoded."""
    rng = np.random.default_rng(1)
    rows = 400_000
    words = np.array([f"word {i} of a comment" for i in range(5000)])
    table = pa.table({
        "key": np.arange(rows), "price": rng.random(rows) * 1e5, "quantity": rng.integers(1, 50, rows),
        "flag": pa.array(rng.choice(["A", "N", "R"], rows)), "day": pa.array(rng.integers(8000, 10000, rows), pa.int32()),
        "comment": pa.array(rng.choice(words, rows)), "unique": pa.array([f"row number {i:012d}" for i in range(rows)]),
    })
    path = data / "flat.parquet"
    pq.write_table(table, path, row_group_size=200_000)
    return path, table


def scan_filter_write(limited, flat, tmp_path, limit, times):
    path, table = flat
    out = tmp_path / "out"
    finish(limited(limit, "read", *[path] * times, "then", "filter", "price < 50000", "then", "drop", "flag", "then",
                   "write", out))
    kept = table.filter(pc.less(table["price"], 50000.0))
    got = pq.read_table(out, columns=["key", "price", "unique"])
    assert got.num_rows == kept.num_rows * times
    assert pc.sum(got["key"]).as_py() == pc.sum(kept["key"]).as_py() * times
    first = got.slice(0, kept.num_rows)
    assert first.equals(kept.select(["key", "price", "unique"]))


@pytest.mark.parametrize("limit", [64, 256])
def test_scan_filter_write(limited, flat, tmp_path, limit):
    scan_filter_write(limited, flat, tmp_path, limit, 12)


@pytest.mark.full
def test_gigabytes_through_256_mib(limited, flat, tmp_path):
    scan_filter_write(limited, flat, tmp_path, 256, 80)


@pytest.mark.parametrize("limit", [64, 256])
def test_one_file_in_order(limited, flat, tmp_path, limit):
    path, table = flat
    out = tmp_path / "out.parquet"
    finish(limited(limit, "read", *[path] * 6, "then", "select", "key,comment", "then", "write", out))
    got = pq.read_table(out)
    assert got.num_rows == 6 * table.num_rows
    assert got.slice(5 * table.num_rows).equals(table.select(["key", "comment"]))


def wide_file(folder, rows, groups):
    path = folder / f"wide-{groups}.parquet"
    if not path.exists():
        rng = np.random.default_rng(groups)
        words = np.array([f"text {i}" for i in range(300)])
        columns = {}
        for i in range(1000):
            kind = i % 4
            columns[f"c{i}"] = (rng.random(rows) if kind == 0 else rng.integers(0, 1000, rows) if kind == 1 else
                                pa.array(rng.choice(words, rows)) if kind == 2 else rng.integers(0, 1 << 60, rows))
        pq.write_table(pa.table(columns), path, row_group_size=max(rows // groups, 1))
    return path


@pytest.mark.sample(2)
@pytest.mark.parametrize("groups,limit,threads", [(1, 64, 2), (1, 64, 16), (1, 256, 2), (50, 96, 2), (50, 96, 16), (50, 256, 2)])
def test_a_thousand_columns(limited, data, tmp_path, groups, limit, threads):
    rows = 20_000
    path = wide_file(data, rows, groups)
    out = tmp_path / "out"
    finish(limited(limit, "read", path, "then", "write", out, "--threads", threads))
    assert rows_of(out) == rows
    some = [f"c{i}" for i in (0, 1, 2, 3, 501, 998, 999)]
    assert pq.read_table(out, columns=some).equals(pq.read_table(path, columns=some))


def test_a_sort_of_hundreds_of_columns(limited, tmp_path):
    """Nearly all of a lane's memory is in pieces of some ten KiB. What would stand free between them is no part of the tenth."""
    rng, out = np.random.default_rng(1), tmp_path / "out"
    tables = [pa.table({f"c{i}": rng.integers(0, 1 << 62, 2_600) for i in range(400)}) for _ in range(8)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet", use_dictionary=False, compression="none")
    outcome = limited(64, "read", tmp_path / "*.parquet", "then", "sort", "c0", "then", "write", out, "--threads", 2)
    finish(outcome)
    assert outcome.peak <= 1.03 * 64 * MIB, outcome
    some = ["c0", "c1", "c399"]
    assert pa.concat_tables([pq.read_table(path, columns=some) for path in sorted(out.glob("*.parquet"))]).equals(
        pa.concat_tables(tables).select(some).sort_by("c0"))


@pytest.mark.parametrize("limit", [64, 256])
def test_lists_whose_rows_span_pages(limited, data, tmp_path, limit):
    path = data / "lists.parquet"
    rng = np.random.default_rng(3)
    if not path.exists():
        lengths = np.where(np.arange(3000) % 500 == 7, 200_000, rng.integers(0, 40, 3000))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        total = int(offsets[-1])
        table = pa.table({"id": np.arange(3000),
                          "values": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(rng.random(total)))})
        pq.write_table(table, path, data_page_size=64 << 10, use_dictionary=False)
    out = tmp_path / "out"
    finish(limited(limit, "read", *[path] * 8, "then", "filter", "id % 2 == 1", "then", "write", out))
    table = pq.read_table(path)
    odd = table.filter(pc.equal(pc.bit_wise_and(table["id"], 1), 1))
    got = pq.read_table(out)
    assert got.num_rows == 8 * odd.num_rows
    for at in range(8):
        assert got.slice(at * odd.num_rows, odd.num_rows).equals(odd)


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_page_of_64_mib(limited, data, tmp_path, codec):
    path = data / f"page-{codec}.parquet"
    if not path.exists():
        rng = np.random.default_rng(4)
        text = rng.bytes(48).hex() * 11  # about 1,056 bytes, which Snappy shrinks
        table = pa.table({"id": np.arange(66_000), "text": pa.array([f"{i:08d}{text}" for i in range(66_000)])})
        pq.write_table(table, path, compression=codec, use_dictionary=False, data_page_size=1 << 30,
                       write_batch_size=1 << 20, max_rows_per_page=1 << 30)
    out = tmp_path / "out"
    finish(limited(256, "read", path, path, "then", "write", out))
    want = pq.read_table(path)
    got = pq.read_table(out)
    assert got.num_rows == 2 * want.num_rows
    assert got.slice(0, want.num_rows).equals(want) and got.slice(want.num_rows).equals(want)


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_value_beyond_the_limit_is_an_error(limited, data, tmp_path, codec):
    path = data / f"value-{codec}.parquet"
    if not path.exists():
        pq.write_table(pa.table({"id": [0, 1, 2], "text": pa.array(["small", "x" * (200 * 10 ** 6), "last"])}), path,
                       compression=codec, use_dictionary=False, write_statistics=False)
    out = tmp_path / "out"
    outcome = limited(128, "read", path, "then", "write", out)
    assert outcome.code not in (0, -6, -9, -11), outcome
    for word in (path.name, "column text", "row 0", "limit is 128"):
        assert word in outcome.stderr, outcome
    assert not out.exists() or not list(out.iterdir())


def test_deep_nesting(limited, data, tmp_path):
    path = data / "deep.parquet"
    rows = 20_000
    if not path.exists():
        array = pa.array(np.arange(rows * 2))
        for level in range(60):
            if level % 2:
                array = pa.StructArray.from_arrays([array], ["s"])
            else:
                count = len(array)
                step = 2 if level == 0 else 1
                array = pa.ListArray.from_arrays(pa.array(np.arange(0, count + 1, step), pa.int32()), array)
        pq.write_table(pa.table({"deep": array}), path, data_page_size=32 << 10)
    out = tmp_path / "out"
    finish(limited(64, "read", *[path] * 3, "then", "write", out))
    want = pq.read_table(path)
    got = pq.read_table(out)
    assert got.num_rows == 3 * rows
    assert got.slice(rows, rows).equals(want)
