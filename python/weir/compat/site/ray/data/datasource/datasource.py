"""ray.data.datasource.datasource: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.datasource weir.block weir.schema",
    "Block Datasource RandomIntRowDatasource Reader ReadTask Schema",
)
