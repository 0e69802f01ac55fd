"""A call of a remote function or of an actor's method, as it goes from whoever makes it to the node and on to a worker."""
from __future__ import annotations

from typing import Any

from weir.core import ids
from weir.core.payload import Payload

FUNCTION, CREATE, METHOD = 0, 1, 2
STREAMING, DYNAMIC = -1, -2  # in place of the number of values

RETRIES = 3  # of a task whose worker dies


class Place:
    """Stands in a task's arguments for the value of an object."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> Any:
        return Place, (self.index,)


class Options:
    """What is the same for every call of a function, or of an actor: made once, sent along.

    resources: what it takes while it runs, "CPU" and "GPU" among them. placing: what an actor takes until it is made.
    """

    __slots__ = ("name", "resources", "placing", "max_retries", "runtime_env", "group", "bundle",
                 "captures", "max_calls", "actor", "max_concurrency", "backpressure", "key")

    def __init__(self, name: str, resources: dict[str, float]) -> None:
        self.name = name
        self.resources = resources
        self.placing: dict[str, float] = resources
        self.max_retries = RETRIES
        self.runtime_env: dict[str, Any] | None = None
        self.group: bytes | None = None  # placement group
        self.bundle = -1
        self.captures = False  # what it starts is in the group, too
        self.max_calls = 0
        self.actor: dict[str, Any] | None = None  # of a class: name, namespace, max_restarts, …
        self.max_concurrency = 1
        self.backpressure = 0
        self.key: Any = None

    def __reduce__(self) -> Any:
        return _options, tuple(getattr(self, name) for name in self.__slots__)

    def same(self) -> Any:
        """Calls with equal keys wait in one line."""
        if self.key is None:
            env = repr(sorted(self.runtime_env.items(), key=str)) if self.runtime_env else ""
            self.key = (tuple(sorted(self.placing.items())), env, self.group, self.bundle)
        return self.key


def _options(*values: Any) -> Options:
    made = Options.__new__(Options)
    for name, value in zip(Options.__slots__, values):
        setattr(made, name, value)
    return made


class Task:
    """One call. The first fields are its maker's, those after `worker` the node's own."""

    __slots__ = ("id", "kind", "function", "name", "returns", "needs", "actor", "method", "options", "parent",
                 "args", "args_fd", "worker", "missing", "retries", "peer", "is_cancelled", "gpus", "took", "seen",
                 "ends_children")

    def __init__(self, kind: int, function: bytes, name: str, returns: int, needs: tuple[bytes, ...], options: Options,
                 actor: bytes = b"", method: str = "", parent: bytes = b"") -> None:
        self.id = ids.new_task()
        self.kind = kind
        self.function = function
        self.name = name
        self.returns = returns
        self.needs = needs    # objects whose values are arguments
        self.actor = actor
        self.method = method
        self.options = options
        self.parent = parent
        self._begin()

    def _begin(self) -> None:
        self.args: Payload | None = None
        self.args_fd = -1
        self.worker: Any = None
        self.missing = 0
        self.retries = self.options.max_retries
        self.peer: Any = None
        self.is_cancelled = False
        self.gpus: tuple[str, ...] = ()
        self.took: Any = None
        self.seen = 0         # items of a generator that are there, from an earlier try
        self.ends_children = False  # it was cancelled with all that it starts

    def fields(self) -> tuple[Any, ...]:
        """For a message."""
        return (self.id, self.kind, self.function, self.name, self.returns, self.needs, self.actor, self.method, self.options,
                self.parent)

    @classmethod
    def of(cls, fields: tuple[Any, ...]) -> Task:
        """From a message."""
        task = cls.__new__(cls)
        (task.id, task.kind, task.function, task.name, task.returns, task.needs, task.actor, task.method, task.options,
         task.parent) = fields
        task._begin()
        return task

    def outputs(self) -> list[bytes]:
        """The numbers of what it returns; a generator's own is 0."""
        if self.returns < 0:
            return [ids.object_of(self.id, 0)]
        return [ids.object_of(self.id, i + 1) for i in range(self.returns)]
