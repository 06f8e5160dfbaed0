"""The same tiny folder loaded whole and over two shards, and a group of shards that are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from archer.engine.walk import steps_of
from archer.methods.build import Method
from archer.model import Model, load
from archer.network.group import Traffic
from archer.network.shard import Shard
from archer.request.request import Form
from archer.shards.leader import Leader
from archer.shards.processes import Processes
from engine.mixes import record
from support.folders import make_dream, make_llada, make_llada2, make_llada_moe
from support.networks import Backbone

Made = TypeVar("Made")

PROMPT = (3, 1, 4, 1, 5)
VOCABULARY = 29
IDS: dict[str, Any] = {"vocab_size": VOCABULARY, "mask_token_id": 23, "eos_token_id": 1}
FOLDERS: dict[str, Callable[[Path], Path]] = {
    "llada": lambda folder: make_llada(folder, embedding_size=VOCABULARY, **IDS),
    "dream": lambda folder: make_dream(folder, **IDS),
    "llada-moe": lambda folder: make_llada_moe(folder, **IDS),
    "llada2": lambda folder: make_llada2(folder, num_hidden_layers=3, **IDS),
}
"""A vocabulary that two shards cannot divide evenly, with the mask id in the second half.

Of LLaDA2 a dense layer, one with experts, and the last, which is never in eight bits.
"""


@dataclass(frozen=True)
class Two:
    """One model twice."""

    whole: Model
    shared: Model

    @property
    def nets(self) -> tuple[Backbone, Backbone]:
        mask = self.whole.folder.mask
        return (
            Backbone(self.whole.network, mask),
            Backbone(self.shared.network, mask),
        )


@contextmanager
def twice(folder: Path, **options: Any) -> Iterator[Two]:
    """In float64 on the processor, whole and over two gloo ranks on loopback."""
    given = {"dtype": "float64", "device": "cpu", **options}
    shared = load(folder, shards=2, **given)
    try:
        yield Two(load(folder, **given), shared)
    finally:
        shared.close()


class Threads:
    """Shards that are threads of this process; what a `Group` does, without torch.distributed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._barrier = threading.Barrier(count)
        self._given: list[Tensor] = [torch.empty(0)] * count

    def run(self, work: Callable[[ThreadGroup], Made]) -> list[Made]:
        """The same on every shard, at the same time."""
        with ThreadPoolExecutor(self.count) as pool:
            groups = [ThreadGroup(self, Shard(rank, self.count)) for rank in range(self.count)]
            return list(pool.map(work, groups))

    def exchanged(self, rank: int, own: Tensor) -> list[Tensor]:
        self._given[rank] = own
        self._barrier.wait()
        found = list(self._given)
        self._barrier.wait()
        return found


class ThreadGroup:
    """One of them."""

    def __init__(self, threads: Threads, shard: Shard) -> None:
        self.shard = shard
        self.traffic = Traffic()
        self._threads = threads

    def gather(self, own: Tensor) -> Tensor:
        self.traffic.gathered += own.numel()
        return torch.stack(self._threads.exchanged(self.shard.rank, own))

    def sum(self, share: Tensor) -> Tensor:
        return self.gather(share).sum(dim=0)


def walked(model: Model, method: Method, samples: int = 1, seed: int = 0) -> list[Any]:
    """What happened in every update."""
    prompt = model.language.prompt(Form(PROMPT), seed, samples)
    state = method.decoder.start(prompt, method.length)
    return [record(step) for step in steps_of(model.network, method, state)]


def leader_of(model: Model) -> Leader:
    assert isinstance(model.network.all_shards, Leader)
    return model.network.all_shards


def processes_of(model: Model) -> Processes:
    others = leader_of(model)._others
    assert isinstance(others, Processes)
    return others
