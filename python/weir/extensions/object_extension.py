"""The classes for Python objects, under the name of Ray Data's module."""

from __future__ import annotations

from weir.extensions.arrow_objects import ArrowPythonObjectArray, ArrowPythonObjectScalar, ArrowPythonObjectType
from weir.extensions.pandas_objects import PythonObjectArray, PythonObjectDtype

__all__ = ["ArrowPythonObjectArray", "ArrowPythonObjectScalar", "ArrowPythonObjectType", "PythonObjectArray", "PythonObjectDtype"]
