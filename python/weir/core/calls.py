"""What the node does on request and answers at once: by name, from the driver or from a peer. Under the node's lock."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.core import ids
from weir.core.actors import ALIVE, DEAD
from weir.core.resources import Group

if TYPE_CHECKING:
    from weir.core.node import Node
    from weir.core.peers import Peer


class Calls:
    """One method a call; `peer` is who asks, None for the driver."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def run(self, peer: Peer | None, name: str, args: tuple[Any, ...]) -> Any:
        """Calls `name`."""
        return getattr(self, f"do_{name}")(peer, *args)

    # ---- objects and tasks ----

    def do_pin(self, peer: Peer | None, id: bytes) -> None:
        """It stays until the session ends."""
        self.node.store.hold(id)

    def do_sizes(self, peer: Peer | None, wanted: list[bytes]) -> list[tuple[bool, int]]:
        """Whether each is there, and its bytes."""
        found = []
        for id in wanted:
            entry = self.node.store.entries.get(id)
            payload = entry.payload if entry is not None else None
            found.append((payload is not None, 0 if payload is None else payload.size + len(payload.data or b"")))
        return found

    def do_cancel(self, peer: Peer | None, id: bytes, force: bool, recursive: bool) -> None:
        """See weir.cancel."""
        task = id[:ids.TASK]
        below = self.node.scheduler.children(task) if recursive else []
        found = self.node.scheduler.tasks.get(task)
        if found is not None and recursive:
            found.ends_children = True  # those too that are still on their way here
        self.node.scheduler.cancel(id, force)
        for child in below:
            self.do_cancel(peer, ids.object_of(child.id, 0), force, recursive)

    def do_stream_ready(self, peer: Peer | None, id: bytes, index: int) -> bool:
        """Whether the next item is there, or the end."""
        return self.node.streams.next(id, index, take=False) is not None

    def do_stream_over(self, peer: Peer | None, id: bytes, index: int) -> bool:
        """Whether there are no more."""
        return self.node.streams.next(id, index, take=False) is False

    # ---- actors ----

    def do_kill(self, peer: Peer | None, id: bytes, no_restart: bool) -> None:
        """See weir.kill."""
        self.node.actors.kill(id, no_restart)

    def do_find_actor(self, peer: Peer | None, name: str, namespace: str | None) -> dict[str, Any] | None:
        """What a handle is made of, which is not counted: it does not keep the actor. None: there is no such actor."""
        actors = self.node.actors
        id = actors.names.get((namespace or actors.namespace, name))
        actor = actors.actors.get(id) if id is not None else None
        if actor is None or actor.state == DEAD or actor.is_killed:
            return None
        return {"id": actor.id, **actor.about}

    def do_named_actors(self, peer: Peer | None, everywhere: bool) -> list[Any]:
        """See weir.util.list_named_actors."""
        actors = self.node.actors
        if everywhere:
            return [{"namespace": namespace, "name": name} for namespace, name in actors.names]
        return [name for namespace, name in actors.names if namespace == actors.namespace]

    def do_actor(self, peer: Peer | None, id: bytes) -> dict[str, Any]:
        """How an actor is."""
        actor = self.node.actors.actors.get(id)
        if actor is None:
            return {"state": DEAD, "pid": 0, "restarts": 0}
        return {"state": actor.state, "pid": actor.worker.pid if actor.worker is not None else 0, "restarts": actor.restarts,
                "pending": actor.calls(), "alive": actor.state == ALIVE}

    # ---- resources ----

    def do_cluster_resources(self, peer: Peer | None) -> dict[str, float]:
        """All."""
        from weir import _session

        return _session.cluster_resources()

    def do_available_resources(self, peer: Peer | None) -> dict[str, float]:
        """What is free."""
        from weir import _session

        return _session.with_free(_session.cluster_resources(), self.node.state, self.node.pool.free)

    def do_group(self, peer: Peer | None, id: bytes, bundles: list[dict[str, float]], strategy: str, name: str) -> None:
        """A placement group; ValueError if there will never be room for it."""
        group = Group(id, bundles, strategy, name)
        lacking = self.node.pool.could_ever(group.whole())
        if lacking is not None:
            raise ValueError(f"a placement group of {bundles} wants {group.whole()[lacking]:g} {lacking}, and the session has "
                             f"{self.node.pool.total.get(lacking, 0.0):g}")
        self.node.scheduler.groups[id] = group
        group.try_begin(self.node.pool)

    def do_group_ready(self, peer: Peer | None, id: bytes) -> bool:
        """Whether it has its bundles."""
        group = self.node.scheduler.groups.get(id)
        return group is not None and group.try_begin(self.node.pool)

    def do_group_remove(self, peer: Peer | None, id: bytes) -> None:
        """It gives them back."""
        self.node.scheduler.remove_group(id)

    def do_groups(self, peer: Peer | None) -> dict[bytes, dict[str, Any]]:
        """All there are."""
        return {id: {"placement_group_id": id.hex(), "name": group.name, "bundles": dict(enumerate(group.bundles)),
                     "strategy": group.strategy, "state": "CREATED" if group.pools else "PENDING"}
                for id, group in self.node.scheduler.groups.items()}
