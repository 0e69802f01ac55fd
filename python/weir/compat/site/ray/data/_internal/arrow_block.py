"""Where Ray keeps what blocks can do."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.block weir.block_columns",
    "ArrowBlockAccessor ArrowBlockBuilder ArrowBlockColumnAccessor",
    _get_max_chunk_size="weir.compat.inside:max_chunk_size",
)
