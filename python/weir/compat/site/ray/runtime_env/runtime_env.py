"""ray.runtime_env.runtime_env: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.runtime_env",
    "RuntimeEnv RuntimeEnvConfig",
)
