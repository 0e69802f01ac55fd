"""Where Ray Data keeps is_null, which aggregations of one's own use, what compares rows, and small helpers of sources."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.testing",
    "GiB KiB MiB is_nan is_null rows_same",
    only=True,
    _check_import="weir.compat.inside:check_import",
    _check_pyarrow_version="weir.compat.inside:check_pyarrow_version",
    _is_local_scheme="weir.compat.inside:is_local_scheme",
    _truncated_repr="weir.compat.inside:truncated_repr",
    call_with_retry="weir.compat.inside:call_with_retry",
    find_partition_index="weir.block_order:find_partition_index",
    iterate_with_retry="weir.compat.inside:iterate_with_retry",
    make_async_gen="weir.compat.async_gen:make_async_gen",
    merge_resources_to_ray_remote_args="weir.compat.inside:merge_resources_to_ray_remote_args",
)
