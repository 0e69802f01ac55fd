"""The second half of core_behaviours.py: actors, resources, Datasets."""
import asyncio
import os
import sys
import time

from core_cases import case, caught


# ---- actors ----

def counter(ray, **options):
    class Counter:
        """Counts."""

        def __init__(self, start=0):
            self.n = start

        def add(self, k=1):
            self.n += k
            return self.n

        def fail(self):
            raise ValueError("in a method")

        def die(self):
            os._exit(1)

        def pid(self):
            return os.getpid()

        def leave(self):
            sys.modules["ray.actor" if "ray.actor" in sys.modules else "weir.core"].exit_actor()

        def items(self, n):
            for i in range(n):
                yield i

        def me(self):
            return ray.get_runtime_context().current_actor

        def rebuilt(self):
            return ray.get_runtime_context().was_current_actor_reconstructed

    return ray.remote(**options)(Counter) if options else ray.remote(Counter)


@case
def actors_keep_state_and_order(ray):
    actor = counter(ray).remote(10)
    return ray.get([actor.add.remote(i) for i in range(6)])


@case
def actors_go_on_after_an_error(ray):
    actor = counter(ray).remote()
    return [caught(lambda: ray.get(actor.fail.remote())), ray.get(actor.add.remote())]


@case
def actors_that_die(ray):
    actor = counter(ray).remote()
    return [caught(lambda: ray.get(actor.die.remote())), caught(lambda: ray.get(actor.add.remote()))]


@case
def killed_actors(ray):
    actor = counter(ray).remote()
    ray.get(actor.add.remote())
    ray.kill(actor)
    return [caught(lambda: ray.get(actor.add.remote())), caught(lambda: ray.kill(5))]


@case
def actors_that_leave(ray):
    actor = counter(ray).remote()
    return [caught(lambda: ray.get(actor.leave.remote())), caught(lambda: ray.get(actor.add.remote()))]


@case
def constructors_that_fail(ray):
    class Bad:
        def __init__(self):
            raise ValueError("in the constructor")

        def f(self):
            return 1

    actor = ray.remote(Bad).remote()
    try:
        ray.get(actor.f.remote())
    except ray.exceptions.RayActorError as error:
        return [type(error).__name__, "in the constructor" in str(error), error.actor_init_failed]


@case
def restarts(ray):
    actor = counter(ray, max_restarts=1).remote()
    first = ray.get(actor.pid.remote())
    rebuilt = [ray.get(actor.rebuilt.remote())]
    died = caught(lambda: ray.get(actor.die.remote()))[:1] != ["no error"]
    for _ in range(100):
        try:
            second = ray.get(actor.pid.remote())
            break
        except ray.exceptions.RayActorError:
            time.sleep(0.1)
    rebuilt.append(ray.get(actor.rebuilt.remote()))
    return [died, second != first, ray.get(actor.add.remote()), rebuilt]


@case
def calls_are_retried_after_a_restart(ray):
    import tempfile

    path = os.path.join(tempfile.mkdtemp(), "seen")

    @ray.remote(max_restarts=1, max_task_retries=1)
    class A:
        def f(self):
            if not os.path.exists(path):
                open(path, "w").close()
                os._exit(1)
            return "again"

    return ray.get(A.remote().f.remote())


@case
def named_actors(ray):
    made = counter(ray).options(name="joe").remote(5)
    found = ray.get_actor("joe")
    taken = caught(lambda: counter(ray).options(name="joe").remote())
    same = counter(ray).options(name="joe", get_if_exists=True).remote()
    answer = [ray.get(found.add.remote()), made == found, taken, ray.get(same.add.remote()), caught(lambda: ray.get_actor("nobody")),
              caught(lambda: ray.get_actor(""))]
    ray.kill(made)
    return answer


@case
def namespaces(ray):
    made = counter(ray).options(name="bob", namespace="other").remote()
    answer = [caught(lambda: ray.get_actor("bob")), ray.get(ray.get_actor("bob", namespace="other").add.remote())]
    ray.kill(made)
    return answer


@case
def a_named_actor_goes_with_its_handles(ray):
    made = counter(ray).options(name="short").remote()
    ray.get(made.add.remote())
    del made
    for _ in range(100):
        found = caught(lambda: ray.get_actor("short"))
        if found[:1] != ["no error"]:
            return found
        time.sleep(0.1)


@case
def handles_as_arguments(ray):
    @ray.remote
    def add(actor, n):
        return [ray.get(actor.add.remote()) for _ in range(n)]

    actor = counter(ray).remote()
    return [ray.get(add.remote(actor, 2)), ray.get(add.remote(actor, 1)), ray.get(actor.me.remote()) == actor]


@case
def unknown_methods(ray):
    actor = counter(ray).remote()
    return [caught(lambda: actor.nothing), caught(lambda: actor.add.remote(1, 2, 3)), caught(lambda: counter(ray).remote(1, 2))]


@case
def methods_with_several_returns(ray):
    @ray.remote
    class A:
        @ray.method(num_returns=2)
        def two(self):
            return 1, 2

        def one(self):
            return 3, 4

    actor = A.remote()
    return [ray.get(actor.two.remote()), ray.get(actor.one.options(num_returns=2).remote()), caught(lambda: ray.method(foo=1)(lambda: 1))]


@case
def methods_that_generate(ray):
    actor = counter(ray).remote()
    return [ray.get(ref) for ref in actor.items.remote(3)]


@case
def async_actors(ray):
    @ray.remote
    class A:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "waited"

        async def set(self):
            self.event.set()

        async def items(self, n):
            for i in range(n):
                await asyncio.sleep(0)
                yield i

        async def of(self, refs):
            return await refs[0]

        async def fail(self):
            raise KeyError("async")

    actor = A.remote()
    waiting = actor.wait.remote()
    ray.get(actor.set.remote())
    return [ray.get(waiting), [ray.get(ref) for ref in actor.items.remote(3)], ray.get(actor.of.remote([ray.put(5)])),
            caught(lambda: ray.get(actor.fail.remote()))]


@case
def threaded_actors(ray):
    @ray.remote(max_concurrency=2)
    class A:
        def __init__(self):
            import threading

            self.barrier = threading.Barrier(2)

        def meet(self):
            self.barrier.wait(30)
            return True

    actor = A.remote()
    return ray.get([actor.meet.remote(), actor.meet.remote()])


@case
def await_in_the_driver(ray):
    @ray.remote
    def f(x):
        if x < 0:
            raise ValueError
        return x

    async def main():
        values = await asyncio.gather(f.remote(1), f.remote(2))
        try:
            await f.remote(-1)
        except ValueError:
            values.append("ValueError")
        return values

    return [asyncio.run(main()), f.remote(3).future().result(30)]


@case
def inheriting_from_an_actor_class(ray):
    base = counter(ray)

    def derive():
        class Derived(base):
            pass

    return caught(derive)


@case
def an_actor_is_a_process_of_its_own(ray):
    a, b = counter(ray).remote(), counter(ray).remote()
    pids = ray.get([a.pid.remote(), b.pid.remote(), a.pid.remote()])
    return [pids[0] == pids[2], pids[0] != pids[1], pids[0] != os.getpid()]


@case
def terminate(ray):
    actor = counter(ray).remote()
    last = actor.add.remote()
    actor.__ray_terminate__.remote()
    found = [ray.get(last)]
    for _ in range(100):
        after = caught(lambda: ray.get(actor.add.remote()))
        if after[:1] != ["no error"]:
            return found + [after]
        time.sleep(0.1)


@case
def ready(ray):
    return ray.get(counter(ray).remote().__ray_ready__.remote())


# ---- resources and context ----

@case
def resources_of_a_session(ray):
    found = ray.cluster_resources()
    return [found["CPU"], found["GPU"], found["thing"], found["object_store_memory"] > 0]


@case
def resources_in_use(ray):
    @ray.remote(num_cpus=1, resources={"thing": 1})
    class Holder:
        def f(self):
            return 1

    def settled(wanted):
        for _ in range(200):
            free = ray.available_resources()
            found = [free.get("CPU", 0), free.get("thing", 0)]
            if found == wanted:
                break
            time.sleep(0.05)
        return found

    before = settled([2, 2])
    actor = Holder.remote()
    ray.get(actor.f.remote())
    during = settled([1, 1])
    ray.kill(actor)
    return [before, during, settled([2, 2])]


@case
def actors_hold_no_cpu(ray):
    actors = [counter(ray).remote() for _ in range(5)]
    return ray.get([actor.add.remote() for actor in actors])


@case
def assigned_resources(ray):
    @ray.remote
    def f():
        return ray.get_runtime_context().get_assigned_resources()

    @ray.remote
    class A:
        def f(self):
            return ray.get_runtime_context().get_assigned_resources()

    return [ray.get(f.remote()), ray.get(f.options(num_cpus=2).remote()), ray.get(A.remote().f.remote()),
            ray.get(A.options(num_cpus=1).remote().f.remote())]


@case
def contexts(ray):
    @ray.remote
    def f():
        context = ray.get_runtime_context()
        return [len(context.get_task_id()), context.get_actor_id(), len(context.get_job_id()), len(context.get_node_id()),
                len(context.get_worker_id())]

    @ray.remote
    class A:
        def f(self):
            context = ray.get_runtime_context()
            return [context.get_actor_id(), context.get_actor_name(), len(context.get_task_id())]

    actor = A.remote()
    id, name, size = ray.get(actor.f.remote())
    driver = ray.get_runtime_context()
    return [ray.get(f.remote()), id == actor._actor_id.hex(), len(id), name, size, driver.get_actor_id(),
            driver.get_node_id() == ray.nodes()[0]["NodeID"], len(driver.get_job_id())]


@case
def placement_groups(ray):
    util = ray.util
    group = util.placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
    there = ray.get(group.ready()) == group or True
    from_strategy = util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=1)

    @ray.remote
    def f():
        return 5

    found = [there, group.wait(10), group.bundle_count, group.bundle_specs, ray.get(f.options(scheduling_strategy=from_strategy).remote()),
             caught(lambda: util.placement_group([])), caught(lambda: util.placement_group([{}])),
             caught(lambda: util.placement_group([{"CPU": 1}], strategy="NO"))]
    util.remove_placement_group(group)
    return found


@case
def actor_pools(ray):
    @ray.remote
    class A:
        def f(self, x):
            return 2 * x

    pool = ray.util.ActorPool([A.remote(), A.remote()])
    found = [list(pool.map(lambda a, v: a.f.remote(v), [1, 2, 3])), sorted(pool.map_unordered(lambda a, v: a.f.remote(v), [4, 5, 6]))]
    pool.submit(lambda a, v: a.f.remote(v), 7)
    return found + [pool.has_next(), pool.get_next(), pool.has_next(), caught(pool.get_next), pool.has_free()]


@case
def queues(ray):
    from importlib import import_module

    queue = import_module("ray.util.queue" if "ray.util" in sys.modules else "weir.core.queue")
    made = queue.Queue(maxsize=2)

    @ray.remote
    def fill(q):
        q.put(1)
        q.put(2)
        return q.full()

    found = [ray.get(fill.remote(made)), made.get(), made.qsize(), made.get(), made.empty()]
    try:
        made.get(block=False)
    except queue.Empty:
        found.append("Empty")
    made.put_nowait_batch([3, 4])
    try:
        made.put(5, timeout=0.05)
    except queue.Full:
        found.append("Full")
    return found + [made.get_nowait_batch(2)]


def gate(ray):
    class Gate:
        def __init__(self):
            self.event = asyncio.Event()
            self.waiting = 0

        async def wait(self):
            self.waiting += 1
            await self.event.wait()

        async def open(self):
            self.event.set()

        async def has(self, n):
            while self.waiting < n:
                await asyncio.sleep(0.01)

    return ray.remote(num_cpus=0)(Gate).remote()


@case
def calls_wait_for_arguments_beside_others(ray):
    class Plain:
        def echo(self, value):
            return value

    class Async:
        async def echo(self, value):
            return value

    found = []
    for cls, options in ((Plain, {"max_concurrency": 2}), (Async, {})):
        door, actor = gate(ray), ray.remote(num_cpus=0, **options)(cls).remote()
        first = actor.echo.remote(door.wait.remote())
        found.append(ray.get(actor.echo.remote(2), timeout=60))
        ray.get(door.open.remote())
        found.append(ray.get(first))
    door, actor = gate(ray), ray.remote(num_cpus=0)(Plain).remote()
    first = actor.echo.remote(door.wait.remote())
    second = actor.echo.remote(2)
    found.append(len(ray.wait([second], timeout=0.5)[0]))  # one call at a time is in the order of the calls
    ray.get(door.open.remote())
    return found + ray.get([first, second])


@case
def order_is_not_for_calls_beside_others(ray):
    class Plain:
        def echo(self, value):
            return value

    class Async:
        async def echo(self, value):
            return value

    def made(cls, **options):
        ray.get(ray.remote(num_cpus=0, allow_out_of_order_execution=False, **options)(cls).remote().echo.remote(1))

    return [caught(lambda: made(Async)), caught(lambda: made(Plain, max_concurrency=2)), caught(lambda: made(Plain))]


@case
def calls_that_are_cancelled_while_they_run(ray):
    class Works:
        def __init__(self):
            self.was = []

        def works(self, door):
            ray.get(door.wait.remote())
            self.was.append(ray.get_runtime_context().is_canceled())
            return 1

        def fails(self, door):
            ray.get(door.wait.remote())
            raise ValueError("too late")

        def pair(self, door):
            ray.get(door.wait.remote())
            return 1, 2

        def seen(self):
            return self.was

    found = []
    for options in ({}, {"max_concurrency": 2}):
        actor = ray.remote(num_cpus=0, **options)(Works).remote()
        for call, returns in ((actor.works, 1), (actor.fails, 1), (actor.pair, 2)):
            door = gate(ray)
            refs = call.options(num_returns=returns).remote(door)
            refs = refs if returns > 1 else [refs]
            ray.get(door.has.remote(1))
            ray.cancel(refs[0], recursive=False)
            ray.get(door.open.remote())
            found.append([caught(lambda ref=ref: ray.get(ref)) for ref in refs])
        found.append(ray.get(actor.seen.remote()))
    return found


@case
def is_canceled_in_an_async_actor(ray):
    class Async:
        async def asks(self):
            return ray.get_runtime_context().is_canceled()

    return caught(lambda: ray.get(ray.remote(num_cpus=0)(Async).remote().asks.remote()))


@case
def generators_of_actors_that_are_cancelled(ray):
    class Gives:
        def gives(self):
            n = 0
            while not ray.get_runtime_context().is_canceled():
                yield n
                n += 1
                time.sleep(0.01)
            yield -1

    found = []
    for options in ({}, {"max_concurrency": 2}):
        items = ray.remote(num_cpus=0, **options)(Gives).remote().gives.remote()
        first = ray.get(next(items))
        ray.cancel(items)

        def rest(items=items):
            for item in items:
                ray.get(item)

        found += [first, caught(rest), caught(lambda items=items: next(items))]
    return found


@case
def actors_that_exit(ray):
    class Exits:
        def exits(self, calls, code):
            ray.get(calls.add.remote())
            sys.exit(code)

    found = []
    for code in (1, 0, "a reason", None):
        calls, actor = counter(ray).remote(), ray.remote(num_cpus=0, max_restarts=2, max_task_retries=1)(Exits).remote()
        found += [caught(lambda calls=calls, actor=actor, code=code: ray.get(actor.exits.remote(calls, code))), ray.get(calls.add.remote(0))]
    return found


@case
def actors_killed_before_they_begin(ray):
    @ray.remote(num_cpus=1)
    class Holds:
        def tries(self):
            return ray.get_runtime_context().was_current_actor_reconstructed

    found = []
    for restarts, times in ((0, 1), (1, 1), (1, 2)):
        holders = [Holds.remote() for _ in range(2)]  # all CPUs: the next one waits
        ray.get([holder.tries.remote() for holder in holders])
        late = Holds.options(max_restarts=restarts).remote()
        for _ in range(times):
            ray.kill(late, no_restart=False)
        del holders
        found.append(caught(lambda: ray.get(late.tries.remote(), timeout=60) and None))
        del late
    return found


@case
def datasets_as_arguments(ray):
    @ray.remote
    def total(ds):
        return ds.sum("id"), ds.map_batches(lambda b: {"x": b["id"] * 2}).sum("x")

    return [int(value) for value in ray.get(total.remote(ray.data.range(10)))]


@case
def refs_in_functions_of_a_dataset(ray):
    ref = ray.put(100)

    @ray.remote
    def double(x):
        return 2 * x

    def f(row, r):
        return {"x": int(row["id"]) + ray.get(r), "y": ray.get(double.remote(int(row["id"]))), "kind": type(r).__name__}

    rows = ray.data.range(3).map(f, fn_args=[ref]).take_all()
    return sorted([row["x"], row["y"], row["kind"]] for row in rows)


@case
def actors_in_functions_of_a_dataset(ray):
    actor = counter(ray).remote()

    def f(row):
        return {"n": ray.get(actor.add.remote())}

    rows = ray.data.range(4).map(f).take_all()
    return sorted(row["n"] for row in rows)
