"""Confidence, candidates and noise on hand-made logits."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import naive
from archer import logits as module
from archer.logits import Logits, RowLogits


def random_logits(
    rows: int, columns: int, vocabulary: int, seed: int, scale: float
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, columns, vocabulary, generator=generator, dtype=torch.float64)


@given(st.integers(0, 10**6), st.floats(0.1, 30), st.integers(0, 19))
def test_greedy_equals_a_plain_softmax(seed: int, scale: float, mask: int) -> None:
    values = random_logits(2, 5, 20, seed, scale)
    got = Logits.dense(values, mask).greedy
    tokens, confidence = naive.confidence(values, mask)
    assert torch.equal(got.tokens, tokens)
    assert torch.allclose(got.confidence, confidence, rtol=1e-12, atol=1e-300)


@given(st.integers(0, 10**6))
def test_float32_logits_give_confidences_good_to_float32(seed: int) -> None:
    values = random_logits(1, 6, 300, seed, 8.0).float()
    confidence = naive.confidence(values, 7)[1]
    assert torch.allclose(Logits.dense(values, 7).greedy.confidence, confidence, rtol=2e-6)


def test_confidences_that_float32_calls_one_keep_their_order() -> None:
    values = torch.zeros(1, 3, 10)
    values[0, :, 4] = torch.tensor([25.0, 27.0, 26.0])
    confidence = Logits.dense(values, 9).greedy.confidence[0]
    assert confidence.dtype == torch.float64
    assert values.softmax(-1)[0, :, 4].tolist() == [1.0, 1.0, 1.0]
    assert confidence[1] > confidence[2] > confidence[0]


@pytest.mark.parametrize("mask", [0, 3, 7])
def test_the_mask_is_never_a_candidate_but_counts_in_the_mass(mask: int) -> None:
    values = torch.zeros(1, 1, 8, dtype=torch.float64)
    values[0, 0, mask] = 5.0
    values[0, 0, 5] = 1.0
    best = Logits.dense(values, mask).greedy
    assert best.tokens.item() == 5
    expected = math.exp(1) / (math.exp(5) + math.exp(1) + 6)
    assert best.confidence.item() == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 10**6), st.integers(0, 11), st.sampled_from([torch.float32, torch.float64]))
def test_the_best_token_is_the_same_however_it_is_found(
    seed: int, mask: int, dtype: torch.dtype
) -> None:
    """Whole numbers make ties, and the mask id is often on top."""
    values = random_logits(1, 40, 12, seed, 2.0)[0].round().to(dtype)
    values[::3, mask] += 9.0
    kept = values.clone()
    at_hand, anywhere = module._best_at_hand(values, mask), module._best_anywhere(values, mask)
    assert torch.equal(values, kept)
    for ours, twin in zip(at_hand, anywhere, strict=True):
        assert torch.equal(ours, twin)


def test_equal_logits_go_to_the_lowest_id() -> None:
    values = torch.zeros(1, 4, 1000)
    values[0, 1, [800, 900]] = 1.0
    values[0, 2, [3, 900]] = 2.0
    values[0, 3, [501, 499]] = 2.0
    assert Logits.dense(values, 500).greedy.tokens.tolist() == [[0, 800, 3, 499]]
    assert Logits.dense(values, 0).greedy.tokens.tolist() == [[1, 800, 3, 499]]


@given(st.integers(0, 10**6), st.floats(-50, 50))
def test_a_constant_added_to_a_row_changes_nothing(seed: int, constant: float) -> None:
    values = random_logits(1, 4, 15, seed, 3.0)
    plain, moved = Logits.dense(values, 2).greedy, Logits.dense(values + constant, 2).greedy
    assert torch.equal(plain.tokens, moved.tokens)
    assert torch.allclose(plain.confidence, moved.confidence, rtol=1e-9)


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    values = random_logits(2, 9, 40, 1, 4.0)
    whole = Logits.dense(values, 3)
    monkeypatch.setattr(module, "HOST_CHUNK", 80)
    parts = Logits.dense(values, 3)
    assert torch.equal(whole.greedy.confidence, parts.greedy.confidence)
    drawn = [one.sampled(0.7, (5, 6), (0, 3)).tokens for one in (whole, parts)]
    assert torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize(
    ("value", "finite"), [(math.nan, False), (math.inf, False), (-math.inf, True), (0.0, True)]
)
def test_a_row_with_nan_or_infinity_is_not_finite(value: float, finite: bool) -> None:
    values = random_logits(2, 3, 12, 5, 1.0)
    for token in (0, 4, 11):
        sick = values.clone()
        sick[1, 2, token] = value
        assert Logits.dense(sick, 4).finite.tolist() == [True, finite]
    assert Logits.dense(torch.full((1, 1, 5), -math.inf), 0).finite.tolist() == [False]


def test_probability_of_any_token() -> None:
    values = random_logits(2, 3, 12, 9, 2.0)
    tokens = torch.tensor([[0, 5, 11], [4, 4, 1]])
    expected = values.softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
    assert torch.allclose(Logits.dense(values, 4).probability(tokens), expected, rtol=1e-12)


def test_columns_that_were_not_read_are_unknown() -> None:
    values = random_logits(1, 2, 12, 9, 2.0)[0]
    some = Logits([RowLogits(values, (1, 3))], answers=5, mask=4)
    assert some.greedy.confidence.isnan().tolist() == [[True, False, True, False, True]]
    assert some.probability(torch.zeros(1, 5, dtype=torch.long)).isnan().sum() == 3
    assert some.select([0]).greedy.tokens.tolist() == some.greedy.tokens.tolist()


def test_temperature_zero_draws_nothing() -> None:
    values = random_logits(1, 4, 15, 3, 2.0)
    before = torch.random.get_rng_state()
    cold = Logits.dense(values, 2).sampled(0.0, (1,), (0,))
    hot = Logits.dense(values, 2).sampled(5.0, (1,), (0,))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(cold.tokens, Logits.dense(values, 2).greedy.tokens)
    assert not torch.equal(cold.tokens, hot.tokens)


def test_temperature_zero_opens_no_stream_of_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 31: not even a private generator is made."""
    monkeypatch.setattr("archer.noise.stream", lambda *_: pytest.fail("noise was asked for"))
    logits = Logits.dense(random_logits(1, 4, 15, 3, 2.0), 2)
    assert logits.sampled(0.0, (1,), (0,)) is logits.greedy


def test_noise_depends_on_key_and_update_and_on_nothing_else() -> None:
    values = random_logits(1, 8, 30, 3, 0.1).expand(2, 8, 30)
    both = Logits.dense(values, 2).sampled(1.0, (7, 8), (3, 3)).tokens
    alone = Logits.dense(values[:1], 2).sampled(1.0, (8,), (3,)).tokens
    assert torch.equal(both[1], alone[0])
    assert not torch.equal(both[0], both[1])
    later = Logits.dense(values[:1], 2).sampled(1.0, (8,), (4,)).tokens
    assert not torch.equal(alone, later)


def test_samples_follow_the_tempered_distribution_and_keep_the_plain_probability() -> None:
    row = torch.tensor([2.0, 1.0, 0.0, 4.0], dtype=torch.float64)
    values = row.expand(1, 20_000, 4)
    drawn = Logits.dense(values, 3).sampled(2.0, (1,), (0,))
    expected = (row[:3] / 2.0).softmax(0)
    share = torch.bincount(drawn.tokens[0], minlength=3) / 20_000
    assert (share - expected).abs().max() < 0.02
    assert torch.allclose(drawn.confidence[0], row.softmax(0)[drawn.tokens[0]], rtol=1e-12)
