import numpy as np, torch, ray
from ray.data.collate_fn import NumpyBatchCollateFn
ds = ray.data.from_items([{"x": [float(i), 1.0], "y": i % 2} for i in range(10)])
for b in ds.iter_torch_batches(batch_size=4):
    print({k: (tuple(v.shape), str(v.dtype)) for k, v in b.items()})
for b in ds.iter_torch_batches(batch_size=4, dtypes={"x": torch.float32, "y": torch.long}, drop_last=True):
    print(b["x"].dtype, b["y"].tolist())
def collate(batch): return torch.as_tensor(np.stack(batch["x"])), torch.as_tensor(batch["y"])
for x, y in ds.iter_torch_batches(batch_size=5, collate_fn=collate): print(x.shape, y.sum().item())
class C(NumpyBatchCollateFn):
    def __call__(self, batch): return {"s": torch.as_tensor(np.stack(batch["x"]).sum(axis=1))}
print([b["s"].shape for b in ds.iter_torch_batches(batch_size=10, collate_fn=C())])
t = ray.data.from_torch(torch.utils.data.TensorDataset(torch.arange(4)))
print(t.count(), t.schema().names)
class M:
    def __init__(self): self.w = torch.ones(2)
    @torch.no_grad()
    def __call__(self, batch): return {"p": (torch.as_tensor(np.stack(batch["x"]), dtype=torch.float32) @ self.w).numpy()}
print([r["p"] for r in ds.map_batches(M, batch_size=5, concurrency=1).take(3)])
