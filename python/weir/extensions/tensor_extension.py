"""The tensor classes, under the name of Ray Data's module."""

from __future__ import annotations

from pyarrow import FixedShapeTensorArray, FixedShapeTensorType

from weir.extensions.arrow_tensors import (
    ArrowTensorArray,
    ArrowTensorScalar,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
)
from weir.extensions.errors import ArrowConversionError
from weir.extensions.pandas_tensors import TensorArray, TensorArrayElement, TensorDtype, column_needs_tensor_extension
from weir.extensions.ragged import create_ragged_ndarray

__all__ = [
    "ArrowConversionError",
    "ArrowTensorArray",
    "ArrowTensorScalar",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorArray",
    "FixedShapeTensorType",
    "TensorArray",
    "TensorArrayElement",
    "TensorDtype",
    "column_needs_tensor_extension",
    "create_ragged_ndarray",
]
