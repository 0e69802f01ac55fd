"""Remote functions, and the decorator.

    @weir.remote ─▶ RemoteFunction.remote(…) ─▶ Task ─▶ the node ─▶ ObjectRef

The function is pickled once, when it is first needed, and kept as an object; workers get it with their first task of it. Pickled itself,
a RemoteFunction is the number of that object, which is how a function can call itself.
"""
from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from weir.core import ids, objects, options, runtime, signatures
from weir.core.payload import dump, load, nested
from weir.core.tasks import DYNAMIC, FUNCTION, STREAMING, Options, Place, Task

_nothing = dump(([], {}, None), "no arguments")


class Exported:
    """A function or class as an object of the session: made when first needed, again in another session."""

    def __init__(self, value: Any, name: str, ref: Any = None) -> None:
        self.value = value
        self.name = name
        self.ref = ref
        self.home: Any = None  # the runtime that has it
        self.lock = threading.RLock()
        self.is_busy = False

    def id(self) -> bytes:
        """Its number."""
        current = runtime.get()
        if self.home is current and not self.is_busy:
            found: bytes = self.ref._id
            return found
        with self.lock:  # other threads wait until it is there; this one may come again, for a function that calls itself
            if self.home is not current:
                if self.value is None and self.ref is not None:  # it came from the node
                    self.home = current
                    return bytes(self.ref._id)
                number = ids.new_object()
                self.is_busy = True
                self.ref = objects.own(number)
                self.home = current
                try:
                    dumped = dump(self.value, self.name)
                    dumped.refs = [ref for ref in dumped.refs if ref.binary() != number]
                    current.put(dumped, number)
                except BaseException:
                    self.home = None
                    raise
                finally:
                    self.is_busy = False
            return bytes(self.ref._id)

    def load(self) -> Any:
        """The function or class itself."""
        if self.value is None:
            found = runtime.get().get([self.ref._id], None)
            assert found is not None
            self.value = load(*found[0])
        return self.value

    def pickled(self) -> tuple[bytes, str]:
        """What a pickle has of it."""
        number = self.id()
        if nested.refs is not None and not self.is_busy:
            nested.refs.append(self.ref)
        return number, runtime.get().address


def _unexported(number: bytes, address: str, name: str) -> Exported:
    ref = objects.borrow(number, address)
    made = Exported(None, name, ref)
    made.home = runtime.get()
    return made


def arguments(args: tuple[Any, ...], kwargs: dict[str, Any], retried: Any, name: str) -> tuple[Any, tuple[bytes, ...], list[Any]]:
    """Pickled arguments; the references among them, whose values the function gets, by number; what keeps them meanwhile."""
    if not args and not kwargs and not retried:
        return _nothing, (), []
    refs: list[Any] = []

    def placed(value: Any) -> Any:
        if isinstance(value, objects.ObjectRef):
            refs.append(value)
            return Place(len(refs) - 1)
        if isinstance(value, objects.ObjectRefGenerator):
            value.__reduce__()
        return value

    plain = [placed(value) for value in args]
    named = {key: placed(value) for key, value in kwargs.items()}
    return dump((plain, named, retried or None), f"the arguments of {name}"), tuple(ref._id for ref in refs), refs


def results(task: Task) -> Any:
    """What .remote() returns for a task that was submitted."""
    outputs = [objects.own(id) for id in task.outputs()]
    if task.returns == STREAMING:
        return objects.ObjectRefGenerator(outputs[0])
    if task.returns in (1, DYNAMIC):
        return outputs[0]
    return outputs if outputs else None


def parent() -> bytes:
    """The task that this code runs in."""
    current = runtime.current.get()
    return current.task if current is not None else b""


class RemoteFunction:
    """A function that runs in a worker process. `f.remote(…)` starts it, `f.options(…)` is the same with other options.

    >>> import weir
    >>> @weir.remote(num_returns=2)
    ... def divide(a, b):
    ...     return a // b, a % b
    >>> weir.get(divide.remote(17, 5))
    [3, 2]
    """

    def __init__(self, function: Callable[..., Any] | None, given: dict[str, Any], exported: Exported | None = None,
                 name: str = "", is_generator: bool = False, signature: signatures.Signature | None = None) -> None:
        if function is not None:
            functools.update_wrapper(self, function)
            name = function.__name__
            is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
            signature = signatures.of(function)
        self._signature = signature
        self._function_name = name
        self._exported = exported or Exported(function, name)
        self._given = given
        self._is_generator = is_generator
        self._returns = options.returns_of(given.get("num_returns"), is_generator)
        self._options: Options | None = None
        retried = given.get("retry_exceptions") or None
        self._retried = tuple(retried) if isinstance(retried, (list, tuple)) else retried

    @property
    def _function(self) -> Any:
        return self._exported.load()

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Starts it. An ObjectRef (several for num_returns=n, an ObjectRefGenerator for a generator). References among the arguments
        are waited for, and the function gets their values.

        >>> import weir
        >>> @weir.remote
        ... def add(a, b): return a + b
        >>> weir.get(add.remote(1, add.remote(2, 3)))
        6
        """
        made = self._options
        here = runtime.current.get()
        if made is None or (here is not None and here.group is not None):  # what runs in a placement group may have children in it
            made = options.made(self._given.get("name") or self._function_name, self._given, False)
            if here is None or here.group is None:
                self._options = made
        signatures.check(self._signature, args, kwargs, self._function_name)
        current = runtime.get()
        function = self._exported.id()
        dumped, needs, kept = arguments(args, kwargs, self._retried, self._function_name)
        task = Task(FUNCTION, function, made.name, self._returns, needs, made, parent=parent())
        current.submit(task, dumped)
        del kept
        return results(task)

    def options(self, **more: Any) -> RemoteFunction:
        """The same function with other options.

        >>> import weir
        >>> @weir.remote
        ... def f(): return 1, 2
        >>> weir.get(f.options(num_returns=2).remote())
        [1, 2]
        """
        given = {**self._given, **options.check(more, options.COMMON + options.FUNCTION)}
        made = RemoteFunction(None, given, self._exported, self._function_name, self._is_generator, self._signature)
        made.__dict__.update({name: value for name, value in self.__dict__.items() if name.startswith("__")})
        return made

    def _remote(self, args: Any = None, kwargs: Any = None, **more: Any) -> Any:
        return (self.options(**more) if more else self).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Graphs of calls are not there: refused.

        >>> import weir
        >>> weir.remote(len).bind([])
        Traceback (most recent call last):
        ...
        NotImplementedError: weir has no graphs of calls (bind): call .remote() and pass the references on
        """
        raise NotImplementedError("weir has no graphs of calls (bind): call .remote() and pass the references on")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"Remote functions cannot be called directly. Instead of running '{self._function_name}()', try "
                        f"'{self._function_name}.remote()'.")

    def __reduce__(self) -> Any:
        number, address = self._exported.pickled()
        return _rebuild, (number, address, self._given, self._function_name, self._is_generator, self._signature)


def _rebuild(number: bytes, address: str, given: dict[str, Any], name: str, is_generator: bool,
             signature: signatures.Signature | None) -> RemoteFunction:
    made = RemoteFunction(None, given, _unexported(number, address, name), name, is_generator, signature)
    made.__dict__["__name__"] = name
    return made


def remote(*args: Any, **kwargs: Any) -> Any:
    """Makes a function, or a class, remote: its calls, or its objects, live in worker processes.

    Args:
        args: the function or class, when used without options.
        kwargs: for functions num_cpus (1), num_gpus, memory, resources, num_returns, max_retries (3), retry_exceptions,
            max_calls, runtime_env, scheduling_strategy, name; for classes num_cpus (0), max_concurrency, max_restarts (0), max_task_retries
            (0), max_pending_calls, name, namespace, lifetime, get_if_exists and the same.

    >>> import weir
    >>> @weir.remote
    ... def square(x):
    ...     return x * x
    >>> weir.get([square.remote(i) for i in range(4)])
    [0, 1, 4, 9]
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _made(args[0], {})
    if args or not kwargs:
        raise AssertionError(options.REMOTE.format(names=sorted(options.COMMON + options.FUNCTION + options.ACTOR)))
    return functools.partial(_made, given=kwargs)


def _made(thing: Any, given: dict[str, Any]) -> Any:
    if inspect.isclass(thing):
        from weir.core.handles import ActorClass

        return ActorClass(thing, options.check(given, options.COMMON + options.ACTOR))
    if inspect.isfunction(thing) or inspect.isbuiltin(thing):
        checked = options.check(given, options.COMMON + options.FUNCTION)
        if checked.get("num_returns") == "streaming" and inspect.iscoroutinefunction(thing):
            raise ValueError("num_returns='streaming' is for generators")
        return RemoteFunction(thing, checked)
    raise TypeError("The @ray.remote decorator must be applied to either a function or a class.")
