"""A worker process: takes batches, runs the user's function over them, gives the results back.

    main() ─▶ enter(head) ─▶ make(head, objects) ─▶ for each task: apply(function, batch) ─▶ batches

What happens to the data is _apply.py's. A worker runs one thread. It starts as a fork of the zygote, with its descriptors in
place; the engine's half of it (weir._weir.Worker) does the talking.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from weir import _apply, _errors, _forks, _setup
from weir._apply import Constructing, Function, Stopped, apply, group_of, make, parts
from weir._errors import WrongReturn
from weir._shortage import RoomToSaySo, give_back, shortage

IDLE_MS = 200              # without work for so long, a worker gives free memory back

_inside: str | None = None
_resources: dict[str, float] = {}
_gpus: list[str] = []
_is_actor = False
_task = 0


def inside() -> str | None:
    """The operator that this process works for, when it is a worker."""
    return _inside


def standing() -> tuple[str, int, bool] | None:
    """The name of the function that this process runs, the number of its task and whether it is one of a pool of actors; None: it runs none."""
    return None if _inside is None else (_inside, _task, _is_actor)


def given() -> tuple[dict[str, float], list[str]]:
    """What this process was given, when it is a worker: CPU, GPU and memory as the user said, and the GPUs by name."""
    return _resources, _gpus


def enter(head: Mapping[str, Any], number: int = 0) -> None:
    """Makes this process see the world that the driver saw when the run started."""
    global _inside, _resources, _gpus, _is_actor
    from weir import _session

    _inside = head["name"]
    _apply.is_worker = True
    _is_actor = head.get("is_actor", False)
    _resources = head.get("resources", {})
    if "memory" in head:  # a Dataset that runs in a function has a session of its own, with a share of what there is
        _session.set_share(memory_limit=head["memory"], num_cpus=head["threads"])
    if head["num_gpus"]:
        _gpus = visible_gpus(head["gpus"], head["num_gpus"], number)
        head["environ"]["CUDA_VISIBLE_DEVICES"] = ",".join(_gpus)
    if head.get("core"):
        from weir.core import runtime

        runtime.use(None, head["core"])
    adopt(head)


def adopt(head: Mapping[str, Any]) -> None:
    """The driver's environment, folder, paths and arguments."""
    environ = head["environ"]
    for name in set(os.environ) - set(environ):
        del os.environ[name]
    for name, value in environ.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    # Lets the zygote tell whose a stray process is (see _zygote.py).
    os.environ["WEIR_WORKER"] = str(os.getpid())
    if head["cwd"] is not None:
        try:
            os.chdir(head["cwd"])
        except OSError as error:
            raise RuntimeError(f"the working directory of the driver cannot be entered: {error}") from None
    sys.path[:] = head["sys_path"]
    sys.argv[:] = head["argv"]
    if "numpy.random" in sys.modules:  # otherwise it seeds itself when it is imported
        sys.modules["numpy.random"].seed()
    if head["threads"] > 1:
        set_threads(head["threads"])


def _enter_context(context: Any) -> None:
    """DataContext.get_current() is that of the Dataset which runs."""
    if context is not None:
        from weir.context import DataContext

        DataContext._set_current(context)


def visible_gpus(pool: list[str], share: float, number: int) -> list[str]:
    """The GPUs of worker `number` when each gets `share` of one, or so many.

    >>> visible_gpus(["0", "1"], 0.5, 3), visible_gpus(["4", "5", "6", "7"], 2, 1)
    (['1'], ['6', '7'])
    """
    if not pool:
        return []
    if share < 1:
        return [pool[number // max(1, int(1 / share)) % len(pool)]]
    count = min(int(share), len(pool))
    first = number * count % (len(pool) - len(pool) % count)
    return pool[first:first + count]


def set_threads(count: int) -> None:
    """Tells libraries that were loaded with one thread that they may use more."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
    import ctypes

    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
                     "openblas_set_num_threads64_", "openblas_set_num_threads"):
            try:
                function = getattr(library, name)
            except AttributeError:
                continue
            function(count)
            break


def main() -> None:
    """The life of a worker, from its greeting to its end."""
    from weir import _weir

    worker = _weir.Worker()
    begun = Beginning(worker)
    if not begun.succeeds():
        if not begun.is_short:
            return
        worker.short()
    is_trimmed = False
    while True:
        try:
            task = worker.next(-1 if is_trimmed else IDLE_MS)
        except (ValueError, TypeError) as error:  # blocks that cannot be one batch
            worker.failed(_errors.pack(_errors.ArrowConversionError(str(error)), "input"))
            continue
        except MemoryError as error:  # rows of several blocks are one batch, for which there is no room
            with RoomToSaySo() as bound:
                worker.failed(_errors.pack(error, "gathered", bound=bound), memory=True)
            continue
        if task is None:
            break
        is_trimmed = task == "idle"
        if is_trimmed:
            give_back()
        elif begun.function is not None:
            run_task(worker, begun.function, task)
        elif begun.succeeds(for_task=True) and begun.function is not None:
            run_task(worker, begun.function, task)
        elif not begun.is_short:
            return
        del task
    if begun.function is not None:
        begun.function.close()
    begun.function = None  # a class's __del__ runs before the process ends
    _forks.flush()


class Beginning:
    """What a worker has to do before its first batch: load the function and what it refers to, make a class's object. Where memory does not
    suffice for that, its first batch has it tried again; and if it is repeated alone for it, all memory there is."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.function: Function | None = None
        self.is_short = self._has_entered = self._is_watched = False

    def succeeds(self, for_task: bool = False) -> bool:
        """Whether there is a function now. An error that would come anywhere ends the run; what memory was short for is the task's, if there is
        one."""
        shortage.begin()
        try:
            self._begin()
        except BaseException as error:
            cause, kind = error, "setup"
            if isinstance(error, Constructing) and error.__cause__ is not None:
                cause, kind = error.__cause__, "constructor"
            if _forks.is_fork:
                _forks.leave(cause)
            with RoomToSaySo() as bound:
                self.is_short = shortage.explains(cause, bound)
                if not self.is_short:
                    self.worker.broken(_errors.pack(cause, kind))  # type: ignore[arg-type]
                elif for_task:
                    self.worker.failed(_errors.pack(cause, kind, bound=bound), memory=True)  # type: ignore[arg-type]
                _let_go(error, cause)
            del error, cause
            _forks.flush()
            give_back()
        return self.function is not None

    def _begin(self) -> None:
        head = _setup.read(self.worker.setup)
        if not self._has_entered:
            enter(head, self.worker.number)
            self._has_entered = True
        objects = _setup.load(self.worker.setup, head)
        _enter_context(objects.get("context"))
        if objects.get("group") is not None:
            from weir.core import runtime

            runtime.group = objects["group"]
        if not self._is_watched:
            _forks.watch()
            self._is_watched = True
        self.function = make(head, objects)
        if _forks.is_fork:
            _forks.leave()


def _let_go(*errors: BaseException) -> None:
    """Whatever the frames of these errors refer to is free: half of a model, mostly."""
    import gc

    for error in errors:
        error.__traceback__ = error.__cause__ = error.__context__ = None
    gc.collect()


def run_task(worker: Any, function: Function, task: Any) -> None:
    """One task, from its rows to its answer."""
    global _task
    _task = task.number
    shortage.begin()
    batch = task.batch
    function.task = task.number
    kept = task.rows_kept
    function.call_ns = 0
    del task
    count = batch.num_rows
    columns = batch.names
    function.rows = (0, max(0, count - 1))
    function.at = worker.at
    try:
        for result in apply(function, batch):
            if kept:  # an earlier attempt has given these, and they are on their way
                left = min(kept, result.num_rows)
                result, kept = result.slice(left, result.num_rows), kept - left
                if result.num_rows == 0:
                    continue
            if result.nbytes > function.piece and result.nbytes > worker.room:
                for part in parts(result, function.piece):
                    worker.output(part)
                    del part
            else:
                worker.output(result)
            del result
    except BaseException as error:  # sys.exit and KeyboardInterrupt, too: they are the function's
        if _forks.is_fork:
            _forks.leave(error)
        group = group_of(function, batch)
        del batch
        _forks.flush()
        if isinstance(error, Stopped) and error.__cause__ is not None:
            error = error.__cause__
        kind: _errors.Kind = "returned" if isinstance(error, WrongReturn) else "error"
        name, rows = getattr(function.call, "place", None) or ("", function.rows)  # of several: the one that failed
        with RoomToSaySo() as bound:
            worker.failed(_errors.pack(error, kind, rows, count, name, () if name else columns, group, bound),
                          memory=shortage.explains(error, bound))
        return
    # Nothing here may refer to the input any more: what does so now is the user's, and is charged to this worker.
    del batch
    _forks.flush()
    worker.done(function.call_ns)
