"""ray.data.block: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.block weir.schema weir.ray_types weir.context weir.core.objects",
    "AggType BatchColumn BatchFormat Block BlockAccessor BlockColumn BlockColumnAccessor BlockExecStats "
    "BlockMetadata BlockMetadataWithSchema BlockPartition BlockPartitionMetadata BlockStats BlockType "
    "CallableClass CustomOpStats DataBatch DataBatchColumn DataContext DEFAULT_BATCH_FORMAT KeyType ObjectRef Schema "
    "TaskExecWorkerStats to_stats UserDefinedFunction",
)
