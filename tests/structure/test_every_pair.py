"""Every rule with every cache, on a network: drawn automata, gaps and sizes, and random re-masking."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from archer.engine.walk import steps_of
from archer.errors import BadRequest
from archer.methods.build import Method, build
from archer.network.shape import Blocks
from archer.passes.canvas import Prompt
from archer.structure.byte_automaton import of_regex
from archer.structure.constraint import Constraint
from archer.structure.token_automaton import TokenAutomaton, Vocabulary, over_tokens
from model.test_given_columns import CACHES, KEEPING, NETS, drawn_method, run
from model.test_length import LONGEST, PAIRS, SIZES
from structure.test_constraint import Adversary
from structure.test_lattice import PATTERNS
from support.networks import mixture

MASK = NETS[False].mask
BLOCK = 4
BLOCKED = mixture("grouped", attention=Blocks(BLOCK))
TEXTS = ("a", "b", "c", "ab", "ba", "cb", "aa", "bb", "ca", "abc", "bca", "aba", "cc", "bc", "a")
ENDS = (1, 2)
SPELLED = {3 + at: text.encode() for at, text in enumerate(TEXTS)}
VOCABULARY = Vocabulary(SPELLED, ENDS, NETS[False].network.shape.vocabulary)


@st.composite
def automata(draw: st.DrawFn) -> TokenAutomaton:
    return over_tokens(of_regex(draw(PATTERNS)), VOCABULARY)


def prompt_of(constraint: Constraint, **more: Any) -> Prompt:
    return Prompt.of([5, 4, 7], MASK, eos=ENDS[:1], ends=ENDS, constraint=constraint, **more)


def accepted(automaton: TokenAutomaton, seed: int, most: int) -> list[int]:
    """Tokens of some accepted text, at most so many where that is possible."""
    noise, state, tokens = np.random.default_rng(seed), automaton.start, list[int]()
    while automaton.needed[state] > 0 or (len(tokens) < most and noise.random() < 0.7):
        ways = [token for token in SPELLED if automaton.after(token, state) >= 0]
        after = [automaton.after(token, state) for token in ways]
        short = [
            at for at, to in enumerate(after) if len(tokens) + automaton.needed[to] + 1 <= most
        ]
        near = [at for at, to in enumerate(after) if automaton.needed[to] < automaton.needed[state]]
        chosen = short or near
        if not chosen:
            break
        at = int(noise.choice(chosen))
        tokens.append(ways[at])
        state = after[at]
    return tokens


def ends_accepted(method: Method, prompt: Prompt, automaton: TokenAutomaton, shift: bool) -> None:
    """All rows of a run."""
    steps = list(steps_of(NETS[shift].network, method, method.decoder.start(prompt, method.length)))
    assert steps[-1].after.done.all()
    for row in range(prompt.rows):
        last = next(step for step in reversed(steps) if row in step.rows)
        tokens = last.after.result(last.rows.index(row)).tolist()
        assert MASK not in tokens
        assert automaton.accepts(tokens)


MANY = [2, pytest.param(130, marks=pytest.mark.slow)]
RULES = [*CACHES, "adversary"]


def method_of(draw: st.DrawFn, rule: str, length: int) -> Method:
    if rule != "adversary":
        cache = draw(st.sampled_from(CACHES[rule]))
        return drawn_method(draw, rule, cache, length)
    cache = draw(st.sampled_from(["eager", *KEEPING]))
    method = build(f"saber+{cache}", {"length": length, "n": 1})
    rule_: Any = Adversary(temperature=draw(st.sampled_from([0.0, 1.0])), turns=8)
    return replace(method, decoder=rule_)


@pytest.mark.parametrize("examples", MANY)
@pytest.mark.parametrize("rule", RULES)
def test_a_drawn_case_ends_with_an_accepted_text(rule: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(automata(), st.integers(0, 3), st.booleans(), st.integers(0, 1 << 20), st.data())
    def holds(
        automaton: TokenAutomaton, more: int, shift: bool, seed: int, data: st.DataObject
    ) -> None:
        length = max(2, len(accepted(automaton, seed, 6)) + more)
        assume(length <= 12)
        method = method_of(data.draw, rule, length)  # type: ignore[arg-type]
        prompt = prompt_of(Constraint(automaton), seed=seed, samples=2)
        ends_accepted(method, prompt, automaton, shift and rule != "wino")

    holds()


@pytest.mark.parametrize("examples", MANY)
@pytest.mark.parametrize("rule", RULES)
def test_drawn_gaps_are_filled_so_that_the_whole_is_accepted(rule: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(automata(), st.integers(0, 2), st.booleans(), st.integers(0, 1 << 20), st.data())
    def holds(
        automaton: TokenAutomaton, more: int, shift: bool, seed: int, data: st.DataObject
    ) -> None:
        text = accepted(automaton, seed, 7)
        known = [*text, *([ENDS[0]] * (more + max(0, 3 - len(text))))]
        assume(text and len(known) <= 12)
        places = st.integers(0, len(text) - 1)
        kept = data.draw(st.sets(places, min_size=1, max_size=min(len(text), len(known) - 2)))
        given_ = [token if at in kept else None for at, token in enumerate(known)]
        method = method_of(data.draw, rule, given_.count(None))  # type: ignore[arg-type]
        constraint = Constraint(automaton, len(given_), np.zeros(len(given_), dtype=np.bool_))
        prompt = prompt_of(constraint, given=given_, seed=seed)
        steps = run(NETS[shift and rule != "wino"], method, prompt)
        (whole,) = steps[-1].record.response.tolist()
        assert steps[-1].after.done.all()
        assert all(token in (None, own) for token, own in zip(given_, whole, strict=True))
        assert automaton.accepts(whole)

    holds()


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["saber", "threshold", "bd3lm", "sdar", "llada2", "llada2-edit"])
def test_block_causal_models_draw_accepted_texts(rule: str, examples: int) -> None:
    """A block is filled before later ones are looked at, and with a temperature not by what is likeliest."""

    @settings(max_examples=examples, deadline=None)
    @given(automata(), st.integers(0, 6), st.sampled_from([0.7, 1.0]), st.integers(0, 1 << 20))
    def holds(automaton: TokenAutomaton, more: int, temperature: float, seed: int) -> None:
        length = BLOCK * -(-max(2, len(accepted(automaton, seed, 10)) + more) // BLOCK)
        assume(length <= 16)
        wanted = {"length": length, "temperature": temperature, "block": BLOCK}
        method = build(f"{rule}+archer", wanted)
        prompt = prompt_of(Constraint(automaton), seed=seed, samples=2)
        steps = list(steps_of(BLOCKED.network, method, method.decoder.start(prompt, length)))
        for row in range(prompt.rows):
            last = next(step for step in reversed(steps) if row in step.rows)
            assert automaton.accepts(last.after.result(last.rows.index(row)).tolist())

    holds()


@pytest.mark.parametrize("examples", [8, pytest.param(400, marks=pytest.mark.slow)])
def test_a_canvas_that_grows_or_is_cut_ends_with_an_accepted_text(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(automata(), st.sampled_from(PAIRS), SIZES, st.booleans(), st.integers(0, 1 << 20))
    def holds(
        automaton: TokenAutomaton,
        pair: tuple[str, str],
        sizes: dict[str, Any],
        shift: bool,
        seed: int,
    ) -> None:
        constraint = Constraint(automaton)
        try:
            constraint.refuse_impossible(np.full(LONGEST, MASK), MASK, name="regex")
        except BadRequest:
            assume(False)
        method = build("+".join(pair), {"length": "auto", "max_length": LONGEST} | sizes)
        prompt = prompt_of(constraint, seed=seed)
        ends_accepted(method, prompt, automaton, shift)

    holds()
