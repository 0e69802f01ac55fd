"""Where Ray keeps what makes remote functions once."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__, "weir.compat.inside", "cached_remote_fn", only=True, _make_hashable="weir.compat.inside:make_hashable"
)
