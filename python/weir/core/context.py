"""Where this code runs: in which task and actor, with which resources."""
from __future__ import annotations

import os
import sys
from typing import Any

from weir.core import runtime

WORKER_ID = os.urandom(28)
JOB_ID = (1).to_bytes(4, "little")


Group = tuple[bytes, list[dict[str, float]], bool]  # a placement group: its number, its bundles, whether tasks inside are in it too


class Current:
    """What runs in a worker's thread."""

    __slots__ = ("task", "actor", "name", "resources", "worker", "group")

    def __init__(self, task: bytes, actor: bytes | None, name: str, resources: dict[str, float], worker: Any,
                 group: Group | None = None) -> None:
        self.group = group
        self.task = task
        self.actor = actor
        self.name = name
        self.resources = resources
        self.worker = worker


def group() -> Group | None:
    """The placement group that this code runs in: that of the task or actor, or else of the function of a Dataset."""
    current = runtime.current.get()
    found: Group | None = runtime.group if current is None else current.group
    return found


class RuntimeContext:
    """See get_runtime_context.

    >>> import weir
    >>> context = weir.get_runtime_context()
    >>> context.get_actor_id() is None, len(context.get_node_id()), context.get_assigned_resources()
    (True, 56, {})
    """

    def _current(self) -> Current | None:
        found: Current | None = runtime.current.get()
        return found

    def _hello(self) -> dict[str, Any]:
        worker = runtime.worker
        hello: dict[str, Any] = worker.hello if worker is not None else {}
        return hello

    def get(self) -> dict[str, Any]:
        """All of it at once: job_id, node_id, namespace; in a task or actor their ids, too.

        >>> import weir
        >>> sorted(weir.get_runtime_context().get())
        ['job_id', 'namespace', 'node_id']
        """
        found: dict[str, Any] = {"job_id": self.get_job_id(), "node_id": self.get_node_id(), "namespace": self.namespace}
        if runtime.worker is not None:
            if self.get_task_id():
                found["task_id"] = self.get_task_id()
            if self.get_actor_id():
                found["actor_id"] = self.get_actor_id()
        return found

    @property
    def worker(self) -> Any:
        """Who runs this; None in the driver.

        >>> import weir
        >>> print(weir.get_runtime_context().worker)
        None
        """
        return runtime.worker

    @property
    def job_id(self) -> str:
        """The same as get_job_id().

        >>> import weir
        >>> weir.get_runtime_context().job_id
        '01000000'
        """
        return self.get_job_id()

    def get_job_id(self) -> str:
        """Of the program: one session has one.

        >>> import weir
        >>> weir.get_runtime_context().get_job_id()
        '01000000'
        """
        return JOB_ID.hex()

    @property
    def node_id(self) -> str:
        """The same as get_node_id().

        >>> import weir
        >>> len(weir.get_runtime_context().node_id)
        56
        """
        return self.get_node_id()

    def get_node_id(self) -> str:
        """Of this machine, as weir.ray_api.nodes() has it.

        >>> import weir
        >>> weir.get_runtime_context().get_node_id() == weir.ray_api.nodes()[0]["NodeID"]
        True
        """
        from weir.ray_api import node_id

        return node_id()

    def get_worker_id(self) -> str:
        """Of this process.

        >>> import weir
        >>> len(weir.get_runtime_context().get_worker_id())
        56
        """
        return (WORKER_ID[:24] + os.getpid().to_bytes(4, "big")).hex()

    @property
    def task_id(self) -> Any:
        """The same as get_task_id(), as a TaskID.

        >>> import weir
        >>> print(weir.get_runtime_context().task_id)
        None
        """
        from weir.core.numbers import TaskID

        found = self.get_task_id()
        return TaskID(bytes.fromhex(found)) if found else None

    def get_task_id(self) -> str | None:
        """Of the task that this is, also of a Dataset's; None in the driver.

        >>> import weir
        >>> def f(): return weir.get_runtime_context().get_task_id()
        >>> ref = weir.remote(f).remote()
        >>> weir.get(ref) == ref.task_id().hex(), f()
        (True, None)
        """
        current = self._current()
        if current is not None:
            return current.task.hex()
        of_data = _standing()
        return None if of_data is None else (of_data[1].to_bytes(8, "big") + _here() + JOB_ID).hex()

    def get_task_name(self) -> str | None:
        """Its name; of a Dataset's task the operator's; None in the driver.

        >>> import weir
        >>> def f(): return weir.get_runtime_context().get_task_name()
        >>> weir.get(weir.remote(f).remote()), f()
        ('f', None)
        """
        current = self._current()
        of_data = _standing()
        return current.name if current is not None else None if of_data is None else of_data[0]

    def get_task_function_name(self) -> str | None:
        """Its function's name.

        >>> import weir
        >>> def f(): return weir.get_runtime_context().get_task_function_name()
        >>> weir.get(weir.remote(f).remote())
        'f'
        """
        return self.get_task_name()

    @property
    def actor_id(self) -> Any:
        """The same as get_actor_id(), as an ActorID.

        >>> import weir
        >>> print(weir.get_runtime_context().actor_id)
        None
        """
        from weir.core.numbers import ActorID

        found = self.get_actor_id()
        return ActorID(bytes.fromhex(found)) if found else None

    def get_actor_id(self) -> str | None:
        """Of the actor that this is, or of the worker of a Dataset's class, which is one of a pool of actors; None elsewhere.

        >>> import weir
        >>> print(weir.get_runtime_context().get_actor_id())
        None
        """
        worker, current = runtime.worker, self._current()
        if worker is not None:
            return worker.actor_id.hex() if worker.actor_id else None
        if current is None and (of_data := _standing()) is not None:
            return (_here() + JOB_ID).hex() if of_data[2] else None
        return current.actor.hex() if current is not None and current.actor else None

    def _about(self) -> dict[str, Any]:
        """What is known of the actor that this is."""
        if runtime.worker is not None:
            about: dict[str, Any] = runtime.worker.about
            return about
        if _standing() is not None:
            return {}
        node: Any = runtime.get()  # local_mode
        about = node.actors.actors[bytes.fromhex(self.get_actor_id() or "")].about
        return about

    def get_actor_name(self) -> str | None:
        """Its name: None outside of actors, "" for one without.

        >>> import weir
        >>> class A:
        ...     def name(self): return weir.get_runtime_context().get_actor_name()
        >>> weir.get(weir.remote(A).options(name="a").remote().name.remote())
        'a'
        """
        if self.get_actor_id() is None:
            return None
        return str(self._about().get("name") or "")

    @property
    def namespace(self) -> str:
        """Where named actors are looked up.

        >>> import weir
        >>> isinstance(weir.get_runtime_context().namespace, str)
        True
        """
        hello = self._hello()
        if hello:
            return str(hello["namespace"])
        existing = runtime.get()
        return str(existing.actors.namespace) if existing.is_driver else ""  # type: ignore[attr-defined]

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor's process is not its first.

        >>> import weir
        >>> class A:
        ...     def is_again(self): return weir.get_runtime_context().was_current_actor_reconstructed
        >>> weir.get(weir.remote(A).remote().is_again.remote())
        False
        """
        if self.get_actor_id() is None:
            raise RuntimeError("was_current_actor_reconstructed is of actors: this is none")
        return runtime.worker is not None and bool(runtime.worker.restarts)

    @property
    def current_actor(self) -> Any:
        """A handle of the actor that this is. RuntimeError: this is none.

        >>> import weir
        >>> class A:
        ...     def me(self): return weir.get_runtime_context().current_actor
        >>> actor = weir.remote(A).remote()
        >>> weir.get(actor.me.remote()) == actor
        True
        """
        from weir.core.handles import handle_of

        id = self.get_actor_id()
        if id is None:
            raise RuntimeError("This method is only available in an actor.")
        if self._current() is None and _standing() is not None:
            raise RuntimeError("the workers of a Dataset's class are not actors that others can call: there is no handle of them")
        return handle_of(bytes.fromhex(id), self._about())

    def get_assigned_resources(self) -> dict[str, float]:
        """What the task, the actor or the worker of a Dataset's function was given; {} in the driver.

        >>> import weir
        >>> weir.get_runtime_context().get_assigned_resources()
        {}
        """
        current = self._current()
        found = current.resources if current is not None else _of_data_worker()[0]
        return {name: amount for name, amount in found.items() if amount}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The numbers of the GPUs it was given.

        >>> import weir
        >>> weir.get_runtime_context().get_accelerator_ids()
        {'GPU': []}
        """
        return {"GPU": [str(gpu) for gpu in _gpus()]}

    get_resource_ids = get_accelerator_ids

    def get_placement_group_id(self) -> str | None:
        """The number of the placement group that it is in; None: it is in none.

        >>> import weir
        >>> print(weir.get_runtime_context().get_placement_group_id())
        None
        """
        found = group()
        return None if found is None else found[0].hex()

    @property
    def current_placement_group_id(self) -> str | None:
        """The old name of get_placement_group_id().

        >>> import weir
        >>> print(weir.get_runtime_context().current_placement_group_id)
        None
        """
        return self.get_placement_group_id()

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks that it starts, and that name no placement group, are in its own.

        >>> import weir
        >>> weir.get_runtime_context().should_capture_child_tasks_in_placement_group
        False
        """
        found = group()
        return found is not None and found[2]

    def get_runtime_env_string(self) -> str:
        """The runtime_env, as JSON.

        >>> import weir
        >>> weir.get_runtime_context().get_runtime_env_string()
        '{}'
        """
        import json

        return json.dumps(self.runtime_env)

    @property
    def runtime_env(self) -> dict[str, Any]:
        """What was asked for by runtime_env=.

        >>> import weir
        >>> def f(): return weir.get_runtime_context().runtime_env
        >>> weir.get(weir.remote(f).options(runtime_env={"env_vars": {"A": "1"}}).remote())
        {'env_vars': {'A': '1'}}
        """
        hello = self._hello()
        if hello:
            return dict(hello["runtime_env"])
        state = getattr(runtime.existing(), "state", None)
        return dict(getattr(state, "runtime_env", None) or {})

    @property
    def gcs_address(self) -> str:
        """There is no such service: the address of the session's socket.

        >>> import weir
        >>> isinstance(weir.get_runtime_context().gcs_address, str)
        True
        """
        return runtime.get().address.rpartition("#")[0]

    def get_session_name(self) -> str:
        """Of the session.

        >>> import weir
        >>> weir.get_runtime_context().get_session_name().startswith("session_")
        True
        """
        return f"session_{self._hello().get('session') or getattr(runtime.get(), 'session', '')}"

    def get_temp_dir(self) -> str:
        """Where the session's sockets are.

        >>> import weir
        >>> isinstance(weir.get_runtime_context().get_temp_dir(), str)
        True
        """
        return os.path.dirname(self.gcs_address)

    def get_node_labels(self) -> dict[str, str]:
        """Of this machine: its id alone.

        >>> import weir
        >>> list(weir.get_runtime_context().get_node_labels())
        ['ray.io/node-id']
        """
        return {"ray.io/node-id": self.get_node_id()}

    def is_canceled(self) -> bool:
        """Whether the task that this is was cancelled; False in the driver. A RuntimeError in an async actor, whose calls get
        asyncio.CancelledError instead.

        >>> import weir
        >>> weir.get_runtime_context().is_canceled()
        False
        """
        worker, current = runtime.worker, self._current()
        if worker is None or current is None:
            return False
        if worker.loop is not None:
            raise RuntimeError("This method is not supported in an async actor.")
        return bool(worker.is_cancelled(current.task))


_context = RuntimeContext()


def get_runtime_context() -> RuntimeContext:
    """Where this code runs: ids of task, actor and node, resources, the handle of this actor.

    >>> import weir
    >>> @weir.remote
    ... def f():
    ...     return weir.get_runtime_context().get_assigned_resources()
    >>> weir.get(f.remote())
    {'CPU': 1.0}
    """
    return _context


def get_gpu_ids() -> list[Any]:
    """The GPUs that this task, actor or function of a Dataset was given, as CUDA_VISIBLE_DEVICES numbers them; [] in the driver.

    >>> import weir
    >>> weir.get_gpu_ids()
    []
    """
    return [int(gpu) if str(gpu).isdecimal() else gpu for gpu in _gpus()]


def _gpus() -> list[str]:
    worker = runtime.worker
    return list(worker.hello["gpus"]) if worker is not None else _of_data_worker()[1]


def _standing() -> tuple[str, int, bool] | None:
    """What this process runs of a Dataset: an operator's name, the number of the task, whether in a pool of actors."""
    made = sys.modules.get("weir._worker")
    found: tuple[str, int, bool] | None = made.standing() if made is not None else None
    return found


def _here() -> bytes:
    """Twelve bytes that no other process has."""
    return WORKER_ID[:8] + os.getpid().to_bytes(4, "big")


def _of_data_worker() -> tuple[dict[str, float], list[str]]:
    """What this process was given, where it runs functions of a Dataset."""
    made = sys.modules.get("weir._worker")
    found: tuple[dict[str, float], list[str]] = made.given() if made is not None else ({}, [])
    return found
