"""Aggregates over all rows: the verb aggregate, and what Python makes of the rows of summarise, against exact arithmetic,
pyarrow and pandas, for any cutting of the rows and any number of lanes."""
import datetime
import decimal
import math
import statistics
from fractions import Fraction

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

from weir_chain import ChainError, stream  # noqa: E402

FUNCTIONS = ["sum", "min", "max", "absmax", "mean", "std", "count"]


def aggregate(table, words, batch_rows=None, threads=2, options=""):
    assert not any("'" in word for word in words)
    quoted = " ".join(f"'{word}'" for word in words)
    result = stream(f"batches then aggregate {quoted} {options}", table, batch_rows=batch_rows, threads=threads)
    assert result.num_rows == 1
    return result


def values(table, words, **given):
    return [column[0].as_py() for column in aggregate(table, words, **given).columns]


def merged(tables, number=0, function="sum(a)", **given):
    """What python/weir/_aggregate.py makes of the summaries of several tables, of whatever types."""
    from weir._aggregate import Merged

    parts = []
    for table in tables:
        parts += stream(f"batches then summarise {function!r}", table, **given).to_pylist()
    return Merged(parts, number)


INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def items_of(kind):
    if pa.types.is_integer(kind):
        low = 0 if "u" in str(kind) else -(1 << (kind.bit_width - 1))
        return st.integers(low, low + (1 << kind.bit_width) - 1) | st.integers(max(low, -3), 3)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_decimal(kind):
        return st.decimals(-10000, 10000, places=kind.scale)
    return st.floats(width=kind.bit_width, allow_nan=False, allow_infinity=False)


@st.composite
def columns(draw):
    kind = draw(st.sampled_from([*INTS, pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal256(50, 3), pa.bool_()]))
    return pa.array(draw(st.lists(st.none() | items_of(kind), max_size=30)), kind)


def real(value):
    """The float nearest to a fraction, infinite past the largest."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def root(variance):
    """The square root of a fraction to more than the bits of a float."""
    with decimal.localcontext(prec=60):
        return float((decimal.Decimal(variance.numerator) / decimal.Decimal(variance.denominator)).sqrt())


@settings(max_examples=examples(250), deadline=None)
@given(column=columns(), batch_rows=st.integers(1, 9), threads=st.integers(1, 3), ddof=st.integers(0, 2))
def test_numbers_are_exact(column, batch_rows, threads, ddof):
    table = pa.table({"a": column})
    present = [v for v in column.to_pylist() if v is not None]
    exact = [Fraction(v) for v in present]
    is_real, is_decimal = pa.types.is_floating(column.type), pa.types.is_decimal(column.type)
    words = ["sum(a)", "mean(a)", f"std(a, {ddof})", "min(a)", "max(a)", "count(a)", "count()"]
    given_ = {"batch_rows": batch_rows, "threads": threads}
    total = sum(exact, Fraction(0))
    fits = is_real or is_decimal or -(1 << 63) <= total < 1 << (64 if "uint" in str(column.type) else 63)
    one = merged([table], function=f"sum(a), std(a, {ddof}), min(a)", **given_)
    assert one.count == len(present) and one.nulls == column.null_count
    if not fits:
        with pytest.raises(ChainError, match="does not fit"):
            aggregate(table, ["sum(a)"], **given_)
        assert one.sum() == total  # Python's whole numbers have room
        return
    got = values(table, words, **given_)
    if not present:
        assert got == [None] * 5 + [0, len(column)]
        return
    assert got[3:] == [min(present), max(present), len(present), len(column)]
    for sums in (got[0], one.sum()):
        assert sums == (real(total) if is_real else total)
    mean = total / len(present)
    # A decimal's sum becomes a float before it is divided.
    assert math.isclose(got[1], mean, rel_tol=4e-16 if is_decimal else 2e-16)
    assert math.isclose(float(one.mean()), mean, rel_tol=2e-16)
    if len(present) <= ddof:
        assert math.isnan(got[2]) and math.isnan(one.std(ddof))
        return
    if is_decimal:
        exact = [Fraction(float(v)) for v in present]
        total = sum(exact)
    std = root((sum(v * v for v in exact) - total * total / len(exact)) / (len(exact) - ddof))
    assert math.isclose(one.std(ddof), std, rel_tol=1e-15)
    # Twice the bits of a float are enough unless all values are nearly the same.
    assert math.isclose(got[2], std, rel_tol=1e-12, abs_tol=real(abs(mean)) * 1e-16)


def test_floats_that_cancel():
    """Sums that naive addition loses altogether; the same bits for every cutting."""
    column = [1e308, 1.0, -1e308, 1e-308, 3e-320, -1.0, 2.0**-1074, 1e16, 1.0, -1e16] * 97
    table = pa.table({"a": column})
    wanted = math.fsum(column)
    results = {values(table, ["sum(a)"], batch_rows=n, threads=t)[0] for n in (1, 7, 4096) for t in (1, 2, 3)}
    assert results == {wanted}
    big = pa.table({"a": [1e9 + i % 2 for i in range(10000)]})
    assert values(big, ["std(a, 0)"], batch_rows=333) == [0.5]
    huge = pa.table({"a": [2**62 + i % 2 for i in range(1000)]})
    assert values(huge, ["std(a, 0)"], batch_rows=33) == [0.5]


def test_integers_never_wrap():
    table = pa.table({"a": pa.array([2**63 - 1] * 5), "u": pa.array([2**64 - 1, 0, 0, 0, 0], pa.uint64())})
    with pytest.raises(ChainError, match="sum\\(a\\) does not fit"):
        aggregate(table, ["sum(a)"])
    assert values(table, ["sum(u)", "mean(a)"]) == [2**64 - 1, float(2**63 - 1)]
    assert merged([table]).sum() == 5 * (2**63 - 1)
    assert merged([table]).mean() == float(2**63 - 1)


def test_nulls_and_nan():
    nan = math.nan
    table = pa.table({"a": pa.array([1.0, None, nan, 3.0]), "n": pa.nulls(4), "m": pa.array([nan, nan, None, nan]),
                      "i": pa.array([1, 2, None, None]), "v": pa.array([1, 2, 3, 4])})
    got = dict(zip("abcdefghij", values(table, ["sum(a)", "mean(a)", "std(a)", "min(a)", "max(a)", "count(a)", "sum(n)", "min(n)",
                                                "min(m)", "count(n)"]), strict=True))
    assert all(math.isnan(got[key]) for key in "abci") and got["d"] == 1.0 and got["e"] == 3.0
    assert [got[key] for key in "fghj"] == [3, None, None, 0]
    assert values(table, ["sum(i)", "sum(v)", "min(i)", "mean(i)", "std(i)", "count(i)"], options="--with-nulls") == [
        None, 10, None, None, None, 4]
    assert values(pa.table({"a": [math.inf, 1.0]}), ["sum(a)", "mean(a)", "max(a)"]) == [math.inf] * 3
    got = values(pa.table({"a": [math.inf, -math.inf]}), ["sum(a)", "std(a)", "min(a)"])
    assert math.isnan(got[0]) and math.isnan(got[1]) and got[2] == -math.inf
    assert math.isnan(values(pa.table({"a": [math.inf, 1.0]}), ["std(a)"])[0])
    far = [2.0**52, 2.0**52 + 1, 2.0**52 + 5] * 300
    assert values(pa.table({"a": far}), ["std(a)"], batch_rows=100) == [statistics.stdev(map(Fraction, far))]
    assert math.isnan(values(pa.table({"a": [5]}), ["std(a)"])[0])


def test_other_types():
    zone = pa.timestamp("us", "UTC")
    stamp = datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.timezone.utc)
    table = pa.table({
        "s": ["b", None, "a longer text than twelve", "a longer text than ten"], "b": [b"\xff", b"", None, b"\0"],
        "d": pa.array([datetime.date(2024, 1, i) for i in (3, 1, 4, 2)]), "t": pa.array([stamp, None, stamp, stamp], zone),
        "time": pa.array([datetime.time(i) for i in (3, 1, 4, 2)]), "bool": [True, False, None, True],
        "dur": pa.array([datetime.timedelta(seconds=i) for i in (-5, 1, 2, 3)], pa.duration("ms")),
        "dict": pa.array(["x", "y", None, "x"]).dictionary_encode(), "f": pa.array([b"ab", b"aa", None, b"zz"], pa.binary(2)),
        "ls": pa.array(["z", "y", "x", None], pa.large_string()), "de": pa.array([decimal.Decimal("-1.50"), None, decimal.Decimal("1.25"), None]),
        "h": pa.array([1.5, -2.5, None, 0.0], pa.float16()), "l": [[1], [2], None, []]})
    got = values(table, ["min(s)", "max(s)", "min(b)", "max(b)", "min(d)", "max(d)", "min(t)", "max(time)", "sum(bool)", "min(bool)",
                         "sum(dur)", "mean(dur)", "absmax(dur)", "min(dict)", "max(dict)", "min(f)", "max(f)", "max(ls)", "sum(de)",
                         "absmax(de)", "sum(h)", "absmax(h)", "count(l)"], batch_rows=2)
    second = datetime.timedelta(seconds=1)
    assert got == ["a longer text than ten", "b", b"", b"\xff", datetime.date(2024, 1, 1), datetime.date(2024, 1, 4), stamp,
                   datetime.time(4), 2, False, second, second / 4, 5 * second, "x", "y", b"aa", b"zz", "z", decimal.Decimal("-0.25"),
                   decimal.Decimal("1.50"), -1.0, 2.5, 3]
    types = {f.name: str(f.type) for f in aggregate(table, ["sum(de)", "sum(h)", "min(h)", "min(t)", "sum(dur)", "min(dict)", "sum(bool)"]).schema}
    assert types == {"sum(de)": "decimal128(38, 2)", "sum(h)": "double", "min(h)": "halffloat", "min(t)": "timestamp[us, tz=UTC]",
                     "sum(dur)": "duration[ms]", "min(dict)": "string", "sum(bool)": "int64"}
    for word in ["sum(s)", "mean(d)", "std(t)", "absmax(s)", "min(l)", "sum(l)", "std(dur)"]:
        with pytest.raises(ChainError, match="E_TYPE.*is not defined"):
            aggregate(table, [word])


def test_words():
    table = pa.table({"a b": [1, 2], 'q"(,x': [3, 4], "c": [5, 6]})
    result = aggregate(table, ['sum("a b")', 'n = max( c ), "x, = y" = min("c")', 'sum("q\\"(,x")', "count()", "std(c, 0)"])
    assert result.column_names == ["sum(a b)", "n", "x, = y", 'sum(q"(,x)', "count()", "std(c)"]
    assert result.to_pylist()[0]["n"] == 6 and result.to_pylist()[0]['sum(q"(,x)'] == 7
    for word in ["sum", "sum(", "sum()", "sum(a b, c)", "nope(c)", "std(c, -1)", "std(c, x)", "min(c, 0)", "x = c", "sum(c) + 1"]:
        with pytest.raises(ChainError, match="E_SYNTAX"):
            aggregate(table, [word])
    with pytest.raises(ChainError, match="two results"):
        aggregate(table, ["sum(c)", "sum(c)"])
    with pytest.raises(ChainError, match="E_NAME"):
        aggregate(table, ["sum(nosuch)"])


def test_behind_other_verbs():
    assert stream("range 1000000 then filter 'id % 2 == 0' then with 'x = id * 2' then aggregate 'sum(x)' 'count()'").to_pylist() == [
        {"sum(x)": 499999000000, "count()": 500000}]
    assert stream("range 100 then limit 10 then aggregate 'sum(id)'").to_pylist() == [{"sum(id)": 45}]
    assert stream("range 0 then aggregate 'sum(id)' 'count()'").to_pylist() == [{"sum(id)": None, "count()": 0}]
    assert stream("range 100000 then aggregate 'std(id)'", threads=3).to_pylist()[0]["std(id)"] == pytest.approx(
        statistics.stdev(range(100000)), rel=1e-15)


def test_against_pandas():
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    rng = numpy.random.default_rng(5)
    frame = pandas.DataFrame({"a": rng.normal(1e6, 1, 50000), "b": rng.integers(-1000, 1000, 50000),
                              "s": rng.choice(["x", "yy", "zzz"], 50000)})
    got = values(pa.Table.from_pandas(frame), ["sum(a)", "mean(a)", "std(a)", "sum(b)", "std(b, 0)", "min(s)", "max(s)"], batch_rows=1000)
    wanted = [frame.a.sum(), frame.a.mean(), frame.a.std(), frame.b.sum(), frame.b.std(ddof=0), "x", "zzz"]
    assert got[5:] == wanted[5:] and all(math.isclose(x, y, rel_tol=1e-9) for x, y in zip(got[:5], wanted[:5], strict=True))


# ---- parts of several types


@settings(max_examples=examples(100), deadline=None)
@given(parts=st.lists(columns() | st.integers(0, 3).map(pa.nulls), min_size=1, max_size=4), ddof=st.integers(0, 1))
def test_parts_of_several_types(parts, ddof):
    column = merged([pa.table({"a": part}) for part in parts], function=f"sum(a), std(a, {ddof}), min(a)")
    present = [v for part in parts for v in part.to_pylist() if v is not None]
    assert column.count == len(present) and column.nulls == sum(len(part) for part in parts) - len(present)
    if not present:
        return
    total = sum((Fraction(v) for v in present), Fraction(0))
    assert column.bounds() == (min(present), max(present))
    has_reals = any(isinstance(v, float) for v in present)
    assert column.sum() == (real(total) if has_reals else total)
    assert math.isclose(float(column.mean()), total / len(present), rel_tol=2e-16)


def test_parts_that_do_not_compare():
    column = merged([pa.table({"a": [1]}), pa.table({"a": ["x"]})], function="min(a)")
    with pytest.raises(TypeError, match="int and str"):
        column.bounds()


# ---- through Dataset


def test_datasets():
    weir = pytest.importorskip("weir")
    from weir.aggregate import AbsMax, AggregateFn, Count, Max, Mean, Min, Std, Sum

    ds = weir.range(1000)
    assert (ds.sum("id"), ds.min("id"), ds.max("id"), ds.mean("id")) == (499500, 0, 999, 499.5)
    assert ds.std("id") == pytest.approx(statistics.stdev(range(1000)), rel=1e-15)
    assert ds.std("id", ddof=0) == pytest.approx(statistics.pstdev(range(1000)), rel=1e-15)
    assert ds.sum(["id"]) == 499500 and ds.sum() == 499500
    nan = math.nan
    ds = weir.from_items([{"a": 1, "b": 1.5, "s": "x"}, {"a": None, "b": nan, "s": "y"}, {"a": 2**62, "b": 2.0, "s": None},
                          {"a": 2**62, "b": -7.0, "s": None}])
    assert ds.sum("a") == 2**63 + 1 and ds.sum("a", ignore_nulls=False) is None and ds.min("s") == "x"
    assert ds.max("b") == 2.0 and math.isnan(ds.sum("b")) and math.isnan(ds.mean("b"))
    got = ds.aggregate(Count(), Count("a"), Count("a", ignore_nulls=True, alias_name="n"), AbsMax("b"), Min("a"), Max("s"))
    assert got == {"count()": 4, "count(a)": 4, "n": 3, "abs_max(b)": 7.0, "min(a)": 1, "max(s)": "y"}
    assert ds.min(["a", "s"]) == {"min(a)": 1, "min(s)": "x"}
    assert weir.from_items([]).sum("a") is None and weir.range(0).mean("id") is None
    one = weir.from_items([{"a": 3, "n": None}])
    assert math.isnan(one.std("a")) and one.mean("n") is None and one.sum("n") is None
    with pytest.raises(ValueError, match="'nosuch'"):
        ds.sum("nosuch")
    with pytest.raises(TypeError, match="not defined for string"):
        ds.sum("s")
    assert weir.range(3).aggregate(Sum("id"), Sum("id")) == {"sum(id)": 3, "sum(id)_2": 3}
    with pytest.raises(ValueError, match="has to be provided"):
        Mean()
    with pytest.raises(ValueError, match="ddof"):
        Std("a", ddof=-1)
    with pytest.raises(TypeError):
        AggregateFn("a")
    with pytest.raises(TypeError):
        ds.aggregate("sum")


def test_the_magnitude_of_a_decimal_has_all_its_digits():
    """abs() of Python rounds to the 28 digits of its context."""
    weir = pytest.importorskip("weir")
    from weir.aggregate import AbsMax

    value = decimal.Decimal("-12345678901234567890123456789012345678")
    ds = weir.from_items([{"d": value, "k": 1}, {"d": decimal.Decimal(3), "k": 1}])
    assert ds.aggregate(AbsMax("d")) == {"abs_max(d)": value.copy_abs()}
    assert ds.groupby("k").aggregate(AbsMax("d")).take_all() == [{"k": 1, "abs_max(d)": value.copy_abs()}]
    assert AbsMax("d").aggregate_block(pa.table({"d": [value]})) == value.copy_abs()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_of_datasets(unit):
    """Nanoseconds are not lost on the way to Python."""
    weir = pytest.importorskip("weir")
    from weir.aggregate import Mean, Sum

    values = pa.array([1, 1001, 8, None, -2001], pa.duration(unit))
    ds = weir.from_arrow(pa.table({"d": values}))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]

    def same(found, wanted):
        """`wanted`: nanoseconds; a microsecond is the least where the unit is no finer."""
        assert pa.array([found], pa.duration("ns")).cast(pa.int64()).to_pylist() == [wanted if unit == "ns" else round(wanted / 1000) * 1000]

    total = Fraction(-991 * 10**9, per_second)
    same(ds.sum("d"), int(total))
    same(ds.mean("d"), round(total / 4))
    row = ds.groupby(None).aggregate(Sum("d"), Mean("d")).take_all()[0]
    same(row["sum(d)"], int(total))
    same(row["mean(d)"], round(total / 4))
    with pytest.raises(OverflowError, match="a duration of .* does not fit"):
        weir.from_arrow(pa.table({"d": pa.array([2**63 - 1, 1], pa.duration("ns"))})).sum("d")


def test_datasets_behind_functions():
    weir = pytest.importorskip("weir")

    def widen(batch):
        # int64 in some blocks, double in others
        return {"x": batch["id"] * 2 if batch["id"][0] % 2 == 0 else batch["id"] * 2.0}

    ds = weir.range(1000).map_batches(widen, batch_size=7)
    assert ds.sum("x") == 999000 and ds.min("x") == 0 and ds.max("x") == 1998
    assert ds.mean("x") == 999.0
