"""ray.util.scheduling_strategies: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core weir.util weir.ray_types",
    "DoesNotExist Exists In LabelMatchExpressionsT NodeAffinitySchedulingStrategy NodeLabelSchedulingStrategy "
    "NotIn PlacementGroupSchedulingStrategy SchedulingStrategyT",
)
