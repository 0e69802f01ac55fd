"""to_torch: a torch IterableDataset of features and labels.

In a worker of a DataLoader each gives a part of the rows: the worker is a process that was forked or spawned, and runs the plan
for its shard in a session of its own; a split of streaming_split, or rows that are in the parent's memory, come from there, and
the worker takes every n-th batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.iterator import DataIterator


def made(
    iterator: DataIterator,
    label_column: str | None,
    feature_columns: Any,
    label_dtype: Any,
    feature_dtypes: Any,
    loop: dict[str, Any],
    unsqueeze_label: bool,
    unsqueeze_features: bool,
) -> Any:
    """The IterableDataset."""
    from weir._formats import _need

    _need("torch", "to_torch")
    feature_columns = feature_columns or None
    _check(feature_columns, feature_dtypes)
    return _class()(
        iterator, label_column, feature_columns, label_dtype, feature_dtypes, loop, unsqueeze_label, unsqueeze_features
    )


def _check(columns: Any, dtypes: Any) -> None:
    import torch

    if not dtypes or isinstance(dtypes, torch.dtype):
        return
    if isinstance(columns, Mapping):
        if not isinstance(dtypes, Mapping):
            raise TypeError(
                "If `feature_columns` is a dict, `feature_column_dtypes` must be None, `torch.dtype`, or dict, got "
                f"{type(dtypes)}."
            )
        if set(columns) != set(dtypes):
            raise ValueError("`feature_columns` and `feature_column_dtypes` must have the same keys.")
        if any(not group for group in columns.values()):
            raise ValueError("column list may not be empty")
    elif columns and isinstance(columns[0], (list, tuple)):
        if not isinstance(dtypes, (list, tuple)):
            raise TypeError(
                "If `feature_columns` is a list of lists, `feature_column_dtypes` must be None, `torch.dtype`, or a "
                f"sequence, got {type(dtypes)}."
            )
        if len(columns) != len(dtypes):
            raise ValueError("`feature_columns` and `feature_column_dtypes` must have the same length.")
        if any(not group for group in columns):
            raise ValueError("column list may not be empty")
    else:
        raise TypeError(
            "If `feature_columns` is a list of strings, `feature_column_dtypes` must be None or a single `torch.dtype`, got "
            f"{type(dtypes)}."
        )


_made_class: Any = None


def _class() -> Any:
    """The class, which inherits from one of torch's, so that it is made when torch is there."""
    global _made_class
    if _made_class is None:
        from torch.utils.data import IterableDataset

        class TorchIterableDataset(IterableDataset):  # type: ignore[type-arg]
            """Pairs of features and label."""

            def __init__(self, *arguments: Any) -> None:
                self._arguments = arguments

            def __iter__(self) -> Iterator[Any]:
                return _pairs(*self._arguments)

            def __reduce__(self) -> Any:
                return _rebuilt, self._arguments

        TorchIterableDataset.__module__ = __name__
        TorchIterableDataset.__qualname__ = "TorchIterableDataset"
        _made_class = TorchIterableDataset
    return _made_class


def _rebuilt(*arguments: Any) -> Any:
    return _class()(*arguments)


def _pairs(
    iterator: DataIterator,
    label_column: str | None,
    feature_columns: Any,
    label_dtype: Any,
    feature_dtypes: Any,
    loop: dict[str, Any],
    unsqueeze_label: bool,
    unsqueeze_features: bool,
) -> Iterator[Any]:
    from weir.torch_utils import convert_table_to_torch_tensor

    for table in _tables(iterator, loop):
        label = None
        features = table
        if label_column:
            label = convert_table_to_torch_tensor(table, [label_column], label_dtype, unsqueeze_label)
            features = table.select([name for name in table.column_names if name != label_column])
        if not features.num_columns:
            raise IndexError(f"to_torch: no columns are left for the features: the rows have {', '.join(table.column_names)}"
                             + (f", and {label_column} is the label" if label_column else ""))
        if isinstance(feature_columns, Mapping):
            yield (
                {
                    key: convert_table_to_torch_tensor(
                        features,
                        columns,
                        feature_dtypes[key] if isinstance(feature_dtypes, Mapping) else feature_dtypes,
                        unsqueeze_features,
                    )
                    for key, columns in feature_columns.items()
                },
                label,
            )
        else:
            yield convert_table_to_torch_tensor(features, feature_columns, feature_dtypes, unsqueeze_features), label


def _tables(iterator: DataIterator, loop: dict[str, Any]) -> Iterator[Any]:
    """The batches; in a worker of a DataLoader, its part of them."""
    from torch.utils.data import get_worker_info

    from weir.iterator import DataIterator

    info = get_worker_info()
    if info is None or info.num_workers < 2:
        yield from iterator.iter_batches(batch_format="pyarrow", **loop)
    elif type(iterator) is DataIterator and iterator._dataset.has_serializable_lineage():
        from weir import _session

        _session.share_machine(info.num_workers)
        shard = iterator._dataset.shard(info.num_workers, info.id)
        yield from shard.iter_batches(batch_format="pyarrow", **loop)
    else:
        raise RuntimeError(
            "the rows of this Dataset are in one process, and several workers of a DataLoader cannot share them: write it to "
            "files, or use DataLoader(num_workers=0 or 1), or iter_torch_batches, which works ahead by itself"
        )
