"""Rows by the value of a column.

All rows are kept in blocks of the engine, in the order of the key:

    rows ─▶ batches, each put in order by itself ─▶ runs ─▶ their keys, in memory: key → batch and row, by binary search

Only the keys are put in one order, by NumPy in this process; rows stay in the batch in which they came, which the engine may
spill. Keys are numbers, texts, bytes or dates: what NumPy can sort.
"""

from __future__ import annotations

import bisect
import time
from typing import TYPE_CHECKING, Any

from weir import _blocks
from weir._mistakes import WrongArgument

if TYPE_CHECKING:
    from weir.dataset import Dataset


class RandomAccessDataset:
    """Finds rows by their key. Made by Dataset.to_random_access_dataset.

    >>> import weir
    >>> found = weir.from_items([{"k": "b", "v": 1}, {"k": "a", "v": 2}]).to_random_access_dataset("k")
    >>> found.multiget(["a", "x"])
    [{'k': 'a', 'v': 2}, None]
    """

    WORKERS = 4  # where nobody says how many; Ray has as many a machine

    def __init__(self, ds: Dataset, key: str, num_workers: int | None = None) -> None:
        begun = time.perf_counter()
        if not isinstance(key, str):
            raise WrongArgument(f"key is a column's name, not {type(key).__name__}")
        if num_workers is not None and num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, not {num_workers}")
        names = ds.columns()
        if names is None:
            raise ValueError("a Dataset without rows has nothing to be found in")
        if key not in names:
            raise ValueError(f"there is no column {key!r}; there are {names}")
        self._key = key
        self._blocks = _blocks.chunks_of(ds.materialize()._blocks())
        self._keys, self._places = self._sorted_keys()
        # Rows are looked up in this process: a worker is a share of the blocks, which stats() counts by.
        self._accesses = [0] * (num_workers or self.WORKERS)
        self._seconds = 0.0
        self._build_time = time.perf_counter() - begun

    def _sorted_keys(self) -> tuple[Any, Any]:
        """All keys in order, and for each the number of its row among all. Of equal keys the first row is first."""
        import numpy as np

        # Copies: views would hold all blocks in memory.
        parts = [_blocks.as_batch(block).select([self._key]).numpy()[self._key].copy() for block in self._blocks]
        keys = np.concatenate(parts)
        try:
            order = np.argsort(keys, kind="stable")
        except TypeError:
            raise ValueError(
                f"the column {self._key!r} cannot be a key: its values cannot be put in order (are there nulls among them?)"
            ) from None
        return keys[order], order

    def get_async(self, key: Any) -> Any:
        """A reference to the row with this key, or to None: weir.get has it.

        >>> import weir
        >>> weir.get(weir.range(10).to_random_access_dataset("id").get_async(7))
        {'id': 7}
        """
        import weir

        return weir.put(self.multiget([key])[0])

    def multiget(self, keys: list[Any]) -> list[dict[str, Any] | None]:
        """The rows with these keys, None where there is none.

        >>> import weir
        >>> weir.range(10).to_random_access_dataset("id").multiget([1, -1])
        [{'id': 1}, None]
        """
        from array import array

        begun = time.perf_counter()
        ends = self._ends()
        wanted: dict[int, list[tuple[int, int]]] = {}  # by block: which of the keys, and the row
        for number, key in enumerate(keys):
            row = self._row_of(key)
            if row is not None:
                block = bisect.bisect_right(ends, row)
                wanted.setdefault(block, []).append((number, row - (ends[block - 1] if block else 0)))
        found: list[dict[str, Any] | None] = [None] * len(keys)
        for block, places in wanted.items():
            rows = _blocks.as_batch(self._blocks[block]).take(array("q", [row for _, row in places])).rows()
            for (number, _), record in zip(places, rows):
                found[number] = record
        for share in {block % len(self._accesses) for block in wanted}:
            self._accesses[share] += 1
        self._seconds += time.perf_counter() - begun
        return found

    def _ends(self) -> list[int]:
        from itertools import accumulate

        return list(accumulate(block.num_rows for block in self._blocks))

    def _row_of(self, key: Any) -> int | None:
        import numpy as np

        try:
            at = int(np.searchsorted(self._keys, key))
        except TypeError:  # a key of another kind than the column's
            return None
        if at == len(self._keys) or self._keys[at] != key:
            return None
        return int(self._places[at])

    def stats(self) -> str:
        """What it is and how it was used, as text.

        >>> import weir
        >>> print(weir.range(10).to_random_access_dataset("id").stats())  # doctest: +ELLIPSIS
        RandomAccessDataset:
        - Build time: ...s
        - Num workers: 4
        - Blocks per worker: 0 min, 1 max, 0 mean
        - Accesses per worker: 0 min, 0 max, 0 mean
        - Mean access time: 0us
        """
        accesses, total = self._accesses, sum(self._accesses)
        blocks = [len(self._blocks[share :: len(accesses)]) for share in range(len(accesses))]
        mean = int(self._seconds / total * 1e6) if total else 0
        return "\n".join(
            [
                "RandomAccessDataset:",
                f"- Build time: {round(self._build_time, 2)}s",
                f"- Num workers: {len(accesses)}",
                f"- Blocks per worker: {_spread(blocks)}",
                f"- Accesses per worker: {_spread(accesses)}",
                f"- Mean access time: {mean}us",
            ]
        )

    def __repr__(self) -> str:
        return f"RandomAccessDataset(key={self._key!r}, num_rows={len(self._keys)})"


def _spread(counts: list[int]) -> str:
    return f"{min(counts)} min, {max(counts)} max, {sum(counts) // len(counts)} mean"
