"""`__arrow_c_stream__`: a Dataset for whatever reads Arrow streams.

The capsule is cheap and may be asked for twice. Its schema is the first block's, found when it is asked for; the run begins with
the first batch that is wanted, and ends when the stream is dropped. A block with other types is cast to the first's, or ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Batch
    from weir.dataset import Dataset


def stream(ds: Dataset, requested_schema: object = None) -> object:
    """The capsule."""
    from weir._weir import batch_concat, batch_from_columns, batch_stream

    found: list[Batch] = []

    def first() -> Batch:
        schema = ds.schema()
        made = schema._batch.slice(0, 0) if schema is not None and schema._batch is not None else batch_from_columns({})
        if not ds._op.is_native:
            made = batch_concat([made, made])  # whatever comes later, its columns may hold nulls
        found.append(made)
        return made

    return batch_stream(first, lambda: conforming(_owned(ds._new_run()), found[0]))


def _owned(run: Run) -> Iterator[Batch]:
    for batch in run:
        yield run.own(batch)


def conforming(batches: Iterable[Batch], first: Batch) -> Iterator[Batch]:
    """The batches with the columns of `first`, or ArrowConversionError."""
    fields = first.schema()
    for batch in batches:
        yield batch if batch.schema() == fields else _cast(batch, first)


def _cast(batch: Batch, first: Batch) -> Batch:
    from weir._errors import ArrowConversionError
    from weir._weir import batch_concat

    names = first.names
    try:
        made = batch_concat([first, batch])
    except (ValueError, TypeError):
        made = batch
    if made.names[: len(names)] == names and len(made.names) == len(names) and made.schema() == first.schema():
        return made
    raise ArrowConversionError(f"{_difference(batch, first)}: an Arrow stream has the columns of the first block. Let the function return the "
                               "same for every batch")


def _difference(batch: Batch, first: Batch) -> str:
    here, before = ({name: kind for name, kind, *_ in b.schema()} for b in (batch, first))
    for name, kind in here.items():
        if name not in before:
            return f"a later block has a column {name!r}, and the first has {', '.join(map(repr, before))}"
        if kind != before[name]:
            return f"column {name!r} is {kind} in a later block and {before[name]} in the first"
    return f"the columns of a later block are {', '.join(map(repr, here))}, those of the first {', '.join(map(repr, before))}"
