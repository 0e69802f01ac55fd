"""Sums, means and deviations of groups whose values are of very different size, cancel each other out, or are near the ends of what a
double can be, against fractions."""
import math
from fractions import Fraction

import numpy as np
import pytest

import weir
from weir.aggregate import Max, Mean, Std, Sum

pa = pytest.importorskip("pyarrow")


def fixed(value):
    """A double as a whole number of the least of them, 2^-1074."""
    above, below = float(value).as_integer_ratio()
    return above * (2**1074 // below)


def rounded(value):
    """The double that is nearest to a fraction."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def root(square):
    shift = max(0, 140 - square.numerator.bit_length() + square.denominator.bit_length()) // 2 * 2
    return rounded(Fraction(math.isqrt((square.numerator << shift) // square.denominator), 1 << shift // 2))


def results(values):
    """sum, mean, std"""
    whole, count = [fixed(value) for value in values], len(values)
    total, squares = sum(whole), sum(value * value for value in whole)
    std = root(Fraction(count * squares - total * total, count * (count - 1) << 2148)) if count > 1 else math.nan
    return rounded(Fraction(total, 1 << 1074)), rounded(Fraction(total, count << 1074)), std


def values_of(kind, count, rng):
    """Values that a sum of two doubles is not enough for, or whose squares are no doubles."""
    if kind == "cancel":  # each but one comes again as its negative, later
        half = rng.normal(size=count // 2) * 10.0 ** rng.integers(-30, 30, count // 2)
        return np.concatenate([half, [0.1], -rng.permutation(half)])
    if kind == "great":
        return rng.choice([1.7e308, -1.7e308, 1e308, -1e308, 1e292, 3.0, 1e-300, 5e-324], count)
    if kind == "wide":
        return np.exp(rng.normal(size=count) * 150) * rng.choice([-1, 1], count)
    return rng.normal(size=count) * {"1e300": 1e300, "1e-200": 1e-200, "1e-320": 1e-320}[kind]


@pytest.mark.parametrize("kind", ["cancel", "great", "wide", "1e300", "1e-200", "1e-320"])
@pytest.mark.parametrize("groups", [1, 3, 2000])
def test_sums_of_any_doubles_are_exact(kind, groups):
    values = values_of(kind, 6000, np.random.default_rng(5))
    table = pa.table({"k": np.arange(len(values)) * 7 % groups, "x": values})
    by_key = {}
    for k, x in zip(table["k"].to_pylist(), table["x"].to_pylist()):
        by_key.setdefault(k, []).append(x)
    aggregates = [Sum("x", alias_name="s"), Mean("x", alias_name="m"), Std("x", alias_name="d")]
    found = weir.from_arrow([table.slice(at, 999) for at in range(0, len(table), 999)]).groupby("k").aggregate(*aggregates).take_all()
    assert len(found) == groups
    for row in found:
        total, mean, std = results(by_key[row["k"]])
        assert row["s"] == total
        assert abs(row["m"] - mean) <= math.ulp(mean)
        assert row["d"] == pytest.approx(std, rel=1e-14, abs=1e-323, nan_ok=True)


@pytest.mark.parametrize("cpus", [2])
def test_exact_sums_of_groups_that_spill(cpus, tmp_path):
    rng = np.random.default_rng(6)
    keys, values = rng.integers(0, 400_000, 1_000_000), np.exp(rng.normal(size=1_000_000) * 60)
    table = pa.table({"k": keys, "x": values, "y": -values})
    weir.shutdown()
    weir.init(num_cpus=cpus, memory_limit="64MiB", spill_dir=str(tmp_path))
    try:
        found = pa.concat_tables(weir.from_arrow([table.slice(at, 100_000) for at in range(0, len(table), 100_000)]).groupby("k").aggregate(
            Sum("x", alias_name="s"), Sum("y", alias_name="t"), Max("k", alias_name="k2")).iter_batches(batch_size=None, batch_format="pyarrow"))
    finally:
        weir.shutdown()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    wanted = dict(zip(keys[order][starts].tolist(), map(math.fsum, np.split(values[order], starts[1:]))))
    assert dict(zip(found["k"].to_pylist(), found["s"].to_pylist())) == wanted
    assert found["t"].to_pylist() == [-total for total in found["s"].to_pylist()] and found["k"].equals(found["k2"])


def test_sums_with_what_is_not_finite():
    rows = [(0, 1e308), (0, 1e308), (0, math.inf), (0, -1e308), (1, 1e-300), (1, 1.0), (1, 1e300), (1, math.nan), (2, math.inf), (2, 1.0),
            (2, -math.inf), (3, -math.inf), (3, 1e308), (3, 1e308)]
    found = weir.from_arrow([pa.table({"k": [k], "x": [x]}) for k, x in rows]).groupby("k").sum("x").sort("k").take_all()
    assert [row["sum(x)"] for row in found] == pytest.approx([math.inf, math.nan, math.nan, -math.inf], nan_ok=True)
