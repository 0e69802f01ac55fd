"""Expressions whose values depend on the row's place: random numbers, identifiers, row numbers. The engine draws them; which run it
is, and seeds that nobody gave, are put into their text when a flow is built (``fill``)."""

from __future__ import annotations

import uuid as builtin_uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weir._expr_tree import Expr

if TYPE_CHECKING:
    from weir.datatype import DataType

# Control characters stand in no text of the engine: literals have them escaped.
_EXECUTION, _SEED = "\x01run\x01", "\x01seed\x01"


def fill(text: str, execution: int, seed: Callable[[], int]) -> str:
    """The text of an expression with the run's number and new seeds in it.

    >>> fill(RandomExpr(seed=7)._compile(), 3, lambda: 99)
    'random(7, 3)'
    """
    if "\x01" not in text:
        return text
    text = text.replace(_EXECUTION, str(execution))
    while _SEED in text:
        text = text.replace(_SEED, str(seed()), 1)
    return text


class _PlaceExpr(Expr):
    __slots__ = ()

    def is_volatile(self) -> bool:
        """Always.

        >>> UUIDExpr().is_volatile()
        True
        """
        return True

    def nullable(self, input_schema: Any) -> bool:
        """Never.

        >>> UUIDExpr().nullable(None)
        False
        """
        return False


class RandomExpr(_PlaceExpr):
    """Random numbers; made by ``random``.

    >>> RandomExpr(), RandomExpr(seed=3)
    (RANDOM(), RANDOM(seed=3, reseed_after_execution=True))
    """

    __slots__ = ("seed", "reseed_after_execution", "_instance_id")

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise TypeError(f"seed is an int or None, not {type(seed).__qualname__}")
        self.seed, self.reseed_after_execution = seed, reseed_after_execution
        self._instance_id = str(builtin_uuid.uuid4())

    @property
    def data_type(self) -> DataType:
        """Floats.

        >>> RandomExpr().data_type
        DataType(arrow:double)
        """
        from weir.datatype import DataType

        return DataType("double")

    def _key(self) -> tuple[Any, ...]:
        return (self.seed, self.reseed_after_execution)

    def _label(self) -> str:
        if self.seed is None:
            return "RANDOM()"
        return f"RANDOM(seed={self.seed}, reseed_after_execution={self.reseed_after_execution})"

    def _inline(self) -> str:
        return "random()"

    def _compile(self) -> str:
        if self.seed is None:
            return f"random({_SEED})"
        return f"random({self.seed & (1 << 63) - 1}, {_EXECUTION if self.reseed_after_execution else -1})"


class UUIDExpr(_PlaceExpr):
    """Random identifiers; made by ``uuid``.

    >>> UUIDExpr()
    UUID()
    """

    __slots__ = ()

    @property
    def data_type(self) -> DataType:
        """Text.

        >>> UUIDExpr().data_type
        DataType(arrow:string)
        """
        from weir.datatype import DataType

        return DataType("string")

    def _key(self) -> tuple[Any, ...]:
        return ()

    def _label(self) -> str:
        return "UUID()"

    def _inline(self) -> str:
        return "uuid()"

    def _compile(self) -> str:
        return f"uuid({_SEED}, {_SEED})"


class MonotonicallyIncreasingIdExpr(_PlaceExpr):
    """Row numbers; made by ``monotonically_increasing_id``. No two are the same tree.

    >>> one = MonotonicallyIncreasingIdExpr()
    >>> one, one.structurally_equals(one)
    (MONOTONICALLY_INCREASING_ID(), False)
    """

    __slots__ = ("_instance_id",)

    def __init__(self) -> None:
        self._instance_id = str(builtin_uuid.uuid4())

    @property
    def data_type(self) -> DataType:
        """Whole numbers.

        >>> MonotonicallyIncreasingIdExpr().data_type
        DataType(arrow:int64)
        """
        from weir.datatype import DataType

        return DataType("int64")

    def structurally_equals(self, other: object) -> bool:
        """Never.

        >>> MonotonicallyIncreasingIdExpr().structurally_equals(1)
        False
        """
        return False

    def _label(self) -> str:
        return "MONOTONICALLY_INCREASING_ID()"

    def _inline(self) -> str:
        return "monotonically_increasing_id()"

    def _compile(self) -> str:
        return "monotonically_increasing_id()"
