import numpy as np
import ray
from typing import Dict

ds = ray.data.from_numpy(np.ones((20, 10)))

class Predictor:
    def __init__(self, scale, offset=0):
        self.model = lambda x: x.sum(axis=1) * scale + offset
        self.calls = 0
    def __call__(self, batch: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        self.calls += 1
        batch["output"] = self.model(batch["data"])
        return batch

predictions = ds.map_batches(Predictor, fn_constructor_args=[2], fn_constructor_kwargs={"offset": 1},
                             batch_size=5, compute=ray.data.ActorPoolStrategy(size=2))
out = predictions.take_all()
print(len(out), sorted(out[0]), out[0]["output"], out[0]["data"].shape, type(out[0]["output"]))
predictions = ds.map_batches(Predictor, fn_constructor_args=(3,), concurrency=(1, 2), batch_size=7)
print(sorted({r["output"] for r in predictions.take_all()}))
pandas_out = ds.map_batches(lambda df: df.assign(n=df["data"].map(len)), batch_format="pandas").take(1)
print(pandas_out[0]["n"], pandas_out[0]["data"].shape)
arrow = ds.map_batches(lambda t: t.append_column("i", [list(range(t.num_rows))]), batch_format="pyarrow")
print(arrow.schema().names, arrow.count())
def gen(batch):
    for i in range(2):
        yield {"x": batch["data"][:, 0] + i}
print(sorted(r["x"] for r in ds.map_batches(gen, batch_size=20).take_all())[::10])
