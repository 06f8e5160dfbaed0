"""A network that learns: weights, their running average, and the optimiser's memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from archer.errors import ArcherError
from archer.network.network import Transformer
from pocket_training.network import first_weights, hidden_states
from pocket_training.objective import Masked, loss
from pocket_training.optimiser import Optimiser
from pocket_training.variants import VARIANTS, Variant

AVERAGING = 0.998
"""Share of the old average that is kept at a step."""
CLIP = 1.0
_STACKED = {"qkv": 3, "gate_up": 2}
"""How many matrices are stacked in a fused one."""


class Diverged(ArcherError):
    """The loss is no longer a number."""


class Learner:
    """Everything that a training step changes."""

    def __init__(
        self,
        seed: int,
        variant: Variant = VARIANTS["pocket"],
        *,
        compiled: bool = False,
    ) -> None:
        self.variant = variant
        pieces = variant.subject.pieces()
        shape = variant.shape(len(pieces))
        self.network = first_weights(shape, pieces, seed)
        self.average = first_weights(shape, pieces, seed).requires_grad_(False)
        self.steps = 0
        matrices: dict[str, tuple[nn.Parameter, int]] = {}
        others = []
        for name, weight in self.network.named_parameters():
            if name.startswith("layers.") and weight.dim() == 2:
                matrices[name] = weight, _STACKED.get(name.rsplit(".", 1)[1], 1)
            else:
                others.append(weight)
        self.optimiser = Optimiser(matrices, others)
        self.forward = torch.compile(hidden_states, dynamic=True) if compiled else hidden_states

    def step(self, masked: Masked, rate: float) -> float:
        """Learn from one batch; return its loss."""
        self.network.zero_grad()
        value = loss(self.network, masked, self.forward)
        value.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        number = value.item()
        if not number < 1e4:
            raise Diverged(
                "The training loss is no longer finite. Start again from the last checkpoint "
                "with a smaller learning rate."
            )
        self.optimiser.step(rate)
        self.steps += 1
        keep = min(AVERAGING, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            for old, new in zip(self.average.parameters(), self.network.parameters(), strict=True):
                old.lerp_(new, 1.0 - keep)
        return number

    def tensors(self) -> dict[str, Tensor]:
        """All state as a flat dictionary."""
        kept = self.optimiser.tensors()
        for prefix, network in (("weight", self.network), ("average", self.average)):
            kept.update({f"{prefix}.{n}": w.detach() for n, w in network.named_parameters()})
        kept["steps"] = torch.tensor(self.steps)
        return {name: tensor.contiguous() for name, tensor in kept.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        self.optimiser.restore(tensors)
        restore_weights(self.network, tensors, "weight")
        restore_weights(self.average, tensors, "average")
        self.steps = int(tensors["steps"])


def restore_weights(network: Transformer, tensors: dict[str, Tensor], prefix: str) -> None:
    """Copy the weights saved under a prefix into a network."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(tensors[f"{prefix}.{name}"])
