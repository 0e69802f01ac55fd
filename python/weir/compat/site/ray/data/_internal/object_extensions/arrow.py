"""Where Ray keeps pyarrow's type of Python objects."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions",
    "ArrowPythonObjectArray ArrowPythonObjectScalar ArrowPythonObjectType",
    only=True,
)
