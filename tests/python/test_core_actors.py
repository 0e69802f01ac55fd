"""Actors and pools of them, in what scripts written for Ray do with them beside calling methods."""
import asyncio
import time

import pytest

import weir
import weir.core
import weir.exceptions
from weir.core import ActorPool


@pytest.fixture(scope="module", autouse=True)
def session():
    weir.shutdown()
    weir.init(num_cpus=2)
    yield
    weir.shutdown()


@weir.remote
class Waits:
    async def value(self, value):
        if value == "long":
            await asyncio.sleep(600)
        return value


def ask(actor, value):
    return actor.value.remote(value)


@pytest.mark.parametrize("method", ["map", "map_unordered"])
def test_a_map_does_not_wait_for_what_was_submitted_before(method):
    pool = ActorPool([Waits.remote() for _ in range(2)])
    pool.submit(ask, "long")
    assert sorted(getattr(pool, method)(ask, [1, 2, 3])) == [1, 2, 3]


def test_a_task_that_is_late_is_given_up():
    pool = ActorPool([Waits.remote()])
    pool.submit(ask, "long")
    pool.submit(ask, 1)  # waits for the actor
    with pytest.raises(TimeoutError, match="Timed out waiting for result$"):
        pool.get_next(timeout=0.01)
    with pytest.raises(TimeoutError, match="has been ignored"):
        pool.get_next(timeout=0.01, ignore_if_timedout=True)
    assert pool.get_next() == 1 and not pool.has_next() and pool.has_free()
    pool.submit(ask, "long")
    with pytest.raises(TimeoutError, match="has been ignored"):
        pool.get_next_unordered(timeout=0.01, ignore_if_timedout=True)
    assert not pool.has_next() and pool.has_free()


def test_a_dead_actor_leaves_the_pool():
    @weir.remote
    class Fragile:
        def __init__(self, is_well):
            self.is_well = is_well

        def value(self, value):
            if not self.is_well:
                weir.core.exit_actor()
            if value == "wrong":
                raise KeyError(value)
            return value

    pool = ActorPool([Fragile.remote(True), Fragile.remote(False)])
    found = []
    for value in range(5):
        pool.submit(ask, value)
        try:
            found.append(pool.get_next_unordered())
        except weir.exceptions.ActorDiedError:
            found.append("died")
    assert found == ["died", 1, 2, 3, 4]
    pool.submit(ask, "wrong")
    with pytest.raises(KeyError):
        pool.get_next()
    assert pool.has_free() and list(pool.map(ask, [5, 6])) == [5, 6]


def test_a_class_has_its_own_attributes():
    class Base:
        INHERITED = 1

    @weir.remote
    class Named(Base):
        OWN = 2

        @staticmethod
        def fixed():
            return Named.OWN + 1

        @classmethod
        def of_class(cls):
            return cls.INHERITED

        def all(self):
            return Named.INHERITED, Named.OWN, Named.fixed(), Named.of_class()

    assert weir.get(Named.remote().all.remote()) == (1, 2, 3, 1)
    assert Named.OWN == 2 and Named.fixed() == 3
    with pytest.raises(AttributeError, match=r"ActorClass\(Named\) has no attribute 'nope'"):
        Named.nope  # noqa: B018
    assert not hasattr(Named, "__wrapped__")


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}, {"concurrency_groups": {"io": 1}}], ids=str)
def test_what_is_registered_for_the_end_runs_when_an_actor_leaves(tmp_path, options):
    @weir.remote(num_cpus=0, **options)
    class Leaves:
        def __init__(self, path):
            import atexit

            atexit.register(lambda: path.write_text("end"))

        def leave(self):
            weir.core.exit_actor()

    for number, end in enumerate((lambda actor: actor.leave.remote(), lambda actor: actor.__ray_terminate__.remote())):
        path = tmp_path / str(number)
        actor = Leaves.remote(path)
        weir.wait([end(actor)])
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline, "it never ran"
            time.sleep(0.01)


def test_an_async_actor_that_exits_with_an_error_is_tried_again():
    @weir.remote(num_cpus=0)
    class Calls:
        def __init__(self):
            self.count = 0

        def add(self, n=1):
            self.count += n
            return self.count

    @weir.remote(num_cpus=0, max_restarts=2, max_task_retries=1)
    class Exits:
        async def exits(self, calls, code):
            await calls.add.remote()
            raise SystemExit(code)

    for code, tries in ((1, 2), (0, 1)):
        calls = Calls.remote()
        with pytest.raises(weir.exceptions.RayActorError):
            weir.get(Exits.remote().exits.remote(calls, code))
        assert weir.get(calls.add.remote(0)) == tries


def test_a_cancelled_generator_that_waits_for_its_reader_ends():
    """One that may not give more before its items are taken hears of it, too, and the actor goes on."""
    @weir.remote(num_cpus=0)
    class Gives:
        def gives(self):
            yield from range(1000)

        def value(self):
            return 7

    for options in ({}, {"max_concurrency": 2}):
        actor = Gives.options(**options).remote()
        items = actor.gives.options(_generator_backpressure_num_objects=2).remote()
        assert weir.get(next(items)) == 0
        weir.cancel(items)
        with pytest.raises(weir.exceptions.TaskCancelledError):
            for item in items:
                weir.get(item)
        assert weir.get(actor.value.remote()) == 7


def test_a_call_that_was_cancelled_in_front_of_its_turn_never_runs(tmp_path):
    """Its actor is at work: it hears of the cancelling behind the call itself."""
    opened = tmp_path / "open"

    @weir.remote(num_cpus=0)
    class Works:
        def __init__(self):
            self.ran = []

        def waits(self):
            while not opened.exists():
                time.sleep(0.01)

        def works(self, number):
            self.ran.append(number)

        def seen(self):
            return self.ran

    actor = Works.remote()
    first = actor.waits.remote()
    calls = [actor.works.remote(n) for n in range(3)]
    weir.wait([actor.works.remote(3)], timeout=0.5)  # by now they are in its process
    weir.cancel(calls[1])
    opened.touch()
    with pytest.raises(weir.exceptions.TaskCancelledError):
        weir.get(calls[1])
    assert weir.get([first, calls[0], calls[2], actor.seen.remote()])[-1] == [0, 2, 3]


def test_a_class_of_actors_lists_its_methods():
    @weir.remote
    class Listed:
        def method(self):
            pass

    assert {name for name in dir(Listed) if not name.startswith("_")} == {"bind", "method", "options", "remote"}


def test_a_generator_that_is_got_is_itself():
    @weir.remote
    def items():
        yield 1
        yield 2

    generator = items.remote()
    assert weir.get(generator) is generator
    assert [weir.get(ref) for ref in generator] == [1, 2]


def test_a_method_with_the_name_of_an_attribute():
    """What the class has under the name is called, as the handle says."""
    @weir.remote
    class Switch:
        def __init__(self):
            self.is_on = False

        def flip(self):
            self.is_on = not self.is_on

        def is_on(self):
            return self.is_on

        @staticmethod
        def kind():
            return "switch"

    switch = Switch.remote()
    weir.get(switch.flip.remote())
    assert weir.get(switch.is_on.remote()) is True and weir.get(switch.kind.remote()) == "switch"
