"""weir under Ray's name: what data scripts use of Ray. See weir.compat."""

from weir.compat import arrow_modules as _arrow_modules  # noqa: F401
from weir.compat.lazy import names
from weir.compat.logs import join_loggers

__version__ = "2.60.0"
__commit__ = "weir"

join_loggers()

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.ray_api weir.core",
    "ActorClassID ActorID ClientBuilder DynamicObjectRefGenerator FunctionID JobID Language LoggingConfig NodeID "
    "ObjectID ObjectRef ObjectRefGenerator PlacementGroupID SCRIPT_MODE TaskID UniqueID WORKER_MODE WorkerID "
    "LOCAL_MODE available_resources cancel client cluster_resources get get_actor get_gpu_ids "
    "get_runtime_context init is_initialized java_actor_class java_function kill method nodes "
    "put remote shutdown timeline wait",
    only=True,
)
__all__ += ["__version__", "actor", "data", "exceptions", "util"]
