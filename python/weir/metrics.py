"""Counters, gauges and histograms of a program, as ray.util.metrics has them.

There is no collector to send them to: each process keeps its own, and `values()` tells them. Functions and actors have copies, which begin
at nothing there.

>>> from weir.metrics import Counter
>>> seen = Counter("rows_seen", description="rows of a model", tag_keys=("model",))
>>> seen.inc(3, tags={"model": "a"})
>>> seen.values()
{('a',): 3.0}
"""

from __future__ import annotations

import bisect
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Counter", "Gauge", "Histogram", "Metric"]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class Metric:
    """What they have in common: a name, and figures by the values of the tags.

    Args:
        name: letters, digits, _ and :, no digit first; a metric of another name is warned of, and keeps nothing.
        description: what it counts.
        tag_keys: the names of the tags, all of which a figure needs.

    >>> isinstance(Gauge("free"), Metric)
    True
    """

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        if not name:
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
        keys = tag_keys or ()
        if not isinstance(keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(keys)}.")
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        self._is_kept = _NAME.fullmatch(name) is not None
        if not self._is_kept:
            warnings.warn(f"Invalid metric name: {name}. It may have letters, digits, _ and :, and no digit first; its figures are not kept.", stacklevel=3)
        self._name = name
        self._description = description
        self._tag_keys = keys
        self._default_tags: dict[str, str] = {}
        self._lock = threading.Lock()  # guards _figures
        self._figures: dict[tuple[str, ...], Any] = {}

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Metric:
        """Values of tags that a figure does not name itself. Gives the metric.

        >>> seen = Counter("seen", tag_keys=("model",)).set_default_tags({"model": "a"})
        >>> seen.inc()
        >>> seen.values()
        {('a',): 1.0}
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            if not isinstance(value, str):
                raise TypeError(f"Tag values must be str, got {type(value)}.")
        self._default_tags = dict(default_tags)
        return self

    @property
    def info(self) -> dict[str, Any]:
        """Its name, description, tag_keys and default_tags.

        >>> Counter("name", description="desc").info
        {'name': 'name', 'description': 'desc', 'tag_keys': (), 'default_tags': {}}
        """
        return {"name": self._name, "description": self._description, "tag_keys": self._tag_keys, "default_tags": self._default_tags}

    def values(self) -> dict[tuple[str, ...], Any]:
        """This process's figures, by the values of the tags in the order of tag_keys.

        >>> Gauge("free").values()
        {}
        """
        with self._lock:
            return dict(self._figures)

    def _place(self, value: Any, tags: Mapping[str, str] | None) -> tuple[str, ...]:
        """Where a figure belongs; checks both."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"value must be int or float, got {type(value)}.")
        for given in (tags or {}).values():
            if not isinstance(given, str):
                raise TypeError(f"Tag values must be str, got {type(given)}.")
        all_tags = {**self._default_tags, **(tags or {})}
        missing = [key for key in self._tag_keys if key not in all_tags]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        return tuple(all_tags[key] for key in self._tag_keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._arguments(), self._default_tags)

    def _arguments(self) -> dict[str, Any]:
        return {"name": self._name, "description": self._description, "tag_keys": self._tag_keys}


def _again(kind: type[Metric], arguments: dict[str, Any], default_tags: dict[str, str]) -> Metric:
    return kind(**arguments).set_default_tags(default_tags)


class Counter(Metric):
    """A sum that only grows.

    >>> seen = Counter("seen")
    >>> seen.inc(); seen.inc(2)
    >>> seen.values()
    {(): 3.0}
    """

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Adds to it; `value` is more than 0.

        >>> Counter("seen").inc(-1)
        Traceback (most recent call last):
        ...
        ValueError: value must be >0, got -1
        """
        place = self._place(value, tags)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        if self._is_kept:
            with self._lock:
                self._figures[place] = self._figures.get(place, 0.0) + value


class Gauge(Metric):
    """The last figure.

    >>> free = Gauge("free")
    >>> free.set(2)
    >>> free.values()
    {(): 2.0}
    """

    def set(self, value: float | None, tags: Mapping[str, str] | None = None) -> None:
        """Takes the figure; None is none.

        >>> free = Gauge("free", tag_keys=("disk",))
        >>> free.set(10, tags={"disk": "a"}); free.set(9, tags={"disk": "a"}); free.set(None)
        >>> free.values()
        {('a',): 9.0}
        """
        if value is None:
            return
        place = self._place(value, tags)
        if self._is_kept:
            with self._lock:
                self._figures[place] = float(value)


class Histogram(Metric):
    """How many figures lie between boundaries.

    >>> took = Histogram("took", boundaries=[1, 10])
    >>> for seconds in (0.5, 1, 7, 12):
    ...     took.observe(seconds)
    >>> took.values()
    {(): [2, 1, 1]}
    """

    def __init__(
        self, name: str, description: str = "", boundaries: Sequence[float] | None = None, tag_keys: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(name, description, tag_keys)
        if boundaries is None or not len(boundaries):
            raise ValueError('boundaries argument should be provided when using Histogram: Histogram("name", boundaries=[1.0, 2.0])')
        for at, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError(f"Invalid `boundaries` argument at index {at}, {boundaries}. Use positive values for the arguments.")
        self.boundaries = boundaries

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Counts the figure: a boundary belongs to what is below it.

        >>> took = Histogram("took", boundaries=[1])
        >>> took.observe(1); took.observe(1.5)
        >>> took.values()
        {(): [1, 1]}
        """
        place = self._place(value, tags)
        if self._is_kept:
            with self._lock:
                counts = self._figures.setdefault(place, [0] * (len(self.boundaries) + 1))
                counts[bisect.bisect_left(self.boundaries, value)] += 1

    @property
    def info(self) -> dict[str, Any]:
        """As a Metric's, and the boundaries.

        >>> Histogram("took", boundaries=[1, 10]).info["boundaries"]
        [1, 10]
        """
        return {**super().info, "boundaries": self.boundaries}

    def values(self) -> dict[tuple[str, ...], Any]:
        """This process's counts: up to the first boundary, between each two, above the last.

        >>> Histogram("took", boundaries=[1, 10]).values()
        {}
        """
        with self._lock:
            return {place: list(counts) for place, counts in self._figures.items()}

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "boundaries": self.boundaries}
