"""Where Ray keeps TorchDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.arrays", "TorchDatasource", only=True)
