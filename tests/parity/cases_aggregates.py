"""Aggregates over the whole set."""
from parity import case, sub


def table(data):
    values = [4, 1, None, 3, 1, 0]
    return data.from_items([{"a": v, "f": None if v is None else v / 2, "s": None if v is None else f"s{v}"} for v in values], override_num_blocks=1)


MADE = ["Count()", "Count('a')", "Count('a', ignore_nulls=True)", "Sum('a')", "Sum('f')", "Min('a')", "Max('a')", "Mean('a')", "Std('a')",
        "Std('a', ddof=0)", "AbsMax('a')", "Quantile('a')", "Quantile('a', q=0.25)", "Unique('a')", "CountDistinct('a')", "AsList('f')",
        "MissingValuePercentage('a')", "ZeroPercentage('a')", "Sum('a', ignore_nulls=False)", "Min('s')", "Max('s')", "Sum('a', alias_name='total')",
        "Count(alias_name='n')", "Mean('a', ignore_nulls=False)", "ValueCounter('a')"]


def plain(value):
    if isinstance(value, (list, set)) or type(value).__name__ == "ndarray":
        return {"any order": sorted(map(str, value))}
    return value


@case(*MADE)
def aggregate(data, at, text):
    found = table(data).aggregate(eval(text, vars(sub(data, "aggregate"))))
    return {k: plain(v) for k, v in found.items()}


@case()
def several(data, at):
    a = sub(data, "aggregate")
    return table(data).aggregate(a.Sum("a"), a.Max("f"), a.Count())


@case()
def wrong_column(data, at):
    return table(data).aggregate(sub(data, "aggregate").Sum("nope"))


@case()
def of_nothing(data, at):
    a = sub(data, "aggregate")
    return data.range(0).aggregate(a.Count(), a.Sum("id"))


@case("Count(), Sum('a'), Mean('a')", "Min('b'), CountDistinct('b')", "Unique('b')", "MissingValuePercentage('a'), ZeroPercentage('a')")
def of_columns_without_rows(data, at, text):
    """Where a filter has left no row."""
    items = eval(text, dict(vars(sub(data, "aggregate"))))
    items = items if isinstance(items, tuple) else (items,)
    ds = data.from_items([{"a": 1, "b": "x"}]).filter(lambda row: False)
    return [ds.aggregate(*items), ds.groupby(None).aggregate(*items).take_all()]


@case()
def no_aggregate(data, at):
    return table(data).aggregate("sum")


@case()
def own_function(data, at):
    a = sub(data, "aggregate")
    made = a.AggregateFn(init=lambda k: 0, accumulate_row=lambda acc, row: acc + row["id"] ** 2, merge=lambda x, y: x + y, name="squares")
    return data.range(5).aggregate(made)


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

    return data.from_items([{"a": 2}, {"a": 5}]).aggregate(Product("a"))


@case("Sum('a')", "Std('a', ddof=0)", "Quantile('a', q=0.25)", "Count()", "Unique('a')", "AsList('a')", "CountDistinct('a')", "AbsMax('a')")
def name(data, at, text):
    return eval(text, vars(sub(data, "aggregate"))).name


@case("int overflow", "bools", "all null", "one")
def odd_sums(data, at, which):
    items = {"int overflow": [2**62, 2**61], "bools": [True, False, True], "all null": [None, None], "one": [5]}[which]
    ds = data.from_items([{"a": v} for v in items])
    return [ds.sum("a"), ds.max("a"), ds.mean("a")]
