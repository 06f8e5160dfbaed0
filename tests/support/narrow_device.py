"""A pretended device without float64, as Apple's GPUs are: whatever asks it for float64 is refused.

Its tensors are wrappers that say they are on the device; a processor computes for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

KIND = "lazy"
"""A kind of device that torch knows by name; none is here."""
HOST = torch.device("cpu")


class OnDevice(Tensor):
    """A tensor of the pretended device."""

    held: Tensor

    @staticmethod
    def __new__(cls: type[OnDevice], held: Tensor) -> OnDevice:
        if held.dtype in (torch.float64, torch.complex128):
            raise TypeError(f"{KIND} has no {held.dtype}")
        with torch.inference_mode(False):
            made: OnDevice = Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=torch.device(KIND, 0),
            )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return dispatched(func, args, kwargs or {})


def dispatched(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the processor; the result is the device's if an input is, or if it is asked for there."""
    given: list[Tensor] = []
    tree_map(lambda each: given.append(each) if isinstance(each, Tensor) else None, (args, kwargs))
    asked = kwargs.get("device")
    target = None if asked is None else torch.device(asked)
    mixed = any(not isinstance(each, OnDevice) and each.dim() > 0 for each in given)
    ours = any(isinstance(each, OnDevice) for each in given)
    if target is not None and target.type == KIND:
        kwargs = kwargs | {"device": HOST}
    moves = func in (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
    if ours and mixed and not moves and func is not torch.ops.aten.index_put_.default:
        raise RuntimeError(f"{func} got tensors of two devices")
    plain = tree_map(lambda each: each.held if isinstance(each, OnDevice) else each, (args, kwargs))
    result = func(*plain[0], **plain[1])
    if func is torch.ops.aten.copy_.default or func._schema.is_mutable:
        return args[0] if isinstance(args[0], Tensor) else result
    there = ours if target is None else target.type == KIND
    return tree_map(lambda each: OnDevice(each) if there and type(each) is Tensor else each, result)


class _Made(TorchDispatchMode):
    """Tensors that are made on the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatched(func, args, kwargs or {})


class _Asked(TorchFunctionMode):
    """What torch does before it asks a dispatcher, or by the kind of device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.tolist and isinstance(args[0], OnDevice):
            return args[0].held.tolist()
        if func is torch.tensor and torch.device(kwargs.get("device") or HOST).type == KIND:
            return func(*args, **kwargs | {"device": HOST}).to(KIND)
        if func is F.scaled_dot_product_attention:
            plain = tree_map(
                lambda each: each.held if isinstance(each, OnDevice) else each, (args, kwargs)
            )
            answer = func(*plain[0], **plain[1])
            return OnDevice(answer) if isinstance(args[0], OnDevice) else answer
        return func(*args, **kwargs)


@contextmanager
def narrow_device() -> Iterator[torch.device]:
    """While it is there, tensors can be made on it and moved to it."""
    made: Any = _Made
    with _Asked(), made():
        yield torch.device(KIND)
