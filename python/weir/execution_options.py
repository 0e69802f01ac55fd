"""ExecutionResources and ExecutionOptions: how much a run may use, and how it goes about it."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any


class _Named:
    """What has these fields and no others: one that is misspelt is kept, as Python does, and told of, as it would have no effect."""

    _NAMES: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._NAMES and not name.startswith("_"):
            import difflib

            from weir import _outdated

            near = difflib.get_close_matches(name, self._NAMES, 1)
            _outdated.at_caller(f"{type(self).__name__} has no field {name!r}{f'; did you mean {near[0]!r}?' if near else '.'} "
                                "It is kept, and has no effect", UserWarning)
        object.__setattr__(self, name, value)


class ExecutionResources(_Named):
    """How much of each resource; every field may be assigned. What is not given is none of it as a use, and any amount as a limit.

    >>> import weir
    >>> limits = weir.ExecutionResources(cpu=2)
    >>> limits.object_store_memory = 8e9
    >>> limits.cpu, limits.object_store_memory
    (2, 8000000000.0)
    """

    _NAMES = ("cpu", "gpu", "object_store_memory", "memory")

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        self._cpu = _rounded(cpu, 5)
        self._gpu = _rounded(gpu, 5)
        self._object_store_memory = _rounded(object_store_memory, 0)
        self._memory = _rounded(memory, 0)

    @property
    def cpu(self) -> float:
        """Logical CPUs.

        >>> ExecutionResources(cpu=0.5).cpu, ExecutionResources().cpu
        (0.5, 0.0)
        """
        return self._cpu or 0.0

    @cpu.setter
    def cpu(self, value: float | None) -> None:
        self._cpu = _rounded(value, 5)

    @property
    def gpu(self) -> float:
        """Logical GPUs.

        >>> ExecutionResources(gpu=1).gpu
        1
        """
        return self._gpu or 0.0

    @gpu.setter
    def gpu(self, value: float | None) -> None:
        self._gpu = _rounded(value, 5)

    @property
    def object_store_memory(self) -> float:
        """Bytes of data between operators.

        >>> ExecutionResources(object_store_memory=2e9).object_store_memory
        2000000000.0
        """
        return self._object_store_memory or 0

    @object_store_memory.setter
    def object_store_memory(self, value: float | None) -> None:
        self._object_store_memory = _rounded(value, 0)

    @property
    def memory(self) -> float:
        """Bytes that functions with memory= ask for.

        >>> ExecutionResources(memory=1 << 30).memory
        1073741824
        """
        return self._memory or 0

    @memory.setter
    def memory(self, value: float | None) -> None:
        self._memory = _rounded(value, 0)

    @classmethod
    def from_resource_dict(cls, resource_dict: dict[str, float]) -> ExecutionResources:
        """Of a dict with Ray's names of resources.

        >>> ExecutionResources.from_resource_dict({"CPU": 1}).cpu
        1
        """
        get = resource_dict.get
        return cls(
            get("CPU") or get("num_cpus"), get("GPU") or get("num_gpus"), get("object_store_memory"), get("memory")
        )

    def to_resource_dict(self) -> dict[str, float]:
        """A dict with Ray's names of resources; what was not given is 0.

        >>> ExecutionResources(cpu=4).to_resource_dict()
        {'CPU': 4, 'GPU': 0.0, 'object_store_memory': 0, 'memory': 0}
        """
        return {"CPU": self.cpu, "GPU": self.gpu, "object_store_memory": self.object_store_memory, "memory": self.memory}

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Limits: what is not given has none.

        >>> ExecutionResources.for_limits(cpu=2)
        ExecutionResources(cpu=2, gpu=inf, object_store_memory=inf, memory=inf)
        """

        def limit(value: float | None) -> float:
            return math.inf if value is None else value

        return cls(limit(cpu), limit(gpu), limit(object_store_memory), limit(memory))

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Nothing of anything.

        >>> ExecutionResources.zero()
        ExecutionResources(cpu=0.0, gpu=0.0, object_store_memory=0.0B, memory=0.0B)
        """
        return cls(0.0, 0.0, 0.0, 0.0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """No limit.

        >>> ExecutionResources.inf() == ExecutionResources.for_limits()
        True
        """
        return cls.for_limits()

    @classmethod
    def combine(cls, resources: Iterable[ExecutionResources], fn: Callable[[float, float], float]) -> ExecutionResources | None:
        """Several put together by a function of two numbers; None of none.

        >>> ExecutionResources.combine([ExecutionResources(1), ExecutionResources(3)], max).cpu
        3
        """
        made: ExecutionResources | None = None
        for each in resources:
            made = each.copy() if made is None else made._with(each, fn)
        return made

    @classmethod
    def combine_sum(cls, resources: Iterable[ExecutionResources]) -> ExecutionResources:
        """Their sum; zero() of none.

        >>> ExecutionResources.combine_sum([ExecutionResources(1), ExecutionResources(2, gpu=1)])
        ExecutionResources(cpu=3, gpu=1.0, object_store_memory=0.0B, memory=0.0B)
        """
        return cls.combine(resources, lambda a, b: a + b) or cls.zero()

    def _with(self, other: ExecutionResources, fn: Callable[[float, float], float]) -> ExecutionResources:
        return ExecutionResources(*(fn(getattr(self, name), getattr(other, name)) for name in self._NAMES))

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """Both together.

        >>> ExecutionResources(cpu=1).add(ExecutionResources(cpu=0.5)).cpu
        1.5
        """
        return self._with(other, lambda a, b: a + b)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """This without the other; it may become negative.

        >>> left = ExecutionResources(cpu=1).subtract(ExecutionResources(cpu=3))
        >>> left.cpu, left.is_non_negative()
        (-2, False)
        """
        return self._with(other, lambda a, b: a - b)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """The larger of each.

        >>> ExecutionResources(cpu=1, gpu=2).max(ExecutionResources(cpu=4)).to_resource_dict()
        {'CPU': 4, 'GPU': 2, 'object_store_memory': 0, 'memory': 0}
        """
        return self._with(other, lambda a, b: a if a > b else b)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """The smaller of each; what was not given counts as 0.

        >>> ExecutionResources(cpu=8).min(ExecutionResources.for_limits(cpu=2)).cpu
        2
        """
        return self._with(other, lambda a, b: a if a < b else b)

    def scale(self, f: float) -> ExecutionResources:
        """Each times `f`, which is not negative. No limit stays none, but for `f` = 0, which leaves nothing.

        >>> ExecutionResources.for_limits(cpu=2).scale(1.5)
        ExecutionResources(cpu=3.0, gpu=inf, object_store_memory=inf, memory=inf)
        """
        if f < 0:
            raise ValueError("Scaling factor must be non-negative.")
        return ExecutionResources(*(0.0 if not f or not (value := getattr(self, name)) else value * f for name in self._NAMES))

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """How often the other fits into each; inf for what the other has none of.

        >>> ExecutionResources(cpu=8, gpu=2).floordiv(ExecutionResources(cpu=3, gpu=1))
        ExecutionResources(cpu=2, gpu=2, object_store_memory=inf, memory=inf)
        """
        return self._with(other, lambda a, b: math.inf if not b or math.isinf(a) else math.floor(a / b))

    def is_zero(self) -> bool:
        """Whether there is nothing of anything.

        >>> ExecutionResources().is_zero(), ExecutionResources(gpu=0.1).is_zero()
        (True, False)
        """
        return not any(getattr(self, name) for name in self._NAMES)

    def is_non_negative(self) -> bool:
        """Whether nothing is negative.

        >>> ExecutionResources(cpu=0).is_non_negative(), ExecutionResources(cpu=-1).is_non_negative()
        (True, False)
        """
        return all(getattr(self, name) >= 0 for name in self._NAMES)

    def satisfies_limit(self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False) -> bool:
        """Whether this is within the limit. `ignore_object_store_memory`: of that there may be more.

        >>> use = ExecutionResources(cpu=4, object_store_memory=2e9)
        >>> limit = ExecutionResources.for_limits(cpu=4, object_store_memory=1e9)
        >>> use.satisfies_limit(limit), use.satisfies_limit(limit, ignore_object_store_memory=True)
        (False, True)
        """
        names = [name for name in self._NAMES if not (ignore_object_store_memory and name == "object_store_memory")]
        return all(getattr(self, name) <= getattr(limit, name) for name in names)

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """The same, with some fields changed.

        >>> ExecutionResources(cpu=1, gpu=1).copy(cpu=2)
        ExecutionResources(cpu=2, gpu=1, object_store_memory=0.0B, memory=0.0B)
        """
        return ExecutionResources(
            self.cpu if cpu is None else cpu,
            self.gpu if gpu is None else gpu,
            self.object_store_memory if object_store_memory is None else object_store_memory,
            self.memory if memory is None else memory,
        )

    def object_store_memory_str(self) -> str:
        """The bytes of object_store_memory as text.

        >>> ExecutionResources(object_store_memory=3 << 29).object_store_memory_str()
        '1.5GiB'
        """
        return _bytes_text(self.object_store_memory)

    def memory_str(self) -> str:
        """The bytes of memory as text.

        >>> ExecutionResources(memory=2048).memory_str(), ExecutionResources.inf().memory_str()
        ('2.0KiB', 'inf')
        """
        return _bytes_text(self.memory)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResources) and self.to_resource_dict() == other.to_resource_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_resource_dict().values()))

    def __repr__(self) -> str:
        return (
            f"ExecutionResources(cpu={self.cpu}, gpu={self.gpu}, object_store_memory={self.object_store_memory_str()}, "
            f"memory={self.memory_str()})"
        )


def _rounded(value: float | None, digits: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a resource is a number, not {type(value).__name__}")
    return value if math.isinf(value) else round(value, digits)


def _check_resources(name: str, value: object) -> None:
    if not isinstance(value, ExecutionResources):
        from weir._mistakes import WrongObject

        raise WrongObject(f"ExecutionOptions.{name} is an ExecutionResources, such as ExecutionResources(cpu=2), not {value!r}")


def _bytes_text(value: float) -> str:
    if math.isinf(value):
        return "inf"
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{float(value):.1f}{unit}"
        value /= 1024
    return f"{value:.1f}GiB"


class ExecutionOptions(_Named):
    """Options of a run: those of DataContext.execution_options.

    Args:
        resource_limits: how much a run may use.
        exclude_resources: how much of the machine it leaves to others.
        preserve_order: without effect: rows always come in order.
        actor_locality_enabled: without effect: there is one machine.
        verbose_progress: whether progress has a line for each operator; False: one for all.
        label_selector: None; there are no labelled machines to choose from.

    >>> import weir
    >>> options = weir.DataContext().execution_options
    >>> options.resource_limits.cpu = 2
    >>> options.resource_limits
    ExecutionResources(cpu=2, gpu=inf, object_store_memory=inf, memory=inf)
    """

    _NAMES = ("resource_limits", "exclude_resources", "preserve_order", "locality_with_output", "actor_locality_enabled", "verbose_progress", "label_selector")

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        preserve_order: bool = False,
        actor_locality_enabled: bool = True,
        verbose_progress: bool | None = None,
        label_selector: dict[str, str] | None = None,
    ) -> None:
        self.resource_limits = ExecutionResources.inf() if resource_limits is None else resource_limits
        self._set_exclude_resources(exclude_resources)
        self.preserve_order = preserve_order
        self._actor_locality_enabled = actor_locality_enabled
        if verbose_progress is None:
            verbose_progress = os.environ.get("RAY_DATA_VERBOSE_PROGRESS", "1") not in ("0", "")
        self.verbose_progress = verbose_progress
        self.label_selector = label_selector

    @property
    def locality_with_output(self) -> bool:
        """False: Ray Data took it away, and here there is one machine. Setting it warns.

        >>> ExecutionOptions().locality_with_output
        False
        """
        return False

    @locality_with_output.setter
    def locality_with_output(self, value: bool | list[str]) -> None:
        if value:
            warnings.warn("ExecutionOptions.locality_with_output is a no-op: Ray Data has removed it, and here there is one machine",
                          DeprecationWarning, stacklevel=2)

    @property
    def resource_limits(self) -> ExecutionResources:
        """How much a run may use; what is not given has no limit.

        >>> options = ExecutionOptions()
        >>> options.resource_limits = ExecutionResources(cpu=1)
        >>> options.resource_limits
        ExecutionResources(cpu=1, gpu=inf, object_store_memory=inf, memory=inf)
        """
        return self._resource_limits

    @resource_limits.setter
    def resource_limits(self, value: ExecutionResources) -> None:
        _check_resources("resource_limits", value)
        self._resource_limits = ExecutionResources.for_limits(value._cpu, value._gpu, value._object_store_memory, value._memory)

    @property
    def exclude_resources(self) -> ExecutionResources:
        """How much of the machine a run leaves to others.

        >>> ExecutionOptions(exclude_resources=ExecutionResources(cpu=1)).exclude_resources.cpu
        1
        """
        return self._exclude_resources

    @exclude_resources.setter
    def exclude_resources(self, value: ExecutionResources | None) -> None:
        from weir import _outdated
        from weir.util import RayDeprecationWarning

        _outdated.warn("`ExecutionOptions.exclude_resources` is deprecated in Ray Data, which is to lose it after January 2027; weir keeps it", RayDeprecationWarning)
        self._set_exclude_resources(value)

    def _set_exclude_resources(self, value: ExecutionResources | None) -> None:
        if value is not None:
            _check_resources("exclude_resources", value)
        self._exclude_resources = ExecutionResources.zero() if value is None else value

    @property
    def actor_locality_enabled(self) -> bool:
        """Without effect: there is one machine.

        >>> ExecutionOptions().actor_locality_enabled
        True
        """
        return self._actor_locality_enabled

    @actor_locality_enabled.setter
    def actor_locality_enabled(self, value: bool) -> None:
        from weir import _outdated
        from weir.util import RayDeprecationWarning

        _outdated.warn("`ExecutionOptions.actor_locality_enabled` is deprecated in Ray Data, and without effect here: there is one machine", RayDeprecationWarning)
        self._actor_locality_enabled = value

    @property
    def label_selector(self) -> dict[str, str] | None:
        """None: there are no labelled machines to choose from.

        >>> ExecutionOptions(label_selector={"region": "eu"})
        Traceback (most recent call last):
        ...
        ValueError: label_selector chooses nodes of a cluster, and weir runs on one machine
        """
        return None

    @label_selector.setter
    def label_selector(self, value: dict[str, str] | None) -> None:
        if value:
            raise ValueError("label_selector chooses nodes of a cluster, and weir runs on one machine")

    def is_resource_limits_default(self) -> bool:
        """Whether nothing is limited.

        >>> ExecutionOptions().is_resource_limits_default(), ExecutionOptions(ExecutionResources(cpu=2)).is_resource_limits_default()
        (True, False)
        """
        return self.resource_limits == ExecutionResources.inf()

    def validate(self) -> None:
        """Raises ValueError for limits that exclude each other.

        >>> ExecutionOptions(ExecutionResources(cpu=2), ExecutionResources(cpu=1)).validate()
        Traceback (most recent call last):
        ...
        ValueError: resource_limits and exclude_resources cannot both be set for cpu resource.
        """
        for name in ("cpu", "gpu", "object_store_memory"):
            limit = getattr(self.resource_limits, name)
            if not math.isinf(limit) and getattr(self.exclude_resources, name) > 0:
                raise ValueError(f"resource_limits and exclude_resources cannot both be set for {name} resource.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionOptions) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ExecutionOptions(resource_limits={self.resource_limits}, exclude_resources={self.exclude_resources}, "
            f"preserve_order={self.preserve_order}, actor_locality_enabled={self.actor_locality_enabled}, "
            f"verbose_progress={self.verbose_progress}, label_selector={self.label_selector})"
        )
