"""group and unique against a plain model, for any cutting of the rows, any number of lanes, in memory and on disk."""
import decimal
import math
import os
import random
import signal
import statistics
import struct
import subprocess
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

import random_tables  # noqa: E402
from weir_chain import ChainError, stream  # noqa: E402

decimal.getcontext().prec = 100

STRUCTS = [kind for kind in random_tables.NESTED if pa.types.is_struct(kind) and "list" not in str(kind)]
KEYS = [*random_tables.LEAVES, *STRUCTS, *random_tables.DICTIONARIES, pa.struct([("n", pa.null()), ("i", pa.int32())]),
        pa.struct([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.float64())])]
VALUES = [kind for kind in random_tables.LEAVES if kind != pa.null()]
ORDERED = VALUES
SUMMABLE = [kind for kind in VALUES
            if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)]


def plain(column):
    """Values as Python compares them: times as numbers, dictionaries as what they stand for."""
    if not len(column):
        return []
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or kind in (pa.date64(), pa.time64("us"), pa.time64("ns")):
        return column.cast(pa.int64()).to_pylist()
    if kind in (pa.date32(), pa.time32("s"), pa.time32("ms")):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_struct(kind):
        fields = [plain(part) for part in column.flatten()]
        valid = column.is_valid().to_pylist()
        return [tuple(values) if there else None for there, *values in zip(valid, *fields)]
    return column.to_pylist()


def mark(value):
    """What tells two keys apart: bits, but one NaN for all; a null is a key."""
    if isinstance(value, tuple):
        return tuple(mark(part) for part in value)
    if isinstance(value, (float, np.floating)):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    return value


def groups_of(table, keys):
    """Numbers of the rows of each group."""
    marks = list(zip(*([mark(value) for value in plain(table[name])] for name in keys))) if keys else [()] * len(table)
    found = {}
    for row, key in enumerate(marks):
        found.setdefault(key, []).append(row)
    if not keys and not found:
        found[()] = []
    return found


def is_nan(value):
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def model(function, values, with_nulls=False):
    """One result of all values of a group."""
    there = [value for value in values if value is not None]
    numbers = [value for value in there if not is_nan(value)]
    if function == "count":
        return len(values) if with_nulls else len(there)
    if function == "missing_percent":
        return 100.0 * (len(values) - len(numbers)) / len(values) if values else None
    if function == "zero_percent":
        total = len(values) if with_nulls else len(there)
        return 100.0 * sum(value == 0 for value in there) / total if total else None
    if not there or (with_nulls and len(there) < len(values)):
        return None
    if function in ("min", "max"):
        return (min if function == "min" else max)(numbers) if numbers else math.nan
    if function == "absmax":
        return max(abs(value) for value in numbers) if numbers else math.nan
    if isinstance(there[0], (float, np.floating)):
        total = sum(there) if not all(map(math.isfinite, there)) else math.fsum(there)
    else:
        total = sum(there)
    if function == "sum":
        return total
    if function == "mean":
        return float(total / len(there)) if isinstance(total, (float, decimal.Decimal)) else total / len(there)
    raise AssertionError(function)


def agree(got, wanted, what):
    if wanted is None or isinstance(wanted, (str, bytes, bool)):
        assert got == wanted and type(got) is type(wanted), (what, got, wanted)
    elif is_nan(wanted):
        assert is_nan(got), (what, got, wanted)
    elif isinstance(wanted, (float, np.floating)):
        assert got is not None and (got == wanted or math.isclose(got, wanted, rel_tol=4e-16, abs_tol=1e-300)), \
            (what, got, wanted)
    else:
        assert got == wanted, (what, got, wanted)


def check(table, keys, items, got):
    """items: (name, function, column or None, with nulls)."""
    groups = groups_of(table, keys)
    results = groups_of(got, keys)
    assert results.keys() == groups.keys()
    assert all(len(rows) == 1 for rows in results.values())
    for name in keys:
        assert got.schema.field(name).type == table.schema.field(name).type
    for name, function, column, with_nulls in items:
        values = plain(table[column]) if column else [True] * len(table)
        mine = plain(got[name])
        for key, rows in groups.items():
            agree(mine[results[key][0]], model(function, [values[row] for row in rows], with_nulls),
                  (name, function, column, key))


def words(items):
    return ", ".join(f'{name} = {function}({column or ""}{", nulls" if with_nulls else ""})'
                     for name, function, column, with_nulls in items)


def run(table, keys, items, **options):
    quoted = ", ".join(f'"{key}"' for key in keys)
    return stream(f"batches then group '{quoted}' '{words(items)}'", table, **options)


def column(rng, kind, rows, groups=None):
    """Random values, of which there are about so many different ones."""
    if rows == 0:
        return random_tables.column(rng, kind, 1).slice(0, 0)
    if groups is None:
        return random_tables.column(rng, kind, rows)
    few = random_tables.column(rng, kind, groups)
    return few.take(pa.array(rng.integers(0, groups, rows)))


COUNT = ("n", "count", None, False)


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_every_type_is_a_key(kind):
    rng = np.random.default_rng(len(str(kind)))
    table = pa.table({"k": column(rng, kind, 900, 40), "v": pa.array(range(900))})
    items = [COUNT, ("s", "sum", "v", False)]
    check(table, ["k"], items, run(table, ["k"], items, batch_rows=97))
    got = stream("batches then unique k", table, batch_rows=97)
    check(table, ["k"], [], got)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_every_type_has_extremes_and_counts(kind):
    rng = np.random.default_rng(len(str(kind)) + 1)
    table = pa.table({"k": column(rng, pa.int8(), 1500, 20), "v": column(rng, kind, 1500)})
    items = [("lo", "min", "v", False), ("hi", "max", "v", False), ("c", "count", "v", False), ("a", "count", "v", True),
             ("lon", "min", "v", True), ("hin", "max", "v", True), ("m", "missing_percent", "v", False)]
    check(table, ["k"], items, run(table, ["k"], items, batch_rows=200))


@pytest.mark.parametrize("kind", SUMMABLE, ids=str)
def test_sums(kind):
    rng = np.random.default_rng(len(str(kind)) + 2)
    if pa.types.is_decimal(kind) and kind.precision > 30 or kind in (pa.int64(), pa.uint64()):
        small = pa.array([None if i % 7 == 0 else i * 991 for i in range(1500)])
        values = small.cast(kind) if pa.types.is_integer(kind) else pa.array(
            [None if v is None else decimal.Decimal(v).scaleb(-kind.scale) for v in small.to_pylist()], kind)
    else:
        values = column(rng, kind, 1500)
    table = pa.table({"k": column(rng, pa.int16(), 1500, 30), "v": values})
    items = [("s", "sum", "v", False), ("sn", "sum", "v", True), ("m", "mean", "v", False),
             ("z", "zero_percent", "v", False), ("zn", "zero_percent", "v", True)]
    if kind != pa.float16():
        check(table, ["k"], items, run(table, ["k"], items, batch_rows=200))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_several_keys(data):
    kinds = data.draw(st.lists(st.sampled_from(KEYS), min_size=0, max_size=5))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rows = data.draw(st.sampled_from([0, 1, 2, 50, 1000, 9000]))
    groups = data.draw(st.sampled_from([1, 2, 20, 1000, 20000]))
    rng = np.random.default_rng(seed)
    value = data.draw(st.sampled_from(VALUES))
    table = pa.table({**{f"c{i}": column(rng, kind, rows, min(groups, max(rows, 1))) for i, kind in enumerate(kinds)},
                      "v": column(rng, value, rows), "w": pa.array(rng.integers(-5, 5, rows))})
    items = [COUNT, ("lo", "min", "v", False), ("hi", "max", "v", data.draw(st.booleans())), ("s", "sum", "w", False),
             ("m", "mean", "w", False), ("c", "count", "v", False)]
    batch_rows = data.draw(st.sampled_from([1, 37, 4096, 9000])) if rows < 2000 else 1000
    got = run(table, [f"c{i}" for i in range(len(kinds))], items, batch_rows=batch_rows,
              threads=data.draw(st.sampled_from([1, 2, 7])))
    check(table, [f"c{i}" for i in range(len(kinds))], items, got)


def test_floats_are_keys_as_pyarrow_has_them():
    values = [0.0, -0.0, math.nan, -math.nan, struct.unpack("<d", struct.pack("<Q", 0x7ff8000000000123))[0], None, 1.5, 0.0]
    for kind in (pa.float64(), pa.float32(), pa.float16()):
        table = pa.table({"k": pa.array([None if v is None else kind.to_pandas_dtype()(v) for v in values], kind)})
        got = run(table, ["k"], [COUNT])
        counts = dict(zip(map(mark, plain(got["k"])), got["n"].to_pylist()))
        assert counts == {mark(0.0): 2, mark(-0.0): 1, "NaN": 3, None: 1, mark(1.5): 1}


def test_std_is_as_numpy_has_it():
    rng = np.random.default_rng(3)
    rows = 20_000
    keys = rng.integers(0, 7, rows)
    columns = {"near": 1e9 + rng.random(rows), "far": rng.normal(0, 1e6, rows), "i": rng.integers(-2**62, 2**62, rows),
               "u": rng.integers(0, 2**64 - 1, rows, dtype=np.uint64), "f": rng.random(rows).astype(np.float32),
               "same": np.full(rows, 0.1), "b": rng.integers(0, 2, rows).astype(bool)}
    table = pa.table({"k": keys, **columns})
    for ddof in (0, 1):
        items = " ".join(f"{name} = std({name}, {ddof})" for name in columns)
        got = stream(f"batches then group k '{items}'", table, batch_rows=999)
        for row in got.to_pylist():
            for name, values in columns.items():
                wanted = np.std(values[keys == row["k"]].astype(np.longdouble), ddof=ddof)
                # Of "near" the squares have 31 digits, of which 19 cancel; how they round depends on what each lane gets.
                tolerance = 1e-11 if name == "near" else 1e-12
                assert math.isclose(row[name], wanted, rel_tol=tolerance, abs_tol=1e-9 if name == "same" else 0), (name, row)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("held", ["", "list(f)"], ids=["hashed", "held"])
def test_std_far_from_zero(threads, held):
    """Of values that are hardly apart as seen from zero: seconds of this century with microseconds, counters, an outlier."""
    rng = np.random.default_rng(threads)
    keys = rng.integers(0, 40, 6000)
    far = np.choose(keys % 4, [1.7e9, -1e15, 2.0**52, 1e-3]) + np.where(keys % 4 == 0, rng.random(6000) * 1e-3, rng.integers(0, 3, 6000))
    far[5] = 1e17
    whole = [10**20 + int(value) for value in rng.integers(0, 3, 6000)]
    table = pa.table({"k": keys, "f": far, "d": pa.array(map(decimal.Decimal, whole), pa.decimal128(30, 0))})
    got = stream(f"batches then group k 'f = std(f, 0) d = std(d) {held}'", table, batch_rows=250, threads=threads).to_pylist()
    assert len(got) == 40
    for row in got:
        mine = np.flatnonzero(keys == row["k"])
        assert math.isclose(row["f"], statistics.pstdev(map(Fraction, far[mine].tolist())), rel_tol=1e-15), row["k"]
        if not held:
            assert math.isclose(row["d"], statistics.stdev(whole[i] for i in mine), rel_tol=1e-14), row["k"]


def test_decimals_have_std_and_durations_a_mean():
    table = pa.table({"k": [1, 1, 1, 2], "d": pa.array([decimal.Decimal(v) for v in ("1.5", "2.5", "6", "1")], pa.decimal128(9, 2)),
                      "t": pa.array([5, 8, None, 3], pa.duration("us"))})
    got = stream("batches then group k 's = std(d), m = mean(t), n = mean(d)' then sort k", table).to_pydict()
    assert math.isclose(got["s"][0], np.std([1.5, 2.5, 6], ddof=1), rel_tol=1e-14) and math.isnan(got["s"][1])
    assert [v.microseconds for v in got["m"]] == [6, 3] and got["n"] == [10 / 3, 1.0]


@pytest.mark.parametrize("unit, result", [("s", "us"), ("ms", "us"), ("us", "us"), ("ns", "ns")])
def test_a_mean_of_durations_is_finer_than_they_are(unit, result):
    """A half goes to even, as in Python's timedelta; of whole groups, of those that are held, and of all rows."""
    table = pa.table({"k": [1, 1, 2, 2, 3, 3, 4], "t": pa.array([1, 2, -1, -2, 3, None, None], pa.duration(unit))})
    times = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]
    wanted = [round(Fraction(3 * times, 2)), round(Fraction(-3 * times, 2)), 3 * times, None]
    for more in ("", "list(t)"):
        got = stream(f"batches then group k 'm = mean(t) {more}' then sort k", table, batch_rows=2)["m"]
        assert got.type == pa.duration(result) and got.cast(pa.int64()).to_pylist() == wanted
    got = stream("batches then aggregate 'mean(t)'", table, batch_rows=2)["mean(t)"]
    assert got.type == pa.duration(result) and got.cast(pa.int64()).to_pylist() == [round(Fraction(3 * times, 5))]
    far = pa.table({"k": [1], "t": pa.array([2**63 - 1], pa.duration("s"))})
    with pytest.raises(ChainError, match=r"mean\(t\) does not fit its type where k = 1"):
        stream("batches then group k 'mean(t)'", far)
    with pytest.raises(ChainError, match=r"mean\(t\) does not fit its type"):
        stream("batches then aggregate 'mean(t)'", far)


@pytest.mark.parametrize("kind", [pa.decimal32(9, 4), pa.decimal64(18, 2), pa.decimal128(38, 10), pa.decimal256(60, 30), pa.decimal128(20, -2)], ids=str)
def test_a_mean_of_decimals_is_rounded_once(kind):
    rng = random.Random(str(kind))
    values = [decimal.Decimal(rng.randrange(-10 ** (kind.precision - 1), 10 ** (kind.precision - 1))).scaleb(-kind.scale) for _ in range(60)]
    values[:3] = [values[0]] * 3
    table = pa.table({"k": [i // 3 for i in range(60)], "d": pa.array(values, kind)})
    wanted = [float(sum(map(Fraction, values[i:i + 3])) / 3) for i in range(0, 60, 3)]
    for more in ("", "list(d)"):
        assert stream(f"batches then group k 'm = mean(d) {more}' then sort k", table, batch_rows=7)["m"].to_pylist() == wanted


def test_sums_of_floats_lose_nothing():
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, 60_000) * 10.0 ** rng.integers(-12, 12, 60_000)
    keys = rng.integers(0, 3, 60_000)
    for threads in (1, 2, 7):
        got = stream("batches then group k 's = sum(v)' then sort k", pa.table({"k": keys, "v": values}), batch_rows=500,
                     threads=threads)
        for key, total in enumerate(got["s"].to_pylist()):
            wanted = math.fsum(values[keys == key])
            assert abs(total - wanted) <= math.ulp(wanted)


def test_what_does_not_fit_is_an_error_that_names_the_group():
    table = pa.table({"k": ["a", "b", "b"], "i": [1, 2**62, 2**62], "u": pa.array([1, 2**63, 2**63], pa.uint64()),
                      "b": pa.array([1, -(2**63), 3], pa.int64()),
                      "d": pa.array([decimal.Decimal(1), decimal.Decimal(9 * 10**37), decimal.Decimal(9 * 10**37)],
                                    pa.decimal128(38, 0))})
    for item in ("sum(i)", "sum(u)", "sum(d)", "absmax(b)"):
        with pytest.raises(ChainError, match=r"does not fit its type where k = 'b'"):
            stream(f"batches then group k '{item}'", table)
        stream(f"batches then filter 'k == \"a\"' then group k '{item}'", table)
    assert stream("batches then group k 'mean(i)' then sort k", table)["mean(i)"].to_pylist() == [1.0, 2.0**62]


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_magnitude_of_the_least_number_has_a_place(bits):
    least = -(2 ** (bits - 1))
    table = pa.table({"k": [1, 1, 2], "v": pa.array([least, 3, -5], f"int{bits}")})
    for rest in ("", " 'list(v)'"):  # with values held for another item, too
        got = stream(f"batches then group k 'absmax(v)'{rest} then sort k", table)
        assert got.schema.field("absmax(v)").type == pa.int64() and got["absmax(v)"].to_pylist() == [-least, 5]
    got = stream("batches then aggregate 'absmax(v)'", table)
    assert got.schema.field("absmax(v)").type == pa.int64() and got["absmax(v)"].to_pylist() == [-least]


def test_words_and_names():
    table = pa.table({"a b": [1, 1, 2], "v": [1.0, 2.0, 3.0], "l": [[1], [2], [3]], "m": pa.array([[(1, 2)]] * 3, pa.map_(pa.int8(), pa.int8()))})
    got = stream("""batches then group '"a b"' 'n=count() s=sum(v)' 'max(v)' then sort '"a b"'""", table)
    assert got.to_pydict() == {"a b": [1, 2], "n": [2, 1], "s": [3.0, 3.0], "max(v)": [2.0, 3.0]}
    for chain, text in (("group x", "no column 'x'"), ("group l", "lists and maps cannot be keys"), ("group m", "cannot be keys"),
                        ("group 'v, v'", "twice"), ("group v 'v = count()'", "like a key"), ("group '' ", "neither keys nor"),
                        ("group v 'sum(l)'", "sum is not defined"), ("group v 'nope(v)'", "no such function")):
        with pytest.raises(ChainError, match=text):
            stream(f"batches then {chain}", table)
    with pytest.raises(ChainError, match="cannot be keys"):
        stream("batches then unique", table)


def test_unique_of_all_columns_and_behind_other_steps():
    table = pa.table({"a": [1, 1, 2, 2, 1], "b": ["x", "x", "y", "z", None]})
    assert sorted(stream("batches then unique", table).to_pylist(), key=str) == sorted(
        [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 2, "b": "z"}, {"a": 1, "b": None}], key=str)
    got = stream("batches then filter 'a > 1' then group b 'n = count()' then filter 'b == \"y\"' then select n", table)
    assert got.to_pydict() == {"n": [1]}
    got = stream("batches then group a 'n = count()' then group n 'm = count()' then sort n", table)
    assert got.to_pydict() == {"n": [2, 3], "m": [1, 1]}


def test_no_rows_and_columns_of_nulls():
    empty = pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.float64())})
    assert stream("batches then group k 'count() sum(v)'", empty).num_rows == 0
    assert stream("batches then group '' 'count() sum(v) missing_percent(v)'", empty).to_pylist() == [
        {"count()": 0, "sum(v)": None, "missing_percent(v)": None}]
    nulls = pa.table({"k": pa.nulls(3), "v": pa.nulls(3)})
    items = "n=count() c=count(v) s=sum(v) lo=min(v) m=mean(v) p=missing_percent(v) z=zero_percent(v)"
    assert stream(f"batches then group k '{items}'", nulls).to_pylist() == [
        {"k": None, "n": 3, "c": 0, "s": None, "lo": None, "m": None, "p": 100.0, "z": None}]


# ---- beyond memory ----

@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """More than a million rows; the state of their groups by k or t is several times what the smallest limit has for it."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(10)
    for i in range(4):
        rows = 300_000
        table = pa.table({"k": rng.integers(0, 900_000, rows), "few": rng.integers(0, 6, rows).astype(np.int8),
                          "some": rng.integers(0, 20_000, rows) * 1_000_003,
                          "skew": np.where(rng.random(rows) < 0.9, 7, rng.integers(0, 1 << 40, rows)),
                          "x": rng.random(rows),
                          "t": pc.binary_join_element_wise("a rather long key ", pa.array(rng.integers(0, 600_000, rows)).cast(pa.string()), "-")})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=50_000)
    return folder


@pytest.mark.sample(3)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("keys", ["k", "few", "some", "skew", "t", "few, t"])
def test_in_little_memory(weir_command, large, tmp_path, keys, threads):
    if threads == 7 and keys not in ("k", "some", "t"):
        pytest.skip("as with two")
    limit = "64M" if threads < 7 else "200M"
    done = subprocess.run([weir_command, "--memory-limit", limit, "--threads", str(threads), "read", str(large), "then", "group",
                           keys, "n=count() s=sum(x) lo=min(t) hi=max(x) m=mean(k)", "then", "write",
                           str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = keys.split(", ")
    got = pq.read_table(tmp_path / "out")
    wanted = pq.read_table(large).group_by(names).aggregate([("x", "count"), ("x", "sum"), ("t", "min"), ("x", "max"), ("k", "mean")])
    assert got.num_rows == wanted.num_rows
    order = [(name, "ascending") for name in names]
    got, wanted = got.sort_by(order), wanted.sort_by(order)
    for name in names:
        assert got[name].combine_chunks().equals(wanted[name].combine_chunks())
    for mine, theirs in (("n", "x_count"), ("lo", "t_min"), ("hi", "x_max")):
        assert got[mine].combine_chunks().equals(wanted[theirs].combine_chunks()), mine
    for mine, theirs in (("s", "x_sum"), ("m", "k_mean")):
        np.testing.assert_allclose(got[mine].to_numpy(), wanted[theirs].to_numpy(), rtol=1e-11)


def test_a_full_disk_is_an_error(weir_command, large, tmp_path):
    """The spill folder is a file system of 8 MB."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        done = subprocess.run([weir_command, "--memory-limit", "64M", "read", str(large), "then", "group", "t", "sum(x)", "then",
                               "write", str(tmp_path / "out")], capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": str(small)})
        assert done.returncode != 0
        assert str(small) in done.stderr and "spill" in done.stderr, done.stderr
        assert os.listdir(small) == [] and not (tmp_path / "out").exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_it_can_be_interrupted_in_both_phases(weir_command, large, tmp_path):
    rng = random.Random(11)
    for attempt in range(4):
        child = subprocess.Popen([weir_command, "--memory-limit", "64M", "read", str(large), "then", "group", "t", "sum(x)", "then",
                                  "write", str(tmp_path / f"out{attempt}")], stderr=subprocess.PIPE)
        time.sleep(rng.uniform(0.03, 0.4))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        target = tmp_path / f"out{attempt}"
        assert child.returncode != 0 and not target.exists() or pq.read_table(target).num_rows > 400_000


def test_other_words_for_functions():
    table = pa.table({"k": [1], "v": [2]})
    for word, wanted in (("avg(v)", r"mean\("), ("MEDIAN(v)", r"quantile\(…, 0.5"), ("n = nunique (v)", r"count_distinct\("), ("Sum(v)", r"sum\(")):
        with pytest.raises(ChainError, match=f"no such function; did you mean {wanted}"):
            stream(f"batches then group k '{word}'", table)
