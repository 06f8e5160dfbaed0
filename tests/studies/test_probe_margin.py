"""Saber's margin: nothing within it changes the action, something at its edge does."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from archer.decoders.saber import Saber, SaberState
from archer.errors import BadRequest
from archer.passes.canvas import Flags, Prompt
from archer.passes.logits import Logits
from archer_studies.probes.bounds import log_odds, saber_margin, turning
from support.naive import greedy

LENGTH, VOCABULARY, MASK = 7, 6, 5
EDGE = 1e-6


def draw_logits(generator: torch.Generator) -> Tensor:
    """Float64[1, G, V]"""
    drawn = torch.randn(1, LENGTH, VOCABULARY, generator=generator, dtype=torch.float64)
    return 2.0 * drawn


def somewhere(saber: Saber, seed: int, updates: int) -> tuple[SaberState, Tensor]:
    """A state after some updates on random logits, and logits for the next one."""
    generator = torch.Generator().manual_seed(seed)
    state = saber.start(Prompt.of([0, 1], MASK), LENGTH)
    for _ in range(updates):
        following, _ = saber.step(state, Logits.dense(draw_logits(generator), MASK))
        if bool(following.done[0]):
            break
        state = following
    return state, draw_logits(generator)


def margin(saber: Saber, state: SaberState, values: Tensor) -> float:
    logits = Logits.dense(values, MASK)
    return saber_margin(saber, state, logits, saber.step(state, logits)[1])


def changing(saber: Saber, state: SaberState, values: Tensor, changes: list[Tensor]) -> Flags:
    """[n]: which changes of the logits change the action; all of them decided as one batch."""
    first = saber.step(state, Logits.dense(values, MASK))[1]
    moved = Logits.dense(values + torch.cat(changes), MASK)
    second = saber.step(state.select([0] * len(changes)), moved)[1]
    differs = (
        (second.accepted != first.accepted)
        | (second.remasked != first.remasked)
        | (second.tokens != first.tokens) & first.accepted
    )
    return np.asarray(differs.any(axis=1))


def worst(values: Tensor, size: float) -> Iterator[Tensor]:
    """The changes that can matter first: each column alone or two of them, up, down, or another token."""
    best = values[0].clone()
    best[:, MASK] = -torch.inf
    order = best.argsort(dim=1, descending=True)
    single = torch.zeros(LENGTH, 3, VOCABULARY, dtype=torch.float64)
    for column in range(LENGTH):
        single[column, 0] = -size
        single[column, 0, order[column, 0]] = size
        single[column, 1] = -single[column, 0]
        single[column, 2, order[column, 0]] = -size
        single[column, 2, order[column, 1]] = size
    for first in range(LENGTH):
        for kind in range(3):
            alone = torch.zeros_like(values)
            alone[0, first] = single[first, kind]
            yield alone
            for second in range(LENGTH):
                if kind == 0 and second != first:
                    both = alone.clone()
                    both[0, second] = single[second, 1]
                    yield both


CASES = st.tuples(st.integers(0, 10_000), st.integers(0, 5), st.integers(1, 3), st.integers(1, 3))


@given(CASES)
@settings(deadline=None, max_examples=40)
def test_no_change_within_the_margin_changes_the_action(case: tuple[int, int, int, int]) -> None:
    seed, updates, n, mu = case
    saber = Saber(n=n, mu=mu)
    state, values = somewhere(saber, seed, updates)
    size = margin(saber, state, values) - EDGE
    assume(0 < size < 100)
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (10, *values.shape), generator=generator, dtype=torch.float64)
    changes = [*worst(values, size), *(size * (2 * signs - 1))]
    assert not changing(saber, state, values, changes).any()


@given(CASES)
@settings(deadline=None, max_examples=40)
def test_some_change_just_beyond_it_does(case: tuple[int, int, int, int]) -> None:
    """Exact unless a placed column's best token changes while it falls, which is left out here."""
    seed, updates, n, mu = case
    saber = Saber(n=n, mu=mu)
    state, values = somewhere(saber, seed, updates)
    size = margin(saber, state, values) + EDGE
    candidates = values[0].clone()
    candidates[:, MASK] = -torch.inf
    lead = candidates.topk(2, dim=1).values
    assume(size < 100)
    assume(bool(((lead[:, 0] - lead[:, 1])[~state.masked[0]] > 2 * size).all()))
    assert changing(saber, state, values, list(worst(values, size))).any()


@given(st.floats(-6, 6), st.floats(-6, 6), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_the_turning_point_is_the_root(
    falls: float, rises: float, falls_from: float, rises_from: float
) -> None:
    numbers = [np.array(x) for x in (falls, falls_from, rises, rises_from)]

    def gap(size: float) -> float:
        low = 1 / (1 + np.exp(2 * size - numbers[0])) - numbers[1]
        return float(low - 1 / (1 + np.exp(-numbers[2] - 2 * size)) + numbers[3])

    assume(gap(0.0) > 1e-9)
    found = float(turning(*numbers))
    assert found >= 0
    assert gap(found) == pytest.approx(0.0, abs=1e-9)


def test_the_logits_are_left_as_they_are() -> None:
    state, values = somewhere(Saber(), 1, 2)
    before = values.clone()
    assert margin(Saber(), state, values) > 0
    assert torch.equal(values, before)


def test_log_odds_are_those_of_the_confidence() -> None:
    values = draw_logits(torch.Generator().manual_seed(3))
    values[0, 0, MASK] = 9.0
    logits = Logits.dense(values, MASK)
    sure = torch.from_numpy(greedy(logits).confidence[0])
    assert np.allclose(log_odds(logits), torch.logit(sure).numpy())


@pytest.mark.parametrize(
    "changed", [{"watch": "placed"}, {"temperature": 1.0}, {"precision": "bfloat16"}]
)
def test_other_rules_are_refused(changed: dict[str, object]) -> None:
    saber = Saber(**changed)  # type: ignore[arg-type]
    state, values = somewhere(Saber(), 0, 1)
    with pytest.raises(
        BadRequest, match="Leave watch, temperature and precision at their defaults"
    ):
        margin(saber, state, values)
