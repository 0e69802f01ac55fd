"""Whether a run shows what it does while it runs, and where: on a terminal, in a notebook, or nowhere. The drawing is the engine's
(src/observe, src/pyext/display.c). And what user code prints meanwhile."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

from weir import _session

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Task

FIRST_NS = 500_000_000  # a run that takes less shows nothing


def target() -> Any:
    """The descriptor of a terminal, a function that takes text, or None."""
    out = sys.stderr
    if out is None:
        return None
    if type(out).__module__.startswith("ipykernel."):
        return _Written(out)
    try:
        return out.fileno() if out.isatty() and os.environ.get("TERM", "dumb") != "dumb" else None
    except (AttributeError, OSError, ValueError):  # somebody's own, or closed
        return None


class _Written:
    """Text for a notebook's cell, whose output is sent when it is flushed."""

    __slots__ = ("out",)

    def __init__(self, out: Any) -> None:
        self.out = out

    def __call__(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


class Asking:
    """Of a loop: since when the program waits for its next batch, of time.monotonic_ns(); 0: it works, and may print."""

    __slots__ = ("since_ns",)

    def __init__(self) -> None:
        self.since_ns = 0


def begin(task: Task, run: Run) -> None:
    """Tells who wants to know, and lets whoever waits for the task draw its progress, if that is wanted."""
    context = run.context
    if run.observer is not None:
        run.observer.step()
    if not context.enable_progress_bars or (run.is_inner and not run.is_waited_for):
        return
    where = target()
    if where is not None:
        task.display(
            where,
            run.began_ns + FIRST_NS,
            operators=bool(context.enable_operator_progress_bars and context.execution_options.verbose_progress),
            whole_names=not context.enable_progress_bar_name_truncation,
            asking=run.asking,
        )


def show(lines: list[tuple[str, Literal["stdout", "stderr"], str]]) -> None:
    """What user code printed, through the driver's own sys.stdout and sys.stderr; called by whoever waits for the task."""
    state = _session.existing()
    if state is not None and not state.log_to_driver:
        return
    for label, stream, text in lines:
        out = sys.stderr if stream == "stderr" else sys.stdout
        if out is not None:
            out.write(f"{label} {text}" if label else text)
            if not text.endswith("\n"):
                out.write("\n")
    for out in (sys.stdout, sys.stderr):
        if out is not None:
            out.flush()
