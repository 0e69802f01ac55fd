"""Errors of user code on their way from a worker to the driver.

    worker:  exception ─▶ pack() ─▶ bytes ─▶ (engine) ─▶ CallFailed(payload, operator, origin)
    driver:  CallFailed ─▶ translated() / from_failure() ─▶ an exception that the user's own `except` catches

The payload is a pickled dict of texts, with the exception itself inside it as bytes of its own: a class that cannot be
rebuilt in the driver costs its object, never the report. The class that is raised is made on the spot from
RayTaskError, UserCodeException and the user's class, so each of the three catches it.
"""
from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Literal

from weir import _origin
from weir._origin import Origin

Kind = Literal["error", "returned", "constructor", "setup", "input", "gathered"]

# Frames of these lie between a worker's loop and the user's function, and are not shown.
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
_OURS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.join(_LIBRARY, "asyncio") + os.sep,
         os.path.join(_LIBRARY, "concurrent") + os.sep)


_PLACE = re.compile(r'^([ |]*)File "(.+)", line (\d+), in ')


class RayError(Exception):
    """The base of what weir raises under Ray's names.

    >>> import weir
    >>> try: weir.get(weir.remote(lambda: 1 // 0).remote())
    ... except RayError as error: print(type(error).__name__)
    RayTaskError(ZeroDivisionError)
    """

    _says = ""  # where a program makes one without a text

    def __str__(self) -> str:
        return super().__str__() or self._says


class UserCodeException(RayError):
    """A user's function or expression failed. The exception is of the function's own class, too.

    >>> import weir
    >>> try: weir.from_items([{"a": "x"}]).filter(expr="a > 1").take()
    ... except UserCodeException as error: print(error)
    expression: operator filter, column a: a > 1: '>' cannot compare string (a) with int64 (1)
    """


class RayDataUserCodeException(UserCodeException):
    """The name under which ray.data.exceptions has it.

    >>> issubclass(RayDataUserCodeException, UserCodeException)
    True
    """


class RayTaskError(RayError):
    """A task failed. `cause` is the original exception, `operator` the step, `traceback_str` what happened as text.

    >>> import weir
    >>> def broken(row): return 1 // row["id"]
    >>> try: weir.range(1).map(broken).take()
    ... except RayTaskError as error: print(repr(error.cause), "in", error.operator)
    ZeroDivisionError('integer division or modulo by zero') in Map(broken)
    """
    cause: BaseException | None = None
    operator: str = ""
    traceback_str: str = ""
    pid: int = 0
    origin: str = ""

    def __init__(self, function_name: str = "", traceback_str: str = "", cause: BaseException | None = None, proctitle: str | None = None,
                 pid: int | None = None, ip: str | None = None, actor_repr: str | None = None, actor_id: str | None = None) -> None:
        super().__init__(traceback_str or function_name)
        self.function_name, self.traceback_str, self.cause = function_name, traceback_str, cause
        self.proctitle, self.pid, self.ip = proctitle or "weir", pid or os.getpid(), ip or "127.0.0.1"
        self.actor_repr, self._actor_id = actor_repr, actor_id

    def as_instanceof_cause(self) -> RayTaskError:
        """One that is of the cause's class, too. Those that weir raises are so already.

        >>> made = RayTaskError("f", "it failed", ValueError("x")).as_instanceof_cause()
        >>> isinstance(made, ValueError), str(made), made.as_instanceof_cause() is made
        (True, 'it failed', True)
        """
        if self.cause is None or isinstance(self, type(self.cause)):
            return self
        return _make((RayTaskError,), type(self.cause), self.cause, str(self))


class RayActorError(RayError):
    """A worker of a class function failed.

    >>> issubclass(ActorDiedError, RayActorError)
    True
    """
    cause: BaseException | None = None
    operator: str = ""
    actor_id: str | None = None
    actor_init_failed: bool = False
    preempted: bool = False
    _says = "The actor failed before this task had ended."

    def __init__(self, actor_id: str | None = None, error_msg: str = "", actor_init_failed: bool = False, preempted: bool = False) -> None:
        super().__init__(error_msg)
        self.actor_id, self.actor_init_failed, self.preempted = actor_id, actor_init_failed, preempted

    def __reduce__(self) -> tuple[Any, ...]:
        return _actor_error, (type(self), self.args), self.__dict__

    @property
    def error_msg(self) -> str:
        """What happened, as text.

        >>> ActorDiedError("the actor died").error_msg
        'the actor died'
        """
        return str(self)


class ActorDiedError(RayActorError):
    """A class's constructor raised, or its worker died too often.

    >>> str(ActorDiedError("MapBatches(Model): the constructor failed"))
    'MapBatches(Model): the constructor failed'
    """
    _says = "The actor died unexpectedly before finishing this task."

    def __init__(self, cause: Any = None) -> None:
        super().__init__(error_msg="" if cause is None else str(cause))


def _actor_error(kind: type[RayActorError], args: tuple[Any, ...]) -> RayActorError:
    """One that was pickled; what its constructor set comes with its attributes."""
    made = kind.__new__(kind, *args)
    made.args = args
    return made


class WorkerCrashedError(RayError):
    """Worker processes died too often over the same batch.

    >>> issubclass(WorkerCrashedError, RayError)
    True
    """
    _says = "The worker died unexpectedly while executing this task."


class OutOfMemoryError(RayError, MemoryError):
    """A function needs more memory than the limit leaves it, even alone.

    >>> issubclass(OutOfMemoryError, MemoryError)
    True
    """


class ActorOutOfMemory(ActorDiedError, OutOfMemoryError):
    """An actor died of its memory: its constructor needs more than the limit leaves it, even alone, or the machine had no more."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _actor_out_of_memory, self.args, self.__dict__


def _actor_out_of_memory(*args: Any) -> ActorOutOfMemory:
    """One that was pickled: what users see of its class is called like the one that they know."""
    return ActorOutOfMemory(*args)


ActorOutOfMemory.__name__ = ActorOutOfMemory.__qualname__ = "ActorDiedError"


class TaskCancelledError(RayError):
    """The run was cancelled.

    >>> issubclass(TaskCancelledError, RayError)
    True
    """

    def __init__(self, task_id: Any = None, error_message: str | None = None) -> None:
        super().__init__()
        self.task_id, self.error_message = task_id, error_message

    def __str__(self) -> str:
        return self.error_message or ("" if self.task_id is None else f"Task: {self.task_id} was cancelled.")


class SystemException(Exception):
    """An error inside weir itself.

    >>> issubclass(SystemException, Exception)
    True
    """


class ExecutionTimeoutError(Exception):
    """A run made no progress for too long.

    >>> issubclass(ExecutionTimeoutError, Exception)
    True
    """


class ArrowConversionError(ValueError):
    """Values or blocks do not fit into one column.

    Args:
        data_str: what is wrong, or the values that do not fit.
        column_name, pa_type: the column, and its type, if known.

    >>> ArrowConversionError("[1, 'x']", "a")
    ArrowConversionError("Error converting column 'a' to Arrow: [1, 'x']")
    """

    def __init__(self, data_str: str, column_name: str | None = None, pa_type: Any = None) -> None:
        if "Error converting " in data_str:  # unpickled, or around another one
            super().__init__(data_str)
            return
        kind = "" if pa_type is None else f" (target type: {pa_type})"
        what = "data" if column_name is None else f"column '{column_name}'{kind}"
        super().__init__(f"Error converting {what} to Arrow: {data_str}")


class WrongReturn(ValueError):
    """What a function returned is not what its operator takes. Stays inside weir: the driver raises RayTaskError with
    ValueError."""


# Attributes that live in C structs, not in __dict__, of the exceptions that have them.
_C_FIELDS = ("errno", "strerror", "filename", "filename2", "characters_written", "encoding", "object", "start", "end",
             "reason", "name", "path", "msg", "lineno", "offset", "text", "print_file_and_line", "obj", "code")


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame outside weir; None where there is none."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def user_traceback(error: BaseException) -> str:
    """The traceback as text, from the first frame outside weir."""
    import traceback

    tb = without_own_frames(error.__traceback__)
    cause = error.__cause__
    if isinstance(error, WrongReturn) and cause is not None:
        cause.__traceback__ = without_own_frames(cause.__traceback__)
        if cause.__traceback__ is None:  # no line of the user's; its text is in the error's
            cause = None
    if tb is None and cause is None:  # where a generator raised StopIteration, its frame is the cause's
        return "".join(traceback.format_exception_only(type(error), error)).rstrip("\n")
    return "".join(traceback.format_exception(type(error), error, tb)).rstrip("\n")


def _name_of(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def pack(error: BaseException, kind: Kind, rows: tuple[int, int] | None = None, count: int = 0, operator: str = "",
         columns: Sequence[str] = (), group: str = "", bound: int | None = None) -> bytes:
    """An exception as the bytes that go to the driver. `rows`: first and last row of the task's `count`, when known.
    `operator`: which of several that run in one worker; `columns`: those of its input, when known; `group`: which one it
    was called for, by its key; `bound`: on the memory of this process, where it is lifted to say this."""
    try:
        text = str(error)
    except Exception as second:  # a __str__ that raises is the user's, too
        text = f"<its text could not be made: {type(second).__name__}>"
    try:
        trace = user_traceback(error)
    except Exception:
        trace = f"{_name_of(type(error))}: {text}"
    if kind == "returned":  # what the driver raises is a ValueError
        trace = trace.replace(f"{_name_of(WrongReturn)}: ", "ValueError: ")
    try:
        advice = advise(error, kind, columns, bound)
    except Exception:  # there may be no memory left even for that
        advice = ""
    if advice:
        error.add_note(advice)  # for who looks at the cause; the text ends in the user's own words
    return pickle.dumps({"kind": kind, "type": _name_of(type(error)), "text": text, "traceback": trace, "rows": rows,
                         "count": count, "pid": os.getpid(), "operator": operator, "group": group,
                         "advice": advice, "exception": _pickled(error) if kind != "returned" else None}, protocol=5)


def _pickled(error: BaseException) -> bytes | None:
    try:
        import cloudpickle
        data = cloudpickle.dumps(error, protocol=5)
    except Exception:  # any exception of a user's __reduce__: the texts travel without the object
        return None
    return bytes(data)


def advise(error: BaseException, kind: Kind = "error", columns: Sequence[str] = (), bound: int | None = None) -> str:
    """What to do about an error, where weir knows it."""
    from weir._shortage import REFUSALS

    text = str(error) if isinstance(error, (ValueError, RuntimeError, TypeError)) else ""
    if isinstance(error, ValueError) and ("is read-only" in text or "not writable" in text or "cannot set WRITEABLE" in text):
        return "batches are views of shared memory: zero_copy_batch=False gives writable copies"
    if isinstance(error, MemoryError) or any(words in text for words in REFUSALS):
        return _advise_memory(bound, kind)
    if isinstance(error, StopIteration):  # of next(); for rows its traceback is lost, since it ends the loop over them
        return "next() found nothing more; next(iterator, default) gives the default instead"
    if "CUDA out of memory" in text or (type(error).__name__ == "OutOfMemoryError"
                                          and type(error).__module__.startswith("torch")):
        return "the GPU's memory did not suffice: a smaller batch_size needs less of it"
    if kind == "constructor" and isinstance(error, TypeError) and "__init__() missing" in text:
        return "fn_constructor_args=[…] or fn_constructor_kwargs={…} say what the class is made with"
    if kind == "error" and isinstance(error, TypeError) and " argument" in text and _is_of_the_call(error):
        return "the function gets a row or a batch, then what fn_args=[…] and fn_kwargs={…} say: its parameters have to fit"
    if type(error).__name__ == "BdbQuit" or (isinstance(error, EOFError) and "EOF when reading a line" in str(error)):
        return ("functions run in processes of their own, which have no terminal: weir.init(local_mode=True) runs them in the program, where "
                "breakpoint() and input() work")
    if isinstance(error, ModuleNotFoundError):
        return (f"functions run in the same Python as the program ({sys.executable}): install the package there; a module of "
                "your own must lie on sys.path when the run starts")
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str) and columns \
            and error.args[0] not in columns and not _is_raised(error):
        return f"there is no column {error.args[0]!r}{nearest(error.args[0], columns)}; the columns are {listed(columns)}"
    if isinstance(error, AttributeError) and type(error.obj) is dict and not error.obj.keys().isdisjoint(columns):
        if error.name in columns:
            return f"rows and batches are dicts: [{error.name!r}] is the column"
        return 'a row is a dict, and a batch one of NumPy arrays: map_batches(…, batch_format="pandas") gives DataFrames, "pyarrow" Tables'
    return ""


def _is_of_the_call(error: BaseException) -> bool:
    """Whether weir's own call failed, and not a line of the function."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and os.path.dirname(tb.tb_frame.f_code.co_filename) == os.path.dirname(__file__)


def _is_raised(error: BaseException) -> bool:
    """Whether the last line says raise: then it is no column that was looked for in vain."""
    from opcode import opmap

    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and tb.tb_frame.f_code.co_code[tb.tb_lasti] == opmap["RAISE_VARARGS"]


def nearest(name: str, names: Iterable[str]) -> str:
    """", did you mean …", where one of the names is like it.

    >>> nearest("batchsize", ["batch_size", "compute"])
    " (did you mean 'batch_size'?)"
    """
    from difflib import get_close_matches

    known = list(names)
    found = [one for one in known if one.lower() == name.lower()] or get_close_matches(name, known, 1, 0.6)
    return f" (did you mean {found[0]!r}?)" if found else ""


def listed(names: Sequence[str], most: int = 12) -> str:
    """Some of the names, as text.

    >>> listed(["a", "b"]), listed(["a", "b"], 1)
    ('a, b', 'a and 1 more')
    """
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


# What helps where a function has too little.
MORE_MEMORY = ("a smaller batch_size, where it has one, needs less at a time, fewer workers (concurrency=…) leave more for each, and "
               "weir.init(memory_limit=…) gives more to all")
MORE_FOR_OBJECTS = ("what the constructor makes has to fit in there, with what a batch needs beside it; arrays given as fn_constructor_args lie in "
                    "shared memory once for all workers, and weir.init(memory_limit=…) gives more to all")


def _advise_memory(bound: int | None, kind: Kind) -> str:
    """The figures of a worker whose bound was too narrow; it has been tried alone before this error is shown."""
    import resource

    if bound is None:
        bound = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if bound == resource.RLIM_INFINITY:
        return ""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    used, data = (int(fields.get(name, "0 kB").split()[0]) * 1024 for name in ("RssAnon", "VmData"))
    return (f"the worker has {used / 1e6:.0f} MB and may take {max(0, bound - data) / 1e6:.0f} MB more, which is what memory_limit leaves while "
            f"nothing else runs: {MORE_FOR_OBJECTS if kind == 'constructor' else MORE_MEMORY}")


def _least_limit() -> str:
    """In the driver: that the limit is too small for functions at all, if it is."""
    from weir import _session

    state = _session._state
    limit = state.native.memory_limit if state is not None else 0
    if not 0 < limit < _session.LIMIT_MIN + _session.LIMIT_WORKER:
        return ""
    return (f". It is {limit / (1 << 20):.0f} MiB, and functions want at least {(_session.LIMIT_MIN + _session.LIMIT_WORKER) >> 20} MiB: "
            f"{_session.LIMIT_MIN >> 20} MiB, and {_session.LIMIT_WORKER >> 20} MiB for each worker")


def from_failure(payload: bytes, operator: str, origin: Origin | None = None, original: bool = False) -> BaseException:
    """The exception to raise for what a worker packed. `origin`: of its task's rows; `original`: raise_original_map_exception."""
    try:
        report: dict[str, Any] = pickle.loads(payload)
    except Exception as damage:
        return SystemException(f"{operator} failed, and its report could not be read: {damage}")
    cause = _rebuilt(report["exception"])
    report["traceback"] = _with_sources(report["traceback"])
    operator = report["operator"] or operator
    text = _describe(report, operator, origin)
    kind = report["kind"]
    if kind == "constructor":
        died = (ActorOutOfMemory if isinstance(cause, MemoryError) else ActorDiedError)(text)
        died.cause, died.operator, died.actor_init_failed = cause, operator, True
        return died
    if kind == "input":
        return ArrowConversionError(text)
    if kind == "gathered":
        error: RayTaskError = _make((RayTaskError, OutOfMemoryError), None, None, text)
    elif kind == "returned":
        # What is no list of rows, Ray notices when it goes through it.
        also = (TypeError,) if operator.startswith("FlatMap") else ()
        error = _make((RayTaskError, ValueError, *also), ValueError, None, text)
        error.cause = ValueError(report["text"])
    elif kind == "setup":
        error = _make((RayTaskError,), type(cause) if cause else None, cause, text)
    else:
        bases = (RayTaskError,) if original else (RayTaskError, RayDataUserCodeException)
        error = _make(bases, type(cause) if cause else None, cause, text)
        if cause is None and original:
            error = _make((RayTaskError, RayDataUserCodeException), None, None, text)
    error.operator, error.origin = operator, _origin.text(origin)
    error.traceback_str, error.pid = report["traceback"], report["pid"]
    return error


def _with_sources(trace: str) -> str:
    """The traceback with lines of programs that only this process knows: cells of notebooks, what was typed or given by -c.

    >>> _with_sources('  File "/no/such.py", line 1, in f')
    '  File "/no/such.py", line 1, in f'
    """
    import linecache

    lines = trace.split("\n")
    made: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""]):
        made.append(line)
        place = _PLACE.match(line)
        if place is not None and not after.startswith(place[1] + "  "):
            source = linecache.getline(place[2], int(place[3])).strip()
            made += [f"{place[1]}  {source}"] if source else []
    return "\n".join(made)


def tell_left_out(operator: str, origin: Origin | None, payload: bytes, remaining: int | None) -> None:
    """Logs a failure that a run went on without. `remaining`: how many more it may; None: any number."""
    import logging

    error = from_failure(payload, operator, origin) if payload else None
    name = getattr(error, "operator", "") or operator
    logging.getLogger("weir").error(
        'An exception was raised from a task of operator "%s". Ignoring this exception with remaining max_errored_blocks=%s.',
        name, "unlimited" if remaining is None else remaining, exc_info=error
    )


def _rebuilt(data: bytes | None) -> BaseException | None:
    if data is None:
        return None
    try:
        error = pickle.loads(data)
    except (Exception, SystemExit):  # a class whose __init__ takes other arguments, or that this process cannot import
        return None
    return error if isinstance(error, BaseException) else None


def rebuilt_object(data: bytes, column: str) -> Any:
    """A Python object of a column, as a function returned it. What cannot be rebuilt here is the function's error.

    >>> rebuilt_object(pickle.dumps({1}), "x")
    {1}
    """
    try:
        return pickle.loads(data)
    except (Exception, SystemExit) as error:
        what = (f"column {column!r} holds an object that a function returned, and it cannot be rebuilt in this process (pid={os.getpid()}): what its "
                "__reduce__ or __getstate__ gives must be enough to make it again")
        if getattr(sys.modules.get("weir._worker"), "_inside", None) is not None:  # the driver makes of it what it makes of any error there
            error.add_note(what)
            raise
        trace = user_traceback(error)
        made = _make((RayTaskError, RayDataUserCodeException), type(error), error, f"{what}\n{trace}")
        made.traceback_str, made.pid = trace, os.getpid()
        raise made from None


def _describe(report: dict[str, Any], operator: str, origin: Origin | None) -> str:
    place = f"the group {report['group']}" if report.get("group") else _origin.place(report["rows"], report["count"], origin)
    if report["kind"] in ("constructor", "setup"):
        place = ""  # what rows it would have been given says nothing
    what = {"constructor": "failed in its constructor", "setup": "could not be loaded by a worker",
            "returned": "returned what cannot be used", "input": "cannot get these blocks as one batch",
            "gathered": "cannot get its rows as one batch"}.get(report["kind"], "failed")
    advice = f": {report['advice']}" if report["advice"] else ""
    if advice.endswith(MORE_MEMORY):
        advice += _least_limit()
    return f"{operator} {what}{' on ' + place if place else ''} (pid={report['pid']}){advice}\n{report['traceback']}"


def _mixes(cls: type[BaseException]) -> bool:
    # What would end the interpreter or a generator instead of being an error is left out: it stays in .cause.
    return issubclass(cls, Exception) and not issubclass(cls, (StopIteration, StopAsyncIteration))


def _make(bases: tuple[type, ...], cause_class: type[BaseException] | None, cause: BaseException | None,
          text: str) -> RayTaskError:
    if cause is not None:
        try:
            return _made_like(_class_of(bases, cause_class), cause, text)
        except (Exception, SystemExit):  # a user's __new__, __setattr__ or __getattribute__ that wants something else
            pass
    error = _class_of(bases, cause_class if cause is None else None)()
    error.__dict__["_weir_text"] = text
    error.args = (text,)
    if cause is not None:
        error.cause = cause
    return error


def _made_like(cls: type[RayTaskError], cause: BaseException, text: str) -> RayTaskError:
    error: RayTaskError = cls(*cause.args)
    error.__dict__["_weir_text"] = text
    error.cause = cause
    error.args = cause.args
    for name in [*getattr(cause, "__dict__", {}), *_C_FIELDS]:
        if name != "__notes__" and name not in error.__dict__:
            _try_copy(error, cause, name)
    return error


def _try_copy(error: BaseException, cause: BaseException, name: str) -> None:
    try:
        setattr(error, name, getattr(cause, name))
    except Exception:  # it has none, or a property of the user's class, which reads the same from .cause
        return


_classes: dict[tuple[type, ...], type[RayTaskError]] = {}


def _class_of(bases: tuple[type, ...], cause_class: type[BaseException] | None) -> type[RayTaskError]:
    if cause_class is None or not _mixes(cause_class):
        cause_class = None
    key = bases + ((cause_class,) if cause_class else ())
    if key in _classes:
        return _classes[key]
    name = f"RayTaskError({cause_class.__name__})" if cause_class else "RayTaskError"
    body = {"__init__": _init, "__str__": _str, "__repr__": _repr, "__reduce__": _reduce, "__module__": "weir.exceptions",
            "__doc__": "A task failed with this error of the user's; see RayTaskError."}
    try:
        made = type(name, tuple(dict.fromkeys(key)), body)
    except Exception:  # a class that refuses to be a base, or bases that do not go together: .cause has the object
        made = type("RayTaskError", bases, body)
    if len(_classes) < 1000:
        _classes[key] = made
    return made


def _init(self: RayTaskError, *args: Any) -> None:
    """Does nothing: the user's own constructor must not run again."""


def _str(self: RayTaskError) -> str:
    return str(self.__dict__.get("_weir_text", ""))


def _repr(self: RayTaskError) -> str:
    return f"{type(self).__name__}({str(self)!r})"


def _rebuild(bases: tuple[type, ...], cause: BaseException | None, text: str, operator: str, origin: str, trace: str,
             pid: int) -> RayTaskError:
    error = _make(bases, type(cause) if cause else None, cause, text)
    error.operator, error.origin, error.traceback_str, error.pid = operator, origin, trace, pid
    return error


def _reduce(self: RayTaskError) -> tuple[Any, ...]:
    bases = [RayTaskError] if not isinstance(self, RayDataUserCodeException) else [RayTaskError,
                                                                                  RayDataUserCodeException]
    if isinstance(self, OutOfMemoryError):
        bases.append(OutOfMemoryError)  # type: ignore[arg-type]
    if self.cause is None and isinstance(self, ValueError):
        bases.append(ValueError)  # type: ignore[arg-type]
    return _rebuild, (tuple(bases), self.cause, str(self), self.operator, self.origin, self.traceback_str, self.pid)


class translated:
    """Around anything that waits for a run: what the engine says of a worker's failure becomes the user's exception.

    `context`: a DataContext, or None; only raise_original_map_exception is looked at.
    """

    def __init__(self, context: Any = None) -> None:
        self.context = context

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is not None and "weir._weir" in sys.modules:
            made = translate(error, self.context)
            if made is not error:
                raise made from None


def is_of_run(error: Exception, context: Any) -> bool:
    """Whether a function or the engine failed; else the program's own handler of a signal raised while the run was waited for.

    >>> is_of_run(TimeoutError("of signal.alarm"), None)
    False
    """
    if isinstance(error, (RayError, WrongReturn)) or getattr(context, "raise_original_map_exception", False):
        return True
    return "weir._weir" in sys.modules and isinstance(error, sys.modules["weir._weir"].Error)


# Advice of the engine in the command's words, and what it is called in Python.
_TYPE_OF_CSV = r"convert_options=pyarrow.csv.ConvertOptions(column_types={'\1': '\2'}) "
_LATIN = "read_options=pyarrow.csv.ReadOptions(encoding='latin1') "
_IN_PYTHON = tuple((re.compile(theirs), ours) for theirs, ours in (
    (r" \(try --unify-schemas\)", "; read the files apart and cast the column, or write them anew"),
    (r"\(--ragged skip leaves such rows out(, --ragged fill puts nulls)?\)",
     "(parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=lambda row: 'skip') leaves such rows out)"),
    (r"; if records span lines, say --layout objects",
     "; where records span lines, parse_options=pyarrow.json.ParseOptions(newlines_in_values=True) reads them"),
    (r"\(--encoding latin1 may be what it is; --types '(.+?)=(binary)' keeps its bytes\)",
     "(" + _LATIN + "if that is what it is; " + _TYPE_OF_CSV + "keeps its bytes)"),
    (r"\(--types '(.+?)=(.+?)' says what it is, --infer all looks at every row first\)", "(" + _TYPE_OF_CSV + "says what it is)"),
    (r"; say --types '(.+?)=(.+?)', or --infer all to look at everything first",
     r"; parse_options=pyarrow.json.ParseOptions(explicit_schema=pyarrow.schema([('\1', '\2')])) says what it is"),
    (r"; say --types '(.+?)=string' to read all of them as text",
     r"; parse_options=pyarrow.json.ParseOptions(explicit_schema=pyarrow.schema([('\1', pyarrow.string())])) reads all of them as text, read_text and "
     r"json.loads as what they are"),
    (r"; --infer all looks at everything first, --unexpected ignore leaves such fields out",
     "; parse_options=pyarrow.json.ParseOptions(explicit_schema=…) names all fields, and with unexpected_field_behavior='ignore' such ones are left "
     "out"),
    (r"; --encoding names another encoding, --errors replace or ignore takes the line as far as it goes",
     "; encoding= names another encoding"),
    (r"\(--names names them\)", "(read_options=pyarrow.csv.ReadOptions(column_names=[…]) names them)"),
    (r"\(see --encoding\)", "(" + _LATIN + "if that is what it is)"),
    (r": --left-suffix, --right-suffix", ": left_suffix= and right_suffix= tell them apart"),
    (r"; --infer all looks at all of them, --types names it", "; tf_schema= names all of them"),
    (r"; --infer all looks at all records first, --types says the type", "; tf_schema= says what all of them are"),
    (r"; --types and --unexpected ignore can leave it out", ""),
    (r" \(--surrogates replace makes it U\+FFFD\)", ""),
    (r"; --types 'COLUMN=string' keeps them as text", ""),
    (r"or by --compression\)", "or by arrow_open_stream_args={'compression': …})"),
    (r"smaller batches or a larger limit would help", MORE_MEMORY),
    (r"are not written unless --objects-pickled says so: ", 'are not written unless write_parquet(python_objects="pickle") says so: '),
    (r"give --path-column another name", "rename or drop it where the files are written, or leave include_paths out"),
))


def in_python(text: str) -> str:
    """An error of the engine, with advice that a program can follow.

    >>> in_python("the join would have two columns 'a': --left-suffix, --right-suffix")
    "the join would have two columns 'a': left_suffix= and right_suffix= tell them apart"
    """
    for theirs, ours in _IN_PYTHON:
        text = theirs.sub(ours, text)
    return text + _least_limit() if text.endswith(MORE_MEMORY) else text


def _run_errors(engine: Any) -> tuple[type[BaseException], ...]:
    """What steps of the engine raise about data and expressions: to a program, a failed task like that of a function."""
    names = ("ExpressionError", "NameUnknownError", "TypeMismatchError", "OutOfRangeError", "ArithmeticOverflowError",
             "DivisionByZeroError", "CastError", "DataError", "MisfitError", "NotFoundError", "ExistsError", "ReadWriteError")
    return tuple(getattr(engine, name) for name in names)


def _also(error: Any, format: str) -> type[BaseException]:
    """The engine's class, which is caught by what Ray Data raises there, too: an aggregate that a type does not have is
    NotImplementedError, a key that a side of a join, a sort or a repartition lacks ValueError, a damaged file what its reader there says."""
    kind = type(error)
    more: type[BaseException] | None = {("TypeMismatchError", "summarise"): NotImplementedError, ("TypeMismatchError", "group"): NotImplementedError,
            ("NameUnknownError", "join"): ValueError, ("NameUnknownError", "sort"): ValueError, ("NameUnknownError", "repartition"): ValueError}.get((kind.__name__, error.operator or ""))
    if format == "json":
        from json import JSONDecodeError

        more = JSONDecodeError
    elif format == "parquet" and "pyarrow" in sys.modules:  # who wants to catch it has it
        more = sys.modules["pyarrow"].ArrowInvalid
    return kind if more is None else type(kind.__name__, (kind, more), {"__module__": kind.__module__})


def _damaged(error: Any, op: Any) -> str:
    """The format of the file that an error is about: that of all files of a plan; "" where it is about none, or they are of several."""
    if type(error).__name__ != "DataError" or error.operator != "read" or op is None:
        return ""
    from weir._plan import Read, walk

    formats = {step.format for step in walk(op) if isinstance(step, Read)}
    return formats.pop() if len(formats) == 1 else ""


def translate(error: BaseException, context: Any = None, op: Any = None) -> BaseException:
    """The exception to raise for one of the engine's: itself, or what a worker's report says. `op`: the end of the plan that failed, if any."""
    from weir import _weir

    if isinstance(error, getattr(_weir, "WorkerError", ())):
        if "ended its worker 1 time," in str(error):  # a class with max_restarts=0; others may do so three times
            return ActorDiedError(f"The actor died unexpectedly before finishing this task. {error}: max_restarts=0 or max_task_retries=0 lets "
                                  "nothing be tried again")
        if "killed from outside" in str(error):  # which says who may have been it
            return WorkerCrashedError(str(error))
        return WorkerCrashedError(f"{error}: the function, or a library that it uses, ended the process (a crash in native code, "
                                  "os._exit, or the system when memory ran out)")
    if not isinstance(error, _weir.CallFailed):
        # That both sides of a join have a column is known when they are read.
        if type(error) in _run_errors(_weir) or (type(error) is _weir.InvalidError and error.operator == "join"):
            format = _damaged(error, op)
            text = in_python(str(error))
            made = _make((RayTaskError, UserCodeException), _also(error, format), error, f"Failed to read CSV file: {text}" if format == "csv" else text)
            if format == "json":  # what a JSONDecodeError has
                for name, of_engine in (("msg", "message"), ("pos", "offset"), ("lineno", "line"), ("colno", "")):
                    setattr(made, name, getattr(error, of_engine, None))
                made.doc = ""  # type: ignore[attr-defined]
            made.operator, made.origin = error.operator or "", ""  # type: ignore[attr-defined]
            return made
        if isinstance(error, _weir.MemoryLimitError) and "in its worker by itself" in str(error):
            made = _make((RayTaskError, OutOfMemoryError), type(error), error, in_python(str(error)))
            made.operator = error.operator or ""
            return made
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]),)
        return error
    if error.payload is None:  # there was no room for more than a line
        return _make((RayTaskError, RayDataUserCodeException), None, None, str(error))
    return from_failure(error.payload, error.operator or "", error.origin,
                        bool(getattr(context, "raise_original_map_exception", False)))
