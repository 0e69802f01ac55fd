"""Trying again what storage fails at now and then: errors whose text contains one of the patterns of retried_io_errors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

ATTEMPTS = 10
WAIT_MAX_S = 32.0

T = TypeVar("T")


def is_meant(error: BaseException, patterns: Sequence[str] | None) -> bool:
    """Whether an error is one of those that are tried again.

    >>> is_meant(OSError("AWS Error SLOW_DOWN"), ["AWS Error"]), is_meant(OSError("no"), ["AWS Error"])
    (True, False)
    """
    text = str(error)
    return any(pattern in text for pattern in patterns or ())


def call_with_retry(call: Callable[[], T], match: Sequence[str] | None, attempts: int = ATTEMPTS, wait_max_s: float = WAIT_MAX_S) -> T:
    """What `call` returns, at the latest after so many attempts."""
    for attempt in range(attempts - 1):
        try:
            return call()
        except Exception as error:
            if not is_meant(error, match):
                raise
            wait(attempt, wait_max_s)
    return call()


def iterate_with_retry(
    make: Callable[[], Iterable[Any]],
    match: Sequence[str] | None,
    attempts: int = ATTEMPTS,
    wait_max_s: float = WAIT_MAX_S,
    is_one: Callable[[Exception], bool] | None = None,
) -> Iterator[Any]:
    """The items of `make()`; after an error it is made again, and what was handed out already is skipped. `is_one`: says instead of
    `match` which errors are meant."""
    given = 0
    for attempt in range(attempts):
        try:
            for number, item in enumerate(make()):
                if number >= given:
                    yield item
                    given += 1
            return
        except Exception as error:
            if attempt == attempts - 1 or not (is_meant(error, match) if is_one is None else is_one(error)):
                raise
            wait(attempt, wait_max_s)


def wait(attempt: int, most_s: float = WAIT_MAX_S) -> None:
    """Longer each time, by a random share so that workers do not come back together."""
    time.sleep(min(2.0**attempt, most_s) * random.random())
