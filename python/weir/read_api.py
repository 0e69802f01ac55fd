"""Making Datasets: of numbers, of Python objects, of files."""

from __future__ import annotations

import builtins
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir import _outdated, _session
from weir._mistakes import WrongArgument, WrongInTask, WrongObject
from weir._plan import Blocks, Call, Range, Read, ReadBlocks, Step
from weir._transform import refuse, remote_args
from weir.context import DataContext
from weir.dataset import Dataset, MaterializedDataset
from weir.datasource import FileShuffleConfig, Listing, Partitioning, PathPartitionFilter, PathPartitionParser, check_paths, plain_path
from weir.datasource.listing import check_some, is_local, local_paths

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow

    from weir._weir import Batch

Option = tuple[str, "str | None"]

_JSON_EXTENSIONS = [
    "json",
    "jsonl",
    "json.gz",
    "jsonl.gz",
    "json.br",
    "jsonl.br",
    "json.zst",
    "jsonl.zst",
    "json.lz4",
    "jsonl.lz4",
]
_HIVE = Partitioning("hive")
TENSOR_BYTES = 8 << 20
MANY_BLOCKS = 5000
ITEMS_BYTES_MAX = 8 << 20  # of a block


# ---- numbers and objects ----


def range(
    n: int | float, *, parallelism: int = -1, concurrency: int | None = None, override_num_blocks: int | None = None
) -> Dataset:
    """The numbers from 0 to n - 1, in a column `id`. `override_num_blocks` is the number of blocks, and `parallelism`
    its older name. `concurrency` has no effect.

    >>> import weir
    >>> weir.range(3).take()
    [{'id': 0}, {'id': 1}, {'id': 2}]
    >>> weir.range(10, override_num_blocks=5).materialize().num_blocks()
    5
    """
    if isinstance(n, float) and int(n) == n:
        n = int(n)  # 1e6
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise WrongArgument(f"range takes a number, not {n!r} of type {type(n).__name__}")
    _check_concurrency(concurrency)
    count = max(0, int(n))
    blocks = _num_blocks(parallelism, override_num_blocks)
    return Dataset(Range(count, _blocks_of_numbers(count, blocks)))


def _blocks_of_numbers(count: int, asked: int | None) -> int | None:
    """How many blocks: as many as asked for, or more of them where they were larger than 1.5 × target_max_block_size. None: what the
    engine takes."""
    context = DataContext.get_current()
    most = context.target_max_block_size if context.block_splitting_enabled else None
    rows_max = max(1, most // 8) if most else count
    if not count or (asked is None and (rows_max >= count or rows_max * 8 >= ITEMS_BYTES_MAX)):
        return None
    parts = min(asked or 1, count)
    rows = -(-count // parts)
    return parts if rows < 1.5 * rows_max else min(count, parts * -(-rows // rows_max))


def range_tensor(
    n: int,
    *,
    shape: tuple[int, ...] = (1,),
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """n tensors of one shape, in a column `data`; tensor number i is filled with i.

    >>> import weir
    >>> weir.range_tensor(2, shape=(2, 2)).take_batch()["data"].shape
    (2, 2, 2)
    """
    from weir import _call
    from weir._functions import Tensors

    if not isinstance(shape, (list, tuple)) or not all(hasattr(size, "__index__") for size in shape):
        raise WrongArgument(f"shape is a tuple of numbers, not {shape!r}")
    ds = range(n, parallelism=parallelism, concurrency=concurrency, override_num_blocks=override_num_blocks)
    # A number is a tensor that may be large: so many of them at once are made of a block that few bytes tell nothing about.
    at_once = max(1, TENSOR_BYTES // (8 * max(1, math.prod(shape))))
    rows = -(-int(n) // (_num_blocks(parallelism, override_num_blocks) or 1))
    spec = _call.CallSpec(kind="map_batches", fn=Tensors(tuple(shape)), name="ReadRangeTensor", context=ds.context,
                          batch_size=at_once if rows > at_once else None)
    _call.check(spec)
    return Dataset(Call(ds._op, spec))


def from_items(
    items: Sequence[Any], *, parallelism: int = -1, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Makes one row of each item: a dict becomes a row, anything else the value of a column `item`. Each item is a
    block, up to 200 blocks (read_op_min_num_blocks) or as many as `override_num_blocks` says. Items in different blocks
    may have different columns.

    >>> import weir
    >>> weir.from_items([{"a": 1}, {"a": 2}]).take()
    [{'a': 1}, {'a': 2}]
    >>> weir.from_items(["x", "y"]).take()
    [{'item': 'x'}, {'item': 'y'}]
    """
    from weir._weir import batch_from_rows

    if isinstance(items, (str, bytes, Mapping)) or not hasattr(items, "__len__") or not hasattr(items, "__iter__"):
        more = ": of a dict of columns, pandas.DataFrame(…) with from_pandas makes rows" if isinstance(items, Mapping) else ""
        raise TypeError(f"from_items takes a list of items, not {items!r} of type {type(items).__name__}{more}")
    rows = [item if isinstance(item, Mapping) else {"item": item} for item in items]
    asked = _num_blocks(parallelism, override_num_blocks)
    count = min(len(rows), asked or max(1, DataContext.get_current().read_op_min_num_blocks))
    try:
        batches = [batch_from_rows(part) for part in _even(rows, count)]
    except ValueError as error:
        from weir._errors import ArrowConversionError

        raise ArrowConversionError(str(error)) from error
    batches = _without_null_types(rows, batches)
    if DataContext.get_current().enable_fallback_to_arrow_object_ext_type is False:
        from weir import _formats

        batches = list(map(_formats.without_objects, batches))
    # Large blocks that nobody asked for need not reach a function as they are.
    fixed = asked is not None or all(batch.nbytes <= ITEMS_BYTES_MAX for batch in batches)
    return MaterializedDataset(Blocks("FromItems", batches, _session.current().id, fixed))


def _without_null_types(rows: list[Any], batches: list[Any]) -> list[Any]:
    """Gives a column that has only None in some blocks the type that it has in the others. Blocks whose columns differ
    otherwise stay as they are.
    """
    from weir import _blocks
    from weir._weir import batch_from_rows

    found = [_blocks.columns_of(batch) for batch in batches]
    if all(columns == found[0] for columns in found[1:]):
        return batches
    try:
        whole = batch_from_rows(rows)
    except (ValueError, TypeError, OverflowError):  # no type has them all
        return batches
    wanted = _blocks.columns_of(whole)
    for columns in found:
        if [column[0] for column in columns] != [column[0] for column in wanted]:
            return batches
        if any(column != best and "null" not in column[1] for column, best in zip(columns, wanted)):
            return batches
    ends = list(itertools.accumulate(batch.num_rows for batch in batches))
    return [whole.slice(end - batch.num_rows, end) for batch, end in zip(batches, ends)]


def _even(rows: list[Any], count: int) -> Iterator[list[Any]]:
    """Cuts a list into so many parts; those that have one item more come first."""
    size, more = divmod(len(rows), max(count, 1))
    at = 0
    for i in builtins.range(count):
        yield rows[at : (at := at + size + (i < more))]


def from_pandas(dfs: pandas.DataFrame | list[pandas.DataFrame], override_num_blocks: int | None = None) -> MaterializedDataset:
    """The rows of a DataFrame, or of several (`dfs`). Each frame is a block, or there are `override_num_blocks` in all.
    to_pandas() gives them back with their own dtypes and index.

    >>> import pandas as pd, weir
    >>> weir.from_pandas(pd.DataFrame({"a": [1, 2]})).take()
    [{'a': 1}, {'a': 2}]
    """
    from weir import _formats

    pd = _formats._need("pandas", "from_pandas")
    frames = [dfs] if isinstance(dfs, pd.DataFrame) else _listed("from_pandas", "a DataFrame or a list of these", dfs)
    for frame in frames:
        if not isinstance(frame, pd.DataFrame):
            raise WrongObject(f"from_pandas takes DataFrames, not {frame!r} of type {type(frame).__name__}")
    batches = [batch for frame in frames for batch in _formats.from_frame(frame)]
    is_kept = DataContext.get_current().enable_pandas_block
    made = _from_batches("FromPandas", batches, _num_blocks(-1, override_num_blocks), _formats.frame_rules(frames) if is_kept else "")
    made._frames = [_formats.as_it_is(frame) for frame in frames] if is_kept else []
    return made


def from_arrow(tables: Any, *, override_num_blocks: int | None = None) -> MaterializedDataset:
    """The rows of anything that has `__arrow_c_stream__` or `__arrow_c_array__` (pyarrow, Polars, DuckDB, nanoarrow),
    of an Arrow IPC stream as bytes, or of a list of these (`tables`). Each is a block, or there are
    `override_num_blocks` in all. Nothing is copied: memory that the program can still write to, such as that of a NumPy array
    under a pyarrow.Array, is not to be written to as long as the rows are needed.

    >>> import pyarrow as pa, weir
    >>> weir.from_arrow(pa.table({"a": [1, 2]})).take()
    [{'a': 1}, {'a': 2}]
    """
    listed = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    batches: list[Any] = []
    for table in listed:
        if isinstance(table, (bytes, bytearray, memoryview)):
            batches.extend(_from_ipc(bytes(table)))
        elif hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            from weir import _tensors
            from weir._weir import batch_from_arrow

            batches.extend(batch_from_arrow(_tensors.from_users(table), objects=_tensors.has_objects(table)))
        else:
            raise WrongInTask(f"from_arrow takes Arrow tables (anything with __arrow_c_stream__), not {type(table).__name__}")
    return _from_batches("FromArrow", batches, _num_blocks(-1, override_num_blocks))


def _listed(method: str, what: str, given: Any) -> list[Any]:
    """What a method takes several of. A dict is none: a loop over it would take its keys."""
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise WrongObject(f"{method} takes {what}, not {given!r:.200} of type {type(given).__name__}")
    return list(given)


def _from_ipc(data: bytes) -> list[Batch]:
    from weir._weir import Flow

    fd = os.memfd_create("weir-from-arrow")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        flow = Flow(_session.current().native)
        flow.step("read", [f"/proc/self/fd/{fd}"], [("format", "arrow"), ("no-hive", None)])
        return list(flow.start())
    finally:
        os.close(fd)


def from_numpy(ndarrays: numpy.ndarray[Any, Any] | list[numpy.ndarray[Any, Any]]) -> MaterializedDataset:
    """The elements of an array along its first dimension, in a column `data`. Of a list of arrays, each is a block.

    >>> import numpy as np, weir
    >>> weir.from_numpy(np.arange(2)).take()
    [{'data': 0}, {'data': 1}]
    """
    from weir._weir import batch_from_columns

    import numpy as np

    listed = [ndarrays] if isinstance(ndarrays, np.ndarray) else _listed("from_numpy", "an array or a list of these", ndarrays)
    arrays = [np.asarray(array) for array in listed]
    for array in arrays:
        if array.ndim == 0:
            raise WrongInTask(f"from_numpy takes arrays with at least one dimension, not {array!r}")
    return _from_batches("FromNumpy", [batch_from_columns({"data": array.copy()}) for array in arrays], None)


def from_blocks(blocks: list[Any]) -> MaterializedDataset:
    """A Dataset made of these blocks, which are pandas DataFrames or Arrow tables.

    >>> import pyarrow as pa, weir
    >>> weir.from_blocks([pa.table({"a": [1]}), pa.table({"a": [2]})]).num_blocks()
    2
    """
    from weir import _blocks, _formats

    made, frames = [], []
    for block in _listed("from_blocks", "a list of DataFrames and Arrow tables", blocks):
        if not isinstance(block, Mapping) and not hasattr(block, "__arrow_c_stream__") and not hasattr(block, "columns"):
            raise WrongArgument(f"from_blocks takes blocks, which are DataFrames and Arrow tables, not {block!r} of type {type(block).__name__}")
        is_frame = type(block).__name__ == "DataFrame" and type(block).__module__.startswith("pandas")
        frames += [block] if is_frame else []
        batches = [b for b in (_formats.from_frame(block) if is_frame else _formats.from_result(block, copy=True)) if b.num_rows]
        if batches:
            made.append(_blocks.joined(batches))
    return _from_batches("FromBlocks", made, None, _formats.frame_rules(frames) if frames and len(frames) == len(blocks) else "")


def _from_batches(name: str, batches: list[Any], num_blocks: int | None, rules: str = "") -> MaterializedDataset:
    from weir import _blocks

    if num_blocks is not None:
        total = sum(b.num_rows for b in batches)
        batches = _blocks.cut_blocks(batches, min(num_blocks, total)) if total else batches
        if batches and name != "FromItems":  # as many as were asked for, though there are not enough rows
            batches += [batches[-1].slice(0, 0)] * (num_blocks - len(batches))
    state = _session.current()
    is_list = name != "FromItems" and len(batches) > 1  # the user has cut them: what is made of each is a block of its own, too
    return MaterializedDataset(Blocks(name, batches, state.id, num_blocks is not None or is_list, rules))


def _num_blocks(parallelism: int, override_num_blocks: int | None) -> int | None:
    if override_num_blocks is not None:
        if parallelism != -1:
            raise ValueError("parallelism and override_num_blocks cannot both be given: override_num_blocks is the newer name")
        if isinstance(override_num_blocks, bool) or not hasattr(override_num_blocks, "__index__"):
            raise WrongArgument(f"override_num_blocks is a number, not {type(override_num_blocks).__name__}")
        if override_num_blocks == -1:  # as None, and as parallelism=-1
            return None
        if override_num_blocks < 1:
            raise ValueError(f"override_num_blocks must be at least 1, or -1, not {override_num_blocks}")
        if override_num_blocks >= MANY_BLOCKS:
            _warn_many(int(override_num_blocks))
        return int(override_num_blocks)
    if isinstance(parallelism, bool) or not hasattr(parallelism, "__index__"):
        raise WrongArgument(f"parallelism is a number, not {parallelism!r}")
    if parallelism == -1:
        return None
    _outdated.log("The argument `parallelism` is outdated since Ray 2.10: the same number is `override_num_blocks`")
    if parallelism < 1:
        raise ValueError(f"parallelism must be -1 or at least 1, not {parallelism}")
    return int(parallelism)


def _warn_many(blocks: int) -> None:
    """Warns of many more blocks than CPUs, which cost more than they help."""
    import logging

    cpus = _session.current().num_cpus
    if blocks >= 4 * cpus:
        logging.getLogger("weir").warning(
            "The requested number of read blocks of %d is more than 4x the number of available CPU slots in the cluster, %g: each costs some "
            "time of its own. Fewer are enough, and without override_num_blocks their number follows from the data.", blocks, cpus
        )


def _check_concurrency(concurrency: Any) -> None:
    if concurrency is None:
        return
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise WrongArgument(f"concurrency is a number, not {concurrency!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")


# ---- files ----


def _read(
    method: str,
    name: str,
    format: str,
    arguments: Mapping[str, Any],
    options: list[Option],
    *,
    default_extensions: list[str] | None,
    columns: list[str] | None = None,
) -> Dataset:
    """What all reads have in common. `arguments`: locals() of the function that was called."""
    get = arguments.get
    paths = _local(method, arguments)
    resources = {
        key: get(key)
        for key in (
            "num_cpus",
            "num_gpus",
            "memory",
            "label_selector",
            "fallback_strategy",
            "max_calls",
            "resources",
            "accelerator_type",
            "runtime_env",
        )
    }
    remote_args(method, resources, get("ray_remote_args"))
    _check_concurrency(get("concurrency"))
    options = options + _open_options(method, get("arrow_open_stream_args"))
    extensions = get("file_extensions")
    if extensions is not None and (not isinstance(extensions, (list, tuple)) or not all(isinstance(e, str) for e in extensions)):
        raise WrongArgument(f"file_extensions is a list of texts, not {extensions!r}")
    partitioning = get("partitioning")
    if partitioning is not None and not isinstance(partitioning, Partitioning):
        raise WrongInTask(f"partitioning is a weir.Partitioning or None, not {partitioning!r}")
    if partitioning is not None:
        PathPartitionParser(partitioning)  # says what it lacks
    for field, kind in (partitioning.field_types if partitioning is not None else {}).items():
        if kind not in (str, int, float, bool):
            raise ValueError(f"partitioning: the type of {field!r} is str, int, float or bool, not {kind!r}")
    partition_filter = get("partition_filter")
    if partition_filter is not None and not callable(partition_filter):
        raise WrongObject(f"partition_filter is a weir.PathPartitionFilter or a function of paths, not {partition_filter!r}")
    ignore_missing = bool(get("ignore_missing_paths", False))
    skipped = _skipped(get("skip_paths"), get("filesystem"))
    listing = Listing(
        paths=check_paths(paths, ignore_missing, skipped),
        extensions=tuple(extensions) if extensions is not None else None,
        all_by_extension=extensions is not None and list(extensions) != default_extensions,
        partition_filter=partition_filter,
        shuffle=_shuffle(get("shuffle")),
        ignore_missing=ignore_missing,
        skip=skipped,
    )
    check_some(listing)
    if columns is not None:
        if isinstance(columns, str) or not all(isinstance(c, str) for c in columns):
            raise ValueError(f"columns is a list of names, not {columns!r}")
    read = Read(
        name,
        format,
        listing,
        options,
        partitioning,
        tuple(columns) if columns else None,
        bool(get("include_paths", False)),
    )
    blocks = _num_blocks(get("parallelism", -1), get("override_num_blocks"))
    ds = Dataset(ReadBlocks(read, blocks) if blocks is not None else read)
    if get("include_paths", False) and not is_local(get("filesystem")):
        from weir.datasource.other_systems import shown_from
        from weir.expressions import col

        ds = ds.with_column("path", col("path").str.slice(shown_from(listing.paths[0])))
    if columns is not None and not columns:
        return ds.select_columns(["path"] if get("include_paths", False) else [])
    return ds


def _local(method: str, arguments: Mapping[str, Any]) -> Any:
    """The paths on this machine; for files of other file systems, those of their copies."""
    try:
        return local_paths(arguments.get("filesystem"), arguments["paths"], bool(arguments.get("ignore_missing_paths", False)))
    except WrongArgument as error:
        raise WrongArgument(f"{method}: {error}") from None


def _skipped(skip: Any, filesystem: Any = None) -> tuple[str, ...]:
    if not is_local(filesystem) and skip:
        skip = local_paths(filesystem, skip, True)
    return tuple(os.path.abspath(plain_path(path)) for path in ([skip] if isinstance(skip, (str, os.PathLike)) else skip or ()))


def _shuffle(shuffle: Any) -> FileShuffleConfig | None:
    if shuffle is None or isinstance(shuffle, FileShuffleConfig):
        return shuffle
    if shuffle == "files":
        return FileShuffleConfig()
    raise ValueError(f"shuffle is None, 'files' or a FileShuffleConfig, not {shuffle!r}")


def _open_options(method: str, arguments: Mapping[str, Any] | None) -> list[Option]:
    options: list[Option] = []
    for key, value in (arguments or {}).items():
        if key == "compression":
            if value is not None:
                options.append(("compression", {"gz": "gzip"}.get(str(value), str(value))))
        elif key != "buffer_size":  # how much is read at once is the engine's affair
            refuse(method, f"arrow_open_stream_args={{{key!r}: …}}", "compression and buffer_size are")
    return options


def read_parquet(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    catalog: Any = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    tensor_column_schema: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = _HIVE,
    shuffle: str | FileShuffleConfig | None = None,
    include_paths: bool = False,
    include_row_hash: bool = False,
    file_extensions: list[str] | None = ["parquet"],
    ignore_missing_paths: bool = False,
    skip_paths: str | list[str] | None = None,
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
    """Reads Parquet files: a path, a folder, a pattern, or a list of these.

    Args:
        catalog: a weir.catalog.Catalog, which knows where the table is that `paths` names.
        columns: read only these columns.
        filter: (one of arrow_parquet_args) an expression of weir or pyarrow, or a string, over any columns of the
            files. Row groups and pages in which no row can match are not read.
        partitioning: how folder names become columns. Their values are strings, unless field_types says otherwise.
            None: there are no such columns.
        include_paths: adds a column `path`.
        coerce_int96_timestamp_unit: (one of arrow_parquet_args) a unit such as "us", for old files whose timestamps lie
            outside the years 1677 to 2262.
        schema: (one of arrow_parquet_args) a pyarrow.Schema: the result has these columns, in this order, cast to these
            types, null where a file lacks one; the columns of folders follow.
        include_row_hash: adds a column `row_hash`, a 64-bit number made from the file's path and the row's position in
            it, the same each time. The files are then read by pyarrow, in workers.
        tensor_column_schema: columns of bytes that are tensors: {column: (element type, shape)}.
        shuffle: "files" reads the files in random order.

    >>> import tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.range(100).write_parquet(folder)
    >>> weir.read_parquet(folder, filter=weir.col("id") > 97).take()
    [{'id': 98}, {'id': 99}]
    """
    arguments = dict(locals())
    if catalog is not None:
        from weir.catalog import ReaderFormat, _resolved

        found = _resolved("read_parquet", catalog, paths, ReaderFormat.PARQUET)
        arguments["paths"] = found.path
        if found.filesystem is not None:
            arguments["filesystem"] = found.filesystem
    predicate = arrow_parquet_args.pop("filter", None)
    if predicate is not None:
        _outdated.warn("The argument `filter` of read_parquet is deprecated in Ray Data: `Dataset.filter(expr=…)` behind it prunes as much")
    if columns is not None:
        _outdated.warn("`columns=` on `read_parquet` is deprecated in Ray Data: `select_columns` behind it reads as little")
    block_udf = arrow_parquet_args.pop("_block_udf", None)
    schema = arrow_parquet_args.pop("schema", None)
    options = _parquet_options(arrow_parquet_args)
    for name in arrow_parquet_args:
        if name not in ("use_threads", "batch_size", "pre_buffer", "use_buffered_stream", "buffer_size", "batch_readahead",
                        "fragment_readahead", "memory_pool", "cache_metadata", "memory_map", "use_legacy_dataset", "thrift_string_size_limit",
                        "thrift_container_size_limit", "page_checksum_verification"):
            refuse("read_parquet", name, "the engine reads Parquet itself; columns, filter and schema are obeyed")
    selected = columns if schema is None and predicate is None else None  # a filter may ask for others, too
    if include_row_hash:
        ds = _read_in_workers({**arguments, "columns": selected})
    else:
        ds = _read("read_parquet", "ReadParquet", "parquet", arguments, options, default_extensions=["parquet"], columns=selected)
    if schema is not None:
        ds = _with_schema(ds, schema, partitioning, include_paths, include_row_hash)
    if predicate is not None:
        ds = ds.filter(expr=predicate)
    if columns is not None and (selected is None or include_row_hash):
        more = [name for name, there in (("path", include_paths), ("row_hash", include_row_hash)) if there and name not in columns]
        ds = ds.select_columns([*columns, *more])
    if tensor_column_schema:
        from weir._functions import TensorsOfBytes

        ds = ds.map_batches(TensorsOfBytes(dict(tensor_column_schema)).__call__, batch_format="pyarrow")
    return ds if block_udf is None else ds.map_batches(block_udf, batch_format="pyarrow")


def _parquet_options(given: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Takes the options of pyarrow's Parquet reader out of the arguments, and returns them as options of the engine."""
    more = given.pop("dataset_kwargs", None) or {}
    if more:
        _outdated.warn("`dataset_kwargs` of read_parquet is deprecated in Ray Data: give its arguments to read_parquet")
    for name, instead in (("partitioning", "partitioning= of read_parquet"), ("filters", ".filter(expr=…)"), ("filter", ".filter(expr=…)")):
        if name in more:
            raise ValueError(f"'{name}' isn't supported in 'dataset_kwargs': use {instead}")
    given.update(more)
    unit = given.pop("coerce_int96_timestamp_unit", None)
    if unit is None:
        return []
    if unit not in ("s", "ms", "us", "ns"):
        raise ValueError(f'read_parquet: coerce_int96_timestamp_unit is "s", "ms", "us" or "ns", not {unit!r}')
    return [("int96", unit)]


def _with_schema(ds: Dataset, schema: Any, partitioning: Partitioning | None, include_paths: bool, include_row_hash: bool) -> Dataset:
    """These columns with these types, then those of folders and paths, as pyarrow's datasets have them."""
    from weir.expressions import col, lit

    if not hasattr(schema, "names") or not hasattr(schema, "types"):
        raise WrongObject(f"read_parquet(schema=…) is a pyarrow.Schema, not {schema!r}")
    found = ds.schema()
    have = dict(zip(found.names, found.types)) if found is not None else {}
    files = ds.input_files()
    folders = PathPartitionParser(partitioning)(files[0]) if partitioning is not None and files else {}
    names = [*schema.names, *(n for n in folders if n not in schema.names)]
    if include_paths and "path" not in names:
        names.append("path")
    if include_row_hash and "row_hash" not in names:
        names.append("row_hash")
    casts: dict[str, Any] = {}
    for name, kind in zip(schema.names, schema.types):
        if name not in have:
            casts[name] = lit(None).cast(kind)
        elif have[name] != kind and not hasattr(kind, "extension_name"):
            casts[name] = col(name).cast(kind)
    return (ds.with_columns(casts) if casts else ds).select_columns(names)


def read_csv(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = _HIVE,
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
    **arrow_csv_args: Any,
) -> Dataset:
    """Reads CSV files. Types are inferred from the rows: integers, floats, booleans, dates and times, otherwise
    strings. Empty cells are null; in columns of strings they are empty strings.

    Args:
        paths: a file, a folder (all files below it whose names do not begin with "." or "_"), a pattern, or a list of
            these.
        partitioning: how folder names become columns. By default folders like "year=2024/" do, with strings as values
            unless field_types says otherwise. None: there are no such columns.
        partition_filter: a PathPartitionFilter, which chooses files by their folders.
        file_extensions: only files of a folder that end in one of these.
        include_paths: adds a column `path`.
        ignore_missing_paths: skips paths that do not exist; otherwise they raise a FileNotFoundError at once.
        shuffle: "files" or a FileShuffleConfig reads the files in random order.
        override_num_blocks: the number of blocks, as far as the files allow; `parallelism` is its older name.
        filesystem: one of pyarrow.fs or fsspec; remote files are copied first.
        arrow_open_stream_args: {"compression": …} for files whose names do not show it.
        arrow_csv_args: read_options, parse_options and convert_options of pyarrow.csv.
        num_cpus, num_gpus, memory, concurrency, resources, ray_remote_args and the rest: no effect, since reads run in
            the engine's threads.

    >>> import os, tempfile, weir
    >>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
    >>> _ = open(path, "w").write("name,age\\nAda,36\\n")
    >>> weir.read_csv(path).take()
    [{'name': 'Ada', 'age': 36}]
    """
    from weir import _read_args

    arguments = dict(locals())
    try:
        options, columns = _read_args.csv(arrow_csv_args)
    except _read_args.NotNative:
        return _read_in_workers(arguments)
    return _read("read_csv", "ReadCSV", "csv", arguments, options, default_extensions=None, columns=columns)


def _are_odd_lines(arguments: Mapping[str, Any]) -> bool:
    """Whether the first of the files has lines that are arrays, or objects whose values have no type in common."""
    from weir.datasource.arrow_files import JSONLinesDatasource

    first: Any = _local("read_json", arguments)
    if isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(first, (str, os.PathLike)) and JSONLinesDatasource.is_one(plain_path(first))


def _read_in_workers(arguments: Mapping[str, Any]) -> Dataset:
    """read_csv with options that only pyarrow has, read_text with encodings that only Python has, read_parquet with hashes of rows,
    read_json of lines of which the engine makes no columns: those read, in workers."""
    from weir._sources import read_datasource
    from weir.datasource.arrow_files import CSVDatasource, HashedParquetDatasource, JSONLinesDatasource, TextDatasource

    is_csv = "arrow_csv_args" in arguments
    is_parquet = "arrow_parquet_args" in arguments
    is_json = "arrow_json_args" in arguments
    paths = _local("read_parquet" if is_parquet else "read_csv" if is_csv else "read_json" if is_json else "read_text", arguments)
    files = ("partition_filter", "partitioning", "include_paths", "ignore_missing_paths", "shuffle", "file_extensions")
    options = {name: arguments[name] for name in files}
    options["open_stream_args"] = arguments.get("arrow_open_stream_args")
    source: Any
    if is_parquet:
        source = HashedParquetDatasource(paths, arguments["columns"], _skipped(arguments["skip_paths"], arguments["filesystem"]), **options)
    elif is_csv:
        source = CSVDatasource(paths, arguments["arrow_csv_args"], **options)
    elif is_json:
        source = JSONLinesDatasource(paths, **options)
    else:
        source = TextDatasource(
            paths, drop_empty_lines=arguments["drop_empty_lines"], encoding=arguments["encoding"], **options
        )
    work = (
        "parallelism num_cpus num_gpus memory concurrency override_num_blocks label_selector fallback_strategy max_calls resources "
        "accelerator_type runtime_env ray_remote_args"
    )
    return read_datasource(source, **{name: arguments[name] for name in work.split()})


def read_json(
    paths: str | list[str],
    *,
    lines: bool = False,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = _HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: str | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = _JSON_EXTENSIONS,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **arrow_json_args: Any,
) -> Dataset:
    """Reads JSON files: one object per line, or one array of objects.

    `lines=True` insists on lines. A line may then also be an array, whose columns are "0", "1" and so on. Values of one
    name that have no type in common (a string here, a list there) stay what they are if the first MiB of the first file
    has some; otherwise they are an error. Strings that look like dates become dates only in columns whose names say so
    (`date`, `datetime`, `modified`, `timestamp…`, `…_at`, `…_time`); without `lines=True`, in all columns.

    >>> import os, tempfile, weir
    >>> path = os.path.join(tempfile.mkdtemp(), "a.json")
    >>> _ = open(path, "w").write('{"a": 1}\\n{"a": 2}\\n')
    >>> weir.read_json(path).take()
    [{'a': 1}, {'a': 2}]
    """
    from weir import _read_args

    arguments = dict(locals())
    options, columns = _read_args.json(arrow_json_args)
    if lines:
        if not arrow_json_args and _are_odd_lines(arguments):
            return _read_in_workers(arguments)
        options = [o for o in options if o[0] != "layout"] + [("layout", "lines")]
        if not arrow_json_args:
            options.append(("dates", "named"))
    return _read(
        "read_json", "ReadJSON", "json", arguments, options, default_extensions=_JSON_EXTENSIONS, columns=columns
    )


def read_text(
    paths: str | list[str],
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
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
    """Reads lines of text, in a column `text`.

    Args:
        encoding: the encoding of the files.
        drop_empty_lines: False keeps empty lines.
        paths, partitioning (none by default here), include_paths and the rest: as for read_csv().

    >>> import os, tempfile, weir
    >>> path = os.path.join(tempfile.mkdtemp(), "a.txt")
    >>> _ = open(path, "w").write("one\\n\\ntwo\\n")
    >>> weir.read_text(path).take()
    [{'text': 'one'}, {'text': 'two'}]
    """
    from weir import _read_args

    arguments = dict(locals())
    try:
        options: list[Option] = [("encoding", _read_args.encoding("read_text", encoding))]
    except _read_args.NotNative:
        return _read_in_workers(arguments)
    if not drop_empty_lines:
        options.append(("keep-empty-lines", None))
    return _read("read_text", "ReadText", "text", arguments, options, default_extensions=None)


def read_binary_files(
    paths: str | list[str],
    *,
    include_paths: bool = False,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
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
    """Reads whole files: each is a row with a column `bytes`. `paths`, `partitioning` (none by default here),
    `include_paths` and the rest: as for read_csv().

    >>> import os, tempfile, weir
    >>> path = os.path.join(tempfile.mkdtemp(), "a.bin")
    >>> _ = open(path, "wb").write(b"abc")
    >>> weir.read_binary_files(path).take()
    [{'bytes': b'abc'}]
    """
    return _read("read_binary_files", "ReadBinary", "binary", locals(), [], default_extensions=None)


_IMAGE_EXTENSIONS = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif"]


def read_images(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_file_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: str | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = _IMAGE_EXTENSIONS,
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
    """Reads images, in a column `image`: arrays of height × width × channels. Pillow decodes them, in workers.

    Args:
        size: (height, width) to which all images are resized; by default they keep their own sizes.
        mode: a Pillow mode to which all images are converted, such as "RGB" or "L".
        include_paths: adds a column `path`.
        file_extensions: only files that end in one of these; by default png, jpg, jpeg, tif, tiff, bmp and gif.
        num_cpus, num_gpus, memory, concurrency: of the workers, as for map(). `paths` and the rest: as for read_csv().

    >>> import os, tempfile, weir
    >>> from PIL import Image
    >>> path = os.path.join(tempfile.mkdtemp(), "a.png")
    >>> Image.new("RGB", (4, 2)).save(path)
    >>> weir.read_images(path, size=(8, 8), mode="L").take_batch()["image"].shape
    (1, 8, 8)
    """
    from weir import _images

    _images.check(size, mode)
    if arrow_open_file_args:
        refuse("read_images", "arrow_open_file_args", "files are opened by the engine")
    arguments = {**locals(), "include_paths": True}
    ds = _read("read_images", "ReadImage", "binary", arguments, [], default_extensions=_IMAGE_EXTENSIONS)
    options = {name: arguments[name] for name in ("num_cpus", "num_gpus", "memory", "runtime_env") if arguments[name] is not None}
    ds = ds._call("map", _images.Decode(size, mode), None, concurrency, options, ray_remote_args or {}, name="ReadImage")
    return ds if include_paths else ds._then(Step(ds._op, "drop", ["path"]))
