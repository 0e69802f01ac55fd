"""What a context asks for beside the run itself: callbacks, stats in the log, and an end to waiting for functions that give nothing.

    Run ─▶ Observer   begins / step / succeeded / failed   only where the context asks for it
        ─▶ Watch      while somebody waits for a task with functions; one thread looks at all of them
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Task
    from weir.context import DataContext


class Observer:
    """Tells callbacks and the log of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.callbacks = [cls() for cls in run.context.execution_callback_classes]
        self.state = "new"

    def begins(self) -> None:
        if self.state == "new":
            self.state = "running"
            for callback in self.callbacks:
                callback.before_execution_starts(self.run)

    def step(self) -> None:
        """A part of the run has begun, or something of it has come."""
        for callback in self.callbacks if self.state == "running" else ():
            callback.on_execution_step(self.run)

    def succeeded(self) -> None:
        if self.state != "running":
            return
        self.state = "ended"
        for callback in self.callbacks:
            callback.after_execution_succeeds(self.run)
        if self.run.context.enable_auto_log_stats:
            self.log_stats()

    def failed(self, error: BaseException) -> None:
        if self.state != "running":
            return
        self.state = "ended"
        for callback in self.callbacks:
            callback.after_execution_fails(self.run, error)

    def log_stats(self) -> None:
        import logging

        from weir import _stats

        text = _stats.text(SimpleNamespace(_old=False, _last_run=self.run, _iteration=None, context=self.run.context))  # type: ignore[arg-type]
        if text:
            logging.getLogger("weir").info(text)


def observer(run: Run) -> Observer | None:
    """None, where nobody wants to know."""
    context = run.context
    if context.enable_auto_log_stats or context.custom_execution_callback_classes or os.environ.get("RAY_DATA_EXECUTION_CALLBACKS"):
        return Observer(run)
    return None


# ---- waiting without progress ----

_lock = threading.Lock()
_watches: set[Watch] = set()
_thread: tuple[int, threading.Thread] | None = None  # and the process that it is of
_PAUSE = 0.25


class Watch:
    """A task that somebody waits for. `since`: since when, on the monotonic clock; 0: nobody waits now. `actors`: classes of which a
    worker must be ready after `start_limit` seconds."""

    def __init__(self, task: Task, limit: float, actors: Sequence[str] = (), start_limit: float = math.inf) -> None:
        self.task, self.limit = task, limit
        self.actors, self.start_limit, self.began = tuple(actors), start_limit, time.monotonic()
        self.late = ""  # the class of which none is
        self.since = self.moved = 0.0
        self.seen: Any = None
        self.expired = False

    def __enter__(self) -> Watch:
        global _thread
        with _lock:
            _watches.add(self)
            if _thread is None or _thread[0] != os.getpid() or not _thread[1].is_alive():
                thread = threading.Thread(target=_look, name="weir-watch", daemon=True)
                _thread = os.getpid(), thread
                thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _watches.discard(self)

    def look(self, now: float) -> None:
        since = self.since
        if not since:
            return
        stats = self.task.stats()
        stages = [(stage["tasks_done"], stage["rows_in"], stage["rows_out"], stage["slots_up"]) for stage in stats["stages"]]
        seen = stats["rows_in"], stats["rows_out"], stats["splits_done"], stages
        if seen != self.seen:
            self.seen, self.moved = seen, now
        elif now - max(self.moved, since) >= self.limit:
            self.expired = True
        if now - self.began >= self.start_limit:
            self.late = next((s["name"] for s in stats["stages"] if s["name"] in self.actors and not s["slots_peak"]), "")
            self.expired = self.expired or bool(self.late)
        if self.expired:
            self.task.cancel()

    def error(self) -> Exception:
        from weir._errors import ExecutionTimeoutError

        if self.late:
            from weir.exceptions import GetTimeoutError

            return GetTimeoutError(
                f"Timed out while starting actors: no worker of {self.late} was ready after {self.start_limit:g} s "
                "(DataContext.wait_for_min_actors_s): its constructor takes longer, or there is no room for it"
            )
        names = [stage["name"] for stage in self.task.stats()["stages"] if "(" in stage["name"]]
        return ExecutionTimeoutError(
            f"the run has made no progress for {self.limit:g} s (DataContext.execution_no_progress_timeout_s): "
            f"{', '.join(names) or 'a function'} may hang"
        )


def _look() -> None:
    idle = 0
    while idle < 40:
        time.sleep(_PAUSE)
        idle = 0 if _look_once() else idle + 1


def _look_once() -> bool:
    """Whether there is something to look at. A function of its own, so that no task outlives its run in a sleeper's variables."""
    with _lock:
        watches = list(_watches)
    now = time.monotonic()
    for watch in watches:
        watch.look(now)
    return bool(watches)


def watch(task: Task, context: DataContext, has_functions: bool, actors: Sequence[str] = ()) -> Watch | None:
    """None where nothing can hang, or the context has no limit. `actors`: the functions that are classes."""
    limit, start = context.execution_no_progress_timeout_s, context.wait_for_min_actors_s
    starts = bool(actors) and start is not None and start > 0
    if not has_functions or not (starts or (limit and limit > 0)):
        return None
    return Watch(task, float(limit) if limit and limit > 0 else math.inf, actors, float(start) if starts else math.inf)
