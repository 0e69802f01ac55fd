"""Where Ray keeps SQLDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.sql", "SQLDatasource", only=True)
