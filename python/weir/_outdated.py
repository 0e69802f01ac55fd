"""What Ray Data 2.60 warns of. Scripts that say `import ray` are told the same: in weir itself none of it is outdated."""

from __future__ import annotations

import sys
import warnings


def warn(text: str, category: type[Warning] = DeprecationWarning) -> None:
    """A warning at the line of the program that called, where `import ray` is weir."""
    if _is_ray():
        at_caller(text, category)


def log(text: str, logger: str = "weir") -> None:
    """The same, told to a logger: weir's, or the one below `ray.data` that Ray Data tells it to."""
    if _is_ray():
        import logging

        logging.getLogger(logger).warning(text)


def at_caller(text: str, category: type[Warning]) -> None:
    """A warning at the first line that is not weir's."""
    import os

    home = os.path.dirname(os.path.abspath(__file__)) + os.sep
    level = 1
    try:
        while os.path.abspath(sys._getframe(level).f_code.co_filename).startswith(home):
            level += 1
    except ValueError:
        pass
    warnings.warn(text, category, stacklevel=level + 1)


def _is_ray() -> bool:
    compat = sys.modules.get("weir.compat")
    return compat is not None and "ray" in sys.modules and bool(compat.is_installed())
