"""Samples of one prompt share their first pass: nothing is placed yet, so the model would see the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archer.engine.loop import Loop
from archer.methods.build import build
from archer.passes.canvas import Prompt
from archer.results.step import Kind, Step
from support.networks import backbone

PROMPTS = [[3, 1, 4], [1, 5], [3, 1, 4], [3, 1, 4]]
LENGTH = 12
METHODS = ("archer", "wino", "dllm-cache", "fast-dllm-cache", "remdm-sampling+archer")


def loop_and_start(method: str, **settings: Any) -> tuple[Loop[Any], Any]:
    net, made = backbone(), build(method, {"length": LENGTH} | settings)
    loop = Loop(net.network, made.decoder, made.policy)
    return loop, made.decoder.start(Prompt.of(PROMPTS, net.mask, seed=3), LENGTH)


def strangers(start: Any) -> Any:
    """The naive twin: the same prompts, which nobody knows to be the same."""
    return replace(start, prompt=replace(start.prompt, groups=tuple(range(len(PROMPTS)))))


def responses(steps: list[Step[Any]]) -> list[tuple[tuple[int, ...], list[list[int]]]]:
    return [(step.rows, step.after.response.tolist()) for step in steps]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("settings", [{}, {"guidance": 1.5}])
def test_shared_or_not_the_responses_are_the_same(method: str, settings: dict[str, Any]) -> None:
    loop, start = loop_and_start(method, **settings)
    shared, apart = list(loop.steps(start)), list(loop.steps(strangers(start)))
    assert responses(shared) == responses(apart)
    assert [call.kind for call in shared[0].calls] == [Kind.FULL] * 2 + [Kind.REUSED] * 2
    assert {call.kind for call in apart[0].calls} == {Kind.FULL}
    lanes = 2 if settings else 1
    fed = sum(call.fed for call in shared[0].calls)
    assert (shared[0].canvas.rows, fed) == (4 * lanes, sum(call.fed for call in apart[0].calls[:2]))
    assert shared[0].work.keys < apart[0].work.keys


def test_rows_that_read_other_columns_run_on_their_own() -> None:
    loop, start = loop_and_start("archer")
    question = loop.walk(start).pending
    assert question.twins(start.prompt.groups) == {2: 0, 3: 0}
    question.canvas.reads[2:, -1] = False
    assert question.twins(start.prompt.groups) == {3: 2}
    assert replace(question, lanes=2).twins((0, 0)) == {}


def test_a_state_that_is_taken_up_again_shares_nothing() -> None:
    loop, start = loop_and_start("archer")
    later = next(iter(loop.steps(start))).after
    assert {call.kind for call in next(iter(loop.steps(later))).calls} == {Kind.FULL}
