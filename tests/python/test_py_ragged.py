"""Tensors of several shapes that meet: in files, in blocks, in unions. Ray Data 2.60 gives variable-shaped ones; a shape of fewer
dimensions gets ones in front there too."""
import numpy as np
import pytest

import weir

RAGGED = "ArrowVariableShapedTensorType(ndim=2, dtype=double)"


def rows(shapes, start=0, dtype=np.float64):
    return [{"i": start + i, "x": np.arange(np.prod(shape), dtype=dtype).reshape(shape) + start} for i, shape in enumerate(shapes)]


def check(ds, expected):
    got = sorted(ds.take_all(), key=lambda row: row["i"])
    assert [row["i"] for row in got] == [row["i"] for row in expected]
    for one, other in zip(got, expected):
        assert one["x"].shape == other["x"].shape and one["x"].dtype == other["x"].dtype
        np.testing.assert_array_equal(one["x"], other["x"])


def kind_of(ds, name="x"):
    schema = ds.schema()
    return str(dict(zip(schema.names, schema.types))[name])


@pytest.mark.parametrize("shapes", [([(2, 2)] * 2, [(3, 2), (1, 2)]), ([(3, 2), (1, 2)], [(2, 2)] * 2), ([(2, 2)] * 2, [(3, 2)] * 2),
                                    ([(2, 3)] * 2, [(3, 2)] * 2)])
def test_parquet_files_of_which_one_has_a_single_shape(tmp_path, shapes):
    pytest.importorskip("pyarrow")
    one, two = rows(shapes[0]), rows(shapes[1], 10)
    weir.from_items(one).write_parquet(str(tmp_path / "a"))
    weir.from_items(two).write_parquet(str(tmp_path / "b"))
    ds = weir.read_parquet([str(tmp_path / "a"), str(tmp_path / "b")])
    assert kind_of(ds) == RAGGED
    check(ds, one + two)
    check(ds.filter(expr="i >= 11 or i == 1"), [one[1], two[1]])
    check(ds.map_batches(lambda batch: batch), one + two)
    check(ds.materialize(), one + two)
    (batch,) = ds.iter_batches(batch_size=None)
    assert batch["x"].dtype == object and len(batch["x"]) == 4


def test_unions_and_blocks(tmp_path):
    one, two, three = rows([(2, 2)] * 3), rows([(2, 5), (1, 1)], 10), rows([(4, 1)] * 2, 20)
    parts = [weir.from_items(part) for part in (one, two, three)]
    ds = parts[0].union(parts[1], parts[2])
    check(ds, one + two + three)
    check(weir.from_items(one).materialize().union(weir.from_items(three).materialize()).sort("i"), one + three)
    check(ds.materialize().repartition(2).materialize(), one + two + three)


def test_fewer_dimensions_get_ones_in_front(tmp_path):
    pytest.importorskip("pyarrow")
    one, two = rows([(4,)] * 2), rows([(3, 2)] * 2, 10)
    weir.from_items(one).write_parquet(str(tmp_path / "a"))
    weir.from_items(two).write_parquet(str(tmp_path / "b"))
    ds = weir.read_parquet([str(tmp_path / "a"), str(tmp_path / "b")])
    assert kind_of(ds) == RAGGED
    check(ds, [{"i": row["i"], "x": row["x"].reshape(1, 4)} for row in one] + two)


def test_files_with_their_own_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    from weir.extensions import ArrowTensorArray, ArrowVariableShapedTensorArray

    one, two, three = rows([(2, 2)] * 2), rows([(3, 2), (1, 2)], 10), rows([(1, 4)] * 2, 20)
    for name, part in (("a", one), ("b", two), ("c", three)):
        values = [row["x"] for row in part]
        if name == "b":
            array = ArrowVariableShapedTensorArray.from_numpy(np.array(values + [None], dtype=object)[:-1])
        else:
            array = ArrowTensorArray.from_numpy(np.stack(values))
        pq.write_table(pa.table({"i": [row["i"] for row in part], "x": array}), tmp_path / f"{name}.parquet")
    for order in ("abc", "cba", "ac"):
        ds = weir.read_parquet([str(tmp_path / f"{name}.parquet") for name in order])
        assert kind_of(ds) == RAGGED
        check(ds, sorted((row for name, part in (("a", one), ("b", two), ("c", three)) if name in order for row in part), key=lambda r: r["i"]))


def test_nulls_stay(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    kind = pa.fixed_shape_tensor(pa.float64(), [2, 2])
    array = pa.ExtensionArray.from_storage(kind, pa.array([[1.0, 2, 3, 4], None], kind.storage_type))
    pq.write_table(pa.table({"i": [0, 1], "x": array}), tmp_path / "a.parquet")
    weir.from_items(rows([(3, 1)] * 2, 10)).write_parquet(str(tmp_path / "b"))
    got = sorted(weir.read_parquet([str(tmp_path / "a.parquet"), str(tmp_path / "b")]).take_all(), key=lambda row: row["i"])
    assert got[0]["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]] and got[1]["x"] is None and got[2]["x"].shape == (3, 1)


def test_numbers_and_tensors_do_not_meet(tmp_path):
    pytest.importorskip("pyarrow")
    weir.from_items(rows([(2, 2)] * 2)).write_parquet(str(tmp_path / "a"))
    weir.from_items([{"i": 10, "x": "text"}]).write_parquet(str(tmp_path / "b"))
    with pytest.raises(weir.exceptions.RayTaskError, match="column x"):
        weir.read_parquet([str(tmp_path / "a"), str(tmp_path / "b")]).take_all()
