"""Where Ray keeps ExecutionOptions."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.context weir.datasource.datasink weir.ref_bundle weir",
    "BlockEntry BlockSlice ExecutionCallback ExecutionOptions ExecutionResources NodeIdStr RefBundle TaskContext",
)
