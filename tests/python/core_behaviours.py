"""What tasks, actors and objects do, one small function each: the same on Ray and on weir.

    core_behaviours.py ray > core_answers.json        records what Ray says; test_core.py compares weir with that

A function gets `ray` (the module, or weir under its name) and returns what can be written as JSON. `caught` turns an exception into the names
that an `except` clause would catch it by.
"""
import os
import sys
import time

from core_cases import CASES, Custom, case, caught

import core_actor_behaviours  # noqa: F401

# ---- objects ----

@case
def put_get(ray):
    return [ray.get(ray.put(value)) for value in (1, "two", [3, None], {"four": 4.5}, True)]


@case
def get_of_a_list(ray):
    return [ray.get([ray.put(i) for i in range(5)]), ray.get([]), caught(lambda: ray.get((ray.put(1),)))]


@case
def arrays_are_read_only(ray):
    import numpy as np

    made = ray.get(ray.put(np.arange(100_000)))
    small = ray.get(ray.put(np.arange(3)))
    return [bool(made.flags.writeable), int(made.sum()), small.tolist()]


@case
def put_of_a_ref(ray):
    return caught(lambda: ray.put(ray.put(1)))


@case
def get_of_something_else(ray):
    return [caught(lambda: ray.get(5)), caught(lambda: ray.get([5])), caught(lambda: ray.get(None))]


@case
def refs_hash_and_compare(ray):
    a, b = ray.put(1), ray.put(1)
    return [a == a, a == b, len({a, b, a}), len(a.hex()), len(a.binary()), type(a).__name__, ray.get({a: 5}[a] and a)]


@case
def get_twice(ray):
    ref = ray.put([1])
    first = ray.get(ref)
    first.append(2)
    return ray.get(ref)


@case
def a_ref_in_a_list_stays_one(ray):
    @ray.remote
    def look(refs, ref):
        return type(refs[0]).__name__, ray.get(refs[0]), ref

    ref = ray.put(7)
    return list(ray.get(look.remote([ref], ref)))


@case
def refs_in_keyword_arguments(ray):
    @ray.remote
    def f(a, *, b):
        return a, b

    return list(ray.get(f.remote(ray.put(1), b=ray.put(2))))


@case
def refs_returned(ray):
    @ray.remote
    def f():
        return [ray.put(3)]

    return ray.get(ray.get(f.remote())[0])


@case
def unpicklable(ray):
    import threading

    lock = threading.Lock()

    @ray.remote
    def f(x):
        return 1

    return [caught(lambda: ray.put(lock)), caught(lambda: f.remote(lock))]


# ---- tasks ----

@case
def chains(ray):
    @ray.remote
    def add(a, b=1):
        return a + b

    ref = 0
    for _ in range(10):
        ref = add.remote(ref)
    return ray.get(ref)


@case
def recursion_deeper_than_the_cpus(ray):
    @ray.remote
    def down(n):
        return 0 if n == 0 else ray.get(down.remote(n - 1)) + 1

    return ray.get(down.remote(5))


@case
def closures(ray):
    factor = 3

    def times(x):
        return x * factor

    @ray.remote
    def f(x):
        return times(x)

    return ray.get([f.remote(i) for i in range(3)])


@case
def several_returns(ray):
    @ray.remote(num_returns=3)
    def f():
        return 1, 2, 3

    @ray.remote(num_returns=0)
    def nothing():
        return 5

    return [ray.get(f.remote()), len(f.remote()), nothing.remote(), ray.get(f.options(num_returns=1).remote())]


@case
def wrong_number_of_returns(ray):
    @ray.remote(num_returns=2, max_retries=0)
    def f(n):
        return list(range(n))

    @ray.remote(num_returns=2, max_retries=0)
    def one():
        return 5

    return [caught(lambda: ray.get(f.remote(3))), caught(lambda: ray.get(one.remote()))]


@case
def generators_stream(ray):
    @ray.remote
    def count(n):
        for i in range(n):
            yield i

    made = count.remote(4)
    kind = type(made).__name__
    first = ray.get(next(made))
    rest = [ray.get(ref) for ref in made]
    return [kind, first, rest, caught(lambda: next(made))]


@case
def generators_fail_in_the_middle(ray):
    @ray.remote(max_retries=0)
    def broken():
        yield 1
        raise ValueError("here")

    refs = list(broken.remote())
    return [len(refs), ray.get(refs[0]), caught(lambda: ray.get(refs[1]))]


@case
def dynamic_generators(ray):
    @ray.remote(num_returns="dynamic")
    def count(n):
        for i in range(n):
            yield i

    made = count.remote(3)
    inner = ray.get(made)
    return [type(made).__name__, [ray.get(ref) for ref in inner]]


@case
def generators_with_a_fixed_number(ray):
    @ray.remote(num_returns=3)
    def count():
        for i in range(3):
            yield i

    return ray.get(count.remote())


@case
def generators_are_not_arguments(ray):
    @ray.remote
    def count():
        yield 1

    @ray.remote
    def f(x):
        return 1

    return caught(lambda: f.remote([count.remote()]))


@case
def options_do_not_change_the_function(ray):
    @ray.remote
    def f():
        return 1, 2

    g = f.options(num_returns=2)
    return [list(ray.get(f.remote())), ray.get(g.remote())]


@case
def called_directly(ray):
    @ray.remote
    def f():
        return 1

    @ray.remote
    class A:
        def g(self):
            return 1

    a = A.remote()
    return [caught(f), caught(A), caught(a.g)]


@case
def wrong_decorators(ray):
    return [caught(lambda: ray.remote()), caught(lambda: ray.remote(5)), caught(lambda: ray.remote(num_cpu=1)(lambda: 1)),
            caught(lambda: ray.remote(num_cpus="2")(lambda: 1)), caught(lambda: ray.remote(num_cpus=-1)(lambda: 1)),
            caught(lambda: ray.remote(resources={"CPU": 1})(lambda: 1)), caught(lambda: ray.remote(num_returns=-1)(lambda: 1))]


@case
def wrong_arguments(ray):
    @ray.remote
    def f(a):
        return a

    return [caught(lambda: f.remote()), caught(lambda: f.remote(1, 2)), caught(lambda: f.remote(b=1))]


@case
def environment_variables(ray):
    @ray.remote
    def f():
        return os.environ.get("CORE_TEST_VARIABLE")

    env = {"env_vars": {"CORE_TEST_VARIABLE": "yes"}}
    return [ray.get(f.options(runtime_env=env).remote()), ray.get(f.remote())]


@case
def gpus(ray):
    @ray.remote(num_gpus=1)
    def f():
        return os.environ.get("CUDA_VISIBLE_DEVICES"), len(ray.get_gpu_ids())

    @ray.remote(num_gpus=0.5)
    def half():
        return len(ray.get_gpu_ids())

    visible, count = ray.get(f.remote())
    return [visible in ("0", "1"), count, ray.get(half.remote()), ray.get_gpu_ids()]


# ---- errors ----

@case
def errors_have_the_class_of_the_function(ray):
    @ray.remote
    def f():
        raise ValueError("bad value")

    try:
        ray.get(f.remote())
    except ValueError as error:
        return [type(error).__name__, isinstance(error, ray.exceptions.RayTaskError), type(error.cause).__name__, str(error.cause),
                "bad value" in str(error), "in f" in str(error)]


@case
def errors_of_own_classes(ray):
    @ray.remote
    def f():
        raise Custom(7, "detail")

    try:
        ray.get(f.remote())
    except Custom as error:
        return [error.code, caught(lambda: ray.get(f.remote()))]


@case
def errors_pass_through_tasks(ray):
    @ray.remote
    def f():
        raise KeyError("inner")

    @ray.remote
    def g(x):
        return x

    @ray.remote
    def h(refs):
        return ray.get(refs[0])

    return [caught(lambda: ray.get(g.remote(f.remote()))), caught(lambda: ray.get(h.remote([f.remote()]))),
            caught(lambda: ray.get([ray.put(1), f.remote()]))]


@case
def an_error_does_not_wait_for_the_others(ray):
    @ray.remote
    def f():
        raise ValueError

    @ray.remote
    def slow():
        time.sleep(60)

    begun = time.monotonic()
    other = slow.remote()
    found = caught(lambda: ray.get([f.remote(), other]))
    ray.cancel(other, force=True)
    return [found, time.monotonic() - begun < 30]


@case
def timeouts(ray):
    @ray.remote
    def slow():
        time.sleep(60)

    ref = slow.remote()
    found = [caught(lambda: ray.get(ref, timeout=0.1)), caught(lambda: ray.get(ref, timeout=0))]
    ray.cancel(ref, force=True)
    return found


@case
def a_worker_that_dies(ray):
    @ray.remote(max_retries=0)
    def f():
        os._exit(1)

    return caught(lambda: ray.get(f.remote()))


@case
def a_worker_that_dies_once(ray):
    import tempfile

    path = os.path.join(tempfile.mkdtemp(), "seen")

    @ray.remote(max_retries=2)
    def f():
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(1)
        return "again"

    return ray.get(f.remote())


@case
def user_errors_are_not_retried_unless_asked(ray):
    import tempfile

    folder = tempfile.mkdtemp()

    def make(name):
        def f():
            count = len(os.listdir(folder + name))
            open(f"{folder}{name}/{count}", "w").close()
            if count < 2:
                raise ValueError(count)
            return count

        os.mkdir(folder + name)
        return f

    plain = ray.remote(make("a"))
    retried = ray.remote(retry_exceptions=True, max_retries=5)(make("b"))
    listed = ray.remote(retry_exceptions=[ValueError], max_retries=5)(make("c"))
    other = ray.remote(retry_exceptions=[KeyError], max_retries=5)(make("d"))
    return [caught(lambda: ray.get(plain.remote())), ray.get(retried.remote()), ray.get(listed.remote()),
            caught(lambda: ray.get(other.remote()))]


@case
def system_exit_in_a_task(ray):
    @ray.remote(max_retries=0)
    def f():
        raise SystemExit(3)

    return caught(lambda: ray.get(f.remote()))[:1] != ["no error"]


# ---- wait ----

@case
def wait_for_some(ray):
    @ray.remote
    def f(t):
        time.sleep(t)
        return t

    fast, slow = f.remote(0), f.remote(60)
    ready, rest = ray.wait([slow, fast], timeout=30)
    found = [ready == [fast], rest == [slow], [len(part) for part in ray.wait([slow], timeout=0)]]
    ray.cancel(slow, force=True)
    return found


@case
def wait_gives_no_more_than_asked(ray):
    refs = [ray.put(i) for i in range(4)]
    ready, rest = ray.wait(refs, num_returns=2)
    return [len(ready), len(rest), sorted(ray.get(ready + rest))]


@case
def wait_for_errors(ray):
    @ray.remote
    def f():
        raise ValueError

    ready, rest = ray.wait([f.remote()])
    return [len(ready), len(rest)]


@case
def wait_is_strict(ray):
    ref = ray.put(1)
    return [caught(lambda: ray.wait(ref)), caught(lambda: ray.wait([ref, ref])), caught(lambda: ray.wait([1])),
            caught(lambda: ray.wait([ref], num_returns=2)), caught(lambda: ray.wait([ref], num_returns=0)),
            caught(lambda: ray.wait([ref], timeout=-1)), [list(part) for part in ray.wait([])], caught(lambda: ray.wait((ref,)))]


# ---- cancel ----

@case
def cancel_a_running_task(ray):
    @ray.remote(max_retries=0)
    def f():
        time.sleep(60)

    ref = f.remote()
    ray.wait([ref], timeout=1)
    ray.cancel(ref)
    return caught(lambda: ray.get(ref, timeout=30))


@case
def cancel_a_waiting_task(ray):
    @ray.remote(num_cpus=2)
    def f():
        time.sleep(60)

    first, second = f.remote(), f.remote()
    ray.cancel(second)
    found = caught(lambda: ray.get(second, timeout=30))
    ray.cancel(first, force=True)
    return found


@case
def cancel_what_is_done(ray):
    @ray.remote
    def f():
        return 1

    ref = f.remote()
    ray.get(ref)
    ray.cancel(ref)
    return [ray.get(ref), caught(lambda: ray.cancel(5))]


def run(ray, name):
    """A case's answer, as JSON gives it back."""
    import json

    return json.loads(json.dumps(CASES[name](ray)))


def main():
    import json

    import ray

    ray.init(num_cpus=2, num_gpus=2, resources={"thing": 2}, log_to_driver=False)
    import ray.util.queue  # noqa: F401
    import ray.actor  # noqa: F401

    wanted = sys.argv[2:] or list(CASES)
    answers = {}
    for name in wanted:
        begun = time.time()
        try:
            answers[name] = run(ray, name)
        except Exception as error:
            answers[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(f"{name} {time.time() - begun:.2f} s", file=sys.stderr, flush=True)
    print(json.dumps(answers, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
