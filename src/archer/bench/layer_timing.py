"""A network that notes when its embedding, each of its layers and its head begin: they are timed apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from archer.network.network import Layer, Transformer
from archer.passes.timing import Clock


@dataclass(frozen=True)
class Parts:
    """Seconds of one pass, by part; what is not here was spent outside the network."""

    entry: float
    """Embedding and rotary factors."""
    layers: tuple[float, ...]
    head: float

    @property
    def total(self) -> float:
        return self.entry + sum(self.layers) + self.head


class TimedNetwork(Transformer):
    """The same weights and the same results as `network`; `take` tells the times of the latest pass."""

    def __init__(self, network: Transformer) -> None:
        super().__init__(network.shape, device=torch.device("meta"))
        self.embedding, self.norm, self.head = network.embedding, network.norm, network.head
        self.layers = network.layers
        self._clock = Clock(network.device)
        self._marks: list[float | torch.Event] = []

    def embed(self, tokens: Tensor) -> Tensor:
        self._marks.append(self._clock.mark())
        return super().embed(tokens)

    def layer(self, index: int) -> Layer:
        self._marks.append(self._clock.mark())
        return super().layer(index)

    def score(self, hidden: Tensor) -> Tensor:
        self._marks.append(self._clock.mark())
        scores = super().score(hidden)
        self._marks.append(self._clock.mark())
        return scores

    def take(self) -> Parts:
        """Call after the host has waited for the pass; the next pass starts from nothing."""
        marks, self._marks = self._marks, []
        spans = [self._clock.seconds(a, b) for a, b in pairwise(marks)]
        return Parts(spans[0], tuple(spans[1:-1]), spans[-1])
