"""A worker process of the node's: forked from the zygote, with a socket, a lifeline, and pipes for what it prints.

    WorkerProcess(node, env) ─▶ run(task) ─▶ DONE ─▶ run(…) … ─▶ leave() ─▶ on_closed

Nobody waits for it to exist: what it is told lies in its socket until it reads it. The lifeline is a pipe whose other end only the
driver has; when that closes, the kernel kills the process.
"""
from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from weir.core import channel
from weir.core import messages as m
from weir.core.peers import Peer, close_all
from weir.core.tasks import Task

if TYPE_CHECKING:
    from weir.core.actors import Actor
    from weir.core.node import Node

CANCEL_SIGNAL = signal.SIGRTMIN + 5  # not SIGINT: that comes from the terminal, for everybody
SIGNALS_S = 10  # for so long it is repeated
LINE_MAX = 1 << 16
PIPE_BYTES = 1 << 16


class WorkerProcess(Peer):
    """See the top."""

    def __init__(self, node: Node, env: str, runtime_env: dict[str, Any] | None, threads: int, gpus: Sequence[str]) -> None:
        from weir import _build

        mine, theirs = channel.pair()
        super().__init__(node, mine)
        self.env = env
        self.pid = 0
        self.label = ""
        self.known: set[bytes] = set()       # functions that it has
        self.stale: list[bytes] = []         # of them, those that it may forget
        self.calls: dict[bytes, int] = {}
        self.tasks: dict[bytes, Task] = {}   # that it has been given, and not finished
        self.actor: Actor | None = None
        self.blocked = 0
        self.is_leaving = False
        self.killed_because = ""             # what the node killed it for, in words that follow its name
        self.gpus = tuple(gpus)
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        lifeline, out, err = pipes
        self.lifeline = lifeline[1]
        self.outputs = {out[0]: bytearray(), err[0]: bytearray()}
        self.stderr = err[0]
        self.zygote = _build.zygote_of(node.state)
        try:
            self.ticket = self.zygote.launch(theirs.fileno(), lifeline[0], out[1], err[1])
        finally:
            theirs.close_quietly()
            close_all([lifeline[0], out[1], err[1]])
        for fd in self.outputs:
            os.set_blocking(fd, False)
            node.watch_first(fd, lambda fd=fd: self.show(fd))  # type: ignore[misc]
        node.watch_first(mine.fileno(), self.read)
        self.post((m.HELLO, self._hello(runtime_env, threads, gpus)))

    def _hello(self, runtime_env: dict[str, Any] | None, threads: int, gpus: Sequence[str]) -> dict[str, Any]:
        from weir import _call, _session

        state = self.node.state
        env = dict(getattr(state, "runtime_env", None) or {})
        for name, value in (runtime_env or {}).items():
            env[name] = {**env.get(name, {}), **value} if name == "env_vars" else value
        world = _call.world(SimpleNamespace(runtime_env=env, num_cpus=threads, num_gpus=0), state)  # type: ignore[arg-type]
        if gpus:
            world["environ"]["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        return {"world": world, "address": self.node.address,
                "namespace": self.node.actors.namespace, "gpus": tuple(gpus), "session": self.node.session,
                "memory": _session.share_of(state), "cpus": threads,
                "runtime_env": env}

    # ---- what it prints ----

    def read(self) -> None:
        """What it has said, and what it had printed before it said that: it is shown before the end of its task is known."""
        super().read()
        for fd in list(self.outputs):
            self.show(fd)

    def on_event(self, what: int) -> None:
        """What it has said was read before, outside the lock: what it prints goes to the user's streams."""
        self.on_inbox(what)

    def show(self, fd: int) -> bool:
        """Whole lines go to this process's streams, labelled. Without the lock. Reads as much as a pipe can hold. False: there was nothing."""
        held = self.outputs.get(fd)
        if held is None:
            return False
        try:
            data = os.read(fd, PIPE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        held += data
        if not data:
            self.node.unwatch(fd)
        self._show_lines(fd, is_last=not data)
        return bool(data)

    def _show_lines(self, fd: int, is_last: bool) -> None:
        held = self.outputs[fd]
        if is_last and held:
            held += b"\n"
        end = held.rfind(b"\n") + 1
        if end == 0 and len(held) > LINE_MAX:
            end = len(held)
        if end:
            lines = bytes(held[:end]).decode("utf-8", "replace").splitlines()
            del held[:end]
            self._print(lines, sys.stderr if fd == self.stderr else sys.stdout)

    def _print(self, lines: list[str], stream: Any) -> None:
        if not getattr(self.node.state, "log_to_driver", True):
            return
        if not self.pid:  # its greeting came before
            super().read()
        pid = self.pid or next((message[1] for message, _ in self.inbox if message[0] == m.HELLO), 0)
        label = f"({self.label} pid={pid}) "
        try:
            stream.write("".join(f"{label}{line}\n" for line in lines))
            stream.flush()
        except Exception:  # closed, or replaced by something that cannot: there is nowhere else to say so
            return

    # ---- its work ----

    def give(self, task: Task, name: str) -> None:
        """Sends a task with all that it needs."""
        node = self.node
        entries = node.store.entries
        node.memory.begin()
        self.tasks[task.id] = task
        task.worker = self
        self.label = name
        fds: list[int] = []
        function: tuple[Any, ...] | None = None
        if task.function and task.function not in self.known:
            entry = entries[task.function]
            function = tuple(entry.payload or ())
            if entry.fd >= 0:
                fds.append(entry.fd)
                entry.lent = True
            self.known.add(task.function)
        if task.args_fd >= 0:
            fds.append(task.args_fd)
        needs: list[Any] = []
        for id in task.needs:
            entry = entries[id]
            needs.append((id, tuple(entry.payload or ())))
            if entry.fd >= 0:
                fds.append(entry.fd)
                entry.lent = True
        stale, self.stale = self.stale, []
        options = task.options
        self.post((m.TASK, task.id, task.kind, task.function, function, task.name, tuple(task.args or ()), needs, task.returns,
                   task.method, (options.resources, options.backpressure, task.retries > 0 or task.retries < 0,
                                 options.actor, options.max_concurrency, task.actor, task.seen, self._group(task)), stale), fds)

    def _group(self, task: Task) -> tuple[bytes, list[dict[str, float]], bool] | None:
        """The placement group that it is in."""
        group = self.node.scheduler.groups.get(task.options.group) if task.options.group is not None else None
        return None if group is None else (group.id, group.bundles, task.options.captures)

    def on_message(self, message: tuple[Any, ...], fds: list[int]) -> None:
        """What only workers say, and the rest."""
        kind = message[0]
        if kind == m.DONE:
            _, id, payloads, how = message
            payloads = [self.arrived(payload) for payload in payloads]
            task = self.tasks.pop(id, None)
            rest = iter(fds)
            values = [(payload, next(rest) if payload.size else -1) for payload in payloads]
            if task is None:
                for payload, fd in values:
                    self.node.store.release(payload.charged)
                    close_all([fd] if fd >= 0 else [])
                return
            self.node.scheduler.done(self, task, values, how)
        elif kind == m.YIELD:
            _, id, index, payload = message
            task = self.tasks.get(id)
            payload = self.arrived(payload)
            fd = fds[0] if fds else -1
            if task is not None:
                self.node.streams.item(task, index, payload, fd)
            else:
                self.node.store.release(payload.charged)
                close_all(fds)
        elif kind == m.HELLO:
            self.pid = message[1]
            for task in self.tasks.values():
                if task.is_cancelled:
                    self.interrupt(task)
        else:
            super().on_message(message, fds)

    def blocks(self) -> None:
        """What it holds is free for others meanwhile: those may be the ones it waits for."""
        self.blocked += 1
        if self.blocked == 1:
            for taken in self._takens():
                taken.pool.lend(taken)

    def goes_on(self) -> None:
        """Takes it back."""
        self.blocked -= 1
        if self.blocked == 0:
            for taken in self._takens():
                taken.pool.reclaim(taken)

    def _takens(self) -> list[Any]:
        found = [task.took for task in self.tasks.values() if task.took is not None]
        if self.actor is not None and self.actor.took is not None and self.actor.took not in found:
            found.append(self.actor.took)
        return found

    # ---- its end ----

    def interrupt(self, task: Task) -> None:
        """Interrupts the task that it runs, or is about to run: the driver has not heard of its end, so there is no other."""
        self.post((m.CANCEL, task.id))
        self._signal(task, 0.05)

    def _signal(self, task: Task, pause: float) -> None:
        """A signal that comes just before the task goes to sleep in a system call is seen when that ends: another one ends it."""
        if self.pid and not self.is_gone and self.tasks.get(task.id) is task:
            self.node.at(pause, lambda: self._signal(task, pause * 2) if pause < SIGNALS_S else None)
            try:
                os.kill(self.pid, CANCEL_SIGNAL)
            except ProcessLookupError:
                return

    def leave(self) -> None:
        """No more work: it ends when it has done what it was given."""
        self.is_leaving = True
        self.post((m.EXIT,))

    def kill(self) -> None:
        """At once. on_closed comes by itself."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1
        try:
            self.zygote.kill(self.ticket)
        except ValueError:  # the zygote is closed, its workers with it
            return

    def on_closed(self) -> None:
        """The process is gone, or as good as."""
        if self.is_gone:
            return
        self.kill()
        try:
            status = self.zygote.status(self.ticket)
        except ValueError:
            status = -1
        self.end()
        self.node.scheduler.died(self, status)

    def end(self) -> None:
        """Lets go of everything."""
        if self.is_gone:
            return
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1
        for fd in list(self.outputs):
            while self.show(fd):  # what it had printed
                continue
            self._show_lines(fd, is_last=True)
            self.node.unwatch(fd)
            os.close(fd)
        self.outputs.clear()
        super().end()


def how_it_ended(status: int) -> str:
    """A wait status in words.

    >>> how_it_ended(9), how_it_ended(256), how_it_ended(-1)
    ('was killed by SIGKILL (by somebody, or because the machine had no more memory)', 'exited with 1', 'died')
    """
    if status < 0:
        return "died"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        more = " (by somebody, or because the machine had no more memory)" if number == signal.SIGKILL else ""
        return f"was killed by {name}{more}"
    return f"exited with {os.WEXITSTATUS(status)}"
