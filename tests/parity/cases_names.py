"""Names that programs seldom say, one small question each."""
import pickle

from parity import case, root, sub


@case("col('a')", "col('a') + 1", "lit(5)", "uuid()", "random(seed=1)", "random() * col('a')", "monotonically_increasing_id()", "col('a').alias('b')",
      "col('a').is_null()", "star()", "col('a').str.upper()")
def about_an_expression(data, at, text):
    import pyarrow as pa

    e = sub(data, "expressions")
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    expr = eval(text, vars(e))
    found = [expr.is_idempotent(), expr.name, len(expr.expand_projection(schema)) if text != "star()" else 1]
    if text != "star()" and not text.startswith(("random", "uuid", "mono", "col('a').str")):
        found += [str(expr.get_type(schema)), expr.nullable(schema)]
        field = expr.to_field(schema)
        found.append(None if field is None else [field.name, str(field.type), field.nullable])
    return found


@case("col('a') > 1", "col('a') + lit(2)", "col('a').is_null()", "(col('a') > 1) & (col('b') == 'x')", "~(col('a') == 1)", "col('a').is_in([1, 2])")
def expression_as_pyarrow(data, at, text):
    import pyarrow as pa
    from pyarrow import dataset

    e = sub(data, "expressions")
    table = pa.table({"a": [1, 2, None], "b": ["x", "y", "x"]})
    made = dataset.dataset(table).to_table(columns={"r": eval(text, vars(e)).to_pyarrow()})
    return made.column("r").to_pylist()


@case("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "string", "bool", "binary")
def a_type(data, at, name):
    import pyarrow as pa

    DataType = sub(data, "datatype").DataType
    kind = getattr(DataType, name)()
    asked = ["arrow", "numpy", "python", "nested", "list", "struct", "numerical", "string", "binary", "boolean", "temporal", "decimal", "null",
             "tensor", "map", "fixed_size_list"]
    found = {about: getattr(kind, f"is_{about}_type")() for about in asked if hasattr(kind, f"is_{about}_type")}
    return [found, str(kind.to_arrow_dtype()), str(kind.to_numpy_dtype()), kind == DataType.from_arrow(kind.to_arrow_dtype()),
            pickle.loads(pickle.dumps(kind)) == kind, hash(kind) == hash(getattr(DataType, name)()), kind == DataType.list(kind), pa.types.is_integer(
                kind.to_arrow_dtype())]


@case("list(DataType.int64())", "large_list(DataType.int8())", "fixed_size_list(DataType.float32(), 3)", "struct([('x', DataType.int64())])",
      "map(DataType.string(), DataType.int64())", "tensor((2, 2), DataType.float32())", "variable_shaped_tensor(DataType.float32(), 2)",
      "temporal('timestamp', unit='us')", "temporal('date32')", "temporal('duration', unit='ns')", "from_numpy('int32')", "from_arrow(pa.null())",
      "from_arrow(pa.decimal128(5, 2))", "temporal('nope')", "temporal('time64', unit='ns')")
def a_type_of_types(data, at, text):
    import pyarrow as pa

    DataType = sub(data, "datatype").DataType
    kind = eval("DataType." + text, {"DataType": DataType, "pa": pa})
    asked = ["arrow", "numpy", "python", "nested", "list", "struct", "numerical", "string", "binary", "boolean", "temporal", "decimal", "null",
             "tensor", "map"]
    return {about: getattr(kind, f"is_{about}_type")() for about in asked if hasattr(kind, f"is_{about}_type")}


@case()
def categories_of_types(data, at):
    module = sub(data, "datatype")
    return [sorted(category.name for category in module.TypeCategory), [module.DataType.int64().is_of(category) for category in module.TypeCategory
                                                                         if category.name in ("LIST", "STRUCT", "TEMPORAL", "TENSOR", "MAP")]]


@case()
def references_to_blocks(data, at):
    import numpy as np
    import pyarrow as pa

    ray = root(data)
    table = pa.table({"a": [1, 2]})
    refs = data.range(6, override_num_blocks=2).to_arrow_refs()
    arrays = data.range(6, override_num_blocks=2).to_numpy_refs()
    return [data.from_arrow_refs([ray.put(table), ray.put(table)]).take_all(), data.from_arrow_refs(ray.put(table)).count(),
            [type(ray.get(ref)).__name__ for ref in refs], sum(ray.get(ref).num_rows for ref in refs),
            int(sum(ray.get(ref)["id"].sum() for ref in arrays)), data.from_numpy_refs([ray.put(np.arange(3))]).take_all(),
            data.from_numpy_refs(ray.put(np.ones((2, 2)))).count()]


@case()
def rows_by_key(data, at):
    ray = root(data)
    found = data.from_items([{"k": i * 2, "v": str(i)} for i in range(20)]).to_random_access_dataset("k", num_workers=1)
    rows = [ray.get(found.get_async(8)), ray.get(found.get_async(7)), *found.multiget([0, 38, 39])]
    return [None if row is None else dict(row) for row in rows] + ["RandomAccessDataset" in found.stats()]


@case()
def about_the_session(data, at):
    ray = root(data)
    context = ray.get_runtime_context()
    return [ray.cluster_resources()["CPU"] >= 1, ray.available_resources().get("CPU", 0) <= ray.cluster_resources()["CPU"], ray.get_gpu_ids(),
            context.get_actor_id(), len(context.get_node_id()), context.get_task_id()]


@case()
def groups_of_calls(data, at):
    ray = root(data)

    @ray.remote(concurrency_groups={"io": 2})
    class Actor:
        @ray.method(concurrency_group="io", num_returns=2)
        def io(self):
            return 1, 2

        def other(self):
            return 3

    actor = Actor.remote()
    return [ray.get(actor.io.remote()), ray.get(actor.other.options(concurrency_group="io").remote()), ray.get(actor.other.remote())]


@case()
def generators_that_fail(data, at):
    ray = root(data)

    @ray.remote(num_returns=3, max_retries=0)
    def half():
        yield 1
        raise ValueError("half")

    found = []
    for ref in half.remote():
        try:
            found.append(ray.get(ref))
        except ValueError as error:
            found.append("half" in str(error))
    return found


@case()
def cancelled_tasks(data, at):
    ray = root(data)

    @ray.remote
    def long():
        import time

        time.sleep(600)

    ref = long.remote()
    ray.cancel(ref)
    ray.get(ref)


@case("ActorAlreadyExistsError", "NodeDiedError", "ObjectFetchTimedOutError", "ObjectFreedError", "ObjectLostError", "ObjectStoreFullError",
      "OutOfDiskError", "OutOfMemoryError", "OwnerDiedError", "PendingCallsLimitExceeded", "RaySystemError", "RuntimeEnvSetupError",
      "TaskCancelledError", "TaskUnschedulableError", "ActorUnschedulableError", "WorkerCrashedError", "GetTimeoutError", "AsyncioActorExit",
      "ActorUnavailableError", "LocalRayletDiedError", "CrossLanguageError", "PlasmaObjectNotAvailable", "RayChannelError", "RayChannelTimeoutError",
      "ReferenceCountingAssertionError", "ObjectReconstructionFailedError", "TaskPlacementGroupRemoved", "ActorPlacementGroupRemoved")
def an_error(data, at, name):
    import importlib

    kind = getattr(importlib.import_module(f"{root(data).__name__}.exceptions"), name)
    ours = [base.__name__ for base in kind.__mro__ if base.__name__ in ("RayError", "RayActorError", "TimeoutError", "Exception", "OSError", "ValueError")]
    return sorted(ours)


@case()
def the_old_names_of_settings(data, at):
    import warnings

    context = data.DataContext.get_current()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.hash_shuffle_compression = "lz4"
        context.use_external_hash_shuffle = True
        return [context.shuffle_compression, context.hash_shuffle_compression, context.use_disk_based_hash_shuffle, context.use_external_hash_shuffle]


@case("SaveMode", "MixStoppingCondition", "datasource.PartitionStyle", "block.BatchFormat", "block.BlockType", "extensions.FixedShapeTensorFormat",
      "checkpoint.CheckpointBackend", "expressions.Operation", "context.ShuffleStrategy")
def members_of(data, at, name):
    module, _, name = name.rpartition(".")
    kind = getattr(sub(data, module) if module else data, name)
    return sorted([member.name, str(member.value)] for member in kind)


@case()
def map_batches_by_its_other_name(data, at):
    return data.range(4).map_batches_internal(lambda batch: {"n": batch["id"] + 1}, batch_size=2).take_all()


@case()
def path_filters(data, at):
    d = sub(data, "datasource")
    parts = d.Partitioning("hive", field_types={"n": int})
    parser = d.PathPartitionParser(parts)
    keep = d.PathPartitionFilter.of(lambda values: values.get("n") == 1)
    return [parser("/x/n=1/y=b/f.csv"), keep(["/x/n=1/f.csv", "/x/n=2/f.csv"]), parts.style == "hive", parser.scheme is parts]


@case(shows=["ray.data.checkpoint.CheckpointBackend"])
def where_checkpoints_lie(data, at):
    return [(backend.name, backend.value) for backend in sub(data, "checkpoint").CheckpointBackend]


@case(shows=["ray.data.checkpoint.CheckpointFilter", "ray.data.checkpoint.NumpyArrayBasedCheckpointFilter"])
def rows_that_a_checkpoint_has(data, at):
    import numpy as np
    import pyarrow as pa

    checkpoint = sub(data, "checkpoint")
    config = checkpoint.CheckpointConfig(id_column="id", checkpoint_path=str(at / "ck"))
    done = checkpoint.NumpyArrayBasedCheckpointFilter(config, root(data).put(np.array([1, 3, 4])))
    left = done.filter_rows_for_block(pa.table({"id": [0, 1, 2, 3], "x": ["a", "b", "c", "d"]}))
    return [isinstance(done, checkpoint.CheckpointFilter), left.to_pydict()]


@case(shows=["ray.data.datasource.Reader"])
def a_reader_of_the_old_kind(data, at):
    import pyarrow as pa

    source, block = sub(data, "datasource"), sub(data, "block")

    class Counts(source.Reader):
        def __init__(self, most):
            self.most = most

        def estimate_inmemory_data_size(self):
            return 8 * self.most

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            meta = block.BlockMetadata(num_rows=self.most, size_bytes=None, input_files=None, exec_stats=None)
            return [source.ReadTask(lambda most=self.most: [pa.table({"n": list(range(most))})], meta)]

    class Source(source.Datasource):
        def create_reader(self, most):
            return Counts(most)

    return data.read_datasource(Source(), most=3, override_num_blocks=1).take_all()


@case()
def lines_of_json_with_dates(data, at):
    path = at / "dates.jsonl"
    path.write_text('{"day": "2024-01-01", "created_at": "2024-01-01 10:00:00", "x": {"date": "2024-01-01"}}\n')
    (row,) = data.read_json(str(path), lines=True).take_all()
    return [row["day"], row["created_at"].isoformat(), row["x"]]


@case()
def floats_in_csv(data, at):
    import pyarrow as pa

    data.from_arrow(pa.table({"f": [1.0, 0.1, 1e20, 1e-7, 123456789.0, 1e10, None], "s": list("abcdefg")})).write_csv(str(at / "floats"))
    (path,) = (at / "floats").iterdir()
    return path.read_text()


@case()
def a_file_with_other_numbers(data, at):
    (at / "many").mkdir()
    for i in range(30):
        (at / "many" / f"{i:02}.csv").write_text(f"x\n{1.5 if i == 21 else i}\n")
    return sorted(float(row["x"]) for row in data.read_csv(str(at / "many")).take_all())


@case()
def a_source_that_tells_its_rows(data, at):
    import pyarrow as pa

    source, block = sub(data, "datasource"), sub(data, "block")

    class Told(source.Datasource):
        def estimate_inmemory_data_size(self):
            return None

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            meta = block.BlockMetadata(num_rows=3, size_bytes=None, input_files=None, exec_stats=None)
            return [source.ReadTask(lambda: [pa.table({"x": [1, 2, 3]})], meta, schema=pa.schema([("x", pa.int64())]))] * 2

    ds = data.read_datasource(Told(), override_num_blocks=2)
    return [repr(ds), repr(ds.map(lambda row: row)), ds.count()]
