"""What pyarrow's options of CSV and JSON are in the engine's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weir._mistakes import NoSuchName, WrongArgument, WrongInTask

Option = tuple[str, "str | None"]

_ENCODINGS = {
    "utf-8": "utf8",
    "ascii": "utf8",
    "utf-8-sig": "utf8",
    "iso8859-1": "latin1",
    "utf-16": "utf16",
    "utf-16-le": "utf16le",
    "utf-16-be": "utf16be",
}


def encoding(method: str, name: str) -> str:
    """The engine's name of an encoding."""
    import codecs

    try:
        known = codecs.lookup(name).name
    except (LookupError, TypeError):
        raise (NoSuchName if isinstance(name, str) else WrongInTask)(f"{method}: there is no encoding {name!r}") from None
    if known not in _ENCODINGS:
        raise NotNative(f"{method}(encoding={name!r}) is not supported: utf-8, latin-1 and utf-16 are")
    return _ENCODINGS[known]


class NotNative(ValueError):
    """An option that the engine's own reader does not have."""


def _refuse(what: str, why: str) -> None:
    raise NotNative(f"{what} is not supported: {why}")


def _given(arguments: Mapping[str, Any], module: str, name: str) -> Any:
    """The options by this name, which are an object of pyarrow, or None."""
    value = arguments.get(f"{name}_options")
    what = f"{name.title()}Options"
    if value is not None and type(value).__name__ != what:
        raise WrongArgument(f"{name}_options is a {module}.{what}, not {value!r:.200} of type {type(value).__name__}")
    return value


def _changed(options: Any, handled: Mapping[str, Callable[[Any], None]], without_meaning: tuple[str, ...], what: str) -> None:
    """Calls what handles each attribute that differs from its default; others are refused by name."""
    default = type(options)()
    for name in dir(options):
        if name.startswith("_"):
            continue
        value = getattr(options, name)
        if callable(value) and not name.endswith("handler"):
            continue
        if name in without_meaning or value == getattr(default, name):
            continue
        if name in handled:
            handled[name](value)
        else:
            _refuse(f"{what}({name}={value!r})", "the engine's own reader has no such option")


def _quoted(name: str) -> str:
    from weir._plan import quoted

    return quoted(name)


def types(schema: Mapping[str, Any] | Any) -> str:
    """Columns and their types, in the engine's words."""
    items = schema.items() if isinstance(schema, Mapping) else [(f.name, f.type) for f in schema]
    return ",".join(f"{name if name.isidentifier() else _quoted(name)}={kind}" for name, kind in items)


def csv(arguments: Mapping[str, Any]) -> tuple[list[Option], list[str] | None]:
    """Options of the engine, and the columns wanted."""
    options: list[Option] = []
    columns: list[str] | None = None
    for name in arguments:
        if name not in ("read_options", "parse_options", "convert_options", "memory_pool"):
            raise WrongInTask(f"read_csv() got an unexpected keyword argument {name!r}")
    read, parse, convert = (_given(arguments, "pyarrow.csv", k) for k in ("read", "parse", "convert"))
    if read is not None:
        _changed(
            read,
            {
                "skip_rows": lambda v: options.append(("skip-lines", str(v))),
                "column_names": lambda v: options.extend(
                    [("names", ",".join(_quoted(n) for n in v)), ("no-header", None)] if v else []
                ),
                "autogenerate_column_names": lambda v: options.append(("no-header", None)),
                "encoding": lambda v: options.append(("encoding", encoding("read_csv", v))),
            },
            ("use_threads", "block_size"),
            "ReadOptions",
        )
    if parse is not None:
        _changed(
            parse,
            {
                "delimiter": lambda v: options.append(("delimiter", "tab" if v == "\t" else v)),
                "quote_char": lambda v: options.append(("quote", v if v else "none")),
                "double_quote": lambda v: options.append(("no-doubled-quotes", None)),
                "escape_char": lambda v: options.append(("escape", v)) if v else None,
            },
            ("newlines_in_values",),
            "ParseOptions",
        )
    if convert is not None:
        if convert.include_columns:
            columns = list(convert.include_columns)
        _changed(
            convert,
            {
                "column_types": lambda v: options.append(("types", types(v))),
                "null_values": lambda v: options.extend(("null", n) for n in v),
                "decimal_point": lambda v: options.append(("decimal-point", v)),
                "strings_can_be_null": lambda v: options.append(
                    ("strings-null", "always" if convert.quoted_strings_can_be_null else "unquoted")
                ),
                "quoted_strings_can_be_null": lambda v: options.append(("no-quoted-null", None)),
            },
            ("include_columns",),
            "ConvertOptions",
        )
    return options, columns


def json(arguments: Mapping[str, Any]) -> tuple[list[Option], list[str] | None]:
    """Options of the engine, and the columns wanted."""
    options: list[Option] = [("mixed", "error")]  # numbers do not become texts by themselves
    columns: list[str] | None = None
    for name in arguments:
        if name not in ("read_options", "parse_options", "memory_pool"):
            raise WrongInTask(f"read_json() got an unexpected keyword argument {name!r}")
    read, parse = (_given(arguments, "pyarrow.json", k) for k in ("read", "parse"))
    if read is not None:
        _changed(read, {}, ("use_threads", "block_size"), "ReadOptions")
    if parse is not None:
        if parse.explicit_schema is not None and parse.unexpected_field_behavior == "ignore":
            columns = list(parse.explicit_schema.names)
        _changed(
            parse,
            {
                "explicit_schema": lambda v: options.append(("types", types(v))),
                "unexpected_field_behavior": lambda v: options.append(("unexpected", v)),
                "newlines_in_values": lambda v: options.append(("layout", "objects")),
            },
            (),
            "ParseOptions",
        )
    return options, columns
