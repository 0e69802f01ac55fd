"""ray.data.namespace_expressions.string_namespace: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.expressions weir._expr_namespaces weir.ray_types",
    "_StringNamespace",
)
