"""Functions of weir's own that run in workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class AddColumn:
    """What add_column calls for each batch."""

    def __init__(self, name: str, fn: Callable[[Any], Any], batch_format: str) -> None:
        self.name = name
        self.fn = fn
        self.batch_format = batch_format

    def __call__(self, batch: Any) -> Any:
        column = self.fn(batch)
        if self.batch_format == "pyarrow":
            if not hasattr(column, "__arrow_c_array__") and not hasattr(column, "__arrow_c_stream__"):
                raise ValueError(f"For pyarrow batch format, the function of add_column returns a pyarrow array, not {type(column).__name__}")
            index = batch.schema.get_field_index(self.name)
            return batch.append_column(self.name, column) if index < 0 else batch.set_column(index, self.name, column)
        if self.batch_format == "pandas":
            if hasattr(column, "to_numpy") and getattr(column, "index", None) is not None:
                column = column.reset_index(drop=True) if len(column) == len(batch) else column
                batch = batch.reset_index(drop=True)
            return batch.assign(**{self.name: column})
        if not hasattr(column, "__array__"):
            raise ValueError(f"For numpy batch format, the function of add_column returns a NumPy array, not {type(column).__name__}")
        made = dict(batch)
        made[self.name] = column
        return made


class TensorsOfBytes:
    """Columns of bytes as tensors: each one's element type and shape are given."""

    def __init__(self, columns: dict[str, tuple[Any, tuple[int, ...]]]) -> None:
        self.columns = columns

    def __call__(self, table: Any) -> Any:
        import numpy as np

        from weir.extensions import ArrowTensorArray

        for name, (dtype, shape) in self.columns.items():
            values = [np.frombuffer(value, dtype=np.dtype(dtype)).reshape(shape) for value in table[name].to_pylist()]
            table = table.set_column(table.schema.get_field_index(name), name, ArrowTensorArray.from_numpy(np.stack(values)))
        return table


class HashSplit:
    """Rows whose hash of a column lies below a bound, or the rest: the hash is that of Ray's streaming_train_test_split."""

    def __init__(self, column: str, test_size: float, rest: bool) -> None:
        self.column = column
        self.bound = (1 - test_size) * (1 << 64)
        self.rest = rest

    def __call__(self, table: Any) -> Any:
        import hashlib

        if self.column not in table.column_names:
            raise ValueError(f"Key column {self.column} not found in batch; its columns are {table.column_names}")
        keys = table[self.column].to_numpy()
        hashes = (hashlib.blake2b(str(key).encode(), digest_size=8).digest() for key in keys)
        return table.filter([(int.from_bytes(h, "big") < self.bound) != self.rest for h in hashes])


class Tensors:
    """What range_tensor makes of numbers: arrays of a shape, filled with them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        ids = batch["id"]
        column = ids.reshape((len(ids),) + (1,) * len(self.shape))
        return {"data": np.broadcast_to(column, (len(ids), *self.shape)).copy()}
