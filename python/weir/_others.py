"""Reading files that other packages decode, in workers, and the frames of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weir.datasource.other_files import AudioDatasource, AvroDatasource, ORCDatasource, VideoDatasource, need

if TYPE_CHECKING:
    from weir.dataset import Dataset, MaterializedDataset
    from weir.datasource import FileShuffleConfig, Partitioning, PathPartitionFilter


def _read(method: str, source: Any, arguments: Mapping[str, Any], **more: Any) -> Dataset:
    """What these reads have in common. `arguments`: locals() of the function that was called."""
    from weir import _sources, read_api

    names = ("partition_filter", "partitioning", "include_paths", "ignore_missing_paths", "shuffle", "file_extensions")
    options = {name: arguments[name] for name in names}
    made = source(read_api._local(method, arguments), open_stream_args=arguments.get("arrow_open_stream_args"), **options, **more)
    return _sources._read(method, made, arguments)


def read_orc(
    paths: str | list[str],
    *,
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
    file_extensions: list[str] | None = ["orc"],
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
    """Reads ORC files, a stripe at a time. pyarrow decodes them, in workers.

    >>> import tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.range(3).write_orc(folder)
    >>> weir.read_orc(folder).take()
    [{'id': 0}, {'id': 1}, {'id': 2}]
    """
    return _read("read_orc", ORCDatasource, locals())


def read_avro(
    paths: str | list[str],
    *,
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
    """Reads Avro files: a row a record. The package fastavro decodes them, in workers; without it, a ModuleNotFoundError says so.

    >>> import weir
    >>> ds = weir.read_avro("events/")  # doctest: +SKIP
    """
    return _read("read_avro", AvroDatasource, locals())


def read_audio(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = AudioDatasource._FILE_EXTENSIONS,
    shuffle: str | FileShuffleConfig | None = None,
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
    """Reads audio files, a row each: `amplitude`, an array of channels × samples (float32), and `sample_rate`. The package soundfile decodes
    them, in workers; without it, a ModuleNotFoundError says so.

    >>> import weir
    >>> ds = weir.read_audio("speech/")  # doctest: +SKIP
    """
    return _read("read_audio", AudioDatasource, locals())


def read_videos(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    include_timestamps: bool = False,
    fps: int | None = None,
    resize: tuple[int, int] | None = None,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = VideoDatasource._FILE_EXTENSIONS,
    shuffle: str | FileShuffleConfig | None = None,
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
    """Reads the frames of videos, a row each: `frame`, an array of height × width × channels, and `frame_index`. The package decord decodes
    them, in workers; without it, a ModuleNotFoundError says so.

    Args:
        include_timestamps: adds `frame_timestamp`, when the frame begins and ends.
        fps: about so many frames a second, by leaving others out.
        resize: (height, width) of the frames.

    >>> import weir
    >>> ds = weir.read_videos("clips/", fps=1)  # doctest: +SKIP
    """
    more = {"include_timestamps": include_timestamps, "fps": fps, "resize": resize}
    return _read("read_videos", VideoDatasource, locals(), **more)


# ---- frames of other libraries ----


def from_daft(df: Any) -> MaterializedDataset:
    """The rows of a Daft DataFrame, which Daft computes on this machine.

    >>> import daft, weir  # doctest: +SKIP
    >>> weir.from_daft(daft.from_pydict({"a": [1, 2]})).sum("a")  # doctest: +SKIP
    3
    """
    from weir import read_api

    need("daft", "from_daft")
    if not hasattr(df, "to_arrow"):
        raise TypeError(f"from_daft takes a daft.DataFrame, not {type(df).__name__}")
    return read_api.from_arrow(df.to_arrow())


def from_dask(df: Any) -> MaterializedDataset:
    """The rows of a Dask DataFrame: a block for each of its partitions, which Dask computes with the scheduler that it has.

    >>> import dask.dataframe, weir  # doctest: +SKIP
    >>> ds = weir.from_dask(dask.dataframe.read_csv("in/*.csv"))  # doctest: +SKIP
    """
    from weir import read_api

    dask = need("dask", "from_dask")
    if not hasattr(df, "to_delayed"):
        raise TypeError(f"from_dask takes a dask.dataframe.DataFrame, not {type(df).__name__}")
    return read_api.from_pandas(list(dask.compute(*df.to_delayed())))


def from_modin(df: Any) -> MaterializedDataset:
    """The rows of a Modin DataFrame.

    >>> import modin.pandas, weir  # doctest: +SKIP
    >>> ds = weir.from_modin(modin.pandas.DataFrame({"a": [1, 2]}))  # doctest: +SKIP
    """
    from weir import read_api

    need("modin.pandas", "from_modin")
    if not hasattr(df, "_to_pandas"):
        raise TypeError(f"from_modin takes a modin.pandas.DataFrame, not {type(df).__name__}")
    return read_api.from_pandas(df._to_pandas())


def to_daft(ds: Dataset) -> Any:
    """What Dataset.to_daft does."""
    daft = need("daft", "to_daft")
    pa = need("pyarrow", "to_daft")
    tables = list(ds.iter_batches(batch_format="pyarrow", batch_size=None))
    if not tables:
        schema = ds.schema()
        tables = [schema.base_schema.empty_table() if schema is not None else pa.table({})]
    return daft.from_arrow(pa.concat_tables(tables, promote_options="permissive"))


def to_dask(ds: Dataset, meta: Any, verify_meta: bool) -> Any:
    """What Dataset.to_dask does."""
    dask = need("dask", "to_dask")
    frames = need("dask.dataframe", "to_dask", "dask[dataframe]")
    made = [frame for frame in ds.iter_batches(batch_format="pandas", batch_size=None)]
    if meta is None:
        meta = made[0].iloc[:0] if made else ds.to_pandas()
    return frames.from_delayed([dask.delayed(frame) for frame in made] or [dask.delayed(ds.to_pandas())], meta=meta, verify_meta=verify_meta)


def to_modin(ds: Dataset) -> Any:
    """What Dataset.to_modin does."""
    return need("modin.pandas", "to_modin").DataFrame(ds.to_pandas())
