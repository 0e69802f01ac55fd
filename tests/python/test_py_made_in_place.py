"""Results that NumPy makes in the worker's room (src/pyext/made_in_place.h): the same rows as ever, whatever a function does
with its arrays before, during and after the call that returns them."""
import os
import threading
import time

import numpy as np
import pytest

import weir
from driver_scripts import not_sanitized

ROWS, WIDTH = 4096, 64  # a batch of 1 MiB
BATCHES = 12


def source():
    return weir.range_tensor(ROWS * BATCHES, shape=(WIDTH,), override_num_blocks=BATCHES)


def run(function, **arguments):
    """The values of the only column, batch by batch."""
    arguments.setdefault("batch_size", ROWS)
    arguments.setdefault("concurrency", 1)
    return [batch["v"] for batch in source().map_batches(function, **arguments).iter_batches(batch_size=ROWS)]


def inputs():
    for number in range(BATCHES):
        rows = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.int64)
        yield np.broadcast_to(rows[:, None], (ROWS, WIDTH))


def lies_in_room(array):
    address = array.ctypes.data
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            first, last = (int(part, 16) for part in line.split(None, 1)[0].split("-"))
            if first <= address < last:
                return "memfd:weir-worker" in line
    return False


def check(results, expected):
    results = list(results)
    assert len(results) == BATCHES
    for result, wanted in zip(results, expected):
        np.testing.assert_array_equal(result, wanted)


def test_a_result_is_made_in_its_place():
    def double(batch):
        made = batch["data"] * 2
        return {"v": made, "in_room": np.full(len(made), lies_in_room(made))}

    def doubled_sum(batch):  # the result is the second array of its size
        made = (batch["data"] - 1) * 2
        return {"v": made, "in_room": np.full(len(made), lies_in_room(made))}

    for function, wanted in ((double, lambda x: x * 2), (doubled_sum, lambda x: (x - 1) * 2)):
        batches = list(source().map_batches(function, batch_size=ROWS, concurrency=1).iter_batches(batch_size=ROWS))
        check((batch["v"] for batch in batches), map(wanted, inputs()))
        assert sum(batch["in_room"].all() for batch in batches) >= BATCHES // 2


@pytest.mark.parametrize("how", ["itself", "view", "base of view", "list", "other thread"])
def test_arrays_that_a_class_keeps_never_change(how):
    class Keeps:
        def __init__(self):
            self.kept = []
            self.firsts = []

        def __call__(self, batch):
            made = batch["data"] + 1
            self.firsts.append(int(batch["data"][0, 0]) + (11 if how == "view" else 1))
            if how == "itself":
                self.kept.append(made)
            elif how == "view":
                self.kept.append(made[10:20])
            elif how == "base of view":
                self.kept.append(made)
                made = made[:]
            elif how == "list":
                self.kept.append(list(made[:5]))
            else:
                thread = threading.Thread(target=self.kept.append, args=(made,))
                thread.start()
                thread.join()
            firsts = [int(np.asarray(kept).min()) for kept in self.kept]
            return {"v": made, "right": np.full(len(made), firsts == self.firsts)}

    batches = list(source().map_batches(Keeps, batch_size=ROWS, concurrency=1).iter_batches(batch_size=ROWS))
    check((batch["v"] for batch in batches), (x + 1 for x in inputs()))
    assert all(batch["right"].all() for batch in batches)


def test_a_result_that_is_written_to_after_its_call_was_given_as_it_was():
    class Scribbles:
        last = None

        def __call__(self, batch):
            if self.last is not None:
                self.last[:] = -1
            self.last = batch["data"] + 1
            return {"v": self.last}

    check(run(Scribbles), (x + 1 for x in inputs()))


def test_one_array_that_is_filled_anew_for_every_batch():
    class Fills:
        out = None

        def __call__(self, batch):
            if self.out is None:
                self.out = np.empty((ROWS, WIDTH), dtype=np.int64)
            np.multiply(batch["data"], 3, out=self.out)
            return {"v": self.out}

    check(run(Fills), (x * 3 for x in inputs()))


def test_a_generator_of_large_results():
    def several(batch):
        data = batch["data"]
        temporary = data + 5  # lives through all of it
        for part in np.array_split(data, 4):
            yield {"v": part + 1}
        yield {"v": temporary - 5}

    results = source().map_batches(several, batch_size=ROWS, concurrency=1).iter_batches(batch_size=2 * ROWS)
    check((batch["v"] for batch in results), (np.concatenate([x + 1, x]) for x in inputs()))


def test_columns_of_one_size_in_any_order():
    def columns(batch):
        number = int(batch["data"][0, 0]) // ROWS
        a, b = batch["data"] + 1, batch["data"] + 2
        if number % 3 == 1:
            a, b = b, a
        return {"a": a, "b": b} if number % 2 else {"a": a, "b": b, "c": a}

    results = source().map_batches(columns, batch_size=ROWS, concurrency=1).iter_batches(batch_size=ROWS)
    for number, (batch, x) in enumerate(zip(results, inputs())):
        one, two = (x + 2, x + 1) if number % 3 == 1 else (x + 1, x + 2)
        np.testing.assert_array_equal(batch["a"], one)
        np.testing.assert_array_equal(batch["b"], two)


def test_sizes_and_types_that_change():
    def changes(batch):
        number = int(batch["data"][0, 0]) // ROWS
        made = batch["data"][: ROWS - number * 7] + number
        return {"v": made.astype(np.float64) if number % 2 else made}

    rows = [x[: ROWS - n * 7] + n for n, x in enumerate(inputs())]
    results = source().map_batches(changes, batch_size=ROWS, concurrency=1).take_all()
    np.testing.assert_array_equal(np.stack([row["v"] for row in results]), np.concatenate(rows))


def test_zeros_and_arrays_that_are_resized():
    def makes(batch):
        made = np.zeros((ROWS, WIDTH), dtype=np.int64)
        ready = not made.any()
        made += batch["data"]
        other = np.empty(ROWS * WIDTH, dtype=np.int64)
        other[:] = 7
        other.resize(ROWS * WIDTH * 2, refcheck=False)
        return {"v": made if ready and (other[: ROWS * WIDTH] == 7).all() else made - 1}

    check(run(makes), inputs())


def test_a_function_that_fails_now_and_then():
    class Fails:
        calls = 0

        def __call__(self, batch):
            self.calls += 1
            made = batch["data"] + 1
            if self.calls % 3 == 0:
                raise OSError("now and then")
            return {"v": made}

    context = weir.DataContext.get_current()
    before = context.actor_task_retry_on_errors
    context.actor_task_retry_on_errors = [OSError]
    try:
        check(run(Fails), (x + 1 for x in inputs()))
    finally:
        context.actor_task_retry_on_errors = before


@not_sanitized
def test_a_forked_child_has_its_own_copy():
    def forks(batch):
        made = batch["data"] + 1
        child = os.fork()
        if child == 0:
            made[:] = -1
            os._exit(0 if (made == -1).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        return {"v": made}

    check(run(forks), (x + 1 for x in inputs()))


@not_sanitized
def test_a_forked_child_makes_its_arrays_elsewhere():
    def forks(batch):
        go, going = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(go, 1)  # the parent's result is made now
            made = np.full((ROWS, WIDTH), -1, dtype=np.int64)
            os._exit(0 if (made == -1).all() else 1)
        made = batch["data"] + 1
        os.write(going, b"x")
        assert os.waitpid(child, 0)[1] == 0
        os.close(go)
        os.close(going)
        return {"v": made}

    check(run(forks), (x + 1 for x in inputs()))


def test_threads_and_coroutines():
    async def adds(batch):
        return {"v": batch["data"] + 1}

    def threaded(batch):
        made = []
        threads = [threading.Thread(target=lambda: made.append(batch["data"] + 1)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"v": made[0] + made[1] - batch["data"] - 1}

    check(run(adds), (x + 1 for x in inputs()))
    check(run(threaded), (x + 1 for x in inputs()))


def test_frames_and_tables_over_numpy_memory():
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")

    def frame(batch):
        return pd.DataFrame({"v": batch["data"].sum(axis=1), "w": batch["data"][:, 0] + 1.5})

    def table(batch):
        return pa.table({"v": batch["data"].reshape(-1) + 1})

    sums = source().map_batches(frame, batch_size=ROWS, concurrency=1).to_pandas()
    rows = np.concatenate([x[:, 0] for x in inputs()])
    np.testing.assert_array_equal(sums["v"], rows * WIDTH)
    np.testing.assert_array_equal(sums["w"], rows + 1.5)
    values = source().map_batches(table, batch_size=ROWS, concurrency=1).to_pandas()["v"]
    np.testing.assert_array_equal(values, np.repeat(rows + 1, WIDTH))


@pytest.mark.same_without
@not_sanitized
def test_a_result_whose_room_turns_out_too_small():
    """The room is given back for a larger one, and what lies in it must not go with it: memory is short, so that its pages go at once."""
    def growing(batch):
        ids = batch["id"]
        made = ids + 1
        return {"v": made, **{f"more{i}": ids + i for i in range(20 if ids[0] >= 4 * 131072 else 1)}}

    weir.shutdown()
    weir.init(num_cpus=2, memory_limit=96 << 20)
    try:
        values = []
        for batch in weir.range(16 * 131072).map_batches(growing, batch_size=131072).iter_batches(batch_size=None):
            values.append(batch["v"].copy())
            time.sleep(0.2)  # so that results wait for room
        values = np.concatenate(values)
        np.testing.assert_array_equal(np.sort(values), np.arange(1, 16 * 131072 + 1))
    finally:
        weir.shutdown()
