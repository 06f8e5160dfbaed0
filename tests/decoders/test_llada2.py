"""LLaDA2's samplers against slow versions, and their settings."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.decoders.llada2 import AbsoluteState, LLaDA2, LLaDA2Edit
from archer.errors import BadRequest
from archer.methods.build import build
from archer.network.shape import Blocks
from archer.passes.canvas import Prompt
from archer.passes.logits import Logits
from support.oracles.llada2 import MASK, Editing, Filling, LLaDA2Row

VOCABULARY, MASK_ID, EOS = 7, 6, 0


def logits_of(draw: np.random.Generator, columns: int) -> torch.Tensor:
    """[1, columns, V] that are mostly sure of something, and now and then of the end."""
    return torch.from_numpy(draw.normal(size=(1, columns, VOCABULARY)) * 3)


def compare(decoder: LLaDA2 | LLaDA2Edit, row: LLaDA2Row, seed: int) -> int:
    """Both sides on the same drawn logits to the end; returns the number of updates."""
    draw = np.random.default_rng(seed)
    prompt = Prompt.of([1] * row.prompt, MASK_ID, eos=(EOS,))
    state: AbsoluteState = decoder.start(prompt, row.length)
    updates = 0
    while not state.done[0]:
        values = logits_of(draw, state.length)
        allowed = values.clone()
        allowed[..., MASK_ID] = -torch.inf
        tokens = allowed.argmax(-1)
        sure = values.double().softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
        row.update([0.0] * row.prompt + sure[0].tolist(), [0] * row.prompt + tokens[0].tolist())
        state, _ = decoder.step(state, Logits.dense(values, MASK_ID))
        updates += 1
        ours = [MASK if id == MASK_ID else id for id in state.response[0].tolist()]
        assert ours == row.response
        assert bool(state.done[0]) == row.done
    assert state.result(0).tolist() == row.returned
    assert updates <= decoder.limit(state.length)
    return updates


common = {
    "prompt": st.integers(1, 20),
    "length": st.integers(1, 30),
    "block": st.sampled_from([1, 4, 8]),
    "threshold": st.sampled_from([0.0, 0.5, 0.8, 1.0]),
    "early": st.booleans(),
    "seed": st.integers(0, 10**6),
}


@settings(max_examples=120, deadline=None)
@given(**common, steps=st.integers(1, 12))
def test_filling_is_the_slow_rule(
    prompt: int, length: int, block: int, threshold: float, early: bool, seed: int, steps: int
) -> None:
    decoder = LLaDA2(block=block, threshold=threshold, eos_early_stop=early, steps=steps)
    compare(decoder, Filling(prompt, length, block, EOS, threshold, early, steps=steps), seed)


@settings(max_examples=120, deadline=None)
@given(
    **common,
    edit=st.sampled_from([0.0, 0.6, 0.9]),
    most=st.integers(0, 4),
    least=st.integers(1, 3),
)
def test_editing_is_the_slow_rule(
    prompt: int,
    length: int,
    block: int,
    threshold: float,
    early: bool,
    seed: int,
    edit: float,
    most: int,
    least: int,
) -> None:
    decoder = LLaDA2Edit(
        block=block,
        threshold=threshold,
        eos_early_stop=early,
        editing_threshold=edit,
        max_post_steps=most,
        num_to_transfer=least,
    )
    row = Editing(
        prompt,
        length,
        block,
        EOS,
        threshold,
        early,
        editing_threshold=edit,
        most=most,
        least=least,
    )
    compare(decoder, row, seed)


@pytest.mark.parametrize(
    ("columns", "length", "bounds", "horizon"),
    [(5, 7, [0, 3], 8), (8, 8, [0, 4], 12), (1, 7, [0, 3], 4)],
)
def test_blocks_are_counted_from_the_first_token(
    columns: int, length: int, bounds: list[int], horizon: int
) -> None:
    prompt = Prompt.of([1] * columns, MASK_ID, samples=2)
    state = LLaDA2(block=4).start(prompt, 6)
    assert state.length == length
    assert state.bounds.tolist() == [bounds] * 2
    assert state.last.tolist() == [False, False]
    canvas = LLaDA2(block=4).canvas(state)
    assert canvas.attention == Blocks(4)
    assert canvas.horizon().tolist() == [horizon] * 2
    assert canvas.everything().sum(axis=1).tolist() == [horizon] * 2


def test_what_reaches_beyond_the_length_is_decoded_and_cut_off() -> None:
    prompt = Prompt.of([1] * 3, MASK_ID, eos=(EOS,))
    decoder = LLaDA2(block=8, threshold=0.0)
    state = decoder.start(prompt, 2)
    assert (state.length, state.wanted) == (5, 2)
    values = torch.zeros((1, 5, VOCABULARY), dtype=torch.float64)
    values[..., 3] = 5.0
    state, decision = decoder.step(state, Logits.dense(values, MASK_ID))
    assert decision.accepted.sum() == 5
    assert state.done.tolist() == [True]
    assert state.result(0).tolist() == [3, 3]


def test_more_masks_per_step_than_the_response_has_are_refused() -> None:
    with pytest.raises(BadRequest, match="minimal_topk = 9 leaves no step"):
        build("llada2", {"length": 8, "minimal_topk": 9})


@pytest.mark.parametrize(
    ("setting", "value", "phrase"),
    [
        ("eos_early_stop", "perhaps", "eos_early_stop must be true or false"),
        ("threshold", True, "threshold must be a number"),
        ("threshold", 1.5, "at most 1"),
        ("block", 0, "at least 1"),
        ("radius", 0.5, "a whole number or inf"),
    ],
)
def test_settings_out_of_range_are_refused(setting: str, value: Any, phrase: str) -> None:
    with pytest.raises(BadRequest, match=phrase):
        build("llada2", {setting: value})


def test_the_names_are_cached_exactly() -> None:
    assert type(build("llada2", {"eos_early_stop": True}).policy).__name__ == "Archer"
    given = build("llada2-edit:0.5+archer", {}).settings
    assert (given["editing_threshold"], given["radius"]) == (0.5, 8)
