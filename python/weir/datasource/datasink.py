"""Sinks of one's own: a Datasink writes blocks in workers, and is told in the driver how it went.

    ds.write_datasink(sink):  driver: on_write_start ─▶ workers: write(blocks, ctx) … ─▶ driver: on_write_complete(WriteResult)
                                                                       └ an error ──────▶ driver: on_write_failed(error)
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from weir.block import Block

WriteReturnType = TypeVar("WriteReturnType")

WRITE_UUID = "write_uuid"  # in TaskContext.kwargs

_here = threading.local()


@dataclass
class TaskContext:
    """What a write knows of its task: its number, which stays the same when it is tried again.

    >>> TaskContext(3, "Write").task_idx
    3
    """

    task_idx: int
    op_name: str = ""
    target_max_block_size_override: int | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def get_current(cls) -> TaskContext | None:
        """That of the task that runs here; None: none does.

        >>> print(TaskContext.get_current())
        None
        """
        return getattr(_here, "context", None)

    @classmethod
    def set_current(cls, context: TaskContext) -> None:
        """Makes it that of this thread.

        >>> TaskContext.set_current(TaskContext(3))
        >>> TaskContext.get_current().task_idx
        3
        >>> TaskContext.reset_current()
        """
        _here.context = context

    @classmethod
    def reset_current(cls) -> None:
        """There is none any more; nothing happens where there was none.

        >>> TaskContext.reset_current()
        """
        _here.__dict__.pop("context", None)

    @classmethod
    @contextmanager
    def current(cls, context: TaskContext) -> Iterator[TaskContext]:
        """For the length of a with block.

        >>> with TaskContext.current(TaskContext(7)):
        ...     TaskContext.get_current().task_idx
        7
        """
        cls.set_current(context)
        try:
            yield context
        finally:
            cls.reset_current()


@dataclass
class WriteResult(Generic[WriteReturnType]):
    """What all tasks of a write have written.

    >>> WriteResult.combine(WriteResult(1, 8, ["a"]), WriteResult(2, 16, ["b"]))
    WriteResult(num_rows=3, size_bytes=24, write_returns=['a', 'b'])
    """

    num_rows: int
    size_bytes: int
    write_returns: list[WriteReturnType]

    @classmethod
    def combine(cls, *wrs: WriteResult[Any]) -> WriteResult[Any]:
        """Several as one; nothing written, of none.

        >>> WriteResult.combine()
        WriteResult(num_rows=0, size_bytes=0, write_returns=[])
        """
        return WriteResult(
            sum(wr.num_rows for wr in wrs), sum(wr.size_bytes for wr in wrs), [one for wr in wrs for one in wr.write_returns]
        )


class Datasink(Generic[WriteReturnType]):
    """What Dataset.write_datasink writes to. A subclass has write; the others are called in the driver.

    >>> import os, tempfile, weir
    >>> from weir.block import BlockAccessor
    >>> class LinesDatasink(Datasink):
    ...     def __init__(self, folder):
    ...         self.folder = folder
    ...     def write(self, blocks, ctx):
    ...         with open(f"{self.folder}/{ctx.task_idx}", "w") as file:
    ...             for block in blocks:
    ...                 for row in BlockAccessor.for_block(block).iter_rows(True):
    ...                     print(row["id"], file=file)
    ...         return ctx.task_idx
    ...     def on_write_complete(self, write_result):
    ...         print(write_result.num_rows, "rows by", len(write_result.write_returns), "tasks")
    >>> weir.range(4).repartition(2).write_datasink(LinesDatasink(tempfile.mkdtemp()))
    4 rows by 2 tasks
    """

    def on_write_start(self, schema: Any = None) -> None:
        """Called once in the driver, before the first write, with the pyarrow.Schema of the rows. What it sets in the object,
        the workers' copies have too. Behind functions the first row goes through them once more to learn the schema; a
        method without the argument `schema` is called without.

        >>> import weir
        >>> class Sink(Datasink):
        ...     def on_write_start(self, schema): print(schema.names)
        ...     def write(self, blocks, ctx): return None
        >>> weir.range(4).write_datasink(Sink())
        ['id']
        """

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> Any:
        """Writes blocks, in a worker. If the worker dies it is called again elsewhere with the same blocks and the same
        ctx.task_idx; what it returns is kept of the one call that counted, and must pickle.

        Args:
            blocks: tables of pyarrow or frames of pandas, which a BlockAccessor reads alike; each may be taken once.
            ctx: the task: `ctx.task_idx` is its number.

        >>> import weir
        >>> class Sink(Datasink):
        ...     def write(self, blocks, ctx): return sum(block.num_rows for block in blocks)
        ...     def on_write_complete(self, write_result): print(write_result.write_returns)
        >>> weir.range(4).write_datasink(Sink())
        [4]
        """
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult[WriteReturnType]) -> None:
        """Called once in the driver when all is written: the place to commit. An error here is a failed write. Of an empty Dataset
        nothing is written, and this is called all the same.

        >>> import weir
        >>> class Sink(Datasink):
        ...     def write(self, blocks, ctx): return None
        ...     def on_write_complete(self, write_result): print(write_result.num_rows, "rows")
        >>> weir.range(0).write_datasink(Sink())
        0 rows
        """

    def on_write_failed(self, error: Exception) -> None:
        """Called once in the driver when the write has failed: the place to clean up. The program gets the error afterwards.

        >>> import weir
        >>> class Sink(Datasink):
        ...     def write(self, blocks, ctx): raise ValueError("no room")
        ...     def on_write_failed(self, error): print("failed:", error.cause)
        >>> try: weir.range(4).write_datasink(Sink())
        ... except ValueError: print("caught")
        failed: no room
        caught
        """

    def get_name(self) -> str:
        """The class's name, without "Datasink".

        >>> class _LinesDatasink(Datasink): pass
        >>> _LinesDatasink().get_name()
        'Lines'
        """
        return type(self).__name__.removeprefix("_").removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        """Of no consequence on one machine.

        >>> Datasink().supports_distributed_writes
        True
        """
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """A write gets at least so many rows, if there are; None: what there is.

        >>> import weir
        >>> class Sink(Datasink):
        ...     min_rows_per_write = 3
        ...     def write(self, blocks, ctx): return sum(block.num_rows for block in blocks)
        ...     def on_write_complete(self, write_result): print(write_result.write_returns)
        >>> weir.range(6, override_num_blocks=6).write_datasink(Sink())
        [3, 3]
        """
        return None

    @property
    def min_bytes_per_write(self) -> int | None:
        """A write gets at least so many bytes, if there are; None: what there is.

        >>> print(Datasink().min_bytes_per_write)
        None
        """
        return None


class _Rows:
    """What DummyOutputDatasink counts, as an actor that others may ask."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, count: int) -> None:
        self.count += count

    def get_rows_written(self) -> int:
        return self.count


class DummyOutputDatasink(Datasink[int]):
    """Counts what it is given.

    >>> import weir
    >>> output = DummyOutputDatasink()
    >>> weir.range(10).write_datasink(output)
    >>> output.num_ok, output.rows_written
    (1, 10)
    >>> weir.get(output.data_sink.get_rows_written.remote())
    10
    """

    def __init__(self) -> None:
        import weir

        self.data_sink = weir.remote(_Rows).remote()
        self.num_ok = 0
        self.num_failed = 0
        self.rows_written = 0
        self.enabled = True

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> int:
        if not self.enabled:
            raise ValueError("disabled")
        from weir.block import BlockAccessor

        return sum(BlockAccessor.for_block(block).num_rows() for block in blocks)

    def on_write_complete(self, write_result: WriteResult[int]) -> None:
        import weir

        self.num_ok += 1
        self.rows_written += write_result.num_rows
        weir.get(self.data_sink.add.remote(write_result.num_rows))

    def on_write_failed(self, error: Exception) -> None:
        self.num_failed += 1
