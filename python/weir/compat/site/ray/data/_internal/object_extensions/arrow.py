"""Where Ray keeps pyarrow's type of Python objects."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions weir.extensions.arrow_arrays",
    "ArrowPythonObjectArray ArrowPythonObjectScalar ArrowPythonObjectType raise_on_pickle_object_columns",
    only=True,
    ARROW_PYTHON_OBJECT_EXTENSION_NAME="weir.extensions.arrow_arrays:PICKLED",
)
