"""What tasks and actors share: logical CPUs, GPUs, memory and what the user has named, of the session or of a reserved bundle.

    Pool.fits(wanted) ─▶ Pool.take(wanted) ─▶ Taken (with the numbers of its GPUs) ─▶ Pool.give(taken)

Amounts are logical: they may exceed the machine. Somebody who waits for others gives back what he has (lend), and takes it
again without asking (reclaim), so a pool may be overdrawn for a moment, and nobody waits for what a waiting one holds.
"""
from __future__ import annotations

from collections.abc import Mapping

SLACK = 1e-6  # fractions are floats


class Taken:
    """What somebody holds."""

    __slots__ = ("pool", "amounts", "gpus", "is_lent")

    def __init__(self, pool: Pool, amounts: Mapping[str, float], gpus: tuple[str, ...]) -> None:
        self.pool = pool
        self.amounts = amounts
        self.gpus = gpus
        self.is_lent = False


class Pool:
    """Named amounts, of which parts are taken.

    >>> pool = Pool({"CPU": 2.0, "GPU": 2.0}, ["0", "1"])
    >>> taken = pool.take({"CPU": 1.0, "GPU": 0.5})
    >>> taken.gpus, pool.free["CPU"], pool.fits({"CPU": 1.5})
    (('0',), 1.0, False)
    >>> pool.give(taken); pool.fits({"CPU": 1.5})
    True
    """

    def __init__(self, total: Mapping[str, float], gpus: list[str]) -> None:
        self.total = dict(total)
        self.free = dict(total)
        self.gpu_free = {gpu: 1.0 for gpu in gpus}

    def could_ever(self, wanted: Mapping[str, float]) -> str | None:
        """None, or which amount is more than there is at all."""
        for name, amount in wanted.items():
            if amount > self.total.get(name, 0.0) + SLACK:
                return name
        return None

    def fits(self, wanted: Mapping[str, float]) -> bool:
        """Whether it could be taken now."""
        free = self.free
        for name, amount in wanted.items():
            if amount > 0 and free.get(name, 0.0) + SLACK < amount:
                return False
        share = wanted.get("GPU", 0.0)
        return not share or self._choose(share) is not None

    def _choose(self, share: float) -> tuple[str, ...] | None:
        if share < 1:
            fitting = [gpu for gpu, free in self.gpu_free.items() if free + SLACK >= share]
            return (min(fitting, key=lambda gpu: self.gpu_free[gpu]),) if fitting else None
        whole = [gpu for gpu, free in self.gpu_free.items() if free > 1 - SLACK]
        return tuple(whole[:int(share)]) if len(whole) >= int(share) else None

    def take(self, wanted: Mapping[str, float]) -> Taken:
        """Takes it; fits() was asked before."""
        share = wanted.get("GPU", 0.0)
        gpus = (self._choose(share) or ()) if share else ()
        for gpu in gpus:
            self.gpu_free[gpu] -= min(1.0, share)
        self._add(wanted, -1)
        return Taken(self, wanted, gpus)

    def give(self, taken: Taken) -> None:
        """Gives all of it back."""
        for gpu in taken.gpus:
            self.gpu_free[gpu] += min(1.0, taken.amounts.get("GPU", 0.0))
        if not taken.is_lent:
            self._add(taken.amounts, 1)
        elif "GPU" in taken.amounts:
            self.free["GPU"] += taken.amounts["GPU"]
        taken.amounts = {}
        taken.gpus = ()

    def lend(self, taken: Taken) -> None:
        """Its holder waits: all but GPUs, whose memory he keeps, is free for others."""
        if not taken.is_lent:
            taken.is_lent = True
            self._add({name: amount for name, amount in taken.amounts.items() if name != "GPU"}, 1)

    def reclaim(self, taken: Taken) -> None:
        """Its holder goes on."""
        if taken.is_lent:
            taken.is_lent = False
            self._add({name: amount for name, amount in taken.amounts.items() if name != "GPU"}, -1)

    def _add(self, amounts: Mapping[str, float], sign: int) -> None:
        for name, amount in amounts.items():
            self.free[name] = round(self.free.get(name, 0.0) + sign * amount, 6)


class Group:
    """A placement group: bundles, each a pool of its own, cut out of the session's when there is room."""

    def __init__(self, id: bytes, bundles: list[dict[str, float]], strategy: str, name: str) -> None:
        self.id = id
        self.bundles = bundles
        self.strategy = strategy
        self.name = name
        self.pools: list[Pool] = []
        self.taken: list[Taken] = []
        self.is_removed = False

    def whole(self) -> dict[str, float]:
        """What all bundles together are."""
        total: dict[str, float] = {}
        for bundle in self.bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0.0) + amount
        return total

    def try_begin(self, pool: Pool) -> bool:
        """Whether it has its bundles now."""
        if self.pools or self.is_removed:
            return bool(self.pools)
        if not pool.fits(self.whole()):
            return False
        for bundle in self.bundles:
            taken = pool.take(bundle)
            self.taken.append(taken)
            self.pools.append(Pool(bundle, list(taken.gpus)))
        return True

    def pool_for(self, wanted: Mapping[str, float], bundle: int) -> Pool | None:
        """The bundle where it fits now."""
        candidates = self.pools if bundle < 0 else self.pools[bundle:bundle + 1]
        return next((pool for pool in candidates if pool.fits(wanted)), None)
