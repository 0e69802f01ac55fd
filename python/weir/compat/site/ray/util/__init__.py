"""ray.util: weir's, under Ray's name."""

from weir.compat.lazy import names

# Loaded now, since importing it later would put the module in the place of the function of that name.
import ray.util.placement_group  # noqa: E402

del placement_group, ray

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core weir.util",
    "ActorPool as_completed connect deregister_serializer disable_log_once_globally disconnect "
    "enable_periodic_logging get_current_placement_group get_node_instance_id get_node_ip_address "
    "get_placement_group inspect_serializability iter list_named_actors log_once map_unordered pdb placement_group "
    "placement_group_table ray_debugpy register_serializer remove_placement_group",
)
__all__ += ["accelerators"]
