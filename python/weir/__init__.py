"""weir: Ray Data's names, on one machine, within a memory limit.

>>> import weir
>>> weir.range(1000).filter(expr="id % 2 == 0").limit(3).take()
[{'id': 0}, {'id': 2}, {'id': 4}]

Importing this package imports nothing else: the parts below come when they are first used, and NumPy, pandas, pyarrow and
torch only where a program asks for what they offer.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would have to be imported

if TYPE_CHECKING:
    from typing import Any

    from weir import exceptions, expressions
    from weir._arrange import MixStoppingCondition, RandomSeedConfig
    from weir._session import available_resources, cluster_resources, init, is_initialized, shutdown
    from weir.compute import ActorPoolStrategy, ComputeStrategy, TaskPoolStrategy
    from weir.context import DataContext, DatasetContext, ExecutionOptions, ExecutionResources, configure_for, set_progress_bars
    from weir.core.api import cancel, get, kill, put, wait
    from weir.core.context import get_gpu_ids, get_runtime_context
    from weir.core.functions import remote
    from weir.core.handles import get_actor, method
    from weir.core.objects import ObjectRef, ObjectRefGenerator
    from weir.dataset import Dataset, MaterializedDataset, SaveMode
    from weir.dataset_pipeline import DatasetPipeline
    from weir._others import from_daft, from_dask, from_modin, read_audio, read_avro, read_orc, read_videos
    from weir._records import read_tfrecords
    from weir._samples import read_webdataset
    from weir._sources import (
        from_arrow_refs,
        from_huggingface,
        from_numpy_refs,
        from_pandas_refs,
        from_tf,
        from_torch,
        read_datasource,
        read_numpy,
        read_sql,
    )
    from weir.datasource import (
        BlockBasedFileDatasink,
        Datasink,
        Datasource,
        FileBasedDatasource,
        FilenameProvider,
        FileShuffleConfig,
        Partitioning,
        PathPartitionFilter,
        PathPartitionParser,
        ReadTask,
        RowBasedFileDatasink,
        WriteResult,
    )
    from weir.expressions import col, lit
    from weir.grouped_data import GroupedData
    from weir.iterator import DataIterator, DatasetIterator
    from weir.preprocessor import Preprocessor
    from weir.read_api import (
        from_arrow,
        from_blocks,
        from_items,
        from_numpy,
        from_pandas,
        range,
        range_tensor,
        read_binary_files,
        read_csv,
        read_images,
        read_json,
        read_parquet,
        read_text,
    )
    from weir.schema import Schema
    from weir.stats import list_stats_summaries



def _unfit() -> str:
    """Why it cannot run here; empty where it can."""
    import os
    import sys

    if sys.platform != "linux":
        return f"Linux; this is {sys.platform}"
    if sys.implementation.name != "cpython" or sys.version_info < (3, 11):
        return f"CPython 3.11 or later; this is {sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "an interpreter with the GIL; it is switched off here"
    machine = os.uname().machine
    if machine not in ("x86_64", "aarch64"):
        return f"x86-64 or aarch64; this is {machine}"
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except ValueError:
        libc = None
    return "" if libc else "glibc, which is not the C library here"


if _reason := _unfit():
    raise ImportError(f"weir needs {_reason}")
del _reason

# Attribute → the module that has it; "" for a module of that name.
_WHERE = {
    "ActorPoolStrategy": "compute",
    "BlockBasedFileDatasink": "datasource",
    "Catalog": "catalog",
    "CatalogAccessMode": "catalog",
    "ComputeStrategy": "compute",
    "DataContext": "context",
    "DataIterator": "iterator",
    "Dataset": "dataset",
    "DatasetContext": "context",
    "DatasetIterator": "iterator",
    "DatasetPipeline": "dataset_pipeline",
    "Datasink": "datasource",
    "Datasource": "datasource",
    "ExecutionOptions": "context",
    "ExecutionResources": "context",
    "FileBasedDatasource": "datasource",
    "FileShuffleConfig": "datasource",
    "FilenameProvider": "datasource",
    "GroupedData": "grouped_data",
    "MaterializedDataset": "dataset",
    "MixStoppingCondition": "_arrange",
    "ObjectRef": "core",
    "ObjectRefGenerator": "core",
    "Partitioning": "datasource",
    "PathPartitionFilter": "datasource",
    "PathPartitionParser": "datasource",
    "Preprocessor": "preprocessor",
    "RandomSeedConfig": "_arrange",
    "ReadTask": "datasource",
    "ReaderFormat": "catalog",
    "ResolvedSource": "catalog",
    "RowBasedFileDatasink": "datasource",
    "SaveMode": "dataset",
    "Schema": "schema",
    "TaskPoolStrategy": "compute",
    "WriteResult": "datasource",
    "available_resources": "_session",
    "cancel": "core",
    "cluster_resources": "_session",
    "col": "expressions",
    "configure_for": "context",
    "exceptions": "",
    "expressions": "",
    "from_arrow": "read_api",
    "from_arrow_refs": "_sources",
    "from_blocks": "read_api",
    "from_daft": "_others",
    "from_dask": "_others",
    "from_huggingface": "_sources",
    "from_items": "read_api",
    "from_mars": "_absent",
    "from_modin": "_others",
    "from_numpy": "read_api",
    "from_numpy_refs": "_sources",
    "from_pandas": "read_api",
    "from_pandas_refs": "_sources",
    "from_spark": "_absent",
    "from_tf": "_sources",
    "from_torch": "_sources",
    "get": "core",
    "get_actor": "core",
    "get_gpu_ids": "core",
    "get_runtime_context": "core",
    "init": "_session",
    "is_initialized": "_session",
    "kill": "core",
    "list_stats_summaries": "stats",
    "lit": "expressions",
    "method": "core",
    "put": "core",
    "range": "read_api",
    "range_tensor": "read_api",
    "read_audio": "_others",
    "read_avro": "_others",
    "read_bigquery": "_absent",
    "read_binary_files": "read_api",
    "read_clickhouse": "_absent",
    "read_csv": "read_api",
    "read_databricks_tables": "_absent",
    "read_datasource": "_sources",
    "read_delta": "_tables",
    "read_delta_sharing_tables": "_absent",
    "read_hudi": "_absent",
    "read_iceberg": "_tables",
    "read_images": "read_api",
    "read_json": "read_api",
    "read_kafka": "_absent",
    "read_lance": "_tables",
    "read_lerobot": "_absent",
    "read_mcap": "_tables",
    "read_mongo": "_absent",
    "read_numpy": "_sources",
    "read_orc": "_others",
    "read_parquet": "read_api",
    "read_snowflake": "_absent",
    "read_sql": "_sources",
    "read_text": "read_api",
    "read_tfrecords": "_records",
    "read_unity_catalog": "_absent",
    "read_videos": "_others",
    "read_webdataset": "_samples",
    "read_zarr": "_tables",
    "remote": "core",
    "set_progress_bars": "context",
    "shutdown": "_session",
    "wait": "core",
}

_MODULES = (
    "aggregate", "block", "catalog", "checkpoint", "compat", "compute", "constants", "context", "core", "data", "dataset",
    "dataset_pipeline", "datasink", "datasource", "datatype", "extensions", "iterator", "preprocessor", "preprocessors", "ray_api", "read_api",
    "runtime_env", "schema", "torch_inference", "torch_utils", "util",
)

__all__ = [
    "ActorPoolStrategy",
    "BlockBasedFileDatasink",
    "ComputeStrategy",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "DatasetPipeline",
    "Datasink",
    "Datasource",
    "ExecutionOptions",
    "ExecutionResources",
    "FileBasedDatasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "GroupedData",
    "MaterializedDataset",
    "MixStoppingCondition",
    "ObjectRef",
    "ObjectRefGenerator",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "Preprocessor",
    "RandomSeedConfig",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "WriteResult",
    "available_resources",
    "cancel",
    "cluster_resources",
    "col",
    "configure_for",
    "exceptions",
    "expressions",
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_daft",
    "from_dask",
    "from_huggingface",
    "from_items",
    "from_modin",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_tf",
    "from_torch",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "list_stats_summaries",
    "lit",
    "method",
    "put",
    "range",
    "range_tensor",
    "read_audio",
    "read_avro",
    "read_binary_files",
    "read_csv",
    "read_datasource",
    "read_images",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_sql",
    "read_text",
    "read_tfrecords",
    "read_videos",
    "read_webdataset",
    "remote",
    "set_progress_bars",
    "shutdown",
    "wait",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from weir._weir import __version__ as version

        value: Any = version
    elif name in _WHERE or name in _MODULES:
        from importlib import import_module

        where = _WHERE.get(name, "")
        module = import_module(f"weir.{where or name}")
        value = getattr(module, name) if where else module
    else:
        raise AttributeError(f"module 'weir' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_WHERE))
