"""Where Ray kept pyarrow's types of tensors."""

from weir.compat.outside import library

__getattr__, __dir__ = library(
    __name__,
    {
        "ArrowTensorArray": "weir.extensions:ArrowTensorArray",
        "ArrowTensorType": "weir.extensions:ArrowTensorType",
        "ArrowTensorTypeV2": "weir.extensions:ArrowTensorTypeV2",
        "ArrowVariableShapedTensorArray": "weir.extensions:ArrowVariableShapedTensorArray",
        "ArrowVariableShapedTensorType": "weir.extensions:ArrowVariableShapedTensorType",
    },
)
