"""Where Ray kept the name of the column of tensors."""

from weir.compat.outside import library

__getattr__, __dir__ = library(
    __name__,
    {
        "TENSOR_COLUMN_NAME": "weir.constants:TENSOR_COLUMN_NAME",
    },
)
