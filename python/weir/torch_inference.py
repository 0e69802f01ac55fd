"""TorchInference: a class for map_batches that has the way to the device and back done for it.

>>> from weir.torch_inference import TorchInference
>>> class Doubled(TorchInference):
...     def get_device(self):
...         import torch
...         return torch.device("cpu")
...     def process_on_device(self, input_batch, collated_tensors, collated_other):
...         return {"x": collated_tensors["id"] * 2}
>>> import weir
>>> weir.range(2).map_batches(Doubled, batch_size=2).take_all()
[{'x': 0}, {'x': 2}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weir._apply import CO_ASYNC_GENERATOR, CO_COROUTINE

if TYPE_CHECKING:
    import torch


class TorchInference:
    """The base of classes for inference: for every batch, collate(), to the device, process_on_device(), back, finalize().

    A subclass has process_on_device, and initialize() in place of a constructor; what it returns may be (tensors, other), and `other`
    goes to the next step as it is.

    >>> import numpy, torch
    >>> class Scaled(TorchInference):
    ...     def initialize(self, factor): self.factor = factor
    ...     def get_device(self): return torch.device("cpu")
    ...     def process_on_device(self, input_batch, collated_tensors, collated_other):
    ...         return {"y": collated_tensors["x"] * self.factor}
    >>> Scaled(3)({"x": numpy.array([1, 2])})
    {'y': array([3, 6])}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._device: Any = None
        self.initialize(*args, **kwargs)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Called once in each worker, with fn_constructor_args and fn_constructor_kwargs: the place to load a model.

        >>> class Model(TorchInference):
        ...     def initialize(self, path): self.path = path
        >>> Model("weights.pt").path
        'weights.pt'
        """

    def get_device(self) -> torch.device:
        """Where batches are worked on: the GPU. RuntimeError without one.

        >>> import torch
        >>> class OnTheCPU(TorchInference):
        ...     def get_device(self): return torch.device("cpu")
        >>> OnTheCPU().get_device()
        device(type='cpu')
        """
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("CUDA is not available: there is no GPU. TorchInference.get_device may be overridden to return torch.device('cpu')")
        return torch.device("cuda")

    def collate(self, input_batch: Any) -> Any:
        """The batch as tensors of the CPU. TypeError for other batches than dicts of NumPy arrays.

        >>> import numpy
        >>> TorchInference().collate({"x": numpy.array([1, 2])})
        {'x': tensor([1, 2])}
        """
        import numpy

        from weir.torch_utils import convert_ndarray_batch_to_torch_tensor_batch

        if not isinstance(input_batch, dict) or not all(isinstance(column, numpy.ndarray) for column in input_batch.values()):
            raise TypeError(
                f"The default `collate` only supports NumPy batches (`Dict[str, np.ndarray]`); got {type(input_batch).__name__}. Use "
                '`batch_format="numpy"` in `map_batches`, or override `collate` to convert the batch yourself.'
            )
        return convert_ndarray_batch_to_torch_tensor_batch(input_batch)

    def process_on_device(self, input_batch: Any, collated_tensors: Any, collated_other: Any) -> Any:
        """The work, on tensors of the device.

        Args:
            input_batch: as map_batches gives it.
            collated_tensors: what collate() made of it, on the device.
            collated_other: what collate() returned beside its tensors; None.

        Returns tensors of the device, or a pair of these and something else for finalize().

        >>> import torch
        >>> class Doubled(TorchInference):
        ...     def process_on_device(self, input_batch, collated_tensors, collated_other):
        ...         return {"y": collated_tensors["x"] * 2}
        >>> Doubled().process_on_device(None, {"x": torch.tensor([1, 2])}, None)
        {'y': tensor([2, 4])}
        """
        raise NotImplementedError(f"`{type(self).__name__}` must implement `process_on_device`.")

    def finalize(self, input_batch: Any, output_tensors: Any, output_other: Any) -> Any:
        """The results, which are on the CPU, as a batch.

        >>> import torch
        >>> TorchInference().finalize(None, {"y": torch.tensor([2, 4])}, None)
        {'y': array([2, 4])}
        """
        from weir.torch_utils import convert_tensors_to_numpy

        if output_other is not None:
            raise TypeError(
                "The default `finalize` doesn't know how to fold `output_other` into the output batch. Override `finalize` to consume the "
                "side data returned by `process_on_device`."
            )
        try:
            return convert_tensors_to_numpy(output_tensors)
        except TypeError as error:
            raise TypeError(f"{error}. Override `finalize` to make a batch of other things") from None

    def __call__(self, batch: Any) -> Any:
        import torch

        from weir.torch_utils import move_tensors_to_device

        with torch.no_grad():
            if self._device is None:
                self._device = self.get_device()
            tensors, other = _with_other(self.collate(batch))
            _check(tensors, torch.device("cpu"), f"`{type(self).__name__}.collate` must return CPU tensors")
            tensors = move_tensors_to_device(tensors, self._device)
            tensors, other = _with_other(self.process_on_device(batch, tensors, other))
            _check(tensors, torch.device(self._device), f"`{type(self).__name__}.process_on_device` must return tensors on `{self._device}`")
            return self.finalize(batch, move_tensors_to_device(tensors, "cpu", non_blocking=False, concat=False), other)


def _with_other(result: Any) -> tuple[Any, Any]:
    """A pair is tensors and something else, whatever it is; a batch that is two tensors is a list."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    return result, None


def _check(tensors: Any, device: torch.device, wish: str) -> None:
    """ValueError where a tensor is elsewhere: it is weir that moves them."""
    from weir.collate_fn import is_tensor_batch_type

    if not is_tensor_batch_type(tensors):
        raise ValueError(f"{wish}: one, a list or a dict of them, or a pair of these and something else; this is {type(tensors).__name__}")
    held = [tensors]
    while held:
        one = held.pop()
        if isinstance(one, Mapping):
            held.extend(one.values())
        elif isinstance(one, (list, tuple)):
            held.extend(one)
        elif one.device.type != device.type or (device.index is not None and one.device.index != device.index):
            raise ValueError(f"{wish}, which are moved from there and back for it; found a tensor on `{one.device}`")


def checked(fn: Any, fn_args: Any, fn_kwargs: Any, num_gpus: Any = None) -> Any:
    """What map_batches calls for a class of these. Its own __call__ is not used: batches go through the methods above.

    >>> checked(TorchInference, None, None, num_gpus=1) is TorchInference
    True
    """
    if not isinstance(fn, type):
        raise ValueError(f"map_batches takes the class {type(fn).__name__}, and makes its objects where they are used; this is one of them")
    if fn_args or fn_kwargs:
        raise ValueError("fn_args and fn_kwargs are not for a TorchInference: its methods take the batch, initialize() takes what "
                         "fn_constructor_args gives")
    for name in ("initialize", "get_device", "collate", "process_on_device", "finalize"):
        code = getattr(getattr(fn, name), "__code__", None)
        if code is not None and code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            raise TypeError(f"{fn.__name__}.{name} must not be async: it is called for one batch after another")
    import logging

    if not num_gpus:
        from weir import _outdated

        _outdated.log(f"`{fn.__name__}` is a `TorchInference`, and `num_gpus` is not set: pass it to `map_batches`, so that each worker has a GPU of its own")
    if fn.__call__ is TorchInference.__call__:
        return fn
    logging.getLogger("weir").warning(
        "%s defines __call__, which will not be used directly: a batch goes through collate, process_on_device and finalize", fn.__name__
    )
    return type(fn.__name__, (fn,), {"__call__": TorchInference.__call__, "__module__": fn.__module__, "__qualname__": fn.__qualname__})
