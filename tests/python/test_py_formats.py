"""Batches as NumPy, pandas, pyarrow and torch, and results in these forms."""
import datetime
import decimal
import sys

import numpy as np
import pytest

from weir_functions import CallSpec, arange, batch_of, error_of, rows_of, run

from weir import _formats

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def test_pandas_has_arrow_types():
    batch = batch_of(i=np.arange(3), f=np.array([1.5, np.nan, 2]), s=["a", None, "c"], b=[True, None, False])
    frame = _formats.to_pandas(batch)
    assert [str(t) for t in frame.dtypes] == ["int64[pyarrow]", "double[pyarrow]", "string[pyarrow]", "bool[pyarrow]"]
    assert list(frame.index) == [0, 1, 2]
    plain = _formats.to_pandas(batch, arrow_backed=False)
    assert [str(t) for t in plain.dtypes][:2] == ["int64", "float64"]


def test_dictionaries_become_categories():
    batch = batch_of(c=pa.array(["a", "b", None, "a"]).dictionary_encode())
    frame = _formats.to_pandas(batch)
    assert isinstance(frame["c"].dtype, pd.CategoricalDtype)
    assert list(frame["c"])[:2] == ["a", "b"] and frame["c"].isna().tolist() == [False, False, True, False]


def test_a_column_of_nothing_takes_values_in_pandas():
    import weir

    pytest.importorskip("pandas")
    frame = weir.from_items([{"a": None, "b": 1}, {"a": None, "b": 2}]).to_pandas()
    assert frame["a"].dtype == object and frame["a"].fillna("x").tolist() == ["x", "x"]
    same = weir.from_items([{"a": None}]).map_batches(lambda frame: frame, batch_format="pandas")
    assert same.take_all() == [{"a": None}]


def test_tensors_are_objects_in_pandas():
    images = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frame = _formats.to_pandas(batch_of(image=images, id=np.arange(2)))
    assert frame["image"].dtype == object and list(frame.columns) == ["image", "id"]
    assert np.array_equal(np.stack(list(frame["image"])), images)


def test_pandas_function():
    def f(frame):
        assert isinstance(frame, pd.DataFrame)
        frame["y"] = frame["id"] * 2
        return frame[frame["id"] > 1]
    out = run(CallSpec("map_batches", f, batch_format="pandas"), arange(4))
    assert rows_of(out) == [{"id": 2, "y": 4}, {"id": 3, "y": 6}]


def test_nan_of_pandas_is_null():
    def f(frame):
        return pd.DataFrame({"f": [1.0, np.nan], "o": ["a", np.nan], "t": pd.to_datetime(["2024-01-01", None]),
                             "i": pd.array([1, None], dtype="Int64"), "s": pd.Series(["x", None], dtype="string")})
    out = run(CallSpec("map_batches", f, batch_format="pandas"), arange(4))
    rows = rows_of(out)
    assert rows[1] == {"f": None, "o": None, "t": None, "i": None, "s": None}
    assert rows[0]["f"] == 1.0 and rows[0]["o"] == "a" and rows[0]["i"] == 1 and rows[0]["s"] == "x"
    assert rows[0]["t"] == datetime.datetime(2024, 1, 1)


def test_arrays_in_a_pandas_column():
    def f(frame):
        return pd.DataFrame({"x": [np.zeros((2, 2)), np.ones((2, 2))]})
    out = run(CallSpec("map_batches", f, batch_format="pandas"), arange(2))
    assert np.array_equal(rows_of(out)[1]["x"], np.ones((2, 2)))


def test_wrong_frames():
    def numbers(frame):
        return pd.DataFrame({0: [1]})

    def twice(frame):
        return pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert "column names are str" in error_of(CallSpec("map_batches", numbers, batch_format="pandas"), arange(2))
    assert "several columns of one name" in error_of(CallSpec("map_batches", twice, batch_format="pandas"), arange(2))


@pytest.mark.parametrize("name", ["pyarrow", None])
def test_pyarrow_function(name):
    def f(table):
        assert isinstance(table, pa.Table)
        return table.append_column("s", pa.array(["v"] * table.num_rows))
    out = run(CallSpec("map_batches", f, batch_format=name, batch_size=2), arange(3))
    assert rows_of(out) == [{"id": i, "s": "v"} for i in range(3)]


def test_arrow_results_of_several_batches():
    table = pa.chunked_array([[1, 2], [3]])
    out = run(CallSpec("map_batches", lambda b: pa.table({"x": table})), arange(1))
    assert [row["x"] for row in rows_of(out)] == [1, 2, 3]
    out = run(CallSpec("map_batches", lambda b: {"x": table, "y": pa.array([1, 2, 3])}), arange(1))
    assert rows_of(out) == [{"x": i, "y": i} for i in (1, 2, 3)]
    assert "returned" in error_of(CallSpec("map_batches", lambda b: pa.array([1])), arange(1))


def test_values_of_all_kinds():
    row = {"d": decimal.Decimal("1.50"), "t": datetime.datetime(2024, 1, 2, 3), "date": datetime.date(2024, 1, 2),
           "b": b"\x00\x01", "l": [1, 2], "m": {"k": 1}, "n": None}
    out = run(CallSpec("map", lambda r: dict(row)), arange(2))
    assert rows_of(out) == [row, row]


# ---- torch ----

@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_torch_function(torch):
    def f(batch):
        assert isinstance(batch["id"], torch.Tensor)
        return {"x": batch["id"] * 2, "m": torch.ones(len(batch["id"]), 2, requires_grad=True)}
    out = run(CallSpec("map_batches", f, batch_format="torch", batch_size=2), arange(3))
    assert [row["x"] for row in rows_of(out)] == [0, 2, 4]
    assert np.array_equal(rows_of(out)[0]["m"], np.ones(2, np.float32))


def test_tensors_may_be_written_to_without_a_warning(torch, recwarn):
    batch = batch_of(x=np.arange(4, dtype=np.float64))
    tensors = _formats.to_torch(batch)
    tensors["x"] += 1
    assert tensors["x"].tolist() == [1, 2, 3, 4] and not recwarn.list
    assert batch.numpy()["x"].tolist() == [0, 1, 2, 3]
    assert _formats.to_torch(batch, owned=True)["x"].data_ptr() == batch.numpy()["x"].ctypes.data


def test_what_is_kept_does_not_change_with_its_tensors(torch):
    import weir
    for ds in (weir.range(100).materialize(), weir.from_numpy(np.arange(100)), weir.from_items([{"id": 5}]).limit(1),
               weir.range(100).map_batches(lambda b: b).materialize(), weir.range(100)):
        before = ds.take_all()
        for batch in ds.iter_torch_batches(batch_size=10):
            for tensor in batch.values():
                tensor.add_(1)
        assert ds.take_all() == before


def test_dtypes_are_kept(torch):
    columns = {name: np.arange(2).astype(name) for name in ("float64", "float32", "float16", "int8", "uint8", "int32", "bool")}
    tensors = _formats.to_torch(batch_of(**columns))
    assert {name: str(t.dtype) for name, t in tensors.items()} == {name: f"torch.{name}" for name in columns}
    tensors = _formats.to_torch(batch_of(a=np.arange(2), b=np.arange(2)), dtypes={"a": torch.float16})
    assert (tensors["a"].dtype, tensors["b"].dtype) == (torch.float16, torch.int64)
    assert _formats.to_torch(batch_of(a=[1, None]))["a"].dtype == torch.float64


def test_lists(torch):
    assert _formats.to_torch(batch_of(a=[[1, 2], [3, 4]]))["a"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="collate_fn"):
        _formats.to_torch(batch_of(a=[[1, 2], [3]]))
    with pytest.raises(TypeError, match="'a'"):
        _formats.to_torch(batch_of(a=["x", "y"]))


def test_bfloat16(torch):
    out = run(CallSpec("map_batches", lambda b: {"x": torch.tensor([1.5, 2.5], dtype=torch.bfloat16)}), arange(1))
    assert [row["x"] for row in rows_of(out)] == [1.5, 2.5]


def test_absent_libraries_are_named(monkeypatch):
    batch = arange(2)
    for module, name in (("pandas", "pandas"), ("pyarrow", "pyarrow"), ("torch", "torch")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(ModuleNotFoundError, match=f"needs {module}, which is not installed"):
                _formats.to_format(batch, name)


def test_python_objects_are_not_a_registered_type():
    from weir.extensions import ArrowPythonObjectArray
    array = ArrowPythonObjectArray.from_objects([{1, 2}, None])
    assert array.to_pylist() == [{1, 2}, None]
    with pytest.raises(KeyError):
        pa.unregister_extension_type(array.type.extension_name)
    with pytest.raises(KeyError):
        pa.unregister_extension_type(_formats.PYTHON_OBJECT)
