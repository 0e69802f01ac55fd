"""Python objects as Arrow columns: pickled, in large binaries, under Ray Data's name."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

NAME = "ray.data.arrow_pickled_object"


class ArrowPythonObjectType(pa.ExtensionType):  # type: ignore[misc]
    """The type of columns of Python objects.

    >>> ArrowPythonObjectType().extension_name
    'ray.data.arrow_pickled_object'
    """

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return cls()

    def __arrow_ext_scalar_class__(self) -> Any:
        return ArrowPythonObjectScalar

    def __arrow_ext_class__(self) -> Any:
        return ArrowPythonObjectArray

    def to_pandas_dtype(self) -> Any:
        """pandas' side of it.

        >>> ArrowPythonObjectType().to_pandas_dtype()
        python_object()
        """
        from weir.extensions.pandas_objects import PythonObjectDtype

        return PythonObjectDtype()

    def __reduce__(self) -> Any:
        return ArrowPythonObjectType, ()

    def __hash__(self) -> int:
        return hash((type(self), self.extension_name))


class ArrowPythonObjectScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One object.

    >>> ArrowPythonObjectArray.from_objects([{1, 2}])[0].as_py()
    {1, 2}
    """

    def as_py(self, **options: Any) -> Any:
        """The object itself, unpickled; None where there is none.

        >>> ArrowPythonObjectArray.from_objects([1j])[0].as_py()
        1j
        """
        return None if self.value is None else pickle.loads(self.value.as_buffer())


class ArrowPythonObjectArray(pa.ExtensionArray):  # type: ignore[misc]
    """A column of objects.

    >>> ArrowPythonObjectArray.from_objects([{1}, None]).to_pylist()
    [{1}, None]
    """

    @staticmethod
    def from_objects(objects: Iterable[Any]) -> Any:
        """Of any objects that pickle.

        >>> ArrowPythonObjectArray.from_objects([1j, {2}]).to_pylist()
        [1j, {2}]
        """
        import cloudpickle

        kind = ArrowPythonObjectType()
        listed = objects.tolist() if hasattr(objects, "tolist") else list(objects)
        try:
            data = [cloudpickle.dumps(value) for value in listed]
        except Exception as error:
            raise TypeError(f"Error pickling object to convert to Arrow: {error}") from error
        return kind.wrap_array(pa.array(data, kind.storage_type))

    def to_numpy(self, zero_copy_only: bool = False, writable: bool = False) -> Any:
        """As an array of objects.

        >>> ArrowPythonObjectArray.from_objects([1j, {2}]).to_numpy()
        array([1j, {2}], dtype=object)
        """
        from weir.extensions.ragged import create_ragged_ndarray

        return create_ragged_ndarray(self.to_pylist())


if os.environ.get("RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR", "0").lower() in ("1", "true"):
    try:
        pa.register_extension_type(ArrowPythonObjectType())
    except pa.ArrowKeyError:  # another library has taken the name
        pass
