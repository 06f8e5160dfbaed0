"""How long a gap should be: one pass for each length that is tried, on masks, before anything is written.

Axes: L tokens of a gap.

The rule is CAL's (arXiv 2602.00476): how sure the model is on average in a gap of masks, divided by how sure
it usually is at that length.  The lengths beside the best one so far are tried until some in a row are no
better, first longer ones, then shorter ones.  What stands before the gap is computed once; what stands behind
it moves with the length and is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from archer.engine.footprint import empty_store
from archer.errors import BadRequest
from archer.network.network import Transformer
from archer.passes import layout
from archer.passes.canvas import Canvas, Prompt
from archer.passes.forward import Question, run
from archer.passes.memory import Memory, Store
from archer.passes.work import Work

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
    search = searching(network, request)
    while True:
        try:
            next(search)
        except StopIteration as end:
            finished: Request = end.value
            return finished


def searching(network: Transformer, request: Request) -> Generator[int, None, Request]:
    """The same, pass by pass, for whoever has other work in between; yields the columns of each pass."""
    prompts = []
    for form in request.prompts:
        prompts.append((yield from _searching(network, request, form)))
    return replace(request, prompts=tuple(prompts))


def _searching(network: Transformer, request: Request, form: Form) -> Generator[int, None, Form]:
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
        lengths = best_length(fitting or [form.lengths[gap]])
        length = next(lengths)
        try:
            while True:
                before = search.columns
                score = search.score(form, gap, length)
                yield search.columns - before
                length = lengths.send(score)
        except StopIteration as end:
            form = form.resized(gap, end.value)
    return replace(form, searched=(), probed=search.columns, probes=search.work)


def _fits(request: Request, form: Form, gap: int, length: int) -> bool:
    """Whether the method and the tokens at the seams go with a gap of this length."""
    try:
        request.only(form.resized(gap, length))
    except BadRequest:
        return False
    return length >= form.shortest(gap)


def best_length(lengths: list[int]) -> Generator[int, float, int]:
    """Of these, ascending, the one with the best score in the neighbourhood of the first that is tried.

    Yields lengths, takes the score of each.
    """
    start = min(range(len(lengths)), key=lambda at: abs(lengths[at] - START))
    best, height = start, (yield lengths[start])
    for places in (range(start + 1, len(lengths)), range(start - 1, -1, -1)):
        worse = 0
        for place in places:
            score = yield lengths[place]
            worse = 0 if score > height else worse + 1
            if score > height:
                best, height = place, score
            if worse == PATIENCE:
                break
    return lengths[best]


@dataclass
class _Search:
    """Passes over canvases of one form that differ in the length of a gap."""

    network: Transformer
    mask: int
    store: Store
    work: Work = field(default_factory=Work)
    """Done so far."""
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
        recomputed = canvas.everything()
        if self._kept == gap:
            recomputed &= np.arange(canvas.columns) >= canvas.reads.argmax()
        self._kept = gap
        frame = layout.Frame.of(canvas, (0,), running=(0,))
        plan = layout.plan(
            recomputed,
            canvas.reads,
            frame,
            shift=self.network.shape.shift,
            device=self.network.device,
        )
        (answer,) = run(self.network, [Question(canvas, plan, Memory.blank(self.store, canvas))])
        self.columns += answer.columns
        self.work += answer.work
        peaks = answer.rows[0].peaks(self.mask)
        sure = float(peaks.probability(peaks.best).mean())
        return sure / usual(length)
