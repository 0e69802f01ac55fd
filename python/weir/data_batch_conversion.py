"""The names of ray.data.util.data_batch_conversion.

>>> BatchFormat("pandas").name
'PANDAS'
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

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


# ---- from one kind of batch to another; programs import these under the names that they have in Ray ----


def to_pandas(data: Any, cast_tensor_columns: bool = False) -> pandas.DataFrame:
    """A batch of any kind as a frame. `cast_tensor_columns`: arrays instead of tensors in it.

    >>> import numpy as np
    >>> to_pandas({"a": np.arange(2)}).to_dict("list")
    {'a': [0, 1]}
    """
    import numpy as np
    import pandas as pd

    if isinstance(data, np.ndarray):
        data = {TENSOR_COLUMN_NAME: data}
    if isinstance(data, dict):
        _check_arrays(data)
        data = pd.DataFrame({name: pd.Series(array) if array.ndim == 1 else pd.Series(list(array)) for name, array in data.items()})
    elif not isinstance(data, pd.DataFrame):
        if not hasattr(data, "to_pandas"):
            raise ValueError(f"Received data of type: {type(data)}, but expected a dict of arrays, an array, a DataFrame or a Table")
        data = data.to_pandas()
    return without_tensors(data) if cast_tensor_columns else data


def to_numpy(data: Any) -> Any:
    """A batch of any kind as arrays: of a frame with one column, and of a table with one column of tensors that has no name, its array."""
    import numpy as np
    import pandas as pd

    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, dict):
        _check_arrays(data)
        return data
    if isinstance(data, pd.DataFrame):
        return of_pandas(data, BatchFormat.NUMPY)
    if not hasattr(data, "column_names"):
        raise ValueError(f"Received data of type: {type(data)}, but expected a dict of arrays, an array, a DataFrame or a Table")
    from weir.block import BlockAccessor

    arrays = BlockAccessor.for_block(data).to_numpy(list(data.column_names))
    return arrays[TENSOR_COLUMN_NAME] if list(arrays) == [TENSOR_COLUMN_NAME] else arrays


def of_pandas(data: pandas.DataFrame, type: BatchFormat, cast_tensor_columns: bool = False) -> Any:
    """A frame as a batch of another kind. `cast_tensor_columns`: arrays in it become tensors before."""
    if cast_tensor_columns:
        data = with_tensors(data)
    if type == BatchFormat.PANDAS:
        return data
    if type == BatchFormat.NUMPY:
        arrays = {name: data[name].to_numpy() for name in data}
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays
    if type == BatchFormat.ARROW:
        import pyarrow as pa

        return pa.Table.from_pandas(data)
    raise ValueError(f"Received type {type}, but expected PANDAS, NUMPY or ARROW of {BatchFormat.__name__}")


def with_tensors(data: pandas.DataFrame) -> pandas.DataFrame:
    """With columns of arrays as tensors."""
    import numpy as np

    from weir.extensions import TensorArray

    made = data.copy(deep=False)
    for at, dtype in enumerate(data.dtypes):
        values = data.iloc[:, at]
        if dtype == object and len(values) and isinstance(values.iloc[0], np.ndarray):
            made.isetitem(at, TensorArray(values))
    return made


def without_tensors(data: pandas.DataFrame) -> pandas.DataFrame:
    """With columns of tensors as arrays."""
    import pandas as pd

    from weir.extensions import TensorDtype

    made = data.copy(deep=False)
    for at, dtype in enumerate(data.dtypes):
        if isinstance(dtype, TensorDtype):
            made.isetitem(at, pd.Series(list(data.iloc[:, at].to_numpy()), index=data.index, dtype=object))
    return made


def _check_arrays(data: dict[str, Any]) -> None:
    import numpy as np

    for name, value in data.items():
        if not isinstance(value, np.ndarray):
            raise ValueError(f"All values in the provided dict must be of type np.ndarray. Found type {type(value)} for key {name} instead.")
