"""Where Ray kept what makes arrays of arrays."""

from weir.compat.outside import library

__getattr__, __dir__ = library(
    __name__,
    {
        "create_ragged_ndarray": "weir.extensions:create_ragged_ndarray",
    },
)
