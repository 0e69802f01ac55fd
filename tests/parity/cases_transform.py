"""Methods that make another Dataset."""
from parity import case, sub


def rows(data):
    return data.from_items([{"a": i, "b": f"s{i % 3}", "c": i / 2 if i % 4 else None} for i in range(8)], override_num_blocks=1)


@case()
def map_rows(data, at):
    return rows(data).map(lambda r: {"x": r["a"] * 2, "b": r["b"]}).take_all()


@case()
def map_adds_to_a_row(data, at):
    def add(row):
        row["d"] = row["a"] + 1
        return row

    return rows(data).map(add).take(2)


@case()
def map_class(data, at):
    class Add:
        def __init__(self, n, m=0):
            self.n = n + m

        def __call__(self, row, k=0):
            return {"x": row["id"] + self.n + k}

    ds = data.range(3).map(Add, fn_constructor_args=[10], fn_constructor_kwargs={"m": 100}, fn_kwargs={"k": 1000}, concurrency=1)
    return ds.take_all()


@case()
def map_arguments(data, at):
    return data.range(2).map(lambda row, a, b: {"x": row["id"] + a + b}, fn_args=[10], fn_kwargs={"b": 100}).take_all()


@case()
def map_other_types_by_row(data, at):
    return data.range(3).map(lambda r: {"x": r["id"] if r["id"] != 1 else None}).take_all()


@case(None, 1, 3, 100)
def map_batches_sizes(data, at, size):
    ds = data.range(7, override_num_blocks=1).map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=size)
    return [r["n"] for r in ds.take_all()]


@case("numpy", "pandas", "pyarrow", "default", None)
def map_batches_formats(data, at, format):
    ds = rows(data).map_batches(lambda b: {"kind": [type(b).__name__], "col": [type(b["a"]).__name__]}, batch_format=format)
    return ds.take_all()


@case("list", "array", "frame", "table", "generator", "tensor", "dict of scalars in list", "empty", "userdict", "torch")
def map_batches_returns(data, at, which):
    def fn(batch):
        import collections

        import numpy as np
        import pandas as pd
        import pyarrow as pa

        if which == "list":
            return {"x": [1, 2]}
        if which == "array":
            return {"x": np.array([1, 2], dtype="int8"), "y": np.array(["a", None], dtype=object)}
        if which == "frame":
            return pd.DataFrame({"x": [1, 2], "y": ["a", None]})
        if which == "table":
            return pa.table({"x": [1, None]})
        if which == "generator":
            return (({"x": [i]}) for i in range(3))
        if which == "tensor":
            return {"x": np.zeros((2, 2, 2), dtype="float32")}
        if which == "empty":
            return {"x": []}
        if which == "userdict":
            return collections.UserDict({"x": [1]})
        if which == "torch":
            import torch

            return {"x": torch.ones(2, dtype=torch.float32)}
        return {"x": [{"k": 1}, {"k": 2}]}

    ds = data.range(2, override_num_blocks=1).map_batches(fn)
    return [ds.take_all(), ds.count()]


@case()
def map_batches_generator_function(data, at):
    def fn(batch):
        for i in batch["id"]:
            yield {"x": [int(i)] * 2}

    return data.range(3, override_num_blocks=1).map_batches(fn).take_all()


@case(True, False)
def map_batches_zero_copy(data, at, zero_copy):
    def fn(batch):
        batch["id"] += 1
        return batch

    return data.range(3).map_batches(fn, zero_copy_batch=zero_copy, batch_format="numpy").take_all()


@case()
def map_batches_class(data, at):
    class Model:
        def __init__(self, factor):
            self.factor = factor
            self.calls = 0

        def __call__(self, batch):
            self.calls += 1
            return {"x": batch["id"] * self.factor, "calls": [self.calls] * len(batch["id"])}

    ds = data.range(6, override_num_blocks=1).map_batches(Model, fn_constructor_args=(3,), batch_size=2, concurrency=1)
    return ds.take_all()


@case()
def flat_map(data, at):
    return data.range(4).flat_map(lambda r: [{"x": r["id"]}] * r["id"]).take_all()


@case()
def flat_map_generator(data, at):
    def fn(row):
        for i in range(row["id"]):
            yield {"x": i}

    return data.range(4).flat_map(fn).take_all()


@case()
def filter_function(data, at):
    return rows(data).filter(lambda r: r["a"] % 2 == 1).take_all()


@case()
def filter_class(data, at):
    class Above:
        def __init__(self, n):
            self.n = n

        def __call__(self, row):
            return row["id"] > self.n

    return data.range(5).filter(Above, fn_constructor_args=[2], concurrency=1).take_all()


@case("a > 3", "a >= 2 and b == 's1'", "b in ['s0', 's2']", "a % 2 == 0", "not (a > 3)", "c > 1", "a != 1 or b == 's0'", "a * 2 < 5")
def filter_text(data, at, text):
    return rows(data).filter(expr=text).take_all()


@case()
def filter_expression(data, at):
    col = sub(data, "expressions").col
    return rows(data).filter(expr=(col("a") > 2) & (col("b") != "s1")).take_all()


@case()
def with_column(data, at):
    e = sub(data, "expressions")
    return rows(data).with_column("d", e.col("a") + 1).with_column("a", e.lit(0)).take(3)


@case()
def with_columns(data, at):
    e = sub(data, "expressions")
    return rows(data).with_columns({"d": e.col("a") + 1, "e": e.col("a") * e.col("a")}).take(3)


@case("pandas", "numpy", "pyarrow")
def add_column(data, at, format):
    def fn(batch):
        if format == "pyarrow":
            import pyarrow.compute as pc

            return pc.add(batch["id"], 1)
        return batch["id"] + 1

    return data.range(3).add_column("x", fn, batch_format=format).take_all()


@case("['c', 'a']", "'b'", "['a', 'a']", "['nope']", "[]", "5")
def select_columns(data, at, text):
    return rows(data).select_columns(eval(text)).take(2)


@case("['c']", "['a', 'b']", "['a', 'a']", "['nope']", "[]")
def drop_columns(data, at, text):
    return rows(data).drop_columns(eval(text)).take(2)


@case("{'a': 'x'}", "['x', 'y', 'z']", "{'nope': 'x'}", "{'a': 'b'}", "['x']", "{}", "{'a': 5}", "['x', 'x', 'y']")
def rename_columns(data, at, text):
    return rows(data).rename_columns(eval(text)).take(2)


@case(0, 3, 100)
def limit(data, at, n):
    ds = data.range(10, override_num_blocks=4).limit(n)
    return [ds.take_all(), ds.count()]


@case()
def limits_in_a_row(data, at):
    return data.range(10).limit(5).limit(3).map(lambda r: r).limit(2).take_all()


@case()
def limit_behind_map(data, at):
    return data.range(100, override_num_blocks=4).map(lambda r: {"x": r["id"]}).limit(3).take_all()


@case()
def union(data, at):
    ds = data.range(2).union(data.range(1), data.range(2))
    return [ds.take_all(), ds.count()]


@case()
def union_of_other_columns(data, at):
    return data.from_items([{"a": 1}]).union(data.from_items([{"b": 2}])).take_all()


@case(0.0, 1.0)
def random_sample(data, at, fraction):
    return data.range(20).random_sample(fraction).count()


@case(-0.1, 1.1)
def random_sample_wrong(data, at, fraction):
    return data.range(20).random_sample(fraction).count()


@case()
def random_sample_seed(data, at):
    ds = data.range(1000, override_num_blocks=1).random_sample(0.5, seed=7)
    first, second = ds.take_all(), ds.take_all()
    return [first == second, 400 < len(first) < 600]


@case(1, 3, 4, 20)
def repartition(data, at, n):
    ds = data.range(10, override_num_blocks=2).repartition(n).materialize()
    return [ds.count(), [len(b["id"]) for b in ds.iter_batches(batch_size=None) if len(b["id"])]]


@case(1, 4, 100)
def repartition_by_rows(data, at, n):
    ds = data.range(10, override_num_blocks=1).repartition(target_num_rows_per_block=n)
    return [len(b["id"]) for b in ds.iter_batches(batch_size=None)]


@case("{}", "{'num_blocks': 2, 'target_num_rows_per_block': 2}", "{'target_num_rows_per_block': 2, 'shuffle': True}")
def repartition_wrong(data, at, text):
    return data.range(4).repartition(**eval(text)).take_all()


@case()
def chain_of_all(data, at):
    ds = rows(data).map(lambda r: {**r, "k": r["a"] % 2}).filter(lambda r: r["k"] == 1)
    ds = ds.flat_map(lambda r: [r, r]).map_batches(lambda b: {"a": b["a"], "z": b["a"] * 10}, batch_size=3)
    return ds.rename_columns({"z": "y"}).select_columns(["y", "a"]).limit(5).take_all()


@case((5, False), (5, True), (2, False), (3, True))
def split(data, at, n, equal):
    parts = data.range(10, override_num_blocks=5).split(n, equal=equal)
    counts = [p.count() for p in parts]
    return [len(parts), sum(counts), counts if equal else None]


@case((5, 7), (5, 3), (2, 5), (1, 2))
def split_by_blocks(data, at, blocks, n):
    parts = data.range(10, override_num_blocks=blocks).split(n)
    return [[[r["id"] for r in p.take_all()], p.num_blocks()] for p in parts]


@case("[2, 5]", "[0]", "[3, 3]", "[20]", "[5, 2]", "[-1]", "[]")
def split_at_indices(data, at, text):
    return [[r["id"] for r in p.take_all()] for p in data.range(10).split_at_indices(eval(text))]


@case("[0.2, 0.5]", "[0.5]", "[0.6, 0.6]", "[]", "[0.0]", "[1]")
def split_proportionately(data, at, text):
    return [[r["id"] for r in p.take_all()] for p in data.range(10).split_proportionately(eval(text))]


@case("0.25", "3", "1.5", "0", "20", "0.0")
def train_test_split(data, at, text):
    return [[r["id"] for r in p.take_all()] for p in data.range(8).train_test_split(eval(text))]


@case()
def train_test_split_shuffled(data, at):
    train, test = data.range(20).train_test_split(0.25, shuffle=True, seed=3)
    both = [r["id"] for r in train.take_all()] + [r["id"] for r in test.take_all()]
    return [train.count(), test.count(), sorted(both) == list(range(20)), both == list(range(20))]


@case()
def streaming_train_test_split(data, at):
    train, test = data.range(200).streaming_train_test_split(0.25, split_type="hash", hash_column="id")
    a, b = {r["id"] for r in train.take_all()}, {r["id"] for r in test.take_all()}
    return [sorted(a | b) == list(range(200)), len(a & b), 20 < len(b) < 80]


@case()
def randomize_block_order(data, at):
    ds = data.range(100, override_num_blocks=10).randomize_block_order(seed=5)
    found = [r["id"] for r in ds.take_all()]
    return [sorted(found) == list(range(100)), found == list(range(100)), all(found[i * 10] % 10 == 0 for i in range(10))]


@case()
def copy(data, at):
    ds = data.range(3)
    return data.Dataset.copy(ds).take_all()


@case()
def serialize_lineage(data, at):
    ds = data.range(3).map(lambda r: {"x": r["id"]})
    return [ds.has_serializable_lineage(), data.Dataset.deserialize_lineage(ds.serialize_lineage()).take_all()]


@case()
def serialize_lineage_of_kept_rows(data, at):
    return data.from_items([1]).serialize_lineage()


@case("ds.map(seen)", "ds.map(seen).limit(7)", "ds.map_batches(all_seen, batch_size=None, udf_modifying_row_count=False)")
def rows_that_a_limit_lets_in(data, at, text):
    import os

    folder = os.path.join(at, "seen")
    os.makedirs(folder, exist_ok=True)

    def note(number):
        open(os.path.join(folder, str(number)), "w").close()

    def seen(row):
        note(row["id"])
        return {**row, "x": 1}

    def all_seen(batch):
        for number in batch["id"]:
            note(number)
        return batch
    ds = data.range(200, override_num_blocks=1)
    rows = eval(text, {"ds": ds, "seen": seen, "all_seen": all_seen}).limit(5).take_all()
    return [len(rows), sorted(map(int, os.listdir(folder)))]
