"""ray.data.dataset: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.dataset weir.schema weir.block weir.iterator weir.datasource weir weir.ray_types",
    "ActorPoolStrategy Block BT_API_GROUP CD_API_GROUP CollatedData Connection DataBatch DataBatchColumn "
    "DataIterator Dataset E_API_GROUP EXPRESSION_API_GROUP GGA_API_GROUP IM_API_GROUP IOC_API_GROUP "
    "MaterializedDataset SaveMode Schema SinkMode SMJ_API_GROUP SSR_API_GROUP TaskPoolStrategy "
    "TensorflowFeatureTypeSpec TensorFlowTensorBatchType TorchBatchType TorchDeviceType UserDefinedFunction "
    "WebDatasetEncoderConfig",
)
