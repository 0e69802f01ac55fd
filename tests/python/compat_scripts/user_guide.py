"""Loading, inspecting, transforming, grouping, saving: what a reader of the user guide tries one after another."""
import glob
import os
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
from ray.data import SaveMode
from ray.data.aggregate import AggregateFn, Count, Max, Mean, Min, Std, Sum

tmp = tempfile.mkdtemp()
ray.data.DataContext.get_current().execution_options.preserve_order = True


def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__


# Loading
for ds in (ray.data.from_items([{"food": "spam", "price": 9.34}, {"food": "ham", "price": 5.37}]), ray.data.from_items([1, 2, 3]),
           ray.data.from_numpy(np.ones((3, 2, 2))), ray.data.from_arrow(pa.table({"food": ["spam"], "price": [9.34]})), ray.data.range(10000),
           ray.data.range_tensor(10, shape=(64, 64))):
    print(ds)
    print(ds.schema(), ds.count())
pd.DataFrame({"sepal length (cm)": [5.1, 4.9, 4.7], "target": [0, 1, 2]}).to_csv(f"{tmp}/iris.csv", index=False)
iris = ray.data.read_csv(f"{tmp}/iris.csv")
iris.show(2)
print(iris.schema())
print(iris)

# Inspecting
ds = ray.data.from_items([{"a": i, "b": str(i), "c": i / 2} for i in range(7)])
print(ds.columns(), ds.count(), ds.schema().names, ds.schema().types)
print(ds.take(2), ds.take_batch(batch_size=2), ds.take_batch(batch_size=2, batch_format="pandas"), sep="\n")
print([tried(lambda: len(ds)), tried(lambda: list(ds)), tried(lambda: ds[0]), tried(lambda: ds.no_such_thing)])

# Transforming
doubled = ray.data.range(3).flat_map(lambda row: [row] * 2)
print(doubled)
print(doubled.take_all())
print(doubled)
print(ray.data.range(3).map(lambda row: {"a": row["id"], "b": [row["id"]] * 2, "c": {"k": row["id"]}, "d": None}).schema())
print(ray.data.range(4, override_num_blocks=2).map_batches(lambda batch: {"n": [len(batch["id"])]}).take_all())
print(ray.data.range(3).add_column("x", lambda df: df["id"] * 2).drop_columns(["id"]).take_all())


def halves(batch):
    for i in batch["id"]:
        yield {"v": [i / 2]}


class Add:
    def __init__(self, k, more=0):
        self.k = k + more

    def __call__(self, batch, extra=0):
        batch["id"] = batch["id"] + self.k + extra
        return batch


print(ray.data.range(2).map_batches(halves).take_all())
print(ray.data.range(3).map_batches(Add, fn_constructor_args=[10], fn_constructor_kwargs={"more": 100}, fn_kwargs={"extra": 1000},
                                    compute=ray.data.ActorPoolStrategy(size=1)).take_all())

# Grouping
ds = ray.data.from_items([{"g": i % 3, "v": i * 1.0, "w": i} for i in range(10)], override_num_blocks=1)
print(ds.groupby("g").aggregate(Count(), Mean("v"), Sum("w", alias_name="tot"), Min("v"), Max("v"), Std("v", ddof=0)).sort("g").take_all())
print(ds.aggregate(Count(), Mean("v"), Sum("w")), ds.sum("w"), ds.max(["v", "w"]), ds.unique("g"))
total = AggregateFn(init=lambda k: 0, accumulate_row=lambda a, row: a + row["w"], merge=lambda a, b: a + b, name="total")
print(ds.aggregate(total), ds.groupby("g").aggregate(total).sort("g").take_all())
print(ds.groupby("g").map_groups(lambda group: {"g": group["g"][:1], "most": [group["v"].max()]}).sort("g").take_all())

# Saving
ds = ray.data.from_items([{"a": i, "b": str(i)} for i in range(6)], override_num_blocks=2)
ds.repartition(1).write_csv(f"{tmp}/csv")
print(open(glob.glob(f"{tmp}/csv/*.csv")[0]).read())
ds.write_json(f"{tmp}/json")
print(sorted(open(name).read() for name in glob.glob(f"{tmp}/json/*")))
for rows in (2, 4):
    ds.write_parquet(f"{tmp}/min{rows}", min_rows_per_file=rows)
    print(rows, len(os.listdir(f"{tmp}/min{rows}")))
for mode in (SaveMode.APPEND, SaveMode.APPEND, SaveMode.OVERWRITE, SaveMode.IGNORE, SaveMode.ERROR):
    print(mode, tried(lambda: ds.repartition(1).write_parquet(f"{tmp}/mode", mode=mode)), len(os.listdir(f"{tmp}/mode")))
ds.write_parquet(f"{tmp}/parts", partition_cols=["b"])
print(sorted(os.listdir(f"{tmp}/parts")), len(ds.to_arrow_refs()), len(ds.to_pandas_refs()))

# A Dataset in a function of another
inner = ray.data.range(5)
print(ray.data.range(2).map(lambda row: {"n": inner.sum("id") + row["id"]}).take_all())
