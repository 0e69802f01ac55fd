"""Where Ray keeps pandas' types of tensors."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.extensions",
    "TensorArray TensorArrayElement TensorDtype column_needs_tensor_extension",
    only=True,
)
