"""Where Ray keeps what sources put blocks together with."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.block", "DelegatingBlockBuilder")
