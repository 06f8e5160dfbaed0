"""The loop with a real network: what Archer promises, step by step."""

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.decoders.base import Decision, DecodeState
from archer.decoders.saber import Saber
from archer.decoders.scheduled import Scheduled
from archer.engine.walk import steps_of
from archer.errors import Incompatible, NonFinite, Stuck
from archer.methods.build import Method
from archer.passes.canvas import Canvas, Flags, Prompt
from archer.passes.logits import Logits
from archer.passes.memory import Memory, Notes
from archer.policies.prompt_cache import Age, Archer, Eager
from archer.results.step import Kind, Step
from support import naive
from support.networks import Backbone, backbone
from support.pairs import calls, prompts_of, texts, together

MODELS = {
    (shift, dtype): backbone(shift, 3, dtype)
    for shift in (False, True)
    for dtype in (torch.float32, torch.float64)
}


def model(shift: bool, dtype: torch.dtype = torch.float64) -> Backbone:
    return MODELS[shift, dtype]


def random_prompts(count: int, seed: int, longest: int = 12) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(45, (n,), generator=generator).tolist() for n in lengths]


def decode(
    net: Backbone,
    decoder: Any,
    policy: Any,
    prompts: list[list[int]],
    length: int,
    seed: int = 0,
) -> list[Step[Any]]:
    laid = prompts_of(prompts, net.mask, seed=seed)
    states = [decoder.start(prompt, length) for prompt in laid]
    return list(together(net.network, Method(decoder, policy), states))


def by_row(steps: list[Step[Any]]) -> dict[int, list[tuple[Any, ...]]]:
    """What happened to each requested row, update by update: text, then the call."""
    return {
        row: list(zip(updates, calls(steps, row), strict=True))
        for row, updates in texts(steps).items()
    }


@given(
    st.booleans(),
    st.integers(1, 20),
    st.integers(0, 10**6),
    st.sampled_from(["saber", "confidence"]),
)
def test_archer_refreshes_exactly_when_the_response_has_moved_far_enough(
    shift: bool, radius: int, seed: int, which: str
) -> None:
    """Invariants 12, 13, 16, with the distance recomputed from the recorded states."""
    decoder = Saber() if which == "saber" else Scheduled(steps=8)
    net, length = model(shift), 16
    (prompt,) = random_prompts(1, seed)
    steps = decode(net, decoder, Archer(radius), [prompt], length)
    state = anchor = [net.mask] * length
    for index, step in enumerate(steps):
        call = step.calls[0]
        distance = sum(a != b for a, b in zip(state, anchor, strict=True))
        assert call.distance == distance <= length
        refresh = index == 0 or distance >= radius
        assert call.kind is (Kind.FULL if refresh else Kind.CACHED)
        assert call.fed == (len(prompt) + length if refresh else length + shift)
        anchor = state if refresh else anchor
        state = step.after.response[0].tolist()
        assert step.canvas.tokens[0, : len(prompt)].tolist() == prompt
    assert steps[0].calls[0].kind is Kind.FULL
    assert net.mask not in state
    assert len(steps) == steps[-1].after.updates[0]


@given(st.booleans(), st.integers(1, 20), st.integers(0, 10**6))
def test_every_logit_is_current_and_only_the_prompt_is_anchored(
    shift: bool, radius: int, seed: int
) -> None:
    """Invariants 14, 18: each call equals the slow twin for (response, anchor)."""
    net, length = model(shift), 10
    (prompt,) = random_prompts(1, seed)
    anchor = state = torch.full((length,), net.mask)
    tokens = torch.tensor(prompt)
    for step in decode(net, Saber(), Archer(radius), [prompt], length):
        if step.calls[0].kind is Kind.FULL:
            anchor = state
            expected = naive.full(net.network, tokens, state, shift)
        else:
            expected = naive.cached(net.network, tokens, anchor, state, shift)
        assert (step.logits.rows[0].values - expected).abs().max() < 1e-9
        state = torch.from_numpy(step.after.response[0])


@pytest.mark.parametrize("count", [16, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("decoder", [Saber(), Scheduled(steps=8)])
def test_radius_one_is_eager_for_two_hundred_prompts(shift: bool, decoder: Any, count: int) -> None:
    """In float32, batches of eight: 0 differing updates."""
    net = model(shift, torch.float32)
    prompts = [[*prompt, number % 45] for number, prompt in enumerate(random_prompts(count, 7))]
    differing = 0
    for start in range(0, count, 8):
        batch = prompts[start : start + 8]
        eager = texts(decode(net, decoder, Eager(), batch, 16))
        cached = decode(net, decoder, Archer(1), batch, 16)
        differing += eager != texts(cached)
        assert {call.kind for step in cached for call in step.calls} == {Kind.FULL}
    assert differing == 0


@given(st.booleans(), st.integers(0, 10**6), st.sampled_from([math.inf, 17, 1000]))
def test_a_radius_beyond_the_response_never_refreshes(
    shift: bool, seed: int, radius: float
) -> None:
    prompts = random_prompts(1, seed)
    steps = decode(model(shift), Saber(), Archer(radius), prompts, 16)
    assert [step.calls[0].kind for step in steps] == [Kind.FULL] + [Kind.CACHED] * (len(steps) - 1)
    endless = decode(model(shift), Saber(), Archer(math.inf), prompts, 16)
    assert by_row(steps) == by_row(endless)


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_age_refreshes_every_so_many_passes(every: int) -> None:
    steps = decode(model(False), Saber(), Age(every), [[1, 2, 3]], 16)
    full = [index for index, step in enumerate(steps) if step.calls[0].kind is Kind.FULL]
    assert full == list(range(0, len(steps), every))


@settings(max_examples=15)
@given(
    st.booleans(),
    st.integers(0, 10**6),
    st.sampled_from([Saber(), Saber(block=4), Scheduled(block=4, steps=9), Saber(temperature=0.8)]),
    st.sampled_from([Eager(), Archer(3), Archer(6), Age(3)]),
)
def test_every_sample_of_a_state_is_as_if_alone(
    shift: bool, seed: int, decoder: Any, policy: Any
) -> None:
    """Invariants 19, 20, in float64: text, refreshes and distances of every row; the first pass is shared."""
    net = model(shift)
    (prompt,) = random_prompts(1, seed)
    whole = decoder.start(Prompt.of(prompt, net.mask, samples=4, seed=5), 12)
    rows = by_row(list(steps_of(net.network, Method(decoder, policy), whole)))
    for row in range(4):
        single = decoder.start(Prompt.of(prompt, net.mask, first=row, seed=5), 12)
        (alone,) = by_row(list(steps_of(net.network, Method(decoder, policy), single))).values()
        assert rows[row][0][0] == alone[0][0]
        assert rows[row][1:] == alone[1:]


def test_repeated_prompts_get_their_own_noise_and_a_seed_repeats_it() -> None:
    net, decoder = model(False), Saber(temperature=1.5)
    rows = texts(decode(net, decoder, Archer(4), [[1, 2]] * 3, 12, seed=1))
    assert rows[0] != rows[1] != rows[2]
    assert rows == texts(decode(net, decoder, Archer(4), [[1, 2]] * 3, 12, seed=1))
    assert rows[0] != texts(decode(net, decoder, Archer(4), [[1, 2]], 12, seed=2))[0]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("shift", [False, True])
def test_a_cloned_state_and_memory_replay_the_trunk(shift: bool, temperature: float) -> None:
    """Invariants 9, 23: fork after every third update; the trunk goes on unharmed."""
    net, decoder, policy = model(shift), Saber(temperature=temperature), Archer(5)
    (prompt,) = random_prompts(1, 11)
    state = decoder.start(Prompt.of(prompt, net.mask, samples=3), 16)
    trunk = by_row(list(steps_of(net.network, Method(decoder, policy), state)))
    for step in steps_of(net.network, Method(decoder, policy), state):
        if step.index % 3 or step.after.done.any():
            continue
        branch = by_row(
            list(steps_of(net.network, Method(decoder, policy), step.after, step.memory.clone()))
        )
        for index, row in enumerate(step.rows):
            assert branch[index] == trunk[row][step.index + 1 :]


def test_forgetting_makes_the_next_pass_full_and_nothing_else() -> None:
    net, decoder = model(False), Saber()
    state = decoder.start(Prompt.of([4, 5, 6, 7], net.mask), 16)
    third = next(
        step
        for step in steps_of(net.network, Method(decoder, Archer(math.inf)), state)
        if step.index == 2
    )
    memory = third.memory.clone()
    memory.forget()
    kinds = [
        step.calls[0].kind
        for step in steps_of(net.network, Method(decoder, Archer(math.inf)), third.after, memory)
    ]
    assert kinds[0] is Kind.FULL
    assert set(kinds[1:]) == {Kind.CACHED}


def test_watching_the_steps_changes_nothing() -> None:
    """Invariant 22: a shadow pass on a blank memory between steps leaves the trajectory alone."""
    net, decoder, policy = model(True), Saber(temperature=0.7), Archer(4)
    state = decoder.start(Prompt.of([3, 1, 4], net.mask, samples=2), 14)
    plain = by_row(list(steps_of(net.network, Method(decoder, policy), state)))
    watched = []
    generator = torch.random.get_rng_state()
    for step in steps_of(net.network, Method(decoder, policy), state):
        shadow = steps_of(net.network, Method(decoder, Eager()), step.before)
        fresh = next(iter(shadow))
        decoder.step(step.before, fresh.logits)
        watched.append(step)
    assert by_row(watched) == plain
    assert torch.equal(generator, torch.random.get_rng_state())


def test_an_unchanged_question_reuses_its_logits() -> None:
    """A schedule with more updates than tokens: the idle updates compute nothing."""
    net = model(False)
    for policy in (Eager(), Archer(3)):
        steps = decode(net, Scheduled(steps=12), policy, [[1, 2, 3]], 8)
        kinds = [step.calls[0].kind for step in steps]
        assert len(steps) == 12
        assert kinds[9:] == [Kind.REUSED] * 3
        assert Kind.REUSED not in kinds[:8]
        assert all(step.calls[0].fed == 0 and step.work.keys == 0 for step in steps[9:])
    aged = decode(net, Scheduled(steps=12), Age(3), [[1, 2, 3]], 8)
    assert Kind.REUSED not in [step.calls[0].kind for step in aged]


class Counting(Archer):
    """Archer that counts passes, to nobody's use."""

    def start(self, canvas: Canvas) -> Notes:
        return {"passes": np.zeros(canvas.rows, dtype=np.int64)}

    def noted(self, canvas: Canvas, memory: Memory, full: Flags, logits: Logits) -> Notes:
        return {"passes": memory.notes["passes"] + 1}


def test_one_row_reuses_while_another_runs() -> None:
    """Row 1 is late in its schedule and idle; row 0 fills masks.  Only row 0's memory moves on."""
    net, decoder = model(False), Scheduled(steps=12)
    state = decoder.start(Prompt.of([1, 2, 3], net.mask, samples=2), 8)
    late = replace(state, updates=(0, 9))
    for made, step in enumerate(
        steps_of(net.network, Method(decoder, Counting(math.inf)), late), start=1
    ):
        if 1 not in step.rows:
            break
        assert step.calls[0].kind is (Kind.FULL if made == 1 else Kind.CACHED)
        assert step.calls[1].kind is (Kind.FULL if made == 1 else Kind.REUSED)
        if not step.after.done.any():
            assert step.memory.notes["passes"].tolist() == [made, 1]
    assert made == 4
    alone = decode(net, decoder, Archer(math.inf), [[1, 2, 3]], 8)
    assert np.array_equal(step.after.response[0], alone[3].after.response[0])


def test_no_reuse_across_blocks_that_read_other_columns() -> None:
    """The last updates of a block are idle; the next block asks about columns not yet scored."""
    net = model(False)
    steps = decode(net, Scheduled(block=4, steps=12), Eager(), [[1, 2, 3]], 8)
    kinds = [step.calls[0].kind for step in steps]
    assert kinds[5] is Kind.REUSED
    assert kinds[6] is not Kind.REUSED
    assert steps[-1].after.masked.sum() == 0


def test_a_row_with_nan_logits_ends_alone() -> None:
    """Poison a token that only one prompt holds; its row fails, the others finish as if alone."""
    healthy = backbone(False, 3, torch.float64)
    sick = backbone(False, 3, torch.float64)
    sick.network.embedding.data[44] = torch.nan
    prompts = [[1, 2, 3], [4, 44, 5], [6, 7]]
    steps = decode(sick, Saber(), Archer(4), prompts, 12)
    (failed,) = [step for step in steps if step.errors]
    error = failed.errors[1]
    assert isinstance(error, NonFinite)
    assert (error.update, error.kind) == (1, "full")
    assert "update 1" in str(error)
    assert failed.rows == ()
    assert all(1 not in step.rows for step in steps)
    sound = decode(healthy, Saber(), Archer(4), [prompts[0], prompts[2]], 12)
    rows, expected = by_row(steps), by_row(sound)
    assert rows[0] == expected[0]
    assert rows[2] == expected[1]


def test_a_row_with_nan_logits_ends_in_a_cached_pass_too() -> None:
    net = backbone(False, 3, torch.float64)
    state = Saber().start(Prompt.of([1, 2, 3], net.mask), 12)
    walk = steps_of(net.network, Method(Saber(), Archer(math.inf)), state)
    next(walk)
    net.network.head.data.fill_(torch.nan)
    failing = next(walk)
    assert (failing.errors[0].kind, failing.errors[0].update) == ("cached", 2)
    assert list(walk) == []


def test_a_sample_with_nan_logits_ends_alone() -> None:
    """Poison a token that one sample alone has placed: the others go on as if nothing had happened."""
    decoder, length = Saber(temperature=1.5), 4
    nets = [backbone(False, 3, torch.float64) for _ in range(2)]
    for seed in range(50):
        state = decoder.start(Prompt.of([1, 2, 3], nets[0].mask, samples=3, seed=seed), length)
        rows = texts(list(steps_of(nets[0].network, Method(decoder, Archer(4)), state)))
        others = {token for row in (0, 2) for update in rows[row] for token in update[0]}
        if first := set(rows[1][0][0]) - others - {1, 2, 3}:
            break
    nets[1].network.embedding.data[first.pop()] = torch.nan
    steps = list(steps_of(nets[1].network, Method(decoder, Archer(4)), state))
    failing = steps[1]
    assert list(failing.errors) == [1]
    assert failing.errors[1].update == 2
    assert failing.rows == (0, 2)
    assert len(failing.logits.rows) == len(failing.calls) == failing.canvas.rows == 2
    found = texts(steps)
    assert (found[0], found[2]) == (rows[0], rows[2])
    assert found[1] == rows[1][:1]


class BlindPolicy(Eager):
    """Recomputes only the first response column."""

    def recompute(self, canvas: Canvas, memory: Memory) -> Flags:
        chosen = np.zeros_like(canvas.reads)
        chosen[:, canvas.response.start] = True
        return chosen


def test_reading_what_is_not_recomputed_is_refused_before_any_pass() -> None:
    with pytest.raises(Incompatible, match="Saber reads logits of columns that BlindPolicy"):
        decode(model(False), Saber(), BlindPolicy(), [[1, 2, 3]], 8)


class Idle(Scheduled):
    """Never does anything."""

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        after, decision = super().step(state, logits)
        done = np.zeros_like(after.done)
        return replace(after, response=state.response, done=done), decision


def test_a_decoder_that_never_ends_is_stopped_loudly() -> None:
    """After exactly as many updates as its rule allows."""
    net, decoder = model(False), Idle()
    state = decoder.start(Prompt.of([1, 2, 3], net.mask), 8)
    walk = steps_of(net.network, Method(decoder, Eager()), state)
    assert len(list(islice(walk, 8))) == 8
    with pytest.raises(Stuck, match="Idle has not finished after 8 updates"):
        next(walk)


@pytest.mark.parametrize("shift", [False, True])
def test_the_boundary_column_is_fresh_in_every_cached_pass(shift: bool) -> None:
    """Invariant 21: with shifted logits, token 0 is scored by the last prompt column, never a stale one."""
    net = model(shift)
    prompt, length = [3, 1, 4, 1, 5], 8
    steps = decode(net, Saber(), Archer(math.inf), [prompt], length)
    first = steps[0].logits.rows[0].values[0]
    moved = [step.logits.rows[0].values[0] for step in steps[1:]]
    assert all(not torch.equal(first, row) for row in moved)
    raw, _ = naive.forward(net.network, torch.tensor(prompt + [net.mask] * length))
    assert (first - raw[len(prompt) - int(shift)]).abs().max() < 1e-9
    other = decode(net, Saber(), Archer(math.inf), [[*prompt[:-1], 9]], length)
    assert not torch.allclose(first, other[0].logits.rows[0].values[0])


@pytest.mark.parametrize("decoder", [Saber(), Scheduled()])
def test_rows_that_are_done_make_no_step(decoder: Any) -> None:
    """A forked state may hold finished rows; only the others go on, under their own numbers."""
    net = model(False)
    state = decoder.start(Prompt.of([1, 2], net.mask, samples=2), 8)
    finished = replace(state, done=np.array([True, False]))
    method = Method(decoder, Archer(4))
    rows = texts(list(steps_of(net.network, method, finished)))
    assert list(rows) == [1]
    assert rows[1] == texts(list(steps_of(net.network, method, state)))[1]
    nothing = replace(state, done=np.array([True, True]))
    assert list(steps_of(net.network, method, nothing)) == []
