"""Reads and writes of user-defined sources and sinks: how they become calls of workers.

    read:   tasks, pickled, a row each ─▶ Call "read":  row ─▶ task() ─▶ blocks ─▶ batches
    write:  batches ─▶ Call "write": sink.write([block], ctx) ─▶ one row {rows, bytes, what it returned} ─▶ driver

A batch of tasks is one row, so a worker that dies costs one of them; a write's number is its task's, the same when it is
tried again.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weir import _formats, _outdated

if TYPE_CHECKING:
    from weir._weir import Batch
    from weir.checkpoint.interfaces import CheckpointConfig
    from weir.context import DataContext
    from weir.datasource.datasink import Datasink, TaskContext, WriteResult

CPU_FACTOR = 2  # tasks of a read: at least so many for each CPU
WRITE_BYTES = 32 << 20  # of a write, if the sink does not say how much it wants
TASK_LARGE = 1 << 20  # a task beyond this is worth a warning

_told: set[str] = set()  # names of read functions that were warned of


# ---- reading ----


def parallelism(asked: int | None, size: int | None, cpus: float, context: DataContext) -> int:
    """How many tasks a source is asked for.

    >>> import weir
    >>> context = weir.DataContext()
    >>> parallelism(7, None, 4, context), parallelism(None, 10 << 20, 1, context), parallelism(None, None, 2, context)
    (7, 10, 200)
    """
    if asked is not None:
        return asked
    least = int(context.read_op_min_num_blocks)
    block_min, block_max = int(context.target_min_block_size or 1), context.target_max_block_size
    if size is not None:
        least = min(least, max(1, int(size) // block_min))
        if block_max:
            least = max(least, int(size) // int(block_max))
    return max(1, least, int(cpus * CPU_FACTOR))


def tasks_of(source: Any, read_args: dict[str, Any], wanted: int, row_limit: int | None, context: DataContext) -> list[Any]:
    """The read tasks of a source, of the old kind or the new."""
    reader = reader_of(source, read_args)
    given: dict[str, Any] = {"per_task_row_limit": row_limit, "data_context": context}
    try:
        parameters = inspect.signature(reader.get_read_tasks).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            given = {name: value for name, value in given.items() if name in parameters}
    except (TypeError, ValueError):  # no signature: the newest is meant
        pass
    tasks = list(reader.get_read_tasks(wanted, **given))
    for task in tasks:
        if not callable(task):
            raise TypeError(f"{type(source).__name__}.get_read_tasks gave {type(task).__name__}: it gives a list of ReadTasks")
    return tasks


def reader_of(source: Any, read_args: dict[str, Any]) -> Any:
    """The source itself, or what its create_reader makes."""
    return source.create_reader(**read_args) if source.should_create_reader else source


def estimated_size(source: Any, read_args: dict[str, Any]) -> int | None:
    """What the source thinks how many bytes there will be."""
    size = reader_of(source, read_args).estimate_inmemory_data_size()
    return None if size is None else max(0, int(size))


def tasks_batch(tasks: list[Any], name: str) -> Batch:
    """A row for each task."""
    from weir._weir import batch_from_columns

    made = [packed(task, name) for task in tasks]
    _tell_of_large(tasks, made)
    return batch_from_columns({"task": made})


def _tell_of_large(tasks: list[Any], made: list[bytes]) -> None:
    """A warning for each read function, once in a program, that takes much along: each of its tasks does so again."""
    for task, data in zip(tasks, made):
        function = getattr(task, "read_fn", task)
        name = getattr(function, "__name__", type(function).__name__)
        if len(data) > TASK_LARGE and name not in _told:
            _told.add(name)
            _outdated.at_caller(
                f"The serialized size of your read function named '{name}' is {len(data) / (1 << 20):.1f} MiB, and each of its tasks has all of it. "
                "Give it what it needs to find its rows (a path, a range), and neither rows nor `self`.",
                UserWarning,
            )


def packed(value: Any, name: str) -> bytes:
    """Pickled, all in one piece. TypeError, naming the variable, for what cannot be."""
    import io

    from weir import _setup

    file = io.BytesIO()
    try:
        _setup._dump_into(file, value, None)
    except Exception as error:
        raise TypeError(_setup._why_not(value, name, error)) from error
    return file.getvalue()


def read(data: bytes) -> Iterator[Batch]:
    """In a worker: the batches of one task."""
    task = pickle.loads(data)
    for block in task():
        yield from batches_of(block)


def batches_of(block: Any) -> list[Batch]:
    """A block of a user's as batches; what is none says so."""
    from weir._errors import WrongReturn

    if isinstance(block, (list, bytes)):
        from weir.block import BlockAccessor

        block = BlockAccessor.for_block(block).to_block()
    try:
        return _formats.from_result(block, copy=True)
    except WrongReturn as error:
        text = str(error).replace("the function returned", "a read task gave", 1)
        raise WrongReturn(text) from error.__cause__


# ---- writing ----


class Writer:
    """In a worker: gives a sink its blocks, and what it returned a row."""

    def __init__(self, sink: Datasink[Any], write_uuid: str, first: int, checkpoint: CheckpointConfig | None = None) -> None:
        self.sink = sink
        self.write_uuid = write_uuid
        self.first = first  # tasks of earlier parts of the same write
        self.checkpoint = checkpoint

    def __call__(self, batch: Batch, number: int) -> Batch:
        from weir._weir import batch_from_columns
        from weir.datasource.datasink import WRITE_UUID, TaskContext

        context = TaskContext(self.first + number, "Write", kwargs={WRITE_UUID: self.write_uuid})
        with TaskContext.current(context), self._noted(batch, context):
            returned = self.sink.write(iter([as_block(batch)]), context)
        data = packed(returned, f"what {type(self.sink).__name__}.write returned")
        return batch_from_columns({"rows": [batch.num_rows], "bytes": [int(batch.nbytes)], "returned": [data]})

    @contextmanager
    def _noted(self, batch: Batch, context: TaskContext) -> Iterator[None]:
        """Around a write: its rows' ids go into the checkpoint, before it and again after it where its files can be known by
        their names, else after it."""
        if self.checkpoint is None:
            yield
            return
        from weir._checkpointed import check_ids
        from weir.checkpoint.checkpoint_writer import CheckpointWriter
        from weir.datasource.file_datasink import _FileDatasink
        from weir.datasource.filename_provider import split_extension, task_filename

        check_ids(self.checkpoint, batch.names)
        writer = CheckpointWriter.create(self.checkpoint)
        ids = _formats._engine_table(batch.select([self.checkpoint.id_column])).column(0)
        if isinstance(self.sink, _FileDatasink):
            name = split_extension(task_filename(self.sink.filename_provider, self.write_uuid, context.task_idx))[0]
            pending = writer.write_pending_checkpoint(ids, name)
            yield
        else:
            yield
            pending = writer.write_pending_checkpoint(ids, f"{self.write_uuid}_{context.task_idx:06}")
        if pending is not None:
            writer.commit_checkpoint(pending)


def as_block(batch: Batch) -> Any:
    """A batch as sinks get it: a Table, or the batch itself where there is no pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return batch
    return _formats.to_arrow(batch)


def write_result(batch: Batch) -> WriteResult[Any]:
    """What the rows of Writers say."""
    from weir.datasource.datasink import WriteResult

    rows = batch.rows()
    return WriteResult(
        sum(row["rows"] for row in rows), sum(row["bytes"] for row in rows), [pickle.loads(row["returned"]) for row in rows]
    )
