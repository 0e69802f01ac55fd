"""weir.testing, and the places where tests written for Ray find it."""
import asyncio
import subprocess

import pytest

import weir
from weir import testing


def test_a_condition_is_waited_for():
    asked = []

    def third_time():
        asked.append(1)
        if len(asked) == 1:
            raise KeyError("not yet")
        return len(asked) == 3

    testing.wait_for_condition(third_time, retry_interval_ms=1)
    assert len(asked) == 3


def test_a_condition_that_does_not_come_true_is_an_error_that_tells_the_last_exception():
    def never(what):
        raise KeyError(what)

    with pytest.raises(RuntimeError, match="wasn't met before the timeout.*KeyError.*sun"):
        testing.wait_for_condition(never, timeout=0.05, retry_interval_ms=1, what="sun")
    with pytest.raises(KeyError):
        testing.wait_for_condition(never, raise_exceptions=True, what="sun")

    async def no():
        return False

    with pytest.raises(RuntimeError, match="timeout"):
        asyncio.run(testing.async_wait_for_condition(no, timeout=0.05, retry_interval_ms=1))


def test_tasks_wait_for_a_signal():
    weir.shutdown()
    weir.init(num_cpus=2)
    try:
        signal = testing.SignalActor.remote()

        @weir.remote
        def waits(signal):
            weir.get(signal.wait.remote())
            return "went on"

        waiting = waits.remote(signal)
        testing.wait_for_condition(lambda: weir.get(signal.cur_num_waiters.remote()) == 1, timeout=60)
        assert weir.wait([waiting], timeout=0)[0] == []
        weir.get(signal.send.remote())
        assert weir.get(waiting) == "went on"
        assert weir.get(signal.cur_num_waiters.remote()) == 0
    finally:
        weir.shutdown()


def test_a_semaphore_lets_so_many_in():
    weir.shutdown()
    weir.init(num_cpus=2)
    try:
        semaphore = testing.Semaphore.remote(1)
        weir.get(semaphore.acquire.remote())
        assert weir.get(semaphore.locked.remote())
        second = semaphore.acquire.remote()
        assert weir.wait([second], timeout=0)[0] == []
        weir.get(semaphore.release.remote())
        weir.get(second, timeout=60)
    finally:
        weir.shutdown()


def test_rows_are_compared_in_any_order():
    pd = pytest.importorskip("pandas")

    assert testing.rows_same(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"b": ["y", "x"], "a": [2.0, 1.0]}, index=[7, 8]))
    zeros = pd.DataFrame({"a": [0.0, -0.0, -1.0], "b": [1.0, 2.0, 3.0]})  # equal, though they are written differently
    assert testing.rows_same(zeros.astype("float64[pyarrow]"), pd.DataFrame({"a": [-1, 0, 0], "b": [3, 1, 2]}))
    assert testing.rows_same(pd.DataFrame({"a": [[1], [0, 2]]}), pd.DataFrame({"a": [[0, 2], [1]]}))
    assert not testing.rows_same(pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1, 1]}))
    with pytest.raises(AssertionError):
        testing.rows_same(pd.DataFrame({"a": [1, 1]}), pd.DataFrame({"a": [1, 2]}))


def test_where_tests_for_ray_find_them():
    text = testing.run_string_as_driver("""
from ray._common.test_utils import SignalActor, wait_for_condition
from ray._private.test_utils import run_string_as_driver
from ray.data._internal.util import GiB, is_null
from ray.data._internal.logical.operators import JoinType
import weir.testing
assert wait_for_condition is weir.testing.wait_for_condition and SignalActor is weir.testing.SignalActor
print(GiB, is_null(float("nan")), [kind.value for kind in JoinType][:2])
""")
    assert text == "1073741824 True ['inner', 'left_outer']\n"


def test_an_error_of_a_driver_has_what_it_printed():
    with pytest.raises(subprocess.CalledProcessError) as caught:
        testing.run_string_as_driver("print('so far'); raise SystemExit(3)")
    assert caught.value.returncode == 3 and caught.value.output == "so far\n"
