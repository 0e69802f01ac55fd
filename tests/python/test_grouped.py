"""groupby: aggregations of weir and of users, map_groups, unique. Checked against plain Python, and pandas where it is installed."""
import math
import os
import random
import signal
import statistics
from collections import Counter, defaultdict
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import weir
from driver_scripts import not_sanitized
from weir.aggregate import (
    AbsMax, AggregateFn, AggregateFnV2, ApproximateQuantile, ApproximateTopK, AsList, Count, CountDistinct, Max, Mean, Min,
    MissingValuePercentage, Quantile, Std, Sum, Unique, ValueCounter, VectorizedAggregateFnV2, ZeroPercentage,
)

ROWS = [{"k": k, "x": x} for k, x in [("a", 1), ("b", 2), ("a", 3), (None, 4), ("b", None), ("a", 0)]]


def table():
    return weir.from_items(ROWS)


def by_key(rows, *keys):
    """Rows by their keys; NaN is equal to itself here."""
    names = keys or ("k",)
    found = {tuple("nan" if row[n] != row[n] else row[n] for n in names): row for row in rows}
    assert len(found) == len(rows)
    return found if len(names) > 1 else {key[0]: row for key, row in found.items()}


def groups_of(rows, key="k"):
    found = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


# ---- aggregations of weir's own ----


EXPECTED = {
    "count()": lambda x: len(x),
    "count(x)": lambda x: len(x),
    "sum(x)": lambda x: sum(v for v in x if v is not None),
    "min(x)": lambda x: min(v for v in x if v is not None),
    "max(x)": lambda x: max(v for v in x if v is not None),
    "abs_max(x)": lambda x: max(abs(v) for v in x if v is not None),
    "mean(x)": lambda x: sum(v for v in x if v is not None) / sum(v is not None for v in x),
    "missing_pct(x)": lambda x: 100 * x.count(None) / len(x),
    "zero_pct(x)": lambda x: 100 * x.count(0) / sum(v is not None for v in x),
    "count_distinct(x)": lambda x: len({v for v in x if v is not None}),
    "list(x)": lambda x: x,
}
MADE = [Count(), Count("x"), Sum("x"), Min("x"), Max("x"), AbsMax("x"), Mean("x"), MissingValuePercentage("x"), ZeroPercentage("x"),
        CountDistinct("x"), AsList("x")]


@pytest.mark.parametrize("own", [False, True], ids=["engine", "with a user's"])
def test_aggregations(own):
    mine = [AggregateFn(lambda key: key, lambda a, b: a, "key", accumulate_row=lambda a, row: a)] if own else []
    found = by_key(table().groupby("k").aggregate(*MADE, *mine).take_all())
    assert list(found["a"]) == ["k", *EXPECTED, *(["key"] if own else [])]
    for key, rows in groups_of(ROWS).items():
        for name, expected in EXPECTED.items():
            assert found[key][name] == pytest.approx(expected([row["x"] for row in rows])), (key, name)
        if own:
            assert found[key]["key"] == key


@pytest.mark.parametrize("own", [False, True], ids=["engine", "with a user's"])
def test_aggregations_of_all(own):
    mine = [AggregateFn(lambda key: 0, lambda a, b: a + b, "n", accumulate_row=lambda a, row: a + 1)] if own else []
    found = table().repartition(3).aggregate(*MADE, *mine)
    for name, expected in EXPECTED.items():
        assert found[name] == pytest.approx(expected([row["x"] for row in ROWS])), name
    assert not own or found["n"] == 6


def test_results_that_are_lists():
    found = by_key(table().groupby("k").aggregate(Unique("x"), ValueCounter("x"), Unique("x", ignore_nulls=True, alias_name="u")).take_all())
    assert set(found["b"]["unique(x)"]) == {2, None} and found["b"]["u"] == [2]
    counts = found["b"]["value_counter(x)"]
    assert dict(zip(counts["values"], counts["counts"])) == {2: 1, None: 1}
    found = weir.from_items(list("abca")).aggregate(Unique("item"), ValueCounter("item"), ApproximateTopK("item", 1))
    assert sorted(found["unique(item)"]) == ["a", "b", "c"]
    assert dict(zip(*found["value_counter(item)"].values())) == {"a": 2, "b": 1, "c": 1}
    assert found["approx_topk(item)"] == [{"item": "a", "count": 2}]


@pytest.mark.parametrize("more", [[], [Sum("x")], [Quantile("x", alias_name="q")]], ids=["alone", "with a sum", "with a quantile"])
@pytest.mark.parametrize("kind", ["numbers", "texts", "lists"])
def test_values_of_so_many_groups_that_they_are_put_out_in_parts(kind, more):
    """Each time the group at hand keeps the values that it has already."""
    pa = pytest.importorskip("pyarrow")
    rng = random.Random(f"{kind} {len(more)}")
    rows = [(rng.randrange(15_000), rng.randrange(300)) for _ in range(60_000)]
    made = {"numbers": lambda x: x, "texts": lambda x: f"text {x}", "lists": lambda x: [x, x + 1]}[kind]
    table = pa.table({"k": [k for k, _ in rows], "x": [x for _, x in rows], "v": [made(x) for _, x in rows]})
    wanted = {}
    for k, x in rows:
        wanted.setdefault(k, Counter())[str(made(x))] += 1
    aggs = [Unique("v", alias_name="u"), ValueCounter("v", alias_name="c")]
    found = weir.from_arrow([table.slice(0, 17_000), table.slice(17_000)]).groupby("k").aggregate(*aggs, *more).take_all()
    assert {row["k"] for row in found} == set(wanted) and len(found) == len(wanted)
    for row in found:
        assert Counter(map(str, row["u"])) == Counter(set(wanted[row["k"]]))
        assert dict(zip(map(str, row["c"]["values"]), row["c"]["counts"])) == wanted[row["k"]]


def test_quantiles():
    ds = weir.from_items([{"k": i % 2, "x": float(i)} for i in range(101)])
    found = by_key(ds.groupby("k").aggregate(Quantile("x"), Quantile("x", q=0.1, alias_name="low"), ApproximateQuantile("x", [0.5])).take_all())
    assert found[0]["quantile(x)"] == 50 and found[1]["quantile(x)"] == 50 and found[0]["low"] == 10
    assert abs(found[0]["approx_quantile(x)"][0] - 50) <= 2
    assert weir.range(4).aggregate(Quantile("id")) == {"quantile(id)": 1.5}


def test_lists_that_are_flattened():
    ds = weir.from_items([{"k": 1, "x": [1, 2]}, {"k": 1, "x": [2, 3]}, {"k": 2, "x": []}])
    found = by_key(ds.groupby("k").aggregate(Unique("x", encode_lists=True)).take_all())
    assert sorted(found[1]["unique(x)"]) == [1, 2, 3] and not len(found[2]["unique(x)"])
    assert ds.aggregate(ApproximateTopK("x", 1, encode_lists=True)) == {"approx_topk(x)": [{"x": 2, "count": 2}]}
    assert len(ds.aggregate(Unique("x", encode_lists=Unique.ListEncodingMode.HASH))["unique(x)"]) == 3


def test_nulls_that_count():
    found = by_key(table().groupby("k").aggregate(Sum("x", ignore_nulls=False), Mean("x", ignore_nulls=False), Count("x", ignore_nulls=True)).take_all())
    assert found["a"] == {"k": "a", "sum(x)": 4, "mean(x)": pytest.approx(4 / 3), "count(x)": 3}
    assert found["b"] == {"k": "b", "sum(x)": None, "mean(x)": None, "count(x)": 1}


def test_short_forms():
    ds = weir.from_items([{"k": i % 3, "x": i, "y": i / 2} for i in range(30)])
    assert by_key(ds.groupby("k").count().take_all())[0] == {"k": 0, "count()": 10}
    assert by_key(ds.groupby("k").mean(["x", "y"]).take_all())[1] == {"k": 1, "mean(x)": 14.5, "mean(y)": 7.25}
    assert by_key(ds.groupby("k").sum().take_all())[2] == {"k": 2, "sum(x)": 155, "sum(y)": 77.5}
    assert by_key(ds.groupby("k").min("x").take_all())[2]["min(x)"] == 2
    assert by_key(ds.groupby("k").max("x").take_all())[2]["max(x)"] == 29
    assert by_key(ds.groupby("k").std("x", ddof=0).take_all())[2]["std(x)"] == pytest.approx(8.616843969807043)
    assert by_key(ds.groupby(["k"]).count().take_all())[0]["count()"] == 10


def test_several_keys():
    rows = [{"a": i % 2, "b": "xyz"[i % 3], "v": i} for i in range(60)]
    found = by_key(weir.from_items(rows).groupby(["a", "b"]).aggregate(Sum("v"), Mean("v", alias_name="m")).take_all(), "a", "b")
    assert len(found) == 6 and list(found[0, "x"]) == ["a", "b", "sum(v)", "m"]
    for (a, b), row in found.items():
        values = [r["v"] for r in rows if (r["a"], r["b"]) == (a, b)]
        assert row["sum(v)"] == sum(values) and row["m"] == sum(values) / len(values)


def test_no_key():
    for key in (None, []):
        assert table().groupby(key).sum("x").take_all() == [{"sum(x)": 10}]
        assert table().groupby(key).map_groups(lambda g: {"n": [len(g["k"])]}, batch_format="numpy").take_all() == [{"n": 6}]
    assert table().groupby(None).aggregate(Sum("x"), Count()).take_all() == [{"sum(x)": 10, "count()": 6}]
    assert table().groupby(None).count().schema().names == ["count()"]


@pytest.mark.parametrize("kind", ["int8", "uint64", "float", "halffloat", "timestamp[s]", "duration[ns]", "large_string", "binary"])
def test_lists_of_all_rows_have_the_types_of_their_columns(kind):
    pa = pytest.importorskip("pyarrow")
    kind = pa.type_for_alias(kind)
    values = ["x", None, "y"] if pa.types.is_large_string(kind) else [b"x", None, b"y"] if kind == pa.binary() else None
    column = pa.array(values, kind) if values else pa.array([1, None, 100]).cast(kind) if kind != pa.uint64() else pa.array([1, None, 2**64 - 1], kind)
    for array in (column, pa.nulls(3, kind)):
        ds = weir.from_arrow(pa.table({"x": array}))
        found = ds.groupby(None).aggregate(AsList("x"), Unique("x"), ValueCounter("x"), Max("x"))
        table = next(iter(found.iter_batches(batch_size=None, batch_format="pyarrow")))
        assert table.schema.types == [pa.list_(kind), pa.list_(kind), pa.struct([("values", pa.list_(kind)), ("counts", pa.list_(pa.int64()))]), kind]
        assert table["list(x)"][0].values.equals(array)
        assert set(ds.aggregate(AsList("x"))["list(x)"]) == set(found.take_all()[0]["list(x)"])


def test_nothing():
    for ds in (weir.range(0), weir.range(10).filter(expr="id > 100"), weir.from_items([])):
        column = "id"
        assert ds.groupby(column).count().take_all() == []
        assert ds.groupby(column).map_groups(lambda g: g).take_all() == []
        assert ds.unique(column) == []


def test_names():
    assert [a.name for a in (Count(), AsList("a"), CountDistinct("a"), AbsMax("a"), ApproximateTopK("a", 2), ApproximateQuantile("a", [0.5]))] == [
        "count()", "list(a)", "count_distinct(a)", "abs_max(a)", "approx_topk(a)", "approx_quantile(a)"]
    assert Sum("a").get_target_column() == "a" and Sum("a").get_agg_name() == "sum"
    found = table().groupby("k").aggregate(Sum("x"), Sum("x")).take(1)[0]
    assert list(found) == ["k", "sum(x)", "sum(x)_2"]
    with pytest.raises(ValueError, match="alias_name"):
        table().groupby("k").aggregate(Sum("x", alias_name="k"))
    assert "key='k'" in repr(table().groupby("k"))


def test_odd_names():
    rows = [{'a "b" c': 1, "x, y": 2, "it's": 3}]
    assert weir.from_items(rows).groupby('a "b" c').aggregate(Sum("x, y"), Sum("it's", alias_name='t "u"')).take_all() == [
        {'a "b" c': 1, "sum(x, y)": 2, 't "u"': 3}]


# ---- mistakes ----


def test_mistakes():
    ds = table()
    with pytest.raises(ValueError, match="nope"):
        ds.groupby("nope")
    with pytest.raises(ValueError, match="nope"):
        ds.groupby(["k", "nope"])
    with pytest.raises(ValueError, match="list of strings"):
        ds.groupby(lambda row: row["k"])
    with pytest.raises(ValueError, match="num_partitions"):
        ds.groupby("k", num_partitions=0)
    with pytest.raises(ValueError, match="nope"):
        ds.groupby("k").sum("nope")
    with pytest.raises(ValueError):
        ds.groupby("k").aggregate()
    with pytest.raises(TypeError):
        ds.groupby("k").aggregate("sum")
    with pytest.raises(ValueError):
        weir.from_items([{"k": 1}]).groupby("k").sum()
    with pytest.raises(ValueError, match="batch_format"):
        ds.groupby("k").map_groups(lambda g: g, batch_format="wrong")
    with pytest.raises(ValueError):
        ds.groupby("k").map_groups(5)
    with pytest.raises(ValueError):
        Quantile("a", q=2)
    behind = ds.map_batches(lambda batch: batch)
    for wrong in (lambda: behind.groupby("nope").count().take_all(), lambda: behind.groupby("k").sum("nope").take_all(),
                  lambda: behind.unique("nope")):
        with pytest.raises(ValueError, match="nope"):
            wrong()


def test_errors_name_the_group():
    def fail(group):
        if group["k"][0] == "b":
            raise RuntimeError("no")
        return group

    with pytest.raises(RuntimeError, match=r"MapBatches\(fail\) failed on the group k = 'b'"):
        table().groupby("k").map_groups(fail, batch_format="numpy").take_all()
    with pytest.raises(RuntimeError, match=r"MapBatches\(fail\) failed on the group k = 'b'"):
        table().groupby("k").map_groups(fail, batch_format="numpy").map(lambda row: row).take_all()
    mine = AggregateFn(lambda key: key, lambda a, b: a, "n", accumulate_row=lambda a, row: 1 // (a != "b"))
    with pytest.raises(ZeroDivisionError, match="Aggregate failed on the group k = 'b'"):
        table().groupby("k").aggregate(mine).take_all()
    with pytest.raises(ValueError, match="on the group k = "):
        table().groupby("k").map_groups(lambda g: None, batch_format="numpy").take_all()


# ---- aggregations of users ----


class Product(AggregateFnV2):
    def __init__(self, on, ignore_nulls=True):
        super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=ignore_nulls)

    def aggregate_block(self, block):
        from weir.block import BlockAccessor

        values = [row[self.get_target_column()] for row in BlockAccessor.for_block(block).iter_rows()]
        return math.prod(v for v in values if v is not None) if self._ignore_nulls or None not in values else None

    def combine(self, current_accumulator, new):
        return current_accumulator * new

    def finalize(self, accumulator):
        return float(accumulator)


class Longest(VectorizedAggregateFnV2):
    def __init__(self, on):
        super().__init__(f"longest({on})", lambda: "", on=on, ignore_nulls=True)

    def aggregate_block(self, block):
        from weir.block import BlockAccessor

        return max((row[self.get_target_column()] for row in BlockAccessor.for_block(block).iter_rows()), key=len)

    def _combine_column(self, accumulator_col):
        values = accumulator_col.to_pylist() if hasattr(accumulator_col, "to_pylist") else accumulator_col
        return max(values, key=len)


class TwiceSum(Sum):
    def finalize(self, accumulator):
        return 2 * accumulator


@pytest.mark.parametrize("make", [Unique, AsList, ValueCounter], ids=lambda make: make.__name__)
def test_a_group_that_is_too_large_is_named_with_its_size(make):
    """Whichever bound it meets, and though what it took is free when the error is made."""
    weir.shutdown()
    weir.init(num_cpus=1, memory_limit="100MiB")
    many = weir.range(6_000_000).with_column("k", weir.col("id") >= 4_500_000).with_column("t", weir.col("id").cast("string"))
    try:
        with pytest.raises(MemoryError, match=r"operator group.* give at least .*; the group k = false has \d{7} rows or more, which take [4-9]\d\.\d MiB"):
            many.groupby("k").aggregate(make("t")).count()
    finally:
        weir.shutdown()  # the limit is for this test alone


def test_users_aggregations():
    ds = weir.from_items([{"k": i % 2, "x": i + 1, "s": "x" * i} for i in range(6)]).repartition(3)
    found = by_key(ds.groupby("k").aggregate(Product("x"), Longest("s"), TwiceSum("x")).take_all())
    assert found[0] == {"k": 0, "product(x)": 15.0, "longest(s)": "xxxx", "sum(x)": 18}
    assert found[1] == {"k": 1, "product(x)": 48.0, "longest(s)": "xxxxx", "sum(x)": 24}
    assert ds.aggregate(Product("x"), Longest("s"), TwiceSum("x")) == {"product(x)": 720.0, "longest(s)": "xxxxx", "sum(x)": 42}
    with_null = weir.from_items([{"k": 1, "x": 2}, {"k": 1, "x": None}])
    assert with_null.groupby("k").aggregate(Product("x", ignore_nulls=False)).take_all() == [{"k": 1, "product(x)": None}]
    assert with_null.aggregate(Product("x", ignore_nulls=False)) == {"product(x)": None}


@pytest.mark.parametrize("base,apart", [(1e15, 1.0), (1.7e9, 1e-6), (1e300, 1e288), (1e-200, 1e-210)])
def test_std_beside_an_aggregation_of_ones_own(base, apart):
    """Far from zero, and where squares fit no float."""
    rng = random.Random(base)
    values = [base + apart * rng.randrange(3) for _ in range(60)]
    ds = weir.from_items([{"k": 1, "x": value} for value in values], override_num_blocks=4)
    wanted = statistics.stdev(map(Fraction, values))
    mine = AggregateFn(lambda key: 0, lambda a, b: a + b, "n", accumulate_row=lambda a, row: a + 1)
    assert ds.aggregate(Std("x"), mine) == {"std(x)": pytest.approx(wanted, rel=1e-14), "n": 60}
    assert ds.groupby("k").aggregate(Std("x"), mine).take_all() == [{"k": 1, "std(x)": pytest.approx(wanted, rel=1e-14), "n": 60}]


def test_users_errors_are_the_users():
    def fail(total, row):
        raise KeyError("x")

    mine = AggregateFn(lambda key: 0, lambda a, b: a + b, "n", accumulate_row=fail)
    behind = table().map(lambda row: {**row, "y": {}["x"]})
    for wrong in (lambda: table().aggregate(mine, Sum("x")), lambda: table().groupby("k").aggregate(mine, Sum("x")).take_all(),
                  lambda: behind.groupby("k").sum("x").take_all(), lambda: behind.unique("x")):
        with pytest.raises(KeyError):
            wrong()


def test_users_functions():
    def block_rows(total, block):
        from weir.block import BlockAccessor

        return total + BlockAccessor.for_block(block).num_rows()

    mine = AggregateFn(lambda key: 0, lambda a, b: a + b, "rows", accumulate_block=block_rows, finalize=lambda a: f"{a} rows")
    ds = weir.from_items([{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1, "b": 2}])
    assert by_key(ds.groupby(["a", "b"]).aggregate(mine).take_all(), "a", "b")[1, 2]["rows"] == "2 rows"
    assert ds.aggregate(mine) == {"rows": "3 rows"}
    keys = AggregateFn(lambda key: list(key), lambda a, b: a, "key", accumulate_row=lambda a, row: a)
    assert by_key(ds.groupby(["a", "b"]).aggregate(keys).take_all(), "a", "b")[1, 3]["key"] == [1, 3]
    for wrong in ({}, {"accumulate_row": len, "accumulate_block": len}):
        with pytest.raises(ValueError, match="Exactly one"):
            AggregateFn(init=lambda k: 0, merge=max, name="n", **wrong)


def test_keys_keep_their_types():
    pa = pytest.importorskip("pyarrow")
    keys = pa.array([1, 2, 1], pa.int32())
    mine = AggregateFn(lambda key: 0, lambda a, b: a + b, "n", accumulate_row=lambda a, row: a + 1)
    found = weir.from_arrow(pa.table({"k": keys, "x": [1, 2, 3]})).groupby("k").aggregate(mine).to_arrow()
    assert found.schema.field("k").type == pa.int32() and found.schema.field("n").type == pa.int64()


# ---- map_groups ----


def shape_of(group):
    kind = type(group).__name__
    names = list(group) if kind in ("dict", "DataFrame") else group.column_names
    return {"kind": [kind], "names": [",".join(names)], "k": [str(group["k"][0])], "n": [len(group["k"])]}


@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow", None, "default", "torch"])
def test_formats(batch_format):
    for needed in {"pandas": ["pandas", "pyarrow"], "pyarrow": ["pyarrow"], None: ["pyarrow"], "torch": ["torch"], "default": ["pandas", "pyarrow"]}.get(batch_format, []):
        pytest.importorskip(needed)
    ds = weir.from_items([{"k": i % 3, "x": i} for i in range(30)])
    found = ds.groupby("k").map_groups(shape_of, batch_format=batch_format).take_all()
    kind = {"numpy": "dict", "torch": "dict", "pandas": "DataFrame", "default": "DataFrame"}.get(batch_format, "Table")
    assert len(found) == 3
    assert all((row["kind"], row["names"], row["n"]) == (kind, "k,x", 10) for row in found)


def test_frames():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"A": ["a", "a", "b"], "B": [1, 1, 3], "C": [4, 6, 5]})
    ds = weir.from_pandas(frame)
    found = ds.groupby("A").map_groups(lambda g: g.apply(lambda c: c / g[c.name].sum() if c.name in ["B", "C"] else c)).to_pandas()
    expected = frame.groupby("A", group_keys=False)[["A", "B", "C"]].apply(lambda g: g.apply(lambda c: c / g[c.name].sum() if c.name in ["B", "C"] else c))
    assert found.sort_values(["A", "C"]).values.tolist() == expected.sort_values(["A", "C"]).values.tolist()
    found = ds.groupby("A").map_groups(lambda df: df.assign(n=len(df)), batch_format="pandas").to_pandas()
    assert sorted(found["n"]) == [1, 2, 2]


class Numbered:
    def __init__(self, first, step=1):
        self.next, self.step = first, step

    def __call__(self, group, scale, shift=0):
        self.next += self.step
        return {"k": group["k"][:1], "total": [group["x"].sum() * scale + shift]}


def test_arguments_and_classes():
    ds = weir.from_items([{"k": i % 3, "x": i} for i in range(30)])
    found = ds.groupby("k").map_groups(Numbered, batch_format="numpy", fn_args=[2], fn_kwargs={"shift": 1}, fn_constructor_args=[0],
                                       fn_constructor_kwargs={"step": 2}, concurrency=1)
    assert by_key(found.take_all())[0] == {"k": 0, "total": 271}
    found = ds.groupby("k").map_groups(partial(lambda g, n: {"n": [len(g["x"]) + n]}, n=5), batch_format="numpy", num_cpus=1)
    assert [row["n"] for row in found.take_all()] == [15] * 3


def test_generators_and_empty_results():
    def pieces(group):
        for value in group["x"]:
            if value % 2:
                yield {"x": [value]}

    ds = weir.from_items([{"k": i % 3, "x": i} for i in range(30)])
    assert sorted(row["x"] for row in ds.groupby("k").map_groups(pieces, batch_format="numpy").take_all()) == list(range(1, 30, 2))


def test_async_functions():
    async def double(group):
        return {"x": group["x"] * 2}

    ds = weir.from_items([{"k": i % 3, "x": i} for i in range(30)])
    assert sorted(row["x"] for row in ds.groupby("k").map_groups(double, batch_format="numpy").take_all()) == list(range(0, 60, 2))


def test_batches_that_may_be_written_to():
    def change(group):
        group["x"][:] = 7
        return group

    ds = weir.from_items([{"k": i % 3, "x": i} for i in range(30)])
    assert ds.groupby("k").map_groups(change, batch_format="numpy", zero_copy_batch=False).unique("x") == [7]


def test_groups_are_whole_however_many_rows():
    rows = 600_000
    ds = weir.range(rows).with_column("k", (weir.col("id") % 7).cast("int64"))
    found = by_key(ds.groupby("k").map_groups(lambda g: {"k": g["k"][:1], "n": [len(g["k"])], "s": [int(g["id"].sum())]}, batch_format="numpy").take_all())
    assert {key: (row["n"], row["s"]) for key, row in found.items()} == {
        k: (len(range(k, rows, 7)), sum(range(k, rows, 7))) for k in range(7)}
    context = ds.copy()
    context.context.target_max_block_size = 4096
    assert len(context.groupby("k").map_groups(lambda g: {"n": [len(g["k"])]}, batch_format="numpy").take_all()) == 7


def test_many_groups():
    rows = 200_000
    ds = weir.range(rows).with_column("k", (weir.col("id") // 4).cast("int64")).random_shuffle(seed=1)
    found = ds.groupby("k").map_groups(lambda g: {"k": g["k"][:1], "n": [len(g["k"])]}, batch_format="numpy").to_arrow() if _has("pyarrow") else None
    if found is not None:
        assert found.num_rows == rows // 4 and set(found["n"].to_pylist()) == {4} and len(set(found["k"].to_pylist())) == rows // 4


def _has(name):
    from importlib.util import find_spec

    return find_spec(name) is not None


def test_functions_before_and_behind():
    ds = weir.range(1000).map_batches(lambda b: {"k": b["id"] % 5, "x": b["id"]}, batch_size=64)
    found = ds.groupby("k").map_groups(lambda g: {"k": g["k"][:1], "s": [g["x"].sum()]}, batch_format="numpy").map(lambda row: {**row, "t": row["s"] + 1})
    assert by_key(found.take_all())[2]["t"] == sum(range(2, 1000, 5)) + 1
    assert found.schema().names == ["k", "s", "t"] and found.count() == 5
    batches = ds.groupby("k").map_groups(lambda g: g, batch_format="numpy").map_batches(lambda b: {"n": [len(b["x"])]}, batch_size=100).take_all()
    assert [row["n"] for row in batches] == [100] * 10
    assert sorted(row["count()"] for row in ds.groupby("k").count().filter(expr="k > 1").take_all()) == [200] * 3
    assert ds.groupby("k").count().groupby("count()").aggregate(Count(alias_name="n")).take_all() == [{"count()": 200, "n": 5}]


def test_blocks_of_several_schemas():
    def odd(batch):
        return {"k": batch["id"] % 2, "x": batch["id"] * (1 if batch["id"][0] % 200 else 0.5)}

    ds = weir.range(1000).map_batches(odd, batch_size=100)
    found = by_key(ds.groupby("k").sum("x").take_all())
    assert set(found) == {0, 1} and found[0]["sum(x)"] + found[1]["sum(x)"] == pytest.approx(ds.sum("x"))


def test_local_mode():
    code = """
import weir
weir.init(local_mode=True)
seen = []
ds = weir.from_items([{"k": i % 3, "x": i} for i in range(3000)]).repartition(7)
def total(group):
    seen.append(len(group["x"]))
    return {"k": group["k"][:1], "s": [group["x"].sum()]}
found = ds.groupby("k").map_groups(total, batch_format="numpy").take_all()
assert sorted(r["s"] for r in found) == sorted(sum(range(k, 3000, 3)) for k in range(3)), found
assert seen == [1000] * 3, seen
try:
    ds.groupby("k").map_groups(lambda g: 1 / 0, batch_format="numpy").take_all()
except ZeroDivisionError as error:
    assert "the group k = 0" in str(error), error
else:
    raise SystemExit("no error")
"""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_with_column():
    pytest.importorskip("pyarrow")
    ds = weir.from_items([{"k": i % 2, "x": i} for i in range(6)])
    assert sorted(row["y"] for row in ds.groupby("k").with_column("y", weir.col("x") * 2).take_all()) == [0, 2, 4, 6, 8, 10]
    from weir.expressions import udf

    from weir.datatype import DataType

    @udf(DataType.int64())
    def total(values):
        import pyarrow as pa
        import pyarrow.compute as pc

        return pa.array([pc.sum(values).as_py()] * len(values))

    found = ds.groupby("k").with_column("t", total(weir.col("x"))).take_all()
    assert {(row["k"], row["t"]) for row in found} == {(0, 6), (1, 9)} and len(found) == 6
    with pytest.raises(ValueError):
        ds.groupby("k").with_column("", weir.col("x"))
    with pytest.raises(TypeError):
        ds.groupby("k").with_column("y", 5)


# ---- unique, and keys of every type ----


def test_unique():
    assert sorted(weir.range(10).with_column("k", (weir.col("id") % 3).cast("int64")).unique("k")) == [0, 1, 2]
    assert set(table().unique("x")) == {0, 1, 2, 3, 4, None} and set(table().unique("x", ignore_nulls=True)) == {0, 1, 2, 3, 4}
    found = weir.from_items([{"f": v} for v in (1.5, math.nan, math.nan, None, None)]).unique("f")
    assert len(found) == 3 and 1.5 in found and None in found and sum(v != v for v in found if v is not None) == 1
    with pytest.raises(ValueError, match="nope"):
        table().unique("nope")
    with pytest.raises(ValueError):
        table().unique(None)


def test_count_distinct_of_all_rows():
    from weir.aggregate import CountDistinct, Sum

    both = [CountDistinct("v"), CountDistinct("v", ignore_nulls=False, alias_name="with")]
    for values, distinct in (([1, 2, 1, None], 2), (["a", None, "a", "ü"], 2), ([math.nan, math.nan, 1.0, None], 2),
                             ([[1], [1], [2], None], 2), ([{"p": 1}, {"p": 1}, {"p": None}, None], 2), ([None, None], 0)):
        ds = weir.from_items([{"v": v, "x": 1} for v in values * 3])
        assert ds.aggregate(*both) == {"count_distinct(v)": distinct, "with": distinct + 1}, values
        assert ds.aggregate(*both[:1], Sum("x")) == {"count_distinct(v)": distinct, "sum(x)": 3 * len(values)}
    assert weir.range(5).filter(expr="id > 9").aggregate(CountDistinct("id")) == {"count_distinct(id)": None}
    with pytest.raises(ValueError, match="nope"):
        weir.range(5).aggregate(CountDistinct("nope"))


def test_keys_of_every_type():
    import datetime
    import decimal

    day, moment = datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, 12, 30)
    for values in ([1, 2, None], [1.5, -0.0, None], ["a", "ü" * 40, "", None], [b"\0", b"", None], [True, False, None], [day, None],
                   [moment, None], [datetime.timedelta(seconds=3), None], [decimal.Decimal("1.50"), decimal.Decimal("2.25"), None],
                   [{"p": 1, "q": "x"}, {"p": None, "q": "x"}], [math.nan, 1.0], [None]):
        rows = [{"k": v, "x": 1} for v in values] * 3
        random.Random(5).shuffle(rows)
        ds = weir.from_items(rows)
        found = ds.groupby("k").count().take_all()
        assert sorted(map(repr, (row["k"] for row in found))) == sorted(map(repr, values)) and {row["count()"] for row in found} == {3}, values
        found = ds.groupby("k").map_groups(lambda g: {"n": [len(g["x"])]}, batch_format="numpy").take_all()
        assert [row["n"] for row in found] == [3] * len(values), values


def test_zeros_as_pyarrow_has_them():
    found = weir.from_items([{"k": v} for v in (0.0, -0.0, 0.0)]).groupby("k").count().take_all()
    assert sorted((repr(row["k"]), row["count()"]) for row in found) == [("-0.0", 1), ("0.0", 2)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_groups_of_zeros_and_nan(dtype):
    """Each way to group has the same groups: the zeros are two, NaN is one."""
    pytest.importorskip("pyarrow")  # the blocks of aggregate_block
    values = np.array([np.nan, 0.0, -0.0, 1.5, np.nan, -0.0, 0.0, -0.0], dtype)
    ds = weir.from_numpy([values[:3], values[3:]]).rename_columns({"data": "k"}).add_column("x", lambda b: np.arange(len(b)))
    wanted = [("-0.0", 3), ("0.0", 2), ("1.5", 1), ("nan", 2)]

    class Rows(weir.aggregate.AggregateFnV2):
        def __init__(self):
            super().__init__("rows", zero_factory=lambda: 0, on="x", ignore_nulls=False)

        def aggregate_block(self, block):
            return weir.block.BlockAccessor.for_block(block).num_rows()

        def combine(self, one, two):
            return one + two

    def counted(grouped, name="count()"):
        return sorted((str(float(row["k"])), row[name]) for row in grouped.take_all())

    grouped = ds.groupby("k")
    assert counted(grouped.count()) == wanted
    assert counted(grouped.aggregate(Rows()), "rows") == wanted
    assert sorted((key, len(rows)) for key, rows in counted(grouped.aggregate(weir.aggregate.AsList("x")), "list(x)")) == wanted
    assert counted(grouped.map_groups(lambda g: {"k": g["k"][:1], "n": np.array([len(g["k"])])}), "n") == wanted
    assert sorted(str(float(value)) for value in ds.unique("k")) == [key for key, _ in wanted]


def test_against_pandas():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    rows = [{"a": draw.choice([None, 1, 2, 3]), "b": draw.choice("xyz"), "v": draw.choice([None, draw.gauss(0, 100)]), "i": draw.randrange(-50, 50)}
            for _ in range(5000)]
    frame = pd.DataFrame(rows)
    expected = frame.groupby(["a", "b"], dropna=False).agg(
        n=("i", "size"), s=("i", "sum"), m=("v", "mean"), d=("v", "std"), lo=("v", "min"), hi=("i", "max"), q=("v", "median"), u=("i", "nunique")).reset_index()
    ds = weir.from_items(rows).groupby(["a", "b"]).aggregate(
        Count(alias_name="n"), Sum("i", alias_name="s"), Mean("v", alias_name="m"), Std("v", alias_name="d"), Min("v", alias_name="lo"),
        Max("i", alias_name="hi"), Quantile("v", alias_name="q"), CountDistinct("i", alias_name="u"))
    found = {(row["a"], row["b"]): row for row in ds.take_all()}
    assert len(found) == len(expected)
    for row in expected.to_dict("records"):
        mine = found[None if row["a"] != row["a"] else row["a"], row["b"]]
        for name in ("n", "s", "m", "d", "lo", "hi", "q", "u"):
            assert mine[name] == pytest.approx(row[name], rel=1e-12), (name, row)


# ---- workers that die ----


def test_workers_killed(tmp_path):
    once = tmp_path / "once"

    def die(group):
        if group["k"][0] == 3 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"k": group["k"][:1], "n": [len(group["k"])]}

    ds = weir.from_items([{"k": i % 10} for i in range(1000)])
    found = ds.groupby("k").map_groups(die, batch_format="numpy").take_all()
    assert once.exists() and sorted((row["k"], row["n"]) for row in found) == [(k, 100) for k in range(10)]
    once.unlink()

    def count(total, row):
        if row["k"] == 3 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return total + 1

    mine = AggregateFn(lambda key: 0, lambda a, b: a + b, "n", accumulate_row=count)
    assert sorted((row["k"], row["n"]) for row in ds.groupby("k").aggregate(mine).take_all()) == [(k, 100) for k in range(10)]
    once.unlink()
    assert ds.aggregate(mine) == {"n": 1000}


def test_a_limit_is_not_the_sources():
    """What a limit behind an exchange takes are not the first rows of the source."""
    from weir.block import BlockMetadata
    from weir.datasource import Datasource, ReadTask

    class Numbers(Datasource):
        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            def read():
                import weir.block

                yield weir.block.BlockAccessor.batch_to_block({"x": list(range(100 if per_task_row_limit is None else min(100, per_task_row_limit)))})

            return [ReadTask(read, BlockMetadata(None, None), per_task_row_limit=per_task_row_limit)]

        def estimate_inmemory_data_size(self):
            return None

    pytest.importorskip("pyarrow")
    assert weir.read_datasource(Numbers()).sort("x", descending=True).take(1) == [{"x": 99}]
    assert len(weir.read_datasource(Numbers()).groupby("x").count().take(100)) == 100


def test_pandas_na_is_null():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    found = table().groupby("k").map_groups(lambda df: pd.DataFrame({"k": [df["k"].iloc[0]], "n": [len(df)]})).take_all()
    assert by_key(found)[None]["n"] == 1
    found = table().groupby("k").map_groups(lambda df: {"k": [df["k"].iloc[0]], "x": list(df["x"][:1])}).take_all()
    assert {row["k"] for row in found} == {"a", "b", None}


def test_long_functions_on_few_groups_are_shared(tmp_path):
    """Ten rows in five groups: two workers have them, though all of them would be one small task."""
    def meet(group):
        """Returns when another process is here, too."""
        (tmp_path / str(os.getpid())).touch()
        for _ in range(3000):
            if len(list(tmp_path.iterdir())) > 1:
                break
            signal.sigtimedwait([], 0.01)
        return {"pid": [os.getpid()]}

    ds = weir.from_items([{"k": i % 5} for i in range(10)])
    found = ds.groupby("k").map_groups(meet, batch_format="numpy", concurrency=2).take_all()
    assert len(found) == 5 and len({row["pid"] for row in found}) == 2


class Places(AggregateFnV2):
    """How many rows, their sum, and whether what was put together came in input order."""

    def __init__(self):
        super().__init__("places", zero_factory=lambda: None, on="id", ignore_nulls=True)

    def aggregate_block(self, block):
        ids = np.asarray(block["id"] if hasattr(block["id"], "__array__") else block["id"].to_pylist())
        return [len(ids), int(ids.sum()), int(ids[0]), int(ids[-1]), bool((ids[1:] > ids[:-1]).all())]

    def combine(self, current, new):
        if current is None:
            return new
        return [current[0] + new[0], current[1] + new[1], current[2], new[3], current[4] and new[4] and current[3] < new[2]]

    def finalize(self, accumulator):
        return [int(value) for value in accumulator]


@not_sanitized
def test_a_users_aggregation_of_groups_that_do_not_fit(tmp_path):
    pytest.importorskip("pyarrow")
    weir.shutdown()
    weir.init(num_cpus=2, memory_limit="320MiB", spill_dir=str(tmp_path))
    try:
        # Two groups of 330 MB each, and one of a row.
        ds = weir.range_tensor(20_001, shape=(64, 64)).map_batches(
            lambda b: {"t": b["data"], "id": b["data"][:, 0, 0], "g": np.where(b["data"][:, 0, 0] == 20_000, 2, b["data"][:, 0, 0] % 2)})
        rows = ds.groupby("g").aggregate(Places()).take_all()
        assert [row["g"] for row in rows] == [0, 1, 2]
        assert rows[0]["places"] == [10_000, sum(range(0, 20_000, 2)), 0, 19_998, 1]
        assert rows[1]["places"] == [10_000, sum(range(1, 20_000, 2)), 1, 19_999, 1]
        assert rows[2]["places"] == [1, 20_000, 20_000, 20_000, 1]
    finally:
        weir.shutdown()


def test_a_users_aggregation_of_many_groups_in_parts():
    pytest.importorskip("pyarrow")
    rows = weir.range(600_000).with_column("k", weir.col("id") % 7).groupby("k").aggregate(Places()).take_all()
    for k, row in enumerate(rows):
        ids = range(k, 600_000, 7)
        assert row == {"k": k, "places": [len(ids), sum(ids), ids[0], ids[-1], 1]}


class _Short(AggregateFnV2):
    """A sum whose first group finds no memory."""

    def __init__(self):
        super().__init__("short", lambda: 0, on="x", ignore_nulls=True)
        self.calls = 0

    def aggregate_block(self, block):
        from weir._weir import MemoryLimitError

        self.calls += 1
        if self.calls == 1:
            raise MemoryLimitError("no room")
        return sum(block["x"].to_pylist())

    def combine(self, current_accumulator, new):
        return current_accumulator + new


@pytest.mark.parametrize("why", ["no memory", "large results"])
def test_a_users_aggregation_that_is_short_of_memory_gets_whole_groups(why):
    """What a worker is given is cut into parts then: between groups only."""
    pytest.importorskip("pyarrow")
    from weir import _apply, _call, _grouped
    from weir._weir import batch_from_rows

    marks = [0] * 5 + [1] + [2] * 9 + [3] * 2
    rows = [{"k": f"key {mark}", "x": i, _grouped.MARK: mark} for i, mark in enumerate(marks)]
    made = _grouped.in_workers(_grouped.Groups(table()._op, ["k"]), _grouped.GroupAggregates(["k"], [_Short()], ["short"]))
    function = _apply.make(_call.function_head(made.spec), _call.function_objects(made.spec))
    if why == "large results":
        function.call.aggregates[0].calls = 1
        function.rows_most = 3  # what it is set to behind results that are too large
    found = [row for part in _apply.apply(function, batch_from_rows(rows)) for row in part.rows()]
    assert [(row["k"], row["short"]) for row in found] == [("key 0", 10), ("key 1", 5), ("key 2", 90), ("key 3", 31)]


def test_functions_are_not_run_again_for_columns_without_rows(tmp_path):
    log = tmp_path / "log"

    def notes(row):
        with open(log, "a") as file:
            file.write("x")
        return row

    assert weir.range(5).map(notes).filter(lambda row: False).aggregate(Count()) == {"count()": 0}
    assert log.read_text() == "xxxxx"


def test_aggregates_of_columns_without_rows():
    """A filter has left no row: a count is 0, a sum null, in one row; without columns there is none."""
    pa = pytest.importorskip("pyarrow")

    class Twice(AggregateFnV2):
        def __init__(self):
            super().__init__("twice", on="id", ignore_nulls=False, zero_factory=lambda: 0)

        def aggregate_block(self, block):
            return block.num_rows

        def combine(self, current_accumulator, new):
            return current_accumulator + new

        def finalize(self, accumulator):
            return 2 * accumulator

    counted = {"count()": 0, "sum(id)": None, "unique(id)": [], "list(id)": [], "quantile(id)": None}
    empty = weir.from_arrow(pa.table({"id": pa.array([], pa.int64())}))
    nothing = weir.range(5).filter(expr="id > 9")
    for ds in (nothing, weir.range(5, override_num_blocks=2).filter(lambda row: False), empty, nothing.repartition(2), nothing.randomize_block_order(),
               nothing.repartition(target_num_rows_per_block=2, strict=True), nothing.filter(lambda row: True).repartition(2)):
        assert ds.aggregate(Count(), Sum("id")) == {"count()": 0, "sum(id)": None}
        assert ds.aggregate(Count(), Sum("id"), Unique("id"), AsList("id"), Quantile("id")) == counted
        assert ds.groupby(None).aggregate(Count(), Sum("id"), Unique("id"), AsList("id"), Quantile("id")).take_all() == [counted]
        assert ds.groupby(None).count().take_all() == [{"count()": 0}] and ds.groupby("id").count().take_all() == []
        assert ds.sum("id") is None and ds.unique("id") == []
        assert ds.aggregate(Twice(), Count()) == {"twice": 0, "count()": 0}
    made = weir.range(5).map(lambda row: row)
    for ds in (made.filter(lambda row: False), made.filter(expr="id > 9"), made.flat_map(lambda row: []), made.groupby(None).aggregate(Sum("id", alias_name="id")).filter(expr="id > 99")):
        assert ds.aggregate(Count(), Sum("id"), CountDistinct("id")) == {"count()": 0, "sum(id)": None, "count_distinct(id)": None}
        assert ds.groupby(None).aggregate(Count(), Sum("id")).take_all() == [{"count()": 0, "sum(id)": None}]
        assert ds.sum("id") is None
    for ds in (weir.range(0), weir.from_items([])):
        assert ds.aggregate(Count()) is None and ds.aggregate(Unique("id")) is None and ds.groupby(None).count().take_all() == []
