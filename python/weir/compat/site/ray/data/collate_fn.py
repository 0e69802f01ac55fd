"""ray.data.collate_fn: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.collate_fn weir.iterator weir.ray_types",
    "ArrowBatchCollateFn CollateFn DataBatchType DefaultCollateFn is_tensor_batch_type NumpyBatchCollateFn "
    "PandasBatchCollateFn TensorBatchReturnType TensorBatchType TensorSequenceType",
)
