"""A process that runs tasks, or keeps an actor: forked from the zygote, it takes its world from the node's greeting.

    main() ─▶ HELLO ─▶ for each TASK: arguments ─▶ the user's function ─▶ values ─▶ DONE (a generator: YIELD … DONE)

Plain functions and actors run in the main thread, which is where signals are. Calls of an actor with max_concurrency run in threads of
their own, those of an async one in an event loop's thread; then the main thread only reads.
"""
from __future__ import annotations

import atexit
import inspect
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from weir import _forks
from weir.core import errors, ids, objects, runtime, signatures
from weir.core import messages as m
from weir.core.client import Client, Slot
from weir.core.channel import Connection, more_descriptors
from weir.core.context import Current, Group
from weir.core.payload import Dumped, Map, Payload, dump, load, open_map
from weir.core.processes import CANCEL_SIGNAL
from weir.core.tasks import CREATE, DYNAMIC, FUNCTION, METHOD, STREAMING, Place

SOCKET, LIFELINE = 3, 4
HEARD_SECONDS = 0.001


class Cancelled(KeyboardInterrupt):
    """The task that runs was cancelled."""


class Leaving(BaseException):
    """exit_actor() was called. Not an Exception: a function's `except Exception` is not to stop it."""


class Call:
    """A task as the worker has it."""

    __slots__ = ("id", "kind", "function", "name", "args", "needs", "returns", "method", "resources", "backpressure", "may_retry",
                 "about", "max_concurrency", "actor", "tries", "group", "taken")

    def __init__(self, message: tuple[Any, ...], args: tuple[Payload, Map | None], needs: list[Any]) -> None:
        _, self.id, self.kind, self.function, _, self.name, _, _, self.returns, self.method, rest, _ = message
        (self.resources, self.backpressure, self.may_retry, self.about, self.max_concurrency, self.actor, self.tries, self.group) = rest
        self.args = args
        self.needs = needs
        self.taken = 0


class Worker:
    """The process."""

    def __init__(self, client: Client, hello: dict[str, Any]) -> None:
        self.client = client
        self.hello = hello
        self.functions: dict[bytes, Any] = {}
        self.instance: Any = None
        self.about: dict[str, Any] = {}
        self.actor_id = b""
        self.class_name = ""
        self.restarts = 0
        self.resources: dict[str, float] = {}
        self.group: Group | None = None        # of an actor
        self.running: bytes | None = None      # in the main thread
        self.cancelled = client.cancelled
        self.heard = 0.0                       # when it last looked for that
        self.going: dict[bytes, Call] = {}
        self.async_tasks: dict[bytes, Any] = {}
        self.loop: Any = None
        self.threads: dict[str | None, Any] = {}  # of an actor with max_concurrency, for each of its concurrency groups; None: the others
        self.limits: dict[str | None, Any] = {}   # the same of an async one: semaphores
        self.is_leaving = False
        self.is_signalled = False
        self.is_interrupted = False  # the task that runs; once, so that what it does about it can be done in peace

    # ---- the main thread ----

    def run(self) -> None:
        """Until there is no more work."""
        while not self.is_leaving:
            try:
                message, fds = self.client.next_message()
            except (RuntimeError, EOFError):  # the session is over
                return
            except KeyboardInterrupt:  # cancelled too late
                continue
            kind = message[0]
            if kind == m.TASK:
                self._begin(message, fds)
            elif kind == m.CANCEL:
                self._cancel(message[1])
            elif kind == m.EXIT:
                break
        self._finish()

    def _begin(self, message: tuple[Any, ...], fds: list[int]) -> None:
        for id in message[11]:
            self.functions.pop(id, None)
        rest = iter(fds)

        def mapped(fields: tuple[Any, ...], ref: Any = None) -> tuple[Payload, Map | None]:
            payload = Payload(*fields)
            if not payload.size:
                return payload, None
            fd = next(rest)
            try:
                return payload, open_map(fd, payload.size, ref)
            finally:
                os.close(fd)

        if message[4] is not None:
            self.functions[message[3]] = mapped(message[4])
        args = mapped(message[6])
        needs = []
        for id, fields in message[7]:
            ref = None
            if fields[2]:
                self.client.hold(id)
                ref = objects.own(id)
            needs.append(mapped(fields, ref))
        call = Call(message, args, needs)
        if call.kind == METHOD and self.loop is not None:
            self.going[call.id] = call
            self.loop.call_soon_threadsafe(self._spawn, call)
        elif call.kind == METHOD and self.threads:
            self.going[call.id] = call
            self.threads[_group_of(call)].submit(self._perform, call)
        else:
            self._perform(call)

    def _spawn(self, call: Call) -> None:
        task = self.loop.create_task(self._perform_async(call))
        self.async_tasks[call.id] = task
        task.add_done_callback(lambda _: self.async_tasks.pop(call.id, None))

    def _cancel(self, id: bytes) -> None:
        self.cancelled.add(id)
        if self.loop is not None:
            def cancel() -> None:
                task = self.async_tasks.get(id)
                if task is not None:
                    task.cancel()

            self.loop.call_soon_threadsafe(cancel)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """The node wants the task of the main thread to end. It has said which before: if that is not yet running, it is looked up."""
        self.is_signalled = True
        if self.running is not None and not self.is_interrupted and not _is_talking(frame):
            self.is_interrupted = True
            raise Cancelled

    def _was_cancelled(self, call: Call) -> bool:
        # The node sends no signal for an actor's call: it would hit the one before, which still runs. To look before each costs a tenth of
        # a short one, and what is cancelled while a short one runs might as well have begun.
        if self.is_signalled or (call.kind == METHOD and time.monotonic() - self.heard > HEARD_SECONDS):
            self.is_signalled = False
            self._hear()
        return call.id in self.cancelled

    def _hear(self) -> None:
        """Takes what the node has said while a task runs in the main thread, which reads nothing meanwhile."""
        if not self.client.has_reader:
            self.client.look()
        self.heard = time.monotonic()

    def is_cancelled(self, id: bytes) -> bool:
        """Whether a task that runs here was cancelled."""
        self._hear()
        # An interrupted one has not read yet which was meant.
        return id in self.cancelled or (self.is_interrupted and self.running == id)

    # ---- one task ----

    def _function(self, id: bytes) -> Any:
        held = self.functions[id]
        if type(held) is tuple and len(held) == 2 and type(held[0]) is Payload:
            held = self.functions[id] = load(*held)
        return held

    def _arguments(self, call: Call) -> tuple[list[Any], dict[str, Any], Any]:
        args, kwargs, retried = load(*call.args)
        if call.needs:
            values = [load(*need) for need in call.needs]
            args = [values[arg.index] if type(arg) is Place else arg for arg in args]
            kwargs = {name: values[arg.index] if type(arg) is Place else arg for name, arg in kwargs.items()}
        return args, kwargs, retried

    def _label(self, call: Call) -> tuple[str, str]:
        if call.kind == FUNCTION:
            return f"{call.name}()", ""
        method = "__init__" if call.kind == CREATE else call.method
        about = f"actor_id={self.actor_id.hex()}"
        return f"{self.class_name}.{method}()", about

    def _enter(self, call: Call) -> None:
        resources = self.resources if call.kind == METHOD else call.resources
        if call.kind == CREATE:
            self.group = call.group
        runtime.current.set(Current(call.id, self.actor_id or None, call.name, resources, self, call.group or self.group))

    def _target(self, call: Call) -> Callable[..., Any]:
        if call.kind == FUNCTION:
            target: Callable[..., Any] = self._function(call.function)
            return target
        if call.kind == CREATE:
            return self._construct(call)
        if call.method == "__ray_terminate__":
            return _leave
        if call.method == "__ray_ready__":
            return lambda: True
        if call.method == "__ray_call__":
            return lambda function, *args, **kwargs: function(self.instance, *args, **kwargs)
        found: Callable[..., Any] = signatures.bound(self.instance, call.method)
        return found

    def _construct(self, call: Call) -> Callable[..., Any]:
        cls = self._function(call.function)
        self.actor_id, self.class_name, self.about, self.restarts = call.actor, call.name, call.about or {}, call.tries
        self.resources = call.resources
        self._enter(call)

        def construct(*args: Any, **kwargs: Any) -> None:
            self.instance = cls(*args, **kwargs)
            sizes: dict[str | None, int] = {None: call.max_concurrency, **(self.about.get("concurrency_groups") or {})}
            if self.about.get("is_async"):
                self._begin_loop(sizes)
            elif call.max_concurrency > 1 or len(sizes) > 1:
                from concurrent.futures import ThreadPoolExecutor

                self.threads = {group: ThreadPoolExecutor(most, f"weir-actor-{group}" if group else "weir-actor")
                                for group, most in sizes.items()}
                self.client.has_reader = True

        return construct

    def _perform(self, call: Call) -> None:
        """Runs it and says what came of it."""
        label, about = self._label(call)
        is_main = threading.current_thread() is threading.main_thread()
        self._enter(call)
        how = m.OK
        retried: Any = None
        values: list[Dumped] = []
        try:
            args, kwargs, retried = self._arguments(call)
            target = self._target(call)
            if self._was_cancelled(call) if is_main else call.id in self.cancelled:
                raise Cancelled
            if is_main:
                # From here on a signal raises, and not before: in what a garbage collection calls an exception would be lost.
                self.is_interrupted = False
                self.running = call.id
                if self.is_signalled and self._was_cancelled(call):
                    raise Cancelled
            result = target(*args, **kwargs)
            if _forks.is_fork:
                _forks.leave()
            del args, kwargs
            if call.returns == STREAMING:
                self._stream(call, result)
            else:
                if inspect.iscoroutine(result):
                    import asyncio

                    result = asyncio.run(result)
                self._values(call, result, values, retried)
            del result
            if is_main:
                self.running = None
            self._done(call, values, how)
            return
        except Cancelled:
            self.running = None
            payload, how = _cancelled(call), m.CANCELLED
        except Leaving:
            self.running = None
            payload, how = self._left(call), m.LEAVING
        except BaseException as error:
            if _forks.is_fork:
                _forks.leave(error)
            self.running = None
            label, about = self._label(call)
            payload = errors.of_task(error, label, about)
            how = m.FAILED
            if _is_retried(call, retried, error):
                how = m.RETRIABLE
            if isinstance(error, SystemExit) and call.kind == METHOD:
                payload, how = self._exits(call, error), m.LEAVING
        self._fail(call, payload, how, values)

    def _exits(self, call: Call, error: SystemExit) -> Payload:
        """sys.exit(0) is how an actor leaves; with anything else its process has failed, and max_restarts and max_task_retries count."""
        if error.code != 0:
            _forks.leave(error)
        return self._left(call)

    def _left(self, call: Call) -> Payload:
        from weir.exceptions import ActorDiedError

        self.is_leaving = True
        if self.client.has_reader:
            self.client.inbox.append(((m.EXIT,), []))
            self.client.idle.wake()
        if call.method == "__ray_terminate__":
            return dump(None, "None").store()[0]
        return errors.of_system(ActorDiedError(
            f"The actor died because it has left by exit_actor().\n\tclass_name: {self.class_name}\n\tactor_id: {self.actor_id.hex()}\n"
            f"\tpid: {os.getpid()}"))

    def _values(self, call: Call, result: Any, values: list[Dumped], retried: Any) -> None:
        """What it returned. Of a generator that fails half-way, what it gave before is in `values` all the same."""
        name = call.name if call.kind != METHOD else f"{call.name}.{call.method}"
        if call.returns == 1 and inspect.isgenerator(result):  # the one value that it gives
            take(result, 1, name, values)
        elif call.returns == 1 or call.kind == CREATE:
            values.append(dump(result, f"what {name} returns"))
        elif call.returns == DYNAMIC:
            refs = []
            try:
                for item in result:
                    refs.append(objects.own(self.client.put(dump(item, f"what {name} yields"))))
            except Exception as error:  # what it gave before can be got all the same, and this last
                if _is_retried(call, retried, error):
                    raise
                refs.append(objects.own(self.client.put(errors.of_task(error, *self._label(call)))))
            values.append(dump(objects.DynamicObjectRefGenerator(refs), name))
        elif call.returns > 0:
            take(result, call.returns, name, values)

    def _done(self, call: Call, values: Sequence[Dumped | Payload], how: int) -> None:
        if _forks.is_fork:
            _forks.leave()
        _forks.flush()
        payloads = []
        fds = []
        try:
            for value in values:
                payload, fd = (value, -1) if isinstance(value, Payload) else self.client.stored(value)
                payloads.append(tuple(payload))
                if fd >= 0:
                    fds.append(fd)
            self._end(call)
            self.client.send((m.DONE, call.id, payloads, how), fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _fail(self, call: Call, payload: Payload, how: int, values: list[Dumped]) -> None:
        """`values`: those that are there all the same, of what it was to return."""
        if how != m.FAILED or call.returns <= 1:
            values = []
        self._done(call, [*values, *[payload] * (max(1, call.returns) - len(values))], how)

    def _end(self, call: Call) -> None:
        self.going.pop(call.id, None)
        self.cancelled.discard(call.id)
        runtime.current.set(None)
        call.args = call.needs = None  # type: ignore[assignment]

    # ---- generators ----

    def _stream(self, call: Call, result: Any) -> None:
        if inspect.isasyncgen(result) or hasattr(result, "__anext__"):
            import asyncio

            async def drain() -> None:
                index = 0
                async for item in result:
                    index += 1
                    self._yield(call, index, item)

            asyncio.run(drain())
            return
        if not hasattr(result, "__iter__") or isinstance(result, (str, bytes, dict)):
            raise ValueError(f'{call.name} has num_returns="streaming" and returned {type(result).__name__}, which is no generator')
        for index, item in enumerate(result, 1):
            if call.kind == METHOD and self.is_cancelled(call.id):
                raise Cancelled
            self._yield(call, index, item)

    def _yield(self, call: Call, index: int, item: Any) -> None:
        if _forks.is_fork:
            _forks.leave()
        payload, fd = self.client.stored(dump(item, f"what {call.name} yields"))
        _forks.flush()
        self.client._send_payload((m.YIELD, call.id, index, tuple(payload)), fd)
        if call.backpressure and index >= call.backpressure:
            self._await_credit(call, index)

    def _await_credit(self, call: Call, index: int) -> None:
        """As many items as are allowed lie untaken: the next is made when one of them is taken."""
        taken = index - call.backpressure + 1
        if call.taken < taken:
            found, _ = self.client.request(m.CREDIT, ids.object_of(call.id, 0), taken)
            call.taken = max(call.taken, found)

    # ---- async actors ----

    def _begin_loop(self, sizes: dict[str | None, int]) -> None:
        import asyncio

        self.client.has_reader = True
        started = threading.Event()

        def run() -> None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
            self.limits = {group: asyncio.Semaphore(most) for group, most in sizes.items()}
            self.loop.call_soon(started.set)
            self.loop.run_forever()

        threading.Thread(target=run, name="weir-async", daemon=True).start()
        started.wait()

    async def _perform_async(self, call: Call) -> None:
        import asyncio

        async with self.limits[_group_of(call)]:
            self._enter(call)
            label, about = self._label(call)
            how = m.OK
            retried: Any = None
            values: list[Dumped] = []
            try:
                if call.id in self.cancelled:
                    raise asyncio.CancelledError
                args, kwargs, retried = self._arguments(call)
                result = self._target(call)(*args, **kwargs)
                if call.returns == STREAMING:
                    index = 0
                    if hasattr(result, "__anext__"):
                        async for item in result:
                            index += 1
                            self._yield(call, index, item)
                    else:
                        self._stream(call, result)
                else:
                    if inspect.isawaitable(result):
                        result = await result
                    self._values(call, result, values, retried)
                self._done(call, values, how)
                return
            except asyncio.CancelledError:
                payload, how = _cancelled(call), m.CANCELLED
            except Leaving:
                payload, how = self._left(call), m.LEAVING
            except BaseException as error:
                payload, how = errors.of_task(error, label, about), m.FAILED
                if _is_retried(call, retried, error):
                    how = m.RETRIABLE
                if isinstance(error, SystemExit):
                    payload, how = self._exits(call, error), m.LEAVING
            self._fail(call, payload, how, values)

    # ---- the end ----

    def _finish(self) -> None:
        for pool in self.threads.values():
            pool.shutdown(wait=True)
        if self.loop is not None:
            import asyncio

            async def rest() -> None:
                going = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
                await asyncio.gather(*going, return_exceptions=True)

            asyncio.run_coroutine_threadsafe(rest(), self.loop).result()
        instance, self.instance = self.instance, None
        del instance  # its __del__ runs before the process ends
        atexit._run_exitfuncs()  # now: whoever sees the connection closed ends the process
        _forks.flush()
        self.client.close()


def _is_talking(frame: FrameType | None) -> bool:
    """Whether it is in the middle of a word to or from the node, which must not be torn. The signal comes again."""
    if frame is None or frame.f_code in (Connection.rest.__code__, Slot.sleep.__code__):
        return False
    while frame is not None:
        if frame.f_globals.get("__name__") in ("weir.core.client", "weir.core.channel"):
            return True
        frame = frame.f_back
    return False


def take(result: Any, count: int, name: str, values: list[Dumped]) -> None:
    """Adds what a function with num_returns returned. A generator is not asked for more than it has to give."""
    if inspect.isgenerator(result):
        for item in result:
            if len(values) == count:
                result.close()
                break
            values.append(dump(item, f"what {name} yields"))
        if len(values) < count:
            raise ValueError(f"Task returned {len(values)} objects, but num_returns={count}.")
        return
    try:
        found = list(result)
    except TypeError:
        raise TypeError(f"{name} has num_returns={count} and returned one {type(result).__name__}, which cannot be taken apart") from None
    if len(found) != count:
        raise ValueError(f"Task returned {len(found)} objects, but num_returns={count}.")
    values += [dump(item, f"what {name} returns") for item in found]


def _is_retried(call: Call, retried: Any, error: BaseException) -> bool:
    """Whether its error only makes it run again. `retried`: what retry_exceptions says."""
    return bool(call.may_retry and retried and isinstance(error, Exception if retried is True else retried))


def _group_of(call: Call) -> str | None:
    """The concurrency group of a call of a method."""
    return call.about.get("concurrency_group") if call.about else None


def _leave() -> None:
    raise Leaving


def _cancelled(call: Call) -> Payload:
    from weir.exceptions import TaskCancelledError

    return errors.of_system(TaskCancelledError(error_message=f"Task: {call.id.hex()} was cancelled: {call.name}()"))


def main() -> None:
    """The life of the process."""
    import _socket
    import signal

    from weir import _session, _weir, _worker

    _weir.end_with(LIFELINE)
    more_descriptors()
    connection = Connection(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, SOCKET))
    greeting, _ = connection.recv()
    hello: dict[str, Any] = pickle.loads(greeting)[1]
    client = Client(connection, hello["address"])
    worker = Worker(client, hello)
    signal.signal(CANCEL_SIGNAL, worker.on_signal)  # before anybody knows where to send it
    client.send((m.HELLO, os.getpid()))
    runtime.use(client, hello["address"])
    _worker.adopt(hello["world"])
    # A Dataset that runs in a task has a session of its own, with a share of what there is.
    _session.set_share(memory_limit=hello["memory"], num_cpus=hello["cpus"])
    runtime.worker = worker
    _forks.watch()
    worker.run()
