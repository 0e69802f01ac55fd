"""Tables that other packages keep: Lance, Delta Lake, Iceberg.

    driver: the package says which pieces a version of the table has ─▶ ReadTasks ─▶ worker: opens that version, reads its pieces

A task carries the table's address, the version that was there when it was made and the names of its pieces; nothing of the package
itself, whose objects need not pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from weir.datasource.datasource import Datasource, ReadTask
from weir.datasource.other_files import need

if TYPE_CHECKING:
    import pyarrow
    from weir.context import DataContext

T = TypeVar("T")


def shared_out(pieces: Sequence[T], count: int) -> list[list[T]]:
    """The pieces in so many runs of neighbours, none of them empty.

    >>> shared_out("abcde", 2), shared_out("ab", 5), shared_out("", 3)
    ([['a', 'b'], ['c', 'd', 'e']], [['a'], ['b']], [])
    """
    count = min(max(1, count), len(pieces))
    ends = [i * len(pieces) // count for i in range(count + 1)] if count else []
    return [list(pieces[begin:end]) for begin, end in zip(ends, ends[1:])]


class _Table(Datasource):
    """Pieces of one table. A subclass has `_pieces` and `_task`."""

    _wanted: list[str] | None = None  # columns that the read was asked for

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def supports_projection_pushdown(self) -> bool:
        return True

    def _columns(self, names: Sequence[str]) -> list[str] | None:
        """Those that are to be read of a table's; None: all. Unknown ones are left to who selects them, who names the nearest."""
        asked = self._get_data_columns()
        if asked is None:
            return self._wanted
        known = [name for name in asked if name in (names if self._wanted is None else self._wanted)]
        return known or self._wanted

    def _pieces(self, count: int) -> list[Any]:
        raise NotImplementedError

    def _task(self, pieces: list[Any]) -> Any:
        raise NotImplementedError

    def _rows(self, pieces: list[Any]) -> int | None:
        return None

    def _files(self, pieces: list[Any]) -> list[str]:
        return []

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockMetadata

        made = []
        for pieces in shared_out(self._pieces(parallelism), parallelism):
            metadata = BlockMetadata(self._rows(pieces), None, input_files=self._files(pieces))
            made.append(ReadTask(self._task(pieces), metadata, per_task_row_limit=per_task_row_limit))
        return made


# ---- Lance ----


class LanceDatasource(_Table):
    """Fragments of Lance datasets."""

    def __init__(
        self,
        uri: str | list[str],
        version: int | str | None = None,
        columns: list[str] | None = None,
        filter: str | None = None,
        storage_options: dict[str, str] | None = None,
        scanner_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        lance = need("lance", "read_lance", "pylance")
        pa = need("pyarrow", "read_lance")
        uris = [uri] if isinstance(uri, str) else list(uri)
        if not uris:
            raise ValueError("read_lance: the list `uri` must not be empty.")
        self._options = dict(scanner_options or {})
        self._options.update({name: value for name, value in (("columns", columns), ("filter", filter)) if value is not None})
        self._wanted = list(self._options["columns"]) if self._options.get("columns") is not None else None
        self._storage_options = storage_options
        chosen = self._options.pop("fragments", None)
        if chosen is not None and len(uris) > 1:
            raise ValueError("read_lance: scanner_options['fragments'] is of one dataset, and there are several")
        tables = [lance.dataset(one, version=version, storage_options=storage_options) for one in uris]
        self._schema = pa.unify_schemas([table.schema for table in tables], promote_options="permissive")
        self._fragments = [
            (one, table.version, fragment.fragment_id, fragment.count_rows())
            for one, table in zip(uris, tables)
            for fragment in (table.get_fragments() if chosen is None else chosen)
        ]

    def supports_projection_pushdown(self) -> bool:
        return not isinstance(self._options.get("columns"), dict)  # names with expressions of Lance's own

    def _pieces(self, count: int) -> list[Any]:
        return self._fragments

    def _rows(self, pieces: list[Any]) -> int | None:
        return None if self._options.get("filter") is not None or "limit" in self._options else sum(piece[3] for piece in pieces)

    def _task(self, pieces: list[Any]) -> Any:
        options = dict(self._options)
        columns = self._columns(self._schema.names)
        if columns is not None and not isinstance(options.get("columns"), dict):
            options["columns"] = columns
        return _LanceTask([piece[:3] for piece in pieces], options, self._storage_options, None if columns is not None else self._schema)


class _LanceTask:
    def __init__(
        self, pieces: list[tuple[str, int, int]], options: dict[str, Any], storage_options: dict[str, str] | None, schema: Any
    ) -> None:
        self.pieces, self.options, self.storage_options, self.schema = pieces, options, storage_options, schema

    def __call__(self) -> Iterator[Any]:
        import lance
        import pyarrow as pa

        tables: dict[tuple[str, int], Any] = {}
        for uri, version, fragment in self.pieces:
            if (uri, version) not in tables:
                tables[uri, version] = lance.dataset(uri, version=version, storage_options=self.storage_options)
            table = tables[uri, version]
            for batch in table.scanner(fragments=[table.get_fragment(fragment)], **self.options).to_batches():
                if batch.num_rows:
                    yield _conforming(pa.Table.from_batches([batch]), self.schema)


def _conforming(table: pyarrow.Table, schema: pyarrow.Schema | None) -> pyarrow.Table:
    """The table with all columns of a schema; those that it lacks are null."""
    import pyarrow as pa

    if schema is None or table.schema.equals(schema):
        return table
    arrays = [
        table.column(field.name).cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


# ---- Delta Lake ----


class DeltaDatasource(_Table):
    """Files of a Delta Lake table's version."""

    def __init__(
        self,
        path: str,
        version: int | None = None,
        storage_options: dict[str, Any] | None = None,
        columns: list[str] | None = None,
        shuffle: Any = None,
        include_paths: bool = False,
        batches: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        deltalake = need("deltalake", "read_delta")
        need("pyarrow", "read_delta")
        if not isinstance(path, str):
            raise ValueError("Only a single Delta Lake table path is supported.")
        table = deltalake.DeltaTable(path, version=version, storage_options=storage_options)
        self._address = (path, table.version(), storage_options)
        dataset = table.to_pyarrow_dataset()
        self._schema = dataset.schema
        self._wanted = list(columns) if columns is not None else None
        self._shuffle = shuffle
        self._include_paths = include_paths
        self._batches = batches or {}
        self._paths = [fragment.path for fragment in dataset.get_fragments()]

    def get_name(self) -> str:
        """Of the operator."""
        return "Delta"

    def _pieces(self, count: int) -> list[Any]:
        if self._shuffle is None:
            return self._paths
        paths = list(self._paths)
        Random(self._shuffle.get_seed() if hasattr(self._shuffle, "get_seed") else None).shuffle(paths)
        return paths

    def _files(self, pieces: list[Any]) -> list[str]:
        return [str(piece) for piece in pieces]

    def _task(self, pieces: list[Any]) -> Any:
        return _DeltaTask(self._address, pieces, self._columns(self._schema.names), self._include_paths, self._batches)


class _DeltaTask:
    def __init__(
        self, address: tuple[str, int, Any], pieces: list[str], columns: list[str] | None, include_paths: bool, batches: dict[str, Any]
    ) -> None:
        self.address, self.pieces, self.columns, self.include_paths, self.batches = address, pieces, columns, include_paths, batches

    def __call__(self) -> Iterator[Any]:
        import deltalake
        import pyarrow as pa

        path, version, storage_options = self.address
        dataset = deltalake.DeltaTable(path, version=version, storage_options=storage_options).to_pyarrow_dataset()
        fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}
        for piece in self.pieces:
            for batch in fragments[piece].to_batches(schema=dataset.schema, columns=self.columns, **self.batches):
                table = pa.Table.from_batches([batch])
                if self.include_paths:
                    table = table.append_column("path", pa.array([piece] * table.num_rows, pa.string()))
                if table.num_rows:
                    yield table


# ---- Iceberg ----


class IcebergDatasource(_Table):
    """Files of an Iceberg table's snapshot."""

    def __init__(
        self,
        table_identifier: str,
        row_filter: Any = None,
        selected_fields: tuple[str, ...] = ("*",),
        snapshot_id: int | None = None,
        scan_kwargs: dict[str, Any] | None = None,
        catalog_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        catalogs = need("pyiceberg.catalog", "read_iceberg", "pyiceberg")
        options = dict(scan_kwargs or {})
        if row_filter is not None:
            options["row_filter"] = row_filter
        if snapshot_id is not None:
            options["snapshot_id"] = snapshot_id
        self.limit = options.pop("limit", None)
        table = loaded(catalogs, table_identifier, catalog_kwargs)
        scan = table.scan(selected_fields=tuple(selected_fields), **options)
        if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
            raise ValueError(f"read_iceberg: {table_identifier} has no snapshot {snapshot_id}")
        self._scan = scan
        self._names = [field.name for field in scan.projection().fields]
        self._scan_files = list(scan.plan_files())

    def _pieces(self, count: int) -> list[Any]:
        return self._scan_files

    def _files(self, pieces: list[Any]) -> list[str]:
        return [piece.file.file_path for piece in pieces]

    def _task(self, pieces: list[Any]) -> Any:
        scan = self._scan
        columns = self._columns(self._names)
        schema = scan.projection() if columns is None else scan.projection().select(*columns, case_sensitive=scan.case_sensitive)
        return _IcebergTask(scan.table_metadata, scan.io, schema, scan.row_filter, scan.case_sensitive, pieces)


def loaded(catalogs: Any, identifier: str, catalog_kwargs: dict[str, Any] | None) -> Any:
    """A table of a catalog; the arguments are load_catalog's."""
    arguments = dict(catalog_kwargs or {})
    return catalogs.load_catalog(arguments.pop("name", "default"), **arguments).load_table(identifier)


def iceberg_condition(expr: Any) -> Any:
    """An expression of weir as pyiceberg has it: comparisons of a column with a value, is_in, is_null, and, or, not."""
    from pyiceberg import expressions as iceberg

    from weir.expressions import BinaryExpr, ColumnExpr, LiteralExpr, UnaryExpr

    compared = {
        "EQ": iceberg.EqualTo, "NE": iceberg.NotEqualTo, "LT": iceberg.LessThan, "LE": iceberg.LessThanOrEqual,
        "GT": iceberg.GreaterThan, "GE": iceberg.GreaterThanOrEqual, "IN": iceberg.In, "NOT_IN": iceberg.NotIn,
    }
    turned = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
    if isinstance(expr, BinaryExpr):
        word, left, right = expr.op.name, expr.left, expr.right
        if word in ("AND", "OR"):
            return (iceberg.And if word == "AND" else iceberg.Or)(iceberg_condition(left), iceberg_condition(right))
        if isinstance(left, LiteralExpr) and isinstance(right, ColumnExpr):
            word, left, right = turned.get(word, word), right, left
        if word in compared and isinstance(left, ColumnExpr) and isinstance(right, LiteralExpr):
            return compared[word](left.name, right.value)
    if isinstance(expr, UnaryExpr):
        word = expr.op.name
        if word == "NOT":
            return iceberg.Not(iceberg_condition(expr.operand))
        if word in ("IS_NULL", "IS_NOT_NULL") and isinstance(expr.operand, ColumnExpr):
            return (iceberg.IsNull if word == "IS_NULL" else iceberg.NotNull)(expr.operand.name)
    raise ValueError(f"write_iceberg: {expr!r} is no condition that Iceberg knows: compare columns with values, and combine by &, | and ~")


class _IcebergTask:
    def __init__(self, metadata: Any, io: Any, schema: Any, row_filter: Any, case_sensitive: bool, pieces: list[Any]) -> None:
        self.metadata, self.io, self.schema, self.row_filter = metadata, io, schema, row_filter
        self.case_sensitive, self.pieces = case_sensitive, pieces

    def __call__(self) -> Iterator[Any]:
        import pyarrow as pa
        from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

        scan = ArrowScan(self.metadata, self.io, self.schema, self.row_filter, self.case_sensitive)
        target = schema_to_pyarrow(self.schema, include_field_ids=False)
        for batch in scan.to_record_batches(self.pieces):
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).cast(target)
