"""ray.data.iterator: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.iterator weir.block weir.collate_fn weir.context",
    "ArrowBatchCollateFn CollateFn DataBatch DataContext DataIterator DatasetIterator DefaultCollateFn "
    "NumpyBatchCollateFn PandasBatchCollateFn",
)
