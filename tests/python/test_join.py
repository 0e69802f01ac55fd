"""join against DuckDB, Polars and pandas, with names and columns as Ray Data has them: eight kinds, key types, nulls, NaN, keys
that are there many times, empty sides, memory that is too small, any number of lanes."""
import itertools
import math
import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pl = pytest.importorskip("polars")

import random_tables  # noqa: E402
from weir_chain import ChainError, quote, stream  # noqa: E402
from weir_chain import run as run_chain  # noqa: E402

KINDS = ["inner", "left", "right", "full", "left_semi", "right_semi", "left_anti", "right_anti"]


def plain(value):
    """Something that can be counted: NaN is NaN."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return tuple((key, plain(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(plain, value))
    return value


def exact(table):
    """Times as numbers: Python's have no nanoseconds."""
    for i, field in enumerate(table.schema):
        if getattr(field.type, "unit", None) == "ns":
            table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
    return table


def bag(table):
    table = exact(table)
    return Counter(tuple(plain(value) for value in row.values()) for row in table.to_pylist())


def model(left, right, how, on, right_on=None):
    """The join in plain Python, row by row: the second model beside the libraries'."""
    right_on = right_on or on
    left, right = exact(left), exact(right)
    lefts, rights = left.to_pylist(), right.to_pylist()

    def key(row, names):
        values = tuple(0.0 if row[name] == 0 and isinstance(row[name], float) else plain(row[name]) for name in names)
        return None if any(row[name] is None for name in names) else values

    by_key = {}
    for i, row in enumerate(rights):
        by_key.setdefault(key(row, right_on), []).append(i)
    by_key.pop(None, None)
    pairs = [(i, j) for i, row in enumerate(lefts) for j in by_key.get(key(row, on), ())]
    has_left, has_right = {i for i, _ in pairs}, {j for _, j in pairs}
    if how in ("left_semi", "left_anti"):
        return [row for i, row in enumerate(lefts) if (i in has_left) == (how == "left_semi")]
    if how in ("right_semi", "right_anti"):
        return [row for i, row in enumerate(rights) if (i in has_right) == (how == "right_semi")]
    if how in ("left", "full"):
        pairs += [(i, None) for i in range(len(lefts)) if i not in has_left]
    if how in ("right", "full"):
        pairs += [(None, j) for j in range(len(rights)) if j not in has_right]
    payload = [name for name in right.column_names if name not in right_on]
    rows = []
    for i, j in pairs:
        mine = lefts[i] if i is not None else dict.fromkeys(left.column_names)
        theirs = rights[j] if j is not None else dict.fromkeys(right.column_names)
        row = {}
        if how == "right":
            row.update({name: mine[name] for name in left.column_names if name not in on})
            row.update({name: theirs[name] for name in right.column_names})
        else:
            row.update({name: theirs[right_on[on.index(name)]] if i is None and name in on else mine[name]
                        for name in left.column_names})
            row.update({name: theirs[name] for name in payload})
        rows.append(row)
    return rows


def wanted(left, right, how, on, right_on=None):
    return Counter(tuple(plain(value) for value in row.values()) for row in model(left, right, how, on, right_on))


def joined(tmp_path, left, right, how, on=("k",), right_on=None, options="", written=False, **run):
    file = os.path.join(tmp_path, "right.parquet")
    pq.write_table(right, file, row_group_size=max(1, right.num_rows // 5))
    words = f"batches then join {quote(file)} --on {quote(','.join(on))} --how {how} {options}"
    if right_on:
        words += f" --right-on {quote(','.join(right_on))}"
    if written:
        out = os.path.join(tmp_path, "out")
        result = run_chain(f"{words} then write {quote(out)}", left, batch_rows=max(1, left.num_rows // 7), **run)
        assert result.memory_peak <= run["memory_limit"] * 1.1
        return pq.read_table(out)
    return stream(words, left, batch_rows=max(1, left.num_rows // 7), **run)


def table_of(rng, kind, rows, name, distinct):
    """Keys out of few values, so that they meet, and a payload that tells the rows apart."""
    values = random_tables.column(rng, kind, distinct)
    picks = pa.array(rng.integers(0, distinct, rows)) if rows else pa.array([], pa.int64())
    return pa.table({"k": values.take(picks), name: pa.array(range(rows), pa.int64())})


def keys_meet(left, right, rng):
    """Half of the right side's keys are the left side's."""
    if not left.num_rows or not right.num_rows:
        return right
    half = right.num_rows // 2
    picks = pa.array(rng.integers(0, left.num_rows, half))
    keys = pa.concat_arrays([left["k"].combine_chunks().take(picks), right["k"].combine_chunks()[half:]])
    return right.set_column(0, "k", keys)


KEY_TYPES = [kind for kind in random_tables.LEAVES if not pa.types.is_null(kind) and not pa.types.is_interval(kind)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
def test_every_type(tmp_path, kind, how):
    import numpy as np

    rng = np.random.default_rng(KINDS.index(how) * 100 + len(str(kind)))
    left = table_of(rng, kind, 300, "a", 60)
    right = keys_meet(left, table_of(rng, kind, 90, "b", 40), rng)
    got = joined(tmp_path, left, right, how)
    assert bag(got) == wanted(left, right, how, ("k",))


SQL = {
    "inner": "SELECT l.*, r.b FROM l JOIN r ON l.k = r.k",
    "left": "SELECT l.*, r.b FROM l LEFT JOIN r ON l.k = r.k",
    "right": "SELECT l.a, r.* FROM l RIGHT JOIN r ON l.k = r.k",
    "full": "SELECT coalesce(l.k, r.k) AS k, l.a, r.b FROM l FULL JOIN r ON l.k = r.k",
    "left_semi": "SELECT l.* FROM l SEMI JOIN r ON l.k = r.k",
    "right_semi": "SELECT r.* FROM r SEMI JOIN l ON l.k = r.k",
    "left_anti": "SELECT l.* FROM l ANTI JOIN r ON l.k = r.k",
    "right_anti": "SELECT r.* FROM r ANTI JOIN l ON l.k = r.k",
}


def large(seed, rows, keys, name, heavy=0):
    import numpy as np

    rng = np.random.default_rng(seed)
    values = rng.integers(0, keys, rows)
    values[: heavy] = 7
    return pa.table({"k": pa.array(values, mask=rng.random(rows) < 0.05), name: [f"{name}{i % 1000}" for i in range(rows)]})


def duck(left, right, how):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    return Counter(connection.execute(SQL[how]).fetchall())


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("memory", [0, 64 << 20])
def test_many_rows_any_number_of_lanes(tmp_path, how, threads, memory):
    left, right = large(1, 60_000, 20_000, "a"), large(2, 15_000, 25_000, "b")
    got = joined(tmp_path, left, right, how, threads=threads, memory_limit=memory)
    assert Counter(map(tuple, (row.values() for row in got.to_pylist()))) == duck(left, right, how)


def polars_join(left, right, how):
    a, b = pl.from_arrow(left), pl.from_arrow(right)
    if how in ("right_semi", "right_anti"):
        return b.join(a, on="k", how=how.partition("_")[2])
    return a.join(b, on="k", how=how.partition("_")[2] or how, coalesce=True)


@pytest.mark.parametrize("how", KINDS)
def test_beyond_memory(tmp_path, how):
    """Wide rows, several times the limit: both sides lie in partitions, on disk."""
    import numpy as np

    def wide(seed, rows, name):
        rng = np.random.default_rng(seed)
        return pa.table({"k": pa.array(rng.integers(0, rows, rows), mask=rng.random(rows) < 0.02),
                         name: rng.integers(0, 1 << 60, rows), f"{name}_text": [os.urandom(60).hex() for _ in range(rows)]})

    left, right = wide(3, 200_000, "a"), wide(4, 150_000, "b")
    got = joined(tmp_path, left, right, how, written=True, memory_limit=64 << 20, threads=2)
    theirs = polars_join(left, right, how)
    assert got.column_names == theirs.columns
    assert got.num_rows == theirs.height
    order = got.column_names
    mine = pl.from_arrow(got)
    assert mine.sort(order, nulls_last=True).equals(theirs.sort(order, nulls_last=True))


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.9])
def test_tables_beyond_the_cache(tmp_path, how, text, share):
    """Keys far apart on both sides, of which few or most have a partner."""
    import numpy as np

    def side(seed, rows, common, name):
        rng = np.random.default_rng(seed)
        keys = np.where(rng.random(rows) < common, rng.integers(0, 100_000, rows) * 1_000_003, rng.integers(1 << 40, 1 << 60, rows))
        table = pa.table({"k": pa.array(keys, mask=rng.random(rows) < 0.02), name: rng.integers(0, 1 << 60, rows),
                          f"{name}_text": pa.array(rng.integers(0, 1 << 60, rows)).cast(pa.string())})
        return table.set_column(0, "k", table["k"].cast(pa.string())) if text else table

    left, right = side(7, 200_000, share, "a"), side(8, 150_000, 0.5, "b")
    got, theirs = joined(tmp_path, left, right, how, threads=2), polars_join(left, right, how)
    assert got.num_rows == theirs.height
    order = got.column_names
    assert pl.from_arrow(got).sort(order, nulls_last=True).equals(theirs.sort(order, nulls_last=True))


@pytest.mark.parametrize("how", ["inner", "left", "full", "left_semi", "left_anti", "right"])
def test_one_heavy_key(tmp_path, how):
    """A partition's build side that does not fit is held in pieces."""
    left, right = large(5, 3_000, 50, "a", heavy=3), large(6, 120_000, 1 << 40, "b", heavy=50_000)
    right = right.append_column("text", [["x" * 120 + str(i) for i in range(right.num_rows)]])
    left = left.slice(0, 300)
    got = joined(tmp_path, left, right, how, written=True, memory_limit=64 << 20, threads=2)
    theirs = polars_join(left, right, how)
    assert got.num_rows == theirs.height
    order = got.column_names
    assert pl.from_arrow(got).sort(order, nulls_last=True).equals(theirs.sort(order, nulls_last=True))


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("left_rows, right_rows", [(0, 0), (0, 20), (20, 0), (1, 1)])
def test_empty_sides(tmp_path, how, left_rows, right_rows):
    left, right = large(1, left_rows, 5, "a"), large(2, right_rows, 5, "b")
    got = joined(tmp_path, left, right, how)
    assert bag(got) == wanted(left, right, how, ("k",))


@pytest.mark.parametrize("how", KINDS)
def test_nan_and_zero_and_none(tmp_path, how):
    nan = math.nan
    left = pa.table({"k": [nan, 0.0, -0.0, 1.0, None, nan], "a": range(6)})
    right = pa.table({"k": [nan, -0.0, None, 2.0], "b": range(4)})
    assert bag(joined(tmp_path, left, right, how)) == wanted(left, right, how, ("k",))


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("signed", [pa.int64(), pa.int8()])
def test_signed_and_unsigned_keys_meet_by_value(tmp_path, how, signed):
    """Also those that the other side's type does not have: no bits of a negative number are a large one's."""
    negative = pa.table({"k": pa.array([5, -1, None, -(2 ** (signed.bit_width - 1)), 2 ** (signed.bit_width - 1) - 1], signed), "l": range(5)})
    large = pa.table({"k": pa.array([2**64 - 1, 5, 2**63, None, 2**63 - 1, 127], pa.uint64()), "r": range(6)})
    assert bag(joined(tmp_path, negative, large, how)) == wanted(negative, large, how, ("k",))
    negative, large = negative.append_column("m", negative["k"]), large.append_column("m", large["k"])
    assert bag(joined(tmp_path, large, negative, how, on=("k", "m"))) == wanted(large, negative, how, ("k", "m"))


@pytest.mark.parametrize("how", KINDS)
def test_several_keys_and_unicode(tmp_path, how):
    rng = random.Random(3)
    words = ["", "a", "ä", "日本", "a\x00b", "a\x00", "x" * 40, None]
    left = pa.table({"u": [rng.choice(words) for _ in range(200)], "a": range(200), "v": [rng.choice([1, 2, None]) for _ in range(200)]})
    right = pa.table({"b": range(90), "v2": [rng.choice([1, 3, None]) for _ in range(90)], "u2": [rng.choice(words) for _ in range(90)]})
    got = joined(tmp_path, left, right, how, ("u", "v"), ("u2", "v2"))
    assert bag(got) == wanted(left, right, how, ("u", "v"), ("u2", "v2"))


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("memory", [0, 64 << 20])
def test_nested_payload_and_dictionaries(tmp_path, how, memory):
    rng = random.Random(4)

    def side(name, rows):
        return pa.table({
            "k": pa.array([rng.choice(["x", "y", "z", None, "w" * 20]) for _ in range(rows)]).dictionary_encode(),
            f"{name}_list": pa.array([rng.choice([None, [], [1, None, i]]) for i in range(rows)], pa.list_(pa.int64())),
            f"{name}_struct": pa.array([rng.choice([None, {"x": i, "y": "t" * (i % 30)}]) for i in range(rows)],
                                       pa.struct([("x", pa.int64()), ("y", pa.string())])),
            f"{name}_dict": pa.array([rng.choice(["p", "q", None]) for _ in range(rows)]).dictionary_encode(),
            f"{name}_bool": pa.array([rng.choice([True, False, None]) for _ in range(rows)]),
            f"{name}_null": pa.nulls(rows),
            f"{name}_wide": pa.array([bytes([i % 256]) * 40 for i in range(rows)], pa.binary(40)),
        })

    left, right = side("a", 70), side("b", 50)
    got = joined(tmp_path, left, right, how, memory_limit=memory)
    assert bag(got) == wanted(left, right, how, ("k",))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_sides(tmp_path_factory, data):
    how = data.draw(st.sampled_from(KINDS))
    key = data.draw(st.sampled_from([st.integers(0, 5), st.text("aé", max_size=2), st.sampled_from([0.0, -0.0, math.nan, 1.5])]))
    sides = []
    for name in "ab":
        keys = data.draw(st.lists(st.one_of(st.none(), key), max_size=30))
        kinds = {int: pa.int64(), str: pa.string(), float: pa.float64()}
        sides.append((keys, name, kinds))
    kind = next((kinds[type(k)] for keys, _, kinds in sides for k in keys if k is not None), pa.int64())
    left, right = (pa.table({"k": pa.array(keys, kind), name: pa.array(range(len(keys)), pa.int64())}) for keys, name, _ in sides)
    got = joined(tmp_path_factory.mktemp("join"), left, right, how, threads=data.draw(st.sampled_from([1, 3])))
    assert bag(got) == wanted(left, right, how, ("k",))


# ---- names, types, errors ----


def ray_join(left, right, how, on, right_on=None, left_suffix=None, right_suffix=None):
    join = pytest.importorskip("ray.data._internal.execution.operators.join")
    types = pytest.importorskip("ray.data._internal.logical.operators.join_operator")
    words = {"left": "left_outer", "right": "right_outer", "full": "full_outer"}
    return join.join_tables(left, right, join_type=types.JoinType(words.get(how, how)), left_key_col_names=tuple(on),
                            right_key_col_names=tuple(right_on or on), left_columns_suffix=left_suffix,
                            right_columns_suffix=right_suffix)


LEFT = {"a": [1, 2, 2], "k": [1, 2, 2], "b": ["x", "y", "z"]}
RIGHT = {"c": [10, 20], "k": [2, 3], "b": ["p", "q"]}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("suffixes", [("_l", None), (None, "_r"), ("_l", "_r"), ("_x", "_x"), ("", "")])
@pytest.mark.parametrize("names, right_on", [
    (["c", "k", "b"], None), (["c", "kk", "b"], ["kk"]), (["k", "kk", "b"], ["kk"]), (["a", "kk", "b_r"], ["kk"]),
    (["a", "b", "a_r"], ["b"]), (["b_l", "b", "c"], ["b"]),
])
def test_columns_are_as_ray_names_them(tmp_path, how, suffixes, names, right_on):
    left = pa.table(LEFT)
    right = pa.table(dict(zip(names, RIGHT.values())))
    if right_on == ["b"] or (right_on or ["k"])[0] not in names:
        right = right.set_column(names.index("b"), "b", pa.array([2, 3]))
    options = "".join(f" --{side}-suffix={quote(text)}" for side, text in zip(("left", "right"), suffixes) if text is not None)
    try:
        theirs = ray_join(left, right, how, ["k"], right_on, *suffixes)
    except Exception:
        with pytest.raises(ChainError):
            joined(tmp_path, left, right, how, ("k",), right_on, options)
        return
    got = joined(tmp_path, left, right, how, ("k",), right_on, options)
    assert got.column_names == theirs.column_names
    assert bag(got) == bag(theirs)


def test_clashing_names_without_suffix_are_an_error(tmp_path):
    with pytest.raises(ChainError, match=r"suffixes cannot be both None \(overlapping columns: \['b'\]\)"):
        joined(tmp_path, pa.table(LEFT), pa.table(RIGHT), "inner")
    assert joined(tmp_path, pa.table(LEFT), pa.table(RIGHT), "left_semi").column_names == ["a", "k", "b"]


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kinds", [("int32", "int64"), ("int64", "int8"), ("float", "double"), ("string", "large_string"),
                                   ("timestamp[ms]", "timestamp[us]"), ("date32[day]", "date32[day]")])
def test_keys_of_two_widths(tmp_path, how, kinds):
    types = {"int32": pa.int32(), "int64": pa.int64(), "int8": pa.int8(), "float": pa.float32(), "double": pa.float64(),
             "string": pa.string(), "large_string": pa.large_string(), "timestamp[ms]": pa.timestamp("ms"),
             "timestamp[us]": pa.timestamp("us"), "date32[day]": pa.date32()}

    def keys(kind, values):
        if kind == "timestamp[us]":
            values = [None if v is None else v * 1000 for v in values]
        array = pa.array(values, pa.int32() if kind == "date32[day]" else pa.int64())
        return array.cast(types[kind]) if "string" not in kind else array.cast(pa.string()).cast(types[kind])

    left = pa.table({"k": keys(kinds[0], [1, 2, None, 4]), "a": range(4)})
    right = pa.table({"k": keys(kinds[1], [2, 4, 4, None, 9]), "b": range(5)})
    got = joined(tmp_path, left, right, how)
    assert bag(got) == wanted(left, right, how, ("k",))
    if how in ("inner", "left"):
        assert got.schema.field("k").type == left.schema.field("k").type
    if how == "right":
        assert got.schema.field("k").type == right.schema.field("k").type


@pytest.mark.parametrize("mine, theirs, message", [
    ([1], ["1"], "cannot join column 'k', which is int64, with column 'k', which is string"),
    ([1], [1.0], "which is int64, with column 'k', which is double"),
    ([[1]], [[1]], "cannot join on column 'k' of the left side, which is of type list"),
    ([1], [{"x": 1}], "cannot join on column 'k' of the right side, which is of type struct"),
])
def test_unjoinable_keys(tmp_path, mine, theirs, message):
    with pytest.raises(ChainError, match=message):
        joined(tmp_path, pa.table({"k": mine, "a": [1]}), pa.table({"k": theirs, "b": [1]}), "inner")


@pytest.mark.parametrize("options, message", [
    ("--on nope", "no column 'nope'"), ("", "which columns to join on"), ("--on k --how outer", "--how is inner"),
    ("--on k --right-on 'k,b'", "1 columns to join on at the left and 2"), ("--on k --partitions 0", "at least 1"),
    ("--on ''", "an empty item in the list"),
])
def test_mistakes(tmp_path, options, message):
    file = os.path.join(tmp_path, "r.parquet")
    pq.write_table(pa.table(RIGHT), file)
    with pytest.raises(ChainError, match=message):
        stream(f"batches then join {quote(file)} {options}", pa.table(LEFT))


def test_a_chain_on_the_right(tmp_path):
    file = os.path.join(tmp_path, "r.parquet")
    pq.write_table(pa.table({"k": range(100), "b": range(100)}), file)
    left = pa.table({"k": range(0, 200, 2), "a": range(100)})
    got = stream(f"batches then join \"read '{file}' then filter 'b > 50' then sort 'b desc'\" --on k then sort k", left)
    assert got.to_pydict() == {"k": list(range(52, 100, 2)), "a": list(range(26, 50)), "b": list(range(52, 100, 2))}


# ---- rules: what stands behind a join is asked before it, where that is the same ----

FILTERS = ["k > 2", "a > 3", "b > 3", "k is None", "a is None", "b is None", "a + b > 5", "k > 1 and b < 8 and a < 9"]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("text", FILTERS)
def test_filters_behind_a_join(tmp_path, how, text):
    left = pa.table({"k": [1, 2, 3, 4, None, 4], "a": [None, 3, 4, 5, 6, 7]})
    right = pa.table({"k": [2, 3, 4, 4, 5, None], "b": [1, 2, None, 4, 5, 6]})
    file = os.path.join(tmp_path, "r.parquet")
    pq.write_table(right, file)
    got = stream(f"batches then join {quote(file)} --on k --how {how} then filter {quote(text)} then select 'b, k'", left)
    rows = model(left, right, how, ("k",))

    def holds(row):
        try:
            return bool(eval(text, {}, row))
        except TypeError:
            return False

    assert bag(got) == Counter((row["b"], row["k"]) for row in rows if holds(row))


def test_joins_of_joins(tmp_path):
    files = []
    for name in "bcd":
        files.append(os.path.join(tmp_path, f"{name}.parquet"))
        pq.write_table(pa.table({"k": range(0, 300, 2 + len(files)), name: range(0, 300, 2 + len(files))}), files[-1])
    got = stream(f"batches then join {quote(files[0])} --on k then join \"read '{files[1]}' then join '{files[2]}' --on k --how full\""
                 " --on k --how left then limit 10000", pa.table({"k": range(300)}))
    assert got.column_names == ["k", "b", "c", "d"]
    rows = {row["k"]: row for row in got.to_pylist()}
    assert len(rows) == got.num_rows == 100
    assert rows[60] == {"k": 60, "b": 60, "c": 60, "d": 60}
    assert rows[3] == {"k": 3, "b": 3, "c": None, "d": None}


# ---- Dataset.join ----


def rows_of(ds):
    return Counter(tuple(plain(value) for value in row.values()) for row in ds.take_all())


RAY_KINDS = {"inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer"}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("functions", list(itertools.product([False, True], repeat=2)))
def test_functions_before_a_join(how, functions):
    import weir

    left, right = large(8, 400, 100, "a"), large(9, 150, 120, "b")
    sides = [weir.from_arrow(table) for table in (left, right)]
    sides = [ds.map(lambda row: row) if has_function else ds for ds, has_function in zip(sides, functions)]
    ds = sides[0].join(sides[1], RAY_KINDS.get(how, how), 4, on=("k",))
    assert rows_of(ds) == wanted(left, right, how, ("k",))
    assert ds.map(lambda row: row).count() == sum(wanted(left, right, how, ("k",)).values())


def test_blocks_of_several_schemas():
    import weir

    def change(row):
        return {"id": row["id"], "v": row["id"] if row["id"] < 10 else row["id"] + 0.5}

    ds = weir.range(20, override_num_blocks=20).map(change).join(weir.range(15), "left_outer", 2)
    assert ds.count() == 20
    assert {row["id"]: row["v"] for row in ds.take_all()} == {i: i if i < 10 else i + 0.5 for i in range(20)}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_sides_without_blocks(how, empty):
    import weir

    none = weir.from_items([{"x": 1}]).flat_map(lambda row: [])
    left = none if empty != "right" else weir.from_items([{"k": 1, "a": 2}])
    right = none if empty != "left" else weir.from_items([{"b": 3, "kk": 1}])
    rows = left.join(right, RAY_KINDS.get(how, how), 2, on=("k",), right_on=("kk",)).take_all()
    if empty == "right":
        assert rows == ([{"k": 1, "a": 2}] if how in ("left", "full", "left_anti") else [])
    elif empty == "left" and how == "full":
        assert rows == [{"k": 1, "b": 3}]
    elif empty == "left":
        assert rows == ([{"b": 3, "kk": 1}] if how in ("right", "right_anti") else [])
    else:
        assert rows == []


def test_mistakes_in_python():
    import weir
    from weir._join import JoinType

    a, b = weir.range(3), weir.range(4)
    with pytest.raises(ValueError, match=r"Invalid join type: 'outer'\. Supported join types are: inner, left_outer"):
        a.join(b, "outer", 2)
    with pytest.raises(ValueError, match=r"Expected tuple or list as `on` \(got str\)"):
        a.join(b, "inner", 2, on="id")
    with pytest.raises(ValueError, match=r"Expected tuple or list as `right_on` \(got str\)"):
        a.join(b, "inner", 2, right_on="id")
    with pytest.raises(ValueError, match="At least 1 column name"):
        a.join(b, "inner", 2, on=())
    with pytest.raises(ValueError, match=r"has to match \(got \['id'\] and \['id', 'x'\]\)"):
        a.join(b, "inner", 2, right_on=("id", "x"))
    with pytest.raises(ValueError, match="Key columns are expected to be present"):
        a.join(b, "inner", 2, on=("nope",), validate_schemas=True)
    with pytest.raises(Exception, match="no column 'nope'"):
        a.join(b, "inner", 2, on=("nope",)).take_all()
    with pytest.warns(DeprecationWarning, match="partition_size_hint"):
        a.join(b, "inner", 2, partition_size_hint=1)
    assert a.join(b, "inner", 2, validate_schemas=True).count() == 3
    with pytest.raises(ValueError, match="suffixes cannot be both None") as caught:
        a.add_column("x", lambda df: df["id"]).join(b.add_column("x", lambda df: df["id"]), "inner", 2).take_all()
    assert isinstance(caught.value, weir.exceptions.RayTaskError) and "suffixes cannot be both None" in str(caught.value.cause)
    assert "left_suffix= and right_suffix= tell them apart" in str(caught.value)
    assert a.join(b, JoinType.INNER, 2).count() == a.join(b, "inner", 2).count() == 3


def test_a_dataset_with_itself():
    import weir

    ds = weir.range(5).with_column("v", weir.col("id") * 2)
    joined_ds = ds.join(ds, "inner", 2, right_suffix="_r")
    assert joined_ds.columns() == ["id", "v", "v_r"]
    assert sorted(joined_ds.take_all(), key=lambda row: row["id"])[4] == {"id": 4, "v": 8, "v_r": 8}
    assert "Join" in joined_ds.stats() or joined_ds.count() == 5


def many(rows, seed, far):
    """Different numbers, close together or far apart."""
    numbers = list(range(rows))
    random.Random(seed).shuffle(numbers)
    return [n * 88_888_888_887 - 2**61 if far else n for n in numbers]


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", ["inner", "left_outer", "left_semi", "left_anti"])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("twice", [0, 1])
@pytest.mark.parametrize("payload", [[], ["int8", "int32", "int16"], ["int64"], ["double", "string"]])
def test_values_beside_their_keys(how, far, twice, payload):
    """Keys that are there once, or some of them twice, with values that fit beside them or not."""
    import weir

    seed = random.randrange(1 << 30)
    print("seed", seed)
    keys = many(120_000, seed, far)
    keys[:1] = [0x7C3E91D5A86B04F3] if far else keys[:1]  # looks like a free place
    keys += keys[:twice]
    rng = random.Random(seed)
    right = pa.table({"k": keys} | {
        f"w{i}": pa.array([rng.randrange(100) for _ in keys]).cast(kind) for i, kind in enumerate(payload)})
    left = pa.table({"k": [rng.choice(keys) if rng.random() < 0.6 else rng.randrange(-10, 10**6) for _ in range(9_000)]
                     + [None, keys[0]], "v": range(9_002)})
    found = weir.from_arrow([left.slice(0, 5_000), left.slice(5_000)]).join(
        weir.from_arrow([right.slice(0, 70_000), right.slice(70_000)]), join_type=how, num_partitions=3, on=("k",)).to_arrow()
    kinds = {"inner": "inner", "left_outer": "left", "left_semi": "semi", "left_anti": "anti"}
    wanted = pl.from_arrow(left).join(pl.from_arrow(right), on="k", how=kinds[how])
    names = wanted.columns
    assert pl.from_arrow(found).select(names).sort(names).equals(wanted.sort(names))


def test_blocks_of_partitions_are_chunks():
    import weir

    left, right = weir.range(3_000_000), weir.range(1_000_000).add_column("w", lambda batch: batch["id"] * 2, batch_format="numpy")
    for count in (1, 3, 5):
        kept = left.join(right, join_type="inner", num_partitions=count, on=("id",)).materialize()
        assert kept.num_blocks() == count and kept.count() == 1_000_000
        assert kept.sum("w") == 999_999 * 1_000_000


@pytest.mark.sample(2)
@pytest.mark.parametrize("right", ["plain", "sort", "shuffle"])
@pytest.mark.parametrize("left", ["sort", "shuffle", "group", "repartition", "join", "limit"])
def test_sides_that_are_exchanges(left, right):
    """Of few rows, of which one side is held, and of so many that both are put into partitions."""
    import weir

    rows = weir.range(300_000).with_column("k", weir.col("id") * 2654435761 % 4294967291)
    ways = {"plain": lambda ds: ds, "sort": lambda ds: ds.sort("k"), "shuffle": lambda ds: ds.random_shuffle(seed=1),
            "group": lambda ds: ds.groupby("k").sum("id"), "repartition": lambda ds: ds.repartition(5, keys=["k"]),
            "join": lambda ds: ds.join(rows.select_columns(["k"]), "left_semi", 4, on=("k",)), "limit": lambda ds: ds.sort("k").limit(100_000)}
    try:
        for limit in (None, 64 << 20):
            weir.init(num_cpus=2, memory_limit=limit, ignore_reinit_error=True)
            others = rows.rename_columns({"id": "other"})
            joined = ways[left](rows).join(ways[right](others), "inner", 4, on=("k",))
            assert joined.count() == (100_000 if left == "limit" else 300_000)
            assert joined.sum("other") == sum(ways[left](rows).select_columns(["id" if left != "group" else "sum(id)"]).unique("id" if left != "group" else "sum(id)"))
            weir.shutdown()
    finally:
        weir.shutdown()


NO_ROWS = {
    "given": lambda none, made: none,
    "renamed": lambda none, made: none.rename_columns({"j": "x"}).rename_columns({"x": "j"}),
    "filtered": lambda none, made: made.filter(lambda row: False),
    "made": lambda none, made: made.map_batches(lambda batch: {name: values[:0] for name, values in batch.items()}),
    "made and filtered": lambda none, made: made.filter(expr="k > 100"),
    "made, filtered and sorted": lambda none, made: made.filter(expr="k > 100").sort("k"),
    "made, filtered and in blocks": lambda none, made: made.filter(expr="k > 100").repartition(2),
    "made, renamed and filtered": lambda none, made: made.rename_columns({"j": "x"}).filter(expr="k > 100").rename_columns({"x": "j"}),
    "sorted": lambda none, made: none.sort("k"),
    "limited": lambda none, made: none.limit(0),
    "sorted and limited": lambda none, made: none.union(none).sort("j").limit(2),
    "shuffled": lambda none, made: none.random_shuffle(),
    "in blocks": lambda none, made: none.repartition(3),
    "in blocks of rows": lambda none, made: none.repartition(target_num_rows_per_block=3, strict=True),
    "by keys": lambda none, made: none.repartition(3, keys=["k"]),
    "in another order": lambda none, made: none.randomize_block_order(),
    "grouped": lambda none, made: none.groupby("k").max("j").rename_columns({"max(j)": "j"}),
    "united": lambda none, made: none.union(none),
    "zipped": lambda none, made: none.select_columns(["k"]).zip(none.select_columns(["j"])),
    "filtered and sorted": lambda none, made: made.filter(lambda row: False).sort("k").rename_columns({"j": "x"}).rename_columns({"x": "j"}),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("side", NO_ROWS)
def test_a_side_without_rows_has_its_columns(side):
    import weir

    none = weir.from_arrow(pa.table({"k": pa.array([], pa.int64()), "j": pa.array([], pa.string())}))
    numbers = weir.range(5).map_batches(lambda batch: {"k": batch["id"], "j": batch["id"].astype(str)})
    rows = weir.from_items([{"k": 1, "i": 10}, {"k": 2, "i": 20}])
    made = NO_ROWS[side](none, numbers)
    try:
        for how in ("left_outer", "full_outer"):
            found = sorted(rows.join(made, how, 2, on=("k",)).take_all(), key=lambda row: row["k"])
            assert found == [{"k": 1, "i": 10, "j": None}, {"k": 2, "i": 20, "j": None}]
        for how in ("right_outer", "full_outer"):
            found = sorted(made.join(rows, how, 2, on=("k",)).take_all(), key=lambda row: row["k"])
            assert found == [{"k": 1, "j": None, "i": 10}, {"k": 2, "j": None, "i": 20}]
        assert made.join(rows, "right_outer", 2, on=("k",)).filter(expr="j is None").sort("k").take_all() == found
        assert rows.join(made, "inner", 2, on=("k",)).take_all() == []
        assert rows.join(made, "left_anti", 2, on=("k",)).count() == 2
    finally:
        weir.shutdown()


def test_a_column_that_is_not_there_is_of_a_side(tmp_path):
    left, right = pa.table({"key": [1], "name": ["a"]}), pa.table({"key": [1], "other": [2]})
    for on, right_on, wanted in ((["kee"], None, "the left side has no column 'kee'; did you mean 'key'"),
                                 (["name"], None, "the right side has no column 'name'"),
                                 (["key"], ["othre"], "the right side has no column 'othre'; did you mean 'other'")):
        with pytest.raises(ChainError, match=wanted):
            joined(tmp_path, left, right, "inner", on, right_on)
