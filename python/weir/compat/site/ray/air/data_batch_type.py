"""Where Ray kept the type of batches."""

from weir.compat.outside import library

__getattr__, __dir__ = library(
    __name__,
    {
        "DataBatchType": "weir.data_batch_conversion:DataBatchType",
    },
)
