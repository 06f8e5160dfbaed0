"""Decoders as pure rules on hand-made logits: against slow oracles, and the invariants of the rules."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from archer.decoders.base import Decision, leading
from archer.decoders.p2 import P2
from archer.decoders.rcr import Rcr
from archer.decoders.saber import Saber
from archer.decoders.scheduled import Scheduled
from archer.errors import BadRequest
from archer.passes.canvas import Ints, Prompt
from archer.passes.logits import Logits
from support.naive import greedy
from support.oracles.rules import SaberRow, confidence_rule, p2_rule, rcr_rule, schedule

MASK, VOCABULARY = 9, 12


def prompt_of(rows: int) -> Prompt:
    return Prompt.of([1, 2, 3], MASK, samples=rows)


def logits_at(update: int, seed: int, rows: int, length: int, coarse: bool = False) -> Tensor:
    """Float64[B, G, V]; coarse values tie often."""
    generator = torch.Generator().manual_seed(seed * 1009 + update)
    drawn = 3 * torch.randn(rows, length, VOCABULARY, generator=generator, dtype=torch.float64)
    return drawn.round() if coarse else drawn


def trajectory(
    decoder: Any, seed: int, length: int, rows: int = 1, coarse: bool = False
) -> Iterator[tuple[Any, Logits, Decision, Any]]:
    """Drive a decoder with random logits until every row is done (finished rows are dropped)."""
    state = decoder.start(prompt_of(rows), length)
    update = 0
    while len(state.updates):
        update += 1
        assert update <= decoder.limit(length), "the rule's own bound"
        logits = Logits.dense(logits_at(update, seed, len(state.updates), length, coarse), MASK)
        after, decision = decoder.step(state, logits)
        yield state, logits, decision, after
        going = [row for row, done in enumerate(after.done.tolist()) if not done]
        state = after.select(going)


@st.composite
def saber_cases(draw: st.DrawFn) -> tuple[Saber, int, int, bool]:
    block = draw(st.integers(1, 8))
    blocks = draw(st.integers(1, 3))
    length = block * blocks
    n = draw(st.integers(1, min(5, length)))
    decoder = Saber(
        n=n,
        mu=draw(st.integers(1, 8)),
        block=block,
        rollback=draw(st.booleans()),
        cap=draw(st.sampled_from([1.0, 0.9, 0.5, 0.2])),
    )
    return decoder, length, draw(st.integers(0, 10**6)), draw(st.booleans())


def to_list(response: Ints) -> list[int | None]:
    return [None if token == MASK else token for token in response.tolist()]


@given(saber_cases())
def test_saber_equals_the_slow_rule(case: tuple[Saber, int, int, bool]) -> None:
    decoder, length, seed, coarse = case
    assert decoder.block is not None
    oracle = SaberRow(
        length, decoder.block, decoder.n, decoder.mu, decoder.rollback, cap=decoder.cap
    )
    for _, logits, decision, after in trajectory(decoder, seed, length, coarse=coarse):
        best = greedy(logits)
        accepted, remasked, bar = oracle.update(
            best.confidence[0].tolist(), best.tokens[0].tolist()
        )
        assert np.flatnonzero(decision.accepted[0]).tolist() == accepted
        assert np.flatnonzero(decision.remasked[0]).tolist() == remasked
        assert decision.threshold.item() == pytest.approx(bar, abs=1e-12)
        assert to_list(after.response[0]) == oracle.response
        assert after.done.item() == oracle.done
    assert oracle.done


def test_a_token_that_was_never_sure_has_lost_nothing() -> None:
    """Placed with a confidence of 0, as end ids are with eos=confidence, or not placed yet."""
    decoder = Saber(doubt=1.0, doubt_by="kept")
    sure = np.array([[0.0, 0.5, 0.4, 0.6, 0.2]])
    accepted_at = np.array([[0.0, 0.0, 0.5, 0.5, np.nan]])
    found = decoder._doubted(sure, None, accepted_at)
    assert found.tolist() == [[False, False, True, False, False]]


@given(
    saber_cases(),
    st.sampled_from([0.1, 0.5, 0.9, 0.99, 1.0]),
    st.sampled_from(["confidence", "own", "kept", "lead", "rival", "moved"]),
)
def test_saber_takes_back_what_it_doubts(
    case: tuple[Saber, int, int, bool], doubt: float, by: Any
) -> None:
    """The condition against the slow rule; and only tokens that are doubted are taken back."""
    plain, length, seed, coarse = case
    assert plain.block is not None
    decoder = replace(plain, rollback=True, doubt=doubt, doubt_by=by)
    oracle = SaberRow(
        length, plain.block, plain.n, plain.mu, doubt=doubt, doubt_by=by, cap=plain.cap
    )
    for _, logits, decision, after in trajectory(decoder, seed, length, coarse=coarse):
        best = greedy(logits)
        chances = logits.rows[0].values.softmax(-1)
        chances[:, MASK] = 0.0
        accepted, remasked, _ = oracle.update(
            best.confidence[0].tolist(), best.tokens[0].tolist(), chances.tolist()
        )
        assert np.flatnonzero(decision.accepted[0]).tolist() == accepted
        assert np.flatnonzero(decision.remasked[0]).tolist() == remasked
        assert to_list(after.response[0]) == oracle.response
    assert oracle.done


@given(saber_cases())
def test_saber_keeps_its_invariants(case: tuple[Saber, int, int, bool]) -> None:
    decoder, length, seed, coarse = case
    assert decoder.block is not None
    for index, (before, logits, decision, after) in enumerate(
        trajectory(decoder, seed, length, coarse=coarse)
    ):
        below = np.arange(length) < (before.block[0] + 1) * decoder.block
        taken, back = decision.accepted[0], decision.remasked[0]
        remaining = int((before.masked[0] & below).sum())
        assert int(taken.sum()) >= min(decoder.n, remaining)
        assert (taken <= (before.masked[0] & below)).all()
        assert int(back.sum()) <= max(0, int(taken.sum()) - 1)
        assert (back <= (below & (taken | ~before.masked[0]))).all()
        assert not decision.replaced.any()
        if not after.done:
            assert int(after.masked.sum()) < int(before.masked.sum())
        assert 0 < decision.threshold.item() <= 1
        known = ~np.isnan(before.accepted_at[0]) & below
        if known.any():
            mean = before.accepted_at[0][known].mean()
            bar = min(mean.item(), decoder.cap)
            assert decision.threshold.item() == pytest.approx(bar, abs=1e-12)
        if index == 0 and length > decoder.n and decoder.block > decoder.n and decoder.cap == 1:
            assert int(taken.sum()) == decoder.n
            sure = greedy(logits).confidence[0][taken]
            if decoder.rollback and len(set(sure.tolist())) == len(sure):
                lost = greedy(logits).confidence[0][back]
                kept = greedy(logits).confidence[0][taken & ~back]
                assert not len(lost) or lost.max() < kept.min()
        assert np.array_equal(after.prompt.tokens, before.prompt.tokens)
    assert after.done.all()
    assert not after.masked.any()


@given(st.integers(1, 2), st.integers(1, 8), st.integers(3, 24), st.integers(0, 10**6))
def test_one_block_of_saber_ends_in_time_and_never_runs_short(
    n: int, mu: int, length: int, seed: int
) -> None:
    steps = list(trajectory(Saber(n=n, mu=mu), seed, length))
    assert len(steps) <= length - n + 1
    for before, _, _, _ in steps:
        assert int(before.masked.sum()) >= n


@st.composite
def schedules(draw: st.DrawFn) -> tuple[int, int, int, int, bool]:
    block, blocks = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    each = draw(st.integers(1, 12))
    return block * blocks, block, each * blocks, draw(st.integers(0, 10**6)), draw(st.booleans())


@given(schedules())
def test_rcr_equals_the_slow_rule(case: tuple[int, int, int, int, bool]) -> None:
    """It reads masks alone: whatever it is told about placed tokens changes nothing."""
    length, block, steps, seed, coarse = case
    decoder, counts = Rcr(steps=steps, block=block), schedule(length, block, steps)
    each = steps // (length // block)
    filled: dict[int, float] = {}
    for update, (before, logits, decision, after) in enumerate(
        trajectory(decoder, seed, length, coarse=coarse)
    ):
        best, at = greedy(logits), update // each
        owed = sum(counts[update + 1 : (at + 1) * each])
        columns = range(at * block, (at + 1) * block)
        if update % each == 0:
            filled = {}
        masks, filled = rcr_rule(filled, columns, best.confidence[0].tolist(), owed)
        now = to_list(after.response[0])
        assert [i for i in columns if now[i] is None] == masks
        assert not (decision.accepted & decision.remasked).any()
        for i in np.flatnonzero(decision.accepted[0]):
            assert before.masked[0, i]
            assert now[i] == best.tokens[0, i]
        assert (decision.remasked <= before.placed).all()
    assert after.done.all()
    assert not any(counts[update + 1 :])


@given(st.integers(1, 16), st.integers(1, 20), st.integers(0, 10**6), st.booleans())
def test_p2_equals_the_slow_rule(length: int, steps: int, seed: int, coarse: bool) -> None:
    """Every column is scored anew, and a token that stays is never replaced."""
    walked = trajectory(P2(steps=steps), seed, length, coarse=coarse)
    for update, (before, logits, decision, after) in enumerate(walked, start=1):
        best = greedy(logits)
        masks = p2_rule(best.confidence[0].tolist(), update, steps)
        assert np.flatnonzero(after.masked[0]).tolist() == masks
        stays = before.placed[0] & after.placed[0]
        assert (after.response[0][stays] == before.response[0][stays]).all()
        written = decision.accepted[0]
        assert (written == before.masked[0] & after.placed[0]).all()
        assert (after.response[0][written] == best.tokens[0][written]).all()
    assert after.done.all()


@given(schedules())
def test_confidence_equals_the_slow_rule_and_ends_on_time(
    case: tuple[int, int, int, int, bool],
) -> None:
    length, block, steps, seed, coarse = case
    counts = schedule(length, block, steps)
    each = steps * block // length
    response: list[int | None] = [None] * length
    done = False
    walked = trajectory(Scheduled(block=block, steps=steps), seed, length, coarse=coarse)
    for update, (_, logits, decision, after) in enumerate(walked):
        best = greedy(logits)
        end = (update // each + 1) * block
        chosen = confidence_rule(response, end, counts[update], best.confidence[0].tolist())
        for at in chosen:
            response[at] = int(best.tokens[0, at])
        assert np.flatnonzero(decision.accepted[0]).tolist() == chosen
        assert to_list(after.response[0]) == response
        done = after.done.item()
        assert done == (update + 1 == steps)
    assert done
    assert None not in response
    assert sum(counts) == length


DECODERS = [Scheduled(block=4, steps=8), Saber(block=8), Saber(watch="placed", pool="current")]


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_step_is_pure(decoder: Any) -> None:
    for before, logits, decision, after in trajectory(decoder, 5, 16, rows=2):
        kept = {
            item.name: value.copy()
            for item in fields(before)
            if isinstance(value := getattr(before, item.name), np.ndarray)
        }
        again, same = decoder.step(before, logits)
        for item in fields(after):
            if isinstance(value := getattr(after, item.name), np.ndarray):
                assert np.array_equal(value, getattr(again, item.name), equal_nan=True)
        assert np.array_equal(decision.accepted, same.accepted)
        for name, value in kept.items():
            assert np.array_equal(value, getattr(before, name), equal_nan=True)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("constant", [-7.5, 40.0])
def test_a_constant_per_row_changes_nothing(decoder: Any, constant: float) -> None:
    for before, logits, _, after in trajectory(decoder, 6, 16):
        moved = Logits.dense(torch.stack([row.values + constant for row in logits.rows]), MASK)
        assert np.array_equal(decoder.step(before, moved)[0].response, after.response)


@given(st.integers(0, 10**6), st.floats(0.2, 5))
def test_schedules_only_care_about_order(seed: int, power: float) -> None:
    """Sharpening every row alike keeps the order of confidences where they are two-token rows."""
    generator = torch.Generator().manual_seed(seed)
    gaps = torch.rand(1, 12, generator=generator, dtype=torch.float64) * 4
    values = torch.full((1, 12, VOCABULARY), -500.0, dtype=torch.float64)
    values[..., 1], values[..., 2] = gaps, 0.0
    decoder = Scheduled(steps=4)
    state = decoder.start(prompt_of(1), 12)
    plain = decoder.step(state, Logits.dense(values, MASK))[1]
    sharp = decoder.step(state, Logits.dense(values * power, MASK))[1]
    assert np.array_equal(plain.accepted, sharp.accepted)


@pytest.mark.parametrize("position", range(6))
def test_no_position_is_immutable(position: int) -> None:
    """Invariant 17: for every placed position there are logits that take it back at the next update."""
    decoder = Saber()
    response = np.array([[1, 2, 3, 4, 5, 6, MASK, MASK, MASK]])
    sure = np.full((1, 9), 0.5)
    state = replace(
        decoder.start(prompt_of(1), 9),
        response=response,
        updates=(3,),
        accepted_at=sure,
        previous=sure,
    )
    values = torch.zeros(1, 9, VOCABULARY, dtype=torch.float64)
    values[..., 3] = 6.0
    values[0, [position, 6]] = 0.0
    after, decision = decoder.step(state, Logits.dense(values, MASK))
    assert decision.remasked[0, position]
    assert after.response[0, position] == MASK


def peaked(heights: list[float]) -> Logits:
    """One row whose column i favours token 3 by `heights[i]`."""
    values = torch.zeros(1, len(heights), VOCABULARY, dtype=torch.float64)
    values[0, :, 3] = torch.tensor(heights, dtype=torch.float64)
    return Logits.dense(values, MASK)


def test_a_token_accepted_again_counts_with_its_latest_confidence() -> None:
    """Invariant 6: the bar is the mean of the last accept-time confidences."""
    decoder = Saber(n=1, mu=1)
    start = decoder.start(prompt_of(1), 4)
    history = np.array([[0.2, np.nan, np.nan, np.nan]])
    logits = peaked([9.0, 0.0, 0.0, 0.0])
    after, decision = decoder.step(replace(start, accepted_at=history), logits)
    assert decision.accepted.tolist() == [[True, False, False, False]]
    assert after.accepted_at[0, 0] == greedy(logits).confidence[0, 0] > 0.9


def test_a_new_block_is_not_judged_by_what_was_seen_before_it() -> None:
    """Its columns were not looked at, so their first change is infinite and older tokens go first."""
    decoder = Saber(n=2, mu=2, block=4)
    state = decoder.start(prompt_of(1), 8)
    response = np.array([[1, 1, MASK, MASK, MASK, MASK, MASK, MASK]])
    first, _ = decoder.step(replace(state, response=response), peaked([5.0] * 4 + [9.0] * 4))
    assert first.block.tolist() == [1]
    assert np.isnan(first.previous[0, 4:]).all()
    _, decision = decoder.step(first, peaked([5.0] * 4 + [3.0, 3.0, 1.0, 1.0]))
    assert np.flatnonzero(decision.accepted[0]).tolist() == [4, 5]
    assert np.flatnonzero(decision.remasked[0]).tolist() == [0]


def test_released_variants_differ_where_they_should() -> None:
    """Each option changes some trajectory, and bfloat16 puts confidences on its grid."""
    plain = [after.response.tolist() for *_, after in trajectory(Saber(), 11, 24)]
    options: list[dict[str, Any]] = [
        {"watch": "placed"},
        {"pool": "current"},
        {"mu": 8},
        {"precision": "bfloat16"},
    ]
    for option in options:
        other = [after.response.tolist() for *_, after in trajectory(Saber(**option), 11, 24)]
        assert other != plain, option
    for _, _, decision, _ in trajectory(Saber(precision="bfloat16"), 11, 24):
        exact = torch.from_numpy(decision.confidence)
        assert torch.equal(exact.to(torch.bfloat16).double(), exact)


@pytest.mark.parametrize(("remask", "counts"), [("ceil", [1, 2, 2, 3]), ("floor", [1, 1, 2, 2])])
def test_remask_counts_round_as_named(remask: Any, counts: list[int]) -> None:
    """|accepted| = 2, 3, 4, 5 with n = mu = 2."""
    decoder = Saber(remask=remask)
    found = []
    for accepted in (2, 3, 4, 5):
        values = torch.zeros(1, 12, VOCABULARY, dtype=torch.float64)
        values[0, :accepted, 1] = 9.0
        state = decoder.start(prompt_of(1), 12)
        history = np.full((1, 12), np.nan)
        history[0, 11] = 0.3
        decision = decoder.step(replace(state, accepted_at=history), Logits.dense(values, MASK))[1]
        assert int(decision.accepted.sum()) == accepted
        found.append(int(decision.remasked.sum()))
    assert found == counts


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=9), st.integers(0, 9)
)
def test_leading_breaks_ties_by_index(items: list[tuple[int, bool]], count: int) -> None:
    scores = np.array([[np.inf if s == 3 else float(-s) for s, _ in items]])
    scores[scores == -2] = -np.inf
    eligible = np.array([[yes for _, yes in items]])
    order = sorted(
        (i for i, (_, yes) in enumerate(items) if yes), key=lambda i: (-scores[0, i].item(), i)
    )
    chosen = leading(scores, eligible, np.array([count]))
    assert np.flatnonzero(chosen[0]).tolist() == sorted(order[:count])


def test_settings_that_do_not_fit_the_length_are_refused() -> None:
    with pytest.raises(BadRequest, match="block of 5 does not divide the length 12"):
        Saber(block=5).start(prompt_of(1), 12)
    with pytest.raises(BadRequest, match="n = 13 positions per update do not fit"):
        Saber(n=13).start(prompt_of(1), 12)
    with pytest.raises(BadRequest, match="7 steps cannot be spread evenly over 2 blocks"):
        Scheduled(block=6, steps=7).start(prompt_of(1), 12)
