"""Where Ray kept what is in ray.data now."""

from weir.compat.outside import library

__getattr__, __dir__ = library(__name__)
