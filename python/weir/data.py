"""The same names under weir.data, as scripts written for Ray Data have them.

>>> import weir.data as rd
>>> rd.range(2).take()
[{'id': 0}, {'id': 1}]
"""

from __future__ import annotations

from typing import Any

import weir

__all__ = weir.__all__


def __getattr__(name: str) -> Any:
    return getattr(weir, name)


def __dir__() -> list[str]:
    return dir(weir)
