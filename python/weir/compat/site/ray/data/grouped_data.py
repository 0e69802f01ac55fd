"""ray.data.grouped_data: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.grouped_data weir.block weir.ray_types weir.dataset weir.context weir.compute weir.expressions",
    "Block CallableClass CDS_API_GROUP ComputeStrategy DataBatch Dataset DownloadExpr Expr EXPRESSION_API_GROUP FA_API_GROUP "
    "GroupedData GroupedDataset ShuffleStrategy StarExpr UserDefinedFunction",
)
