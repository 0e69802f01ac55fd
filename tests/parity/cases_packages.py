"""What other packages read, write and take: each case runs where its package is installed (keras comes with a TensorFlow that is whole)."""
import os
import tempfile

import numpy as np
from parity import case, sub

ROWS = [{"id": i, "s": f"t{i}"} for i in range(4)]


def by_id(ds):
    return sorted(ds.take_all(), key=lambda row: row["id"])


@case(needs=["tensorflow", "keras"])
def tensors_of_tensorflow(data, at):
    import tensorflow as tf

    pairs = tf.data.Dataset.from_tensor_slices({"x": np.arange(3), "y": np.ones((3, 2), np.float32)})
    return [data.from_tf(pairs).take_all(), data.from_tf(tf.data.Dataset.range(3)).take_all(), [str(kind) for kind in data.from_tf(pairs).schema().types]]


@case(needs=["tensorflow", "keras"])
def batches_for_tensorflow(data, at):
    import tensorflow as tf

    ds = data.from_items([{"a": float(i), "b": i * 2} for i in range(5)])
    it = ds.iterator()
    batches = [[{k: (v.numpy().tolist(), v.dtype.name) for k, v in batch.items()} for batch in one.iter_tf_batches(batch_size=2)] for one in (ds, it)]
    typed = [batch["b"].dtype.name for batch in ds.iter_tf_batches(batch_size=3, dtypes={"a": tf.float32, "b": tf.int32})]
    fed = [[(x.numpy().tolist(), y.numpy().tolist()) for x, y in one.to_tf("a", "b", batch_size=2)] for one in (ds, it)]
    return [batches, typed, fed, str(ds.to_tf(["a", "b"], "b", batch_size=2).element_spec)]


@case(needs=["deltalake"])
def delta_tables(data, at):
    path = tempfile.mkdtemp() + "/t"
    data.from_items(ROWS).write_delta(path)
    data.from_items([{"id": 9, "s": "x", "v": 1.5}]).write_delta(path)
    found = [by_id(data.read_delta(path)), by_id(data.read_delta(path, version=0)), by_id(data.read_delta(path, columns=["id"]))]
    data.from_items([{"id": 1}]).write_delta(path, mode=data.SaveMode.OVERWRITE)
    return [*found, by_id(data.read_delta(path)), [str(kind) for kind in data.read_delta(path, version=1).schema().types]]


@case(needs=["pyiceberg", "sqlalchemy"])
def iceberg_tables(data, at):
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/tables")
    catalog = {"name": "local", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}
    tables = load_catalog(**catalog)
    tables.create_namespace("db")
    tables.create_table("db.t", schema=pa.schema([("id", pa.int64()), ("s", pa.string())]))

    def rows():
        return by_id(data.read_iceberg(table_identifier="db.t", catalog_kwargs=catalog))

    data.from_items(ROWS).write_iceberg("db.t", catalog)
    data.from_items([{"id": 9, "s": "x", "v": 1.5}]).write_iceberg("db.t", catalog)
    found = [rows()]
    col = sub(data, "expressions").col
    new = {"id": 100, "s": "n", "v": 0.0}
    data.from_items([new]).write_iceberg("db.t", catalog, mode=data.SaveMode.OVERWRITE, overwrite_filter=col("id") >= 2)
    found.append(rows())
    data.from_items([{**new, "s": "m"}]).write_iceberg("db.t", catalog, mode=data.SaveMode.UPSERT, upsert_kwargs={"join_cols": ["id"]})
    return [*found, rows()]


@case(needs=["mcap"], shows=["ray.data.datasource.TimeRange"])
def messages_of_robots(data, at):
    from mcap.writer import Writer

    path = tempfile.mkdtemp() + "/a.mcap"
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema(name="Place", encoding="jsonschema", data=b"{}")
        channel = writer.register_channel(schema_id=schema, topic="/place", message_encoding="json")
        for i in range(4):
            writer.add_message(channel_id=channel, log_time=100 - i, data=b'{"x": %d}' % i, publish_time=i, sequence=i)
        writer.finish()
    span = sub(data, "datasource").TimeRange(start_time=98, end_time=100)
    return [data.read_mcap(path).take_all(), data.read_mcap(path, time_range=span, include_metadata=False).take_all(), data.read_mcap(path, topics={"/none"}).count()]


@case(needs=["fastavro"])
def records_of_avro(data, at):
    import fastavro

    path = tempfile.mkdtemp() + "/a.avro"
    fields = [{"name": "a", "type": ["null", "int"]}, {"name": "l", "type": {"type": "array", "items": "string"}}, {"name": "f", "type": "float"}]
    with open(path, "wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"name": "r", "type": "record", "fields": fields}),
                        [{"a": 1, "l": ["x"], "f": 0.5}, {"a": None, "l": [], "f": 1.5}])
    return [data.read_avro(path).take_all(), data.read_avro(path).sum("f")]


@case(needs=["soundfile"])
def sounds(data, at):
    import soundfile

    path = tempfile.mkdtemp() + "/a.wav"
    soundfile.write(path, np.array([[0.0, 0.5], [0.25, -0.5], [0.0, 0.0]], np.float32), 8000)
    return [data.read_audio(path).take_all(), [str(kind) for kind in data.read_audio(path).schema().types]]


@case(needs=["jax"])
def batches_for_jax(data, at):
    ds = data.from_items([{"a": float(i), "b": i * 2} for i in range(6)])
    seen = [[{k: (np.asarray(v).tolist(), str(v.dtype)) for k, v in batch.items()} for batch in one.iter_jax_batches(batch_size=batch_size, drop_last=drop)]
            for one in (ds, ds.iterator()) for batch_size, drop in ((2, False), (4, True))]
    padded = [{k: np.asarray(v).tolist() for k, v in batch.items()} for batch in ds.iter_jax_batches(batch_size=4, paddings=0)]
    typed = [str(batch["b"].dtype) for batch in ds.iter_jax_batches(batch_size=3, dtypes={"a": np.float16, "b": np.int8})]
    return [seen, padded, typed]


# ---- what Ray needs a package for, and weir does not ----


@case(ray_needs=["datasketches"])
def quantiles_of_few_rows(data, at):
    """Of fewer rows than the sketches keep, the answers are exact."""
    agg = sub(data, "aggregate")
    ds = data.from_items([{"g": i % 2, "v": float(i), "s": "ab"[i % 2]} for i in range(11)])
    return [ds.aggregate(agg.ApproximateQuantile("v", quantiles=[0.0, 0.25, 0.5, 1.0])), ds.aggregate(agg.ApproximateTopK("s", k=1)),
            sorted(ds.groupby("g").aggregate(agg.ApproximateQuantile("v", quantiles=[0.5], alias_name="q")).take_all(), key=lambda row: row["g"])]


@case(ray_needs=["datasketches"])
def scaled_by_quantiles(data, at):
    made = sub(data, "preprocessors").RobustScaler(["v"])
    ds = data.from_items([{"v": float(i)} for i in range(9)])
    return [made.fit_transform(ds).take_all(), made.stats_, repr(made)]
