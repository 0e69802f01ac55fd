"""The names of ray.data.util.data_batch_conversion.

>>> BatchFormat("pandas").name
'PANDAS'
"""

from __future__ import annotations

import enum
from typing import Any

from weir.constants import TENSOR_COLUMN_NAME

__all__ = ["BatchFormat", "DataBatchType", "TENSOR_COLUMN_NAME"]

DataBatchType = Any  # a dict of arrays, a DataFrame, a Table


class BatchFormat(str, enum.Enum):
    """What a batch may be.

    >>> BatchFormat.NUMPY.value
    'numpy'
    """

    PANDAS = "pandas"
    ARROW = "arrow"
    NUMPY = "numpy"
    CUDF = "cudf"
