"""Drawn requests of all methods, decoded alone and in drawn company; what happened to each of them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from archer.decoders.base import Attention
from archer.engine.batch import Batch
from archer.engine.walk import Walk, steps_of
from archer.methods.build import Method, build
from archer.methods.catalogue import DECODERS, POLICIES
from archer.network.network import kept_by
from archer.network.shape import Scheme
from archer.passes.canvas import Blocks, Prompt
from archer.request.fill import Fill
from archer.results.step import Step
from support.networks import Backbone, mixture, random_network, shape

PROMPTS = ([3, 1, 4], [1, 5, 9, 2, 6, 5], [3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4], [6], [3, 1, 4, 1])
LENGTHS = (4, 6, 8, 12)
HOT = {"confidence", "saber", "wino", "threshold", "dream", "editing"}
"""Decoders that take a temperature in these draws."""

Record = list[tuple[Any, ...]]
"""Update by update: kinds, columns, distances, what was decided and what stands."""


@cache
def backbone(shift: bool, dtype: torch.dtype = torch.float64) -> Backbone:
    which = shape(layers=2, heads=2, kv_heads=2, head_dim=4, inner=12, vocabulary=24, shift=shift)
    return Backbone(random_network(which, 5 + shift, dtype), mask=23)


@cache
def eight_bits(shift: bool) -> Backbone:
    """The same in float32, with products in whole numbers."""
    plain = backbone(shift, torch.float32)
    return replace(plain, network=kept_by(plain.network, Scheme.W8A8_HEAD, packed=True).eval())


@dataclass(frozen=True)
class Drawn:
    """One request."""

    method: Method
    prompt: tuple[int, ...]
    samples: int
    seed: int
    eos: tuple[int, ...] = (1,)
    given: tuple[int | None, ...] | None = None
    """The response with gaps, where some of it is given."""
    allowed: Mapping[int, Tensor] = field(default_factory=dict)
    """What may stand at some columns of the gaps."""

    @property
    def asked(self) -> Fill | list[int]:
        """Its prompt as a user gives it, without what is allowed."""
        if self.given is None:
            return list(self.prompt)
        return Fill.of_ids((*self.prompt, *self.given))

    def walk(self, net: Backbone) -> Walk:
        return Walk(net.network, self.method, self.start(net))

    def start(self, net: Backbone) -> Any:
        prompt = Prompt.of(
            self.prompt,
            net.mask,
            samples=self.samples,
            seed=self.seed,
            eos=self.eos,
            ends=(1, 2),
            given=self.given,
            allowed=self.allowed,
        )
        return self.method.decoder.start(prompt, self.method.length)


REBUILT = tuple(
    name for name, policy in POLICIES.items() if policy.make.rebuilds and name != "eager"
)
"""Caches of requests that can be swapped out and need a pass then to be swapped in."""


def draw_request(
    draw: random.Random, shift: bool, policies: Sequence[str] = tuple(POLICIES)
) -> Drawn:
    """Any pair that works on this alignment, with drawn settings."""
    while True:
        decoder, policy = draw.choice(list(DECODERS)), draw.choice(policies)
        if shift and decoder == "wino":
            continue
        settings: dict[str, Any] = {"length": draw.choice(LENGTHS)}
        if decoder in HOT and draw.random() < 0.3:
            settings["temperature"] = 0.7
        if draw.random() < 0.15:
            settings["guidance"] = 1.5
        if draw.random() < 0.15:
            settings["steps"] = draw.choice([1, 2, 3]) * settings["length"]
        if policy == "archer":
            settings["radius"] = draw.choice([1, 2, 3, 5, "inf"])
        if policy == "age":
            settings["every"] = draw.choice([1, 2, 4])
        if decoder in ("confidence", "saber", "wino", "threshold") and draw.random() < 0.3:
            settings["block"] = settings["length"] // 2
        canvas = draw.choice(["fixed"] * 4 + ["auto", "append"])
        if canvas == "auto":
            sizes = {"start_length": draw.choice([2, 4]), "cut": draw.choice([0.04, 0.2, 1.0])}
            settings |= {"canvas": canvas, "grow": draw.choice([1, 3]), "keep": 2, **sizes}
        elif canvas == "append":
            settings |= {"canvas": canvas, "block": settings["length"] // 2}
        try:
            method = build(f"{decoder}+{policy}", settings)
        except ValueError:
            continue
        full = method.decoder.attention is not Attention.BLOCK_CAUSAL
        if not full and not method.policy.block_causal:
            continue  # no model takes such a pair
        samples = draw.choice([1, 1, 1, 2, 3])
        drawn = Drawn(method, tuple(draw.choice(PROMPTS)), samples, draw.randrange(3))
        if canvas != "fixed":
            return replace(drawn, eos=tuple(range(1, draw.choice([2, 8, 20]))))
        return with_gaps(draw, drawn) if full and draw.random() < 0.5 else drawn


def with_gaps(draw: random.Random, request: Drawn) -> Drawn:
    """The same request with text in and behind its response, and tokens at seams restricted."""
    length = request.method.length
    response: list[int | None] = [None]
    for _ in range(length - 1):
        response += [draw.randrange(3, 20) for _ in range(draw.choice([0, 0, 1, 3]))]
        response.append(None)
    response += [draw.randrange(3, 20) for _ in range(draw.choice([0, 1, 4]))]
    seams = draw.sample(range(length), draw.choice([0, 1, 2]))
    allowed = {
        at: torch.tensor(sorted(draw.sample(range(22), draw.choice([1, 3])))) for at in seams
    }
    return replace(request, given=tuple(response), allowed=allowed)


def draw_resting(draw: random.Random, ripe: int = 2) -> Drawn:
    """Columns that rest for a while: every token ends a text and is sure, so the tail is long, or all rest.

    With `ripe` 1 a token rests before any pass has seen it.  The next pass then answers exactly as the one
    before, no confidence falls, and what Saber takes back is decided by rounding: compare nothing in company.
    """
    settings: dict[str, Any] = {"length": draw.choice(LENGTHS[1:]), "ripe": ripe}
    settings |= {"rest": draw.choice([2, 3, 8]), "radius": draw.choice([5, "inf"])}
    kinds: dict[str, dict[str, Any]] = {
        "saber-tail": {"edge": 0, "wake": "look"},
        "saber-rest": {"sure": 0.0},
    }
    named = draw.choice(list(kinds))
    method = build(f"{named}+archer", settings | kinds[named])
    return Drawn(method, tuple(draw.choice(PROMPTS)), draw.choice([1, 2]), 0, eos=tuple(range(23)))


@cache
def block_causal(*, eight_bits: bool = False) -> Backbone:
    """A tiny LLaDA2."""
    if not eight_bits:
        return mixture("grouped", seed=3, attention=Blocks(4))
    plain = mixture("grouped", seed=3, dtype=torch.float32, attention=Blocks(4))
    return replace(plain, network=kept_by(plain.network, Scheme.W8A8_HEAD, packed=True).eval())


BLOCK_CAUSAL = ("llada2", "llada2-edit", "saber", "threshold", "editing", "confidence")


def draw_block_causal(draw: random.Random) -> Drawn:
    """A request whose columns see the blocks up to their own: blocks of 4, prompts that fill them or not."""
    decoder = draw.choice(BLOCK_CAUSAL)
    cache_ = draw.choice(["archer", "archer", "surprise", "eager", "age"])
    settings: dict[str, Any] = {"length": draw.choice(LENGTHS)}
    if decoder in ("llada2", "llada2-edit"):
        settings |= {"block": 4, "threshold": draw.choice([0.1, 0.4])}
    if cache_ == "archer":
        settings["radius"] = draw.choice([1, 3, "inf"])
    prompt = tuple(draw.choice(PROMPTS))
    return Drawn(build(f"{decoder}+{cache_}", settings), prompt, draw.choice([1, 2]), 0)


def record(step: Step[Any]) -> tuple[Any, ...]:
    """What happened in one update, as plain data."""
    decision = step.decision
    return (
        step.index,
        step.rows,
        tuple((call.kind.value, call.fed, call.distance) for call in step.calls),
        decision.accepted.tolist(),
        decision.remasked.tolist(),
        decision.replaced.tolist(),
        step.after.response.tolist(),
        step.after.done.tolist(),
    )


def alone(request: Drawn, net: Backbone) -> Record:
    return [record(step) for step in steps_of(net.network, request.method, request.start(net))]


def together(
    requests: list[Drawn], net: Backbone, draw: random.Random, *, swaps: float = 0.0
) -> list[Record]:
    """The same in one batch: who joins and who takes part in a turn is drawn; some are swapped out."""
    batch: Batch[int] = Batch(net.network)
    records: list[Record] = [[] for _ in requests]
    waiting = list(range(len(requests)))
    draw.shuffle(waiting)
    while waiting or batch.walks:
        while waiting and (not batch.walks or draw.random() < 0.5):
            tag = waiting.pop()
            walk = requests[tag].walk(net)
            if not walk.done:
                batch.walks[tag] = walk
        if not batch.walks:
            continue
        for walk in batch.walks.values():
            if draw.random() < swaps and walk.can_swap_out:
                walk.swap_out()
        chosen = draw.sample(sorted(batch.walks), draw.randint(1, len(batch.walks)))
        made = batch.turn(chosen, lambda: False)
        assert made.failed == {}
        for tag, step in made.steps:
            records[tag].append(record(step))
        for tag in [tag for tag, walk in batch.walks.items() if walk.done]:
            batch.walks.pop(tag)
    return records
