"""groupby: aggregates, functions on groups, unique values."""
from parity import case, sub


def table(data):
    values = [("a", 4, 0.5), ("b", 1, None), ("a", None, 1.5), (None, 3, 7.25), ("b", 1, 2.5), ("a", 0, -2.0)]
    return data.from_items([{"k": k, "x": x, "f": f, "s": None if x is None else f"s{x}"} for k, x, f in values], override_num_blocks=2)


def ordered(rows):
    """Groups come in any order, and so do the values of some results."""
    return sorted(({name: plain(value) for name, value in row.items()} for row in rows), key=repr)


def plain(value):
    if type(value).__name__ == "ndarray":
        value = value.tolist()
    if isinstance(value, dict) and set(value) == {"values", "counts"}:
        return {"pairs": sorted(([str(v), c] for v, c in zip(value["values"], value["counts"])))}
    return {"any order": sorted(map(str, value))} if isinstance(value, list) else value


MADE = ["Count()", "Count('x')", "Count('x', ignore_nulls=True)", "Sum('x')", "Sum('f')", "Min('x')", "Max('f')", "Min('s')", "Mean('x')", "Std('x')",
        "Std('x', ddof=0)", "AbsMax('f')", "Quantile('x')", "Quantile('x', q=0.25)", "Unique('x')", "Unique('x', ignore_nulls=True)",
        "CountDistinct('x')", "CountDistinct('x', ignore_nulls=False)", "AsList('x')", "AsList('x', ignore_nulls=True)", "ValueCounter('x')",
        "MissingValuePercentage('f')", "ZeroPercentage('x')", "ZeroPercentage('x', ignore_nulls=False)", "Sum('x', ignore_nulls=False)",
        "Mean('x', ignore_nulls=False)", "Quantile('x', ignore_nulls=False)", "Max('x', ignore_nulls=False)", "Sum('x', alias_name='total')"]


@case(*MADE)
def aggregate(data, at, text):
    return ordered(table(data).groupby("k").aggregate(eval(text, vars(sub(data, "aggregate")))).take_all())


@case("sort_shuffle_pull_based", "sort_shuffle_push_based")
def groups_in_order(data, at, strategy):
    """Where the shuffle sorts, groups come by their keys, those of nothing last."""
    data.DataContext.get_current().shuffle_strategy = strategy
    ds = data.from_items([{"k": i * 7 % 5 or None, "h": "cab"[i % 3], "f": 1 / (i % 4 - 1) if i % 4 != 1 else float("nan")} for i in range(40)], override_num_blocks=4)
    return [ds.groupby("k").count().take_all(), ds.groupby(["h", "k"]).max("f").take_all(), [row["f"] for row in ds.groupby("f").count().take_all()],
            ds.groupby("h").map_groups(lambda group: {"n": [len(group["h"])], "h": group["h"][:1]}).take_all()]


@case("Sum('f')", "Min('f')", "Mean('f')", "MissingValuePercentage('f')", "Count('f', ignore_nulls=True)", "CountDistinct('f')")
def aggregate_nan(data, at, text):
    ds = data.from_items([{"k": k, "f": f} for k, f in [(1, float("nan")), (2, 1.5), (2, float("nan")), (1, float("nan"))]], override_num_blocks=1)
    return ordered(ds.groupby("k").aggregate(eval(text, vars(sub(data, "aggregate")))).take_all())


@case("count", "sum", "min", "max", "mean", "std")
def short(data, at, name):
    groups = table(data).groupby("k")
    return ordered(getattr(groups, name)().take_all() if name == "count" else getattr(groups, name)(["x", "f"]).take_all())


@case("sum", "mean")
def all_columns(data, at, name):
    return ordered(getattr(table(data).drop_columns(["s"]).groupby("k"), name)().take_all())


@case()
def several_keys(data, at):
    a = sub(data, "aggregate")
    return ordered(table(data).groupby(["k", "x"]).aggregate(a.Sum("f"), a.Mean("f", alias_name="m"), a.Count()).take_all())


@case()
def no_key(data, at):
    a = sub(data, "aggregate")
    return [table(data).groupby(None).aggregate(a.Sum("x"), a.Count()).take_all(), table(data).groupby(None).count().take_all()]


@case()
def same_name(data, at):
    a = sub(data, "aggregate")
    return ordered(table(data).groupby("k").aggregate(a.Sum("x"), a.Sum("x")).take_all())


@case()
def of_nothing(data, at):
    return [data.range(3).filter(lambda row: False).groupby("id").count().take_all(), data.range(0).groupby("id").count().take_all()]


@case("int", "float", "text", "bool", "date", "struct", "bytes")
def key(data, at, which):
    import datetime

    values = {"int": [1, None, 1], "float": [0.0, -0.0, float("nan"), float("nan"), None], "text": ["", "b", None, "b"], "bool": [True, False, True],
              "date": [datetime.date(2024, 1, 2)] * 2, "struct": [{"a": 1}, {"a": 1}, {"a": 2}], "bytes": [b"x", b"", b"x"]}[which]
    return ordered(data.from_items([{"k": v, "x": 1} for v in values]).groupby("k").count().take_all())


@case()
def schema(data, at):
    a = sub(data, "aggregate")
    return table(data).groupby("k").aggregate(a.Sum("x"), a.Mean("x"), a.Count(), a.Min("s")).schema()


@case("x", ["k", "nope"], ["k", 1], 5, [])
def wrong_key(data, at, key):
    return ordered(table(data).groupby("nope" if key == "x" else key).count().take_all())


@case("sum", "count")
def wrong_column(data, at, name):
    if name == "count":
        return table(data).groupby("k").aggregate("count").take_all()
    return table(data).groupby("k").sum("nope").take_all()


@case(0, -1, 2)
def num_partitions(data, at, n):
    return ordered(table(data).groupby("k", num_partitions=n).count().take_all())


@case("default", "pandas", "numpy", "pyarrow", None)
def map_groups(data, at, batch_format):
    def about(group):
        count = len(group["k"])
        return {"kind": [type(group).__name__], "k": [str(group["k"][0])], "n": [count]}

    return ordered(table(data).groupby("k").map_groups(about, batch_format=batch_format).take_all())


@case()
def map_groups_frames(data, at):
    return ordered(table(data).drop_columns(["f", "s"]).groupby("k").map_groups(lambda df: df.assign(n=len(df)), batch_format="pandas").take_all())


@case()
def map_groups_of_all(data, at):
    return table(data).groupby(None).map_groups(lambda g: {"n": [len(g["k"])]}, batch_format="numpy").take_all()


@case()
def map_groups_of_two(data, at):
    return ordered(table(data).groupby(["k", "x"]).map_groups(lambda g: {"n": [len(g["k"])]}, batch_format="numpy").take_all())


@case()
def map_groups_generator(data, at):
    def pieces(group):
        for value in group["k"]:
            yield {"k": [str(value)]}

    return ordered(table(data).groupby("k").map_groups(pieces, batch_format="numpy").take_all())


@case()
def map_groups_class(data, at):
    class Add:
        def __init__(self, n):
            self.n = n

        def __call__(self, group, m):
            return {"n": [len(group["k"]) + self.n + m]}

    return ordered(table(data).groupby("k").map_groups(Add, batch_format="numpy", fn_constructor_args=[10], fn_args=[100], concurrency=1).take_all())


@case("raises", "none", "list", "format", "no function")
def map_groups_wrong(data, at, which):
    groups = table(data).groupby("k")
    if which == "format":
        return groups.map_groups(lambda g: g, batch_format="nonsense").take_all()
    if which == "no function":
        return groups.map_groups(5).take_all()

    def wrong(group):
        if which == "raises":
            raise KeyError("x")
        return None if which == "none" else [1]

    return groups.map_groups(wrong).take_all()


@case()
def with_column(data, at):
    col = sub(data, "expressions").col
    return ordered(table(data).drop_columns(["f", "s"]).groupby("k").with_column("y", col("x") * 2).take_all())


@case("", 5)
def with_wrong_column(data, at, what):
    col = sub(data, "expressions").col
    return table(data).groupby("k").with_column(what, col("x")).take_all() if what == "" else table(data).groupby("k").with_column("y", what).take_all()


@case()
def own_function(data, at):
    a = sub(data, "aggregate")
    made = a.AggregateFn(init=lambda k: 0, accumulate_row=lambda acc, row: acc + (row["x"] or 0), merge=lambda x, y: x + y,
                         finalize=lambda acc: acc * 10, name="mine")
    return ordered(table(data).groupby("k").aggregate(made, a.Count()).take_all())


@case("texts", "complex", "fraction", "objects")
def own_results(data, at, kind):
    """Results that are no values of columns: arrays of texts, Python objects."""
    from fractions import Fraction

    import numpy as np

    make = {"texts": lambda seen: np.array([str(x) for x in sorted(seen)]), "complex": lambda seen: complex(len(seen), 1),
            "fraction": lambda seen: Fraction(1, 1 + len(seen)), "objects": lambda seen: [Fraction(1, 1 + len(seen)), "x"]}[kind]
    made = sub(data, "aggregate").AggregateFn(init=lambda k: [], accumulate_row=lambda seen, row: [*seen, row["i"]], merge=lambda x, y: x + y,
                                              finalize=make, name="mine")
    rows = data.from_items([{"k": i % 2, "i": i} for i in range(5)], override_num_blocks=1).groupby("k").aggregate(made).sort("k").take_all()
    return [[row["k"], type(row["mine"]).__name__, str(row["mine"])] for row in rows]


@case()
def own_class(data, at):
    import pyarrow.compute as pc

    a = sub(data, "aggregate")

    class Product(a.AggregateFnV2):
        def __init__(self, on):
            super().__init__(name=f"product({on})", zero_factory=lambda: 1, on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            return pc.product(block[self._target_col_name]).as_py()

        def combine(self, current, new):
            return current * new

    return ordered(table(data).groupby("k").aggregate(Product("x")).take_all())


@case()
def own_vectorized(data, at):
    import pyarrow.compute as pc

    a = sub(data, "aggregate")

    class Total(a.VectorizedAggregateFnV2):
        def __init__(self, on):
            super().__init__(f"total({on})", lambda: 0, on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            return pc.sum(block[self._target_col_name]).as_py()

        def _combine_column(self, accumulator_col):
            return pc.sum(accumulator_col).as_py() if not hasattr(accumulator_col, "iloc") else int(accumulator_col.sum())

    return ordered(table(data).groupby("k").aggregate(Total("x")).take_all())


@case("k", "x", "f")
def unique(data, at, column):
    return sorted(map(str, table(data).unique(column)))


@case()
def unique_without_nulls(data, at):
    return sorted(table(data).unique("x", ignore_nulls=True))


@case()
def unique_of_no_column(data, at):
    return table(data).unique("nope")


@case(0.25, 4, 0.0, 100)
def stratified(data, at, size):
    ds = data.from_items([{"label": "ab"[i % 2], "i": i} for i in range(16)], override_num_blocks=1)
    train, test = ds.train_test_split(size, stratify="label")
    return [ordered(part.groupby("label").count().take_all()) for part in (train, test)]


@case()
def names_of_classes(data, at):
    a = sub(data, "aggregate")
    return [type(table(data).groupby("k")).__name__, a.Sum("x").get_target_column(), a.Sum("x").get_agg_name(), a.Count().get_agg_name()]
