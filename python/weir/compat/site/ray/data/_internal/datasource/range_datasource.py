"""Where Ray keeps RangeDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.ranges", "RangeDatasource", only=True)
