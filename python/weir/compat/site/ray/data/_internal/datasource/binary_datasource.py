"""Where Ray keeps BinaryDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.whole_files", "BinaryDatasource", only=True)
