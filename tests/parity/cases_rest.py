"""What no other case asks for: enumerations, small classes, errors as objects."""
import importlib
import pickle

from parity import case, root, sub


def errors(data):
    return importlib.import_module(root(data).__name__ + ".exceptions")


@case("BatchFormat", "BlockType")
def names_of_block(data, at, name):
    return {one.name: one.value for one in getattr(sub(data, "block"), name)}


@case("MixStoppingCondition", "SaveMode")
def names_of_data(data, at, name):
    return {one.name: one.value for one in getattr(data, name)}


@case("PartitionStyle", "SaveMode")
def names_of_datasource(data, at, name):
    return {one.name: one.value for one in getattr(sub(data, "datasource"), name)}


@case()
def tensor_formats(data, at):
    return {one.name: one.value for one in sub(data, "extensions").FixedShapeTensorFormat}


@case()
def checkpoint_backends(data, at):
    return {one.name: one.value for one in sub(data, "checkpoint").CheckpointBackend}


@case()
def operations(data, at):
    return {one.name: one.value for one in sub(data, "expressions").Operation}


@case("ActorAlreadyExistsError", "ActorHandleNotFoundError", "ActorPlacementGroupRemoved", "ActorUnschedulableError", "AsyncioActorExit",
      "LocalRayletDiedError", "NodeDiedError", "ObjectStoreFullError", "OutOfDiskError", "OutOfMemoryError",
      "PendingCallsLimitExceeded", "PlasmaObjectNotAvailable", "RaySystemError", "RuntimeEnvSetupError", "TaskPlacementGroupRemoved",
      "TaskUnschedulableError", "WorkerCrashedError", "ObjectRefStreamEndOfStreamError", "RayChannelError",
      "RayCgraphCapacityExceeded", "OufOfBandObjectRefSerializationException", "UnserializableException", "AuthenticationError", "RpcError",
      "RayDirectTransportError", "StreamingGeneratorReplayInconsistentError")
def an_error(data, at, name):
    """Its classes, and whether it can be made, raised, caught and sent."""
    e = errors(data)
    kind = getattr(e, name)
    found = [issubclass(kind, e.RayError), issubclass(kind, TimeoutError), issubclass(kind, e.RayActorError), issubclass(kind, e.ObjectLostError)]
    try:
        raise kind("why")
    except e.RayError as error:
        found += [type(error) is kind, type(pickle.loads(pickle.dumps(error))) is kind]
    return found


@case("ObjectFetchTimedOutError", "ObjectFreedError", "ObjectReconstructionFailedError", "OwnerDiedError", "ObjectLostError")
def errors_of_objects(data, at, name):
    e = errors(data)
    kind = getattr(e, name)
    return [issubclass(kind, e.ObjectLostError), issubclass(kind, e.RayError)]


@case("uint8", "uint16", "uint32", "uint64", "int16")
def numbers_of_types(data, at, name):
    DataType = sub(data, "datatype").DataType
    kind = getattr(DataType, name)()
    asked = [about for about in dir(kind) if about.startswith("is_") and about.endswith("_type")]
    return [str(kind.to_arrow_dtype()), {about: getattr(kind, about)() for about in sorted(asked)}]


@case("int32", "float16", "bool")
def types_of_dtypes(data, at, name):
    import numpy as np

    DataType = sub(data, "datatype").DataType
    return str(DataType.from_numpy(np.dtype(name)).to_arrow_dtype())


@case()
def sorted_both_ways(data, at):
    ds = data.from_items([{"a": i % 3, "b": -i} for i in range(7)])
    return [ds.sort("a").take_all()[0]["a"], ds.sort(["a", "b"]).take_all(), ds.sort("b", descending=True).take(2),
            ds.sort(["a", "b"], descending=[False, True]).take_all()]


@case()
def zipped(data, at):
    one = data.range(4)
    other = data.from_items([{"id": 10 * i, "s": "x"} for i in range(4)])
    return [one.zip(other).take_all(), one.zip(other, one).schema().names]


@case()
def zipped_unequally(data, at):
    return data.range(4).zip(data.range(5)).take_all()


@case()
def a_dummy_sink(data, at):
    sink = sub(data, "datasource").DummyOutputDatasink()
    data.range(10).write_datasink(sink)
    return [sink.num_ok, sink.num_failed, sink.enabled]


@case()
def a_sink_of_ones_own(data, at):
    Datasink = sub(data, "datasource").Datasink

    class Counts(Datasink):
        def write(self, blocks, ctx):
            return sum(len(block) for block in blocks)

        def on_write_complete(self, result):
            self.rows = sum(result.write_returns)
            self.counted = result.num_rows

    sink = Counts()
    data.range(10).write_datasink(sink)
    return [int(sink.rows), int(sink.counted), sink.get_name(), sink.supports_distributed_writes, sink.min_rows_per_write]


@case()
def tensors_in_arrow(data, at):
    import numpy as np
    import pyarrow as pa

    x = sub(data, "extensions")
    fixed = x.ArrowTensorArray.from_numpy(np.arange(12).reshape(3, 2, 2))
    ragged = x.ArrowVariableShapedTensorArray.from_numpy(np.array([np.zeros((1, 2)), np.ones((2, 2)), None], dtype=object)[:2])
    return [str(fixed.type.shape), fixed.to_numpy().tolist(), len(ragged), ragged.type.ndim, [one.shape for one in ragged.to_numpy()],
            [one.tolist() for one in ragged.to_numpy()], isinstance(ragged, pa.Array), str(x.ArrowVariableShapedTensorType(pa.int8(), 3).ndim)]


@case()
def objects_in_arrow(data, at):
    x = sub(data, "extensions")
    array = x.ArrowPythonObjectArray.from_objects([{1}, None, "x"])
    return [len(array), array.to_pylist(), type(array[0]).__name__, str(array[0].as_py())]


@case()
def objects_in_pandas(data, at):
    x = sub(data, "extensions")
    array = x.PythonObjectArray([{1}, None, "x"])
    return [len(array), type(array.dtype).__name__, array[2], array.isna().tolist(), x.PythonObjectDtype().name]


@case()
def tensor_types(data, at):
    x = sub(data, "extensions")
    return sorted(kind.__name__ for kind in x.get_arrow_extension_tensor_types())


@case(([1, 2], False), ([[1, 2], [3, 4]], True))
def needs_a_tensor(data, at, values, wide):
    import numpy as np
    import pandas as pd

    column = pd.Series([np.array(one) for one in values]) if wide else pd.Series(values)
    return sub(data, "extensions").column_needs_tensor_extension(column)


@case()
def a_conversion_that_fails(data, at):
    x = sub(data, "extensions")
    made = x.ArrowConversionError("text of the data")
    return [isinstance(made, Exception), "text of the data" in str(made)]


@case("star", "unnest")
def stars(data, at, name):
    e = sub(data, "expressions")
    made = e.star() if name == "star" else e.unnest(e.col("a"))
    return [type(made).__name__, made.structurally_equals(made)]


@case()
def stats_of_an_iterator(data, at):
    it = data.range(5).iterator()
    list(it.iter_batches())
    return isinstance(it.stats(), str)


@case()
def providers_of_metadata(data, at):
    d = sub(data, "datasource")
    made = d.DefaultFileMetadataProvider()
    return [isinstance(made, d.BaseFileMetadataProvider), isinstance(made, d.FileMetadataProvider)]


@case()
def a_result_of_writes(data, at):
    made = sub(data, "datasource").WriteResult(num_rows=3, size_bytes=24, write_returns=[None])
    return [made.num_rows, made.size_bytes, made.write_returns]


@case()
def seeds(data, at):
    made = data.RandomSeedConfig(seed=5, reseed_after_execution=False)
    ds = data.range(20).random_shuffle(seed=made)
    return [made.seed, made.reseed_after_execution, ds.take_all() == ds.take_all(), sorted(row["id"] for row in ds.take_all())]


@case()
def references(data, at):
    ray = root(data)
    ref = ray.put(5)
    return [isinstance(ref, ray.ObjectRef), len(ref.hex()), len(ref.binary()), ref == ray.put(5), ray.get(ref), hash(ref) == hash(ref), ref.future().result()]


@case()
def cancelled(data, at):
    import time

    ray = root(data)

    @ray.remote
    def sleeps():
        time.sleep(60)

    ref = sleeps.remote()
    ray.cancel(ref)
    ray.get(ref, timeout=30)


@case()
def logger_of_a_dataset(data, at):
    context = data.DataContext.get_current()
    context.set_dataset_logger_id("some")
    return context.dataset_logger_id
