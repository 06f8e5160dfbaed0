"""Refresh rules beyond a radius: each against a naive twin that keeps whole logits and counts by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from archer.model import load
from archer.passes.canvas import Canvas, Prompt
from archer.passes.logits import Logits, RowLogits
from archer.passes.memory import Memory, Store
from archer.passes.reduction import Peaks, peaks_of
from archer.policies.prompt_cache import Late
from archer.policies.surprise import MOST_NATS, Surprise, kept_for, likeliest, nats_of
from archer.results.step import Kind, Step
from support.networks import backbone
from support.pairs import walk

NETS = {shift: backbone(shift, 5, torch.float64) for shift in (False, True)}
MASK = NETS[False].mask
DECODERS = ("saber", "wino", "no-rollback", "confidence", "remdm", "editing")
"""Rules of every kind: forced rollback, conditional rollback, none, edits in place."""

drawn = {
    "prompt": st.lists(st.integers(0, 44), min_size=1, max_size=9),
    "length": st.integers(3, 14),
}


def kinds(steps: list[Step[Any]]) -> list[str]:
    return [step.calls[0].kind.value for step in steps]


def texts(steps: list[Step[Any]]) -> list[list[int]]:
    return [step.after.response[0].tolist() for step in steps]


def moved(step: Step[Any], anchor: list[int]) -> list[int]:
    """Positions that differ from the anchor when the call was made."""
    now = step.before.response[0].tolist()
    return [at for at, (new, old) in enumerate(zip(now, anchor, strict=True)) if new != old]


@settings(max_examples=25)
@given(**drawn, share=st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 3.0]), shift=st.booleans())
def test_late_counts_tokens_against_masks(
    prompt: list[int], length: int, share: float, shift: bool
) -> None:
    anchor: list[int] | None = None
    for step in walk(NETS[shift], f"saber+late:{share}", [prompt], length=length):
        now = step.before.response[0].tolist()
        radius = max(1.0, share * now.count(NETS[shift].mask))
        full = anchor is None or len(moved(step, anchor)) >= radius
        if step.calls[0].kind == "reused":
            assert not full
            continue
        assert (step.calls[0].kind == "full") == full
        anchor = now if full else anchor


@settings(max_examples=25)
@given(
    **drawn,
    nats=st.sampled_from([0.0, 0.05, 0.3, 0.69, 0.7, 1.5, 3.0, MOST_NATS]),
    decoder=st.sampled_from(["saber", "no-rollback"]),
    shift=st.booleans(),
    guidance=st.sampled_from([0.0, 1.5]),
)
def test_surprise_decides_as_if_whole_logits_were_kept(
    prompt: list[int], length: int, nats: float, decoder: str, shift: bool, guidance: float
) -> None:
    """The few tokens that are kept and the bound for the others give the decision of all logits.

    With guidance the row that has its prompt decides for the one without.
    """
    anchor: list[int] | None = None
    chances: dict[int, torch.Tensor] = {}
    net = NETS[shift]
    method = f"{decoder}+surprise:{nats}"
    for step in walk(net, method, [prompt], length=length, guidance=guidance):
        now = step.before.response[0].tolist()
        told = sum(
            -float(chances[at][now[at]]) for at in moved(step, anchor or now) if now[at] != net.mask
        )
        full = anchor is None or told >= nats
        if step.calls[0].kind == "reused":
            continue
        assert (step.calls[0].kind == "full") == full
        lanes = 1 + bool(guidance)
        assert step.calls[0].fed == lanes * (length + (len(prompt) if full else int(shift)))
        if full:
            row, *_ = step.logits.rows
            anchor = now
            chances = dict(zip(row.places, row.values.double().log_softmax(-1), strict=True))


@pytest.mark.parametrize("method", ["archer-doubt", "saber+surprise:1.5"])
def test_the_vocabulary_of_a_lone_request_is_reduced_once_a_pass(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the anchor expected and what the decoder places come of one reduction."""
    reduced = []

    def counting(values: torch.Tensor, mask: int | None) -> Peaks:
        reduced.append(len(values))
        return peaks_of(values, mask)

    monkeypatch.setattr("archer.passes.logits.peaks_of", counting)
    steps = walk(NETS[False], method, [[3, 1, 4, 1, 5]], length=12)
    assert "full" in kinds(steps)
    assert len(reduced) == sum(kind != "reused" for kind in kinds(steps))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("rule", ["late:0", "surprise:0"])
def test_at_zero_a_rule_is_eager(decoder: str, rule: str) -> None:
    prompt = [[3, 1, 4, 1, 5]]
    eager = walk(NETS[False], decoder, prompt, length=12)
    found = walk(NETS[False], f"{decoder}+{rule}", prompt, length=12)
    assert texts(found) == texts(eager)
    assert {"cached"} & set(kinds(found)) == set()


@given(
    st.lists(st.lists(st.floats(-8, 8, width=32), min_size=6, max_size=6), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_what_is_kept_is_true_and_the_bound_is_a_bound(
    logits: list[list[float]], kept: int
) -> None:
    mask = 2
    row = RowLogits(torch.tensor(logits), tuple(range(len(logits))))
    tokens, kept_nats = (each.numpy() for each in likeliest(row, mask, kept))
    chances = -row.values.double().log_softmax(-1).numpy()
    assert (tokens != mask).all()
    for token in {0, 1, 3, 4, 5}:
        found = nats_of(np.full(len(logits), token), tokens, kept_nats)
        for at, nats in enumerate(found):
            if token in tokens[at]:
                assert nats == pytest.approx(chances[at, token], abs=1e-5)
            else:
                assert nats <= chances[at, token] + 1e-5
                assert nats >= math.log(tokens.shape[1] + 1) - 1e-12


@given(st.floats(0, MOST_NATS))
def test_as_many_tokens_are_kept_as_a_limit_needs(nats: float) -> None:
    assert math.log(kept_for(nats) + 1) >= nats - 1e-9
    assert kept_for(nats) == 1 or math.log(kept_for(nats)) < nats


def test_columns_that_the_anchor_did_not_read_are_unforeseen() -> None:
    """Nor is scratch, which stands behind the response, taken for a part of it."""
    nothing = np.full((1, 4), 5)
    canvas = Canvas.plain(
        Prompt.of([1], 5), nothing, np.array([[0, 4]]), np.ones((1, 4), dtype=np.bool_)
    )
    store = Store.empty(1, 1, 1, 5, 2, device=torch.device("cpu"), dtype=torch.float32)
    rule = Surprise()
    memory = replace(Memory.blank(store, canvas), notes=rule.start(canvas))
    logits = Logits([RowLogits(torch.zeros(3, 6), (0, 3, 4))], 5, 5)
    notes = rule.noted(canvas, memory, np.array([True]), logits)
    nats = nats_of(np.zeros((1, 4), dtype=np.int64), notes["tokens"], notes["nats"])
    assert np.isinf(nats).tolist() == [[False, True, True, False]]


def test_a_new_block_brings_tokens_that_no_anchor_foresaw() -> None:
    """A rule that reads masks of one block only knows nothing of the next: its first tokens refresh."""
    steps = walk(NETS[False], "confidence+surprise:6", [[1, 2, 3]], length=8, block=4)
    assert kinds(steps)[4 + 1] == "full"


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan, "much", None])
def test_impossible_settings_are_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="share"):
        Late(share=value)
    with pytest.raises(ValidationError, match="nats"):
        Surprise(nats=value)


def test_the_nats_of_a_call_say_why_it_refreshed() -> None:
    """Whoever watches sees what was compared with the limit; caches that count tokens have no more to say."""
    problem = "Write a function to add all numbers in nums.\nassert f([1, 2]) == 3\ndef f(nums):"
    pocket = load("pocket", device="cpu", dtype="float32")
    (done,) = pocket.generate(problem, "archer-doubt", length=32)
    first, *others = done.history.calls
    assert (first.kind, first.drift) == (Kind.FULL, 0.0)
    for call in others:
        assert call.drift is not None
        assert (call.kind is Kind.FULL) == (call.drift >= 0.3)
    assert {call.kind for call in others} == {Kind.FULL, Kind.CACHED}
    (plain,) = pocket.generate(problem, "archer", length=32)
    assert {call.drift for call in plain.history.calls} == {None}
