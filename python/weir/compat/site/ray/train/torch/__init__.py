"""ray.train.torch: get_device and get_devices; the rest says that weir has not got it."""

from weir.compat.outside import library

__getattr__, __dir__ = library(__name__, {"get_device": "weir.util:get_device", "get_devices": "weir.util:get_devices"})
