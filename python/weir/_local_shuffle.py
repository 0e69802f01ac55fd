"""local_shuffle_buffer_size: rows drawn at random from a buffer that new ones are added to.

    pieces: ┌ 3 0 4 1 ▒ ┬ 2 8 ▒ ▒ ▒ ┬ 7 5 6 9 ┐      ▒: drawn, from the end

A piece's rows are copied in random order when they are added, so that its last ones are as good as any, and the engine's chunk is free
again at once. How many of a draw come from each piece is a multivariate hypergeometric number; what was drawn is mixed once more. Pieces
of which little is left are copied together when the buffer takes too much memory beside its rows: twice as much, or where that is a large part
of the limit an eighth more.

The session is told how much that is (Holding), so that runs go without it. Rows that do not fit are an error: fewer would be another
shuffle than was asked for. All random numbers are drawn by the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir import _blocks

if TYPE_CHECKING:
    from weir._loop import Holding
    from weir._weir import Batch

UNIT_BYTES = 1 << 20  # that are drawn at once: their second copy happens in the processor's cache
PIECES = 32  # of a full buffer, unless
PIECE_BYTES_MAX = 8 << 20  # they would be larger
SPARE = 16  # a part of the rows' bytes: what the buffer needs beside them at least
LESS_SPARE = 8  # what it has more than that where it would be
LARGE_SHARE = 6  # of the limit
TOGETHER_ROWS = 10**9  # the most that NumPy draws from


class Buffer:
    """Rows to draw from."""

    def __init__(self, seed: int | None, keep: int, holding: Holding) -> None:
        from numpy.random import default_rng

        self.random: Any = default_rng(seed)
        self.keep = keep
        self.holding = holding
        self.pieces: list[Batch] = []
        self.left: list[int] = []  # rows of each that were not drawn
        self.sizes: list[int] = []  # its bytes, drawn rows included
        self.rows = 0
        self.row_bytes = 1.0
        self.expected = 0  # bytes of the full buffer, until it is

    def expect(self, row_bytes: float) -> None:
        """Rows of this size will come. Memory for all of them is wanted from the start: runs must not have it to give back."""
        self.row_bytes = max(1.0, row_bytes)
        self.expected = min(self.holding.most, int(self.keep * self.row_bytes * (1 + 1 / SPARE)))

    def piece_rows(self, unit: int) -> int:
        """So many are added at a time: of a batch that is larger than the buffer, a part."""
        most = min(PIECE_BYTES_MAX, self.keep * self.row_bytes / PIECES)
        return max(min(self.keep // 2, int(most / self.row_bytes)), unit)

    def add(self, batch: Batch) -> None:
        self._append(batch.take(self.random.permutation(batch.num_rows)))
        self.rows += batch.num_rows
        self._fit()

    def draw(self, count: int) -> Batch:
        whole = _blocks.joined(self._drawn(count))
        self.expected = 0
        self.holding.keep(sum(self.sizes))
        return whole.take(self.random.permutation(whole.num_rows))

    def _append(self, piece: Batch) -> None:
        self.pieces.append(piece)
        self.left.append(piece.num_rows)
        self.sizes.append(piece.nbytes)

    def _drawn(self, count: int) -> list[Batch]:
        known, number = self.rows, len(self.pieces)
        while known >= TOGETHER_ROWS:
            number -= 1
            known -= self.left[number]
        shares = self.random.multivariate_hypergeometric(self.left[:number], min(count, known), method="marginals").tolist()
        parts = []
        for i, share in enumerate(shares):
            if share:
                end = self.left[i]
                self.left[i] = end - share
                parts.append(self.pieces[i].slice(end - share, end))
                self.rows -= share
        self._keep_those([i for i in range(len(self.pieces)) if self.left[i]])
        return parts

    def _keep_those(self, which: list[int]) -> None:
        if len(which) < len(self.pieces):
            self.pieces = [self.pieces[i] for i in which]
            self.left = [self.left[i] for i in which]
            self.sizes = [self.sizes[i] for i in which]

    def _fit(self) -> None:
        """Copies what is left of pieces together until the buffer is not too large."""
        held = sum(self.sizes)
        live = sum(size * left // piece.num_rows for size, left, piece in zip(self.sizes, self.left, self.pieces))
        needed = live + live // SPARE
        if needed > self.holding.most:
            raise self._too_large(live)
        most = max(min(needed + live // LESS_SPARE, self.holding.most), min(2 * live, self.holding.limit // LARGE_SHARE), needed)
        if held > most:
            self._copy_together(held - (needed + most) // 2)
        self.holding.keep(max(self.expected, sum(self.sizes)))

    def _copy_together(self, bytes: int) -> None:
        """Frees so many bytes, from the pieces of which least is left on."""
        shares = [left / piece.num_rows for left, piece in zip(self.left, self.pieces)]
        order = sorted(range(len(shares)), key=shares.__getitem__)
        most = max(piece.num_rows for piece in self.pieces)
        done: set[int] = set()
        at = 0
        while bytes > 0 and at < len(order) and shares[order[at]] < 1:
            group = [order[at]]
            at += 1
            rows = self.left[group[0]]
            while at < len(order) and rows + self.left[order[at]] <= most and shares[order[at]] < 1:
                group.append(order[at])
                rows += self.left[order[at]]
                at += 1
            self._append(_blocks.joined([self.pieces[i].slice(0, self.left[i]) for i in group]).take(self.random.permutation(rows)))
            bytes -= sum(self.sizes[i] for i in group) - self.sizes[-1]
            done.update(group)
            for i in group:
                self.pieces[i] = self.pieces[-1]  # so that its memory is free; it goes with the others below
        self._keep_those([i for i in range(len(self.pieces)) if i not in done])

    def _too_large(self, live: int) -> Exception:
        from weir._weir import MemoryLimitError

        most, limit, mib = self.holding.most, self.holding.limit, 1 << 20
        rows = int(self.rows / live * most * SPARE / (SPARE + 1))
        return MemoryLimitError(
            f"local_shuffle_buffer_size: {self.rows:,} rows of the buffer ({self.keep:,} are asked for) take {live / mib:.1f} MiB, and the memory "
            f"limit of {limit / mib:.1f} MiB has room for {most / mib:.1f} MiB of a buffer: about {rows:,} such rows. Give a higher "
            "memory_limit, or a smaller buffer; random_shuffle mixes rows of any number"
        )


def shuffled(
    batches: Iterator[Batch], size: int, buffer_rows: int, seed: int | None, drop_last: bool, holding: Holding
) -> Iterator[Batch]:
    """Batches of rows drawn at random from a buffer that has at least `buffer_rows`, as long as there are so many."""
    keep = max(buffer_rows, size)
    buffer = Buffer(seed, keep, holding)
    unit = size
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if not buffer.rows:
                buffer.expect(batch.nbytes / batch.num_rows)
                unit = max(1, int(UNIT_BYTES / buffer.row_bytes) // size) * size
            for begin in range(0, batch.num_rows, part := buffer.piece_rows(unit)):
                buffer.add(batch.slice(begin, min(begin + part, batch.num_rows)))
                if begin + part >= batch.num_rows:
                    del batch
                while buffer.rows - size >= keep:
                    drawn = buffer.draw(min(unit, (buffer.rows - keep) // size * size))
                    for at in range(0, drawn.num_rows, size):
                        yield drawn.slice(at, at + size)
        while buffer.rows >= size or (buffer.rows and not drop_last):
            drawn = buffer.draw(min(unit, buffer.rows))
            for at in range(0, drawn.num_rows, size):
                if drawn.num_rows - at < size and drop_last:
                    return
                yield drawn.slice(at, min(at + size, drawn.num_rows))
    finally:
        holding.keep(0)
        batches.close()  # type: ignore[attr-defined]
