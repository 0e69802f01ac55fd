"""Ray's own modules that scripts import from."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.constants",
    "",
    only=True,
)
