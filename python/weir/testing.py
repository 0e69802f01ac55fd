"""What tests of programs lean on: conditions that come true, signals between tasks, rows in any order.

Under compat these are found where tests written for Ray import them from: ray._common.test_utils, ray._private.test_utils and
ray.data._internal.util.

>>> wait_for_condition(lambda: True)
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

__all__ = [
    "GiB", "KiB", "MiB", "Semaphore", "SignalActor", "async_wait_for_condition", "is_nan", "is_null", "rows_same",
    "run_string_as_driver", "wait_for_condition",
]

KiB = 1 << 10
MiB = 1 << 20
GiB = 1 << 30


def wait_for_condition(
    condition_predictor: Callable[..., bool], timeout: float = 10, retry_interval_ms: float = 100, raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Asks until the answer is true; a RuntimeError, where it is not in time.

    Args:
        condition_predictor: is asked, with `kwargs`; an exception is as good as False, unless raise_exceptions.
        timeout: seconds.

    >>> wait_for_condition(lambda n: n == 1, n=1)
    """
    last: Exception | None = None
    end = time.monotonic() + timeout
    while time.monotonic() <= end:
        try:
            if condition_predictor(**kwargs):
                return
        except Exception as error:
            if raise_exceptions:
                raise
            last = error
        time.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_too_late(timeout, last)) from last


async def async_wait_for_condition(
    condition_predictor: Callable[..., Any], timeout: float = 10, retry_interval_ms: float = 100, **kwargs: Any
) -> None:
    """wait_for_condition for coroutines; the condition may be one itself.

    >>> asyncio.run(async_wait_for_condition(lambda: True))
    """
    last: Exception | None = None
    end = time.monotonic() + timeout
    while time.monotonic() <= end:
        try:
            found = condition_predictor(**kwargs)
            if await found if inspect.isawaitable(found) else found:
                return
        except Exception as error:
            last = error
        await asyncio.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_too_late(timeout, last)) from last


def _too_late(timeout: float, last: Exception | None) -> str:
    told = "" if last is None else f" Last exception: {last!r}"
    return f"The condition wasn't met before the timeout expired, which is {timeout} s.{told}"


class _Signal:
    """An actor that others wait for: `wait` ends when `send` was called. `send(clear=True)` lets those go on that wait now.

    >>> import weir
    >>> from weir.testing import SignalActor
    >>> signal = SignalActor.remote()
    >>> waits = signal.wait.remote()
    >>> weir.get([signal.send.remote(), waits])
    [None, None]
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._waiting = 0

    def send(self, clear: bool = False) -> None:
        self._event.set()
        if clear:
            self._event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        if not should_wait:
            return
        self._waiting += 1
        try:
            await self._event.wait()
        finally:
            self._waiting -= 1

    async def cur_num_waiters(self) -> int:
        return self._waiting


class _Semaphore:
    """An actor that so many may have at once: `acquire` waits while they do, `release` lets the next one go on.

    >>> import weir
    >>> from weir.testing import Semaphore
    >>> semaphore = Semaphore.remote(value=1)
    >>> weir.get([semaphore.acquire.remote(), semaphore.locked.remote()])
    [None, True]
    """

    def __init__(self, value: int = 1) -> None:
        self._semaphore = asyncio.Semaphore(value)

    async def acquire(self) -> None:
        await self._semaphore.acquire()

    async def release(self) -> None:
        self._semaphore.release()

    async def locked(self) -> bool:
        return self._semaphore.locked()


def __getattr__(name: str) -> Any:
    """SignalActor and Semaphore: actors, made when they are first asked for."""
    if name not in ("SignalActor", "Semaphore"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from weir.core import remote

    made = globals()[name] = remote(num_cpus=0)(_Signal if name == "SignalActor" else _Semaphore)
    return made


def run_string_as_driver(driver_script: str, env: dict[str, str] | None = None, encode: str = "utf-8") -> str:
    """Runs a program in a process of its own, with `ray` being weir. What it prints.

    >>> run_string_as_driver("print(1)")
    '1\\n'
    """
    import subprocess
    import sys

    words = [sys.executable, "-m", "weir.compat", "-c", driver_script]
    ended = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = ended.stdout.decode(encode, "replace")
    if ended.returncode:
        print(output)
        raise subprocess.CalledProcessError(ended.returncode, words[:3], output)
    return output


def is_nan(value: Any) -> bool:
    """Whether it is a float that is not a number.

    >>> is_nan(float("nan")), is_nan(None), is_nan("a")
    (True, False, False)
    """
    return isinstance(value, float) and value != value


def is_null(value: Any) -> bool:
    """None, NaN and pandas' NaT and NA.

    >>> is_null(None), is_null(float("nan")), is_null(0)
    (True, True, False)
    """
    from weir import aggregate

    return aggregate.is_null(value)


def rows_same(actual: pandas.DataFrame, expected: pandas.DataFrame) -> bool:
    """Whether two frames have the same rows, in whatever order, whatever their index and dtypes. False where they are not as many; an
    AssertionError that shows the difference, where rows differ.

    >>> import pandas as pd
    >>> rows_same(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2, 1]}))
    True
    """
    import pandas as pd

    if len(actual) != len(expected):
        return False
    if len(actual):
        pd.testing.assert_frame_equal(_in_order(actual), _in_order(expected), check_dtype=False)
    return True


def _in_order(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Columns by name, rows by what they look like: lists, arrays and dicts have no order of their own."""
    import pandas as pd

    names = sorted(frame.columns)
    frame = frame[names]
    try:
        plain = frame.astype({name: object for name in names if isinstance(frame[name].dtype, pd.ArrowDtype)})
        ordered = frame.iloc[plain.reset_index(drop=True).sort_values(by=names).index]
    except (TypeError, ValueError, NotImplementedError):
        texts = frame.astype(object).map(lambda value: str(value.tolist() if hasattr(value, "tolist") else value))
        ordered = frame.iloc[texts.reset_index(drop=True).sort_values(by=names).index]
    ordered = ordered.reset_index(drop=True)
    assert isinstance(ordered, pd.DataFrame)
    return ordered
