"""The logger `ray.data`: what scripts say to it holds for weir's messages, and it is told of functions that raise, as Ray Data does."""

from __future__ import annotations

import logging
import os
from typing import Any

_is_said = False


def join_loggers() -> None:
    """weir's logger becomes one below `ray.data`: that one's level, handlers and propagation are obeyed, and messages have its name."""
    own = logging.getLogger("weir")
    data = logging.getLogger("ray.data")
    own.parent = data
    if not any(isinstance(known, _Renamed) for known in own.filters):
        own.addFilter(_Renamed())


def tell(error: BaseException, context: Any) -> None:
    """Logs that a run has ended with an error of the user's code: that it has, once; where, each time; and the whole of it for handlers that
    keep records (`hide`: not for the console, which gets the exception itself). Who debugs what has failed sees all of it everywhere."""
    global _is_said
    from weir._errors import RayDataUserCodeException

    if not isinstance(error, RayDataUserCodeException) or getattr(error, "_is_told", False):
        return
    error._is_told = True  # type: ignore[attr-defined]
    own = logging.getLogger("weir")
    operator = getattr(error, "operator", "")
    if operator:
        own.error('An exception was raised from a task of operator "%s". Dataset execution will now abort. To ignore this exception and '
                  "continue, set DataContext.max_errored_blocks.", operator)
    if os.environ.get("RAY_DEBUG_POST_MORTEM") == "1":
        own.error("Full stack trace:", exc_info=error)
        return
    if not _is_said and not context.log_internal_stack_trace:  # else the whole is told below
        _is_said = True
        own.error("Exception occurred in user code, with the abbreviated stack trace below: frames of weir's own are left out.")
    if not own.hasHandlers():
        return
    if context.log_internal_stack_trace:
        own.error("Full stack trace:", exc_info=error, extra={"hide": True})
    else:
        own.error("Full stack trace:\n%s", error, extra={"hide": True})


class _Renamed(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.name = "ray.data"
        return not logging.getLogger("ray.data").disabled
