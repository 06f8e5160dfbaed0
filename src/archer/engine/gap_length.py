"""How long a gap should be: one pass for each length that is tried, on masks, before anything is written.

Axes: L tokens of a gap.

The rule is CAL's (arXiv 2602.00476): how sure the model is on average in a gap of masks, divided by how sure
it usually is at that length.  The lengths beside the best one so far are tried until some in a row are no
better, first longer ones, then shorter ones.  What stands before the gap is computed once; what stands behind
it moves with the length and is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archer.engine.footprint import empty_store
from archer.errors import BadRequest, quoted
from archer.network.network import Transformer
from archer.passes import layout
from archer.passes.bounds import MOST_TOKENS
from archer.passes.canvas import Canvas, Prompt
from archer.passes.forward import Question, run
from archer.passes.memory import Memory, Store
from archer.passes.work import Work

if TYPE_CHECKING:
    from archer.request.request import Form, Request

START = 8
"""The length that is tried first."""
PATIENCE = 4
"""Lengths in a row that may be no better before the search turns round or ends."""


class Curve(NamedTuple):
    """How sure a model is on average in a gap of masks, by its length: two decays and what is left."""

    first: float
    fast: float
    second: float
    slow: float
    floor: float

    def usual(self, length: int) -> float:
        return (
            self.first * math.exp(-self.fast * length)
            + self.second * math.exp(-self.slow * length)
            + self.floor
        )

    def rounded(self) -> Curve:
        """To three digits, which is more than a fit knows."""
        return Curve(*(float(f"{each:.3g}") for each in self))

    @classmethod
    def of(cls, numbers: object) -> Curve:
        """The numbers of a fit; refuses what is none."""
        given = numbers if isinstance(numbers, Sequence) and not isinstance(numbers, str) else ()
        curve = list(given)
        if len(curve) != len(cls._fields) or not all(
            isinstance(each, int | float) and 0 <= each <= MOST_OF_CURVE for each in curve
        ):
            raise BadRequest(
                f"A curve is five numbers from 0 to {MOST_OF_CURVE:g}, as `archer study gap-length` "
                f"prints them, not {quoted(numbers)}."
            )
        made = cls(*map(float, curve))
        if not made.usual(MOST_TOKENS) > 0:
            raise BadRequest(
                "A curve must stay above 0: its last number is what is left at the end."
            )
        return made


PUBLISHED = Curve(1.0, 1.77, 0.56, 0.06, 0.24)
"""Of LLaDA-8B-Base."""
MOST_OF_CURVE = 1e3


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
    sized_request = replace(request, prompts=tuple(prompts))
    return sized_request.with_fitted_method() if len(prompts) == 1 else sized_request


def _searching(network: Transformer, request: Request, form: Form) -> Generator[int, None, Form]:
    if not form.searched:
        return form
    columns = len(form.prefix) + len(form.given or ())
    search = GapSearch(network, request.language.mask, empty_store(network, 1, columns))
    curve = request.curve or PUBLISHED
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
                score = search.sure(form, gap, length) / curve.usual(length)
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
class GapSearch:
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

    def sure(self, form: Form, gap: int, length: int) -> float:
        """How sure the model is on average in a gap of this many masks."""
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
        return float(peaks.probability(peaks.best).mean())
