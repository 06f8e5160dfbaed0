"""Tokens that rest: a plain count of who rests when, and what a pass then computes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archer.decoders.base import Decision
from archer.decoders.saber import Saber, SaberRest, SaberRestState, SaberTail
from archer.engine.walk import steps_of
from archer.errors import BadRequest
from archer.methods.build import Method, build
from archer.passes.canvas import Prompt
from archer.passes.logits import Logits, RowLogits
from archer.policies.prompt_cache import Archer
from support.networks import backbone

MASK, END, TURN, VOCABULARY = 9, 1, 2, 12
LENGTH = 24
PROMPT = Prompt.of([1, 2, 3], MASK, eos=(END,), ends=(END, TURN))


def logits(update: int, seed: int, length: int, read: list[int]) -> Logits:
    """Random ones that like end marks in the second half, that of a turn first; of some columns only."""
    source = torch.Generator().manual_seed(seed * 1009 + update)
    drawn = 2 * torch.randn(length, VOCABULARY, generator=source, dtype=torch.float64)
    drawn[length // 2 :, END] += 6
    drawn[length // 2, TURN] += 12
    return Logits([RowLogits(drawn[read], tuple(read))], length, MASK)


def trajectory(
    decoder: SaberRest, seed: int, length: int
) -> Iterator[tuple[SaberRestState, list[int], Decision, SaberRestState]]:
    state = decoder.begin(PROMPT, length)
    update = 0
    while not state.done.item():
        update += 1
        canvas = decoder.canvas(state)
        read = np.flatnonzero(canvas.reads[0, canvas.response]).tolist()
        after, decision = decoder.step(state, logits(update, seed, length, read))
        assert isinstance(after, SaberRestState)
        yield state, read, decision, after
        state = after
        assert update <= decoder.limit(length)


cases = st.tuples(
    st.builds(
        SaberTail,
        n=st.integers(1, 3),
        ripe=st.integers(1, 4),
        rest=st.integers(0, 5),
        edge=st.integers(0, 2),
        wake=st.sampled_from(["boundary", "look"]),
    ),
    st.integers(4, 24),
    st.integers(0, 10**6),
)


@given(cases)
def test_who_rests_is_a_plain_count(case: tuple[SaberTail, int, int]) -> None:
    """The naive twin: one row, lists, a loop over positions."""
    decoder, length, seed = case
    stood, unseen = [0] * length, 0
    for _, read, decision, after in trajectory(decoder, seed, length):
        first = next(i for i in range(length + 1) if all(each > 0 for each in stood[i:]))
        resting = [
            i
            for i in range(first + decoder.edge, length)
            if stood[i] >= decoder.ripe and unseen < decoder.rest
        ]
        assert sorted({*range(length)} - set(read)) == resting
        assert not decision.remasked[0, resting].any()
        unseen = unseen + 1 if resting else 0
        response = after.response[0].tolist()
        tail = next(i for i in range(length + 1) if {END, TURN}.issuperset(response[i:]))
        before = next(i for i in range(length + 1) if all(each > 0 for each in stood[i:]))
        awake = tail > before or (before > 0 and bool(decision.remasked[0, before - 1]))
        if awake and decoder.wake == "boundary":
            stood = [0] * length
        stood = [stood[i] + 1 if i >= tail else 0 for i in range(length)]


@pytest.mark.parametrize("kind", [SaberRest, SaberTail])
@given(st.integers(4, 24), st.integers(0, 10**6), st.integers(1, 3))
def test_without_rest_it_is_saber(kind: type[SaberRest], length: int, seed: int, n: int) -> None:
    plain, state = Saber(n=n), Saber(n=n).start(PROMPT, length)
    everything = list(range(length))
    for update, (_, read, decision, after) in enumerate(
        trajectory(kind(n=n, rest=0), seed, length), start=1
    ):
        assert read == everything
        state, expected = plain.step(state, logits(update, seed, length, everything))
        assert np.array_equal(after.response, state.response)
        assert np.array_equal(decision.remasked, expected.remasked)


@given(
    st.builds(
        SaberRest,
        n=st.integers(1, 3),
        sure=st.sampled_from([0.0, 0.5, 0.8]),
        ripe=st.integers(1, 4),
        rest=st.integers(0, 5),
    ),
    st.integers(4, 24),
    st.integers(0, 10**6),
)
def test_who_rests_anywhere_is_a_plain_count(decoder: SaberRest, length: int, seed: int) -> None:
    """The naive twin: a token rests once it has been sure for a while, and until the next look."""
    stood, unseen = [0] * length, 0
    for _, read, decision, after in trajectory(decoder, seed, length):
        resting = [i for i in range(length) if stood[i] >= decoder.ripe and unseen < decoder.rest]
        assert sorted({*range(length)} - set(read)) == resting
        assert not decision.remasked[0, resting].any()
        unseen = unseen + 1 if resting else 0
        for i in range(length):
            sure = i in resting or decision.confidence[0, i] >= decoder.sure
            stood[i] = stood[i] + 1 if after.placed[0, i] and sure else 0


def walk(decoder: Any, policy: Any, prompt: list[int], *, shift: bool = False) -> list[Any]:
    """On a random network, for which every token is an end mark."""
    net = backbone(shift, 5, torch.float64)
    state = decoder.start(Prompt.of(prompt, net.mask, eos=tuple(range(47))), LENGTH)
    return list(steps_of(net.network, Method(decoder, policy), state))


@pytest.mark.parametrize("shift", [False, True])
def test_a_cached_pass_leaves_out_what_rests(shift: bool) -> None:
    decoder = SaberTail(n=1, ripe=1, edge=0, wake="look")
    rested = 0
    for first in range(12):
        for step in walk(decoder, Archer(6), [first, 1, 4, 1, 5], shift=shift):
            tail = int(decoder.resting(step.before).sum())
            columns = 5 + LENGTH if step.calls[0].kind == "full" else LENGTH - tail + shift
            assert step.calls[0].fed in (columns, 0)
            assert step.canvas.reads.sum() == LENGTH - tail
            rested += tail
    assert rested > 0


def test_a_full_pass_looks_at_everything_that_rests_anywhere() -> None:
    decoder = SaberRest(n=1, sure=0.0, ripe=1, rest=9)
    kinds = set()
    for first in range(6):
        for step in walk(decoder, Archer(5), [first, 1, 4, 1, 5]):
            resting = int(decoder.resting(step.before).sum())
            kind = step.calls[0].kind
            kinds.add((str(kind), resting > 0))
            if kind == "full":
                assert step.canvas.reads.sum() == LENGTH
                assert step.after.unseen.item() == 0
            elif kind == "cached":
                assert step.canvas.reads.sum() == step.calls[0].fed == LENGTH - resting
    assert {("full", True), ("cached", True)} <= kinds


def test_blocks_are_refused() -> None:
    with pytest.raises(BadRequest, match="does not use the setting 'block'"):
        build("saber-tail+late", {"block": 4})
    with pytest.raises(BadRequest, match="one block"):
        SaberTail(block=4).start(PROMPT, 8)
