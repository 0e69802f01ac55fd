"""What a worker does to the rows of one task; no process is needed for it: local_mode and the tests call it as it is.

    make(head, objects) ─▶ Function        for each task: apply(function, batch) ─▶ batches
"""
from __future__ import annotations

import bisect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from weir import _forks, _formats
from weir._errors import WrongReturn
from weir._shortage import give_back, shortage

if TYPE_CHECKING:
    from weir._weir import Batch

AUTO_BYTES = 16 << 20      # batch_size="auto": a batch's worth
MERGED_MIN = 1 << 20       # results smaller than this are put together before they are written
ROWS_AT_ONCE = 4096        # Python rows made in one go
ROWS_KEPT = 1 << 16        # results of map and flat_map are made into a batch at the latest after so many
ROWS_PIECE = 8 << 20       # or of so many bytes
MUCH = 4                   # parts of a result, from which on they are half as large
LARGE_VALUE = 1 << 20      # an array that is a row's value is worth not copying
CUT_TIMES = 4              # a function without batch_size that is short of memory gets so many times fewer rows
CUTS_MAX = 5               # so often, one after another
ASYNC_BATCHES = 16         # calls of an async function that go on at once
ASYNC_ROWS = 64
BACKOFF_MAX_S = 32         # between two calls of a function that raised
CO_COROUTINE, CO_ASYNC_GENERATOR = 0x80, 0x200  # as in inspect, which is slow to import

is_worker = False  # whether this process is one, whose maps of batches are private


class Constructing(Exception):
    """A class's constructor raised; __cause__ is the user's error."""


class Stopped(Exception):
    """A function raised StopIteration, which would end the generators here; __cause__ is it."""


class Function:
    """A user's function as a worker holds it: made once, called for every batch.

    `rows` says which of the current task's rows it was given last, for errors."""

    def __init__(self, head: Mapping[str, Any], fn: Callable[..., Any], args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> None:
        self.kind: str = head["kind"]
        self.name: str = head["name"]
        self.batch_size: int | str | None = head["batch_size"]
        self.batch_format: str | None = head["batch_format"]
        self.zero_copy: bool = head["zero_copy"]
        self.arrow_backed: bool = head["arrow_backed"]
        self.objects: bool = head.get("objects", True)  # values that no Arrow type has are kept
        self.frames: bool = head.get("frames", False)
        self.retried: Mapping[str, Any] | None = head["retried"]
        self.keys: list[str] | None = head["keys"]  # it is called for groups
        self.takes_groups: bool = head.get("takes_groups", False)  # or for several at once, by their marks: these are not cut either
        self.piece: int = head.get("piece") or sys.maxsize  # bytes of a result; a larger one is given in parts
        self.whole: bool = head.get("whole", False)  # the user said what its batches are
        self.rows_most = sys.maxsize  # of a batch, where it has no size: what was seen to be too much
        self.rows_step = self.flat_step = 1  # Python rows to be made in one go, by how large they are
        # How several calls go on at once, where they do.
        self.at_once = _run_async if is_async(fn) else _run_threads if head.get("in_threads") else None
        limit = head["max_concurrency"]
        self.concurrent: int = limit or (ASYNC_BATCHES if self.kind == "map_batches" else ASYNC_ROWS)
        if self.at_once is _run_threads:
            self.rows_step = self.concurrent
        self.loop: Any = None
        self.threads: Any = None
        self.rows = (0, 0)
        self.at: Callable[[int, int], None] | None = None  # tells the driver, where there are several batches
        self.task = 0  # the number of the task, which a write is told
        self.call_ns = 0  # of the current task's time, what the user's function took
        self.call_numbered = fn
        if args:
            self.call: Callable[[Any], Any] = lambda value: fn(value, *args, **kwargs)
        elif kwargs:
            self.call = lambda value: fn(value, **kwargs)
        else:
            self.call = fn

    def close(self) -> None:
        if self.loop is not None:
            self.loop.close()
            self.loop = None
        if self.threads is not None:
            self.threads.shutdown()
            self.threads = None


def make(head: Mapping[str, Any], objects: Mapping[str, Any]) -> Function:
    """The function ready to be called; a class is made into its one object. Constructing: its constructor raised."""
    fn = objects["fn"]
    if head["is_class"]:
        fn = _constructed(fn, objects, head["constructor_retries"])
    return Function(head, fn, tuple(objects["fn_args"]), dict(objects["fn_kwargs"]))


def _constructed(cls: Any, objects: Mapping[str, Any], retries: int) -> Any:
    for attempt in range(retries + 1):
        try:
            return cls(*objects["fn_constructor_args"], **objects["fn_constructor_kwargs"])
        except BaseException as error:
            if attempt == retries or not isinstance(error, Exception) or shortage.explains(error):
                raise Constructing from error
    raise AssertionError("unreachable")


def is_async(fn: Any) -> bool:
    """Whether calling it, or an object of it when it is a class, gives a coroutine or an async generator.

    >>> async def f(batch): return batch
    >>> is_async(f), is_async(len)
    (True, False)
    """
    while hasattr(fn, "func") and hasattr(fn, "keywords"):  # functools.partial
        fn = fn.func
    called = fn.__call__ if isinstance(fn, type) else fn
    codes = [getattr(candidate, "__code__", None) for candidate in (called, getattr(type(fn), "__call__", None))]
    return any(code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR) for code in codes if code is not None)


class Tries:
    """How often one call may still be made again, because of what it raised (retried_map_errors, actor_task_retry_on_errors)."""

    __slots__ = ("retried", "left", "pause")

    def __init__(self, retried: Mapping[str, Any] | None) -> None:
        self.retried = retried
        self.left: int = retried["times"] if retried else 0
        self.pause = 0.0

    def allow(self, error: BaseException) -> bool:
        """Whether to call again. The error of a missing piece of memory is the engine's to deal with."""
        retried = self.retried
        if not self.left or retried is None or not isinstance(error, Exception) or isinstance(error, Stopped):
            return False
        if not _is_meant(error, retried) or shortage.explains(error):
            return False
        self.left -= 1
        if retried["backoff_s"]:
            import random

            self.pause = min(retried["backoff_s"] * 2 ** (retried["times"] - self.left - 1), BACKOFF_MAX_S) * random.random()
        return True

    def wait(self) -> None:
        if self.pause:
            from time import sleep

            sleep(self.pause)


def _is_meant(error: Exception, retried: Mapping[str, Any]) -> bool:
    """By its class, or by a text: a part of `Class: message`, or a regular expression that is found there."""
    import re
    import traceback

    if retried["all"] or {f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__}.intersection(retried["names"]):
        return True
    shown = " ".join("".join(traceback.format_exception_only(one)).rstrip("\n") for one in (error, error.__cause__) if one is not None)
    for text in retried["texts"]:
        try:
            if text in shown or re.search(text, shown):
                return True
        except re.error:  # it was meant as a text
            continue
    return False


def _again(items: Any, call: Callable[[], Any], tries: Tries) -> Iterator[Any]:
    """The items of a generator. Where it raises what is tried again: of another one, but for as many as were given."""
    given = 0
    while True:
        try:
            for number, item in enumerate(items):
                if number == given:
                    given += 1
                    yield item
                del item
            return
        except Exception as error:
            if not tries.allow(error):
                raise
        tries.wait()
        items = call()


# ---- one task ----

def apply(function: Function, batch: Batch) -> Iterator[Batch]:
    """The results for one task's rows. Small ones are put together; an empty result comes only when it is the only one,
    for its columns' sake."""
    if batch.num_rows == 0:
        return
    if function.kind == "write":
        yield function.call_numbered(batch, function.task)
        return
    if function.kind == "read":
        results = _apply_read(function, batch)
    else:
        results = _apply_batches(function, batch) if function.kind == "map_batches" else _apply_rows(function, batch)
    yield from merged(results if function.objects else map(_formats.without_objects, results))


def _apply_read(function: Function, batch: Batch) -> Iterator[Batch]:
    for number, row in enumerate(batch.rows()):
        function.rows = (number, number)
        task = row["task"]
        items = function.call(task)
        if function.retried is not None:
            items = _again(items, lambda task=task: function.call(task), Tries(function.retried))  # type: ignore[misc]
        yield from _timed(function, items)


def _timed(function: Function, items: Iterable[Any]) -> Iterator[Any]:
    """The items of a generator; the time it takes to make them is the function's."""
    source = iter(items)
    while True:
        begun = perf_counter_ns()
        try:
            item = next(source)
        except StopIteration:
            return
        finally:
            function.call_ns += perf_counter_ns() - begun
        if _forks.is_fork:
            _forks.leave()
        yield item
        del item


def merged(results: Iterable[Batch], least: int = MERGED_MIN) -> Iterator[Batch]:
    """Results of less than `least` bytes are one: columns that some lack are null there, types are those that hold all."""
    kept: list[Batch] = []
    size = 0
    empty: Batch | None = None
    written = False
    for result in results:
        if result.num_rows == 0:
            empty = result
            continue
        written = True
        bytes_ = result.nbytes
        if kept and bytes_ >= least:
            yield from _joined(kept)
            kept, size = [], 0
        if bytes_ >= least:
            yield result
            continue
        kept.append(result)
        size += bytes_
        if size >= least:
            yield from _joined(kept)
            kept, size = [], 0
    if kept:
        yield from _joined(kept)
    elif empty is not None and not written:
        yield empty


def _joined(batches: list[Batch]) -> Iterator[Batch]:
    """One batch; where no type holds all values of a column, one for each run of the same types."""
    from weir import _weir

    if len(batches) == 1:
        yield batches[0]
        return
    schemas = [batch.schema() for batch in batches]
    if all(schema == schemas[0] for schema in schemas):
        yield _weir.batch_concat(batches)
        return
    try:
        yield _weir.batch_concat(batches)
        return
    except (TypeError, ValueError, NotImplementedError):
        pass
    first = 0
    for at in range(1, len(batches) + 1):
        if at == len(batches) or schemas[at] != schemas[first]:
            yield batches[first] if at - first == 1 else _weir.batch_concat(batches[first:at])
            first = at


def _rows_of_batch(function: Function, batch: Batch) -> int:
    size = function.batch_size
    if size is None:
        return batch.num_rows
    if isinstance(size, int):
        return size
    return max(1, AUTO_BYTES * batch.num_rows // max(1, batch.nbytes))


def _apply_batches(function: Function, batch: Batch) -> Iterator[Batch]:
    count = batch.num_rows
    if function.keys is not None:
        from weir import _grouped

        batch, ranges = _grouped.boundaries(batch)
    else:
        step = _rows_of_batch(function, batch)
        if function.batch_size is None and function.at_once is _run_threads and not function.whole:
            step = -(-count // function.concurrent)
        ranges = [(a, min(a + step, count)) for a in range(0, count, step)]
    if function.at_once is not None:
        def make(a: int, b: int) -> Any:
            return _formatted(function, batch.slice(a, b))

        for result in _timed(function, function.at_once(function, (make(a, b) for a, b in ranges), ranges, make)):
            yield from _formats.from_result(result, copy=True)
        return
    if function.batch_size is None and function.keys is None and not function.whole:
        yield from _in_parts(function, batch)
        return
    for a, b in ranges:
        function.rows = (a, b - 1)
        if function.at is not None and b - a < count:
            function.at(a, b - a)
        yield from _call_once(function, batch, a, b, len(ranges) > 1)


def _in_parts(function: Function, batch: Batch) -> Iterator[Batch]:
    """The results of a function that has no batch_size: where it needs more memory for all rows than there is, they come to it in parts."""
    first, cuts, b = 0, 0, batch.num_rows
    ends = _ends_of_groups(function, batch)
    while first < b:
        last = min(b, first + function.rows_most)
        least = first + 1
        if ends is not None:
            least = ends[bisect.bisect_right(ends, first)]
            last = max(least, ends[bisect.bisect_right(ends, last) - 1])
        function.rows = (first, last - 1)
        if function.at is not None and last - first < b:
            function.at(first, last - first)
        try:
            made = _call_once(function, batch, first, last, last - first < b)
        except Exception as error:
            if last == least or cuts == CUTS_MAX or not shortage.explains(error):
                raise
            made = None
        if made is None:
            cuts += 1
            function.rows_most = max(1, (last - first) // CUT_TIMES)
            give_back()
            continue
        cuts = 0
        if isinstance(made, list) and function.piece < sys.maxsize:
            _note_size(function, made, last - first)
        yield from made
        del made
        first = last


def _ends_of_groups(function: Function, batch: Batch) -> list[int] | None:
    """Behind the last row of each group; None: it has none."""
    if not function.takes_groups:
        return None
    from weir import _grouped

    return [end for _, end in _grouped.boundaries(batch)[1]]


def _formatted(function: Function, batch: Batch) -> Any:
    return _formats.to_format(batch, function.batch_format, function.zero_copy, function.arrow_backed, is_worker, function.frames)


def _call_once(function: Function, batch: Batch, a: int, b: int, copy: bool) -> Iterable[Batch]:
    part = batch if b - a == batch.num_rows else batch.slice(a, b)
    tries = Tries(function.retried)
    result = _called(function, part, tries)
    if hasattr(result, "__next__"):
        if tries.left:
            result = _again(result, lambda: _called(function, part, tries), tries)
        else:
            del part
        return _of_generator(function, result)
    del part
    return _formats.from_result(result, copy=copy)


def _called(function: Function, part: Batch, tries: Tries) -> Any:
    """What the function returned, at last."""
    while True:
        value = _formatted(function, part)
        begun = perf_counter_ns()
        try:
            result = function.call(value)
            if _forks.is_fork:
                _forks.leave()
            return _finish(function, result) if _is_awaitable(result) else result
        except StopIteration as error:
            raise Stopped from error
        except Exception as error:
            if _forks.is_fork or not tries.allow(error):
                raise
        finally:
            function.call_ns += perf_counter_ns() - begun
            del value
        tries.wait()


def _of_generator(function: Function, result: Any) -> Iterator[Batch]:
    for item in _timed(function, result):
        made = _formats.from_result(item, copy=True)
        del item
        yield from made


def _note_size(function: Function, made: list[Batch], rows: int) -> None:
    """A function without batch_size whose results are larger than a part gets fewer rows from then on."""
    bytes_ = sum(result.nbytes for result in made)
    if bytes_ > function.piece:
        function.rows_most = max(1, rows * function.piece // bytes_)
    elif rows == function.rows_most and bytes_ < function.piece // 2:
        function.rows_most *= 2


def parts(result: Batch, most: int) -> Iterator[Batch]:
    """The rows of a result, so many bytes at a time, as far as rows are alike; half as many where it is much more, since all of it lies here
    as long as one is made and another taken."""
    if result.nbytes > MUCH * most:
        most //= 2
    step = max(1, result.num_rows * most // max(1, result.nbytes))
    for first in range(0, result.num_rows, step):
        yield result.slice(first, min(first + step, result.num_rows))


def group_of(function: Function, batch: Batch) -> str:
    """The key of the group that the function was at, for errors; "": it is not called for groups."""
    if function.keys is None:
        return getattr(function.call, "group", "")
    from weir import _grouped

    return _grouped.key_text(function.keys, batch, function.rows[0])


def _apply_rows(function: Function, batch: Batch) -> Iterator[Batch]:
    from weir import _weir

    if function.kind == "filter":
        mask = _filter_mask(function, batch)
        if mask.count(1) == len(mask):
            yield batch
        elif 1 in mask:
            yield batch.filter(mask)
        else:
            yield batch.slice(0, 0)
        return
    kept: list[Any] = []
    first = 0  # of the rows that the first of these came of
    bytes_, most = 0, min(ROWS_PIECE, function.piece)
    for results in _row_results(function, batch, most):
        begin, last = function.rows
        first = first if kept else begin
        for rows in (results,) if function.kind == "map" else _flattened(function, results, most):
            kept.extend(rows)
            bytes_ += _weir.row_bytes(rows)
            rows.clear()  # or they would live as long as the batch that is made of them
            if len(kept) >= ROWS_KEPT or bytes_ >= most:
                made, bytes_ = _of_rows(function, kept, first, last), 0
                kept, first = [], begin
                yield made
                del made
    if kept:
        made = _of_rows(function, kept, first, last)
        del kept
        yield made


def _of_rows(function: Function, returned: list[Any], first: int, last: int) -> Batch:
    """What a function returned for rows `first` to `last` as a batch. Where it cannot be one, function.rows says for which of them."""
    function.rows = (first, last)
    try:
        return _batch_of_rows(returned, function.kind)
    except WrongReturn:
        if function.kind == "map":
            first += _first_wrong(returned)
            function.rows = (first, first)
        raise


def _first_wrong(rows: list[Any]) -> int:
    """The first row that is none, or does not go with those before it."""
    good, bad = 0, len(rows)  # so many from the beginning can be a batch; cannot
    while bad - good > 1:
        some = (good + bad) // 2
        try:
            _batch_of_rows(rows[:some], "map")
            good = some
        except WrongReturn:
            bad = some
    return good


def _step(before: int, rows: list[Any], most: int) -> int:
    """How many rows to make next, at most twice as many as before, of about `most` bytes."""
    from weir import _weir

    return max(1, min(2 * before, ROWS_AT_ONCE, most * len(rows) // max(1, _weir.row_bytes(rows)))) if rows else before


def _rows_at(function: Function, batch: Batch, first: int, last: int) -> list[Any]:
    rows = batch.rows(first, last)
    if function.frames:
        _formats.make_frame_rows(batch, rows)
    return rows


def _row_results(function: Function, batch: Batch, most: int = ROWS_PIECE) -> Iterator[list[Any]]:
    """What the function returned for each row, some thousand rows at a time, or few where what it returns is large."""
    def make(a: int, b: int) -> Any:
        return _rows_at(function, batch, a, b)[0]

    first = 0
    while first < batch.num_rows:
        rows = _rows_at(function, batch, first, min(first + function.rows_step, batch.num_rows))
        results: list[Any] = []
        begun = perf_counter_ns()
        if function.at_once is not None:
            results = list(function.at_once(function, rows, [(first + i, first + i + 1) for i in range(len(rows))], make))
        else:
            _call_rows(function, batch, first, rows, results)
            if results and _is_awaitable(results[0]):
                results = [_finish(function, result) for result in results]
            if function.retried is not None and function.kind == "flat_map":
                results = [_tried_rows(function, result, first + i, make) for i, result in enumerate(results)]
        function.call_ns += perf_counter_ns() - begun
        function.rows = (first, first + len(rows) - 1)
        first += len(rows)
        function.rows_step = _step(function.rows_step, rows if function.kind == "filter" else results, most)
        del rows
        yield results


def _call_rows(function: Function, batch: Batch, first: int, rows: list[Any], results: list[Any]) -> None:
    """Calls the function for each of the rows, which begin with the batch's row `first`."""
    call, tries, at = function.call, Tries(None), -1
    while True:
        left = rows[len(results):] if results else rows
        _forks.going(left)
        try:
            results.extend(map(call, left))  # at an error it holds the results before it
            if _forks.is_fork:
                _forks.leave()
        except BaseException as error:
            if _forks.is_fork:
                raise
            number = len(results)
            function.rows = (first + number,) * 2
            if number != at:
                tries, at = Tries(function.retried), number
            if not tries.allow(error):
                raise
            rows[number] = _rows_at(function, batch, first + number, first + number + 1)[0]  # it may have changed the row
            tries.wait()
            continue
        if len(results) < len(rows):
            function.rows = (first + len(results),) * 2
            raise Stopped from StopIteration()
        return


def _tried_rows(function: Function, result: Any, number: int, make: Callable[[int, int], Any]) -> Any:
    """What flat_map's function returned for row `number`; a generator is made anew where it raises what is tried again."""
    if not hasattr(result, "__next__"):
        return result
    return _again(result, lambda: function.call(make(number, number + 1)), Tries(function.retried))


def _filter_mask(function: Function, batch: Batch) -> bytearray:
    mask = bytearray()
    for results in _row_results(function, batch):
        for result in results:
            try:
                mask.append(bool(result))
            except Exception as error:
                raise WrongReturn(f"the function of filter returned {_formats._what(result)}, which is neither true nor false ({error}); it is "
                                  "called for each row, and a row is a dict: filter(expr=…) and map_batches work on many at once") from error
    return mask


def _flattened(function: Function, results: list[Any], most: int) -> Iterator[list[Any]]:
    """The rows that flat_map returned, a few at a time: generators make them as they are asked."""
    rows = chain.from_iterable(map(_rows_of, results))
    _forks.going(results)
    while piece := list(islice(rows, function.flat_step)):
        if _forks.is_fork:
            _forks.leave()
        function.flat_step = _step(function.flat_step, piece, most)
        yield piece


def _rows_of(result: Any) -> Iterable[Any]:
    if type(result) is not list and (isinstance(result, (str, bytes, Mapping)) or not hasattr(result, "__iter__")):
        raise WrongReturn(f"the function of flat_map returned {_formats._what(result)}; it may return a list of rows, "
                          "or a generator of them, each a dict")
    return result


def _batch_of_rows(rows: list[Any], kind: str) -> Batch:
    from weir import _weir

    if set(map(type, rows)) != {dict}:
        for row in rows:
            if not isinstance(row, Mapping):
                hint = "" if row is None or isinstance(row, (str, bytes)) else ': name the value, as in {"item": value}'
                raise WrongReturn(f"the function of {kind} returned {_formats._what(row)} for a row; each row is a dict with "
                                  f"str keys{hint}")
        rows = [dict(row) for row in rows]
    try:
        if len(rows) == 1 and (columns := _large_columns(rows[0])):
            return _weir.batch_from_columns(columns)
        return _weir.batch_from_rows(rows)
    except (ValueError, TypeError, OverflowError) as error:
        raise WrongReturn(f"the rows that the function of {kind} returned cannot be made into columns: {error}") from error


def _large_columns(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row with a large array as columns, so that this is not copied; None: it has none."""
    np = sys.modules.get("numpy")
    large = [name for name, value in row.items()
             if np is not None and type(value) is np.ndarray and value.nbytes >= LARGE_VALUE and value.dtype.kind in "iufb" and value.flags.c_contiguous]
    if not large or not all(type(name) is str for name in row):
        return None
    return {name: value[None] if name in large else [value] for name, value in row.items()}


# ---- async ----

def _is_awaitable(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__await__") or hasattr(kind, "__anext__")


def _loop(function: Function) -> Any:
    import asyncio

    if function.loop is None:
        function.loop = asyncio.new_event_loop()
    return function.loop


async def _gathered(value: Any) -> Any:
    """The awaited value; an async generator's items as a list."""
    if hasattr(type(value), "__anext__"):
        return iter([item async for item in value])
    return await value


async def _tried(value: Any, call: Callable[[], Any], tries: Tries) -> Any:
    """The same, where it may be called again."""
    import asyncio

    while True:
        try:
            return await _gathered(call() if value is None else value)
        except Exception as error:
            if not tries.allow(error):
                raise
        await asyncio.sleep(tries.pause)
        value = None


def _finish(function: Function, value: Any) -> Any:
    return _loop(function).run_until_complete(_gathered(value))


def _run_async(function: Function, values: Iterable[Any], ranges: list[tuple[int, int]], make: Callable[[int, int], Any]) -> Iterator[Any]:
    """Results in order; a few calls go on at once. `make` makes a value anew, of its place in `ranges`."""
    from collections import deque

    loop = _loop(function)
    going: deque[Any] = deque()
    places, begun = iter(ranges), iter(ranges)
    source = iter(values)
    try:
        while True:
            while len(going) < function.concurrent:
                value = next(source, going)
                if value is going:
                    break
                called, place = function.call(value), next(begun)
                if function.retried is None:
                    going.append(loop.create_task(_gathered(called)))
                else:
                    again = lambda place=place: function.call(make(*place))  # noqa: E731
                    going.append(loop.create_task(_tried(called, again, Tries(function.retried))))
                del value, called
            if not going:
                return
            first, last = next(places)
            function.rows = (first, last - 1)
            result = loop.run_until_complete(going.popleft())
            if function.kind == "map_batches" and hasattr(result, "__next__"):
                yield from result
            else:
                yield result
    finally:
        for task in going:
            task.cancel()
        if going:
            import asyncio
            loop.run_until_complete(asyncio.gather(*going, return_exceptions=True))


# ---- threads ----

def _run_threads(function: Function, values: Iterable[Any], ranges: list[tuple[int, int]], make: Callable[[int, int], Any]) -> Iterator[Any]:
    """The same for a function of the usual kind, each call in a thread of its own (enable_true_multi_threading)."""
    from collections import deque
    from concurrent.futures import ThreadPoolExecutor, wait

    if function.threads is None:
        function.threads = ThreadPoolExecutor(function.concurrent, "weir-call")
    going: deque[Any] = deque()
    source = iter(zip(values, ranges))
    places = iter(ranges)
    try:
        while True:
            for value, place in islice(source, function.concurrent - len(going)):
                going.append(function.threads.submit(_called_in_thread, function, value, lambda place=place: make(*place)))
                del value
            if not going:
                return
            first, last = next(places)
            function.rows = (first, last - 1)
            result = going.popleft().result()
            if function.kind == "map_batches" and hasattr(result, "__next__"):
                yield from result
            else:
                yield result
    finally:
        for call in going:
            call.cancel()
        wait(going)


def _called_in_thread(function: Function, value: Any, make: Callable[[], Any]) -> Any:
    """What the function returned, at last; what a generator gives is made here, too."""
    tries = Tries(function.retried)
    while True:
        try:
            result = function.call(make() if value is None else value)
            made = iter(list(result)) if hasattr(result, "__next__") else result
            if _forks.is_fork:
                _forks.leave()
            return made
        except StopIteration as error:
            raise Stopped from error
        except Exception as error:
            if _forks.is_fork or not tries.allow(error):
                raise
        tries.wait()
        value = None
