"""What data scripts use of ray itself."""
import os

from parity import case, root


@case("5", "'x'", "[1, None]", "{'a': (1, 2)}")
def put_and_get(data, at, text):
    ray = root(data)
    return ray.get(ray.put(eval(text)))


@case()
def get_a_list(data, at):
    ray = root(data)
    return ray.get([ray.put(i) for i in range(3)])


@case(100_000, 3)
def arrays_are_read_only(data, at, count):
    import numpy as np

    ray = root(data)
    found = ray.get(ray.put(np.arange(count)))
    return [bool(found.flags.writeable), int(found.sum())]


@case()
def remote_functions(data, at):
    ray = root(data)

    @ray.remote
    def add(a, b=1):
        return a + b

    return [ray.get(add.remote(1)), ray.get(add.remote(ray.put(10), b=add.remote(5))), ray.get(add.options(num_cpus=1).remote(2))]


@case()
def remote_functions_of_several(data, at):
    ray = root(data)

    @ray.remote(num_returns=2)
    def two():
        return 1, 2

    return ray.get(two.remote())


@case()
def remote_errors(data, at):
    ray = root(data)

    @ray.remote
    def bad():
        raise KeyError("k")

    return ray.get(bad.remote())


@case()
def actors(data, at):
    ray = root(data)

    @ray.remote
    class Counter:
        def __init__(self, n=0):
            self.n = n

        def add(self, k=1):
            self.n += k
            return self.n

    counter = Counter.remote(10)
    found = [ray.get(counter.add.remote()), ray.get(counter.add.remote(k=5))]
    ray.kill(counter)
    return found


@case()
def killed_actors(data, at):
    ray = root(data)

    @ray.remote
    class One:
        def f(self):
            return 1

    one = One.remote()
    ray.get(one.f.remote())
    ray.kill(one)
    return ray.get(one.f.remote())


@case()
def wait(data, at):
    ray = root(data)
    refs = [ray.put(i) for i in range(3)]
    ready, rest = ray.wait(refs, num_returns=2)
    return [len(ready), len(rest)]


@case()
def get_timeout(data, at):
    ray = root(data)

    @ray.remote
    def slow():
        import time

        time.sleep(30)

    return ray.get(slow.remote(), timeout=0.2)


@case()
def generators(data, at):
    ray = root(data)

    @ray.remote
    def numbers(n):
        for i in range(n):
            yield i

    return [ray.get(ref) for ref in numbers.remote(3)]


@case()
def refs_are_no_values(data, at):
    ray = root(data)
    return [isinstance(ray.put(1), ray.ObjectRef), ray.is_initialized()]


@case("5", "None", "'x'")
def get_of_no_ref(data, at, text):
    return root(data).get(eval(text))


@case()
def resources(data, at):
    ray = root(data)
    return [sorted(k for k in ray.cluster_resources() if k in ("CPU", "memory", "object_store_memory")), len(ray.nodes())]


@case()
def refs_in_functions(data, at):
    ray = root(data)
    ref = ray.put(100)
    name = ray.__name__

    def fn(row, r):
        import importlib

        return {"x": row["id"] + importlib.import_module(name).get(r)}

    return data.range(2).map(fn, fn_args=[ref]).take_all()


@case()
def second_init(data, at):
    root(data).init()
    return "accepted"


@case()
def second_init_ignored(data, at):
    root(data).init(ignore_reinit_error=True)
    return "accepted"


@case()
def remote_with_a_dataset(data, at):
    ray = root(data)

    @ray.remote
    def count(ds):
        return ds.count()

    return ray.get(count.remote(data.range(7)))


@case("Counter('c', description='d', tag_keys=('k', 'l')).info", "Counter('c', tag_keys=('k',)).set_default_tags({'k': 'v'}).info",
      "Histogram('h', boundaries=[1, 2]).info", "Counter('c').inc()", "Counter('c').inc(2, {'other': 'v'})", "Gauge('g').set(None)", "Gauge('g').set(-1.5)",
      "Histogram('h', boundaries=[1, 2]).observe(3)", "pickled(Gauge('g', 'd', ('k',)).set_default_tags({'k': 'v'})).info",
      "pickled(Histogram('h', boundaries=[1])).info", "Counter('1 c').inc()",
      "Counter('')", "Counter('c', tag_keys=['k'])", "Counter('c', tag_keys=(5,))", "Counter('c').inc(0)", "Counter('c').inc('x')", "Gauge('g').set('x')",
      "Counter('c', tag_keys=('k',)).inc()", "Counter('c', tag_keys=('k',)).inc(1, {'k': 5})", "Counter('c').set_default_tags({'k': 'v'})",
      "Counter('c', tag_keys=('k',)).set_default_tags({'k': 5})", "Histogram('h')", "Histogram('h', boundaries=[])", "Histogram('h', boundaries=[1, -1])",
      "Histogram('h', boundaries=[1]).observe('x')")
def metrics(data, at, text):
    import importlib
    import pickle
    import warnings

    module = importlib.import_module("ray.util.metrics" if root(data).__name__ == "ray" else "weir.metrics")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        names = {"pickled": lambda metric: pickle.loads(pickle.dumps(metric)), **{name: getattr(module, name) for name in ("Counter", "Gauge", "Histogram")}}
        found = eval(text, names)
        return [found, [warning.category.__name__ for warning in warned]]


@case()
def metrics_in_functions(data, at):
    """A function, and a class, may have some."""
    import importlib

    module = importlib.import_module("ray.util.metrics" if root(data).__name__ == "ray" else "weir.metrics")
    seen = module.Counter("seen", tag_keys=("kind",))

    class Model:
        def __init__(self):
            self.took = module.Histogram("took", boundaries=[1.0])

        def __call__(self, batch):
            seen.inc(len(batch["id"]), tags={"kind": "a"})
            self.took.observe(0.5)
            return batch

    return [row["id"] for row in data.range(3).map_batches(Model, concurrency=1).sort("id").take_all()]


# ---- ray.util.multiprocessing ----


def fails_with_two(x):
    if x == 2:
        raise KeyError("two")
    return x


POOLED = {
    "map": lambda pool: pool.map(abs, [-1, 2, -3]),
    "chunks": lambda pool: pool.map(str, range(7), chunksize=3),
    "starmap": lambda pool: pool.starmap(pow, [(2, 3), (3, 2)]),
    "apply": lambda pool: pool.apply(int, ("11",), {"base": 2}),
    "apply without arguments": lambda pool: pool.apply(list),
    "imap": lambda pool: list(pool.imap(abs, iter([-3, -2, -1]))),
    "imap_unordered": lambda pool: sorted(pool.imap_unordered(abs, [-3, -2, -1], chunksize=2)),
    "nothing": lambda pool: [pool.map(abs, []), list(pool.imap(abs, []))],
    "map fails": lambda pool: pool.map(fails_with_two, range(4)),
    "successful": lambda pool: [(found.wait(60), found.ready(), found.successful()) for found in [pool.map_async(fails_with_two, [1, 2]), pool.map_async(abs, [1])]],
    "join too early": lambda pool: pool.join(),
    "closed": lambda pool: [pool.close(), pool.join(), pool.map(abs, [1])],
}


def pool_class(data):
    from importlib import import_module

    return import_module("ray.util.multiprocessing" if data.__name__.startswith("ray") else "weir.core.process_pool").Pool


@case(*POOLED)
def pools_of_processes(data, at, name):
    Pool = pool_class(data)
    said = []
    with Pool(2) as pool:
        found = POOLED[name](pool)
        if name == "successful":
            pool.apply_async(abs, (-5,), callback=said.append).wait(60)
            pool.apply_async(fails_with_two, (2,), error_callback=lambda error: said.append("failed")).wait(60)
    return [found, said]


@case(0, -1, 999)
def pools_of_so_many(data, at, processes):
    Pool = pool_class(data)
    try:
        Pool(processes)
    except ValueError as error:
        return str(error)[:60]


def started(store):
    import os

    os.environ["POOL_STARTED"] = store


def how_started(_):
    import os

    return os.environ["POOL_STARTED"], os.getpid()


@case()
def pools_begin_their_processes(data, at):
    Pool = pool_class(data)
    with Pool(1, initializer=started, initargs=("so",), maxtasksperchild=2) as pool:
        found = pool.map(how_started, range(6), chunksize=1)
    return [{text for text, _ in found} == {"so"}, len({pid for _, pid in found})]


@case(shows=["ray.shutdown"])
def a_session_that_ends(data, at):
    """In a process of its own: shutdown twice, and a session with other figures behind it."""
    import subprocess
    import sys

    name = root(data).__name__
    where = 'address="local", ' if name == "ray" else ""  # not the cluster that this process is connected with
    program = f"""
import {name} as ray
ray.init({where}num_cpus=1)
seen = [ray.is_initialized(), ray.get(ray.put(5)), ray.cluster_resources()["CPU"]]
ray.shutdown()
seen.append(ray.is_initialized())
ray.shutdown()
ray.init({where}num_cpus=3)
print("seen", seen, ray.cluster_resources()["CPU"])
"""
    places = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    out = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, env=places).stdout
    return [line for line in out.splitlines() if line.startswith("seen")]


@case("TaskID", "ActorID", "NodeID", "WorkerID", "JobID", "PlacementGroupID")
def numbers_of_things(data, at, name):
    import importlib
    import pickle

    kind = getattr(importlib.import_module("ray" if root(data).__name__ == "ray" else "weir.core"), name)
    one = kind(b"\xab" * kind.size())
    return [kind.size(), one.hex(), repr(one), one == kind.from_hex(one.hex()), one == kind.from_binary(one.binary()), len({one, kind(one.binary())}),
            kind.nil().is_nil(), one.is_nil(), repr(kind.nil()), pickle.loads(pickle.dumps(one)) == one,
            caught(lambda: kind(b"x")), caught(lambda: kind("x"))]


def caught(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__


@case()
def errors_that_programs_make(data, at):
    import importlib
    import pickle

    exceptions = importlib.import_module(root(data).__name__ + ".exceptions")
    task = exceptions.RayTaskError(function_name="f", traceback_str="it failed", cause=ValueError("v"))
    both = task.as_instanceof_cause()
    actor = exceptions.RayActorError(actor_id="ab", error_msg="m")
    lost = exceptions.ObjectLostError("ab", None, "here")
    again = pickle.loads(pickle.dumps(exceptions.TaskCancelledError(error_message="m")))
    return [str(task), task.function_name, repr(task.cause), isinstance(both, ValueError), isinstance(both, exceptions.RayTaskError), str(both),
            str(actor), actor.actor_id, actor.error_msg, actor.actor_init_failed, lost.object_ref_hex, lost.call_site,
            str(exceptions.TaskCancelledError()), str(again), again.error_message, str(exceptions.RaySystemError("lost")),
            bool(str(exceptions.WorkerCrashedError())), bool(str(exceptions.ActorDiedError())), str(exceptions.GetTimeoutError("x"))]


@case()
def placement_groups_of_functions(data, at):
    import importlib

    ray = root(data)
    is_ray = ray.__name__ == "ray"
    strategies = importlib.import_module("ray.util.scheduling_strategies" if is_ray else "weir.core")
    group = importlib.import_module("ray.util" if is_ray else "weir.core")
    made = group.placement_group([{"CPU": 1}])
    ray.get(made.ready())

    def look(row):
        found = group.get_current_placement_group()
        return {"same": found is not None and found.id.hex() == made.id.hex()}

    try:
        inside = strategies.PlacementGroupSchedulingStrategy(made)
        return [data.range(1).map(look, scheduling_strategy=inside).take_all(), data.range(1).map(look).take_all()]
    finally:
        group.remove_placement_group(made)
