"""Writing files: modes, names, rows per file, options of formats. Oracles: pyarrow, plain Python."""
import datetime
import glob
import json
import os
import re
import warnings

import pytest

import weir

NAME = re.compile(r"^[0-9a-f]{22}_[0-9a-f]{32}_\d{6}")


def files(folder):
    return sorted(f for f in glob.glob(f"{folder}/**", recursive=True) if os.path.isfile(f))


def ids(ds):
    return sorted(row["id"] for row in ds.take_all())


WRITERS = {"parquet": ("write_parquet", "read_parquet", "-0.parquet"), "csv": ("write_csv", "read_csv", ".csv"),
           "json": ("write_json", "read_json", ".json")}


@pytest.mark.parametrize("kind", WRITERS)
def test_files_have_rays_names_and_come_back(tmp_path, kind):
    write, read, end = WRITERS[kind]
    folder = str(tmp_path / "out")
    assert getattr(weir.range(1000), write)(folder) is None
    assert [NAME.match(os.path.basename(f)) is not None and f.endswith(end) for f in files(folder)] == [True]
    assert ids(getattr(weir, read)(folder)) == list(range(1000))


@pytest.mark.parametrize("kind", WRITERS)
def test_an_empty_path_is_none(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="an empty text is no path"):
        getattr(weir.range(3), WRITERS[kind][0])("")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", WRITERS)
def test_modes(tmp_path, kind):
    write, read, _ = WRITERS[kind]
    folder = str(tmp_path / "out")
    put = lambda n, **more: getattr(weir.range(n), write)(folder, **more)
    get = lambda: ids(getattr(weir, read)(folder))
    put(2, mode="create")
    assert get() == [0, 1]
    put(1)  # append
    assert get() == [0, 0, 1]
    put(5, mode="ignore")
    assert get() == [0, 0, 1]
    for mode in ("error", "create", weir.SaveMode.ERROR):
        with pytest.raises(ValueError, match="already exists"):
            put(5, mode=mode)
    assert get() == [0, 0, 1]
    put(3, mode=weir.SaveMode.OVERWRITE)
    assert get() == [0, 1, 2] and len(files(folder)) == 1
    with pytest.raises(ValueError, match="mode"):
        put(3, mode="xx")
    with pytest.raises(ValueError, match="upsert|keys"):
        put(3, mode="upsert")


def test_nothing_is_written_of_nothing(tmp_path):
    folder = str(tmp_path / "out")
    weir.range(0).write_parquet(folder)
    weir.range(10).filter(expr="id > 100").write_parquet(folder)
    weir.from_items([]).write_csv(folder)
    assert not os.path.exists(folder)
    weir.range(3).write_parquet(folder)
    weir.from_items([]).write_parquet(folder)
    assert ids(weir.read_parquet(folder)) == [0, 1, 2]


def test_a_run_that_fails_leaves_nothing(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("a\n" + "1\n" * 100_000 + '"open\n')
    folder = str(tmp_path / "out")
    with pytest.raises(Exception, match="in.csv"):
        weir.read_csv(str(path)).write_parquet(folder)
    assert not os.path.exists(folder)


def test_rows_per_file(tmp_path):
    sizes = lambda folder: sorted(weir.read_parquet(f).count() for f in files(folder))
    weir.range(10).write_parquet(str(tmp_path / "a"), max_rows_per_file=4)
    assert sizes(tmp_path / "a") == [2, 4, 4]
    weir.range(10, override_num_blocks=5).write_parquet(str(tmp_path / "b"), min_rows_per_file=4)
    assert sizes(tmp_path / "b") == [2, 4, 4]
    weir.range(10).write_parquet(str(tmp_path / "c"), min_rows_per_file=3, max_rows_per_file=5)
    assert max(sizes(tmp_path / "c")) <= 5 and sum(sizes(tmp_path / "c")) == 10
    with pytest.warns(DeprecationWarning):
        weir.range(10).write_csv(str(tmp_path / "d"), num_rows_per_file=5)
    assert len(files(tmp_path / "d")) == 2
    weir.range(100, override_num_blocks=10).write_parquet(str(tmp_path / "e"), min_bytes_per_file=320)
    assert len(files(tmp_path / "e")) <= 3 and sum(sizes(tmp_path / "e")) == 100
    weir.range(10).repartition(3).write_parquet(str(tmp_path / "f"))
    assert sizes(tmp_path / "f") == [3, 3, 4]
    weir.range(10).repartition(target_num_rows_per_block=5).write_parquet(str(tmp_path / "g"))
    assert sizes(tmp_path / "g") == [5, 5]
    for bad in (dict(min_rows_per_file=4, max_rows_per_file=2), dict(max_rows_per_file=0), dict(min_rows_per_file=-1),
                dict(min_rows_per_file=1, min_bytes_per_file=1)):
        with pytest.raises(ValueError):
            weir.range(10).write_parquet(str(tmp_path / "x"), **bad)


def test_partitions_are_folders(tmp_path):
    rows = [{"a": i % 2, "s": "x/y" if i < 3 else None, "b": i} for i in range(6)]
    weir.from_items(rows).write_parquet(str(tmp_path / "out"), partition_cols=["a"])
    assert sorted(os.listdir(tmp_path / "out")) == ["a=0", "a=1"]
    back = weir.read_parquet(str(tmp_path / "out"))
    assert sorted(back.columns()) == ["a", "b", "s"]
    assert sorted((r["b"], r["a"]) for r in back.take_all()) == [(i, str(i % 2)) for i in range(6)]
    assert weir.read_parquet(files(tmp_path / "out")[0], partitioning=None).columns() == ["s", "b"]
    with pytest.raises(Exception, match="zz"):
        weir.from_items(rows).write_parquet(str(tmp_path / "y"), partition_cols=["zz"])
    with pytest.raises(ValueError):
        weir.from_items(rows).write_parquet(str(tmp_path / "y"), partition_cols="a")


@pytest.mark.parametrize("flavor, names", [("hive", {"a=0/s=x", "a=1/s=y"}), (None, {"0/x", "1/y"}), ("filename", {"0_x_", "1_y_"})])
def test_partitions_are_named_as_asked_for(tmp_path, flavor, names):
    ds = pytest.importorskip("pyarrow.dataset")
    pa = pytest.importorskip("pyarrow")
    rows = [{"a": i % 2, "s": "xy"[i % 2], "b": i} for i in range(6)]
    out = tmp_path / "out"
    weir.from_items(rows).write_parquet(str(out), partition_cols=["a", "s"], partitioning_flavor=flavor)
    found = [str(path.relative_to(out)) for path in out.rglob("*.parquet")]
    assert {name.rpartition("/")[0] or "_".join(name.split("_")[:2]) + "_" for name in found} == names
    kinds = pa.schema([("a", pa.int64()), ("s", pa.string())])
    back = ds.dataset(str(out), partitioning=ds.partitioning(kinds, flavor=flavor)).to_table().select(["a", "s", "b"]).to_pylist()
    assert sorted(back, key=lambda row: row["b"]) == rows
    with pytest.raises(ValueError, match="partition_cols must be provided"):
        weir.from_items(rows).write_parquet(str(tmp_path / "x"), partitioning_flavor=flavor)
    with pytest.raises(ValueError, match="partitioning_flavor='nope'"):
        weir.from_items(rows).write_parquet(str(tmp_path / "x"), partition_cols=["a"], partitioning_flavor="nope")


def test_parquet_options(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    out = str(tmp_path / "a")
    rows = weir.from_items([{"s": f"the same text again and again, and a number: {i}"} for i in range(1000)], override_num_blocks=1)
    rows.write_parquet(out, compression="zstd", compression_level=3, row_group_size=100, use_dictionary=False)
    meta = pq.ParquetFile(files(out)[0]).metadata
    assert meta.num_row_groups == 10 and meta.row_group(0).column(0).compression == "ZSTD"
    rows.write_parquet(str(tmp_path / "b"), arrow_parquet_args_fn=lambda: {"compression": "gzip"})
    assert pq.ParquetFile(files(tmp_path / "b")[0]).metadata.row_group(0).column(0).compression == "GZIP"
    with pytest.raises(TypeError, match="foo"):
        weir.range(10).write_parquet(str(tmp_path / "c"), foo=1)


def test_csv_and_json_texts(tmp_path):
    ds = weir.from_items([{"n": 1, "s": 'a"b'}, {"n": None, "s": "ß"}], override_num_blocks=1)
    ds.write_csv(str(tmp_path / "c"))
    assert open(files(tmp_path / "c")[0]).read() == '"n","s"\n1,"a""b"\n,"ß"\n'
    ds.write_json(str(tmp_path / "j"))
    lines = open(files(tmp_path / "j")[0]).read().splitlines()
    assert [json.loads(line) for line in lines] == [{"n": 1, "s": 'a"b'}, {"n": None, "s": "ß"}]
    ds.write_json(str(tmp_path / "k"), orient="records", lines=True)
    with pytest.raises(TypeError, match="foo"):
        ds.write_json(str(tmp_path / "l"), foo=1)
    with pytest.raises(TypeError, match="foo"):
        ds.write_csv(str(tmp_path / "l"), foo=1)
    pacsv = pytest.importorskip("pyarrow.csv")
    ds.write_csv(str(tmp_path / "m"), write_options=pacsv.WriteOptions(include_header=False, delimiter=";"))
    assert open(files(tmp_path / "m")[0]).read().startswith('1;"a""b"')
    ds.write_csv(str(tmp_path / "n"), arrow_open_stream_args={"compression": "gzip"})
    assert files(tmp_path / "n")[0].endswith(".csv.gz") and weir.read_csv(str(tmp_path / "n")).count() == 2


@pytest.mark.parametrize("bad", [dict(filesystem=object()), dict(catalog=object()),
                                 dict(ray_remote_args={"num_cpus": -1}), dict(concurrency=0)])
def test_arguments_that_are_refused(tmp_path, bad):
    with pytest.raises(ValueError):
        weir.range(1).write_parquet(str(tmp_path / "out"), **bad)
    assert not os.path.exists(tmp_path / "out")


def test_targets(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        weir.range(1).write_parquet(str(tmp_path / "file"))
    with pytest.raises(ValueError, match="s3"):
        weir.range(1).write_parquet("s3://bucket/x")
    with pytest.raises(FileNotFoundError):
        weir.range(1).write_parquet(str(tmp_path / "new"), try_create_dir=False)
    weir.range(1).write_parquet("local://" + str(tmp_path / "a" / "b"))
    assert len(files(tmp_path / "a")) == 1


def test_columns_of_python_objects_are_not_written(tmp_path):
    for ds in (weir.from_items([{"o": 2**70}, {"o": {1}}]), weir.range(2).map(lambda row: {"o": 2**70 + row["id"]})):
        with pytest.raises(NotImplementedError, match="column 'o' holds Python objects"):
            ds.write_parquet(str(tmp_path / "out"))
    assert not os.path.exists(tmp_path / "out")


def test_a_file_is_not_begun_anew_for_rows_that_are_null_or_whole(tmp_path):
    """Rows come from functions in pieces of any size: one that has only nulls, only whole numbers, or lacks a column, says little of the others."""
    pq = pytest.importorskip("pyarrow.parquet")

    def row(given):
        number = given["id"]
        made = {"id": number, "maybe": None if number % 7 == 0 else 1.5, "number": 1 if number % 3 else 2.5, "many": [number] * (number % 3),
                "inner": {"a": None if number % 2 else "ä"}}
        return {**made, "rare": "x"} if number % 5 == 4 else made

    weir.range(1000).map(row).write_parquet(str(tmp_path / "out"))
    files = glob.glob(str(tmp_path / "out" / "*"))
    # The ends of few rows are made piece by piece: as many files as lanes that begin early, not one for each piece.
    assert len(files) <= 4, [pq.read_metadata(file).num_rows for file in files]
    found = sorted((line for file in files for line in pq.read_table(file).to_pylist()), key=lambda line: line["id"])
    assert [{key: value for key, value in line.items() if value is not None} for line in found] == [
        {key: value for key, value in row({"id": number}).items() if value is not None} for number in range(1000)]
    # A number that a float does not hold stays what it is, in a file of its own.
    exact = 2**53 + 1
    weir.range(100).map_batches(lambda batch: {"x": [exact] * 50 if batch["id"][0] == 0 else [0.5] * 50}, batch_size=50).write_parquet(
        str(tmp_path / "exact"))
    numbers = [line["x"] for file in glob.glob(str(tmp_path / "exact" / "*")) for line in pq.read_table(file).to_pylist()]
    assert numbers.count(exact) == 50 and numbers.count(0.5) == 50


def test_functions_before_a_write(tmp_path):
    weir.range(1000).map_batches(lambda b: {"id": b["id"] * 2}, batch_size=100).write_parquet(str(tmp_path / "out"))
    assert ids(weir.read_parquet(str(tmp_path / "out"))) == [2 * i for i in range(1000)]


class Marks:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (self.trace, "w")


def test_rows_of_a_file_beside_partitions_are_deprecated(tmp_path):
    """As in Ray Data 2.60; the warning stands at the program's line."""
    ds = weir.from_items([{"id": n, "part": n % 2} for n in range(10)])
    with pytest.warns(DeprecationWarning, match="will no longer be supported after February 2027") as told:
        ds.write_parquet(str(tmp_path / "a"), partition_cols=["part"], min_rows_per_file=5)
    assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        ds.write_parquet(str(tmp_path / "b"), partition_cols=[], min_rows_per_file=5)
        ds.write_parquet(str(tmp_path / "c"), partition_cols=["part"])


@pytest.mark.parametrize("options", [{}, {"partition_cols": ["part"]}, {"min_rows_per_file": 2}])
def test_python_objects_are_written_as_pickles_when_asked(tmp_path, options):
    """And read as bytes: nothing of a file is unpickled but by whoever asks for that."""
    import pickle

    trace = str(tmp_path / "trace")
    ds = weir.range(4).map(lambda row: {"id": row["id"], "part": row["id"] % 2, "o": Marks(trace) if row["id"] else 2**70})
    ds.write_parquet(str(tmp_path / "out"), python_objects="pickle", **options)
    again = weir.read_parquet(str(tmp_path / "out"))
    assert "binary" in str(dict(zip(again.schema().names, again.schema().types))["o"])
    rows = again.map(lambda row: {**row, "type": type(row["o"]).__name__}).sort("id").take_all()
    assert [row["type"] for row in rows] == ["bytes"] * 4
    assert next(iter(again.sort("id").iter_batches()))["o"][0] == rows[0]["o"] and pickle.loads(rows[0]["o"]) == 2**70
    assert not os.path.exists(trace)
    pickle.loads(rows[1]["o"]).close()
    assert os.path.exists(trace)


def test_how_python_objects_are_written_has_one_word(tmp_path):
    with pytest.raises(ValueError, match='python_objects is "pickle"'):
        weir.range(4).write_parquet(str(tmp_path / "out"), python_objects=True)


def test_floats_in_csv_are_pyarrows(tmp_path):
    np, pa, pacsv = pytest.importorskip("numpy"), pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.csv")
    import random
    import struct

    rng = random.Random(7)
    values = [sign * digits * 10.0**power for power in range(-25, 26) for digits in (1, 1.5, 9.999, 123456789) for sign in (1, -1)]
    values += [struct.unpack("d", rng.randbytes(8))[0] for _ in range(2000)] + [round(rng.random() * 10**rng.randrange(9), rng.randrange(7)) for _ in range(2000)]
    values += [0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.0**53, 1e15 - 1, 1e15 + 2, float("inf"), float("-inf"), float("nan"), None]
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.array([0.0 if v is None else v for v in values]).astype(np.float32)
    table = pa.table({"d": pa.array(values, pa.float64()), "f": narrow})
    weir.from_arrow(table).write_csv(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").iterdir()
    pacsv.write_csv(table, tmp_path / "theirs.csv")
    assert path.read_text().splitlines() == (tmp_path / "theirs.csv").read_text().splitlines()


def test_json_as_pandas_writes_it(tmp_path):
    """Arguments that the engine's writer does not have are pandas'."""
    pytest.importorskip("pandas")
    day = datetime.datetime(2024, 1, 2)
    ds = weir.from_items([{"n": i, "s": "ß", "t": day} for i in range(4)], override_num_blocks=2)

    def written(name, **arguments):
        ds.write_json(str(tmp_path / name), **arguments)
        return [open(one).read() for one in files(tmp_path / name)]

    assert [json.loads(text) for text in written("array", lines=False)] == [[{"n": i, "s": "ß", "t": 1704153600000} for i in pair] for pair in ((0, 1), (2, 3))]
    assert json.loads(written("columns", orient="columns", lines=False)[1])["n"] == {"0": 2, "1": 3}
    assert written("dates", date_format="iso", min_rows_per_file=4) == ['{"n":%d,"s":"\\u00df","t":"2024-01-02T00:00:00.000"}\n' * 4 % (0, 1, 2, 3)]
    assert weir.read_json(str(tmp_path / "array")).sum("n") == 6
    with pytest.raises(ValueError, match="orient"):
        ds.write_json(str(tmp_path / "wrong"), orient="columns", lines=True)
    with pytest.raises(ValueError, match="already exists"):
        ds.write_json(str(tmp_path / "array"), lines=False, mode="error")
    written("array", lines=False, mode="overwrite")
    assert len(files(tmp_path / "array")) == 2
    ds.write_json(str(tmp_path / "packed"), lines=False, compression="gzip")
    assert all(name.endswith(".json.gz") for name in files(tmp_path / "packed")) and weir.read_json(str(tmp_path / "packed")).count() == 4


def test_parquet_as_pyarrow_writes_it(tmp_path):
    """Arguments that the engine's writer does not have are pyarrow's."""
    pq = pytest.importorskip("pyarrow.parquet")
    ds = weir.from_items([{"n": i, "s": "ab"[i % 2], "t": datetime.datetime(2024, 1, 2, 0, 0, i)} for i in range(6)], override_num_blocks=2)
    ds.write_parquet(str(tmp_path / "a"), use_dictionary=["s"], coerce_timestamps="ms", row_group_size=2)
    made = pq.ParquetFile(files(tmp_path / "a")[0])
    assert made.metadata.num_row_groups == 2 and str(made.schema_arrow.field("t").type) == "timestamp[ms]"
    encodings = [made.metadata.row_group(0).column(i).encodings for i in range(2)]
    assert ["RLE_DICTIONARY" in one for one in encodings] == [False, True]
    ds.write_parquet(str(tmp_path / "b"), partition_cols=["s"], use_deprecated_int96_timestamps=True, max_rows_per_file=1)
    assert sorted(os.listdir(tmp_path / "b")) == ["s=a", "s=b"] and len(os.listdir(tmp_path / "b" / "s=a")) == 3
    assert [row["n"] for row in weir.read_parquet(str(tmp_path / "b")).sort("n").take_all()] == list(range(6))
    assert weir.read_parquet(str(tmp_path / "b"), coerce_int96_timestamp_unit="us").sort("n").take(1)[0]["t"] == datetime.datetime(2024, 1, 2)
    with pytest.raises(ValueError, match="9.9"):
        ds.write_parquet(str(tmp_path / "c"), version="9.9")
    with pytest.raises(TypeError, match="python_objects|version"):
        ds.write_parquet(str(tmp_path / "c"), version="2.4", python_objects="pickle")
    assert not (tmp_path / "c").exists()
