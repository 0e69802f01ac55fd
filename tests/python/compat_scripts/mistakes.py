import ray
from ray.exceptions import RayTaskError, RayError
from ray.data.exceptions import RayDataUserCodeException, UserCodeException

def fail(row):
    if row["id"] == 3:
        raise ValueError("bad row 3")
    return row

ds = ray.data.range(10).map(fail)
try:
    ds.take_all()
except Exception as e:
    print(isinstance(e, RayTaskError), isinstance(e, UserCodeException), isinstance(e, RayError), "bad row 3" in str(e))
try:
    ds.materialize()
except Exception as e:
    print("ValueError caught")
ctx = ray.data.DataContext.get_current()
ctx.max_errored_blocks = 1
ds = ray.data.range(10, override_num_blocks=10).map(fail)
print(len(ds.take_all()))
ctx.max_errored_blocks = 0
for name, f in {
    "missing path": lambda: ray.data.read_csv("/no/such/file.csv").take(),
    "bad batch_format": lambda: ray.data.range(3).map_batches(lambda b: b, batch_format="xyz").take(),
    "return none": lambda: ray.data.range(3).map_batches(lambda b: None).take(),
    "return list": lambda: ray.data.range(3).map_batches(lambda b: [1, 2]).take(),
    "map returns scalar": lambda: ray.data.range(3).map(lambda r: 5).take(),
    "unequal": lambda: ray.data.range(3).map_batches(lambda b: {"a": [1, 2], "b": [1]}).take(),
    "len": lambda: len(ray.data.range(3)),
    "iter": lambda: list(ray.data.range(3)),
    "batch size 0": lambda: ray.data.range(3).map_batches(lambda b: b, batch_size=0).take(),
    "sum missing": lambda: ray.data.range(3).sum("nope"),
    "take_all limit": lambda: ray.data.range(30).take_all(limit=5),
    "empty take_batch": lambda: ray.data.from_items([]).take_batch(),
    "ctor args fn": lambda: ray.data.range(3).map_batches(lambda b: b, fn_constructor_args=[1]),
    "num_blocks": lambda: ray.data.range(3).num_blocks(),
    "concurrency fn tuple": lambda: ray.data.range(3).map_batches(lambda b: b, concurrency=(1, 2)),
    "rename dup": lambda: ray.data.range(3).rename_columns({"id": 5}),
    "limit neg": lambda: ray.data.range(3).limit(-1).take(),
    "random_sample": lambda: ray.data.range(3).random_sample(2.0),
}.items():
    try:
        r = f()
        print(name, "no error", r)
    except Exception as e:
        kinds = [c.__name__ for c in type(e).__mro__ if c.__module__ in ("builtins",) and c not in (object, BaseException, Exception)]
        print(name, kinds)
