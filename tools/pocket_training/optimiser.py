"""Muon for the matrices of the layers, AdamW for everything else, both in float32.

Muon replaces a matrix's momentum by the nearest matrix with equal singular values, found by a few
Newton-Schulz iterations; torch's own version computes them in bfloat16, which many CPUs cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

ITERATIONS = 5
MOMENTUM = 0.95
DECAY = 0.1
"""Weight decay of the matrices, times the learning rate."""
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic that pushes singular values towards 1."""


class Optimiser:
    """One step for all parameters; its state is a flat dictionary of tensors."""

    def __init__(
        self, matrices: dict[str, tuple[nn.Parameter, int]], others: Iterable[nn.Parameter]
    ) -> None:
        """`matrices`: name -> parameter and how many matrices are stacked in it."""
        self.matrices = matrices
        self.momenta = {name: torch.zeros_like(item[0]) for name, item in matrices.items()}
        self.adam = torch.optim.AdamW(list(others), betas=(0.9, 0.98), weight_decay=0.0, fused=True)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        for name, (weight, stacked) in self.matrices.items():
            assert weight.grad is not None
            momentum = self.momenta[name].mul_(MOMENTUM).add_(weight.grad)
            ahead = weight.grad.add(momentum, alpha=MOMENTUM)
            update = torch.cat([_even(part) for part in ahead.chunk(stacked)])
            weight.mul_(1.0 - rate * DECAY).add_(update, alpha=-rate)

    def tensors(self) -> dict[str, Tensor]:
        """Everything but the learning rate."""
        kept = {f"momentum.{name}": tensor for name, tensor in self.momenta.items()}
        for index, state in self.adam.state_dict()["state"].items():
            for key, value in state.items():
                kept[f"adam.{index}.{key}"] = value
        return kept

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        for name, momentum in self.momenta.items():
            momentum.copy_(tensors[f"momentum.{name}"])
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("adam."):
                _, index, key = name.split(".")
                states.setdefault(int(index), {})[key] = tensor
        self.adam.load_state_dict({**self.adam.state_dict(), "state": states})


def _even(gradient: Tensor) -> Tensor:
    """[m, n] -> about U V^T of its singular value decomposition, scaled to the size of an Adam step."""
    tall = gradient.shape[0] > gradient.shape[1]
    wide = gradient.T if tall else gradient
    wide = wide / (wide.norm() + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(ITERATIONS):
        square = wide @ wide.T
        wide = a * wide + (b * square + c * square @ square) @ wide
    scaled = torch.mul(wide, 0.2 * math.sqrt(max(gradient.shape)))
    return scaled.T if tall else scaled
