"""Where Ray keeps AvroDatasource."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.datasource.other_files", "AvroDatasource", only=True)
