"""ray.exceptions: what weir raises, under Ray's names."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.exceptions",
    "ActorAlreadyExistsError ActorDiedError ActorHandleNotFoundError ActorPlacementGroupRemoved "
    "ActorUnavailableError ActorUnschedulableError AsyncioActorExit AuthenticationError CrossLanguageError "
    "GetTimeoutError LocalRayletDiedError NodeDiedError ObjectFetchTimedOutError ObjectFreedError ObjectLostError "
    "ObjectReconstructionFailedError ObjectRefStreamEndOfStreamError ObjectStoreFullError "
    "OufOfBandObjectRefSerializationException OutOfDiskError OutOfMemoryError OwnerDiedError "
    "PendingCallsLimitExceeded PlasmaObjectNotAvailable RayActorError RayCgraphCapacityExceeded RayChannelError "
    "RayChannelTimeoutError RayDirectTransportError RayError RaySystemError RayTaskError "
    "ReferenceCountingAssertionError RpcError RuntimeEnvSetupError StreamingGeneratorReplayInconsistentError "
    "TaskCancelledError TaskPlacementGroupRemoved TaskUnschedulableError UnserializableException UserCodeException "
    "WorkerCrashedError",
)
