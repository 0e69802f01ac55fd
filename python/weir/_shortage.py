"""Whether a worker process is short of memory: by its errors, and by what it has."""
from __future__ import annotations

import errno
import resource  # now: where memory has run out it could not be loaded any more

REFUSALS = ("DefaultCPUAllocator: can't allocate memory", "std::bad_alloc")  # of torch, and of C++, as RuntimeErrors
NEAR_LIMIT = 16 << 20  # so much below its limit a worker may be short of memory: the largest pieces that importing asks for


class Shortage:
    """Whether a failure is due to the limit on memory that the engine has set, and so the engine's to deal with."""

    def __init__(self) -> None:
        self.limit = resource.RLIM_INFINITY  # when the task began: it may have been raised since
        self.was_short = False  # from then on, modules may be there in part

    def begin(self) -> None:
        self.limit = resource.getrlimit(resource.RLIMIT_DATA)[0]

    def explains(self, error: BaseException, now: int | None = None) -> bool:
        """`now`: the bound, where it is lifted for a moment."""
        if now is None:
            now = resource.getrlimit(resource.RLIMIT_DATA)[0]
        limits = [limit for limit in (self.limit, now) if limit != resource.RLIM_INFINITY]
        found = self._is_refusal(error, bool(limits)) or (bool(limits) and self._is_consequence(error, min(limits)))
        self.was_short = self.was_short or found
        return found

    def _is_refusal(self, error: BaseException, is_limited: bool) -> bool:
        from weir import _weir

        if isinstance(error, MemoryError):
            return is_limited or isinstance(error, _weir.Error)  # the latter: no room for the result
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return is_limited
        # The interpreter itself forgets to say so now and then, where it has no memory for what it makes (modules, mostly).
        said = (*REFUSALS, "without setting an exception", "error return without exception set")
        return is_limited and isinstance(error, (RuntimeError, SystemError)) and any(words in str(error) for words in said)

    def _is_consequence(self, error: BaseException, limit: int) -> bool:
        """A module that could not be imported as a whole fails in any way. What has another reason fails with more memory, too."""
        return isinstance(error, (ImportError, AttributeError, TypeError, SystemError)) and (
            self.was_short or data_bytes() > limit - NEAR_LIMIT)


shortage = Shortage()


class RoomToSaySo:
    """A process that has no memory to say that it was short of it would be taken for one that crashed. Gives the bound that it lifts."""

    def __enter__(self) -> int:
        self.bound = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (self.bound[1], self.bound[1]))
        return self.bound[0]

    def __exit__(self, *_: object) -> None:
        if resource.getrlimit(resource.RLIMIT_DATA)[0] == self.bound[1]:  # the driver has not set another meanwhile
            resource.setrlimit(resource.RLIMIT_DATA, self.bound)


def _pages(*fields: int) -> list[int]:
    """Fields of /proc/self/statm, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        values = file.read().split()
    return [int(values[field]) * resource.getpagesize() for field in fields]


def data_bytes() -> int:
    """What RLIMIT_DATA counts of this process."""
    return _pages(5)[0]


def anon_bytes() -> int:
    """What this process has of its own."""
    resident, shared = _pages(1, 2)
    return resident - shared


def give_back() -> None:
    """Free memory that the allocator keeps goes to the system."""
    import ctypes

    ctypes.CDLL(None).malloc_trim(0)
