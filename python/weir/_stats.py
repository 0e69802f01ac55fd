"""stats() and explain(): Ray 2.60's texts, of the engine's figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weir import _call, _fuse, _plan
from weir._exchange import InKeyOrder
from weir._plan import Blocks, Call, Limit, Op, Read, ReadBlocks, ReadTasks, Repartition, RepartitionRows, Source, Step, Union

if TYPE_CHECKING:
    from weir._run import Run
    from weir.context import DataContext
    from weir.dataset import Dataset


# ---- explain ----


def _tree(op: Op, label: Any) -> list[str]:
    if not op.is_shown:
        return _tree(op.inputs[0], label)
    lines = [label(op)]
    for before in op.inputs:
        inner = _tree(before, label)
        lines.append("+- " + inner[0])
        lines += ["   " + line for line in inner[1:]]
    return lines


def _logical(op: Op) -> str:
    if isinstance(op, Blocks):
        name = op.name if op.name.startswith("From") else "InputData"
        return f"{name}[{name}]"
    return f"{op.kind}[{'Join' if op.kind == 'Join' else op.name}]"


def _physical(op: Op) -> str:
    if isinstance(op, Limit):
        return f"LimitOperator[{op.name}]"
    if isinstance(op, Union) or op.kind == "Zip":
        sides = ", ".join("Input" if isinstance(side, Blocks) else side.name for side in op.inputs)
        return f"{op.kind}Operator[{op.kind}Operator({sides})]"
    if isinstance(op, Blocks):
        return "InputDataBuffer[Input]"
    if op.kind == "Join":
        return f"JoinOperator[{op.name}]"
    if isinstance(op, Repartition) or op.kind == "RandomizeBlocks" or _is_exchange(op):
        return f"AllToAllOperator[{op.name}]"
    pool = "ActorPoolMapOperator" if isinstance(op, Call) and op.spec.is_class else "TaskPoolMapOperator"
    return f"{pool}[{op.name}]"


def _physical_tree(op: Op, context: DataContext | None) -> list[str]:
    """`context`: of the run, where neighbours are to be fused."""
    group = [op]
    while _is_one(group[-1]) or (context is not None and _fuses(group, context)):
        group.append(group[-1].input)  # type: ignore[arg-type]
    name = name_of(group[::-1], context is not None)
    label = _physical(op)
    lines = [label if len(group) == 1 else f"{label.partition('[')[0]}[{name}]"]
    last = group[-1]
    if isinstance(last, Source) and not isinstance(last, Blocks):
        inners = [["InputDataBuffer[Input]"]]
    else:
        inners = [_physical_tree(before, context) for before in last.inputs]
    for inner in inners:
        lines.append("+- " + inner[0])
        lines += ["   " + line for line in inner[1:]]
    return lines


def _resources_of(op: Op) -> tuple[Any, ...]:
    if not isinstance(op, Call):
        return (None, None, None)
    spec = op.spec
    return (spec.num_cpus, spec.num_gpus, spec.memory)


def _fuses(group: list[Op], context: DataContext) -> bool:
    """Whether the last of the group, the last operator first, counts as one with what is before it: as Ray's optimizer says, by the
    numbers of workers and the sizes of batches, too."""
    op, before = group[-1], group[-1].input
    if _is_one(op):
        return True
    if before is None or not isinstance(op, (Call, Step, RepartitionRows)) or isinstance(before, Blocks):
        return False
    # What needs all rows is never one with what follows, and only a shuffle is with what is before it.
    if _is_exchange(before) or (_is_exchange(op) and op.name != "RandomShuffle" and op.is_shown):
        return False
    if not context.optimize_fuse_stages or (isinstance(before, (Source, ReadBlocks)) and not context.optimize_fuse_read_stages):
        return False
    if not (isinstance(before, (Call, Step, Source)) or (isinstance(before, ReadBlocks) and _splits(before) == 1)) or not _pools_fit(group, before):
        return False
    if isinstance(op, RepartitionRows) and not _makes_whole_blocks(before, op):
        return False
    if _may_change_rows(before) and _wants_batches(group):
        return False
    return all(_resources_of(o) == _resources_of(before) for o in group if isinstance(o, Call)) if isinstance(before, Call) else True


def _pools_fit(group: list[Op], before: Op) -> bool:
    """Tasks go together where as many may run at once; into actors, too, where nothing was said of the tasks."""
    last = next((op for op in group if not _is_exchange(op) and not isinstance(op, Repartition)), None)
    (is_actors, most), (are_actors, most_before) = _pool(last), _pool(before)
    if are_actors or last is None:
        return not are_actors
    return most == most_before or (is_actors and not most_before)


def _pool(op: Op | None) -> tuple[bool, int]:
    """Whether actors run it, and how many at once at most; 0: any number."""
    return (op.spec.is_class, _call.pool_sizes(op.spec)["slots_max"]) if isinstance(op, Call) else (False, 0)


def _makes_whole_blocks(before: Op, cut: RepartitionRows) -> bool:
    """Whether batches of a function are blocks of so many rows already, one or several each."""
    if not isinstance(before, Call) or before.spec.kind != "map_batches":
        return False
    size = before.spec.batch_size
    return not cut.strict or (isinstance(size, int) and size % cut.count == 0)


def _may_change_rows(op: Op) -> bool:
    return isinstance(op, (Source, ReadBlocks)) or op.kind in ("Filter", "FlatMap")


def _wants_batches(group: list[Op]) -> bool:
    """Whether a function among them gets batches of a size, which tasks are filled up to. In front of exact blocks they are cut for those."""
    is_cut = isinstance(group[0], RepartitionRows) and group[0].strict
    calls = [op.spec for op in group[2 if is_cut else 0 :] if isinstance(op, Call)]
    return any(spec.kind == "map_batches" and isinstance(spec.batch_size, int) for spec in calls)


def _is_exchange(op: Op) -> bool:
    return isinstance(op, Step) and not op.keeps_blocks and op.kind not in ("Filter", "MapBatches")


def _is_one(op: Op) -> bool:
    """Whether it is always one with what is before it: the blocks of a read, and repartition(shuffle=True)."""
    return isinstance(op, (ReadBlocks, InKeyOrder)) or (isinstance(op, Repartition) and op.input is not None and not op.input.is_shown)


def _splits(op: ReadBlocks) -> int:
    """Into how many blocks each of the files is cut, where there are fewer of them than blocks."""
    files = len(op.input.files()) if isinstance(op.input, Read) else 1
    return -(-op.count // max(1, min(files, op.count)))


def name_of(group: list[Op], with_splits: bool = True) -> str:
    """What operators that run as one are called. `with_splits`: also how files are cut into blocks, which is known when they are read."""
    names = [op.name for op in group if op.is_shown]
    names[1:1] = [f"SplitBlocks({_splits(op)})" for op in group[:2] if with_splits and isinstance(op, ReadBlocks) and _splits(op) > 1]
    return "->".join(names)


def groups(op: Op, context: DataContext) -> list[list[Op]]:
    """The operators as they run: those that are fused are together; from the source on. A join comes behind both its sides."""
    out: list[list[Op]] = []
    at: Op | None = op
    while at is not None:
        group = [at]
        while _fuses(group, context):
            group.append(group[-1].input)  # type: ignore[arg-type]
        out.append(group[::-1])
        at = group[-1].input
        if group[-1].kind == "Join":
            out += groups(group[-1].inputs[1], context)[::-1]
    return out[::-1]


def explained(ds: Dataset) -> str:
    """What explain() prints."""
    op = getattr(ds, "_history", None) or ds._op
    logical = "\n".join(_tree(op, _logical))
    sections = [
        ("Logical Plan", logical),
        ("Logical Plan (Optimized)", logical),
        ("Physical Plan", "\n".join(_physical_tree(op, None))),
        ("Physical Plan (Optimized)", "\n".join(_physical_tree(op, ds.context))),
    ]
    text = "\n".join(f"\n-------- {title} --------\n{body}" for title, body in sections)
    title, engine = _engine_plan(ds)
    return f"{text}\n\n-------- {title} --------\n{engine}\n" if engine else text + "\n"


def _engine_plan(ds: Dataset) -> tuple[str, str]:
    """A title, and what the engine makes of the plan, or of the part in front of its first function: what is known without a run."""
    from weir import _build, _translated

    op: Op | None = ds._op
    title = "Engine"
    while op is not None and not op.is_native:
        title, op = f"Engine, in front of {op.name}", op.input
    if op is None or isinstance(op, Blocks):
        return title, ""
    try:
        with _translated.translated(ds.context):
            return title, str(_build.Build(ds.context).flow(op).explain()).rstrip("\n")
    except (OSError, ValueError) as error:
        return title, f"not known: {error}"


# ---- stats ----


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{round(value, 2)}s"
    if value >= 0.001:
        return f"{round(value * 1000, 2)}ms"
    return f"{round(value * 1e6, 2)}us"


def _spread(low: Any, high: Any, mean: Any, total: Any) -> str:
    return f"{low} min, {high} max, {mean} mean, {total} total"


def text(ds: Dataset) -> str:
    """What stats() returns: of the last run of the Dataset, or of the run that materialised it."""
    if ds._old:
        from weir import _legacy

        return _legacy.stats(ds)
    run = told(ds)
    if run is None or not run.stats:
        return "" if run is None else _of_given(ds, run)
    op = getattr(ds, "_history", None) or run.op
    figures = run.stats[-1]
    lines: list[str] = []
    names = groups(op, ds.context)
    seconds = sum(s.get("elapsed_ns", 0) for s in run.stats) / 1e9
    stages = _stages(run.stats, names, ds.context)
    # Rows that were given are operator 0: nothing ran for them.
    first = 0 if names and isinstance(names[0][0], Blocks) and names[0][0].name.startswith("From") else 1
    if first == 0:
        stages[0]["tasks"] = 1
    for number, (group, stage) in enumerate(zip(names, stages), first):
        lines += _operator(number, name_of(group), stage, seconds)
        lines.append("")
    rows = sum(s.get("rows_out", 0) for s in run.stats)
    lines.append("Dataset throughput:")
    lines.append(f"\t* Ray Data throughput: {rows / seconds if seconds else 0.0} rows/s")
    lines.append("")
    lines += _memory(figures, run.spilled)
    lines += _exchanges(run.stats)
    lines += _iteration(ds)
    return "\n".join(lines).rstrip("\n") + "\n"


def told(ds: Dataset) -> Run | None:
    """The run that stats() tells of: the last one; where that had nothing to do but hand out rows that are there, the one that made
    them, if they were made."""
    run = ds._last_run
    made: Run | None = getattr(ds, "_made", None)
    return made if made is not None and made.stats and (run is None or not run.stats) else run


def _of_given(ds: Dataset, run: Run) -> str:
    """Of rows that were given (from_items, from_pandas …), which nothing ran for."""
    lines: list[str] = []
    for number, (name, stage) in enumerate(given_stages(run)):
        lines += [*_operator(number, name, stage, 0.0), ""]
    return "\n".join([*lines, *_iteration(ds)]).rstrip("\n") + "\n" if lines else ""


def given_stages(run: Run) -> list[tuple[str, dict[str, Any]]]:
    """Operators and their figures, where there is nothing but rows that were given, and a limit."""
    ops = _plan.operators(run.op)
    source = ops[0]
    if not isinstance(source, Blocks) or not source.name.startswith("From") or not all(isinstance(op, Limit) for op in ops[1:]):
        return []
    sizes = [(int(block.num_rows), int(block.nbytes)) for block in source.blocks]
    out: list[tuple[str, dict[str, Any]]] = []
    rows_in = 0
    for op in ops:
        if isinstance(op, Limit):
            sizes = _first_of(sizes, op.count)
        rows = sum(rows for rows, _ in sizes)
        size = sum(size for _, size in sizes)
        out.append((op.name, {"tasks": 1, "blocks": len(sizes), "rows": rows, "bytes": size, "rows_in": rows_in, "waits": {}}))
        rows_in = rows
    return out


def _first_of(sizes: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Rows and bytes of the blocks that the first rows lie in."""
    out: list[tuple[int, int]] = []
    for rows, size in sizes:
        if count <= 0:
            break
        taken = min(rows, count)
        out.append((taken, size * taken // max(1, rows)))
        count -= taken
    return out


def _stages(stats: Iterable[dict[str, Any]], names: list[list[Op]], context: DataContext) -> list[dict[str, Any]]:
    """Figures of each group of operators, summed over the parts of the run."""
    out: list[dict[str, Any]] = [{"waits": {}} for _ in names]
    done: set[int] = set()  # operators whose rows were kept for what needs all of them
    for part in stats:
        stages = list(part.get("stages") or [])
        kept = part.get("operators_kept")
        covered = _between(names, part.get("operators_from", 0), kept, done)
        if kept:
            done |= set(range(part.get("operators_from", 0), kept))
        numbers = _stage_numbers([group for _, group in covered], stages, context)
        natives = _native_operators([group for _, group in covered], stages, part)
        for at, (i, group) in enumerate(covered):
            mine = [stages[n] for n in numbers[at]] if numbers else []
            before = {key: out[i].get(key, 0) for key in ("rows", "bytes", "rows_in", "blocks")}
            before_ns = out[i].get("ns", 0)
            _add_stage(out[i], mine, part, is_first=i == 0, is_last=at == len(covered) - 1)
            if natives:
                rows = natives[at][-1]["rows_out"]
                out[i]["rows"] = before["rows"] + rows
                out[i]["bytes"] = before["bytes"] + _native_bytes(part, rows)
                out[i]["rows_in"] = before["rows_in"] + _rows_in(natives, [ops for _, ops in covered], at)
                out[i]["ns"] = before_ns + sum(operator["time_ns"] for operator in natives[at])
            if group[-1] is not names[i][-1]:  # of rows that its last operator has not seen
                out[i].update(before)
    return out


def _native_operators(
    names: list[list[Op]], stages: list[dict[str, Any]], part: dict[str, Any]
) -> list[list[dict[str, Any]]]:
    """The engine's operators of each group, where lanes alone ran them, one for one; else none."""
    operators = list(part.get("operators") or [])
    flat = [op for group in names for op in group]
    if sum(op.kind == "Join" for op in flat) == 1 and len(stages) <= 1:
        operators = _fitted_join(flat, operators)
    if len(stages) > 1 or len(operators) != len(flat):
        return []
    out: list[list[dict[str, Any]]] = []
    for group in names:
        out.append(operators[: len(group)])
        operators = operators[len(group) :]
    return out


def _rows_in(natives: list[list[dict[str, Any]]], names: list[list[Op]], at: int) -> int:
    """What came to a group of operators."""
    first = names[at][0]
    if at == 0 or isinstance(first, Source):
        return 0
    if first.kind != "Join":
        return int(natives[at - 1][-1]["rows_out"])
    ends = {id(ops[-1]): n for n, ops in enumerate(names)}
    return sum(natives[ends[id(side)]][-1]["rows_out"] for side in first.inputs if id(side) in ends)


def _fitted_join(ops: list[Op], operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The engine's operator of each of the plan's, where one is a join; none where they cannot be told. The engine runs one side,
    says which it was, runs the other and then the join; and a filter may have passed below it."""
    names = [operator["name"] for operator in operators]
    sides = [i for i, name in enumerate(names) if name in ("join left", "join right")]
    if "join" not in names or not sides:
        return []
    at = next(i for i, op in enumerate(ops) if op.kind == "Join")
    right = {id(op) for op in _plan.operators(ops[at].inputs[1])}
    end = names.index("join")
    first = operators[: sides[0]]
    second = [operator for operator in operators[sides[0] : end] if operator["name"] not in ("join left", "join right")]
    if names[sides[0]] == "join right":
        first, second = second, first
    middle = sum(id(op) not in right for op in ops[:at])
    found = [_fit(ops[:middle], first), _fit(ops[middle:at], second), [operators[end]], _fit(ops[at + 1 :], operators[end:])]
    return [operator for some in found for operator in some]


def _fit(ops: list[Op], operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as there are of the plan's; where the engine has others, the last one is that of the last."""
    if len(operators) > len(ops):
        operators = operators[-len(ops) :] if ops else []
    return operators + [operators[-1]] * (len(ops) - len(operators)) if operators else []


def _between(names: list[list[Op]], begin: int, end: int | None, done: set[int]) -> list[tuple[int, list[Op]]]:
    """The operators of each group from one number to another that are not done yet, of groups that have some."""
    out: list[tuple[int, list[Op]]] = []
    at = 0
    for i, group in enumerate(names):
        mine = [
            op for number, op in enumerate(group, at) if number >= begin and (end is None or number < end) and number not in done
        ]
        at += len(group)
        if mine:
            out.append((i, mine))
    return out


def _stage_numbers(names: list[list[Op]], stages: list[dict[str, Any]], context: DataContext) -> list[list[int]] | None:
    """Which of the engine's stages each group ran in. A call has one of its own; what is native between two shares one. None:
    the engine ran something else (parts of a union)."""
    out: list[list[int]] = []
    at = -1
    native = False
    steps = [Call(op, op.spec) if isinstance(op, ReadTasks) else op for group in names for op in group]
    together = {id(op) for run in _fuse.runs(steps, context) for op in run[1:]}
    for group in names:
        mine: list[int] = []
        for op in group:
            if id(op) in together:
                pass  # it ran in the worker of the one before
            elif isinstance(op, (Call, ReadTasks)):
                at += 2 if isinstance(op, ReadTasks) else 1  # what hands its tasks out is a stage, too
                native = False
            elif not native:
                at += 1
                native = True
            if at >= len(stages) or (stages[at]["name"] == "native") == isinstance(op, (Call, ReadTasks)):
                return None
            if at not in mine:
                mine.append(at)
        out.append(mine)
    return out


def _add_stage(
    into: dict[str, Any], mine: list[dict[str, Any]], part: dict[str, Any], is_first: bool, is_last: bool
) -> None:
    def add(key: str, value: int) -> None:
        into[key] = into.get(key, 0) + value

    if mine:
        last, first = mine[-1], mine[0]
        tasks = last["tasks_done"]
        add("rows", part.get("rows_out", 0) if is_last else last["rows_out"])
        add("bytes", last["bytes_out"] or part.get("bytes_done", 0))
        add("rows_in", 0 if is_first else first["rows_in"])
    else:
        tasks = part.get("splits_done", 0)
        rows = part.get("rows_out", 0) if is_last else part.get("rows_in", 0)
        add("rows", rows)
        add("bytes", _native_bytes(part, rows))
        add("rows_in", 0 if is_first else part.get("rows_in", 0))
    add("tasks", tasks or 1)
    add("blocks", (mine[-1]["outputs"] if mine else 0) or tasks or 1)
    calls = [stage for stage in mine if stage["name"] != "native"]
    native = sum(o.get("time_ns", 0) for o in part.get("operators") or [])
    add("ns", sum(stage["busy_ns"] for stage in calls) if calls else native)
    for stage in mine:
        for policy, waited in stage["wait_ns"].items():
            into["waits"][policy] = into["waits"].get(policy, 0) + waited
    if mine and mine[-1]["outputs"]:
        for key in ("output_rows", "output_bytes"):
            _widen(into.setdefault("outputs", {}), key, mine[-1][key])
    timed = into.setdefault("times", {})
    for stage in calls:
        if stage["tasks_timed"]:
            timed["tasks"] = timed.get("tasks", 0) + stage["tasks_timed"]
            for key in ("wall_ns", "cpu_ns", "call_ns"):
                _widen(timed, key, stage[key])
        into["memory_peak"] = max(into.get("memory_peak", 0), stage["memory_peak"])
        into["memory_planned"] = max(into.get("memory_planned", 0), stage["memory_assumed"])
        into["workers_peak"] = max(into.get("workers_peak", 0), stage["slots_peak"])
        for key in ("retries", "deaths", "tasks_errored"):
            add(key, stage[key])


def _native_bytes(part: dict[str, Any], rows: int) -> int:
    """Of rows that an operator in front of the last one gives: as wide as those that left the run, where any did. What is written or
    counted is not measured; there it is the estimate of what was read."""
    left, delivered = int(part.get("rows_out", 0)), int(part.get("bytes_out", 0))
    return delivered * rows // left if left and delivered else int(part.get("bytes_done", 0))


def _widen(spreads: dict[str, Any], key: str, by: dict[str, int]) -> None:
    low, high, total = spreads.get(key, (by["min"], 0, 0))
    spreads[key] = (min(low, by["min"]), max(high, by["max"]), total + by["total"])


def _of_blocks(stage: dict[str, Any], key: str, total: int) -> str:
    """The smallest, largest and mean block. What is native alone hands blocks over that nobody counts: the mean of all stands for them."""
    mean = total // max(1, stage.get("blocks", 0))
    low, high, counted = stage.get("outputs", {}).get(key, (mean, mean, total))
    return _spread(low, high, mean, total) if counted == total else _spread(mean, mean, mean, total)


def _operator(number: int, name: str, stage: dict[str, Any], seconds: float) -> list[str]:
    tasks, blocks, rows = stage.get("tasks", 0), stage.get("blocks", 0), stage.get("rows", 0)
    spent = stage.get("ns", 0) / 1e9
    per = max(1, tasks)
    lines = [f"Operator {number} {name}: {tasks} tasks executed, {blocks} blocks produced in {round(seconds, 2)}s"]
    mean, whole = _seconds(spent / per), _seconds(spent)
    for title, key in _TIMES.items():
        spread = _times(stage.get("times", {}), key) or _spread(mean, mean, mean, whole)
        lines.append(f"* {title}: {spread}")
    lines.append(f"* Output num rows per block: {_of_blocks(stage, 'output_rows', rows)}")
    lines.append(f"* Output size bytes per block: {_of_blocks(stage, 'output_bytes', stage.get('bytes', 0))}")
    task_mean = rows // per
    lines.append(f"* Output rows per task: {task_mean} min, {task_mean} max, {task_mean} mean, {tasks} tasks used")
    lines.append(f"* Tasks per node: {tasks} min, {tasks} max, {tasks} mean; 1 nodes used")
    lines += backpressure(stage, seconds)
    if "memory_peak" in stage:
        lines.append(
            f"* Memory of a worker: {stage['memory_peak']} bytes measured, {stage['memory_planned']} bytes planned; "
            f"{stage['workers_peak']} workers at most"
        )
    troubles = [f"{stage[key]} {what}" for key, what in _TROUBLES.items() if stage.get(key)]
    if troubles:
        lines.append(f"* Troubles: {', '.join(troubles)}")
    lines.append("* Operator throughput:")
    lines.append(f"\t* Total input num rows: {stage.get('rows_in', 0)} rows")
    lines.append(f"\t* Total output num rows: {rows} rows")
    lines.append(f"\t* Ray Data throughput: {rows / seconds if seconds else 0.0} rows/s")
    lines.append(f"\t* Estimated single task throughput: {rows / spent if spent else 0.0} rows/s")
    return lines


def _times(times: dict[str, Any], key: str) -> str:
    """As workers measured it, task by task; empty where none did (native operators)."""
    if key not in times:
        return ""
    low, high, total = (ns / 1e9 for ns in times[key])
    return _spread(_seconds(low), _seconds(high), _seconds(total / times["tasks"]), _seconds(total))


# What of a task in a worker: all of it; the work of its threads; inside the function; all, with what is made of rows and results.
_TIMES = {
    "Remote wall time": "wall_ns",
    "Remote cpu time": "cpu_ns",
    "UDF time": "call_ns",
    "Block transform time": "wall_ns",
}
WORTH_NS, WORTH_PART = 20_000_000, 0.05  # in each run some task waits a moment, for its turn or for a worker


def backpressure(stage: dict[str, Any], seconds: float) -> list[str]:
    """What tasks that could have run waited for, as a line; none where that was little, or a small part of the operator's time.

    >>> backpressure({"waits": {"slot": 20_000_000, "memory": 400_000_000}}, 1.5)
    ['* Backpressure: memory 400.0ms']
    """
    waits = [f"{policy} {_seconds(ns / 1e9)}" for policy, ns in stage["waits"].items() if ns >= max(WORTH_NS, WORTH_PART * seconds * 1e9)]
    return [f"* Backpressure: {', '.join(waits)}"] if waits else []
_TROUBLES = {"deaths": "workers died", "retries": "tasks ran again", "tasks_errored": "tasks failed and were left out"}


def _memory(figures: dict[str, Any], disk: tuple[int, int]) -> list[str]:
    lines = ["Memory:"]
    lines.append(f"* Peak: {figures.get('memory_peak', 0)} bytes of a limit of {figures.get('memory_limit', 0)} bytes")
    waited = figures.get("wait_ns_memory", 0)
    if waited:
        lines.append(f"* Backpressure (memory): {_seconds(waited / 1e9)}")
    if any(disk):
        lines.append(f"* Disk: {disk[0]} bytes written there meanwhile, {disk[1]} bytes read back")
    return [*lines, ""]


def _exchanges(stats: Iterable[dict[str, Any]]) -> list[str]:
    """A line for each step that needed all rows before it gave the first."""
    lines = []
    for one in (exchange for part in stats for exchange in part.get("exchanges") or []):
        line = f"* {one['name']}: {one['rows']} rows, {one['bytes']} bytes kept, {one['bytes_spilled']} bytes spilled, "
        line += f"{one['bytes_read']} bytes restored"
        if one["runs"]:
            line += f"; {one['runs']} sorted runs"
        if one["partitions"]:
            line += f"; {one['partitions']} partitions"
            if one["rows"] and one["partition_rows_max"]:
                line += f", the largest {one['partition_rows_max'] * one['partitions'] / one['rows']:.2f} x the mean"
        lines.append(f"{line}; depth {one['depth']}")
    return ["Exchanges:", *lines, ""] if lines else []


def _iteration(ds: Dataset) -> list[str]:
    times = ds._iteration
    if times is None or not times.batches:
        return []
    return [
        "Dataset iterator time breakdown:",
        f"* Total time overall: {_seconds(times.total)}",
        f"* Total time user thread is blocked by Ray Data iter_batches: {_seconds(times.blocked)}",
        f"* Total time spent waiting for the first batch after starting iteration: {_seconds(times.first)}",
        f"* Total execution time for user thread: {_seconds(times.user)}",
        f"* Batches: {times.batches}",
        "",
    ]
