"""ray.data.util.torch_utils: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.torch_utils weir.collate_fn weir.iterator weir.ray_types",
    "arrow_batch_to_tensors concat_tensors_to_device convert_ndarray_batch_to_torch_tensor_batch "
    "convert_ndarray_list_to_torch_tensor_list convert_ndarray_to_torch_tensor convert_table_to_torch_tensor "
    "convert_tensors_to_numpy DEFAULT_TENSOR_NON_BLOCKING_TRANSFER move_tensors_to_device pin_tensors_to_memory "
    "TensorBatchReturnType TensorBatchType",
)
