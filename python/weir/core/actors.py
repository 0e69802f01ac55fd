"""Actors: one process each, which keeps an object and runs its methods.

    begin ─▶ PENDING ─▶ starts ─▶ made ─▶ ALIVE ─▶ worker_died ─▶ RESTARTING ─▶ … ─▶ DEAD
                                           │  ▲
                                    calls, in the order in which each caller made them; of one that runs several at once those whose
                                    arguments are there

An actor ends when nobody has a handle of it any more and its calls are done, unless it is detached; when it is killed; when it leaves by
itself; when its constructor raises; when its process dies and max_restarts is used up. Calls of a dead one get the reason.
All under the node's lock.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from weir.core import errors
from weir.core import messages as m
from weir.core.payload import ERROR, Payload
from weir.core.processes import WorkerProcess, how_it_ended
from weir.core.tasks import METHOD, STREAMING, Options, Task

if TYPE_CHECKING:
    from weir.core.node import Node
    from weir.core.resources import Taken

PENDING, ALIVE, RESTARTING, DEAD = "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"
UNKEPT = "all references to the actor were removed (a handle of get_actor does not count; lifetime='detached' keeps it)"


class Actor:
    """What the node knows of one."""

    def __init__(self, task: Task) -> None:
        self.id = task.actor
        self.task = task              # the creation, kept for restarts
        self.options: Options = task.options
        self.about: dict[str, Any] = task.options.actor or {}
        self.class_name = task.name
        self.state = PENDING
        self.refs = 1
        self.worker: WorkerProcess | None = None
        self.took: Taken | None = None
        self.waiting: dict[Any, deque[Task]] = {}  # a line for each caller
        self.cause: Payload | None = None
        self.restarts = 0
        self.is_killed = False
        self.is_leaving = False
        self.is_unkept = False  # it is leaving because nobody has a handle that counts

    def busy(self) -> int:
        """Calls that have not ended."""
        return sum(map(len, self.waiting.values())) + (len(self.worker.tasks) if self.worker is not None else 0)

    def may_restart(self) -> bool:
        """Whether max_restarts is not used up."""
        limit: int = self.about.get("max_restarts", 0)
        return limit < 0 or self.restarts < limit

    def runs_several(self) -> bool:
        """Whether calls run beside each other, and so in no order of their own. Those of one concurrency group are in order, as in Ray."""
        return bool(self.about.get("is_async")) or self.options.max_concurrency > 1

    def calls(self) -> int:
        """The same without its making."""
        return self.busy() - (self.worker is not None and self.task.id in self.worker.tasks)


class Actors:
    """All of them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.actors: dict[bytes, Actor] = {}
        self.names: dict[tuple[str, str], bytes] = {}
        self.namespace = getattr(node.state, "namespace", "") or node.session

    # ---- their life ----

    def begin(self, task: Task) -> bool:
        """A new one. False: its name is taken."""
        actor = Actor(task)
        self.actors[actor.id] = actor
        if task.peer is not None:
            task.peer.held[actor.id] = task.peer.held.get(actor.id, 0) + 1
        name = actor.about.get("name")
        if name:
            key = (actor.about.get("namespace") or self.namespace, name)
            if key in self.names:
                from weir.exceptions import ActorAlreadyExistsError

                self.node.scheduler.fail(task, errors.of_system(ActorAlreadyExistsError(taken(name, key[0]))))
                return False
            self.names[key] = actor.id
        return True

    def starts(self, task: Task, worker: WorkerProcess) -> None:
        """Its constructor is about to run."""
        actor = self.actors[task.actor]
        actor.worker = worker
        worker.actor = actor
        actor.took = task.took

    def made(self, task: Task, worker: WorkerProcess, how: int, values: list[tuple[Payload, int]]) -> None:
        """Its constructor has run."""
        actor = self.actors.get(task.actor)
        if actor is None or actor.state == DEAD:
            return
        if values and values[0][0].kind == ERROR:
            cause = errors.of_constructor(values[0][0], actor.class_name, actor.id.hex())
            worker.leave()
            self.dies(actor.id, cause)
            self.node.scheduler.end(task, [(cause, -1)], m.FAILED)
            return
        took, task.took = task.took, None
        if actor.options.placing != actor.options.resources and took is not None:
            # To be placed takes a CPU that it does not keep.
            took.pool.give(took)
            actor.took = took.pool.take(actor.options.resources) if actor.options.resources else None
        actor.state = ALIVE
        if not actor.about.get("max_restarts"):
            self.node.scheduler.release(task)  # else its arguments are needed again
        self.pump(actor.id)
        self._may_end(actor)

    def dies(self, id: bytes, cause: Payload) -> None:
        """No more calls: those that wait, and those to come, get the cause."""
        actor = self.actors.get(id)
        if actor is None or actor.state == DEAD:
            return
        actor.state = DEAD
        actor.cause = cause
        for key in [key for key, named in self.names.items() if named == id]:
            del self.names[key]
        if actor.took is not None:
            actor.took.pool.give(actor.took)
            actor.took = None
        if actor.task.took is not None:
            actor.task.took = None
        waiting, actor.waiting = actor.waiting, {}
        for line in waiting.values():
            for task in line:
                self.node.scheduler.fail(task, cause)
        self.node.scheduler.end(actor.task, [(cause, -1)], m.FAILED)
        if actor.refs <= 0:
            del self.actors[id]

    def worker_died(self, worker: WorkerProcess, tasks: list[Task], status: int) -> None:
        """Its process has ended."""
        actor = worker.actor
        assert actor is not None
        if actor.worker is not worker:
            return
        actor.worker = None
        is_lost = status == -2  # it never was
        again = not actor.is_killed and not actor.is_leaving and (is_lost or actor.may_restart())
        if actor.state == DEAD:
            again = False
        why = "it was killed by `ray.kill`" if actor.is_killed else UNKEPT if actor.is_unkept else "it left by exit_actor() or __ray_terminate__" if actor.is_leaving \
            else f"its process {worker.killed_because or how_it_ended(status)}"
        cause = self.died(actor, worker.pid, why, is_out_of_memory=bool(worker.killed_because))
        calls = [task for task in tasks if task.kind == METHOD]
        for task in reversed(calls):
            if again and task.retries and not task.is_cancelled:
                if task.retries > 0:
                    task.retries -= 1
                task.worker = None
                actor.waiting.setdefault(task.peer, deque()).appendleft(task)
            else:
                self.node.scheduler.fail(task, self.unavailable(actor, worker.pid, why) if again else cause)
        if not again:
            self.dies(actor.id, cause)
            return
        if actor.took is not None:
            actor.took.pool.give(actor.took)
            actor.took = None
        if not is_lost:
            actor.restarts += 1
        actor.state = RESTARTING
        task = actor.task
        task.took = task.worker = None
        task.seen = actor.restarts
        self.node.scheduler.lines.setdefault(task.options.same(), deque()).appendleft(task)

    def died(self, actor: Actor, pid: int, why: str, is_out_of_memory: bool = False) -> Payload:
        """What calls of a dead one get."""
        from weir._errors import ActorDiedError, ActorOutOfMemory

        name = actor.about.get("name")
        restarts = f" It was started again {actor.restarts} times." if actor.restarts else ""
        error = (ActorOutOfMemory if is_out_of_memory else ActorDiedError)(
            f"The actor died unexpectedly before finishing this task.\n\tclass_name: {actor.class_name}\n\tactor_id: {actor.id.hex()}\n"
            f"\tpid: {pid}\n" + (f"\tname: {name}\n" if name else "") + f"The actor is dead because {why}.{restarts}")
        error.actor_id = actor.id.hex()
        return errors.of_system(error)

    def unavailable(self, actor: Actor, pid: int, why: str) -> Payload:
        """What a call gets that is not tried again, of one that is."""
        from weir.exceptions import ActorUnavailableError

        error = ActorUnavailableError(
            f"The actor {actor.id.hex()} is unavailable: {why} (class_name: {actor.class_name}, pid: {pid}), and it is started again. The task may "
            "or may not have been executed on the actor; max_task_retries says how often a call is tried again.")
        error.actor_id = actor.id.hex()
        return errors.of_system(error)

    def _gone(self, task: Task) -> Payload:
        """What a call gets of one that nobody kept."""
        from weir.exceptions import ActorDiedError

        error = ActorDiedError(
            f"The actor died unexpectedly before finishing this task.\n\tclass_name: {task.options.name}\n\tactor_id: {task.actor.hex()}\n"
            f"The actor is dead because {UNKEPT}, or its session has ended.")
        error.actor_id = task.actor.hex()
        return errors.of_system(error)

    # ---- calls ----

    def add(self, task: Task) -> None:
        """A call."""
        actor = self.actors.get(task.actor)
        if actor is None or actor.state == DEAD:
            self.node.scheduler.fail(task, actor.cause if actor is not None and actor.cause is not None else self._gone(task))
            return
        actor.waiting.setdefault(task.peer, deque()).append(task)

    def again(self, task: Task) -> None:
        """A call that is tried again."""
        actor = self.actors.get(task.actor)
        if actor is not None:
            actor.waiting.setdefault(task.peer, deque()).appendleft(task)
            self.pump(actor.id)

    def pump(self, id: bytes) -> None:
        """Sends what can be sent."""
        actor = self.actors.get(id)
        if actor is None or actor.state != ALIVE or actor.worker is None or actor.is_leaving:
            return
        for key, line in list(actor.waiting.items()):
            while actor.worker is not None:
                task = _next(line, actor.runs_several())
                if task is None:
                    break
                line.remove(task)
                if task.id in self.node.scheduler.tasks and not self.node.scheduler.fails_by_needs(task):
                    actor.worker.give(task, actor.class_name)
            if not line:
                actor.waiting.pop(key, None)

    def finished(self, worker: WorkerProcess, task: Task, how: int) -> None:
        """A call has ended."""
        actor = worker.actor
        if actor is None:
            return
        if how == m.LEAVING:
            actor.is_leaving = True
            worker.leave()  # where calls run in threads the main one does not see that one of them leaves
            cause = self.died(actor, worker.pid, "it left by exit_actor() or __ray_terminate__")
            rest = list(worker.tasks.values())
            worker.tasks.clear()
            for call in rest:
                self.node.scheduler.fail(call, cause)
            self.dies(actor.id, cause)
            return
        self._may_end(actor)

    def cancel(self, task: Task) -> None:
        """A call that waits is taken out; one in the actor's process is cancelled there, if it is async or has not begun. Else it goes on,
        can ask is_canceled(), and what it returns is not taken (Scheduler.done)."""
        task.is_cancelled = True
        actor = self.actors.get(task.actor)
        if task.worker is not None:
            task.worker.post((m.CANCEL, task.id))
            if task.returns == STREAMING:
                self.node.streams.end(task, self.node.scheduler.cancelled(task))
        elif actor is not None:
            line = actor.waiting.get(task.peer)
            if line is not None and task in line:
                line.remove(task)
            self.node.scheduler.fail(task, self.node.scheduler.cancelled(task))

    # ---- references, ends ----

    def count(self, id: bytes, change: int) -> None:
        """One handle more or less."""
        actor = self.actors.get(id)
        if actor is None:
            return
        actor.refs += change
        self._may_end(actor)

    def _may_end(self, actor: Actor) -> None:
        if actor.refs > 0 or actor.about.get("lifetime") == "detached" or actor.busy():
            return
        if actor.state == ALIVE and actor.worker is not None and not actor.is_leaving:
            actor.is_leaving = actor.is_unkept = True
            actor.worker.leave()
        elif actor.state == DEAD:
            self.actors.pop(actor.id, None)

    def kill(self, id: bytes, no_restart: bool) -> None:
        """At once."""
        actor = self.actors.get(id)
        if actor is None or actor.state == DEAD:
            return
        if no_restart:
            actor.is_killed = True
        if actor.worker is not None:
            actor.worker.kill()
            if no_restart:
                # Calls from now on are of a dead one, though the process's end is seen a moment later.
                for key in [key for key, named in self.names.items() if named == id]:
                    del self.names[key]
                actor.state = PENDING
        elif not no_restart and actor.may_restart():
            actor.restarts += 1  # it has not begun: there is nothing to end, and one try less
            actor.task.seen = actor.restarts
        else:
            line = self.node.scheduler.lines.get(actor.task.options.same())
            if line is not None and actor.task in line:
                line.remove(actor.task)
            self.dies(id, self.died(actor, 0, "it was killed by `ray.kill` before it had started"))


def _next(line: deque[Task], any_order: bool) -> Task | None:
    """The call that can be sent. In any order one that waits for its arguments holds nobody up: a later call may be what makes them."""
    if any_order:
        return next((task for task in line if not task.missing), None)
    return line[0] if line and not line[0].missing else None


def taken(name: str, namespace: str) -> str:
    """The text for a name that is taken."""
    return (f"Actor with name '{name}' already exists in the namespace {namespace}: get_actor({name!r}) gives it, and "
            "options(get_if_exists=True) either")
