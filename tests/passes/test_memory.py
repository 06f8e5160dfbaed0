"""What is remembered between passes, on hand-made canvases, and the first pass that samples share."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archer.engine.footprint import empty_store
from archer.engine.walk import Walk, steps_of
from archer.methods.build import Method, build
from archer.passes.canvas import Canvas, Prompt
from archer.passes.logits import RowLogits
from archer.passes.memory import Memory, Store
from archer.results.step import Kind, Step
from support.networks import backbone

MASK = 9
LENGTH = 4
CPU = torch.device("cpu")

responses = st.lists(st.integers(0, MASK), min_size=LENGTH, max_size=LENGTH)


def canvas(*rows: list[int], block: tuple[int, int] = (0, LENGTH)) -> Canvas:
    """Rows with a prompt of two tokens."""
    response = np.array(rows)
    bounds = np.array([block] * len(rows))
    reads = np.ones_like(response, dtype=np.bool_)
    return Canvas.plain(Prompt.of([1, 2], MASK, samples=len(rows)), response, bounds, reads)


def blank(asked: Canvas) -> Memory:
    store = Store.empty(2, asked.rows, 1, asked.columns, 4, device=CPU, dtype=torch.float32)
    store.keys.zero_()
    store.values.zero_()
    return Memory.blank(store, asked)


def seen_once(*rows: list[int]) -> Memory:
    """A memory whose first, full pass saw these responses."""
    asked = canvas(*rows)
    memory = blank(asked)
    everyone = [True] * asked.rows
    memory.note(asked, everyone, everyone)
    return memory


def test_a_blank_memory_has_no_anchor_and_knows_no_question() -> None:
    asked = canvas([0, 1, 2, 3], [MASK] * 4)
    memory = blank(asked)
    assert memory.anchored.tolist() == [False, False]
    assert memory.distance(asked).tolist() == [0, 0]
    assert memory.same_question(asked).tolist() == [False, False]
    assert memory.logits == (None, None)
    assert memory.slots == (0, 1)


@given(responses, responses, responses)
def test_distance_is_a_metric_that_counts_the_response_only(
    a: list[int], b: list[int], c: list[int]
) -> None:
    """Invariant 16; MASK is a symbol like any other."""

    def distance(anchor: list[int], state: list[int]) -> int:
        return int(seen_once(anchor).distance(canvas(state)).item())

    assert distance(a, b) == sum(x != y for x, y in zip(a, b, strict=True)) <= LENGTH
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_neither_prompt_nor_scratch_enters_the_distance() -> None:
    memory = seen_once([1, 2, 3, 4])
    asked = canvas([1, 2, 3, 5])
    asked.tokens[:, :2] = 8
    assert memory.distance(asked).tolist() == [1]
    wide = np.concatenate((memory.anchor, [[0, 0]]), axis=1)
    memory.anchor, asked = wide, replace(asked, tokens=wide + 1)
    assert memory.distance(asked).tolist() == [4]


def test_a_cached_pass_is_seen_but_does_not_move_the_anchor() -> None:
    memory = seen_once([MASK] * 4, [MASK] * 4)
    moved = canvas([1, MASK, MASK, MASK], [1, 2, MASK, MASK])
    memory.note(moved, [True, True], [False, False])
    assert memory.distance(moved).tolist() == [1, 2]
    assert memory.same_question(moved).tolist() == [True, True]
    back = canvas([MASK] * 4, [MASK] * 4)
    assert memory.distance(back).tolist() == [0, 0]
    assert memory.same_question(back).tolist() == [False, False]


def test_a_full_pass_moves_the_anchor_of_its_rows_only() -> None:
    memory = seen_once([MASK] * 4, [MASK] * 4)
    moved = canvas([1, 2, MASK, MASK], [1, 2, MASK, MASK])
    memory.note(moved, [True, True], [False, True])
    assert memory.distance(moved).tolist() == [2, 0]


def test_a_row_that_did_not_run_keeps_everything() -> None:
    memory = seen_once([MASK] * 4, [MASK] * 4)
    memory.notes = {"count": np.array([1, 1]), "pairs": np.array([[1, 2], [3, 4]])}
    moved = canvas([1, MASK, MASK, MASK], [1, MASK, MASK, MASK], block=(0, 2))
    notes = {"count": np.array([2, 2]), "pairs": np.array([[5, 6], [7, 8]])}
    memory.note(moved, [True, False], [False, False], notes)
    assert memory.same_question(moved).tolist() == [True, False]
    assert memory.notes["count"].tolist() == [2, 1]
    assert memory.notes["pairs"].tolist() == [[5, 6], [3, 4]]


def test_a_changed_prompt_token_is_another_question() -> None:
    memory = seen_once([1, 2, 3, 4])
    asked = canvas([1, 2, 3, 4])
    assert memory.same_question(asked).tolist() == [True]
    asked.tokens[0, 0] = 8
    assert memory.same_question(asked).tolist() == [False]


def test_forgetting_drops_anchor_and_logits() -> None:
    memory = replace(seen_once([1, 2, 3, 4]), logits=(RowLogits(torch.zeros(1, 3), (0,)),))
    memory.forget()
    asked = canvas([4, 3, 2, 1])
    assert memory.anchored.tolist() == [False]
    assert memory.distance(asked).tolist() == [0]
    assert memory.same_question(canvas([1, 2, 3, 4])).tolist() == [False]
    assert memory.logits == (None,)


def test_selecting_rows_moves_no_keys_and_keeps_the_rows_apart() -> None:
    memory = seen_once([1, 2, 3, 4], [5, 6, 7, 8])
    memory.note(canvas([1] * 4, [1] * 4), [False, True], [False, False])
    memory.logits = (None, RowLogits(torch.ones(1, 3), (2,)))
    memory.store.features["norm"] = torch.tensor([10.0, 20.0])
    memory.notes = {"count": np.array([1, 2])}
    picked = memory.select([1])
    assert picked.store is memory.store
    assert picked.slots == (1,)
    assert picked.anchor[:, 2:].tolist() == [[5, 6, 7, 8]]
    assert picked.seen[:, 2:].tolist() == [[1] * 4]
    assert picked.notes["count"].tolist() == [2]
    assert picked.anchored.tolist() == [True]
    assert picked.logits == memory.logits[1:]
    assert picked.store.features["norm"][picked.slots[0]] == 20.0
    assert picked.select([0]).slots == (1,)


def test_a_clone_and_its_original_do_not_reach_each_other() -> None:
    memory = seen_once([MASK] * 4)
    memory.store.features["norm"] = torch.zeros(1)
    memory.notes = {"count": np.array([1])}
    copy = memory.clone()
    memory.store.keys.fill_(1.0)
    memory.store.values.fill_(1.0)
    memory.store.features["norm"].fill_(1.0)
    memory.note(canvas([1, 2, 3, 4]), [True], [True], {"count": np.array([2])})
    memory.logits = (RowLogits(torch.zeros(1, 3), (0,)),)
    assert not copy.store.keys.any()
    assert not copy.store.values.any()
    assert not copy.store.features["norm"].any()
    assert copy.anchor[:, 2:].tolist() == [[MASK] * 4]
    assert copy.seen[:, 2:].tolist() == [[MASK] * 4]
    assert copy.notes["count"].tolist() == [1]
    assert copy.logits == (None,)


SAMPLES = 4
TOKENS = 12
METHODS = ("archer", "wino", "dllm-cache", "fast-dllm-cache", "remdm-sampling+archer")


NET = backbone()


def method_and_start(method: str, **settings: Any) -> tuple[Method, Any]:
    made = build(method, {"length": TOKENS} | settings)
    return made, made.decoder.start(Prompt.of([3, 1, 4], NET.mask, samples=SAMPLES, seed=3), TOKENS)


def apart(method: Method, start: Any) -> list[Step[Any]]:
    """The naive twin: with a memory of which nobody knows that it is blank, nothing is shared."""
    canvas = method.decoder.canvas(start)
    store = empty_store(NET.network, canvas.rows, canvas.columns)
    return list(steps_of(NET.network, method, start, Memory.blank(store, canvas)))


def told(steps: list[Step[Any]]) -> list[tuple[tuple[int, ...], list[list[int]]]]:
    return [(step.rows, step.after.response.tolist()) for step in steps]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("settings", [{}, {"guidance": 1.5}])
def test_shared_or_not_the_responses_are_the_same(method: str, settings: dict[str, Any]) -> None:
    made, start = method_and_start(method, **settings)
    shared, single = list(steps_of(NET.network, made, start)), apart(made, start)
    assert told(shared) == told(single)
    assert [call.kind for call in shared[0].calls] == [Kind.FULL] + [Kind.REUSED] * 3
    assert {call.kind for call in single[0].calls} == {Kind.FULL}
    lanes = 2 if settings else 1
    fed = sum(call.fed for call in shared[0].calls)
    assert (shared[0].canvas.rows, fed) == (SAMPLES * lanes, single[0].calls[0].fed)
    assert shared[0].work.keys < single[0].work.keys


def test_rows_that_read_other_columns_run_on_their_own() -> None:
    question = Walk(NET.network, *method_and_start("archer")).pending
    assert question.twins() == {1: 0, 2: 0, 3: 0}
    assert replace(question, lanes=2).twins() == {2: 0, 3: 1}
    question.canvas.reads[2:, -1] = False
    assert question.twins() == {1: 0}
    assert replace(question, lanes=2).twins() == {}


def test_a_state_that_is_taken_up_again_shares_nothing() -> None:
    method, start = method_and_start("archer")
    later = next(steps_of(NET.network, method, start)).after
    again = next(steps_of(NET.network, method, later))
    assert {call.kind for call in again.calls} == {Kind.FULL}
