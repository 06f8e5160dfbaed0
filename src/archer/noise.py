"""Noise that depends on who asks and when, never on what else runs: a stream per (row key, update)."""

from __future__ import annotations

import torch
from torch import Tensor


def stream(key: int, update: int, device: torch.device) -> torch.Generator:
    """The generator of one row at one update.  Nothing is drawn at temperature 0, so nobody calls this."""
    mixed = (key * 0x9E3779B97F4A7C15 + (update + 1) * 0xBF58476D1CE4E5B9) & (2**63 - 1)
    return torch.Generator(device=device).manual_seed(mixed)


def gumbel(generator: torch.Generator, rows: int, width: int) -> Tensor:
    """Float64[rows, width] of standard Gumbel noise; float64 because float32 clips its tail."""
    uniform = torch.rand(
        (rows, width), dtype=torch.float64, device=generator.device, generator=generator
    )
    return uniform.log_().neg_().log_().neg_()
