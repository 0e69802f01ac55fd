"""Making Datasets of what the engine does not read by itself: user-defined sources, databases, arrays, other libraries' data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from weir._mistakes import WrongInTask, WrongObject
from weir._plan import ReadTasks
from weir._transform import remote_args
from weir.context import DataContext
from weir.dataset import Dataset, MaterializedDataset

if TYPE_CHECKING:
    from weir.datasource import Datasource, FileShuffleConfig, Partitioning, PathPartitionFilter

_RESOURCES = (
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


def read_datasource(
    datasource: Datasource,
    *,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    compute: Any = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **read_args: Any,
) -> Dataset:
    """Reads a source of one's own: its tasks run in worker processes.

    Args:
        datasource: what makes the tasks; see weir.datasource.Datasource.
        override_num_blocks: how many tasks it is asked for.
        concurrency: how many run at once, at most.
        read_args: for sources of the old kind, with create_reader or prepare_read.

    >>> import weir
    >>> from weir.datasource import RandomIntRowDatasource
    >>> weir.read_datasource(RandomIntRowDatasource(n=100, num_columns=1), override_num_blocks=4).count()
    100
    """
    arguments = dict(locals())
    return _read("read_datasource", datasource, arguments, read_args)


def _read(method: str, datasource: Any, arguments: Mapping[str, Any], read_args: dict[str, Any] | None = None) -> Dataset:
    from weir import _call, _tasks, read_api

    if not hasattr(datasource, "get_read_tasks") and not hasattr(datasource, "prepare_read"):
        raise WrongObject(f"{method} takes a Datasource, not {type(datasource).__name__}")
    get = arguments.get
    given = remote_args(method, {name: get(name) for name in _RESOURCES}, get("ray_remote_args"))
    wanted = read_api._num_blocks(get("parallelism", -1), get("override_num_blocks"))
    read_api._check_concurrency(get("concurrency"))
    context = DataContext.get_current()
    compute = get("compute")
    spec = _call.CallSpec(
        kind="read",
        fn=_tasks.read,
        batch_size=1,
        name=f"Read{datasource.get_name()}",
        context=context,
        concurrency=get("concurrency") if compute is None else None,
        compute=_pool(compute),
        **given,
    )
    spec.as_actor = hasattr(compute, "min_size")
    _call.check(spec)
    return Dataset(ReadTasks(datasource, read_args or {}, wanted, spec), context)


def _pool(compute: Any) -> Any:
    """Workers stay as long as the run: a pool of actors is a bound to their number."""
    if compute is None or not hasattr(compute, "min_size"):
        return compute
    from weir.compute import TaskPoolStrategy

    most = compute.max_size
    return TaskPoolStrategy(None if most is None or most == float("inf") else int(most))


def read_numpy(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: str | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = ["npy"],
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    allow_pickle: bool = False,
    **numpy_load_args: Any,
) -> Dataset:
    """Reads .npy files: the elements of each array along its first dimension, in a column `data`.

    >>> import os, tempfile, numpy as np, weir
    >>> path = os.path.join(tempfile.mkdtemp(), "a.npy")
    >>> np.save(path, np.arange(3))
    >>> weir.read_numpy(path).take_batch()
    {'data': array([0, 1, 2])}
    """
    from weir.datasource.arrays import NumpyDatasource

    arguments = dict(locals())
    source = NumpyDatasource(
        paths,
        numpy_load_args=numpy_load_args,
        allow_pickle=allow_pickle,
        filesystem=filesystem,
        open_stream_args=arrow_open_stream_args,
        partition_filter=partition_filter,
        partitioning=partitioning,
        ignore_missing_paths=ignore_missing_paths,
        shuffle=shuffle,
        include_paths=include_paths,
        file_extensions=file_extensions,
    )
    return _read("read_numpy", source, arguments)


def read_sql(
    sql: str,
    connection_factory: Callable[[], Any],
    *,
    sql_params: Any = None,
    shard_keys: list[str] | None = None,
    shard_hash_fn: str = "MD5",
    parallelism: int = -1,
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
    """Reads the rows of a query from a database with a Python DB-API connector. One task reads all of it, unless `shard_keys`
    names columns by whose hash (`shard_hash_fn`, a function of the database) it can be cut.

    >>> import os, sqlite3, tempfile, weir
    >>> path = os.path.join(tempfile.mkdtemp(), "a.db")
    >>> connection = sqlite3.connect(path)
    >>> _ = connection.execute("CREATE TABLE film (title, year)")
    >>> _ = connection.execute("INSERT INTO film VALUES ('Solaris', 1972)")
    >>> connection.commit()
    >>> weir.read_sql("SELECT * FROM film", lambda: sqlite3.connect(path)).take_all()
    [{'title': 'Solaris', 'year': 1972}]
    """
    from weir.datasource.sql import SQLDatasource

    arguments = dict(locals())
    source = SQLDatasource(sql, connection_factory, shard_hash_fn, shard_keys, sql_params)
    if override_num_blocks and override_num_blocks > 1:
        if shard_keys is None:
            raise ValueError("shard_keys must be provided when override_num_blocks > 1")
        if not source.supports_sharding(override_num_blocks):
            raise ValueError("Database does not support sharding. Please set override_num_blocks to 1.")
    return _read("read_sql", source, arguments)


def from_torch(dataset: Any, local_read: bool = False) -> Dataset:
    """The items of a torch dataset, in a column `item`.

    >>> import weir
    >>> weir.from_torch([1, 2]).take_all()
    [{'item': 1}, {'item': 2}]
    """
    from weir.datasource.arrays import TorchDatasource

    return _read("from_torch", TorchDatasource(dataset), {"override_num_blocks": 1, "num_cpus": 0 if local_read else None})


def from_huggingface(
    dataset: Any, parallelism: int = -1, concurrency: int | None = None, override_num_blocks: int | None = None
) -> MaterializedDataset | Dataset:
    """The rows of a Hugging Face dataset: a `datasets.Dataset` is in memory, an `IterableDataset` is streamed by one task.

    >>> import datasets, weir  # doctest: +SKIP
    >>> weir.from_huggingface(datasets.Dataset.from_dict({"a": [1, 2]})).take_all()  # doctest: +SKIP
    [{'a': 1}, {'a': 2}]
    """
    from weir import _formats, read_api

    datasets = _formats._need("datasets", "from_huggingface")
    if isinstance(dataset, datasets.IterableDataset):
        from weir.datasource.arrays import HuggingFaceDatasource

        arguments = {"parallelism": parallelism, "concurrency": concurrency, "override_num_blocks": override_num_blocks}
        return _read("from_huggingface", HuggingFaceDatasource(dataset), arguments)
    if isinstance(dataset, datasets.Dataset):
        blocks = read_api._num_blocks(parallelism, override_num_blocks)
        return read_api.from_arrow(dataset.with_format("arrow")[:], override_num_blocks=blocks)
    if isinstance(dataset, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        keys = list(dataset.keys())
        raise DeprecationWarning(
            "You provided a Hugging Face DatasetDict or IterableDatasetDict, which contains multiple datasets, but "
            "`from_huggingface` only accepts a single Hugging Face Dataset. Specify a split, for example "
            f"`from_huggingface(my_dataset_dictionary['{keys[0]}'])`. Available splits are {keys}."
        )
    raise TypeError(f"`dataset` must be a `datasets.Dataset`, but got {type(dataset)}")


def from_tf(dataset: Any) -> MaterializedDataset:
    """The elements of a tf.data.Dataset: their components are columns, or a column `item`.

    >>> import tensorflow as tf, weir  # doctest: +SKIP
    >>> weir.from_tf(tf.data.Dataset.range(2)).take_all()  # doctest: +SKIP
    [{'item': 0}, {'item': 1}]
    """
    from weir import _formats, read_api

    _formats._need("tensorflow", "from_tf")
    rows = list(dataset.as_numpy_iterator())
    return read_api.from_items(rows)


# ---- objects ----


def from_pandas_refs(dfs: Any) -> MaterializedDataset:
    """The rows of DataFrames that weir.put keeps: a block each.

    >>> import pandas as pd, weir
    >>> weir.from_pandas_refs([weir.put(pd.DataFrame({"a": [1]}))]).take_all()
    [{'a': 1}]
    """
    from weir import read_api

    return read_api.from_pandas(_objects("from_pandas_refs", dfs))


def from_arrow_refs(tables: Any) -> MaterializedDataset:
    """The rows of Arrow tables, or IPC streams, that weir.put keeps: a block each.

    >>> import pyarrow as pa, weir
    >>> weir.from_arrow_refs(weir.put(pa.table({"a": [1, 2]}))).count()
    2
    """
    from weir import read_api

    return read_api.from_arrow(_objects("from_arrow_refs", tables))


def from_numpy_refs(ndarrays: Any) -> MaterializedDataset:
    """The elements of arrays that weir.put keeps, in a column `data`: a block for each array.

    >>> import numpy as np, weir
    >>> weir.from_numpy_refs([weir.put(np.arange(2))]).take_all()
    [{'data': 0}, {'data': 1}]
    """
    from weir import read_api

    return read_api.from_numpy(_objects("from_numpy_refs", ndarrays))


def _objects(method: str, refs: Any) -> list[Any]:
    import weir
    from weir.core.objects import ObjectRef

    listed = [refs] if isinstance(refs, ObjectRef) else refs
    if not isinstance(listed, list):
        raise ValueError(f"{method}: expected an object ref or a list of object refs, got {type(refs)}")
    for ref in listed:
        if not isinstance(ref, ObjectRef):
            raise WrongInTask(f"{method}: expected a list of object refs, got a list containing {type(ref)}")
    found: list[Any] = weir.get(listed)
    return found
