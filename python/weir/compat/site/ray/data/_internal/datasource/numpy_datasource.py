"""Where Ray keeps NumpyDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.arrays", "NumpyDatasource", only=True)
