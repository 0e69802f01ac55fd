"""ray.util.debug: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core weir.util",
    "disable_log_once_globally enable_periodic_logging log_once reset_log_once Suspect",
)
