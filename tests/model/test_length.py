"""A canvas that follows its answer: rows that stop earlier are rows of a shorter canvas, in every pass."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.costs.workload import recorded
from archer.decoders.base import DecodeState
from archer.decoders.length import Appended, Sized
from archer.decoders.saber import Saber
from archer.engine.walk import Walk, steps_of
from archer.errors import BadRequest, Incompatible
from archer.methods.build import build
from archer.methods.catalogue import DECODERS, POLICIES
from archer.methods.compatibility import Fit, matrix
from archer.passes.canvas import Prompt
from archer.passes.forward import run
from archer.passes.logits import Logits, RowLogits
from archer.policies.base import Policy
from archer.results.step import Kind, Step
from support import naive
from support.networks import backbone
from support.oracles.rules import CutRow

NETS = {shift: backbone(shift, 3, torch.float64) for shift in (False, True)}
FULL = matrix(DECODERS, POLICIES)
FOLLOWS = sorted(name for name in FULL if getattr(DECODERS[name].make, "resizes", False))
CACHES = sorted(name for name, part in POLICIES.items() if not part.make.features)
WHOLE = [d for d in FOLLOWS if getattr(DECODERS[d].make, "block", None) is None]
"""Those that decode one block where none is named."""
PAIRS = [(d, c) for d in WHOLE for c in CACHES if FULL[d][c] is not Fit.NO]
IN_BLOCKS = [
    (d, c)
    for d in FOLLOWS
    for c in CACHES
    if FULL[d][c] is Fit.YES and "block" in DECODERS[d].settings
]
"""With any number of blocks."""
LONGEST = 20


def started(shift: bool, name: str, prompt: list[int], ends: int = 20, **options: Any) -> Walk:
    """A walk on a random network; with many end ids, so that a first pass finds some."""
    method = build(name, {"length": "auto", "max_length": LONGEST} | options)
    net = NETS[shift]
    laid = Prompt.of(prompt, net.mask, eos=(1,), ends=tuple(range(1, ends)))
    return Walk(net.network, method, method.decoder.start(laid, method.length))


def steps(walk: Walk) -> Iterator[Step[Any]]:
    network = walk._network
    while not walk.done:
        wanted = walk.wants
        yield walk.advance(None if wanted is None else run(network, [wanted])[0])


SIZES = st.fixed_dictionaries(
    {
        "start_length": st.integers(1, LONGEST),
        "cut": st.sampled_from([0.0, 0.02, 0.05, 1.0]),
        "margin": st.integers(1, 3),
        "keep": st.integers(0, 3),
        "grow": st.integers(1, 4),
    }
)


@settings(max_examples=40)
@given(st.sampled_from(PAIRS), SIZES, st.integers(3, 45), st.booleans(), st.integers(1, 9))
def test_nothing_behind_a_stop_is_computed_stored_or_read(
    pair: tuple[str, str], sizes: dict[str, Any], ends: int, shift: bool, prompt: int
) -> None:
    """Every pair of decoder and cache; it ends within its bound, without a mask, and says where it stops."""
    exists_up_to_its_stop(
        started(shift, "+".join(pair), list(range(3, 3 + prompt)), ends, **sizes), prompt, ends
    )


@settings(max_examples=40)
@given(st.sampled_from(IN_BLOCKS), st.integers(3, 45), st.booleans(), st.integers(1, 9))
def test_blocks_that_are_not_appended_yet_do_not_exist(
    pair: tuple[str, str], ends: int, shift: bool, prompt: int
) -> None:
    ids = list(range(3, 3 + prompt))
    walk = started(shift, "+".join(pair), ids, ends, length="append", block=4)
    exists_up_to_its_stop(walk, prompt, ends)


def exists_up_to_its_stop(walk: Walk, prompt: int, ends: int) -> None:
    """The row of a walk, in every update; `prompt` tokens stand before it."""
    for step in steps(walk):
        canvas, (stop,) = step.canvas, step.before.stops
        assert 0 < stop <= LONGEST
        assert canvas.extent == prompt + stop
        assert step.calls[0].fed <= prompt + stop
        assert not canvas.reads[:, prompt + stop :].any()
        assert (step.after.response[0, step.after.stops[0] :] == canvas.mask).all()
        if not walk.done:
            assert walk.memory.store.columns == prompt + step.after.stops[0]
        wrote = np.flatnonzero(step.decision.accepted[0])
        assert (wrote < step.after.stops[0]).all()
    (result,) = (step.after.result(0) for step in [step])
    assert NETS[False].mask not in result
    assert len(result) == LONGEST or set(result.tolist()) & set(range(1, ends))


@settings(max_examples=40)
@given(
    st.sampled_from(
        ["saber+archer:4", "saber-doubt+surprise", "threshold+late", "confidence+age:3"]
    ),
    SIZES,
    st.integers(3, 45),
    st.booleans(),
)
def test_a_row_that_stops_passes_as_a_canvas_of_that_length(
    name: str, sizes: dict[str, Any], ends: int, shift: bool
) -> None:
    """Full and cached passes against plain attention over the columns that there are; nothing rests here."""
    net, ids = NETS[shift], [3, 1, 4, 1, 5]
    prompt = torch.tensor(ids)
    anchor = torch.empty(0, dtype=torch.long)
    for step in steps(started(shift, name, ids, ends, **sizes | {"keep": 0})):
        response = torch.from_numpy(step.before.response[0, : step.before.stops[0]])
        if step.calls[0].kind is Kind.FULL:
            anchor = response
            wanted = naive.full(net.network, prompt, response, shift)
        else:
            wanted = naive.cached(net.network, prompt, anchor, response, shift)
        if step.calls[0].kind is not Kind.REUSED:
            row = step.logits.rows[0]
            torch.testing.assert_close(row.values, wanted[list(row.places)], rtol=0, atol=1e-10)


def test_columns_that_there_are_not_yet_count_as_nothing_done() -> None:
    """A canvas that has doubled is as far from its end as its masks say; so are those of a simulation."""
    walk = started(False, "saber+archer:4", [3, 1, 4], ends=2, start_length=4)
    seen = []
    for step in steps(walk):
        seen.append(step)
        if not step.after.placed.any():
            assert walk.columns_left == step.after.masked.sum() * walk.next_columns
    assert not seen[1].before.placed.any(), "it has doubled"
    made = recorded(3, LONGEST, seen)
    assert made.left(1, seen[0].calls[0].fed) == 8 * seen[1].calls[0].fed


@pytest.mark.thinned(4)
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_canvas_that_is_never_cut_is_the_fixed_one(pair: tuple[str, str], shift: bool) -> None:
    """Token for token: with `cut` at 1 and the whole canvas at the start."""
    name, ids = "+".join(pair), [3, 1, 4]
    free = started(shift, name, ids, cut=1.0, start_length=LONGEST)
    fixed = started(shift, name, ids, length=LONGEST, max_length=None)
    for one, other in zip(steps(free), steps(fixed), strict=True):
        assert one.after.response.tolist() == other.after.response.tolist()
        assert one.calls[0].kind is other.calls[0].kind
        assert (one.calls[0].fed, one.calls[0].distance) == (
            other.calls[0].fed,
            other.calls[0].distance,
        )


class Told:
    """Logits in which the first pass is sure of given tokens."""

    def __init__(self, tokens: list[int], sure: list[float], vocabulary: int = 30) -> None:
        self.tokens, self.sure, self.vocabulary = tokens, sure, vocabulary

    def logits(self, mask: int) -> Logits:
        rest = [(1 - p) / (self.vocabulary - 1) for p in self.sure]
        values = torch.tensor(rest).double()[:, None].repeat(1, self.vocabulary)
        for column, (token, p) in enumerate(zip(self.tokens, self.sure, strict=True)):
            values[column, token] = p
        row = RowLogits(values.log(), tuple(range(len(self.tokens))))
        return Logits([row], len(self.tokens), mask)


def sized(state_length: int, **sizes: Any) -> tuple[Sized, DecodeState]:
    usual = {"start_length": state_length, "cut": 0.9, "margin": 2, "keep": 3, "grow": 4}
    decoder = Sized(Saber(), **usual | sizes)
    return decoder, decoder.start(Prompt.of([5], 29, eos=(1,), ends=(1,)), 16)


def test_what_the_first_pass_is_sure_is_end_marks_goes() -> None:
    """Ten end marks: two stay masks, three are placed and rest, five are gone and stay in Saber's mean."""
    decoder, state = sized(16)
    told = Told([7] * 6 + [1] * 10, [0.5] * 6 + [0.995] * 10)
    after, decision = decoder.step(state, told.logits(29))
    assert after.stops.tolist() == [11]
    assert after.resting[0].nonzero()[0].tolist() == [8, 9, 10]
    assert decision.accepted[0, 8:11].all()
    assert not decision.accepted[0, 11:].any()
    assert after.response[0, 8:11].tolist() == [1, 1, 1]
    known = after.accepted_at[0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(known[8:], 0.995)
    canvas = decoder.canvas(after)
    assert canvas.reads[0].nonzero()[0].tolist() == [1 + at for at in range(8)]


@pytest.mark.parametrize(
    ("tokens", "sure"),
    [([7] * 16, 0.9), ([1] * 15 + [7], 0.999), ([7] * 8 + [1] * 8, 0.89)],
    ids=["no end marks", "not in the last column", "not sure enough"],
)
def test_nothing_is_cut_without_a_sure_run_of_end_marks(tokens: list[int], sure: float) -> None:
    decoder, state = sized(16)
    after, _ = decoder.step(state, Told(tokens, [sure] * 16).logits(29))
    assert after.stops.tolist() == [16]
    assert not after.resting.any()


def test_a_canvas_without_an_end_in_sight_doubles_before_anything_is_placed() -> None:
    decoder, state = sized(6)
    told = Told([7] * 5 + [1] + [0] * 10, [0.9] * 5 + [0.98] + [0.5] * 10)
    after, decision = decoder.step(state, told.logits(29))
    assert after.stops.tolist() == [12]
    assert not decision.accepted.any()
    assert after.updates == (1,)
    assert (after.response == 29).all()
    again, _ = decoder.step(after, Told([7] * 16, [0.9] * 16).logits(29))
    assert again.stops.tolist() == [16]


def test_a_response_that_is_full_and_has_not_ended_gets_more_room() -> None:
    decoder, state = sized(16, start_length=16)
    full = replace(state, response=np.full_like(state.response, 7), stops=np.array([8]))
    full.response[:, 7:] = 29
    after, _ = decoder.step(full, Told([7] * 16, [0.9] * 16).logits(29))
    assert (after.stops.tolist(), after.done.tolist()) == ([12], [False])
    full.response[:, 3] = 1
    ended, _ = decoder.step(full, Told([7] * 16, [0.9] * 16).logits(29))
    assert (ended.stops.tolist(), ended.done.tolist()) == ([8], [True])


@settings(max_examples=60)
@given(
    st.fixed_dictionaries(
        {
            "start_length": st.integers(1, LONGEST),
            "cut": st.sampled_from([0.3, 0.6, 0.9, 1.0]),
            "margin": st.integers(1, 3),
            "keep": st.integers(0, 4),
            "grow": st.integers(1, 5),
        }
    ),
    st.integers(1, 3),
    st.sampled_from([1.0, 0.9, 0.6]),
    st.integers(0, 10**6),
)
def test_the_cut_canvas_equals_the_slow_rule(
    sizes: dict[str, Any], n: int, cap: float, seed: int
) -> None:
    """Growing before and after, cutting, end marks at rest: logits are drawn, and end in end marks or not."""
    draw = torch.Generator().manual_seed(seed)
    decoder = Sized(Saber(n=n, cap=cap, doubt=1.0, doubt_by="kept"), **sizes)
    state = decoder.start(Prompt.of([5], 29, eos=(1,), ends=(1, 2)), LONGEST)
    oracle = CutRow(LONGEST, **sizes, n=n, cap=cap, ends={1, 2})
    answer = int(torch.randint(1, LONGEST + 4, (), generator=draw))
    while not oracle.done:
        values = 2 * torch.randn(LONGEST, 30, generator=draw, dtype=torch.float64)
        values[answer:, 1] += 12 * torch.rand(max(0, LONGEST - answer), generator=draw)
        everything = torch.rand((), generator=draw) < 0.4 or not state.placed.any()
        read = state.existing[0] if everything else decoder.canvas(state).reads[0, 1:]
        places = tuple(np.flatnonzero(read).tolist())
        assert everything or set(places) == set(range(state.stops.item())) - oracle.resting
        logits = Logits([RowLogits(values[list(places)], places)], LONGEST, 29)
        best, _ = logits.read(logits.greedy)
        state, decision = decoder.step(state, logits)
        sure = {place: best.confidence[0, place].item() for place in places}
        accepted, remasked = oracle.update(sure, best.tokens[0].tolist())
        assert np.flatnonzero(decision.accepted[0]).tolist() == accepted
        assert np.flatnonzero(decision.remasked[0]).tolist() == remasked
        shown = [None if token == 29 else token for token in state.response[0].tolist()]
        assert shown[: state.stops.item()] == oracle.response
        assert state.done.item() == oracle.done
        assert set(np.flatnonzero(state.resting[0])) == oracle.resting


@pytest.mark.parametrize("name", ["confidence", "illada"])
def test_blocks_are_appended_until_one_holds_an_end_mark(name: str) -> None:
    """As iLLaDA does: the end is looked for when a block is full."""
    method = build(name, {"length": "append", "max_length": 16, "block": 4})
    assert isinstance(method.decoder, Appended)
    state = method.decoder.start(Prompt.of([5], 29, ends=(1,)), method.length)
    stops = [state.stops.tolist()]
    for token in [7, 7, 7, 7, 7, 1, 7, 7]:
        state, _ = method.decoder.step(state, Told([token] * 16, [0.9] * 16).logits(29))
        stops.append(state.stops.tolist())
    assert stops == [[4]] * 4 + [[8]] * 5
    assert state.done.tolist() == [True]
    assert len(state.result(0)) == 8


@pytest.mark.parametrize("policy", CACHES)
def test_samples_that_stop_at_different_columns_are_each_as_alone(policy: str) -> None:
    """Rows of one canvas with their own noise: a block that holds an end mark is the last of its row."""
    said = {"length": "append", "max_length": LONGEST, "block": 4, "temperature": 1.0}
    method = build(f"confidence+{policy}", said)
    net = NETS[False]

    def rows(first: int, samples: int) -> dict[int, list[Any]]:
        laid = Prompt.of([3, 1], net.mask, samples=samples, first=first, ends=(1, 2, 3))
        found: dict[int, list[Any]] = {}
        for step in steps_of(net.network, method, method.decoder.start(laid, method.length)):
            for index, row in enumerate(step.rows):
                result = step.after.result(index).tolist()
                found.setdefault(first + row, []).append(result)
        return found

    together = rows(0, 4)
    assert len({len(made[-1]) for made in together.values()}) > 1
    for sample in range(4):
        assert rows(sample, 1)[sample] == together[sample]


@pytest.mark.parametrize(
    "name", ["wino", "dream", "remdm", "saber-tail", "fixed-order", "saber-dream"]
)
def test_a_rule_with_a_plan_for_one_length_is_refused(name: str) -> None:
    with pytest.raises(Incompatible, match="plan that is made for one length"):
        build(name, {"length": "auto"})


def test_what_else_cannot_follow_an_answer_is_refused() -> None:
    with pytest.raises(Incompatible, match="keeps features of layers"):
        build("saber+dllm-cache", {"length": "auto"})
    for name, more in (("saber", {"block": 8}), ("illada", {})):
        with pytest.raises(Incompatible, match="as one block"):
            build(name, {"length": "auto", **more})
    with pytest.raises(Incompatible, match="none is given"):
        build("saber", {"length": "append"})
    with pytest.raises(BadRequest, match="cut says how a canvas follows its answer"):
        build("saber", {"length": 64, "cut": 0.5})
    assert not any(isinstance(POLICIES[name].make, Policy) for name in CACHES)


@pytest.mark.parametrize("name", ["max_length", "max_new_tokens", "length"])
def test_the_most_has_every_name_of_a_length(name: str) -> None:
    said = {name: 48, "canvas": "auto"}
    assert build("saber", said).length == 48
    assert build("saber", said).settings["canvas"] == "auto"
    assert "canvas" not in build("saber", {name: 48}).settings


def test_illada_appends_by_itself_and_its_last_block_may_be_short() -> None:
    method = build("illada", {"length": 70})
    assert isinstance(method.decoder, Appended)
    assert (method.settings["canvas"], method.first_stop) == ("append", 32)
    state = method.decoder.start(Prompt.of([5], 29, ends=(1,)), 70)
    stops = set()
    while not state.done.all():
        state, _ = method.decoder.step(state, Told([7] * 70, [0.9] * 70).logits(29))
        stops.add(int(state.stops[0]))
    assert stops == {32, 64, 70}
    assert len(state.result(0)) == 70
    assert not isinstance(build("illada", {"length": 64, "canvas": "fixed"}).decoder, Appended)


def test_an_id_that_ends_thinking_must_be_one_of_the_model_s() -> None:
    method = build("illada", {"length": 4, "block": 4, "end_think": [99]})
    state = method.decoder.start(Prompt.of([5], 29, ends=(1,)), 4)
    with pytest.raises(BadRequest, match="end_think holds the id 99"):
        method.decoder.step(state, Told([7] * 4, [0.9] * 4).logits(29))
