"""Noise by row key, update and purpose, never by what else runs; at temperature 0 nobody calls this."""

import functools
import hashlib
from typing import Literal

import torch
from torch import Tensor

Purpose = Literal["token", "order", "remask", "look"]


@functools.cache
def has_float64(kind: str) -> bool:
    """Whether a kind of device computes in float64; Apple's GPUs do not."""
    try:
        torch.zeros(1, dtype=torch.float64, device=kind)
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    return True


def stream(
    key: int, update: int, device: torch.device, purpose: Purpose = "token"
) -> torch.Generator:
    """The generator of one row at one update for one purpose; on the host where the device has no float64."""
    digest = hashlib.blake2b(f"{key}/{update}/{purpose}".encode(), digest_size=8).digest()
    where = device if has_float64(device.type) else torch.device("cpu")
    return torch.Generator(device=where).manual_seed(int.from_bytes(digest, "big") >> 1)


def gumbel(generator: torch.Generator, rows: int, width: int) -> Tensor:
    """Float64[rows, width] of standard Gumbel noise; float64 because float32 clips its tail."""
    uniform = torch.rand(
        (rows, width), dtype=torch.float64, device=generator.device, generator=generator
    )
    return uniform.log_().neg_().log_().neg_()


def uniform(generator: torch.Generator, size: int) -> Tensor:
    """Float64[size] in [0, 1)."""
    return torch.rand(size, dtype=torch.float64, device=generator.device, generator=generator)
