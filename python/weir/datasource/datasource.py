"""Sources of one's own: a Datasource makes ReadTasks, which run in workers and give blocks.

    weir.read_datasource(source) ─▶ source.get_read_tasks(parallelism) ─▶ [ReadTask …] ─▶ worker: task() ─▶ blocks
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.block import Block, BlockMetadata
    from weir.context import DataContext
    from weir.expressions import Expr


class Datasource:
    """What weir.read_datasource reads. A subclass has get_read_tasks and estimate_inmemory_data_size.

    >>> import pyarrow as pa, weir
    >>> from weir.block import BlockMetadata
    >>> class Squares(Datasource):
    ...     def estimate_inmemory_data_size(self):
    ...         return None
    ...     def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
    ...         def read(n):
    ...             return lambda: [pa.table({"square": [n * n]})]
    ...         return [ReadTask(read(n), BlockMetadata(1, 8)) for n in range(3)]
    >>> weir.read_datasource(Squares()).take_all()
    [{'square': 0}, {'square': 1}, {'square': 4}]
    """

    # As class attributes: a subclass need not call this class's constructor.
    _projection_map: dict[str, str] | None = None
    _predicate_expr: Expr | None = None

    def __init__(self) -> None:
        self._projection_map = None
        self._predicate_expr = None

    def get_name(self) -> str:
        """The name of its reads: the class's, without "Datasource".

        >>> class SquaresDatasource(Datasource): pass
        >>> SquaresDatasource().get_name()
        'Squares'
        """
        return type(self).__name__.removesuffix("Datasource")

    def estimate_inmemory_data_size(self) -> int | None:
        """How many bytes there will be, about; None: nobody knows.

        >>> RandomIntRowDatasource(n=10, num_columns=2).estimate_inmemory_data_size()
        160
        """
        raise NotImplementedError

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        """The work, as ReadTasks that need nothing of each other.

        Args:
            parallelism: how many there should be, about; more or fewer are right, too, and none reads nothing.
            per_task_row_limit: more rows of each than this are not wanted: hand it on to the ReadTasks.
            data_context: the settings of the Dataset.

        >>> tasks = RandomIntRowDatasource(n=10, num_columns=2).get_read_tasks(5)
        >>> [task.metadata.num_rows for task in tasks]
        [2, 2, 2, 2, 2]
        """
        raise NotImplementedError

    @property
    def should_create_reader(self) -> bool:
        """Whether it is of the old kind, with create_reader or prepare_read.

        >>> class Old(Datasource):
        ...     def prepare_read(self, parallelism): return []
        >>> Old().should_create_reader, RandomIntRowDatasource(1, 1).should_create_reader
        (True, False)
        """
        cls = type(self)
        return (
            cls.get_read_tasks is Datasource.get_read_tasks
            or cls.estimate_inmemory_data_size is Datasource.estimate_inmemory_data_size
        )

    def create_reader(self, **read_args: Any) -> Reader:
        """The old way: a Reader, bound to arguments. This one asks prepare_read.

        >>> class Old(Datasource):
        ...     def prepare_read(self, parallelism, word): return [word] * parallelism
        >>> Old().create_reader(word="a").get_read_tasks(2)
        ['a', 'a']
        """
        return _PreparedReader(self, read_args)

    def prepare_read(self, parallelism: int, **read_args: Any) -> list[ReadTask]:
        """The older way: the ReadTasks for arguments that read_datasource was given.

        >>> import pyarrow as pa, weir
        >>> from weir.block import BlockMetadata
        >>> class Old(Datasource):
        ...     def prepare_read(self, parallelism, word):
        ...         return [ReadTask(lambda: [pa.table({"word": [word]})], BlockMetadata(1, 8))]
        >>> weir.read_datasource(Old(), word="a").take_all()
        [{'word': 'a'}]
        """
        raise NotImplementedError

    @property
    def supports_distributed_reads(self) -> bool:
        """Of no consequence on one machine.

        >>> Datasource().supports_distributed_reads
        True
        """
        return True

    # ---- what may be left out of a read ----

    def supports_projection_pushdown(self) -> bool:
        """Whether apply_projection is to be called with the columns that are wanted.

        >>> class Wide(RandomIntRowDatasource):
        ...     def supports_projection_pushdown(self): return True
        >>> Datasource().supports_projection_pushdown(), Wide(1, 9).supports_projection_pushdown()
        (False, True)
        """
        return False

    def get_projection_map(self) -> dict[str, str] | None:
        """The columns that are wanted; None: all.

        >>> print(Datasource().get_projection_map())
        None
        """
        return self._projection_map

    def apply_projection(self, projection_map: dict[str, str] | None) -> Datasource:
        """The same source with fewer columns.

        >>> Datasource().apply_projection({"a": "a"}).get_projection_map()
        {'a': 'a'}
        """
        made = copy.copy(self)
        wanted = None if projection_map is None else {name: name for name in projection_map}
        before = self._projection_map
        if before is not None:
            wanted = before if wanted is None else {name: name for name in before if name in wanted}
        made._projection_map = wanted
        return made

    def _get_data_columns(self) -> list[str] | None:
        return None if self._projection_map is None else list(self._projection_map)

    def supports_predicate_pushdown(self) -> bool:
        """Whether apply_predicate is to be called with the condition of a filter. The filter runs all the same.

        >>> Datasource().supports_predicate_pushdown()
        False
        """
        return False

    def get_current_predicate(self) -> Expr | None:
        """The condition so far; None: there is none.

        >>> print(Datasource().get_current_predicate())
        None
        """
        return self._predicate_expr

    def apply_predicate(self, predicate_expr: Expr) -> Datasource:
        """The same source of which only rows that match are wanted, of those that matched before.

        >>> from weir import col
        >>> source = Datasource().apply_predicate(col("a") > 1).apply_predicate(col("b") < 2)
        >>> source.get_current_predicate().structurally_equals((col("a") > 1) & (col("b") < 2))
        True
        """
        made = copy.copy(self)
        before = self._predicate_expr
        made._predicate_expr = predicate_expr if before is None else before & predicate_expr
        return made


class Reader:
    """The old kind of source, bound to its arguments: what a Datasource's create_reader gives.

    >>> import pyarrow as pa, weir
    >>> from weir.block import BlockMetadata
    >>> class OneReader(Reader):
    ...     def estimate_inmemory_data_size(self): return 8
    ...     def get_read_tasks(self, parallelism):
    ...         return [ReadTask(lambda: [pa.table({"a": [1]})], BlockMetadata(1, 8))]
    >>> class One(Datasource):
    ...     def create_reader(self): return OneReader()
    >>> weir.read_datasource(One()).take_all()
    [{'a': 1}]
    """

    def estimate_inmemory_data_size(self) -> int | None:
        """How many bytes there will be, about; None: nobody knows.

        >>> print(Datasource().create_reader().estimate_inmemory_data_size())
        None
        """
        raise NotImplementedError

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        """The work, in about so many pieces.

        >>> class Old(Datasource):
        ...     def prepare_read(self, parallelism): return []
        >>> Old().create_reader().get_read_tasks(4)
        []
        """
        raise NotImplementedError


class _PreparedReader(Reader):
    def __init__(self, source: Datasource, read_args: dict[str, Any]) -> None:
        self._source = source
        self._read_args = read_args

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        return self._source.prepare_read(parallelism, **self._read_args)


class ReadTask:
    """A piece of a read: a function that gives blocks, and what is known of them before it runs.

    Args:
        read_fn: called in a worker, without arguments; gives blocks (tables of pyarrow, frames of pandas), as a list or one by one.
        metadata: how many rows and bytes there will be, as far as that is known.
        schema: their columns, where they are known.
        per_task_row_limit: what comes after so many rows is cut off.

    >>> import pyarrow as pa
    >>> from weir.block import BlockMetadata
    >>> task = ReadTask(lambda: [pa.table({"a": [1, 2, 3]})], BlockMetadata(3, 24), per_task_row_limit=2)
    >>> [block.num_rows for block in task()]
    [2]
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Block]],
        metadata: BlockMetadata,
        schema: Any = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self._metadata = metadata
        self._read_fn = read_fn
        self._schema = schema
        self._per_task_row_limit = per_task_row_limit

    @property
    def metadata(self) -> BlockMetadata:
        """What is known of it before it runs.

        >>> from weir.block import BlockMetadata
        >>> ReadTask(list, BlockMetadata(3, 24)).metadata.num_rows
        3
        """
        return self._metadata

    @property
    def schema(self) -> Any:
        """Its columns; None where they are not known.

        >>> import pyarrow as pa
        >>> from weir.block import BlockMetadata
        >>> ReadTask(list, BlockMetadata(3, 24), pa.schema([("a", pa.int64())])).schema.names
        ['a']
        """
        return self._schema

    @property
    def read_fn(self) -> Callable[[], Iterable[Block]]:
        """The function.

        >>> from weir.block import BlockMetadata
        >>> ReadTask(list, BlockMetadata(0, 0)).read_fn
        <class 'list'>
        """
        return self._read_fn

    @property
    def per_task_row_limit(self) -> int | None:
        """More rows than this are not wanted; None: all.

        >>> from weir.block import BlockMetadata
        >>> ReadTask(list, BlockMetadata(3, 24), per_task_row_limit=2).per_task_row_limit
        2
        """
        return self._per_task_row_limit

    def __call__(self) -> Iterator[Any]:
        result = self._read_fn()
        if hasattr(result, "num_rows") or hasattr(result, "iloc"):  # a block by itself
            result = [result]
        if not hasattr(result, "__iter__"):
            raise ValueError(
                f"a read task's function gave {type(result).__name__}: it gives a list of blocks, or a generator of them"
            )
        left = self._per_task_row_limit
        if left is None:
            yield from result
            return
        from weir.block import BlockAccessor

        for block in result:
            accessor = BlockAccessor.for_block(block)
            rows = accessor.num_rows()
            yield block if rows <= left else accessor.slice(0, left)
            left -= rows
            if left <= 0:
                return


class RandomIntRowDatasource(Datasource):
    """Rows of random numbers, in columns c_0, c_1 …

    >>> import weir
    >>> weir.read_datasource(RandomIntRowDatasource(n=10, num_columns=2)).count()
    10
    """

    def __init__(self, n: int, num_columns: int) -> None:
        super().__init__()
        self._n = n
        self._num_columns = num_columns

    def estimate_inmemory_data_size(self) -> int | None:
        return self._n * self._num_columns * 8

    def get_name(self) -> str:
        return "RandomInt"

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockMetadata

        size = max(1, self._n // parallelism)
        tasks = []
        for first in range(0, self._n, size):
            count = min(size, self._n - first)
            metadata = BlockMetadata(count, 8 * count * self._num_columns)
            tasks.append(ReadTask(_RandomRows(count, self._num_columns), metadata, per_task_row_limit=per_task_row_limit))
        return tasks


class _RandomRows:
    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns

    def __call__(self) -> list[Any]:
        import numpy as np

        from weir.block import BlockAccessor

        random = np.random.default_rng()
        most = np.iinfo(np.int64).max
        return [BlockAccessor.batch_to_block({f"c_{i}": random.integers(most, size=self.rows) for i in range(self.columns)})]
