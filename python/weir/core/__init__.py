"""Objects, remote functions and actors on weir's worker processes: what programs use of Ray beside its data.

    functions.py handles.py api.py placement.py …   what programs call
    runtime.py   whose session this process belongs to: node.py in the driver, client.py elsewhere
    node.py      store.py scheduler.py actors.py streams.py resources.py peers.py processes.py memory_watch.py waits.py calls.py: the driver's
                 side, under one lock
    worker.py    the process that runs tasks, or keeps an actor
    payload.py channel.py messages.py errors.py tasks.py ids.py numbers.py: what goes between them
"""
from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

_WHERE = {
    "ActorClass": "handles",
    "ActorClassInheritanceException": "handles",
    "ActorHandle": "handles",
    "ActorID": "numbers",
    "ActorMethod": "handles",
    "ActorPool": "actor_pool",
    "DynamicObjectRefGenerator": "objects",
    "Empty": "queue",
    "Full": "queue",
    "JobID": "numbers",
    "NodeAffinitySchedulingStrategy": "placement",
    "NodeID": "numbers",
    "NodeLabelSchedulingStrategy": "placement",
    "ObjectID": "objects",
    "ObjectRef": "objects",
    "ObjectRefGenerator": "objects",
    "PlacementGroup": "placement",
    "PlacementGroupID": "numbers",
    "PlacementGroupSchedulingStrategy": "placement",
    "Pool": "process_pool",
    "Queue": "queue",
    "RemoteFunction": "functions",
    "RuntimeContext": "context",
    "StreamingObjectRefGenerator": "objects",
    "TaskID": "numbers",
    "TimeoutError": "process_pool",
    "UniqueID": "numbers",
    "WorkerID": "numbers",
    "cancel": "api",
    "exit_actor": "handles",
    "free": "api",
    "get": "api",
    "get_actor": "handles",
    "get_current_placement_group": "placement",
    "get_gpu_ids": "context",
    "get_object_locations": "api",
    "get_placement_group": "placement",
    "get_runtime_context": "context",
    "kill": "api",
    "list_named_actors": "api",
    "method": "handles",
    "placement_group": "placement",
    "placement_group_table": "placement",
    "put": "api",
    "remote": "functions",
    "remove_placement_group": "placement",
    "wait": "api",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module 'weir.core' has no attribute {name!r}")
    module = import_module(f"weir.core.{_WHERE[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value
