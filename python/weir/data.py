"""The same names under weir.data, as scripts written for Ray Data have them; modules too.

>>> import weir.data as rd
>>> rd.range(2).take()
[{'id': 0}, {'id': 1}]
>>> from weir.data.aggregate import Sum
>>> import weir.aggregate
>>> Sum is weir.aggregate.Sum
True
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import weir

__all__ = weir.__all__

__path__: list[str] = []  # so that it can have modules; they are found below


class _Alias(Loader, MetaPathFinder):
    """weir.data.x is weir.x itself: loaded a second time its classes would be others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("weir.data."):
            return None
        found = importlib.util.find_spec("weir." + name.removeprefix("weir.data."))
        return ModuleSpec(name, self) if found is not None else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module("weir." + spec.name.removeprefix("weir.data."))
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # importing it under this name has changed it


if not any(type(finder).__name__ == "_Alias" for finder in sys.meta_path):
    sys.meta_path.insert(0, _Alias())  # first: a package's own folder would be searched for its modules


def __getattr__(name: str) -> Any:
    return getattr(weir, name)


def __dir__() -> list[str]:
    return dir(weir)
