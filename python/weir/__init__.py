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
    from weir._session import available_resources, cluster_resources, init, is_initialized, shutdown
    from weir.compute import ActorPoolStrategy, ComputeStrategy, TaskPoolStrategy
    from weir.context import DataContext, DatasetContext, ExecutionOptions, ExecutionResources
    from weir.dataset import Dataset, MaterializedDataset, SaveMode
    from weir.dataset_pipeline import DatasetPipeline
    from weir.datasource import FileShuffleConfig, Partitioning, PathPartitionFilter
    from weir.expressions import col, lit
    from weir.iterator import DataIterator, DatasetIterator
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
        read_json,
        read_parquet,
        read_text,
    )
    from weir.schema import Schema

# Attribute → the module that has it; "" for a module of that name.
_WHERE = {
    "ActorPoolStrategy": "compute",
    "ComputeStrategy": "compute",
    "DataContext": "context",
    "DataIterator": "iterator",
    "Dataset": "dataset",
    "DatasetContext": "context",
    "DatasetIterator": "iterator",
    "DatasetPipeline": "dataset_pipeline",
    "ExecutionOptions": "context",
    "ExecutionResources": "context",
    "FileShuffleConfig": "datasource",
    "MaterializedDataset": "dataset",
    "Partitioning": "datasource",
    "PathPartitionFilter": "datasource",
    "SaveMode": "dataset",
    "Schema": "schema",
    "TaskPoolStrategy": "compute",
    "available_resources": "_session",
    "cluster_resources": "_session",
    "col": "expressions",
    "exceptions": "",
    "expressions": "",
    "from_arrow": "read_api",
    "from_blocks": "read_api",
    "from_items": "read_api",
    "from_numpy": "read_api",
    "from_pandas": "read_api",
    "init": "_session",
    "is_initialized": "_session",
    "lit": "expressions",
    "range": "read_api",
    "range_tensor": "read_api",
    "read_binary_files": "read_api",
    "read_csv": "read_api",
    "read_json": "read_api",
    "read_parquet": "read_api",
    "read_text": "read_api",
    "shutdown": "_session",
}

_MODULES = ("aggregate", "compute", "context", "data", "dataset", "dataset_pipeline", "datasource", "datatype", "iterator", "read_api", "schema")

__all__ = [
    "ActorPoolStrategy",
    "ComputeStrategy",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "DatasetPipeline",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "MaterializedDataset",
    "Partitioning",
    "PathPartitionFilter",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "available_resources",
    "cluster_resources",
    "col",
    "exceptions",
    "expressions",
    "from_arrow",
    "from_blocks",
    "from_items",
    "from_numpy",
    "from_pandas",
    "init",
    "is_initialized",
    "lit",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_json",
    "read_parquet",
    "read_text",
    "shutdown",
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
