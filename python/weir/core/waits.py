"""Tells the user what a task waits for that may never come: what actors keep for as long as they live.

Waiting for other tasks is ordinary and is not told: those end. All under the node's lock.
"""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.core.actors import Actor
    from weir.core.node import Node
    from weir.core.tasks import Task

TOLD_S = 30.0  # after so long at the head of its line
NAMED_MAX = 5  # actors that the message names


class Waits:
    """Looks at the first task of each line that cannot begin."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.looked_at: set[object] = set()  # lines with a timer
        self.told: set[object] = set()

    def cannot_begin(self, line: object, task: Task) -> None:
        """There is not enough for it now."""
        if task.options.group is None and line not in self.looked_at and line not in self.told:
            self.looked_at.add(line)
            self.node.at(TOLD_S, lambda: self._look(line, task))

    def _look(self, line: object, task: Task) -> None:
        self.looked_at.discard(line)
        waiting = self.node.scheduler.lines.get(line)
        if not waiting or waiting[0] is not task:
            return
        for name, wanted in task.options.placing.items():
            holders = [actor for actor in self.node.actors.actors.values() if _held(actor, name)]
            held = sum(_held(actor, name) for actor in holders)
            total = self.node.pool.total.get(name, 0.0)
            if holders and total - held < wanted:
                self.told.add(line)
                text = _text(task, name, wanted, total, held, holders)
                self.node.defer(lambda: logging.getLogger("weir").warning(text))
                return


def _held(actor: Actor, name: str) -> float:
    taken = actor.took
    return 0.0 if taken is None or taken.is_lent else float(taken.amounts.get(name, 0.0))


def _text(task: Task, name: str, wanted: float, total: float, held: float, holders: list[Actor]) -> str:
    named = ", ".join(f"{actor.class_name} ({_held(actor, name):g})" for actor in holders[:NAMED_MAX])
    more = f" and {len(holders) - NAMED_MAX} more" if len(holders) > NAMED_MAX else ""
    how = {"CPU": "num_cpus=…", "GPU": "num_gpus=…", "memory": "memory=…"}.get(name, f"resources={{{name!r}: …}}")
    return (f"{task.name} has waited for {TOLD_S:g} s: it wants {wanted:g} {name}, and actors keep {held:g} of {total:g} for as long as they "
            f"live: {named}{more}. End one of them (kill, or drop its last handle), let them take less, or declare more with init({how})")
