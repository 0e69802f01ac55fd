"""What scripts of other people showed: texts that they print, and names that only have an effect together with others."""
import importlib
import os

from parity import case, root, sub


def csv(at):
    (at / "t.csv").write_text("a,b\n1,x\n2,y\n")
    return str(at / "t.csv")


# ---- what print(ds) shows ----


@case("data.range(10000)", "data.range(10000).limit(5000)", "data.range(10).union(data.range(10))", "data.range(10).repartition(5)",
      "data.range(10).randomize_block_order()", "data.range_tensor(5, shape=(2, 2))", "data.range_tensor(5, shape=(2, 2)).map(f)", "data.read_csv(csv(at))",
      "data.read_csv(csv(at)).map(f)", "data.read_csv(csv(at)).limit(1)", "data.read_text(csv(at))", "data.read_binary_files(csv(at)).sort('bytes')",
      "data.from_items([{'a': 1}]).map(f)", "data.from_items([{f'a_long_column_name_{i}': i for i in range(12)}]).map(f).map(f)", "data.range(3).materialize()", "data.range(10).zip(data.range(10))",
      "data.range(10).zip(data.from_items([{'a': 1, 'b': 'x'}] * 10))", "data.from_items([{'a': 1, 'b': 2}]).drop_columns(['a'])",
      "data.from_items([{'a': 1, 'b': 2}]).map(f).drop_columns(['a'])", "data.range(10).random_sample(0.5)", "data.range(10).map(f).random_sample(0.5)")
def shown(data, at, text):
    def f(row):
        return row

    return repr(eval(text, {"data": data, "at": at, "csv": csv, "f": f}))


@case("schema()", "take(1)", "take_all()", "count()", "materialize()", "show()")
def shown_after(data, at, call):
    """What a run or schema() has found out is shown from then on."""
    plain = data.read_csv(csv(at))
    mapped = plain.map(lambda row: row)
    eval(f"plain.{call}", {"plain": plain})
    eval(f"mapped.{call}", {"mapped": mapped})
    return [repr(plain), repr(mapped), repr(mapped.filter(lambda row: True))]


@case()
def shown_after_a_loop(data, at):
    ds = data.range(6).map(lambda row: {"a": row["id"]})
    for _ in ds.iter_batches():
        pass
    before = repr(ds)
    ds.count()
    return [before, repr(ds), repr(ds.select_columns(["a"]))]


@case()
def schema_of_a_function_that_wants_its_block(data, at):
    def three(frame):
        return frame.assign(b=[1, 2, 3])

    ds = data.range(3, override_num_blocks=1).map_batches(three, batch_format="pandas")
    return [ds.schema(), ds.columns(), ds.take_all()]


@case(([3, 1, 2, 3],), (["b", "a", "b"],), ([30000, 1000, 2, 3000],))
def unique(data, at, items):
    return data.from_items(items, override_num_blocks=1).unique("item")


@case(1, 2, 4, 6, 10)
def fewest_rows_of_files(data, at, rows):
    data.range(6, override_num_blocks=2).write_parquet(str(at / "out"), min_rows_per_file=rows)
    return len(os.listdir(at / "out"))


@case()
def lists_and_dates_of_frames(data, at):
    import datetime

    import pandas as pd

    frame = pd.DataFrame({"l": [[1, 2], [3]], "d": [datetime.date(2024, 1, 1)] * 2, "q": [[1, 2], [3, 4]]})
    ds = data.from_pandas(frame)

    def kinds(batch):
        return {"x": [str({name: (str(array.dtype), [type(one).__name__ for one in array]) for name, array in batch.items()})]}

    return [ds.take_batch(), list(ds.iter_batches()), ds.map_batches(kinds).take_all()]


@case("StandardScaler(['x'])", "SimpleImputer(['x'])", "OrdinalEncoder(['c'])")
def preprocessors_make_tables(data, at, text):
    import pandas as pd

    ds = data.from_pandas(pd.DataFrame({"x": [1.0, 2.0], "c": pd.Series(["a", "b"], dtype=object)}))
    made = eval(text, vars(sub(data, "preprocessors"))).fit_transform(ds)
    return [{name: str(kind) for name, kind in made.select_columns(["x"]).to_pandas().dtypes.items()}, made.take_all()]


@case("sum", "mean", "std")
def aggregates_of_texts(data, at, name):
    return getattr(data.from_items([{"a": "x"}]), name)("a")


@case()
def a_key_that_a_join_does_not_have(data, at):
    ds = data.range(3)
    return ds.join(ds, "inner", 1, on=("zz",)).take_all()


# ---- functions ----


@case()
def datasets_in_functions(data, at):
    inner = data.range(5)
    name = data.__name__

    def f(row):
        import importlib

        other = importlib.import_module(name).range(row["id"] + 3).map(lambda one: {"id": one["id"] * 2})
        return {"n": inner.sum("id") + row["id"], "m": other.sum("id"), "c": other.count()}

    return data.range(2).map(f).take_all()


@case("max_restarts", "max_task_retries")
def classes_that_end_their_process(data, at, argument):
    class Ends:
        def __call__(self, batch):
            os._exit(1)

    return data.range(2).map_batches(Ends, concurrency=1, **{argument: 0}).take_all()


@case()
def dynamic_generators_that_fail(data, at):
    ray = root(data)

    @ray.remote(num_returns="dynamic", max_retries=0)
    def numbers():
        yield 1
        yield 2
        raise ValueError("no more")

    found = []
    for ref in ray.get(numbers.remote()):
        try:
            found.append(ray.get(ref))
        except ValueError as error:
            found.append([isinstance(error, ray.exceptions.RayTaskError), "no more" in str(error)])
    return found


@case()
def dynamic_generators_as_arguments(data, at):
    ray = root(data)
    name = ray.__name__

    @ray.remote(num_returns="dynamic")
    def numbers(n):
        yield from range(n)

    @ray.remote
    def total(refs):
        import importlib

        return sum(importlib.import_module(name).get(list(refs)))

    return [len(list(ray.get(numbers.remote(3)))), ray.get(total.remote(numbers.remote(4)))]


# ---- errors that can be had on one machine ----


def actor(ray):
    @ray.remote
    class Actor:
        def one(self):
            return 1

        def slow(self):
            import time

            time.sleep(5)

    return Actor


@case()
def too_many_calls(data, at):
    ray = root(data)
    one = actor(ray).options(max_pending_calls=1).remote()
    ray.get(one.one.remote())
    for _ in range(5):
        one.slow.remote()


@case()
def a_name_that_is_taken(data, at):
    ray = root(data)
    one = actor(ray).options(name="taken once").remote()
    ray.get(one.one.remote())
    actor(ray).options(name="taken once").remote()


@case()
def a_task_that_ends_its_process(data, at):
    ray = root(data)

    @ray.remote(max_retries=0)
    def ends():
        os._exit(1)

    ray.get(ends.remote())


@case(shows=["ray.cancel"])
def cancelled(data, at):
    import time

    ray = root(data)

    @ray.remote
    def sleeps():
        time.sleep(60)

    ref = sleeps.remote()
    ray.cancel(ref)
    try:
        ray.get(ref, timeout=30)
    except ray.exceptions.TaskCancelledError:
        return "cancelled"


@case(shows=["ray.ObjectRef"])
def references(data, at):
    ray = root(data)
    ref = ray.put([1])
    return [isinstance(ref, ray.ObjectRef), ray.get(ref), {ref: 5}[ref], ref == ray.put([1]), len(ref.hex()), ray.wait([ref])[0] == [ref]]


@case(shows=["ray.init"])
def init_again(data, at):
    ray = root(data)
    ray.init(ignore_reinit_error=True)
    try:
        ray.init()
    except RuntimeError:
        return [ray.is_initialized(), "refused"]


@case(shows=["ray.nodes"])
def nodes(data, at):
    ray = root(data)
    found = ray.nodes() if hasattr(ray, "nodes") else importlib.import_module("weir.ray_api").nodes()
    return [len(found), found[0]["Alive"], len(found[0]["NodeID"]), found[0]["Resources"]["CPU"] == ray.cluster_resources()["CPU"]]


@case()
def a_group_that_is_removed(data, at):
    import time

    ray = root(data)
    util = importlib.import_module("ray.util" if ray.__name__ == "ray" else "weir.core.placement")
    group = util.placement_group([{"CPU": 1}])
    ray.get(group.ready())

    @ray.remote(num_cpus=1, max_retries=0)
    def waits():
        time.sleep(20)

    strategy = importlib.import_module("ray.util.scheduling_strategies" if ray.__name__ == "ray" else "weir.core.placement").PlacementGroupSchedulingStrategy(group)
    _, second = [waits.options(scheduling_strategy=strategy).remote() for _ in range(2)]
    time.sleep(0.5)
    util.remove_placement_group(group)
    ray.get(second, timeout=30)


# ---- names with an effect that Python does not see a call of ----


@case("APPEND", "OVERWRITE", "IGNORE", "ERROR", shows=["ray.data.SaveMode", "ray.data.datasource.SaveMode"])
def save_modes(data, at, name):
    out = str(at / "out")
    mode = data.SaveMode[name]
    data.range(4, override_num_blocks=1).write_parquet(out)
    try:
        data.range(2, override_num_blocks=1).write_parquet(out, mode=mode)
    except ValueError:
        return "there already"
    return [len(os.listdir(out)), data.read_parquet(out).count(), mode is sub(data, "datasource").SaveMode[name]]


@case("STOP_ON_SHORTEST", "STOP_ON_LONGEST_DROP", shows=["ray.data.MixStoppingCondition"])
def mixes_end(data, at, name):
    condition = data.MixStoppingCondition[name]
    mixed = data.range(4, override_num_blocks=1).mix(data.range(40, override_num_blocks=1), weights=[0.5, 0.5], stopping_condition=condition)
    count = mixed.count()
    return [count < 44, count >= 4]


@case(shows=["ray.data.RandomSeedConfig"])
def seeds(data, at):
    kept, anew = (data.range(50).random_shuffle(seed=data.RandomSeedConfig(seed=5, reseed_after_execution=again)) for again in (False, True))
    return [kept.take_all() == kept.take_all(), anew.take_all() == anew.take_all(), kept.take_all() == data.range(50).take_all()]


@case(shows=["ray.data.Datasink", "ray.data.datasource.Datasink", "ray.data.datasource.WriteResult"])
def sinks(data, at):
    d = sub(data, "datasource")

    class Counts(data.Datasink):
        def write(self, blocks, ctx):
            return sum(len(block) for block in blocks)

        def on_write_complete(self, result):
            self.found = [type(result) is d.WriteResult, int(result.num_rows), int(sum(result.write_returns))]

    sink = Counts()
    data.range(10).write_datasink(sink)
    return [sink.found, issubclass(Counts, d.Datasink)]


@case(shows=["Dataset.num_blocks", "Dataset.size_bytes"])
def sizes(data, at):
    ds = data.range(8, override_num_blocks=2)
    kept = ds.materialize()
    return [kept.num_blocks(), ds.size_bytes(), kept.size_bytes()]


@case(shows=["Dataset.get_internal_block_refs"])
def references_to_blocks(data, at):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refs = data.range(8, override_num_blocks=2).get_internal_block_refs()
    return [len(refs), sum(len(root(data).get(ref)) for ref in refs)]


@case(shows=["ray.data.read_images"])
def images(data, at):
    import numpy as np
    from PIL import Image

    (at / "im").mkdir()
    for i in range(3):
        Image.fromarray(np.full((8 + i, 6, 3), i * 10, dtype=np.uint8)).save(at / "im" / f"{i}.png")
    sized = data.read_images(str(at / "im"), size=(4, 5), mode="L", include_paths=True)
    return [data.read_images(str(at / "im")).schema(), sorted(row["image"].shape for row in data.read_images(str(at / "im")).take_all()), sized.schema(),
            sorted([os.path.basename(row["path"]), row["image"].shape, str(row["image"].dtype), int(row["image"].max())] for row in sized.take_all())]


@case(shows=["Dataset.write_images"])
def written_images(data, at):
    import numpy as np
    from PIL import Image

    rows = [{"image": np.full((2, 3, 3), i, dtype=np.uint8)} for i in range(3)]
    data.from_items(rows).write_images(str(at / "out"), column="image", file_format="png")
    found = [np.asarray(Image.open(at / "out" / name)) for name in os.listdir(at / "out")]
    return sorted([one.shape, int(one.max())] for one in found)


@case("int16", "uint32", "uint64", shows=["DataType.{}"])
def types_of_columns(data, at, name):
    e, kind = sub(data, "expressions"), getattr(sub(data, "datatype").DataType, name)()
    ds = data.range(3).with_column("b", e.col("id").cast(kind))
    return [ds.schema(), ds.take_all(), str(kind.to_arrow_dtype())]


@case(shows=["DataType.variable_shaped_tensor"])
def types_of_ragged_tensors(data, at):
    DataType = sub(data, "datatype").DataType
    kind = DataType.variable_shaped_tensor(DataType.float32(), 2)
    return [kind.is_tensor_type(), str(kind.to_arrow_dtype()), kind == DataType.variable_shaped_tensor(DataType.float32(), 2), kind == DataType.float32()]


@case(shows=["Expr.name", "Expr.get_type", "Expr.nullable", "Expr.to_field", "ray.data.expressions.Expr"])
def what_an_expression_knows(data, at):
    import pyarrow as pa

    e = sub(data, "expressions")
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    expr = (e.col("a") + 1).alias("b")
    field = expr.to_field(schema)
    return [isinstance(expr, e.Expr), expr.name, str(expr.get_type(schema)), expr.nullable(schema), field.name, str(field.type), field.nullable,
            e.col("a").name, str(e.col("a").get_type(schema)), e.col("a").nullable(schema)]


@case(shows=["Expr.arr", "Expr.arr.to_list"])
def arrays_as_lists(data, at):
    import pyarrow as pa

    e = sub(data, "expressions")
    ds = data.from_arrow(pa.table({"a": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))}))
    return [ds.with_column("l", e.col("a").arr.to_list()).schema(), ds.with_column("l", e.col("a").arr.to_list()).take_all()]


@case(shows=["ray.data.expressions.Operation", "ray.data.expressions.StarExpr", "ray.data.expressions.UUIDExpr"])
def nodes_of_expressions(data, at):
    e = sub(data, "expressions")
    ids = [row["u"] for row in data.range(4).with_column("u", e.uuid()).take_all()]
    return [(e.col("a") + 1).op is e.Operation.ADD, (e.col("a") > 1).op is e.Operation.GT, isinstance(e.star(), e.StarExpr), isinstance(e.uuid(), e.UUIDExpr),
            len(set(ids)), {len(one) for one in ids}]


@case(shows=["ray.data.block.BlockExecStats", "ray.data.block.BlockStats", "ray.data.block.BlockType", "ray.data.block.BatchFormat", "ray.data.block.to_stats"])
def about_blocks(data, at):
    import pandas as pd
    import pyarrow as pa

    b = sub(data, "block")
    kinds = [b.BlockAccessor.for_block(one).block_type() is kind for one, kind in
             ((pa.table({"a": [1]}), b.BlockType.ARROW), (pd.DataFrame({"a": [1]}), b.BlockType.PANDAS))]
    stats = b.BlockExecStats()
    made = b.BlockAccessor.for_block(pa.table({"a": [1, 2]})).get_metadata(["f"], block_exec_stats=stats)
    [alone] = b.to_stats([made])
    return [kinds, b.BatchFormat.NUMPY.value, made.exec_stats is stats, isinstance(made, b.BlockStats), made.num_rows, made.input_files, type(alone) is b.BlockStats,
            alone.num_rows, alone.size_bytes, hasattr(alone, "input_files")]


@case(shows=["ray.data.datasource.PartitionStyle"])
def styles_of_partitions(data, at):
    d = sub(data, "datasource")
    parts = d.Partitioning(d.PartitionStyle.DIRECTORY, field_names=["year", "month"], base_dir=str(at / "dirs"))
    rows = data.read_csv(str(at / "dirs"), partitioning=parts).take_all()
    return sorted([row["year"], row["month"], row["v"]] for row in rows)


@case(shows=["ray.data.datasource.RandomIntRowDatasource"])
def random_rows(data, at):
    d = sub(data, "datasource")
    ds = data.read_datasource(d.RandomIntRowDatasource(10, num_columns=2), override_num_blocks=2)
    return [ds.count(), len(ds.columns()), len(ds.take(3))]


@case(shows=["ray.data.extensions.ArrowTensorArray", "ray.data.extensions.ArrowVariableShapedTensorArray"])
def tensors_in_tables(data, at):
    import numpy as np
    import pyarrow as pa

    x = sub(data, "extensions")
    fixed = x.ArrowTensorArray.from_numpy(np.arange(8).reshape(2, 2, 2))
    ragged = x.ArrowVariableShapedTensorArray.from_numpy(np.array([np.zeros((1, 2)), np.ones((2, 2))], dtype=object))
    rows = data.from_arrow(pa.table({"f": fixed, "r": ragged})).take_all()
    return [[row["f"].tolist(), row["r"].tolist()] for row in rows]


@case(shows=["ray.data.extensions.ArrowPythonObjectArray", "ray.data.extensions.ArrowPythonObjectScalar", "ray.data.extensions.PythonObjectDtype"])
def objects_in_tables(data, at):
    import pandas as pd
    import pyarrow as pa

    x = sub(data, "extensions")
    array = x.ArrowPythonObjectArray.from_objects([{1}, None, "x"])
    rows = data.from_arrow(pa.table({"o": array})).take_all()
    series = pd.Series(x.PythonObjectArray([{1}, "x"]))
    return [rows, isinstance(array[0], x.ArrowPythonObjectScalar), array[0].as_py(), isinstance(series.dtype, x.PythonObjectDtype), series.tolist()]


@case(shows=["ray.data.extensions.ArrowConversionError"])
def values_that_no_table_has(data, at):
    import pandas as pd

    x = sub(data, "extensions")
    try:
        data.from_pandas(pd.DataFrame({"a": [1, "x"]})).map_batches(lambda frame: frame, batch_format="pandas").take_all()
    except x.ArrowConversionError:
        return "no table has them"
    return "they are in a table"


@case("V1", "V2", shows=["ray.data.extensions.FixedShapeTensorFormat"])
def formats_of_tensors(data, at, name):
    x = sub(data, "extensions")
    data.DataContext.get_current().arrow_fixed_shape_tensor_format = x.FixedShapeTensorFormat[name]
    return data.range_tensor(2, shape=(2,)).take_batch(batch_format="pyarrow").schema.field("data").type.__class__.__name__


@case(shows=["DataContext.shuffle_strategy"])
def strategies(data, at):
    ctx = data.DataContext.get_current()
    strategy = sub(data, "context").ShuffleStrategy.SORT_SHUFFLE_PULL_BASED
    ctx.shuffle_strategy = strategy
    return [ctx.shuffle_strategy is strategy, data.from_items([{"a": i % 2} for i in range(4)]).groupby("a").count().sort("a").take_all()]


@case(shows=["ray.data.datasource.FileMetadataProvider", "ray.data.datasource.BaseFileMetadataProvider", "ray.data.datasource.DefaultFileMetadataProvider"])
def providers(data, at):
    d = sub(data, "datasource")
    made = d.DefaultFileMetadataProvider()
    found = made([csv(at)], rows_per_file=2, file_sizes=[12])
    return [isinstance(made, d.BaseFileMetadataProvider), issubclass(d.BaseFileMetadataProvider, d.FileMetadataProvider), found.num_rows, found.size_bytes,
            [os.path.basename(path) for path in found.input_files]]
