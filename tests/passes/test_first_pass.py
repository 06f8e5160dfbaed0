"""Samples of one prompt share their first pass: nothing is placed yet, so the model would see the same."""

from dataclasses import replace
from typing import Any

import pytest

from archer.engine.footprint import empty_store
from archer.engine.walk import Walk, steps_of
from archer.methods.build import Method, build
from archer.passes.canvas import Prompt
from archer.passes.memory import Memory
from archer.results.step import Kind, Step
from support.networks import backbone

SAMPLES = 4
LENGTH = 12
METHODS = ("archer", "wino", "dllm-cache", "fast-dllm-cache", "remdm-sampling+archer")


NET = backbone()


def method_and_start(method: str, **settings: Any) -> tuple[Method, Any]:
    made = build(method, {"length": LENGTH} | settings)
    return made, made.decoder.start(Prompt.of([3, 1, 4], NET.mask, samples=SAMPLES, seed=3), LENGTH)


def apart(method: Method, start: Any) -> list[Step[Any]]:
    """The naive twin: with a memory of which nobody knows that it is blank, nothing is shared."""
    canvas = method.decoder.canvas(start)
    store = empty_store(NET.network, canvas.rows, canvas.columns)
    return list(steps_of(NET.network, method, start, Memory.blank(store, canvas)))


def responses(steps: list[Step[Any]]) -> list[tuple[tuple[int, ...], list[list[int]]]]:
    return [(step.rows, step.after.response.tolist()) for step in steps]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("settings", [{}, {"guidance": 1.5}])
def test_shared_or_not_the_responses_are_the_same(method: str, settings: dict[str, Any]) -> None:
    made, start = method_and_start(method, **settings)
    shared, single = list(steps_of(NET.network, made, start)), apart(made, start)
    assert responses(shared) == responses(single)
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
