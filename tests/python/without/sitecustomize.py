"""Packages that are not there: WEIR_WITHOUT names them, with commas. On PYTHONPATH, so that workers lack them too."""
import functools
import os
from importlib.machinery import PathFinder

_absent = frozenset(filter(None, os.environ.get("WEIR_WITHOUT", "").split(",")))


def _find_present(find, name, path=None, target=None):
    return None if name.partition(".")[0] in _absent else find(name, path, target)


if _absent:  # a partial, since pytest makes an attribute of its own class of it: a function would be bound there
    PathFinder.find_spec = functools.partial(_find_present, PathFinder.find_spec)
