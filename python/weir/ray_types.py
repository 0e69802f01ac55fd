"""Names for annotations, and constants, that Ray's modules have beside their classes. Scripts import them; nothing depends on them.

>>> KeyType.__name__
'KeyType'
"""

from __future__ import annotations

from typing import Any, TypeVar

AggType = TypeVar("AggType")
AccumulatorType = TypeVar("AccumulatorType")
AggOutputType = TypeVar("AggOutputType")
CollatedData = TypeVar("CollatedData")
DataBatchType = TypeVar("DataBatchType")
FileMetadata = TypeVar("FileMetadata")
KeyType = TypeVar("KeyType")
SupportsRichComparisonType = TypeVar("SupportsRichComparisonType")

ActorProxy = Any
BlockPartition = Any
BlockPartitionMetadata = Any
DTypeLikeSpec = Any
JaxBatch = Any
LabelMatchExpressionsT = Any
Meta = Any
NodeIdStr = str
NumpyBatch = Any
PaddingsSpec = Any
PartitionDataType = Any
PerPartitionOffsets = Any
Scalar = Any
SchedulingStrategyT = Any
TemporalUnit = str
TensorBatchReturnType = Any
TensorBatchType = Any
TensorColumnSchema = Any
TensorFlowTensorBatchType = Any
TensorSequenceType = Any
TensorflowFeatureTypeSpec = Any
TorchBatchType = Any
TorchDeviceType = Any
Uri = str
WebDatasetEncoderConfig = Any

CHECKPOINT_RECOVERY_MAX_ATTEMPTS = 3
CHECKPOINT_RECOVERY_MAX_BACKOFF_S = 8
DEFAULT_MAX_CONCURRENCY_ASYNC = 1000
FILE_SIZE_FETCH_PARALLELIZATION_THRESHOLD = 16
INT32_MAX = (1 << 31) - 1
NODE_ID_LABEL_KEY = "ray.io/node-id"
PATHS_PER_FILE_SIZE_FETCH_TASK = 16
PLACEMENT_GROUP_BUNDLE_RESOURCE_NAME = "bundle"
STREAMING_GENERATOR_RETURN = -2
WRITE_UUID_KWARG_NAME = "write_uuid"

BT_API_GROUP = "Basic Transformations"
CD_API_GROUP = "Consuming Data"
CDS_API_GROUP = "Computations or Descriptive Stats"
E_API_GROUP = "Execution"
EXPRESSION_API_GROUP = "Expressions"
FA_API_GROUP = "Function Application"
GGA_API_GROUP = "Grouped and Global Aggregations"
IM_API_GROUP = "Inspecting Metadata"
IOC_API_GROUP = "I/O and Conversion"
SMJ_API_GROUP = "Splitting, Merging, Joining Datasets"
SSR_API_GROUP = "Sorting, Shuffling and Repartitioning"
