"""Whether a call fits a function: known where the call is made, not only in the worker.

    of(function) ─▶ a tuple that can be pickled ─▶ check(signature, args, kwargs, name)
"""
from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

# How many arguments there must be, how many there may be when all are given by position, then every parameter.
Signature = tuple[int, int, tuple[tuple[str, int, bool], ...]]


def of(function: Any, skip: int = 0) -> Signature | None:
    """Of a function, without its first `skip` parameters; None: nobody knows.

    >>> of(lambda a, b=1: 0)
    (1, 2, (('a', 1, False), ('b', 1, True)))
    """
    try:
        found = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):  # one of C's
        return None
    described = tuple((p.name, int(p.kind), p.default is not p.empty) for p in found)
    positional = [entry for entry in described if entry[1] < p_var]
    required = sum(not entry[2] for entry in described if entry[1] != p_var and entry[1] != p_kwargs)
    is_plain = all(entry[1] <= p_either for entry in described)
    return required, len(positional) if is_plain else -1, described


p_either, p_var, p_kwargs = 1, 2, 4


def check(signature: Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> None:
    """TypeError: they do not fit.

    >>> check(of(lambda a: 0), (1, 2), {}, "f")
    Traceback (most recent call last):
    TypeError: f: too many positional arguments
    """
    if signature is None:
        return
    required, most, described = signature
    if not kwargs and required <= len(args) <= most:
        return
    whole = inspect.Signature([inspect.Parameter(key, inspect._ParameterKind(kind), default=None if has else inspect.Parameter.empty)
                               for key, kind, has in described])
    try:
        whole.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def bound(instance: Any, name: str) -> Any:
    """An actor's method, also where the object has something else under that name: the class is what handles know.

    >>> class Counter:
    ...     def __init__(self):
    ...         self.total = 3
    ...     def total(self):
    ...         return self.total
    >>> bound(Counter(), "total")()
    3
    """
    cls = type(instance)
    for base in cls.__mro__:
        if name in base.__dict__:
            found = base.__dict__[name]
            return found.__get__(instance, cls) if hasattr(found, "__get__") else found
    return getattr(instance, name)
