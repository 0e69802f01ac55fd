"""Arrays of arrays whose shapes differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy


def create_ragged_ndarray(values: Sequence[Any]) -> numpy.ndarray[Any, Any]:
    """An array of objects, one for each value, whatever their shapes are.

    >>> import numpy as np
    >>> create_ragged_ndarray([np.zeros((3, 1)), np.zeros((3, 2))]).shape
    (2,)
    """
    import numpy as np

    made = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        made[number] = value
    return made


def possibly_ragged(values: Any) -> numpy.ndarray[Any, Any]:
    """One array of all values where their shapes allow it, else a ragged one."""
    import numpy as np

    try:
        return np.array(values)
    except ValueError as error:
        if "inhomogeneous" not in str(error) and "could not broadcast" not in str(error):
            raise
        return create_ragged_ndarray(values)
