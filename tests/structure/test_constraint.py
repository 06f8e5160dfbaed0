"""Whatever a rule accepts, takes back or draws, what it ends with is accepted."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass as settings_dataclass

from archer.decoders.base import Decision, DecodeState, Rule, chance, one_block
from archer.decoders.length import Appended, Sized
from archer.decoders.saber import Saber
from archer.methods.build import build
from archer.methods.catalogue import DECODERS
from archer.passes.canvas import Canvas, Prompt, Scope
from archer.passes.logits import Logits, RowLogits
from archer.structure.byte_automaton import of_regex
from archer.structure.constraint import Constraint, constrained
from archer.structure.token_automaton import Vocabulary, over_tokens

SPELLED = {0: b"a", 1: b"b", 2: b"ab", 3: b"c", 5: b"ba", 6: b"a"}
END, MASK, SIZE = 4, 7, 8
VOCABULARY = Vocabulary(SPELLED, [END], SIZE)
PATTERNS = ("(?:ab)+c", "a{2,5}|b", "(?:a|bc)*", "c(?:ab|ba){1,3}", "abcabcab", "[abc]{3}")
LENGTH = 8
TOKENS = {pattern: over_tokens(of_regex(pattern), VOCABULARY) for pattern in PATTERNS}


@settings_dataclass(frozen=True, kw_only=True)
class Adversary(Rule[DecodeState]):
    """Fills masks at random and takes tokens back at random, for a while."""

    turns: int = 12

    @property
    def reads(self) -> Scope:
        return Scope.RESPONSE

    @property
    def draws(self) -> bool:
        return True

    def limit(self, length: int) -> int:
        return self.turns + 1

    def canvas(self, state: DecodeState) -> Canvas:
        return one_block(state, state.existing)

    def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
        best, _ = logits.read(self.sampled(state, logits))
        over = np.array([update >= self.turns for update in state.updates])[:, None]
        accepted = state.masked & ((chance(state, "order") < 0.6) | over)
        response = np.where(accepted, best.tokens, state.response)
        back = state.placed_in(response) & (chance(state, "remask") < 0.4) & ~over
        after = state.advanced(np.where(back, state.prompt.mask, response), over[:, 0])
        return after, Decision.accepting(accepted, best, remasked=back)


def finished(decoder: Any, prompt: Prompt, length: int, seed: int) -> Any:
    """The last state of a rule under drawn logits of the columns that it reads."""
    noise = np.random.default_rng(seed)
    scale = [0.0, 1.0, 10.0][seed % 3]
    rule = constrained(decoder)
    state = rule.start(prompt, length)
    for _ in range(rule.limit(length) + 1):
        canvas = rule.canvas(state)
        lanes = canvas.rows
        rows = []
        for row in range(lanes):
            places = np.flatnonzero(canvas.reads[row, canvas.answers])
            values = scale * noise.standard_normal((len(places), SIZE))
            rows.append(
                RowLogits(torch.tensor(values, dtype=torch.float32), tuple(places.tolist()))
            )
        state, _ = rule.step(state, Logits(rows, len(canvas.answers), MASK))
        if state.done.all():
            return state
    raise AssertionError("the rule has not finished")


def text_of(tokens: list[int]) -> str:
    """What stands before the first end mark; behind it there are only end marks."""
    end = tokens.index(END) if END in tokens else len(tokens)
    assert set(tokens[end:]) <= {END}
    return b"".join(SPELLED[token] for token in tokens[:end]).decode()


def check(decoder: Any, pattern: str, length: int, seed: int) -> None:
    prompt = Prompt.of(
        [0, 1], MASK, eos=(END,), ends=(END,), seed=seed, constraint=Constraint(TOKENS[pattern])
    )
    state = finished(decoder, prompt, length, seed)
    assert re.fullmatch(pattern, text_of(state.result(0).tolist()))


def decoders(temperature: float) -> Iterator[Any]:
    """Every rule there is, with its usual settings and with a temperature, and the adversary."""
    yield Adversary(temperature=temperature)
    for name in sorted(DECODERS):
        wanted: dict[str, Any] = {"length": LENGTH}
        if "temperature" in DECODERS[name].settings:
            wanted["temperature"] = temperature
        yield build(f"{name}+eager", wanted).decoder


CASES = [
    pytest.param(decoder, id=f"{type(decoder).__name__}-{at}-{temperature}")
    for temperature in (0.0, 1.0)
    for at, decoder in enumerate(decoders(temperature))
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("decoder", CASES)
def test_every_rule_ends_with_an_accepted_text(decoder: Any) -> None:
    for seed, pattern in enumerate(PATTERNS):
        check(decoder, pattern, LENGTH, seed)


@pytest.mark.slow
@pytest.mark.parametrize("decoder", CASES)
def test_every_rule_ends_with_an_accepted_text_in_many_cases(decoder: Any) -> None:
    for seed in range(60):
        check(decoder, PATTERNS[seed % len(PATTERNS)], LENGTH, 100 + seed)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PATTERNS), st.integers(0, 1 << 20), st.sampled_from([0.0, 0.7]))
def test_a_rule_that_takes_back_at_random_ends_with_an_accepted_text(
    pattern: str, seed: int, temperature: float
) -> None:
    check(Adversary(temperature=temperature), pattern, LENGTH + seed % 3, seed)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(PATTERNS), st.integers(0, 1 << 20), st.booleans())
def test_a_canvas_that_grows_ends_with_an_accepted_text(
    pattern: str, seed: int, appended: bool
) -> None:
    rule = Saber(block=4 if appended else None)
    sizes = {"start_length": 2, "cut": 0.9, "margin": 0, "keep": 1, "grow": 2}
    decoder = Appended(rule) if appended else Sized(rule, **sizes)  # type: ignore[arg-type]
    check(decoder, pattern, 16, seed)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 20), st.sampled_from([0.0, 1.0]))
def test_gaps_are_filled_so_that_the_whole_is_accepted(seed: int, temperature: float) -> None:
    given_: list[int | None] = [None, None, None, 3, None, None]
    closed = np.array([True, True, True, False, False, False])
    constraint = Constraint(TOKENS["(?:a|bc)*"], len(given_), closed)
    prompt = Prompt.of(
        [0, 1], MASK, given=given_, constraint=constraint, ends=(END,), eos=(END,), seed=seed
    )
    state = finished(Adversary(temperature=temperature), prompt, 5, seed)
    whole = prompt.response(state.response)[0].tolist()
    before = b"".join(SPELLED[token] for token in whole[:3] if token != END).decode()
    assert re.fullmatch("(?:a|bc)*", before + "c" + text_of(whole[4:]))


def test_a_rule_sees_one_candidate_and_how_sure_it_is() -> None:
    prompt = Prompt.of([0], MASK, ends=(END,), constraint=Constraint(TOKENS["[abc]{3}"]))
    seen: list[Logits] = []

    @settings_dataclass(frozen=True, kw_only=True)
    class Looks(Adversary):
        def step(self, state: DecodeState, logits: Logits) -> tuple[DecodeState, Decision]:
            seen.append(logits)
            return super().step(state, logits)

    finished(Looks(turns=1), prompt, 4, 1)
    for logits in seen:
        best, (entropy, margin) = logits.read(logits.greedy, logits.entropy, logits.margin)
        whole = logits.rows[0].values
        chances = whole.softmax(dim=1)
        taken = chances[torch.arange(4), torch.from_numpy(best.tokens[0])].numpy()
        assert np.allclose(taken, best.confidence[0], atol=1e-9)
        assert np.allclose(entropy[0], -np.log(best.confidence[0]))
        assert np.allclose(margin[0], best.confidence[0])
        logits_, tokens = logits.rows[0].likeliest(2)
        assert tokens.shape == logits_.shape == (4, 2)
        assert logits.rows[0].drawn(1.0, 0, 0, MASK).tolist() == best.tokens[0].tolist()


@pytest.mark.parametrize("token", [0, END, MASK])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["saber", "wino"])
def test_unsound_logits_are_known_as_such(token: int, value: float, name: str) -> None:
    """As the reduction would know them, which is not made."""
    prompt = Prompt.of([0], MASK, constraint=Constraint(TOKENS["[abc]{3}"]))
    rule = constrained(build(f"{name}+eager", {}).decoder)
    state = rule.start(prompt, LENGTH)
    canvas = rule.canvas(state)
    places = np.flatnonzero(canvas.reads[0, canvas.answers])
    values = torch.zeros(len(places), SIZE)
    values[-1, token] = value
    row = RowLogits(values, tuple(places.tolist()))
    seen, bare = (Logits([row], len(canvas.answers), MASK) for _ in range(2))
    rule.step(state, seen)
    assert seen.sound.tolist() == bare.sound.tolist() == [value == -np.inf]
