"""Where rows come from and go to: files and their partitions, and the classes for sources and sinks of one's own.

>>> from weir.datasource import Datasource, ReadTask  # see docs/extending.md
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weir.datasource.listing import FileShuffleConfig, Listing, check_paths, list_files, plain_path
from weir.datasource.partitioning import Partitioning, PartitionStyle, PathPartitionFilter, PathPartitionParser

if TYPE_CHECKING:
    from weir.dataset import SaveMode
    from weir.datasource.datasink import Datasink, DummyOutputDatasink, WriteResult, WriteReturnType
    from weir.datasource.datasource import Datasource, RandomIntRowDatasource, Reader, ReadTask
    from weir.datasource.file_based_datasource import FileBasedDatasource
    from weir.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
    from weir.datasource.file_meta_provider import (
        BaseFileMetadataProvider,
        DefaultFileMetadataProvider,
        FastFileMetadataProvider,
        FileMetadataProvider,
    )
    from weir.datasource.filename_provider import FilenameProvider
    from weir.datasource.mcap import MCAPDatasource, TimeRange
    from weir.datasource.sql import Connection

# What is loaded when it is asked for: reading files with the engine needs none of it.
_WHERE = {
    "BaseFileMetadataProvider": "file_meta_provider",
    "BlockBasedFileDatasink": "file_datasink",
    "Connection": "sql",
    "Datasink": "datasink",
    "Datasource": "datasource",
    "DefaultFileMetadataProvider": "file_meta_provider",
    "DummyOutputDatasink": "datasink",
    "FastFileMetadataProvider": "file_meta_provider",
    "FileBasedDatasource": "file_based_datasource",
    "FileMetadataProvider": "file_meta_provider",
    "FilenameProvider": "filename_provider",
    "MCAPDatasource": "mcap",
    "RandomIntRowDatasource": "datasource",
    "ReadTask": "datasource",
    "Reader": "datasource",
    "RowBasedFileDatasink": "file_datasink",
    "SaveMode": "weir.dataset",
    "TimeRange": "mcap",
    "WriteResult": "datasink",
    "WriteReturnType": "datasink",
}

__all__ = [
    "BaseFileMetadataProvider",
    "BlockBasedFileDatasink",
    "Connection",
    "Datasink",
    "Datasource",
    "DefaultFileMetadataProvider",
    "DummyOutputDatasink",
    "FastFileMetadataProvider",
    "FileBasedDatasource",
    "FileMetadataProvider",
    "FileShuffleConfig",
    "FilenameProvider",
    "Listing",
    "MCAPDatasource",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "RandomIntRowDatasource",
    "ReadTask",
    "Reader",
    "RowBasedFileDatasink",
    "SaveMode",
    "TimeRange",
    "WriteResult",
    "WriteReturnType",
    "check_paths",
    "list_files",
    "plain_path",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name] if "." in _WHERE[name] else f"weir.datasource.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
