"""Where Ray kept pandas' types of tensors."""

from weir.compat.outside import library

__getattr__, __dir__ = library(
    __name__,
    {
        "TensorArray": "weir.extensions:TensorArray",
        "TensorArrayElement": "weir.extensions:TensorArrayElement",
        "TensorDtype": "weir.extensions:TensorDtype",
        "column_needs_tensor_extension": "weir.extensions:column_needs_tensor_extension",
        "_create_possibly_ragged_ndarray": "weir.extensions:create_ragged_ndarray",
    },
)
