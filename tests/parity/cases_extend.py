"""Sources and sinks of one's own; extension types."""
import os

from parity import case, sub


@case()
def datasource(data, at):
    source = sub(data, "datasource")
    block = sub(data, "block")

    class Numbers(source.Datasource):
        def __init__(self, n):
            self.n = n

        def estimate_inmemory_data_size(self):
            return self.n * 8

        def get_read_tasks(self, parallelism, *args, **kwargs):
            import pyarrow as pa

            def make(i):
                return lambda: [pa.table({"x": [i, i * 10]})]

            meta = block.BlockMetadata(num_rows=2, size_bytes=16, input_files=None, exec_stats=None)
            return [source.ReadTask(make(i), meta) for i in range(self.n)]

    ds = data.read_datasource(Numbers(3), override_num_blocks=3)
    return [sorted(r["x"] for r in ds.take_all()), ds.count()]


@case()
def datasink(data, at):
    base = sub(data, "datasource").Datasink
    log = str(at / "log")

    class Sink(base):
        def on_write_start(self, *args, **kwargs):
            open(log, "a").write("start\n")

        def write(self, blocks, ctx):
            rows = sum(len(b["id"]) for b in blocks)
            return rows

        def on_write_complete(self, result):
            open(log, "a").write(f"complete {sum(result.write_returns)}\n")

    data.range(6, override_num_blocks=2).write_datasink(Sink())
    return open(log).read()


@case()
def datasink_that_fails(data, at):
    base = sub(data, "datasource").Datasink
    log = str(at / "log")

    class Sink(base):
        def write(self, blocks, ctx):
            raise ValueError("no room")

        def on_write_failed(self, error):
            open(log, "a").write("failed\n")

    try:
        data.range(6).write_datasink(Sink())
    except Exception as error:
        return [error, open(log).read()]


@case()
def row_based_sink(data, at):
    base = sub(data, "datasource").RowBasedFileDatasink

    class Sink(base):
        def write_row_to_file(self, row, file):
            file.write(str(row["id"]).encode())

    data.range(3).write_datasink(Sink(str(at / "out"), file_format="txt"))
    return sorted((at / "out" / f).read_text() for f in os.listdir(at / "out"))


@case()
def block_based_sink(data, at):
    base = sub(data, "datasource").BlockBasedFileDatasink

    class Sink(base):
        def write_block_to_file(self, block, file):
            file.write(str(block.num_rows()).encode())

    data.range(4, override_num_blocks=1).write_datasink(Sink(str(at / "out"), file_format="txt"))
    return sorted((at / "out" / f).read_text() for f in os.listdir(at / "out"))


@case()
def file_based_source(data, at):
    base = sub(data, "datasource").FileBasedDatasource

    class Lines(base):
        _FILE_EXTENSIONS = ["txt"]

        def _read_stream(self, f, path):
            import pyarrow as pa

            yield pa.table({"n": [len(f.read())]})

    return sorted(r["n"] for r in data.read_datasource(Lines(str(at / "text"))).take_all())


@case()
def filename_provider(data, at):
    base = sub(data, "datasource").FilenameProvider

    class Names(base):
        def get_filename_for_block(self, block, *args):
            return "mine.parquet"

        def get_filename_for_task(self, *args, **kwargs):
            return "mine.parquet"

    data.range(3).write_parquet(str(at / "out"), filename_provider=Names())
    return [f.rpartition(".")[2] for f in os.listdir(at / "out")]


@case("hive", "dir")
def path_partition_parser(data, at, style):
    parser = sub(data, "datasource.partitioning").PathPartitionParser
    if style == "hive":
        return parser.of("hive")("base/year=2024/month=01/a.csv")
    return parser.of("dir", base_dir="base", field_names=["year", "month"])("base/2024/01/a.csv")


@case()
def path_partition_filter(data, at):
    only = sub(data, "datasource.partitioning").PathPartitionFilter.of(lambda d: d["year"] == "2024", style="hive")
    return only(["year=2023/a.csv", "year=2024/b.csv"])


@case()
def block_accessor(data, at):
    import pyarrow as pa

    accessor = sub(data, "block").BlockAccessor.for_block(pa.table({"a": [3, 1], "b": ["x", "y"]}))
    return [accessor.num_rows(), accessor.schema().names, accessor.to_pandas()["a"].tolist(), accessor.to_numpy("a"), accessor.slice(1, 2).num_rows,
            accessor.to_arrow().num_rows, [dict(r) for r in accessor.iter_rows(public_row_format=True)], accessor.to_batch_format("numpy")]


@case()
def block_metadata(data, at):
    made = sub(data, "block").BlockMetadata(num_rows=2, size_bytes=16, input_files=["a"], exec_stats=None)
    return [made.num_rows, made.size_bytes, list(made.input_files)]


@case()
def tensor_array(data, at):
    import numpy as np
    import pandas as pd

    ext = sub(data, "extensions")
    frame = pd.DataFrame({"x": ext.TensorArray(np.arange(8).reshape(2, 2, 2))})
    return [str(frame["x"].dtype), frame["x"][1].to_numpy() if hasattr(frame["x"][1], "to_numpy") else np.asarray(frame["x"][1]), data.from_pandas(frame).take_batch()]


@case("np.arange(12).reshape(3, 2, 2)", "np.array([[-1, 20], [300, 4]], 'int16')", "np.array([[1.25, 100.0], [np.nan, -3]])",
      "np.array([[1.1, 2], [3, 4]], 'f4')", "np.array([[True, False], [False, True]])", "np.array([['a', 'bcd'], ['e', 'f']])",
      "np.arange(800).reshape(100, 2, 2, 2)", "np.zeros((2, 0))")
def printed_tensors(data, at, text):
    import numpy as np
    import pandas as pd

    column = sub(data, "extensions").TensorArray(eval(text, {"np": np}))
    return [repr(pd.DataFrame({"a": column})), repr(pd.Series(column))]


@case()
def arrow_tensor_array(data, at):
    import numpy as np
    import pyarrow as pa

    ext = sub(data, "extensions")
    made = ext.ArrowTensorArray.from_numpy(np.arange(8).reshape(2, 2, 2))
    return [len(made), made.to_numpy(), isinstance(made.type, (ext.ArrowTensorType, ext.ArrowTensorTypeV2)), data.from_arrow(pa.table({"x": made})).take_batch()]


@case()
def arrow_python_objects(data, at):
    ext = sub(data, "extensions")
    made = ext.ArrowPythonObjectArray.from_objects([{1, 2}, 2**70])
    return [len(made), isinstance(made.type, ext.ArrowPythonObjectType), made.to_pylist()[1] == 2**70]


@case()
def checkpoint_config(data, at):
    made = sub(data, "checkpoint").CheckpointConfig(id_column="id", checkpoint_path=str(at / "ck"))
    return [made.id_column, made.checkpoint_path, made.delete_checkpoint_on_success]


# ---- blocks in order, columns of blocks ----

def sort_key(data, *args, **kwargs):
    try:
        from weir.block_order import SortKey
    except ImportError:
        SortKey = None
    if SortKey is None or data.__name__.startswith("ray"):
        from ray.data._internal.planner.exchange.sort_task_spec import SortKey
    return SortKey(*args, **kwargs)


def a_block(kind):
    import pandas as pd
    import pyarrow as pa

    columns = {"a": [3, 1, 2, 1], "b": ["x", None, "z", "y"], "c": [1.5, 2.5, None, 0.5]}
    return pa.table(columns) if kind == "arrow" else pd.DataFrame(columns)


def rows_of(data, block):
    return [dict(row) for row in sub(data, "block").BlockAccessor.for_block(block).iter_rows(public_row_format=True)]


@case(*[(kind, column, down) for kind in ("arrow", "pandas") for column, down in [("a", False), ("a", True), ("b", False), ("c", True)]])
def block_sort(data, at, kind, column, down):
    accessor = sub(data, "block").BlockAccessor.for_block(a_block(kind))
    made = accessor.sort(sort_key(data, [column, "a"], descending=[down, False]))
    return [type(made).__name__, [row["a"] for row in rows_of(data, made)]]


@case("arrow", "pandas")
def block_sort_of_nothing(data, at, kind):
    accessor = sub(data, "block").BlockAccessor.for_block(a_block(kind)[:0])
    return [rows_of(data, accessor.sort(sort_key(data, "a"))), len(accessor.sort_and_partition([(1,), (2,)], sort_key(data, "a")))]


@case(*[(kind, bounds, down) for kind in ("arrow", "pandas") for bounds, down in [((2,), False), ((2,), True), ((1, 3), False), ((3, 1), True), ((), False)]])
def block_sort_and_partition(data, at, kind, bounds, down):
    accessor = sub(data, "block").BlockAccessor.for_block(a_block(kind))
    parts = accessor.sort_and_partition([(b,) for b in bounds], sort_key(data, "a", descending=down))
    return [[row["a"] for row in rows_of(data, part)] for part in parts]


@case("arrow", "pandas")
def block_merge(data, at, kind):
    block = sub(data, "block")
    key = sort_key(data, "a")
    parts = [block.BlockAccessor.for_block(a_block(kind)).sort(key), block.BlockAccessor.for_block(a_block(kind)[:2]).sort(key)]
    made, about = block.BlockAccessor.for_block(parts[0]).merge_sorted_blocks(parts, key)
    return [type(made).__name__, [row["a"] for row in rows_of(data, made)], about.num_rows, list(about.schema.names)]


@case("arrow", "pandas")
def block_sample(data, at, kind):
    made = sub(data, "block").BlockAccessor.for_block(a_block(kind)).sample(10, sort_key(data, "a"))
    return sorted(row["a"] for row in rows_of(data, made)), [sorted(row) for row in rows_of(data, made)][:1]


@case("arrow", "pandas")
def block_filter(data, at, kind):
    made = sub(data, "block").BlockAccessor.for_block(a_block(kind)).filter(sub(data, "expressions").col("a") > 1)
    return [type(made).__name__, [row["a"] for row in rows_of(data, made)]]


@case()
def block_kinds(data, at):
    block = sub(data, "block")
    accessor = block.BlockAccessor.for_block(a_block("arrow"))
    mixed = [a_block("pandas"), a_block("arrow"), a_block("pandas")]
    return [[type(b).__name__ for b in accessor.normalize_block_types(mixed)],
            [type(b).__name__ for b in accessor.normalize_block_types(mixed, block.BlockType.ARROW)],
            accessor.hstack(a_block("arrow").select(["a"]).rename_columns(["d"])).column_names]


@case()
def sort_keys(data, at):
    key = sort_key(data, ["a", "b"], descending=[True, False])
    return [key.get_columns(), key.get_descending(), key.to_arrow_sort_args(), key.to_pandas_sort_args(), sort_key(data).get_columns(),
            sort_key(data, "a", boundaries=[3, 1, 3]).boundaries]


@case("key", "descending", "boundaries", "schema")
def sort_key_mistakes(data, at, what):
    if what == "key":
        return sort_key(data, 5)
    if what == "descending":
        return sort_key(data, ["a"], descending=[True, False])
    if what == "boundaries":
        return sort_key(data, "a", boundaries=["x"])
    return sort_key(data, "z").validate_schema(a_block("arrow").schema)


def a_column(kind, values):
    import pandas as pd
    import pyarrow as pa

    return pa.chunked_array([pa.array(values)]) if kind == "arrow" else pd.Series(values)


@case(*[(kind, name, nulls, some) for kind in ("arrow", "pandas") for name in ("count", "sum", "min", "max", "mean", "sum_of_squared_diffs_from_mean")
        for nulls in (True, False) for some in ("full", "holes", "none")])
def block_column_figure(data, at, kind, name, nulls, some):
    values = {"full": [4.0, 1.0, 1.0], "holes": [4.0, None, 1.0], "none": [None, None]}[some]
    column = a_column(kind, values)
    if some == "none":
        column = column.cast("double") if kind == "arrow" else column.astype("float64")
    return getattr(sub(data, "block").BlockColumnAccessor.for_column(column), name)(ignore_nulls=nulls)


@case("arrow", "pandas")
def block_column_values(data, at, kind):
    of = sub(data, "block").BlockColumnAccessor.for_column
    words = of(a_column(kind, ["b", "a", "b"]))
    counts = words.value_counts()
    return [of(words.unique()).to_pylist(), sorted(zip(counts["values"], counts["counts"])), of(of(a_column(kind, [1.0, None])).dropna()).to_pylist(),
            of(a_column(kind, [[1, 2], [], [3]])).is_composed_of_lists(), words.is_composed_of_lists(),
            of(of(a_column(kind, [[1, 2], [], [3]])).flatten()).to_pylist(), words.to_pylist(), of(a_column(kind, [1.5, 2.5])).to_numpy(),
            of(a_column(kind, [1.0, 2.0, 4.0])).quantile(q=0.5, ignore_nulls=True), len(set(of(words.hash()).to_pylist())), len(words.hash())]


@case()
def block_column_of_a_list(data, at):
    return sub(data, "block").BlockColumnAccessor.for_column([1])


@case()
def custom_op_stats(data, at):
    import dataclasses

    block = sub(data, "block")

    @dataclasses.dataclass(frozen=True)
    class Skipped(block.CustomOpStats):
        rows: int

    return [Skipped(3).rows, block.TaskExecWorkerStats(0.5, custom_op_stats=[Skipped(1)]).max_uss_bytes]


@case()
def custom_op_stats_itself(data, at):
    return sub(data, "block").CustomOpStats()


@case()
def block_exec_stats(data, at):
    clock = sub(data, "block").BlockExecStats.builder()
    clock.finish()
    made = clock.build(task_idx=3)
    return [made.task_idx, made.wall_time_s >= 0, made.cpu_time_s >= 0, made.block_transform_time_s]


@case()
def ref_bundles(data, at):
    from parity import root

    found = list(data.range(10, override_num_blocks=2).iter_internal_ref_bundles())
    return [[bundle.num_rows(), bundle.size_bytes(), len(bundle.block_refs), bundle.schema.names, bundle.owns_blocks,
             bundle.metadata[0].num_rows, root(data).get(bundle.blocks[0].ref).column("id").to_pylist()] for bundle in found]


def _bundle_types(data):
    if data.__name__.startswith("ray"):
        from ray.data._internal.execution.interfaces.ref_bundle import BlockEntry, BlockSlice, RefBundle
    else:
        from weir.ref_bundle import BlockEntry, BlockSlice, RefBundle
    return BlockEntry, BlockSlice, RefBundle


@case((), ((0, 2), None, (1, 4)))
def ref_bundles_in_parts(data, at, *slices):
    import pyarrow as pa

    entry, part, bundle = _bundle_types(data)
    about = sub(data, "block").BlockMetadata
    given = bundle([entry(None, about(rows, 8 * rows, None, None)) for rows in (4, 3, 5)], pa.schema({"a": pa.int64()}), True,
                   [s and part(*s) for s in slices] or None)
    cuts = [given.slice(n) for n in range(1, given.num_rows())]
    whole = bundle.merge_ref_bundles([given, *cuts[1]])
    return [str(given), [[[b.num_rows(), b.size_bytes(), [(s.start_offset, s.end_offset) for s in b.slices], b.owns_blocks] for b in pair] for pair in cuts],
            str(whole), len(whole), bundle.merge_ref_bundles([]).num_rows()]


@case()
def stats_summaries(data, at):
    context = data.DataContext.get_current()
    before = len(data.list_stats_summaries())
    data.range(3).materialize()
    context.enable_stats_summary_collection = True
    try:
        data.range(5).materialize()
        data.range(5).write_parquet(f"{at}/summaries")
    finally:
        context.enable_stats_summary_collection = False
    made = data.list_stats_summaries()[before:]
    return [type(made[0]).__name__, len(made), made[0].operators_stats[0].operator_name]


# ---- no rows ----

@case("pandas", "pandas_objects", "arrow", "numpy", "items", "range")
def columns_of_nothing(data, at, what):
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    made = {
        "pandas": lambda: data.from_pandas(pd.DataFrame({"a": pd.Series([], dtype="int64"), "f": pd.Series([], dtype="float32"),
                                                         "t": pd.Series([], dtype="datetime64[ns]"), "b": pd.Series([], dtype="bool")})),
        "pandas_objects": lambda: data.from_pandas(pd.DataFrame(columns=["x", "y"])),
        "arrow": lambda: data.from_arrow(pa.table({"a": pa.array([], "int8"), "l": pa.array([], pa.list_(pa.int64()))})),
        "numpy": lambda: data.from_numpy(np.zeros(0, "f4")),
        "items": lambda: data.from_items([]),
        "range": lambda: data.range(0),
    }[what]()
    schema = made.schema()
    types = None if schema is None or what == "pandas_objects" else [str(t) for t in schema.types]
    return [made.columns(), types, made.count(), made.take(1), len(list(made.iter_batches()))]


@case("pandas", "numpy", "pyarrow", "expression", "select")
def columns_of_results_without_rows(data, at, what):
    import numpy as np
    import pyarrow as pa

    made = {
        "pandas": lambda: data.range(10).map_batches(lambda frame: frame[frame.id > 100], batch_format="pandas"),
        "numpy": lambda: data.range(10).map_batches(lambda batch: {"x": np.array([], "f4")}),
        "pyarrow": lambda: data.range(10).map_batches(lambda table: table.slice(0, 0), batch_format="pyarrow"),
        "expression": lambda: data.range(10).filter(expr="id > 100"),
        "select": lambda: data.from_arrow(pa.table({"a": pa.array([], "int8"), "b": pa.array([], "int8")})).select_columns(["b"]),
    }[what]()
    kept = made.materialize()
    return [made.columns(), kept.columns(), kept.schema().types[0], kept.count()]


# ---- catalogs ----


@case(shows=["ray.data.Catalog", "ray.data.CatalogAccessMode", "ray.data.ReaderFormat", "ray.data.ResolvedSource"])
def a_catalog_of_ones_own(data, at):
    Catalog, ResolvedSource, ReaderFormat, CatalogAccessMode = data.Catalog, data.ResolvedSource, data.ReaderFormat, data.CatalogAccessMode
    asked = []

    class Folders(Catalog):
        def resolve(self, table, *, reader, mode=CatalogAccessMode.READ):
            asked.append([table, reader.value, mode.value, isinstance(reader, ReaderFormat)])
            return ResolvedSource(path=str(at / table.replace(".", "/")))

    os.makedirs(at / "shop" / "orders")
    data.range(3, override_num_blocks=1).write_parquet("shop.orders", catalog=Folders(), try_create_dir=False)
    found = data.read_parquet("shop.orders", catalog=Folders()).take_all()
    return [found, asked, repr(ResolvedSource(path="a", data_format=ReaderFormat.DELTA)), issubclass(Folders, Catalog)]


@case("read_parquet(['a', 'b'], catalog=Folders())", "range(2).write_parquet('a', catalog=Folders())", "Catalog()",
      "range(2).write_iceberg('a', {'name': 'x'}, catalog=Folders())", "range(2).write_delta('a', catalog=Folders(), filesystem=5)")
def wrong_catalogs(data, at, text):
    class Folders(data.Catalog):
        def resolve(self, table, *, reader, mode=None):
            return data.ResolvedSource(path=str(at / table))

    return eval(f"data.{text}", {"data": data, "Folders": Folders})
