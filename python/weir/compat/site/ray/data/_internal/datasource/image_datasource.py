"""Where Ray keeps ImageDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.whole_files", "ImageDatasource", only=True)
