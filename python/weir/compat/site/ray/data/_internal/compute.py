"""Where Ray keeps ActorPoolStrategy and TaskPoolStrategy; scripts import them from here."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.compute",
    "ActorPoolStrategy ComputeStrategy get_compute is_callable_class TaskPoolStrategy",
)
