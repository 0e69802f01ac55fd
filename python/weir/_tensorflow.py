"""TensorFlow tensors and tf.data.Datasets of batches. TensorFlow is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.schema import Schema


def _tensorflow(what: str) -> Any:
    try:
        import tensorflow  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ModuleNotFoundError(f"tensorflow must be installed! {what} makes its tensors ({error})", name="tensorflow") from None
    return tensorflow


def _tensor(tf: Any, name: str, array: Any, dtype: Any, spec: Any = None) -> Any:
    if dtype is None and spec is not None:
        dtype = spec.dtype
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.ragged.constant([getattr(value, "tolist", lambda value=value: value)() for value in array], dtype=dtype)
    if array.dtype == object and len(array) and not isinstance(array[0], (str, bytes)):
        import numpy as np

        try:
            array = np.stack(list(array))
        except ValueError:
            shapes = sorted({np.shape(value) for value in array})
            raise ValueError(
                f"column '{name}' has values of different shapes ({', '.join(map(str, shapes[:3]))}), which one tensor cannot hold: "
                "pad them in map_batches, or use to_tf with a tf.RaggedTensorSpec for the column"
            ) from None
    return tf.convert_to_tensor(array, dtype=dtype)


def converter(dtypes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function of dicts of arrays to dicts of tensors."""
    tf = _tensorflow("iter_tf_batches")

    def convert(batch: dict[str, Any]) -> dict[str, Any]:
        return {
            name: _tensor(tf, name, array, dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes)
            for name, array in batch.items()
        }

    return convert


def dataset(
    batches: Iterable[dict[str, Any]], columns: list[Any], specs: list[Any], schema: Callable[[], Schema | None]
) -> Any:
    """A tf.data.Dataset of tuples: a tensor or a dict of tensors for each of `columns`."""
    tf = _tensorflow("to_tf")
    if any(spec is None for spec in specs):
        found = schema()
        types = dict(zip(found.names, found.types)) if found is not None else {}
        for group in columns:
            for name in [group] if isinstance(group, str) else group:
                if name not in types:
                    raise ValueError(
                        f"You specified '{name}' in `feature_columns`, `label_columns`, or `additional_columns`, but there's "
                        f"no column named '{name}' in the dataset. Valid column names are: {set(types)}."
                    )
        specs = [_spec(tf, types, group) if spec is None else spec for group, spec in zip(columns, specs)]

    def made(batch: dict[str, Any], group: Any, spec: Any) -> Any:
        if isinstance(group, str):
            return _tensor(tf, group, batch[group], None, spec)
        return {name: _tensor(tf, name, batch[name], None, spec[name]) for name in group}

    def generate() -> Iterator[Any]:
        for batch in batches:
            yield tuple(made(batch, group, spec) for group, spec in zip(columns, specs))

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_generator(generate, output_signature=tuple(specs)).with_options(options)


def _spec(tf: Any, types: Mapping[str, Any], group: Any) -> Any:
    if isinstance(group, str):
        return _column_spec(tf, types[group], group)
    return {name: _column_spec(tf, types[name], name) for name in group}


def _column_spec(tf: Any, arrow_type: Any, name: str) -> Any:
    import pyarrow as pa

    if hasattr(arrow_type, "shape"):
        inner = getattr(arrow_type, "scalar_type", None) or arrow_type.value_type
        return tf.TensorSpec((None, *arrow_type.shape), tf.dtypes.as_dtype(inner.to_pandas_dtype()), name)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return tf.RaggedTensorSpec((None, None), tf.dtypes.as_dtype(arrow_type.value_type.to_pandas_dtype()))
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return tf.TensorSpec((None,), tf.string, name)
    return tf.TensorSpec((None,), tf.dtypes.as_dtype(arrow_type.to_pandas_dtype()), name)
