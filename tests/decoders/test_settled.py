"""Settled positions: what a decoder declares final never changes, and it declares no less than it could."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.decoders.base import Decoder, DecodeState, kept
from archer.decoders.dllm import EndingState
from archer.decoders.llada2 import AbsoluteState
from archer.decoders.saber import Saber
from archer.decoders.wrappers import EndOfText, Guided
from archer.engine.walk import steps_of
from archer.errors import BadRequest, Stuck
from archer.methods.build import Method, build
from archer.methods.catalogue import DECODERS
from archer.passes.canvas import Flags, Prompt
from support.networks import backbone

NETS = {
    (shift, seed): backbone(shift, seed, torch.float64)
    for shift in (False, True)
    for seed in range(3)
}
FILLS = [
    "confidence",
    "entropy",
    "margin",
    "random",
    "fixed-order",
    "threshold",
    "factor",
    "entropy-bound",
    "dream",
    "no-rollback",
    "a2d",
    "illada",
]
"""Nothing is ever taken back: settled is what is placed."""
BY_BLOCK = ["wino", "editing", "rcr"]
"""The current block is revised: settled are the blocks before it."""
AT_ITS_END = [
    *("p2", "saber", "saber-doubt", "saber-rest", "saber-tail", "saber-dream"),
    *("remdm", "remdm-sampling"),
]
"""Everything may be revised, up to the end or close to it."""
FROM_THE_LEFT = ["saber-stream"]
"""What has stood a while settles, as far as everything before it has; its last block may be shorter."""
AS_RELEASED = ["llada2", "llada2-edit", "sdar", "bd3lm"]
"""Their blocks are the attention rule; a row may end with masks behind its end of text."""
WITH_BLOCKS = (
    {*DECODERS}
    - {*AS_RELEASED}
    - {"p2", "a2d", "illada", "dream", "remdm", "remdm-sampling"}
    - {"saber-rest", "saber-tail", "saber-dream", *FROM_THE_LEFT}
)
BOLD: dict[str, dict[str, list[Any]]] = {
    "threshold": {"threshold": [0.02, 0.1, 0.9]},
    "factor": {"factor": [0.5, 2.0, 5.0]},
    "entropy-bound": {"gamma": [0.1, 3.0], "proxy": ["entropy", "confidence", "margin"]},
    "dream": {"alg": ["origin", "maskgit_plus", "topk_margin", "entropy"], "alg_temp": [0.0, 0.5]},
    "saber": {
        "n": [1, 2, 4],
        "mu": [1, 2, 8],
        "watch": ["argmax", "placed"],
        "settle": [None, 1, 3],
    },
    "saber-stream": {"n": [1, 2, 4], "mu": [1, 2, 8], "settle": [1, 2, 4]},
    "saber-rest": {"n": [1, 2, 4], "mu": [1, 2], "sure": [0.0, 0.1], "rest": [0, 2, 8]},
    "saber-tail": {"n": [1, 2, 4], "mu": [1, 2], "ripe": [1, 3], "rest": [0, 2, 8]},
    "rcr": {"steps": [6, 12]},
    "no-rollback": {"n": [1, 2, 4]},
    "saber-dream": {"n": [2, 4], "mu": [1, 2, 8], "settle": [None, 1, 3]},
    "wino": {"threshold": [0.02, 0.1, 0.7], "verify": [0.05, 0.2, 0.9]},
    "remdm": {"k": [1, 2, 3], "ratio": [0.4, 0.875], "loops": [0, 1, 5]},
    "remdm-sampling": {
        "strategy": ["cap", "rescale", "conf", "loop"],
        "eta": [0.0, 0.3, 1.0],
        "steps": [1, 6, 16],
    },
    "editing": {"fill": [0.02, 0.1, 0.95], "edit": [0.05, 0.1, 0.9]},
}
"""Settings at which a random network, which is never sure, makes the rules accept and take back a lot."""


@dataclass(frozen=True)
class Case:
    """A method with drawn settings on a drawn network."""

    method: Method
    shift: bool
    network: int
    prompt: tuple[int, ...]
    samples: int
    seed: int

    def steps(self) -> Iterator[tuple[DecodeState, DecodeState]]:
        """States before and after each update; a rule that edits for ever is left at its limit."""
        net = NETS[self.shift, self.network]
        samples, seed = self.samples, self.seed
        prompt = Prompt.of(self.prompt, net.mask, samples=samples, seed=seed, eos=(1,), ends=(1, 2))
        start = self.method.decoder.start(prompt, self.method.length)
        with contextlib.suppress(Stuck):
            for step in steps_of(net.network, self.method, start):
                yield step.before, step.after


@st.composite
def cases(draw: st.DrawFn, name: str, shift: bool) -> Case:
    block = draw(st.sampled_from([2, 4, 6]))
    length = block * draw(st.integers(1, 3))
    chosen: dict[str, Any] = {
        key: draw(st.sampled_from(values)) for key, values in BOLD.get(name, {}).items()
    }
    chosen["temperature"] = draw(st.sampled_from([0.0, 0.0, 1.0]))
    chosen["eos"] = draw(st.sampled_from(["none", "none", "logits", "confidence"]))
    chosen["guidance"] = draw(st.sampled_from([0.0, 0.0, 0.5]))
    if name in WITH_BLOCKS and draw(st.booleans()):
        chosen["block"] = block
    if "n" in chosen:
        chosen["n"] = min(chosen["n"], length)
    prompt = draw(st.lists(st.integers(3, 40), min_size=1, max_size=6).map(tuple))
    samples = draw(st.integers(1, 2))
    cache = draw(st.sampled_from(["eager", "archer:3", "archer:inf"]))
    method = build(f"{name}+{cache}", {"length": length, **chosen})
    return Case(method, shift, draw(st.integers(0, 2)), prompt, samples, draw(st.integers(0, 99)))


def violations(decoder: Decoder[Any], before: DecodeState, after: DecodeState) -> list[str]:
    """How one update breaks what was declared settled."""
    was, now = decoder.settled(before), decoder.settled(after)
    done = after.done[:, None]
    unsure = ~done if isinstance(after, AbsoluteState | EndingState) else np.ones_like(done)
    broken = {
        "a settled position changed": was & (after.response != before.response),
        "a settled position became unsettled": was & ~now,
        "a mask is settled": (was & before.masked) | (now & after.masked & unsure),
        "a finished row is not settled": done & ~now,
    }
    return [what for what, where in broken.items() if where.any()]


NAMES = [
    (name, shift) for name in DECODERS for shift in (False, True) if not (name == "wino" and shift)
]
"""WINO's shadow has no meaning for shifted logits."""


@pytest.mark.thinned(4)
@pytest.mark.parametrize("examples", [15, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "shift"), NAMES)
def test_what_is_settled_stays(name: str, shift: bool, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases(name, shift))
    def holds(case: Case) -> None:
        decoder = case.method.decoder
        for before, after in case.steps():
            assert decoder.settled(before).shape == before.response.shape
            assert decoder.settled(before).dtype == np.bool_
            assert violations(decoder, before, after) == []

    holds()


def states(name: str, **chosen: Any) -> tuple[Decoder[Any], list[DecodeState]]:
    """The states of one response, masks to end, that are not yet done."""
    method = build(name, {"length": 12, **chosen})
    case = Case(method, False, 1, (9, 2), 2, 5)
    return method.decoder, [before for before, _ in case.steps()]


def test_every_decoder_is_in_one_table() -> None:
    tables = [*FILLS, *BY_BLOCK, *AT_ITS_END, *FROM_THE_LEFT, *AS_RELEASED]
    assert sorted(tables) == sorted(DECODERS)


@pytest.mark.parametrize("block", [None, 4])
@pytest.mark.parametrize("name", FILLS)
def test_a_rule_that_only_fills_settles_what_it_places(name: str, block: int | None) -> None:
    decoder, seen = states(name, block=block if name in WITH_BLOCKS else None)
    assert len(seen) > 2
    for state in seen:
        assert np.array_equal(decoder.settled(state), ~state.masked)


@pytest.mark.parametrize("name", BY_BLOCK)
def test_a_rule_that_revises_its_block_settles_those_before(name: str) -> None:
    decoder, seen = states(name, block=4, **{"editing": {"edit": 0.3}}.get(name, {}))
    settled = [decoder.settled(state) for state in seen]
    left: list[Any] = [
        [update // 4 for update in state.updates] if name == "rcr" else state.block  # type: ignore[attr-defined]
        for state in seen
    ]
    expected: list[Flags] = [np.arange(12) < 4 * np.array(blocks)[:, None] for blocks in left]
    assert all(map(np.array_equal, settled, expected))
    assert {int(flags[0].sum()) for flags in settled} == {0, 4, 8}


@pytest.mark.parametrize(
    "name", ["saber", "saber-doubt", "saber-rest", "saber-tail", "saber-dream", "remdm-sampling"]
)
def test_a_rule_that_revises_everything_settles_nothing_before_its_last_update(name: str) -> None:
    decoder, seen = states(name, block=4 if name == "saber" else None)
    assert len(seen) > 3
    assert not any(decoder.settled(state).any() for state in seen[:-1])


def test_remdm_settles_what_is_placed_once_it_has_taken_back_its_last() -> None:
    decoder, seen = states("remdm", k=1, ratio=0.5, loops=2)
    settled = [decoder.settled(state) for state in seen]
    assert not any(flags.any() for flags in settled[:10])
    assert [int(flags[0].sum()) for flags in settled[10:]] == [6, 7, 8, 9, 10, 11]


def test_looped_sampling_settles_what_is_placed_once_its_loop_is_over() -> None:
    decoder, seen = states("remdm-sampling", strategy="loop", steps=20, t_off=0.41)
    over = [decoder.settled(state).any() for state in seen]
    assert over == [False] * 12 + [True] * 9
    for state in seen[12:]:
        assert np.array_equal(decoder.settled(state), ~state.masked)


def test_wrappers_pass_the_declarations_on() -> None:
    inner = Saber(rollback=False, block=4)
    state = inner.start(Prompt.of([1, 2], mask=9), 8)
    state.response[:, 2] = 5
    for wrapped in (EndOfText(inner, "logits"), Guided(inner, 0.5)):
        assert np.flatnonzero(wrapped.settled(state)[0]).tolist() == [2]
        with pytest.raises(BadRequest, match="A block of 4 does not divide the length 6"):
            wrapped.check(6)


@dataclass(frozen=True)
class Boastful:
    """Says of everything placed that it stays."""

    def settled(self, state: DecodeState) -> Flags:
        return kept(state)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("saber", {"block": 4}),
        ("saber-dream", {"mu": 2}),
        ("wino", {"threshold": 0.02, "verify": 0.2}),
        ("remdm", {"ratio": 0.5}),
        ("remdm-sampling", {"eta": 0.3}),
        ("editing", {"fill": 0.02, "edit": 0.1}),
    ],
)
def test_a_false_declaration_is_seen(name: str, chosen: dict[str, Any]) -> None:
    """The rules that take tokens back do so here: the tests above do not pass for want of occasion."""
    case = Case(build(name, {"length": 12, **chosen}), False, 1, (3, 1, 4, 1, 5), 1, 5)
    boastful: Any = Boastful()
    broken = [violations(boastful, *pair) for pair in case.steps()]
    assert any("a settled position changed" in each for each in broken)


@pytest.mark.parametrize("name", DECODERS)
def test_a_response_may_start_at_every_length_that_passes_the_check(name: str) -> None:
    """And at no other: the two refuse alike, with the same sentence."""
    part = DECODERS[name]
    chosen = {"block": 4} if name in WITH_BLOCKS else {}
    decoder: Decoder[Any] = part.make(**chosen, **part.fixed)
    prompt = Prompt.of([3, 1], mask=9)
    decoder.check(8)
    assert decoder.start(prompt, 8).wanted == 8
    if name in WITH_BLOCKS:
        with pytest.raises(BadRequest) as at_check:
            decoder.check(10)
        with pytest.raises(BadRequest) as at_start:
            decoder.start(prompt, 10)
        assert str(at_check.value) == str(at_start.value)
