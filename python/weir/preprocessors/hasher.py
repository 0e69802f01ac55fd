"""FeatureHasher: many columns of numbers in few places."""

from __future__ import annotations

from typing import Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, number, number_types, vector
from weir.preprocessors.utils import simple_hash
from weir.preprocessors.version_support import SerializablePreprocessor

__all__ = ["FeatureHasher"]

PLACES_MAX = 4096  # that are arguments of an expression; beyond, workers fill them


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.feature_hasher")
class FeatureHasher(ColumnPreprocessor):
    """A vector of `num_features` numbers for each row: a column's place is the hash of its name, and columns of one place are added.

    Args:
        columns: the columns, each with how often a token occurs.
        num_features: how many places.
        output_column: the name of the column with the vectors; the others stay.

    >>> import weir
    >>> ds = weir.from_items([{"like": 1, "python": 2}])
    >>> [row["v"].tolist() for row in FeatureHasher(["like", "python"], num_features=4, output_column="v").transform(ds).take()]
    [[0, 2, 0, 1]]
    """

    columns = Field[list[str]]()
    num_features = Field[int]()
    output_column = Field[str]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "num_features", "output_column")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields
    _is_fittable = False

    def __init__(self, columns: list[str], num_features: int, output_column: str) -> None:
        super().__init__()
        self._columns, self._num_features, self._output_column = columns, num_features, output_column

    def get_output_columns(self) -> list[str]:
        """The column that it writes, in a list.

        >>> FeatureHasher(["a"], 4, "v").get_output_columns()
        ['v']
        """
        return [self._output_column]

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        kinds = number_types(known, self._columns)
        if not kinds or "uint64" in kinds or not 0 < self._num_features <= PLACES_MAX:
            return None
        kind = "float64" if {"float32", "float64"} & set(kinds) else "int64"
        zero = number(0) if kind == "float64" else "0"
        places = [zero] * self._num_features
        for name in self._columns:
            at = simple_hash(name, self._num_features)
            term = column(name) if kind == "float64" else f'cast({column(name)}, "int64")'
            places[at] = f"{places[at]} + {term}"
        return {self._output_column: vector(kind, places)}

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        arrays = [given.array(name) for name in self._columns]
        is_whole = all(array.dtype.kind in "iub" for array in arrays)
        made: np.ndarray[Any, Any] = np.zeros((given.rows, self._num_features), np.int64 if is_whole else np.float64)
        for name, array in zip(self._columns, arrays, strict=True):
            made[:, simple_hash(name, self._num_features)] += array if is_whole else given.floats(name)
        return {self._output_column: made}
