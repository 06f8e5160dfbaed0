"""The naive twin, the library twin and the marked network compute what the engine computes."""

import importlib.util
from typing import Any

import pytest
import torch

from archer.bench.step_variants import (
    NEVER,
    Parts,
    StepSample,
    StepVariants,
    TimedNetwork,
    naive_pass,
)
from archer.bench.subject import first_layers, half_placed
from archer.bench.transformers_pass import check_library, library_pass, library_twin
from archer.decoders.saber import Saber
from archer.engine.walk import steps_of
from archer.errors import BadRequest
from archer.methods.build import Method
from archer.passes.canvas import Prompt
from archer.passes.work import Work
from archer.policies.prompt_cache import Age
from support.networks import tiny

P, G = 11, 6


def engine_logits(made: StepVariants, every: int, state: Any = None) -> torch.Tensor:
    """Of the first response, or of another with the same prompt in the store."""
    method = Method(Saber(), Age(every))
    step = next(steps_of(made.network, method, state or made.state, made.memory))
    return step.logits.rows[0].values


@pytest.mark.parametrize("shift", [False, True])
def test_the_naive_twin_gives_the_logits_of_the_engine(shift: bool) -> None:
    subject = tiny(shift)
    alternatives = StepVariants.at(subject, P, G)
    kept = P - int(shift)
    whole, full = naive_pass(subject.network, alternatives.tokens)
    cached, work = naive_pass(subject.network, alternatives.tokens[kept:], alternatives.past)
    assert (whole[kept : kept + G] - engine_logits(alternatives, 1)).abs().max() < 1e-5
    assert (cached[:G] - engine_logits(alternatives, NEVER)).abs().max() < 1e-5
    layers, n, rows = subject.network.shape.layers, P + G, G + int(shift)
    assert full == Work(layers * n, layers * n, layers * n, layers * n * n, n)
    assert work == Work(layers * rows, layers * rows, layers * rows, layers * rows * n, rows)


@pytest.mark.parametrize("shift", [False, True])
def test_the_naive_twin_keeps_a_stale_prompt_as_the_engine_does(shift: bool) -> None:
    """With a response other than the one that the prompt was computed with."""
    subject = tiny(shift)
    alternatives = StepVariants.at(subject, P, G)
    moved = alternatives.tokens.clone()
    moved[-2:] = torch.tensor([1, 2])
    stale, _ = naive_pass(subject.network, moved[P - int(shift) :], alternatives.past)
    fresh, _ = naive_pass(subject.network, moved)
    state = half_placed(subject, P, G)
    state.response[0, -2:] = [1, 2]
    engine = engine_logits(alternatives, NEVER, state)
    assert (stale[:G] - engine).abs().max() < 1e-5
    assert (fresh[P - int(shift) :][:G] - engine).abs().max() > 1e-3


@pytest.mark.parametrize("shift", [False, True])
def test_the_library_twin_gives_the_logits_of_the_naive_one(shift: bool) -> None:
    subject = tiny(shift)
    tokens = StepVariants.at(subject, P, G).tokens
    twin = library_twin(subject.network)
    ours, _ = naive_pass(subject.network, tokens)
    assert (library_pass(twin, tokens) - ours).abs().max() < 1e-4
    assert (library_pass(twin, tokens, keep=G) - ours[-G:]).abs().max() < 1e-4


def test_the_library_twin_shares_the_weights() -> None:
    subject = tiny()
    twin = library_twin(subject.network)
    assert twin.lm_head.weight.data_ptr() == subject.network.head.data_ptr()
    first = twin.model.layers[0].self_attn.k_proj.weight
    assert first.data_ptr() == subject.network.layer(0).qkv[first.shape[0] :].data_ptr()


def test_without_the_library_its_twin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_library()
    monkeypatch.setattr("archer.bench.transformers_pass.find_spec", lambda name: None)
    with pytest.raises(BadRequest, match="not installed here"):
        check_library()
    assert importlib.util.find_spec("transformers") is not None


def test_a_marked_network_tells_layers_and_head_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = tiny()
    ticks = iter(range(100))
    network = TimedNetwork(subject.network)
    monkeypatch.setattr(network, "_clock", Ticking(ticks))
    tokens = torch.arange(4)
    scores, _ = naive_pass(network, tokens)
    assert torch.equal(scores, naive_pass(subject.network, tokens)[0])
    parts = network.take()
    assert parts == Parts(1.0, (1.0, 1.0, 1.0), 1.0)
    assert parts.total == 5.0
    naive_pass(network, tokens)
    assert len(network.take().layers) == 3


class Ticking:
    """A clock on which one second passes between two looks."""

    def __init__(self, ticks: Any) -> None:
        self._ticks = ticks

    def mark(self) -> float:
        return float(next(self._ticks))

    def seconds(self, start: float, end: float) -> float:
        return end - start


def test_depth_is_extrapolated_from_the_layers_before_the_last() -> None:
    """Ten seconds of which layers took 2, 4 and 1: two more layers take 3 each."""
    sample = StepSample(10.0, Parts(0.5, (2.0, 4.0, 1.0), 1.5), Work())
    assert sample.at_depth(3) == 10.0
    assert sample.at_depth(5) == 16.0
    assert sample.control == pytest.approx(0.1)


def test_the_first_layers_of_a_network_share_its_weights() -> None:
    subject = tiny()
    part = first_layers(subject.network, 2)
    assert part.shape.layers == len(part.layers) == 2
    assert part.layer(1) is subject.network.layer(1)
    assert part.head is subject.network.head


def test_the_recorded_state_has_every_second_token_and_never_the_mask() -> None:
    subject = tiny()
    state = half_placed(subject, 40, 20)
    assert state.masked[0].tolist() == [True, False] * 10
    assert subject.mask not in state.prompt.tokens.tolist()
    assert isinstance(state.prompt, Prompt)
