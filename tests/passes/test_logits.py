"""Confidence, candidates and noise on hand-made logits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archer.passes import reduction as module
from archer.passes.logits import Logits, RowLogits
from support import naive
from support.naive import greedy


def random_logits(
    rows: int, columns: int, vocabulary: int, seed: int, scale: float
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, columns, vocabulary, generator=generator, dtype=torch.float64)


@given(st.integers(0, 10**6), st.floats(0.1, 30), st.integers(0, 19))
def test_greedy_equals_a_plain_softmax(seed: int, scale: float, mask: int) -> None:
    values = random_logits(2, 5, 20, seed, scale)
    got = greedy(Logits.dense(values, mask))
    tokens, confidence = naive.confidence(values, mask)
    assert np.array_equal(got.tokens, tokens)
    assert np.allclose(got.confidence, confidence, rtol=1e-12, atol=1e-300)


@given(st.integers(0, 10**6))
def test_float32_logits_give_confidences_good_to_float32(seed: int) -> None:
    values = random_logits(1, 6, 300, seed, 8.0).float()
    confidence = naive.confidence(values, 7)[1]
    assert np.allclose(greedy(Logits.dense(values, 7)).confidence, confidence, rtol=2e-6)


@given(st.integers(0, 10**6), st.integers(0, 19))
def test_narrow_logits_are_taken_for_what_they_are(seed: int, mask: int) -> None:
    """bfloat16 logits are numbers like others: all sums over them are wide."""
    values = random_logits(2, 5, 20, seed, 4.0).bfloat16()
    narrow, wide = Logits.dense(values, mask), Logits.dense(values.float(), mask)
    assert np.array_equal(greedy(narrow).tokens, greedy(wide).tokens)
    assert np.allclose(greedy(narrow).confidence, greedy(wide).confidence, rtol=1e-6)
    for ours, same in zip(narrow.margin + narrow.entropy, wide.margin + wide.entropy, strict=True):
        assert torch.allclose(ours, same, atol=1e-5)


def test_confidences_that_float32_calls_one_keep_their_order() -> None:
    values = torch.zeros(1, 3, 10)
    values[0, :, 4] = torch.tensor([25.0, 27.0, 26.0])
    confidence = greedy(Logits.dense(values, 9)).confidence[0]
    assert confidence.dtype == np.float64
    assert values.softmax(-1)[0, :, 4].tolist() == [1.0, 1.0, 1.0]
    assert confidence[1] > confidence[2] > confidence[0]


@pytest.mark.parametrize("mask", [0, 3, 7])
def test_the_mask_is_never_a_candidate_but_counts_in_the_mass(mask: int) -> None:
    values = torch.zeros(1, 1, 8, dtype=torch.float64)
    values[0, 0, mask] = 5.0
    values[0, 0, 5] = 1.0
    best = greedy(Logits.dense(values, mask))
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
    at_hand, anywhere = (
        module._summits_at_hand(values, mask),
        module._summits_anywhere(values, mask),
    )
    assert torch.equal(values, kept)
    for ours, twin in zip(at_hand, anywhere, strict=True):
        assert ours.dtype == twin.dtype
        assert torch.equal(ours, twin)


def test_equal_logits_go_to_the_lowest_id() -> None:
    values = torch.zeros(1, 4, 1000)
    values[0, 1, [800, 900]] = 1.0
    values[0, 2, [3, 900]] = 2.0
    values[0, 3, [501, 499]] = 2.0
    assert greedy(Logits.dense(values, 500)).tokens.tolist() == [[0, 800, 3, 499]]
    assert greedy(Logits.dense(values, 0)).tokens.tolist() == [[1, 800, 3, 499]]


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    values = random_logits(2, 9, 40, 1, 4.0)
    whole = Logits.dense(values, 3)
    monkeypatch.setattr(module, "HOST_CHUNK", 80)
    parts = Logits.dense(values, 3)
    assert len(list(module._chunks(values[0]))) > 1
    assert np.array_equal(greedy(whole).confidence, greedy(parts).confidence)
    drawn = [torch.stack(one.sampled(0.7, (5, 6), (0, 3)).tokens) for one in (whole, parts)]
    assert torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize(
    ("value", "finite"), [(math.nan, False), (math.inf, False), (-math.inf, True), (0.0, True)]
)
def test_a_row_with_nan_or_infinity_is_not_finite(value: float, finite: bool) -> None:
    values = random_logits(2, 3, 12, 5, 1.0)
    for token in (0, 4, 11):
        sick = values.clone()
        sick[1, 2, token] = value
        assert Logits.dense(sick, 4).sound.tolist() == [True, finite]
    nothing = Logits.dense(torch.full((1, 1, 5), -math.inf), 0)
    assert nothing.sound.tolist() == [False]
    assert np.isnan(greedy(nothing).confidence).all()


def test_probability_of_any_token() -> None:
    values = random_logits(2, 3, 12, 9, 2.0)
    tokens = torch.tensor([[0, 5, 11], [4, 4, 1]])
    expected = values.softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
    logits = Logits.dense(values, 4)
    assert torch.equal(torch.stack(logits.at(tokens.numpy())), tokens)
    found = torch.stack(logits.probability(logits.at(tokens.numpy())))
    assert torch.allclose(found, expected, rtol=1e-12)
    read = logits.read(logits.answering(tuple(tokens)))[0]
    assert np.array_equal(read.tokens, tokens)
    assert np.allclose(read.confidence, found, rtol=1e-15), "the same on the host"


def test_columns_that_were_not_read_are_unknown() -> None:
    values = random_logits(1, 2, 12, 9, 2.0)[0]
    some = Logits([RowLogits(values, (1, 3))], answers=5, mask=4)
    best, (likely, other) = some.read(some.greedy, some.entropy, some.greedy.tokens)
    for known in (best.confidence, likely):
        assert np.isnan(known).tolist() == [[True, False, True, False, True]]
    assert (best.tokens == other).all()
    assert other.dtype == np.int64
    assert other[0, [0, 2, 4]].tolist() == [0, 0, 0]
    assert some.at(np.arange(5)[None])[0].tolist() == [1, 3]
    assert np.array_equal(greedy(some.select([0])).tokens, best.tokens)


def test_rows_may_know_different_columns() -> None:
    values = random_logits(1, 3, 12, 9, 2.0)[0]
    rows = [RowLogits(values, (0, 1, 2)), RowLogits(values[:1], (2,)), RowLogits(values[:0], ())]
    mixed = Logits(rows, answers=3, mask=4)
    found = greedy(mixed)
    assert np.isnan(found.confidence).tolist() == [[False] * 3, [True, True, False], [True] * 3]
    assert found.confidence[1, 2] == found.confidence[0, 0]
    assert mixed.sound.tolist() == [True, True, True]


def test_temperature_zero_opens_no_stream_of_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 31: not even a private generator is made."""
    monkeypatch.setattr("archer.passes.noise.stream", lambda *_: pytest.fail("noise was asked for"))
    logits = Logits.dense(random_logits(1, 4, 15, 3, 2.0), 2)
    assert logits.sampled(0.0, (1,), (0,)) is logits.greedy


def test_noise_depends_on_key_and_update_and_on_nothing_else() -> None:
    values = random_logits(1, 8, 30, 3, 0.1).expand(2, 8, 30)
    both = Logits.dense(values, 2).sampled(1.0, (7, 8), (3, 3)).tokens
    alone = Logits.dense(values[:1], 2).sampled(1.0, (8,), (3,)).tokens
    assert torch.equal(both[1], alone[0])
    assert not torch.equal(both[0], both[1])
    later = Logits.dense(values[:1], 2).sampled(1.0, (8,), (4,)).tokens
    assert not torch.equal(alone[0], later[0])


def test_samples_follow_the_tempered_distribution_and_keep_the_plain_probability() -> None:
    row = torch.tensor([2.0, 1.0, 0.0, 4.0], dtype=torch.float64)
    values = row.expand(1, 20_000, 4)
    logits = Logits.dense(values, 3)
    drawn, _ = logits.read(logits.sampled(2.0, (1,), (0,)))
    expected = (row[:3] / 2.0).softmax(0)
    share = np.bincount(drawn.tokens[0], minlength=3) / 20_000
    assert np.abs(share - expected.numpy()).max() < 0.02
    assert np.allclose(drawn.confidence[0], row.softmax(0)[drawn.tokens[0]], rtol=1e-12)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_logits_far_below_the_top_are_ordinary_numbers_and_weigh_nothing(kind: torch.dtype) -> None:
    """Where exponentials would lose their digits a processor takes twenty times as long for each."""
    lowest = module.FAINTEST[kind]
    values = torch.linspace(lowest - 20, lowest + 20, 500, dtype=kind).repeat(2, 1)
    values[:, 7] = torch.tensor([0.0, -torch.inf])
    values[1, 9] = 0.0
    seen = module._below(values, values.max(dim=1).values).exp()
    assert seen.min() >= torch.finfo(kind).tiny
    peaks = module.peaks_of(values, 3)
    assert peaks.rest.max() < 1e-20
    assert module.entropy_of(values, peaks).abs().max() < 1e-20
