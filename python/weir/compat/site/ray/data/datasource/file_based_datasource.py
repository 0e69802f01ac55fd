"""ray.data.datasource.file_based_datasource: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.datasource weir.block weir.ray_types weir.context",
    "Block DataContext FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD FileBasedDatasource FileMetadata "
    "FileShuffleConfig PATHS_PER_FILE_SIZE_FETCH_TASK",
)
