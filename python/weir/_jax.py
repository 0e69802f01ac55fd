"""JAX arrays of batches, divided among the devices of all processes. JAX is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_HINT = "set `drop_last=True` or provide a `paddings` in `iter_jax_batches()`"


def _jax() -> Any:
    from weir._formats import _need

    return _need("jax", "iter_jax_batches")


def check(batch_size: int | None) -> None:
    """ImportError without JAX; ValueError for a batch that the devices cannot share."""
    devices = _jax().local_device_count()
    if batch_size is None or batch_size % devices != 0:
        raise ValueError(
            f"The provided batch_size ({batch_size}) must be a positive integer evenly divisible by the number of local JAX "
            f"devices ({devices}) on this host."
        )


def arrays(
    batches: Iterator[Any], drop_last: bool, batch_size: int, paddings: Any, dtypes: Any, synchronize: bool
) -> Iterator[Any]:
    """The batches (an array, or a dict of arrays) as JAX arrays. `synchronize`: all processes have as many, of one size."""
    jax = _jax()
    sharding = _sharding(jax)
    devices = jax.local_device_count()
    everybody = synchronize and jax.process_count() > 1
    last: Any = None
    while True:
        batch = next(batches, None)
        if everybody:
            rows = _all_rows(0 if batch is None else _rows(batch))
            if not any(rows) or (drop_last and not all(rows)):
                return
            if paddings is None and len(set(rows)) > 1:
                raise ValueError(f"Uneven batches across JAX workers: they have {rows} rows. To go on, {_HINT}.")
            if batch is None:
                if last is None:
                    raise ValueError("this JAX process has no rows at all, so that there is nothing to make a padded batch of")
                batch = _of_each(last, lambda name, array: array[:0])
        elif batch is None:
            return
        elif not _rows(batch):
            continue
        last = batch
        if paddings is not None and _rows(batch) < batch_size:
            batch = _of_each(batch, lambda name, array: _padded(array, batch_size, _of(paddings, name)))
        elif _rows(batch) % devices != 0:
            raise ValueError(
                f"The local batch size ({_rows(batch)}) must be evenly divisible by the number of local JAX devices ({devices}) "
                f"on this host: {_HINT}."
            )
        yield _of_each(batch, lambda name, array: _array(jax, sharding, name, array, _of(dtypes, name)))


def _sharding(jax: Any) -> Any:
    import numpy as np

    devices = np.array(jax.devices())
    return jax.sharding.NamedSharding(jax.sharding.Mesh(devices, ("data",)), jax.sharding.PartitionSpec("data"))


def _array(jax: Any, sharding: Any, name: str | None, array: Any, dtype: Any) -> Any:
    shape = (array.shape[0] * jax.process_count(), *array.shape[1:])
    try:
        made = jax.make_array_from_process_local_data(sharding, array, shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} cannot be a JAX array: {error}") from error
    return made if dtype is None else made.astype(dtype)


def _all_rows(rows: int) -> list[int]:
    import numpy as np
    from jax.experimental.multihost_utils import process_allgather  # type: ignore[import-not-found, unused-ignore]

    return [int(count) for count in process_allgather(np.array([rows], dtype=np.int32)).ravel()]


def _rows(batch: Any) -> int:
    if isinstance(batch, Mapping):
        return len(next(iter(batch.values()))) if batch else 0
    return len(batch)


def _of_each(batch: Any, make: Any) -> Any:
    if isinstance(batch, Mapping):
        return {name: make(name, array) for name, array in batch.items()}
    return make(None, batch)


def _of(value: Any, name: str | None) -> Any:
    if not isinstance(value, Mapping):
        return value
    return next(iter(value.values())) if name is None else value.get(name)


def _padded(array: Any, rows: int, value: Any) -> Any:
    import numpy as np

    more = np.full((rows - len(array), *array.shape[1:]), value, dtype=array.dtype)
    return np.concatenate([array, more])
