"""Two futures of one state: a run cloned after an update and continued with or without a refresh."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archer.decoders.base import DecodeState
from archer.engine.walk import steps_of
from archer.errors import ArcherError
from archer.methods.build import Method
from archer.model import Model
from archer.passes.memory import Memory
from archer.results.completion import Completion, Tally, add
from archer.results.step import Step

HORIZON = 5
"""Updates for which the token of an event is followed."""


@dataclass(frozen=True)
class Event:
    """A token that was accepted with confidence and kept, and all that is needed to go on from there."""

    update: int
    position: int
    token: int
    confidence: float
    distance: int
    """Tokens between the state and the anchor, as the next call will see it."""
    state: DecodeState = field(repr=False)
    memory: Memory = field(repr=False)
    tally: Tally = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        names = ("update", "position", "token", "confidence", "distance")
        return {name: getattr(self, name) for name in names}


def find_event(steps: Iterable[Step[Any]], confidence: float) -> Event | None:
    """The first update that keeps a token it accepted with `confidence`; the surest one, then the first."""
    tallies = {0: Tally()}
    for step in steps:
        add(tallies, step)
        decision = step.decision
        kept = (decision.accepted & ~decision.remasked)[0]
        sure = np.where(kept, decision.confidence[0], -1.0)
        position = int(sure.argmax())
        if sure[position] < confidence or bool(step.after.done[0]):
            continue
        memory = step.memory.clone()
        moved = step.after.response != memory.anchor[:, step.canvas.response]
        return Event(
            update=step.after.updates[0],
            position=position,
            token=int(step.after.response[0, position]),
            confidence=float(sure[position]),
            distance=int(moved.sum()),
            state=step.after,
            memory=memory,
            tally=deepcopy(tallies[0]),
        )
    return None


@dataclass(frozen=True)
class Branch:
    """One future, its shared past counted in."""

    completion: Completion
    tokens: tuple[int, ...]
    """What stood at the event's position after each update since, up to the horizon."""

    def revised_at(self, event: Event) -> int | None:
        """The first update after the event, counted from 1, that leaves something else in its place."""
        places = (n for n, token in enumerate(self.tokens, start=1) if token != event.token)
        return next(places, None)


def branch(
    model: Model, method: Method, event: Event, prompt_tokens: int, *, refresh: bool
) -> Branch:
    """Go on to the end; `refresh` makes the next pass a full one, which changes no number of passes."""
    memory = event.memory.clone()
    if refresh:
        memory.forget()
    tallies = {0: deepcopy(event.tally)}
    tokens: list[int] = []
    for step in steps_of(model.network, method, event.state, memory):
        add(tallies, step)
        if len(tokens) < HORIZON and step.rows:
            tokens.append(int(step.after.response[0, event.position]))
    completion = model.language.completion(tallies[0], prompt_tokens)
    if completion.error is not None:
        raise ArcherError(f"A branch did not finish: {completion.error}")
    return Branch(completion, tuple(tokens))
