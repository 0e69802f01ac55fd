"""Where Ray keeps what makes arrays of arrays."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions",
    "create_ragged_ndarray",
    only=True,
    _create_possibly_ragged_ndarray="weir.extensions.ragged:possibly_ragged",
)
