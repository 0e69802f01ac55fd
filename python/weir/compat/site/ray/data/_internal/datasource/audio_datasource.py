"""Where Ray keeps AudioDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.other_files", "AudioDatasource", only=True)
