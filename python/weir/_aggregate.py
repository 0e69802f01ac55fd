"""sum, min, max, mean and std over a whole Dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir._plan import quoted

if TYPE_CHECKING:
    from weir.dataset import Dataset


def whole(ds: Dataset, function: str, columns: list[str] | None, ignore_nulls: bool, ddof: int) -> Any:
    """A value, or a dict of them for several columns; None for a Dataset without rows."""
    schema = ds.schema()
    if schema is None:
        return None
    if columns is None:
        columns = schema.names
    for name in columns:
        if name not in schema.names:
            raise ValueError(
                f"You specified the column '{name}', but there's no such column in the dataset. The dataset has columns: "
                f"{schema.names}"
            )
    raise NotImplementedError(quoted(function))
