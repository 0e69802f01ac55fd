"""Tensors and Python objects as columns of pandas and pyarrow, under Ray Data's names and in its layout.

>>> import numpy as np, pandas as pd
>>> from weir.extensions import TensorArray
>>> pd.Series(TensorArray(np.zeros((2, 3, 3)))).dtype
TensorDtype(shape=(3, 3), dtype=float64)

pandas and pyarrow are loaded when something here is asked for. The tensor types are registered with pyarrow then, so that files
with such columns come back as them; the type of pickled objects is not, since reading a file must not run what it holds
(RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR=1 registers it).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow import FixedShapeTensorArray, FixedShapeTensorType

    from weir.extensions.arrow_objects import ArrowPythonObjectArray, ArrowPythonObjectScalar, ArrowPythonObjectType
    from weir.extensions.arrow_tensors import (
        ArrowTensorArray,
        ArrowTensorScalar,
        ArrowTensorType,
        ArrowTensorTypeV2,
        ArrowVariableShapedTensorArray,
        ArrowVariableShapedTensorType,
        FixedShapeTensorFormat,
        create_arrow_fixed_shape_tensor_type,
        get_arrow_extension_fixed_shape_tensor_types,
        get_arrow_extension_tensor_types,
        get_arrow_extension_variable_shape_tensor_types,
    )
    from weir.extensions.errors import ArrowConversionError
    from weir.extensions.pandas_objects import PythonObjectArray, PythonObjectDtype
    from weir.extensions.pandas_tensors import TensorArray, TensorArrayElement, TensorDtype, column_needs_tensor_extension
    from weir.extensions.ragged import create_ragged_ndarray

_WHERE = {
    "ArrowConversionError": "weir.extensions.errors",
    "ArrowPythonObjectArray": "weir.extensions.arrow_objects",
    "ArrowPythonObjectScalar": "weir.extensions.arrow_objects",
    "ArrowPythonObjectType": "weir.extensions.arrow_objects",
    "ArrowTensorArray": "weir.extensions.arrow_tensors",
    "ArrowTensorScalar": "weir.extensions.arrow_tensors",
    "ArrowTensorType": "weir.extensions.arrow_tensors",
    "ArrowTensorTypeV2": "weir.extensions.arrow_tensors",
    "ArrowVariableShapedTensorArray": "weir.extensions.arrow_tensors",
    "ArrowVariableShapedTensorType": "weir.extensions.arrow_tensors",
    "FixedShapeTensorArray": "pyarrow",
    "FixedShapeTensorFormat": "weir.extensions.formats",
    "FixedShapeTensorType": "pyarrow",
    "PythonObjectArray": "weir.extensions.pandas_objects",
    "PythonObjectDtype": "weir.extensions.pandas_objects",
    "TensorArray": "weir.extensions.pandas_tensors",
    "TensorArrayElement": "weir.extensions.pandas_tensors",
    "TensorDtype": "weir.extensions.pandas_tensors",
    "column_needs_tensor_extension": "weir.extensions.pandas_tensors",
    "create_arrow_fixed_shape_tensor_type": "weir.extensions.arrow_tensors",
    "create_ragged_ndarray": "weir.extensions.ragged",
    "get_arrow_extension_fixed_shape_tensor_types": "weir.extensions.arrow_tensors",
    "get_arrow_extension_tensor_types": "weir.extensions.arrow_tensors",
    "get_arrow_extension_variable_shape_tensor_types": "weir.extensions.arrow_tensors",
}

__all__ = [
    "ArrowConversionError",
    "ArrowPythonObjectArray",
    "ArrowPythonObjectScalar",
    "ArrowPythonObjectType",
    "ArrowTensorArray",
    "ArrowTensorScalar",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorArray",
    "FixedShapeTensorFormat",
    "FixedShapeTensorType",
    "PythonObjectArray",
    "PythonObjectDtype",
    "TensorArray",
    "TensorArrayElement",
    "TensorDtype",
    "column_needs_tensor_extension",
    "create_arrow_fixed_shape_tensor_type",
    "create_ragged_ndarray",
    "get_arrow_extension_fixed_shape_tensor_types",
    "get_arrow_extension_tensor_types",
    "get_arrow_extension_variable_shape_tensor_types",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
