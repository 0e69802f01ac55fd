"""Pool: what programs know from multiprocessing.Pool, with an actor for each process.

    map, starmap, apply   cut the arguments into chunks, which go to the actors in turn; a chunk's results come back together
    imap                  has one chunk with each actor, and gives it the next when one of its results was taken
"""
from __future__ import annotations

import itertools
import logging
import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from weir.core import api, functions

TimeoutError = multiprocessing.TimeoutError


class _Failed:
    """What a call raised, on its way back among the results of its chunk."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Process:
    """The actor: runs chunks of calls."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: Sequence[Any]) -> None:
        if initializer is not None:
            initializer(*initargs)

    def run(self, func: Callable[..., Any], chunk: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        results: list[Any] = []
        for args, kwargs in chunk:
            try:
                results.append(func(*args, **kwargs))
            except Exception as error:  # the user's, who gets it from AsyncResult.get()
                results.append(_Failed(error))
        return results


class AsyncResult:
    """Results that are on their way."""

    def __init__(self, chunks: list[Any], is_single: bool, callback: Callable[[Any], Any] | None, error_callback: Callable[[BaseException], Any] | None) -> None:
        self._chunks = chunks
        self._is_single = is_single
        self._told: threading.Thread | None = None
        if callback is not None or error_callback is not None:
            self._told = threading.Thread(target=self._tell, args=(callback, error_callback), daemon=True)
            self._told.start()

    def _values(self) -> list[Any]:
        values: list[Any] = []
        for chunk in self._chunks:
            try:
                values += api.get(chunk)
            except Exception as error:  # of the actor itself
                values.append(_Failed(error))
        return values

    def _tell(self, callback: Callable[[Any], Any] | None, error_callback: Callable[[BaseException], Any] | None) -> None:
        try:
            value = self._result(self._values())
        except Exception as error:
            if error_callback is not None:
                error_callback(error)
            return
        if callback is not None:
            callback(value)

    def _result(self, values: list[Any]) -> Any:
        for value in values:
            if isinstance(value, _Failed):
                raise value.error
        return values[0] if self._is_single else values

    def wait(self, timeout: float | None = None) -> None:
        """Until all results are there, or so many seconds."""
        if self._chunks:
            api.wait(self._chunks, num_returns=len(self._chunks), timeout=timeout)
        if self._told is not None and self.ready():
            self._told.join(timeout)

    def get(self, timeout: float | None = None) -> Any:
        """The results, or what the first of the calls that failed has raised."""
        self.wait(timeout)
        if timeout is not None and not self.ready():
            raise TimeoutError
        return self._result(self._values())

    def ready(self) -> bool:
        """Whether all results are there."""
        return not self._chunks or len(api.wait(self._chunks, num_returns=len(self._chunks), timeout=0)[0]) == len(self._chunks)

    def successful(self) -> bool:
        """Whether no call has failed. A ValueError while some run."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return not any(isinstance(value, _Failed) for value in self._values())


class _Mapped:
    """What imap gives: results as they are asked for, in order or as they come."""

    def __init__(self, pool: Pool, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int, in_order: bool) -> None:
        self._pool, self._func = pool, func
        self._chunks = _cut((((item,), {}) for item in iterable), chunksize)
        self._in_order = in_order
        self._running: deque[Any] = deque()
        self._results: deque[Any] = deque()
        for _ in range(pool._processes):
            self._start()

    def _start(self) -> None:
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._running.append(self._pool._started(self._func, chunk))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result; multiprocessing's TimeoutError when it is not there in so many seconds."""
        if not self._results:
            if not self._running:
                raise StopIteration
            ready, _ = api.wait([self._running[0]] if self._in_order else list(self._running), num_returns=1, timeout=timeout)
            if not ready:
                raise TimeoutError
            self._running.remove(ready[0])
            self._start()
            self._results.extend(api.get(ready[0]))
        value = self._results.popleft()
        if isinstance(value, _Failed):
            raise value.error
        return value


class Pool:
    """multiprocessing.Pool over actors: the functions see the session, and so its objects and other actors.

    >>> with Pool(2) as pool:
    ...     pool.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, processes: int | None = None, initializer: Callable[..., Any] | None = None, initargs: Sequence[Any] | None = None,
                 maxtasksperchild: int | None = None, context: Any = None, ray_address: str | None = None,
                 ray_remote_args: dict[str, Any] | None = None) -> None:
        from weir import _session, ray_api

        if context is not None:
            logging.getLogger("ray.util.multiprocessing").warning("The 'context' argument is not supported using ray: workers are weir's.")
        if not _session.is_initialized():
            ray_api.init(address=ray_address, num_cpus=processes) if processes else ray_api.init(address=ray_address)
        there = int(_session.cluster_resources().get("CPU", 0))
        if processes is None:
            processes = there
        if processes <= 0:
            raise ValueError("Processes in the pool must be >0.")
        if processes > there:
            raise ValueError(f"Tried to start a pool with {processes} processes on an existing ray cluster, but there are only {there} CPUs in it: "
                             f"init(num_cpus={processes}) before")
        self._processes = processes
        self._calls_max = maxtasksperchild or -1
        made: Any = functions.remote(**ray_remote_args)(_Process) if ray_remote_args else functions.remote(_Process)
        self._make: Callable[[], Any] = lambda: made.remote(initializer, tuple(initargs or ()))
        self._actors = [[self._make(), 0] for _ in range(processes)]
        self._turn = itertools.cycle(range(processes))
        self._started_all: list[Any] = []
        self._is_open = True

    def _started(self, func: Callable[..., Any], chunk: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> Any:
        entry = self._actors[next(self._turn)]
        if 0 < self._calls_max <= entry[1]:  # the old actor ends when its calls have ended
            entry[:] = [self._make(), 0]
        entry[1] += 1
        ref = entry[0].run.remote(func, chunk)
        self._started_all = [*api.wait(self._started_all, num_returns=len(self._started_all), timeout=0)[1], ref] if self._started_all else [ref]
        return ref

    def _begun(self, func: Callable[..., Any], calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]], chunksize: int | None,
               callback: Callable[[Any], Any] | None, error_callback: Callable[[BaseException], Any] | None, is_single: bool = False) -> AsyncResult:
        self._check_open()
        all_calls = list(calls)
        size = chunksize or max(1, -(-len(all_calls) // (4 * self._processes)))
        return AsyncResult([self._started(func, chunk) for chunk in _cut(iter(all_calls), size)], is_single, callback, error_callback)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("Pool not running")

    def apply(self, func: Callable[..., Any], args: Sequence[Any] | None = None, kwargs: dict[str, Any] | None = None) -> Any:
        """func(*args, **kwargs) in one of the processes.

        >>> with Pool(1) as pool:
        ...     pool.apply(divmod, (7, 2))
        (3, 1)
        """
        return self.apply_async(func, args, kwargs).get()

    def apply_async(self, func: Callable[..., Any], args: Sequence[Any] | None = None, kwargs: dict[str, Any] | None = None,
                    callback: Callable[[Any], Any] | None = None, error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """The same, without waiting. `callback` gets the result, `error_callback` what was raised.

        >>> with Pool(1) as pool:
        ...     pool.apply_async(int, ("2a",), {"base": 16}).get()
        42
        """
        return self._begun(func, [(tuple(args or ()), dict(kwargs or {}))], 1, callback, error_callback, True)

    def map(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """func of each, in order.

        >>> with Pool(1) as pool:
        ...     pool.map(len, ["a", "bc"])
        [1, 2]
        """
        result: list[Any] = self.map_async(func, iterable, chunksize).get()
        return result

    def map_async(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = None,
                  callback: Callable[[Any], Any] | None = None, error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """The same, without waiting.

        >>> with Pool(1) as pool:
        ...     pool.map_async(len, ["a", "bc"]).get(timeout=60)
        [1, 2]
        """
        return self._begun(func, (((item,), {}) for item in iterable), chunksize, callback, error_callback)

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Sequence[Any]], chunksize: int | None = None) -> list[Any]:
        """func(*item) of each, in order.

        >>> with Pool(1) as pool:
        ...     pool.starmap(pow, [(2, 3), (3, 2)])
        [8, 9]
        """
        result: list[Any] = self.starmap_async(func, iterable, chunksize).get()
        return result

    def starmap_async(self, func: Callable[..., Any], iterable: Iterable[Sequence[Any]], chunksize: int | None = None,
                      callback: Callable[[Any], Any] | None = None, error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """The same, without waiting.

        >>> with Pool(1) as pool:
        ...     pool.starmap_async(pow, [(2, 3), (3, 2)]).get(timeout=60)
        [8, 9]
        """
        return self._begun(func, ((tuple(item), {}) for item in iterable), chunksize, callback, error_callback)

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = 1) -> _Mapped:
        """func of each, in order, while the caller takes them.

        >>> with Pool(1) as pool:
        ...     list(pool.imap(abs, [-1, 2]))
        [1, 2]
        """
        self._check_open()
        return _Mapped(self, func, iterable, chunksize or 1, True)

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = 1) -> _Mapped:
        """func of each as they come.

        >>> with Pool(1) as pool:
        ...     sorted(pool.imap_unordered(abs, [-1, 2]))
        [1, 2]
        """
        self._check_open()
        return _Mapped(self, func, iterable, chunksize or 1, False)

    def close(self) -> None:
        """No more calls: what was begun ends.

        >>> pool = Pool(1)
        >>> pool.close()
        >>> pool.map(abs, [1])
        Traceback (most recent call last):
        ValueError: Pool not running
        >>> pool.join()
        """
        self._is_open = False

    def terminate(self) -> None:
        """Ends the processes now.

        >>> pool = Pool(1)
        >>> pool.terminate()
        >>> pool.join()
        """
        self._is_open = False
        for actor, _ in self._actors:
            api.kill(actor)
        self._actors, self._started_all = [], []

    def join(self) -> None:
        """Until everything that was begun has ended. close() or terminate() come before.

        >>> pool = Pool(1)
        >>> result = pool.map_async(abs, [-1])
        >>> pool.close()
        >>> pool.join()
        >>> result.ready()
        True
        """
        if self._is_open:
            raise ValueError("Pool is still running")
        if self._started_all:
            api.wait(self._started_all, num_returns=len(self._started_all))
        for actor, _ in self._actors:
            api.kill(actor)
        self._actors = []

    def __enter__(self) -> Pool:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()


def _cut(calls: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while chunk := list(itertools.islice(calls, size)):
        yield chunk
