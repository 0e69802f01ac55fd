"""ray.data.dataset: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.dataset weir.schema weir.block weir.iterator weir.datasource weir weir.ray_types weir.aggregate weir.collate_fn weir.datatype weir.random_access_dataset weir.expressions",
    "ActorPoolStrategy AggregateFn AggregateFnV2 Block BT_API_GROUP CD_API_GROUP CollatedData CollateFn "
    "Connection DataBatch DataBatchColumn DataIterator Dataset DataType E_API_GROUP Expr EXPRESSION_API_GROUP "
    "GGA_API_GROUP IM_API_GROUP IOC_API_GROUP MaterializedDataset Max Mean Min RandomAccessDataset SaveMode "
    "Schema SinkMode SMJ_API_GROUP SSR_API_GROUP StarExpr Std Sum TaskPoolStrategy TensorflowFeatureTypeSpec "
    "TensorFlowTensorBatchType TorchBatchType TorchDeviceType Unique UnnestExpr UserDefinedFunction "
    "WebDatasetEncoderConfig",
)
