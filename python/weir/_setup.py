"""The setup of a Python step: what every worker of it maps to learn what to do.

    driver:  write(head, objects, name) ─▶ (memfd, size)          worker:  read(view) ─▶ head;  load(view, head) ─▶ objects

One memfd, mapped privately by each worker, so a large array in a closure exists once:

    0        8           16                    64-aligned        64-aligned   64-aligned
    ┌────────┬───────────┬─────────────────────┬─────────────────┬────────────┬────────────┬───
    │magic   │size of    │head: pickled plain  │objects: pickled │buffer 0    │buffer 1    │ …
    │weirset1│head, u64  │dict, the worker's   │by cloudpickle,  │(> 64 KiB)  │            │
    │        │           │world and the places │protocol 5       │            │            │
    └────────┴───────────┴─────────────────────┴─────────────────┴────────────┴────────────┴───

The head is read before the objects, because unpickling them imports modules and so needs sys.path, the working
directory and the environment. Modules that a worker can import go by reference; `__main__` and modules that it cannot
find on sys.path go by value.
"""
from __future__ import annotations

import functools
import io
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

MAGIC = b"weirset1"
ALIGNMENT = 64
APART_MIN = 64 << 10  # a buffer of this size or more lies apart, once for all workers
LARGE = 100 << 20     # a setup beyond this is worth a warning
CACHED = type(functools.lru_cache(len))

_lock = threading.RLock()  # cloudpickle's list of modules that go by value is the process's


# ---- writing ----

def write(head: Mapping[str, Any], objects: Any, name: str) -> tuple[int, int]:
    """The memfd and its size. TypeError, naming the variable, for what cannot be pickled."""
    data, buffers = dump(objects, name)
    total = len(data) + sum(buffer.nbytes for buffer in buffers)
    if total > LARGE:
        warn_of_size(objects, name, total)
    places: dict[str, Any] = {"pickle": (0, len(data)), "buffers": [(0, buffer.nbytes) for buffer in buffers]}
    # The places are in the head, and their digits in its size: the head is measured with the largest figures first.
    room = len(pickle.dumps({**head, "places": _placed(places, 1 << 62)}, protocol=5))
    places = _placed(places, 16 + room)
    packed = pickle.dumps({**head, "places": places}, protocol=5)
    fd = os.memfd_create("weir-setup", os.MFD_CLOEXEC)
    try:
        size = max([places["pickle"], *places["buffers"]], key=lambda place: place[0])
        end = size[0] + size[1]
        os.ftruncate(fd, end)
        _write_at(fd, 0, MAGIC + len(packed).to_bytes(8, "little") + packed)
        _write_at(fd, places["pickle"][0], data)
        for (offset, _), buffer in zip(places["buffers"], buffers):
            _write_at(fd, offset, buffer)
    except BaseException:
        os.close(fd)
        raise
    return fd, end


def _placed(places: dict[str, Any], start: int) -> dict[str, Any]:
    def next_place(size: int) -> tuple[int, int]:
        nonlocal start
        offset = -(-start // ALIGNMENT) * ALIGNMENT
        start = offset + size
        return offset, size

    return {"pickle": next_place(places["pickle"][1]), "buffers": [next_place(size) for _, size in places["buffers"]]}


def _write_at(fd: int, offset: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view.nbytes:
        done = os.pwrite(fd, view[:1 << 30], offset)
        view = view[done:]
        offset += done


def dump(objects: Any, name: str) -> tuple[bytes, list[memoryview]]:
    """Pickled objects, and the large buffers apart."""
    buffers: list[memoryview] = []

    def apart(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: goes in-band
            return True
        if raw.nbytes < APART_MIN:
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    # References in a step are its Dataset's: it has them for as long as it runs.
    nested = sys.modules["weir.core.payload"].nested if "weir.core.payload" in sys.modules else None
    if nested is not None:
        nested.quiet = True
    try:
        _dump_into(file, objects, apart)
    except Exception as error:
        raise TypeError(_why_not(objects, name, error)) from error
    finally:
        if nested is not None:
            nested.quiet = False
    return file.getvalue(), buffers


def _dump_into(file: io.BytesIO, objects: Any, apart: Callable[[pickle.PickleBuffer], bool] | None) -> None:
    import cloudpickle

    with _lock:
        pickler = _pickler_class()(file, apart)
        try:
            pickler.dump(objects)
        finally:
            for module in pickler.by_value:
                cloudpickle.unregister_pickle_by_value(module)


_pickler: Any = None


def _pickler_class() -> Any:
    global _pickler
    if _pickler is not None:
        return _pickler
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """cloudpickle's, and: modules that a worker cannot import go by value, functions with a cache, too, large tensors as arrays."""

        def __init__(self, file: io.BytesIO, apart: Callable[[pickle.PickleBuffer], bool] | None) -> None:
            super().__init__(file, protocol=5, buffer_callback=apart)
            self.by_value: list[ModuleType] = []
            self.seen: set[str] = set()

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, (type, FunctionType)):
                self.look_at(getattr(obj, "__module__", None))
            elif isinstance(obj, ModuleType):
                self.look_at(obj.__name__)
            elif isinstance(obj, CACHED) and _goes_by_value(obj):
                return rebuild_cached, (obj.__wrapped__, obj.cache_parameters())
            elif isinstance(obj, getattr(sys.modules.get("torch"), "Tensor", ())):  # None there hides the package
                reduced = _reduce_tensor(obj)
                if reduced is not None:
                    return reduced
            return super().reducer_override(obj)

        def look_at(self, name: Any) -> None:
            if not isinstance(name, str) or name in self.seen:
                return
            self.seen.add(name)
            module = sys.modules.get(name)
            if module is not None and name != "__main__" and not is_importable(name, module):
                if module not in self.by_value and name not in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.register_pickle_by_value(module)
                    self.by_value.append(module)

    _pickler = Pickler
    return _pickler


def is_importable(name: str, module: ModuleType) -> bool:
    """Whether a process with this one's sys.path that imports `name` gets the same module."""
    top = name.partition(".")[0]
    if top == "__mp_main__":  # what multiprocessing calls the program in the processes that it starts
        return False
    if top in sys.stdlib_module_names or top in ("weir", "numpy", "cloudpickle"):
        return True
    parent, _, _ = name.rpartition(".")
    path: Any = None
    if parent:
        above = sys.modules.get(parent)
        if above is None or not is_importable(parent, above):
            return False
        path = getattr(above, "__path__", None)
        if path is None:
            # A submodule that its parent made itself (six.moves): it comes with the parent.
            return True
    file = getattr(module, "__file__", None)
    for finder in sys.meta_path:
        # Others were installed by this process, and a worker has not got them.
        owner = getattr(finder, "__module__", "") or ""
        if not (owner.startswith(("_frozen_importlib", "__editable__", "_distutils_hack", "importlib.", "six"))):
            continue
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, None) if find is not None else None
        if spec is not None:
            origin = spec.origin
            if file is None or origin in ("built-in", "frozen"):
                return True
            # No origin: a folder of that name, which hides the module's file.
            return origin is not None and (os.path.abspath(origin) == os.path.abspath(file) or _same_file(origin, file))
    return parent != "" and file is None


def _goes_by_value(function: Any) -> bool:
    """Of what functools.lru_cache made, which pickles as a name."""
    name = function.__module__
    if name == "__main__" or name not in sys.modules or "<locals>" in function.__qualname__:
        return True
    return not is_importable(name, sys.modules[name])


def rebuild_cached(function: Any, parameters: dict[str, Any]) -> Any:
    """The function with a cache of its own. Named in pickles."""
    return functools.lru_cache(**parameters)(function)


def _same_file(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


# ---- torch: a tensor's memory lies apart, too ----

def _reduce_tensor(tensor: Any) -> Any:
    torch: Any = sys.modules["torch"]
    is_parameter = type(tensor) is torch.nn.Parameter
    if (type(tensor) is not torch.Tensor and not is_parameter) or tensor.grad_fn is not None or tensor.__dict__:
        return None
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return None
    if tensor.is_quantized or tensor.numel() * tensor.element_size() < APART_MIN:
        return None
    dense = tensor.detach().contiguous()
    plain = dense.view(torch.uint8) if dense.dim() else None
    if plain is None:
        return None
    return rebuild_tensor, (plain.numpy(), str(tensor.dtype).partition(".")[2], tuple(tensor.shape),
                            bool(tensor.requires_grad), is_parameter)


def rebuild_tensor(array: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool, is_parameter: bool) -> Any:
    """A tensor over the array's memory. Named in pickles."""
    import torch

    tensor = torch.from_numpy(array).view(getattr(torch, dtype)).reshape(shape)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


# ---- which variable it is ----

def variables(value: Any) -> Iterator[tuple[str, Any]]:
    """What a function, class or object brings with it, by name."""
    if isinstance(value, MethodType):
        yield "the object of the method", value.__self__
        value = value.__func__
    if isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                yield f"the variable {name!r}", cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        for name in _global_names(value.__code__):
            if name in value.__globals__:
                yield f"the variable {name!r}", value.__globals__[name]
        defaults = value.__defaults__ or ()
        for name, default in zip(value.__code__.co_varnames[value.__code__.co_argcount - len(defaults):], defaults):
            yield f"the default of {name!r}", default
        for name, default in (value.__kwdefaults__ or {}).items():
            yield f"the default of {name!r}", default
    elif isinstance(value, type):
        for name, member in vars(value).items():
            if not (name.startswith("__") and name.endswith("__")) or isinstance(member, FunctionType):
                yield f"the attribute {name!r}", getattr(member, "__func__", member)
    elif hasattr(value, "func") and hasattr(value, "keywords") and hasattr(value, "args"):  # functools.partial
        yield "the function of the partial", value.func
        for i, argument in enumerate(value.args):
            yield f"argument {i} of the partial", argument
        for name, argument in value.keywords.items():
            yield f"the argument {name!r} of the partial", argument
    elif isinstance(value, dict):
        for key, item in list(value.items())[:1000]:
            yield f"the item {key!r}", item
    elif isinstance(value, (list, tuple, set, frozenset)):
        for i, item in enumerate(list(value)[:1000]):
            yield f"item {i}", item
    elif hasattr(value, "__dict__") and not isinstance(value, (ModuleType, BuiltinFunctionType)):
        for name, item in vars(value).items():
            yield f"the attribute {name!r}", item


def _global_names(code: CodeType) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _global_names(constant)
    return list(dict.fromkeys(names))


def named(objects: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The parts of a call by the names that its user gave them."""
    if objects.get("fn") is not None:
        yield "", objects["fn"]
    for group in ("fn_args", "fn_constructor_args"):
        for i, value in enumerate(objects.get(group) or ()):
            yield f"{group}[{i}]", value
    for group in ("fn_kwargs", "fn_constructor_kwargs"):
        for key, value in (objects.get(group) or {}).items():
            yield f"{group}[{key!r}]", value


def _pickles(value: Any) -> Exception | None:
    try:
        _dump_into(io.BytesIO(), value, lambda buffer: False)
    except Exception as error:
        return error
    return None


def _refuses(value: Any) -> bool:
    """Whether its class says itself that it is not pickled: then none of its parts is the reason."""
    if not any(isinstance(getattr(type(value), name, None), FunctionType) for name in ("__reduce__", "__reduce_ex__", "__getstate__")):
        return False
    try:
        value.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    except Exception:
        return True
    return False


def _culprit(label: str, value: Any, error: Exception, depth: int) -> tuple[str, Any, Exception]:
    if depth and not _refuses(value):
        for name, part in variables(value):
            inner = _pickles(part)
            if inner is not None:
                path = f"{name} of {label}" if label and not name.startswith("the variable") else name
                return _culprit(path, part, inner, depth - 1)
    return label, value, error


def _why_not(objects: Any, name: str, error: Exception) -> str:
    parts = list(named(objects)) if isinstance(objects, Mapping) else [("", objects)]
    for label, value in parts:
        inner = _pickles(value)
        if inner is not None:
            label, culprit, inner = _culprit(label, value, inner, 8)
            what = f"{label}, of type {type(culprit).__qualname__}," if label else "the function"
            return (f"{name} cannot be sent to worker processes: {what} cannot be pickled ({inner}): it was found to be "
                    "non-serializable. Make it inside the function, or in the constructor of a class that is given instead of a "
                    "function")
    return f"{name} cannot be sent to worker processes: {error}"


def warn_of_size(objects: Any, name: str, total: int) -> None:
    """Logs a warning that names the largest variable."""
    import logging

    largest, label = 0, ""
    for place, value in named(objects) if isinstance(objects, Mapping) else [("", objects)]:
        parts = list(variables(value)) if place == "" else [(place, value)]
        for part_label, part in parts:
            size = _size_of(part)
            if size > largest:
                largest, label = size, part_label
    which = f", of which {label} has {largest / (1 << 20):.0f} MiB" if label else ""
    logging.getLogger("weir").warning(
        "The UDF of operator %s is too large (%.0f MiB%s) to be sent with each task: it lies in shared memory, once for all workers, and counts "
        "towards memory_limit. Reading it inside the function may be better", name, total / (1 << 20), which)


def _size_of(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    apart = 0

    def count(buffer: pickle.PickleBuffer) -> bool:
        nonlocal apart
        apart += memoryview(buffer).nbytes
        return False

    file = io.BytesIO()
    try:
        _dump_into(file, value, count)
    except Exception:  # it is only looked for, not sent
        return 0
    return apart + file.tell()


# ---- reading ----

def read(view: memoryview) -> dict[str, Any]:
    """The head of a setup."""
    if bytes(view[:8]) != MAGIC:
        raise ValueError("this is no setup of a Python step")
    head: dict[str, Any] = pickle.loads(view[16:16 + int.from_bytes(view[8:16], "little")])
    return head


def load(view: memoryview, head: Mapping[str, Any]) -> Any:
    """The objects of a setup; their large buffers stay in the view."""
    places = head["places"]
    offset, size = places["pickle"]
    buffers = [view[at:at + length] for at, length in places["buffers"]]
    return pickle.loads(view[offset:offset + size], buffers=buffers)
