"""Where Ray keeps the classes of references: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__, "weir.core weir.ray_types", "ActorID JobID NodeID ObjectID ObjectRef ObjectRefGenerator DynamicObjectRefGenerator TaskID", only=True
)
