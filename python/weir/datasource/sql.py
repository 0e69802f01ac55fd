"""Databases that speak Python's DB-API: reading a query, writing rows with a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weir.datasource.datasink import Datasink, TaskContext
from weir.datasource.datasource import Datasource, ReadTask

if TYPE_CHECKING:
    from weir.block import Block
    from weir.context import DataContext

Connection = Any  # of whichever database it is

ROWS_AT_ONCE = 50_000  # of a block
ROWS_OF_STATEMENT = 128
ROWS_OF_TASK = 50  # at least, of a shard


@contextmanager
def connected(connection_factory: Callable[[], Connection]) -> Iterator[Any]:
    """A cursor; commits at the end, rolls back after an error."""
    connection = connection_factory()
    _check(connection, "Connection", ("close", "commit", "cursor"))
    try:
        cursor = connection.cursor()
        _check(cursor, "Cursor", ("execute", "executemany", "fetchone", "fetchall", "description"))
        yield cursor
        connection.commit()
    except BaseException:
        if hasattr(connection, "rollback"):  # a database need not have it
            try:
                connection.rollback()
            except Exception as second:
                if type(second).__name__ != "NotSupportedError":
                    raise
        raise
    finally:
        connection.close()


def _check(found: Any, kind: str, names: tuple[str, ...]) -> None:
    for name in names:
        if not hasattr(found, name):
            raise ValueError(
                f"Your `connection_factory` led to a `{kind}` object without {name!r}, which the Python DB API2 specification "
                "requires. Check that your database connector is DB API2-compliant: https://peps.python.org/pep-0249/."
            )


def _execute(cursor: Any, sql: str, params: Any) -> None:
    if params is None:
        cursor.execute(sql)
    else:
        cursor.execute(sql, params)


class SQLDatasource(Datasource):
    """The rows of a query."""

    def __init__(
        self,
        sql: str,
        connection_factory: Callable[[], Connection],
        shard_hash_fn: str = "MD5",
        shard_keys: list[str] | None = None,
        sql_params: Any = None,
    ) -> None:
        super().__init__()
        self.sql = sql
        self.connection_factory = connection_factory
        self.shard_hash_fn = shard_hash_fn
        keys = list(shard_keys or [])
        self.shard_keys = f"CONCAT({','.join(keys)})" if len(keys) > 1 else keys[0] if keys else None
        self.sql_params = sql_params

    def get_name(self) -> str:
        return "SQL"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def supports_sharding(self, parallelism: int) -> bool:
        """Whether the database knows the functions that cut a query into pieces."""
        if parallelism <= 1 or self.shard_keys is None:
            return False
        try:
            with connected(self.connection_factory) as cursor:
                _execute(cursor, f"SELECT COUNT(1) FROM ({self.sql}) as T WHERE {self._shard(0, parallelism)}", self.sql_params)
        except Exception:  # each connector has its own errors: it does not know them
            return False
        return True

    def _shard(self, number: int, count: int) -> str:
        return f"MOD(ABS({self.shard_hash_fn}({self.shard_keys})), {count}) = {number}"

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockMetadata

        if not self.supports_sharding(parallelism):
            query = _Query(self.sql, self.connection_factory, self.sql_params)
            return [ReadTask(query, BlockMetadata(None, None), per_task_row_limit=per_task_row_limit)]
        with connected(self.connection_factory) as cursor:
            _execute(cursor, f"SELECT COUNT(*) FROM ({self.sql}) as T", self.sql_params)
            rows = int(cursor.fetchone()[0])
        if not rows:
            return []
        count = min(parallelism, -(-rows // ROWS_OF_TASK))
        tasks = []
        for number in range(count):
            text = f"SELECT * FROM ({self.sql}) as T WHERE {self._shard(number, count)}"
            query = _Query(text, self.connection_factory, self.sql_params)
            # How many rows hash to a shard is not known before they are read.
            tasks.append(ReadTask(query, BlockMetadata(None, None), per_task_row_limit=per_task_row_limit))
        return tasks


class _Query:
    """The function of a read task: a query, some rows at a time."""

    def __init__(self, sql: str, connection_factory: Callable[[], Connection], params: Any) -> None:
        self.sql, self.connection_factory, self.params = sql, connection_factory, params

    def __call__(self) -> Iterator[Any]:
        from weir._weir import batch_from_columns

        with connected(self.connection_factory) as cursor:
            _execute(cursor, self.sql, self.params)
            names = [column[0] for column in cursor.description]
            fetch = cursor.fetchmany if hasattr(cursor, "fetchmany") else None
            given = False
            while rows := fetch(ROWS_AT_ONCE) if fetch is not None else [] if given else cursor.fetchall():
                given = True
                yield batch_from_columns({name: [row[i] for row in rows] for i, name in enumerate(names)})
            if not given:
                yield batch_from_columns({name: [] for name in names})


class SQLDatasink(Datasink[None]):
    """Writes rows with a statement such as INSERT; each task is one transaction."""

    def __init__(self, sql: str, connection_factory: Callable[[], Connection]) -> None:
        self.sql = sql
        self.connection_factory = connection_factory

    def get_name(self) -> str:
        return "SQL"

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> None:
        from weir.block import BlockAccessor

        with connected(self.connection_factory) as cursor:
            for block in blocks:
                values: list[tuple[Any, ...]] = []
                for row in BlockAccessor.for_block(block).iter_rows(False):
                    values.append(tuple(row.values()))
                    if len(values) == ROWS_OF_STATEMENT:
                        cursor.executemany(self.sql, values)
                        values = []
                if values:
                    cursor.executemany(self.sql, values)
