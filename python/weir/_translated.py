"""What ends a run, as the error that the program gets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from weir._plan import Op

if TYPE_CHECKING:
    from weir._run import Run
    from weir.context import DataContext


class Differs(Exception):
    """A batch has other columns than those before it, which are in an exchange already (_handover.py)."""


class translated:
    """Around what waits for a run, or asks a plan that ends in `op`: weir._errors.translated, which is imported when there is an error."""

    __slots__ = ("context", "run", "op")

    def __init__(self, context: DataContext, run: Run | None = None, op: Op | None = None) -> None:
        self.context = context
        self.run = run
        self.op = op if run is None else run.op

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            from weir._errors import translate

            broken = self.run.broken if self.run is not None else None
            if isinstance(broken, Differs):
                raise broken from None
            made = broken if broken is not None else translate(error, self.context, self.op)
            if self.run is not None and self.run.observer is not None:
                self.run.observer.failed(made)
            if "weir.compat.logs" in sys.modules and not (self.run is not None and self.run.is_trial):
                sys.modules["weir.compat.logs"].tell(made, self.context)
            if made is not error:
                raise made from None
