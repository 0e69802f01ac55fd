import ray, threading
ds = ray.data.range(100)
a, b = ds.train_test_split(test_size=0.25)
print(a.count(), b.count())
print([s.count() for s in ds.split(4)], [s.count() for s in ds.split_at_indices([10, 60])], [s.count() for s in ds.split_proportionately([0.1, 0.5])])
its = ds.streaming_split(2, equal=True)
res = {}
def go(i):
    for epoch in range(2):
        res.setdefault(i, []).append(sum(len(x["id"]) for x in its[i].iter_batches(batch_size=10)))
ts = [threading.Thread(target=go, args=(i,)) for i in range(2)]
[t.start() for t in ts]; [t.join() for t in ts]
print(res)
u = ray.data.range(3).union(ray.data.range(2))
print(sorted(r["id"] for r in u.take_all()))
print(ds.limit(5).take_all() == [{"id": i} for i in range(5)], ds.repartition(5).materialize().num_blocks())
m = ds.map(lambda r: {"id": r["id"], "sq": r["id"] ** 2}).materialize()
print(type(m).__name__, m.sum("sq"), m.count(), m.size_bytes() > 0)
print(m)
print(repr(ray.data.range(3)), ds.name)
print(len(m.to_pandas()), [r for r in m.iter_rows()][1])
import ray.data
it = ds.iterator()
print(isinstance(it, ray.data.DataIterator), sum(1 for _ in it.iter_rows()))
print(sum(ray.get(r).num_rows for r in m.to_arrow_refs()))
print(sorted(x["id"] for x in ds.random_sample(0.5, seed=1).take_all()) == sorted(x["id"] for x in ds.random_sample(0.5, seed=1).take_all()))
for batch in ds.iter_batches(batch_size=40, drop_last=True): print(len(batch["id"]))
print([len(b["id"]) for b in ds.iter_batches(batch_size=30, local_shuffle_buffer_size=50, local_shuffle_seed=1)])
agg = ds.aggregate(ray.data.aggregate.Sum("id"), ray.data.aggregate.Max("id"), ray.data.aggregate.Count())
print(agg)
print(ds.std("id"), ds.mean("id"))
