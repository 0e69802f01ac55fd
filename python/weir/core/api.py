"""get, put, wait, kill, cancel: what programs call on objects and actors, in the driver, in tasks and in functions of a Dataset alike."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from weir.core import errors, objects, runtime
from weir.core.objects import ObjectRef, ObjectRefGenerator
from weir.core.payload import dump, load

T = TypeVar("T")


@overload
def get(object_refs: Sequence[ObjectRef[T]], *, timeout: float | None = None) -> list[T]: ...
@overload
def get(object_refs: ObjectRef[T], *, timeout: float | None = None) -> T: ...
def get(object_refs: Any, *, timeout: float | None = None) -> Any:
    """The value of a reference, or the values of a list of them. Waits until they are there. Large arrays are read-only views of shared
    memory.

    Args:
        object_refs: a reference or a list of them.
        timeout: seconds to wait; GetTimeoutError when they are over. 0: only what is there.

    >>> import weir
    >>> weir.get([weir.put(1), weir.put("two")])
    [1, 'two']
    """
    if isinstance(object_refs, ObjectRef):
        return _values([object_refs._id], timeout)[0]
    if isinstance(object_refs, ObjectRefGenerator):  # as what num_returns="dynamic" gives is got: it gives references
        return object_refs
    if not isinstance(object_refs, list):
        raise ValueError(f"Invalid type of object refs, {type(object_refs)}, is given. 'object_refs' must either be an ObjectRef or a list of "
                         "ObjectRefs.")
    for ref in object_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"Attempting to call `get` on the value {ref!r}, which is not an ray.ObjectRef.")
    if not object_refs:
        return []
    return _values([ref._id for ref in object_refs], timeout)


def _values(wanted: list[bytes], timeout: float | None) -> list[Any]:
    found = runtime.get().get(wanted, timeout)
    if found is None:
        from weir.exceptions import GetTimeoutError

        raise GetTimeoutError(f"Get timed out: some object(s) not ready after {timeout:g} seconds.")
    values = []
    for payload, shared in found:
        if payload.kind:
            raise errors.raised(payload)
        if len(found) == len(wanted):
            values.append(load(payload, shared))
    return values


def put(value: T) -> ObjectRef[T]:
    """Keeps a value for the session's processes and gives a reference to it. Large arrays lie in shared memory, once.

    >>> import weir
    >>> weir.get(weir.put({"a": 1}))
    {'a': 1}
    """
    if isinstance(value, ObjectRef):
        raise TypeError("Calling 'put' on an ray.ObjectRef is not allowed. If you really want to do this, you can wrap the ray.ObjectRef in a "
                        "list and call 'put' on it.")
    return objects.own(runtime.get().put(dump(value, "the value")))


def wait(ray_waitables: list[Any], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True) -> tuple[list[Any], list[Any]]:
    """Waits until `num_returns` of the references are there, or time is up. Those that are, num_returns at most, and the others; each in the
    order of the list.

    Args:
        ray_waitables: references, all different; or generators, which are ready when their next item is.
        num_returns: how many.
        timeout: seconds; None: for as long as it takes.
        fetch_local: one machine has nothing to fetch: without effect.

    >>> import weir
    >>> a, b = weir.put(1), weir.put(2)
    >>> ready, rest = weir.wait([a, b], num_returns=2)
    >>> ready == [a, b], rest
    (True, [])
    """
    if isinstance(ray_waitables, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got a single ray.ObjectRef or "
                        f"ray.ObjectRefGenerator {ray_waitables}")
    if not isinstance(ray_waitables, list):
        raise TypeError(f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got {type(ray_waitables)}")
    if timeout is not None and timeout < 0:
        raise ValueError(f"The 'timeout' argument must be nonnegative. Received {timeout}")
    for item in ray_waitables:
        if not isinstance(item, (ObjectRef, ObjectRefGenerator)):
            raise TypeError(f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing {type(item)}")
    if not ray_waitables:
        return [], []
    if len(set(ray_waitables)) != len(ray_waitables):
        raise ValueError("Wait requires a list of unique ray_waitables.")
    if num_returns <= 0:
        raise ValueError(f"Invalid number of objects to return {num_returns}.")
    if num_returns > len(ray_waitables):
        raise ValueError("num_returns cannot be greater than the number of ray_waitables provided to ray.wait.")
    if any(isinstance(item, ObjectRefGenerator) for item in ray_waitables):
        there = _wait_for_generators(ray_waitables, num_returns, timeout)
    else:
        found = runtime.get().wait([ref._id for ref in ray_waitables], num_returns, timeout)
        there = [ref for ref in ray_waitables if ref._id in found]
    ready = there[:num_returns]
    chosen = set(ready)
    return ready, [item for item in ray_waitables if item not in chosen]


def _wait_for_generators(items: list[Any], count: int, timeout: float | None) -> list[Any]:
    """A generator is there when its next item is, or its end."""
    over = [item for item in items if isinstance(item, ObjectRefGenerator) and item._is_over]
    names = {item: (item._ref._id, item._index + 1) if isinstance(item, ObjectRefGenerator) else item._id for item in items if item not in over}
    found = runtime.get().wait(list(names.values()), count - len(over), timeout) if len(over) < count else set()
    return [item for item in items if item in over or names.get(item) in found]


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """Ends an actor at once. Calls that it has not finished, and later ones, raise ActorDiedError.

    Args:
        actor: its handle.
        no_restart: False: it is started again if max_restarts allows it.

    >>> import weir
    >>> weir.kill(weir.put(1))
    Traceback (most recent call last):
    ValueError: ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: <class 'weir.core.objects.ObjectRef'>.
    """
    from weir.core.handles import ActorHandle

    if not isinstance(actor, ActorHandle):
        raise ValueError(f"ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: {type(actor)}.")
    runtime.get().call("kill", actor._id, bool(no_restart))


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancels the task behind a reference. One that waits never starts; one that runs is interrupted by KeyboardInterrupt; get raises
    TaskCancelledError.

    Args:
        ray_waitable: an ObjectRef or ObjectRefGenerator.
        force: its process is killed. Not for actors.
        recursive: tasks that it has started are cancelled, too.

    >>> import weir
    >>> @weir.remote
    ... def forever():
    ...     import time
    ...     time.sleep(1000)
    >>> ref = forever.remote()
    >>> weir.cancel(ref)
    >>> weir.get(ref)
    Traceback (most recent call last):
    weir._errors.TaskCancelledError: ...
    """
    if isinstance(ray_waitable, ObjectRefGenerator):
        ray_waitable = ray_waitable.completed()
    if not isinstance(ray_waitable, ObjectRef):
        raise TypeError(f"ray.cancel() only supported for object refs. For actors, try ray.kill(). Got: {type(ray_waitable)}.")
    runtime.get().call("cancel", ray_waitable._id, bool(force), bool(recursive))


def get_object_locations(obj_refs: list[Any], timeout_ms: int = -1) -> dict[Any, dict[str, Any]]:
    """Where objects are: on this machine, with their size in bytes. Nobody has to be asked, so `timeout_ms` is without effect.

    >>> import weir
    >>> ref = weir.put(bytes(100_000))
    >>> weir.core.get_object_locations([ref])[ref]["object_size"] >= 100_000
    True
    """
    from weir.core.context import get_runtime_context

    node = get_runtime_context().get_node_id()
    sizes = runtime.get().call("sizes", [ref._id for ref in obj_refs])
    return {ref: {"node_ids": [node] if is_there else [], "object_size": size if is_there else None, "did_spill": False}
            for ref, (is_there, size) in zip(obj_refs, sizes)}


def free(object_refs: Any, local_only: bool = False) -> None:
    """Objects are freed when the last reference goes; nothing else frees them: refused.

    >>> free([])
    Traceback (most recent call last):
    NotImplementedError: objects are freed when the last reference to them goes: del the references
    """
    raise NotImplementedError("objects are freed when the last reference to them goes: del the references")


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """The names of the actors that have one; with all_namespaces as dicts of namespace and name.

    >>> import weir
    >>> isinstance(weir.core.list_named_actors(), list)
    True
    """
    found: list[Any] = runtime.get().call("named_actors", bool(all_namespaces))
    return found
