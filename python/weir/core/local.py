"""local_mode: tasks and actors run in this process, in the thread that calls them, before .remote() returns; breakpoint() works in them.

Values are pickled all the same, so what a function does to its arguments stays in it. Nothing runs at once with anything else: a generator is run
to its end, an async method until it is done.
"""
from __future__ import annotations

import inspect
from typing import Any

from weir.core import errors, objects, runtime, signatures
from weir.core.actors import ALIVE, DEAD
from weir.core.context import Current
from weir.core.node import Node
from weir.core.payload import ERROR, Dumped, Payload, dump, load
from weir.core.tasks import CREATE, DYNAMIC, FUNCTION, METHOD, STREAMING, Place, Task


class LocalNode(Node):
    """A node without workers."""

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[bytes, Any] = {}

    def submit(self, task: Task, dumped: Dumped) -> None:
        """Runs it."""
        self.scheduler.check(task)
        payload, fd = self.stored(dumped)
        with self.lock:
            self._open()
            for id in task.outputs():
                self.store.create(id, 1, task)
            task.args, task.args_fd = payload, fd
            if task.returns == STREAMING:
                self.streams.begin(task)
            self.scheduler.tasks[task.id] = task
            self._hold(task)
            if task.kind == CREATE and not self.actors.begin(task):
                return
            cause = self._cause(task)
        kept: list[Dumped] = []  # with the references in them, until the values are in the store
        values = [(cause, -1)] * max(1, task.returns) if cause is not None else self._perform(task, kept)
        with self.lock:
            if task.kind == CREATE:
                self._made(task, values)
            else:
                self.scheduler.end(task, values, 0)

    def _hold(self, task: Task) -> None:
        if task.function:
            self.store.hold(task.function)
        assert task.args is not None
        for id in (*task.args.nested, *task.needs):
            self.store.hold(id)

    def _cause(self, task: Task) -> Payload | None:
        """Why it cannot run."""
        for id in task.needs:
            payload = self.store.entries[id].payload
            if payload is not None and payload.kind == ERROR:
                return payload._replace(nested=(), size=0)
        if task.kind == METHOD:
            actor = self.actors.actors.get(task.actor)
            if actor is None or actor.state == DEAD:
                return actor.cause if actor is not None else errors.of_system(self.lost(task.actor))
        return None

    def _made(self, task: Task, values: list[tuple[Payload, int]]) -> None:
        actor = self.actors.actors[task.actor]
        if values and values[0][0].kind == ERROR:
            self.actors.dies(actor.id, errors.of_constructor(values[0][0], actor.class_name, actor.id.hex()))
        else:
            actor.state = ALIVE
            self.scheduler.release(task)

    def _perform(self, task: Task, kept: list[Dumped]) -> list[tuple[Payload, int]]:
        label = f"{task.name}()" if task.kind != CREATE else f"{task.name}.__init__()"
        token = runtime.current.set(Current(task.id, task.actor or None, task.name, task.options.resources, None))
        try:
            result = self._call(task)
            if inspect.iscoroutine(result):
                import asyncio

                result = asyncio.run(result)
            if task.returns == STREAMING:
                self._stream(task, result)
                return []
            self._values(task, result, kept)
            return [self.stored(value) for value in kept]
        except Exception as error:
            there = [self.stored(value) for value in kept] if task.returns > 1 else []
            return there + [(errors.of_task(error, label), -1)] * (max(1, task.returns) - len(there))
        finally:
            runtime.current.reset(token)

    def _call(self, task: Task) -> Any:
        assert task.args is not None
        args, kwargs, _ = load(task.args, self._map(task))
        if task.needs:
            found = self.get(task.needs, None)
            assert found is not None
            values = [load(*one) for one in found]
            args = [values[arg.index] if type(arg) is Place else arg for arg in args]
            kwargs = {name: values[arg.index] if type(arg) is Place else arg for name, arg in kwargs.items()}
        if task.kind != METHOD:
            payload = self.get([task.function], None)
            assert payload is not None
            function = load(*payload[0])
            if task.kind == FUNCTION:
                return function(*args, **kwargs)
            self.instances[task.actor] = function(*args, **kwargs)
            return None
        instance = self.instances[task.actor]
        if task.method == "__ray_ready__":
            return True
        if task.method == "__ray_terminate__":
            self.call("kill", task.actor, True)
            return None
        if task.method == "__ray_call__":
            return args[0](instance, *args[1:], **kwargs)
        return signatures.bound(instance, task.method)(*args, **kwargs)

    def _map(self, task: Task) -> Any:
        from weir.core.payload import open_map

        assert task.args is not None
        return open_map(task.args_fd, task.args.size) if task.args.size else None

    def _values(self, task: Task, result: Any, values: list[Dumped]) -> None:
        if task.returns == 1 and not inspect.isgenerator(result):
            values.append(dump(result, f"what {task.name} returns"))
        elif task.returns == DYNAMIC:
            refs = []
            try:
                for item in result:
                    refs.append(objects.own(self.put(dump(item, f"what {task.name} yields"))))
            except Exception as error:  # what it gave before can be got all the same, and this last
                refs.append(objects.own(self.put(errors.of_task(error, f"{task.name}()"))))
            values.append(dump(objects.DynamicObjectRefGenerator(refs), task.name))
        elif task.returns > 0:
            from weir.core.worker import take

            take(result, task.returns, task.name, values)

    def _stream(self, task: Task, result: Any) -> None:
        if hasattr(result, "__anext__"):
            import asyncio

            async def gather() -> list[Any]:
                return [item async for item in result]

            result = asyncio.run(gather())
        for index, item in enumerate(result, 1):
            payload, fd = self.stored(dump(item, f"what {task.name} yields"))
            with self.lock:
                self.streams.item(task, index, payload, fd)
