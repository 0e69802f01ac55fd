"""ray.experimental: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.core weir.util",
    "CommunicatorMetadata deregister_nixl_memory get_local_object_locations get_object_locations RDTManager "
    "register_nixl_memory register_nixl_memory_pool register_tensor_transport set_nixl_cuda_stream set_resource "
    "set_target_device_for_ref set_target_for_ref TensorTransportManager TensorTransportMetadata wait_tensor_freed",
)
