"""Writes that the engine does not do in one flow: its flows write pieces, and one commit makes all files appear.

    write_renamed          each part of the plan is a flow; files get the names that a provider gives
    write_streamed         batches come to the program and are put together as files want them: by rows, by bytes, by folders
    write_with_checkpoint  the same, and each piece is committed by itself with the ids of its rows

Files are made in a stage beside the target (`_weir.Output`, the engine's own commit and journal). What waits here is bounded:
a part of the memory limit, then the largest folder is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from weir import _blocks, _parts, _run
from weir._fixed_blocks import keeps_fixed_blocks
from weir._plan import Blocks, Op

if TYPE_CHECKING:
    from weir._weir import Batch
    from weir._write import Job
    from weir.dataset import Dataset

HELD_BYTES = 256 << 20  # that wait to be written, at most; less where there is less memory
PIECE_BYTES = 64 << 20  # of a checkpoint's piece, at most
Mode = Literal["append", "overwrite"]
PIECE_SECONDS = 1.0  # a piece is written after so long, however small it is


class Names:
    """The names of a write's files, one after another."""

    def __init__(self, ds: Dataset, job: Job) -> None:
        from weir.datasource.filename_provider import FilenameProvider

        self.extension = {"jsonl": "json", "tfrecord": "tfrecords"}.get(job.format, job.format)
        self.is_parquet = job.format == "parquet"
        self.write_uuid = os.urandom(16).hex()
        self.provider = job.provider or FilenameProvider(ds._uuid[:22], self.extension)
        self.count = 0
        # Files of Parquet beside older ones: a provider's names must tell this write from others.
        self.has_to_be_new = job.provider is not None and self.is_parquet and job.mode == "append"

    def next_task(self) -> str:
        """What the provider calls the file of the next task."""
        from weir.datasource.filename_provider import task_filename

        name = task_filename(self.provider, self.write_uuid, self.count)
        if self.has_to_be_new and self.write_uuid not in name:
            raise ValueError(
                f"Write UUID '{self.write_uuid}' missing from filename template '{name}'. This could result in files being overwritten. "
                f"Modify your FileNameProvider implementation ({type(self.provider).__name__}) to put the write_uuid into the name, or use "
                "mode='overwrite'."
            )
        self.count += 1
        return name

    def file(self, task: str, number: int, is_only: bool) -> str:
        """The name of one file of a task: those of Parquet have a number, as Ray Data gives them."""
        if "{i}" in task:
            name = task.replace("{i}", str(number))
            return name if self.extension in name or not self.is_parquet else f"{name}.{self.extension}"
        if self.is_parquet and self.extension not in task:
            return f"{task}-{number}.{self.extension}"
        if not self.is_parquet and is_only:
            return task
        base, dot, extension = task.rpartition(".")
        return f"{base}-{number}.{extension}" if dot else f"{task}-{number}"


class Stage:
    """Files on their way into a folder: added by flows, seen after commit()."""

    def __init__(self, run: _run.Run, job: Job, names: Names, mode: Mode) -> None:
        from weir._weir import Output

        self.run, self.job, self.names = run, job, names
        self.output = Output(job.target, mode)
        self.is_append = mode == "append"
        self.replaced: list[str] = []  # files of the target whose names are taken

    def add(self, part: Op, folder: str = "", task: str | None = None) -> None:
        """Writes a part's rows by a flow. All its files are one task's if `task` is given, else each is one. `folder` stands in front of
        their names: it ends in a slash, if it is one."""
        from weir import _write

        place = os.path.join(self.output.path, "weir-flow")
        _write._write_part(self.run, part, self.job, place, [("mode", "append")])
        if not os.path.isdir(place):
            return  # no rows
        made = sorted(os.listdir(place))
        for number, name in enumerate(made):
            own = task if task is not None else self.names.next_task()
            ending = self.names.file(own, number if task is not None else 0, task is None or len(made) == 1)
            path = os.path.join(self.output.path, folder + ending)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.exists(path):
                raise ValueError(f"{type(self.names.provider).__name__} has called two files {ending!r}: names must differ")
            os.rename(os.path.join(place, name), path)
            if self.is_append and self.job.provider is not None:
                self._make_room(folder + ending)
        os.rmdir(place)
        self.output.keep(len(made))

    def add_batches(self, batches: list[Batch], folder: str = "", task: str | None = None) -> None:
        """The same for rows that are here: a file for each batch."""
        for part in _parts.by_schema(Blocks("Write", batches, self.run.build.state.id, fixed=True)):
            self.add(part, folder, task)

    def _make_room(self, name: str) -> None:
        """A provider that calls a file like one that is there means that one."""
        if os.path.exists(os.path.join(self.job.target, name)):
            self.replaced.append(os.path.join(self.job.target, name))

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                if self.replaced:
                    import warnings

                    warnings.warn(
                        f"{len(self.replaced)} files of {self.job.target} are replaced: a FilenameProvider's names should "
                        "contain the write_uuid",
                        stacklevel=6,
                    )
                for path in self.replaced:
                    os.unlink(path)
                self.output.commit()
        finally:
            self.output.close()


def _mode(job: Job) -> Mode:
    return "overwrite" if job.mode.value == "overwrite" else "append"


def _held_bytes(run: _run.Run) -> int:
    limit = int(run.build.state.native.memory().get("limit", 1 << 30))
    return max(1 << 20, min(HELD_BYTES, limit // 8))


def write_renamed(ds: Dataset, run: _run.Run, parts: list[Op], job: Job) -> None:
    """A flow for each part; the files are named when they are there."""
    with Stage(run, job, Names(ds, job), _mode(job)) as stage:
        for part in parts:
            for whole in _parts.kept(part, run) if isinstance(part, _parts.LocalRows) else [part]:
                stage.add(whole)


def write_streamed(ds: Dataset, run: _run.Run, parts: list[Op], job: Job) -> None:
    """Batches as files want them."""
    most = _held_bytes(run)
    with Stage(run, job, Names(ds, job), _mode(job)) as stage:
        if job.partitions:
            _write_folders(run.collect(parts), job, most, stage.add_batches)
            return
        held: list[Batch] = []
        size = 0
        for batch in _sized(ds, run.collect(parts), job):
            if held and size + int(batch.nbytes) > most:
                stage.add_batches(held)
                held, size = [], 0
            held.append(batch)
            size += int(batch.nbytes)
        if held:
            stage.add_batches(held)


def _sized(ds: Dataset, batches: Iterator[Batch], job: Job) -> Iterator[Batch]:
    """A batch for each file. Blocks that the user has asked for are merged; others are cut, too."""
    if job.rows_min is not None and not keeps_fixed_blocks(ds._op):
        yield from _blocks.rebatched(batches, job.rows_min, False)
        return
    if job.rows_min is not None:
        yield from _merged(batches, job.rows_min)
        return
    if job.bytes_min is None:
        yield from batches
        return
    held: list[Batch] = []
    size = 0
    for batch in batches:
        rows = batch.num_rows
        least = max(1, int(batch.nbytes) // max(1, rows))
        at = 0
        while at < rows:
            take = min(rows - at, max(1, -(-(job.bytes_min - size) // least)))
            held.append(batch.slice(at, at + take))
            at += take
            size += take * least
            if size >= job.bytes_min:
                yield _blocks.joined(held)
                held, size = [], 0
    if held:
        yield _blocks.joined(held)


def _merged(batches: Iterator[Batch], rows_min: int) -> Iterator[Batch]:
    held: list[Batch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= rows_min:
            yield _blocks.joined(held)
            held = []
    if held:
        yield _blocks.joined(held)


def _write_folders(batches: Iterator[Batch], job: Job, most: int, add: Callable[[list[Batch], str], None]) -> None:
    """Rows by the folders they belong to; the largest is written when too much waits."""
    from weir import _write

    held: dict[str, list[Batch]] = {}
    sizes: dict[str, int] = {}
    for batch in batches:
        for folder, rows in _write._by_partition(batch, job.partitions, job.flavor):
            held.setdefault(folder, []).append(rows)
            sizes[folder] = sizes.get(folder, 0) + int(rows.nbytes)
        while sum(sizes.values()) > most:
            largest = max(sizes, key=lambda folder: sizes[folder])
            add([_blocks.joined(held.pop(largest))], largest)
            del sizes[largest]
    for folder, waiting in held.items():
        add([_blocks.joined(waiting)], folder)


# ---- checkpoints ----


def write_with_checkpoint(ds: Dataset, run: _run.Run, parts: list[Op], job: Job) -> None:
    """Pieces, each with the ids of its rows."""
    from weir import _checkpointed, _formats
    from weir.datasource.filename_provider import split_extension

    checkpoint = job.checkpoint
    assert checkpoint is not None
    config = checkpoint.config
    names = Names(ds, job)
    mode = _mode(job)
    made = Finished(run.collect(parts))
    for piece in _cut(_sized(ds, made, job), min(PIECE_BYTES, _held_bytes(run)), bool(job.rows_min or job.bytes_min)):
        import pyarrow as pa

        for batch in piece:
            _checkpointed.check_ids(config, batch.names)
        ids = pa.chunked_array([c for b in piece for c in _formats._engine_table(b.select([config.id_column])).column(0).chunks])
        task = names.next_task()
        with checkpoint.piece(ids, split_extension(task.replace("{i}", ""))[0]):
            with Stage(run, job, names, mode) as stage:
                if job.partitions:
                    _write_folders(iter(piece), job, 1 << 62, lambda rows, folder: stage.add_batches(rows, folder, task))
                else:
                    stage.add_batches(piece, task=task)
        mode = "append"
    if made.error is not None:
        raise made.error


class Finished:
    """The batches of a run until its end or its error, which is kept: what waits to be written is written before it is raised."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        try:
            return next(self.batches)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise StopIteration from None


def _cut(batches: Iterator[Batch], most: int, is_sized: bool) -> Iterator[list[Batch]]:
    """What came in a second, or so many bytes. Batches of one schema become one file, unless they have the size of one."""
    held: list[Batch] = []
    size = 0
    began = time.monotonic()
    for batch in batches:
        held.append(batch)
        size += int(batch.nbytes)
        if size >= most or time.monotonic() - began >= PIECE_SECONDS:
            yield held if is_sized else _joined(held)
            held, size, began = [], 0, time.monotonic()
    if held:
        yield held if is_sized else _joined(held)


def _joined(batches: list[Batch]) -> list[Batch]:
    if any(_blocks.columns_of(batch) != _blocks.columns_of(batches[0]) for batch in batches[1:]):
        return batches
    return [_blocks.joined(batches)]
