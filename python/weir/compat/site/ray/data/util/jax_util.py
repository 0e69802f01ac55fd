"""ray.data.util.jax_util: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.iterator weir.collate_fn weir.ray_types",
    "DTypeLikeSpec jax_sync_generator JaxBatch NumpyBatch PaddingsSpec Scalar",
)
