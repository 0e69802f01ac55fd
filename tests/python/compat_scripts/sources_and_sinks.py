import os, tempfile, numpy as np, pyarrow as pa, pandas as pd, ray
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask, Datasink, FilenameProvider, RowBasedFileDatasink, BlockBasedFileDatasink, FileBasedDatasource, Partitioning, PathPartitionFilter

class Numbers(Datasource):
    def __init__(self, n): self.n = n
    def estimate_inmemory_data_size(self): return self.n * 8
    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        tasks = []
        for i in range(4):
            start, end = self.n * i // 4, self.n * (i + 1) // 4
            meta = BlockMetadata(num_rows=end - start, size_bytes=8 * (end - start), input_files=None, exec_stats=None)
            tasks.append(ReadTask(lambda s=start, e=end: [pa.table({"n": list(range(s, e))})], meta))
        return tasks

ds = ray.data.read_datasource(Numbers(20))
print(sorted(r["n"] for r in ds.take_all()), ds.count())

class Collect(Datasink):
    def on_write_start(self, schema=None): print("start")
    def write(self, blocks, ctx): return sum(len(b) if hasattr(b, "__len__") else b.num_rows for b in blocks)
    def on_write_complete(self, result): print("complete", sum(result.write_returns), result.num_rows)
ds.write_datasink(Collect())

class Fail(Datasink):
    def write(self, blocks, ctx): raise RuntimeError("disk full")
    def on_write_failed(self, error): print("failed hook", "disk full" in str(error))
try: ds.write_datasink(Fail())
except Exception as e: print("write failed", "disk full" in str(e))

tmp = tempfile.mkdtemp()
class Row(RowBasedFileDatasink):
    def write_row_to_file(self, row, file): file.write(str(row["n"]).encode())
ray.data.from_items([{"n": i} for i in range(3)]).write_datasink(Row(os.path.join(tmp, "rows"), file_format="txt"))
print(sorted(open(os.path.join(tmp, "rows", f)).read() for f in os.listdir(os.path.join(tmp, "rows"))))

class MyNames(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index): return f"part-{task_index:03d}.csv"
    def get_filename_for_block(self, block, write_uuid, task_index, block_index): return f"part-{task_index:03d}-{block_index}.csv"
    def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index): return f"{row_index}.csv"
ray.data.range(4, override_num_blocks=1).write_csv(os.path.join(tmp, "csv"), filename_provider=MyNames())
print(len(os.listdir(os.path.join(tmp, "csv"))), all(f.startswith("part-000") for f in os.listdir(os.path.join(tmp, "csv"))))

class LineSource(FileBasedDatasource):
    def _read_stream(self, f, path):
        data = f.readall().decode() if hasattr(f, "readall") else f.read().decode()
        yield pa.table({"value": [data]})
print(sorted(r["value"] for r in ray.data.read_datasource(LineSource(os.path.join(tmp, "rows"))).take_all()))

for year in (2023, 2024):
    os.makedirs(os.path.join(tmp, "hive", f"year={year}"))
    pd.DataFrame({"x": [year, 1]}).to_parquet(os.path.join(tmp, "hive", f"year={year}", "a.parquet"))
ds = ray.data.read_parquet(os.path.join(tmp, "hive"))
print(sorted((r["x"], r["year"]) for r in ds.take_all()), ds.schema().names)
ds = ray.data.read_parquet(os.path.join(tmp, "hive"), partitioning=Partitioning("hive", field_types={"year": int}), include_paths=True)
print(sorted((r["x"], r["year"], os.path.basename(r["path"])) for r in ds.take_all()))
ds = ray.data.read_parquet(os.path.join(tmp, "hive"), partition_filter=PathPartitionFilter.of(lambda d: d["year"] == "2024", style="hive"))
print(sorted(r["x"] for r in ds.take_all()))
ray.data.range(10).write_json(os.path.join(tmp, "json"))
print(sorted(r["id"] for r in ray.data.read_json(os.path.join(tmp, "json")).take_all()))
ray.data.from_numpy(np.arange(6).reshape(3, 2)).write_numpy(os.path.join(tmp, "np"), column="data")
print(sorted(r["data"].tolist() for r in ray.data.read_numpy(os.path.join(tmp, "np")).take_all()))
import sqlite3
db = os.path.join(tmp, "db.sqlite")
con = sqlite3.connect(db); con.execute("create table t(a int, b text)"); con.executemany("insert into t values(?, ?)", [(1, "x"), (2, "y")]); con.commit(); con.close()
print(sorted((r["a"], r["b"]) for r in ray.data.read_sql("select * from t", lambda: sqlite3.connect(db)).take_all()))
