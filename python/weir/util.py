"""What scripts use of ray.util, ray.experimental and ray.train.torch: annotations, scheduling strategies, helpers.

>>> from weir.util import PublicAPI
>>> @PublicAPI(stability="beta")
... def f(x): return x
>>> f(1)
1

Pools of actors, placement groups and scheduling strategies come from weir.core.
"""

from __future__ import annotations

import enum
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

F = TypeVar("F")

__all__ = [
    "AnnotationType",
    "Deprecated",
    "DeveloperAPI",
    "DoesNotExist",
    "Exists",
    "In",
    "NotIn",
    "PublicAPI",
    "RayDeprecationWarning",
    "as_completed",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_device",
    "get_devices",
    "get_node_instance_id",
    "get_node_ip_address",
    "inspect_serializability",
    "log_once",
    "map_unordered",
    "register_serializer",
    "reset_log_once",
]


# ---- annotations ----


class AnnotationType(enum.Enum):
    """Whom a name is for.

    >>> AnnotationType.PUBLIC_API.value
    'PublicAPI'
    """

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


class RayDeprecationWarning(DeprecationWarning):
    """Something will go away.

    >>> issubclass(RayDeprecationWarning, DeprecationWarning)
    True
    """


def _mark(thing: Any, kind: AnnotationType, group: str = "Others") -> None:
    if hasattr(thing, "__name__"):
        thing._annotated = thing.__name__
        thing._annotated_type = kind
        thing._annotated_api_group = group


def _add_to_doc(thing: Any, text: str) -> None:
    try:
        thing.__doc__ = f"{(thing.__doc__ or '').rstrip()}\n\n{text}"
    except AttributeError:  # the docstring of some things cannot be written
        return


def PublicAPI(*args: Any, **kwargs: Any) -> Any:
    """A decorator that says of a function or class that it is public.

    >>> @PublicAPI
    ... def g(): return 2
    >>> g()
    2
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return PublicAPI()(args[0])
    stability = kwargs.get("stability", "stable")
    assert stability in ("stable", "beta", "alpha"), stability

    def annotate(thing: F) -> F:
        if stability != "stable":
            _add_to_doc(thing, f"**PublicAPI ({stability}):** it may change before it is stable.")
        _mark(thing, AnnotationType.PUBLIC_API, kwargs.get("api_group", "Others"))
        return thing

    return annotate


def DeveloperAPI(*args: Any, **kwargs: Any) -> Any:
    """A decorator that says of a function or class that it is for those who build upon it.

    >>> DeveloperAPI(len.__class__) is len.__class__
    Traceback (most recent call last):
    TypeError: cannot set '_annotated' attribute of immutable type 'builtin_function_or_method'
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return DeveloperAPI()(args[0])

    def annotate(thing: F) -> F:
        _add_to_doc(thing, "**DeveloperAPI:** it may change between minor versions.")
        _mark(thing, AnnotationType.DEVELOPER_API)
        return thing

    return annotate


def Deprecated(*args: Any, **kwargs: Any) -> Any:
    """A decorator that says of a function or class that it will go away; with warning=True, each use says so.

    >>> @Deprecated(message="use h()", warning=False)
    ... def old(): return 3
    >>> old()
    3
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return Deprecated()(args[0])
    message = kwargs.pop("message", "")
    warns = kwargs.pop("warning", False)
    if kwargs:
        raise ValueError(f"Unknown kwargs: {kwargs.keys()}")
    text = "This is deprecated and may be removed." + (f"\n{message}" if message else "")

    def annotate(thing: Any) -> Any:
        _add_to_doc(thing, f"**DEPRECATED**: {text}")
        _mark(thing, AnnotationType.DEPRECATED)
        if not warns:
            return thing
        called: Any = getattr(thing, "__init__") if isinstance(thing, type) else thing  # noqa: B009

        def warned(*args: Any, **kwargs: Any) -> Any:
            import warnings

            warnings.warn(text, RayDeprecationWarning, stacklevel=2)
            return called(*args, **kwargs)

        if isinstance(thing, type):
            thing.__init__ = warned  # type: ignore[misc]
            return thing
        return functools.wraps(thing)(warned)

    return annotate


# ---- labels of machines; the strategies that use them are weir.core's ----


class In:
    """A label is one of these.

    >>> In("a", "b").values
    ['a', 'b']
    """

    def __init__(self, *values: str) -> None:
        self.values = _texts("In", values)


class NotIn:
    """A label is none of these.

    >>> NotIn("a").values
    ['a']
    """

    def __init__(self, *values: str) -> None:
        self.values = _texts("NotIn", values)


class Exists:
    """A label is there.

    >>> from weir.core import NodeLabelSchedulingStrategy
    >>> list(NodeLabelSchedulingStrategy(hard={}, soft={"gpu": Exists()}).soft)
    ['gpu']
    """


class DoesNotExist:
    """A label is not there.

    >>> from weir.core import NodeLabelSchedulingStrategy
    >>> list(NodeLabelSchedulingStrategy(hard={}, soft={"gpu": DoesNotExist()}).soft)
    ['gpu']
    """


def _texts(what: str, values: Sequence[Any]) -> list[str]:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{what} takes texts, not {type(value).__name__}")
    return list(values)


# ---- logging ----

_logged: set[str] = set()
_last_logged = 0.0
_is_silent = False
_is_periodic = False
_lock = threading.Lock()


def log_once(key: str) -> bool:
    """Whether this is the first call with that key.

    >>> log_once("a key of the example"), log_once("a key of the example")
    (True, False)
    """
    global _last_logged
    with _lock:
        if _is_silent:
            return False
        if _is_periodic and time.monotonic() - _last_logged > 60:
            _logged.clear()
        if key in _logged:
            return False
        _logged.add(key)
        _last_logged = time.monotonic()
        return True


def reset_log_once(key: str | None = None) -> None:
    """Forgets a key, or all of them.

    >>> reset_log_once("a key of the example")
    """
    with _lock:
        if key is None:
            _logged.clear()
        else:
            _logged.discard(key)


def disable_log_once_globally() -> None:
    """log_once is False from now on, in this process.

    >>> disable_log_once_globally()  # doctest: +SKIP
    >>> log_once("said")  # doctest: +SKIP
    False
    """
    global _is_silent
    _is_silent = True


def enable_periodic_logging() -> None:
    """log_once is True again for every key after a minute.

    >>> enable_periodic_logging()
    """
    global _is_periodic
    _is_periodic = True


# ---- pickling ----


def register_serializer(cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Objects of `cls` are pickled as what `serializer` makes of them.

    >>> class Point:
    ...     def __init__(self, x): self.x, self.lock = x, __import__("threading").Lock()
    >>> register_serializer(Point, serializer=lambda p: p.x, deserializer=Point)
    >>> import cloudpickle
    >>> cloudpickle.loads(cloudpickle.dumps(Point(3))).x
    3
    >>> deregister_serializer(Point)
    """
    import copyreg

    def reduced(value: Any) -> tuple[Any, ...]:
        return deserializer, (serializer(value),)

    copyreg.pickle(cls, reduced)


def deregister_serializer(cls: type) -> None:
    """Takes register_serializer back; nothing happens where there is none.

    >>> deregister_serializer(dict)
    """
    import copyreg

    copyreg.dispatch_table.pop(cls, None)


class FailureTuple:
    """A variable that cannot be pickled."""

    def __init__(self, obj: Any, name: str, parent: Any) -> None:
        self.obj, self.name, self.parent = obj, name, parent

    def __repr__(self) -> str:
        return f"FailTuple({self.name} [obj={self.obj}, parent={self.parent}])"


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: Any = None
) -> tuple[bool, set[FailureTuple]]:
    """Whether an object can be sent to workers, and which of its variables cannot.

    >>> inspect_serializability(len, name="len")
    Checking Serializability of len
    len can be sent to workers
    (True, set())
    """
    from weir import _setup

    out = print_file if print_file is not None else sys.stdout
    shown = name or str(base_obj)
    print(f"Checking Serializability of {shown}", file=out)
    error = _setup._pickles(base_obj)
    if error is None:
        print(f"{shown} can be sent to workers", file=out)
        return True, set()
    label, culprit, inner = _setup._culprit("", base_obj, error, depth)
    found = FailureTuple(culprit, label.removeprefix("the variable ").strip("'") or shown, base_obj)
    print(f"{shown} cannot be sent to workers: {label or 'it'} cannot be pickled ({inner})", file=out)
    return False, {found}


# ---- results as they come ----


def as_completed(refs: Sequence[Any], *, chunk_size: int = 10, yield_obj_refs: bool = False, **kwargs: Any) -> Iterator[Any]:
    """The results of tasks, or their references, in the order in which they are there. `kwargs` go to wait().

    >>> import weir
    >>> sorted(as_completed([weir.put(1), weir.put(2)]))
    [1, 2]
    """
    from weir import core

    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    left = list(refs)
    while left:
        ready, left = core.wait(left, num_returns=min(chunk_size, len(left)), **kwargs)
        yield from ready if yield_obj_refs else core.get(ready)


def map_unordered(
    fn: Any, items: Iterable[Any], *, backpressure_size: int | None = 100, chunk_size: int = 10, yield_obj_refs: bool = False, **kwargs: Any
) -> Iterator[Any]:
    """The results of a remote function for each item, in the order in which they are there; at most `backpressure_size` wait at a time.

    >>> import weir
    >>> @weir.remote
    ... def double(x): return 2 * x
    >>> sorted(map_unordered(double, [1, 2, 3]))
    [2, 4, 6]
    """
    from weir import core

    if backpressure_size is None:
        backpressure_size = sys.maxsize
    if backpressure_size <= 0:
        raise ValueError("backpressure_size must be positive.")
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    call = fn.remote if hasattr(fn, "remote") else fn
    going: list[Any] = []
    for item in items:
        if len(going) >= backpressure_size:
            ready, going = core.wait(going, num_returns=min(chunk_size, len(going)), **kwargs)
            yield from ready if yield_obj_refs else core.get(ready)
        going.append(call(item))
    yield from as_completed(going, chunk_size=chunk_size, yield_obj_refs=yield_obj_refs, **kwargs)


# ---- this machine ----


def get_node_instance_id() -> str:
    """The number that a cloud has given to this machine: its own name.

    >>> import os
    >>> get_node_instance_id() == os.uname().nodename
    True
    """
    return os.uname().nodename


def get_node_ip_address() -> str:
    """The address of this machine, as ray.nodes() has it.

    >>> get_node_ip_address()
    '127.0.0.1'
    """
    return "127.0.0.1"


def get_devices() -> list[torch.device]:
    """The GPUs that this process may use, or the CPU.

    >>> get_devices()[0].type in ("cpu", "cuda")
    True
    """
    import torch

    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    count = torch.cuda.device_count()
    local = os.environ.get("LOCAL_RANK")
    if local is not None and local.isdigit():  # torchrun's: every process sees all GPUs, and has one
        return [torch.device("cuda", int(local) % count)]
    return [torch.device("cuda", i) for i in range(count)]


def get_device() -> torch.device:
    """The first of get_devices(); under torchrun the one of this process.

    >>> get_device().type in ("cpu", "cuda")
    True
    """
    return get_devices()[0]
