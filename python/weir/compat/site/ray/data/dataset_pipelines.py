"""Another spelling of ray.data.dataset_pipeline."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.dataset_pipeline",
    "DatasetPipeline",
)
