"""The logger `ray.data`: what scripts say to it holds for weir's messages."""

from __future__ import annotations

import logging


def join_loggers() -> None:
    """weir's logger becomes one below `ray.data`: that one's level, handlers and propagation are obeyed, and messages have its name."""
    own = logging.getLogger("weir")
    data = logging.getLogger("ray.data")
    own.parent = data
    if not any(isinstance(known, _Renamed) for known in own.filters):
        own.addFilter(_Renamed())


class _Renamed(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.name = "ray.data"
        return not logging.getLogger("ray.data").disabled
