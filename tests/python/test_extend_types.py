"""The classes of weir.extensions: tensors and Python objects in pandas and pyarrow. Answers are Ray 2.60's."""
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weir

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

from weir.block import BlockAccessor
from weir.extensions import (ArrowConversionError, ArrowPythonObjectArray, ArrowPythonObjectType, ArrowTensorArray,
                             ArrowTensorType, ArrowTensorTypeV2, ArrowVariableShapedTensorArray, ArrowVariableShapedTensorType,
                             FixedShapeTensorFormat, PythonObjectArray, TensorArray, TensorArrayElement, TensorDtype,
                             column_needs_tensor_extension, create_arrow_fixed_shape_tensor_type, create_ragged_ndarray,
                             get_arrow_extension_tensor_types)

import pyarrow.parquet as pq


@pytest.mark.parametrize("kind, text, name, storage, metadata", [
    (ArrowTensorType((2, 3), pa.float32()), "ArrowTensorType(shape=(2, 3), dtype=float)", "ray.data.arrow_tensor",
     pa.list_(pa.float32()), b"[2, 3]"),
    (ArrowTensorTypeV2((2, 3), pa.int64()), "ArrowTensorTypeV2(shape=(2, 3), dtype=int64)", "ray.data.arrow_tensor_v2",
     pa.large_list(pa.int64()), b"[2, 3]"),
    (ArrowVariableShapedTensorType(pa.float32(), 2), "ArrowVariableShapedTensorType(ndim=2, dtype=float)",
     "ray.data.arrow_variable_shaped_tensor",
     pa.struct([("data", pa.large_list(pa.float32())), ("shape", pa.list_(pa.int64()))]), b"2"),
    (ArrowPythonObjectType(), "extension<ray.data.arrow_pickled_object<ArrowPythonObjectType>>",
     "ray.data.arrow_pickled_object", pa.large_binary(), b"")], ids=["v1", "v2", "variable", "object"])
def test_types_are_rays(kind, text, name, storage, metadata):
    assert str(kind) == text and kind.extension_name == name
    assert kind.storage_type == storage and kind.__arrow_ext_serialize__() == metadata
    assert pickle.loads(pickle.dumps(kind)) == kind and hash(pickle.loads(pickle.dumps(kind))) == hash(kind)
    assert type(kind).__arrow_ext_deserialize__(storage, metadata) == kind


def test_types_differ():
    assert ArrowTensorTypeV2((2,), pa.int64()) != ArrowTensorTypeV2((3,), pa.int64())
    assert ArrowTensorTypeV2((2,), pa.int64()) != ArrowTensorType((2,), pa.int64())
    assert ArrowVariableShapedTensorType(pa.int64(), 1) == ArrowVariableShapedTensorType(pa.int64(), 2)
    assert ArrowTensorTypeV2((2, 3), pa.int64()).to_pandas_dtype() == TensorDtype((2, 3), np.int64)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "float64", "bool", "<U3", "datetime64[ns]"])
def test_arrays_of_one_shape(dtype):
    array = np.arange(12).reshape(3, 2, 2).astype(dtype)
    made = ArrowTensorArray.from_numpy(array)
    assert isinstance(made, ArrowTensorArray) and made.type.shape == (2, 2) and len(made) == 3
    assert made.to_numpy().dtype == array.dtype and (made.to_numpy() == array).all()
    assert (made[1].as_py() == array[1]).all() and (made[1:].to_numpy() == array[1:]).all()
    assert (np.stack(made.to_pylist()) == array).all()


def test_other_arrays():
    assert ArrowTensorArray.from_numpy(np.arange(3)).type == pa.int64()
    ragged = ArrowTensorArray.from_numpy([np.ones((1, 2)), np.zeros((2, 2))])
    assert isinstance(ragged, ArrowVariableShapedTensorArray) and ragged.type.ndim == 2
    assert [a.tolist() for a in ragged.to_numpy()] == [[[1, 1]], [[0, 0], [0, 0]]]
    assert ragged[1:].to_numpy()[0].shape == (2, 2)
    wide = ArrowTensorArray.from_numpy(np.ones((2, 3))).to_var_shaped_tensor_array(ndim=2)
    assert [a.shape for a in wide.to_numpy()] == [(1, 3), (1, 3)]
    with pytest.raises(ValueError, match="number of dimensions"):
        ArrowVariableShapedTensorArray.from_numpy([np.ones(2), np.ones((2, 2))])
    with pytest.raises(ValueError, match="empty"):
        ArrowVariableShapedTensorArray.from_numpy([])
    with pytest.raises(ValueError, match="ndarray"):
        ArrowTensorArray.from_numpy("abc")
    with pytest.raises(ArrowConversionError):
        ArrowTensorArray.from_numpy(np.array([object(), object()], dtype=object).reshape(2, 1))


def test_formats():
    assert [f.value for f in FixedShapeTensorFormat] == ["v1", "v2", "native"]
    assert [f.to_type() for f in FixedShapeTensorFormat] == [ArrowTensorType, ArrowTensorTypeV2, pa.FixedShapeTensorType]
    assert create_arrow_fixed_shape_tensor_type((2,), pa.int64()) == ArrowTensorTypeV2((2,), pa.int64())
    assert get_arrow_extension_tensor_types() == (ArrowTensorType, ArrowTensorTypeV2, pa.FixedShapeTensorType,
                                                  ArrowVariableShapedTensorType)


def test_objects():
    values = [{1, 2}, None, 2**70, "x"]
    made = ArrowPythonObjectArray.from_objects(values)
    assert made.to_pylist() == values and made.to_numpy().tolist() == values
    column = PythonObjectArray(values)
    assert pd.Series(column).tolist() == values and column.isna().tolist() == [False, True, False, False]
    assert str(column.dtype) == "python_object()" and pa.array(column).type == ArrowPythonObjectType()
    assert column.take([3, -1], allow_fill=True)[0] == "x" and len(column[1:]) == 3
    frame = pd.DataFrame({"o": column})
    assert pa.Table.from_pandas(frame).to_pandas()["o"].tolist() == values
    assert pd.concat([frame, frame]).shape == (8, 1)


def test_ragged():
    made = create_ragged_ndarray([np.zeros((3, 1)), np.zeros((3, 2))])
    assert made.dtype == object and made.shape == (2,) and made[1].shape == (3, 2)
    assert create_ragged_ndarray([np.zeros((3, 1))])[0].dtype == np.float64


# ---- pandas ----


@pytest.fixture
def column():
    return TensorArray(np.arange(12).reshape(3, 2, 2))


def test_a_column(column):
    series = pd.Series(column)
    assert str(series.dtype) == "TensorDtype(shape=(2, 2), dtype=int64)"
    assert str(series).splitlines()[:3] == ["0    [[ 0,  1], [ 2,  3]]", "1    [[ 4,  5], [ 6,  7]]", "2    [[ 8,  9], [10, 11]]"]
    assert isinstance(series[0], TensorArrayElement) and series[0].to_numpy().tolist() == [[0, 1], [2, 3]]
    assert series[1:].array.to_numpy().tolist() == column.to_numpy()[1:].tolist()
    assert series[[True, False, True]].shape == (2,)
    assert column.nbytes == 96 and column.numpy_shape == (3, 2, 2) and column.numpy_dtype == np.int64
    assert series.isna().tolist() == [False] * 3
    assert pd.isna(pd.Series(TensorArray(np.array([[1.0, np.nan], [np.nan, np.nan]])))).tolist() == [False, True]


def test_arithmetic(column):
    assert (column + 1).to_numpy().tolist() == (np.arange(12).reshape(3, 2, 2) + 1).tolist()
    assert (2 * column).to_numpy()[2, 1, 1] == 22 and (column - column).to_numpy().sum() == 0
    assert (column > 3).to_numpy().sum() == 8 and (column == column).all()
    assert np.sqrt(column).to_numpy()[1, 0, 0] == 2.0
    frame = pd.DataFrame({"t": column})
    assert (frame["t"] + frame["t"]).array.to_numpy()[0].tolist() == [[0, 2], [4, 6]]
    assert frame["t"].sum().to_numpy().tolist() == [[12, 15], [18, 21]]
    assert frame["t"].mean().to_numpy().tolist() == [[4, 5], [6, 7]]
    assert float(TensorArray(np.array([3.5]))[0:1].to_numpy()[0]) == 3.5
    with pytest.raises((NotImplementedError, TypeError)):
        frame["t"].kurt()


def test_moving_rows(column):
    frame = pd.DataFrame({"t": column, "k": [2, 0, 1]})
    assert frame.sort_values("k")["t"].array.to_numpy()[:, 0, 0].tolist() == [4, 8, 0]
    assert pd.concat([frame, frame])["t"].array.numpy_shape == (6, 2, 2)
    assert frame.reindex([0, 5])["t"].isna().tolist() == [False, True]
    changed = frame.copy()
    changed.loc[0, "t"] = 7
    assert changed["t"].array.to_numpy()[0].tolist() == [[7, 7], [7, 7]]
    assert frame["t"].array.to_numpy()[0].tolist() == [[0, 1], [2, 3]]
    assert column.astype(object)[0].tolist() == [[0, 1], [2, 3]] and column.astype(str)[0] == "[[0 1]\n [2 3]]"
    groups = frame.groupby("k")["k"].count()
    assert groups.tolist() == [1, 1, 1]


def test_columns_of_different_shapes():
    made = TensorArray([np.ones(2), np.ones(3)])
    assert made.is_variable_shaped and str(made.dtype) == "TensorDtype(shape=(None,), dtype=float64)"
    assert pa.array(made).type == ArrowVariableShapedTensorType(pa.float64(), 1)
    joined = pd.concat([pd.Series(TensorArray(np.ones((1, 2)))), pd.Series(made)]) if False else TensorArray._concat_same_type(
        [TensorArray(np.ones((1, 2))), made])
    assert [a.shape for a in joined.to_numpy()] == [(2,), (2,), (3,)]


def test_dtypes():
    assert TensorDtype.construct_from_string("TensorDtype(shape=(2, 2), dtype=int64)") == TensorDtype((2, 2), np.int64)
    assert TensorDtype.construct_from_string("numpy.ndarray(shape=(None,), dtype=float32)").is_variable_shaped
    with pytest.raises(TypeError):
        TensorDtype.construct_from_string("int64")
    with pytest.raises(TypeError, match="unsupported element"):
        TensorArray(np.array(["a", 1], dtype=object))
    with pytest.raises(TypeError):
        TensorArray(5)
    assert column_needs_tensor_extension(pd.Series([np.ones(2)])) and not column_needs_tensor_extension(pd.Series([1]))


def test_through_arrow_and_files(column, tmp_path):
    frame = pd.DataFrame({"t": column, "r": TensorArray([np.ones(1), np.ones(2), np.ones(3)])})
    table = pa.Table.from_pandas(frame)
    back = table.to_pandas()
    assert back.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    assert (back["t"].array.to_numpy() == column.to_numpy()).all()
    pq.write_table(table, tmp_path / "t.parquet")
    read = pq.read_table(tmp_path / "t.parquet")
    assert read.schema.field("t").type == ArrowTensorTypeV2((2, 2), pa.int64())
    assert read.to_pandas()["r"].array.to_numpy()[2].tolist() == [1, 1, 1]


# ---- Datasets ----


def test_schemas():
    assert weir.range_tensor(3, shape=(2, 2)).schema().types == [ArrowTensorTypeV2((2, 2), pa.int64())]
    ragged = weir.from_items([{"a": np.ones((1, 2))}, {"a": np.ones((2, 2))}])
    assert repr(ragged.schema().types) == "[ArrowVariableShapedTensorType(ndim=2, dtype=double)]"
    objects = weir.range(1).map_batches(lambda batch: {"o": np.array([2**70], dtype=object)})
    assert objects.schema().types == [ArrowPythonObjectType()]
    for ds in (weir.range_tensor(3), ragged, objects):
        assert repr(ds.schema()).splitlines()[2].split("  ", 1)[1].strip() == str(ds.schema().types[0])


def test_tables_and_frames(column):
    for rows in (pa.Table.from_pandas(pd.DataFrame({"t": column})), pd.DataFrame({"t": column})):
        ds = weir.from_arrow(rows) if isinstance(rows, pa.Table) else weir.from_pandas(rows)
        assert ds.schema().types == [ArrowTensorTypeV2((2, 2), pa.int64())]
        assert ds.take_batch()["t"].shape == (3, 2, 2)
        assert ds.map_batches(lambda t: t.append_column("u", t["t"]), batch_format="pyarrow").take_batch()["u"].shape == (3, 2, 2)
    kept = weir.from_pandas(pd.DataFrame({"t": column})).to_pandas()
    assert kept["t"].dtype == object and kept["t"][1].tolist() == [[4, 5], [6, 7]]
    made = weir.range(2).map_batches(lambda batch: pd.DataFrame({"t": TensorArray(np.ones((len(batch["id"]), 3)))}))
    assert made.schema().types == [ArrowTensorTypeV2((3,), pa.float64())] and made.take(1)[0]["t"].tolist() == [1, 1, 1]
    assert made.take_batch(batch_format="pandas")["t"].dtype == object


def test_ragged_and_objects_through_tables():
    ragged = weir.from_items([{"a": np.ones((1, 2))}, {"a": np.zeros((2, 2))}])
    back = ragged.map_batches(lambda table: table, batch_format="pyarrow").take_all()
    assert [row["a"].tolist() for row in back] == [[[1, 1]], [[0, 0], [0, 0]]]
    objects = weir.range(2).map_batches(lambda batch: {"o": [2**70, 1j]})
    assert [row["o"] for row in objects.map_batches(lambda t: t, batch_format="pyarrow").take_all()] == [2**70, 1j]


def test_nulls_in_tensor_columns():
    kind = ArrowTensorTypeV2((2,), pa.int64())
    column = kind.wrap_array(pa.array([[1, 2], None, [3, 4]], kind.storage_type))
    rows = weir.from_arrow(pa.table({"t": column})).take_all()
    assert rows[1]["t"] is None and rows[2]["t"].tolist() == [3, 4]
    table = weir.from_arrow(pa.table({"t": column})).take_batch(batch_format="pyarrow")
    assert table["t"].null_count == 1 and table["t"].type == kind


@pytest.mark.parametrize("kind", [ArrowTensorType, ArrowTensorTypeV2])
def test_files_of_rays(tmp_path, kind):
    values = np.arange(24, dtype=np.int32)
    from weir.extensions.arrow_tensors import wrapped

    fixed = wrapped(kind((2, 3), pa.int32()), pa.array(values), 4, 6)
    ragged = ArrowVariableShapedTensorArray.from_numpy([np.full((i + 1, 2), i) for i in range(4)])
    pq.write_table(pa.table({"t": fixed, "r": ragged}), tmp_path / "a.parquet")
    ds = weir.read_parquet(str(tmp_path))
    batch = ds.take_batch()
    assert (batch["t"] == values.reshape(4, 2, 3)).all() and [a.shape for a in batch["r"]] == [(1, 2), (2, 2), (3, 2), (4, 2)]
    assert ds.schema().types == [kind((2, 3), pa.int32()), ArrowVariableShapedTensorType(pa.int64(), 2)]
    assert repr(ds.schema()).splitlines()[2].split("  ")[-1].strip() == str(kind((2, 3), pa.int32()))
    assert ds.take(1)[0]["t"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ds.map_batches(lambda b: {"s": b["t"].sum(axis=(1, 2))}).take_batch()["s"].tolist() == [15, 51, 87, 123]


def test_a_file_of_objects_is_not_unpickled(tmp_path):
    column = ArrowPythonObjectArray.from_objects([{1}])
    pq.write_table(pa.table({"o": column}), tmp_path / "a.parquet")
    row = weir.read_parquet(str(tmp_path)).take(1)[0]
    assert isinstance(row["o"], bytes)


def test_nothing_is_loaded_before_it_is_asked_for():
    script = ("import sys, weir.extensions\n"
              "assert 'pandas' not in sys.modules and 'pyarrow' not in sys.modules and 'numpy' not in sys.modules\n"
              "assert 'TensorArray' in weir.extensions.__all__\n")
    subprocess.run([sys.executable, "-c", script], check=True)


# ---- in frames ----

@pytest.mark.parametrize("casts", [True, False])
@pytest.mark.parametrize("shapes", [[(2, 2)] * 3, [(2, 2), (3, 1), (1, 1)]])
def test_tensors_in_frames_are_objects_unless_the_context_wants_them_as_they_are(casts, shapes):
    context = weir.DataContext.get_current()
    before = context.enable_tensor_extension_casting
    given = pd.DataFrame({"n": [1, 2, 3], "t": TensorArray([np.full(shape, i) for i, shape in enumerate(shapes)])})
    kind = np.dtype(object) if casts else TensorDtype
    try:
        context.enable_tensor_extension_casting = casts
        ds = weir.from_pandas(given)
        made = ds.map_batches(lambda frame: pd.DataFrame({"t": frame["t"] + 1, "kind": str(frame["t"].dtype)}), batch_format="pandas")
        frames = [ds.to_pandas(), next(iter(ds.iter_batches(batch_format="pandas"))), made.to_pandas(), weir.from_arrow(ds.to_arrow()).to_pandas()]
        for frame in frames:
            dtype = frame["t"].dtype
            assert dtype == kind if casts else isinstance(dtype, kind)
            assert [np.asarray(value).shape for value in frame["t"]] == shapes
        assert ("object" in frames[2]["kind"].iloc[0]) == casts
    finally:
        context.enable_tensor_extension_casting = before


def test_a_block_of_objects_has_the_size_of_what_they_hold():
    def size(values):
        return BlockAccessor.for_block(pd.DataFrame({"x": pd.Series(values, dtype=object)})).size_bytes()

    texts = [["a" * 1000, "b" * 1000] for _ in range(500)]
    assert 500 * 2000 < size(texts) < 1.2 * 500 * 2000
    assert 500 * 8000 < size([np.zeros(1000) for _ in range(500)]) < 1.1 * 500 * 8000
    assert 500 * 1000 < size([{"k": {"l": b"x" * 1000}} for _ in range(500)]) < 2 * 500 * 1000
    itself = []
    itself.append(itself)
    assert size([]) < 1000 and size([None]) < 1000 and size([itself]) < 1000
