"""Placement groups and scheduling strategies on one machine: bundles are reserved amounts of the session's resources."""
from __future__ import annotations

import os
from typing import Any

from weir.core import context, runtime
from weir.core.numbers import PlacementGroupID as PlacementGroupID

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class PlacementGroup:
    """Bundles of resources that are reserved together. Tasks and actors are put into it by PlacementGroupSchedulingStrategy.

    >>> import weir
    >>> group = weir.core.placement_group([{"CPU": 1}])
    >>> weir.get(group.ready()) == group, group.bundle_specs, group.wait(5)
    (True, [{'CPU': 1.0}], True)
    >>> weir.core.remove_placement_group(group)
    """

    def __init__(self, id: PlacementGroupID, bundles: list[dict[str, float]] | None = None) -> None:
        self.id = id
        self.bundle_cache = bundles or []

    @staticmethod
    def empty() -> PlacementGroup:
        """None at all.

        >>> PlacementGroup.empty().is_empty
        True
        """
        return PlacementGroup(PlacementGroupID(bytes(18)), [])

    @property
    def is_empty(self) -> bool:
        """Whether it is none.

        >>> PlacementGroup(PlacementGroupID(bytes(18)), [{"CPU": 1}]).is_empty
        False
        """
        return not self.bundle_cache

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """What was asked for.

        >>> PlacementGroup(PlacementGroupID(bytes(18)), [{"CPU": 1}]).bundle_specs
        [{'CPU': 1.0}]
        """
        return [{name: float(amount) for name, amount in bundle.items()} for bundle in self.bundle_cache]

    @property
    def bundle_count(self) -> int:
        """How many bundles.

        >>> PlacementGroup(PlacementGroupID(bytes(18)), [{"CPU": 1}]).bundle_count
        1
        """
        return len(self.bundle_cache)

    def ready(self) -> Any:
        """A reference that is there when the bundles are reserved; its value is this group.

        >>> import weir
        >>> group = weir.core.placement_group([{"CPU": 1}])
        >>> weir.get(group.ready()) == group
        True
        >>> weir.core.remove_placement_group(group)
        """
        from weir.core.functions import remote

        def ready(group: PlacementGroup) -> PlacementGroup:
            return group

        strategy = PlacementGroupSchedulingStrategy(self)
        return remote(num_cpus=0)(ready).options(scheduling_strategy=strategy, name="PlacementGroup.ready").remote(self)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Whether they are reserved within so many seconds.

        >>> import weir
        >>> group = weir.core.placement_group([{"CPU": 1}])
        >>> group.wait(30)
        True
        >>> weir.core.remove_placement_group(group)
        """
        import time

        end = time.monotonic() + timeout_seconds
        while not runtime.get().call("group_ready", self.id.binary()):
            if time.monotonic() >= end:
                return False
            time.sleep(0.005)
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()}, {self.bundle_cache})"


class PlacementGroupSchedulingStrategy:
    """Puts a task or actor into a placement group.

    >>> PlacementGroupSchedulingStrategy(PlacementGroup.empty()).placement_group_bundle_index
    -1
    """

    def __init__(self, placement_group: PlacementGroup, placement_group_bundle_index: int = -1,
                 placement_group_capture_child_tasks: bool | None = None) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """Puts a task or actor onto a node, of which there is one.

    >>> NodeAffinitySchedulingStrategy("00", soft=True).soft
    True
    """

    def __init__(self, node_id: str, soft: bool, _spill_on_unavailable: bool = False, _fail_on_unavailable: bool = False) -> None:
        self.node_id = node_id if isinstance(node_id, str) else node_id.hex()
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable


class NodeLabelSchedulingStrategy:
    """Chooses nodes by labels, of which there is one: hard wishes are refused.

    >>> NodeLabelSchedulingStrategy({}, soft={"x": None}).hard
    {}
    """

    def __init__(self, hard: dict[str, Any], *, soft: dict[str, Any] | None = None) -> None:
        if hard:
            raise ValueError(f"there is one node, and it has no labels: {hard} cannot be met")
        self.hard = hard
        self.soft = soft or {}


def placement_group(bundles: list[dict[str, float]], strategy: str | None = None, name: str = "", lifetime: str | None = None,
                    _soft_target_node_id: str | None = None, bundle_label_selector: list[dict[str, str]] | None = None) -> PlacementGroup:
    """Reserves bundles of resources, all or none, as soon as they are free.

    Args:
        bundles: each a dict such as {"CPU": 2, "GPU": 1}.
        strategy: PACK (None), SPREAD and STRICT_PACK are the same on one machine; STRICT_SPREAD of several bundles is refused.
        name: for the table.
        lifetime: None or "detached": until it is removed, or the session ends.
        bundle_label_selector: one machine has no labels: without effect.

    >>> import weir
    >>> weir.core.placement_group([{"CPU": 100000}])
    Traceback (most recent call last):
    ValueError: a placement group of [{'CPU': 100000.0}] wants 100000 CPU, and the session has ...
    """
    if not isinstance(bundles, list):
        raise ValueError(f"The type of bundles must be list, got {bundles}")
    if not bundles:
        raise ValueError("The placement group `bundles` argument cannot contain an empty list")
    for bundle in bundles:
        if not bundle or not isinstance(bundle, dict) or all(amount == 0 for amount in bundle.values()):
            raise ValueError(f"Bundles cannot be an empty dictionary or resources with only 0 values. Bundles: {bundles}")
    if strategy is None:
        strategy = "PACK"
    if strategy not in STRATEGIES:
        raise ValueError(f"Invalid strategy type {strategy!r}: one of {', '.join(STRATEGIES)}")
    if strategy == "STRICT_SPREAD" and len(bundles) > 1:
        raise ValueError("STRICT_SPREAD puts each bundle onto a node of its own, and there is one node")
    if lifetime not in (None, "detached"):
        raise ValueError(f"placement group `lifetime` argument must be either `None` or 'detached', not {lifetime!r}")
    id = PlacementGroupID(os.urandom(18))
    amounts = [{key: float(amount) for key, amount in bundle.items() if amount} for bundle in bundles]
    runtime.get().call("group", id.binary(), amounts, strategy, name)
    return PlacementGroup(id, [dict(bundle) for bundle in bundles])


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Gives back what it has reserved; tasks and actors in it end.

    >>> import weir
    >>> weir.core.remove_placement_group(weir.core.placement_group([{"CPU": 1}]))
    """
    runtime.get().call("group_remove", placement_group.id.binary())


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """What is known of one, or of all by their number.

    >>> import weir
    >>> weir.core.placement_group_table()
    {}
    """
    found: dict[bytes, dict[str, Any]] = runtime.get().call("groups")
    if placement_group is not None:
        return found.get(placement_group.id.binary(), {"placement_group_id": placement_group.id.hex(), "state": "REMOVED"})
    return {id.hex(): entry for id, entry in found.items()}


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The one of that name. ValueError: there is none.

    >>> import weir
    >>> weir.core.get_placement_group("nobody")
    Traceback (most recent call last):
    ValueError: Failed to look up placement group with name: nobody
    """
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    for id, entry in runtime.get().call("groups").items():
        if entry["name"] == placement_group_name:
            return PlacementGroup(PlacementGroupID(id), list(entry["bundles"].values()))
    raise ValueError(f"Failed to look up placement group with name: {placement_group_name}")


def get_current_placement_group() -> PlacementGroup | None:
    """The one that the task, actor or function of a Dataset that asks is in; None: it is in none.

    >>> get_current_placement_group() is None
    True
    """
    found = context.group()
    return None if found is None else PlacementGroup(PlacementGroupID(found[0]), found[1])


def of_children() -> PlacementGroup | None:
    """The one of tasks that are started here and name none."""
    found = context.group()
    return get_current_placement_group() if found is not None and found[2] else None
