"""How tensors of one shape lie in Arrow: DataContext.arrow_fixed_shape_tensor_format."""

from __future__ import annotations

import enum
from typing import Any


class FixedShapeTensorFormat(enum.Enum):
    """V1: lists with 32-bit offsets; V2: with 64-bit ones; ARROW_NATIVE: pyarrow's own fixed_shape_tensor.

    >>> FixedShapeTensorFormat("v2")
    <FixedShapeTensorFormat.V2: 'v2'>
    """

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "native"

    def to_type(self) -> Any:
        """The class of its types.

        >>> FixedShapeTensorFormat.V2.to_type().__name__
        'ArrowTensorTypeV2'
        """
        import pyarrow as pa

        from weir.extensions.arrow_tensors import ArrowTensorType, ArrowTensorTypeV2

        kinds = {FixedShapeTensorFormat.V1: ArrowTensorType, FixedShapeTensorFormat.V2: ArrowTensorTypeV2}
        return kinds.get(self, pa.FixedShapeTensorType)


def current() -> FixedShapeTensorFormat:
    """What the context says."""
    from weir.context import DataContext

    chosen = getattr(DataContext.get_current(), "arrow_fixed_shape_tensor_format", None)
    if chosen is None:
        return FixedShapeTensorFormat.V2
    value = getattr(chosen, "value", chosen)
    text = str(value).lower()
    return FixedShapeTensorFormat({"arrow_native": "native"}.get(text, text))
