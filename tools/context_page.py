#!/usr/bin/env python3
"""Writes the tables of docs/context.md from the fields as the package has them.

    PYTHONPATH=build/python tools/context_page.py [--check]

What stands between the lines `<!-- table -->` and `<!-- end -->` is made anew. --check: exits with 1 if it was not as it should be.
"""
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "context.md"


def shown(value):
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return repr(value)
    if isinstance(value, int):
        for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
            if value >= unit and value % unit == 0:
                return f"{value // unit} {name}"
        return str(value)
    if hasattr(value, "value"):
        return repr(value.value)
    if isinstance(value, (list, tuple)):
        return "five texts" if len(value) == 5 else "four texts" if len(value) == 4 else repr(value)
    return f"{type(value).__name__}()"


def table(fields, column):
    from weir._context_fields import Made

    lines = [f"| field | default | {'what it does' if column == 'effect' else 'why it does nothing'} | environment |", "|---|---|---|---|"]
    for field in sorted(fields, key=lambda field: field.name.lstrip("_")):
        text = getattr(field, column)
        if text:
            default = field.default() if isinstance(field.default, Made) else field.default
            name = field.name.lstrip("_")
            lines.append(f"| `{name}` | {shown(default)} | {text} | {f'`{field.env}`' if field.env else ''} |")
    return "\n".join(lines) + "\n"


def page(text):
    from weir._context_fields import fields, old_fields

    tables = iter([table(fields(), "effect"), table(old_fields(), "effect"), table(fields(), "reason"), table(old_fields(), "reason")])
    parts = text.split("<!-- table -->\n")
    out = parts[0]
    for part in parts[1:]:
        _, _, rest = part.partition("<!-- end -->\n")
        out += f"<!-- table -->\n{next(tables)}<!-- end -->\n{rest}"
    return out


def main():
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in sys.argv[1:]:
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
