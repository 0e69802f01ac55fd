"""Where Ray keeps CSVDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.arrow_files", "CSVDatasource", only=True)
