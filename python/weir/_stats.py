"""stats() and explain(): Ray 2.60's texts, of the engine's figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weir import _plan
from weir._plan import Blocks, Call, Limit, Op, Repartition, RepartitionRows, Source, Step, Union

if TYPE_CHECKING:
    from weir.dataset import Dataset


# ---- explain ----


def _tree(op: Op, label: Any) -> list[str]:
    lines = [label(op)]
    for before in op.inputs:
        inner = _tree(before, label)
        lines.append("+- " + inner[0])
        lines += ["   " + line for line in inner[1:]]
    return lines


def _logical(op: Op) -> str:
    return f"{op.kind}[{op.name}]"


def _physical(op: Op) -> str:
    if isinstance(op, Limit):
        return f"LimitOperator[{op.name}]"
    if isinstance(op, Union):
        return "UnionOperator[Union]"
    if isinstance(op, Blocks):
        return "InputDataBuffer[Input]"
    if isinstance(op, Repartition):
        return f"AllToAllOperator[{op.name}]"
    pool = "ActorPoolMapOperator" if isinstance(op, Call) and op.spec.is_class else "TaskPoolMapOperator"
    return f"{pool}[{op.name}]"


def _physical_tree(op: Op, fused: bool) -> list[str]:
    group = [op]
    if fused:
        while _fuses(group[-1]):
            group.append(group[-1].input)  # type: ignore[arg-type]
    name = "->".join(o.name for o in reversed(group))
    label = _physical(op)
    lines = [label if len(group) == 1 else f"{label.partition('[')[0]}[{name}]"]
    last = group[-1]
    if isinstance(last, Source) and not isinstance(last, Blocks):
        inners = [["InputDataBuffer[Input]"]]
    else:
        inners = [_physical_tree(before, fused) for before in last.inputs]
    for inner in inners:
        lines.append("+- " + inner[0])
        lines += ["   " + line for line in inner[1:]]
    return lines


def _resources_of(op: Op) -> tuple[Any, ...]:
    if not isinstance(op, Call):
        return (None, None, None)
    spec = op.spec
    return (spec.num_cpus, spec.num_gpus, spec.memory)


def _fuses(op: Op) -> bool:
    """Whether an operator and the one before it run as one."""
    before = op.input
    if before is None or not isinstance(op, (Call, Step)) or isinstance(before, Blocks):
        return False
    if not isinstance(before, (Call, Step, Source)):
        return False
    if isinstance(before, Call) and before.spec.is_class:
        return False
    return _resources_of(op) == _resources_of(before) or not isinstance(before, Call)


def groups(op: Op) -> list[list[Op]]:
    """The operators as they run: those that are fused are together; from the source on."""
    out: list[list[Op]] = []
    at: Op | None = op
    while at is not None:
        group = [at]
        while _fuses(group[-1]):
            group.append(group[-1].input)  # type: ignore[arg-type]
        out.append(group[::-1])
        at = group[-1].input
    return out[::-1]


def explained(ds: Dataset) -> str:
    """What explain() prints."""
    op = getattr(ds, "_history", None) or ds._op
    logical = "\n".join(_tree(op, _logical))
    sections = [
        ("Logical Plan", logical),
        ("Logical Plan (Optimized)", logical),
        ("Physical Plan", "\n".join(_physical_tree(op, False))),
        ("Physical Plan (Optimized)", "\n".join(_physical_tree(op, True))),
    ]
    text = "\n".join(f"\n-------- {title} --------\n{body}" for title, body in sections)
    engine = _engine_plan(ds)
    return f"{text}\n\n-------- Engine --------\n{engine}\n" if engine else text + "\n"


def _engine_plan(ds: Dataset) -> str:
    from weir import _run

    if not ds._op.is_native or isinstance(ds._op, Blocks):
        return ""
    try:
        return str(_run.Build(ds.context).flow(ds._op).explain()).rstrip("\n")
    except (OSError, ValueError) as error:
        return f"not known: {error}"


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
    run = ds._last_run
    if run is None or not run.stats:
        return ""
    op = getattr(ds, "_history", None) or run.op
    figures = run.stats[-1]
    lines: list[str] = []
    names = groups(op)
    seconds = sum(s.get("elapsed_ns", 0) for s in run.stats) / 1e9
    stages = _stages(run.stats, names)
    for number, (group, stage) in enumerate(zip(names, stages), 1):
        lines += _operator(number, "->".join(o.name for o in group), stage, seconds)
        lines.append("")
    rows = sum(s.get("rows_out", 0) for s in run.stats)
    lines.append("Dataset throughput:")
    lines.append(f"\t* Ray Data throughput: {rows / seconds if seconds else 0.0} rows/s")
    lines.append("")
    lines += _memory(figures)
    lines += _iteration(ds)
    return "\n".join(lines).rstrip("\n") + "\n"


def _stages(stats: Iterable[dict[str, Any]], names: list[list[Op]]) -> list[dict[str, Any]]:
    """Figures of each group of operators: of its last one, summed over the parts of the run."""
    out: list[dict[str, Any]] = [{} for _ in names]
    for part in stats:
        listed = list(part.get("stages") or [])
        operators = list(part.get("operators") or [])
        for i in range(len(names)):
            figures = listed[i] if len(listed) == len(names) else {}
            rows = figures.get("rows", part.get("rows_out", 0) if i == len(names) - 1 else part.get("rows_in", 0))
            if not listed and i < len(names) - 1 and len(operators) > i:
                rows = operators[i].get("rows_out", rows)
            tasks = figures.get("tasks", part.get("splits_done", 0) or 1)
            into = out[i]
            into["rows"] = into.get("rows", 0) + rows
            into["tasks"] = into.get("tasks", 0) + tasks
            into["blocks"] = into.get("blocks", 0) + figures.get("outputs", tasks)
            into["bytes"] = into.get("bytes", 0) + figures.get("bytes", part.get("bytes_done", 0))
            into["ns"] = into.get("ns", 0) + figures.get("time_ns", sum(o.get("time_ns", 0) for o in operators))
            into["rows_in"] = into.get("rows_in", 0) + (0 if i == 0 else out[i - 1].get("rows", 0))
            into.setdefault("waits", {}).update(figures.get("waits") or {})
            for key in ("memory_peak", "memory_planned", "workers_peak"):
                if key in figures:
                    into[key] = max(into.get(key, 0), figures[key])
    return out


def _operator(number: int, name: str, stage: dict[str, Any], seconds: float) -> list[str]:
    tasks, blocks, rows = stage.get("tasks", 0), stage.get("blocks", 0), stage.get("rows", 0)
    spent = stage.get("ns", 0) / 1e9
    per = max(1, tasks)
    block_mean = rows // max(1, blocks)
    lines = [f"Operator {number} {name}: {tasks} tasks executed, {blocks} blocks produced in {round(seconds, 2)}s"]
    mean, whole = _seconds(spent / per), _seconds(spent)
    for title in ("Remote wall time", "Remote cpu time", "UDF time", "Block transform time"):
        lines.append(f"* {title}: {_spread(mean, mean, mean, whole)}")
    lines.append(f"* Output num rows per block: {_spread(block_mean, block_mean, block_mean, rows)}")
    size = stage.get("bytes", 0)
    size_mean = size // max(1, blocks)
    lines.append(f"* Output size bytes per block: {_spread(size_mean, size_mean, size_mean, size)}")
    task_mean = rows // per
    lines.append(f"* Output rows per task: {task_mean} min, {task_mean} max, {task_mean} mean, {tasks} tasks used")
    lines.append(f"* Tasks per node: {tasks} min, {tasks} max, {tasks} mean; 1 nodes used")
    for policy, waited in (stage.get("waits") or {}).items():
        if waited:
            lines.append(f"* Backpressure ({policy}): {_seconds(waited / 1e9)}")
    if "memory_peak" in stage:
        planned = stage.get("memory_planned")
        lines.append(
            f"* Memory of workers: {stage['memory_peak']} bytes measured"
            + (f", {planned} bytes planned" if planned is not None else "")
            + (f", {stage['workers_peak']} workers at most" if "workers_peak" in stage else "")
        )
    lines.append("* Operator throughput:")
    lines.append(f"\t* Total input num rows: {stage.get('rows_in', 0)} rows")
    lines.append(f"\t* Total output num rows: {rows} rows")
    lines.append(f"\t* Ray Data throughput: {rows / seconds if seconds else 0.0} rows/s")
    lines.append(f"\t* Estimated single task throughput: {rows / spent if spent else 0.0} rows/s")
    return lines


def _memory(figures: dict[str, Any]) -> list[str]:
    lines = ["Memory:"]
    lines.append(f"* Peak: {figures.get('memory_peak', 0)} bytes of a limit of {figures.get('memory_limit', 0)} bytes")
    waited = figures.get("wait_ns_memory", 0)
    if waited:
        lines.append(f"* Backpressure (memory): {_seconds(waited / 1e9)}")
    if figures.get("spilled_bytes"):
        lines.append(f"* Spilled: {figures['spilled_bytes']} bytes")
    return [*lines, ""]


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
