"""ray.data.datasource.datasource: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.datasource weir.block weir.schema weir.expressions",
    "Block Datasource Expr RandomIntRowDatasource Reader ReadTask Schema",
)
