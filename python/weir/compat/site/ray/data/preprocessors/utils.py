"""ray.data.preprocessors.utils: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.preprocessors.utils",
    "AggregateStatSpec BaseStatSpec CallableStatSpec make_post_processor migrate_private_fields simple_hash "
    "simple_split_tokenizer StatComputationPlan",
)
