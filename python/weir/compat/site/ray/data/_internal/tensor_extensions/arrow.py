"""Where Ray keeps pyarrow's types of tensors."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions weir.exceptions",
    "ArrowConversionError ArrowTensorArray ArrowTensorType ArrowTensorTypeV2 ArrowVariableShapedTensorArray "
    "ArrowVariableShapedTensorType FixedShapeTensorFormat create_arrow_fixed_shape_tensor_type",
    only=True,
)
