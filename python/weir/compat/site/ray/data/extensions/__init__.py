"""ray.data.extensions: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions weir.exceptions",
    "ArrowConversionError ArrowPythonObjectArray ArrowPythonObjectScalar ArrowPythonObjectType ArrowTensorArray "
    "ArrowTensorType ArrowTensorTypeV2 ArrowVariableShapedTensorArray ArrowVariableShapedTensorType "
    "column_needs_tensor_extension create_arrow_fixed_shape_tensor_type create_ragged_ndarray "
    "FixedShapeTensorFormat FixedShapeTensorType get_arrow_extension_tensor_types PythonObjectArray "
    "PythonObjectDtype TensorArray TensorArrayElement TensorDtype",
)
