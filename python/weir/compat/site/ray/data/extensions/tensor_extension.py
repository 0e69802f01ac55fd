"""ray.data.extensions.tensor_extension: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions weir.exceptions",
    "ArrowConversionError ArrowTensorArray ArrowTensorType ArrowTensorTypeV2 ArrowVariableShapedTensorArray "
    "ArrowVariableShapedTensorType column_needs_tensor_extension create_ragged_ndarray TensorArray "
    "TensorArrayElement TensorDtype",
)
