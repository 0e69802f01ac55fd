"""weir.metrics, and ray.util.metrics under compat."""
import pickle
import subprocess
import sys
import threading

import pytest

import weir
from weir.metrics import Counter, Gauge, Histogram


def test_figures_by_tags():
    seen = Counter("seen", tag_keys=("model", "kind")).set_default_tags({"kind": "row"})
    seen.inc(tags={"model": "a"})
    seen.inc(2, {"model": "a", "more": "is let pass"})
    seen.inc(0.5, {"model": "b", "kind": "batch"})
    assert seen.values() == {("a", "row"): 3.0, ("b", "batch"): 0.5}
    free = Gauge("free")
    for value in (3, None, 1.5):
        free.set(value)
    assert free.values() == {(): 1.5}
    took = Histogram("took", boundaries=[1, 10])
    for value in (0, 1, 1.01, 10, 11, -5):
        took.observe(value)
    assert took.values() == {(): [3, 2, 1]}
    took.values()[()][0] = 100  # what is told is a copy
    assert took.values() == {(): [3, 2, 1]}


def test_wrong_figures_leave_nothing():
    seen = Counter("seen", tag_keys=("k",))
    for value, tags in ((0, {"k": "v"}), (-1, {"k": "v"}), (1, None), (1, {"x": "v"}), (1, {"k": 5}), ("x", {"k": "v"})):
        with pytest.raises((ValueError, TypeError)):
            seen.inc(value, tags)
    assert seen.values() == {}
    with pytest.warns(UserWarning, match="2nd.*not kept"):
        odd = Counter("2nd")
    odd.inc()
    assert odd.values() == {}


def test_threads_lose_nothing():
    seen = Counter("seen")
    threads = [threading.Thread(target=lambda: [seen.inc() for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen.values() == {(): 8000.0}


def test_workers_have_their_own():
    seen = Counter("seen", tag_keys=("k",)).set_default_tags({"k": "v"})
    seen.inc(100)

    def count(batch):
        seen.inc(len(batch["id"]))
        return {"seen": [seen.values()[("v",)]]}

    assert weir.range(3).map_batches(count, batch_size=None).take_all() == [{"seen": 3.0}]
    assert seen.values() == {("v",): 100.0}
    copy = pickle.loads(pickle.dumps(Histogram("h", "d", [1, 2], ("k",))))
    assert copy.info == {"name": "h", "description": "d", "tag_keys": ("k",), "default_tags": {}, "boundaries": [1, 2]} and copy.values() == {}


def test_under_rays_name():
    code = "import ray.util.metrics as m; from ray.util.metrics import Counter; c = Counter('c'); c.inc(); print(c.values(), Counter.__module__, m.Gauge)"
    ran = subprocess.run([sys.executable, "-m", "weir.compat", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split(" ", 2)[:2] == ["{():", "1.0}"] and "weir.metrics" in ran.stdout
