"""What Dataset inherits for sinks of one's own, databases and arrays, and for handing its blocks out as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weir import _absent

if TYPE_CHECKING:
    from weir._plan import Op
    from weir._run import Run
    from weir.context import DataContext
    from weir.dataset import MaterializedDataset
    from weir.datasource import Datasink, FilenameProvider
    from weir.ref_bundle import RefBundle


class Conversions:
    """write_datasink and what is made of it; to_*_refs."""

    _op: Op
    _context: DataContext
    _uuid: str
    _last_run: Run | None

    if TYPE_CHECKING:

        def _new_run(self, op: Op | None = None) -> Run: ...

        def materialize(self) -> MaterializedDataset: ...

    def write_datasink(
        self, datasink: Datasink[Any], *, ray_remote_args: dict[str, Any] | None = None, concurrency: int | None = None
    ) -> None:
        """Writes to a sink of one's own: its write() runs in worker processes, the rest of it here.

        >>> import weir
        >>> from weir.datasource import DummyOutputDatasink
        >>> sink = DummyOutputDatasink()
        >>> weir.range(10).write_datasink(sink)
        >>> sink.rows_written
        10
        """
        from weir import _sinks

        _sinks.write(self, datasink, ray_remote_args, concurrency)  # type: ignore[arg-type]

    def write_numpy(
        self,
        path: str,
        *,
        column: str,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Any = "append",
    ) -> None:
        """Writes one column as .npy files: an array for each block.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(4).write_numpy(folder, column="id")
        >>> sorted(row["data"] for row in weir.read_numpy(folder).take_all())
        [0, 1, 2, 3]
        """
        from weir import _write
        from weir.datasource.arrays import NumpyDatasink

        sink = NumpyDatasink(
            path,
            column,
            filesystem=filesystem,
            try_create_dir=try_create_dir,
            open_stream_args=arrow_open_stream_args,
            filename_provider=filename_provider,
            dataset_uuid=self._uuid[:22],
            min_rows_per_file=_write._rows_min("write_numpy", min_rows_per_file, num_rows_per_file),
            mode=_write._mode("write_numpy", mode),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_tfrecords(
        self,
        path: str,
        *,
        tf_schema: Any = None,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Any = "append",
    ) -> None:
        """Writes TFRecord files of `tf.train.Example`: a record a row, a feature a column. TensorFlow is not needed.

        Integers are written as 64 bits, floats as 32, texts and bytes as bytes, lists of these as lists, nulls as empty lists, tensors of one
        shape as bytes that `tf.io.parse_tensor` reads.

        Args:
            tf_schema: a `schema_pb2.Schema` of tensorflow_metadata: columns that it lacks, or that are of another kind, are a ValueError.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(3).write_tfrecords(folder)
        >>> weir.read_tfrecords(folder).sum("id")
        3
        """
        from weir import _write

        _write.write(self, "tfrecords", locals())  # type: ignore[arg-type]

    def write_webdataset(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        encoder: Any = True,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Any = "append",
    ) -> None:
        """Writes WebDataset shards, tar files: a member for each column of a row, named by `__key__` and the column.

        Args:
            encoder: True encodes by the columns' names (txt, cls, json, npy, png, jpg, mp …); None wants bytes or texts. A function of a
                sample, or a list of these, encodes itself.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.from_items([{"__key__": "a", "json": {"x": 1}}]).write_webdataset(folder)
        >>> weir.read_webdataset(folder).take(1)[0]["json"]
        {'x': 1}
        """
        from weir import _samples, _write

        sink = _samples.WebDatasetDatasink(
            path,
            encoder,
            filesystem=filesystem,
            try_create_dir=try_create_dir,
            open_stream_args=arrow_open_stream_args,
            filename_provider=filename_provider,
            dataset_uuid=self._uuid[:22],
            min_rows_per_file=_write._rows_min("write_webdataset", min_rows_per_file, num_rows_per_file),
            mode=_write._mode("write_webdataset", mode),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_orc(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_orc_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        mode: Any = "append",
        **arrow_orc_args: Any,
    ) -> None:
        """Writes ORC files: one for each block. pyarrow encodes them; `arrow_orc_args` are those of pyarrow.orc.write_table.

        >>> import tempfile, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.range(3).write_orc(folder, compression="zstd")
        >>> weir.read_orc(folder).sum("id")
        3
        """
        from weir import _write
        from weir.datasource.other_files import ORCDatasink

        sink = ORCDatasink(
            path,
            arrow_orc_args,
            arrow_orc_args_fn,
            filesystem=filesystem,
            try_create_dir=try_create_dir,
            open_stream_args=arrow_open_stream_args,
            filename_provider=filename_provider,
            dataset_uuid=self._uuid[:22],
            min_rows_per_file=_write._rows_min("write_orc", min_rows_per_file, None),
            mode=_write._mode("write_orc", mode),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def to_daft(self) -> Any:
        """The rows as a Daft DataFrame, by way of Arrow.

        >>> import weir
        >>> frame = weir.range(3).to_daft()  # doctest: +SKIP
        """
        from weir import _others

        return _others.to_daft(self)  # type: ignore[arg-type]

    def to_dask(self, meta: Any = None, verify_meta: bool = True) -> Any:
        """The rows as a Dask DataFrame: a partition for each block. The rows are kept by this process, and Dask's own scheduler computes.

        >>> import weir
        >>> frame = weir.range(3).to_dask()  # doctest: +SKIP
        """
        from weir import _others

        return _others.to_dask(self, meta, verify_meta)  # type: ignore[arg-type]

    def to_modin(self) -> Any:
        """The rows as a Modin DataFrame.

        >>> import weir
        >>> frame = weir.range(3).to_modin()  # doctest: +SKIP
        """
        from weir import _others

        return _others.to_modin(self)  # type: ignore[arg-type]

    def write_images(
        self,
        path: str,
        column: str,
        file_format: str = "png",
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        mode: Any = "append",
    ) -> None:
        """Writes a column of images, arrays of pixels, as files: one for each row. Pillow encodes them.

        >>> import tempfile, numpy as np, weir
        >>> folder = tempfile.mkdtemp()
        >>> weir.from_numpy(np.full((2, 4, 4, 3), 7, np.uint8)).write_images(folder, "data")
        >>> {int(row["image"].max()) for row in weir.read_images(folder).take_all()}
        {7}
        """
        from weir import _write
        from weir.datasource.images import ImageDatasink

        sink = ImageDatasink(
            path,
            column,
            file_format,
            filesystem=filesystem,
            try_create_dir=try_create_dir,
            open_stream_args=arrow_open_stream_args,
            filename_provider=filename_provider,
            dataset_uuid=self._uuid[:22],
            mode=_write._mode("write_images", mode),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes rows to a database with a statement, whose places take the columns in order. Each task is a transaction; a
        database with one writer, such as SQLite, is best written with concurrency=1.

        >>> import os, sqlite3, tempfile, weir
        >>> path = os.path.join(tempfile.mkdtemp(), "a.db")
        >>> _ = sqlite3.connect(path).execute("CREATE TABLE number (id)")
        >>> weir.range(3).write_sql("INSERT INTO number VALUES (?)", lambda: sqlite3.connect(path), concurrency=1)
        >>> sqlite3.connect(path).execute("SELECT sum(id) FROM number").fetchone()
        (3,)
        """
        from weir.datasource.sql import SQLDatasink

        self.write_datasink(SQLDatasink(sql, connection_factory), ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_lance(
        self,
        path: str,
        *,
        schema: Any = None,
        mode: Any = "create",
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, Any] | None = None,
        table_id: list[str] | None = None,
        namespace_impl: str | None = None,
        namespace_properties: dict[str, str] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes a Lance dataset, in one commit. The package pylance writes it, from a stream of this process.

        Args:
            mode: SaveMode.CREATE (an error if it is there), APPEND or OVERWRITE.
            schema: the columns' types; else those of the rows.
            min_rows_per_file: files have max_rows_per_file rows as long as there are so many, so this holds by itself.
            ray_remote_args, concurrency: without effect: no tasks write.

        >>> import weir
        >>> weir.range(3).write_lance("numbers.lance")  # doctest: +SKIP
        """
        from weir import _tables, _write

        _write.check_tasks("write_lance", ray_remote_args, concurrency)
        if min_rows_per_file > max_rows_per_file:
            raise ValueError(f"min_rows_per_file ({min_rows_per_file}) cannot be greater than max_rows_per_file ({max_rows_per_file})")
        if namespace_impl is not None or table_id is not None or namespace_properties is not None:
            raise NotImplementedError("write_lance: namespaces need a service that weir does not talk to; give a path")
        more = {"storage_options": storage_options, "data_storage_version": data_storage_version}
        _tables.write_lance(self, path, schema, mode, max_rows_per_file, more)  # type: ignore[arg-type]

    def write_delta(
        self,
        path: str,
        *,
        catalog: Any = None,
        mode: Any = "append",
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        schema_mode: str = "merge",
        filesystem: Any = None,
        name: str | None = None,
        description: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes a Delta Lake table, in one commit; makes it if it is not there. The package deltalake writes it, from a stream of this
        process.

        Args:
            mode: SaveMode.APPEND, or OVERWRITE for all rows and columns.
            schema_mode: "merge" adds columns that the table lacks, with nulls in its rows; "error" refuses them.

        >>> import weir
        >>> weir.range(3).write_delta("numbers/", partition_by=["id"])  # doctest: +SKIP
        """
        from weir import _tables, _write

        _write.check_tasks("write_delta", ray_remote_args, concurrency)
        path, storage_options = _tables._delta_of("write_delta", catalog, path, filesystem, storage_options, writes=True)
        more = {"storage_options": storage_options, "name": name, "description": description}
        _tables.write_delta(self, path, mode, partition_by, schema_mode, more)  # type: ignore[arg-type]

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        catalog: Any = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: Any = "append",
        overwrite_filter: Any = None,
        upsert_kwargs: dict[str, Any] | None = None,
        overwrite_kwargs: dict[str, Any] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes to an Iceberg table that is there, in one commit; columns that it lacks are added. The package pyiceberg writes, from a stream
        of this process.

        Args:
            table_identifier: "namespace.table".
            catalog_kwargs: arguments of pyiceberg.catalog.load_catalog.
            mode: SaveMode.APPEND; OVERWRITE, of all rows or those that overwrite_filter holds for; UPSERT, by upsert_kwargs["join_cols"].

        >>> import weir
        >>> weir.range(3).write_iceberg("shop.numbers", {"name": "local"})  # doctest: +SKIP
        """
        from weir import _tables, _write

        _write.check_tasks("write_iceberg", ray_remote_args, concurrency)
        table_identifier, catalog_kwargs = _tables._iceberg_of("write_iceberg", catalog, table_identifier, catalog_kwargs, writes=True)
        word = str(getattr(mode, "value", mode)).lower()
        options = dict((upsert_kwargs if word == "upsert" else overwrite_kwargs if word == "overwrite" else None) or {})
        if snapshot_properties is not None:
            options["snapshot_properties"] = snapshot_properties
        _tables.write_iceberg(self, table_identifier, catalog_kwargs, mode, overwrite_filter, options)  # type: ignore[arg-type]

    # ---- blocks as objects ----

    def to_arrow_refs(self) -> list[Any]:
        """A reference to a pyarrow.Table for each block.

        >>> import weir
        >>> [weir.get(ref).num_rows for ref in weir.range(10).repartition(2).to_arrow_refs()]
        [5, 5]
        """
        from weir import _formats

        return self._refs(_formats.to_arrow)

    def to_pandas_refs(self) -> list[Any]:
        """A reference to a DataFrame for each block.

        >>> import weir
        >>> [len(weir.get(ref)) for ref in weir.range(10).repartition(2).to_pandas_refs()]
        [5, 5]
        """
        from weir import _formats

        arrow_backed = bool(self._context.enable_arrow_backed_pandas_conversion)
        return self._refs(lambda batch: _formats.to_pandas(batch, arrow_backed))

    def to_numpy_refs(self, *, column: str | None = None) -> list[Any]:
        """A reference to an array, or a dict of arrays, for each block.

        >>> import weir
        >>> [weir.get(ref).tolist() for ref in weir.range(4).repartition(2).to_numpy_refs(column="id")]
        [[0, 1], [2, 3]]
        """

        def arrays(batch: Any) -> Any:
            if column is None:
                return batch.numpy()
            if column not in batch.names:
                raise ValueError(f"Cannot find column {column}, available columns: {batch.names}")
            return batch.select([column]).numpy()[column]

        return self._refs(arrays)

    def iter_internal_ref_bundles(self) -> Iterator[RefBundle]:
        """References to blocks with what is known of them, as they are made: pyarrow.Tables, and DataFrames of frames that no step has
        made tables of. None is kept: a block goes with its reference.

        >>> import weir
        >>> [bundle.size_bytes() for bundle in weir.range(10, override_num_blocks=2).iter_internal_ref_bundles()]
        [40, 40]
        """
        import weir
        from weir import _formats
        from weir._plan import rules_of
        from weir.block import BlockAccessor, BlockExecStats
        from weir.ref_bundle import BlockEntry, RefBundle

        _formats._need("pyarrow", "iter_internal_ref_bundles")

        def bundles() -> Iterator[RefBundle]:
            run = self._last_run = self._new_run()
            run.gives_blocks = True
            are_frames, arrow_backed = bool(rules_of(self._op)), bool(self._context.enable_arrow_backed_pandas_conversion)
            for batch in run:
                clock = BlockExecStats.builder()
                block = BlockAccessor.for_block(_formats.to_pandas(batch, arrow_backed) if are_frames else _formats.to_arrow(batch))
                entry = BlockEntry(weir.put(block.to_block()), block.get_metadata(block_exec_stats=clock.build()))
                schema = block.schema()
                del batch, block
                yield RefBundle((entry,), schema, True)

        return bundles()

    def _refs(self, made: Callable[[Any], Any]) -> list[Any]:
        import weir
        from weir import _blocks

        return [weir.put(made(_blocks.as_batch(block))) for block in self.materialize()._blocks()]


for _name, _advice in _absent.WRITERS.items():
    setattr(Conversions, _name, _absent.refusing(_name, _advice, True))
