"""Where Ray keeps pyarrow's types of tensors, and what makes arrays of columns."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions weir.exceptions",
    "ArrowConversionError ArrowTensorArray ArrowTensorScalar ArrowTensorType ArrowTensorTypeV2 ArrowVariableShapedTensorArray "
    "ArrowVariableShapedTensorType FixedShapeTensorFormat create_arrow_fixed_shape_tensor_type "
    "get_arrow_extension_fixed_shape_tensor_types get_arrow_extension_tensor_types get_arrow_extension_variable_shape_tensor_types",
    only=True,
    FixedShapeTensorArray="pyarrow:FixedShapeTensorArray",
    FixedShapeTensorType="pyarrow:FixedShapeTensorType",
    convert_to_pyarrow_array="weir.extensions.arrow_arrays:convert_to_pyarrow_array",
    pyarrow_table_from_pydict="weir.extensions.arrow_arrays:pyarrow_table_from_pydict",
    _convert_to_pyarrow_native_array="weir.extensions.arrow_arrays:convert_to_native_array",
    _infer_pyarrow_type="weir.extensions.arrow_arrays:infer_pyarrow_type",
)
