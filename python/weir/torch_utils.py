"""Batches as torch tensors, and tensors on devices: the functions of ray.data.util.torch_utils.

>>> import numpy as np
>>> convert_ndarray_batch_to_torch_tensor_batch({"x": np.arange(2)})["x"].tolist()
[0, 1]
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import numpy as np
    import pyarrow
    import torch

DEFAULT_TENSOR_NON_BLOCKING_TRANSFER = os.environ.get("RAY_AIR_DEFAULT_TENSOR_NON_BLOCKING_TRANSFER", "1").lower() not in ("0", "false")

TensorBatchType = Any
TensorBatchReturnType = Any


def convert_ndarray_to_torch_tensor(
    ndarray: np.ndarray[Any, Any], dtype: torch.dtype | None = None, device: Any = None, pin_memory: bool = False
) -> torch.Tensor:
    """A tensor over the array's memory where that can be.

    >>> import numpy as np
    >>> convert_ndarray_to_torch_tensor(np.ones((2, 3))).shape
    torch.Size([2, 3])
    """
    import numpy
    import torch

    if ndarray.dtype == object:
        ndarray = _stacked(ndarray)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays over shared memory cannot be written to, and torch has no such tensors
        made = torch.as_tensor(numpy.asarray(ndarray), dtype=dtype, device=device)
    if pin_memory:
        if made.device.type != "cpu":
            raise AssertionError(f"Pin memory is only supported for CPU tensors. Got device: {made.device} and pin_memory: {pin_memory}.")
        made = made.pin_memory()
    return made


def _stacked(ndarray: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of equal arrays as one."""
    import numpy

    try:
        made = numpy.stack([numpy.asarray(item) for item in ndarray])
    except ValueError:
        made = ndarray
    if made.dtype == object:
        raise RuntimeError(
            "Numpy array of object dtype cannot be converted to a Torch Tensor: its items are no numbers, or have different shapes (a ragged "
            "tensor). iter_torch_batches takes a collate_fn that says how to make tensors of them"
        )
    return made


def _dtype_of(dtypes: Any, column: str) -> Any:
    return dtypes[column] if isinstance(dtypes, dict) else dtypes


def convert_ndarray_batch_to_torch_tensor_batch(ndarrays: Any, dtypes: Any = None, device: Any = None, pin_memory: bool = False) -> Any:
    """A dict of arrays as one of tensors, or an array as a tensor.

    >>> import numpy as np
    >>> sorted(convert_ndarray_batch_to_torch_tensor_batch({"a": np.ones(1), "b": np.ones(2)}))
    ['a', 'b']
    """
    if isinstance(ndarrays, Mapping):
        return {name: convert_ndarray_to_torch_tensor(array, _dtype_of(dtypes, name), device, pin_memory) for name, array in ndarrays.items()}
    if isinstance(dtypes, dict):
        if len(dtypes) != 1:
            raise ValueError(f"When constructing a single-tensor batch, only a single dtype should be given, instead got: {dtypes}")
        dtypes = next(iter(dtypes.values()))
    return convert_ndarray_to_torch_tensor(ndarrays, dtypes, device, pin_memory)


def convert_ndarray_list_to_torch_tensor_list(
    ndarrays: Mapping[str, Sequence[Any]], dtypes: Any = None, device: Any = None, pin_memory: bool = False
) -> dict[str, list[torch.Tensor]]:
    """A dict of lists of arrays as one of lists of tensors.

    >>> import numpy as np
    >>> len(convert_ndarray_list_to_torch_tensor_list({"a": [np.ones(1), np.ones(2)]})["a"])
    2
    """
    return {
        name: [convert_ndarray_to_torch_tensor(array, _dtype_of(dtypes, name), device, pin_memory) for array in arrays]
        for name, arrays in ndarrays.items()
    }


def arrow_batch_to_tensors(
    batch: pyarrow.Table, dtypes: Any = None, combine_chunks: bool = False, pin_memory: bool = False, threadpool: Executor | None = None
) -> dict[str, Any]:
    """The columns of a table as tensors; without combine_chunks each is a list with a tensor for each chunk.

    >>> import pyarrow
    >>> arrow_batch_to_tensors(pyarrow.table({"a": [1, 2]}), combine_chunks=True)["a"].tolist()
    [1, 2]
    """

    def of_chunks(name: str) -> list[torch.Tensor]:
        pieces = [batch.select([name])] if combine_chunks else _chunks(batch, name)
        return [convert_ndarray_to_torch_tensor(_numpy(piece)[name], _dtype_of(dtypes, name), None, pin_memory) for piece in pieces]

    run = map if threadpool is None else threadpool.map
    made = dict(zip(batch.column_names, run(of_chunks, batch.column_names)))
    return {name: tensors[0] for name, tensors in made.items()} if combine_chunks else made


def _chunks(table: pyarrow.Table, name: str) -> list[pyarrow.Table]:
    import pyarrow

    return [pyarrow.table({name: chunk}) for chunk in table[name].chunks]


def _numpy(table: pyarrow.Table) -> dict[str, Any]:
    from weir import _blocks, _formats
    from weir._weir import batch_from_arrow

    return _formats.to_format(_blocks.joined(batch_from_arrow(table)), "numpy", True, True)  # type: ignore[no-any-return]


def convert_table_to_torch_tensor(
    data_batch: pyarrow.Table, columns: Any = None, column_dtypes: Any = None, unsqueeze: bool = True
) -> torch.Tensor | list[torch.Tensor]:
    """Columns of a table side by side in one tensor, or, for a list of lists, in one for each list.

    >>> import pyarrow
    >>> convert_table_to_torch_tensor(pyarrow.table({"a": [1, 2], "b": [3, 4]})).tolist()
    [[1, 3], [2, 4]]
    """
    import torch

    if columns is None:
        columns = data_batch.column_names
    if columns and isinstance(columns[0], (list, tuple)):
        dtypes = column_dtypes if isinstance(column_dtypes, (list, tuple)) else [column_dtypes] * len(columns)
        return [_side_by_side(data_batch, group, dtype, unsqueeze) for group, dtype in zip(columns, dtypes)]
    if column_dtypes is not None and not isinstance(column_dtypes, torch.dtype):
        raise TypeError(
            f"If `columns` is a list of strings, `column_dtypes` must be None or a single `torch.dtype`. Got {type(column_dtypes)} instead."
        )
    return _side_by_side(data_batch, columns, column_dtypes, unsqueeze)


def _side_by_side(table: pyarrow.Table, columns: Sequence[str], dtype: Any, unsqueeze: bool) -> torch.Tensor:
    import torch

    tensors = []
    arrays = _numpy(table.select(list(columns)))
    for name in columns:
        try:
            tensor = convert_ndarray_to_torch_tensor(arrays[name], dtype)
        except Exception as error:
            raise ValueError(f"Failed to convert column {name} to a Torch Tensor of dtype {dtype}. See above exception chain.") from error
        tensors.append(tensor.unsqueeze(1) if unsqueeze else tensor)
    return torch.cat(tensors, dim=1) if len(tensors) > 1 else tensors[0]


def pin_tensors_to_memory(batch: Any) -> Any:
    """The same structure with the CPU's tensors in pinned memory.

    >>> pin_tensors_to_memory({"a": 3})
    {'a': 3}
    """
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.pin_memory() if batch.device.type == "cpu" and not batch.is_pinned() else batch
    if isinstance(batch, Mapping):
        return {name: pin_tensors_to_memory(value) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(pin_tensors_to_memory(value) for value in batch)
    return batch


def concat_tensors_to_device(
    tensor_sequence: Sequence[torch.Tensor], device: Any = None, non_blocking: bool = DEFAULT_TENSOR_NON_BLOCKING_TRANSFER
) -> torch.Tensor:
    """One tensor of several, behind each other, on the device.

    >>> import torch
    >>> concat_tensors_to_device([torch.ones(1), torch.zeros(2)]).tolist()
    [1.0, 0.0, 0.0]
    """
    import torch

    assert tensor_sequence, f"Cannot stack empty sequence of tensors. Received: {tensor_sequence}"
    wrong = [type(tensor) for tensor in tensor_sequence if not isinstance(tensor, torch.Tensor)]
    assert not wrong, f"All items must be torch.Tensor. Found invalid types: {wrong}"
    first = tensor_sequence[0]
    assert all(tensor.dtype == first.dtype for tensor in tensor_sequence), (
        f"All tensors must have the same dtype. Expected: {first.dtype}, got: {[tensor.dtype for tensor in tensor_sequence]}"
    )
    assert all(tensor.shape[1:] == first.shape[1:] for tensor in tensor_sequence), (
        f"All tensors must have the same shape[1:]. Expected: {first.shape[1:]}, got: {[tensor.shape[1:] for tensor in tensor_sequence]}"
    )
    with torch.no_grad():
        made = torch.cat(list(tensor_sequence)) if len(tensor_sequence) > 1 else first
        return made if device is None else made.to(device, non_blocking=non_blocking)


def move_tensors_to_device(
    batch: Any, device: Any = None, non_blocking: bool = DEFAULT_TENSOR_NON_BLOCKING_TRANSFER, concat: bool = True
) -> Any:
    """The same structure on the device. With `concat`, lists of tensors inside a list or dict are chunks of one tensor.

    >>> import torch
    >>> move_tensors_to_device({"a": [torch.ones(1), torch.ones(2)]})["a"].shape
    torch.Size([3])
    """
    return _moved(batch, device, non_blocking, concat, False)


def _moved(batch: Any, device: Any, non_blocking: bool, concat: bool, inner: bool) -> Any:
    import torch

    if isinstance(batch, torch.Tensor):
        return batch if device is None else batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        return {name: _moved(value, device, non_blocking, concat, True) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        if inner and concat and batch and all(isinstance(value, torch.Tensor) for value in batch):
            return concat_tensors_to_device(batch, device, non_blocking)
        return type(batch)(_moved(value, device, non_blocking, concat, True) for value in batch)
    raise ValueError(f"Invalid input type: {type(batch).__name__}. It must be a tensor, or a list or dict of tensors")


def convert_tensors_to_numpy(batch: Any) -> Any:
    """The same structure with arrays in place of tensors.

    >>> import torch
    >>> convert_tensors_to_numpy({"a": torch.arange(2)})
    {'a': array([0, 1])}
    """
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.detach().cpu().numpy()
    if isinstance(batch, Mapping):
        return {name: convert_tensors_to_numpy(value) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(convert_tensors_to_numpy(value) for value in batch)
    raise TypeError(f"a tensor, or a list or dict of tensors, can be made into arrays, not {type(batch).__name__}")
