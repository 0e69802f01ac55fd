"""repr of Datasets: a table with box characters where rows or columns are known, else the plan as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir import _blocks, _plan
from weir._plan import Blocks, Op, Read

if TYPE_CHECKING:
    from weir.dataset import Dataset
    from weir.schema import Schema

ROWS_SHOWN = 10
CELL_WIDTH = 40


def shown(ds: Dataset) -> str:
    """The text of repr(ds)."""
    head = f"name: {ds.name}\n" if ds.name else ""
    op = ds._op
    if ds._old:
        from weir import _legacy

        return head + _legacy.shown(ds)
    if isinstance(op, Blocks):
        return head + _materialized(ds, op)
    if isinstance(op, Read):
        return head + source_text(ds, op)
    if op.is_native and not any(isinstance(o, Read) and o.format != "parquet" for o in _plan.walk(op)):
        try:
            schema = ds.schema()
        except Exception:  # what is wrong with the files is for whoever runs it
            schema = None
        if schema is not None:
            rows = op.rows()
            return head + "\n".join([_shape(rows, schema), *_table(schema, None), "(Dataset isn't materialized)"])
    return head + _tree(ds, op)


def _shape(rows: int | None, schema: Schema) -> str:
    return f"shape: ({'?' if rows is None else f'{rows:,}'}, {len(schema.names)})"


def _materialized(ds: Dataset, op: Blocks) -> str:
    total = op.rows() or 0
    schema = ds.schema()
    if schema is None:
        return f"MaterializedDataset(num_rows={total}, schema=Unknown schema)"
    if total <= ROWS_SHOWN:
        rows = _rows(op, 0, total)
    else:
        half = ROWS_SHOWN // 2
        rows = [*_rows(op, 0, half), None, *_rows(op, total - half, total)]
    lines = [_shape(total, schema), *_table(schema, rows), f"(Showing {min(total, ROWS_SHOWN)} of {total} rows)"]
    return "\n".join(lines)


def _rows(op: Blocks, begin: int, end: int) -> list[dict[str, Any] | None]:
    out: list[dict[str, Any] | None] = []
    at = 0
    for block in op.blocks:
        count = block.num_rows
        a, b = max(begin, at), min(end, at + count)
        if a < b:
            out.extend(_blocks.as_batch(block).rows(a - at, b - at))
        at += count
    return out


def _cell(value: Any) -> str:
    text = "None" if value is None else str(value).replace("\n", " ")
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


def _table(schema: Schema, rows: list[dict[str, Any] | None] | None) -> list[str]:
    names, types = schema.names, schema.type_texts
    head = [[_cell(n) for n in names], ["---"] * len(names), [_cell(t) for t in types]]
    body = [["…"] * len(names) if row is None else [_cell(row.get(n)) for n in names] for row in rows or []]
    widths = [max(len(line[i]) for line in head + body) for i in range(len(names))]
    lines = [_rule("╭", "─", "┬", "╮", widths)]
    lines += [_line(cells, widths) for cells in head]
    if rows is not None:
        lines.append(_rule("╞", "═", "╪", "╡", widths))
        lines += [_line(cells, widths) for cells in body]
    lines.append(_rule("╰", "─", "┴", "╯", widths))
    return lines


def _rule(left: str, fill: str, middle: str, right: str, widths: list[int]) -> str:
    return left + middle.join(fill * (w + 2) for w in widths) + right


def _line(cells: list[str], widths: list[int]) -> str:
    return "│" + "┆".join(f" {cell:<{w}} " for cell, w in zip(cells, widths)) + "│"


def source_text(ds: Dataset, op: Op) -> str:
    """A source on one line."""
    from weir.dataset import Dataset

    rows = op.rows()
    blocks = ""
    if isinstance(op, Read):
        try:
            blocks = f"num_blocks={len(op.files())}, "
        except (OSError, ValueError):  # gone since; whoever runs it will be told
            blocks = "num_blocks=?, "
    schema: Schema | None = None
    if not isinstance(op, Read) or op.format == "parquet":
        try:
            schema = Dataset(op, ds.context).schema()
        except Exception:  # as above
            schema = None
    fields = _fixed_fields(op) or "Unknown schema"
    if schema is not None:
        fields = "{" + ", ".join(f"{n}: {t}" for n, t in zip(schema.names, schema.type_texts)) + "}"
    kind = "MaterializedDataset" if isinstance(op, Blocks) else "Dataset"
    return f"{kind}({blocks}num_rows={'?' if rows is None else rows}, schema={fields})"


def _fixed_fields(op: Op) -> str:
    """The columns of a read that has the same ones whatever is in its files."""
    if not isinstance(op, Read) or op.partitioning is not None:
        return ""
    field = {"text": "text: string", "binary": "bytes: binary"}.get(op.format, "")
    return f"{{{field}{', path: string' if op.include_paths else ''}}}" if field else ""


def _tree(ds: Dataset, op: Op) -> str:
    lines: list[str] = []
    depth = 0
    at: Op | None = op
    while at is not None:
        text = source_text(ds, at) if at.input is None else at.name
        lines.append(f"{'   ' * (depth - 1)}+- {text}" if depth else text)
        at = at.input
        depth += 1
    return "\n".join(lines)


def html(ds: Dataset) -> str:
    """The text of _repr_html_: what is known of it without a run, as tables."""
    from html import escape

    op = ds._op
    rows = op.rows()
    blocks = len(op.blocks) if isinstance(op, Blocks) else None
    facts = [("num_blocks", blocks), ("num_rows", rows)]
    schema: Schema | None = None
    if not isinstance(op, Read) or op.format == "parquet":
        try:
            schema = ds.schema(fetch_if_missing=False)
        except Exception:  # what is wrong with the files is for whoever runs it
            schema = None
    parts = [f"<h2>{escape(type(ds).__name__)}{f': {escape(ds.name)}' if ds.name else ''}</h2>"]
    parts.append(_html_table(("Field", "Value"), [(name, "?" if value is None else f"{value:,}") for name, value in facts]))
    if schema is None:
        parts.append("<h5>Unknown schema</h5>")
    else:
        parts.append(_html_table(("Name", "Type"), list(zip(schema.names, schema.type_texts))))
    if isinstance(op, Blocks) and schema is not None and rows:
        shown_rows = [row for row in _rows(op, 0, min(rows, ROWS_SHOWN)) if row is not None]
        parts.append(_html_table(tuple(schema.names), [tuple(_cell(row.get(n)) for n in schema.names) for row in shown_rows]))
    return "\n".join(parts)


def _html_table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    from html import escape

    lines = ["<table>", "<thead><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr></thead>", "<tbody>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
    return "\n".join([*lines, "</tbody>", "</table>"])
