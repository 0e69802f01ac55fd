"""What happens to a task's rows in a worker, without a process: weir._apply.apply."""
import asyncio
import collections
import functools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_functions import CallSpec, batch_of, error_of, function_of, rows_of, run

np.random.seed(5)


def seen(n=10, **options):
    """Sizes of the batches that a function gets for n rows."""
    sizes = []

    def f(batch):
        sizes.append(len(batch["id"]))
        return batch

    run(CallSpec("map_batches", f, **options), batch_of(id=np.arange(n)))
    return sizes


# ---- batches ----

def test_batch_sizes():
    assert seen(10, batch_size=4) == [4, 4, 2]
    assert seen(10, batch_size=10) == [10]
    assert seen(10, batch_size=100) == [10]
    assert seen(10, batch_size=None) == [10]
    assert seen(10, batch_size="auto") == [10]
    assert seen(3 << 20, batch_size="auto") == [2 << 20, 1 << 20]  # 16 MiB of int64


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 200), size=st.one_of(st.none(), st.integers(1, 250)))
def test_batches_keep_rows_and_order(n, size):
    out = run(CallSpec("map_batches", lambda b: {"x": b["id"] * 2}, batch_size=size), batch_of(id=np.arange(n)))
    assert [row["x"] for row in rows_of(out)] == [2 * i for i in range(n)]


def test_empty_blocks_never_reach_a_function():
    calls = []
    for kind in ("map_batches", "map", "flat_map", "filter"):
        assert run(CallSpec(kind, calls.append), batch_of(id=np.arange(0))) == []
    assert calls == []


def test_default_format_is_read_only_numpy():
    def f(batch):
        assert type(batch) is dict and type(batch["id"]) is np.ndarray and not batch["id"].flags.writeable
        return batch
    run(CallSpec("map_batches", f), batch_of(id=np.arange(3)))
    run(CallSpec("map_batches", f, batch_format="numpy"), batch_of(id=np.arange(3)))


def test_writable_copies():
    source = batch_of(id=np.arange(5))

    def f(batch):
        batch["id"][:] = 7
        return batch
    assert rows_of(run(CallSpec("map_batches", f, zero_copy_batch=False), source)) == [{"id": 7}] * 5
    assert rows_of([source]) == [{"id": i} for i in range(5)]
    text = error_of(CallSpec("map_batches", f), source)
    assert "zero_copy_batch=False" in text

    def unlock(batch):
        batch["id"].flags.writeable = True
    assert "zero_copy_batch=False" in error_of(CallSpec("map_batches", unlock), source)


def test_arguments():
    def f(batch, add, *, times):
        return {"x": (batch["id"] + add) * times}
    out = run(CallSpec("map_batches", f, fn_args=[1], fn_kwargs={"times": 10}), batch_of(id=np.arange(3)))
    assert rows_of(out) == [{"x": 10}, {"x": 20}, {"x": 30}]
    out = run(CallSpec("map", lambda row, n: {"x": row["id"] + n}, fn_kwargs={"n": 5}), batch_of(id=np.arange(2)))
    assert rows_of(out) == [{"x": 5}, {"x": 6}]


class Counter:
    made = 0

    def __init__(self, start=0, step=1):
        type(self).made += 1
        self.n, self.step = start, step

    def __call__(self, batch):
        self.n += self.step
        return {"n": np.full(len(batch["id"]), self.n)}


def test_a_class_is_made_once():
    Counter.made = 0
    function = function_of(CallSpec("map_batches", Counter, batch_size=1, fn_constructor_args=[10],
                                    fn_constructor_kwargs={"step": 2}))
    assert [row["n"] for row in rows_of(run(function, batch_of(id=np.arange(3))))] == [12, 14, 16]
    assert [row["n"] for row in rows_of(run(function, batch_of(id=np.arange(1))))] == [18]
    assert Counter.made == 1


def test_generators():
    def f(batch):
        for i in range(3):
            yield {"x": batch["id"] + 100 * i}
    out = run(CallSpec("map_batches", f, batch_size=2), batch_of(id=np.arange(4)))
    assert [row["x"] for row in rows_of(out)] == [0, 1, 100, 101, 200, 201, 2, 3, 102, 103, 202, 203]


def test_a_buffer_that_is_used_again():
    """A function may fill the same array for every batch."""
    buffer = np.zeros(2, np.int64)

    def f(batch):
        for i in range(3):
            buffer[:] = batch["id"] + i
            yield {"x": buffer}
    out = run(CallSpec("map_batches", f, batch_size=2), batch_of(id=np.arange(4) * 10))
    assert [row["x"] for row in rows_of(out)] == [0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32]

    def g(batch):
        buffer[:] = batch["id"]
        return {"x": buffer}
    out = run(CallSpec("map_batches", g, batch_size=2), batch_of(id=np.arange(4) * 10))
    assert [row["x"] for row in rows_of(out)] == [0, 10, 20, 30]


def test_small_results_are_put_together():
    out = run(CallSpec("map_batches", lambda b: b, batch_size=1), batch_of(id=np.arange(1000)))
    assert [batch.num_rows for batch in out] == [1000]
    big = batch_of(x=np.zeros((1024, 1024), np.float32))
    out = run(CallSpec("map_batches", lambda b: b, batch_size=512), big)
    assert [batch.num_rows for batch in out] == [512, 512]


def test_results_of_different_types_are_one_where_a_type_holds_them():
    def f(batch):
        return {"x": [float(v) for v in batch["id"]]} if batch["id"][0] else {"x": batch["id"]}
    out = run(CallSpec("map_batches", f, batch_size=1), batch_of(id=np.arange(3)))
    assert [type(row["x"]) for row in rows_of(out)] == [float, float, float]

    def g(batch):
        return {"x": ["text"]} if batch["id"][0] else {"x": batch["id"]}
    out = run(CallSpec("map_batches", g, batch_size=1), batch_of(id=np.arange(3)))
    assert [type(row["x"]) for row in rows_of(out)] == [int, str, str]
    assert [batch.num_rows for batch in out] == [1, 2]


def test_an_empty_result_keeps_its_columns():
    out = run(CallSpec("map_batches", lambda b: {"x": b["id"][:0]}, batch_size=2), batch_of(id=np.arange(5)))
    assert [(batch.num_rows, list(batch.names)) for batch in out] == [(0, ["x"])]
    out = run(CallSpec("map_batches", lambda b: {"x": b["id"][b["id"] > 3]}, batch_size=2), batch_of(id=np.arange(5)))
    assert rows_of(out) == [{"x": 4}] and len(out) == 1
    assert run(CallSpec("map_batches", lambda b: {}), batch_of(id=np.arange(5))) == []


@pytest.mark.parametrize("make", [dict, collections.UserDict, collections.OrderedDict])
def test_mappings(make):
    out = run(CallSpec("map_batches", lambda b: make({"x": b["id"], "y": ["a"] * len(b["id"])})), batch_of(id=np.arange(2)))
    assert rows_of(out) == [{"x": 0, "y": "a"}, {"x": 1, "y": "a"}]
    out = run(CallSpec("map", lambda row: make({"x": row["id"]})), batch_of(id=np.arange(2)))
    assert rows_of(out) == [{"x": 0}, {"x": 1}]


# ---- rows ----

def test_map():
    out = run(CallSpec("map", lambda row: {"id": row["id"], "text": str(row["id"])}), batch_of(id=np.arange(3)))
    assert rows_of(out) == [{"id": i, "text": str(i)} for i in range(3)]


def test_rows_are_the_functions_own():
    kept = []

    def f(row):
        assert type(row) is dict
        kept.append(row)
        row["new"] = row["id"] + 1
        return row
    out = run(CallSpec("map", f), batch_of(id=np.arange(9000)))
    assert rows_of(out) == [{"id": i, "new": i + 1} for i in range(9000)]
    assert kept == rows_of(out) and len({id(row) for row in kept}) == 9000


def test_many_rows():
    n = 150_000
    out = run(CallSpec("map", lambda row: {"x": row["id"]}), batch_of(id=np.arange(n)))
    assert [row["x"] for row in rows_of(out)] == list(range(n))


def test_flat_map():
    out = run(CallSpec("flat_map", lambda row: [{"x": row["id"]}] * row["id"]), batch_of(id=np.arange(4)))
    assert [row["x"] for row in rows_of(out)] == [1, 2, 2, 3, 3, 3]

    def generator(row):
        yield {"x": row["id"]}
        yield {"x": -row["id"]}
    out = run(CallSpec("flat_map", generator), batch_of(id=np.arange(1, 3)))
    assert [row["x"] for row in rows_of(out)] == [1, -1, 2, -2]
    assert run(CallSpec("flat_map", lambda row: []), batch_of(id=np.arange(3))) == []


def test_filter():
    batch = batch_of(id=np.arange(10), s=[str(i) for i in range(10)])
    out = run(CallSpec("filter", lambda row: row["id"] % 3 == 0), batch)
    assert rows_of(out) == [{"id": i, "s": str(i)} for i in (0, 3, 6, 9)]
    assert rows_of(run(CallSpec("filter", lambda row: np.bool_(True)), batch)) == rows_of([batch])
    out = run(CallSpec("filter", lambda row: None), batch)
    assert sum(b.num_rows for b in out) == 0

    def changes(row):
        row["id"] = 99
        return True
    assert rows_of(run(CallSpec("filter", changes), batch)) == rows_of([batch])


# ---- async ----

def test_async():
    async def f(batch):
        await asyncio.sleep(0)
        return {"x": batch["id"] + 1}
    out = run(CallSpec("map_batches", f, batch_size=2), batch_of(id=np.arange(9)))
    assert [row["x"] for row in rows_of(out)] == list(range(1, 10))

    async def g(batch):
        for i in range(2):
            await asyncio.sleep(0)
            yield {"x": batch["id"] + 100 * i}
    out = run(CallSpec("map_batches", g, batch_size=2), batch_of(id=np.arange(4)))
    assert [row["x"] for row in rows_of(out)] == [0, 1, 100, 101, 2, 3, 102, 103]

    async def h(row):
        await asyncio.sleep(0)
        return {"x": row["id"]}
    assert len(rows_of(run(CallSpec("map", h), batch_of(id=np.arange(200))))) == 200


def test_async_calls_go_on_at_once_and_results_keep_order():
    going, most = 0, 0

    class F:
        async def __call__(self, row):
            nonlocal going, most
            going += 1
            most = max(most, going)
            await asyncio.sleep(0.02 if row["id"] == 0 else 0)
            going -= 1
            return {"x": row["id"]}
    out = run(CallSpec("map", F, max_concurrency=8), batch_of(id=np.arange(100)))
    assert [row["x"] for row in rows_of(out)] == list(range(100))
    assert most == 8


def test_an_error_in_an_async_function():
    async def f(row):
        if row["id"] == 3:
            raise ValueError("three")
        return row
    text = error_of(CallSpec("map", f), batch_of(id=np.arange(9)))
    assert "ValueError: three" in text and "row 3" in text and "asyncio" not in text


# ---- threads ----

def in_threads(kind, fn, count=4, **options):
    """A call whose worker calls a class in so many threads."""
    from weir import ActorPoolStrategy

    strategy = ActorPoolStrategy(size=1, max_concurrent_calls_per_actor=count, enable_true_multi_threading=True)
    return CallSpec(kind, fn, compute=strategy, **options)


@pytest.mark.parametrize("kind, rows", [("map_batches", 4), ("map", 1)])
def test_threads_call_at_once_and_results_keep_order(kind, rows):
    meeting = threading.Barrier(4)

    class F:
        def __call__(self, value):
            if np.all(value["id"] < 4 * rows):
                meeting.wait(30)  # nobody gets further before all four are there
            return {"x": value["id"] * 2}

    out = run(in_threads(kind, F, batch_size=rows if kind == "map_batches" else None), batch_of(id=np.arange(16 * rows)))
    assert [row["x"] for row in rows_of(out)] == [2 * i for i in range(16 * rows)]


def test_threads_share_what_a_task_has_where_batches_have_no_size():
    meeting = threading.Barrier(3)

    class F:
        def __call__(self, batch):
            meeting.wait(30)
            yield batch
            yield {"id": batch["id"] + 100}

    out = run(in_threads("map_batches", F, 3, batch_size=None), batch_of(id=np.arange(7)))
    assert [row["id"] for row in rows_of(out)] == [0, 1, 2, 100, 101, 102, 3, 4, 5, 103, 104, 105, 6, 106]


@pytest.mark.parametrize("options", [{}, {"max_concurrent_calls_per_actor": 4}, {"enable_true_multi_threading": True}])
def test_one_call_at_a_time_unless_both_are_said(options):
    from weir import ActorPoolStrategy

    class F:
        def __call__(self, batch):
            assert threading.current_thread() is threading.main_thread()
            return batch

    assert len(rows_of(run(CallSpec("map_batches", F, batch_size=2, compute=ActorPoolStrategy(size=1, **options)), batch_of(id=np.arange(8))))) == 8


def test_calls_of_an_async_class_are_those_of_the_strategy():
    from weir import ActorPoolStrategy

    going, most = 0, 0

    class F:
        async def __call__(self, row):
            nonlocal going, most
            going += 1
            most = max(most, going)
            await asyncio.sleep(0)
            going -= 1
            return row

    run(CallSpec("map", F, compute=ActorPoolStrategy(size=1, max_concurrent_calls_per_actor=3)), batch_of(id=np.arange(50)))
    assert most == 3


def test_an_error_in_a_thread():
    class F:
        def __call__(self, batch):
            if batch["id"][0] == 4:
                raise ValueError("four")
            return batch

    text = error_of(in_threads("map_batches", F, batch_size=2), batch_of(id=np.arange(20)))
    assert "ValueError: four" in text and "rows 4" in text and "concurrent" not in text and "_apply" not in text

    class Ends:
        def __call__(self, batch):
            return next(iter([]))

    assert "next() found nothing more" in error_of(in_threads("map_batches", Ends, batch_size=2), batch_of(id=np.arange(4)))


# ---- retried errors ----

def test_calls_in_threads_are_tried_again(no_backoff):
    import weir

    failed = set()

    class F:
        def __call__(self, batch):
            first = int(batch["id"][0])
            if first not in failed:
                failed.add(first)
                raise ValueError("once")
            return batch

    context = weir.DataContext(retried_map_errors=True, max_map_retries=1)
    out = run(in_threads("map_batches", F, batch_size=2, context=context), batch_of(id=np.arange(10)))
    assert [row["id"] for row in rows_of(out)] == list(range(10)) and failed == {0, 2, 4, 6, 8}


@pytest.fixture
def no_backoff(monkeypatch):
    from weir import _call

    monkeypatch.setattr(_call, "RETRY_BACKOFF_S", 0.0)


def test_retried_map_errors(no_backoff):
    class Context:
        retried_map_errors = [ValueError, "please"]
        max_map_retries = 2

    calls = collections.Counter()

    def f(batch):
        calls["n"] += 1
        if calls["n"] < 3:
            raise ValueError("later")
        return batch
    out = run(CallSpec("map_batches", f, context=Context()), batch_of(id=np.arange(2)))
    assert len(rows_of(out)) == 2 and calls["n"] == 3

    def g(batch):
        calls["g"] += 1
        raise KeyError("please" if calls["g"] < 2 else "no")
    error_of(CallSpec("map_batches", g, context=Context()), batch_of(id=np.arange(2)))
    assert calls["g"] == 2


class Flaky:
    """Raises at the first call for each value, and changes what it was given before."""

    def __init__(self):
        self.seen = set()

    def look(self, value):
        key = int(np.atleast_1d(value.pop("id"))[0])
        if key not in self.seen:
            self.seen.add(key)
            raise ConnectionError(f"try {key} later")

    def __call__(self, value):
        kept = dict(value)
        self.look(value)
        return kept

    def parts(self, batch):
        ids = batch["id"]
        yield {"id": ids[:1]}
        self.look(batch)
        yield {"id": ids[1:]}

    def rows(self, row):
        kept = dict(row)
        yield kept
        self.look(row)

    async def later(self, value):
        kept = dict(value)
        await asyncio.sleep(0)
        self.look(value)
        return kept

    async def parts_later(self, batch):
        ids = batch["id"]
        yield {"id": ids[:1]}
        self.look(batch)
        yield {"id": ids[1:]}


@pytest.mark.parametrize("kind, method", [
    ("map_batches", "__call__"), ("map", "__call__"), ("flat_map", "rows"), ("map_batches", "parts"), ("map_batches", "later"), ("map", "later"),
    ("map_batches", "parts_later"),
])
@pytest.mark.parametrize("meant", [True, ["ConnectionError: try"], [r"try \d+ later"], [OSError]])
def test_whatever_way_a_function_raises_it_is_called_again(no_backoff, kind, method, meant):
    """What it was given is made anew, and what its generator gave before comes once."""
    class Context:
        retried_map_errors = meant
        max_map_retries = 1

    spec = CallSpec(kind, getattr(Flaky(), method), batch_size=3 if kind == "map_batches" else None, context=Context())
    assert [row["id"] for row in rows_of(run(spec, batch_of(id=np.arange(8))))] == list(range(8))


def test_other_errors_and_too_many_are_told(no_backoff):
    class Context:
        retried_map_errors = ["ConnectionError", "(no pattern"]
        max_map_retries = 2

    calls = collections.Counter()

    def f(batch):
        yield batch
        calls["f"] += 1
        raise ConnectionError("always")

    assert "ConnectionError: always" in error_of(CallSpec("map_batches", f, context=Context()), batch_of(id=np.arange(2)))
    assert calls["f"] == 3

    async def g(batch):
        calls["g"] += 1
        raise KeyError("ConnectionRefused")

    assert "KeyError" in error_of(CallSpec("map_batches", g, context=Context()), batch_of(id=np.arange(2)))
    assert calls["g"] == 1


def test_between_calls_there_is_time(monkeypatch):
    from weir import _apply

    class Context:
        retried_map_errors = True
        max_map_retries = 8

    waits = []
    monkeypatch.setattr("random.random", lambda: 1.0)
    monkeypatch.setattr("time.sleep", waits.append)
    error_of(CallSpec("map", lambda row: 1 // 0, context=Context()), batch_of(id=np.arange(1)))
    assert waits == [2, 4, 8, 16, 32, 32, 32, 32] and max(waits) == _apply.BACKOFF_MAX_S


def test_errors_that_actors_try_again():
    class Context:
        actor_task_retry_on_errors = [ValueError]
        actor_init_retry_on_errors = True
        actor_init_max_retries = 3

    counts = collections.Counter()

    class Model:
        def __init__(self):
            counts["made"] += 1
            if counts["made"] < 4:
                raise OSError("not yet")

        def __call__(self, batch):
            counts["called"] += 1
            if counts["called"] < 10:
                raise ValueError("not yet")
            if len(batch["id"]) == 1:
                raise KeyError("never")
            return batch
    spec = CallSpec("map_batches", Model, context=Context())
    assert len(rows_of(run(spec, batch_of(id=np.arange(2))))) == 2 and counts == {"made": 4, "called": 10}
    error_of(spec, batch_of(id=np.arange(1)))
    assert counts["called"] == 11


def test_partials_and_methods():
    def f(batch, n):
        return {"x": batch["id"] + n}
    out = run(CallSpec("map_batches", functools.partial(f, n=3)), batch_of(id=np.arange(2)))
    assert rows_of(out) == [{"x": 3}, {"x": 4}]
    out = run(CallSpec("map_batches", Counter(5).__call__), batch_of(id=np.arange(2)))
    assert rows_of(out) == [{"n": 6}, {"n": 6}]


# ---- local mode ----

def test_run_local():
    from weir import _call
    from weir.exceptions import ActorDiedError, UserCodeException
    seen = []

    def f(batch):
        seen.append(len(batch["id"]))
        return {"x": batch["id"] + 1}
    out = list(_call.run_local(CallSpec("map_batches", f, batch_size=2), [batch_of(id=np.arange(5)), batch_of(id=np.arange(1))]))
    assert [row["x"] for row in rows_of(out)] == [1, 2, 3, 4, 5, 1] and seen == [2, 2, 1, 1]
    with pytest.raises(ZeroDivisionError) as caught:
        list(_call.run_local(CallSpec("map", lambda row: 1 // 0), [batch_of(id=np.arange(5))]))
    assert isinstance(caught.value, UserCodeException) and type(caught.value.__cause__) is ZeroDivisionError

    class Model:
        def __init__(self):
            raise ValueError("no")

        def __call__(self, batch):
            return batch
    with pytest.raises(ActorDiedError):
        list(_call.run_local(CallSpec("map", Model), [batch_of(id=np.arange(5))]))


def test_errors_that_may_be_in_local_mode(caplog):
    from weir import _call

    class Context:
        max_errored_blocks = 1
        actor_task_retry_on_errors = True

    def f(batch):
        yield batch
        if batch["id"][0] >= 2:
            raise ValueError("bad")
    batches = [batch_of(id=np.array([i])) for i in range(4)]
    out = _call.run_local(CallSpec("map_batches", f, context=Context()), batches[:3])
    assert [row["id"] for row in rows_of(out)] == [0, 1] and "Ignoring this exception" in caplog.text
    with pytest.raises(ValueError, match="bad"):
        list(_call.run_local(CallSpec("map_batches", f, context=Context()), batches))

    class Late:
        calls = 0

        def __call__(self, batch):
            self.calls += 1
            if self.calls < 5:
                raise KeyError("not yet")
            return batch
    assert len(rows_of(_call.run_local(CallSpec("map_batches", Late, context=Context()), batches))) == 4
