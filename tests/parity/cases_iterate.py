"""Loops: rows, batches, torch tensors, iterators, streaming_split."""
from parity import case, sub


def table(data):
    return data.from_items([{"a": i, "f": i / 2, "s": f"s{i}"} for i in range(5)], override_num_blocks=1)


@case()
def iter_rows(data, at):
    return list(table(data).iter_rows())


@case(1, 2, 5, 10, None)
def iter_batches_sizes(data, at, size):
    return [len(b["id"]) for b in data.range(10, override_num_blocks=4).iter_batches(batch_size=size)]


@case("numpy", "pandas", "pyarrow", "default", None)
def iter_batches_formats(data, at, format):
    return list(table(data).iter_batches(batch_size=2, batch_format=format))


@case(True, False)
def iter_batches_drop_last(data, at, drop):
    return [len(b["id"]) for b in data.range(5).iter_batches(batch_size=2, drop_last=drop)]


@case()
def iter_batches_default_size(data, at):
    return [len(b["id"]) for b in data.range(600).iter_batches()]


@case()
def iter_batches_shuffled(data, at):
    ds = data.range(100)
    found = [i for b in ds.iter_batches(batch_size=10, local_shuffle_buffer_size=50, local_shuffle_seed=1) for i in b["id"].tolist()]
    return [sorted(found) == list(range(100)), found == list(range(100))]


@case()
def iter_batches_of_nothing(data, at):
    return list(data.range(0).iter_batches())


@case()
def iter_batches_twice(data, at):
    looped = data.range(4).iter_batches(batch_size=2)
    return [[b["id"].tolist() for b in looped] for _ in range(2)]


@case()
def leaving_a_loop(data, at):
    for row in data.range(100).iter_rows():
        if row["id"] == 2:
            break
    return row


@case()
def iter_torch_batches(data, at):
    return list(table(data).select_columns(["a", "f"]).iter_torch_batches(batch_size=3))


@case("torch.float32", "{'a': torch.int8, 'f': torch.float16}")
def iter_torch_dtypes(data, at, text):
    import torch

    return list(table(data).select_columns(["a", "f"]).iter_torch_batches(batch_size=5, dtypes=eval(text, {"torch": torch})))


@case()
def iter_torch_collate(data, at):
    import torch

    ds = table(data)
    return list(ds.iter_torch_batches(batch_size=5, collate_fn=lambda b: torch.as_tensor(b["a"]) * 2))


@case("NumpyBatchCollateFn", "ArrowBatchCollateFn", "PandasBatchCollateFn")
def collate_classes(data, at, name):
    import torch

    base = getattr(sub(data, "collate_fn"), name)

    class Mine(base):
        def __call__(self, batch):
            return {"kind": torch.tensor([len(type(batch).__name__)])}

    return list(data.range(2).iter_torch_batches(batch_size=2, collate_fn=Mine()))


@case("[[1, 2], [3, 4]]", "[[1], [1, 2]]", "['a']", "[1, None]", "[0.5]", "[True, False]")
def iter_torch_values(data, at, text):
    return list(data.from_items(eval(text), override_num_blocks=1).iter_torch_batches(batch_size=None))


@case()
def iterator(data, at):
    found = data.range(4).iterator()
    return [list(found.iter_rows()), [b["id"].tolist() for b in found.iter_batches(batch_size=3)], found.schema(), found.materialize().count(),
            isinstance(found, data.DataIterator)]


@case()
def iterator_context(data, at):
    return data.range(4).iterator().get_context().max_errored_blocks


@case()
def iterators_are_not_iterable(data, at):
    return list(data.range(4).iterator())


@case((1, False), (2, True), (3, True), (2, False))
def streaming_split(data, at, n, equal):
    import threading

    parts = data.range(20, override_num_blocks=10).streaming_split(n, equal=equal)
    found = [None] * n

    def consume(i):
        found[i] = [r["id"] for r in parts[i].iter_rows()]

    threads = [threading.Thread(target=consume, args=[i]) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(50)
    rows = sorted(i for f in found for i in f)
    return [len(rows), len(set(rows)) == len(rows), [len(f) for f in found] if equal else None]


@case()
def streaming_split_epochs(data, at):
    part, = data.range(3).streaming_split(1)
    return [[r["id"] for r in part.iter_rows()] for _ in range(2)]


@case()
def to_torch(data, at):
    found = list(table(data).to_torch(label_column="a", feature_columns=["f"], batch_size=2))
    return [len(found), found[0]]


@case()
def map_tensors(data, at):
    import numpy as np

    ds = data.range(3).map_batches(lambda b: {"x": np.stack([np.full((2, 2), i) for i in b["id"]])})
    return [ds.take_batch(), ds.take(1), ds.schema().names]


@case()
def ragged_tensors(data, at):
    import numpy as np

    ds = data.from_items([{"x": np.zeros((1, 2))}, {"x": np.ones((2, 2))}])
    return [r["x"] for r in ds.take_all()]


@case()
def mix(data, at):
    ds = data.range(4).mix(data.range(4), weights=[0.5, 0.5]) if hasattr(data.Dataset, "mix") else None
    return sorted(r["id"] for r in ds.take_all())


@case(2, 3)
def an_iterator_to_torch(data, at, size):
    it = data.from_items([{"x": 1.5 * i, "z": i, "y": i % 2} for i in range(5)], override_num_blocks=1).iterator()
    return [[features.tolist(), label.tolist()] for features, label in it.to_torch(label_column="y", feature_columns=["x", "z"], batch_size=size)]
