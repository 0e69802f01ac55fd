"""Whole groups one after another: `groups`, and the aggregates that need a group's values."""
import decimal
import subprocess

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

import random_tables  # noqa: E402
from weir_chain import ChainError, stream  # noqa: E402

STRUCTS = [pa.struct([("a", pa.int32()), ("b", pa.string())]),
           pa.struct([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.timestamp("us", "UTC"))]),
           pa.struct([("s", pa.struct([("d", pa.dictionary(pa.int8(), pa.string())), ("f", pa.float64())])), ("z", pa.null())])]


def key_of(value, signed=False):
    """A value as something that is equal where values are alike. `signed`: −0.0 keeps its sign, which repr tells."""
    if isinstance(value, dict):
        return tuple((name, key_of(item, signed)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(key_of(item, signed) for item in value)
    if isinstance(value, float):
        return "nan" if value != value else value if signed else value + 0.0
    return value


def values_of(column, signed=False):
    """To Python without losing nanoseconds."""
    kind = column.type
    if pa.types.is_temporal(kind) and getattr(kind, "unit", None) == "ns":
        column = column.cast(pa.int64())
    return [key_of(value, signed) for value in column.to_pylist()]


def runs_of(values):
    """[(value, how many), …] of neighbours that are equal."""
    out = []
    for value in values:
        if out and out[-1][0] == value:
            out[-1][1] += 1
        else:
            out.append([value, 1])
    return [tuple(item) for item in out]


# ---- groups ----

@pytest.mark.parametrize("kind", [*random_tables.LEAVES, *random_tables.DICTIONARIES, *STRUCTS], ids=str)
def test_groups_by_every_type(kind):
    rng = np.random.default_rng(len(str(kind)))
    column = random_tables.column(rng, kind, 900)
    table = pa.table({"k": column, "row": pa.array(range(900), pa.int64())})
    got = stream("batches then groups k --mark g", table, batch_rows=67)
    assert got.schema.names == ["k", "row", "g"] and got.schema.field("g").type == pa.int64()
    keys = list(map(repr, values_of(got["k"], signed=True)))
    numbers = got["g"].to_pylist()
    # Keys and numbers change at the same rows, and a key that has gone never comes back.
    assert [count for _, count in runs_of(keys)] == [count for _, count in runs_of(numbers)]
    assert len(runs_of(keys)) == len(set(keys)) == len(set(numbers))
    # Within a group rows stay in input order, and none is lost.
    rows = got["row"].to_pylist()
    assert sorted(rows) == list(range(900))
    assert all(a < b for a, b, same in zip(rows, rows[1:], (x == y for x, y in zip(numbers, numbers[1:]))) if same)
    expected = list(map(repr, values_of(table["k"], signed=True)))
    assert all(expected[row] == key for row, key in zip(rows, keys))


def test_groups_by_several_and_by_none():
    rng = np.random.default_rng(4)
    table = pa.table({"a": pa.array(rng.integers(0, 5, 2000)), "b": random_tables.column(rng, pa.string(), 2000),
                      "v": pa.array(range(2000))})
    got = stream("batches then groups 'a, b'", table, batch_rows=100, threads=7)
    pairs = list(zip(got["a"].to_pylist(), got["b"].to_pylist()))
    assert len(runs_of(pairs)) == len(set(pairs)) == len(set(got["group"].to_pylist()))
    all_rows = stream("batches then groups ''", table, batch_rows=100, threads=7)
    assert set(all_rows["group"].to_pylist()) == {0}
    assert all_rows["v"].to_pylist() == list(range(2000))
    assert stream("batches then groups a", table.slice(0, 0)).num_rows == 0
    assert stream("batches then groups ''", table.slice(0, 0)).num_rows == 0


def test_groups_pass_columns_and_are_narrowed():
    table = pa.table({"a": [2, 1, 2], "b": ["x", "y", "z"], "c": [1.5, 2.5, 3.5]})
    assert stream("batches then groups a then select c", table)["c"].to_pylist() == [2.5, 1.5, 3.5]
    assert stream("batches then groups a --mark m then select 'b, m'", table).to_pydict() == {"b": ["y", "x", "z"], "m": [0, 1, 1]}
    assert stream("batches then groups a then limit 1", table)["b"].to_pylist() == ["y"]


def test_what_cannot_be_grouped():
    table = pa.table({"a": [1], "l": [[1]], "s": [{"l": [1]}]})
    for words, text in (("groups x", "x"), ("groups l", "which nothing is grouped by"), ("groups s", "nothing is grouped by"),
                        ("groups a --mark l", "--mark wants another name"), ("groups", "groups COLUMN"), ("groups 'a,,l'", "empty item")):
        with pytest.raises(ChainError, match=text):
            stream(f"batches then {words}", table)


def grouped_blocks(ds, keys):
    """The blocks that functions would get."""
    from weir._exchange import Exchange

    class Groups(Exchange):
        __slots__ = ()

        def add(self, flow, build):
            flow.step(self.verb, self.words, [("mark", "number")])

    return [block.to_arrow() if hasattr(block, "to_arrow") else block
            for block in ds._then(Groups(ds._op, "groups", [keys], "Groups")).materialize().iter_batches(
                batch_size=None, batch_format="pyarrow")]


@pytest.mark.parametrize("groups", [3, 100, 40_000])
def test_blocks_end_with_groups(groups):
    import weir

    rng = np.random.default_rng(groups)
    keys = rng.integers(0, groups, 400_000)
    keys[rng.random(400_000) < 0.3] = 1  # one that is larger than the others
    table = pa.table({"k": keys, "text": pa.array([f"some longer text {i % 1000}" * 3 for i in range(400_000)])})
    blocks = grouped_blocks(weir.from_arrow([table.slice(i, 50_000) for i in range(0, 400_000, 50_000)]), "k")
    assert sum(block.num_rows for block in blocks) == 400_000
    seen = set()
    for block in blocks:
        here = set(block["k"].to_pylist())
        assert not here & seen, "a group is in two blocks"
        assert len(here) == len(set(block["number"].to_pylist()))
        seen |= here
    assert len(seen) == len(set(keys.tolist()))
    assert len(blocks) > 1


# ---- beyond memory ----

@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """About 190 MB in memory: three times the smallest limit."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(3)
    for number in range(4):
        count = 600_000
        pq.write_table(pa.table({"few": rng.integers(0, 40, count), "many": rng.integers(0, 300_000, count),
                                 "x": rng.random(count),
                                 "t": pa.array(rng.integers(0, 1_000_000, count)).cast(pa.string()),
                                 "pad": pa.array(np.arange(count) + number * count).cast(pa.string())}),
                       folder / f"{number}.parquet", row_group_size=100_000)
    return folder


@pytest.mark.sample(8)
@pytest.mark.parametrize(("keys", "threads"), [("few", 2), ("many", 1), ("many", 7), ("t", 2)])
def test_groups_beyond_memory(weir_command, large, tmp_path, keys, threads):
    subprocess.run([weir_command, "--memory-limit", "64M", "--threads", str(threads), "read", str(large), "then", "groups", keys,
                    "then", "write", str(tmp_path / "out"), "--format", "parquet"], check=True)
    got = pq.read_table(tmp_path / "out")
    wanted = pq.read_table(large)
    assert got.num_rows == wanted.num_rows
    assert pc.sum(got["x"]).as_py() == pytest.approx(pc.sum(wanted["x"]).as_py())
    # As many runs as there are groups: none was cut apart.
    got_keys = got[keys].combine_chunks()
    changes = pc.sum(pc.not_equal(got_keys.slice(1), got_keys.slice(0, len(got_keys) - 1))).as_py() + 1
    assert changes == pc.count_distinct(wanted[keys]).as_py() == pc.count_distinct(got["group"]).as_py()


# ---- aggregates that need the values ----

def words_of(items):
    return " ".join(f"'{item}'" for item in items)


def groups_of(table, keys):
    """[(key, rows of the table), …] in Python."""
    columns = [values_of(table[key]) for key in keys]
    rows = {}
    for row in range(table.num_rows):
        rows.setdefault(tuple(column[row] for column in columns), []).append(row)
    return rows


def distinct(values):
    return sorted({value for value in values if value is not None}, key=lambda value: (value == "nan", str(type(value)), repr(value)))


def as_set(values):
    return sorted(map(repr, values))


def is_number(kind):
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)


def quantile_of(array, q):
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    if pa.types.is_null(array.type):
        return None
    return pc.quantile(array, q)[0].as_py()


def close(got, wanted):
    return got == wanted or (got is not None and wanted is not None and got == pytest.approx(wanted, rel=1e-12))


KINDS = [*random_tables.LEAVES, *random_tables.DICTIONARIES, *random_tables.NESTED]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("way", ["in order", "held", "counted"])
def test_every_function_of_every_type(kind, way):
    rng = np.random.default_rng(len(str(kind)) + len(way))
    held, counted = way == "held", way == "counted"
    rows = 700
    table = pa.table({"k": pa.array(rng.integers(0, 9, rows)), "x": random_tables.column(rng, kind, rows)})
    has_values = not pa.types.is_map(kind)
    items = ["rows=count()"] if counted else ["count(x)", "rows=count()"]
    if has_values:
        items += ["unique(x)", "nulls=unique(x, nulls)", "count_distinct(x)", "with=count_distinct(x, nulls)", "value_counts(x)",
                  "counts=value_counts(x, nulls)", "approx_top_k(x, 3)"]
    if is_number(kind) and not counted:
        items += ["quantile(x)", "high=quantile(x, 0.9)", "strict=quantile(x, 0.2, nulls)", "approx_quantile(x, 800, 0, 0.5, 1)"]
    if held or not has_values:
        items += ["list(x)", "all=list(x, nulls)"]
    got = stream(f"batches then group k {words_of(items)}", table, batch_rows=61, threads=2)
    groups = groups_of(table, ["k"])
    assert sorted(got["k"].to_pylist()) == sorted(key for key, in groups)
    for answer, key in zip(got.to_pylist() if "ns" not in str(kind) else with_integers(got), got["k"].to_pylist()):
        part = table["x"].combine_chunks().take(groups[key,])
        values = values_of(part, signed=True)
        present = [value for value in values if value is not None]
        counts = {}
        for value in map(repr, present):
            counts[value] = counts.get(value, 0) + 1
        assert answer["rows"] == len(values) and answer.get("count(x)", len(present)) == len(present)
        if has_values:
            keyed = [key_of(value, signed=True) for value in answer["unique(x)"]]
            assert as_set(keyed) == sorted(counts)
            null = [repr(None)] * (len(present) < len(values))
            assert as_set(key_of(value, signed=True) for value in answer["nulls"]) == sorted([*counts, *null])
            assert answer["count_distinct(x)"] == len(counts) and answer["with"] == len(counts) + len(null)
            pairs = answer["value_counts(x)"]
            assert dict(zip((repr(key_of(value, signed=True)) for value in pairs["values"]), pairs["counts"])) == counts
            pairs = answer["counts"]
            told = dict(zip((repr(key_of(value, signed=True)) for value in pairs["values"]), pairs["counts"]))
            assert told == ({**counts, repr(None): len(values) - len(present)} if null else counts)
            top = answer["approx_top_k(x)"]
            assert [entry["count"] for entry in top] == sorted(counts.values(), reverse=True)[:3]
            assert all(counts[repr(key_of(entry["x"], signed=True))] == entry["count"] for entry in top)
        if is_number(kind) and not counted:
            assert close(answer["quantile(x)"], quantile_of(part, 0.5)), (answer["quantile(x)"], quantile_of(part, 0.5))
            assert close(answer["high"], quantile_of(part, 0.9))
            assert close(answer["strict"], None if len(present) < len(values) else quantile_of(part, 0.2))
            numbers = sorted(float(value) for value in present if value != "nan")
            if not numbers:
                assert answer["approx_quantile(x)"] is None
            else:
                assert answer["approx_quantile(x)"] == pytest.approx([numbers[0], numbers[len(numbers) // 2], numbers[-1]])
        if held or not has_values:
            assert [key_of(value, signed=True) for value in answer["list(x)"]] == present
            assert [key_of(value, signed=True) for value in answer["all"]] == values


def with_integers(table):
    """Rows of a table, its nanoseconds as numbers."""
    return [{name: integers(table[name][row]) for name in table.schema.names} for row in range(table.num_rows)]


def integers(scalar):
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_list(kind):
        return [integers(value) for value in scalar]
    if pa.types.is_struct(kind):
        return {field.name: integers(scalar[field.name]) for field in kind}
    return scalar.cast(pa.int64()).as_py() if pa.types.is_temporal(kind) and getattr(kind, "unit", None) == "ns" else scalar.as_py()


@pytest.mark.sample(6)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("items", [["quantile(x, 0.3)", "sum(x)", "mean(x)", "std(y)", "min(s)", "count()"],
                                   ["unique(s)", "quantile(x)", "list(y)", "max(s)", "missing_percent(y)", "zero_percent(x)"],
                                   ["count_distinct(s)"], []], ids=str)
def test_many_groups_of_every_size_against_pandas(items, threads):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(len(items) * 10 + threads)
    rows = 120_000
    # A huge group, some of all sizes, and many of one row.
    keys = np.where(rng.random(rows) < 0.4, 7, (rng.pareto(0.5, rows) * 10).astype(np.int64) % 50_000)
    frame = pd.DataFrame({"k": keys, "x": rng.integers(-50, 50, rows), "y": rng.normal(size=rows),
                          "s": rng.choice(["a", "b", "ccc", "d" * 20, ""], rows)})
    frame.loc[rng.random(rows) < 0.1, "y"] = np.nan
    table = pa.Table.from_pandas(frame, preserve_index=False)
    got = stream(f"batches then group k {words_of(items)}", table, batch_rows=10_000, threads=threads).to_pandas()
    got = got.sort_values("k").reset_index(drop=True)
    groups = frame.groupby("k")
    assert got["k"].tolist() == sorted(groups.groups)
    wanted = {
        "quantile(x, 0.3)": lambda: groups["x"].quantile(0.3), "quantile(x)": lambda: groups["x"].median(),
        "sum(x)": lambda: groups["x"].sum(), "mean(x)": lambda: groups["x"].mean(), "std(y)": lambda: groups["y"].std(),
        "min(s)": lambda: groups["s"].min(), "max(s)": lambda: groups["s"].max(), "count()": lambda: groups.size(),
        "count_distinct(s)": lambda: groups["s"].nunique(),
        "missing_percent(y)": lambda: groups["y"].apply(lambda part: part.isna().mean() * 100),
        "zero_percent(x)": lambda: groups["x"].apply(lambda part: (part == 0).mean() * 100)}
    for item in items:
        name = item.split("(")[0] + "(" + item.split("(")[1].split(",")[0].rstrip(")") + ")"
        if item in wanted:
            theirs = wanted[item]().sort_index().to_numpy()
            if theirs.dtype == object:
                assert got[name].tolist() == theirs.tolist(), item
            else:
                np.testing.assert_allclose(got[name].to_numpy(dtype=float), theirs.astype(float), rtol=1e-12, atol=1e-12, err_msg=item)
        elif item == "unique(s)":
            assert [sorted(values) for values in got[name]] == [sorted(part.unique()) for _, part in groups["s"]]
        else:
            for mine, (_, part) in zip(got[name], groups["y"]):
                np.testing.assert_array_equal(mine, part.dropna().to_numpy())


@pytest.mark.sample(8)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
                                  pa.bool_(), pa.float16(), pa.decimal128(25, 3)], ids=str)
@pytest.mark.parametrize("groups", [1, 5, 3_000, 60_000])
def test_quantiles_of_files_are_selected(tmp_path, kind, groups, threads):
    """Where the plan knows how many rows there are, numbers are held and selected from; otherwise they are sorted. Both say the same."""
    if threads == 7 and kind not in (pa.int64(), pa.float64()):
        pytest.skip("as with two")
    rng = np.random.default_rng(groups + threads)
    rows = 90_000
    values = rng.normal(scale=30, size=rows)
    values[rng.random(rows) < 0.3] = 7
    if not pa.types.is_floating(kind):
        values = np.abs(values).astype(np.int64) % (2 if kind == pa.bool_() else 100)
    nulls = rng.random(rows) < 0.1
    if kind == pa.bool_():
        column = pa.array(values.astype(bool), mask=nulls)
    elif kind == pa.float16():
        column = pa.array(values.astype(np.float16), mask=nulls)
    elif pa.types.is_floating(kind):
        values[rng.random(rows) < 0.05] = np.nan
        column = pa.array(values, mask=nulls).cast(kind)
    else:
        column = pa.array(values, mask=nulls).cast(kind)
    table = pa.table({"k": [f"group {i}" + "x" * (i % 20) for i in rng.integers(0, groups, rows)], "x": column,
                      "y": rng.integers(-(1 << 40), 1 << 40, rows)})
    for part in range(3):
        pq.write_table(table.slice(part * 30_000, 30_000), tmp_path / f"{part}.parquet", row_group_size=7_000)
    items = words_of(["n=count()", "a=quantile(x, 0)", "b=quantile(x, 0.37)", "c=quantile(x, 1, nulls)", "d=quantile(y, 0.999)", "e=sum(y)",
                      "f=min(k)", "g=quantile(y)", "h=count(x)"])
    for keys in ("k", "''"):
        held = stream(f"read '{tmp_path}' then group {keys} {items}", threads=threads)
        ordered = stream(f"batches then group {keys} {items}", table, batch_rows=10_000, threads=threads)
        if keys == "k":
            held, ordered = held.sort_by("k"), ordered.sort_by("k")
        assert held.num_rows == ordered.num_rows
        for name in held.column_names:
            assert held[name].to_pylist() == ordered[name].to_pylist(), name


def test_no_rows_and_no_keys():
    table = pa.table({"k": pa.array([], pa.string()), "x": pa.array([], pa.int64())})
    items = words_of(["quantile(x)", "unique(x)", "count_distinct(x)", "list(k)", "value_counts(k)", "n=count()", "sum(x)",
                      "approx_quantile(x)", "approx_top_k(k)"])
    assert stream(f"batches then group k {items}", table).num_rows == 0
    assert stream(f"batches then group '' {items}", table).to_pylist() == [
        {"quantile(x)": None, "unique(x)": [], "count_distinct(x)": 0, "list(k)": [], "value_counts(k)": {"values": [], "counts": []},
         "n": 0, "sum(x)": None, "approx_quantile(x)": None, "approx_top_k(k)": []}]
    full = pa.table({"k": ["b", "a", "b"], "x": [1, 5, 3]})
    assert stream("batches then group '' 'quantile(x)' 'unique(k)' 'list(x)'", full, batch_rows=1).to_pylist() == [
        {"quantile(x)": 3.0, "unique(k)": ["a", "b"], "list(x)": [1, 5, 3]}]


def test_approximations_beside_others_keep_their_bounds():
    rng = np.random.default_rng(8)
    values = rng.normal(size=500_000)
    ranks = np.sort(values)
    for precision in (10, 100, 800):
        shares = [0, 0.001, 0.1, 0.5, 0.77, 0.999, 1]
        got = stream(f"batches then group '' 'approx_quantile(x, {precision}, {', '.join(map(str, shares))})' 'quantile(x)'",
                     pa.table({"x": values}), batch_rows=50_000)
        for share, value in zip(shares, got.column(0)[0].as_py()):
            assert abs(np.searchsorted(ranks, value) / len(values) - share) <= 1 / (4 * precision) + 1e-5
    words = pa.array(rng.zipf(1.3, 300_000) % 100_000)
    got = stream("batches then group '' 'approx_top_k(w, 25)' 'count_distinct(w)'", pa.table({"w": words}), batch_rows=50_000)
    counts = sorted(((count, value) for value, count in zip(*(a.tolist() for a in np.unique(words.to_numpy(), return_counts=True)))),
                    key=lambda pair: (-pair[0], pair[1]))
    assert [(entry["count"], entry["w"]) for entry in got.column(0)[0].as_py()] == counts[:25]


def test_against_ray():
    aggregate = pytest.importorskip("ray.data.aggregate")
    table = pa.table({"x": pa.array([3, 1, None, 3, 2, 9, 9, 9])})
    for q in (0.0, 0.1, 0.5, 0.77, 1.0):
        fn = aggregate.Quantile("x", q=q)
        theirs = fn.finalize(fn.merge(fn.init(None), fn.aggregate_block(table)))
        assert stream(f"batches then group '' 'quantile(x, {q})'", table).column(0)[0].as_py() == theirs
    fn = aggregate.ValueCounter("x")
    theirs = fn.finalize(fn.merge(fn.init(None), fn.aggregate_block(table)))
    mine = stream("batches then group '' 'value_counts(x, nulls)'", table).column(0)[0].as_py()
    assert dict(zip(mine["values"], mine["counts"])) == dict(zip(theirs["values"], theirs["counts"]))
    for ignore, item in ((True, "count_distinct(x)"), (False, "count_distinct(x, nulls)")):
        fn = aggregate.CountDistinct("x", ignore_nulls=ignore)
        theirs = fn.finalize(fn.merge(fn.init(None), fn.aggregate_block(table)))
        assert stream(f"batches then group '' '{item}'", table).column(0)[0].as_py() == theirs


@pytest.mark.sample(4)
@pytest.mark.parametrize(("items", "threads"), [(["quantile(x)", "count()"], 1), (["count_distinct(t)", "sum(x)"], 2),
                                                (["quantile(x)", "sum(x)"], 7)], ids=str)
def test_beyond_memory_against_duckdb(weir_command, large, tmp_path, items, threads):
    duckdb = pytest.importorskip("duckdb")
    subprocess.run([weir_command, "--memory-limit", "64M", "--threads", str(threads), "read", str(large), "then", "group", "many",
                    *items, "then", "write", str(tmp_path / "out"), "--format", "parquet"], check=True)
    got = pq.read_table(tmp_path / "out").sort_by("many")
    columns = {"quantile(x)": "quantile_cont(x, 0.5)", "count()": "count(*)", "count_distinct(t)": "count(distinct t)", "sum(x)": "fsum(x)"}
    wanted = duckdb.sql("select many, " + ", ".join(f'{columns[item]} as "{item}"' for item in items) +
                        f" from read_parquet('{large}/*.parquet') group by many order by many").to_arrow_table()
    assert got["many"].equals(wanted["many"])
    for item in items:
        np.testing.assert_allclose(got[item].to_numpy(), wanted[item].to_numpy(), rtol=1e-12, err_msg=item)


@pytest.mark.parametrize("threads", [2, 7])
def test_held_values_beyond_memory(weir_command, large, tmp_path, threads):
    subprocess.run([weir_command, "--memory-limit", "64M", "--threads", str(threads), "read", str(large), "then", "group", "many",
                    "list(pad)", "unique(few)", "count()", "then", "write", str(tmp_path / "out"), "--format", "parquet"], check=True)
    got = pq.read_table(tmp_path / "out").sort_by("many")
    table = pq.read_table(large)
    in_order = table.take(pc.sort_indices(table, [("many", "ascending")]))  # stable
    assert got["many"].to_numpy().tolist() == np.unique(table["many"].to_numpy()).tolist()
    assert pc.list_flatten(got["list(pad)"]).combine_chunks().equals(in_order["pad"].combine_chunks())
    assert pc.list_value_length(got["list(pad)"]).cast(pa.int64()).equals(got["count()"])
    pairs = table.group_by(["many", "few"]).aggregate([]).sort_by([("many", "ascending"), ("few", "ascending")])
    assert pc.list_flatten(got["unique(few)"]).combine_chunks().equals(pairs["few"].combine_chunks())


def test_one_group_of_everything_beyond_memory(weir_command, large, tmp_path):
    """Values that come in order need not be held."""
    subprocess.run([weir_command, "--memory-limit", "64M", "read", str(large), "then", "group", "",
                    "quantile(x, 0.9)", "count()", "approx_quantile(x, 800, 0.5)", "then", "write", str(tmp_path / "a.parquet")], check=True)
    subprocess.run([weir_command, "--memory-limit", "64M", "read", str(large), "then", "group", "",
                    "count_distinct(t)", "approx_top_k(t, 4)", "then", "write", str(tmp_path / "b.parquet")], check=True)
    table = pq.read_table(large)
    a, b = pq.read_table(tmp_path / "a.parquet").to_pylist()[0], pq.read_table(tmp_path / "b.parquet").to_pylist()[0]
    assert a["quantile(x)"] == pytest.approx(pc.quantile(table["x"], 0.9)[0].as_py(), rel=1e-12)
    assert a["count()"] == table.num_rows
    assert a["approx_quantile(x)"][0] == pytest.approx(0.5, abs=0.005)
    assert b["count_distinct(t)"] == pc.count_distinct(table["t"]).as_py()
    counts = sorted((entry["counts"] for entry in pc.value_counts(table["t"]).to_pylist()), reverse=True)
    assert [entry["count"] for entry in b["approx_top_k(t)"]] == counts[:4]


@pytest.mark.parametrize("keys", ["", "few"])
def test_quantiles_of_more_values_than_memory_holds(weir_command, large, tmp_path, keys):
    """Nulls and NaN among them, and groups beside the large one."""
    chain = ["read", str(large), "then", "with", 'few = cast(few > 35, "int64")', "then", "with",
             "y = if_else(x > 0.9, null, x * 1000)", "then", "group", keys, "quantile(y)", "low = quantile(y, 0.01)", "n = count(y)",
             "then", "write", str(tmp_path / "a.parquet")]
    subprocess.run([weir_command, "--memory-limit", "64M", *chain], check=True)
    table = pq.read_table(large, columns=["few", "x"])
    x, few = table["x"].to_numpy(), table["few"].to_numpy() > 35
    for row in pq.read_table(tmp_path / "a.parquet").to_pylist():
        values = x[few == row["few"]] if keys else x
        values = values[values <= 0.9] * 1000
        assert row["n"] == len(values)
        np.testing.assert_allclose([row["quantile(y)"], row["low"]], np.quantile(values, [0.5, 0.01]), rtol=1e-12)


def test_a_group_that_memory_does_not_suffice_for(weir_command, large):
    done = subprocess.run([weir_command, "--memory-limit", "64M", "read", str(large), "then", "with", "one = few * 0 + 17", "then",
                           "group", "one", "list(pad)", "list(t)", "then", "count"], capture_output=True, text=True)
    assert done.returncode, done.stdout
    assert "the group one = 17 has" in done.stderr and "rows" in done.stderr and "iB" in done.stderr, done.stderr


def test_a_group_too_large_for_functions():
    code = """
import numpy as np, pyarrow as pa, weir
weir.init(memory_limit=96 << 20)
from weir._exchange import Exchange
class Groups(Exchange):
    __slots__ = ()
    def add(self, flow, build):
        flow.step(self.verb, self.words, [("mark", "number")])
ds = weir.range(8_000_000).with_column("k", weir.col("id") * 0 + 5).with_column("y", weir.col("id") * 2)
try:
    ds._then(Groups(ds._op, "groups", ["k"], "Groups")).materialize()
except MemoryError as error:
    print("refused:", error)
"""
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the group k = 5 has" in done.stdout, done.stdout + done.stderr


def test_what_does_not_fit_is_an_error_that_names_the_group():
    """Also where the group's values are held for another item."""
    great = decimal.Decimal(10**76 - 1)
    table = pa.table({"k": ["a", "b", "b", "c"] + ["b"] * 9, "s": ["x", "y", "y", "z"] + ["y"] * 9,
                      "i": pa.array([1, 2**62, 2**62, 3] + [0] * 9), "b": pa.array([1, -(2**63), 3, 4] + [0] * 9),
                      "d": pa.array([decimal.Decimal(1)] + [great] * 12, pa.decimal256(76, 0))})
    for item, column in (("sum(i)", "i"), ("absmax(b)", "b")):
        for other in ("list(i)", "count_distinct(i)", "quantile(b)", "list(k)"):
            with pytest.raises(ChainError, match=rf"operator group, column {column}: .* does not fit its type.* \(where k = b, s = y\)"):
                stream(f"batches then group k,s '{item}' '{other}'", table, batch_rows=2)
    for item in ("sum(d)", "mean(d)", "std(d)"):
        if item != "std(d)":  # which adds distances, unless values are held
            with pytest.raises(ChainError, match=r"operator group.*a sum of decimals does not fit 256 bits.*where k = '?b'?"):
                stream(f"batches then group k '{item}'", table)
        with pytest.raises(ChainError, match=r"operator group.*a sum of decimals does not fit 256 bits.*\(where k = b\)"):
            stream(f"batches then group k '{item}' 'list(d)'", table)
    # The extremes of decimals are not added up.
    found = stream("batches then group k 'min(d)' 'max(d)' 'absmax(d)' 'n=count_distinct(d)' then sort k", table).to_pylist()
    assert found[1] == {"k": "b", "min(d)": great, "max(d)": great, "absmax(d)": great, "n": 1}


@pytest.mark.parametrize("item,wanted", [("quantile(v)", [3.5, 1.0]), ("count_distinct(v)", [2, 1]), ("list(v)", [[2, 5], [1, 1]]),
                                         ("sum(v)", [7, 2])])
def test_zeros_with_a_sign_are_groups_of_their_own(item, wanted):
    """As pyarrow groups them, whichever way the groups are made."""
    table = pa.table({"k": [0.0, -0.0, 0.0, -0.0], "v": [1, 2, 1, 5]})
    out = stream(f"batches then group k '{item}'", table)
    found = {str(k): value for k, value in zip(out["k"].to_pylist(), out[item].to_pylist())}
    assert found == {"-0.0": wanted[0], "0.0": wanted[1]}
    assert stream("batches then group '' 'count_distinct(k)'", table).to_pylist() == [{"count_distinct(k)": 2}]
