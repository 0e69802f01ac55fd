"""Values on their way: in rows, in batches of each format, and back."""
import itertools

from parity import case


COLUMNS = ["[1, 2]", "[1, None]", "[1.5, None]", "[float('nan'), 1.0]", "[True, False]", "[True, None]", "['a', None]", "[b'x', None]",
           "[[1, 2], [3]]", "[[1, 2], [3, 4]]", "[[], None]", "[{'k': 1}, {'k': None}]", "[d(2024, 1, 2), None]", "[D('1.5'), D('2')]", "[day(2024, 1, 2), None]",
           "[None, None]", "[np.int8(1), np.int8(2)]", "[np.float32(0.5), None]", "[np.zeros((2, 2)), np.ones((2, 2))]", "[np.arange(2), np.arange(3)]",
           "[2**40, -1]", "['', 'ä€']", "[td(seconds=1), None]", "[d(2024, 1, 2, 3, 4, 5, 678900), d(1960, 1, 1)]",
           "[[np.datetime64(5, 's')], [None]]", "[{'k': np.datetime64(5, 'ms')}, {'k': np.datetime64('NaT', 'ms')}]", "[[{'k': np.timedelta64(5, 'us')}]]",
           "[{'k': [np.timedelta64(5, 's')]}]", "[{'k': np.array([5, 'NaT'], 'M8[us]')}]", "[{'k': np.datetime64(5, 'D')}]", "[[np.datetime64(5, 's'), np.datetime64(5, 'ms')]]",
           "[np.zeros((2, 2), 'M8[s]')]", "[np.zeros(2, 'm8[ms]'), np.zeros(3, 'm8[ms]')]", "[uuid.UUID(int=5), None]", "[[uuid.UUID(int=5)]]"]


def values(text):
    import datetime
    import decimal
    import uuid

    import numpy as np

    return eval(text, {"uuid": uuid, "d": datetime.datetime, "D": decimal.Decimal, "day": datetime.date, "np": np, "td": datetime.timedelta})


def items(data, text):
    return data.from_items([{"x": v} for v in values(text)], override_num_blocks=1)


@case(*COLUMNS)
def in_rows(data, at, text):
    return [r["x"] for r in items(data, text).take_all()]


@case(*COLUMNS)
def in_numpy(data, at, text):
    return items(data, text).take_batch(batch_format="numpy")["x"]


@case(*COLUMNS)
def in_pandas(data, at, text):
    return items(data, text).take_batch(batch_format="pandas")


@case(*COLUMNS)
def types(data, at, text):
    return [str(t) for t in items(data, text).schema().types]


@case(*COLUMNS)
def through_a_function(data, at, text):
    ds = items(data, text).map(lambda row: {"y": row["x"], "kind": type(row["x"]).__name__})
    return ds.take_all()


@case(*COLUMNS)
def through_a_batch(data, at, text):
    ds = items(data, text).map_batches(lambda b: {"y": b["x"], "kind": [str(b["x"].dtype)] * len(b["x"])})
    return ds.take_all()


@case("[1, 2]", "[1.5, None]", "['a', None]", "[True, None]", "[[1], []]", "[{'a': 1}]", "[1, 'a']", "[None, 1]", "[(1, 2)]", "[{1, 2}]")
def lists_returned(data, at, text):
    ds = data.range(1).map_batches(lambda b: {"y": eval(text)})
    return [[r["y"] for r in ds.take_all()], [str(t) for t in ds.schema().types]]


@case("int8", "uint16", "float32", "float16", "bool", "datetime64[s]", "datetime64[ns]", "timedelta64[ms]", "U4", "S3", "object")
def arrays_returned(data, at, dtype):
    def fn(batch):
        import numpy as np

        return {"y": np.array(["ab", "c"] if dtype in ("U4", "object") else [b"ab", b"c"] if dtype == "S3" else [0, 1]).astype(dtype)}

    ds = data.range(1).map_batches(fn)
    return [ds.take_batch()["y"], [str(t) for t in ds.schema().types]]


@case("{'a': [1, None]}", "{'a': [1.5, float('nan')]}", "{'a': ['x', None]}", "{'a': pd.Categorical(['u', 'v', 'u'])}", "{'a': pd.to_datetime(['2024-01-02'])}",
      "{'a': pd.array([1, None], dtype='Int64')}", "{'a': [[1, 2], [3]]}", "{'a': [{'k': 1}]}")
def frames_returned(data, at, text):
    def fn(batch):
        import pandas as pd

        return pd.DataFrame(eval(text, {"pd": pd}))

    ds = data.range(1).map_batches(fn, batch_format="pandas")
    return [ds.take_all(), [str(t) for t in ds.schema().types]]


@case()
def scalars_of_pyarrow_returned(data, at):
    import pyarrow as pa

    def function(table):
        first = table["id"][0]
        return {"a": [first, None], "b": [pa.scalar("x"), pa.scalar("y")], "c": [pa.scalar(1, pa.int8()), pa.scalar(2, pa.int8())],
                "e": [pa.scalar(1), 2]}

    ds = data.range(1).map_batches(function, batch_format="pyarrow")
    rows = data.range(1).map(lambda row: {"x": pa.scalar(3), "y": pa.scalar({"k": 1.5})}).take_all()
    return [[[row[name] for row in ds.take_all()] for name in "abc"], [str(t) for t in ds.schema().types], rows]


@case()
def scalars_of_pyarrow_from_groups(data, at):
    ds = data.from_items([{"a": i % 2, "b": i / 2} for i in range(6)], override_num_blocks=1)
    made = ds.groupby("a").map_groups(lambda t: {"a": [t["a"][0]], "b": [t["b"][-1]]}, batch_format="pyarrow")
    return sorted(made.take_all(), key=lambda row: row["a"])


@case("[1, 2]", "[]", "[None, 'x']", "[[1], None]", "{'a': 1, 'b': [2.5]}", "np.arange(3)")
def literals_of_many_values(data, at, text):
    from parity import sub

    return data.range(2).with_column("x", sub(data, "expressions").lit(values(text))).take_all()


@case("[[1], [1], [2, 3], None]", "[['a', None], ['a', None]]")
def different_lists(data, at, text):
    return sorted(items(data, text).unique("x"), key=repr)


class LikeAnArray:
    """As tensors of other libraries are: NumPy knows what to make of it."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        import numpy as np

        return np.array(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


@case(*itertools.product(["series", "frame", "texts", "like an array", "ragged"], ["from_items", "map", "map_batches"]))
def values_like_arrays(data, at, kind, how):
    import numpy as np
    import pandas as pd

    def make(i):
        return {"series": lambda: pd.Series([i, 2]), "frame": lambda: pd.DataFrame({"a": [i, 2], "b": [3, 4]}), "texts": lambda: pd.Series(["x", None]),
                "like an array": lambda: LikeAnArray([i + 0.5, 2]), "ragged": lambda: LikeAnArray([1.5] * (i + 1))}[kind]()

    rows = data.from_items([{"i": i} for i in range(2)], override_num_blocks=1)
    if how == "from_items":
        ds = data.from_items([{"i": i, "a": make(i)} for i in range(2)], override_num_blocks=1)
    elif how == "map":
        ds = rows.map(lambda row: {**row, "a": make(row["i"])})
    else:
        ds = rows.map_batches(lambda batch: {**batch, "a": [make(i) for i in batch["i"]]})
    return [[type(row["a"]).__name__, np.asarray(row["a"], dtype=object).tolist()] for row in ds.take_all()]
