"""ray.data.aggregate: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.aggregate weir.block weir.ray_types",
    "AbsMax AccumulatorType AggOutputType AggregateFn AggregateFnV2 ApproximateQuantile ApproximateTopK AsList "
    "Block BlockColumn Count CountDistinct Max Mean Min MissingValuePercentage Quantile Std Sum "
    "SupportsRichComparisonType Unique ValueCounter VectorizedAggregateFnV2 ZeroPercentage",
)
