"""Where Ray keeps SortKey, and where sorts cut."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.block_order", "SortKey SortTaskSpec")
