"""The exceptions that weir raises, under the names of Ray and Ray Data.

An error in a user's function is caught by its own class, by UserCodeException and by RayTaskError:

    >>> from weir.exceptions import RayTaskError, UserCodeException
    >>> issubclass(UserCodeException, Exception) and issubclass(RayTaskError, Exception)
    True
"""
from weir._errors import (ActorDiedError, ArrowConversionError, ExecutionTimeoutError, OutOfMemoryError, RayActorError,
                          RayDataUserCodeException, RayError, RayTaskError, SystemException, TaskCancelledError,
                          UserCodeException, WorkerCrashedError)

__all__ = ["ActorDiedError", "ArrowConversionError", "ExecutionTimeoutError", "OutOfMemoryError", "RayActorError",
           "RayDataUserCodeException", "RayError", "RayTaskError", "SystemException", "TaskCancelledError",
           "UserCodeException", "WorkerCrashedError"]
