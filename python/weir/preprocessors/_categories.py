"""Columns of categories: Arrow's dictionaries, as pandas.Categorical has them."""

from __future__ import annotations

from typing import Any

from weir.preprocessors._columns import Given


def dictionary(codes: Any, categories: list[Any], is_ordered: bool) -> Any:
    """A dictionary array of codes, -1 for null."""
    import numpy as np
    from weir._formats import _need

    pa = _need("pyarrow", "a column of categories")
    width = np.int8 if len(categories) < 1 << 7 else np.int16 if len(categories) < 1 << 15 else np.int32
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(width), mask=codes < 0), pa.array(categories), ordered=bool(is_ordered)
    )


def categorical(given: Given, name: str, dtype: Any) -> Any:
    """A column with the categories of a pandas.CategoricalDtype; null where a value is none of them."""
    import numpy as np

    categories = [] if dtype.categories is None else dtype.categories.tolist()
    numbers = {value: at for at, value in enumerate(categories)}
    codes = np.fromiter((numbers.get(value, -1) for value in given.values(name)), np.int64, given.rows)
    return dictionary(codes, categories, dtype.ordered)
