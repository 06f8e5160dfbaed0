"""What every decoder shares: its state, what it says it did, and how positions are ranked.

Axes: B rows, G response columns.

A decoder is a frozen dataclass of settings with three verbs.  `start` makes the state, `canvas` says what
to ask the model, `step` is pure: it returns a new state and a Decision and changes nothing.  A decoder
knows no model, no cache and no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from archer import noise
from archer.canvas import Canvas, Prompt, Scope
from archer.errors import BadRequest
from archer.logits import Candidates, Logits


@dataclass(frozen=True)
class DecodeState:
    """A response in progress, as a value: keep it, fork it, replay it.  Tensor fields have B first."""

    prompt: Prompt
    response: Tensor
    """Long[B, G]: the mask id where nothing is placed."""
    done: Tensor
    """Bool[B]"""
    updates: tuple[int, ...]
    """Updates made so far, per row; they name the noise of the next one."""

    @property
    def length(self) -> int:
        return self.response.shape[1]

    @property
    def masked(self) -> Tensor:
        """Bool[B, G]: nothing placed."""
        return self.response == self.prompt.mask

    def select(self, rows: Sequence[int]) -> Self:
        """The same state with only these rows."""
        chosen = list(rows)
        changes: dict[str, Any] = {
            item.name: value[chosen]
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor)
        }
        updates = tuple(self.updates[row] for row in rows)
        return replace(self, prompt=self.prompt.select(rows), updates=updates, **changes)


State = TypeVar("State", bound=DecodeState)


@dataclass(frozen=True)
class Decision:
    """What the rule did in one update, said by the rule: a position can be accepted and re-masked at once."""

    accepted: Tensor
    """Bool[B, G]: masks that were filled."""
    remasked: Tensor
    """Bool[B, G]: placed tokens that were taken back."""
    replaced: Tensor
    """Bool[B, G]: placed tokens that became another token."""
    tokens: Tensor
    """Long[B, G]: what was written where accepted or replaced; elsewhere without meaning."""
    confidence: Tensor
    """Float64[B, G]: what the rule looked at; NaN where it did not look."""
    threshold: Tensor
    """Float64[B]: confidence a mask had to exceed; NaN for rules without one."""

    @classmethod
    def accepting(cls, accepted: Tensor, best: Candidates) -> Decision:
        """The decision of a rule that only fills masks."""
        return cls(
            accepted=accepted,
            remasked=torch.zeros_like(accepted),
            replaced=torch.zeros_like(accepted),
            tokens=best.tokens,
            confidence=best.confidence,
            threshold=torch.full_like(best.confidence[:, 0], torch.nan),
        )

    def select(self, rows: Sequence[int]) -> Decision:
        chosen = list(rows)
        return Decision(*(getattr(self, item.name)[chosen] for item in fields(self)))


class Decoder(Protocol[State]):
    """The three verbs.  Implementations are frozen dataclasses whose fields are their settings."""

    @property
    def reads(self) -> Scope:
        """The widest set of columns whose logits it looks at; a rule that takes tokens back reads them."""
        ...

    def start(self, prompt: Prompt, length: int) -> State:
        """All masks.  Refuses settings that do not fit this length."""
        ...

    def limit(self, length: int) -> int:
        """Updates within which this rule must have finished; the loop raises beyond them."""
        ...

    def canvas(self, state: State) -> Canvas:
        """What to ask the model in this state."""
        ...

    def step(self, state: State, logits: Logits) -> tuple[State, Decision]:
        """One update.  Pure."""
        ...


def blank(prompt: Prompt, length: int) -> DecodeState:
    """A response of masks for every row of the prompt."""
    rows = len(prompt.starts)
    device = prompt.tokens.device
    return DecodeState(
        prompt=prompt,
        response=torch.full((rows, length), prompt.mask, dtype=torch.long, device=device),
        done=torch.zeros(rows, dtype=torch.bool, device=device),
        updates=(0,) * rows,
    )


def grow(kind: type[State], base: DecodeState, **more: Any) -> State:
    """A richer state with everything `base` has."""
    return kind(**{item.name: getattr(base, item.name) for item in fields(base)}, **more)


def one_block(state: DecodeState, reads: Tensor) -> Canvas:
    """The question of a decoder that knows no blocks: the response is one."""
    bounds = torch.tensor([[0, state.length]], device=state.response.device)
    return Canvas.plain(state.prompt, state.response, bounds.expand(len(state.updates), 2), reads)


def ended(updates: Sequence[int], total: int, device: torch.device) -> Tensor:
    """Bool[B]: rows that have made all updates of a fixed plan."""
    return torch.tensor([update >= total for update in updates], device=device)


def chance(state: DecodeState, purpose: noise.Purpose) -> Tensor:
    """Float64[B, G] in [0, 1), drawn for this update of each row."""
    device = state.response.device
    drawn = [
        noise.uniform(noise.stream(key, update, device, purpose), state.length)
        for key, update in zip(state.prompt.keys, state.updates, strict=True)
    ]
    return torch.stack(drawn)


def whole_block(block: int | None, length: int) -> int:
    """The block size to use: the whole response unless one is given, which must divide it."""
    if block is None:
        return length
    if length % block:
        raise BadRequest(
            f"A block of {block} does not divide the length {length}. "
            f"Choose a block that does, or leave it out to decode the response as one block."
        )
    return block


def leading(scores: Tensor, eligible: Tensor, count: Tensor | int) -> Tensor:
    """Bool[B, G]: the `count` [B] eligible positions with the highest score; among equals the lower index."""
    return trailing(-scores, eligible, count)


def trailing(scores: Tensor, eligible: Tensor, count: Tensor | int) -> Tensor:
    """The same for the lowest score.

    A stable sort over the response, in which NaN comes last; topk leaves ties to the implementation.
    """
    order = torch.where(eligible, scores, torch.nan).argsort(dim=1, stable=True)
    places = torch.arange(scores.shape[1], device=scores.device)
    first = (places < (count if isinstance(count, int) else count[:, None])).expand_as(eligible)
    return torch.empty_like(eligible).scatter_(1, order, first) & eligible
