"""Concurrency groups, handles that do not keep their actor, generators that fail half-way, placement groups that capture what is started
in them. The answers are those that Ray 2.60 gave to the same programs, but where it crashes or hangs."""
import threading
import time

import pytest

import weir
import weir.core
from weir.core import PlacementGroupSchedulingStrategy, get_current_placement_group, placement_group, remove_placement_group
from weir.exceptions import ActorDiedError


@pytest.fixture(scope="module", autouse=True)
def session():
    weir.shutdown()
    weir.init(num_cpus=2)
    yield
    weir.shutdown()


@weir.remote(concurrency_groups={"io": 2, "compute": 4})
class Grouped:
    """Its calls of a kind wait for each other until as many are there as can be."""

    def __init__(self):
        self.lock = threading.Condition()
        self.now = {}
        self.most = {}

    def meet(self, kind, expected):
        with self.lock:
            self.now[kind] = self.now.get(kind, 0) + 1
            self.most[kind] = max(self.most.get(kind, 0), self.now[kind])
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.most[kind] >= expected, 60)
            self.now[kind] -= 1

    @weir.method(concurrency_group="io")
    def io(self):
        self.meet("io", 2)

    @weir.method(concurrency_group="compute")
    def compute(self):
        self.meet("compute", 4)

    def other(self, expected=1):
        self.meet("other", expected)

    def seen(self):
        return self.most


def test_groups_have_their_own_sizes():
    actor = Grouped.remote()
    weir.get([method.remote() for method in (actor.io, actor.compute, actor.other) for _ in range(8)])
    assert weir.get(actor.seen.remote()) == {"io": 2, "compute": 4, "other": 1}
    # A call may be of another group than its method, and max_concurrency is of what is in none.
    actor = Grouped.remote()
    weir.get([actor.other.options(concurrency_group="compute").remote(4) for _ in range(8)])
    assert weir.get(actor.seen.remote()) == {"other": 4}
    actor = Grouped.options(max_concurrency=3).remote()
    weir.get([actor.other.remote(3) for _ in range(6)])
    assert weir.get(actor.seen.remote()) == {"other": 3}


def test_groups_of_async_actors():
    @weir.remote(concurrency_groups={"io": 2})
    class Async:
        def __init__(self):
            self.now, self.most = {}, {}

        async def meet(self, kind, expected):
            import asyncio

            self.now[kind] = self.now.get(kind, 0) + 1
            self.most[kind] = max(self.most.get(kind, 0), self.now[kind])
            while self.most[kind] < expected:
                await asyncio.sleep(0)
            self.now[kind] -= 1

        @weir.method(concurrency_group="io")
        async def io(self):
            await self.meet("io", 2)

        async def other(self):
            await self.meet("other", 5)

        async def seen(self):
            return self.most

    actor = Async.remote()
    weir.get([method.remote() for method in (actor.io, actor.other) for _ in range(5)])
    assert weir.get(actor.seen.remote()) == {"io": 2, "other": 5}


def test_groups_that_are_not_there():
    with pytest.raises(ValueError, match="other is of the concurrency group 'no', and its actor has 'io', 'compute': concurrency_groups="):
        Grouped.remote().other.options(concurrency_group="no").remote()

    @weir.remote
    class Undeclared:
        @weir.method(concurrency_group="io")
        def f(self):
            pass

    with pytest.raises(ValueError, match="Undeclared.f is of the concurrency group 'io', and its actor has none"):
        Undeclared.remote()
    with pytest.raises(ValueError, match=r"Setting 'concurrency_groups' is not supported in '.options\(\)'"):
        Grouped.options(concurrency_groups={"io": 1})
    with pytest.raises(ValueError, match="'io'.* is 0, and has to be how many calls run at once"):
        weir.remote(concurrency_groups={"io": 0})(type("A", (), {}))
    with pytest.raises(TypeError, match="concurrency_groups is a dict such as"):
        weir.remote(concurrency_groups=["io"])(type("A", (), {}))


@weir.remote
class Named:
    def value(self):
        return 7


def dead(handle):
    """Whether calls of it fail, within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            weir.get(handle.value.remote(), timeout=60)
        except ActorDiedError as error:
            return str(error)
    return ""


@weir.remote
def uses(handle):
    try:
        return weir.get(handle.value.remote())
    except ActorDiedError:
        return "dead"


def test_a_handle_of_get_actor_does_not_keep_it():
    first = Named.options(name="weak").remote()
    found = weir.get_actor("weak")
    same = Named.options(name="weak", get_if_exists=True).remote()
    assert found == first == same and weir.get([found.value.remote(), same.value.remote(), uses.remote(found)]) == [7, 7, 7]
    waits = found.value.remote()
    del first
    assert weir.get(waits) == 7
    assert "all references to the actor were removed" in dead(found)
    assert dead(same) and weir.get(uses.remote(found)) == "dead"
    with pytest.raises(ValueError, match="Failed to look up actor"):
        weir.get_actor("weak")


def test_what_keeps_a_named_actor():
    first = Named.options(name="kept").remote()
    again = weir.get(weir.put(first))  # a handle that came by pickling counts
    del first
    assert weir.get(weir.get_actor("kept").value.remote()) == 7
    del again
    detached = Named.options(name="stays", lifetime="detached").remote()
    del detached
    assert weir.get(weir.get_actor("stays").value.remote()) == 7
    weir.kill(weir.get_actor("stays"))


def each(refs):
    values = []
    for ref in refs:
        try:
            values.append(weir.get(ref, timeout=60))
        except Exception as error:
            values.append(str(error).strip().splitlines()[-1])
    return values


def test_a_generator_that_fails_half_way_has_given_what_it_gave():
    def fails():
        yield 1
        yield bytes(200_000)
        raise ValueError("half")

    def few():
        yield 1

    def many():
        yield from (1, 2, 3, 4)

    function = weir.remote(num_returns=3)
    assert each(function(fails).remote()) == [1, bytes(200_000), "ValueError: half"]
    assert each(function(few).remote()) == [1] + ["ValueError: Task returned 1 objects, but num_returns=3."] * 2
    assert each(function(many).remote()) == [1, 2, 3]
    assert each(function(lambda: [1, 2]).remote()) == ["ValueError: Task returned 2 objects, but num_returns=3."] * 3

    @weir.remote
    class Actor:
        @weir.method(num_returns=3)
        def fails(self):
            yield 1
            raise ValueError("half")

    assert each(Actor.remote().fails.remote()) == [1, "ValueError: half", "ValueError: half"]
    # One that is tried again gives what the last try gives.
    path = weir.remote(num_returns=2, retry_exceptions=True, max_retries=2)

    def second():
        import os

        name = f"{os.environ.get('TMPDIR', '/tmp')}/weir_half_{os.getppid()}"
        is_first = not os.path.exists(name)
        yield "first" if is_first else "again"
        if is_first:
            open(name, "w").close()
            raise ValueError("once")
        os.unlink(name)
        yield "done"

    assert each(path(second).remote()) == ["again", "done"]


def test_the_same_in_local_mode():
    weir.shutdown()
    weir.init(num_cpus=2, local_mode=True)
    try:
        def fails():
            yield 1
            raise ValueError("half")

        assert each(weir.remote(num_returns=2)(fails).remote()) == [1, "ValueError: half"]
        actor = Grouped.remote()
        weir.get(actor.other.remote())
        assert weir.get(actor.seen.remote()) == {"other": 1}
    finally:
        weir.shutdown()
        weir.init(num_cpus=2)


@weir.remote
def child():
    group = get_current_placement_group()
    return None if group is None else group.id.hex()


@weir.remote
def parent():
    context = weir.get_runtime_context()
    return [context.should_capture_child_tasks_in_placement_group, context.get_placement_group_id(), weir.get(child.remote())]


def test_what_is_started_in_a_placement_group_is_in_it():
    group = placement_group([{"CPU": 2}])  # all that there is: what is outside would wait for ever
    id = group.id.hex()

    @weir.remote(num_cpus=1)
    class Parent:
        def go(self):
            return weir.get(parent.remote())

    try:
        inside = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
        assert weir.get(parent.options(scheduling_strategy=inside).remote(), timeout=60) == [True, id, id]
        actor = Parent.options(scheduling_strategy=inside).remote()
        assert weir.get(actor.go.remote(), timeout=60) == [True, id, id]
        weir.kill(actor)
    finally:
        remove_placement_group(group)
    group = placement_group([{"CPU": 1}])
    try:
        plain = PlacementGroupSchedulingStrategy(group)
        assert weir.get(parent.options(scheduling_strategy=plain).remote(), timeout=60) == [False, group.id.hex(), None]
    finally:
        remove_placement_group(group)
    assert get_current_placement_group() is None and weir.get_runtime_context().get_placement_group_id() is None


def test_functions_of_a_dataset_know_their_placement_group():
    def look(row):
        found = get_current_placement_group()
        return {"group": None if found is None else found.id.hex(), "child": weir.get(child.remote())}

    group = placement_group([{"CPU": 1}])
    try:
        inside = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
        id = group.id.hex()
        assert weir.range(1).map(look, scheduling_strategy=inside).take() == [{"group": id, "child": id}]
        context = weir.DataContext.get_current().copy()
        with pytest.warns(DeprecationWarning):
            context.scheduling_strategy = PlacementGroupSchedulingStrategy(group)
        with weir.DataContext.current(context):
            assert weir.range(1).map(look).take() == [{"group": id, "child": None}]
        assert weir.range(1).map(look).take() == [{"group": None, "child": None}]
    finally:
        remove_placement_group(group)


def test_a_handle_keeps_its_actor_where_a_weak_one_was_before():
    @weir.remote
    class Answer:
        def get(self):
            return 42

    @weir.remote
    class Keeper:
        def look(self, name):
            return weir.get(weir.get_actor(name).get.remote())

        def keep(self, handles):
            self.handle = handles[0]

        def ask(self):
            return weir.get(self.handle.get.remote())

    answer, keeper = Answer.options(name="looked_at").remote(), Keeper.remote()
    assert weir.get(keeper.look.remote("looked_at")) == 42
    weir.get(keeper.keep.remote([answer]))
    del answer
    for _ in range(5):
        assert weir.get(keeper.ask.remote(), timeout=30) == 42
