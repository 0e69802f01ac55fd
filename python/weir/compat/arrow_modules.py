"""Parts of pyarrow that are there once Ray Data is imported: scripts that say `import pyarrow as pa` write pa.compute, pa.fs or pa.parquet
without importing them, and it works since Ray Data has. weir needs none of them, so each is imported when it is first named.

Importing this module is all there is to do, before or after pyarrow's import; workers do it, too.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

PARTS = frozenset({"compute", "csv", "dataset", "fs", "ipc", "json", "parquet", "types"})


def complete(pyarrow: ModuleType) -> None:
    """Lets a module `pyarrow` import its parts when they are named.

    >>> import types
    >>> made = types.ModuleType("made")
    >>> complete(made)
    >>> made.other
    Traceback (most recent call last):
    ...
    AttributeError: module 'made' has no attribute 'other'
    """
    before = pyarrow.__dict__.get("__getattr__")

    def __getattr__(name: str) -> Any:
        if name in PARTS:
            return importlib.import_module(f"{pyarrow.__name__}.{name}")
        if before is not None:
            return before(name)
        raise AttributeError(f"module {pyarrow.__name__!r} has no attribute {name!r}")

    pyarrow.__dict__["__getattr__"] = __getattr__


class _Completing:
    """Finds pyarrow where the others do, once, and completes it when it has run."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name != "pyarrow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        if loader is None:
            return spec
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            complete(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "pyarrow" in sys.modules:
    complete(sys.modules["pyarrow"])
else:
    sys.meta_path.insert(0, _Completing())
