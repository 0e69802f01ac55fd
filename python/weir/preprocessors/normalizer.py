"""Normalizer: rows of several columns, scaled to a norm of 1."""

from __future__ import annotations

from typing import Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, is_there, number
from weir.preprocessors.version_support import SerializablePreprocessor

__all__ = ["Normalizer"]

NORMS = ("l1", "l2", "max")
NATIVE_MAX = 32  # columns; a maximum of more is a long expression


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.normalizer")
class Normalizer(ColumnPreprocessor):
    """The values of each row, divided by their norm. What is missing does not count, and stays missing.

    Args:
        columns: the columns that make up the row.
        norm: "l2", the root of the sum of squares; "l1", the sum without signs; "max", the greatest without sign.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"x": 3, "y": 4}])
    >>> Normalizer(["x", "y"]).transform(ds).take()
    [{'x': 0.6, 'y': 0.8}]
    >>> Normalizer(["x", "y"], norm="max").transform(ds).take()
    [{'x': 0.75, 'y': 1.0}]
    """

    columns = Field[list[str]]()
    norm = Field[str]()
    output_columns = Field[list[str]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "norm", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields
    _is_fittable = False

    def __init__(self, columns: list[str], norm: str = "l2", *, output_columns: list[str] | None = None) -> None:
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"Norm {norm} is not supported. There are {', '.join(NORMS)}")
        self._columns, self._norm = columns, norm
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        if not 0 < len(self._columns) <= NATIVE_MAX:
            return None
        sizes = [f"(abs({column(name)} * {number(1)}) if {is_there(name)} else {number(0)})" for name in self._columns]
        if self._norm == "l1":
            whole = " + ".join(sizes)
        elif self._norm == "l2":
            whole = f"sqrt({' + '.join(f'{size} ** {number(2)}' for size in sizes)})"
        else:
            if len(sizes) > 4:
                return None  # each step names the one before twice
            whole = sizes[0]
            for size in sizes[1:]:
                whole = f"({size} if {size} > {whole} else {whole})"
        return {output: f"({column(name)} / ({whole}))" for name, output in zip(self._columns, self._output_columns, strict=True)}

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        if not self._columns:
            return {}
        values = [given.floats(name) for name in self._columns]
        sizes = np.abs(np.nan_to_num(np.stack(values), nan=0.0, posinf=np.inf, neginf=-np.inf))
        with np.errstate(all="ignore"):
            whole = sizes.sum(0) if self._norm == "l1" else np.sqrt((sizes**2).sum(0)) if self._norm == "l2" else sizes.max(0)
            return {output: value / whole for output, value in zip(self._output_columns, values, strict=True)}
