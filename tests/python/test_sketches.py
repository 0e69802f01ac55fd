"""Estimates by sketches: approx_quantile and approx_top_k, as accumulators of groups."""
import collections
import subprocess

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

import random_tables  # noqa: E402
from test_segments import groups_of, is_number, key_of, values_of, with_integers, words_of  # noqa: E402
from weir_chain import ChainError, stream  # noqa: E402

SHARES = [0, 0.001, 0.1, 0.25, 0.5, 0.77, 0.999, 1]


def rank_errors(values, shares, got):
    """How far each result is from the rank that was asked for, as a share of all."""
    ranks = np.sort(values)
    low, high = np.searchsorted(ranks, got, "left") / len(ranks), np.searchsorted(ranks, got, "right") / len(ranks)
    return np.maximum(np.maximum(low - shares, shares - high), 0)


def distribution(name, rng, count):
    return {
        "normal": lambda: rng.normal(size=count),
        "rising": lambda: np.arange(count) * 1.0,
        "falling": lambda: -np.arange(count) * 1.0,
        "skewed": lambda: rng.zipf(1.4, count).astype(float),
        "few values": lambda: rng.integers(0, 7, count) * 1.0,
        "in waves": lambda: np.tile(rng.normal(size=3200), count // 3200 + 1)[:count],
        "zoomed in": lambda: np.where(np.arange(count) % 2 == 0, np.arange(count), -np.arange(count)) / count,
        "huge and small": lambda: rng.normal(size=count) * 10.0 ** rng.integers(-200, 200, count),
    }[name]()


@pytest.mark.parametrize("name", ["normal", "rising", "falling", "skewed", "few values", "in waves", "zoomed in", "huge and small"])
def test_quantiles_keep_their_bounds(name):
    rng = np.random.default_rng(8)
    values = distribution(name, rng, 200_000)
    for precision in (10, 100, 800):
        got = stream(f"batches then group '' 'approx_quantile(x, {precision}, {', '.join(map(str, SHARES))})'",
                     pa.table({"x": values}), batch_rows=50_000, threads=2).column(0)[0].as_py()
        errors = rank_errors(values, np.array(SHARES), got)
        assert errors.max() <= 1 / precision + 1e-5, (precision, errors)
        assert (got[0], got[-1]) == (values.min(), values.max())
        assert got == sorted(got)


def test_quantiles_of_few_values_are_exact():
    rng = np.random.default_rng(9)
    values = rng.normal(size=12_800)  # 16 × precision
    got = stream("batches then group '' 'approx_quantile(x, 800, 0.2, 0.5, 0.9)'", pa.table({"x": values}), batch_rows=700)
    ranks = np.sort(values)
    assert got.column(0)[0].as_py() == [ranks[int(share * len(ranks))] for share in (0.2, 0.5, 0.9)]


def test_quantiles_of_groups_of_every_size():
    rng = np.random.default_rng(10)
    count = 300_000
    keys = np.minimum(rng.zipf(1.3, count), 5_000)
    values = rng.normal(size=count) + keys
    table = pa.table({"k": keys, "x": values})
    got = stream("batches then group k 'approx_quantile(x, 100, 0, 0.25, 0.5, 1)' 'n=count()' 'mean(x)'", table, batch_rows=20_000,
                 threads=3).to_pylist()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    groups = {int(keys[part[0]]): values[part] for part in np.split(order, starts[1:])}
    assert len(got) == len(groups)
    for row in got:
        part = groups[row["k"]]
        assert row["n"] == len(part) and row["mean(x)"] == pytest.approx(part.mean())
        errors = rank_errors(part, np.array([0, 0.25, 0.5, 1]), row["approx_quantile(x)"])
        assert errors.max() <= (1 / 100 if len(part) > 1600 else 1 / len(part)) + 1e-9, row


KINDS = [*random_tables.LEAVES, *random_tables.DICTIONARIES]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("keys", ["k", ""])
def test_every_type(kind, keys):
    rng = np.random.default_rng(len(str(kind)))
    rows = 700
    table = pa.table({"k": pa.array(rng.integers(0, 9, rows)), "x": random_tables.column(rng, kind, rows)})
    items = ["rows=count()", "approx_top_k(x, 3)", "all=approx_top_k(x, 1000)"]
    if is_number(kind):
        items += ["approx_quantile(x, 800, 0, 0.5, 1)"]
    got = stream(f"batches then group '{keys}' {words_of(items)}", table, batch_rows=61, threads=2)
    groups = groups_of(table, ["k"]) if keys else {(): list(range(rows))}
    found = got.to_pylist() if "ns" not in str(kind) else with_integers(got)
    assert len(found) == len(groups)
    for answer in found:
        part = table["x"].combine_chunks().take(groups[(answer["k"],) if keys else ()])
        present = [value for value in values_of(part, signed=True) if value is not None]
        counts = collections.Counter(map(repr, present))
        for name, most in (("approx_top_k(x)", 3), ("all", 1000)):
            assert [entry["count"] for entry in answer[name]] == sorted(counts.values(), reverse=True)[:most]
            assert all(counts[repr(key_of(entry["x"], signed=True))] == entry["count"] for entry in answer[name])
        if is_number(kind):
            numbers = sorted(float(value) for value in present if value != "nan")
            wanted = [numbers[0], numbers[len(numbers) // 2], numbers[-1]] if numbers else None
            assert answer["approx_quantile(x)"] == (pytest.approx(wanted) if wanted else None)


def test_ties_are_in_order_and_nan_is_a_value():
    table = pa.table({"x": [2.0, float("nan"), 1.0, -0.0, 0.0, float("nan"), 1.0, 2.0]})
    top = stream("batches then group '' 'approx_top_k(x, 9)'", table, batch_rows=3).column(0)[0].as_py()
    assert [(repr(entry["x"]), entry["count"]) for entry in top] == [("1.0", 2), ("2.0", 2), ("nan", 2), ("-0.0", 1), ("0.0", 1)]


@pytest.mark.parametrize("as_text", [False, True])
def test_counts_keep_their_bounds(as_text):
    rng = np.random.default_rng(11)
    count = 100_000
    words = rng.zipf(1.2, count) % 50_000
    table = pa.table({"w": [f"a rather long word {word}" for word in words] if as_text else words})
    exact = collections.Counter(table["w"].to_pylist())
    for log in (4, 8, 12):
        got = stream(f"batches then group '' 'approx_top_k(w, 20, {log})'", table, batch_rows=30_000, threads=2).column(0)[0].as_py()
        assert got and (len(got) == 20 or log < 8)
        for entry in got:
            assert exact[entry["w"]] <= entry["count"] <= exact[entry["w"]] + count / 2**log
        told = {entry["w"] for entry in got}
        least = max(count / 2**log, got[-1]["count"] if len(got) == 20 else 0)
        assert all(times <= least for word, times in exact.items() if word not in told)
    got = stream("batches then group '' 'approx_top_k(w, 20, 17)'", table, batch_rows=30_000, threads=2).column(0)[0].as_py()
    wanted = sorted(exact.items(), key=lambda pair: (-pair[1], pair[0]))[:20]
    assert [(entry["w"], entry["count"]) for entry in got] == wanted


def test_no_rows_and_no_values():
    table = pa.table({"k": pa.array([], pa.string()), "x": pa.array([], pa.int64())})
    assert stream("batches then group k 'approx_quantile(x)' 'approx_top_k(x)'", table).num_rows == 0
    nothing = {"approx_quantile(x)": None, "approx_top_k(x)": []}
    assert stream("batches then group '' 'approx_quantile(x)' 'approx_top_k(x)'", table).to_pylist() == [nothing]
    table = pa.table({"k": ["a", "b"], "x": pa.array([None, None], pa.float64())})
    assert stream("batches then group '' 'approx_quantile(x)' 'approx_top_k(x)'", table).to_pylist() == [nothing]
    table = pa.table({"k": ["a", "b"], "x": pa.nulls(2)})
    assert stream("batches then group '' 'approx_quantile(x)' 'approx_top_k(x)'", table).to_pylist() == [nothing]


def test_arguments():
    table = pa.table({"x": [1]})
    for item in ("approx_top_k(x, 3, 25)", "approx_top_k(x, 3, 0)", "approx_top_k(x, 0)", "approx_quantile(x, 0)"):
        with pytest.raises(ChainError, match="whole number"):
            stream(f"batches then group '' '{item}'", table)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(12)
    count = 400_000
    for number in range(3):
        pq.write_table(pa.table({"few": rng.integers(0, 60, count), "many": rng.integers(0, 200_000, count), "x": rng.random(count),
                                 "t": pa.array(rng.zipf(1.3, count) % 50_000).cast(pa.string())}),
                       folder / f"{number}.parquet", row_group_size=100_000)
    return folder


@pytest.mark.parametrize(("keys", "threads"), [("", 2), ("few", 1), ("many", 2), ("many", 7)])
def test_beyond_memory(weir_command, large, tmp_path, keys, threads):
    """Sketches of many groups go to disk, and so do rows where there are too many groups for them."""
    subprocess.run([weir_command, "--memory-limit", "64M", "--threads", str(threads), "read", str(large), "then", "group", keys,
                    "approx_quantile(x, 800, 0, 0.5, 1)", "approx_top_k(t, 2)", "n=count()", "then", "write", str(tmp_path / "out"),
                    "--format", "parquet"], check=True)
    table = pq.read_table(large)
    got = pq.read_table(tmp_path / "out").to_pylist()
    frame = table.to_pandas()
    parts = dict(tuple(frame.groupby(keys))) if keys == "few" else {None: frame} if not keys else {}
    assert sum(row["n"] for row in got) == table.num_rows
    if keys == "many":
        chosen = set(range(0, 200_000, 997))
        parts = dict(tuple(frame[frame["many"].isin(chosen)].groupby("many")))
        assert len(got) == frame["many"].nunique()
        got = [row for row in got if row["many"] in chosen]
    assert len(got) == len(parts)
    for row in got:
        part = parts[row[keys] if keys else None]
        assert row["n"] == len(part)
        few = len(part) <= 12_800
        errors = rank_errors(part["x"].to_numpy(), np.array([0, 0.5, 1]), row["approx_quantile(x)"])
        assert errors.max() <= (1 / len(part) if few else 1 / 800) + 1e-9
        wanted = sorted(part["t"].value_counts().tolist(), reverse=True)[:2]
        assert [entry["count"] for entry in row["approx_top_k(t)"]] == wanted
