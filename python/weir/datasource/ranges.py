"""Numbers from 0 up, as a source for those who give one to read_datasource: weir.range itself is the engine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir.datasource.datasource import Datasource, ReadTask

if TYPE_CHECKING:
    from weir.context import DataContext

_FORMATS = ("arrow", "tensor")


class RangeDatasource(Datasource):
    """Rows with the numbers 0 to n - 1, in a column `value`; of "tensor", each as often as `tensor_shape` has places.

    >>> import weir
    >>> weir.read_datasource(RangeDatasource(n=10, block_format="arrow")).take(2)
    [{'value': 0}, {'value': 1}]
    """

    def __init__(
        self, n: int, block_format: str = "arrow", tensor_shape: tuple[int, ...] = (1,), column_name: str | None = None
    ) -> None:
        super().__init__()
        if block_format not in _FORMATS:
            raise ValueError(f"Unsupported block type {block_format!r}: block_format is one of {', '.join(_FORMATS)}")
        if block_format == "tensor" and column_name is None:
            raise ValueError("block_format='tensor' needs a column_name: rows have columns")
        self._n = int(n)
        self._block_format = block_format
        self._tensor_shape = tuple(tensor_shape)
        self._column_name = column_name or "value"

    def get_name(self) -> str:
        return "Range"

    def _row_bytes(self) -> int:
        from math import prod

        return 8 * (prod(self._tensor_shape) if self._block_format == "tensor" else 1)

    def estimate_inmemory_data_size(self) -> int | None:
        return self._n * self._row_bytes()

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockAccessor, BlockMetadata

        if self._n <= 0:
            return []
        schema = BlockAccessor.for_block(self._made(0, 1)).schema()
        size = max(1, self._n // max(1, parallelism))
        tasks = []
        for first in range(0, self._n, size):
            count = min(size, self._n - first)
            tasks.append(ReadTask(_Part(self, first, count), BlockMetadata(count, count * self._row_bytes()), schema, per_task_row_limit))
        return tasks

    def _made(self, first: int, count: int) -> Any:
        """A table of `count` rows."""
        import numpy as np
        import pyarrow as pa

        numbers = np.arange(first, first + count)
        if self._block_format == "arrow":
            return pa.table({self._column_name: numbers})
        from weir.extensions.tensor_extension import ArrowTensorArray

        shape = (count, *self._tensor_shape)
        rows = np.broadcast_to(numbers.reshape(count, *(1 for _ in self._tensor_shape)), shape)
        return pa.table({self._column_name: ArrowTensorArray.from_numpy(np.ascontiguousarray(rows))})


class _Part:
    """The function of a read task: these numbers."""

    def __init__(self, source: RangeDatasource, first: int, count: int) -> None:
        self.source, self.first, self.count = source, first, count

    def __call__(self) -> Iterator[Any]:
        yield self.source._made(self.first, self.count)
