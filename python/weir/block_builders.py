"""Builders, which put rows, batches and blocks together into one block: a pyarrow Table or a pandas DataFrame.

>>> made = BlockBuilder()
>>> made.add({"a": 1}); made.add_batch({"a": [2, 3]})
>>> made.build().column("a").to_pylist()
[1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from weir._weir import Batch

__all__ = ["ArrowBlockBuilder", "BlockBuilder", "DelegatingBlockBuilder", "PandasBlockBuilder"]


class BlockBuilder:
    """Puts rows, batches and blocks together.

    >>> made = BlockBuilder()
    >>> made.add_batch({"a": [1]}); made.add_batch({"a": [2]})
    >>> made.build().column("a").to_pylist()
    [1, 2]
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: list[Batch] = []
        self._blocks: list[Any] = []

    def add(self, item: Mapping[str, Any]) -> None:
        """One row.

        >>> made = BlockBuilder()
        >>> made.add({"a": 1}); made.add({"b": 2})
        >>> made.build().to_pydict()
        {'a': [1, None], 'b': [None, 2]}
        """
        self._rows.append(dict(item))

    def add_batch(self, batch: Any) -> None:
        """A batch as functions return them: a dict of columns, a DataFrame, a Table.

        >>> made = BlockBuilder()
        >>> made.add_batch({"a": [1, 2]})
        >>> made.num_rows()
        2
        """
        from weir.block import BlockAccessor

        self.add_block(BlockAccessor.batch_to_block(batch))

    def add_block(self, block: Any) -> None:
        """A block: a Table or a DataFrame.

        >>> import pyarrow as pa
        >>> made = BlockBuilder()
        >>> made.add_block(pa.table({"a": [1]})); made.add_block(pa.table({"a": [2]}))
        >>> made.build().to_pydict()
        {'a': [1, 2]}
        """
        from weir.block import BlockAccessor

        self._flush()
        self._blocks.append(block)
        self._batches.append(BlockAccessor.for_block(block)._batch())

    def _flush(self) -> None:
        if self._rows:
            from weir._weir import batch_from_rows

            self._batches.append(batch_from_rows(self._rows))
            self._blocks.append(None)
            self._rows = []

    def num_rows(self) -> int:
        """So far.

        >>> BlockBuilder().num_rows()
        0
        """
        return len(self._rows) + sum(b.num_rows for b in self._batches)

    def build(self) -> Any:
        """All of it as one block; of nothing, a Table without columns.

        >>> BlockBuilder().build().num_columns
        0
        """
        from weir import _blocks
        from weir.block import to_table

        self._flush()
        if len(self._blocks) == 1 and self._blocks[0] is not None:
            return self._blocks[0]
        batches = [b for b in self._batches if b.num_rows] or self._batches[:1]
        if batches:
            return to_table([_blocks.joined(batches)])
        import pyarrow as pa

        return pa.table({})


DelegatingBlockBuilder = BlockBuilder  # the name by which sources written for Ray Data have it


class ArrowBlockBuilder(BlockBuilder):
    """The same, of Tables alone.

    >>> made = ArrowBlockBuilder()
    >>> made.add({"a": 1}); made.add_block(ArrowBlockBuilder._table_from_pydict({"b": ["x"]}))
    >>> made.build().to_pydict()
    {'a': [1, None], 'b': [None, 'x']}
    """

    def add_block(self, block: Any) -> None:
        if type(block).__module__.partition(".")[0] != "pyarrow":
            raise TypeError(f"Got a block of type {type(block)}, expected pyarrow.Table.")
        super().add_block(block)

    @staticmethod
    def _table_from_pydict(columns: Mapping[str, Any]) -> pyarrow.Table:
        """A Table of columns as users have them, tensors and objects among them."""
        from weir.extensions.arrow_arrays import convert_to_pyarrow_array, pyarrow_table_from_pydict

        return pyarrow_table_from_pydict({name: convert_to_pyarrow_array(values, name) for name, values in columns.items()})


class PandasBlockBuilder(BlockBuilder):
    """The same, of DataFrames alone.

    >>> made = PandasBlockBuilder()
    >>> made.add({"a": 1}); made.add({"a": 2})
    >>> made.build()["a"].tolist()
    [1, 2]
    """

    def add_block(self, block: Any) -> None:
        if type(block).__module__.partition(".")[0] != "pandas":
            raise TypeError(f"Got a block of type {type(block)}, expected pandas.DataFrame.")
        self._flush()
        self._blocks.append(block)

    def _flush(self) -> None:
        if self._rows:
            self._blocks.append(self._table_from_pydict({name: [row.get(name) for row in self._rows] for name in {n: 0 for row in self._rows for n in row}}))
            self._rows = []

    def num_rows(self) -> int:
        return len(self._rows) + sum(len(block) for block in self._blocks)

    def build(self) -> Any:
        """All of it as one DataFrame, with an index from 0.

        >>> PandasBlockBuilder().build().shape
        (0, 0)
        """
        import pandas as pd

        self._flush()
        return pd.concat(self._blocks, ignore_index=True) if self._blocks else pd.DataFrame()

    @staticmethod
    def _table_from_pydict(columns: Mapping[str, Any]) -> pandas.DataFrame:
        """A DataFrame of columns as users have them."""
        from weir.block import BlockAccessor

        return BlockAccessor.batch_to_pandas_block(columns)
