"""How many workers run a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


class ComputeStrategy:
    """What TaskPoolStrategy and ActorPoolStrategy have in common: nothing but this name.

    >>> import weir
    >>> isinstance(weir.ActorPoolStrategy(size=2), weir.ComputeStrategy)
    True
    """


def _at_least_one(value: int | None, what: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{what}` must be a number, not {type(value).__name__}")
    if not value >= 1:  # nan is none of both
        raise ValueError(f"`{what}` must be >= 1, not {value}")


class TaskPoolStrategy(ComputeStrategy):
    """Runs a function in as many workers as are useful, at most `size` at once.

    >>> import weir
    >>> weir.TaskPoolStrategy(size=4)
    TaskPoolStrategy(size=4)
    """

    def __init__(self, size: int | None = None) -> None:
        _at_least_one(size, "size")
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskPoolStrategy) and self.size == other.size

    def __hash__(self) -> int:
        return hash(self.size)

    def __repr__(self) -> str:
        return f"TaskPoolStrategy(size={self.size})"


class ActorPoolStrategy(ComputeStrategy):
    """Runs a class in workers that keep its object: `size` of them, or between `min_size` and `max_size`.

    Args:
        size: so many; in place of the three others.
        min_size, max_size: at least 1, at most as many as are useful.
        initial_size: with how many it begins; `min_size` unless it says otherwise.
        max_tasks_in_flight_per_actor: how many batches a worker is given ahead.
        max_concurrent_calls_per_actor: how many calls of an async class a worker has going at once.
        enable_true_multi_threading: those of other classes go on at once, too, in threads. The class has to bear that.

    >>> import weir
    >>> pool = weir.ActorPoolStrategy(min_size=1, max_size=4)
    >>> pool.min_size, pool.max_size, pool.initial_size
    (1, 4, 1)
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        max_concurrent_calls_per_actor: int | None = None,
        enable_true_multi_threading: bool | None = None,
    ) -> None:
        if size is not None:
            _at_least_one(size, "size")
            if min_size is not None or max_size is not None or initial_size is not None:
                raise ValueError("min_size, max_size, and initial_size cannot be set at the same time as `size`")
            min_size = max_size = initial_size = size
        _at_least_one(min_size, "min_size")
        if max_size is not None and (min_size or 1) > max_size:
            raise ValueError(f"min_size must be <= max_size, and they are {min_size or 1} and {max_size}")
        _at_least_one(max_tasks_in_flight_per_actor, "max_tasks_in_flight_per_actor")
        _at_least_one(max_concurrent_calls_per_actor, "max_concurrent_calls_per_actor")
        self.min_size: int = min_size or 1
        self.max_size: float = max_size or math.inf
        self.initial_size: int = initial_size or self.min_size
        if self.initial_size < self.min_size:
            raise ValueError(f"initial_size ({self.initial_size}) must be >= min_size ({self.min_size})")
        if self.initial_size > self.max_size:
            raise ValueError(f"initial_size ({self.initial_size}) must be <= max_size ({self.max_size})")
        self.max_tasks_in_flight_per_actor = max_tasks_in_flight_per_actor
        self.max_concurrent_calls_per_actor = max_concurrent_calls_per_actor
        self.enable_true_multi_threading = bool(enable_true_multi_threading)

    def _key(self) -> tuple[Any, ...]:
        return (
            self.min_size,
            self.max_size,
            self.initial_size,
            self.max_tasks_in_flight_per_actor,
            self.max_concurrent_calls_per_actor,
            self.enable_true_multi_threading,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorPoolStrategy) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"ActorPoolStrategy(min_size={self.min_size}, max_size={self.max_size}, initial_size={self.initial_size}, "
            f"max_tasks_in_flight_per_actor={self.max_tasks_in_flight_per_actor})"
        )


def is_callable_class(fn: Any) -> bool:
    """Whether `fn` is a class: then its objects are called, one in each worker.

    >>> is_callable_class(dict), is_callable_class(len)
    (True, False)
    """
    return isinstance(fn, type)


def choose(fn: Callable[..., Any] | type, compute: Any, concurrency: Any) -> ComputeStrategy:
    """The strategy that `compute` and `concurrency` ask for, by Ray's rules: `compute` is the one that counts.

    >>> choose(len, None, 4)
    TaskPoolStrategy(size=4)
    >>> choose(dict, None, (1, 3)).max_size
    3
    """
    if concurrency is not None and compute is None:
        return _by_concurrency(fn, concurrency)
    if compute is None:
        return ActorPoolStrategy() if is_callable_class(fn) else TaskPoolStrategy()
    if compute == "tasks":
        compute = TaskPoolStrategy()
    elif compute == "actors":
        compute = ActorPoolStrategy()
    if not isinstance(compute, ComputeStrategy):
        raise ValueError(
            f"`compute` is a TaskPoolStrategy, an ActorPoolStrategy, 'tasks' or 'actors', not {compute!r}"
        )
    if is_callable_class(fn) and isinstance(compute, TaskPoolStrategy):
        raise ValueError(
            f"`compute` must be an ActorPoolStrategy for the class {fn.__name__}: its objects live in actors"
        )
    return compute


def _by_concurrency(fn: Callable[..., Any] | type, concurrency: Any) -> ComputeStrategy:
    is_class = is_callable_class(fn)
    if isinstance(concurrency, (tuple, list)):
        numbers = tuple(concurrency)
        if len(numbers) not in (2, 3) or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            raise ValueError(f"``concurrency`` is expected to be set as a tuple of 2 or 3 integers, but got: {concurrency!r}.")
        if not is_class:
            raise ValueError(
                f"``concurrency`` is set as a tuple of integers, but ``fn`` is not a callable class: {fn}. Use "
                "``concurrency=n`` to control maximum number of workers to use."
            )
        initial = numbers[2] if len(numbers) == 3 else numbers[0]
        return ActorPoolStrategy(min_size=numbers[0], max_size=numbers[1], initial_size=initial)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise ValueError(
            f"``concurrency`` is expected to be set as an integer or a tuple of integers, but got: {concurrency!r}."
        )
    return ActorPoolStrategy(size=concurrency) if is_class else TaskPoolStrategy(concurrency)
