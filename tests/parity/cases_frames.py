"""pandas frames as Datasets: which steps leave their dtypes, and what Arrow makes of their texts."""
from parity import case


def frames(data):
    import pandas as pd

    left = pd.DataFrame({"a": ["x", "y", None], "i": [1, 2, 3], "c": pd.Categorical(["p", "q", "p"]), "n": pd.array([1, None, 3], dtype="Int64")})
    right = pd.DataFrame({"b": [1.5, None, 2.5], "i": [4, 5, 6], "t": pd.to_datetime(["2024-01-01"] * 3)})
    return data.from_pandas(left), data.from_pandas(right)


def dtypes(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


ZIPPED = {
    "frames": lambda data, a, b: a.zip(b), "three": lambda data, a, b: b.zip(a, data.range(3)), "numbers first": lambda data, a, b: data.range(3).zip(a),
    "cut": lambda data, a, b: a.repartition(3).zip(b.repartition(2)), "filtered": lambda data, a, b: a.zip(b).filter(expr="i_1 > 3").select_columns(["a", "b"]),
    "kept": lambda data, a, b: a.zip(b).materialize(),
}


@case(*ZIPPED)
def zipped_frames(data, at, name):
    ds = ZIPPED[name](data, *frames(data))
    batch = next(iter(ds.iter_batches(batch_format="pandas")))
    return [dtypes(ds.to_pandas()), dtypes(batch), ds.take_all()]


TEXTS = {
    "as they are": lambda ds: ds, "chosen": lambda ds: ds.select_columns(["a"]), "filtered": lambda ds: ds.filter(expr="i > 1"),
    "through NumPy": lambda ds: ds.map_batches(lambda batch: batch), "through pandas": lambda ds: ds.map_batches(lambda batch: batch, batch_format="pandas"),
    "through Arrow": lambda ds: ds.map_batches(lambda batch: batch, batch_format="pyarrow"), "rows": lambda ds: ds.map(lambda row: row),
    "united": lambda ds: ds.union(ds),
}


@case(*TEXTS)
def texts_of_frames(data, at, name):
    import pandas as pd

    ds = TEXTS[name](data.from_pandas(pd.DataFrame({"a": ["x", "y", "x"], "i": [1, 2, 3]})))
    table = next(iter(ds.iter_batches(batch_format="pyarrow")))
    return [str(ds.schema()), {field.name: str(field.type) for field in table.schema}, dtypes(ds.to_pandas())]


DIFFERENT = [{"x": 1, "k": 1}, {"x": "s", "k": 2}, {"x": 2.5, "z": 2}, {"x": [1], "k": None}, {"x": None, "k": 5}]


@case((0, 1), (0, 2), (0, 1, 2), (1, 3), (0, 3, 4), (1, 0, 1))
def blocks_of_several_types(data, at, *numbers):
    """A column whose blocks have no type in common is one of objects; the others keep theirs."""
    first, *others = [data.from_items([DIFFERENT[number]]) for number in numbers]
    frame = first.union(*others).to_pandas()
    return [dtypes(frame), frame.index.tolist(), frame.astype(object).where(frame.notna(), None).to_dict("records") if 3 not in numbers else None]
