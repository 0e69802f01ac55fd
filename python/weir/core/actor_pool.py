"""ActorPool: work handed to whichever actor is free."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weir.core import api


class ActorPool:
    """Spreads calls over actors.

    >>> import weir
    >>> @weir.remote
    ... class Doubler:
    ...     def double(self, x): return 2 * x
    >>> pool = ActorPool([Doubler.remote(), Doubler.remote()])
    >>> list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2, 3]))
    [2, 4, 6]
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle = list(actors)
        self._busy: dict[Any, tuple[int, Any]] = {}  # what was started → its number, its actor
        self._by_number: dict[int, Any] = {}
        self._next_number = 0
        self._next_taken = 0
        self._waiting: deque[tuple[Callable[[Any, Any], Any], Any]] = deque()

    def submit(self, fn: Callable[[Any, Any], Any], value: Any) -> None:
        """Starts fn(actor, value) on a free actor, or when one is. What it returns is a reference.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> pool.submit(lambda actor, value: actor.double.remote(value), 1)
        >>> pool.get_next()
        2
        """
        if not self._idle:
            self._waiting.append((fn, value))
            return
        actor = self._idle.pop()
        future = fn(actor, value)
        self._busy[_key(future)] = (self._next_number, actor)
        self._by_number[self._next_number] = future
        self._next_number += 1

    def map(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """The results in order. What was submitted before is given up.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2]))
        [2, 4]
        """
        return self._mapped(fn, values, self.get_next)

    def map_unordered(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """The results as they come. What was submitted before is given up.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> sorted(pool.map_unordered(lambda actor, value: actor.double.remote(value), [1, 2]))
        [2, 4]
        """
        return self._mapped(fn, values, self.get_next_unordered)

    def _mapped(self, fn: Callable[[Any, Any], Any], values: Iterable[Any], take: Callable[[], Any]) -> Iterator[Any]:
        self._discard()
        for value in values:
            self.submit(fn, value)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield take()

        return results()

    def _discard(self) -> None:
        """What was submitted before is not waited for."""
        while self.has_next():
            try:
                self.get_next_unordered(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                continue

    def has_next(self) -> bool:
        """Whether there are results to be taken.

        >>> ActorPool([]).has_next()
        False
        """
        return bool(self._busy)

    def has_free(self) -> bool:
        """Whether an actor has nothing to do.

        >>> ActorPool([]).has_free()
        False
        """
        return bool(self._idle) and not self._waiting

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in order. StopIteration: there is none; TimeoutError: not yet, and with ignore_if_timedout never: its actor
        is free for others.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> pool.submit(lambda actor, value: actor.double.remote(value), 1)
        >>> pool.submit(lambda actor, value: actor.double.remote(value), 5)
        >>> pool.get_next(), pool.get_next()
        (2, 10)
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        if self._next_taken >= self._next_number:
            raise ValueError("It is not allowed to call get_next() after get_next_unordered().")
        future = self._by_number[self._next_taken]
        is_late = timeout is not None and not api.wait([future], timeout=timeout)[0]
        if is_late and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        return self._take(future, is_late)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Any result. StopIteration: there is none; TimeoutError: not yet, and with ignore_if_timedout the oldest is given up.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> pool.submit(lambda actor, value: actor.double.remote(value), 1)
        >>> pool.get_next_unordered(timeout=30)
        2
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        ready, _ = api.wait(list(self._by_number.values()), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        future = ready[0] if ready else self._by_number[min(self._by_number)]
        return self._take(future, not ready)

    def _take(self, future: Any, is_late: bool) -> Any:
        """The result. An actor that has died does not come back; the next task of those that wait gets one that has not."""
        from weir.exceptions import ActorDiedError

        number, actor = self._busy.pop(_key(future))
        del self._by_number[number]
        self._next_taken = max(self._next_taken, number + 1)
        is_alive = True
        try:
            if is_late:
                raise TimeoutError(f"Timed out waiting for result. The task {future} has been ignored.")
            return api.get(future)
        except ActorDiedError:
            is_alive = False
            raise
        finally:
            self._return_actor(actor, is_alive)

    def _return_actor(self, actor: Any, is_alive: bool = True) -> None:
        if is_alive:
            self._idle.append(actor)
        if self._waiting and self._idle:
            self.submit(*self._waiting.popleft())

    def pop_idle(self) -> Any:
        """Takes a free actor out of the pool; None: there is none.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> type(pool.pop_idle()).__name__, pool.pop_idle()
        ('ActorHandle', None)
        """
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Adds an actor, to which what waits goes. ValueError: it is there already.

        >>> import weir
        >>> @weir.remote
        ... class Doubler:
        ...     def double(self, x): return 2 * x
        >>> pool = ActorPool([Doubler.remote()])
        >>> pool.push(Doubler.remote())
        >>> pool.has_free()
        True
        """
        if actor in self._idle or any(actor == busy for _, busy in self._busy.values()):
            raise ValueError("Actor already belongs to current ActorPool")
        self._return_actor(actor)


def _key(future: Any) -> Any:
    return tuple(future) if isinstance(future, list) else future
