"""Sinks of one's own, under the name by which they are looked for: see weir.datasource.datasink.

>>> from weir.datasink import Datasink, WriteResult
"""

from __future__ import annotations

from weir.datasource.datasink import Datasink, DummyOutputDatasink, TaskContext, WriteResult, WriteReturnType
from weir.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink

__all__ = [
    "BlockBasedFileDatasink",
    "Datasink",
    "DummyOutputDatasink",
    "RowBasedFileDatasink",
    "TaskContext",
    "WriteResult",
    "WriteReturnType",
]
