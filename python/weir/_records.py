"""Reading and writing TFRecord files: what Ray's arguments are in the engine's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weir.read_api import _read

if TYPE_CHECKING:
    from weir.dataset import Dataset
    from weir.datasource import FileShuffleConfig, PathPartitionFilter

Option = tuple[str, "str | None"]

# enum FeatureType of tensorflow_metadata's schema.proto
_KINDS = {1: "bytes", 2: "int", 3: "float"}
_TYPES = {"bytes": "binary", "int": "int64", "float": "float"}


def read_tfrecords(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    tf_schema: Any = None,
    shuffle: str | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Reads TFRecord files of `tf.train.Example`: a row a record, a column a feature. TensorFlow is not needed.

    A feature that has at most one value in each record is a column of values (bytes, float or int64), null where there is none; one
    that has several anywhere is a column of lists. Checksums are compared. Compressed files are told by their names (`.gz`), or by
    `arrow_open_stream_args={"compression": "gzip"}`.

    Args:
        tf_schema: a `schema_pb2.Schema` of tensorflow_metadata: exactly these features, each a column of lists of that kind. A feature
            that it lacks, or that is of another kind, is a ValueError.

    >>> import tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.from_items([{"id": 1, "word": "a"}, {"id": 2, "word": "b"}]).write_tfrecords(folder)
    >>> weir.read_tfrecords(folder).take()
    [{'id': 1, 'word': b'a'}, {'id': 2, 'word': b'b'}]
    """
    options: list[Option] = []
    if tf_schema is not None:
        kinds = schema_kinds("read_tfrecords", tf_schema)
        listed = ",".join(f"{_quoted(name)}=list<{_TYPES[kind]}>" for name, kind in kinds.items())
        options = [("types", listed), ("unexpected", "error")]
    return _read("read_tfrecords", "ReadTFRecord", "tfrecord", locals(), options, default_extensions=None)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def schema_kinds(method: str, tf_schema: Any) -> dict[str, str]:
    """The features of a schema and their kinds: bytes, int or float."""
    features = getattr(tf_schema, "feature", None)
    if features is None or isinstance(features, str):
        raise TypeError(f"{method}: tf_schema is a schema_pb2.Schema of tensorflow_metadata, not {type(tf_schema).__name__}")
    kinds = {}
    for feature in features:
        if int(feature.type) not in _KINDS:
            raise ValueError(f"{method}: the feature {feature.name!r} of tf_schema has the type {feature.type}; BYTES (1), INT (2) and "
                             "FLOAT (3) are known")
        kinds[str(feature.name)] = _KINDS[int(feature.type)]
    return kinds


def with_schema(ds: Dataset, arguments: Mapping[str, Any]) -> Dataset:
    """The rows of write_tfrecords, checked against its tf_schema; columns of nothing but nulls get the schema's type."""
    if arguments["tf_schema"] is None:
        return ds
    from weir.datatype import DataType
    from weir.expressions import col

    kinds = schema_kinds("write_tfrecords", arguments["tf_schema"])
    schema = ds.schema()
    casts = {}
    for name, kind in zip(schema.names, schema.types) if schema is not None else ():
        if name not in kinds:
            raise ValueError(f"Found extra unexpected feature {name} not in specified schema: {arguments['tf_schema']}")
        found = _kind_of(str(kind))
        if found == "null":
            casts[name] = col(name).cast({"bytes": DataType.binary(), "int": DataType.int64(), "float": DataType.float32()}[kinds[name]])
        elif found not in ("", kinds[name]):
            raise ValueError(f"Schema field type mismatch during write: specified type is {kinds[name]}, but underlying type is {found} "
                             f"(column {name!r}, {kind})")
    return ds.with_columns(casts) if casts else ds


def _kind_of(kind: str) -> str:
    """The kind of a feature by the name of a column's type; empty: the writer will say."""
    if "tensor" in kind.lower():
        return "bytes"
    item = kind.rpartition("<")[2].rpartition(":")[2].strip().rstrip(">").partition("[")[0]
    if item in ("binary", "string", "large_string", "large_binary", "fixed_size_binary"):
        return "bytes"
    if item in ("float", "double", "halffloat"):
        return "float"
    if item.startswith(("int", "uint")):
        return "int"
    return "null" if item == "null" else ""
