"""What is raised, and when: at the call, or when rows are wanted."""
from parity import case, root, sub


@case("None", "[1, 2]", "b['id']", "{'x': 5}", "{'x': [1], 'y': [1, 2]}", "'text'", "5")
def batches_that_are_none(data, at, text):
    return data.range(4).map_batches(eval(f"lambda b: {text}")).take_all()


@case("None", "5", "[{'a': 1}]", "'x'")
def rows_that_are_none(data, at, text):
    return data.range(4).map(eval(f"lambda r: {text}")).take_all()


@case("None", "5", "{'a': 1}", "[5]")
def flat_rows_that_are_none(data, at, text):
    return data.range(4).flat_map(eval(f"lambda r: {text}")).take_all()


@case("map_batches(lambda b: [1])", "map(lambda r: 5)", "flat_map(lambda r: [5])", "map_batches(lambda b: {'x': 5})")
def causes_of_wrong_results(data, at, text):
    try:
        eval(f"data.range(2).{text}.take_all()")
    except ValueError as error:
        return type(error.cause).__name__


@case("'x'", "'x', 'c'", "'x', 'c', 'int64'", "'x', pa_type='int64'")
def texts_of_conversion_errors(data, at, arguments):
    return str(eval(f"sub(data, 'extensions').ArrowConversionError({arguments})"))


@case()
def batches_of_blocks_that_do_not_fit(data, at):
    """The text has the column, and the words that programs look for."""
    ds = data.range(2, override_num_blocks=1).map_batches(lambda batch: {"c": ["1.0" if batch["id"][0] else 16]}, batch_size=1)
    try:
        ds.map_batches(lambda batch: batch, batch_size=2).materialize()
    except Exception as error:
        return ["Error converting data to Arrow: " in str(error)]


@case("json", "parquet", "csv")
def damaged_files(data, at, name):
    """What a program catches them by."""
    import json

    import pyarrow as pa

    kind = {"json": json.JSONDecodeError, "parquet": pa.ArrowInvalid, "csv": ValueError}[name]
    (at / f"damaged.{name}").write_text({"json": '{"a": 1}\n{nope', "parquet": "no Parquet at all", "csv": "a,b\n1,2\n3\n"}[name])
    try:
        getattr(data, f"read_{name}")(str(at / f"damaged.{name}")).take_all()
    except kind as error:
        return [name, "Failed to read CSV file" in str(error)]


@case("ValueError('v')", "KeyError('k')", "ZeroDivisionError()", "TypeError('t')", "FileNotFoundError(2, 'gone')", "StopIteration()", "AssertionError()",
      "RuntimeError('r')", "OSError(5, 'io')", "UnicodeDecodeError('utf8', b'x', 0, 1, 'r')")
def functions_that_raise(data, at, text):
    def fn(row):
        raise eval(text)

    return data.range(2).map(fn).take_all()


@case()
def own_exceptions(data, at):
    class Mine(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.b = b

    def fn(row):
        raise Mine("first", "second")

    try:
        data.range(1).map(fn).take_all()
    except Exception as error:
        return ["Mine" in type(error).__name__ or "Mine" in str(error), isinstance(error, root(data).exceptions.RayTaskError)]


@case()
def constructors_that_raise(data, at):
    class Bad:
        def __init__(self):
            raise ValueError("no model")

        def __call__(self, batch):
            return batch

    return data.range(2).map_batches(Bad, concurrency=1).take_all()


@case("batch_size=0", "batch_size=-1", "batch_size='x'", "batch_size=1.5", "batch_format='nope'", "fn_constructor_args=[1]", "fn_constructor_kwargs={'a': 1}",
      "compute='nope'", "compute=5", "num_gpus=1")
def wrong_arguments_of_map_batches(data, at, text):
    data.range(4).map_batches(lambda b: b, **eval(f"dict({text})"))
    return "accepted"


@case("5", "None", "'name'", "[1]")
def no_function(data, at, text):
    data.range(4).map(eval(text))
    return "accepted"


@case("map", "map_batches", "flat_map", "filter")
def no_function_at_all(data, at, method):
    getattr(data.range(4), method)()
    return "accepted"


@case()
def filter_by_both(data, at):
    data.range(4).filter(lambda r: True, expr="id > 1")
    return "accepted"


@case("id >", "nope > 1", "id = 1", "import os", "__import__('os')", "id + 1")
def wrong_filter_texts(data, at, text):
    return data.range(4).filter(expr=text).take_all()


@case("-1", "1.5", "'x'", "None")
def wrong_limits(data, at, text):
    return data.range(4).limit(eval(text)).take_all()


@case("0", "-1", "'x'")
def wrong_repartition(data, at, text):
    data.range(4).repartition(eval(text)).take_all()
    return "accepted"


@case("5", "'x'", "None")
def wrong_union(data, at, text):
    data.range(4).union(eval(text)).take_all()
    return "accepted"


@case()
def key_of_a_row_that_is_not_there(data, at):
    return data.range(2).map(lambda r: {"x": r["nope"]}).take_all()


@case()
def column_of_a_batch_that_is_not_there(data, at):
    return data.range(2).map_batches(lambda b: {"x": b["nope"]}).take_all()


@case()
def unserialisable(data, at):
    import threading

    lock = threading.Lock()

    def fn(row):
        with lock:
            return row

    return data.range(2).map(fn).take_all()


@case("with_column", "filter")
def no_expression(data, at, method):
    if method == "with_column":
        data.range(2).with_column("x", 5).take_all()
    else:
        data.range(2).filter(expr=5).take_all()
    return "accepted"


@case("5", "''", "None")
def wrong_column_names(data, at, text):
    e = sub(data, "expressions")
    return data.range(1).with_column(eval(text), e.lit(1)).take_all()


@case("prefetch_batches=-1", "batch_size=0", "batch_format='nope'", "local_shuffle_buffer_size=2, batch_size=None", "batch_size=-2")
def wrong_loops(data, at, text):
    return len(list(data.range(4).iter_batches(**eval(f"dict({text})"))))


@case("mode='nope'", "partition_cols=['nope']", "min_rows_per_file=0", "nonsense=1")
def wrong_writes(data, at, text):
    data.range(4).write_parquet(str(at / "out"), **eval(f"dict({text})"))
    return "accepted"


@case()
def write_to_a_file(data, at):
    (at / "file").write_text("x")
    data.range(4).write_parquet(str(at / "file"))
    return "accepted"


@case("columns='id'", "columns=5", "file_extensions='parquet'", "override_num_blocks=0", "override_num_blocks='x'", "shuffle='rows'", "concurrency=0", "nonsense=1",
      "partitioning='hive'")
def wrong_reads(data, at, text):
    return data.read_parquet(str(at / "parquet"), **eval(f"dict({text})")).count()


@case("5", "None", "{}")
def wrong_paths(data, at, text):
    return data.read_parquet(eval(text)).count()


@case()
def results_with_other_columns_by_block(data, at):
    ds = data.range(4, override_num_blocks=2).map_batches(lambda b: {"x": b["id"]} if b["id"][0] else {"y": b["id"]})
    return sorted(ds.take_all(), key=str)


@case()
def results_with_other_types_by_block(data, at):
    ds = data.range(4, override_num_blocks=2).map_batches(lambda b: {"x": b["id"] if b["id"][0] else b["id"].astype(str)})
    return sorted((str(r["x"]) for r in ds.take_all()))


@case("Dataset", "DataIterator", "Schema")
def made_by_hand(data, at, name):
    return getattr(data, name)()


@case("num_partitions=0", "key='nope'")
def sort_of_no_column(data, at, text):
    if "key" not in text:
        raise ValueError
    return data.range(3).sort("nope").take_all()
