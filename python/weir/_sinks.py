"""Writing to user-defined sinks: the run of Dataset.write_datasink.

    on_write_start ─▶ for each part of the plan: its steps, then a call of kind "write" ─▶ rows of results
                   ─▶ on_write_complete(WriteResult)         an error anywhere ─▶ on_write_failed(error), and it is raised
"""

from __future__ import annotations

import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any

from weir import _blocks, _parts, _run, _tasks
from weir._mistakes import WrongObject
from weir._plan import Call, Op
from weir._transform import refuse, remote_args

if TYPE_CHECKING:
    from weir._checkpointed import Checkpoint
    from weir.dataset import Dataset
    from weir.datasource import Datasink, WriteResult


def write(ds: Dataset, sink: Datasink[Any], extra: dict[str, Any] | None, concurrency: int | None) -> None:
    """What write_datasink does."""
    from weir import read_api
    from weir._checkpointed import Checkpoint
    from weir.dataset import SaveMode
    from weir.datasource.datasink import Datasink as Base
    from weir.datasource.file_datasink import _FileDatasink

    if not isinstance(sink, Base):
        raise WrongObject(f"write_datasink takes a Datasink, not {type(sink).__name__}")
    given = remote_args("write_datasink", {}, extra)
    read_api._check_concurrency(concurrency)
    if isinstance(sink, _FileDatasink) and sink._elsewhere is not None and getattr(ds.context, "checkpoint_config", None) is not None:
        refuse("write_datasink", "filesystem", "a write with a checkpoint makes its files on this machine")
    try:
        checkpoint = Checkpoint.begin(ds, sink.path if isinstance(sink, _FileDatasink) else None)
        if isinstance(sink, _FileDatasink):
            if checkpoint is not None and checkpoint.is_resumed:
                sink.mode = SaveMode.APPEND  # what is there is what the run before has written
            sink.on_write_start()
            if sink._skip_write:
                return
        elif checkpoint is not None:
            warnings.warn(
                f"Checkpointing with non-file datasink ({type(sink).__name__}) notes rows after they are written: those of a task "
                "that is killed between the two are written again.",
                stacklevel=3,
            )
        result = _run_write(ds, sink, given, concurrency, checkpoint)
        sink.on_write_complete(result)
        if checkpoint is not None:
            checkpoint.finish()
    except Exception as error:
        sink.on_write_failed(error)
        raise


def _start(ds: Dataset, sink: Datasink[Any]) -> None:
    """Calls on_write_start, with the schema if it takes one."""
    from weir.datasource.datasink import Datasink as Base
    from weir.datasource.file_datasink import _FileDatasink

    if type(sink).on_write_start is Base.on_write_start or isinstance(sink, _FileDatasink):
        return
    try:
        takes_schema = bool(inspect.signature(sink.on_write_start).parameters)
    except (TypeError, ValueError):  # no signature to look at
        takes_schema = True
    if not takes_schema:
        sink.on_write_start()
        return
    schema = ds.schema()
    sink.on_write_start(schema.base_schema if schema is not None else None)


def _run_write(
    ds: Dataset, sink: Datasink[Any], given: dict[str, Any], concurrency: int | None, checkpoint: Checkpoint | None
) -> WriteResult[Any]:
    from weir import _call
    from weir.datasource.datasink import WriteResult

    run = ds._last_run = ds._new_run(checkpoint.plan if checkpoint is not None else None)
    config = checkpoint.config if checkpoint is not None else None
    parts = run.parts()
    if parts:  # a sink that nothing is written to is not started
        _start(ds, sink)
    write_uuid = os.urandom(16).hex()
    result: WriteResult[Any] = WriteResult(0, 0, [])
    for part in parts:
        spec = _call.CallSpec(
            kind="write",
            fn=_tasks.Writer(sink, write_uuid, len(result.write_returns), config),
            batch_size=sink.min_rows_per_write,
            name="Write",
            context=ds._context,
            concurrency=concurrency,
            **given,
        )
        spec.write_bytes = _write_bytes(sink, run)
        _call.check(spec)
        for batch in run.collect(_behind(spec, part, run)):
            result = WriteResult.combine(result, _tasks.write_result(batch))
    run.finished = True
    return result


def _behind(spec: Any, part: Op, run: _run.Run) -> list[Op]:
    """The write behind a part."""
    if isinstance(part, _parts.LocalRows):
        from weir import _call

        local = part
        size = spec.batch_size
        return [
            _parts.LocalRows(
                lambda: _call.run_local(spec, _blocks.rebatched(local.make(), size, False) if isinstance(size, int) else local.make())
            )
        ]
    if run.build.state.local_mode:
        return [_parts.LocalRows(lambda: _parts.local(Call(part, spec), run.collect([part]), run))]
    return [Call(part, spec)]


def _write_bytes(sink: Datasink[Any], run: _run.Run) -> int:
    """What a task of a write gets: what the sink wants, else a good deal, and no large part of the memory."""
    limit = int(run.build.state.native.memory().get("limit", 1 << 30))
    wanted = sink.min_bytes_per_write
    return int(wanted) if wanted else max(1 << 20, min(_tasks.WRITE_BYTES, limit // 32))
