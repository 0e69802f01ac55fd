"""ray.data.util.data_batch_conversion: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.data_batch_conversion weir.constants weir.block weir.ray_types",
    "BatchFormat DataBatchType TENSOR_COLUMN_NAME",
)
