"""Reading and writing tables that other packages keep (Lance, Delta Lake, Iceberg), robots' logs (MCAP) and arrays (Zarr).

Reads run in workers (weir.datasource.tables). Writes hand a stream of record batches to the package, which commits once at the end: a
write that fails leaves the table as it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir.datasource.other_files import need

if TYPE_CHECKING:
    import pyarrow
    from weir.dataset import Dataset
    from weir.datasource import FileShuffleConfig, Partitioning, PathPartitionFilter


def _read(method: str, source: Any, arguments: dict[str, Any]) -> Dataset:
    from weir import _sources

    return _sources._read(method, source, arguments)


def _delta_of(
    method: str, catalog: Any, table: str, filesystem: Any, storage_options: dict[str, Any] | None, writes: bool = False
) -> tuple[str, dict[str, Any] | None]:
    """The path of a Delta Lake table, and deltalake's options; `catalog` may know them."""
    if catalog is not None:
        from weir.catalog import CatalogAccessMode, ReaderFormat, _resolved

        if filesystem is not None and writes:
            raise ValueError(f"{method}: `filesystem` cannot be specified with `catalog`")
        mode = CatalogAccessMode.WRITE if writes else CatalogAccessMode.READ
        found = _resolved(method, catalog, table, ReaderFormat.DELTA, mode)
        assert found.path is not None
        table, filesystem = found.path, found.filesystem
        if found.storage_options:
            storage_options = {**found.storage_options, **(storage_options or {})}
    if filesystem is not None:
        raise NotImplementedError(f"{method}: filesystem= is not supported; storage_options= are handed to deltalake")
    return table, storage_options


def _iceberg_of(method: str, catalog: Any, table: str, catalog_kwargs: dict[str, Any] | None, writes: bool = False) -> tuple[str, dict[str, Any] | None]:
    """The name of an Iceberg table, and load_catalog's arguments; `catalog` may know them."""
    if catalog is None:
        return table, catalog_kwargs
    if catalog_kwargs:
        if writes:
            raise ValueError(f"{method}: `catalog_kwargs` cannot be specified with `catalog`")
        warnings.warn(f"{method}: `catalog` is ignored, since there are `catalog_kwargs`", stacklevel=3)
        return table, catalog_kwargs
    from weir.catalog import CatalogAccessMode, ReaderFormat, _resolved

    found = _resolved(method, catalog, table, ReaderFormat.ICEBERG, CatalogAccessMode.WRITE if writes else CatalogAccessMode.READ)
    return table if found.table_identifier is None else found.table_identifier, found.catalog_kwargs or {}


def read_lance(
    uri: str | list[str],
    *,
    version: int | str | None = None,
    columns: list[str] | None = None,
    filter: str | None = None,
    storage_options: dict[str, str] | None = None,
    scanner_options: dict[str, Any] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Reads Lance datasets. The package pylance reads their fragments, in workers; without it, a ModuleNotFoundError says so.

    Args:
        version: a number or a tag; else the newest.
        filter: the condition of a WHERE clause; Dataset.filter does the same.
        scanner_options: other arguments of LanceDataset.scanner.

    >>> import weir
    >>> ds = weir.read_lance("flowers.lance", columns=["petal"])  # doctest: +SKIP
    """
    from weir.datasource.tables import LanceDatasource

    if filter is not None:
        warnings.warn("read_lance(filter=…) is going away: use Dataset.filter(expr=…)", DeprecationWarning, stacklevel=2)
    source = LanceDatasource(uri, version, columns, filter, storage_options, scanner_options)
    return _read("read_lance", source, locals())


def read_delta(
    path: str,
    version: int | None = None,
    *,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    catalog: Any = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    shuffle: str | FileShuffleConfig | None = None,
    include_paths: bool = False,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **arrow_parquet_args: Any,
) -> Dataset:
    """Reads a Delta Lake table: of one version, with columns that older files lack as nulls. The package deltalake knows its files, and
    pyarrow reads them, in workers.

    Args:
        version: else the newest.
        arrow_parquet_args: arguments of pyarrow.dataset.Scanner.from_fragment.

    >>> import weir
    >>> ds = weir.read_delta("events/", version=3)  # doctest: +SKIP
    """
    from weir.datasource.tables import DeltaDatasource

    path, storage_options = _delta_of("read_delta", catalog, path, filesystem, storage_options)
    source = DeltaDatasource(path, version, storage_options, columns, shuffle, include_paths, arrow_parquet_args)
    return _read("read_delta", source, locals())


def read_iceberg(
    *,
    table_identifier: str,
    row_filter: Any = None,
    parallelism: int = -1,
    selected_fields: tuple[str, ...] = ("*",),
    snapshot_id: int | None = None,
    scan_kwargs: dict[str, Any] | None = None,
    catalog_kwargs: dict[str, Any] | None = None,
    catalog: Any = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Reads an Iceberg table, of one snapshot. The package pyiceberg finds it in a catalog and reads its files, in workers.

    Args:
        table_identifier: "namespace.table".
        catalog_kwargs: arguments of pyiceberg.catalog.load_catalog: {"name": …, "type": "sql", "uri": "sqlite:///…"}.
        scan_kwargs: arguments of pyiceberg's Table.scan.

    >>> import weir
    >>> ds = weir.read_iceberg(table_identifier="shop.orders", catalog_kwargs={"name": "local"})  # doctest: +SKIP
    """
    from weir.datasource.tables import IcebergDatasource

    if catalog_kwargs is None:
        table_identifier, catalog_kwargs = _iceberg_of("read_iceberg", catalog, table_identifier, catalog_kwargs)
    if row_filter is not None:
        warnings.warn("read_iceberg(row_filter=…) is going away: use Dataset.filter(…)", DeprecationWarning, stacklevel=2)
    if tuple(selected_fields) != ("*",):
        warnings.warn("read_iceberg(selected_fields=…) is going away: use Dataset.select_columns(…)", DeprecationWarning, stacklevel=2)
    source = IcebergDatasource(table_identifier, row_filter, selected_fields, snapshot_id, scan_kwargs, catalog_kwargs)
    made = _read("read_iceberg", source, locals())
    return made if source.limit is None else made.limit(source.limit)


def read_mcap(
    paths: str | list[str],
    *,
    topics: list[str] | set[str] | None = None,
    time_range: Any = None,
    message_types: list[str] | set[str] | None = None,
    include_metadata: bool = True,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: str | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Reads MCAP files: a row a message, in the order of log times, with `data`, `topic`, `log_time`, `publish_time` and `sequence`. Messages
    in JSON are decoded. The package mcap reads them, in workers.

    Args:
        topics: only of these.
        time_range: a TimeRange, or (from, before), in nanoseconds of log time.
        message_types: only those whose schema has one of these names.
        include_metadata: also what channel and schema say.

    >>> import weir
    >>> ds = weir.read_mcap("drive.mcap", topics={"/camera"})  # doctest: +SKIP
    """
    from weir import _others
    from weir.datasource.mcap import MCAPDatasource, TimeRange

    if isinstance(time_range, tuple):
        if len(time_range) != 2:
            raise ValueError(f"Time range must be a tuple of (start_time, end_time): got {time_range}")
        time_range = TimeRange(*time_range)
    if file_extensions is None:
        file_extensions = ["mcap"]
    more = {"topics": topics, "time_range": time_range, "message_types": message_types, "include_metadata": include_metadata}
    return _others._read("read_mcap", MCAPDatasource, locals(), **more)


def read_zarr(
    path: str,
    *,
    filesystem: Any = None,
    chunk_shapes: dict[str, list[int]] | list[int] | None = None,
    array_paths: list[str] | None = None,
    allow_full_metadata_scan: bool = False,
    align_axis_0: bool = False,
    overlap: int = 0,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Reads a Zarr store: a row a chunk, with `array`, `chunk_index`, `chunk_slices` and `chunk`; or with align_axis_0 a row a piece of the
    first axis, with `t_start`, `t_stop` and a column an array. The package zarr reads the chunks, in workers.

    Args:
        chunk_shapes: other pieces than the store's chunks: of the first axes of all arrays, or of some by their names.
        array_paths: only these arrays. Needed where the store has no list of its arrays, unless allow_full_metadata_scan.
        overlap: with align_axis_0, so many steps of the next row stand at the end of each.

    >>> import weir
    >>> ds = weir.read_zarr("mnist.zarr", align_axis_0=True, chunk_shapes=[50])  # doctest: +SKIP
    """
    from weir.datasource.zarr import ZarrDatasource

    if filesystem is not None:
        raise NotImplementedError("read_zarr: filesystem= is not supported: copy or mount the store")
    from weir.datasource import plain_path

    source = ZarrDatasource(plain_path(path), chunk_shapes, array_paths, allow_full_metadata_scan, align_axis_0, overlap)
    return _read("read_zarr", source, locals())


# ---- writing ----


def stream_of(ds: Dataset, schema: pyarrow.Schema | None, method: str) -> pyarrow.RecordBatchReader:
    """The rows as a package takes them: one schema, batch by batch as they are made."""
    pa = need("pyarrow", method)
    if schema is None:
        found = ds.schema()
        if found is None:
            raise ValueError(f"{method}: there are no rows, and so no columns; give the table a schema of its own")
        schema = pa.schema([pa.field(field.name, field.type) for field in found.base_schema])

    def batches() -> Iterator[Any]:
        for table in ds.iter_batches(batch_format="pyarrow", batch_size=None):
            if not set(table.schema.names) <= set(schema.names):
                raise ValueError(f"{method}: rows with columns {table.schema.names} came behind rows with {schema.names}")
            has = set(table.schema.names)
            columns = [table[field.name] if field.name in has else pa.nulls(table.num_rows, field.type) for field in schema]
            yield from pa.table(columns, schema.names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _mode(method: str, mode: Any, *allowed: str) -> str:
    word = str(getattr(mode, "value", mode)).lower()
    if word not in allowed:
        raise ValueError(f"{method}: mode is {', '.join(f'SaveMode.{one.upper()}' for one in allowed)}, not {mode!r}")
    return word


def write_lance(ds: Dataset, path: str, schema: Any, mode: Any, max_rows_per_file: int, more: dict[str, Any]) -> None:
    """What Dataset.write_lance does."""
    lance = need("lance", "write_lance", "pylance")
    word = _mode("write_lance", mode, "create", "append", "overwrite")
    lance.write_dataset(stream_of(ds, schema, "write_lance"), path, mode=word, max_rows_per_file=max_rows_per_file, **more)


def write_delta(ds: Dataset, path: str, mode: Any, partition_by: Sequence[str] | None, schema_mode: str, more: dict[str, Any]) -> None:
    """What Dataset.write_delta does."""
    deltalake = need("deltalake", "write_delta")
    word = _mode("write_delta", mode, "append", "overwrite")
    if schema_mode not in ("merge", "error"):
        raise ValueError(f'write_delta: schema_mode is "merge" or "error", not {schema_mode!r}')
    table = None
    if deltalake.DeltaTable.is_deltatable(path, more.get("storage_options")):
        table = deltalake.DeltaTable(path, storage_options=more.get("storage_options"))
    schema = None
    if table is not None and ds.schema() is None:  # no rows, and so no columns: those of the table
        if word == "append":
            return
        import pyarrow as pa

        schema = pa.schema(table.schema().to_arrow())
    reader = stream_of(ds, schema, "write_delta")
    parts = [] if table is None else list(table.metadata().partition_columns)
    if table is not None and word == "append" and partition_by and list(partition_by) != parts:
        raise ValueError(f"write_delta: can't change an existing table's partition columns: they are {parts}, and partition_by is {list(partition_by)}")
    unknown = [name for name in partition_by or parts if name not in reader.schema.names]
    if unknown:
        raise ValueError(f"write_delta: missing partition column(s) {unknown}: the columns are {reader.schema.names}")
    if word == "append" and table is not None:
        _check_delta(reader.schema, table, schema_mode)
    how = "overwrite" if word == "overwrite" else "merge" if schema_mode == "merge" else None
    deltalake.write_deltalake(path, reader, mode=word, partition_by=list(partition_by or ()) or None, schema_mode=how, **more)


def _check_delta(schema: pyarrow.Schema, table: Any, schema_mode: str) -> None:
    import pyarrow as pa

    has = {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
    new = [field.name for field in schema if field.name not in has]
    for field in schema:
        if field.name in has and not _fits(field.type, has[field.name]):
            raise ValueError(f"write_delta: the column {field.name!r} is {has[field.name]} in the table, and {field.type} here; cast it first")
    if new and schema_mode == "error":
        raise ValueError(f"write_delta: the table has no column {', '.join(map(repr, new))}, and schema_mode='error' adds none")


def _fits(given: pyarrow.DataType, kept: pyarrow.DataType) -> bool:
    """Whether values of one type go into a column of another without being read as something else."""
    import pyarrow as pa

    if given == kept or pa.types.is_null(given) or pa.types.is_nested(given) or pa.types.is_nested(kept):
        return True  # of nested ones the package says what it thinks
    if pa.types.is_floating(kept):
        return bool(pa.types.is_floating(given) or pa.types.is_integer(given))
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    others = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    families = (texts, others, (pa.types.is_integer,), (pa.types.is_timestamp,), (pa.types.is_decimal,), (pa.types.is_date,))
    return any(any(is_of(given) for is_of in family) and any(is_of(kept) for is_of in family) for family in families)


def write_iceberg(
    ds: Dataset, table_identifier: str, catalog_kwargs: dict[str, Any] | None, mode: Any, overwrite_filter: Any, options: dict[str, Any]
) -> None:
    """What Dataset.write_iceberg does."""
    catalogs = need("pyiceberg.catalog", "write_iceberg", "pyiceberg")
    from weir.datasource.tables import iceberg_condition, loaded

    word = _mode("write_iceberg", mode, "append", "upsert", "overwrite")
    if overwrite_filter is not None and word != "overwrite":
        raise ValueError("write_iceberg: overwrite_filter is for mode=SaveMode.OVERWRITE")
    table = loaded(catalogs, table_identifier, catalog_kwargs)
    reader = stream_of(ds, None, "write_iceberg")
    with table.transaction() as commit:
        with commit.update_schema() as columns:
            columns.union_by_name(reader.schema)
        if word == "append":
            commit.append(reader, **options)
        elif word == "upsert":  # rows are matched with those of the table: they are all there at once
            commit.upsert(reader.read_all(), **options)
        else:
            where = {} if overwrite_filter is None else {"overwrite_filter": iceberg_condition(overwrite_filter)}
            commit.overwrite(reader, **where, **options)
