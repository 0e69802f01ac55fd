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
