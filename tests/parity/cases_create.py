"""Making Datasets of Python objects."""
import datetime
import decimal

from parity import case, root, sub


@case(0, 1, 3, -2)
def range_takes(data, at, n):
    return data.range(n).take_all()


@case("x", None, 2.5)
def range_of_no_number(data, at, n):
    return data.range(n).take_all()


@case((10, 3), (10, 4), (3, 10), (0, 2))
def range_in_blocks(data, at, n, blocks):
    ds = data.range(n, override_num_blocks=blocks)
    return [len(b["id"]) for b in ds.iter_batches(batch_size=None)]


@case()
def range_schema(data, at):
    return data.range(3).schema()


@case((3, (1,)), (2, (2, 2)), (2, ()))
def range_tensor(data, at, n, shape):
    return data.range_tensor(n, shape=shape).take_batch()


@case("[1, 2, 3]", "['a', None]", "[{'a': 1, 'b': 'x'}, {'a': None, 'b': 'y'}]", "[{'a': 1}, {'b': 2}]", "[1, 'a']",
      "[[1, 2], [3]]", "[{'a': {'x': 1}}, {'a': {'y': 2}}]", "[1.5, 2]", "[True, None]", "[b'x', b'']", "[]", "[None, None]",
      "[{'a': []}, {'a': [1]}]", "[(1, 2), (3, 4)]", "[2**70]", "['ä', '\\U0001f600']")
def from_items(data, at, text):
    ds = data.from_items(eval(text), override_num_blocks=1)
    return [ds.take_all(), ds.schema()]


@case()
def from_items_times(data, at):
    d = datetime
    items = [{"when": d.datetime(2024, 1, 2, 3, 4, 5, 6), "day": d.date(2024, 2, 29), "span": d.timedelta(seconds=90),
              "money": decimal.Decimal("12.50")}]
    ds = data.from_items(items)
    return [ds.take_all(), ds.schema().names]


@case(1, 2, 5)
def from_items_blocks(data, at, blocks):
    return data.from_items(list(range(5)), override_num_blocks=blocks).materialize().num_blocks()


@case("5", "None", "{'a': 1}")
def from_items_of_no_list(data, at, text):
    return data.from_items(eval(text)).take_all()


@case("one", "list", "empty", "index")
def from_pandas(data, at, which):
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, float("nan")]})
    if which == "list":
        ds = data.from_pandas([frame, frame])
    elif which == "empty":
        ds = data.from_pandas(pd.DataFrame({"a": []}))
    elif which == "index":
        ds = data.from_pandas(frame.set_index("b"))
    else:
        ds = data.from_pandas(frame)
    return [ds.take_all(), ds.count(), ds.columns()]


@case()
def from_pandas_and_back(data, at):
    import pandas as pd

    return data.from_pandas(pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])})).to_pandas()


@case("table", "list", "batch", "bytes", "chunked")
def from_arrow(data, at, which):
    import pyarrow as pa

    table = pa.table({"a": [1, None], "b": [["x"], []], "d": pa.array(["p", "q"]).dictionary_encode()})
    given = {"table": table, "list": [table, table], "batch": table.to_batches()[0], "chunked": pa.concat_tables([table, table])}
    if which == "bytes":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        given["bytes"] = sink.getvalue().to_pybytes()
    ds = data.from_arrow(given[which])
    return [ds.take_all(), ds.schema(), ds.count()]


@case("int32", "float16", "bool", "U3", "2d", "list")
def from_numpy(data, at, which):
    import numpy as np

    given = {"int32": np.arange(3, dtype="int32"), "float16": np.array([0.5, 1], dtype="float16"),
             "bool": np.array([True, False]), "U3": np.array(["a", "bcd"]), "2d": np.arange(6).reshape(2, 3),
             "list": [np.array([1, 2]), np.array([3])]}[which]
    ds = data.from_numpy(given)
    return [ds.take_batch(), ds.count(), ds.columns()]


@case()
def from_blocks(data, at):
    import pandas as pd
    import pyarrow as pa

    return data.from_blocks([pd.DataFrame({"a": [1]}), pa.table({"a": [2]})]).take_all()


@case("pandas", "arrow", "numpy")
def from_refs(data, at, which):
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    put = root(data).put
    if which == "pandas":
        return data.from_pandas_refs([put(pd.DataFrame({"a": [1]})), put(pd.DataFrame({"a": [2]}))]).take_all()
    if which == "arrow":
        return data.from_arrow_refs(put(pa.table({"a": [1, 2]}))).take_all()
    return data.from_numpy_refs([put(np.array([1, 2]))]).take_all()


@case()
def from_torch(data, at):
    import torch

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return i * i

    return data.from_torch(Squares()).take_all()


@case()
def from_torch_tensors(data, at):
    import torch

    rows = data.from_torch(torch.utils.data.TensorDataset(torch.arange(4).reshape(2, 2))).take_all()
    return [type(row["item"]).__name__ for row in rows]


@case((True, "frames"), (False, "frames"), (True, "filtered"), (True, "blocks"), (False, "blocks"))
def kinds_of_blocks(data, at, keeps, how):
    """Of frames blocks are frames, as long as no step makes tables of them, and unless enable_pandas_block says so."""
    import pandas as pd

    data.DataContext.get_current().enable_pandas_block = keeps
    frames = [pd.DataFrame({"a": [3, 1]}), pd.DataFrame({"a": [2]})]
    ds = data.from_blocks(frames) if how == "blocks" else data.from_pandas(frames)
    if how == "filtered":
        ds = ds.filter(expr="a > 1")
    kinds = set()
    for bundle in ds.iter_internal_ref_bundles():
        get = __import__("ray").get if data.__name__ == "ray.data" else __import__("weir").get
        kinds |= {type(get(ref)).__name__ for ref in bundle.block_refs}
    return [sorted(kinds), str(ds.to_pandas()["a"].dtype), [row["a"] for row in ds.take_all()]]
