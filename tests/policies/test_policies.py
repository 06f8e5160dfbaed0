"""Cache policies as pure functions of a hand-made canvas and memory."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from archer.methods.catalogue import POLICIES
from archer.passes.canvas import Canvas, Flags, Prompt
from archer.passes.logits import Logits
from archer.passes.memory import Memory, Store
from archer.policies.base import Policy
from archer.policies.blockwise import Dual
from archer.policies.dllm import DllmCache, DllmRule
from archer.policies.prompt_cache import Age, Archer

MASK = 9
LENGTH = 4
CPU = torch.device("cpu")
EVERY_POLICY = [pytest.param(part.make(**part.fixed), id=name) for name, part in POLICIES.items()]


def canvas(*responses: list[int]) -> Canvas:
    """Rows with a prompt of two tokens and one block."""
    response = np.array(responses)
    bounds = np.array([[0, LENGTH]] * len(responses))
    reads = np.ones_like(response, dtype=np.bool_)
    prompt = Prompt.of([0, 7], MASK, samples=len(responses))
    return Canvas.plain(prompt, response, bounds, reads)


def blank(policy: Policy, asked: Canvas) -> Memory:
    store = Store.empty(1, asked.rows, 1, asked.columns, 4, device=CPU, dtype=torch.float32)
    return replace(Memory.blank(store, asked), notes=policy.start(asked))


def note(policy: Policy, memory: Memory, asked: Canvas, ran: list[bool], full: list[bool]) -> None:
    """Record a pass of a model to which all tokens are alike."""
    logits = Logits.dense(torch.zeros(asked.rows, LENGTH, MASK + 1), MASK)
    memory.note(asked, ran, full, policy.noted(asked, memory, np.array(full), logits))


def anchored_at(policy: Policy, *responses: list[int]) -> Memory:
    """As after a first, full pass over these responses."""
    asked = canvas(*responses)
    memory = blank(policy, asked)
    note(policy, memory, asked, [True] * asked.rows, [True] * asked.rows)
    return memory


def refreshed(asked: Flags) -> list[bool]:
    """Which rows are asked for the prompt; the response must be asked for in every row."""
    assert asked[:, 2:].all()
    prompt = asked[:, :2]
    assert np.array_equal(prompt.any(axis=1), prompt.all(axis=1))
    return [bool(row.all()) for row in prompt]


START = [MASK] * LENGTH
responses = st.lists(st.integers(0, MASK), min_size=LENGTH, max_size=LENGTH)


@given(responses, responses, responses, responses, st.integers(1, 6))
def test_archer_refreshes_each_row_by_its_own_distance(
    a: list[int], b: list[int], anchor_a: list[int], anchor_b: list[int], radius: int
) -> None:
    """Invariants 12, 16: at a distance of K or more, and only then."""
    memory = anchored_at(Archer(), anchor_a, anchor_b)
    asked = Archer(radius).recompute(canvas(a, b), memory)
    far = [
        sum(x != y for x, y in zip(now, then, strict=True)) >= radius
        for now, then in ((a, anchor_a), (b, anchor_b))
    ]
    assert refreshed(asked) == far


@pytest.mark.parametrize("policy", [*EVERY_POLICY, Archer(math.inf), Archer(1), Age(100)])
def test_without_an_anchor_everything_is_computed(policy: Policy) -> None:
    """Before the first pass, and after the weights have changed under it: nothing that is kept is used."""
    asked = canvas(START, START)
    assert policy.recompute(asked, blank(policy, asked)).all()
    memory = anchored_at(policy, START, START)
    note(policy, memory, asked, [True, True], [False, False])
    memory.forget()
    assert policy.recompute(asked, memory).all()
    if (inside := policy.inside_layers(memory)) is not None:
        assert inside.full == (True, True)


def test_dllm_counts_its_intervals_from_the_last_refresh_of_everything() -> None:
    policy = DllmCache(prompt_interval=4, response_interval=2)
    asked = canvas(START)
    memory = blank(policy, asked)
    found = []
    for made in range(9):
        if made == 6:
            memory.forget()
        inside = policy.inside_layers(memory)
        assert isinstance(inside.rule, DllmRule)
        found.append(inside.rule.due[0])
        note(policy, memory, asked, [True], list(inside.full))
    whole, response, neither = (True, True), (False, True), (False, False)
    assert found == [whole, neither, response, neither, whole, neither, whole, neither, response]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_age_counts_passes_and_ignores_the_response(every: int) -> None:
    memory = anchored_at(Age(every), START)
    kinds = []
    for token in range(6):
        asked = canvas([token] * LENGTH if token % 2 else START)
        (full,) = refreshed(Age(every).recompute(asked, memory))
        kinds.append(full)
        note(Age(every), memory, asked, [True], [full])
    assert kinds == [(made % every) == 0 for made in range(1, 7)]


@pytest.mark.parametrize("radius", [0, -1, 0.5, 2.5, math.nan, -math.inf, "nan", "many", None])
def test_an_impossible_radius_is_refused(radius: Any) -> None:
    with pytest.raises(ValidationError, match="radius"):
        Archer(radius=radius)


@pytest.mark.parametrize(
    ("given_as", "radius"), [(1, 1), ("8", 8), (3.0, 3), ("inf", math.inf), (math.inf, math.inf)]
)
def test_a_radius_is_a_whole_number_or_infinite(given_as: Any, radius: float) -> None:
    assert Archer(radius=given_as).radius == radius


@pytest.mark.parametrize("every", [0, -1, 2.5, math.inf, math.nan])
def test_an_impossible_age_is_refused(every: Any) -> None:
    with pytest.raises(ValidationError, match="every"):
        Age(every=every)


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a_row_is_answered_by_itself_alone(policy: Any) -> None:
    """Invariant 20 at its root, for every policy in the table."""
    memory = anchored_at(policy, START, START, START)
    moved = canvas([1, MASK, 3, MASK], START, START)
    note(policy, memory, moved, [True, True, False], [False] * 3)
    asked = canvas([1, 2, 3, MASK], [MASK, 2, MASK, MASK], [1, 2, 3, 4])
    together = policy.recompute(asked, memory)
    assert together.dtype == np.bool_
    assert together.shape == asked.tokens.shape
    for row in range(3):
        alone = policy.recompute(asked.select([row]), memory.select([row]))
        assert np.array_equal(alone[0], together[row])


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_asking_changes_nothing(policy: Any) -> None:
    memory = anchored_at(policy, START)
    asked = canvas([1, MASK, 3, MASK])
    before = {name: value.copy() for name, value in arrays(memory).items()}
    tokens = asked.tokens.copy()
    first = policy.recompute(asked, memory)
    first.fill(False)
    assert policy.recompute(asked, memory).any()
    assert np.array_equal(asked.tokens, tokens)
    logits = Logits.dense(torch.zeros(1, LENGTH, MASK + 1), MASK)
    for full in (False, True):
        policy.noted(asked, memory, np.array([full]), logits)
    assert arrays(memory).keys() == before.keys()
    for name, value in arrays(memory).items():
        assert np.array_equal(before[name], value), name


def arrays(memory: Memory) -> dict[str, Any]:
    """All that a memory holds of its rows, notes included."""
    named = {item.name: getattr(memory, item.name) for item in fields(memory)}
    return {**memory.notes, **{n: a for n, a in named.items() if isinstance(a, np.ndarray)}}


def test_passes_are_counted_per_block() -> None:
    policy = Dual()
    memory = anchored_at(policy, START)
    found = []
    for block in ((0, 4), (0, 2), (0, 2), (2, 4)):
        asked = replace(canvas(START), block=np.array([block]) + 2)
        found.append(policy.passes(asked, memory).item())
        note(policy, memory, asked, [True], [False])
    assert found == [1, 0, 1, 0]
