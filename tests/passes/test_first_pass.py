"""Samples of one prompt share their first pass: nothing is placed yet, so the model would see the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archer.engine.footprint import empty_store
from archer.engine.loop import Loop
from archer.methods.build import build
from archer.passes.canvas import Prompt
from archer.passes.memory import Memory
from archer.results.step import Kind, Step
from support.networks import backbone

SAMPLES = 4
LENGTH = 12
METHODS = ("archer", "wino", "dllm-cache", "fast-dllm-cache", "remdm-sampling+archer")


def loop_and_start(method: str, **settings: Any) -> tuple[Loop[Any], Any]:
    net, made = backbone(), build(method, {"length": LENGTH} | settings)
    loop = Loop(net.network, made.decoder, made.policy)
    return loop, made.decoder.start(Prompt.of([3, 1, 4], net.mask, samples=SAMPLES, seed=3), LENGTH)


def apart(loop: Loop[Any], start: Any) -> list[Step[Any]]:
    """The naive twin: with a memory of which nobody knows that it is blank, nothing is shared."""
    canvas = loop.decoder.canvas(start)
    store = empty_store(loop.network, canvas.rows, canvas.columns)
    return list(loop.steps(start, Memory.blank(store, canvas)))


def responses(steps: list[Step[Any]]) -> list[tuple[tuple[int, ...], list[list[int]]]]:
    return [(step.rows, step.after.response.tolist()) for step in steps]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("settings", [{}, {"guidance": 1.5}])
def test_shared_or_not_the_responses_are_the_same(method: str, settings: dict[str, Any]) -> None:
    loop, start = loop_and_start(method, **settings)
    shared, single = list(loop.steps(start)), apart(loop, start)
    assert responses(shared) == responses(single)
    assert [call.kind for call in shared[0].calls] == [Kind.FULL] + [Kind.REUSED] * 3
    assert {call.kind for call in single[0].calls} == {Kind.FULL}
    lanes = 2 if settings else 1
    fed = sum(call.fed for call in shared[0].calls)
    assert (shared[0].canvas.rows, fed) == (SAMPLES * lanes, single[0].calls[0].fed)
    assert shared[0].work.keys < single[0].work.keys


def test_rows_that_read_other_columns_run_on_their_own() -> None:
    loop, start = loop_and_start("archer")
    question = loop.walk(start).pending
    assert question.twins() == {1: 0, 2: 0, 3: 0}
    assert replace(question, lanes=2).twins() == {2: 0, 3: 1}
    question.canvas.reads[2:, -1] = False
    assert question.twins() == {1: 0}
    assert replace(question, lanes=2).twins() == {}


def test_a_state_that_is_taken_up_again_shares_nothing() -> None:
    loop, start = loop_and_start("archer")
    later = next(iter(loop.steps(start))).after
    assert {call.kind for call in next(iter(loop.steps(later))).calls} == {Kind.FULL}
