"""The namespaces of expressions: ``.str``, ``.list``, ``.struct``, ``.map``, ``.arr``, ``.dt``. One method a function
of _expr_functions.py, with the names and parameters of Ray Data's.

    >>> from weir.expressions import col
    >>> print(col("name").str.strip().str.len().describe())
    col('name').str.strip().str.len()
"""

from __future__ import annotations

from typing import Any, Literal

from weir.expressions import CallExpr, Expr


_Slice = slice  # in _ListNamespace, slice is a function


class _Namespace:
    """What the namespaces share: the expression whose values they work on."""

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _call(self, function: str, **options: Any) -> Expr:
        return CallExpr(function, (self._expr,), options)


class _StringNamespace(_Namespace):
    """Functions of text: ``col("s").str``."""

    __slots__ = ()

    def len(self) -> Expr:
        """Number of characters.

        >>> from weir.expressions import col
        >>> print(col("s").str.len().describe())
        col('s').str.len()
        """
        return self._call("str.len")

    def byte_len(self) -> Expr:
        """Number of bytes.

        >>> from weir.expressions import col
        >>> print(col("s").str.byte_len().describe())
        col('s').str.byte_len()
        """
        return self._call("str.byte_len")

    def upper(self) -> Expr:
        """In capitals.

        >>> from weir.expressions import col
        >>> print(col("s").str.upper().describe())
        col('s').str.upper()
        """
        return self._call("str.upper")

    def lower(self) -> Expr:
        """In small letters.

        >>> from weir.expressions import col
        >>> print(col("s").str.lower().describe())
        col('s').str.lower()
        """
        return self._call("str.lower")

    def capitalize(self) -> Expr:
        """First letter a capital, the others small.

        >>> from weir.expressions import col
        >>> print(col("s").str.capitalize().describe())
        col('s').str.capitalize()
        """
        return self._call("str.capitalize")

    def title(self) -> Expr:
        """Each word's first letter a capital, the others small.

        >>> from weir.expressions import col
        >>> print(col("s").str.title().describe())
        col('s').str.title()
        """
        return self._call("str.title")

    def swapcase(self) -> Expr:
        """Capitals small, small letters capitals.

        >>> from weir.expressions import col
        >>> print(col("s").str.swapcase().describe())
        col('s').str.swapcase()
        """
        return self._call("str.swapcase")

    def is_alpha(self) -> Expr:
        """Whether there are letters only.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_alpha().describe())
        col('s').str.is_alpha()
        """
        return self._call("str.is_alpha")

    def is_alnum(self) -> Expr:
        """Whether there are letters and numbers only.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_alnum().describe())
        col('s').str.is_alnum()
        """
        return self._call("str.is_alnum")

    def is_digit(self) -> Expr:
        """Whether there are digits only.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_digit().describe())
        col('s').str.is_digit()
        """
        return self._call("str.is_digit")

    def is_decimal(self) -> Expr:
        """Whether there are decimal digits only.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_decimal().describe())
        col('s').str.is_decimal()
        """
        return self._call("str.is_decimal")

    def is_numeric(self) -> Expr:
        """Whether there are numbers only.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_numeric().describe())
        col('s').str.is_numeric()
        """
        return self._call("str.is_numeric")

    def is_space(self) -> Expr:
        """Whether there are blanks only.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_space().describe())
        col('s').str.is_space()
        """
        return self._call("str.is_space")

    def is_lower(self) -> Expr:
        """Whether no letter is a capital, and there is one.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_lower().describe())
        col('s').str.is_lower()
        """
        return self._call("str.is_lower")

    def is_upper(self) -> Expr:
        """Whether all letters are capitals, and there is one.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_upper().describe())
        col('s').str.is_upper()
        """
        return self._call("str.is_upper")

    def is_title(self) -> Expr:
        """Whether capitals begin the words, and only those.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_title().describe())
        col('s').str.is_title()
        """
        return self._call("str.is_title")

    def is_printable(self) -> Expr:
        """Whether every character can be printed.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_printable().describe())
        col('s').str.is_printable()
        """
        return self._call("str.is_printable")

    def is_ascii(self) -> Expr:
        """Whether every character is ASCII.

        >>> from weir.expressions import col
        >>> print(col("s").str.is_ascii().describe())
        col('s').str.is_ascii()
        """
        return self._call("str.is_ascii")

    def starts_with(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether it begins with ``pattern``.

        >>> from weir.expressions import col
        >>> print(col("s").str.starts_with("a").describe())
        col('s').str.starts_with('a', ignore_case=False)
        """
        return self._call("str.starts_with", pattern=pattern, ignore_case=ignore_case)

    def ends_with(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether it ends with ``pattern``.

        >>> from weir.expressions import col
        >>> print(col("s").str.ends_with("a").describe())
        col('s').str.ends_with('a', ignore_case=False)
        """
        return self._call("str.ends_with", pattern=pattern, ignore_case=ignore_case)

    def contains(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether ``pattern`` is a part of it.

        >>> from weir.expressions import col
        >>> print(col("s").str.contains("a").describe())
        col('s').str.contains('a', ignore_case=False)
        """
        return self._call("str.contains", pattern=pattern, ignore_case=ignore_case)

    def match(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether all of it is like ``pattern``, where % is any text and _ any character.

        >>> from weir.expressions import col
        >>> print(col("s").str.match("a%").describe())
        col('s').str.match('a%', ignore_case=False)
        """
        return self._call("str.match", pattern=pattern, ignore_case=ignore_case)

    def find(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """The byte where ``pattern`` is first found, -1 when it is not.

        >>> from weir.expressions import col
        >>> print(col("s").str.find("a").describe())
        col('s').str.find('a', ignore_case=False)
        """
        return self._call("str.find", pattern=pattern, ignore_case=ignore_case)

    def count(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """How often ``pattern`` is found.

        >>> from weir.expressions import col
        >>> print(col("s").str.count("a").describe())
        col('s').str.count('a', ignore_case=False)
        """
        return self._call("str.count", pattern=pattern, ignore_case=ignore_case)

    def find_regex(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """The byte where the regular expression first matches, -1 when it does not.

        >>> from weir.expressions import col
        >>> print(col("s").str.find_regex("a+").describe())
        col('s').str.find_regex('a+', ignore_case=False)
        """
        return self._call("str.find_regex", pattern=pattern, ignore_case=ignore_case)

    def count_regex(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """How often the regular expression matches.

        >>> from weir.expressions import col
        >>> print(col("s").str.count_regex("a+").describe())
        col('s').str.count_regex('a+', ignore_case=False)
        """
        return self._call("str.count_regex", pattern=pattern, ignore_case=ignore_case)

    def match_regex(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether the regular expression matches anywhere.

        >>> from weir.expressions import col
        >>> print(col("s").str.match_regex("a+").describe())
        col('s').str.match_regex('a+', ignore_case=False)
        """
        return self._call("str.match_regex", pattern=pattern, ignore_case=ignore_case)

    def reverse(self) -> Expr:
        """The characters from the last to the first.

        >>> from weir.expressions import col
        >>> print(col("s").str.reverse().describe())
        col('s').str.reverse()
        """
        return self._call("str.reverse")

    def slice(self, start: int, stop: int | None = None, step: int = 1) -> Expr:
        """Characters from ``start`` up to ``stop``, counted as Python does.

        >>> from weir.expressions import col
        >>> print(col("s").str.slice(1).describe())
        col('s').str.slice(1, step=1)
        """
        return self._call("str.slice", start=start, stop=stop, step=step)

    def replace(self, pattern: str, replacement: str, *, max_replacements: int | None = None) -> Expr:
        """With ``replacement`` for ``pattern``.

        >>> from weir.expressions import col
        >>> print(col("s").str.replace("a", "b").describe())
        col('s').str.replace('a', replacement='b')
        """
        return self._call("str.replace", pattern=pattern, replacement=replacement, max_replacements=max_replacements)

    def replace_regex(self, pattern: str, replacement: str, *, max_replacements: int | None = None) -> Expr:
        """With ``replacement`` for each match; \\\\1 … \\\\9 are groups.

        >>> from weir.expressions import col
        >>> print(col("s").str.replace_regex("a+", "b").describe())
        col('s').str.replace_regex('a+', replacement='b')
        """
        return self._call("str.replace_regex", pattern=pattern, replacement=replacement,
                          max_replacements=max_replacements)

    def replace_slice(self, start: int, stop: int, replacement: str) -> Expr:
        """With ``replacement`` for bytes ``start`` up to ``stop``.

        >>> from weir.expressions import col
        >>> print(col("s").str.replace_slice(0, 1, "x").describe())
        col('s').str.replace_slice(0, stop=1, replacement='x')
        """
        return self._call("str.replace_slice", start=start, stop=stop, replacement=replacement)

    def split(self, pattern: str, *, max_splits: int | None = None, reverse: bool = False) -> Expr:
        """The list of parts between ``pattern``.

        >>> from weir.expressions import col
        >>> print(col("s").str.split(",").describe())
        col('s').str.split(',', reverse=False)
        """
        return self._call("str.split", pattern=pattern, max_splits=max_splits, reverse=reverse)

    def split_regex(self, pattern: str, *, max_splits: int | None = None, reverse: bool = False) -> Expr:
        """The list of parts between matches.

        >>> from weir.expressions import col
        >>> print(col("s").str.split_regex(",+").describe())
        col('s').str.split_regex(',+', reverse=False)
        """
        return self._call("str.split_regex", pattern=pattern, max_splits=max_splits, reverse=reverse)

    def split_whitespace(self, *, max_splits: int | None = None, reverse: bool = False) -> Expr:
        """The list of parts between blanks.

        >>> from weir.expressions import col
        >>> print(col("s").str.split_whitespace().describe())
        col('s').str.split_whitespace(False)
        """
        return self._call("str.split_whitespace", max_splits=max_splits, reverse=reverse)

    def extract(self, pattern: str) -> Expr:
        """A struct of the regular expression's named groups.

        >>> from weir.expressions import col
        >>> print(col("s").str.extract("(?P<n>[0-9])").describe())
        col('s').str.extract('(?P<n>[0-9])')
        """
        return self._call("str.extract", pattern=pattern)

    def repeat(self, n: int) -> Expr:
        """``n`` times.

        >>> from weir.expressions import col
        >>> print(col("s").str.repeat(2).describe())
        col('s').str.repeat(2)
        """
        if n < 0:
            raise ValueError(f"str.repeat: n is 0 or more, not {n}")
        return self._call("str.repeat", n=n)

    def center(self, width: int, padding: str = " ", lean_left_on_odd_padding: bool = True) -> Expr:
        """With ``padding`` on both sides up to ``width``. An odd one stands on the right, or else on the left.

        >>> from weir.expressions import col
        >>> print(col("s").str.center(5).describe())
        col('s').str.center(5, padding=' ')
        """
        if lean_left_on_odd_padding:
            return self._call("str.center", width=width, padding=padding)
        return self.reverse().str.center(width, padding).str.reverse()

    def lpad(self, width: int, padding: str = " ") -> Expr:
        """With ``padding`` on the left up to ``width``.

        >>> from weir.expressions import col
        >>> print(col("s").str.lpad(5).describe())
        col('s').str.lpad(5, padding=' ')
        """
        return self._call("str.lpad", width=width, padding=padding)

    def rpad(self, width: int, padding: str = " ") -> Expr:
        """With ``padding`` on the right up to ``width``.

        >>> from weir.expressions import col
        >>> print(col("s").str.rpad(5).describe())
        col('s').str.rpad(5, padding=' ')
        """
        return self._call("str.rpad", width=width, padding=padding)

    def strip(self, characters: str | None = None) -> Expr:
        """Without blanks, or these characters, at both ends.

        >>> from weir.expressions import col
        >>> print(col("s").str.strip().describe())
        col('s').str.strip()
        """
        return self._call("str.strip", characters=characters)

    def lstrip(self, characters: str | None = None) -> Expr:
        """Without blanks, or these characters, at the beginning.

        >>> from weir.expressions import col
        >>> print(col("s").str.lstrip().describe())
        col('s').str.lstrip()
        """
        return self._call("str.lstrip", characters=characters)

    def rstrip(self, characters: str | None = None) -> Expr:
        """Without blanks, or these characters, at the end.

        >>> from weir.expressions import col
        >>> print(col("s").str.rstrip().describe())
        col('s').str.rstrip()
        """
        return self._call("str.rstrip", characters=characters)

    def pad(self, width: int, fillchar: str = " ", side: Literal["left", "right", "both"] = "right") -> Expr:
        """With ``fillchar`` up to ``width``, on the left, on the right or on both sides.

        >>> from weir.expressions import col
        >>> print(col("s").str.pad(5, side="left").describe())
        col('s').str.lpad(5, padding=' ')
        """
        sides = {"left": self.lpad, "right": self.rpad, "both": self.center}
        if side not in sides:
            raise ValueError("side must be 'left', 'right', or 'both'")
        return sides[side](width, fillchar)


class _ListNamespace(_Namespace):
    """Functions of lists: ``col("l").list``."""

    __slots__ = ()

    def len(self) -> Expr:
        """Number of elements.

        >>> from weir.expressions import col
        >>> print(col("l").list.len().describe())
        col('l').list.len()
        """
        return self._call("list.len")

    def get(self, index: int) -> Expr:
        """The element at ``index``, from the end when negative; an error where there is none.

        >>> from weir.expressions import col
        >>> print(col("l").list.get(0).describe())
        col('l').list.get(0)
        """
        return self._call("list.get", index=index)

    def slice(self, start: int | None = None, stop: int | None = None, step: int | None = None) -> Expr:
        """Elements from ``start`` up to ``stop``.

        >>> from weir.expressions import col
        >>> print(col("l").list.slice(1, 3).describe())
        col('l').list.slice(1, stop=3, step=1)
        """
        return self._call("list.slice", start=start or 0, stop=stop, step=1 if step is None else step)

    def sort(
        self,
        order: Literal["ascending", "descending"] = "ascending",
        null_placement: Literal["at_start", "at_end"] = "at_end",
    ) -> Expr:
        """Each list sorted.

        >>> from weir.expressions import col
        >>> print(col("l").list.sort().describe())
        col('l').list.sort('ascending', null_placement='at_end')
        """
        if order not in ("ascending", "descending"):
            raise ValueError(f"order must be either 'ascending' or 'descending', got {order!r}")
        if null_placement not in ("at_start", "at_end"):
            raise ValueError(f"null_placement must be 'at_start' or 'at_end', got {null_placement!r}")
        return self._call("list.sort", order=order, null_placement=null_placement)

    def flatten(self) -> Expr:
        """Lists of lists as lists of what these hold.

        >>> from weir.expressions import col
        >>> print(col("l").list.flatten().describe())
        col('l').list.flatten()
        """
        return self._call("list.flatten")

    def __getitem__(self, key: int | _Slice) -> Expr:
        if isinstance(key, int):
            return self.get(key)
        if isinstance(key, _Slice):
            return self.slice(key.start, key.stop, key.step)
        raise TypeError(f"List indices must be integers or slices, not {type(key).__name__}")


class _StructNamespace(_Namespace):
    """Fields of structs: ``col("s").struct``."""

    __slots__ = ()

    def field(self, field_name: str) -> Expr:
        """The field of this name.

        >>> from weir.expressions import col
        >>> print(col("s").struct.field("age").describe())
        col('s').struct.field('age')
        """
        return self._call("struct.field", name=field_name)

    def field_by_index(self, index: int) -> Expr:
        """The field at this place.

        >>> from weir.expressions import col
        >>> print(col("s").struct.field_by_index(0).describe())
        col('s').struct.field_by_index(0)
        """
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"Struct field index must be an integer, not {type(index).__name__}")
        if index < 0:
            raise ValueError(f"Struct field index must be non-negative, got {index}")
        return self._call("struct.field_by_index", index=index)

    def __getitem__(self, key: str | int) -> Expr:
        if isinstance(key, str):
            return self.field(key)
        if isinstance(key, int) and not isinstance(key, bool):
            return self.field_by_index(key)
        raise TypeError(f"Struct indices must be strings or integers, not {type(key).__name__}")


class _MapNamespace(_Namespace):
    """Functions of maps: ``col("m").map``."""

    __slots__ = ()

    def keys(self) -> Expr:
        """The list of keys.

        >>> from weir.expressions import col
        >>> print(col("m").map.keys().describe())
        col('m').map.keys()
        """
        return self._call("map.keys")

    def values(self) -> Expr:
        """The list of values.

        >>> from weir.expressions import col
        >>> print(col("m").map.values().describe())
        col('m').map.values()
        """
        return self._call("map.values")


class _ArrayNamespace(_Namespace):
    """Functions of arrays: ``col("a").arr``."""

    __slots__ = ()

    def to_list(self) -> Expr:
        """Arrays (tensors, lists of a fixed size) as lists.

        >>> from weir.expressions import col
        >>> print(col("a").arr.to_list().describe())
        col('a').arr.to_list()
        """
        return self._call("arr.to_list")


class _DatetimeNamespace(_Namespace):
    """Functions of dates and times: ``col("t").dt``."""

    __slots__ = ()

    def year(self) -> Expr:
        """The year.

        >>> from weir.expressions import col
        >>> print(col("t").dt.year().describe())
        col('t').dt.year()
        """
        return self._call("dt.year")

    def month(self) -> Expr:
        """The month, 1 to 12.

        >>> from weir.expressions import col
        >>> print(col("t").dt.month().describe())
        col('t').dt.month()
        """
        return self._call("dt.month")

    def day(self) -> Expr:
        """The day of the month.

        >>> from weir.expressions import col
        >>> print(col("t").dt.day().describe())
        col('t').dt.day()
        """
        return self._call("dt.day")

    def hour(self) -> Expr:
        """The hour.

        >>> from weir.expressions import col
        >>> print(col("t").dt.hour().describe())
        col('t').dt.hour()
        """
        return self._call("dt.hour")

    def minute(self) -> Expr:
        """The minute.

        >>> from weir.expressions import col
        >>> print(col("t").dt.minute().describe())
        col('t').dt.minute()
        """
        return self._call("dt.minute")

    def second(self) -> Expr:
        """The second.

        >>> from weir.expressions import col
        >>> print(col("t").dt.second().describe())
        col('t').dt.second()
        """
        return self._call("dt.second")

    def strftime(self, fmt: str) -> Expr:
        """As text, by a pattern of strftime; seconds with the fraction that the type has. Names of zones (%Z) run in workers.

        >>> from weir.expressions import col
        >>> print(col("t").dt.strftime("%Y").describe())
        col('t').dt.strftime('%Y')
        """
        return self._call("dt.strftime", format=fmt)

    def ceil(self, unit: str) -> Expr:
        """The next beginning of a unit such as ``day``.

        >>> from weir.expressions import col
        >>> print(col("t").dt.ceil("day").describe())
        col('t').dt.ceil('day')
        """
        return self._call("dt.ceil", unit=unit)

    def floor(self, unit: str) -> Expr:
        """The beginning of the unit, such as ``day``.

        >>> from weir.expressions import col
        >>> print(col("t").dt.floor("day").describe())
        col('t').dt.floor('day')
        """
        return self._call("dt.floor", unit=unit)

    def round(self, unit: str) -> Expr:
        """The nearest beginning of a unit such as ``day``.

        >>> from weir.expressions import col
        >>> print(col("t").dt.round("day").describe())
        col('t').dt.round('day')
        """
        return self._call("dt.round", unit=unit)
