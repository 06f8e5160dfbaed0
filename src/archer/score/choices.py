"""How likely each of some answers is, from one pass over masks.

Axes: G columns of the answer, n tokens of all answers, V vocabulary, P prompts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from archer.engine.generate import Stream
from archer.errors import BadRequest, quoted
from archer.request.fill import Fill
from archer.request.request import listed
from archer.structure.confined import make_apart
from archer.structure.constraint import Constraint
from archer.structure.lattice import LEAST, OPEN, Weights
from archer.structure.links import Ints
from archer.structure.structures import Structure, checked_choices

if TYPE_CHECKING:
    from archer.model import Model
    from archer.request.request import Form, Prompts

CHOOSES = "llada-confidence"
"""A method that reads every mask of its first pass, and may end with it."""


def choose(
    model: Model, prompts: Prompts, options: Sequence[str], *, chat: bool
) -> list[dict[str, float]]:
    """The share of each answer, for each prompt; shares add up to 1."""
    entries = listed(prompts)
    if any(isinstance(entry, Fill) for entry in entries):
        raise BadRequest(
            "choose weighs whole answers, so it takes no text with gaps. Give a prompt instead."
        )
    texts = checked_choices(options)
    for text, times in Counter(texts).items():
        if times > 1:
            raise BadRequest(f"The option {quoted(text)} is given twice. Give each of them once.")
    each = [Structure("choices", json.dumps([text])) for text in texts]
    spelling = model.spelling()
    length = 1 + max(_apart(one).tokens(spelling).shortest for one in each)
    request = model.request(
        cast("Prompts", entries), CHOOSES, choices=texts, length=length, steps=1, chat=chat
    )
    read: dict[int, Weights] = {}
    for step in Stream(model, request):
        (place,), (row,) = step.rows, step.logits.rows
        used = _tokens(request.prompts[place])
        read[place] = row.values.numpy(force=True).astype(np.float32)[:, used]
    logits = np.full((length, spelling.size), LEAST, dtype=np.float32)
    masks, known = np.full(length, OPEN), np.arange(length)
    weights = np.empty((len(texts), len(request.prompts)))
    for at, one in enumerate(each):
        for place, form in enumerate(request.prompts):
            constraint = Constraint(_apart(one).tokens(spelling, form.opening.encode()))
            logits[:, _tokens(form)] = read[place]
            weights[at, place] = constraint.lattice(masks, known, logits).weight
    likely = np.exp(weights - weights.max(axis=0))
    shares = (likely / likely.sum(axis=0)).T.tolist()
    return [dict(zip(texts, row, strict=True)) for row in shares]


def _apart(option: Structure) -> Structure:
    """The option, made; more of them than are remembered are made again."""
    make_apart(option)
    return option


def _tokens(form: Form) -> Ints:
    """[n]: those that stand in some answer."""
    assert isinstance(form.constraint, Constraint)
    return form.constraint.automaton.tokens
