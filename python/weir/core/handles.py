"""Actors as programs see them: the class, the handle, its methods.

    @weir.remote class ─▶ ActorClass.remote(…) ─▶ ActorHandle ─▶ handle.method.remote(…) ─▶ ObjectRef

A handle is the number of an actor with what is known of its class. Handles are counted like references; when the last is gone, the actor ends
after the calls that it has. Those of get_actor do not count: they reach an actor for as long as somebody else keeps it, or it is detached.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weir.core import ids, objects, options, runtime, signatures
from weir.core.numbers import ActorID
from weir.core.functions import Exported, _unexported, arguments, parent, results
from weir.core.tasks import CREATE, METHOD, STREAMING, Options, Task

_ALWAYS = ("__ray_terminate__", "__ray_ready__", "__ray_call__")


class ActorClassInheritanceException(TypeError):
    """A class was derived from a remote one.

    >>> issubclass(ActorClassInheritanceException, TypeError)
    True
    """


def method(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Options of an actor's method: num_returns, max_task_retries, retry_exceptions, concurrency_group.

    >>> import weir
    >>> @weir.remote
    ... class Pair:
    ...     @weir.method(num_returns=2)
    ...     def both(self):
    ...         return 1, 2
    >>> weir.get(Pair.remote().both.remote())
    [1, 2]
    """
    if args or not kwargs or not set(kwargs) <= set(options.METHOD):
        raise AssertionError("The @ray.method decorator must be applied using at least one of the arguments in the list "
                             f"{sorted(options.METHOD)}, for example '@ray.method(num_returns=2)'.")
    checked = options.check(kwargs, options.METHOD)

    def annotate(function: Any) -> Any:
        function.__ray_method_options__ = checked
        return function

    return annotate


Method = tuple[int, dict[str, Any], bool, signatures.Signature | None]


def _methods(cls: type) -> dict[str, Method]:
    """Name → num_returns, options, whether it is async, and its parameters, of every method."""
    found: dict[str, Method] = {}
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "__func__", member)
        if not callable(function) and not isinstance(member, property):
            continue
        if isinstance(member, (property, type)) or (name.startswith("__") and not hasattr(function, "__code__")):
            continue
        given = {key: value for key, value in getattr(function, "__ray_method_options__", {}).items()}
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        returns = options.returns_of(given.get("num_returns"), is_generator)
        kept = {key: value for key, value in given.items() if key in ("max_task_retries", "_generator_backpressure_num_objects", "concurrency_group")}
        retried = given.get("retry_exceptions")
        if retried:
            kept["retry_exceptions"] = tuple(retried) if isinstance(retried, (list, tuple)) else retried
        found[name] = (returns, kept, is_async, signatures.of(function, 0 if isinstance(member, staticmethod) else 1))
    for name in _ALWAYS:
        found[name] = (1, {}, False, None)
    return found


class ActorClass:
    """A class whose objects are actors. `Class.remote(…)` makes one.

    >>> import weir
    >>> @weir.remote
    ... class Counter:
    ...     def __init__(self): self.n = 0
    ...     def add(self, k=1):
    ...         self.n += k
    ...         return self.n
    >>> counter = Counter.remote()
    >>> weir.get([counter.add.remote() for _ in range(3)])
    [1, 2, 3]
    """

    def __init__(self, cls: Any, given: Any, exported: Exported | None = None, about: dict[str, Any] | None = None) -> None:
        if isinstance(given, tuple):  # class Derived(Remote): Python calls the type of the base
            raise ActorClassInheritanceException(
                f"Attempted to define subclass '{cls}' of actor class '{given[0]._class_name}'. Inheriting from actor classes is not "
                "currently supported. You can instead inherit from a non-actor base class and make the derived class an actor class "
                "(with @ray.remote).")
        if about is None:
            methods = _methods(cls)
            signature = signatures.of(cls.__init__, 1) if cls.__init__ is not object.__init__ else (0, 0, ())
            about = {"class_name": cls.__name__, "methods": methods, "signature": signature, "is_async": any(entry[2] for entry in methods.values())}
            self.__doc__ = cls.__doc__
            self.__module__ = cls.__module__
            self.__name__ = f"ActorClass({cls.__name__})"
        self._class_name: str = about["class_name"]
        self._about = about
        self._exported = exported or Exported(cls, self._class_name)
        self._given = given

    @property
    def __ray_actor_class__(self) -> Any:
        return self._exported.load()

    @property
    def __ray_metadata__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        """Attributes of the class itself: constants, static methods and methods of the class, which a method may look up by its name."""
        exported = self.__dict__.get("_exported")
        if exported is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        cls = exported.load()
        try:
            return getattr(cls, name)
        except AttributeError:
            raise AttributeError(f"ActorClass({self._class_name}) has no attribute {name!r}") from None

    def __mro_entries__(self, bases: tuple[Any, ...]) -> Any:
        raise ActorClassInheritanceException(
            f"Attempted to define subclass of actor class '{self._class_name}'. Inheriting from actor classes is not currently supported. "
            "You can instead inherit from a non-actor base class and make the derived class an actor class (with @ray.remote).")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{self._class_name}()', use '{self._class_name}.remote()'.")

    def __repr__(self) -> str:
        return f"ActorClass({self._class_name})"

    def __reduce__(self) -> Any:
        number, address = self._exported.pickled()
        return _class_rebuilt, (number, address, self._given, self._about)

    def options(self, **more: Any) -> ActorClass:
        """The same class with other options.

        >>> import weir
        >>> @weir.remote
        ... class Box:
        ...     def value(self): return 7
        >>> box = Box.options(name="box").remote()
        >>> weir.get(weir.get_actor("box").value.remote())
        7
        """
        if "concurrency_groups" in more:
            raise ValueError("Setting 'concurrency_groups' is not supported in '.options()': @ray.remote(concurrency_groups=…) has them.")
        return ActorClass(None, {**self._given, **options.check(more, options.COMMON + options.ACTOR)}, self._exported, self._about)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._about["methods"]})

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Graphs of calls are not there: refused.

        >>> import weir
        >>> weir.remote(dict).bind()
        Traceback (most recent call last):
        ...
        NotImplementedError: weir has no graphs of calls (bind): call .remote() and pass the handle on
        """
        raise NotImplementedError("weir has no graphs of calls (bind): call .remote() and pass the handle on")

    def _remote(self, args: Any = None, kwargs: Any = None, **more: Any) -> Any:
        return (self.options(**more) if more else self).remote(*(args or ()), **(kwargs or {}))

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Makes an actor, with these arguments of the constructor. The handle is there at once, the actor when its constructor has run.
        It ends when no handle of it is left.

        >>> import weir
        >>> @weir.remote
        ... class Box:
        ...     def __init__(self, value): self.value = value
        ...     def get(self): return self.value
        >>> weir.get(Box.remote(7).get.remote())
        7
        """
        given = self._given
        name, namespace = given.get("name"), given.get("namespace")
        current = runtime.get()
        if given.get("get_if_exists") and name is None:
            raise ValueError("The actor name must be specified to use `get_if_exists`.")
        if name is not None:
            found = current.call("find_actor", name, namespace)
            if found is not None:
                handle = ActorHandle._weak(found)
                if given.get("get_if_exists"):
                    return handle
                from weir.exceptions import ActorAlreadyExistsError

                raise ActorAlreadyExistsError(f"The name {name} (namespace={namespace}) is already taken. Please use a different name or get the existing "
                                 f"actor using ray.get_actor('{name}', namespace='{namespace}')")
        signatures.check(self._about["signature"], args, kwargs, f"{self._class_name}.__init__")
        made = options.made(self._class_name, given, True)
        most = given.get("max_concurrency")
        made.max_concurrency = int(most) if most else options.ASYNC_CONCURRENCY if self._about["is_async"] else 1
        groups = dict(given.get("concurrency_groups") or {})
        if given.get("allow_out_of_order_execution") is False and (self._about["is_async"] or made.max_concurrency > 1):
            raise ValueError("If you're using an async or threaded actor, in-order execution is not supported: calls of "
                             f"{self._class_name} run beside each other. Leave allow_out_of_order_execution out, or max_concurrency and "
                             "async methods")
        for method, entry in self._about["methods"].items():
            check_group(entry[1].get("concurrency_group"), groups, f"{self._class_name}.{method}")
        id = ids.new_actor()
        about = {**self._about, "name": name, "namespace": namespace, "lifetime": given.get("lifetime"),
                 "max_restarts": int(given.get("max_restarts") or 0), "max_task_retries": int(given.get("max_task_retries") or 0),
                 "max_pending_calls": int(given.get("max_pending_calls") or -1), "concurrency_groups": groups}
        made.actor = about
        function = self._exported.id()
        dumped, needs, kept = arguments(args, kwargs, None, self._class_name)
        task = Task(CREATE, function, self._class_name, 0, needs, made, actor=id, parent=parent())
        current.submit(task, dumped)
        del kept
        return ActorHandle._own({"id": id, **about})


def check_group(name: str | None, groups: dict[str, int], whose: str) -> None:
    """ValueError: a method is of a group that its actor does not have."""
    if name is not None and name not in groups:
        raise ValueError(f"{whose} is of the concurrency group {name!r}, and its actor has "
                         + (", ".join(map(repr, groups)) if groups else "none") + f": concurrency_groups={{{name!r}: …}} declares it")


def _class_rebuilt(number: bytes, address: str, given: dict[str, Any], about: dict[str, Any]) -> ActorClass:
    return ActorClass(None, given, _unexported(number, address, about["class_name"]), about)


class ActorMethod:
    """A method of an actor. `handle.method.remote(…)` calls it.

    >>> import weir
    >>> @weir.remote
    ... class Echo:
    ...     def say(self, x): return x
    >>> weir.get(Echo.remote().say.remote(5))
    5
    """

    __slots__ = ("_handle", "_name", "_returns", "_given", "_signature")

    def __init__(self, handle: ActorHandle, name: str, returns: int, given: dict[str, Any], signature: signatures.Signature | None) -> None:
        self._signature = signature
        self._handle = handle
        self._name = name
        self._returns = returns
        self._given = given

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it. An ObjectRef (several for num_returns=n, an ObjectRefGenerator for a generator).

        >>> import weir
        >>> @weir.remote
        ... class Box:
        ...     def value(self): return 7
        >>> weir.get(Box.remote().value.remote())
        7
        """
        handle = self._handle
        signatures.check(self._signature, args, kwargs, self._name)
        current = runtime.get()
        limit = handle._about.get("max_pending_calls", -1)
        if limit > 0 and current.call("actor", handle._id).get("pending", 0) >= limit:
            from weir.exceptions import PendingCallsLimitExceeded

            raise PendingCallsLimitExceeded(f"the actor {handle._about['class_name']} has {limit} calls that have not ended: "
                                            "max_pending_calls allows no more")
        check_group(self._given.get("concurrency_group"), handle._about.get("concurrency_groups") or {}, self._name)
        made = handle._options_of(self._given)
        dumped, needs, kept = arguments(args, kwargs, self._given.get("retry_exceptions"), self._name)
        task = Task(METHOD, b"", self._given.get("name") or f"{handle._about['class_name']}.{self._name}", self._returns, needs, made,
                    actor=handle._id, method=self._name, parent=parent())
        current.submit(task, dumped)
        del kept
        return results(task)

    def options(self, **more: Any) -> ActorMethod:
        """The same method with other options.

        >>> import weir
        >>> @weir.remote
        ... class Pair:
        ...     def both(self): return 1, 2
        >>> weir.get(Pair.remote().both.options(num_returns=2).remote())
        [1, 2]
        """
        checked = options.check(more, options.METHOD)
        returns = options.returns_of(checked["num_returns"], self._returns == STREAMING) if "num_returns" in checked else self._returns
        retried = checked.get("retry_exceptions")
        if isinstance(retried, (list, tuple)):
            checked["retry_exceptions"] = tuple(retried)
        return ActorMethod(self._handle, self._name, returns, {**self._given, **checked}, self._signature)

    def _remote(self, args: Any = None, kwargs: Any = None, **more: Any) -> Any:
        return (self.options(**more) if more else self).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Graphs of calls are not there: refused.

        >>> import weir
        >>> @weir.remote
        ... class Box:
        ...     def value(self): return 7
        >>> Box.remote().value.bind()
        Traceback (most recent call last):
        ...
        NotImplementedError: weir has no graphs of calls (bind): call .remote()
        """
        raise NotImplementedError("weir has no graphs of calls (bind): call .remote()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"Actor methods cannot be called directly. Instead of running 'object.{self._name}()', try "
                        f"'object.{self._name}.remote()'.")


class ActorHandle:
    """An actor. Its methods are attributes: `handle.method.remote(…)`.

    >>> import weir
    >>> @weir.remote
    ... class Box:
    ...     def value(self): return 7
    >>> box = Box.remote()
    >>> weir.get(box.value.remote()), repr(box).startswith("Actor(Box, ")
    (7, True)
    """

    _id: bytes
    _about: dict[str, Any]
    _made: dict[Any, Options]
    _is_weak = False

    @classmethod
    def _own(cls, about: dict[str, Any]) -> ActorHandle:
        """A handle that is counted already."""
        handle = cls.__new__(cls)
        about = dict(about)
        handle.__dict__.update(_id=about.pop("id"), _about=about, _made={})
        return handle

    @classmethod
    def _weak(cls, about: dict[str, Any]) -> ActorHandle:
        """A handle that is not counted."""
        handle = cls._own(about)
        handle.__dict__["_is_weak"] = True
        return handle

    def __init__(self) -> None:
        raise TypeError("handles of actors are made by Class.remote() and get_actor()")

    def __del__(self, drop: Callable[[bytes], None] = runtime.drop) -> None:
        if "_id" in self.__dict__ and not self._is_weak:
            drop(self._id)

    @property
    def _actor_id(self) -> ActorID:
        return ActorID(self._id)

    @property
    def _ray_actor_id(self) -> ActorID:
        return ActorID(self._id)

    def binary(self) -> bytes:
        """Its number, 16 bytes.

        >>> import weir
        >>> class Box: pass
        >>> len(weir.remote(Box).remote().binary())
        16
        """
        return self._id

    def _options_of(self, given: dict[str, Any]) -> Options:
        retries = given.get("max_task_retries")
        retries = self._about.get("max_task_retries", 0) if retries is None else retries
        backpressure = given.get("_generator_backpressure_num_objects") or 0
        group = given.get("concurrency_group")
        key = (retries, bool(given.get("retry_exceptions")), backpressure, group)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Options(self._about["class_name"], {})
            made.max_retries = int(retries)
            made.backpressure = max(0, backpressure)
            made.actor = {"concurrency_group": group} if group else None
        return made

    def __getattr__(self, name: str) -> ActorMethod:
        methods = self.__dict__["_about"]["methods"]
        if name not in methods:
            raise AttributeError(f"'ActorHandle' object has no attribute '{name}': {self._about['class_name']} has "
                                 + ", ".join(sorted(method for method in methods if not method.startswith("__"))))
        returns, given, _, signature = methods[name]
        return ActorMethod(self, name, returns, given, signature)

    def __dir__(self) -> list[str]:
        return sorted(self._about["methods"])

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._id == self._id

    def __repr__(self) -> str:
        return f"Actor({self._about['class_name']}, {self._id.hex()})"

    def __copy__(self) -> ActorHandle:
        return self

    def __deepcopy__(self, memo: Any) -> ActorHandle:
        return self

    def __reduce__(self) -> Any:
        current = runtime.get()
        if self._is_weak:
            return _borrowed_weak, (self._id, self._about, current.address)
        objects.note(self, current)
        return _borrowed, (self._id, self._about, current.address)


def _borrowed(id: bytes, about: dict[str, Any], address: str) -> ActorHandle:
    runtime.belongs_to(address)
    return handle_of(id, about)


def _borrowed_weak(id: bytes, about: dict[str, Any], address: str) -> ActorHandle:
    runtime.belongs_to(address)
    return ActorHandle._weak({"id": id, **about})


def handle_of(id: bytes, about: dict[str, Any]) -> ActorHandle:
    """One more handle of an actor."""
    runtime.get().hold(id)
    return ActorHandle._own({"id": id, **about})


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The handle of a named actor. It does not keep the actor: that ends when the handles are gone which Class.remote() gave, unless it
    is detached. ValueError: there is none of that name.

    >>> import weir
    >>> @weir.remote
    ... class Box:
    ...     def value(self): return 7
    >>> box = Box.options(name="box").remote()
    >>> weir.get(weir.get_actor("box").value.remote())
    7
    """
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor")
    found = runtime.get().call("find_actor", name, namespace)
    if found is None:
        raise ValueError(f"Failed to look up actor with name '{name}'. This could be because 1. You are trying to look up a named actor you "
                         "didn't create. 2. The named actor died. 3. You did not use a namespace matching the namespace of the actor.")
    return ActorHandle._weak(found)


def exit_actor() -> None:
    """Inside an actor: it ends, and this call with it.

    >>> import weir
    >>> weir.core.exit_actor()
    Traceback (most recent call last):
    TypeError: exit_actor API is called on a non-actor worker or driver: it ends the actor that calls it
    """
    worker = runtime.worker
    if worker is None or not worker.actor_id:
        raise TypeError("exit_actor API is called on a non-actor worker or driver: it ends the actor that calls it")
    from weir.core.worker import Leaving

    raise Leaving
