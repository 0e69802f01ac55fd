"""Where Ray Data keeps is_null, which aggregations of one's own use, and what compares rows."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.testing", "GiB KiB MiB is_nan is_null rows_same", only=True)
