"""Single batches of every kind, as preprocessors take and give them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._weir import Batch

VALUE = "__value__"  # the column of an array without a name


def kind_of(data: Any) -> str:
    """"pandas", "pyarrow", "dict" or "array".

    >>> kind_of({"a": [1]})
    'dict'
    """
    pd, pa, np = (sys.modules.get(name) for name in ("pandas", "pyarrow", "numpy"))
    if pd is not None and isinstance(data, pd.DataFrame):
        return "pandas"
    if pa is not None and isinstance(data, pa.Table):
        return "pyarrow"
    if isinstance(data, Mapping):
        return "dict"
    if np is not None and isinstance(data, np.ndarray):
        return "array"
    raise ValueError(
        "`transform_batch` takes a dict of NumPy arrays, a NumPy array, a pandas.DataFrame or a pyarrow.Table, not "
        f"{type(data).__module__}.{type(data).__qualname__}"
    )


def names_of(data: Any) -> list[str]:
    """The names of its columns.

    >>> names_of({"a": [1], "b": [2]})
    ['a', 'b']
    """
    kind = kind_of(data)
    if kind == "array":
        return [VALUE]
    return [str(name) for name in (data.columns if kind == "pandas" else data.column_names if kind == "pyarrow" else data)]


def length_of(data: Any) -> int:
    """How many rows it has.

    >>> length_of({"a": [1, 2]})
    2
    """
    kind = kind_of(data)
    if kind == "pyarrow":
        return int(data.num_rows)
    if kind == "dict":
        return len(next(iter(data.values()))) if data else 0
    return len(data)


def column_of(data: Any, name: str) -> Any:
    """One column, as that kind has it."""
    return data if kind_of(data) == "array" else data[name]


def as_batch(data: Any, names: Iterable[str]) -> Batch:
    """Some of its columns as the engine has them."""
    from weir import _weir
    from weir._formats import _column

    columns = {name: _column(name, column_of(data, name), False) for name in names}
    return _weir.batch_from_columns(columns, length_of(data))


def to_pandas(data: Any) -> Any:
    """As a DataFrame; one that is one already is copied, but not its values."""
    from weir._formats import _need

    pd = _need("pandas", "a batch as a DataFrame")
    kind = kind_of(data)
    if kind == "pandas":
        return data.copy(deep=False)
    if kind == "pyarrow":
        return data.to_pandas()
    columns = {VALUE: data} if kind == "array" else data
    return pd.DataFrame({name: _flat(column) for name, column in columns.items()})


def _flat(column: Any) -> Any:
    return list(column) if getattr(column, "ndim", 1) > 1 else column


def to_numpy(data: Any) -> Any:
    """As a dict of arrays; an array stays what it is."""
    import numpy as np

    kind = kind_of(data)
    if kind == "array":
        return data
    if kind == "dict":
        return {name: column if isinstance(column, np.ndarray) else as_batch(data, [name]).column(0) for name, column in data.items()}
    return as_batch(data, names_of(data)).numpy(writable=True)


def to_arrow(data: Any) -> Any:
    """As a Table."""
    from weir._formats import to_arrow as table_of

    return data if kind_of(data) == "pyarrow" else table_of(as_batch(data, names_of(data)))


def like_frame(table: Any, frame: Any) -> Any:
    """A table's columns in the frame from which it was made: what did not change stays as it was."""
    out = frame.copy(deep=False)
    for name in table.column_names:
        out[name] = table.column(name).to_pandas().array
    return out[table.column_names]


def merged(data: Any, made: Mapping[str, Any], dropped: Iterable[str], wanted: str, sources: Mapping[str, str]) -> Any:
    """The batch with columns replaced, added and left out, as `wanted` says ("pandas", "pyarrow" or "dict"). `sources`: of new columns,
    those of which they are made: a frame's are backed like these, by NumPy, by pandas' own arrays, or by Arrow."""
    gone = set(dropped)
    kept = [name for name in names_of(data) if name not in gone]
    if wanted == "pandas":
        frame = to_pandas(data)
        backings = {name: _backing(frame, sources.get(name)) for name in made}
        if gone:
            frame = frame[kept]
        for name, column in made.items():
            frame[name] = _series(column, frame.index, backings[name])
        return frame
    if wanted == "pyarrow":
        table = to_arrow(data).select(kept)
        if table.schema.metadata and b"pandas" in table.schema.metadata:  # it says of what dtype the columns of before were
            table = table.replace_schema_metadata({key: value for key, value in table.schema.metadata.items() if key != b"pandas"})
        for name, column in made.items():
            array = _arrow(_with_nulls(column, data, sources.get(name)))
            at = table.column_names.index(name) if name in table.column_names else -1
            table = table.append_column(name, array) if at < 0 else table.set_column(at, name, array)
        return table
    out = {name: column_of(data, name) for name in kept}
    out.update((name, _array(column)) for name, column in made.items())
    return out


def _backing(frame: Any, source: str | None) -> str:
    import pandas as pd

    dtypes = [frame[source].dtype] if source in frame else list(frame.dtypes)
    if any(isinstance(dtype, pd.ArrowDtype) for dtype in dtypes):
        return "arrow"
    return "nullable" if source in frame and getattr(dtypes[0], "na_value", None) is pd.NA else "numpy"


def _series(column: Any, index: Any, backing: str) -> Any:
    import numpy as np
    import pandas as pd

    if hasattr(column, "__arrow_c_array__"):
        return pd.Series(column.to_pandas().array, index=index)
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return pd.Series(list(column), index=index, dtype=object)
    if isinstance(column, list):
        if not all(v is None or type(v) in (int, float) for v in column):
            return pd.Series(column, index=index, dtype=object)
        if backing == "numpy":
            column = np.array([np.nan if v is None else v for v in column])
    if backing != "numpy" and (isinstance(column, list) or column.dtype.kind in "iuf"):
        import pyarrow as pa

        array = pa.array(column, from_pandas=True)
        if backing == "arrow":
            return pd.Series(pd.arrays.ArrowExtensionArray(array), index=index)
        kind = str(array.type).replace("int", "Int").replace("uInt", "UInt").replace("double", "Float64").replace("float", "Float32")
        return pd.Series(pd.array([pd.NA if v is None else v for v in array.to_pylist()], dtype=kind), index=index)
    return pd.Series(column, index=index)


def _with_nulls(column: Any, data: Any, source: str | None) -> Any:
    """NaN that were made of a table's nulls are nulls, as they are in a Dataset."""
    import numpy as np

    if kind_of(data) != "pyarrow" or source not in data.column_names or not isinstance(column, np.ndarray):
        return column
    if column.ndim != 1 or column.dtype.kind != "f" or not data.column(source).null_count:
        return column
    import pyarrow as pa

    return pa.array(column, mask=np.isnan(column) & data.column(source).is_null().to_numpy())


def _arrow(column: Any) -> Any:
    from weir import _weir
    from weir._formats import to_arrow as table_of

    return table_of(_weir.batch_from_columns({"column": column})).column(0)


def _array(column: Any) -> Any:
    import numpy as np

    from weir import _weir

    return column if isinstance(column, np.ndarray) else _weir.batch_from_columns({"column": column}).column(0)
