"""ray.util.multiprocessing.pool: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core",
    "Pool TimeoutError",
)
