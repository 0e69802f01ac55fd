"""Where Ray keeps what sources ask about their paths."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.constants",
    "",
    only=True,
    _has_file_extension="weir.compat.inside:has_file_extension",
    _is_local_scheme="weir.compat.inside:is_local_scheme",
    _resolve_paths_and_filesystem="weir.compat.inside:resolve_paths_and_filesystem",
    _unwrap_protocol="weir.compat.inside:unwrap_protocol",
)
