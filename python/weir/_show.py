"""repr of Datasets: a table with box characters where rows or columns are known, else the plan as a tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weir import _blocks, _plan
from weir._plan import Blocks, Call, Op, Read, ReadTasks, Transform
from weir.schema import Schema, tensor_text

if TYPE_CHECKING:
    from weir.context import DataContext
    from weir.dataset import Dataset

ROWS_SHOWN = 10
CELL_WIDTH = 40
LINE_WIDTH = 80


def shown(ds: Dataset) -> str:
    """The text of repr(ds)."""
    head = f"name: {ds.name}\n" if ds.name else ""
    op = ds._op
    if ds._old:
        from weir import _legacy

        return head + _legacy.shown(ds)
    if isinstance(op, Blocks):
        return _materialized(ds, op, head)
    op = _read_of(op)
    rows, schema = _given(ds)
    if rows is None and schema is None and isinstance(op, Read):
        return _unread(ds, op)
    if schema is None:
        schema = _inferred(ds, op)
    if schema is not None and schema.names:
        if rows is None and not op.kind.startswith(("Union", "Zip")):
            rows = _row_count(ds, op)
        return head + "\n".join([_shape(rows, schema), *_table(schema, None), "(Dataset isn't materialized)"])
    return source_text(ds, op) if _is_source(op) else _tree(ds, op)


def _unread(ds: Dataset, op: Read) -> str:
    """Files of which nothing has been read: how many tasks will read them is of interest, too."""
    try:
        blocks = str(len(op.files()))
    except (OSError, ValueError):  # gone since; whoever runs it will be told
        blocks = "?"
    schema = _inferred(ds, op)
    fields = _fixed_fields(op) or "Unknown schema"
    if schema is not None:
        fields = "{" + ", ".join(f"{name}: {kind}" for name, kind in zip(schema.names, schema.type_texts)) + "}"
    rows = _row_count(ds, op)
    return f"Dataset({_name_text(ds)}num_blocks={blocks}, num_rows={'?' if rows is None else rows}, schema={fields})"


def _name_text(ds: Dataset) -> str:
    return f"name={ds.name}, " if ds.name else ""


def _fixed_fields(op: Read) -> str:
    """The columns of a read that has the same ones whatever is in its files."""
    field = {"text": "text: string", "binary": "bytes: binary"}.get(op.format, "")
    if not field or op.partitioning is not None:
        return ""
    return f"{{{field}{', path: string' if op.include_paths else ''}}}"


def _given(ds: Dataset) -> tuple[int | None, Schema | None]:
    """What a run over all rows has shown, and schema()."""
    ds._note_given()
    rows, schema = ds._given or (None, None)
    return rows, ds._schema_known or schema


def _inferred(ds: Dataset, op: Op) -> Schema | None:
    """The columns, where they are known without a run."""
    from weir.dataset import Dataset

    while op.kind in ("Repartition", "RandomizeBlocks") or isinstance(op, Call) and op.spec.kind == "filter":
        assert op.input is not None
        op = op.input
    if (shape := _tensor_shape(op)) is not None:
        return Schema.of_texts(["data"], [tensor_text(tuple(shape), "int64")])
    if isinstance(op, ReadTasks):
        told = _told(op.known_schema, ds)
        return Schema(told) if told is not None else None
    if op.kind == "Zip":
        return _side_by_side([_inferred(ds, side) for side in op.inputs])
    if not op.is_native or any(_hides_columns(o) for o in _plan.walk(op)):
        return None
    try:
        return Dataset(op, ds.context)._find_schema(may_run=not any(isinstance(o, _plan.Union) for o in _plan.walk(op)))
    except Exception:  # what is wrong with the files is for whoever runs it
        return None


def _side_by_side(sides: list[Schema | None]) -> Schema | None:
    """The columns of a zip: a name that is there already gets the first number that makes it another."""
    names: list[str] = []
    types: list[str] = []
    for side in sides:
        if side is None:
            return None
        for name, kind in zip(side.names, side.type_texts):
            new, number = name, 0
            while new in names:
                number += 1
                new = f"{name}_{number}"
            names.append(new)
            types.append(kind)
    return Schema.of_texts(names, types)


def _is_source(op: Op) -> bool:
    """Where the rows come from: also a function that a read is made with, such as the one that decodes images."""
    return op.input is None or _tensor_shape(op) is not None or (
        isinstance(op, Call) and op.spec.name.startswith("Read") and isinstance(op.input, Read)
    )


def _read_of(op: Op) -> Op:
    """Of a read that drops the paths which it had for itself, the read."""
    if isinstance(op, _plan.Step) and op.verb == "drop" and isinstance(op.input, Call) and _is_source(op.input):
        return op.input
    return op


def _hides_columns(op: Op) -> bool:
    """Files that say nothing of their columns, and preprocessors and what else is a function in Ray Data."""
    return isinstance(op, (Transform, _plan.Sample)) or isinstance(op, Read) and op.format != "parquet"


def _tensor_shape(op: Op) -> tuple[int, ...] | None:
    """Of what range_tensor makes: the shape of its tensors."""
    spec = getattr(op, "spec", None)
    return getattr(spec.fn, "shape", None) if spec is not None and spec.name == "ReadRangeTensor" else None


def _row_count(ds: Dataset, op: Op) -> int | None:
    """How many rows there are, where it is known without a run: a file is a row where files are read as a whole."""
    if isinstance(op, ReadTasks):
        rows: int | None = _told(op.known_rows, ds)
        return rows
    if isinstance(op, Call) and (op.spec.kind == "map" or _tensor_shape(op) is not None):
        assert op.input is not None
        return _row_count(ds, op.input)
    if isinstance(op, Read) and op.format == "binary":
        try:
            return len(op.files())
        except (OSError, ValueError):  # gone since; whoever runs it will be told
            return None
    return op.rows()


def _told(ask: Callable[[DataContext], Any], ds: Dataset) -> Any:
    """What the tasks of a user's source say."""
    try:
        return ask(ds.context)
    except Exception:  # what is wrong with the source is for whoever runs it
        return None


def _shape(rows: int | None, schema: Schema) -> str:
    return f"shape: ({'?' if rows is None else rows}, {len(schema.names)})"


def _materialized(ds: Dataset, op: Blocks, head: str) -> str:
    total = op.rows() or 0
    schema = ds.schema()
    if schema is None:
        count = f"num_blocks={len(op.blocks)}, " if op.blocks else ""
        return f"MaterializedDataset({_name_text(ds)}{count}num_rows={total}, schema=Unknown schema)"
    if total <= ROWS_SHOWN:
        rows = _rows(op, 0, total)
    else:
        half = ROWS_SHOWN // 2
        rows = [*_rows(op, 0, half), None, *_rows(op, total - half, total)]
    lines = [_shape(total, schema), *_table(schema, rows), f"(Showing {min(total, ROWS_SHOWN)} of {total} rows)"]
    return head + "\n".join(lines)


def _rows(op: Blocks, begin: int, end: int) -> list[dict[str, Any] | None]:
    return [row for piece in _blocks.rows_between(op.blocks, begin, end) for row in _blocks.as_batch(piece).rows()]


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
    if body:
        lines.append(_rule("╞", "═", "╪", "╡", widths))
        lines += [_line(cells, widths) for cells in body]
    lines.append(_rule("╰", "─", "┴", "╯", widths))
    return lines


def _rule(left: str, fill: str, middle: str, right: str, widths: list[int]) -> str:
    return left + middle.join(fill * (w + 2) for w in widths) + right


def _line(cells: list[str], widths: list[int]) -> str:
    return "│" + "┆".join(f" {cell:<{w}} " for cell, w in zip(cells, widths)) + "│"


def source_text(ds: Dataset, op: Op, depth: int = 0) -> str:
    """A source on one line, or, where that would be too long, in as many as it takes, for a place in a tree."""
    rows = _row_count(ds, op)
    schema = _inferred(ds, op)
    fields = [] if schema is None else [f"{name}: {kind}" for name, kind in zip(schema.names, schema.type_texts)]
    columns = f"{{{', '.join(fields)}}}" if schema is not None else "Unknown schema"
    count = f"num_rows={'?' if rows is None else rows}"
    text = f"Dataset({_name_text(ds)}{count}, schema={columns})"
    if len(text) <= LINE_WIDTH:
        return text
    indent = "   " * depth
    if len(columns) + len(indent) + len("   schema=") > LINE_WIDTH:
        columns = "{\n" + ",\n".join(f"{indent}      {_short(field, len(indent) + 6)}" for field in fields) + f"\n{indent}   }}"
    name = f"{indent}   name={ds.name},\n" if ds.name else ""
    return f"Dataset(\n{name}{indent}   {count},\n{indent}   schema={columns}\n{indent})"


def _short(field: str, before: int) -> str:
    """A column on a line of its own: of one that is too long, the first characters of its name and its whole type."""
    if len(field) + before <= LINE_WIDTH:
        return field
    name, _, kind = field.partition(": ")
    return f"{name[:max(LINE_WIDTH - len(kind) - 5 - before, 10 - before)]}...: {kind}"


def _tree(ds: Dataset, op: Op) -> str:
    lines: list[str] = []
    depth = 0
    at: Op | None = op
    while at is not None:
        if isinstance(at, Transform) and isinstance(at.input, Transform) and at.name == at.input.name:
            at = at.input  # of a preprocessor that is several steps
            continue
        if not at.is_shown:
            at = at.input
            continue
        at = _read_of(at)
        is_source = _is_source(at)
        text = source_text(ds, at, depth) if is_source else at.name
        lines.append(f"{'   ' * (depth - 1)}+- {text}" if depth else text)
        at = None if is_source else at.input
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
