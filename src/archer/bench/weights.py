"""Random weights, quickly: what a network computes with them means nothing, what it costs does.

Large parameters repeat one block of noise end to end: drawing billions of numbers would take longer
than the measurement, and no kernel is faster for it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from archer.network.network import Transformer

BLOCK = 4_000_037
"""Numbers drawn at most per parameter; prime, so that no two rows of a matrix are alike."""
LIVELINESS = {"qkv": 2.5, "head": 4.0}
"""Parameters drawn larger than usual: otherwise all positions of a random network look alike."""


def drawn(parameter: str, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Float32 values for a parameter, or for some rows of it."""
    if len(size) == 1:
        return torch.zeros(size) if parameter.endswith("bias") else torch.ones(size)
    values = _noise(size, generator)
    if parameter == "embedding":
        return values
    scale = LIVELINESS.get(parameter.rpartition(".")[2], 1.0)
    return values.mul_(scale / size[-1] ** 0.5)


def filled(network: Transformer, seed: int = 0) -> Transformer:
    """The network with random weights in place."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        parameter.copy_(drawn(name, tuple(parameter.shape), generator))
    return network.eval()


def _noise(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    whole = torch.empty(size)
    flat = whole.view(-1)
    block = torch.randn(min(BLOCK, flat.numel()), generator=generator)
    for start in range(0, flat.numel(), BLOCK):
        part = flat[start : start + BLOCK]
        part.copy_(block[: part.numel()])
    return whole
