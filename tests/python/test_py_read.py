"""Reading files: which files, what their folders say, pyarrow's options. Oracles: plain Python, pyarrow."""
import datetime
import gzip
import importlib.util
import json
import os

import pytest

import weir


def csv(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def numbers(ds, column="a"):
    return sorted(row[column] for row in ds.take_all())


@pytest.fixture
def hive(tmp_path):
    csv(tmp_path / "h" / "year=2024" / "month=01" / "x.csv", "a\n1\n2\n")
    csv(tmp_path / "h" / "year=2025" / "month=02" / "x.csv", "a\n3\n")
    csv(tmp_path / "h" / "_hidden.csv", "a\n99\n")
    csv(tmp_path / "h" / ".hidden" / "x.csv", "a\n99\n")
    return str(tmp_path / "h")


def test_files_folders_patterns_and_lists(tmp_path):
    one, two = csv(tmp_path / "d" / "one.csv", "a\n1\n"), csv(tmp_path / "d" / "two.csv", "a\n2\n")
    assert weir.read_csv(one).take() == [{"a": 1}]
    assert numbers(weir.read_csv([one, two])) == [1, 2]
    assert numbers(weir.read_csv(tmp_path / "d")) == [1, 2]
    assert numbers(weir.read_csv(str(tmp_path / "d") + "/")) == [1, 2]
    assert numbers(weir.read_csv(str(tmp_path / "d" / "t*.csv"))) == [2]
    assert numbers(weir.read_csv([one, one])) == [1, 1]
    assert numbers(weir.read_csv("local://" + one)) == [1] and numbers(weir.read_csv("file://" + one)) == [1]
    assert weir.read_csv([one, two]).input_files() == [one, two]


def test_what_is_not_there_is_an_error_at_the_call(tmp_path):
    one = csv(tmp_path / "one.csv", "a\n1\n")
    for read in (weir.read_csv, weir.read_parquet, weir.read_json, weir.read_text, weir.read_binary_files):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            read(str(tmp_path / "nowhere"))
        with pytest.raises(FileNotFoundError):
            read(str(tmp_path / "nowhere*.csv"))
        with pytest.raises(ValueError, match="paths"):
            read(5)
        with pytest.raises(ValueError, match="at least one path"):
            read([])
        with pytest.raises(ValueError, match="s3"):
            read("s3://bucket/x")
    assert numbers(weir.read_csv([one, str(tmp_path / "nowhere.csv")], ignore_missing_paths=True)) == [1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No files found"):
        weir.read_csv(tmp_path / "empty").take()


def test_a_file_that_vanishes_is_an_error_of_the_run(tmp_path):
    one = csv(tmp_path / "one.csv", "a\n1\n")
    ds = weir.read_csv(one)
    os.unlink(one)
    with pytest.raises(FileNotFoundError):
        ds.take()


def test_every_run_reads_anew(tmp_path):
    one = csv(tmp_path / "d" / "one.csv", "a\n1\n")
    ds = weir.read_csv(tmp_path / "d")
    assert numbers(ds) == [1]
    csv(tmp_path / "d" / "two.csv", "a\n2\n")
    csv(tmp_path / "d" / "one.csv", "a\n5\n")
    assert numbers(ds) == [2, 5] and ds.count() == 2
    kept = ds.materialize()
    os.unlink(one)
    assert numbers(kept) == [2, 5] and numbers(ds) == [2]


def test_a_broken_last_file_is_not_noticed_by_those_who_need_the_first(tmp_path):
    for i in range(20):
        csv(tmp_path / f"{i:02}.csv", f"a\n{i}\n")
    (tmp_path / "99.csv").write_bytes(b'a\n"never closed\n')
    ds = weir.read_csv(tmp_path)
    assert ds.columns() == ["a"]
    assert ds.take(2) == [{"a": 0}, {"a": 1}]


# ---- folders as columns ----

def test_hive_values_are_texts(hive):
    rows = sorted(weir.read_csv(hive).take_all(), key=lambda r: r["a"])
    assert rows == [{"a": 1, "year": "2024", "month": "01"}, {"a": 2, "year": "2024", "month": "01"},
                    {"a": 3, "year": "2025", "month": "02"}]
    assert weir.read_csv(hive + "/year=2025/month=02/x.csv").take() == [{"a": 3, "year": "2025", "month": "02"}]


def test_partitions_have_the_types_asked_for(hive):
    typed = weir.Partitioning("hive", field_types={"year": int, "month": float})
    row = weir.read_csv(hive + "/year=2024/month=01/x.csv", partitioning=typed).take(1)[0]
    assert row == {"a": 1, "year": 2024, "month": 1.0} and type(row["month"]) is float
    assert weir.read_csv(hive, partitioning=None).columns() == ["a"]
    with pytest.raises(ValueError, match="field|type"):
        weir.read_csv(hive, partitioning=weir.Partitioning("hive", field_types={"year": list}))
    with pytest.raises(ValueError, match="partitioning"):
        weir.read_csv(hive, partitioning="hive")


def test_folders_are_values_with_names(tmp_path):
    csv(tmp_path / "d" / "2024" / "oslo" / "x.csv", "a\n1\n")
    style = weir.Partitioning("dir", base_dir=str(tmp_path / "d"), field_names=["year", "city"])
    assert weir.read_csv(tmp_path / "d", partitioning=style).take() == [{"a": 1, "year": "2024", "city": "oslo"}]
    with pytest.raises(ValueError):
        weir.PathPartitionParser.of("dir")
    with pytest.raises(ValueError):
        weir.read_csv(tmp_path / "d", partitioning=weir.Partitioning("dir", base_dir=str(tmp_path / "d"), field_names=["y"])).take()


@pytest.mark.parametrize("base", ["d", "d/", "./d", "file://{}/d", "{}/d/"])
@pytest.mark.parametrize("path", ["d", "./d/2024", "{}/d"])
def test_the_folder_above_partitions_may_be_relative(tmp_path, monkeypatch, base, path):
    csv(tmp_path / "d" / "2024" / "oslo" / "x.csv", "a\n1\n")
    monkeypatch.chdir(tmp_path)
    base, path = base.format(tmp_path), path.format(tmp_path)
    style = weir.Partitioning("dir", base_dir=base, field_names=["year", "city"])
    assert weir.read_csv(path, partitioning=style).take() == [{"a": 1, "year": "2024", "city": "oslo"}]
    seen = []
    only = weir.PathPartitionFilter.of(lambda values: seen.append(values) or True, "dir", base, ["year", "city"])
    assert weir.read_csv(path, partition_filter=only, partitioning=None).take() == [{"a": 1}] and seen == [{"year": "2024", "city": "oslo"}]


def test_partition_filters(hive):
    only = weir.PathPartitionFilter.of(lambda values: values["year"] == "2025")
    assert numbers(weir.read_csv(hive, partition_filter=only)) == [3]
    typed = weir.PathPartitionFilter.of(lambda values: values["year"] < 2025, field_types={"year": int})
    assert numbers(weir.read_csv(hive, partition_filter=typed)) == [1, 2]
    with pytest.raises(ValueError, match="No files"):
        weir.read_csv(hive, partition_filter=weir.PathPartitionFilter.of(lambda values: False)).take()


def test_paths_as_a_column(hive):
    ds = weir.read_csv(hive, include_paths=True)
    assert ds.columns() == ["a", "year", "month", "path"]
    assert ds.take(1)[0]["path"] == hive + "/year=2024/month=01/x.csv"


def test_extensions(tmp_path):
    csv(tmp_path / "d" / "a.txt", "a,b\n1,x\n")
    csv(tmp_path / "d" / "b.CSV", "a,b\n3,z\n")
    assert numbers(weir.read_csv(tmp_path / "d")) == [1, 3]  # whatever they are called
    assert numbers(weir.read_csv(tmp_path / "d", file_extensions=["csv"])) == [3]
    with pytest.raises(ValueError, match="No files"):
        weir.read_csv(tmp_path / "d", file_extensions=["tsv"]).take()
    with pytest.raises(ValueError):
        weir.read_csv(tmp_path / "d", file_extensions="csv")
    with pytest.raises(ValueError, match="No files"):
        weir.read_parquet(tmp_path / "d").take()  # takes *.parquet only


def test_shuffled_files(tmp_path):
    for i in range(12):
        csv(tmp_path / f"{i:02}.csv", f"a\n{i}\n")
    order = lambda ds: [row["a"] for row in ds.take_all()]
    same = weir.read_csv(tmp_path, shuffle=weir.FileShuffleConfig(seed=3, reseed_after_execution=False))
    assert order(same) == order(same) != list(range(12))
    runs = {tuple(order(weir.read_csv(tmp_path, shuffle="files"))) for _ in range(4)}
    assert len(runs) > 1 and all(sorted(run) == list(range(12)) for run in runs)
    with pytest.raises(ValueError, match="shuffle"):
        weir.read_csv(tmp_path, shuffle="rows")


def test_blocks_of_a_read(tmp_path):
    weir.range(10).write_parquet(str(tmp_path / "p"))
    ds = weir.read_parquet(str(tmp_path / "p"), override_num_blocks=3)
    assert [len(b["id"]) for b in ds.iter_batches(batch_size=None)] == [3, 3, 4]
    assert ds.materialize().num_blocks() == 3
    assert weir.read_parquet(str(tmp_path / "p"), parallelism=5).materialize().num_blocks() == 5


# ---- formats ----

def test_parquet_columns_and_filters(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": list(range(100)), "b": [f"t{i}" for i in range(100)], "c": [i / 2 for i in range(100)]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=10)
    path = str(tmp_path / "x.parquet")
    assert weir.read_parquet(path).take_all() == table.to_pylist()
    assert weir.read_parquet(path, columns=["c", "a"]).columns() == ["c", "a"]
    assert weir.read_parquet(path).count() == 100
    wanted = [r for r in table.to_pylist() if r["a"] >= 97]
    assert weir.read_parquet(path, filter=weir.col("a") >= 97).take_all() == wanted
    assert weir.read_parquet(path, filter="a >= 97").take_all() == wanted
    for more in ({}, {"include_paths": True}, {"include_row_hash": True}):
        found = weir.read_parquet(path, columns=["b"], filter=weir.col("a") >= 97, **more)
        assert [row["b"] for row in found.take_all()] == [row["b"] for row in wanted] and "a" not in found.columns()
    assert weir.read_parquet(path, columns=[], filter="a >= 97").count() == len(wanted)
    pc = pytest.importorskip("pyarrow.compute")
    assert weir.read_parquet(path, filter=pc.field("a") >= 97).take_all() == wanted
    assert weir.read_parquet(path, filter=(pc.field("a") >= 97) & (pc.field("b") != "t98")).count() == 2
    with pytest.raises(TypeError, match="read_parquet: catalog is a Catalog"):
        weir.read_parquet(path, catalog=object())
    for bad in (dict(columns="a"), dict(filesystem=object()),
                dict(ray_remote_args={"resources": {"CPU": 1}}), dict(num_cpus=-1)):
        with pytest.raises(ValueError):
            weir.read_parquet(path, **bad)
    with pytest.raises(Exception, match="zz"):
        weir.read_parquet(path, columns=["zz"]).take()
    assert weir.read_parquet(path, num_cpus=0.25, memory=1e9, concurrency=4, ray_remote_args={"num_gpus": 0}).count() == 100
    assert weir.read_parquet(path, ray_remote_args={"num_cpus": 0.25, "resources": {"x": 1}}, label_selector={"a": "b"}).count() == 100


def test_pyarrows_csv_options(tmp_path):
    pacsv = pytest.importorskip("pyarrow.csv")
    pa = pytest.importorskip("pyarrow")
    path = csv(tmp_path / "x.csv", "junk\nname;n;when\nAda;1;2024-01-01\n'B;b';NIL;2024-01-02\n")
    ds = weir.read_csv(
        path,
        read_options=pacsv.ReadOptions(skip_rows=1, block_size=1 << 20),
        parse_options=pacsv.ParseOptions(delimiter=";", quote_char="'"),
        convert_options=pacsv.ConvertOptions(null_values=["NIL"], column_types={"when": pa.string()}))
    assert ds.take() == [{"name": "Ada", "n": 1, "when": "2024-01-01"}, {"name": "B;b", "n": None, "when": "2024-01-02"}]
    plain = csv(tmp_path / "y.csv", "1,2\n3,4\n")
    assert weir.read_csv(plain, read_options=pacsv.ReadOptions(column_names=["a", "b"])).take() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert weir.read_csv(plain, read_options=pacsv.ReadOptions(autogenerate_column_names=True)).columns() == ["f0", "f1"]
    some = weir.read_csv(csv(tmp_path / "z.csv", "a,b\n1,2\n"), convert_options=pacsv.ConvertOptions(include_columns=["b"]))
    assert some.take() == [{"b": 2}]
    # What the engine's reader does not have, pyarrow's does in workers.
    flags = csv(tmp_path / "f.csv", "a\nyes\nno\n")
    assert weir.read_csv(flags, convert_options=pacsv.ConvertOptions(true_values=["yes"], false_values=["no"])).take() == [{"a": True}, {"a": False}]
    coded = weir.read_csv(flags, convert_options=pacsv.ConvertOptions(auto_dict_encode=True))
    assert coded.take() == [{"a": "yes"}, {"a": "no"}] and "dictionary" in str(coded.schema().types[0])
    with pytest.raises(TypeError, match="foo"):
        weir.read_csv(plain, foo=1)


def test_a_column_without_a_name(tmp_path):
    """A data frame's index in a CSV file has none. It is a column as others are."""
    path = tmp_path / "frame.csv"
    path.write_text(",a\n7,1\n8,2\n")
    ds = weir.read_csv(str(path))
    assert ds.take_all() == [{"": 7, "a": 1}, {"": 8, "a": 2}]
    assert ds.drop_columns([""]).columns() == ["a"]
    assert ds.select_columns([""]).take_all() == [{"": 7}, {"": 8}]
    assert ds.rename_columns({"": "row"}).columns() == ["row", "a"]
    assert ds.sort("", descending=True).take(1) == [{"": 8, "a": 2}]
    assert sorted(ds.unique("")) == [7, 8]
    assert ds.groupby("").sum("a").sort("").take_all() == [{"": 7, "sum(a)": 1}, {"": 8, "sum(a)": 2}]
    assert ds.with_column("b", weir.expressions.col("") + 1).take(1) == [{"": 7, "a": 1, "b": 8}]
    ds.write_csv(str(tmp_path / "out"))
    assert weir.read_csv(str(tmp_path / "out")).take_all() == ds.take_all()
    other = weir.from_items([{"": 8, "b": "x"}])
    assert ds.join(other, join_type="inner", num_partitions=1, on=("",)).take_all() == [{"": 8, "a": 2, "b": "x"}]
    ds.repartition(2, keys=[""]).write_parquet(str(tmp_path / "parts"))
    assert weir.read_parquet(str(tmp_path / "parts")).sum("") == 15


def test_compression_of_open_streams(tmp_path):
    path = tmp_path / "x.data"
    path.write_bytes(gzip.compress(b"a\n1\n2\n"))
    assert numbers(weir.read_csv(str(path), arrow_open_stream_args={"compression": "gzip", "buffer_size": 10})) == [1, 2]
    with pytest.raises(ValueError, match=r"read_csv\(arrow_open_stream_args=\{'metadata': …\}\) is not supported"):
        weir.read_csv(str(path), arrow_open_stream_args={"metadata": {}})


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_types_are_those_of_many_files(tmp_path, kind):
    """Ray Data infers each file's by itself: one that has other numbers than all the rest is no error."""
    for i in range(60):
        x = 1.5 if i == 51 else i
        (tmp_path / f"{i:02}.{kind}").write_text(f"x\n{x}\n" if kind == "csv" else json.dumps({"x": x}) + "\n")
    (tmp_path / f"52.{kind}").write_text('x\n"never closed\n' if kind == "csv" else "{")  # is for whoever comes to it
    ds = getattr(weir, {"csv": "read_csv", "jsonl": "read_json"}[kind])(str(tmp_path))
    assert ds.schema().type_texts == ["double"] and ds.take(52)[-1] == {"x": 1.5}
    with pytest.raises(ValueError, match=f"52.{kind}"):
        ds.count()


def test_texts_of_lines_are_dates_where_their_name_says_so(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"day": "2024-01-01", "created_at": "2024-01-01", "n": {"date": "2024-01-01"}}\n')
    day = datetime.datetime(2024, 1, 1)
    assert weir.read_json(str(path), lines=True).take_all() == [{"day": "2024-01-01", "created_at": day, "n": {"date": "2024-01-01"}}]
    assert weir.read_json(str(path)).take_all() == [{"day": day, "created_at": day, "n": {"date": day}}]


def test_json(tmp_path):
    rows = [{"a": 1, "b": {"c": ["x"]}}, {"a": 2, "b": None}]
    lines, array = tmp_path / "l.jsonl", tmp_path / "a.json"
    lines.write_text("\n".join(map(json.dumps, rows)))
    array.write_text(json.dumps(rows))
    (tmp_path / "readme.txt").write_text("no json")
    assert weir.read_json(str(lines)).take() == rows and weir.read_json(str(array)).take() == rows
    assert weir.read_json(str(lines), lines=True).take() == rows
    assert weir.read_json(tmp_path).count() == 4
    pajson = pytest.importorskip("pyarrow.json")
    import pyarrow as pa

    schema = pa.schema([("a", pa.float64())])
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    assert weir.read_json(str(lines), parse_options=options).take() == [{"a": 1.0}, {"a": 2.0}]
    with pytest.raises(TypeError, match="foo"):
        weir.read_json(str(lines), foo=1)


def test_text_and_binary(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes("eins\r\n\n  zwei ß\n".encode())
    assert weir.read_text(str(path)).take() == [{"text": "eins"}, {"text": "  zwei ß"}]
    assert weir.read_text(str(path), drop_empty_lines=False).count() == 3
    path.write_bytes("größe\n".encode("latin-1"))
    assert weir.read_text(str(path), encoding="latin-1").take() == [{"text": "größe"}]
    assert weir.read_text(str(path), encoding="iso-8859-1", include_paths=True).take() == [{"text": "größe", "path": str(path)}]
    with pytest.raises(ValueError, match="encoding"):
        weir.read_text(str(path), encoding="no such thing")
    assert weir.read_text(str(path), encoding="cp1252").take() == [{"text": "größe"}]
    assert weir.read_binary_files(str(path), include_paths=True).take() == [{"bytes": "größe\n".encode("latin-1"), "path": str(path)}]


def test_a_plan_of_reads_pickles(hive):
    import pickle

    ds = weir.read_csv(hive, partitioning=weir.Partitioning("hive", field_types={"year": int})).limit(2)
    assert pickle.loads(pickle.dumps(ds)).take() == ds.take()


def test_what_reads_look_like(tmp_path, hive):
    weir.range(10).write_parquet(str(tmp_path / "p"))
    ds = weir.read_parquet(str(tmp_path / "p"))
    assert repr(ds) == "Dataset(num_blocks=1, num_rows=?, schema={id: int64})"
    assert repr(weir.read_csv(hive)) == "Dataset(num_blocks=2, num_rows=?, schema=Unknown schema)"
    assert repr(ds.limit(3)).startswith("shape: (?, 1)\n╭───────╮\n│ id    │")
    assert repr(ds.map(lambda row: row).limit(3)) == ("limit=3\n+- Map(<lambda>)\n   +- Dataset(num_rows=?, "
                                                      "schema={id: int64})")


def test_no_columns(tmp_path):
    weir.range(5).write_parquet(str(tmp_path))
    for ds in (weir.range(5).select_columns([]), weir.read_parquet(str(tmp_path), columns=[]), weir.range(5).select_columns([]).materialize()):
        assert ds.count() == 5 and ds.columns() == [] and ds.schema().types == [] and len(ds.schema()) == 0
        assert ds.take(2) == [{"__bsp_stub": None}] * 2  # as Ray Data has it
        assert ds.map(lambda row: {"n": 1}).sum("n") == 5
    assert weir.read_parquet(str(tmp_path), columns=[], include_paths=True).columns() == ["path"]


def test_hashes_of_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    from weir.datasource.arrow_files import row_hashes

    # What Ray 2.60 gave for this path.
    assert row_hashes("/tmp/surface/o/pq/x.parquet", 0, 3).tolist() == [7593477648210352966, 16704073334326833836, 4229577177203926132]
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": list(range(100)), "row_hash": ["old"] * 100}), tmp_path / f"year={year}" / "x.parquet", row_group_size=30)
    ds = weir.read_parquet(str(tmp_path), include_row_hash=True, include_paths=True)
    rows = ds.take_all()
    assert len({row["row_hash"] for row in rows}) == 200 and rows == ds.take_all()
    for row in rows:
        assert row["row_hash"] == row_hashes(row["path"], row["a"], 1)[0] and f"year={row['year']}" in row["path"]
    narrow = weir.read_parquet(str(tmp_path), include_row_hash=True, columns=["a"])
    assert {row["row_hash"] for row in narrow.take_all()} == {row["row_hash"] for row in rows}
    assert weir.read_parquet(str(tmp_path), include_row_hash=True, filter="a >= 98").count() == 4
    # Columns as Ray 2.60 has them.
    assert list(rows[0]) == ["a", "year", "path", "row_hash"] and list(narrow.take(1)[0]) == ["a", "row_hash"]
    assert list(weir.read_parquet(str(tmp_path), include_row_hash=True, columns=["row_hash"]).take(1)[0]) == ["row_hash"]
    cast = weir.read_parquet(str(tmp_path), include_row_hash=True, schema=pa.schema([("a", pa.float64())]))
    assert cast.schema().names == ["a", "year", "row_hash"] and isinstance(cast.take(1)[0]["a"], float)
    one = str(tmp_path / "year=2020" / "x.parquet")
    left = weir.read_parquet(str(tmp_path), include_row_hash=True, skip_paths=[one])
    assert {row["year"] for row in left.take_all()} == {"2021"} and left.count() == 100
    with pytest.raises(ValueError, match="No files found"):
        weir.read_parquet(one, include_row_hash=True, skip_paths=one)


def test_a_partition_that_is_a_column_too(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def read(values, folders=("2020", "2021"), **options):
        for folder in folders:
            (tmp_path / f"year={folder}").mkdir(exist_ok=True)
            pq.write_table(pa.table({"a": [int(len(folder))], "year": [values]}), tmp_path / f"year={folder}" / "x.parquet")
        return weir.read_parquet(str(tmp_path), **options)

    # The folder's value, in the file's type where that is one of integers.
    ds = read(1999)
    assert [row["year"] for row in ds.sort("year").take_all()] == [2020, 2021] and ds.columns() == ["a", "year"]
    assert ds.filter(expr="year == 2021").count() == 1 and read(1999, columns=["year"]).sum("year") == 4041
    assert sorted(row["year"] for row in read("old").take_all()) == ["2020", "2021"]
    assert {row["year"] for row in read(1999, partitioning=None).take_all()} == {1999}
    # Values that are none leave it a column of texts.
    assert sorted(row["year"] for row in read(1999, ("2020", "2021", "none")).take_all()) == ["2020", "2021", "none"]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "tsv"])
def test_example_files_of_iris_are_there(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = f"example://iris.{kind}"
    read = {"json": weir.read_json, "parquet": weir.read_parquet}.get(kind, weir.read_csv)
    options = {"parse_options": pytest.importorskip("pyarrow.csv").ParseOptions(delimiter="\t")} if kind == "tsv" else {}
    for _ in range(2):  # made, and there
        ds = read(name, **options)
        first = "setosa" if kind == "tsv" else "Setosa"
        assert ds.take(1) == [{"sepal.length": 5.1, "sepal.width": 3.5, "petal.length": 1.4, "petal.width": 0.2, "variety": first}]
        assert ds.count() == 150 and [str(t) for t in ds.schema().types] == ["double"] * 4 + ["string"]
        # What the table is known for: the means of its columns, and fifty flowers of each species.
        assert [round(ds.mean(c), 4) for c in ds.columns()[:4]] == [5.8433, 3.0573, 3.758, 1.1993]
        assert sorted(r["count()"] for r in ds.groupby("variety").count().take_all()) == [50, 50, 50]
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()] == [f"weir/examples/iris.{kind}"]


def test_example_files_of_pictures_are_there(tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):  # made, and there
        shown = {kind: weir.read_images(f"example://image-datasets/{kind}", include_paths=True).take_all()
                 for kind in ("simple", "different-sizes", "different-modes")}
        named = {kind: {row["path"].rpartition("/")[2]: row["image"].shape for row in rows} for kind, rows in shown.items()}
        assert named == {
            "simple": {f"image{number}.jpg": (32, 32, 3) for number in (1, 2, 3)},
            "different-sizes": {f"{side}x{side}.png": (side, side, 3) for side in (16, 32, 64)},
            "different-modes": {"L.jpg": (32, 32), "cmyk.jpg": (32, 32, 4), "rgb.jpg": (32, 32, 3)},
        }
        assert len({row["image"].tobytes() for row in shown["simple"]}) == 3
    assert [row["image"].shape for row in weir.read_images("example://image-datasets/simple/image2.jpg", mode="L").take_all()] == [(32, 32)]
    assert Image.open(tmp_path / "weir/examples/image-datasets/different-modes/cmyk.jpg").mode == "CMYK"
    with pytest.raises(FileNotFoundError, match="image-datasets/simple"):
        weir.read_images("example://image-datasets/simple/image4.jpg")


def test_other_example_files_are_not_there():
    with pytest.raises(FileNotFoundError, match=r"example:// are files that came with Ray's package .* iris\.parquet.* path of your own simple.txt"):
        weir.read_text("example://simple.txt")


def test_advice_in_errors_of_text_is_pythons_and_works(tmp_path):
    csv = pytest.importorskip("pyarrow.csv")

    def fails(read, path, *texts, **options):
        with pytest.raises(ValueError) as raised:
            read(str(path), **options).take_all()
        text = str(raised.value)
        assert "--" not in text and all(part in text for part in texts), text

    path = tmp_path / "ragged.csv"
    path.write_text("a,b\n1,2\n3\n")
    fails(weir.read_csv, path, "the row has 1 field instead of 2", "parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=lambda row: 'skip')")
    assert weir.read_csv(str(path), parse_options=csv.ParseOptions(invalid_row_handler=lambda row: "skip")).take_all() == [{"a": 1, "b": 2}]
    path = tmp_path / "latin.csv"
    path.write_bytes(b"\xe9\nx\n")
    fails(weir.read_csv, path, "not UTF-8", "read_options=pyarrow.csv.ReadOptions(encoding='latin1')")
    assert weir.read_csv(str(path), read_options=csv.ReadOptions(encoding="latin1")).take_all() == [{"é": "x"}]
    path = tmp_path / "empty.csv"
    path.write_bytes(b"")
    fails(weir.read_csv, path, "read_options=pyarrow.csv.ReadOptions(column_names=[…]) names them")
    path = tmp_path / "latin.txt"
    path.write_bytes(b"ab\n\xe9\n")
    fails(weir.read_text, path, "line 2", "encoding= names another encoding")
    assert weir.read_text(str(path), encoding="latin-1").take_all() == [{"text": "ab"}, {"text": "é"}]
    path = tmp_path / "half.json"
    path.write_text('{"a":"\\ud800"}\n')
    fails(weir.read_json, path, "half of a surrogate pair")
    path.write_text('{"a":' + "[" * 300 + "]" * 300 + "}\n")
    with pytest.raises(NotImplementedError, match="128 deep, which no type is$"):
        weir.read_json(str(path)).take_all()
    path = tmp_path / "late.csv"
    path.write_text("a\n" + "1\n" * 3_000_000 + "x\n")
    advice = "convert_options=pyarrow.csv.ConvertOptions(column_types={'a': 'string'}) says what it is"
    fails(weir.read_csv, path, "line 3000002", "'x' is no int64", advice)
    assert weir.read_csv(str(path), convert_options=csv.ConvertOptions(column_types={"a": "string"})).count() == 3_000_001


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_zone_holds_whatever_the_unit_became(tmp_path, unit):
    """pandas.DataFrame.to_parquet(coerce_timestamps="us"): stored in another unit than ARROW:schema tells."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"x": pyarrow.array([0, 10**18], pyarrow.timestamp("ns", "America/New_York"))})
    parquet.write_table(table, tmp_path / "x.parquet", coerce_timestamps=unit)
    batch = weir.read_parquet(str(tmp_path)).take_batch(batch_format="pyarrow")
    assert batch.schema.field("x").type == pyarrow.timestamp(unit, "America/New_York")
    assert batch.to_pylist() == parquet.read_table(tmp_path / "x.parquet").to_pylist()


def test_lines_of_json_may_be_arrays(tmp_path):
    lines = b'["ray", 1, 2.5]\n\n["oh", 2]\n["x", 3, null, [1]]\n'
    rows = [{"0": "ray", "1": 1, "2": 2.5, "3": None}, {"0": "oh", "1": 2, "2": None, "3": None}, {"0": "x", "1": 3, "2": None, "3": [1]}]
    (tmp_path / "a.jsonl").write_bytes(lines)
    assert weir.read_json(str(tmp_path / "a.jsonl"), lines=True).take_all() == rows
    assert weir.read_json(str(tmp_path), lines=True, include_paths=True).columns() == ["0", "1", "2", "3", "path"]
    if importlib.util.find_spec("pyarrow"):
        (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines))
        assert weir.read_json([str(tmp_path / "b.jsonl.gz"), str(tmp_path / "a.jsonl")], lines=True, override_num_blocks=2).take_all() == rows * 2
    for bad, said in ((b'[1]\n{"a": 1}\n', "line 2: .*array is expected"), (b"[1]\n[1\n", "line 2: this is no JSON")):
        (tmp_path / "c.jsonl").write_bytes(bad)
        with pytest.raises(ValueError, match=said):
            weir.read_json(str(tmp_path / "c.jsonl"), lines=True).take_all()
    # Without lines=True, an array is one of objects.
    (tmp_path / "d.json").write_bytes(b'[{"a": 1}, {"a": 2}]')
    assert weir.read_json(str(tmp_path / "d.json")).take_all() == [{"a": 1}, {"a": 2}]
    with pytest.raises(FileNotFoundError):
        weir.read_json(str(tmp_path / "none.jsonl"), lines=True)


def test_a_file_of_another_format_among_csv_is_named(tmp_path):
    weir.range(3).write_parquet(str(tmp_path / "made"))
    (found,) = (tmp_path / "made").iterdir()
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(ValueError, match=f"{found.name}.*this is a parquet file, not one of CSV"):
        weir.read_csv([str(found), str(tmp_path / "a.csv")]).take_all()


@pytest.mark.parametrize("name", ["list", "large_list", "struct", "fixed", "map", "deep", "inside"])
def test_a_file_in_which_a_nested_column_is_all_null(tmp_path, name):
    """It was written when no row had a value, and so without a type; its neighbours have one."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    values = {"list": [[1, None], []], "large_list": [["x"], None], "struct": [{"a": 1, "b": "x"}, {"a": None, "b": "y"}], "fixed": [[1, 2], None],
              "map": [[("k", 1)], []], "deep": [[{"a": [1]}], [None]], "inside": [{"a": [1], "b": None}, None]}[name]
    item = pa.list_(pa.int64())
    kind = {"list": item, "large_list": pa.large_list(pa.string()), "struct": pa.struct([("a", pa.int64()), ("b", pa.string())]),
            "fixed": pa.list_(pa.int64(), 2), "map": pa.map_(pa.string(), pa.int64()), "deep": pa.list_(pa.struct([("a", item)])),
            "inside": pa.struct([("a", item), ("b", pa.null())])}[name]
    many = 5000  # more than a vector
    there = pa.table({"n": range(2), "t": pa.array(values, kind)})
    for place, order in enumerate((["a", "b", "c"], ["b", "a", "c"])):
        folder = tmp_path / str(place)
        folder.mkdir()
        pq.write_table(there, folder / f"{order[0]}.parquet")
        pq.write_table(pa.table({"n": range(many), "t": pa.nulls(many)}), folder / f"{order[1]}.parquet")
        pq.write_table(there, folder / f"{order[2]}.parquet")
        expected = [{"n": row["n"], "t": row["t"]} for row in there.to_pylist()]
        gap = [{"n": n, "t": None} for n in range(many)]
        rows = [*expected, *gap] if place == 0 else [*gap, *expected]
        assert weir.read_parquet(str(folder)).take_all() == [*rows, *expected]
        assert weir.read_parquet(str(folder)).filter(expr="n == 1").select_columns(["t"]).map(lambda row: row).take_all() == [
            {"t": row["t"]} for row in [*rows, *expected] if row["n"] == 1]


def test_files_of_tensors_of_several_shapes_and_of_none(tmp_path):
    np = pytest.importorskip("numpy")
    rows = [np.full((i + 1, 2), i, dtype="f4") for i in range(3)] + [None]
    weir.from_items([{"t": row} for row in rows], override_num_blocks=4).write_parquet(str(tmp_path / "out"))
    found = [row["t"] for row in weir.read_parquet(str(tmp_path / "out")).take_all()]
    assert found[3] is None and len(found) == 4
    for one, other in zip(found[:3], rows[:3]):
        np.testing.assert_array_equal(one, other)
