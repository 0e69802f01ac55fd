#!/usr/bin/env python3
"""What a call, an object and an actor cost, beside Ray.

    bench/core.py [--seconds S] [weir] [ray]

Each system runs in a process of its own, one after the other; every figure is a median of single calls, or a rate over S seconds. Ray is left out
where it is not installed. Prints one line a figure, and weir's ratio to Ray's.
"""
import json
import statistics
import subprocess
import sys
import time

WARM = 20
CALLS = 300


def median_us(function, calls=CALLS):
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def rate(start, seconds, at_once=1000):
    """Calls a second, started by the thousand."""
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        start(at_once)
        done += at_once
    return done / (time.perf_counter() - begun)


def measure(system, seconds):
    import numpy as np

    if system == "ray":
        import ray

        ray.init(num_cpus=2, log_to_driver=False)
    else:
        import weir
        import weir as ray

        weir.init(num_cpus=2)

    @ray.remote
    def f(x):
        return x

    @ray.remote
    class Actor:
        def f(self, x):
            return x

    @ray.remote
    def nested(n):
        return 0 if n == 0 else ray.get(nested.remote(n - 1)) + 1

    @ray.remote
    def ones(size):
        return np.ones(size, np.uint8)

    actor = Actor.remote()
    ray.get([f.remote(i) for i in range(WARM)] + [actor.f.remote(i) for i in range(WARM)] + [nested.remote(4), ones.remote(10_000_000)])
    small, large = ray.put(1), np.ones(100_000_000, np.uint8)
    put_large = median_us(lambda: ray.put(large), 5)
    figures = {
        "task, there and back (µs)": median_us(lambda: ray.get(f.remote(1))),
        "actor call, there and back (µs)": median_us(lambda: ray.get(actor.f.remote(1))),
        "tasks (1/s)": rate(lambda n: ray.get([f.remote(i) for i in range(n)]), seconds),
        "actor calls (1/s)": rate(lambda n: ray.get([actor.f.remote(i) for i in range(n)]), seconds),
        "four nested tasks (µs)": median_us(lambda: ray.get(nested.remote(4)), 30),
        "put of an int (µs)": median_us(lambda: ray.put(1)),
        "get of an int (µs)": median_us(lambda: ray.get(small)),
        "put of 100 MB (ms)": put_large / 1000,
        "result of 10 MB (ms)": median_us(lambda: ray.get(ones.remote(10_000_000)), 20) / 1000,
    }
    ray.shutdown()
    return figures


def main():
    words = sys.argv[1:]
    seconds = float(words.pop(words.index("--seconds") + 1)) if "--seconds" in words else 3.0
    words = [word for word in words if word != "--seconds"]
    if words[:1] == ["--one"]:
        print(json.dumps(measure(words[1], seconds)))
        return
    found = {}
    for system in words or ["weir", "ray"]:
        done = subprocess.run([sys.executable, __file__, "--seconds", str(seconds), "--one", system], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        if done.returncode:
            print(f"{system}: left out ({done.stderr.strip().splitlines()[-1]})")
            continue
        found[system] = json.loads(done.stdout.strip().splitlines()[-1])
    for name in next(iter(found.values()), {}):
        values = {system: figures[name] for system, figures in found.items()}
        line = "  ".join(f"{system} {value:12,.1f}" for system, value in values.items())
        if len(values) == 2:
            ratio = values["weir"] / values["ray"] if "(1/s)" in name else values["ray"] / values["weir"]
            line += f"  {ratio:8.2f} × as fast"
        print(f"{name:34} {line}")


if __name__ == "__main__":
    main()
