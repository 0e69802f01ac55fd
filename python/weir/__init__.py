"""weir: a streaming data engine."""
from weir._weir import __version__

__all__ = ["__version__"]
