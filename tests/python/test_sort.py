"""sort and shuffle against pyarrow, for any cutting of the rows, any number of lanes, in memory and on disk."""
import itertools
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

import random_tables  # noqa: E402
from weir_chain import ChainError, stream  # noqa: E402

# Those that pyarrow orders; float16 and null are done by hand below.
ORDERED = [kind for kind in random_tables.LEAVES if kind not in (pa.float16(), pa.null())]


def expected(table, keys):
    """As pyarrow has it, which is stable: numbers, NaN, nulls, whichever way they go."""
    order = pc.sort_indices(table, sort_keys=[(name, "descending" if down else "ascending") for name, down in keys])
    return table.take(order)


def words(keys):
    return ", ".join(f'"{name}" desc' if down else f'"{name}"' for name, down in keys)


def same(got, wanted):
    assert got.schema.names == wanted.schema.names
    for name in got.schema.names:
        mine, theirs = got[name].combine_chunks(), wanted[name].combine_chunks()
        if pa.types.is_floating(theirs.type):
            np.testing.assert_array_equal(mine.to_numpy(zero_copy_only=False), theirs.to_numpy(zero_copy_only=False))
            assert mine.is_null().equals(theirs.is_null())
        else:
            assert mine.to_pylist() == theirs.to_pylist(), name


def table_of(rng, kinds, rows):
    columns = {f"c{i}": random_tables.column(rng, kind, rows) for i, kind in enumerate(kinds)}
    return pa.table({**columns, "row": pa.array(range(rows), pa.int64())})


@pytest.mark.parametrize("kind", ORDERED, ids=str)
@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
def test_every_type(kind, down):
    rng = np.random.default_rng(len(str(kind)) + down)
    table = table_of(rng, [kind], 700)
    got = stream(f"batches then sort {words([('c0', down)])!r}", table, batch_rows=97)
    same(got, expected(table, [("c0", down)]))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_several_keys(data):
    kinds = data.draw(st.lists(st.sampled_from(ORDERED), min_size=1, max_size=4))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rows = data.draw(st.sampled_from([0, 1, 2, 50, 1000, 9000]))
    keys = [(f"c{i}", data.draw(st.booleans())) for i in data.draw(st.permutations(range(len(kinds))))]
    keys = keys[:data.draw(st.integers(1, len(keys)))]
    table = table_of(np.random.default_rng(seed), kinds, rows)
    batch_rows = data.draw(st.sampled_from([1, 37, 4096, 9000])) if rows < 2000 else 1000
    got = stream(f"batches then sort {words(keys)!r}", table, batch_rows=batch_rows,
                 threads=data.draw(st.sampled_from([1, 2, 7])))
    same(got, expected(table, keys))


@pytest.mark.parametrize("kind", [*random_tables.NESTED, *random_tables.DICTIONARIES, *random_tables.INSIDE], ids=str)
def test_columns_that_travel_along(kind):
    rng = np.random.default_rng(5)
    table = table_of(rng, [pa.int32(), kind], 900)
    got = stream("batches then sort c0", table, batch_rows=100)
    wanted = expected(table.select(["c0", "row"]), [("c0", False)])
    assert got["row"].to_pylist() == wanted["row"].to_pylist()
    assert repr(got["c1"].to_pylist()) == repr(table["c1"].take(wanted["row"]).to_pylist())  # NaN is not NaN


@pytest.mark.parametrize("kind", [*random_tables.DICTIONARIES], ids=str)
def test_dictionaries_go_by_their_values(kind):
    table = table_of(np.random.default_rng(6), [kind], 900)
    plain = table.set_column(0, "c0", table["c0"].cast(kind.value_type))
    got = stream("batches then sort 'c0 desc'", table, batch_rows=100)
    assert got["row"].to_pylist() == expected(plain, [("c0", True)])["row"].to_pylist()


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", [*ORDERED, *random_tables.NESTED, *random_tables.DICTIONARIES], ids=str)
@pytest.mark.parametrize("moved", [0, 0.02, 0.3])
def test_rows_that_came_nearly_in_order(kind, moved):
    """Such rows stay where they are: in order, with some out of it, and with too many."""
    rng = np.random.default_rng(len(str(kind)))
    rows = 3000
    table = table_of(rng, [kind], rows).append_column("k", pa.array(np.arange(rows) // 3))
    places = np.arange(rows)
    for a, b in rng.integers(0, rows, (int(moved * rows / 2), 2)):
        places[[a, b]] = places[[b, a]]
    wanted = places[np.argsort(places // 3, kind="stable")]
    for batch_rows, threads in ((3000, 1), (500, 2)):
        got = stream("batches then sort k", table.take(pa.array(places)), batch_rows=batch_rows, threads=threads)
        assert got["row"].to_pylist() == wanted.tolist()
        assert repr(got["c0"].to_pylist()) == repr(table["c0"].take(pa.array(wanted)).to_pylist())  # NaN is not NaN


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_streaks(data):
    """Runs that take turns for a while, and then one that has all: what is first by many rows is taken at once."""
    lengths = data.draw(st.lists(st.sampled_from([1, 2, 7, 9, 40, 300, 5000]), min_size=1, max_size=12))
    values = np.concatenate([np.full(length, i) if data.draw(st.booleans()) else np.arange(length)
                             for i, length in enumerate(lengths)])
    table = pa.table({"k": values, "row": np.arange(len(values))})
    got = stream("batches then sort k", table, batch_rows=data.draw(st.sampled_from([50, 1000, 20_000])),
                 threads=data.draw(st.sampled_from([1, 3])))
    same(got, expected(table, [("k", False)]))


HEAVY = {
    "nine tenths have one": lambda rng, rows: np.where(rng.random(rows) < 0.9, 500, rng.integers(0, 1000, rows)),
    "zipf": lambda rng, rows: np.minimum(rng.zipf(1.2, rows), 2**40),
    "three": lambda rng, rows: rng.integers(0, 3, rows),
    "one": lambda rng, rows: np.zeros(rows, np.int64),
    "stretches": lambda rng, rows: np.repeat(rng.integers(-50, 50, rows // 1000), 1000),
    "one of each half": lambda rng, rows: np.where(np.arange(rows) < rows // 2, 4, 5) - 3 * (rng.random(rows) < 0.01),
}


@pytest.mark.parametrize("kind", HEAVY)
@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
def test_keys_that_very_many_rows_have(tmp_path, kind, down):
    """Each run has many rows of a key, which come one run after the other and are moved together: as numbers and as texts, beside nulls."""
    files, rows = 9, 70_000  # several runs, however few splits these are
    rng = np.random.default_rng(len(kind) + down)
    keys = HEAVY[kind](rng, files * rows)
    texts = pa.array([None if chance < 0.1 else "text" * int(40 * chance) for chance in rng.random(files * rows)])
    table = pa.table({
        "k": pa.array(keys, mask=rng.random(files * rows) < 0.05), "s": pa.array(keys).cast(pa.string()), "row": np.arange(files * rows),
        "t": texts, "b": pa.array(rng.random(files * rows) < 0.5, mask=rng.random(files * rows) < 0.2), "x": rng.random(files * rows)})
    for i in range(files):
        pq.write_table(table.slice(i * rows, rows), tmp_path / f"{i}.parquet")
    for name in "ks":
        wanted = expected(table, [(name, down)])
        for threads in (1, 2, 7):
            got = stream(f"read '{tmp_path}' then sort {words([(name, down)])!r}", threads=threads)
            for column in table.column_names:
                assert got[column].combine_chunks().equals(wanted[column].combine_chunks()), (name, threads, column)


def test_half_floats_and_columns_of_nulls():
    values = np.array([1.5, -2, np.nan, 0.0, -0.0, np.inf, -np.inf, 6e-8], np.float16)
    table = pa.table({"h": pa.array([*values, None], pa.float16()), "n": pa.nulls(9), "row": range(9)})
    assert stream("batches then sort h", table)["row"].to_pylist() == [6, 1, 3, 4, 7, 0, 5, 2, 8]
    assert stream("batches then sort 'h desc'", table)["row"].to_pylist() == [5, 0, 7, 3, 4, 1, 6, 2, 8]
    assert stream("batches then sort 'n desc, h'", table)["row"].to_pylist() == [6, 1, 3, 4, 7, 0, 5, 2, 8]


def test_texts_with_nuls_and_beginnings_of_each_other():
    texts = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "\0a", None, "a" * 300, "a" * 299 + "b"]
    order = list(texts)
    random.Random(1).shuffle(order)
    table = pa.table({"t": order, "u": list(range(len(order)))})
    up = sorted((t for t in texts if t is not None), key=str.encode)
    assert stream("batches then sort t", table)["t"].to_pylist() == [*up, None]
    assert stream("batches then sort 't desc'", table)["t"].to_pylist() == [*reversed(up), None]


@pytest.mark.parametrize("limit", [0, 1, 17, 5000])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_first_rows_only(limit, threads):
    table = table_of(np.random.default_rng(limit), [pa.int16(), pa.string()], 20_000)
    got = stream(f"batches then sort 'c0 desc, c1' then limit {limit}", table, batch_rows=900, threads=threads)
    same(got, expected(table, [("c0", True), ("c1", False)]).slice(0, limit))


def test_filters_and_columns_pass_it():
    table = table_of(np.random.default_rng(8), [pa.int32(), pa.float64()], 3000)
    got = stream("batches then sort c1 then filter 'c0 > 0' then select row", table, batch_rows=500)
    wanted = expected(table.filter(pc.greater(table["c0"], 0)), [("c1", False)])
    assert got.schema.names == ["row"]
    assert got["row"].to_pylist() == wanted["row"].to_pylist()


def test_twice_and_inside_a_union(tmp_path):
    table = table_of(np.random.default_rng(9), [pa.int8(), pa.int8()], 2000)
    got = stream("batches then sort c1 then sort c0", table, batch_rows=300)
    same(got, expected(table, [("c0", False), ("c1", False), ("row", False)]))
    pq.write_table(table, tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    got = stream(f"read '{path}' then sort c0 then union \"read '{path}' then sort 'c1 desc'\"")
    wanted = pa.concat_tables([expected(table, [("c0", False)]), expected(table, [("c1", True)])])
    same(got, wanted)


def test_what_cannot_be_sorted():
    table = pa.table({"l": [[1], [2]], "m": pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval())})
    with pytest.raises(ChainError, match="no column 'x'"):
        stream("batches then sort x", table)
    for name in "lm":
        with pytest.raises(ChainError, match=f"column '{name}' is of type .* which has no order"):
            stream(f"batches then sort {name}", table)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """About 190 MB in memory: three times the smallest limit."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(10)
    for i in range(4):
        rows = 1_000_000
        table = pa.table({"k": rng.integers(0, 1 << 40, rows), "few": rng.integers(0, 3, rows).astype(np.int8),
                          "x": rng.random(rows), "t": pa.array(rng.integers(0, 1000, rows)).cast(pa.string()),
                          "row": np.arange(rows) + i * rows})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=100_000)
    return folder


def rows_of(folder):
    return np.concatenate([pq.read_table(folder / name, columns=["row"])["row"].to_numpy()
                           for name in sorted(os.listdir(folder))])


@pytest.mark.parametrize("keys", ["k", "few, k desc", "t, x"])
def test_beyond_memory(weir_command, large, tmp_path, keys):
    done = subprocess.run([weir_command, "--memory-limit", "64M", "--stats", "read", str(large), "then", "sort", keys, "then",
                           "write", str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(large)
    names = [(word.split()[0], word.endswith("desc")) for word in keys.split(", ")]
    assert (rows_of(tmp_path / "out") == expected(table, names)["row"].to_numpy()).all()


def said_bytes(text, before):
    """The figure in front of `before` in what --stats says."""
    number, unit = re.search(rf"([0-9.]+) ([KMG]?i?B) {before}", text).groups()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


@pytest.mark.parametrize("verb", [["sort", "k"], ["shuffle"]], ids=lambda verb: verb[0])
def test_each_byte_is_written_once(weir_command, large, tmp_path, verb):
    done = subprocess.run([weir_command, "--memory-limit", "64M", "--threads", "2", "--stats", "read", *[str(large)] * 2, "then",
                           *verb, "then", "write", str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "depth 1" in done.stderr
    size = 2 * pq.read_table(large).nbytes + (8 * 8_000_000 if verb == ["shuffle"] else 0)  # and the numbers it goes by
    assert 0.5 * size < said_bytes(done.stderr, "written to disk") <= 1.1 * size
    assert said_bytes(done.stderr, "read;") <= 1.3 * size


def test_every_number_of_lanes_gives_the_same(weir_command, large, tmp_path):
    found = {}
    for threads, verb in itertools.product((1, 2, 7), (["sort", "few"], ["shuffle", "--seed", "5"])):
        out = tmp_path / f"{threads}{verb[0]}"
        subprocess.run([weir_command, "--memory-limit", "160M", "--threads", str(threads), "read", str(large), "then", *verb,
                        "then", "write", str(out)], check=True)
        found.setdefault(verb[0], []).append(rows_of(out))
    for rows in found.values():
        assert all((rows[0] == other).all() for other in rows[1:])
    assert sorted(found["shuffle"][0]) == list(range(4_000_000))


def test_a_full_disk_is_an_error(weir_command, large, tmp_path):
    """The spill folder is a file system of 8 MB."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        done = subprocess.run([weir_command, "--memory-limit", "64M", "read", str(large), "then", "sort", "k", "then", "write",
                               str(tmp_path / "out")], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(small)})
        assert done.returncode != 0
        assert str(small) in done.stderr and "spill" in done.stderr, done.stderr
        assert os.listdir(small) == [] and not (tmp_path / "out").exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("steps", ["sort k then", ""], ids=["shared memory", "output"])
def test_files_that_may_not_grow(weir_command, large, tmp_path, steps):
    """ulimit -f: an error, not the end of the process by a signal that leaves half an output."""
    words = f"{weir_command} --memory-limit 64M read {large} then {steps} write {tmp_path}/out"
    done = subprocess.run(["sh", "-c", f"ulimit -f 500; {words}"], capture_output=True, text=True)
    assert done.returncode == 1 and "File too large" in done.stderr and ("ulimit -f" in done.stderr) == bool(steps), done.stderr
    assert os.listdir(tmp_path) == []


def test_it_can_be_interrupted_in_both_phases(weir_command, large, tmp_path):
    rng = random.Random(11)
    for attempt in range(4):
        child = subprocess.Popen([weir_command, "--memory-limit", "64M", "read", str(large), "then", "sort", "t, x", "then",
                                  "write", str(tmp_path / f"out{attempt}")], stderr=subprocess.PIPE)
        time.sleep(rng.uniform(0.05, 0.8))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        target = tmp_path / f"out{attempt}"
        assert child.returncode != 0 and not target.exists() or sorted(rows_of(target)) == list(range(4_000_000))


# ---- random order ----

def test_each_order_is_as_likely_as_any_other():
    """4! orders of four rows over 4,800 seeds: chi squared with 23 degrees of freedom is above 49.7 once in a thousand. The
    seeds are fixed, so this either holds or does not."""
    table = pa.table({"v": [0, 1, 2, 3]})
    orders = Counter(tuple(stream(f"batches then shuffle --seed {seed}", table, batch_rows=2, threads=1)["v"].to_pylist())
                     for seed in range(4800))
    assert len(orders) == 24
    assert sum((count - 200) ** 2 / 200 for count in orders.values()) < 49.7


def test_rows_end_up_anywhere():
    """Where a row ends up does not depend on where it was: rank correlation of places, over 100,000 rows."""
    rows = 100_000
    table = pa.table({"v": range(rows)})
    places = stream("batches then shuffle --seed 1", table, batch_rows=1000)["v"].to_numpy()
    assert sorted(places) == list(range(rows))
    assert abs(np.corrcoef(places, np.arange(rows))[0, 1]) < 4 / rows ** 0.5
    assert abs(np.corrcoef(places[1:], places[:-1])[0, 1]) < 4 / rows ** 0.5


def test_words_of_either_case_say_which_way():
    table = pa.table({"a b": [2, 1, 3], "c": [1, 1, 1]})
    assert stream("""batches then sort 'c ASC, "a b" DESC'""", table).to_pydict()["a b"] == [3, 2, 1]
    assert stream("""batches then top 1 by '"a b" Asc'""", table).to_pydict()["a b"] == [1]


@pytest.mark.parametrize("verb", ["shuffle", "sample 2", "keep 0.5"])
def test_seeds_are_numbers_of_64_bits(verb):
    """Larger ones were all taken for the largest."""
    table = pa.table({"a": range(50)})
    for seed in ("18446744073709551616", "-18446744073709551616", "1e3", "-", "''"):
        with pytest.raises(ChainError, match="--seed wants"):
            stream(f"batches then {verb} --seed {seed}", table)
    orders = [stream(f"batches then shuffle --seed {seed}", table)["a"].to_pylist() for seed in (2**64 - 1, -1, 2**64 - 2, 0)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) == 3
