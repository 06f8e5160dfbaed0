"""Noise by row key, update and purpose, never by what else runs; at temperature 0 nobody calls this."""

import hashlib
from typing import Literal

import torch
from torch import Tensor

Purpose = Literal["token", "order", "remask"]


def stream(
    key: int, update: int, device: torch.device, purpose: Purpose = "token"
) -> torch.Generator:
    """The generator of one row at one update for one purpose."""
    digest = hashlib.blake2b(f"{key}/{update}/{purpose}".encode(), digest_size=8).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest, "big") >> 1)


def gumbel(generator: torch.Generator, rows: int, width: int) -> Tensor:
    """Float64[rows, width] of standard Gumbel noise; float64 because float32 clips its tail."""
    uniform = torch.rand(
        (rows, width), dtype=torch.float64, device=generator.device, generator=generator
    )
    return uniform.log_().neg_().log_().neg_()


def uniform(generator: torch.Generator, size: int) -> Tensor:
    """Float64[size] in [0, 1)."""
    return torch.rand(size, dtype=torch.float64, device=generator.device, generator=generator)
