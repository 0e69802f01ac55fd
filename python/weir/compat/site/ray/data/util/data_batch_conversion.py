"""ray.data.util.data_batch_conversion: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.data_batch_conversion weir.constants weir.block weir.ray_types",
    "BatchFormat DataBatchType TENSOR_COLUMN_NAME",
    _convert_batch_type_to_pandas="weir.data_batch_conversion:to_pandas",
    _convert_batch_type_to_numpy="weir.data_batch_conversion:to_numpy",
    _convert_pandas_to_batch_type="weir.data_batch_conversion:of_pandas",
    _cast_ndarray_columns_to_tensor_extension="weir.data_batch_conversion:with_tensors",
    _cast_tensor_columns_to_ndarrays="weir.data_batch_conversion:without_tensors",
)
