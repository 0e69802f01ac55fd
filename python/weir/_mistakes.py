"""Errors of wrong arguments, by the classes that programs catch them by.

What Ray raises for an argument of a wrong type follows from the line that stumbles over it first: TypeError, ValueError or
AttributeError. weir looks at arguments at the call, says what is wrong, and what it raises is caught by either name.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir._errors import RayTaskError, UserCodeException

# More than there ever are: larger numbers of rows, which Python has, mean the same.
ROWS_MAX = (1 << 63) - 1


class WrongArgument(TypeError, ValueError):
    """An argument of a type that a method does not take.

    >>> issubclass(WrongArgument, TypeError) and issubclass(WrongArgument, ValueError)
    True
    """


class WrongObject(WrongArgument, AttributeError):
    """An object of another class stands where a Dataset, an expression or the like is wanted.

    >>> issubclass(WrongObject, AttributeError)
    True
    """


def no_dataset(method: str, given: object) -> WrongObject:
    """What to raise where something else stands for a Dataset.

    >>> print(no_dataset("union", [1, 2]))
    union takes Datasets, not a list: union(*datasets)
    """
    if isinstance(given, (list, tuple)):
        return WrongObject(f"{method} takes Datasets, not a {type(given).__name__}: {method}(*datasets)")
    return WrongObject(f"{method} takes Datasets, not {given!r} of type {type(given).__name__}")


def no_expression(column: str, given: object) -> WrongObject:
    """What to raise where something else stands for the expression of a new column.

    >>> print(no_expression("x", 5))
    column 'x' needs an expression (expr), such as col('a') + 1, not 5 of type int: lit(5) is one
    """
    if callable(given):
        advice = "a function of rows is for map(), one of batches for map_batches(), and udf(return_dtype=…) makes an expression of one"
    elif isinstance(given, str):
        advice = f"col({given!r}) is the column of that name, lit({given!r}) the text"
    elif isinstance(given, (int, float, bytes)) or given is None:
        advice = f"lit({given!r}) is one"
    else:
        advice = "values that are there already go into a Dataset of their own, and zip() puts the two side by side"
    return WrongObject(f"column {column!r} needs an expression (expr), such as col('a') + 1, not {given!r:.200} of type {type(given).__name__}: {advice}")


class WrongInTask(WrongObject, UserCodeException, RayTaskError):
    """What Ray finds only in a task, when rows are wanted: programs catch it around all of a chain, as what a task raised.

    >>> issubclass(WrongInTask, RayTaskError)
    True
    """


class WrongCount(ValueError, AssertionError):
    """A number of things that there cannot be.

    >>> issubclass(WrongCount, AssertionError)
    True
    """


class NoSuchName(KeyError, ValueError, RayTaskError):
    """A column or another name that is not there; Ray finds it in a task.

    >>> str(NoSuchName("there is no column 'x'"))
    "there is no column 'x'"
    """

    def __str__(self) -> str:
        return str(self.args[0])


def check_amounts(given: Mapping[str, Any], where: str = "") -> None:
    """What a worker may be said to need.

    >>> check_amounts({"num_cpus": float("nan")}, "map: ")
    Traceback (most recent call last):
    weir._mistakes.WrongArgument: map: num_cpus is a number of at least 0, not nan
    """
    for name in ("num_cpus", "num_gpus", "memory"):
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= ROWS_MAX):
            raise WrongArgument(f"{where}{name} is a number of at least 0, not {value!r}")
