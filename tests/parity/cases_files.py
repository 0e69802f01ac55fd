"""Reading and writing files."""
import os

from parity import case, sub


def rows(ds, *keys):
    found = ds.take_all()
    return sorted(found, key=lambda r: [str(r[k]) for k in keys or sorted(r)])


@case()
def read_parquet(data, at):
    ds = data.read_parquet(str(at / "parquet"))
    return [rows(ds, "id"), ds.schema(), ds.count()]


@case("['id']", "['name', 'id']", "['nope']", "[]")
def read_parquet_columns(data, at, text):
    return rows(data.read_parquet(str(at / "parquet"), columns=eval(text)))


@case()
def read_parquet_file_and_list(data, at):
    one = str(at / "parquet" / "0.parquet")
    return [rows(data.read_parquet(one), "id"), data.read_parquet([one, str(at / "parquet" / "2.parquet")]).count()]


@case()
def read_parquet_hive(data, at):
    ds = data.read_parquet(str(at / "hive"))
    return [rows(ds, "year", "month", "v"), ds.columns()]


@case()
def read_parquet_partitioning_none(data, at):
    return data.read_parquet(str(at / "hive"), partitioning=None).columns()


@case()
def read_parquet_typed_partitions(data, at):
    part = sub(data, "datasource.partitioning").Partitioning("hive", field_types={"year": int})
    return rows(data.read_parquet(str(at / "hive"), partitioning=part), "year", "month", "v")


@case()
def read_parquet_partition_filter(data, at):
    only = sub(data, "datasource").PathPartitionFilter.of(lambda p: p["year"] == "2024")
    return rows(data.read_parquet(str(at / "hive"), partition_filter=only), "year", "month", "v")


@case()
def read_parquet_paths(data, at):
    ds = data.read_parquet(str(at / "parquet"), include_paths=True)
    return [ds.columns(), sorted({r["path"] for r in ds.take_all()})]


@case()
def read_parquet_missing(data, at):
    return data.read_parquet(str(at / "nothing"))


@case()
def read_parquet_ignoring_missing(data, at):
    return data.read_parquet([str(at / "nothing"), str(at / "parquet")], ignore_missing_paths=True).count()


@case()
def read_parquet_broken(data, at):
    return data.read_parquet(str(at / "broken.parquet")).take_all()


@case()
def read_parquet_of_a_folder_without(data, at):
    return data.read_parquet(str(at / "text")).take_all()


@case()
def read_parquet_wider(data, at):
    return rows(data.read_parquet(str(at / "wider")), "a")


@case()
def read_parquet_mixed(data, at):
    return rows(data.read_parquet(str(at / "mixed")))


@case()
def read_parquet_filtered(data, at):
    col = sub(data, "expressions").col
    return rows(data.read_parquet(str(at / "parquet")).filter(expr=col("id") > 8).select_columns(["id"]))


@case()
def read_csv(data, at):
    ds = data.read_csv(str(at / "csv"))
    return [rows(ds, "id"), ds.schema()]


@case()
def read_csv_options(data, at):
    from pyarrow import csv

    ds = data.read_csv(str(at / "semicolons.csv"), parse_options=csv.ParseOptions(delimiter=";", quote_char="'"))
    return rows(ds)


@case()
def read_csv_headless(data, at):
    from pyarrow import csv

    return rows(data.read_csv(str(at / "headless.csv"), read_options=csv.ReadOptions(column_names=["n", "t"])))


@case()
def read_csv_types(data, at):
    import pyarrow as pa
    from pyarrow import csv

    return data.read_csv(str(at / "csv"), convert_options=csv.ConvertOptions(column_types={"id": pa.string()},
                                                                             include_columns=["id", "name"])).schema()


@case()
def read_csv_odd(data, at):
    from pyarrow import csv

    return rows(data.read_csv(str(at / "odd.csv"), parse_options=csv.ParseOptions(newlines_in_values=True)))


@case()
def read_csv_directories(data, at):
    part = sub(data, "datasource.partitioning").Partitioning("dir", base_dir=str(at / "dirs"), field_names=["y", "m"])
    return rows(data.read_csv(str(at / "dirs"), partitioning=part), "y", "m")


@case()
def read_csv_extensions(data, at):
    return data.read_csv(str(at / "text"), file_extensions=["csv"]).take_all()


@case()
def read_csv_no_csv(data, at):
    return data.read_csv(str(at / "binary" / "a.bin")).take_all()


@case("a.jsonl", "b.json", "")
def read_json(data, at, name):
    return rows(data.read_json(str(at / "json" / name)), "id")


MESSAGES = {
    "text or list": [{"role": "user", "content": "hi"}, {"role": "user", "content": [{"type": "text", "text": "ho"}]}],
    "number or text": [{"id": 1, "x": 2}, {"id": 2, "x": "two"}, {"id": 3, "x": None}],
    "deeper": [{"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": {"d": "e"}}}],
}


@case(*MESSAGES)
def read_json_lines_of_several_kinds(data, at, name):
    import json

    (at / "mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in MESSAGES[name]))
    return data.read_json(str(at / "mixed.jsonl"), lines=True).take_all()


@case()
def read_json_lines(data, at):
    return rows(data.read_json(str(at / "json" / "a.jsonl"), lines=True), "id")


@case(True, False)
def read_text(data, at, drop):
    return [r["text"] for r in data.read_text(str(at / "text"), drop_empty_lines=drop).take_all()]


@case("latin-1", "utf-8")
def read_text_encoding(data, at, encoding):
    return data.read_text(str(at / "latin.txt"), encoding=encoding).take_all()


@case(True, False)
def read_binary_files(data, at, paths):
    return rows(data.read_binary_files(str(at / "binary"), include_paths=paths))


@case()
def read_numpy(data, at):
    ds = data.read_numpy(str(at / "numpy"))
    return [[r["data"] for r in ds.take_all()], ds.count()]


@case()
def read_sql(data, at):
    import sqlite3

    path = str(at / "db.sqlite")
    ds = data.read_sql("select title, year, score from movie order by year", lambda: sqlite3.connect(path))
    return [ds.take_all(), ds.columns()]


@case()
def read_sql_parameters(data, at):
    import sqlite3

    path = str(at / "db.sqlite")
    return data.read_sql("select title from movie where year > ?", lambda: sqlite3.connect(path), sql_params=(1978,)).take_all()


@case("parquet", "csv", "json")
def write_and_read(data, at, format):
    ds = data.from_items([{"a": 1, "b": "x"}, {"a": None, "b": "y"}])
    getattr(ds, f"write_{format}")(str(at / "out"))
    return [rows(getattr(data, f"read_{format}")(str(at / "out")), "b"), sorted({os.path.splitext(f)[1] for f in os.listdir(at / "out")})]


@case()
def write_parquet_partitioned(data, at):
    data.from_items([{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}]).write_parquet(str(at / "out"), partition_cols=["k"])
    return [sorted(os.listdir(at / "out")), rows(data.read_parquet(str(at / "out")), "v")]


@case("append", "overwrite", "ignore", "error")
def write_modes(data, at, mode):
    data.range(2).write_parquet(str(at / "out"))
    mode = sub(data, "dataset").SaveMode(mode)
    data.range(3).write_parquet(str(at / "out"), mode=mode)
    return data.read_parquet(str(at / "out")).count()


@case(3, 10)
def write_rows_per_file(data, at, n):
    import pyarrow.parquet as pq

    data.range(7, override_num_blocks=1).write_parquet(str(at / "out"), max_rows_per_file=n)
    return sorted(pq.read_metadata(at / "out" / f).num_rows for f in os.listdir(at / "out"))


@case()
def write_min_rows_per_file(data, at):
    data.range(12, override_num_blocks=6).write_csv(str(at / "out"), min_rows_per_file=6)
    return len(os.listdir(at / "out"))


@case()
def write_codec(data, at):
    import pyarrow.parquet as pq

    data.from_items([{"a": "the same text"}] * 1000, override_num_blocks=1).write_parquet(str(at / "out"), arrow_parquet_args_fn=lambda: {"compression": "gzip"})
    return pq.read_metadata(next((at / "out").iterdir())).row_group(0).column(0).compression


@case()
def write_nothing(data, at):
    data.range(3).filter(expr="id > 5").write_parquet(str(at / "out"))
    return os.path.exists(at / "out") and len(os.listdir(at / "out"))


@case()
def write_csv_text(data, at):
    data.from_items([{"a": 1, "b": 'say "hi"'}, {"a": 2, "b": None}]).repartition(1).write_csv(str(at / "out"))
    return next((at / "out").iterdir()).read_text()


@case({"lines": False}, {"orient": "columns", "lines": False}, {"date_format": "iso"}, {"orient": "split", "lines": False, "index": False},
      {"lines": False, "indent": 1, "double_precision": 2}, {"orient": "columns"}, {"nonsense": 1})
def write_json_as_pandas_does(data, at, arguments):
    import datetime

    items = [{"a": 1.255, "t": datetime.datetime(2024, 1, 2), "s": "\u00e9"}, {"a": None, "t": datetime.datetime(2024, 1, 3), "s": "y"}]
    data.from_items(items).repartition(1).write_json(str(at / "out"), **arguments)
    return [path.read_text() for path in sorted((at / "out").iterdir())]


@case()
def write_json_text(data, at):
    data.from_items([{"a": 1, "b": [1, 2]}, {"a": 2, "b": []}]).repartition(1).write_json(str(at / "out"))
    return next((at / "out").iterdir()).read_text()


@case()
def write_numpy(data, at):
    import numpy as np

    data.from_items([{"x": 1.5}, {"x": 2.5}]).repartition(1).write_numpy(str(at / "out"), column="x")
    return np.load(next((at / "out").iterdir()))


@case()
def write_sql(data, at):
    import sqlite3

    path = str(at / "db.sqlite")
    ds = data.from_items([{"title": "New", "year": 2000, "score": 1.0}])
    ds.write_sql("insert into movie values (?, ?, ?)", lambda: sqlite3.connect(path))
    return sorted(sqlite3.connect(path).execute("select title from movie").fetchall())


@case("read_parquet", "read_csv", "read_json", "read_text", "read_binary_files", "read_numpy")
def read_nothing(data, at, method):
    return getattr(data, method)([])


@case("read_csv", "read_json", "read_text", "read_binary_files")
def read_missing(data, at, method):
    return getattr(data, method)(str(at / "nothing")).take_all()


@case()
def read_shuffled(data, at):
    ds = data.read_csv(str(at / "csv"), shuffle="files")
    return sorted(r["id"] for r in ds.take_all())


@case()
def read_shuffle_config(data, at):
    return sorted(r["id"] for r in data.read_csv(str(at / "csv"), shuffle=data.FileShuffleConfig(seed=3)).take_all())


@case(1, 6)
def read_in_blocks(data, at, n):
    return data.read_csv(str(at / "csv"), override_num_blocks=n).count()


@case()
def read_relative(data, at):
    os.chdir(at)
    return data.read_csv("csv").count()


@case()
def read_path_object(data, at):
    return data.read_csv(at / "csv").count()
