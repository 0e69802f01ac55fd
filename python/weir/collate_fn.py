"""Classes that make training batches of batches, for iter_torch_batches and iter_jax_batches.

Which of the three one inherits from says what one is given: a pyarrow.Table, a dict of NumPy arrays, or a DataFrame.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import numpy
    import pandas
    import pyarrow
    import torch

DataBatchType = TypeVar("DataBatchType")
TensorSequenceType = Union[list["torch.Tensor"], tuple["torch.Tensor", ...]]
TensorBatchType = Union[
    "torch.Tensor",
    TensorSequenceType,
    list[TensorSequenceType],
    tuple[TensorSequenceType, ...],
    Mapping[str, "torch.Tensor"],
    Mapping[str, TensorSequenceType],
]
TensorBatchReturnType = Union["torch.Tensor", tuple["torch.Tensor", ...], dict[str, "torch.Tensor"]]


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_tensor_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_is_tensor(item) for item in value)


def _is_nested_tensor_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_is_tensor_sequence(item) for item in value)


def _is_tensor_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_tensor(item) for item in value.values())


def _is_tensor_sequence_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_tensor_sequence(item) for item in value.values())


def is_tensor_batch_type(batch: Any) -> bool:
    """Whether it is a tensor, or a list, tuple or dict of tensors or of lists or tuples of them: such are pinned and moved.

    >>> import torch
    >>> is_tensor_batch_type({"a": torch.zeros(1), "b": torch.zeros(1)}), is_tensor_batch_type({"a": 1})
    (True, False)
    """
    return (
        _is_tensor(batch)
        or _is_tensor_sequence(batch)
        or _is_nested_tensor_sequence(batch)
        or _is_tensor_mapping(batch)
        or _is_tensor_sequence_mapping(batch)
    )


class CollateFn(Generic[DataBatchType]):
    """Makes a training batch of a batch. Inherit from one of the three below.

    >>> issubclass(NumpyBatchCollateFn, CollateFn)
    True
    """

    @abc.abstractmethod
    def __call__(self, batch: DataBatchType) -> Any:
        """The training batch."""
        raise NotImplementedError


class ArrowBatchCollateFn(CollateFn["pyarrow.Table"]):
    """Is given a pyarrow.Table.

    >>> import torch, weir
    >>> class Next(ArrowBatchCollateFn):
    ...     def __call__(self, batch):
    ...         return torch.as_tensor(batch["id"].to_numpy() + 1)
    >>> list(weir.range(3).iter_torch_batches(collate_fn=Next()))
    [tensor([1, 2, 3])]
    """

    def __call__(self, batch: pyarrow.Table) -> Any:
        """The training batch."""
        raise NotImplementedError


class NumpyBatchCollateFn(CollateFn["dict[str, numpy.ndarray[Any, Any]]"]):
    """Is given a dict of NumPy arrays.

    >>> import torch, weir
    >>> class Next(NumpyBatchCollateFn):
    ...     def __call__(self, batch):
    ...         return torch.as_tensor(batch["id"] + 1)
    >>> list(weir.range(3).iter_torch_batches(collate_fn=Next()))
    [tensor([1, 2, 3])]
    """

    def __call__(self, batch: dict[str, numpy.ndarray[Any, Any]]) -> Any:
        """The training batch."""
        raise NotImplementedError


class PandasBatchCollateFn(CollateFn["pandas.DataFrame"]):
    """Is given a pandas.DataFrame.

    >>> import torch, weir
    >>> class Next(PandasBatchCollateFn):
    ...     def __call__(self, batch):
    ...         return torch.as_tensor(batch["id"].to_numpy() + 1)
    >>> list(weir.range(3).iter_torch_batches(collate_fn=Next()))
    [tensor([1, 2, 3])]
    """

    def __call__(self, batch: pandas.DataFrame) -> Any:
        """The training batch."""
        raise NotImplementedError


class DefaultCollateFn(ArrowBatchCollateFn):
    """What is done without a collate_fn, as an object: each column becomes a tensor, or a list of them, one a chunk.

    Args:
        dtypes: one torch dtype for all columns, or a dict by column.
        combine_chunks: one tensor a column.
        num_workers: threads that convert columns; 0: none of their own.

    >>> import pyarrow, torch
    >>> DefaultCollateFn(combine_chunks=True)(pyarrow.table({"a": [1, 2]}))
    {'a': tensor([1, 2])}
    """

    _DEFAULT_NUM_WORKERS = int(os.environ.get("RAY_DATA_DEFAULT_COLLATE_FN_THREADPOOL_MAX_WORKERS", "4"))

    def __init__(
        self, dtypes: Any = None, combine_chunks: bool = False, num_workers: int = _DEFAULT_NUM_WORKERS
    ) -> None:
        super().__init__()
        self.dtypes = dtypes
        self.combine_chunks = combine_chunks
        self.num_workers = num_workers
        self._threadpool: ThreadPoolExecutor | None = None

    def __del__(self) -> None:
        pool = getattr(self, "_threadpool", None)
        if pool is not None:
            pool.shutdown(wait=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_threadpool": None}

    def __call__(self, batch: pyarrow.Table) -> Any:
        """The tensors."""
        from weir.torch_utils import arrow_batch_to_tensors

        if self.num_workers > 0 and self._threadpool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threadpool = ThreadPoolExecutor(max_workers=self.num_workers)
        return arrow_batch_to_tensors(
            batch, dtypes=self.dtypes, combine_chunks=self.combine_chunks, threadpool=self._threadpool
        )
