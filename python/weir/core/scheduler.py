"""Which task runs when and where.

    add ─▶ waits for its arguments ─▶ a line of its kind ─▶ dispatch: resources and a worker are there ─▶ done | died
                                                                  ▲                                         │
                                                                  └────────── tried again ──────────────────┘

Tasks with the same wants stand in one line; lines do not wait for each other. An actor's creation stands in a line like a task, its
methods in the actor's own (actors.py). All under the node's lock.
"""
from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from weir.core import errors, ids
from weir.core import messages as m
from weir.core.payload import ERROR, Payload, dump
from weir.core.processes import WorkerProcess, how_it_ended
from weir.core.resources import Group, Pool
from weir.core.tasks import CREATE, FUNCTION, METHOD, STREAMING, Task
from weir.core.waits import Waits

if TYPE_CHECKING:
    from weir.core.node import Node

PROCESSES_MAX = 512  # that run tasks at once; those that wait for others do not count
IDLE_S = 2.0         # one more than there are CPUs ends after so long without work

Values = list[tuple[Payload, int]]


class Scheduler:
    """See the top."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tasks: dict[bytes, Task] = {}  # all that have not ended
        self.lines: dict[object, deque[Task]] = {}
        self.idle: dict[str, list[WorkerProcess]] = {}
        self.workers: set[WorkerProcess] = set()
        self.groups: dict[bytes, Group] = {}
        self.waits = Waits(node)
        self.none = dump(None, "None").store()[0]

    # ---- beginning ----

    def check(self, task: Task) -> None:
        """Raises if there will never be enough for it."""
        options = task.options
        if task.kind == METHOD:
            return
        wanted = options.placing
        if options.group is not None:
            group = self.groups.get(options.group)
            if group is None or group.is_removed:
                raise ValueError(f"{task.name}: its placement group was removed, or is of another session")
            bundles = group.bundles if options.bundle < 0 else group.bundles[options.bundle:options.bundle + 1]
            if not bundles:
                raise ValueError(f"placement group bundle index {options.bundle} is invalid. Valid placement group indexes: "
                                 f"0-{len(group.bundles) - 1}")
            if all(Pool(bundle, []).could_ever(wanted) for bundle in bundles):
                raise ValueError(f"Cannot schedule {task.name} with the placement group because the resource request {wanted} cannot "
                                 f"fit into any bundles for the placement group, {group.bundles}.")
            return
        name = self.node.pool.could_ever(wanted)
        if name is not None:
            there = self.node.pool.total.get(name, 0.0)
            how = {"CPU": "num_cpus=…", "GPU": "num_gpus=…", "memory": "memory=…"}.get(name, f"resources={{{name!r}: …}}")
            raise ValueError(f"{task.name} wants {wanted[name]:g} {name}, and the session has {there:g}: it could never run. "
                             f"init({how}) declares more, also more than the machine has")

    def add(self, task: Task) -> None:
        """A new task; its outputs are in the store."""
        store = self.node.store
        self.tasks[task.id] = task
        assert task.args is not None
        for id in task.args.nested:
            store.hold(id)
        for id in _all_needs(task):
            if not store.hold(id):
                store.create(id, 1)
                store.fill(id, errors.of_system(self.node.lost(id)), -1)
        if task.peer is not None:
            try:
                self.check(task)
            except ValueError as error:
                self.fail(task, errors.of_system(error))
                return
        parent = self.tasks.get(task.parent)
        if parent is not None and parent.ends_children and task.kind == FUNCTION:
            self.fail(task, self.cancelled(task))
            return
        if task.kind == METHOD:
            self.node.actors.add(task)
        elif task.kind == CREATE and not self.node.actors.begin(task):
            return
        self._await_needs(task)

    def _await_needs(self, task: Task) -> None:
        entries = self.node.store.entries
        pending = {id for id in task.needs if entries[id].payload is None}
        task.missing = len(pending)
        if not pending:
            self._ready(task)
            return

        def arrived(id: bytes, is_error: bool) -> None:
            task.missing -= 1
            if task.missing == 0 and task.id in self.tasks:
                self._ready(task)

        for id in pending:
            entry = entries[id]
            entry.waiters = [*(entry.waiters or ()), arrived]

    def _ready(self, task: Task) -> None:
        if task.kind == METHOD:
            self.node.actors.pump(task.actor)
            return
        if not self.fails_by_needs(task):
            self.lines.setdefault(task.options.same(), deque()).append(task)

    def fails_by_needs(self, task: Task) -> bool:
        """An argument that is an error is the task's own."""
        for id in _all_needs(task):
            payload = self.node.store.entries[id].payload
            if payload is not None and payload.kind == ERROR:
                self.fail(task, payload._replace(nested=()))
                return True
        return False

    # ---- running ----

    def dispatch(self) -> None:
        """Starts all that can start."""
        if not self.lines:
            return
        for key in list(self.lines):
            line = self.lines.get(key)
            while line:
                if not self._start(line[0]):
                    self.waits.cannot_begin(key, line[0])
                    break
                line.popleft()
            if not line:
                self.lines.pop(key, None)

    def _pool(self, task: Task) -> Pool | None:
        options = task.options
        if options.group is None:
            pool = self.node.pool
            return pool if pool.fits(options.placing) else None
        group = self.groups.get(options.group)
        if group is None or group.is_removed or not group.try_begin(self.node.pool):
            return None
        return group.pool_for(options.placing, options.bundle)

    def _start(self, task: Task) -> bool:
        pool = self._pool(task)
        if pool is None:
            return False
        options = task.options
        env = options.same()[1]
        idle = self.idle.get(env)
        if task.kind == FUNCTION and idle and not options.placing.get("GPU"):
            worker = idle.pop()
            took = pool.take(options.placing)
        else:
            if len(self.workers) >= PROCESSES_MAX and sum(not worker.blocked for worker in self.workers) >= PROCESSES_MAX:
                return False
            took = pool.take(options.placing)
            threads = max(1, int(options.resources.get("CPU", 1))) if task.kind == CREATE else 1
            try:
                worker = WorkerProcess(self.node, env, options.runtime_env, threads, took.gpus)
            except Exception as error:  # no descriptors, no interpreter: the task says so
                pool.give(took)
                self.fail(task, errors.of_system(error))
                return True
            self.workers.add(worker)
        task.took = took
        task.gpus = took.gpus
        if task.kind == CREATE:
            self.node.actors.starts(task, worker)
        worker.give(task, task.name)
        return True

    def done(self, worker: WorkerProcess, task: Task, values: Values, how: int) -> None:
        """A worker has finished a task."""
        if task.kind == FUNCTION:
            self._give_back(task)
            self._rest(worker, task)
        elif task.kind == CREATE:
            self.node.actors.made(task, worker, how, values)
            return
        if how == m.RETRIABLE and task.retries and not task.is_cancelled:
            self._again(task)
            return
        if task.kind == METHOD and task.is_cancelled and how == m.OK:
            for payload, fd in values:
                self.node.store.release(payload.charged)
                if fd >= 0:
                    os.close(fd)
            values, how = [(self.cancelled(task), -1)] * max(1, task.returns), m.CANCELLED
        self.end(task, values, how)
        if task.kind == METHOD:
            self.node.actors.finished(worker, task, how)

    def _again(self, task: Task) -> None:
        if task.retries > 0:
            task.retries -= 1
        task.worker = None
        if task.kind == METHOD:
            self.node.actors.again(task)
        else:
            self.lines.setdefault(task.options.same(), deque()).appendleft(task)

    def _give_back(self, task: Task) -> None:
        if task.took is not None:
            task.took.pool.give(task.took)
            task.took = None

    def _rest(self, worker: WorkerProcess, task: Task) -> None:
        """The worker has nothing to do."""
        limit = task.options.max_calls or (1 if task.gpus else 0)
        if limit:
            worker.calls[task.function] = worker.calls.get(task.function, 0) + 1
        if worker.is_gone or worker.is_leaving:
            return
        if limit and worker.calls[task.function] >= limit:
            worker.leave()
            return
        idle = self.idle.setdefault(worker.env, [])
        idle.append(worker)
        if sum(map(len, self.idle.values())) > max(1, int(self.node.state.num_cpus)):
            self.node.at(IDLE_S, self._end_idle)

    def _end_idle(self) -> None:
        most = max(1, int(self.node.state.num_cpus))
        while sum(map(len, self.idle.values())) > most:
            longest = max(self.idle.values(), key=len)
            longest.pop(0).leave()

    # ---- ending ----

    def end(self, task: Task, values: Values, how: int) -> None:
        """Its outputs are there."""
        store = self.node.store
        if task.returns < 0:
            error = values[0][0] if values and values[0][0].kind == ERROR else None
            if task.returns == STREAMING:
                self.node.streams.end(task, error)
                values = [(self.none, -1)] if error is None else values
        elif values and values[0][0].kind == ERROR and task.returns != 1:
            for id in task.outputs()[1:]:
                store.fill(id, values[0][0]._replace(size=0), -1)
        for id, (payload, fd) in zip(task.outputs(), values):
            store.fill(id, payload, fd)
        self.release(task)

    def fail(self, task: Task, payload: Payload) -> None:
        """It ends with this error, wherever it is."""
        if self.tasks.get(task.id) is None:
            return
        self._give_back(task)
        if task.kind == CREATE:
            self.node.actors.dies(task.actor, payload)
        self.end(task, [(payload, -1)] * max(1, task.returns), m.FAILED)

    def release(self, task: Task) -> None:
        """Nobody runs it any more: what it needed goes."""
        if self.tasks.pop(task.id, None) is None:
            return
        store = self.node.store
        args, task.args = task.args, None
        if task.args_fd >= 0:
            os.close(task.args_fd)
            task.args_fd = -1
        if args is not None:
            store.release(args.charged)
            for id in args.nested:
                store.drop(id)
        for id in _all_needs(task):
            store.drop(id)
        task.worker = None

    def died(self, worker: WorkerProcess, status: int) -> None:
        """A worker process has ended, by itself or not."""
        self.workers.discard(worker)
        for idle in self.idle.values():
            if worker in idle:
                idle.remove(worker)
        tasks = list(worker.tasks.values())
        worker.tasks.clear()
        if worker.actor is not None:
            for task in tasks:
                self._give_back(task)
            self.node.actors.worker_died(worker, tasks, status)
            return
        for task in tasks:
            self._give_back(task)
            if task.is_cancelled:
                self.fail(task, self.cancelled(task))
            elif status == -2 or task.retries:  # -2: it never was, because the zygote died
                self._again(task)
            else:
                self.fail(task, errors.of_system(self._crashed(task, worker, status)))

    def _crashed(self, task: Task, worker: WorkerProcess, status: int) -> Exception:
        from weir.exceptions import OutOfMemoryError, WorkerCrashedError

        tries = task.options.max_retries + 1
        often = f" {tries} times" if tries > 1 else ""
        if worker.killed_because:
            return OutOfMemoryError(f"The worker of {task.name}() (pid={worker.pid}) {worker.killed_because}. It was tried{often or ' once'}")
        return WorkerCrashedError(f"The worker died unexpectedly while executing this task: {task.name}() (pid={worker.pid}) "
                                  f"{how_it_ended(status)}{often}. max_retries says how often a task is tried again")

    # ---- cancelling, forgetting ----

    def cancelled(self, task: Task) -> Payload:
        """What get says of a cancelled one."""
        from weir.exceptions import TaskCancelledError

        return errors.of_system(TaskCancelledError(error_message=f"Task: {task.id.hex()} was cancelled: {task.name}()"))

    def cancel(self, id: bytes, force: bool) -> None:
        """Of the task that makes the object, if it has not ended."""
        task = self.tasks.get(id[:ids.TASK])
        if task is None or task.is_cancelled:
            return
        if task.kind != FUNCTION:
            if force:
                raise ValueError("force=True is not supported for actor tasks.")
            self.node.actors.cancel(task)
            return
        task.is_cancelled = True
        if task.worker is None:
            line = self.lines.get(task.options.same())
            if line is not None and task in line:
                line.remove(task)
            self.fail(task, self.cancelled(task))
        elif force:
            task.worker.kill()
        else:
            task.worker.interrupt(task)

    def children(self, parent: bytes) -> list[Task]:
        """Tasks that a task has started."""
        return [task for task in self.tasks.values() if task.parent == parent]

    def forget(self, id: bytes) -> None:
        """A function is gone: workers may let go of it."""
        for worker in self.workers:
            if id in worker.known:
                worker.known.discard(id)
                worker.stale.append(id)

    def remove_group(self, id: bytes) -> None:
        """A placement group gives back what it has; what runs in it ends."""
        group = self.groups.pop(id, None)
        if group is None:
            return
        group.is_removed = True

        def fails(task: Task) -> None:
            from weir.exceptions import ActorPlacementGroupRemoved, TaskPlacementGroupRemoved

            kind, what = (ActorPlacementGroupRemoved, "actor") if task.kind == CREATE else (TaskPlacementGroupRemoved, "task")
            self.fail(task, errors.of_system(kind(f"The placement group corresponding to this {what} has been removed: {task.name}")))

        for line in list(self.lines.values()):
            for task in [task for task in line if task.options.group == id]:
                line.remove(task)
                fails(task)
        for worker in list(self.workers):
            if worker.actor is not None and worker.actor.options.group == id:
                self.node.actors.kill(worker.actor.id, True)
            elif any(task.options.group == id for task in worker.tasks.values()):
                for task in worker.tasks.values():
                    task.retries = 0
                worker.kill()
        for taken in group.taken:
            self.node.pool.give(taken)

    def close(self) -> None:
        """All workers end now."""
        for worker in list(self.workers):
            worker.kill()
        self.workers.clear()
        self.lines.clear()
        self.idle.clear()


def _all_needs(task: Task) -> tuple[bytes, ...]:
    """What has to be there for it to run: its arguments and itself."""
    return (*task.needs, task.function) if task.function else task.needs
