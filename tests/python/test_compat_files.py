"""What suites written for Ray Data expect of reads, writes and of data that is given: types, options, messages."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weir
from driver_scripts import Program, output


def test_texts_of_a_frame_are_strings() -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    ds = weir.from_pandas(pd.DataFrame({"a": [1, 2], "s": pd.Series(["x", None], dtype="string")}))
    assert ds.schema().types == [pa.int64(), pa.string()]
    assert ds.take_all() == [{"a": 1, "s": "x"}, {"a": 2, "s": None}]
    assert ds.to_pandas()["s"].dtype == "string"


def test_frames_become_one_with_a_new_index() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2]})
    assert list(weir.from_pandas([frame, frame]).to_pandas().index) == [0, 1, 2, 3]
    named = pd.DataFrame({"a": [1, 2]}, index=["p", "q"])
    assert list(weir.from_pandas(named).to_pandas().index) == ["p", "q"]


def test_no_batch_format_gives_what_was_given() -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    assert isinstance(next(iter(weir.from_pandas(pd.DataFrame({"a": [1]})).iter_batches(batch_format=None))), pd.DataFrame)
    assert isinstance(next(iter(weir.range(1).iter_batches(batch_format=None))), pa.Table)


@pytest.mark.parametrize("dtype, expected", [("Int32", "int32"), ("Float64", "double"), ("boolean", "bool"), ("string", "string"), ("int8", "int8")])
def test_a_schema_of_pandas_types_has_arrow_types(dtype: str, expected: str) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")

    class Base:
        names = ["a"]
        types = [pd.Series([], dtype=dtype).dtype]

    assert [str(t) for t in weir.Schema(Base()).types] == [expected]


def test_a_schema_keeps_its_types_when_it_travels() -> None:
    pa = pytest.importorskip("pyarrow")
    schema = weir.from_arrow(pa.table({"a": [1], "l": [[1.0]]})).schema()
    there = pickle.loads(pickle.dumps(schema))
    assert there == schema and there.types == [pa.int64(), pa.list_(pa.float64())]


def test_options_of_csv_that_only_pyarrow_has(tmp_path: Path) -> None:
    csv = pytest.importorskip("pyarrow.csv")
    path = tmp_path / "a.csv"
    path.write_text("done,n\nyes,1\nno,2\nthis row has one value\n")
    parse = csv.ParseOptions(invalid_row_handler=lambda row: "skip")
    convert = csv.ConvertOptions(true_values=["yes"], false_values=["no"])
    ds = weir.read_csv(str(path), parse_options=parse, convert_options=convert, include_paths=True)
    assert ds.take_all() == [{"done": True, "n": 1, "path": str(path)}, {"done": False, "n": 2, "path": str(path)}]
    assert ds.input_files() == [str(path)]
    with pytest.raises(ValueError, match="Failed to read CSV file"):
        weir.read_csv(str(path), convert_options=convert).take_all()


def test_encodings_that_only_python_has(tmp_path: Path) -> None:
    csv = pytest.importorskip("pyarrow.csv")
    (tmp_path / "a.txt").write_bytes("你好\r\n\n世界".encode("gbk"))
    (tmp_path / "a.csv").write_bytes("a\n你好\n".encode("gbk"))
    assert weir.read_text(str(tmp_path / "a.txt"), encoding="gbk").take_all() == [{"text": "你好"}, {"text": "世界"}]
    kept = weir.read_text(str(tmp_path / "a.txt"), encoding="gbk", drop_empty_lines=False)
    assert [row["text"] for row in kept.take_all()] == ["你好", "", "世界"]
    assert weir.read_csv(str(tmp_path / "a.csv"), read_options=csv.ReadOptions(encoding="gbk")).take_all() == [{"a": "你好"}]


@pytest.mark.parametrize(
    "made, blocks",
    [
        (lambda: weir.range(10, override_num_blocks=5), 5),
        (lambda: weir.from_items([1, 2, 3], override_num_blocks=3), 3),
        (lambda: weir.range(4, override_num_blocks=2).union(weir.range(4, override_num_blocks=3)), 5),
        (lambda: weir.range(20, override_num_blocks=10).repartition(3, keys=["id"]), 3),
    ],
)
def test_what_suites_ask_of_plans(made: Any, blocks: int) -> None:
    ds = made()
    assert ds._logical_plan.initial_num_blocks() == blocks
    assert len(ds._block_num_rows()) == blocks
    assert ds._has_computed_output() == isinstance(ds, weir.MaterializedDataset)
    pytest.importorskip("pyarrow")
    assert len(ds._execute().blocks) == blocks


def test_a_union_of_cut_inputs_has_all_rows_and_blocks() -> None:
    ds = weir.range(4, override_num_blocks=2).union(weir.range(4, override_num_blocks=3), weir.range(2, override_num_blocks=1))
    assert [row["id"] for row in ds.take_all()] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert ds._block_num_rows() == [2, 2, 1, 1, 2, 2]
    mixed = weir.range(4, override_num_blocks=2).union(weir.range(4).filter(lambda row: row["id"] % 2))
    assert [row["id"] for row in mixed.take_all()] == [0, 1, 2, 3, 1, 3]
    assert mixed.materialize().count() == mixed.count() == 6


def test_a_folder_without_files_is_refused_at_the_call(tmp_path: Path) -> None:
    (tmp_path / "_hidden.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="No files found"):
        weir.read_csv(str(tmp_path))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_text("a\n1\n")
    assert weir.read_csv(str(tmp_path)).take_all() == [{"a": 1}]
    with pytest.raises(ValueError, match=r"No input files found to read with the following file extensions: \['txt'\]"):
        weir.read_csv(str(tmp_path), file_extensions=["txt"])


def test_paths_to_skip(tmp_path: Path) -> None:
    a, b, gone = (tmp_path / f"{name}.parquet" for name in ("a", "b", "gone"))
    for path, first in ((a, 0), (b, 10)):
        weir.from_items([{"id": first}, {"id": first + 1}], override_num_blocks=1).write_parquet(str(tmp_path / "out"), mode="overwrite")
        next((tmp_path / "out").glob("*.parquet")).rename(path)
    (tmp_path / "out").rmdir()
    for skip in (b, str(b), [b, gone], [str(b)]):
        assert weir.read_parquet(str(tmp_path), skip_paths=skip).take_all() == [{"id": 0}, {"id": 1}]
    assert weir.read_parquet([str(a), str(gone)], skip_paths=gone).count() == 2
    with pytest.raises(FileNotFoundError):
        weir.read_parquet([str(a), str(gone)])


def test_a_read_of_texts_shows_its_column(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    assert "schema={text: string}" in repr(weir.read_text(str(tmp_path)))
    assert "schema={bytes: binary, path: string}" in repr(weir.read_binary_files(str(tmp_path), include_paths=True))


@pytest.mark.parametrize("field, value", [("scheduling_strategy", "DEFAULT"), ("large_args_threshold", 1), ("write_file_retry_on_errors", [])])
def test_fields_that_will_go_away_say_so(field: str, value: Any) -> None:
    context = weir.DataContext()
    with pytest.warns(DeprecationWarning, match=field):
        setattr(context, field, value)
    assert getattr(context, field) == value


def test_the_old_name_of_a_shuffle() -> None:
    from weir.context import ShuffleStrategy

    assert ShuffleStrategy.HASH_SHUFFLE_V2 is ShuffleStrategy.SHUFFLE_V2
    with pytest.warns(DeprecationWarning, match="hash_shuffle_v2"):
        assert ShuffleStrategy("hash_shuffle_v2") is ShuffleStrategy.SHUFFLE_V2


def test_file_systems_of_this_machine(tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    folder = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    weir.range(4, override_num_blocks=2).write_csv("out", filesystem=folder)
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert sorted(row["id"] for row in weir.read_csv("out", filesystem=folder).take_all()) == [0, 1, 2, 3]
    fsspec = pytest.importorskip("fsspec")
    for local in (fsspec.filesystem("file"), fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem("file")))):
        assert weir.read_csv(str(tmp_path / "out"), filesystem=local).count() == 4
        assert weir.read_text(str(tmp_path / "out"), filesystem=local, encoding="cp1252").count() == 6
    below = fsspec.filesystem("dir", path=str(tmp_path), target_protocol="file")
    assert weir.read_csv("out", filesystem=below).count() == 4
    weir.range(3).write_json("more", filesystem=below)
    assert weir.read_json(str(tmp_path / "more")).count() == 3


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    """A file system that no other process sees."""
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("pyarrow.fs")
    system = fsspec.filesystem("memory")
    system.pipe("/six/a/year=1/x.csv", b"n\n1\n2\n")
    system.pipe("/six/a/year=2/y.csv", b"n\n3\n")
    yield system
    system.rm("/six", recursive=True)


def test_reads_of_other_file_systems(elsewhere: Any) -> None:
    from pyarrow import csv, fs

    for given in (elsewhere, fs.PyFileSystem(fs.FSSpecHandler(elsewhere)), fs.SubTreeFileSystem("/", fs.PyFileSystem(fs.FSSpecHandler(elsewhere)))):
        assert [(r["n"], r["year"]) for r in weir.read_csv("six/a", filesystem=given).take_all()] == [(1, "1"), (2, "1"), (3, "2")]
    ds = weir.read_csv("/six/a", filesystem=elsewhere, include_paths=True)
    assert ds.input_files() == ["/six/a/year=1/x.csv", "/six/a/year=2/y.csv"] == [*dict.fromkeys(r["path"] for r in ds.take_all())]
    by_arrow = weir.read_csv("memory://six/a", filesystem=elsewhere, include_paths=True, read_options=csv.ReadOptions(skip_rows_after_names=1))
    assert by_arrow.take_all() == [{"n": 2, "year": "1", "path": "/six/a/year=1/x.csv"}]
    assert weir.read_text(["/six/a/year=2/y.csv"], filesystem=elsewhere, encoding="cp1252").take_all() == [{"text": "n"}, {"text": "3"}]
    with pytest.raises(FileNotFoundError, match="six/b: .* in MemoryFileSystem"):
        weir.read_csv("six/b", filesystem=elsewhere)
    assert weir.read_csv(["six/b", "six/a"], filesystem=elsewhere, ignore_missing_paths=True).count() == 3
    with pytest.raises(ValueError, match="pyarrow.fs or fsspec"):
        weir.read_csv("six/a", filesystem=object())
    elsewhere.rm("/six/a/year=2/y.csv")
    elsewhere.pipe("/six/a/year=1/x.csv", b"n\n7\n8\n")
    assert [r["n"] for r in weir.read_csv("six/a", filesystem=elsewhere).take_all()] == [7, 8]


def test_copies_of_a_process_that_was_killed(tmp_path: Path) -> None:
    pytest.importorskip("fsspec"), pytest.importorskip("pyarrow")
    text = """
        import os, signal, sys
        import fsspec, weir
        weir.init(spill_dir=sys.argv[1])
        system = fsspec.filesystem("memory")
        system.pipe("/a.csv", b"n\\n1\\n")
        weir.read_csv("/a.csv", filesystem=system).take_all()
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        print(len(os.listdir(sys.argv[1])))
    """
    (tmp_path / "spill").mkdir()
    assert Program(tmp_path, text, tmp_path / "spill", "killed").wait(60)[2] == -9
    assert len(os.listdir(tmp_path / "spill")) == 1
    assert output(tmp_path, text, tmp_path / "spill", "ends") == "1\n"  # its own, and not the other's
    assert os.listdir(tmp_path / "spill") == []


def test_writes_to_other_file_systems(elsewhere: Any) -> None:
    np = pytest.importorskip("numpy")
    ds = weir.range(6, override_num_blocks=2)
    for kind in ("parquet", "csv", "json"):
        getattr(ds, f"write_{kind}")(f"six/{kind}", filesystem=elsewhere)
        assert len(elsewhere.find(f"/six/{kind}")) == 2
        assert sorted(r["id"] for r in getattr(weir, f"read_{kind}")(f"six/{kind}", filesystem=elsewhere).take_all()) == list(range(6))
    ds.write_parquet("six/parquet", filesystem=elsewhere)
    assert len(elsewhere.find("/six/parquet")) == 4
    ds.write_parquet("six/parquet", filesystem=elsewhere, mode="overwrite", partition_cols=None)
    ds.write_parquet("six/parquet", filesystem=elsewhere, mode="ignore")
    assert len(elsewhere.find("/six/parquet")) == 2
    with pytest.raises(ValueError, match="already exists"):
        ds.write_parquet("six/parquet", filesystem=elsewhere, mode="error")
    weir.from_numpy(np.ones((3, 2))).write_numpy("six/npy", filesystem=elsewhere, column="data")
    assert weir.read_numpy("six/npy", filesystem=elsewhere).take_batch()["data"].shape == (3, 2)

    def fails(row: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("out of luck")

    with pytest.raises(ValueError, match="out of luck"):
        ds.map(fails).write_csv("six/none", filesystem=elsewhere)
    assert not elsewhere.exists("/six/none")


def test_expressions_of_partitions() -> None:
    pytest.importorskip("pyarrow")
    parser = weir.PathPartitionParser.of("hive", field_types={"year": int})
    for path, expected in (("in/year=2024/a.csv", True), ("in/year=2023/a.csv", False), ("in/a.csv", False), ("in/month=1/a.csv", True)):
        assert parser.evaluate_predicate_on_partition(path, weir.col("year") > 2023) is expected


def test_bytes_in_parquet_that_are_tensors(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    array = np.arange(12, dtype="int16").reshape(3, 2, 2)
    weir.from_items([{"id": i, "t": array[i].tobytes()} for i in range(3)]).write_parquet(str(tmp_path))
    ds = weir.read_parquet(str(tmp_path), tensor_column_schema={"t": (np.int16, (2, 2))})
    assert "ArrowTensorTypeV2(shape=(2, 2), dtype=int16)" in str(ds.schema())
    assert all(np.array_equal(row["t"], array[row["id"]]) for row in ds.take_all())
    doubled = weir.read_parquet(str(tmp_path), columns=["id"], _block_udf=lambda table: table.append_column("n", table["id"]))
    assert doubled.take(1) == [{"id": 0, "n": 0}]


def test_a_schema_to_write_with(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    schema = pa.schema({"id": pa.float32()})
    ds = weir.range(3)
    ds.write_parquet(str(tmp_path), schema=schema)
    assert pq.read_table(str(tmp_path)).schema == schema
    assert "Operator 1 ReadRange" in ds.stats()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd"])
def test_small_files_have_the_codec_that_was_asked_for(tmp_path: Path, codec: str) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    weir.range(1).write_parquet(str(tmp_path), compression=codec)
    file = pq.ParquetFile(next(tmp_path.glob("*.parquet")))
    assert file.metadata.row_group(0).column(0).compression == codec.upper()
    assert file.read().to_pydict() == {"id": [0]}


def test_names_of_files_that_are_added_tell_writes_apart(tmp_path: Path) -> None:
    class Named(weir.datasource.FilenameProvider):
        def __init__(self, has_id: bool) -> None:
            self.has_id = has_id

        def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
            return f"part-{write_uuid if self.has_id else ''}-{task_index}.parquet"

    with pytest.raises(ValueError, match="Write UUID.*missing from filename template"):
        weir.range(1).write_parquet(str(tmp_path / "a"), filename_provider=Named(False))
    for mode, has_id in (("overwrite", False), ("append", True), ("append", True)):
        weir.range(1).write_parquet(str(tmp_path / "a"), filename_provider=Named(has_id), mode=mode)
    assert weir.read_parquet(str(tmp_path / "a")).count() == 3


def test_given_rows_are_operator_0_of_stats() -> None:
    text = weir.from_items([{"a": i} for i in range(50)]).map(lambda row: row).filter(lambda row: row["a"] > 3).materialize().stats()
    assert text.startswith("Operator 0 FromItems: 1 tasks executed, 50 blocks produced") and "\nOperator 1 Map(<lambda>)->Filter(<lambda>): " in text
    assert weir.range(3).materialize().stats().startswith("Operator 1 ReadRange")


def test_a_range_of_1e3() -> None:
    assert weir.range(1e3).count() == 1000  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        weir.range(1.5)  # type: ignore[arg-type]


def test_partitions_that_the_file_has_too(tmp_path: Path) -> None:
    csv = pytest.importorskip("pyarrow.csv")
    (tmp_path / "month=01").mkdir()
    path = tmp_path / "month=01" / "a.csv"
    only_pyarrow = csv.ConvertOptions(true_values=["yes"])
    path.write_text("a,month\n1,1\n2,\n")
    assert [row["month"] for row in weir.read_csv(str(path), convert_options=only_pyarrow).take_all()] == [1, 1]
    path.write_text("a,month\n1,2\n")
    with pytest.raises(ValueError, match="Partition column month"):
        weir.read_csv(str(path), convert_options=only_pyarrow).take_all()


def test_a_path_that_is_a_folder_has_partitions(tmp_path: Path) -> None:
    parser = weir.PathPartitionParser.of("hive", base_dir=str(tmp_path))
    assert parser(f"{tmp_path}/a/year=3/") == {"year": "3"} and parser(f"{tmp_path}/a/year=3") == {}
    assert weir.Partitioning("dir").field_names is None
    for make in (lambda: weir.PathPartitionParser.of("dir"), lambda: weir.read_csv(str(tmp_path), partitioning=weir.Partitioning("dir"))):
        with pytest.raises(ValueError, match="field_names"):
            make()


def test_a_lineage_that_came_back_is_another_dataset() -> None:
    ds = weir.range(3)
    there = weir.Dataset.deserialize_lineage(ds.serialize_lineage())
    assert there.get_dataset_id() != ds.get_dataset_id() and there.count() == 3


def test_columns_of_a_frame_are_selected_by_name() -> None:
    pd = pytest.importorskip("pandas")
    block = weir.block.BlockAccessor.for_block(pd.DataFrame({"a": [1], "b": [2]}))
    assert list(block.select(["b"]).columns) == ["b"]
    with pytest.raises(ValueError):
        block.select([lambda row: row, "b"])  # type: ignore[list-item]


def test_parquet_is_read_with_a_schema(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "c=1").mkdir()
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "c=1" / "1.parquet")
    pq.write_table(pa.table({"a": [3], "b": ["z"], "d": [1.5]}), tmp_path / "c=1" / "2.parquet")

    ds = weir.read_parquet(str(tmp_path), schema=pa.schema([("b", pa.large_string()), ("a", pa.int32()), ("q", pa.float32())]))
    assert (ds.schema().names, ds.schema().types) == (["b", "a", "q", "c"], [pa.large_string(), pa.int32(), pa.float32(), pa.string()])
    assert sorted(ds.take_all(), key=lambda row: int(row["a"]))[2] == {"b": "z", "a": 3, "q": None, "c": "1"}

    numbers = pa.schema([("d", pa.float64()), ("c", pa.int64())])
    assert weir.read_parquet(str(tmp_path), schema=numbers, include_paths=True).columns() == ["d", "c", "path"]
    assert sorted(row["c"] for row in weir.read_parquet(str(tmp_path), schema=numbers, columns=["c"]).take_all()) == [1, 1, 1]
    with pytest.raises(Exception, match="cannot be cast to int64"):
        weir.read_parquet(str(tmp_path), schema=pa.schema([("b", pa.int64())])).take_all()
    with pytest.raises(ValueError, match="pyarrow.Schema"):
        weir.read_parquet(str(tmp_path), schema={"a": "int32"})


def test_tensors_of_different_shapes_in_a_frame() -> None:
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from weir.extensions import TensorArray, TensorDtype

    arrays = [np.arange(n * n).reshape(n, n) for n in (2, 3, 4)]
    given = pd.DataFrame({"n": [2, 3, 4], "t": TensorArray(arrays)})
    cast = pd.DataFrame({"n": [2, 3, 4], "t": arrays})
    cast["t"] = cast["t"].astype(TensorDtype(None, np.int64))
    for frame in (given, cast):
        ds = weir.from_pandas(frame)
        for row, array in zip(ds.take_all(), arrays, strict=True):
            np.testing.assert_array_equal(row["t"], array)
        more = ds.map_batches(lambda f: f + 1, batch_size=2, batch_format="pandas").take_all()
        for row, array in zip(more, arrays, strict=True):
            np.testing.assert_array_equal(row["t"], array + 1)


@pytest.mark.parametrize("shape", [(2, 0), (2, 5, 0), (2, 0, 3), (0, 5), (0, 0)])
@pytest.mark.parametrize("name", ["V1", "V2", "ARROW_NATIVE"])
def test_tensors_without_elements_keep_their_shape(name, shape):
    np = pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    from weir.extensions import ArrowTensorArray, FixedShapeTensorFormat

    with weir.DataContext.current(weir.DataContext(arrow_fixed_shape_tensor_format=FixedShapeTensorFormat[name])):
        made = ArrowTensorArray.from_numpy(np.empty(shape, dtype=np.int8))
        assert len(made) == shape[0] and made.to_numpy_ndarray().shape == shape


@pytest.mark.parametrize("name", ["V1", "V2", "ARROW_NATIVE"])
def test_a_schema_of_tensors_is_in_the_chosen_format(name: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    from weir.extensions import FixedShapeTensorFormat, create_arrow_fixed_shape_tensor_type

    context = weir.DataContext.get_current()
    before = context.arrow_fixed_shape_tensor_format
    context.arrow_fixed_shape_tensor_format = FixedShapeTensorFormat[name]
    try:
        kind = create_arrow_fixed_shape_tensor_type((3, 5), pa.int64())
        schema = weir.range_tensor(6, shape=(3, 5)).schema()
        assert schema == weir.Schema(pa.schema([("data", kind)]))
        assert schema.types == [kind] and str(kind) in str(schema)
    finally:
        context.arrow_fixed_shape_tensor_format = before


def test_what_a_function_yields_for_a_batch_is_one_block() -> None:
    def columns(batch: Any) -> Any:
        yield {"a": [1]}
        yield {"b": [2]}

    def structs(batch: Any) -> Any:
        yield {"d": [{"a": 1, "b": "x"}]}
        yield {"d": [{"a": 1.5, "c": 3}]}

    def numbers(batch: Any) -> Any:
        yield {"x": [None]}
        yield {"x": [1]}

    def others(batch: Any) -> Any:
        yield {"x": [1]}
        yield {"x": ["one"]}
        yield {"x": ["two"]}

    one = weir.range(1)
    assert one.map_batches(columns).take_all() == [{"a": 1, "b": None}, {"a": None, "b": 2}]
    assert one.map_batches(structs).take_all() == [{"d": {"a": 1.0, "b": "x", "c": None}}, {"d": {"a": 1.5, "b": None, "c": 3}}]
    assert one.map_batches(columns).materialize().num_blocks() == 1
    assert str(one.map_batches(numbers).schema().types[0]) == "int64"
    assert one.map_batches(others).take_all() == [{"x": 1}, {"x": "one"}, {"x": "two"}]  # no type holds both: as they are


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow", "numpy"])
def test_blocks_of_differently_shaped_tensors_in_one_batch(batch_format: str) -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    arrays = [np.arange(n * n).reshape(n, n) for n in (2, 3, 4)]
    ds = weir.range(3, override_num_blocks=3).map_batches(lambda batch: {"t": [arrays[batch["id"][0]]]}).materialize()
    (batch,) = ds.iter_batches(batch_size=3, batch_format=batch_format)
    found = batch["t"].to_pylist() if batch_format == "pyarrow" else list(batch["t"])
    for one, array in zip(sorted(found, key=len), arrays, strict=True):
        np.testing.assert_array_equal(one, array)
    for row, array in zip(sorted(ds.to_pandas()["t"], key=len), arrays, strict=True):
        np.testing.assert_array_equal(row, array)
