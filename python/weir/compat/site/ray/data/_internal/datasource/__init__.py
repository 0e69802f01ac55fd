"""Where Ray keeps its sources. Those that weir has stand in files here; using another raises."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.constants", "", only=True)
