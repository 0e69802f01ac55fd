"""Tables that other packages keep, MCAP and Zarr. Each test needs its package, which CI does not have; what they share is tested without."""
import os

import numpy as np
import pytest

import weir
from weir import SaveMode, col

ROWS = [{"id": i, "s": f"t{i}"} for i in range(4)]
MORE = {"id": 9, "s": "x", "v": 1.5}


def by_id(ds):
    return sorted(ds.take_all(), key=lambda row: row["id"])


@pytest.mark.parametrize("method, module, package", [
    ("read_lance", "lance", "pylance"), ("read_delta", "deltalake", "deltalake"), ("read_mcap", "mcap", "mcap"), ("read_zarr", "zarr", "zarr")])
def test_packages_that_are_missing_are_named(tmp_path, method, module, package):
    try:
        __import__(module)
    except ImportError:
        (tmp_path / "a.mcap").write_bytes(b"x")
        with pytest.raises(ModuleNotFoundError, match=f"{method} needs the package {package}.*pip install {package}"):
            getattr(weir, method)(str(tmp_path / "a.mcap"))
    else:
        pytest.skip(f"{module} is installed")


@pytest.mark.parametrize("call", [
    lambda: weir.read_delta("a", catalog=object()), lambda: weir.range(1).write_delta("a", catalog=object()),
    lambda: weir.read_iceberg(table_identifier="a.b", catalog=object()), lambda: weir.range(1).write_iceberg("a.b", catalog=object())])
def test_what_is_no_catalog_is_refused(call):
    with pytest.raises(TypeError, match="catalog is a Catalog, with a method resolve"):
        call()


def test_services_are_refused():
    with pytest.raises(NotImplementedError, match="a service that weir does not talk to"):
        weir.range(1).write_lance("a", namespace_impl="rest")


def test_lance(tmp_path):
    pytest.importorskip("lance")
    path = str(tmp_path / "a.lance")
    weir.from_items(ROWS).write_lance(path)
    with pytest.raises(OSError, match="already exists"):
        weir.from_items(ROWS).write_lance(path)
    weir.from_items([{"id": 9, "s": "x"}]).write_lance(path, mode=SaveMode.APPEND)
    ds = weir.read_lance(path)
    assert by_id(ds) == [*ROWS, {"id": 9, "s": "x"}] and ds.count() == 5 and ds.schema().names == ["id", "s"]
    assert by_id(ds.filter(expr="id > 2").select_columns(["id"])) == [{"id": 3}, {"id": 9}]
    assert by_id(weir.read_lance(path, columns=["id"])) == [{"id": i} for i in (0, 1, 2, 3, 9)]
    with pytest.warns(DeprecationWarning, match="Dataset.filter"):
        assert weir.read_lance(path, filter="id > 2").count() == 2
    assert weir.read_lance(path, version=1).count() == 4 and weir.read_lance([path, path]).count() == 10
    assert len(weir.read_lance(path).materialize().get_internal_block_refs()) == 2  # a fragment each
    with pytest.raises(KeyError, match="zz"):
        weir.read_lance(path).select_columns(["zz"]).take_all()
    with pytest.raises(ValueError, match="must not be empty"):
        weir.read_lance([])
    weir.from_items([{"z": 1}]).write_lance(path, mode=SaveMode.OVERWRITE)
    assert weir.read_lance(path).take_all() == [{"z": 1}]
    with pytest.raises(ValueError, match="mode is SaveMode.CREATE, SaveMode.APPEND, SaveMode.OVERWRITE"):
        weir.range(1).write_lance(path, mode=SaveMode.UPSERT)


def test_a_write_that_fails_leaves_the_table(tmp_path):
    pytest.importorskip("lance")
    path = str(tmp_path / "a.lance")
    weir.from_items(ROWS).write_lance(path)
    with pytest.raises(Exception, match="no more"):
        weir.range(100, override_num_blocks=10).map(_fails_late).write_lance(path, mode=SaveMode.OVERWRITE)
    assert by_id(weir.read_lance(path)) == ROWS


def _fails_late(row):
    if row["id"] == 95:
        raise ValueError("no more")
    return row


def test_delta(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "d")
    weir.from_items(ROWS).write_delta(path, name="numbers")
    weir.from_items([MORE]).write_delta(path)  # a new column
    assert by_id(weir.read_delta(path)) == [{**row, "v": None} for row in ROWS] + [MORE]
    assert by_id(weir.read_delta(path, version=0)) == ROWS and by_id(weir.read_delta(path, 1, columns=["id"]))[4] == {"id": 9}
    assert weir.read_delta(path).select_columns(["v"]).sum("v") == 1.5
    with pytest.raises(ValueError, match="has no column 'w'.*schema_mode='error'"):
        weir.from_items([{**MORE, "w": 1}]).write_delta(path, schema_mode="error")
    with pytest.raises(ValueError, match="'id' is int64 in the table, and string here"):
        weir.from_items([{"id": "no", "s": "x"}]).write_delta(path)
    with pytest.raises(ValueError, match="single Delta Lake table"):
        weir.read_delta([path])
    weir.from_items([{"z": 1}]).write_delta(path, mode=SaveMode.OVERWRITE)
    assert weir.read_delta(path).take_all() == [{"z": 1}] and by_id(weir.read_delta(path, version=0)) == ROWS
    weir.from_items([]).write_delta(path)  # nothing to append
    assert weir.read_delta(path).take_all() == [{"z": 1}]
    weir.from_items([]).write_delta(path, mode=SaveMode.OVERWRITE)
    assert weir.read_delta(path).take_all() == [] and [field.name for field in deltalake.DeltaTable(path).schema().fields] == ["z"]
    with pytest.raises(ValueError, match="no rows, and so no columns"):
        weir.from_items([]).write_delta(str(tmp_path / "none"))
    parts = str(tmp_path / "parts")
    weir.from_items(ROWS).write_delta(parts, partition_by=["s"])
    with pytest.raises(ValueError, match="can't change an existing table's partition columns"):
        weir.from_items(ROWS).write_delta(parts, partition_by=["id"])
    for mode in (SaveMode.APPEND, SaveMode.OVERWRITE):
        with pytest.raises(ValueError, match=r"missing partition column\(s\) \['s'\]"):
            weir.from_items([{"id": 1}]).write_delta(parts, mode=mode)
    assert by_id(weir.read_delta(parts)) == ROWS and {"s=t0", "s=t3"} <= set(os.listdir(parts))
    assert by_id(weir.read_delta(parts, include_paths=True))[1]["path"].startswith("s=t1/")  # as Ray Data has it


def test_delta_of_blocks_with_different_columns(tmp_path):
    pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    path = str(tmp_path / "d")
    weir.from_arrow([pa.table({"id": [1], "s": ["a"]}), pa.table({"v": [1.5], "id": [2], "s": ["b"]})]).write_delta(path)
    assert by_id(weir.read_delta(path)) == [{"id": 1, "s": "a", "v": None}, {"id": 2, "s": "b", "v": 1.5}]


def test_iceberg(tmp_path):
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    pa = pytest.importorskip("pyarrow")
    from pyiceberg.catalog import load_catalog

    (tmp_path / "tables").mkdir()
    catalog = {"name": "local", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/tables"}
    tables = load_catalog(**catalog)
    tables.create_namespace("db")
    tables.create_table("db.t", schema=pa.schema([("id", pa.int64()), ("s", pa.string())]))
    weir.from_items(ROWS).write_iceberg("db.t", catalog, snapshot_properties={"by": "a test"})
    weir.from_items([MORE]).write_iceberg("db.t", catalog)

    def read(**more):
        return weir.read_iceberg(table_identifier="db.t", catalog_kwargs=catalog, **more)

    assert by_id(read()) == [{**row, "v": None} for row in ROWS] + [MORE]
    assert by_id(read().filter(col("id") > 2).select_columns(["id"])) == [{"id": 3}, {"id": 9}]
    with pytest.warns(DeprecationWarning):
        assert by_id(read(row_filter="id > 2", selected_fields=("id",))) == [{"id": 3}, {"id": 9}]
    assert read(scan_kwargs={"limit": 2}).count() == 2
    first = tables.load_table("db.t").snapshots()[0]
    assert by_id(read(snapshot_id=first.snapshot_id)) == ROWS and first.summary["by"] == "a test"
    new = {"id": 100, "s": "n", "v": 0.0}
    weir.from_items([new]).write_iceberg("db.t", catalog, mode=SaveMode.OVERWRITE, overwrite_filter=(col("id") >= 2) | col("s").is_null())
    assert [row["id"] for row in by_id(read())] == [0, 1, 100]
    changed = [{"id": 0, "s": "new", "v": 0.0}, {"id": 50, "s": "n", "v": 0.0}]
    weir.from_items(changed).write_iceberg("db.t", catalog, mode=SaveMode.UPSERT, upsert_kwargs={"join_cols": ["id"]})
    assert [(row["id"], row["s"]) for row in by_id(read())] == [(0, "new"), (1, "t1"), (50, "n"), (100, "n")]
    weir.from_items([new]).write_iceberg("db.t", catalog, mode=SaveMode.OVERWRITE)
    assert by_id(read()) == [new]
    with pytest.raises(ValueError, match="no condition that Iceberg knows"):
        weir.from_items([new]).write_iceberg("db.t", catalog, mode=SaveMode.OVERWRITE, overwrite_filter=col("id") + 1 > 2)


@pytest.fixture
def messages(tmp_path):
    pytest.importorskip("mcap")
    from mcap.writer import Writer

    path = tmp_path / "a.mcap"
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.start()
        place = writer.register_schema(name="Place", encoding="jsonschema", data=b"{}")
        image = writer.register_schema(name="Image", encoding="raw", data=b"q")
        places = writer.register_channel(schema_id=place, topic="/place", message_encoding="json")
        images = writer.register_channel(schema_id=image, topic="/image", message_encoding="raw")
        for i in range(4):
            writer.add_message(channel_id=places, log_time=100 - i, data=b'{"x": %d}' % i, publish_time=i, sequence=i)
            writer.add_message(channel_id=images, log_time=50 + i, data=b"\xff%d" % i, publish_time=i, sequence=i)
        writer.finish()
    return str(path)


def test_mcap(messages):
    rows = weir.read_mcap(messages, topics={"/place"}, include_metadata=False).take_all()
    assert rows[0] == {"data": {"x": 3}, "topic": "/place", "log_time": 97, "publish_time": 3, "sequence": 3}
    assert [row["log_time"] for row in rows] == [97, 98, 99, 100]
    (row,) = weir.read_mcap(messages, message_types=["Image"], time_range=(51, 52), include_paths=True).take_all()
    assert row["data"] == b"\xff1" and row["schema_name"] == "Image" and row["message_encoding"] == "raw" and row["path"] == messages
    both = [row["data"] for row in weir.read_mcap(messages, include_metadata=False).take_all()]
    assert both == [b"\xff0", b"\xff1", b"\xff2", b"\xff3", {"x": 3}, {"x": 2}, {"x": 1}, {"x": 0}]
    with pytest.raises(ValueError, match="must be less than"):
        weir.read_mcap(messages, time_range=(5, 3))


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(tmp_path, version):
    zarr = pytest.importorskip("zarr", minversion="3")
    path = str(tmp_path / "a.zarr")
    group = zarr.open_group(path, mode="w", zarr_format=version)
    pictures = np.arange(5 * 2 * 3).reshape(5, 2, 3)
    group.create_array("pictures", shape=(5, 2, 3), chunks=(2, 2, 2), dtype="int64")[:] = pictures
    group.create_array("inner/labels", shape=(5,), chunks=(2,), dtype="int32")[:] = np.arange(5)
    with pytest.raises(ValueError, match="no consolidated metadata.*allow_full_metadata_scan"):
        weir.read_zarr(path)
    rows = weir.read_zarr(path, array_paths=["pictures"]).take_all()
    assert [(row["array"], list(row["chunk_index"])) for row in rows] == [("pictures", [i, 0, j]) for i in range(3) for j in range(2)]
    for row in rows:
        assert np.array_equal(row["chunk"], pictures[tuple(slice(*piece) for piece in row["chunk_slices"])])
    assert {row["array"] for row in weir.read_zarr(path, allow_full_metadata_scan=True).take_all()} == {"pictures", "inner/labels"}
    zarr.consolidate_metadata(path)
    assert weir.read_zarr(path).count() == 9
    assert weir.read_zarr(path, chunk_shapes={"pictures": [5], "inner/labels": [5]}).count() == 3
    aligned = weir.read_zarr(path, align_axis_0=True, overlap=1).take_all()
    assert [(row["t_start"], row["t_stop"]) for row in aligned] == [(0, 2), (2, 4), (4, 5)]
    assert aligned[1]["inner/labels"].tolist() == [2, 3, 4] and np.array_equal(aligned[2]["pictures"], pictures[4:])
    with pytest.raises(ValueError, match="overlap requires align_axis_0"):
        weir.read_zarr(path, overlap=1)
    with pytest.raises(ValueError, match="Unknown array path"):
        weir.read_zarr(path, chunk_shapes={"none": [1]})
    with pytest.raises(ValueError, match="no array 'none'"):
        weir.read_zarr(path, array_paths=["none"])
    with pytest.raises(ValueError, match="share shape|same chunk size"):
        weir.read_zarr(path, align_axis_0=True, chunk_shapes={"pictures": [5]})
