"""ray.data.exceptions: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.exceptions",
    "ExecutionTimeoutError omit_traceback_stdout RayDataUserCodeException SystemException UserCodeException",
)
