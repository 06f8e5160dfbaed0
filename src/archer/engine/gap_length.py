"""How long a gap should be: one pass for each length that is tried, on masks, before anything is written.

Axes: L tokens of a gap.

The rule is CAL's (arXiv 2602.00476): how sure the model is on average in a gap of masks, divided by how sure
it usually is at that length.  The lengths beside the best one so far are tried until some in a row are no
better, first longer ones, then shorter ones.  What stands before the gap is computed once; what stands behind
it moves with the length and is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archer.engine.footprint import empty_store
from archer.errors import BadRequest
from archer.network.network import Transformer
from archer.passes import layout
from archer.passes.canvas import Canvas, Prompt
from archer.passes.forward import Question, run
from archer.passes.memory import Memory, Store

if TYPE_CHECKING:
    from archer.fill import Form
    from archer.request import Request

START = 8
"""The length that is tried first."""
PATIENCE = 4
"""Lengths in a row that may be no better before the search turns round or ends."""


def usual(length: int) -> float:
    """How sure a model is on average in a gap of this length, as published for LLaDA-8B-Base."""
    return 1.0 * math.exp(-1.77 * length) + 0.56 * math.exp(-0.06 * length) + 0.24


def sized(network: Transformer, request: Request) -> Request:
    """The request with the lengths of its gaps, where they are to be found."""
    prompts = tuple(_sized(network, request, form) for form in request.prompts)
    return request if prompts == request.prompts else replace(request, prompts=prompts)


def _sized(network: Transformer, request: Request, form: Form) -> Form:
    if not form.searched:
        return form
    columns = len(form.prefix) + len(form.given or ())
    search = _Search(network, request.language.mask, empty_store(network, 1, columns))
    for gap in form.searched:
        fitting = [
            length
            for length in range(1, form.lengths[gap] + 1)
            if _fits(request, form, gap, length)
        ]
        found = best_length(partial(search.score, form, gap), fitting or [form.lengths[gap]])
        form = form.resized(gap, found)
    return replace(form, searched=(), probed=search.columns)


def _fits(request: Request, form: Form, gap: int, length: int) -> bool:
    """Whether the method and the tokens at the seams go with a gap of this length."""
    try:
        request.only(form.resized(gap, length))
    except BadRequest:
        return False
    return length >= form.shortest(gap)


def best_length(score: Callable[[int], float], lengths: list[int]) -> int:
    """Of these, ascending, the one with the best score in the neighbourhood of the first that is tried."""
    start = min(range(len(lengths)), key=lambda at: abs(lengths[at] - START))
    best, height = start, score(lengths[start])

    def walk(places: Iterable[int]) -> None:
        nonlocal best, height
        worse = 0
        for place in places:
            found = score(lengths[place])
            worse = 0 if found > height else worse + 1
            if found > height:
                best, height = place, found
            if worse == PATIENCE:
                return

    walk(range(start + 1, len(lengths)))
    walk(range(start - 1, -1, -1))
    return lengths[best]


@dataclass
class _Search:
    """Passes over canvases of one form that differ in the length of a gap."""

    network: Transformer
    mask: int
    store: Store
    columns: int = 0
    """Computed so far."""
    _kept: int | None = None
    """The gap before which everything is in the store."""

    def score(self, form: Form, gap: int, length: int) -> float:
        """How sure the model is in a gap of this many masks, compared with what is usual."""
        form = form.resized(gap, length)
        prompt = Prompt.of(form.prefix, self.mask, given=form.given)
        masked, span = sum(form.lengths), form.spans[gap]
        reads = np.zeros((1, masked), dtype=np.bool_)
        reads[:, span] = True
        masks = np.full((1, masked), self.mask)
        plain = Canvas.plain(prompt, masks, np.array([[0, masked]]), reads)
        canvas = plain.under(self.network.shape.attention)
        asked = canvas.everything()
        if self._kept == gap:
            asked &= np.arange(canvas.columns) >= canvas.reads.argmax()
        self._kept = gap
        frame = layout.Frame.of(canvas, (0,), running=(0,))
        plan = layout.plan(
            asked,
            canvas.reads,
            frame,
            shift=self.network.shape.shift,
            device=self.network.device,
        )
        (answer,) = run(self.network, [Question(canvas, plan, Memory.blank(self.store, canvas))])
        self.columns += answer.columns
        peaks = answer.rows[0].peaks(self.mask)
        sure = float(peaks.probability(peaks.best).mean())
        return sure / usual(length)
