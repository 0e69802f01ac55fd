"""Which rows are a block, as a program sees it, and what columns say of themselves in Arrow and in files."""
from parity import case


def _sizes(ds):
    """By num_blocks, by batches without batch_size, and by what a function without batch_size is given."""
    length = lambda batch: len(next(iter(batch.values())))
    seen = ds.map_batches(lambda batch: {"n": [length(batch)]}, batch_size=None)
    return [ds.materialize().num_blocks(), [length(b) for b in ds.iter_batches(batch_size=None)], [row["n"] for row in seen.take_all()]]


@case((5, None), (5, 2), (10, 3), (3, 8), (300, None), (1001, None), (200, 7))
def items(data, at, count, blocks):
    return _sizes(data.from_items(list(range(count)), override_num_blocks=blocks))


@case("map", "filter", "limit", "union", "select", "batches of 2", "batches of 3")
def items_then(data, at, how):
    ds = data.from_items([{"a": i, "b": str(i)} for i in range(5)])
    steps = {"map": lambda: ds.map(lambda r: r), "filter": lambda: ds.filter(expr="a < 9"), "limit": lambda: ds.limit(3), "union": lambda: ds.union(ds),
             "select": lambda: ds.select_columns(["a"]), "batches of 2": lambda: ds.map_batches(lambda b: b, batch_size=2), "batches of 3": lambda: ds.map_batches(lambda b: b, batch_size=3)}
    return _sizes(steps[how]())


@case("{'a': 1}, {'b': 2}", "{'a': 1}, {'a': 'x'}", "{'a': 1}, {'a': 2.5}", "{'a': 1}, 5", "{'a': None}, {'a': 3}", "{'a': []}, {'a': [1]}", "{'a': 1, 'b': 2}, {'b': 3, 'a': 4}")
def items_of_several_kinds(data, at, text):
    return data.from_items(list(eval(text))).take_all()


@case("write_csv", "write_json", "write_parquet")
def files_of_items(data, at, method):
    getattr(data.from_items([{"a": i} for i in range(3)]), method)(str(at / "out"))
    return len(list((at / "out").iterdir()))


@case((8000, 2), (10000, 1), (16000, 4))
def numbers_in_small_blocks(data, at, bytes_max, blocks):
    data.DataContext.get_current().target_max_block_size = bytes_max
    return _sizes(data.range(10000, override_num_blocks=blocks)) + _sizes(data.range(10000, override_num_blocks=blocks).map_batches(lambda b: b))


@case()
def texts_in_small_blocks(data, at):
    data.DataContext.get_current().target_max_block_size = 10000
    return data.from_items([{"x": "a" * 1000} for _ in range(100)], override_num_blocks=2).map(lambda r: r).materialize().num_blocks()


@case(3_000_000, 20_000_000)
def files_in_small_blocks(data, at, bytes_max):
    """About how many: one file that is asked for as one block, and is larger than a block may be."""
    data.DataContext.get_current().target_max_block_size = bytes_max
    data.range(1000, override_num_blocks=1).map_batches(lambda b: {"x": ["a" * 10000] * len(b["id"])}).write_csv(str(at / "texts"))
    ds = data.read_csv(str(at / "texts"), override_num_blocks=1).materialize()
    return [ds.num_blocks(), ds.count()]


@case(("map", None), ("map", 1_000_000), ("flat_map", None), ("flat_map", 1_000_000), ("filter", None), ("batches", None), ("two", 1_000_000))
def blocks_in_a_loop(data, at, how, bytes_max):
    """What functions make of a block is one, or as many as bytes_max says, for loops as for who keeps them."""
    if bytes_max:
        data.DataContext.get_current().target_max_block_size = bytes_max
    ds = data.range(600, override_num_blocks=2).map(lambda row: {"x": "a" * 10000})
    ds = {"map": lambda: ds, "flat_map": lambda: ds.flat_map(lambda row: [row]), "filter": lambda: ds.filter(lambda row: True),
          "batches": lambda: ds.map_batches(lambda b: b, batch_size=50), "two": lambda: ds.map(lambda row: row).map(lambda row: row)}[how]()
    return [[len(b["x"]) for b in ds.iter_batches(batch_size=None)], sum(len(bundle.blocks) for bundle in ds.iter_internal_ref_bundles()),
            ds.materialize().num_blocks()]


@case("union", "zip", "zip of the same", "zip of a function's")
def columns_of_two(data, at, how):
    import pyarrow as pa

    one, other = data.from_arrow(pa.table({"x": pa.array([1, 2], pa.int32())})), data.from_arrow(pa.table({"x": [[1.0], [2.0]]}))
    two = {"union": lambda: one.union(other), "zip": lambda: one.zip(other), "zip of the same": lambda: one.zip(one),
           "zip of a function's": lambda: one.zip(other.map_batches(lambda b: b))}[how]
    before = two().schema(fetch_if_missing=False)
    return [before and [before.names, [str(t) for t in before.types]], [two().schema().names, [str(t) for t in two().schema().types]],
            two().columns(), two().take_all()]


@case((5, 20), (2, 20))
def by_keys(data, at, blocks, count):
    data.DataContext.get_current().shuffle_strategy = "hash_shuffle"
    ds = data.range(count, override_num_blocks=4).map_batches(lambda b: {"k": b["id"] % 3, "id": b["id"]}).repartition(blocks, keys=["k"]).materialize()
    return [ds.num_blocks(), ds.count(), sorted(ds.unique("k"))]


@case("range", "items", "parquet", "of another", "without a schema")
def columns_in_arrow(data, at, what):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"l": [[1, 2]], "n": [[[1]]], "s": [[{"a": 1}]]})
    path = str(at / "lists.parquet")
    pq.write_table(table, path, use_compliant_nested_type=what != "of another", store_schema=what != "without a schema")
    ds = {"range": lambda: data.range(3), "items": lambda: data.from_items([{"l": [1], "x": 1}])}.get(what, lambda: data.read_parquet(path))()
    (batch,) = ds.limit(1).iter_batches(batch_format="pyarrow")
    ds.limit(1).write_parquet(str(at / "out"))
    (written,) = (at / "out").iterdir()
    return [str(batch.schema.remove_metadata()), [str(t) for t in ds.schema().types], str(pq.read_schema(written).remove_metadata()),
            ds.schema().base_schema.remove_metadata() == batch.schema.remove_metadata(), ds.schema() == batch.schema]


@case(81, 80, 76, 12, 11, 20, 203)
def rest_of_a_large_block(data, at, rows):
    """What is left when pieces of target_max_block_size are cut off, and is less than half as much again, is a block."""
    import pyarrow as pa

    data.DataContext.get_current().target_max_block_size = 1024
    table = pa.table({"x": pa.array([b"a" * 124] * rows)})
    return data.from_arrow([table]).map_batches(lambda t: t, batch_format="pyarrow", batch_size=None).materialize()._block_num_rows()


@case(((1, 4), 2), ((2, 6, 1), 3), ((2, 4, 1, 8), 4), ((4, 4, 1, 12, 3), 4), ((1, 1, 9, 9), 3), ((7, 1, 1), 3))
def small_before_large(data, at, sizes, batch):
    """Blocks that are too small for a batch go with the one behind them, however large that is."""
    import pandas as pd

    ds = data.from_blocks([pd.DataFrame({"a": [number] * size}) for number, size in enumerate(sizes)])
    made = ds.map_batches(lambda b: {"a": b["a"], "n": [len(b["a"])] * len(b["a"])}, batch_size=batch)
    return [made.materialize().num_blocks(), sorted([row["a"], row["n"]] for row in made.take_all())]


def tables_of_two_types(data):
    import pyarrow as pa

    return data.from_arrow([pa.table({"i": pa.array([4, 2], pa.uint64()), "t": ["a", None]}), pa.table({"i": [1.5, 2.5], "t": [None, "b"]})])


@case("repartition(1)", "repartition(1, shuffle=True)", "sort('i')", "random_shuffle(seed=1)", "limit(3)", "limit(1)", "union(ds)", "select_columns(['i'])",
      "repartition(1).limit(1)", "repartition(3)")
def types_that_differ(data, at, text):
    ds = tables_of_two_types(data)
    ds = eval("ds." + text)
    return [str(t) for t in ds.schema().types]


@case("repartition(1)", "sort('i')", "limit(3)")
def rows_of_types_that_differ(data, at, text):
    ds = tables_of_two_types(data)
    return [[row["i"], type(row["i"]).__name__, row["t"]] for row in eval("ds." + text).take_all()]


@case()
def one_block_of_types_that_differ(data, at):
    kept = tables_of_two_types(data).repartition(1).materialize()
    return [kept.num_blocks(), [str(t) for t in kept.schema().types]]
