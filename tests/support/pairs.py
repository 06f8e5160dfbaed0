"""Running any named method on a test network, and what happened to each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from archer.engine.loop import Loop
from archer.methods.build import build
from archer.passes.canvas import Prompt
from archer.results.step import Step
from support.networks import Backbone

Rows = dict[int, list[tuple[Any, ...]]]


def walk(
    net: Backbone, name: str, prompts: list[list[int]], seed: int = 0, **settings: Any
) -> list[Step[Any]]:
    """All steps of a named method."""
    method = build(name, settings)
    prompt = Prompt.of(prompts, net.mask, seed=seed, eos=(1,), ends=(1, 2))
    state = method.decoder.start(prompt, method.length)
    return list(Loop(net.network, method.decoder, method.policy).steps(state))


def texts(steps: list[Step[Any]]) -> Rows:
    """Response, accepted and re-masked positions of each row, update by update."""
    rows: Rows = {}
    for step in steps:
        for index, row in enumerate(step.rows):
            rows.setdefault(row, []).append(
                (
                    step.after.response[index].tolist(),
                    step.decision.accepted[index].tolist(),
                    step.decision.remasked[index].tolist(),
                )
            )
    return rows


def calls(steps: list[Step[Any]], row: int = 0) -> list[tuple[Any, ...]]:
    """Kind, columns fed and distance of one row's calls."""
    return [
        (call.kind, call.fed, call.distance)
        for step in steps
        for which, call in zip(step.rows, step.calls, strict=True)
        if which == row
    ]


def revised(steps: list[Step[Any]]) -> int:
    """Positions of the first row whose placed token changed between two updates."""
    mask = steps[0].before.prompt.mask
    changed = [
        (step.before.response[0] != mask) & (step.after.response[0] != step.before.response[0])
        for step in steps
    ]
    return int(np.any(changed, axis=0).sum())
