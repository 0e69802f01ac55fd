"""Where Ray keeps the types of Python objects."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.constants",
    "",
    only=True,
)
