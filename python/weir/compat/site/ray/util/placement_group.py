"""ray.util.placement_group: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core weir.util weir.ray_types",
    "check_placement_group_index get_current_placement_group get_placement_group NODE_ID_LABEL_KEY placement_group "
    "PLACEMENT_GROUP_BUNDLE_RESOURCE_NAME placement_group_table PlacementGroup remove_placement_group "
    "validate_placement_group",
    VALID_PLACEMENT_GROUP_STRATEGIES="weir.core.placement:STRATEGIES",
)
