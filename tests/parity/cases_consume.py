"""Methods that run a Dataset, and those that tell about it."""
from parity import PRINTED, case, sub


def table(data):
    return data.from_items([{"a": 3, "b": 1.5, "s": "x"}, {"a": 1, "b": None, "s": "y"}, {"a": 2, "b": 0.25, "s": None}], override_num_blocks=1)


@case(0, 2, 100, -1)
def take(data, at, n):
    return data.range(5).take(n)


@case(None, 5, 4, 0)
def take_all(data, at, limit):
    return data.range(5).take_all(limit)


@case((2, "default"), (2, "numpy"), (2, "pandas"), (2, "pyarrow"), (10, "numpy"))
def take_batch(data, at, n, format):
    return table(data).take_batch(n, batch_format=format)


@case((2, "wrong"), (0, "numpy"))
def take_batch_wrong(data, at, n, format):
    return table(data).take_batch(n, batch_format=format)


@case()
def take_batch_of_nothing(data, at):
    return data.range(0).take_batch()


@case(1, 100)
def show(data, at, n):
    table(data).show(n)
    return PRINTED


@case()
def count(data, at):
    return [data.range(7).count(), data.range(7).filter(expr="id > 3").count(), data.range(7).map(lambda r: r).count(),
            data.from_items([]).count(), data.range(7).limit(3).count()]


@case()
def schema(data, at):
    found = table(data).schema()
    return [found, found.names, [str(t) for t in found.types], found == table(data).schema()]


@case()
def schema_behind_functions(data, at):
    return data.range(3).map(lambda r: {"x": str(r["id"]), "y": [r["id"]]}).schema()


@case()
def schema_without_a_run(data, at):
    return data.range(3).map(lambda r: {"x": 1}).schema(fetch_if_missing=False)


@case()
def schema_of_nothing(data, at):
    return [data.range(0).schema(), data.from_items([]).columns(), data.range(3).filter(expr="id > 5").count()]


@case()
def columns(data, at):
    return [table(data).columns(), data.range(2).map(lambda r: {"z": 1, "y": 2}).columns()]


@case()
def size_bytes(data, at):
    return data.range(10).materialize().size_bytes()


@case()
def num_blocks(data, at):
    return data.range(10, override_num_blocks=4).materialize().num_blocks()


@case()
def num_blocks_before_a_run(data, at):
    return data.range(10).num_blocks()


@case()
def input_files(data, at):
    return [sorted(data.read_csv(str(at / "csv")).input_files()), data.range(3).input_files()]


@case("sum", "min", "max", "mean", "std")
def aggregate_one(data, at, method):
    return [getattr(table(data), method)("a"), getattr(table(data), method)("b")]


@case("sum", "min", "max", "mean", "std")
def aggregate_several(data, at, method):
    return getattr(table(data), method)(["a", "b"])


@case("sum", "min", "max", "mean", "std")
def aggregate_with_nulls(data, at, method):
    return getattr(table(data), method)("b", ignore_nulls=False)


@case("sum", "min", "max", "mean", "std")
def aggregate_of_nothing(data, at, method):
    return getattr(data.range(0), method)("id")


@case("sum", "min", "max", "mean", "std")
def aggregate_of_no_column(data, at, method):
    return getattr(table(data), method)("nope")


@case("sum", "mean")
def aggregate_of_text(data, at, method):
    return getattr(table(data), method)("s")


@case("min", "max")
def extreme_texts(data, at, method):
    return getattr(table(data), method)("s")


@case()
def std_ddof(data, at):
    return [data.range(4).std("id", ddof=0), data.range(4).std("id", ddof=1), data.range(1).std("id")]


@case()
def unique(data, at):
    ds = data.from_items([{"a": v} for v in [2, 1, 2, None, 1]])
    return {v for v in ds.unique("a")}


@case()
def materialize(data, at):
    kept = data.range(5).map(lambda r: {"x": r["id"]}).materialize()
    return [type(kept).__name__, kept.take_all(), kept.materialize() is kept, kept.count()]


@case(None, 3, 2)
def to_pandas(data, at, limit):
    return table(data).to_pandas(limit=limit)


@case()
def to_pandas_of_nothing(data, at):
    return len(data.range(0).to_pandas())


@case("to_pandas_refs", "to_arrow_refs")
def to_refs(data, at, method):
    from parity import root

    refs = getattr(data.range(3, override_num_blocks=1), method)()
    found = root(data).get(refs)
    return [len(refs), type(found[0]).__name__, found[0]["id"].tolist() if method == "to_pandas_refs" else found[0]["id"].to_pylist()]


@case()
def to_numpy_refs(data, at):
    from parity import root

    return root(data).get(data.range(3, override_num_blocks=1).to_numpy_refs(column="id"))


@case()
def get_internal_block_refs(data, at):
    return len(data.range(10, override_num_blocks=3).get_internal_block_refs())


@case()
def iter_internal_ref_bundles(data, at):
    return sum(bundle.num_rows() for bundle in data.range(10, override_num_blocks=3).iter_internal_ref_bundles())


@case()
def repr_of_kept_rows(data, at):
    return repr(table(data))


@case()
def repr_of_many_rows(data, at):
    return repr(data.from_items([{"a": i, "b": "t" * i} for i in range(40)]))


@case()
def repr_of_a_range(data, at):
    return repr(data.range(3))


@case()
def repr_of_functions(data, at):
    return repr(data.range(3).map_batches(len).filter(lambda row: True))


@case()
def repr_of_a_name(data, at):
    ds = data.range(3)
    ds.set_name("numbers")
    return [ds.name, repr(ds)]


@case()
def repr_of_kept_nothing(data, at):
    return repr(data.from_items([]))


@case("filter", "map_batches")
def repr_of_columns_without_rows(data, at, how):
    if how == "filter":
        return repr(data.range(3).filter(expr="id > 5").materialize())
    return repr(data.range(3).map_batches(lambda batch: {"x": batch["id"][:0]}).materialize())


@case()
def str_is_repr(data, at):
    ds = data.range(3)
    return str(ds) == repr(ds)


@case()
def dunders(data, at):
    found = []
    for use in (len, iter, bool, lambda ds: ds[0], list):
        try:
            found.append(use(data.range(3)))
        except Exception as error:
            found.append(error)
    return found


@case()
def set_name(data, at):
    ds = data.range(3)
    before = ds.name
    ds.set_name("n")
    return [before, ds.name, ds.map(lambda r: r).name, data.range(3).get_dataset_id() != data.range(3).get_dataset_id()]


PLANS = ["data.from_items([1]).map(f)", "data.from_numpy(np.ones(2)).map(f)", "data.from_pandas(pd.DataFrame({'a': [1]})).map(f)",
         "data.range(3).materialize().map(f)", "data.from_items([{'a': 1, 'b': 2}]).map(f).drop_columns(['a'])", "data.range(3).map(f).union(data.from_items([1]))",
         "data.range(3).map(f).zip(data.from_items([1]))", "data.range(3).join(data.range(3), 'inner', 2, on=('id',))", "data.range(3).randomize_block_order()"]


@case(*PLANS)
def explain_names_operators(data, at, text):
    """All but what Ray makes one of: that depends on the machine."""
    import contextlib
    import io

    import numpy as np
    import pandas as pd

    with contextlib.redirect_stdout(io.StringIO()) as out:
        eval(text, {"data": data, "np": np, "pd": pd, "f": lambda row: row}).explain()
    return out.getvalue().partition("-------- Physical Plan (Optimized)")[0]


RUNS = ["ds.map(f)", "ds.map(f, concurrency=1)", "ds.map(f, concurrency=1).map(f, concurrency=1)", "ds.map(f, concurrency=1).map(f, concurrency=2)",
        "ds.map(f).map(f, concurrency=1)", "ds.map(f).map(F, concurrency=2)", "ds.map(f, concurrency=2).map(F, concurrency=(1, 2))",
        "ds.map(f, concurrency=1).map(F, concurrency=2)", "ds.map(F, concurrency=1).map(f)", "ds.map(f, concurrency=1).filter(expr='id > 1')",
        "ds.map_batches(f)", "ds.map_batches(f, batch_size=2)", "ds.map(f).map_batches(f, batch_size=2)", "ds.filter(f).map_batches(f, batch_size=2)",
        "ds.flat_map(f).map_batches(f)", "ds.flat_map(f).map_batches(f, batch_size=2)", "ds.map_batches(f, batch_size=2).map_batches(f, batch_size=4)",
        "ds.filter(expr='id > 1').map_batches(f, batch_size=2)", "ds.map(f).repartition(2, shuffle=True)", "ds.map(f).repartition(2)",
        "ds.map(f, concurrency=2).random_shuffle()", "ds.repartition(2, shuffle=True).map(f)",
        "ds.map_batches(f, batch_size=4).repartition(target_num_rows_per_block=2, strict=True)",
        "ds.map_batches(f, batch_size=3).repartition(target_num_rows_per_block=2, strict=True)",
        "ds.map_batches(f, batch_size=4).map_batches(f, batch_size=4).repartition(target_num_rows_per_block=2, strict=True).map(f)",
        "ds.map_batches(f).repartition(target_num_rows_per_block=2)", "ds.map_batches(f, batch_size=3).repartition(target_num_rows_per_block=2)",
        "ds.map(f).repartition(target_num_rows_per_block=2)", "ds.map_batches(f, concurrency=2).repartition(target_num_rows_per_block=2)"]


class F:
    def __call__(self, row):
        return row


@case(*RUNS)
def explain_tells_what_runs_as_one(data, at, text):
    import contextlib
    import io

    ds = eval(text, {"ds": data.range(8, override_num_blocks=2), "f": lambda row: row, "F": F})
    with contextlib.redirect_stdout(io.StringIO()) as out:
        ds.explain()
    return [out.getvalue().partition("-------- Engine")[0], repr(ds)]


@case(*["read(1)", "read(2)", "read(5)", "read(2).map(f)", "read(4).map(f)", "read(1).map(f)", "read(2).map_batches(f, batch_size=3)", "read(4).filter(f)"])
def explain_tells_how_files_are_cut(data, at, text):
    import contextlib
    import io

    for name in ("a.csv", "b.csv"):
        (at / name).write_text("a\n1\n2\n")
    ds = eval(text, {"read": lambda n: data.read_csv(str(at), override_num_blocks=n), "f": lambda row: row})
    with contextlib.redirect_stdout(io.StringIO()) as out:
        ds.explain()
    return [out.getvalue().partition("-------- Engine")[0], repr(ds)]


@case()
def explain_prints_four_plans(data, at):
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        data.range(3).map(len).explain()
    return [line for line in out.getvalue().splitlines() if line.startswith("-----") and "Plan" in line]


@case()
def stats_are_text(data, at):
    kept = data.range(3).map(lambda r: r).materialize()
    text = kept.stats()
    return [type(text), "Map(<lambda>)" in text, "tasks executed" in text, "blocks produced" in text, "Remote wall time" in text,
            "Output num rows per block" in text, "Dataset throughput" in text]


@case()
def consumed_twice(data, at):
    ds = data.range(3).map(lambda r: {"x": r["id"]})
    return [ds.take_all(), ds.take_all(), ds.count()]


@case()
def summary(data, at):
    found = table(data).summary()
    return [type(found).__name__, sorted(found.to_pandas()["statistic"].tolist())]


@case()
def random_access(data, at):
    from parity import root

    ds = data.from_items([{"k": i, "v": i * i} for i in range(10)])
    access = ds.to_random_access_dataset(key="k", num_workers=1)
    return [root(data).get(access.get_async(3)), access.multiget([1, 20, 5])]


@case()
def get_stats_summary(data, at):
    kept = data.range(3).map(lambda r: r).materialize()
    return type(kept.get_stats_summary()).__name__


# ---- no rows are left ----

NOTHING = {
    "a function filters": lambda ds, col: ds.filter(lambda row: False), "an expression filters": lambda ds, col: ds.filter(expr=col("id") > 100),
    "batches": lambda ds, col: ds.map_batches(lambda batch: {"x": batch["id"][:0]}), "flat_map": lambda ds, col: ds.flat_map(lambda row: []),
    "limit": lambda ds, col: ds.limit(0), "repartitioned": lambda ds, col: ds.filter(lambda row: False).repartition(5),
}


@case(*NOTHING)
def nothing_is_left(data, at, name):
    ds = NOTHING[name](data.range(10, override_num_blocks=2), sub(data, "expressions").col)
    kept = ds.materialize()
    schema = kept.schema()
    return [None if schema is None else schema.names, kept.num_blocks(), str(kept).splitlines()[0], kept.take_all(), list(kept.to_pandas().columns), kept.count(),
            [len(batch) for batch in kept.iter_batches()], kept.map(lambda row: {"q": 1}).take_all()]


@case(False, True)
def more_blocks_than_rows(data, at, shuffle):
    kept = data.range(4, override_num_blocks=2).repartition(7, shuffle=shuffle).materialize()
    return [kept.num_blocks(), len(kept.to_arrow_refs()), kept.count(), sorted(row["id"] for row in kept.take_all())]
