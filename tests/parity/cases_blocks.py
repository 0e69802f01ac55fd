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
