"""Ray's own modules that scripts import from. Those without a file here import, too; using what they have raises."""

from weir.compat.lazy import names
from weir.compat.outside import find_all

find_all()

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.constants",
    "",
    only=True,
)
