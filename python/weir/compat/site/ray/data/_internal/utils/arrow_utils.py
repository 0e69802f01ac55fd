"""Where Ray Data keeps which pyarrow there is."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.compat.inside",
    "get_pyarrow_version",
    only=True,
    _check_pyarrow_version="weir.compat.inside:check_pyarrow_version",
)
