"""TorchInference: what map_batches takes of it, and what its steps give each other."""

import logging

import pytest

import weir
import weir.exceptions


def doubled(**more):
    torch = pytest.importorskip("torch")
    from weir.torch_inference import TorchInference

    class Doubled(TorchInference):
        def get_device(self):
            return torch.device("cpu")

        def process_on_device(self, input_batch, collated_tensors, collated_other):
            return {"x": collated_tensors["id"] * 2}

    return type("Doubled", (Doubled,), more)


def test_its_own_call_is_not_used(caplog):
    with caplog.at_level(logging.WARNING, logger="weir"):
        ds = weir.range(2).map_batches(doubled(__call__=lambda self, batch: {"x": [99]}), batch_size=2)
    assert "will not be used directly" in caplog.text
    assert ds.take_all() == [{"x": 0}, {"x": 2}]


def test_what_is_refused_at_the_call():
    async def collate(self, input_batch):
        return input_batch

    with pytest.raises(ValueError, match="takes the class"):
        weir.range(2).map_batches(doubled()(), batch_size=2)
    for more in ({"fn_args": (1,)}, {"fn_kwargs": {"a": 1}}):
        with pytest.raises(ValueError, match="fn_args"):
            weir.range(2).map_batches(doubled(), batch_size=2, **more)
    with pytest.raises(TypeError, match="must not be async"):
        weir.range(2).map_batches(doubled(collate=collate), batch_size=2)


def test_a_pair_is_tensors_and_something_else():
    torch = pytest.importorskip("torch")
    made = doubled(
        process_on_device=lambda self, batch, tensors, other: ({"x": tensors["id"]}, torch.ones(2)),
        finalize=lambda self, batch, tensors, other: {"x": tensors["x"].numpy() + other.numpy()},
    )
    assert weir.range(2).map_batches(made, batch_size=2).take_all() == [{"x": 1.0}, {"x": 2.0}]


def test_finalize_says_what_to_do():
    made = doubled()()
    with pytest.raises(TypeError, match="Override `finalize`"):
        made.finalize({}, {"y": "text"}, None)


def test_blocks_become_pandas_as_the_context_says():
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    context = weir.DataContext.get_current()
    before = context.enable_arrow_backed_pandas_conversion
    accessor = weir.block.BlockAccessor.for_block(pa.table({"x": [1, 2]}))
    try:
        context.enable_arrow_backed_pandas_conversion = False
        assert str(accessor.to_pandas()["x"].dtype) == "int64"
        context.enable_arrow_backed_pandas_conversion = True
        assert str(accessor.to_pandas()["x"].dtype) == "int64[pyarrow]"
    finally:
        context.enable_arrow_backed_pandas_conversion = before


@pytest.mark.same_without
@pytest.mark.parametrize("method, match", [("collate", "Doubled.collate` must return CPU tensors"), ("process_on_device", "must return tensors on `cpu`")])
def test_tensors_are_where_they_have_to_be(method, match):
    torch = pytest.importorskip("torch")

    def elsewhere(self, *given):
        return {"id": torch.zeros(2, device="meta")}

    def no_tensors(self, *given):
        return {"id": [1, 2]}

    for step, found in ((elsewhere, "on `meta`"), (no_tensors, "this is dict")):
        with pytest.raises(ValueError, match=match) as caught:
            weir.range(2).map_batches(doubled(**{method: step}), batch_size=2).take_all()
        assert found in str(caught.value)
