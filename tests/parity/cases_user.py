"""Programs as users write them: whole pipelines, with what they print of their rows, types and plans."""
from parity import case, root, sub

# ---- samples with a seed ----

SAMPLED = {
    "numbers": lambda data, at: data.range(40, override_num_blocks=4),
    "one block": lambda data, at: data.range(40, override_num_blocks=1),
    "items": lambda data, at: data.from_items(list(range(300))),
    "kept": lambda data, at: data.range(40, override_num_blocks=4).map(lambda row: {"item": row["id"]}).materialize(),
    "repartitioned": lambda data, at: data.range(40).repartition(2),
    "files": lambda data, at: data.read_parquet(at / "parquet", columns=["id"]),
    "frames": lambda data, at: data.from_pandas([frame(0), frame(10)]),
}


def frame(start):
    import pandas as pd

    return pd.DataFrame({"item": range(start, start + 10)})


@case(*((name, seed) for name in SAMPLED for seed in (0, 7, 2**40)))
def sample_with_a_seed(data, at, name, seed):
    return [next(iter(row.values())) for row in SAMPLED[name](data, at).random_sample(0.3, seed=seed).take_all()]


# ---- consumers ----


@case()
def actors_that_train(data, at):
    """Each call of an actor gets its iterator anew."""
    ray = root(data)

    class Trainer:
        def epoch(self, it):
            return [int(x) for batch in it.iter_batches(batch_size=3) for x in batch["id"]]

    its = data.range(20, override_num_blocks=4).streaming_split(2, equal=True)
    trainers = [ray.remote(Trainer).remote() for _ in its]
    epochs = [ray.get([t.epoch.remote(it) for t, it in zip(trainers, its)]) for _ in range(3)]
    return [[sorted(map(len, found)), sorted(sum(found, []))] for found in epochs]


@case()
def small_arrays_are_read_only(data, at):
    """As results, as arguments, inside of other values, and in frames."""
    import numpy as np
    import pandas as pd

    ray = root(data)

    @ray.remote
    def is_writable(array):
        return bool(array.flags.writeable)

    @ray.remote
    def made():
        return {"a": np.arange(3)}

    class Keeper:
        def __init__(self, array):
            self.array = array

        def add(self):
            self.array += 1

    keeper = ray.remote(Keeper).remote(np.zeros(2))
    try:
        added = ray.get(keeper.add.remote())
    except ValueError as error:
        added = "read-only" in str(error)
    frame = ray.get(ray.put(pd.DataFrame({"a": [1, 2]})))
    return [ray.get(is_writable.remote(np.arange(3))), ray.get(is_writable.remote(ray.put(np.arange(3)))), ray.get(made.remote())["a"].flags.writeable,
            added, bool(frame["a"].to_numpy().flags.writeable)]


@case(*((blocks, rows, strict) for blocks, rows in ((4, 30), (4, 10), (4, 50), (4, 7), (10, 25)) for strict in (False, True)))
def repartition_by_rows(data, at, blocks, rows, strict):
    """Loops, functions and kept blocks see the same."""
    found = []
    for ds in (data.range(100, override_num_blocks=blocks), data.from_items([{"id": i} for i in range(100)], override_num_blocks=blocks),
               data.range(100).repartition(blocks)):
        ds = ds.repartition(target_num_rows_per_block=rows, strict=strict)
        found.append([[len(batch["id"]) for batch in ds.iter_batches(batch_size=None)],
                      [row["n"] for row in ds.map_batches(lambda batch: {"n": [len(batch["id"])]}, batch_size=None).take_all()],
                      ds.materialize().num_blocks()])
    return found


@case()
def blocks_of_tasks_in_files(data, at):
    """What each task of a source makes goes into files of its own."""
    import os

    import pyarrow as pa

    datasource = data.datasource

    class Source(data.Datasource):
        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            metadata = sub(data, "block").BlockMetadata(num_rows=4, size_bytes=32, input_files=None, exec_stats=None)
            return [datasource.ReadTask(lambda i=i: [pa.table({"v": list(range(4 * i, 4 * i + 4))})], metadata) for i in range(3)]

        def estimate_inmemory_data_size(self):
            return None

    ds = data.read_datasource(Source(), override_num_blocks=3)
    ds.write_csv(at / "out")
    texts = sorted(open(at / "out" / name).read() for name in os.listdir(at / "out"))
    return [texts, [len(batch["v"]) for batch in ds.iter_batches(batch_size=None)], ds.materialize().num_blocks()]


# ---- inference ----


@case()
def inference_by_torch(data, at):
    import numpy as np
    import torch

    class Net:
        def __init__(self):
            self.layer = torch.nn.Linear(1, 1)
            with torch.no_grad():
                self.layer.weight.fill_(2)
                self.layer.bias.fill_(1)

        def __call__(self, batch):
            with torch.inference_mode():
                made = self.layer(torch.as_tensor(batch["id"], dtype=torch.float32).unsqueeze(1))
            return {"id": batch["id"], "out": made.numpy(), "argmax": np.argmax(made.numpy(), axis=1)}

    ds = data.range(40, override_num_blocks=2).map_batches(Net, concurrency=1, batch_size=16)
    return [ds.schema(), ds.take(2), ds.take_batch(3)]


@case()
def a_model_that_cannot_be_made(data, at):
    class Bad:
        def __init__(self):
            raise RuntimeError("no weights")

        def __call__(self, batch):
            return batch

    return data.range(3).map_batches(Bad, concurrency=1).take(1)


@case()
def rows_that_a_class_makes(data, at):
    class Twice:
        def __call__(self, row):
            for i in range(2):
                yield {"x": row["id"] * 10 + i}

    return data.range(5).limit(3).flat_map(Twice, concurrency=1).take_all()


# ---- images ----


def images(at):
    import numpy as np
    from PIL import Image

    (at / "images").mkdir()
    for i in range(5):
        Image.fromarray(np.full((8 + i % 2, 8, 3), i * 10, np.uint8)).save(at / "images" / f"{i}.png")
    return at / "images"


@case()
def images_of_two_sizes(data, at):
    import numpy as np

    ds = data.read_images(images(at))
    seen = ds.map_batches(lambda batch: {"h": [x.shape[0] for x in batch["image"]], "dtype": [str(batch["image"].dtype)] * len(batch["image"])}, batch_size=None)
    row = ds.take(1)[0]["image"]
    means = ds.map_batches(lambda batch: {"m": np.array([x.mean() for x in batch["image"]])}).take_all()
    return [ds.schema(), row.shape, str(row.dtype), seen.take_all(), means, ds.count()]


@case("size=(4, 4)", "size=(4, 4), mode='L'")
def images_in_batches(data, at, text):
    import numpy as np

    ds = data.read_images(images(at), **eval(f"dict({text})"))
    made = ds.map_batches(lambda batch: {"image": batch["image"].astype(np.float32) / 255} if batch["image"].dtype != object else {"image": batch["image"]})
    return [ds.schema(), made.schema(), [row["image"].shape for row in made.take_all()], [float(row["image"].max()) for row in made.take_all()]]


@case()
def images_that_are_cropped(data, at):
    import os

    def crop(row):
        row["image"] = row["image"][:4, :4]
        return row

    ds = data.read_images(images(at)).map(crop)
    ds.write_images(at / "out", column="image")
    frame = ds.to_pandas()
    return [ds.schema(), [tuple(batch["image"].shape) for batch in ds.iter_torch_batches(batch_size=5)], len(os.listdir(at / "out")),
            str(frame["image"].dtype), type(frame["image"][0]), [str(t.schema.field("image").type) for t in root(data).get(ds.to_arrow_refs())][:1]]


# ---- texts ----


@case()
def words_are_counted(data, at):
    (at / "words.txt").write_text("Hello World\n\nfoo bar baz\nhello the quick brown fox\n  spaced  \n")
    ds = data.read_text(at / "words.txt")
    words = ds.flat_map(lambda row: [{"w": word.lower()} for word in row["text"].split()])
    counted = words.groupby("w").count()
    return [ds.schema(), ds.take_all(), counted.sort("w").take_all(), counted.sort("count()", descending=True).take(1), counted.schema(),
            ds.filter(lambda row: "o" in row["text"]).count(), ds.min("text"), ds.max("text")]


@case("numpy", "pandas", "pyarrow")
def texts_in_batches(data, at, kind):
    import pyarrow.compute as pc

    (at / "words.txt").write_text("one two\nthree\n")

    def by_numpy(batch):
        batch["n"] = [len(text.split()) for text in batch["text"]]
        return batch

    def by_pandas(frame):
        frame["upper"] = frame["text"].str.upper()
        return frame

    def by_pyarrow(table):
        return table.append_column("size", pc.utf8_length(table["text"]))

    ds = data.read_text(at / "words.txt").map_batches({"numpy": by_numpy, "pandas": by_pandas, "pyarrow": by_pyarrow}[kind], batch_format=kind)
    return [ds.schema(), ds.take_all()]


# ---- tables ----


def people():
    import pandas as pd

    return pd.DataFrame({"id": range(8), "grp": list("aabbccdd"), "x": [1.5, None, 3.0, 4.0, 5.0, None, 7.0, 8.0], "d": pd.date_range("2024-01-01", periods=8)})


@case()
def what_groups_have(data, at):
    import numpy as np

    agg = sub(data, "aggregate")
    ds = data.from_pandas(people())
    return [ds.groupby("grp").mean("x").sort("grp").take_all(), ds.groupby("grp").max(["id", "x"]).sort("grp").take_all(),
            ds.groupby("grp").aggregate(agg.Sum("x"), agg.Mean("x", alias_name="mx"), agg.Count(), agg.Std("id", ddof=0)).sort("grp").take_all(),
            ds.aggregate(agg.Sum("id"), agg.Mean("x"), agg.Quantile("id", q=0.5), agg.AbsMax("id")),
            ds.groupby("grp").map_groups(lambda g: g.assign(z=g["x"] - g["x"].mean()), batch_format="pandas").sort("id").take_all(),
            ds.groupby("grp").map_groups(lambda g: {"grp": g["grp"][:1], "n": np.array([len(g["id"])])}).sort("grp").take_all()]


@case("csv", "parquet", "json")
def through_files(data, at, kind):
    ds = data.from_pandas(people()).drop_columns(["d"])
    getattr(ds, f"write_{kind}")(at / "out")
    back = getattr(data, f"read_{kind}")(at / "out")
    return [back.columns(), back.count(), back.sort("id").take(3), back.select_columns(["id", "x"]).sum("x")]


@case()
def csv_as_text(data, at):
    import datetime
    import decimal
    import os

    import pyarrow as pa

    ds = data.from_arrow(pa.table({"i": [1, None], "f": [1.5, None], "s": ['a"b', ""], "b": [True, None], "d": [datetime.date(2024, 2, 29), None],
                                   "t": pa.array([1, None], pa.timestamp("us")), "n": [decimal.Decimal("1.50"), None]}))
    ds.write_csv(at / "out")
    (name,) = os.listdir(at / "out")
    return open(at / "out" / name).read()


@case()
def partitions_in_folders(data, at):
    import os

    data.from_pandas(people()).write_parquet(at / "out", partition_cols=["grp"])
    back = data.read_parquet(at / "out")
    return [sorted(os.listdir(at / "out")), sorted(back.columns()), back.count(), sorted(row["id"] for row in back.filter(lambda row: row["grp"] == "b").take_all())]


@case()
def halves_of_a_frame(data, at):
    ds = data.from_pandas(people())
    train, test = ds.train_test_split(0.25)
    return [train.count(), test.count(), train.take(1), test.take(1), [s.count() for s in ds.split_at_indices([2, 5])],
            [s.count() for s in ds.split_proportionately([0.2, 0.3])], [s.count() for s in ds.split(2, equal=True)]]


# ---- training ----


@case("numpy", "pyarrow", "pandas")
def collated(data, at, kind):
    import torch

    collate = sub(data, "collate_fn")
    ds = data.range(20, override_num_blocks=2).map_batches(lambda batch: {"x": batch["id"].astype("float32"), "y": batch["id"] % 2})

    class Numbers(collate.NumpyBatchCollateFn):
        def __call__(self, batch):
            return {name: torch.as_tensor(values) * 2 for name, values in batch.items()}

    class Rows(collate.ArrowBatchCollateFn):
        def __call__(self, table):
            return [table.num_rows, table.column_names]

    class Names(collate.PandasBatchCollateFn):
        def __call__(self, frame):
            return [list(frame.columns), len(frame)]

    return list(ds.iter_torch_batches(batch_size=6, collate_fn={"numpy": Numbers, "pyarrow": Rows, "pandas": Names}[kind]()))


@case()
def threads_that_train(data, at):
    import threading

    its = data.range(20, override_num_blocks=4).streaming_split(2, equal=True)
    found = [[], []]

    def train(i):
        for _ in range(3):
            found[i].append([int(x) for batch in its[i].iter_torch_batches(batch_size=4) for x in batch["id"]])

    threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [[sorted(a + b), len(a), len(b)] for a, b in zip(*found)]


# ---- tasks and actors beside Datasets ----


@case()
def datasets_as_arguments(data, at):
    ray = root(data)
    ds = data.range(50)

    @ray.remote
    def count(ds):
        return ds.count()

    @ray.remote
    def total(it):
        return sum(row["id"] for row in it.iter_rows())

    class Trainer:
        def __init__(self, rank):
            self.rank, self.seen = rank, 0

        def train(self, shard):
            for batch in shard.iter_batches(batch_size=4):
                self.seen += len(batch["id"])
            return [self.rank, self.seen]

    trainers = [ray.remote(Trainer).remote(i) for i in range(2)]
    shards = ds.split(2, equal=True, locality_hints=trainers)
    return [ray.get(count.remote(ds)), ray.get(total.remote(ds.iterator())), ray.get([t.train.remote(s) for t, s in zip(trainers, shards)])]


@case()
def an_actor_that_functions_ask(data, at):
    ray = root(data)

    class Counter:
        def __init__(self):
            self.count = 0

        def add(self, by):
            self.count += by
            return self.count

    counter = ray.remote(Counter).options(name="parity-counter").remote()

    def tell(batch):
        handle = root(data).get_actor("parity-counter")
        root(data).get(handle.add.remote(len(batch["id"])))
        return batch

    try:
        rows = data.range(50, override_num_blocks=5).map_batches(tell, batch_size=10).materialize().count()
        return [rows, ray.get(counter.add.remote(0))]
    finally:
        ray.kill(counter)


@case()
def references_in_functions(data, at):
    ray = root(data)
    table = ray.put(list(range(10)))
    ds = data.range(20, override_num_blocks=2)

    def look_up(row, table):
        return {"v": root(data).get(table)[row["id"] % 10]}

    return [ds.map(look_up, fn_args=(table,)).sum("v"), ds.map_batches(lambda batch: {"x": batch["id"] * root(data).get(table)[3]}).sum("x")]


# ---- groups ----


@case("rows", "frames", "tables", "generators", "classes", "two keys")
def functions_of_groups(data, at, kind):
    import numpy as np

    ds = data.from_items([{"k": i % 3, "s": "ab"[i % 2], "v": float(i)} for i in range(12)])

    def pieces(group):
        for value in group["v"][:2]:
            yield {"k": group["k"][:1], "v": np.array([value])}

    class Total:
        def __init__(self, times):
            self.times = times

        def __call__(self, group):
            return {"k": group["k"][:1], "t": np.array([group["v"].sum() * self.times])}

    made = {
        "rows": lambda: ds.groupby("k").map_groups(lambda group: {"k": group["k"][:1], "n": [len(group["v"])]}),
        "frames": lambda: ds.groupby("k").map_groups(lambda group: group.nlargest(1, "v"), batch_format="pandas"),
        "tables": lambda: ds.groupby("k").map_groups(lambda group: group.slice(0, 1), batch_format="pyarrow"),
        "generators": lambda: ds.groupby("k").map_groups(pieces),
        "classes": lambda: ds.groupby("k").map_groups(Total, fn_constructor_args=(2,), concurrency=1),
        "two keys": lambda: ds.groupby(["k", "s"]).map_groups(lambda group: {"k": group["k"][:1], "s": group["s"][:1], "n": [len(group["v"])]}),
    }[kind]()
    return [made.schema(), sorted(made.take_all(), key=str)]


@case()
def aggregates_of_ones_own(data, at):
    agg = sub(data, "aggregate")
    ds = data.from_items([{"k": i % 3, "v": float(i)} for i in range(12)])

    class Spread(agg.AggregateFnV2):
        def __init__(self, on):
            super().__init__(name=f"spread({on})", zero_factory=lambda: [float("inf"), float("-inf")], on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            import pyarrow.compute as pc

            column = block[self._target_col_name]
            return [pc.min(column).as_py(), pc.max(column).as_py()]

        def combine(self, a, b):
            return [min(a[0], b[0]), max(a[1], b[1])]

        def finalize(self, both):
            return both[1] - both[0]

    total = agg.AggregateFn(init=lambda key: 0, accumulate_row=lambda sum, row: sum + row["v"], merge=lambda a, b: a + b, name="total")
    return [ds.groupby("k").aggregate(Spread("v")).sort("k").take_all(), ds.aggregate(Spread("v")),
            ds.groupby("k").aggregate(total).sort("k").take_all(), ds.aggregate(total)]


# ---- features ----


@case()
def features(data, at):
    import pandas as pd

    pre = sub(data, "preprocessors")
    frame = pd.DataFrame({"age": [20, 30, 40, 50], "inc": [1.0, 2.0, None, 4.0], "city": ["a", "b", "a", "c"], "y": ["n", "y", "y", "n"]})
    ds = data.from_pandas(frame)
    chain = pre.Chain(pre.SimpleImputer(["inc"], strategy="mean"), pre.StandardScaler(["age", "inc"]), pre.OneHotEncoder(["city"]), pre.LabelEncoder("y"))
    made = chain.fit_transform(ds)
    return [made.schema(), made.take_all(), repr(chain), str(chain.fit_status()), chain.transform_batch(frame.head(1)), chain.preprocessors[1].stats_]


@case()
def a_preprocessor_of_ones_own(data, at):
    ds = data.from_items([{"age": 20.0}, {"age": 40.0}])

    class Centred(data.Preprocessor):
        def _fit(self, ds):
            self.stats_ = {"m": ds.mean("age")}
            return self

        def _transform_pandas(self, frame):
            frame["age"] = frame["age"] - self.stats_["m"]
            return frame

    class Doubled(data.Preprocessor):
        _is_fittable = False

        def _transform_numpy(self, batch):
            batch["z"] = batch["age"] * 2
            return batch

    centred = Centred()
    return [centred.fit_transform(ds).take_all(), str(centred.fit_status()), Doubled().transform(ds).take_all(), str(Doubled().fit_status())]


# ---- names that few use ----


@case(shows=["ray.data.expressions.unnest", "ray.data.expressions.UnnestExpr"])
def structs_become_columns(data, at):
    import pyarrow as pa

    e = sub(data, "expressions")
    ds = data.from_arrow(pa.table({"b": [1, 2], "a": [{"x": 1, "y": "p"}, {"x": 2, "y": None}]}))
    made = ds.with_columns(e.unnest(e.col("a")))
    try:
        e.unnest(e.unnest(e.col("a")))
        twice = None
    except TypeError:
        twice = "TypeError"
    return [made.schema(), made.take_all(), isinstance(e.unnest(e.col("a")), e.UnnestExpr), twice]


@case(shows=["DataType.from_dtype"])
def types_of_other_libraries(data, at):
    import numpy as np
    import pyarrow as pa

    DataType = sub(data, "datatype").DataType
    found = [DataType.from_dtype(kind) for kind in (pa.int32(), np.dtype("float32"), DataType.string(), None)]
    return [None if kind is None else [repr(kind), str(kind.to_arrow_dtype())] for kind in found]


@case(shows=["ray.data.block.TaskExecWorkerStats", "ray.data.block.CustomOpStats"])
def figures_of_tasks(data, at):
    block = sub(data, "block")

    class Mine(block.CustomOpStats):
        pass

    stats = block.TaskExecWorkerStats(task_wall_time_s=1.5, custom_op_stats=[Mine()])
    try:
        block.CustomOpStats()
        plain = None
    except TypeError:
        plain = "TypeError"
    return [stats.task_wall_time_s, stats.max_uss_bytes, len(stats.custom_op_stats), block.TaskExecWorkerStats(2.0).custom_op_stats, plain]


ERRORS = {"RaySystemError": "('lost')", "OutOfMemoryError": "('much')", "ObjectStoreFullError": "('full')", "OutOfDiskError": "('disk')", "NodeDiedError": "('gone')",
          "LocalRayletDiedError": "()", "RayChannelError": "('channel')", "RuntimeEnvSetupError": "('env')",
          "TaskUnschedulableError": "('no room')", "ActorUnschedulableError": "('no room')", "PlasmaObjectNotAvailable": "('not here')",
          "ObjectRefStreamEndOfStreamError": "('end')", "UnserializableException": "('text')", "AuthenticationError": "('who')", "RpcError": "('rpc', 5)",
          "ActorPlacementGroupRemoved": "()", "ObjectLostError": "('00' * 28, b'', '')", "ObjectFreedError": "('00' * 28, b'', '')", "OwnerDiedError": "('00' * 28, b'', '')",
          "ObjectFetchTimedOutError": "('00' * 28, b'', '')", "ReferenceCountingAssertionError": "('00' * 28, b'', '')", "ActorUnavailableError": "('busy', None)",
          "ActorHandleNotFoundError": "('no handle')", "ObjectReconstructionFailedError": "('00' * 28, b'', '')",
          "OufOfBandObjectRefSerializationException": "('outside')", "RayCgraphCapacityExceeded": "('full')", "RayDirectTransportError": "('transport')",
          "StreamingGeneratorReplayInconsistentError": "('again')"}


@case(*ERRORS, shows=["ray.exceptions.{}"])
def errors_that_tasks_raise(data, at, name):
    """A program's own way to tell of them: they come out of get as what they are."""
    ray = root(data)
    kind = getattr(ray.exceptions, name)

    @ray.remote
    def fail():
        raise eval(f"kind{ERRORS[name]}", {"kind": kind})

    try:
        ray.get(fail.remote(), timeout=30)
    except kind as error:
        return [isinstance(error, ray.exceptions.RayError), issubclass(kind, ray.exceptions.RayError), sorted(c.__name__ for c in kind.__mro__ if c.__module__ != "builtins")]
    except Exception as error:
        return [type(error).__name__]
