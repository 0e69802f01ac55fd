import numpy as np, ray
ray.init(num_cpus=2, ignore_reinit_error=True, log_to_driver=False)

@ray.remote
def square(x):
    return x * x
print(ray.get([square.remote(i) for i in range(4)]))

@ray.remote
class Counter:
    def __init__(self): self.n = 0
    def add(self, k=1):
        self.n += k
        return self.n
c = Counter.remote()
print(ray.get(c.add.remote()), ray.get(c.add.remote(5)))
table = ray.put({i: i * 10 for i in range(100)})
def lookup(row, ref):
    row["v"] = ray.get(ref)[row["id"]]
    return row
print(ray.data.range(3).map(lookup, fn_args=[table]).take_all())
big = np.arange(1_000_000)
ref = ray.put(big)
got = ray.get(ref)
print(got.flags.writeable, got.sum())
ready, rest = ray.wait([square.remote(2), square.remote(3)], num_returns=2, timeout=20)
print(len(ready), len(rest))
@ray.remote(num_returns=2)
def two(): return 1, 2
a, b = two.remote()
print(ray.get([a, b]))
@ray.remote
def boom(): raise KeyError("k")
try:
    ray.get(boom.remote())
except KeyError as e:
    print("KeyError", isinstance(e, ray.exceptions.RayTaskError))
from ray.util import ActorPool
pool = ActorPool([Counter.remote() for _ in range(2)])
print(sorted(pool.map(lambda a, v: a.add.remote(v), [1, 2, 3, 4]))[-1] >= 4)
@ray.remote
def consume(ds): return ds.count()
print(ray.get(consume.remote(ray.data.range(7))))
named = Counter.options(name="counter").remote()
def tell(row):
    ray.get(ray.get_actor("counter").add.remote())
    return row
ray.data.range(5).map(tell).materialize()
print(ray.get(named.add.remote(0)))
print(ray.is_initialized(), ray.cluster_resources()["CPU"])
@ray.remote
def gen(n):
    for i in range(n): yield i
print([ray.get(r) for r in gen.remote(3)])
try: ray.get(square.options(num_cpus=1).remote(2), timeout=10)
except Exception as e: print(e)
import time
@ray.remote
def slow(): time.sleep(30)
try: ray.get(slow.remote(), timeout=0.5)
except ray.exceptions.GetTimeoutError: print("timeout")
ray.kill(c)
try: ray.get(c.add.remote())
except ray.exceptions.RayActorError as e: print("actor dead")
ray.shutdown()
