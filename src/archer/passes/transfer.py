"""The one way from a device to the host: however many arrays are wanted, the host waits once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_host(*tensors: Tensor) -> list[NDArray[Any]]:
    """Each tensor as an array of its own type.  Not to be written to: on a CPU it is the tensor's memory."""
    if all(tensor.is_cpu for tensor in tensors):
        return [tensor.numpy() for tensor in tensors]
    return packed(*tensors)


def packed(*tensors: Tensor) -> list[NDArray[Any]]:
    """The same in one transfer, through float64, which holds every id and every flag exactly."""
    flat = torch.cat([tensor.flatten().double() for tensor in tensors]).numpy(force=True)
    ends = np.cumsum([tensor.numel() for tensor in tensors])[:-1]
    return [
        part.reshape(tensor.shape).astype(_TYPES[tensor.dtype])
        for tensor, part in zip(tensors, np.split(flat, ends), strict=True)
    ]


_TYPES: dict[torch.dtype, type[np.generic]] = {
    torch.int64: np.int64,
    torch.bool: np.bool_,
    torch.float32: np.float32,
    torch.float64: np.float64,
}
