"""The functions of expressions: for each name, the engine's text and pyarrow's call.

One entry a function. ``text`` makes the engine's text of the arguments' texts and the options, None where the engine
does not have it that way; ``arrow`` calls pyarrow.compute, on arrays in a worker and on expressions in ``Expr.to_pyarrow``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weir._expr_literals import text_literal

Options = Mapping[str, Any]
Text = Callable[[list[str], Options], "str | None"]
Arrow = Callable[[Any, list[Any], Options], Any]


@dataclass(frozen=True)
class Function:
    """How one function is computed.

    >>> FUNCTIONS["abs"].text(['col("a")'], {})
    'abs(col("a"))'
    """

    text: Text | None
    arrow: Arrow
    is_expression: bool = True  # pyarrow's call takes expressions too


def _plain(name: str) -> Text:
    """name(x, y …), without options."""
    return lambda args, options: f"{name}({', '.join(args)})"


def _arrow_plain(name: str) -> Arrow:
    return lambda pc, args, options: getattr(pc, name)(*args)


def _both(text: str, arrow: str) -> Function:
    return Function(_plain(text), _arrow_plain(arrow))


def _search(text: str, arrow: str) -> Function:
    """A function of a pattern that can be told to ignore case, which the engine's cannot."""

    def make(args: list[str], options: Options) -> str | None:
        return None if options["ignore_case"] else f"{text}({args[0]}, {text_literal(options['pattern'])})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], options["pattern"], ignore_case=options["ignore_case"])

    return Function(make, call)


def _like(pattern: str) -> str:
    r"""A pattern of SQL's LIKE as a regular expression: % any text, _ any character, \ takes what follows as it is.

    >>> print(_like("a%b_c"))
    (?s)a.*b.c
    """
    out, i = "(?s)", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        else:
            out += ".*" if c == "%" else "." if c == "_" else re.escape(c)
        i += 1
    return out


def _match_text(args: list[str], options: Options) -> str | None:
    if options["ignore_case"]:
        return None
    return f"regex_fullmatch({args[0]}, {text_literal(_like(options['pattern']))})"


def _match_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    return pc.match_like(args[0], options["pattern"], ignore_case=options["ignore_case"])


def _slice_text(args: list[str], options: Options) -> str | None:
    return f"slice({args[0]}, {options['start']}, {options['stop']})" if options["step"] == 1 else None


def _slice_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    return pc.utf8_slice_codeunits(args[0], options["start"], options["stop"], options["step"])


def _replace(text: str, arrow: str) -> Function:
    counts = text == "replace"

    def make(args: list[str], options: Options) -> str | None:
        most = options["max_replacements"]
        if not options["pattern"] or (most is not None and not counts):
            return None
        words = [args[0], text_literal(options["pattern"]), text_literal(options["replacement"])]
        return f"{text}({', '.join(words + ([str(int(most))] if most is not None else []))})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], options["pattern"], options["replacement"],
                                  max_replacements=options["max_replacements"])

    return Function(make, call)


def _split_text(args: list[str], options: Options) -> str | None:
    most = options["max_splits"]
    if options["reverse"] or not options["pattern"]:
        return None
    return f"split({args[0]}, {text_literal(options['pattern'])}{'' if most is None else f', {int(most)}'})"


def _split(arrow: str, text: Text | None = None) -> Function:
    def call(pc: Any, args: list[Any], options: Options) -> Any:
        words = (options["pattern"],) if "pattern" in options else ()
        return getattr(pc, arrow)(args[0], *words, max_splits=options["max_splits"], reverse=options["reverse"])

    return Function(text, call)


def _pad(text: str, arrow: str) -> Function:
    def make(args: list[str], options: Options) -> str | None:
        return f"{text}({args[0]}, {int(options['width'])}, {text_literal(options['padding'])})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], options["width"], options["padding"])

    return Function(make, call)


def _strip(text: str, arrow: str) -> Function:
    def make(args: list[str], options: Options) -> str | None:
        characters = options["characters"]
        return f"{text}({args[0]}{'' if characters is None else f', {text_literal(characters)}'})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        if options["characters"] is None:
            return getattr(pc, f"utf8_{arrow}_whitespace")(args[0])
        return getattr(pc, f"utf8_{arrow}")(args[0], characters=options["characters"])

    return Function(make, call)


def _cast_text(args: list[str], options: Options) -> str | None:
    return f"cast({args[0]}, {text_literal(options['type'])})" if options["safe"] else None


def _cast_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    from weir._expr_python import arrow_type

    return args[0].cast(arrow_type(options["type"]), safe=options["safe"])


def _get_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    return pc.list_element(args[0], options["index"])


def _list_slice_text(args: list[str], options: Options) -> str | None:
    return f"slice({args[0]}, {options['start']}, {options['stop']})" if options["step"] == 1 else None


def _list_slice_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    return pc.list_slice(args[0], options["start"], options["stop"], options["step"])


def _sort_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    from weir._expr_python import list_sort

    return list_sort(args[0], options["order"], options["null_placement"])


def _flatten_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    from weir._expr_python import list_flatten

    return list_flatten(args[0])


def _map_part(part: str) -> Arrow:
    def call(pc: Any, args: list[Any], options: Options) -> Any:
        from weir._expr_python import map_part

        return map_part(args[0], part)

    return call


def _to_list_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    from weir._expr_python import array_to_list

    return array_to_list(args[0])


# The units in which a time can be cut, that the engine and Arrow name alike.
_UNITS = {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"}


def _temporal_floor_text(args: list[str], options: Options) -> str | None:
    return f'truncate({args[0]}, "{options["unit"]}")' if options["unit"] in _UNITS else None


def _temporal(arrow: str, text: Text | None = None) -> Function:
    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], multiple=1, unit=options["unit"])

    return Function(text, call)


def _strftime_text(args: list[str], options: Options) -> str | None:
    # The codes that the engine knows; others, zones among them, are pyarrow's.
    if not re.fullmatch(r"(?:[^%]|%[YyCGmbhBdejVaAuwHIMSpFDTRnt%])*", options["format"], re.DOTALL):
        return None
    return f"strftime({args[0]}, {text_literal(options['format'])})"


FUNCTIONS: dict[str, Function] = {
    # numbers
    "ceil": _both("arrow_ceil", "ceil"),
    "floor": _both("arrow_floor", "floor"),
    "round": _both("round", "round"),
    "trunc": _both("arrow_trunc", "trunc"),
    "ln": _both("arrow_ln", "ln"),
    "log10": _both("arrow_log10", "log10"),
    "log2": _both("arrow_log2", "log2"),
    "exp": _both("arrow_exp", "exp"),
    "sin": _both("arrow_sin", "sin"),
    "cos": _both("arrow_cos", "cos"),
    "tan": _both("arrow_tan", "tan"),
    "asin": _both("arrow_asin", "asin"),
    "acos": _both("arrow_acos", "acos"),
    "atan": _both("arrow_atan", "atan"),
    "negate": _both("negate", "negate_checked"),
    "sign": _both("arrow_sign", "sign"),
    "power": _both("arrow_power", "power"),
    "abs": _both("abs", "abs_checked"),
    "is_nan": _both("is_nan", "is_nan"),
    "cast": Function(_cast_text, _cast_arrow),
    # the operators of pyarrow's own expressions, which look whether a result fits
    "add_checked": _both("add", "add_checked"),
    "subtract_checked": _both("subtract", "subtract_checked"),
    "multiply_checked": _both("multiply", "multiply_checked"),
    "divide_checked": _both("arrow_divide", "divide_checked"),
    "if_else": _both("if_else", "if_else"),
    "coalesce": _both("coalesce", "coalesce"),
    # text
    "str.len": _both("arrow_length", "utf8_length"),
    "str.byte_len": _both("arrow_byte_length", "binary_length"),
    "str.upper": _both("upper", "utf8_upper"),
    "str.lower": _both("lower", "utf8_lower"),
    "str.capitalize": _both("capitalize", "utf8_capitalize"),
    "str.title": _both("title", "utf8_title"),
    "str.swapcase": _both("swapcase", "utf8_swapcase"),
    "str.is_alpha": _both("is_alpha", "utf8_is_alpha"),
    "str.is_alnum": _both("is_alnum", "utf8_is_alnum"),
    "str.is_digit": _both("is_digit", "utf8_is_digit"),
    "str.is_decimal": _both("is_decimal", "utf8_is_decimal"),
    "str.is_numeric": _both("is_numeric", "utf8_is_numeric"),
    "str.is_space": _both("is_space", "utf8_is_space"),
    "str.is_lower": _both("is_lower", "utf8_is_lower"),
    "str.is_upper": _both("is_upper", "utf8_is_upper"),
    "str.is_title": _both("is_title", "utf8_is_title"),
    "str.is_printable": _both("is_printable", "utf8_is_printable"),
    "str.is_ascii": _both("is_ascii", "string_is_ascii"),
    "str.starts_with": _search("starts_with", "starts_with"),
    "str.ends_with": _search("ends_with", "ends_with"),
    "str.contains": _search("contains", "match_substring"),
    "str.match": Function(_match_text, _match_arrow),
    "str.find": _search("arrow_find", "find_substring"),
    "str.count": _search("arrow_count", "count_substring"),
    "str.match_regex": _search("regex_match", "match_substring_regex"),
    "str.find_regex": Function(None, _search("", "find_substring_regex").arrow),
    "str.count_regex": Function(None, _search("", "count_substring_regex").arrow),
    "str.reverse": _both("reverse", "utf8_reverse"),
    "str.slice": Function(_slice_text, _slice_arrow),
    "str.replace": _replace("replace", "replace_substring"),
    "str.replace_regex": _replace("regex_replace", "replace_substring_regex"),
    "str.replace_slice": Function(None, lambda pc, args, o: pc.binary_replace_slice(
        args[0], o["start"], o["stop"], o["replacement"])),
    "str.split": _split("split_pattern", _split_text),
    "str.split_regex": _split("split_pattern_regex"),
    "str.split_whitespace": _split("utf8_split_whitespace"),
    "str.extract": Function(None, lambda pc, args, o: pc.extract_regex(args[0], o["pattern"])),
    "str.repeat": Function(lambda args, o: f"repeat({args[0]}, {int(o['n'])})",
                           lambda pc, args, o: pc.binary_repeat(args[0], o["n"])),
    "str.center": _pad("center", "utf8_center"),
    "str.lpad": _pad("lpad", "utf8_lpad"),
    "str.rpad": _pad("rpad", "utf8_rpad"),
    "str.strip": _strip("strip", "trim"),
    "str.lstrip": _strip("lstrip", "ltrim"),
    "str.rstrip": _strip("rstrip", "rtrim"),
    # lists, structs, maps, arrays
    "list.len": _both("arrow_length", "list_value_length"),
    "list.get": Function(lambda args, o: f"element({args[0]}, {int(o['index'])})", _get_arrow),
    "list.slice": Function(_list_slice_text, _list_slice_arrow),
    "list.sort": Function(None, _sort_arrow, is_expression=False),
    "list.flatten": Function(None, _flatten_arrow, is_expression=False),
    "struct.field": Function(lambda args, o: f"field({args[0]}, {text_literal(o['name'])})",
                             lambda pc, args, o: pc.struct_field(args[0], o["name"])),
    "struct.field_by_index": Function(lambda args, o: f"field({args[0]}, {int(o['index'])})",
                                      lambda pc, args, o: pc.struct_field(args[0], o["index"])),
    "map.keys": Function(None, _map_part("keys"), is_expression=False),
    "map.values": Function(None, _map_part("items"), is_expression=False),
    "arr.to_list": Function(None, _to_list_arrow, is_expression=False),
    # times
    "dt.year": _both("year", "year"),
    "dt.month": _both("month", "month"),
    "dt.day": _both("day", "day"),
    "dt.hour": _both("hour", "hour"),
    "dt.minute": _both("minute", "minute"),
    "dt.second": _both("second", "second"),
    "dt.strftime": Function(_strftime_text, lambda pc, args, o: pc.strftime(args[0], format=o["format"])),
    "dt.floor": _temporal("floor_temporal", _temporal_floor_text),
    "dt.ceil": _temporal("ceil_temporal"),
    "dt.round": _temporal("round_temporal"),
}
