"""ray.data.datasource: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.datasource weir.datasink weir.dataset weir.block",
    "_S3FileSystemWrapper BaseFileMetadataProvider BlockBasedFileDatasink Connection Datasink Datasource "
    "DefaultFileMetadataProvider DeltaSharingDatasource DummyOutputDatasink FileBasedDatasource "
    "FileMetadataProvider FilenameProvider FileShuffleConfig LeRobotDatasource MCAPDatasource Partitioning "
    "PartitionStyle PathPartitionFilter PathPartitionParser RandomIntRowDatasource Reader ReadTask "
    "RowBasedFileDatasink SaveMode TimeRange TurbopufferDatasink WriteResult WriteReturnType",
)
