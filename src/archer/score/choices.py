"""How likely each of some answers is, from one pass over masks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from archer.engine.generate import Stream
from archer.structure.constraint import Constraint
from archer.structure.lattice import OPEN
from archer.structure.structures import Structure, checked_choices

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Prompts

CHOOSES = "llada-confidence"
"""A method that reads every mask of its first pass."""


def choose(
    model: Model, prompts: Prompts, options: Sequence[str], *, chat: bool
) -> list[dict[str, float]]:
    """The share of each answer, for each prompt; shares add up to 1."""
    texts = checked_choices(options)
    each = [Structure("choices", json.dumps([text])) for text in texts]
    spelling = model.spelling()
    whole = [one.tokens(spelling) for one in each]
    length = 1 + max(int(tokens.needed[tokens.start]) for tokens in whole)
    request = model.request(prompts, CHOOSES, choices=texts, length=length, chat=chat)
    first = {step.rows[0]: step for step in Stream(model, request) if step.index == 0}
    masks, shares = np.full(length, OPEN), []
    for place, form in enumerate(request.prompts):
        logits = first[place].logits.rows[0].values.numpy(force=True).astype(np.float32)
        weights = np.array(
            [
                Constraint(one.tokens(spelling, form.opening.encode()))
                .lattice(masks, np.arange(length), logits)
                .weight
                for one in each
            ]
        )
        likely = np.exp(weights - weights.max())
        shares.append(dict(zip(texts, (likely / likely.sum()).tolist(), strict=True)))
    return shares
