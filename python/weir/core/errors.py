"""Errors of tasks as they lie in objects, and as get raises them.

    worker:  exception ─▶ of_task() ─▶ bytes ─▶ object ─▶ raised() ─▶ an exception that is RayTaskError and the user's class
    node:    of_system(exception) ─▶ bytes

The user's exception lies in the bytes as bytes of its own, so a class that cannot be rebuilt costs its object and not the text.
"""
from __future__ import annotations

import pickle
from typing import Any

from weir import _errors
from weir._errors import ActorDiedError, RayError, RayTaskError
from weir.core.payload import ERROR, Payload


def of_task(error: BaseException, call: str, actor: str = "") -> Payload:
    """What a function raised. `call`: as in "f()" or "Counter.add()"; `actor`: its id and repr, for methods."""
    cause = error
    inner = ""
    if isinstance(error, RayTaskError):  # of a task that it waited for
        inner, cause = str(error), error.cause if error.cause is not None else error
    report = {"call": call, "actor": actor, "inner": inner, "report": _errors.pack(cause, "error")}
    if inner:
        report["traceback"] = _errors.user_traceback(error.with_traceback(error.__traceback__))
    return Payload(pickle.dumps(("task", report), 5), kind=ERROR)


def of_system(error: BaseException) -> Payload:
    """What weir itself raises."""
    return Payload(pickle.dumps(("system", error), 5), kind=ERROR)


def of_constructor(payload: Payload, class_name: str, id: str) -> Payload:
    """A class's constructor raised: what calls of the actor then get."""
    return Payload(pickle.dumps(("constructor", class_name, id, payload.data), 5), kind=ERROR)


def raised(payload: Payload) -> BaseException:
    """The exception that an object holds."""
    return _raised(payload.data or b"")


def _raised(data: bytes) -> BaseException:
    try:
        loaded: Any = pickle.loads(data)
    except Exception as damage:
        return _errors.SystemException(f"a task failed, and its report could not be read: {damage}")
    if loaded[0] == "system":
        error: BaseException = loaded[1]
        return error
    if loaded[0] == "constructor":
        _, class_name, id, inner = loaded
        cause = _raised(inner)
        died = ActorDiedError("The actor died because of an error raised in its creation task, " + str(cause))
        died.cause, died.operator = cause, class_name
        died.actor_id, died.actor_init_failed = id, True
        return died
    report = loaded[1]
    inside = pickle.loads(report["report"])
    cause_found = _errors._rebuilt(inside["exception"])
    where = f"pid={inside['pid']}" + (f", {report['actor']}" if report["actor"] else "")
    text = f"{report['call']} failed ({where})\n{report['inner'] or inside['traceback']}"
    made = _errors._make((RayTaskError,), type(cause_found) if cause_found is not None else None, cause_found, text)
    made.operator = made.__dict__["function_name"] = report["call"].removesuffix("()")
    made.traceback_str, made.pid = text, inside["pid"]
    if cause_found is None:
        made.cause = RayError(inside["traceback"])
    return made
