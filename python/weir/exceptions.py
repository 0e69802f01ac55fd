"""The exceptions that weir raises, under the names of Ray and Ray Data, with their bases.

An error in a user's function is caught by its own class, by UserCodeException and by RayTaskError:

    >>> from weir.exceptions import RayTaskError, UserCodeException
    >>> issubclass(UserCodeException, Exception) and issubclass(RayTaskError, Exception)
    True

Those that only a cluster can meet are there for `except` clauses that name them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from weir._errors import (
    ActorDiedError,
    ArrowConversionError,
    ExecutionTimeoutError,
    OutOfMemoryError,
    RayActorError,
    RayDataUserCodeException,
    RayError,
    RayTaskError,
    SystemException,
    TaskCancelledError,
    UserCodeException,
    WorkerCrashedError,
)

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "ArrowConversionError",
    "AsyncioActorExit",
    "AuthenticationError",
    "CrossLanguageError",
    "ExecutionTimeoutError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError",
    "OufOfBandObjectRefSerializationException",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayCgraphCapacityExceeded",
    "RayChannelError",
    "RayChannelTimeoutError",
    "RayDataUserCodeException",
    "RayDirectTransportError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RpcError",
    "RuntimeEnvSetupError",
    "StreamingGeneratorReplayInconsistentError",
    "SystemException",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnserializableException",
    "UserCodeException",
    "WorkerCrashedError",
    "omit_traceback_stdout",
]

F = TypeVar("F", bound=Callable[..., Any])


class ActorAlreadyExistsError(ValueError, RayError):
    """An actor of that name is there already.

    >>> import weir
    >>> class Counter: pass
    >>> one = weir.remote(Counter).options(name="counter").remote()
    >>> try: weir.remote(Counter).options(name="counter").remote()
    ... except ActorAlreadyExistsError: print("there already")
    there already
    >>> weir.kill(one)
    """


class ActorHandleNotFoundError(ValueError, RayError):
    """An actor's handle is of a session that has ended."""


class ActorPlacementGroupRemoved(RayError):
    """The placement group of an actor was removed."""
    _says = "The placement group of this actor was removed."


class ActorUnavailableError(RayActorError):
    """An actor does not answer now: its process died, and it is started again."""

    def __init__(self, error_message: str = "", actor_id: bytes | None = None) -> None:
        super().__init__(None if actor_id is None else actor_id.hex(), error_message)


class ActorUnschedulableError(RayError):
    """There is no place for an actor."""


class AsyncioActorExit(RayError):
    """An async actor ended itself."""


class AuthenticationError(RayError):
    """A connection was refused: it was made by another user or had no token."""


class CrossLanguageError(RayError):
    """A function of another language failed; weir calls none."""


class GetTimeoutError(RayError, TimeoutError):
    """get() waited for as long as its timeout.

    >>> import time, weir
    >>> try: weir.get(weir.remote(time.sleep).remote(1), timeout=0.01)
    ... except GetTimeoutError as error: print(error)
    Get timed out: some object(s) not ready after 0.01 seconds.
    """


class LocalRayletDiedError(RayError):
    """The process that starts workers died."""


class NodeDiedError(RayError):
    """A machine was lost; weir runs on one."""


class ObjectLostError(RayError):
    """An object is gone: its session has ended, or the process that kept it died. Programs make one of its number and who made it."""

    def __init__(self, object_ref_hex: str = "", owner_address: Any = None, call_site: str = "") -> None:
        super().__init__(object_ref_hex)
        self.object_ref_hex, self.owner_address, self.call_site = object_ref_hex, owner_address, call_site

    def __str__(self) -> str:
        text = super().__str__()
        return text if not text or " " in text else f"Failed to retrieve object {text}."


class ObjectFetchTimedOutError(ObjectLostError):
    """An object did not come in time."""


class ObjectFreedError(ObjectLostError):
    """An object was freed while somebody still had its reference."""


class OwnerDiedError(ObjectLostError):
    """The process that made an object died."""


class ObjectReconstructionFailedError(ObjectLostError):
    """An object could not be made again."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """An object was freed although it has references."""


class ObjectRefStreamEndOfStreamError(RayError):
    """A generator has no more objects."""


class ObjectStoreFullError(RayError):
    """There is no room for an object within memory_limit."""


class OufOfBandObjectRefSerializationException(RayError):
    """An ObjectRef was pickled where that is not allowed."""


class OutOfDiskError(RayError):
    """There is no room on disk for what does not fit into memory."""


class PendingCallsLimitExceeded(RayError):
    """An actor has more calls waiting than max_pending_calls."""


class PlasmaObjectNotAvailable(RayError):
    """An object was not there in time."""


class RaySystemError(RayError):
    """An error inside weir itself, met by tasks and actors.

    >>> str(RaySystemError("lost"))
    'System error: lost'
    """

    def __init__(self, client_exc: Any = "", traceback_str: str | None = None) -> None:
        super().__init__(client_exc)
        self.client_exc, self.traceback_str = client_exc, traceback_str

    def __str__(self) -> str:
        return f"System error: {self.client_exc}" + (f"\ntraceback: {self.traceback_str}" if self.traceback_str else "")


class RayChannelError(RaySystemError):
    """A channel between processes failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel between processes did not answer in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph is full; weir has none."""


class RayDirectTransportError(RaySystemError):
    """A transfer between GPUs failed; weir makes none."""


class RpcError(RayError):
    """A message between processes failed."""


class RuntimeEnvSetupError(RayError):
    """A runtime_env cannot be had.

    >>> import weir
    >>> try: weir.range(1).map(len, runtime_env={"pip": ["no-such-package"]})
    ... except RuntimeEnvSetupError as error: print(str(error)[:42])
    runtime_env's pip asks for no-such-package
    """


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator that was run again gave another number of objects."""


class TaskPlacementGroupRemoved(RayError):
    """The placement group of a task was removed."""
    _says = "The placement group of this task was removed."


class TaskUnschedulableError(RayError):
    """There is no place for a task."""


class UnserializableException(RayError):
    """An exception could not be unpickled; its text says what it was."""


def omit_traceback_stdout(fn: F) -> F:
    """A decorator: errors of `fn` come without the frames of weir itself.

    >>> omit_traceback_stdout(len)([1, 2])
    2
    """
    from weir._errors import without_own_frames

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            raise error.with_traceback(without_own_frames(error.__traceback__)) from None

    return called  # type: ignore[return-value]
