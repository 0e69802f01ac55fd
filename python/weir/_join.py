"""join: rows of two Datasets put together by equal keys. A step of the engine with two inputs (src/ops/exchange/join.c).

As with every exchange, little of what functions make is kept first, on either side; much goes into it while it is made (_handover.py).
The left side waits with its first rows until the right one's are all there.
"""

from __future__ import annotations

import copy
import enum
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weir._exchange import Exchange
from weir._mistakes import WrongArgument, WrongCount, WrongObject
from weir._plan import Blocks, Call, Op, Repartition, Step, chain, column_reference, operators, quoted, with_input

if TYPE_CHECKING:
    from weir._build import Build
    from weir._run import Run
    from weir._weir import Flow
    from weir.dataset import Dataset
    from weir.schema import Schema

# Ray Data's words, and the engine's.
HOW = {
    "inner": "inner",
    "left_outer": "left",
    "right_outer": "right",
    "full_outer": "full",
    "left_semi": "left_semi",
    "right_semi": "right_semi",
    "left_anti": "left_anti",
    "right_anti": "right_anti",
}


class JoinType(enum.Enum):
    """The ways to join, by the words that Dataset.join takes.

    >>> JoinType("left_outer").name
    'LEFT_OUTER'
    """

    INNER = "inner"
    LEFT_OUTER = "left_outer"
    RIGHT_OUTER = "right_outer"
    FULL_OUTER = "full_outer"
    LEFT_SEMI = "left_semi"
    RIGHT_SEMI = "right_semi"
    LEFT_ANTI = "left_anti"
    RIGHT_ANTI = "right_anti"


class Join(Exchange):
    """Rows of two inputs that have equal keys."""

    __slots__ = ("other", "how", "on", "right_on", "suffixes", "partitions")

    def __init__(
        self,
        input: Op,
        other: Op,
        how: str,
        on: Sequence[str],
        right_on: Sequence[str],
        suffixes: tuple[str | None, str | None],
        partitions: int,
    ) -> None:
        super().__init__(input, "join", [], f"Join(num_partitions={partitions})")
        self.other = other
        self.how = how
        self.on = tuple(on)
        self.right_on = tuple(right_on)
        self.suffixes = suffixes
        self.partitions = partitions

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "Join"

    @property
    def inputs(self) -> tuple[Op, ...]:
        assert self.input is not None
        return (self.input, self.other)

    @property
    def keeps_rows(self) -> bool:
        return False

    def rows(self) -> int | None:
        return None

    def add(self, flow: Flow, build: Build) -> None:
        options: list[tuple[str, str | None]] = [
            ("on", ",".join(map(quoted, self.on))),
            ("right-on", ",".join(map(quoted, self.right_on))),
            ("how", HOW[self.how]),
            ("partitions", str(self.partitions)),
        ]
        for name, suffix in zip(("left-suffix", "right-suffix"), self.suffixes):
            if suffix is not None:
                options.append((name, suffix))
        flow.join(build.flow(self.other), options)
        build.block_rows = None

    def parts(self, run: Run) -> list[Op] | None:
        assert self.input is not None
        left = _side(self.input, run, 0)
        right = _side(self.other, run, len(operators(self.input)), left)
        if left is None or right is None:
            return self._with_nothing(left, right, run)
        made = copy.copy(self)
        made.input, made.other = left, right
        return [made]

    def _with_nothing(self, left: Op | None, right: Op | None, run: Run) -> list[Op]:
        """A side without columns: what is left is the other's rows, or none."""
        if left is not None and self.how in ("left_outer", "full_outer", "left_anti"):
            return [left]
        if right is None or self.how not in ("right_outer", "full_outer", "right_anti"):
            return []
        if self.how != "full_outer":
            return [right]
        names = [field[0] for field in run.build.flow(right).schema().schema()]
        words = [f"{quoted(key)}={column_reference(theirs)}" for key, theirs in zip(self.on, self.right_on)]
        words += [quoted(name) for name in names if name not in self.right_on]
        return [Step(right, "select", words)]


def _side(op: Op, run: Run, before: int, beside: Op | None = None) -> Op | None:
    """The side as one chain of the engine; None: it has no columns. `before`: operators that are listed before the side's; `beside`: the
    side before it."""
    first = len(run.stats)
    run.operators_before += before
    try:
        made = _resolved(op, run, beside)
    finally:
        run.operators_before -= before
    for figures in run.stats[first:]:
        if "operators_placed" in figures:  # those of _handover.py, which may come later, too
            continue
        figures["operators_kept"] = before + figures.get("operators_kept", len(operators(op)))
        figures["operators_from"] = before + figures.get("operators_from", 0)
    return made


def _resolved(op: Op, run: Run, beside: Op | None) -> Op | None:
    before, run.empty = run.empty, None  # of this side from here on
    try:
        return _with_rows(op, run, beside) or _without_rows(op, run)
    finally:
        run.empty = before or run.empty


def _with_rows(op: Op, run: Run, beside: Op | None) -> Op | None:
    from weir import _handover, _parts

    parts = _parts.resolve(op, run)
    if not parts:
        return None
    if len(parts) == 1 and parts[0].is_native and not isinstance(parts[0], _parts.LocalRows):
        return parts[0]
    if len(parts) == 1 and _handover.may_begin(parts[0], run, beside):
        return _handover.begun(parts[0], run, len(operators(op)))
    blocks = [block for part in parts for block in run.blocks_of(part, as_cut=False)]
    return Blocks(op.name, blocks, run.build.state.id) if blocks else None


def _without_rows(op: Op, run: Run) -> Op | None:
    """The columns that a side without rows has; None: nobody knows them. What functions of it have made tells theirs (run.empty)."""
    from weir.dataset import Dataset

    if run.empty is not None:
        op = _behind(op, Blocks(op.name, [run.empty], run.build.state.id))
    schema = Dataset(op, run.context)._find_schema(may_run=False)
    if schema is None or schema._batch is None or not schema.names:
        return None
    return Blocks(op.name, [schema._batch], run.build.state.id)


def _behind(op: Op, rows: Blocks) -> Op:
    """The plan with these rows in place of those that were kept for its first exchange behind functions."""
    steps = chain(op)
    last_call = max((i for i, step in enumerate(steps) if isinstance(step, Call)), default=0)
    made: Op = rows
    kept = (i for i, step in enumerate(steps) if i > last_call and isinstance(step, (Exchange, Repartition)))
    for step in steps[next(kept, len(steps)) :]:
        made = with_input(step, made)
    return made


def _names(names: Any, what: str) -> list[str]:
    if not isinstance(names, (tuple, list)):
        raise ValueError(f"Expected tuple or list as `{what}` (got {type(names).__name__})")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"`{what}` has names of columns, not {name!r}")
    return list(names)


def _listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _check_schemas(left: Schema | None, right: Schema | None, on: list[str], right_on: list[str]) -> None:
    types = [
        [kind for name, kind in zip(schema.names, schema.type_texts) if name in keys] if schema is not None else None
        for schema, keys in ((left, on), (right, right_on))
    ]
    if types[0] != types[1] or (types[0] is not None and len(types[0]) != len(on)):
        raise ValueError(
            "Key columns are expected to be present and have the same types in both left and right operands of the join "
            f"operation: left has {left}, but right has {right}"
        )


class Joins:
    """The methods of a Dataset that put it together with another by keys."""

    _op: Op

    def _then(self, op: Op) -> Dataset:
        raise NotImplementedError

    def join(
        self,
        ds: Dataset,
        join_type: str | JoinType,
        num_partitions: int,
        on: tuple[str] = ("id",),
        right_on: tuple[str] | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, Any] | None = None,
        validate_schemas: bool = False,
    ) -> Dataset:
        """Rows of this Dataset and of another with equal keys, put together.

        Args:
            ds: the other Dataset, the right side.
            join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti" or "right_anti".
            num_partitions: how many blocks the result has where it is kept (materialize), as far as it has as many rows, and blocks are not
                larger than target_max_block_size.
            on: the key columns; `right_on`: those of the other side, where they are called otherwise.
            left_suffix, right_suffix: what is put behind names that both sides have; without one such a name is a ValueError.
            validate_schemas: looks at both sides' columns at once; else what does not fit is an error of the run.
            partition_size_hint, aggregator_ray_remote_args: of Ray's scheduler; without effect.

        None equals nothing, NaN equals NaN. The columns are those of this Dataset, then those of the other without its keys. Keys may differ in
        their width, not in their kind. A side that is small is held in memory while the other passes by; else both are cut by their keys, and go
        to disk beyond the memory limit.

        >>> import weir
        >>> doubles = weir.range(4).with_column("double", weir.col("id") * 2)
        >>> squares = weir.range(4).with_column("square", weir.col("id") * weir.col("id"))
        >>> joined = doubles.join(squares, join_type="inner", num_partitions=2)
        >>> sorted(joined.take_all(), key=lambda row: row["id"])[2:]
        [{'id': 2, 'double': 4, 'square': 4}, {'id': 3, 'double': 6, 'square': 9}]
        >>> weir.range(4).join(weir.range(3), "left_anti", 2).take_all()
        [{'id': 3}]
        """
        from weir._transform import remote_args

        left_keys = _names(on, "on")
        right_keys = _names(right_on, "right_on") if right_on else left_keys
        if not isinstance(ds, Joins):
            raise WrongObject(f"join takes a Dataset, not {ds!r} of type {type(ds).__name__}")
        if isinstance(join_type, JoinType):
            join_type = join_type.value
        if join_type not in HOW:
            raise ValueError(f"Invalid join type: '{join_type}'. Supported join types are: {', '.join(HOW)}.")
        if isinstance(num_partitions, bool) or not hasattr(num_partitions, "__index__"):
            raise TypeError(f"num_partitions is a number, not {type(num_partitions).__name__}")
        if num_partitions < 1:
            raise WrongCount(f"num_partitions must be at least 1, not {num_partitions}")
        for which, suffix in (("left_suffix", left_suffix), ("right_suffix", right_suffix)):
            if suffix is not None and not isinstance(suffix, str):
                raise WrongArgument(f"{which} is a text, not {suffix!r}")
        if not left_keys:
            raise ValueError(f"At least 1 column name to join on has to be provided (got {_listed(left_keys)})")
        if len(left_keys) != len(right_keys):
            raise ValueError(
                "Number of columns provided for left and right datasets has to match "
                f"(got {_listed(left_keys)} and {_listed(right_keys)})"
            )
        if partition_size_hint is not None:
            warnings.warn(
                "`partition_size_hint` is deprecated and ignored: partitions are cut by what memory there is",
                DeprecationWarning,
                stacklevel=2,
            )
        remote_args("join", aggregator_ray_remote_args or {})
        if validate_schemas:
            _check_schemas(self.schema(), ds.schema(), left_keys, right_keys)  # type: ignore[attr-defined]
        return self._then(
            Join(self._op, ds._op, join_type, left_keys, right_keys, (left_suffix, right_suffix), int(num_partitions))
        )
