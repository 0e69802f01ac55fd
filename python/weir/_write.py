"""Writing: what Ray's arguments are in the engine's words."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weir import _parts, _pieces, _plan, _run
from weir._checkpointed import Checkpoint
from weir._mistakes import NoSuchName, WrongArgument, WrongInTask
from weir._plan import Op
from weir._transform import refuse, remote_args
from weir.dataset import SaveMode
from weir.datasource import plain_path
from weir.datasource.listing import is_local, local_paths

if TYPE_CHECKING:
    from weir._weir import Batch, Flow
    from weir.dataset import Dataset
    from weir.datasource import Datasink, FilenameProvider

Option = tuple[str, "str | None"]
_FORMATS = {"parquet": "parquet", "csv": "csv", "json": "jsonl", "tfrecords": "tfrecord"}


def _named(method: str, path: str) -> str:
    if not path:
        raise ValueError(f"{method}: an empty text is no path: '.' is the folder in which the program runs")
    return path


def _mode(method: str, mode: Any) -> SaveMode:
    try:
        found = SaveMode(mode)
    except ValueError:
        raise ValueError(f"mode is one of {[m.value for m in SaveMode]}, not {mode!r}") from None
    if found is SaveMode.UPSERT:
        refuse(method, "mode", "files have no keys to update by")
    return found


def _count(value: Any, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is a number, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{what} must be a positive integer, at least 1, not {value}")
    return int(value)


def check_tasks(method: str, ray_remote_args: Any, concurrency: Any) -> None:
    """What is said of tasks that write: without effect where none do, and looked at all the same."""
    remote_args(method, {}, ray_remote_args)
    _count(concurrency, "concurrency")


def _rows_min(method: str, rows: Any, older: Any) -> int | None:
    """min_rows_per_file, or what was its name before."""
    if older is not None:
        warnings.warn("`num_rows_per_file` is deprecated: use `min_rows_per_file`.", DeprecationWarning, stacklevel=4)
    return _count(rows if rows is not None else older, "min_rows_per_file")


def _of_catalog(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the path that the catalog knows."""
    from weir.catalog import CatalogAccessMode, ReaderFormat, _resolved

    if arguments.get("try_create_dir"):
        raise ValueError(f"{method}: `try_create_dir` is not supported when writing through a `catalog`, which names a folder that is there: "
                         "try_create_dir=False")
    found = _resolved(method, arguments["catalog"], arguments["path"], ReaderFormat.PARQUET, CatalogAccessMode.WRITE)
    if found.filesystem is not None and arguments.get("filesystem") is not None:
        raise ValueError(f"{method}: `filesystem` cannot be specified with `catalog`, which has given one")
    return {**arguments, "path": found.path, "filesystem": found.filesystem or arguments.get("filesystem"), "catalog": None}


def write(ds: Dataset, kind: str, arguments: Mapping[str, Any]) -> None:
    """What write_parquet, write_csv, write_json and write_tfrecords do. `arguments`: locals() of the one that was called."""
    method = f"write_{kind}"
    if arguments.get("catalog") is not None:
        arguments = _of_catalog(method, arguments)
    get = arguments.get
    if not is_local(get("filesystem")):
        return _write_elsewhere(ds, kind, arguments)
    path = local_paths(get("filesystem"), arguments["path"])
    provider = get("filename_provider")
    if provider is not None and not hasattr(provider, "get_filename_for_task"):
        raise WrongInTask(f"{method}: filename_provider is a FilenameProvider, not {type(provider).__name__}")
    concurrency = get("concurrency")
    check_tasks(method, get("ray_remote_args"), concurrency)
    target = os.path.abspath(_named(method, plain_path(path)))
    mode = _mode(method, arguments["mode"])
    rows_min = _rows_min(method, get("min_rows_per_file"), get("num_rows_per_file"))
    rows_max = _count(get("max_rows_per_file"), "max_rows_per_file")
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        raise ValueError(f"min_rows_per_file ({rows_min}) cannot be greater than max_rows_per_file ({rows_max})")
    bytes_min = _count(get("min_bytes_per_file"), "min_bytes_per_file")
    if bytes_min is not None and rows_min is not None:
        raise ValueError("min_rows_per_file and min_bytes_per_file cannot both be given")
    more = _format_arguments(kind, arguments)
    partitions = _partitions(get("partition_cols"))
    if partitions and rows_min is not None:
        warnings.warn(
            "Using `min_rows_per_file` with non-empty `partition_cols` is deprecated and will no longer be supported after February 2027 "
            "by Ray Data; weir keeps it. `repartition(num_blocks=…, keys=partition_cols)` and `max_rows_per_file` do the same.",
            DeprecationWarning,
            stacklevel=3,
        )
    if "partitioning_flavor" in more and not partitions:
        raise ValueError("partition_cols must be provided when partitioning_flavor is set.")
    given, ds = ds, _with_schema(ds, kind, arguments)
    try:
        options = _format_options(kind, more)
    except NotNative as odd:
        try:
            ds.write_datasink(_library_sink(kind, more, arguments, partitions, odd), ray_remote_args=get("ray_remote_args"), concurrency=concurrency)
        finally:
            given._last_run = ds._last_run
        return
    options += _open_options(method, get("arrow_open_stream_args"))
    flavor = more.get("partitioning_flavor", "hive")
    checkpoint = Checkpoint.begin(ds, target)
    if checkpoint is not None and checkpoint.is_resumed:
        mode = SaveMode.APPEND  # what is there is what the run before has written
    elif os.path.exists(target):
        if mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(f"Path {target} already exists. If this is unexpected, use mode='ignore' to ignore those files")
        if mode is SaveMode.IGNORE:
            return
        if os.path.isfile(target):
            raise NotADirectoryError(f"{target} is a file, and {method} writes a folder of files")
    elif not arguments.get("try_create_dir", True):
        raise FileNotFoundError(f"{target} is not there, and try_create_dir=False")
    if rows_max is not None:
        options.append(("rows-per-file", str(rows_max)))
    if kind == "json":
        options.append(("extension", ".json"))
    try:
        _run_write(ds, Job(target, _FORMATS[kind], mode, options, rows_min, bytes_min, rows_max, partitions, flavor, provider, checkpoint))
    finally:
        given._last_run = ds._last_run


def _write_elsewhere(ds: Dataset, kind: str, arguments: Mapping[str, Any]) -> None:
    """The same into a folder of another file system."""
    from weir.datasource.other_systems import Elsewhere

    method = f"write_{kind}"
    mode = _mode(method, arguments["mode"])
    if getattr(ds.context, "checkpoint_config", None) is not None:
        refuse(method, "filesystem", "a write with a checkpoint makes its files on this machine")
    try:
        place = Elsewhere(arguments["filesystem"], arguments["path"])
    except WrongArgument as error:
        raise WrongArgument(f"{method}: {error}") from None
    try:
        if place.begins(mode, bool(arguments.get("try_create_dir", True))):
            write(ds, kind, {**arguments, "filesystem": None, "path": place.folder, "try_create_dir": True})
            place.send(mode)
    finally:
        place.close()


def _partitions(columns: Any) -> list[str]:
    if columns is None:
        return []
    if not isinstance(columns, (list, tuple)) or not all(isinstance(c, str) for c in columns):
        raise WrongInTask(f"partition_cols is a list of names, not {columns!r}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"partition_cols names a column twice: {columns}")
    return list(columns)


def _open_options(method: str, arguments: Mapping[str, Any] | None) -> list[Option]:
    options: list[Option] = []
    for key, value in (arguments or {}).items():
        if key == "compression":
            if value is not None:
                options.append(("compression", {"gz": "gzip"}.get(str(value), str(value))))
        elif key != "buffer_size":
            refuse(method, f"arrow_open_stream_args={{{key!r}: …}}", "compression and buffer_size are")
    return options


# ---- what formats have for options ----


def _format_arguments(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What pyarrow's or pandas' own writer is to be told."""
    if kind == "tfrecords":
        return {}
    given, maker = {
        "parquet": ("arrow_parquet_args", "arrow_parquet_args_fn"),
        "csv": ("arrow_csv_args", "arrow_csv_args_fn"),
        "json": ("pandas_json_args", "pandas_json_args_fn"),
    }[kind]
    merged = dict(arguments[given])
    if arguments[maker] is not None:
        merged.update(arguments[maker]())
    return merged


def _format_options(kind: str, more: Mapping[str, Any]) -> list[Option]:
    makers: dict[str, Callable[[Mapping[str, Any]], list[Option]]] = {"parquet": _parquet, "csv": _csv, "json": _json, "tfrecords": lambda _: []}
    return makers[kind](more)


def _with_schema(ds: Dataset, kind: str, arguments: Mapping[str, Any]) -> Dataset:
    """The rows with the columns and types of the schema that write_parquet was given, or checked against that of write_tfrecords."""
    if kind == "tfrecords":
        from weir import _records

        return _records.with_schema(ds, arguments)
    if kind != "parquet":
        return ds
    made = {**arguments["arrow_parquet_args"], **(arguments["arrow_parquet_args_fn"] or dict)()}
    schema = made.get("schema")
    if schema is None:
        return ds
    from weir.expressions import col

    return ds.select_columns(list(schema.names)).with_columns({field.name: col(field.name).cast(field.type) for field in schema})


class NotNative(WrongInTask):
    """An argument that the engine's own writer does not have."""


def _unknown(method: str, name: str, value: Any) -> None:
    raise NotNative(f"{method}: the argument {name}={value!r} is not supported")


def _library_sink(kind: str, more: dict[str, Any], arguments: Mapping[str, Any], partitions: list[str], odd: NotNative) -> Datasink[Any]:
    """What has pandas or pyarrow write the files, if they have the argument and are here."""
    if kind == "csv" or "python_objects" in more:
        raise WrongInTask(str(odd)) from None
    from weir.datasource.library_sinks import ArrowParquet, PandasJSON

    writer: type[PandasJSON] | type[ArrowParquet] = PandasJSON if kind == "json" else ArrowParquet
    made = {name: value for name, value in more.items() if name != "schema"}
    try:
        writer.knows(made)
    except (ImportError, TypeError):
        raise WrongInTask(str(odd)) from None
    names = ("filesystem", "try_create_dir", "filename_provider", "mode")
    common = {**{name: arguments[name] for name in names}, "open_stream_args": arguments.get("arrow_open_stream_args"), "arguments": made}
    rows = arguments.get("min_rows_per_file") or arguments.get("num_rows_per_file")
    if kind == "json":
        return PandasJSON(arguments["path"], min_rows_per_file=rows, **common)
    return ArrowParquet(
        arguments["path"], partition_cols=partitions, max_rows_per_file=arguments.get("max_rows_per_file"), min_rows_per_file=rows,
        min_bytes_per_file=arguments.get("min_bytes_per_file"), **common,
    )


def _parquet(arguments: Mapping[str, Any]) -> list[Option]:
    options: list[Option] = []
    for name, value in arguments.items():
        if value is None:
            continue
        if name == "compression" and isinstance(value, str):
            options.append(("compression", {"brotli": "brotli", "uncompressed": "none"}.get(value.lower(), value.lower())))
        elif name == "compression_level" and isinstance(value, int):
            options.append(("level", str(value)))
        elif name == "row_group_size":
            options.append(("row-group-rows", str(value)))
        elif name == "use_dictionary" and isinstance(value, bool):
            options += [] if value else [("no-dictionary", None)]
        elif name == "data_page_version" and value in ("1.0", "2.0"):
            options += [("page-v2", None)] if value == "2.0" else []
        elif name == "python_objects":
            if value != "pickle":
                raise ValueError(f'write_parquet: python_objects is "pickle", which writes their pickles as bytes, or None, not {value!r}')
            options.append(("objects-pickled", None))
        elif name == "write_page_index":
            options += [] if value else [("no-page-index", None)]
        elif name == "partitioning_flavor":
            if value not in ("hive", "filename"):
                raise WrongInTask(f"write_parquet: the argument partitioning_flavor={value!r} is not supported")
        elif name != "schema" and (name, value) not in (("version", "2.6"), ("write_statistics", True), ("store_schema", True)):
            _unknown("write_parquet", name, value)
    return options


def _csv(arguments: Mapping[str, Any]) -> list[Option]:
    options: list[Option] = [("quoting", "strings"), ("floats", "bare")]
    for name, value in arguments.items():
        if name != "write_options":
            _unknown("write_csv", name, value)
        if value is None:
            continue
        if not value.include_header:
            options.append(("no-header", None))
        if value.delimiter != ",":
            options.append(("delimiter", value.delimiter))
        style = {"needed": "strings", "all_valid": "all", "none": "none"}[value.quoting_style]
        options = [("quoting", style), *options[1:]]
    return options


def _json(arguments: Mapping[str, Any]) -> list[Option]:
    options: list[Option] = []
    for name, value in arguments.items():
        if name == "compression" and value in ("gzip", "zstd"):
            options.append(("compression", value))
        elif (name, value) not in (("orient", "records"), ("lines", True), ("compression", None), ("compression", "infer"),
                                   ("index", False), ("force_ascii", False)):
            _unknown("write_json", name, value)
    return options


# ---- running ----


class Job(NamedTuple):
    """A write, its arguments checked."""

    target: str
    format: str
    mode: SaveMode
    options: list[Option]
    rows_min: int | None
    bytes_min: int | None
    rows_max: int | None
    partitions: list[str]
    flavor: str | None  # of the names that rows of each partition get
    provider: FilenameProvider | None
    checkpoint: Checkpoint | None


def _run_write(ds: Dataset, job: Job) -> None:
    run = ds._last_run = ds._new_run(job.checkpoint.plan if job.checkpoint is not None else None)
    if job.checkpoint is not None:
        run.build.may_pace = False  # an error costs one batch, not those that shared its task
    parts = run.parts()
    if job.checkpoint is not None:
        _pieces.write_with_checkpoint(ds, run, parts, job)
        job.checkpoint.finish()
    elif job.partitions or job.rows_min is not None or job.bytes_min is not None:
        _pieces.write_streamed(ds, run, parts, job)
    elif job.provider is not None or len(parts) > 1 or any(isinstance(part, _parts.LocalRows) for part in parts):
        _pieces.write_renamed(ds, run, parts, job)
    elif parts:
        mode = "overwrite" if job.mode is SaveMode.OVERWRITE else "append"
        _write_part(run, parts[0], job, job.target, [("mode", mode), ("name", f"{ds._uuid[:22]}_{os.urandom(16).hex()}")])
    elif job.mode is SaveMode.OVERWRITE and os.path.isdir(job.target):
        _write_part(run, _plan.Range(0), job, job.target, [("mode", "overwrite")])
    run.finished = True


def _write_part(run: _run.Run, part: Op, job: Job, target: str, more: list[Option]) -> None:
    """One flow into a folder."""
    rows = _rows_per_block(part)
    options: list[Option] = [("format", job.format), *more, *job.options]
    if rows and job.rows_max is None:
        options.append(("rows-per-file", str(rows)))

    def end(flow: Flow) -> None:
        flow.step("write", [target if target.endswith("/") else target + "/"], options)

    run.wait(part, "sink", end)


def _by_partition(batch: Batch, columns: list[str], flavor: str | None) -> list[tuple[str, Batch]]:
    """The rows of each combination of values, without those columns, in the order in which they appear, and what stands in front of their
    files' names: `a=1/b=x/` (hive), `1/x/` (None) or `1_x_` (filename)."""
    from array import array
    from urllib.parse import quote

    for column in columns:
        if column not in batch.names:
            raise NoSuchName(f"partition_cols names the column {column!r}, and there are {batch.names}")
    rest = [n for n in batch.names if n not in columns]
    if not rest:
        raise ValueError("partition_cols leaves no column to write")
    rows: dict[tuple[Any, ...], array[int]] = {}
    for number, row in enumerate(batch.select(columns).rows()):
        rows.setdefault(tuple(row.values()), array("q")).append(number)
    others = batch.select(rest)
    out = []
    for key, numbers in rows.items():
        texts = ["__HIVE_DEFAULT_PARTITION__" if v is None else quote(str(v), safe=" ") for v in key]
        if flavor == "hive":
            texts = [f"{quote(name, safe=' ')}={text}" for name, text in zip(columns, texts)]
        out.append(("".join(text + ("_" if flavor == "filename" else "/") for text in texts), others.take(numbers)))
    return out


def _rows_per_block(part: Op) -> int | None:
    """Where the user has fixed the rows a block has, a file is a block."""
    return part.count if isinstance(part, _plan.RepartitionRows) else None
