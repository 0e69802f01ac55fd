"""Where Ray kept what is in ray.data.util now."""

from weir.compat.outside import library

__getattr__, __dir__ = library(
    __name__,
    {
        "BatchFormat": "weir.data_batch_conversion:BatchFormat",
    },
)
