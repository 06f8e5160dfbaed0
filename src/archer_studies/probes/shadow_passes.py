"""Walking along a run of an arm, looking at its steps, and shadow passes beside them that change nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from archer.decoders.base import Decision
from archer.engine.generate import Stream
from archer.engine.walk import steps_of
from archer.errors import ArcherError
from archer.methods.build import Method
from archer.model import Model
from archer.passes.logits import Logits
from archer.policies.prompt_cache import Archer, Eager
from archer.results.completion import Completion
from archer.results.step import Step
from archer.results.trace import first_difference
from archer.runs.decoding import ask
from archer.runs.manifest import RunRequest
from archer.runs.workspace import Arm

COUNTED = ("updates", "full_passes", "cached_passes", "reused_passes")


def walk(request: RunRequest, prompt: Sequence[int]) -> Stream:
    """The steps of an arm on one problem, made again."""
    return Stream(request.model, ask(request.model, request.choice, request.seed, prompt))


def divergence(first: Stream, second: Stream) -> int | None:
    """The first update after which two runs stand at different responses; None if there is none."""
    place = first_difference(first, second, _same_response)
    return None if place is None else place + 1


def _same_response(one: Step[Any], other: Step[Any]) -> bool:
    return np.array_equal(one.after.response, other.after.response)


def shadow(model: Model, method: Method, step: Step[Any]) -> Step[Any]:
    """The same update from the same state, decided from a full pass with a memory of its own."""
    return next(steps_of(model.network, replace(method, policy=Eager()), step.before))


def at_anchor(model: Model, method: Method, step: Step[Any]) -> Step[Any]:
    """The update of a full pass once more, from a cached pass at the very state of the anchor: D = 0."""
    memory = replace(step.memory.clone(), logits=(None,) * len(step.memory.slots))
    reuse = replace(method, policy=Archer(radius=float("inf")))
    return next(steps_of(model.network, reuse, step.before, memory))


def require_unchanged(arm: Arm, key: str, completion: Completion) -> None:
    """A run that was watched is the run that was not: response, updates and passes (invariant 22)."""
    record = arm.run.recorded.samples[key]
    changed = [name for name in COUNTED if getattr(completion, name) != record.count(name)]
    if list(completion.tokens) != record.tokens:
        changed.append("tokens")
    if changed:
        raise ArcherError(
            f"Problem {key}: watching the run changed its {', '.join(changed)}. Another machine, torch "
            "or number of threads may have made the arm: delete the folder of runs and measure again. If "
            "that does not help, a probe intervenes: please report it."
        )


def same_action(first: Decision, second: Decision) -> bool:
    """The same positions accepted with the same tokens, and the same taken back."""
    accepted = first.accepted
    return bool(
        (accepted == second.accepted).all()
        and (first.tokens[accepted] == second.tokens[accepted]).all()
        and (first.remasked == second.remasked).all()
    )


def logit_error(first: Logits, second: Logits) -> float:
    """The largest difference of any logit of the one row."""
    return float((first.rows[0].values - second.rows[0].values).abs().max())
