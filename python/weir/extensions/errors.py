"""The error of values that fit into no column: one class, whoever raises it."""

from __future__ import annotations

from weir._errors import ArrowConversionError

__all__ = ["ArrowConversionError"]
