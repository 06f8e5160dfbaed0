"""The three ways to take the next step from one recorded state: full, cached, and cached the usual way.

Axes: P prompt columns, G response columns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from archer.bench.subject import Subject, half_placed
from archer.bench.transformers_pass import library_pass
from archer.decoders.saber import Saber, SaberState
from archer.engine.walk import steps_of
from archer.methods.build import Method
from archer.network.attention import seen
from archer.network.network import Layer, Transformer, rotate
from archer.network.shape import Blocks
from archer.passes.logits import Logits, RowLogits
from archer.passes.memory import Memory
from archer.passes.timing import Clock
from archer.passes.work import Work
from archer.policies.prompt_cache import Age, Eager

NEVER = 10**6
"""Passes that one prompt cache serves in the cached loop: more than are ever made."""


class Past(NamedTuple):
    """What one layer keeps of a pass: keys before rotation, and values."""

    keys: Tensor  # [T, KV, D]
    values: Tensor  # [T, KV, D]

    def first(self, rows: int) -> Past:
        return Past(self.keys[:rows], self.values[:rows])


def naive_pass(
    network: Transformer,
    tokens: Tensor,
    past: Sequence[Past] = (),
    prompt: int = 0,
) -> tuple[Tensor, Work]:
    """Long[n] -> logits [n, V] of the columns after `past` (or all), `prompt` columns before the response.

    As it is usually written: concatenate keys, rotate all of them again, score all rows.  It shares weights
    and kernels with the engine, so what it costs more is the price of that.
    """
    work = Work()
    hidden, _ = naive_layers(network, tokens, past, work, prompt)
    scores = network.score(hidden)
    work.scored += len(scores)
    return scores, work


def naive_layers(
    network: Transformer,
    tokens: Tensor,
    past: Sequence[Past] = (),
    work: Work | None = None,
    prompt: int = 0,
) -> tuple[Tensor, list[Past]]:
    """The same up to the last layer: [n, d], and what each layer would keep."""
    hidden, work = network.embed(tokens), Work() if work is None else work
    caches = []
    for index in range(network.shape.layers):
        before = past[index] if past else None
        layer = network.layer(index)
        hidden, state = _layer(network, layer, hidden, before, work, prompt)
        work.routed += len(hidden) if index >= network.shape.dense_layers else 0
        caches.append(state)
    return hidden, caches


def _layer(
    network: Transformer,
    layer: Layer,
    hidden: Tensor,
    past: Past | None,
    work: Work,
    prompt: int,
) -> tuple[Tensor, Past]:
    normed = layer.normed(hidden)
    queries, keys, values = layer.queries(normed), layer.keys(normed), layer.values(normed)
    all_keys = keys if past is None else torch.cat((past.keys, keys))
    all_values = values if past is None else torch.cat((past.values, values))
    columns = torch.arange(len(all_keys), device=hidden.device)
    angles = network.angles(columns)
    own = angles.take(slice(len(all_keys) - len(keys), None))
    group = queries.shape[1] // keys.shape[1]
    attended = F.scaled_dot_product_attention(
        rotate(queries, own).transpose(0, 1)[None],
        rotate(all_keys, angles).repeat_interleave(group, dim=1).transpose(0, 1)[None],
        all_values.repeat_interleave(group, dim=1).transpose(0, 1)[None],
        attn_mask=seen(network.shape.attention, columns[-len(keys) :], columns, prompt),
    )
    hidden = hidden + layer.mix(attended[0].transpose(0, 1))
    _count(work, len(keys), len(all_keys))
    return hidden + layer.feed_forward(hidden), Past(keys, values)


def _count(work: Work, rows: int, columns: int) -> None:
    work.keys += rows
    work.values += rows
    work.mixed += rows
    work.pairs += rows * columns


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
    """The same weights and results as `network`; `take` tells the times of its latest pass by part."""

    def __init__(self, network: Transformer) -> None:
        super().__init__(network.shape, device=torch.device("meta"))
        self.borrow(network)
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


@dataclass(frozen=True)
class StepSample:
    """One measured step."""

    seconds: float
    parts: Parts
    work: Work

    @property
    def control(self) -> float:
        """Share of the step that was spent outside the network: decoder, policy and loop."""
        return 1.0 - self.parts.total / self.seconds

    def at_depth(self, layers: int, dense: int = 0) -> float:
        """Seconds of the step at `layers` layers; the last and the `dense` ones are no measure."""
        inner = self.parts.layers[dense:-1]
        return self.seconds + (layers - len(self.parts.layers)) * statistics.mean(inner)


@dataclass(frozen=True)
class StepVariants:
    """All that is measured at one prompt length: the same state, three ways to take the next step."""

    network: TimedNetwork
    state: SaberState
    memory: Memory
    past: tuple[Past, ...]
    """What the naive twin keeps of the prompt."""

    @classmethod
    def at(cls, subject: Subject, prompt: int, response: int) -> StepVariants:
        network = TimedNetwork(subject.network)
        state = half_placed(subject, prompt, response)
        memory = next(steps_of(network, Method(Saber(), Eager()), state)).memory
        tokens = _tokens(state, subject.network.device)
        _, caches = naive_layers(subject.network, tokens, prompt=prompt)
        shape = subject.network.shape
        kept = prompt - int(shape.shift)
        if isinstance(shape.attention, Blocks):
            kept = max(0, shape.attention.start(kept, prompt))
        past = tuple(each.first(kept) for each in caches)
        network.take()
        return cls(network, state, memory, past)

    @property
    def tokens(self) -> Tensor:
        """Long[P + G]"""
        return _tokens(self.state, self.network.device)

    def refreshing(self, every: int) -> Callable[[], StepSample]:
        """The step of an engine that refreshes the prompt at every `every`-th pass.

        At every pass even where the prompt's cache is exact, which no age changes.
        """
        return partial(self._step, Method(Saber(), Eager() if every == 1 else Age(every)))

    def _step(self, method: Method) -> StepSample:
        step = next(steps_of(self.network, method, self.state, self.memory))
        seconds = sum(call.seconds for call in step.calls) + step.control
        return StepSample(seconds, self.network.take(), step.work)

    @torch.inference_mode()
    def naive_step(self) -> StepSample:
        """The same update from the naive cached pass."""
        clock = Clock(self.network.device)
        start = clock.mark()
        kept = len(self.past[0].keys)
        prompt = self.state.prompt.columns
        scores, work = naive_pass(self.network, self.tokens[kept:], self.past, prompt)
        first = prompt - int(self.network.shape.shift) - kept
        values = scores[first : first + self.state.length]
        rows = [RowLogits(values, tuple(range(self.state.length)))]
        Saber().step(self.state, Logits(rows, self.state.length, self.state.prompt.mask))
        end = clock.mark()
        return StepSample(clock.seconds(start, end), self.network.take(), work)

    @torch.inference_mode()
    def library_step(self, twin: Any, keep: int) -> StepSample:
        """A full pass of the transformers library, without any update."""
        clock = Clock(self.network.device)
        start = clock.mark()
        logits = library_pass(
            twin, self.tokens, keep, self.network.shape.attention, self.state.prompt.columns
        )
        end = clock.mark()
        logits[0, 0].item()
        return StepSample(clock.seconds(start, end), Parts(0.0, (), 0.0), Work())


def _tokens(state: SaberState, device: torch.device) -> Tensor:
    return torch.from_numpy(state.tokens[0]).to(device)
