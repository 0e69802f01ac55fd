"""ray.data.random_access_dataset: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.random_access_dataset weir.block weir.context",
    "BlockAccessor DataContext RandomAccessDataset",
)
