"""Blocks as sources and sinks of one's own see them: pyarrow Tables or pandas DataFrames, and what can be done with either.

>>> import pyarrow as pa
>>> block = BlockAccessor.for_block(pa.table({"a": [1, 2, 3]}))
>>> block.num_rows(), block.to_numpy("a"), list(block.iter_rows(True))[0]
(3, array([1, 2, 3]), {'a': 1})

The engine keeps batches; a block is made of one without a copy where the memory allows it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union

from weir.block_builders import ArrowBlockBuilder as ArrowBlockBuilder
from weir.block_builders import BlockBuilder as BlockBuilder
from weir.block_builders import DelegatingBlockBuilder as DelegatingBlockBuilder
from weir.block_builders import PandasBlockBuilder as PandasBlockBuilder
from weir.block_columns import BlockColumnAccessor
from weir.block_groups import Grouped
from weir.block_metadata import BatchFormat as BatchFormat
from weir.block_metadata import BlockExecStats as BlockExecStats
from weir.block_metadata import BlockMetadata as BlockMetadata
from weir.block_metadata import BlockMetadataWithSchema as BlockMetadataWithSchema
from weir.block_metadata import BlockStats as BlockStats
from weir.block_metadata import BlockType as BlockType
from weir.block_metadata import CustomOpStats as CustomOpStats
from weir.block_metadata import TaskExecWorkerStats as TaskExecWorkerStats
from weir.block_metadata import to_stats as to_stats
from weir.block_order import SortKey

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from weir._weir import Batch

Block = Union["pyarrow.Table", "pandas.DataFrame"]
BlockPartition = list[tuple[Any, "BlockMetadata"]]
BlockPartitionMetadata = list["BlockMetadata"]
BlockColumn = Union["pyarrow.ChunkedArray", "pyarrow.Array", "pandas.Series"]
DataBatch = Union["pyarrow.Table", "pandas.DataFrame", dict[str, Any]]
T = TypeVar("T", contravariant=True)
U = TypeVar("U", covariant=True)
KeyType = TypeVar("KeyType")
AggType = TypeVar("AggType")
BatchColumn = Any
DataBatchColumn = Any
CallableClass = type
UserDefinedFunction = Any
VALID_BATCH_FORMATS = ["pandas", "pyarrow", "numpy", None]
DEFAULT_BATCH_FORMAT = "numpy"


def _arrow_backed() -> bool:
    from weir.context import DataContext

    return bool(DataContext.get_current().enable_arrow_backed_pandas_conversion)


class BlockAccessor(Grouped):
    """What can be done with a block, whichever kind it is. Made by for_block.

    >>> import pandas as pd
    >>> BlockAccessor.for_block(pd.DataFrame({"a": [1, 2]})).slice(0, 1)["a"].tolist()
    [1]
    """

    _block: Any

    def __init__(self, block: Any) -> None:
        self._block = block
        self._made: Batch | None = None

    # ---- making ----

    @staticmethod
    def for_block(block: Any) -> BlockAccessor:
        """For a pyarrow.Table or RecordBatch, a pandas.DataFrame, or the bytes of an Arrow IPC stream; TypeError or ValueError for
        anything else.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.RecordBatch.from_pydict({"a": [1, 2]})).num_rows()
        2
        """
        pandas_module, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
        if pandas_module is not None and isinstance(block, pandas_module.DataFrame):
            return PandasBlockAccessor(block)
        if arrow is not None and isinstance(block, (arrow.Table, arrow.RecordBatch)):
            return ArrowBlockAccessor(block if isinstance(block, arrow.Table) else arrow.Table.from_batches([block]))
        if isinstance(block, bytes):
            return ArrowBlockAccessor.from_bytes(block)
        if isinstance(block, list):
            raise ValueError(
                f"Error validating {_short(block)}: Standalone Python objects are not allowed. To use Python objects in a "
                "dataset, wrap them in a dict of numpy arrays, e.g., return `{'item': batch}` instead of just `batch`."
            )
        if type(block).__module__ == "weir._weir" and type(block).__name__ == "Batch":
            return _BatchAccessor(block)
        raise TypeError(f"Not a block type: {_short(block)} ({type(block)})")

    @classmethod
    def batch_to_block(cls, batch: Any, block_type: BlockType | None = None) -> Any:
        """A block of what users have: a dict of arrays, a DataFrame, a Table.

        >>> BlockAccessor.batch_to_block({"a": [1, 2]}).num_rows
        2
        """
        if _is_array(batch):
            raise ValueError(
                f"Error validating {_short(batch)}: Standalone numpy arrays are not allowed. Return a dict of field -> array, "
                "e.g., `{'data': array}` instead of `array`."
            )
        pandas_module = sys.modules.get("pandas")
        if pandas_module is not None and isinstance(batch, pandas_module.DataFrame):
            return batch if block_type is BlockType.PANDAS else cls.for_block(batch).to_arrow()
        if isinstance(batch, Mapping):
            return cls.batch_to_pandas_block(batch) if block_type is BlockType.PANDAS else cls.batch_to_arrow_block(batch)
        return batch

    @classmethod
    def batch_to_arrow_block(cls, batch: Mapping[str, Any]) -> pyarrow.Table:
        """A Table of a dict of columns.

        >>> BlockAccessor.batch_to_arrow_block({"a": [1, None]}).to_pydict()
        {'a': [1, None]}
        """
        from weir import _formats

        return to_table(_formats.from_result(dict(batch))) if batch else _empty_table()

    @classmethod
    def batch_to_pandas_block(cls, batch: Mapping[str, Any]) -> pandas.DataFrame:
        """A DataFrame of a dict of columns.

        >>> BlockAccessor.batch_to_pandas_block({"a": [1, 2]})["a"].tolist()
        [1, 2]
        """
        import pandas as pd

        made = {}
        for name, column in batch.items():
            made[name] = pd.Series(list(column) if getattr(column, "ndim", 1) > 1 else column)
        return pd.DataFrame(made)

    @staticmethod
    def builder() -> Any:
        """Puts rows and blocks together to one block.

        >>> made = BlockAccessor.builder()
        >>> made.add({"a": 1}); made.add({"a": 2})
        >>> made.build().num_rows
        2
        """
        return BlockBuilder()

    # ---- asking ----

    def _batch(self) -> Batch:
        from weir import _blocks, _formats

        if self._made is None:
            batches = _formats.from_result(self._block)
            self._made = _blocks.joined(batches) if batches else None
            if self._made is None:
                from weir._weir import batch_from_columns

                self._made = batch_from_columns({}, num_rows=self.num_rows())
        return self._made

    def num_rows(self) -> int:
        """How many rows.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2]})).num_rows()
        2
        """
        raise NotImplementedError

    def size_bytes(self) -> int:
        """How many bytes, about.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2]})).size_bytes()
        16
        """
        raise NotImplementedError

    def schema(self) -> Any:
        """The columns and their types: a pyarrow.Schema, or a PandasBlockSchema.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2]})).schema()
        a: int64
        """
        raise NotImplementedError

    def column_names(self) -> list[str]:
        """The columns' names.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1], "b": ["x"]})).column_names()
        ['a', 'b']
        """
        raise NotImplementedError

    def block_type(self) -> BlockType:
        """Which kind it is.

        >>> import pandas as pd
        >>> BlockAccessor.for_block(pd.DataFrame({"a": [1]})).block_type()
        <BlockType.PANDAS: 'pandas'>
        """
        raise NotImplementedError

    def get_metadata(
        self, input_files: Sequence[str] | None = None, block_exec_stats: Any = None, task_exec_stats: Any = None
    ) -> BlockMetadata:
        """Rows and bytes of it, with what else is given.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1]})).get_metadata(input_files=["a.csv"]).input_files
        ('a.csv',)
        """
        return BlockMetadata(self.num_rows(), self.size_bytes(), block_exec_stats, task_exec_stats, input_files)

    def iter_rows(self, public_row_format: bool = True) -> Iterator[dict[str, Any]]:
        """The rows, as dicts.

        >>> import pyarrow as pa
        >>> list(BlockAccessor.for_block(pa.table({"a": [1, None]})).iter_rows())
        [{'a': 1}, {'a': None}]
        """
        batch = self._batch()
        for first in range(0, batch.num_rows, 4096):
            yield from batch.rows(first, min(first + 4096, batch.num_rows))

    # ---- other forms ----

    def to_block(self) -> Any:
        """The block itself.

        >>> import pyarrow as pa
        >>> table = pa.table({"a": [1]})
        >>> BlockAccessor.for_block(table).to_block() is table
        True
        """
        return self._block

    def to_default(self) -> Any:
        """The block itself.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [1]})
        >>> BlockAccessor.for_block(frame).to_default() is frame
        True
        """
        return self._block

    def to_arrow(self) -> pyarrow.Table:
        """As a Table.

        >>> import pandas as pd
        >>> BlockAccessor.for_block(pd.DataFrame({"a": [1]})).to_arrow().to_pydict()
        {'a': [1]}
        """
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """As a DataFrame.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1]})).to_pandas()["a"].tolist()
        [1]
        """
        raise NotImplementedError

    def to_numpy(self, columns: str | Sequence[str] | None = None) -> Any:
        """One column as an array; several, or all, as a dict of arrays.

        >>> import pyarrow as pa
        >>> block = BlockAccessor.for_block(pa.table({"a": [1], "b": [2]}))
        >>> block.to_numpy("a"), block.to_numpy(["b"])
        (array([1]), {'b': array([2])})
        """
        names = self.column_names()
        wanted = [columns] if isinstance(columns, str) else list(columns) if columns is not None else names
        for name in wanted:
            if name not in names:
                raise ValueError(f"Cannot find column {name}, available columns: {names}")
        arrays = self._batch().select(wanted).numpy()
        return arrays[columns] if isinstance(columns, str) else arrays

    def to_batch_format(self, batch_format: str | None) -> Any:
        """As a batch_format says: "pandas", "pyarrow", "numpy"; "default" and None: as it is.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1]})).to_batch_format("numpy")
        {'a': array([1])}
        """
        if batch_format is None or batch_format in ("default", "native"):
            return self.to_block()
        if batch_format not in VALID_BATCH_FORMATS:
            raise ValueError(f"The batch format must be one of {VALID_BATCH_FORMATS}, got: {batch_format}")
        return {"pandas": self.to_pandas, "pyarrow": self.to_arrow, "numpy": self.to_numpy}[batch_format]()

    # ---- parts of it ----

    def slice(self, start: int, end: int, copy: bool = False) -> Any:
        """The rows from `start` to before `end`; those that there are. `copy`: in memory of its own.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2, 3]})).slice(1, 5).to_pydict()
        {'a': [2, 3]}
        """
        raise NotImplementedError

    def take(self, indices: Any) -> Any:
        """These rows, in this order.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2, 3]})).take([2, 0]).to_pydict()
        {'a': [3, 1]}
        """
        raise NotImplementedError

    def select(self, columns: Sequence[str | None]) -> Any:
        """Only these columns.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1], "b": [2]})).select(["b"]).to_pydict()
        {'b': [2]}
        """
        raise NotImplementedError

    def drop(self, columns: Sequence[str]) -> Any:
        """Without these columns.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1], "b": [2]})).drop(["b"]).to_pydict()
        {'a': [1]}
        """
        return self.select([name for name in self.column_names() if name not in columns])

    def rename_columns(self, columns_rename: dict[str, str]) -> Any:
        """With other names.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1], "b": [2]})).rename_columns({"b": "c"}).to_pydict()
        {'a': [1], 'c': [2]}
        """
        raise NotImplementedError

    def upsert_column(self, column_name: str, column_data: Any) -> Any:
        """With this column, in place of one of that name.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1]})).upsert_column("b", ["x"]).to_pydict()
        {'a': [1], 'b': ['x']}
        """
        raise NotImplementedError

    def fill_column(self, name: str, value: Any) -> Any:
        """With one value in all rows of a column, in place of one of that name.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2]})).fill_column("b", "x").to_pydict()
        {'a': [1, 2], 'b': ['x', 'x']}
        """
        raise NotImplementedError

    def random_shuffle(self, random_seed: int | None) -> Any:
        """The rows in random order, the same for the same seed; None: any.

        >>> import pyarrow as pa
        >>> sorted(BlockAccessor.for_block(pa.table({"a": [1, 2, 3]})).random_shuffle(7).column("a").to_pylist())
        [1, 2, 3]
        """
        import numpy as np

        return self.take(np.random.default_rng(random_seed).permutation(self.num_rows()))

    def filter(self, predicate_expr: Any) -> Any:
        """The rows for which an expression is true.

        >>> import pyarrow as pa
        >>> from weir.expressions import col
        >>> BlockAccessor.for_block(pa.table({"a": [1, 2, 3]})).filter(col("a") > 1).column("a").to_pylist()
        [2, 3]
        """
        from weir._expr_python import Selector

        return Selector(predicate_expr)(self.to_arrow()) if self.num_rows() else self._block

    def hstack(self, other_block: Any) -> Any:
        """With the columns of another block behind its own.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1]})).hstack(pa.table({"b": [2]})).to_pydict()
        {'a': [1], 'b': [2]}
        """
        made = self.to_arrow()
        other = BlockAccessor.for_block(other_block).to_arrow()
        for name, column in zip(other.column_names, other.columns):
            made = made.append_column(name, column)
        return made

    @classmethod
    def normalize_block_types(cls, blocks: Sequence[Any], target_block_type: BlockType | None = None) -> list[Any]:
        """Blocks of one kind: the one asked for, or the one most of them are.

        >>> import pandas as pd, pyarrow as pa
        >>> made = BlockAccessor.normalize_block_types([pa.table({"a": [1]}), pa.table({"a": [2]}), pd.DataFrame({"a": [3]})])
        >>> [type(block).__name__ for block in made]
        ['Table', 'Table', 'Table']
        """
        kinds = [cls.for_block(block).block_type() for block in blocks]
        if not kinds:
            return []
        wanted = target_block_type or max(dict.fromkeys(kinds), key=kinds.count)
        return [block if kind is wanted else cls.try_convert_block_type(block, wanted) for block, kind in zip(blocks, kinds)]

    @classmethod
    def try_convert_block_type(cls, block: Any, block_type: BlockType) -> Any:
        """The block as one of another kind.

        >>> import pandas as pd
        >>> BlockAccessor.try_convert_block_type(pd.DataFrame({"a": [1]}), BlockType.ARROW).to_pydict()
        {'a': [1]}
        """
        accessor = cls.for_block(block)
        return accessor.to_pandas() if block_type is BlockType.PANDAS else accessor.to_arrow()

    def to_cudf(self) -> Any:
        """As a DataFrame of cudf, where that is installed.

        >>> import pyarrow as pa
        >>> frame = BlockAccessor.for_block(pa.table({"a": [1]})).to_cudf()  # doctest: +SKIP
        """
        from weir import _formats

        return _formats._need("cudf", "to_cudf").DataFrame.from_arrow(self.to_arrow())

    def zip(self, other: Any) -> Any:
        """The columns of both; a name that both have gets `_1`. ValueError unless they have as many rows.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [1]})).zip(pa.table({"a": [2]})).to_pydict()
        {'a': [1], 'a_1': [2]}
        """
        left, right = self.to_arrow(), BlockAccessor.for_block(other).to_arrow()
        if left.num_rows != right.num_rows:
            raise ValueError(f"Cannot zip blocks of {left.num_rows} and {right.num_rows} rows")
        for name in right.column_names:
            column, at = right.column(name), 1
            taken = name
            while taken in left.column_names:
                taken, at = f"{name}_{at}", at + 1
            left = left.append_column(taken, column)
        return left

    # ---- one column as a number ----

    def _compute(self, on: str, function: str, ignore_nulls: bool, **options: Any) -> Any:
        import pyarrow.compute as pc

        names = self.column_names()
        if on not in names:
            raise ValueError(f"Referencing column '{on}' not present in the schema: {names}")
        column = self.to_arrow().column(on)
        if column.null_count and not ignore_nulls:
            return None
        return getattr(pc, function)(column, **options).as_py()

    def count(self, on: str, ignore_nulls: bool = False) -> int | None:
        """How many values a column has; `ignore_nulls`: without nulls.

        >>> import pyarrow as pa
        >>> block = BlockAccessor.for_block(pa.table({"a": [1, None]}))
        >>> block.count("a"), block.count("a", ignore_nulls=True)
        (2, 1)
        """
        import pyarrow.compute as pc

        return int(pc.count(self.to_arrow().column(on), mode="only_valid" if ignore_nulls else "all").as_py())

    def sum(self, on: str, ignore_nulls: bool) -> Any:
        """The sum of a column; None where a null counts, or there is no value.

        >>> import pyarrow as pa
        >>> block = BlockAccessor.for_block(pa.table({"a": [1, 2, None]}))
        >>> block.sum("a", ignore_nulls=True), block.sum("a", ignore_nulls=False)
        (3, None)
        """
        return self._compute(on, "sum", ignore_nulls)

    def min(self, on: str, ignore_nulls: bool) -> Any:
        """Its smallest value; None as for sum().

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [3, 1]})).min("a", ignore_nulls=True)
        1
        """
        return self._compute(on, "min", ignore_nulls)

    def max(self, on: str, ignore_nulls: bool) -> Any:
        """Its largest value; None as for sum().

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [3, 1]})).max("a", ignore_nulls=True)
        3
        """
        return self._compute(on, "max", ignore_nulls)

    def mean(self, on: str, ignore_nulls: bool) -> Any:
        """Its mean; None as for sum().

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [3, 1]})).mean("a", ignore_nulls=True)
        2.0
        """
        return self._compute(on, "mean", ignore_nulls)

    def sum_of_squared_diffs_from_mean(self, on: str, ignore_nulls: bool, mean: Any = None) -> Any:
        """What the variance is made of; None as for sum(). `mean`: that of all blocks, where it is not this one's.

        >>> import pyarrow as pa
        >>> BlockAccessor.for_block(pa.table({"a": [3, 1]})).sum_of_squared_diffs_from_mean("a", ignore_nulls=True)
        2.0
        """
        import pyarrow.compute as pc

        mean = self.mean(on, ignore_nulls) if mean is None else mean
        if mean is None:
            return None
        apart = pc.subtract(self.to_arrow().column(on).cast("double"), float(mean))
        return pc.sum(pc.multiply(apart, apart)).as_py()


class ArrowBlockAccessor(BlockAccessor):
    """Of a pyarrow.Table.

    >>> import pyarrow as pa
    >>> type(BlockAccessor.for_block(pa.table({"a": [1]}))).__name__
    'ArrowBlockAccessor'
    """

    @classmethod
    def from_bytes(cls, data: bytes) -> ArrowBlockAccessor:
        """Of an Arrow IPC stream.

        >>> import pyarrow as pa
        >>> sink = pa.BufferOutputStream()
        >>> with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as stream:
        ...     stream.write(pa.table({"a": [1, 2]}))
        >>> ArrowBlockAccessor.from_bytes(sink.getvalue().to_pybytes()).num_rows()
        2
        """
        import pyarrow as pa

        return cls(pa.ipc.open_stream(data).read_all())

    def num_rows(self) -> int:
        return int(self._block.num_rows)

    def size_bytes(self) -> int:
        return int(self._block.nbytes)

    def schema(self) -> Any:
        return self._block.schema

    def column_names(self) -> list[str]:
        return list(self._block.column_names)

    def block_type(self) -> BlockType:
        return BlockType.ARROW

    def to_arrow(self) -> pyarrow.Table:
        return self._block

    def to_pandas(self) -> pandas.DataFrame:
        from weir import _formats

        pd = _formats._need("pandas", "to_pandas")
        return _formats.table_to_pandas(self._block, pd, _arrow_backed())

    def slice(self, start: int, end: int, copy: bool = False) -> Any:
        part = self._block.slice(start, end - start)
        if not copy:
            return part
        import numpy as np

        return part.take(np.arange(part.num_rows))

    def take(self, indices: Any) -> Any:
        import pyarrow as pa

        return self._block.take(pa.array(indices, pa.int64()))

    def select(self, columns: Sequence[str | None]) -> Any:
        if not all(isinstance(c, str) for c in columns):
            raise ValueError(f"Columns must be a list of column name strings when aggregating on Arrow blocks, but got: {columns}.")
        return self._block.select(list(columns))

    def rename_columns(self, columns_rename: dict[str, str]) -> Any:
        return self._block.rename_columns([columns_rename.get(n, n) for n in self._block.column_names])

    def upsert_column(self, column_name: str, column_data: Any) -> Any:
        import pyarrow as pa

        if not isinstance(column_data, (pa.Array, pa.ChunkedArray)):
            column_data = self.batch_to_arrow_block({column_name: column_data}).column(0)
        if column_name in self._block.column_names:
            return self._block.set_column(self._block.column_names.index(column_name), column_name, column_data)
        return self._block.append_column(column_name, column_data)

    def fill_column(self, name: str, value: Any) -> Any:
        import pyarrow as pa

        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        return self.upsert_column(name, pa.repeat(scalar, self._block.num_rows))


class PandasBlockSchema:
    """Names and dtypes of a DataFrame.

    >>> import pandas as pd
    >>> BlockAccessor.for_block(pd.DataFrame({"a": [1]})).schema().names
    ['a']
    """

    def __init__(self, names: list[str], types: list[Any]) -> None:
        self.names = names
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PandasBlockSchema) and self.names == other.names and self.types == other.types

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __repr__(self) -> str:
        return f"PandasBlockSchema(names={self.names}, types={self.types})"

    def __len__(self) -> int:
        return len(self.names)


SIZED_VALUES = 200  # of a column of objects, whose sizes stand for those of all


def _python_bytes(value: Any) -> int:
    """What a Python object takes, with what it holds: an array's numbers, the items of containers, each of those once."""
    seen: set[int] = set()
    total, held = 0, [value]
    while held:
        one = held.pop()
        if isinstance(one, (list, tuple, set, frozenset, dict)):
            if id(one) in seen:
                continue
            seen.add(id(one))
            held.extend(one)
            if isinstance(one, dict):
                held.extend(one.values())
        size = getattr(one, "nbytes", None) if type(one).__module__.partition(".")[0] in ("numpy", "torch") else None
        total += size if isinstance(size, int) else sys.getsizeof(one, 0)
    return total


class PandasBlockAccessor(BlockAccessor):
    """Of a pandas.DataFrame.

    >>> import pandas as pd
    >>> type(BlockAccessor.for_block(pd.DataFrame({"a": [1]}))).__name__
    'PandasBlockAccessor'
    """

    def num_rows(self) -> int:
        return int(self._block.shape[0])

    def size_bytes(self) -> int:
        objects = [place for place, dtype in enumerate(self._block.dtypes) if dtype == object and len(self._block)]
        others = self._block.iloc[:, [place for place in range(self._block.shape[1]) if place not in objects]]
        total = int(others.memory_usage(index=True, deep=True).sum()) + 8 * len(objects) * len(self._block)
        for place in objects:
            # Of many values, some in even steps: so that the same block has the same size each time it is asked.
            values = self._block.iloc[:: -(-len(self._block) // SIZED_VALUES), place]
            total += round(sum(map(_python_bytes, values)) / len(values) * len(self._block))
        return total

    def schema(self) -> Any:
        return PandasBlockSchema(self._block.columns.tolist(), self._block.dtypes.tolist())

    def column_names(self) -> list[str]:
        return [str(n) for n in self._block.columns]

    def block_type(self) -> BlockType:
        return BlockType.PANDAS

    def to_arrow(self) -> pyarrow.Table:
        from weir import _formats

        batches = _formats.from_result(self._block)
        return to_table(batches) if batches else _empty_table()

    def to_pandas(self) -> pandas.DataFrame:
        return self._block

    def _empty(self) -> Any:
        return type(self._block)()

    def _sorted(self, key: SortKey) -> Any:
        columns, ascending = key.to_pandas_sort_args()
        return self._block.sort_values(by=columns, ascending=ascending)

    def filter(self, predicate_expr: Any) -> Any:
        if not self.num_rows():
            return self._block
        import numpy as np
        import pyarrow.compute as pc

        from weir._expr_python import column_of

        return self._block[np.asarray(pc.fill_null(column_of(predicate_expr, self.to_arrow()), False), bool)]

    @staticmethod
    def merge_sorted_blocks(blocks: list[Any], sort_key: Any) -> tuple[Any, BlockMetadataWithSchema]:
        import pandas as pd

        stats = BlockExecStats.builder()
        made: Any = pd.DataFrame()
        frames = BlockAccessor.normalize_block_types([b for b in blocks if BlockAccessor.for_block(b).num_rows()], BlockType.PANDAS)
        if frames:
            made = PandasBlockAccessor(pd.concat(frames, ignore_index=True)).sort(sort_key)
        return made, BlockMetadataWithSchema.from_block(made, block_exec_stats=stats.build())

    def hstack(self, other_block: Any) -> Any:
        import pandas as pd

        return pd.concat([self._block, BlockAccessor.for_block(other_block).to_pandas()], axis=1)

    def slice(self, start: int, end: int, copy: bool = False) -> Any:
        part = self._block[start:end].reset_index(drop=True)
        return part.copy(deep=True) if copy else part

    def take(self, indices: Any) -> Any:
        return self._block.take(indices).reset_index(drop=True)

    def select(self, columns: Sequence[str | None]) -> Any:
        if not all(isinstance(column, str) for column in columns):
            raise ValueError(f"columns are selected by their names, not by {columns!r}")
        return self._block[list(columns)]

    def rename_columns(self, columns_rename: dict[str, str]) -> Any:
        return self._block.rename(columns=columns_rename, copy=False)

    def upsert_column(self, column_name: str, column_data: Any) -> Any:
        return self._block.assign(**{column_name: column_data})

    def fill_column(self, name: str, value: Any) -> Any:
        return self._block.assign(**{name: value})


class _BatchAccessor(BlockAccessor):
    """Of a batch of the engine: what a sink gets where pyarrow is not installed."""

    def _batch(self) -> Batch:
        return self._block  # type: ignore[no-any-return]

    def num_rows(self) -> int:
        return int(self._block.num_rows)

    def size_bytes(self) -> int:
        return int(self._block.nbytes)

    def schema(self) -> Any:
        from weir.schema import Schema

        return Schema(self._block)

    def column_names(self) -> list[str]:
        return list(self._block.names)

    def block_type(self) -> BlockType:
        return BlockType.ARROW

    def to_arrow(self) -> pyarrow.Table:
        return to_table([self._block])

    def to_pandas(self) -> pandas.DataFrame:
        from weir import _formats

        return _formats.to_pandas(self._block, _arrow_backed())

    def slice(self, start: int, end: int, copy: bool = False) -> Any:
        return self._block.slice(start, end)

    def take(self, indices: Any) -> Any:
        return self._block.take(list(indices))

    def select(self, columns: Sequence[str | None]) -> Any:
        return self._block.select(list(columns))

    def upsert_column(self, column_name: str, column_data: Any) -> Any:
        from weir._weir import batch_from_columns

        try:
            import pyarrow  # noqa: F401
        except ImportError:
            return batch_from_columns({**self._block.numpy(), column_name: column_data}, num_rows=self._block.num_rows)
        return ArrowBlockAccessor(self.to_arrow()).upsert_column(column_name, column_data)

    def fill_column(self, name: str, value: Any) -> Any:
        return self.upsert_column(name, [value] * self._block.num_rows)


def to_table(batches: Sequence[Batch]) -> pyarrow.Table:
    """Batches of one schema as a Table, tensors as Ray Data's extension types.

    >>> import weir
    >>> to_table(list(weir.range(2)._new_run())).to_pydict()
    {'id': [0, 1]}
    """
    from weir import _blocks, _formats

    return _formats.to_arrow(_blocks.joined(list(batches)))


def _empty_table() -> pyarrow.Table:
    import pyarrow as pa

    return pa.table({})


def _is_array(value: Any) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and isinstance(value, np.ndarray)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
