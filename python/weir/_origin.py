"""Where the rows were read that an error is about, in words.

An origin is what the engine knows of a task's rows (src/ops/origin.h): whether each of them can be traced, and parts, in the rows' order.
A part is (source, how many of the rows, its first and its last row in the source). Rows of −1 are not known; a source of None stands for
several; fewer rows than from the first to the last: a filter, a limit or a sample has left some out.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence

Part = tuple["str | None", int, int, int]
Origin = tuple[bool, Sequence[Part]]

PARTS_TOLD = 3  # of more, the first and the last


def text(origin: Origin | None) -> str:
    """All of an origin; "": nobody knows.

    >>> text((True, [("a.csv", 36, 64, 99), ("b.csv", 14, 0, 27)]))
    'rows 64–99 of a.csv and 14 of rows 0–27 of b.csv'
    """
    if origin is None:
        return ""
    parts = origin[1] if origin[0] else [(source, last - first + 1, first, last) if first >= 0 else (source, rows, first, last)
                                         for source, rows, first, last in origin[1]]
    return _joined(parts, [_whole(part) for part in parts])


def place(rows: tuple[int, int] | None, count: int, origin: Origin | None) -> str:
    """Where rows `rows` of a task's `count` were read, the first being 0. None: it was about no rows of its own.

    >>> place((30, 40), 50, (True, [("a.csv", 36, 64, 99), ("b.csv", 14, 0, 13)]))
    'rows 94–99 of a.csv and rows 0–4 of b.csv'
    >>> place((3, 3), 10, None)
    'row 3 of the 10 rows it was given'
    """
    if rows is None:
        return text(origin)
    if origin is not None and origin[0] and sum(part[1] for part in origin[1]) == count:
        found = list(_found(origin[1], *rows))
        return _joined([part for part, _, _ in found], [_some(part, low, high) for part, low, high in found])
    given = f"the {count} rows it was given" if count > 1 else "the row it was given"
    shown = given if rows == (0, count - 1) else f"{_range(*rows)} of {given}"
    return f"{shown}, made of {text(origin)}" if origin is not None else shown


def _found(parts: Sequence[Part], first: int, last: int) -> Iterator[tuple[Part, int, int]]:
    """Each part that has some of the rows, and which of its rows those are."""
    begin = 0
    for part in parts:
        low, high = max(first - begin, 0), min(last - begin, part[1] - 1)
        begin += part[1]
        if low <= high:
            yield part, low, high


def _range(first: int, last: int) -> str:
    return f"row {first}" if first == last else f"rows {first}–{last}"


def _of(part: Part) -> str:
    return f" of {part[0]}" if part[0] else ""


def _whole(part: Part) -> str:
    source, rows, first, last = part
    if first < 0:
        return f"{rows} row{'s' * (rows != 1)} of {'other files' if source is None else source or 'what no file holds'}"
    if last - first + 1 != rows:
        return f"{rows} of {_range(first, last)}{_of(part)}"
    return _range(first, last) + _of(part)


def _some(part: Part, low: int, high: int) -> str:
    rows, first, last = part[1:]
    if high - low + 1 == rows:
        return _whole(part)
    if first >= 0 and last - first + 1 == rows:
        return _range(first + low, first + high) + _of(part)
    left = "the " + _whole(part) if first < 0 else f"the {rows} left of {_range(first, last)}{_of(part)}"
    return f"{_range(low, high)} of {left}"


def _joined(parts: Sequence[Part], shown: Sequence[str]) -> str:
    if len(shown) > PARTS_TOLD:
        files = len({part[0] for part in parts})
        return f"{shown[0]} … {shown[-1]} ({f'of {files} files' if files > 1 else f'{len(shown)} pieces'})"
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)
