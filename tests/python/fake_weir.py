"""A stand-in for weir._weir's batches, over pyarrow: enough to run functions without the extension."""
import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa


class Batch:
    def __init__(self, data):
        self.data = data

    num_rows = property(lambda self: self.data.num_rows)
    nbytes = property(lambda self: self.data.nbytes)
    names = property(lambda self: self.data.schema.names)

    def schema(self):
        return self.data.schema

    def slice(self, first, last):
        return Batch(self.data.slice(first, last - first))

    def rows(self, first=0, last=None):
        return self.data.slice(first, None if last is None else last - first).to_pylist()

    def filter(self, mask):
        return Batch(self.data.filter(pa.array(np.frombuffer(bytes(mask), bool))))

    def numpy(self, writable=False):
        out = {}
        for name, column in zip(self.names, self.data.columns):
            if isinstance(column.type, pa.FixedShapeTensorType):
                out[name] = column.to_numpy_ndarray()
            else:
                out[name] = column.to_numpy(zero_copy_only=False)
            if writable:
                out[name] = np.array(out[name])
            else:
                out[name].flags.writeable = False
        return out

    def __arrow_c_array__(self, requested_schema=None):
        return self.data.__arrow_c_array__(requested_schema)

    def __arrow_c_schema__(self):
        return self.data.schema.__arrow_c_schema__()


def array_of(name, value):
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(value))
    try:
        return pa.array(value)
    except pa.ArrowException as error:
        raise ValueError(f"column {name!r}: {error}") from error


def batch_from_columns(columns):
    return Batch(pa.record_batch({name: array_of(name, value) for name, value in columns.items()}))


def batch_from_rows(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    return batch_from_columns({name: [row.get(name) for row in rows] for name in names})


def batch_concat(batches):
    return Batch(pa.concat_batches([batch.data for batch in batches]))


def batch_from_arrow(value):
    return [Batch(batch) for batch in pa.table(value).to_batches()]


def install():
    """Puts it in the extension's place where there is none with batches; returns the module."""
    try:
        from weir import _weir
        if hasattr(_weir, "batch_from_columns"):
            return _weir
    except ImportError:
        sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))
    module = types.ModuleType("weir._weir")
    for name in ("Batch", "batch_from_columns", "batch_from_rows", "batch_concat", "batch_from_arrow"):
        setattr(module, name, globals()[name])
    module.CallFailed = type("CallFailed", (Exception,), {})
    module.__version__ = "0"
    sys.modules["weir._weir"] = module
    import weir
    weir._weir = module
    return module
