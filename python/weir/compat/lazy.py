"""How the modules of site/ray are made: names that are looked up in weir when they are first used.

    ray/data/context.py:   __getattr__, __dir__, __all__ = names(__name__, "weir.context", "DataContext ExecutionOptions …")

A name of Ray's that weir has not got is there all the same, so that a script which only imports it runs; using it raises.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder

TYPE_CHECKING = False  # typing's own would have to be imported

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Lookup = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


INSIDE = ("ray.data._internal.", "ray._private.", "ray._common.", "ray._raylet")  # nobody lists the names of Ray's own: each of them is there


class NotInWeir(NotImplementedError, AttributeError):
    """A part of Ray that weir does not have was used."""


class _AbsentMeta(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotInWeir(cls.__doc__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise NotInWeir(cls.__doc__)

    def __getitem__(cls, parameters: object) -> _AbsentMeta:
        """Annotations may say Name[int]: they use nothing of it."""
        return cls

    def __repr__(cls) -> str:
        return f"<{cls.__name__}, which weir does not have>"


class Absent(metaclass=_AbsentMeta):
    """What stands for a name of Ray's that weir does not have. Calling it, looking into it or making a class of it raises."""

    def __init_subclass__(cls, is_absent: bool = False, **kwargs: Any) -> None:
        if not is_absent:
            raise NotInWeir(cls.__mro__[1].__doc__)


def is_absent(value: object) -> bool:
    """Whether a thing got from `ray` is one that weir does not have.

    >>> import weir.compat
    >>> weir.compat.install()
    >>> import ray
    >>> is_absent(ray.data.range)
    False
    """
    return isinstance(value, _AbsentMeta)


def absent(path: str, reason: str = "") -> type:
    """What stands for `path`."""
    text = reason or f"{path} is a part of Ray that weir does not have; docs/parity.md says what it has"
    return _AbsentMeta(path.rpartition(".")[2], (Absent,), {"__doc__": text, "__module__": path.rpartition(".")[0]}, is_absent=True)


def names(module: str, sources: str, public: str = "", only: bool = False, reason: str = "", **others: str) -> Lookup:
    """__getattr__, __dir__ and __all__ of a module.

    Args:
        sources: weir's modules that have the names; the first that has one is taken.
        public: Ray's names in this module.
        only: nothing but those; else what is public in the sources is there, too.
        reason: what is said of names that weir has not got.
        others: names that are called otherwise in weir: ray's name = "module:name".
    """
    known = public.split()
    listed = [*known, *others]

    def look(name: str) -> Any:
        value = _find(name)
        sys.modules[module].__dict__[name] = value
        return value

    def _find(name: str) -> Any:
        if name in others:
            where, _, own = others[name].partition(":")
            found = _of_source(where, own)
            return absent(f"{module}.{name}", reason) if found is _NOTHING else found
        if name in known:
            for source in sources.split():
                found = _of_source(source, name)
                if found is not _NOTHING:
                    return found
            return absent(f"{module}.{name}", reason)
        folders = sys.modules[module].__dict__.get("__path__")
        # A file, and not the finder of outside.py: for that, each name of Ray's own is a module.
        if not name.startswith("__") and folders is not None and PathFinder.find_spec(f"{module}.{name}", folders) is not None:
            return import_module(f"{module}.{name}")
        if not only and not name.startswith("_"):
            for source in sources.split():
                found = _of_source(source, name)
                if found is not _NOTHING and _is_public(source, name, found):
                    return found
        if module.startswith(INSIDE) and not name.startswith("__"):
            return absent(f"{module}.{name}", reason)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def listing() -> list[str]:
        return sorted(set(sys.modules[module].__dict__) | set(listed))

    return look, listing, sorted(name for name in listed if not name.startswith("_"))


_NOTHING = object()


def _is_public(source: str, name: str, value: Any) -> bool:
    """Whether a module of weir has the name as its own, and not for its own use."""
    listed = getattr(sys.modules[source], "__all__", None)
    if listed is not None:
        return name in listed
    return name.isupper() or str(getattr(value, "__module__", "")).startswith("weir.")


def _of_source(source: str, name: str) -> Any:
    found = _import(source)
    return _NOTHING if found is None else getattr(found, name, _NOTHING)


def _import(name: str) -> ModuleType | None:
    """The module, or None where there is none: errors inside it are not hidden."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            return None
        raise
