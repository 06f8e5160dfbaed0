"""A slow twin of dLLM-Cache's pass that refreshes everything: rows by index tensors, nothing skipped.

`python tests/support/refresh_twin.py small 512 256 7` (shape, prompt, response, rounds) times it beside
the rule of the package and beside a plain full pass, in turn, on one thread, in CPU time.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archer.bench.subject import open_subject
from archer.engine.walk import Walk
from archer.methods.build import Method, build
from archer.network.network import Transformer
from archer.passes.canvas import Prompt
from archer.passes.forward import run
from archer.passes.layer_rule import LayerPieces, RowInPass, Ruled
from archer.passes.memory import Memory
from archer.policies.dllm import DllmCache, DllmRule


@dataclass(frozen=True)
class ByIndex(DllmRule):
    """Every row of every layer, each addressed by its number."""

    skips: bool = False
    """Whether the last layer leaves out what nobody reads, as the rule of the package does."""

    def __call__(self, index: int, layer: LayerPieces, hidden: Tensor, at: RowInPass) -> Tensor:
        assert all(all(both) for both in self.due)
        rows = torch.arange(len(hidden))
        normed = layer.normed(hidden)
        at.write_values(index, rows, layer.values(normed[rows]))
        at.write_keys(index, rows, layer.keys(normed[rows]))
        attention = at.feature("attention", index, hidden)
        feed = at.feature("feed_forward", index, hidden)
        rows = rows[at.prompt :] if self.skips and at.is_last(index) else rows
        attention[rows] = layer.mix(at.attend(index, rows, layer.queries(normed[rows])))
        feed[rows] = layer.feed_forward(hidden[rows] + attention[rows])
        return hidden + attention + feed


class Slow(DllmCache):
    """dLLM-Cache whose passes all refresh everything, the slow way."""

    skips = False

    def inside_layers(self, memory: Memory) -> Ruled:
        rows = len(memory.slots)
        return Ruled(ByIndex(self.ratio, ((True, True),) * rows, self.skips), (True,) * rows)


class LessSlow(Slow):
    """The same without what nobody reads: what is left is how rows are addressed."""

    skips = True


def first_pass(
    network: Transformer, mask: int, policy: Any, prompt: int, response: int
) -> Callable[[], Tensor]:
    """Makes the first pass of a request as often as it is called; returns its logits."""
    decoder = build("llada-confidence", {"length": response}).decoder
    ids = np.random.default_rng(1).integers(0, mask, prompt).tolist()
    walk = Walk(network, Method(decoder, policy), decoder.start(Prompt.of(ids, mask), response))
    part = walk.wants
    assert part is not None

    def once() -> Tensor:
        (answer,) = run(network, [part])
        values = answer.rows[0].values
        assert isinstance(values, Tensor)
        return values

    return once


def main(shape: str, prompt: int, response: int, rounds: int) -> None:
    torch.set_num_threads(1)
    subject = open_subject(shape, None, prompt, response, device="cpu", dtype="float32")
    make = partial(first_pass, subject.network, subject.mask)
    eager = build("confidence+eager", {"length": response}).policy
    ways = {
        "by index, nothing skipped": make(Slow(), prompt, response),
        "by index": make(LessSlow(), prompt, response),
        "dllm-cache": make(DllmCache(prompt_interval=1, response_interval=1), prompt, response),
        "full pass": make(eager, prompt, response),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, once in ways.items():
            started = process_time()
            once()
            taken[name].append(process_time() - started)
    least = 1e3 * statistics.median(taken["dllm-cache"][1:])
    for name, seconds in taken.items():
        low, middle, high = (1e3 * each for each in statistics.quantiles(seconds[1:], n=4))
        sys.stdout.write(f"{name}: {middle:.1f} ms [{low:.1f}, {high:.1f}], {middle / least:.3f}\n")


if __name__ == "__main__":
    named, *numbers = sys.argv[1:]
    main(named, *map(int, numbers))
