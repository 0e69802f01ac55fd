"""Plans: what a Dataset is made of, as a chain of small objects that never change.

    Read ◀─ Filter ◀─ Call ◀─ Limit        each knows its input; a Dataset knows the last one

Making one runs nothing. At run time `_run.py` turns a chain into the steps of a Flow: each operator has `add(flow, build)`.
Operators that the engine does not have as steps (`Repartition`, a `Union` of sides with functions) are taken apart there.

Plans pickle: all but Blocks consist of plain values, and Blocks are found again by their session.
"""

from __future__ import annotations

import copy
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir.datasource import Listing, Partitioning, list_files

if TYPE_CHECKING:
    from weir._arrange import RandomSeedConfig
    from weir._build import Build
    from weir._run import Run
    from weir._weir import Batch, Block, Flow


def quoted(name: str) -> str:
    """A column's name as the words of a step have it."""
    if '"' not in name and "\\" not in name:
        return f'"{name}"'
    if "'" not in name and "\\" not in name:
        return f"'{name}'"
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def column_reference(name: str) -> str:
    """A column inside of an expression."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'col("{escaped}")'


def cut_sizes(rows: int, count: int) -> list[int]:
    """How many rows each of `count` blocks has: block i ends at i × rows / count, rounded down."""
    ends = [(i + 1) * rows // count for i in range(count)]
    return [end - begin for begin, end in zip([0, *ends], ends)]


class Op:
    """One step. `names` as Ray's stats show them."""

    __slots__ = ("input",)
    input: Op | None
    others: tuple[Op, ...] = ()  # the other inputs, of operators that have several
    kind = "Op"  # in explain(): Read[ReadParquet]
    native: bool | None = None  # whether the engine runs it, with columns that are known before; None: if what is before it is so
    is_shown = True  # whether it is an operator to those who look at the plan; else it is a part of what is before or behind it
    pairs_rows = False  # whether rows of several inputs meet: then none of them can be cut short

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def inputs(self) -> tuple[Op, ...]:
        return (self.input, *self.others) if self.input is not None else ()

    def add(self, flow: Flow, build: Build) -> None:
        """Adds the step to a flow."""
        raise NotImplementedError(type(self).__name__)

    @property
    def is_native(self) -> bool:
        """Whether the whole plan up to here runs in the engine, with a schema that is known before it runs."""
        waiting: list[Op] = [self]  # no recursion: plans that loops make are thousands of steps long
        while waiting:
            op = waiting.pop()
            if op.native is None:
                waiting.extend(op.inputs)
            elif not op.native:
                return False
        return True

    def rows(self) -> int | None:
        """The number of rows, where it is known without a run."""
        return None

    def parts(self, run: Run) -> list[Op] | None:
        """What the engine runs instead, of operators that are no steps of a flow. None: it is one."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for cls in type(self).__mro__ for name in getattr(cls, "__slots__", ())}

    def __copy__(self) -> Op:
        made = type(self).__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def __reduce__(self) -> Any:
        """A chain as a list: pickles of nested objects are only so deep."""
        steps = []
        at: Op | None = self
        while at is not None and type(at).__reduce__ is Op.__reduce__ and at.input is not None:
            steps.append((type(at), {name: value for name, value in at.__getstate__().items() if name != "input"}))
            at = at.input
        if at is not None and type(at).__reduce__ is Op.__reduce__:  # a source
            steps.append((type(at), at.__getstate__()))
            at = None
        return _chained, (at, steps[::-1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def _chained(at: Op | None, steps: list[tuple[type[Op], dict[str, Any]]]) -> Op:
    """The last operator of a chain that was pickled."""
    for cls, state in steps:
        op = cls.__new__(cls)
        op.__setstate__(state)
        if "input" not in state:
            op.input = at
        at = op
    assert at is not None
    return at


def operators(op: Op) -> list[Op]:
    """A chain, and in front of each join in it the chain of its other side."""
    out: list[Op] = []
    for step in chain(op):
        out += operators(step.inputs[1]) if step.kind == "Join" else []
        out.append(step)
    return out


def chain(op: Op) -> list[Op]:
    """The operators from the source to this one; unions count as one."""
    ops: list[Op] = []
    at: Op | None = op
    while at is not None:
        ops.append(at)
        at = at.input
    ops.reverse()
    return ops


def walk(op: Op) -> Iterator[Op]:
    """This one and everything before it, sides of unions too."""
    waiting = [op]
    while waiting:
        at = waiting.pop()
        yield at
        waiting.extend(reversed(at.inputs))


def is_repeatable(op: Op) -> bool:
    """Whether a step draws numbers that are to be the same in each run: they go by where rows lie."""
    return any(getattr(step, "seed", None) is not None or any("\x01" in word for word in getattr(step, "words", ())) for step in walk(op))


# ---- sources ----


class Source(Op):
    """Where rows come from."""

    __slots__ = ()
    kind = "Read"

    def __init__(self) -> None:
        self.input = None


class Range(Source):
    """`count` numbers from `first` on, as `id`; in so many `blocks`, the i-th of which ends at i × count / blocks."""

    __slots__ = ("count", "blocks", "first")

    def __init__(self, count: int, blocks: int | None = None, first: int = 0) -> None:
        super().__init__()
        self.count = count
        self.blocks = blocks
        self.first = first

    @property
    def name(self) -> str:
        return "ReadRange"

    def rows(self) -> int | None:
        return self.count

    def add(self, flow: Flow, build: Build) -> None:
        options = [("blocks", str(self.blocks))] if self.blocks else []
        if self.first:
            options.append(("first", str(self.first)))
        flow.step("range", [str(self.count)], options)
        if self.blocks:
            build.block_rows = cut_sizes(self.count, self.blocks)


class Read(Source):
    """Files. `options` are words of the engine's read; `casts` give partitions their types. `part`: (i, n) for the i-th of n
    shards of the files or, where there are fewer than n, of each file's rows."""

    __slots__ = ("_name", "format", "listing", "options", "partitioning", "columns", "include_paths", "part")

    def __init__(
        self,
        name: str,
        format: str,
        listing: Listing,
        options: Sequence[tuple[str, str | None]],
        partitioning: Partitioning | None,
        columns: tuple[str, ...] | None,
        include_paths: bool,
    ) -> None:
        super().__init__()
        self._name = name
        self.format = format
        self.listing = listing
        self.options = tuple(options)
        self.partitioning = partitioning
        self.columns = columns
        self.include_paths = include_paths
        self.part: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return self._name

    def files(self, execution: int = 0) -> list[str]:
        """The files that a run reads now."""
        return self._my_files(execution)[0]

    def _my_files(self, execution: int) -> tuple[list[str], tuple[int, int] | None]:
        """The files, and the part of each of them that is read."""
        files = list_files(self.listing, execution)
        if self.part is None or len(files) < self.part[1]:
            return files, self.part
        # By their names: they may be shuffled, and differently elsewhere.
        order = sorted(range(len(files)), key=lambda k: files[k])
        return [files[k] for k in sorted(order[self.part[0] :: self.part[1]])], None

    def add(self, flow: Flow, build: Build) -> None:
        files, part = self._my_files(build.execution)
        # What pandas noted in a file says nothing of how its rows are given: Ray Data forgets it, too.
        options = [("format", self.format), *self.options, ("no-metadata", None)]
        options += _partition_options(self.partitioning)
        if self.include_paths:
            options.append(("path-column", "path"))
        if self.listing.ignore_missing:
            options.append(("missing", "skip"))
        if build.read_blocks:
            options.append(("blocks", str(build.read_blocks)))
        if part is not None:
            options.append(("part", f"{part[0]}/{part[1]}"))
        flow.step("read", files, options)
        types = self.partitioning.field_types if self.partitioning is not None else {}
        casts = [
            f"{quoted(name)}={_CASTS[kind].format(column_reference(name))}"
            for name, kind in types.items()
            if kind in _CASTS and (self.columns is None or name in self.columns)
        ]
        if casts:
            flow.step("with", casts)
        if self.columns is not None:
            columns = self.columns + (("path",) if self.include_paths and "path" not in self.columns else ())
            flow.step("select", [quoted(c) for c in columns])


_CASTS = {float: "cast({}, 'double')", bool: "cast({}, 'bool')"}


def _partition_options(partitioning: Partitioning | None) -> list[tuple[str, str | None]]:
    if partitioning is None:
        return [("no-hive", None)]
    options: list[tuple[str, str | None]] = [("partition-style", partitioning.style.value)]
    if partitioning.base_dir:
        from weir.datasource.listing import plain_path

        options.append(("partition-base", os.path.abspath(plain_path(partitioning.base_dir))))
    if partitioning.field_names:
        options.append(("partition-names", ",".join(quoted(n) for n in partitioning.field_names)))
    integers = [name for name, kind in partitioning.field_types.items() if kind is int]
    if integers:
        options.append(("partition-integers", ",".join(quoted(n) for n in integers)))
    return options


class ReadTasks(Source):
    """A user-defined source: its tasks run in workers (`_parts.resolve` makes a call of it). `spec`: that call's."""

    __slots__ = ("source", "read_args", "parallelism", "spec", "row_limit")
    native = False

    def __init__(self, source: Any, read_args: dict[str, Any], parallelism: int | None, spec: Any) -> None:
        super().__init__()
        self.source = source
        self.read_args = read_args
        self.parallelism = parallelism
        self.spec = spec
        self.row_limit: int | None = None  # of each task, when a limit follows

    @property
    def name(self) -> str:
        return self.spec.name  # type: ignore[no-any-return]

    def tasks(self, context: Any, cpus: float) -> list[Any]:
        """Its pieces, asked for anew."""
        from weir import _tasks

        size = None if self.parallelism is not None else _tasks.estimated_size(self.source, self.read_args)
        wanted = _tasks.parallelism(self.parallelism, size, cpus, context)
        return _tasks.tasks_of(self.source, self.read_args, wanted, self.row_limit, context)

    def of(self, source: Any, row_limit: int | None = None) -> ReadTasks:
        """The same of a source that was told something."""
        made = ReadTasks(source, self.read_args, self.parallelism, self.spec)
        made.row_limit = row_limit if row_limit is not None else self.row_limit
        return made

    def known_rows(self, context: Any) -> int | None:
        """How many rows its tasks say they have, if all do."""
        counts = [getattr(task.metadata, "num_rows", None) for task in self.tasks(context, 1)]
        return None if any(count is None for count in counts) else sum(int(count) for count in counts if count is not None)

    def known_schema(self, context: Any) -> Any:
        """The columns that its tasks say they have: pyarrow's, of the first that says it."""
        return next((schema for task in self.tasks(context, 1) if (schema := getattr(task, "schema", None)) is not None), None)

    def input_files(self, context: Any) -> list[str]:
        """The files that its tasks say they read."""
        return [path for task in self.tasks(context, 1) for path in task.metadata.input_files or ()]


_kept: weakref.WeakValueDictionary[tuple[str, int], Blocks] = weakref.WeakValueDictionary()


class Blocks(Source):
    """Data that is there: materialised, or made of Python objects."""

    __slots__ = ("_name", "blocks", "session", "fixed", "rules", "__weakref__")

    def __init__(self, name: str, blocks: Iterable[Block | Batch], session: str, fixed: bool = False, rules: str = "") -> None:
        super().__init__()
        self._name = name
        self.blocks = tuple(blocks)
        self.session = session
        self.fixed = fixed  # the user said how many: a call gets one of them
        self.rules = rules  # by which expressions over them compute: those of pandas for a frame (_expr_tree.computed_as)
        _kept[session, id(self)] = self

    @property
    def name(self) -> str:
        return self._name

    def rows(self) -> int | None:
        return sum(int(b.num_rows) for b in self.blocks)

    def add(self, flow: Flow, build: Build) -> None:
        build.check_session(self.session)
        from weir import _blocks

        flow.read_blocks(_blocks.chunks_of(self.blocks))

    def __reduce__(self) -> tuple[Any, ...]:
        core = sys.modules.get("weir.core.payload")
        if core is not None and core.nested.refs is not None:  # an argument of a task, say: its rows go along
            from weir import _blocks
            from weir.core import blocks

            rows = [blocks.packed(_blocks.as_batch(chunk)) for chunk in _blocks.chunks_of(self.blocks)]
            return _travelled, (self._name, rows, self.fixed, self.rules)
        from weir import _elsewhere

        return _find_blocks, (self.session, id(self), _elsewhere.address_of(self), self.rows(), self.name)


def _travelled(name: str, rows: list[Any], fixed: bool, rules: str = "") -> Blocks:
    from weir import _session
    from weir.core import blocks

    return Blocks(name, [blocks.unpacked(row) for row in rows], _session.current().id, fixed, rules)


_KEEP_FRAMES = ("with", "select", "rename", "filter", "shuffle")  # verbs after which rows of a frame are still one to expressions
_KEEP_FRAMES_KINDS = ("Limit", "Repartition", "RandomizeBlocks", "StreamingRepartition")


def rules_of(op: Op) -> str:
    """By which rules expressions compute over what an operator gives: those of its Blocks, as long as Ray Data would have frames still,
    else Arrow's. A sort, drop_columns and every function make Arrow tables of them."""
    at: Op | None = op
    while at is not None and not isinstance(at, (Blocks, Union)):
        if at.kind == "Zip":  # tables beside a frame are put into it
            return max(rules_of(side) for side in at.inputs)
        if at.kind not in _KEEP_FRAMES_KINDS and not (isinstance(at, Step) and at.verb in _KEEP_FRAMES and not at.is_function):
            return ""
        at = at.input
    if isinstance(at, Union):
        found = {rules_of(before) for before in at.inputs}
        return found.pop() if len(found) == 1 else ""
    return at.rules if at is not None else ""


def _find_blocks(session: str, key: int, address: str | None = None, rows: int = 0, name: str = "") -> Op:
    found = _kept.get((session, key))
    if found is not None:
        return found
    if address is None:
        raise ValueError(
            "a materialised Dataset can only be unpickled while the session that made it lives: write it to files, "
            "or pickle the Dataset before materialize()"
        )
    from weir._elsewhere import Elsewhere

    return Elsewhere(address, key, rows, name)


# ---- steps ----


class Step(Op):
    """A verb of the engine with its words."""

    __slots__ = ("verb", "words", "_name")
    kind = "Project"
    is_function = False  # whether Ray Data has a function in its place, whose results are tables

    def __init__(self, input: Op, verb: str, words: Sequence[str], name: str = "Project") -> None:
        self.input = input
        self.verb = verb
        self.words = tuple(words)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def keeps_rows(self) -> bool:
        return self.verb != "filter"

    @property
    def keeps_blocks(self) -> bool:
        """Whether each block of its output has the rows of one of its input."""
        return self.keeps_rows

    def rows(self) -> int | None:
        at: Op | None = self
        while isinstance(at, Step) and type(at).rows is Step.rows:
            if not at.keeps_rows:
                return None
            at = at.input
        assert at is not None
        return at.rows()

    def add(self, flow: Flow, build: Build) -> None:
        words = self.words
        if any("\x01" in word for word in words):  # a random number's seed, or the number of the run
            from weir._expr_places import fill

            words = tuple(fill(word, build.execution, build.random_seed) for word in words)
        flow.step(self.verb, words)


class Transform(Step):
    """What a preprocessor has the engine do."""

    __slots__ = ()
    is_function = True


class Filter(Step):
    """Rows for which an expression holds."""

    __slots__ = ("expr",)
    kind = "Filter"

    def __init__(self, input: Op, text: str, shown: str, expr: Any = None) -> None:
        super().__init__(input, "filter", [text], f"Filter({shown})")
        self.expr = expr  # for sources that can leave rows out themselves


class Drop(Step):
    """All columns but these; Ray Data has a function in its place."""

    __slots__ = ()
    kind = "MapBatches"

    def __init__(self, input: Op, columns: Sequence[str]) -> None:
        super().__init__(input, "drop", [quoted(column) for column in columns], "MapBatches(drop_columns)")


class Sample(Step):
    """Each row with the same probability."""

    __slots__ = ("seed",)
    kind = "MapBatches"

    def __init__(self, input: Op, fraction: float, seed: int | RandomSeedConfig | None) -> None:
        super().__init__(input, "keep", [repr(float(fraction))], "MapBatches(random_sample)")
        self.seed = seed

    @property
    def keeps_rows(self) -> bool:
        return False

    def add(self, flow: Flow, build: Build) -> None:
        seed, run = build.seed_and_run(self.seed)
        flow.step(self.verb, self.words, [("seed", str(seed))] + ([] if run is None else [("run", str(run))]))


class Limit(Op):
    """The first rows."""

    __slots__ = ("count",)
    kind = "Limit"

    def __init__(self, input: Op, count: int) -> None:
        self.input = input
        self.count = count

    @property
    def name(self) -> str:
        return f"limit={self.count}"

    def rows(self) -> int | None:
        least, at = self.count, self.input
        while isinstance(at, Limit):
            least, at = min(least, at.count), at.input
        assert at is not None
        rows = at.rows()
        return None if rows is None else min(rows, least)

    def add(self, flow: Flow, build: Build) -> None:
        flow.step("limit", [str(self.count)])


class Call(Op):
    """A Python function."""

    __slots__ = ("spec",)
    native = False

    def __init__(self, input: Op, spec: Any) -> None:
        self.input = input
        self.spec = spec

    @property
    def kind(self) -> str:  # type: ignore[override]
        word: str = self.spec.name.partition("(")[0]
        return "MapRows" if word == "Map" else word

    @property
    def name(self) -> str:
        return self.spec.name  # type: ignore[no-any-return]

    def add(self, flow: Flow, build: Build) -> None:
        build.add_call(flow, self.spec)


class Union(Op):
    """The rows of the first, then those of the others."""

    __slots__ = ("others",)
    kind = "Union"

    def __init__(self, input: Op, others: Sequence[Op]) -> None:
        self.input = input
        self.others = tuple(others)

    def rows(self) -> int | None:
        total = 0
        for op in self.inputs:
            rows = op.rows()
            if rows is None:
                return None
            total += rows
        return total

    def add(self, flow: Flow, build: Build) -> None:
        rows = [build.block_rows]
        for other in self.others:
            flow.union(build.flow(other))
            rows.append(build.block_rows)
        lists = [part for part in rows if isinstance(part, list)]
        build.block_rows = [count for part in lists for count in part] if len(lists) == len(rows) else None


class Repartition(Op):
    """So many blocks, in order; their sizes differ by one row at most."""

    __slots__ = ("count", "_name")
    kind = "Repartition"
    native = False

    def __init__(self, input: Op, count: int, name: str = "Repartition") -> None:
        self.input = input
        self.count = count
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def rows(self) -> int | None:
        assert self.input is not None
        return self.input.rows()


class ReadBlocks(Op):
    """A read in so many blocks: exactly, where the files are small or Parquet, whose footers say how many rows there are; of other
    files that are large, at least so many as far as the files allow, since counting rows first would mean to keep them all."""

    __slots__ = ("count",)
    kind = "SplitBlocks"
    native = True
    is_shown = False

    def __init__(self, input: Op, count: int) -> None:
        self.input = input
        self.count = count

    @property
    def name(self) -> str:
        return f"SplitBlocks({self.count})"

    def rows(self) -> int | None:
        return None

    def add(self, flow: Flow, build: Build) -> None:
        # The read before it has been told; who takes the rows cuts them where the pieces are not exactly these.
        if isinstance(self.input, Read) and self.input.format == "parquet" and not build.is_counting:
            rows = build.count_rows(self.input)
            build.block_rows = cut_sizes(rows, max(1, min(self.count, rows)))


class RepartitionRows(Op):
    """Blocks of so many rows, the last one aside. Whoever comes next cuts: a call by its batch size, a sink by its rows per
    file, a consumer by slicing."""

    __slots__ = ("count", "strict")
    kind = "StreamingRepartition"

    def __init__(self, input: Op, count: int, strict: bool) -> None:
        self.input = input
        self.count = count
        self.strict = strict

    @property
    def name(self) -> str:
        return f"StreamingRepartition[num_rows_per_block={self.count},strict={self.strict}]"

    def rows(self) -> int | None:
        assert self.input is not None
        return self.input.rows()

    def add(self, flow: Flow, build: Build) -> None:
        build.block_rows = self.count


def has_few_blocks(part: Op, bytes_most: int) -> bool:
    """Whether the blocks in front of native steps are the user's, and no more than may be held at once."""
    source, *steps = chain(part)
    if not all(isinstance(step, Step) and step.keeps_rows and step.keeps_blocks for step in steps):
        return False
    if isinstance(source, Range):
        return bool(source.blocks) and source.count * 8 <= bytes_most
    return isinstance(source, Blocks) and source.fixed and sum(block.nbytes for block in source.blocks) <= bytes_most


# ---- plans of plans ----


def with_input(op: Op, input: Op) -> Op:
    """The same operator behind another one."""
    if op.input is input:
        return op
    made = copy.copy(op)
    made.input = input
    return made


def is_nothing(op: Op) -> bool:
    """Whether all that the plan begins with has neither rows nor columns."""

    def has_none(source: Source) -> bool:
        return not source.count if isinstance(source, Range) else isinstance(source, Blocks) and not source.blocks

    sources = [source for source in walk(op) if isinstance(source, Source)]
    return bool(sources) and all(map(has_none, sources))


def told(op: Op, may_lose_rows: bool = False) -> Op:
    """What is before an operator; a user-defined source there is told what the operator wants of it, and so are functions that make one
    row of each, unless tasks that fail are left out."""
    before = op.input
    assert before is not None
    if isinstance(op, Limit):
        return _row_limited(before, op.count, may_lose_rows)
    if not isinstance(before, ReadTasks) or not isinstance(op, Step) or before.source.should_create_reader:
        return before
    source = before.source
    if isinstance(op, Filter) and op.expr is not None and source.supports_predicate_pushdown():
        return before.of(source.apply_predicate(op.expr))
    if op.verb == "select" and source.supports_projection_pushdown():
        names = [word[1:-1] for word in op.words]
        if not any("\\" in word for word in op.words):
            return before.of(source.apply_projection({name: name for name in names}))
    return before


def _row_limited(op: Op, count: int, may_lose_rows: bool) -> Op:
    """The plan whose functions get no more rows than are wanted, and whose user-defined source is told that no more rows of a task are,
    where nothing between leaves rows out."""
    steps: list[Op] = []
    at, has_calls = op, False
    while at.input is not None:
        is_call = isinstance(at, Call) and at.spec.keeps_rows and not may_lose_rows
        if isinstance(at, Limit) and not has_calls:
            count = min(count, at.count)
        elif not is_call and not (isinstance(at, Step) and at.keeps_rows and at.keeps_blocks):
            break
        has_calls = has_calls or is_call
        steps.append(at)
        at = at.input
    made: Op
    if isinstance(at, ReadTasks):
        made = at.of(at.source, count)
    elif has_calls and not (isinstance(at, Limit) and at.count <= count):
        made = Limit(at, count)
    else:
        return op
    for step in reversed(steps):
        made = with_input(step, made)
    return made
