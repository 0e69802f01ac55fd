"""Names that other cases only pass by: what each of them does by itself."""
import numpy as np
from parity import case, root, sub


@case(shows=["ray.data.DataIterator", "ray.data.DatasetIterator", "Dataset.iterator", "DataIterator.iter_batches", "DataIterator.get_context"])
def an_iterator(data, at):
    """Goes from the beginning each time, and knows its Dataset's context."""
    data.DataContext.get_current().set_config("mine", 7)
    ds = data.range(10, override_num_blocks=3)
    it = ds.iterator()
    sizes = [[len(batch["id"]) for batch in it.iter_batches(batch_size=4, drop_last=drop)] for drop in (False, True)]
    data.DataContext.get_current().remove_config("mine")
    return [isinstance(it, (data.DataIterator, data.DatasetIterator)), sizes, it.get_context().get_config("mine"), it.get_context() is ds.context]


@case(shows=["Dataset.context", "DataContext.copy", "DataContext.get_current", "ray.data.DatasetContext", "ray.data.DataContext"])
def contexts_are_copies(data, at):
    current = data.DataContext.get_current()
    before = current.target_max_block_size
    ds = data.range(4)
    ds.context.target_max_block_size = 12345
    other = current.copy()
    other.target_min_block_size = 1
    derived = ds.map(lambda row: row)
    inside = derived.map_batches(lambda b: {"size": np.full(len(b["id"]), data.DataContext.get_current().target_max_block_size)})
    return [current.target_max_block_size == before, current.target_min_block_size == 1, derived.context.target_max_block_size,
            sorted({row["size"] for row in inside.take_all()}), data.DatasetContext is data.DataContext,
            data.DatasetContext.get_current() is current]


@case("AbsMax", "Max", "Mean", "Min", "Sum", "Std", "Count", "Quantile", "Unique", "AsList", "CountDistinct", "MissingValuePercentage",
      "ZeroPercentage", shows=["ray.data.aggregate.{}"])
def an_aggregate_of_its_own(data, at, name):
    aggregate = sub(data, "aggregate")
    ds = data.from_items([{"x": x} for x in (-3.0, 1.0, None, 2.0, 0.0)])
    given = {"ignore_nulls": True, "alias_name": "found"}
    if name in ("MissingValuePercentage", "AsList"):
        del given["ignore_nulls"]
    row = ds.aggregate(getattr(aggregate, name)("x", **given))
    value = row["found"]
    return sorted(map(str, value)) if isinstance(value, (list, set, np.ndarray)) else round(float(value), 6)


@case(shows=["ray.data.aggregate.AggregateFn"])
def an_old_aggregate(data, at):
    aggregate = sub(data, "aggregate")
    span = aggregate.AggregateFn(
        init=lambda key: (10**9, -10**9), accumulate_row=lambda a, row: (min(a[0], row["id"]), max(a[1], row["id"])),
        merge=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])), finalize=lambda a: a[1] - a[0], name="span")
    ds = data.range(20).map(lambda row: {"id": row["id"], "k": row["id"] % 2})
    return [ds.aggregate(span)["span"], sorted((row["k"], row["span"]) for row in ds.groupby("k").aggregate(span).take_all())]


@case(shows=["ray.data.aggregate.AggregateFnV2"])
def a_newer_aggregate(data, at):
    aggregate = sub(data, "aggregate")

    class Odd(aggregate.AggregateFnV2):
        def __init__(self, on):
            super().__init__(f"odd({on})", lambda: 0, on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            accessor = sub(data, "block").BlockAccessor.for_block(block)
            return sum(row[self._target_col_name] % 2 for row in accessor.iter_rows(True))

        def combine(self, current, new):
            return current + new

    return data.range(11, override_num_blocks=3).aggregate(Odd("id"))


@case(shows=["ray.data.expressions.BinaryExpr", "ray.data.expressions.ColumnExpr", "ray.data.expressions.LiteralExpr", "ray.data.expressions.lit",
             "ray.data.expressions.UnaryExpr", "ray.data.expressions.AliasExpr"])
def what_expressions_are_made_of(data, at):
    e = sub(data, "expressions")
    made = ((e.col("id") + e.lit(2)) > 5).alias("big")
    inner = made.expr
    ds = data.range(6).with_column("big", inner).with_column("two", e.lit(2)).with_column("small", ~e.col("big"))
    kinds = [isinstance(made, e.AliasExpr), isinstance(inner, e.BinaryExpr), inner.op.name, isinstance(inner.left.left, e.ColumnExpr), inner.left.left.name,
             isinstance(inner.left.right, e.LiteralExpr), inner.left.right.value, isinstance(~e.col("big"), e.UnaryExpr), made.name]
    return [kinds, ds.take_all()]


@case(shows=["ray.data.Datasource", "ray.data.ReadTask", "ray.data.datasource.Datasource", "ray.data.datasource.ReadTask", "ray.data.block.BlockMetadata"])
def a_source_of_ones_own(data, at):
    import pyarrow as pa

    source, block = sub(data, "datasource"), sub(data, "block")

    class Squares(source.Datasource):
        def estimate_inmemory_data_size(self):
            return 80

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            def task(n):
                metadata = block.BlockMetadata(num_rows=2, size_bytes=16, input_files=[f"part-{n}"], exec_stats=None)
                return source.ReadTask(lambda: [pa.table({"x": [n, n * n]})], metadata)

            return [task(n) for n in range(5)]

    ds = data.read_datasource(Squares())
    assert data.Datasource is source.Datasource and data.ReadTask is source.ReadTask
    return [sorted(row["x"] for row in ds.take_all()), ds.count(), sorted(ds.input_files()), ds.select_columns(["x"]).sum("x")]


@case(shows=["ray.data.RowBasedFileDatasink", "ray.data.BlockBasedFileDatasink", "ray.data.datasource.RowBasedFileDatasink",
             "ray.data.datasource.BlockBasedFileDatasink", "Dataset.write_datasink"])
def sinks_of_files(data, at):
    import os
    import tempfile

    source, block = sub(data, "datasource"), sub(data, "block")

    class Rows(source.RowBasedFileDatasink):
        def write_row_to_file(self, row, file):
            file.write(f"row {row['id']}".encode())

    class Blocks(source.BlockBasedFileDatasink):
        def write_block_to_file(self, accessor, file):
            file.write(f"{accessor.num_rows()} rows".encode())

    found = []
    for sink in (Rows, Blocks):
        folder = tempfile.mkdtemp()
        data.range(4, override_num_blocks=2).write_datasink(sink(folder, file_format="txt"))
        names = os.listdir(folder)
        found.append([sorted(open(os.path.join(folder, name)).read() for name in names), all(name.endswith(".txt") for name in names)])
    return [*found, data.RowBasedFileDatasink is source.RowBasedFileDatasink, data.BlockBasedFileDatasink is source.BlockBasedFileDatasink]


@case(shows=["ray.data.datasource.FileBasedDatasource"])
def a_format_of_ones_own(data, at):
    import os
    import tempfile

    source = sub(data, "datasource")

    class Words(source.FileBasedDatasource):
        def _read_stream(self, f, path):
            import pyarrow as pa

            yield pa.table({"word": f.readall().decode().split()})

    folder = tempfile.mkdtemp()
    for name, text in (("a.words", "one two"), ("b.words", "three"), ("c.txt", "no")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    ds = data.read_datasource(Words(folder, file_extensions=["words"]))
    return [sorted(row["word"] for row in ds.take_all()), sorted(os.path.basename(path) for path in ds.input_files())]


@case(shows=["ray.data.ExecutionOptions", "ray.data.ExecutionResources"])
def options_of_a_run(data, at):
    limits = data.ExecutionResources(cpu=2, gpu=0, object_store_memory=10**8)
    options = data.ExecutionOptions(resource_limits=limits, preserve_order=True, verbose_progress=False)
    context = data.DataContext.get_current()
    before, context.execution_options = context.execution_options, options
    rows = [row["id"] for row in data.range(50, override_num_blocks=10).map(lambda row: row).take_all()]
    context.execution_options = before
    return [rows == list(range(50)), options.preserve_order, limits.cpu, limits.object_store_memory, limits.add(limits).cpu, limits == limits.copy(),
            data.ExecutionResources.zero().is_zero()]


@case(shows=["ray.data.TaskPoolStrategy", "ray.data.ActorPoolStrategy"])
def strategies_of_functions(data, at):
    class Add:
        def __init__(self, n):
            self.n = n

        def __call__(self, batch):
            return {"x": batch["id"] + self.n}

    tasks = data.range(6).map_batches(lambda b: {"x": b["id"] * 2}, compute=data.TaskPoolStrategy(size=1))
    actors = data.range(6).map_batches(Add, fn_constructor_args=(10,), compute=data.ActorPoolStrategy(size=1))
    return [sorted(row["x"] for row in tasks.take_all()), sorted(row["x"] for row in actors.take_all()), data.TaskPoolStrategy(size=3) == data.TaskPoolStrategy(3),
            data.ActorPoolStrategy(min_size=1, max_size=4) == data.ActorPoolStrategy(min_size=1, max_size=4)]


@case("is_list_type", "is_map_type", "is_struct_type", "is_temporal_type", "is_tensor_type", "is_nested_type", "is_string_type", "is_binary_type",
      "is_boolean_type", "is_null_type", "is_floating_type", "is_integer_type", "is_numerical_type", "is_arrow_type", "is_numpy_type", "is_python_type",
      shows=["DataType.{}"])
def a_question_about_types(data, at, name):
    import pyarrow as pa

    kind = sub(data, "datatype").DataType
    types = [kind.int8(), kind.float32(), kind.string(), kind.binary(), kind.bool(), kind.list(kind.int64()), kind.struct([("a", kind.int8())]),
             kind.map(kind.string(), kind.int64()), kind.temporal("timestamp", unit="us"), kind.temporal("date32"), kind.tensor((2, 3), kind.float32()),
             kind(pa.null()), kind(pa.large_string()), kind(pa.decimal128(5, 2)), kind(pa.duration("s")), kind.from_numpy("float64"), kind(int), kind(str)]
    return [bool(getattr(one, name)()) for one in types]


@case(shows=["Dataset.map", "Dataset.count", "Dataset.columns", "Dataset.filter", "Dataset.limit", "Dataset.take_all", "ray.data.Dataset", "ray.data.range"])
def the_first_program(data, at):
    ds = data.range(100).map(lambda row: {"n": row["id"], "square": row["id"] ** 2}).filter(lambda row: row["square"] % 2 == 1)
    kept = ds.limit(3)
    return [isinstance(ds, data.Dataset), ds.columns(), ds.count(), kept.count(), len(kept.take_all()), sorted(ds.take_all(), key=lambda r: r["n"])[-1]]


@case(shows=["ray.exceptions.UserCodeException"])
def errors_of_the_user(data, at):
    exceptions = sub(root(data), "exceptions")
    try:
        data.range(2).map(lambda row: 1 // 0).take_all()
    except exceptions.UserCodeException as error:
        return [isinstance(error, exceptions.RayTaskError), isinstance(error, exceptions.RayError), "ZeroDivisionError" in str(error)]
    return None


@case(shows=["DataContext.checkpoint_config"])
def where_a_run_left_off(data, at):
    import os
    import tempfile

    config = sub(data, "checkpoint").CheckpointConfig
    folder = tempfile.mkdtemp()
    context = data.DataContext.get_current()
    context.checkpoint_config = config(id_column="id", checkpoint_path=os.path.join(folder, "done"), delete_checkpoint_on_success=False)
    try:
        made = context.checkpoint_config
        for _ in range(2):
            data.read_parquet(at / "parquet").write_parquet(os.path.join(folder, "out"))
    finally:
        context.checkpoint_config = None
    return [made.id_column, data.read_parquet(os.path.join(folder, "out")).count() == data.read_parquet(at / "parquet").count()]


@case(("DownloadExpr", "download('uri')"), ("MonotonicallyIncreasingIdExpr", "monotonically_increasing_id()"), ("RandomExpr", "random()"),
      ("UDFExpr", "col('i').power(2)"), shows=["ray.data.expressions.{}"])
def a_class_of_expressions(data, at, name, text):
    e = sub(data, "expressions")
    made = eval(text, vars(e) | {name: getattr(e, name) for name in ("download", "monotonically_increasing_id", "random", "col")})
    return [isinstance(made, getattr(e, name)), isinstance(e.col("a"), getattr(e, name))]


@case()
def parts_of_tensors(data, at):
    import pyarrow as pa

    x = sub(data, "extensions")
    dtype = x.TensorDtype((2,), np.dtype("int64"))
    array = x.TensorArray(np.arange(4).reshape(2, 2))
    plain = x.ArrowTensorType((2, 3), pa.int64())
    made = x.create_arrow_fixed_shape_tensor_type(shape=(2,), dtype=pa.float32())
    return [array.dtype == dtype, str(dtype), isinstance(array[1], x.TensorArrayElement), x.TensorArrayElement(np.arange(3)).to_numpy().tolist(),
            list(plain.shape), str(plain.storage_type.value_type), type(made).__name__, list(made.shape)]


@case()
def what_a_block_says(data, at):
    import pyarrow as pa

    block = sub(data, "block")
    about = block.BlockMetadataWithSchema.from_block(pa.table({"a": [1, 2, 3]}))
    return [about.num_rows, about.schema.names, type(about.metadata) is block.BlockMetadata]


@case()
def a_stream_of_references(data, at):
    ray = root(data)

    @ray.remote
    def numbers(n):
        for i in range(n):
            yield i

    made = numbers.remote(3)
    return [isinstance(made, ray.ObjectRefGenerator), [ray.get(ref) for ref in made]]


@case("uint64", "int64", "string")
def unsigned(data, at, name):
    DataType = sub(data, "datatype").DataType
    return [getattr(DataType, name)().is_uint64_type(), getattr(DataType, name)().is_numerical_type()]


@case()
def who_knows_what_is_done(data, at):
    import tempfile

    checkpoint = sub(data, "checkpoint")
    config = checkpoint.CheckpointConfig(id_column="id", checkpoint_path=tempfile.mkdtemp())
    made = checkpoint.IdColumnCheckpointManager(checkpoint_config=config, data_context=data.DataContext.get_current())
    return [isinstance(made, checkpoint.CheckpointManager), type(made).__name__]


@case(shows=["ray.data.Schema"])
def a_schema(data, at):
    found = data.range(3).schema()
    return [isinstance(found, data.Schema), found.names, found == data.range(5).schema(), isinstance(found.base_schema, data.Schema)]


@case(shows=["ray.data.datasource.FilenameProvider"])
def names_of_files(data, at):
    import os

    class Names(sub(data, "datasource").FilenameProvider):
        def get_filename_for_task(self, *args, **kwargs):
            return "mine-" + "-".join(map(str, (*args, *kwargs.values()))) + ".parquet"

    data.range(3, override_num_blocks=1).write_parquet(str(at / "out"), filename_provider=Names())
    return [[name.startswith("mine-"), name.endswith(".parquet")] for name in os.listdir(at / "out")]
