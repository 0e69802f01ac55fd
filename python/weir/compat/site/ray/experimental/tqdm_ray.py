"""ray.experimental.tqdm_ray imports; the first use of what it has says that weir has not got it."""

from weir.compat.outside import library

__getattr__, __dir__ = library(__name__)
