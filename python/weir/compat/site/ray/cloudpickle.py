"""ray.cloudpickle: cloudpickle itself."""

from cloudpickle import *  # noqa: F403
from cloudpickle import Pickler, dump, dumps, load, loads, register_pickle_by_value, unregister_pickle_by_value  # noqa: F401
