import os, tempfile
import pandas as pd
import ray

tmp = tempfile.mkdtemp()
pd.DataFrame({"sepal length (cm)": [5.1, 4.9, 6.3, 5.8], "sepal width (cm)": [3.5, 3.0, 3.3, 2.7],
              "target": [0, 0, 2, 2]}).to_csv(os.path.join(tmp, "iris.csv"), index=False)

ds = ray.data.read_csv(os.path.join(tmp, "iris.csv"))
print(ds.schema())
ds.show(limit=2)
print(ds.count(), ds.columns())

def compute_area(batch):
    length = batch["sepal length (cm)"]
    width = batch["sepal width (cm)"]
    batch["sepal area (cm^2)"] = length * width
    return batch

transformed = ds.map_batches(compute_area)
for row in transformed.take(2):
    print({k: round(v, 4) for k, v in row.items()})
print(transformed.take_batch(batch_size=3)["target"])
for batch in transformed.iter_batches(batch_size=4):
    print(type(batch), sorted(batch), batch["target"].dtype)
transformed.write_parquet(os.path.join(tmp, "out"))
print(all(f.endswith(".parquet") for f in os.listdir(os.path.join(tmp, "out"))))
back = ray.data.read_parquet(os.path.join(tmp, "out"))
print(back.count(), sorted(back.schema().names), [str(t) for t in back.schema().types])
df = back.to_pandas()
print(type(df), list(df.columns), df.dtypes.astype(str).tolist())


