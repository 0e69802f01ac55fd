"""The functions of expressions: for each name, the engine's text and pyarrow's call.

One entry a function. ``text`` makes the engine's text of the arguments' texts and the options, None where the engine
does not have it that way; ``arrow`` calls pyarrow.compute, on arrays in a worker and on expressions in ``Expr.to_pyarrow``.
"""

from __future__ import annotations

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
    """A function of a pattern that can be told to ignore case."""

    def make(args: list[str], options: Options) -> str | None:
        return f"{text}({args[0]}, {text_literal(options['pattern'])}, {bool(options['ignore_case'])})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], options["pattern"], ignore_case=options["ignore_case"])

    return Function(make, call)


def _slice_text(args: list[str], options: Options) -> str | None:
    start, stop, step = (None if options[key] is None else int(options[key]) for key in ("start", "stop", "step"))
    if step == 1:
        return f"arrow_text_slice({args[0]}, {start}, {stop})"
    return f"arrow_slice({args[0]}, {start}, {stop}, {step})"


def _slice_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    return pc.utf8_slice_codeunits(args[0], options["start"], options["stop"], options["step"])


def _times(value: Any) -> int:
    """How often at most; -1: without end."""
    return -1 if value is None else int(value)


def _replace(text: str, arrow: str) -> Function:
    def make(args: list[str], options: Options) -> str | None:
        words = [args[0], text_literal(options["pattern"]), text_literal(options["replacement"])]
        return f"{text}({', '.join(words)}, {_times(options['max_replacements'])})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], options["pattern"], options["replacement"],
                                  max_replacements=options["max_replacements"])

    return Function(make, call)


def _replace_slice_text(args: list[str], options: Options) -> str | None:
    start, stop = int(options["start"]), int(options["stop"])
    return f"arrow_replace_slice({args[0]}, {start}, {stop}, {text_literal(options['replacement'])})"


def _split(text: str, arrow: str) -> Function:
    def make(args: list[str], options: Options) -> str | None:
        words = [args[0]] + ([text_literal(options["pattern"])] if "pattern" in options else [])
        words.append(str(_times(options["max_splits"])))
        if options["reverse"]:
            if text == "arrow_split_regex":
                raise NotImplementedError("str.split_regex cannot split in reverse")
            words.append("True")
        return f"{text}({', '.join(words)})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        words = (options["pattern"],) if "pattern" in options else ()
        return getattr(pc, arrow)(args[0], *words, max_splits=options["max_splits"], reverse=options["reverse"])

    return Function(make, call)


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
    return f"arrow_cast({args[0]}, {text_literal(options['type'])}, {bool(options['safe'])})"


def _cast_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    from weir._expr_python import arrow_type

    return args[0].cast(arrow_type(options["type"]), safe=options["safe"])


def _get_arrow(pc: Any, args: list[Any], options: Options) -> Any:
    return pc.list_element(args[0], options["index"])


def _list_slice_text(args: list[str], options: Options) -> str | None:
    start, stop, step = (None if options[key] is None else int(options[key]) for key in ("start", "stop", "step"))
    return f"arrow_list_slice({args[0]}, {start}, {stop}, {step})"


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


def _temporal(text: str, arrow: str) -> Function:
    def make(args: list[str], options: Options) -> str | None:
        return f"{text}({args[0]}, {text_literal(options['unit'])})"

    def call(pc: Any, args: list[Any], options: Options) -> Any:
        return getattr(pc, arrow)(args[0], multiple=1, unit=options["unit"])

    return Function(make, call)


def _strftime_text(args: list[str], options: Options) -> str | None:
    # The names of zones are pyarrow's.
    return None if "%Z" in options["format"] else f"arrow_strftime({args[0]}, {text_literal(options['format'])})"


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
    "str.len": _both("arrow_text_length", "utf8_length"),
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
    "str.starts_with": _search("arrow_starts_with", "starts_with"),
    "str.ends_with": _search("arrow_ends_with", "ends_with"),
    "str.contains": _search("arrow_contains", "match_substring"),
    "str.match": _search("arrow_like", "match_like"),
    "str.find": _search("arrow_find_part", "find_substring"),
    "str.count": _search("arrow_count_part", "count_substring"),
    "str.match_regex": _search("arrow_match_regex", "match_substring_regex"),
    "str.find_regex": _search("arrow_find_regex", "find_substring_regex"),
    "str.count_regex": _search("arrow_count_regex", "count_substring_regex"),
    "str.reverse": _both("reverse", "utf8_reverse"),
    "str.slice": Function(_slice_text, _slice_arrow),
    "str.replace": _replace("replace", "replace_substring"),
    "str.replace_regex": _replace("arrow_replace_regex", "replace_substring_regex"),
    "str.replace_slice": Function(_replace_slice_text, lambda pc, args, o: pc.binary_replace_slice(
        args[0], o["start"], o["stop"], o["replacement"])),
    "str.split": _split("arrow_split", "split_pattern"),
    "str.split_regex": _split("arrow_split_regex", "split_pattern_regex"),
    "str.split_whitespace": _split("arrow_split_whitespace", "utf8_split_whitespace"),
    "str.extract": Function(lambda args, o: f"arrow_extract_regex({args[0]}, {text_literal(o['pattern'])})",
                            lambda pc, args, o: pc.extract_regex(args[0], o["pattern"])),
    "str.repeat": Function(lambda args, o: f"repeat({args[0]}, {int(o['n'])})",
                           lambda pc, args, o: pc.binary_repeat(args[0], o["n"])),
    "str.center": _pad("center", "utf8_center"),
    "str.lpad": _pad("lpad", "utf8_lpad"),
    "str.rpad": _pad("rpad", "utf8_rpad"),
    "str.strip": _strip("strip", "trim"),
    "str.lstrip": _strip("lstrip", "ltrim"),
    "str.rstrip": _strip("rstrip", "rtrim"),
    # lists, structs, maps, arrays
    "list.len": _both("arrow_list_length", "list_value_length"),
    "list.get": Function(lambda args, o: f"arrow_element({args[0]}, {int(o['index'])})", _get_arrow),
    "list.slice": Function(_list_slice_text, _list_slice_arrow),
    "list.sort": Function(lambda args, o: f"list_sort({args[0]}, '{o['order']}', '{o['null_placement']}')", _sort_arrow,
                          is_expression=False),
    "list.flatten": Function(_plain("list_flatten"), _flatten_arrow, is_expression=False),
    "struct.field": Function(lambda args, o: f"arrow_field({args[0]}, {text_literal(o['name'])})",
                             lambda pc, args, o: pc.struct_field(args[0], o["name"])),
    "struct.field_by_index": Function(lambda args, o: f"arrow_field({args[0]}, {int(o['index'])})",
                                      lambda pc, args, o: pc.struct_field(args[0], o["index"])),
    "map.keys": Function(_plain("map_keys"), _map_part("keys"), is_expression=False),
    "map.values": Function(_plain("map_values"), _map_part("items"), is_expression=False),
    "arr.to_list": Function(_plain("to_list"), _to_list_arrow, is_expression=False),
    # times
    "dt.year": _both("year", "year"),
    "dt.month": _both("month", "month"),
    "dt.day": _both("day", "day"),
    "dt.hour": _both("hour", "hour"),
    "dt.minute": _both("minute", "minute"),
    "dt.second": _both("second", "second"),
    "dt.strftime": Function(_strftime_text, lambda pc, args, o: pc.strftime(args[0], format=o["format"])),
    "dt.floor": _temporal("truncate", "floor_temporal"),
    "dt.ceil": _temporal("ceil_time", "ceil_temporal"),
    "dt.round": _temporal("round_time", "round_temporal"),
}
