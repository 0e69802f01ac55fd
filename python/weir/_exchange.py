"""What moves rows between blocks: sort and random_shuffle. Both are steps of the engine (src/ops/exchange).

Where functions stand before them, little of what they make is kept first: blocks that differ in their columns are unified when they are
read again. Much of it goes on into the exchange while it is made (_handover.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir._mistakes import WrongArgument, WrongCount
from weir._plan import Blocks, Drop, Filter, Op, Step, operators, quoted

if TYPE_CHECKING:
    from weir._arrange import RandomSeedConfig
    from weir._build import Build
    from weir._run import Run
    from weir._weir import Batch, Flow
    from weir.dataset import Dataset


class Exchange(Step):
    """A step that needs all rows before it gives the first."""

    __slots__ = ()
    partitions: int | None = None  # blocks that the user asked for

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self._name

    @property
    def keeps_blocks(self) -> bool:
        return False

    def parts(self, run: Run) -> list[Op] | None:
        from weir import _parts, _plan

        assert self.input is not None
        parts = _parts.resolve(self.input, run)
        if not parts:
            return []
        if len(parts) > 1 or not parts[0].is_native or isinstance(parts[0], _parts.LocalRows):
            from weir import _handover

            if len(parts) == 1 and _handover.may_begin(parts[0], run):
                made = _handover.begun(parts[0], run, len(operators(self.input)))
                return [] if made is None else [_plan.with_input(self, made)]
            first = len(run.stats)
            blocks = [block for part in parts for block in run.blocks_of(part)]
            for figures in run.stats[first:]:  # these are about the operators up to here
                figures.setdefault("operators_kept", len(operators(self.input)))
            if not blocks:
                return []
            parts = [Blocks(self.input.name, blocks, run.build.state.id)]
        return [_plan.with_input(self, parts[0])]


_SMALL_BYTES = 1 << 20  # of a block: larger ones the engine cuts by itself


def _rows_a_block(before: int | list[int] | None, input: Op | None) -> int | None:
    """How many rows a block behind a sort or a shuffle has, where blocks are small: there are as many as before. What comes next would
    else get all rows at once, and functions would have little to share. None: as the engine has them."""
    if isinstance(before, int):
        return before
    if isinstance(before, list):
        rows, count, size = sum(before), len(before), None
    elif isinstance(input, Blocks):
        rows, count, size = input.rows() or 0, len(input.blocks), sum(int(block.nbytes) for block in input.blocks)
    else:
        return None
    if count < 2 or not rows or (rows * 8 if size is None else size) > count * _SMALL_BYTES:
        return None
    return -(-rows // count)


class Sort(Exchange):
    """All rows in order. `boundaries` say where blocks of the result end."""

    __slots__ = ("keys", "descending", "boundaries")

    def __init__(self, input: Op, keys: Sequence[str], descending: Sequence[bool], boundaries: Sequence[Any] | None) -> None:
        words = [quoted(key) + (" desc" if down else "") for key, down in zip(keys, descending)]
        super().__init__(input, "sort", [", ".join(words)], "Sort")
        self.keys = tuple(keys)
        self.descending = tuple(descending)
        self.boundaries = None if boundaries is None else tuple(boundaries)

    @property
    def block_count(self) -> int:
        """Blocks that the boundaries ask for; 0: nobody asked."""
        return 0 if self.boundaries is None else len(self.boundaries) + 1

    def add(self, flow: Flow, build: Build) -> None:
        super().add(flow, build)
        build.block_rows = _rows_a_block(build.rows_before, self.input)

    def parts(self, run: Run) -> list[Op] | None:
        parts = super().parts(run)
        if self.boundaries is None or not parts:
            return parts
        from weir import _parts

        blocks = self._cut(run.blocks_of(parts[0], as_cut=False), run)
        return _parts.resolve(Blocks("Sort", blocks, run.build.state.id, fixed=True), run)

    def _cut(self, chunks: Sequence[Any], run: Run) -> list[Any]:
        """Sorted chunks as blocks that end where a boundary is reached; those without rows are left out."""
        from weir import _blocks

        assert self.boundaries is not None
        is_small = sum(chunk.nbytes for chunk in chunks) <= min(_blocks.JOINED_BYTES, run.build.state.native.memory_limit // 4)
        pieces: list[list[Any]] = [[] for _ in range(len(self.boundaries) + 1)]
        for chunk in chunks:
            batch = _blocks.as_batch(chunk)
            cuts = list(_ends(batch.select([self.keys[0]]), sorted(self.boundaries), self.descending[0]))
            for group, begin, end in cuts:
                pieces[group] += [chunk] if len(cuts) == 1 else [batch.slice(begin, end)] if is_small else run.keep(batch.slice(begin, end))
            del batch, chunk  # no more than one of them is in this process
        if is_small:
            return [_blocks.joined([_blocks.as_batch(piece) for piece in held]) for held in pieces if held]
        return [held[0] if len(held) == 1 else _blocks.Group(held) for held in pieces if held]


class InKeyOrder(Sort):
    """The rows of groups in the order of their keys, where a shuffle_strategy is set that gives them so: a part of what makes the groups."""

    __slots__ = ()
    is_shown = False

    def __init__(self, input: Op, keys: Sequence[str]) -> None:
        super().__init__(input, keys, [False] * len(keys), None)


def _ends(keys: Batch, bounds: list[Any], is_descending: bool) -> Iterator[tuple[int, int, int]]:
    """(number of the block, first row, row behind the last) of sorted keys. Few values are looked at."""
    import bisect

    def group_of(row: int) -> int:
        value = keys.slice(row, row + 1).values(0)[0]
        if value is None or value != value:  # in the last one, whichever way they go
            return len(bounds)
        try:
            place = bisect.bisect_right(bounds, value)
        except TypeError as error:
            raise TypeError(f"boundaries are numbers, and the column '{keys.names[0]}' has values such as {value!r}") from error
        return len(bounds) - place if is_descending else place

    begin, count = 0, keys.num_rows
    while begin < count:
        group = group_of(begin)
        end = count if group == group_of(count - 1) else bisect.bisect_right(range(count), group, lo=begin, key=group_of)
        yield group, begin, end
        begin = end


class Shuffle(Exchange):
    """All rows in a random order: a new one each run, unless there is a seed."""

    __slots__ = ("seed", "is_shown")

    def __init__(self, input: Op, seed: int | RandomSeedConfig | None, of_repartition: bool = False) -> None:
        super().__init__(input, "shuffle", [], "Repartition" if of_repartition else "RandomShuffle")
        self.seed = seed
        self.is_shown = not of_repartition  # else a Repartition behind it cuts its rows: the two are one

    def add(self, flow: Flow, build: Build) -> None:
        seed = build.seed_of(self.seed)
        flow.step(self.verb, self.words, [("seed", str(seed & (1 << 63) - 1))])
        build.block_rows = _rows_a_block(build.rows_before, self.input)


_PART = "__weir_part"  # the number of a row's block, while blocks are made


class RepartitionKeys(Exchange):
    """So many blocks; rows that are equal in the keys are in one of them, in input order or in that of the keys.

    A split of what follows is a block, or, where there is much data, pieces of one (is_block in src/ops/op.h): who takes rows as they
    come needs no more. Who keeps them wants to know which pieces are a block.
    """

    __slots__ = ("count", "keys", "sorts", "marks")

    def __init__(self, input: Op, count: int, keys: Sequence[str], sorts: bool) -> None:
        super().__init__(input, "repartition", [], "Repartition")
        self.count = count
        self.keys = tuple(keys)
        self.sorts = sorts
        self.marks = False  # whether rows have the number of their block: while it runs, not in the plan that schemas are asked of

    def add(self, flow: Flow, build: Build) -> None:
        keys = ",".join(quoted(key) for key in self.keys)
        options: list[tuple[str, str | None]] = [("blocks", str(self.count)), ("keys", keys)]
        options += [("mark", _PART)] if self.marks else []
        options += [("sort", None)] if self.sorts else []
        flow.step(self.verb, [], options)

    def as_blocks(self, run: Run) -> list[Op]:
        """Its rows as blocks that are kept, of a part that is ready to run."""
        from weir import _blocks, _parts

        marked = copy.copy(self)
        marked.marks = True
        chunks = _blocks.chunks_of(run.blocks_of(marked))
        state = run.build.state
        is_small = sum(chunk.nbytes for chunk in chunks) <= min(_blocks.JOINED_BYTES, state.native.memory_limit // 4)
        blocks: list[Any] = []
        for pieces in _by_part(chunks, self.count, (lambda batch: [batch]) if is_small else run.keep):
            if is_small:
                batch = _blocks.joined([_blocks.as_batch(piece) for piece in pieces])
                blocks.append(batch.select(batch.names[:-1]))
            elif pieces:
                blocks.append(pieces[0] if len(pieces) == 1 else _blocks.Group(pieces))
        made = Blocks(self.name, blocks, state.id, fixed=True)
        if is_small:
            return _parts.resolve(made, run)
        return [Step(part, "drop", [quoted(_PART)], self.name) for part in _parts.resolve(made, run)]


def rows_of_part(op: Op, keys: Sequence[str], count: int, index: int) -> Op:
    """The rows whose keys belong to one of `count` parts: which they are depends on the keys alone, not on the order of the rows."""
    numbered = RepartitionKeys(op, count, keys, sorts=False)
    numbered.marks = True
    return Drop(Filter(numbered, f"{_PART} == {index}", f"part {index} of {count}"), [_PART])


def _by_part(chunks: Sequence[Any], count: int, keep: Callable[[Batch], Sequence[Any]]) -> list[list[Any]]:
    """The chunks of each block that has rows; of those that have rows of several the pieces, as `keep` makes them."""
    import numpy

    from weir import _blocks

    parts: list[list[Any]] = [[] for _ in range(count)]
    for chunk in chunks:
        batch = _blocks.as_batch(chunk)
        numbers = batch.column(_PART)
        ends = [*(numpy.flatnonzero(numpy.diff(numbers)) + 1).tolist(), len(numbers)]
        begin = 0
        for end in ends:
            parts[int(numbers[begin])] += [chunk] if len(ends) == 1 else keep(batch.slice(begin, end))
            begin = end
    return [part for part in parts if part]


def checked_seed(seed: Any) -> int | RandomSeedConfig | None:
    """What methods take as a seed."""
    from weir._arrange import RandomSeedConfig

    if seed is None or isinstance(seed, RandomSeedConfig):
        return seed
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise ValueError(f"seed is a whole number or a RandomSeedConfig, not {type(seed).__name__}")
    return int(seed)


def check_columns(ds: Dataset, keys: Sequence[str]) -> None:
    """ValueError for a column that is not there. Where the columns are not known without a function's being called, the run finds it."""
    known = ds.columns(fetch_if_missing=ds._op.is_native)
    if known is None:
        return
    for key in keys:
        if key not in known:
            raise ValueError(
                f"You specified the column '{key}', but there's no such column in the dataset. The dataset has columns: {known}"
            )


class Exchanges:
    """The methods of a Dataset that need all rows before they give the first."""

    _op: Op

    def _then(self, op: Op) -> Dataset:
        raise NotImplementedError

    def sort(
        self,
        key: str | list[str],
        descending: bool | list[bool] = False,
        boundaries: list[int | float] | None = None,
    ) -> Dataset:
        """The rows in the order of one column or several.

        Args:
            key: a column's name, or a list of them: the first counts most.
            descending: whether the largest come first; of several columns a list may say it of each.
            boundaries: numbers that cut the result into blocks by the values of the first column, one block more than there are of them.

        Rows that are equal in them stay in the order they had. Numbers come before NaN and NaN before None, whichever way they
        go. What does not fit into the memory limit goes to disk; with a limit behind it only the first rows are kept.

        >>> import weir
        >>> ds = weir.from_items([{"a": 2, "b": 1}, {"a": 1, "b": 5}, {"a": 2, "b": 0}])
        >>> ds.sort(["a", "b"], descending=[True, False]).take_all()
        [{'a': 2, 'b': 0}, {'a': 2, 'b': 1}, {'a': 1, 'b': 5}]
        """
        keys = [key] if isinstance(key, str) else list(key) if isinstance(key, (list, tuple)) else None
        if not keys or not all(isinstance(name, str) for name in keys):
            raise (WrongCount if key == [] else ValueError)(f"sort takes a column or a list of columns as its key, not {key!r}")
        if not isinstance(descending, bool) and not (isinstance(descending, (list, tuple)) and all(isinstance(down, bool) for down in descending)):
            raise WrongArgument(f"descending is True, False, or a list of these, not {descending!r}")
        downs = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
        if len(downs) != len(keys):
            raise ValueError(
                f"Length of `descending` does not match the length of the key: {len(downs)} and {len(keys)}: {descending!r}, {keys!r}"
            )
        if boundaries is not None and not isinstance(boundaries, (list, tuple)):
            raise WrongArgument(f"boundaries are a list of numbers, not {boundaries!r}")
        if boundaries is not None and not all(isinstance(b, (int, float)) and not isinstance(b, bool) for b in boundaries):
            raise ValueError(f"boundaries are a list of numbers, not {boundaries!r}")
        check_columns(self, keys)  # type: ignore[arg-type]
        return self._then(Sort(self._op, keys, [bool(down) for down in downs], boundaries))

    def random_shuffle(
        self, *, seed: int | RandomSeedConfig | None = None, num_blocks: int | None = None, **ray_remote_args: Any
    ) -> Dataset:
        """The rows in a random order, every order as likely as any other.

        A new order each time, or with a seed the same one, for any number of workers. What does not fit into the memory limit goes
        to disk. For training, local_shuffle_buffer_size of iter_batches is cheaper. With a RandomSeedConfig each run of the Dataset,
        so each epoch, has an order of its own, which is the same in each program.

        >>> import weir
        >>> a = weir.range(100).random_shuffle(seed=7).take_all()
        >>> a == weir.range(100).random_shuffle(seed=7).take_all() and a != weir.range(100).take_all()
        True
        """
        from weir._plan import Repartition
        from weir._transform import remote_args

        remote_args("random_shuffle", ray_remote_args)
        if num_blocks is not None and (isinstance(num_blocks, bool) or not hasattr(num_blocks, "__index__") or num_blocks < 1):
            raise WrongArgument(f"num_blocks is a number of at least 1, not {num_blocks!r}")
        shuffled: Op = Shuffle(self._op, checked_seed(seed))
        return self._then(shuffled if num_blocks is None else Repartition(shuffled, int(num_blocks)))
