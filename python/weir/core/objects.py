"""References to objects: what programs hold, pass on and wait for.

A reference is a number of 28 bytes. Wherever it is unpickled within the session it counts as one more; the object stays as long
as any counts. Pickled by other means than weir's own calls (to a file, say) it stays until the session ends.
"""
from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weir.core import ids, runtime
from weir.core.numbers import TaskID
from weir.core.payload import nested

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

T = TypeVar("T")


class ObjectRef(Generic[T]):
    """A value that is there, or will be. `weir.get` gives it.

    >>> import weir
    >>> ref = weir.put([1, 2, 3])
    >>> weir.get(ref), len(ref.hex()), ref == weir.put([1, 2, 3])
    ([1, 2, 3], 56, False)
    """

    __slots__ = ("_id", "__weakref__")

    def __init__(self, id: bytes) -> None:
        if not isinstance(id, bytes) or len(id) != ids.OBJECT:
            raise ValueError(f"the number of an object has {ids.OBJECT} bytes, not {id!r}")
        self._id = id
        runtime.get().hold(id)

    def __del__(self, drop: Callable[[bytes], None] = runtime.drop) -> None:
        drop(self._id)

    def binary(self) -> bytes:
        """Its number, 28 bytes.

        >>> import weir
        >>> len(weir.put(1).binary())
        28
        """
        return self._id

    def hex(self) -> str:
        """Its number as a text.

        >>> import weir
        >>> ref = weir.put(1)
        >>> bytes.fromhex(ref.hex()) == ref.binary()
        True
        """
        return self._id.hex()

    def is_nil(self) -> bool:
        """Never: there is always an object behind one.

        >>> import weir
        >>> weir.put(1).is_nil()
        False
        """
        return False

    def task_id(self) -> TaskID:
        """The number of the task that makes it.

        >>> import weir
        >>> ref = weir.put(1)
        >>> ref.binary().startswith(ref.task_id().binary())
        True
        """
        return TaskID(self._id[:ids.TASK])

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectRef) and other._id == self._id

    def __repr__(self) -> str:
        return f"ObjectRef({self._id.hex()})"

    def __copy__(self) -> ObjectRef[T]:
        return self

    def __deepcopy__(self, memo: Any) -> ObjectRef[T]:
        return self

    def __reduce__(self) -> Any:
        current = runtime.get()
        note(self, current)
        return borrow, (self._id, current.address)

    def future(self) -> concurrent.futures.Future[T]:
        """A concurrent.futures.Future of the value.

        >>> import weir
        >>> weir.put(7).future().result()
        7
        """
        import concurrent.futures

        made: concurrent.futures.Future[T] = concurrent.futures.Future()

        def finish() -> None:
            from weir.core import api

            try:
                value = api.get(self)
            except BaseException as error:
                made.set_exception(error)
            else:
                made.set_result(value)

        current = runtime.get()
        # In a worker the thread that says so is the one that reads, and must not wait.
        current.when_ready(self._id, finish if current.is_driver else threading.Thread(target=finish, daemon=True).start)
        return made

    def as_future(self) -> asyncio.Future[T]:
        """The same for the running event loop; `await ref` does it by itself.

        >>> import asyncio, weir
        >>> async def main():
        ...     return await weir.put(7).as_future(), await weir.put(8)
        >>> asyncio.run(main())
        (7, 8)
        """
        import asyncio

        loop = asyncio.get_running_loop()
        made: asyncio.Future[T] = loop.create_future()

        def finish() -> None:
            from weir.core import api

            if made.done():
                return
            try:
                value = api.get(self)
            except BaseException as error:
                made.set_exception(error if not isinstance(error, StopIteration) else RuntimeError(str(error)))
            else:
                made.set_result(value)

        def done() -> None:
            try:
                loop.call_soon_threadsafe(finish)
            except RuntimeError:  # the loop was closed: nobody waits
                return

        runtime.get().when_ready(self._id, done)
        return made

    def __await__(self) -> Generator[Any, None, T]:
        return self.as_future().__await__()

    def __iter__(self) -> Any:
        raise TypeError("an ObjectRef cannot be iterated over: weir.get(ref) gives its value. A function that returns several values "
                        "is made with num_returns=…")


ObjectID = ObjectRef


def own(id: bytes) -> ObjectRef[Any]:
    """A reference that is counted already."""
    ref: ObjectRef[Any] = ObjectRef.__new__(ObjectRef)
    ref._id = id
    return ref


def borrow(id: bytes, address: str) -> ObjectRef[Any]:
    """A reference from another process, or from a pickle. Named in pickles."""
    runtime.belongs_to(address)
    runtime.get().hold(id)
    return own(id)


def note(thing: Any, current: runtime.Runtime) -> None:
    """A reference or handle is being pickled: the value that it is in keeps what it stands for. Outside of weir's own pickling
    nobody can say when it is done with: it stays."""
    if nested.refs is not None:
        nested.refs.append(thing)
    elif not nested.quiet:
        current.call("pin", thing.binary())


class ObjectRefGenerator:
    """The items of a remote generator, as references, as soon as they are made.

    >>> import weir
    >>> @weir.remote
    ... def count(n):
    ...     for i in range(n):
    ...         yield i * 10
    >>> [weir.get(ref) for ref in count.remote(3)]
    [0, 10, 20]
    """

    def __init__(self, ref: ObjectRef[Any]) -> None:
        self._ref = ref
        self._index = 0
        self._is_over = False

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        return self

    def __next__(self) -> ObjectRef[Any]:
        ref = self._next_sync(None)
        assert ref is not None
        return ref

    def _next_sync(self, timeout: float | None = None) -> ObjectRef[Any] | None:
        """The next one; None: there is none after so many seconds."""
        if self._is_over:
            raise StopIteration
        found = runtime.get().next_of(self._ref._id, self._index + 1, timeout)
        if found is None:
            return None
        if found is False:
            self._is_over = True
            raise StopIteration
        self._index += 1
        assert isinstance(found, bytes)
        return own(found)

    def __aiter__(self) -> AsyncIterator[ObjectRef[Any]]:
        return self

    async def __anext__(self) -> ObjectRef[Any]:
        import asyncio

        try:
            ref = self._next_sync(0)
            if ref is None:
                found = await asyncio.get_running_loop().run_in_executor(None, self._next_or_end)
                if found is None:
                    raise StopAsyncIteration
                ref = found
        except StopIteration:
            raise StopAsyncIteration from None
        return ref

    def _next_or_end(self) -> ObjectRef[Any] | None:
        return next(self, None)

    def completed(self) -> ObjectRef[Any]:
        """A reference that is there when the generator has ended. Its value is no use; it is for weir.wait.

        >>> import weir
        >>> items = weir.remote(lambda: iter([1, 2])).options(num_returns="streaming").remote()
        >>> ready, left = weir.wait([items.completed()])
        >>> len(ready), len(left)
        (1, 0)
        """
        return self._ref

    def next_ready(self) -> bool:
        """Whether next() would not wait.

        >>> import weir
        >>> items = weir.remote(lambda: iter([1, 2])).options(num_returns="streaming").remote()
        >>> _ = weir.wait([items.completed()])
        >>> items.next_ready()
        True
        """
        return self._is_over or bool(runtime.get().call("stream_ready", self._ref._id, self._index + 1))

    def is_finished(self) -> bool:
        """Whether all items were taken.

        >>> import weir
        >>> items = weir.remote(lambda: iter([1, 2])).options(num_returns="streaming").remote()
        >>> before, all_of_them, after = items.is_finished(), weir.get(list(items)), items.is_finished()
        >>> before, all_of_them, after
        (False, [1, 2], True)
        """
        return self._is_over or bool(runtime.get().call("stream_over", self._ref._id, self._index + 1))

    def __reduce__(self) -> Any:
        raise TypeError("You cannot return or pass a generator to other task. Serializing a ObjectRefGenerator is not allowed: pass "
                        "the references that it gives")

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._ref.hex()})"


StreamingObjectRefGenerator = ObjectRefGenerator


class DynamicObjectRefGenerator:
    """What a function with num_returns="dynamic" gives: its items' references, all at once.

    >>> len(DynamicObjectRefGenerator([]))
    0
    """

    def __init__(self, refs: list[ObjectRef[Any]]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)
