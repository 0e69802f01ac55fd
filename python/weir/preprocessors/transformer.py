"""PowerTransformer: powers of columns, so that their values lie more like a normal distribution's."""

from __future__ import annotations

from typing import Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, number
from weir.preprocessors.version_support import SerializablePreprocessor

__all__ = ["PowerTransformer"]

METHODS = ("yeo-johnson", "box-cox")


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.power_transformer")
class PowerTransformer(ColumnPreprocessor):
    """A power transform with an exponent that is given.

    Args:
        columns: the columns to transform, each by itself.
        power: the exponent λ.
        method: "yeo-johnson", for all numbers, or "box-cox", (x ** λ - 1) / λ, for those above 0.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"x": 3.0}, {"x": -1.0}])
    >>> PowerTransformer(["x"], power=0.5).transform(ds).take(1)
    [{'x': 2.0}]
    """

    columns = Field[list[str]]()
    power = Field[float]()
    method = Field[str]()
    output_columns = Field[list[str]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "power", "method", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields
    _is_fittable = False

    def __init__(
        self, columns: list[str], power: float, method: str = "yeo-johnson", *, output_columns: list[str] | None = None
    ) -> None:
        super().__init__()
        if method not in METHODS:
            raise ValueError(f"Method {method} is not supported. There are {', '.join(METHODS)}")
        self._columns, self._power, self._method = columns, power, method
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        def powered(x: str, power: float) -> str:
            return f"log({x})" if power == 0 else f"((pow({x}, {number(power)}) - {number(1)}) / {number(power)})"

        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            x, one = column(name), number(1)
            if self._method == "box-cox":
                made[output] = powered(f"({x} * {one})", self._power)
            else:
                above, below = powered(f"({x} + {one})", self._power), powered(f"({one} - {x})", 2 - self._power)
                made[output] = f"({above} if {x} >= 0 else -{below})"
        return made

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        def powered(x: Any, power: float) -> Any:
            return np.log(x) if power == 0 else (np.power(x, power) - 1) / power

        made = {}
        with np.errstate(all="ignore"):
            for name, output in zip(self._columns, self._output_columns, strict=True):
                x = given.floats(name)
                if self._method == "box-cox":
                    made[output] = powered(x, self._power)
                else:
                    made[output] = np.where(x >= 0, powered(np.abs(x) + 1, self._power), -powered(np.abs(x) + 1, 2 - self._power))
        return made
