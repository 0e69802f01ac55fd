"""ray.actor: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core weir.core.actors weir.ray_types",
    "ActorClass ActorClassInheritanceException ActorHandle ActorMethod ActorProxy DEFAULT_MAX_CONCURRENCY_ASYNC "
    "exit_actor method SchedulingStrategyT STREAMING_GENERATOR_RETURN",
)
