"""Where Ray kept the types of tensors, until they were ray.data.extensions."""

from weir.compat.outside import library

__getattr__, __dir__ = library(__name__)
