"""ray.data.datasource.file_datasink: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.datasink weir.datasource weir.block weir.ray_types",
    "Block BlockBasedFileDatasink RowBasedFileDatasink WRITE_UUID_KWARG_NAME",
)
