"""DataContext.enable_tensor_extension_casting: what tensors are in frames."""
from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import weir

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(params=[True, False])
def casts(request: pytest.FixtureRequest) -> Iterator[bool]:
    context = weir.DataContext.get_current()
    context.enable_tensor_extension_casting = request.param
    yield request.param
    context.enable_tensor_extension_casting = True


def kind(column: Any) -> str:
    return type(column.dtype).__name__


def test_frames_of_tensors(casts: bool) -> None:
    from weir.extensions import TensorArray

    wanted = "ObjectDType" if casts else "TensorDtype"
    ds = weir.from_numpy(np.arange(12).reshape(3, 2, 2))
    frame = ds.to_pandas()
    assert kind(frame["data"]) == wanted and np.asarray(frame["data"][1]).shape == (2, 2)
    (batch,) = ds.iter_batches(batch_format="pandas")
    assert kind(batch["data"]) == wanted
    seen = ds.map_batches(lambda frame: frame.assign(kind=type(frame["data"].dtype).__name__), batch_format="pandas").take_all()
    assert [row["kind"] for row in seen] == [wanted] * 3 and seen[2]["data"].tolist() == [[8, 9], [10, 11]]
    given = weir.from_pandas(pd.DataFrame({"t": TensorArray(np.arange(12).reshape(3, 2, 2))}))
    assert kind(given.to_pandas()["t"]) == wanted and kind(given.limit(2).to_pandas()["t"]) == wanted


def test_ragged_ones_and_other_objects(casts: bool) -> None:
    ds = weir.from_items([{"t": np.zeros((2, i + 1)), "o": Fraction(1, i + 1)} for i in range(3)])
    frame = ds.to_pandas()
    assert kind(frame["t"]) == ("ObjectDType" if casts else "TensorDtype") and np.asarray(frame["t"][2]).shape == (2, 3)
    assert kind(frame["o"]) == "ObjectDType" and frame["o"][2] == Fraction(1, 3)


def test_missing_ones_are_objects(casts: bool) -> None:
    ds = weir.from_items([{"t": np.zeros(2)}, {"t": None}])
    assert kind(ds.to_pandas()["t"]) == "ObjectDType"
