"""`__arrow_c_stream__`: a Dataset for whatever reads Arrow streams.

The capsule is cheap and may be asked for twice: nothing runs before the first batch is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir import _run

if TYPE_CHECKING:
    from weir.dataset import Dataset


def stream(ds: Dataset, requested_schema: object = None) -> object:
    """The capsule."""
    from weir._weir import batch_concat, batch_from_columns

    batches = list(ds._new_run())
    if not batches:
        schema = ds.schema()
        empty = batch_from_columns({}) if schema is None or schema._batch is None else schema._batch
        return empty.__arrow_c_stream__()
    return (batches[0] if len(batches) == 1 else _run.joined(batches)).__arrow_c_stream__()
