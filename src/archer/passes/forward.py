"""One pass: compute the chosen columns, write their keys and values in place, attend to the whole store.

Axes: B rows, L columns, N token rows computed in this pass, d width, H / KV heads, D head size, V vocabulary.

Many requests may share a pass: each brings its question, with a canvas, a memory and a store of its own.  The
N token rows of all questions are packed one after the other, so no padding is computed and every product with
the weights is made once.  Attention runs over views of each question's store; neighbouring rows that compute
the same columns share one call.  Nothing is concatenated or rotated again.

This file does not decide what to compute (a policy does) and looks at no token's meaning (a decoder does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from archer.network.attention import AttentionView, attend
from archer.network.network import Angles, Transformer
from archer.network.pieces import Pieces, pieces_of
from archer.passes.canvas import Canvas
from archer.passes.layer_rule import RowRule, ruled
from archer.passes.layout import Layout, RowGroup, Sight, columns_of, kept_rows
from archer.passes.logits import Reduced, RowLogits, SplitLogits
from archer.passes.memory import Memory
from archer.passes.timing import Clock, Interval
from archer.passes.work import Work

Limit = tuple[int, Tensor]
"""A scored row, and the ids Long[n] that may stand there."""


def limits_of(canvas: Canvas, layout: Layout) -> tuple[Limit, ...]:
    """The scored rows of a pass whose positions allow some tokens only."""
    limits: list[Limit] = []
    scored = 0
    for row, places in layout.answers if canvas.allowed else ():
        columns = canvas.answers[list(places)]
        for at, position in enumerate(canvas.positions_of(row, columns).tolist(), start=scored):
            if position in canvas.allowed:
                limits.append((at, canvas.allowed[position]))
        scored += len(places)
    return tuple(limits)


@dataclass(frozen=True)
class Question:
    """What one request asks of a pass: a canvas, which columns it computes, and where they are kept."""

    canvas: Canvas
    layout: Layout
    memory: Memory
    rule: RowRule | None = None
    """Chooses rows inside each layer; None where the columns say it all."""
    limits: tuple[Limit, ...] = ()
    """Scored rows, counted among those of this question, at which not every token may stand."""

    @property
    def columns(self) -> int:
        """What it costs: columns computed."""
        return sum(self.layout.fed)


@dataclass(frozen=True)
class Answer:
    """What a pass returns to one question."""

    rows: dict[int, RowLogits]
    """By row of its canvas."""
    work: Work
    interval: Interval
    """The whole pass, not this question's share of it."""
    columns: int
    """Computed in the whole pass."""


@dataclass(frozen=True)
class Share:
    """A question and where it stands among the packed rows of a pass."""

    question: Question
    computed: slice
    scored: slice
    visible: Tensor | None
    """Bool[B, L, L], query by key: the decoder's own rule; None where it has none."""
    work: Work

    def groups(self, scored: bool) -> Iterator[tuple[RowGroup, slice]]:
        """Its groups of rows, each with its packed rows in the whole pass."""
        layout = self.question.layout
        first = (self.scored if scored else self.computed).start
        for group in layout.scored if scored else layout.computed:
            yield group, slice(first + group.packed.start, first + group.packed.stop)

    def views(
        self, layer: int, group: RowGroup, packed: slice
    ) -> Iterator[tuple[AttentionView, slice]]:
        """What a group's rows see in one layer; queries that see equally far share one last key column."""
        if not group.sights:
            everything = Sight(slice(0, group.each), self.question.canvas.columns)
            yield self._view(layer, group, everything), packed
        for sight in group.sights:
            each = sight.queries.stop - sight.queries.start
            first = packed.start + sight.queries.start
            span = slice(first, first + group.rows * each)
            yield self._view(layer, group, sight), span

    def _view(self, layer: int, group: RowGroup, sight: Sight) -> AttentionView:
        """The keys that some queries of each row see."""
        store, seen = self.question.memory.store, None
        keys = slice(0, sight.stop)
        if self.visible is not None:
            rows = slice(group.row, group.row + group.rows)
            seen = self.visible[rows][:, group.columns, keys][:, sight.queries]
        return AttentionView(
            keys=store.keys[layer, group.slots, :, keys],
            values=store.values[layer, group.slots, :, keys],
            queries=group.rows * (sight.queries.stop - sight.queries.start),
            visible=seen,
        )


@dataclass(frozen=True)
class Pass:
    """The state of one pass: whose rows stand where, what they see, and how much was computed."""

    shares: tuple[Share, ...]
    angles: Angles
    kept: slice | Tensor | None
    """Where the scored rows are among the computed ones; None when all of them are scored."""
    last: int
    """Index of the last layer, which only has to return the rows that are scored."""
    dense_layers: int
    """Layers before those with experts."""
    pieces: Pieces

    def keep(self, packed: Tensor) -> Tensor:
        """[N, ...] -> the rows that are scored."""
        return packed if self.kept is None else packed[self.kept]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put keys (rotated) and values [N, KV, D] of every computed column into the stores."""
        for share in self.shares:
            store = share.question.memory.store
            for group, packed in share.groups(scored=False):
                share.work.keys += packed.stop - packed.start
                share.work.values += packed.stop - packed.start
                for fresh, kept in ((keys, store.keys[layer]), (values, store.values[layer])):
                    heads = fresh[packed].unflatten(0, (group.rows, group.each)).transpose(1, 2)
                    kept[group.slots, :, group.columns] = heads

    def attend(self, layer: int, queries: Tensor, *, scored: bool) -> Tensor:
        """[N', H, D] rotated queries -> [N', H, D], Eq. (3): each sees its own row's whole store."""
        views, spans = [], []
        for share in self.shares:
            for group, packed in share.groups(scored):
                for view, span in share.views(layer, group, packed):
                    rows = span.stop - span.start
                    share.work.mixed += rows
                    share.work.routed += rows if layer >= self.dense_layers else 0
                    share.work.pairs += rows * view.keys.shape[2]
                    views.append(view)
                    spans.append(span)
        return attend(queries, views, spans)


def dense(index: int, network: Transformer, hidden: Tensor, at: Pass) -> Tensor:
    """The ordinary layer; the last one skips queries and feed-forward of rows nobody scores."""
    layer = network.layer(index)
    kept = at.kept if index == at.last else None
    if kept is None:
        queries, keys, values = at.pieces.enter(layer, hidden, at.angles)
    else:
        queries, keys, values = at.pieces.enter_last(layer, hidden, at.angles, kept)
        hidden = hidden[kept]
    at.write(index, keys, values)
    attended = at.attend(index, queries, scored=kept is not None)
    return at.pieces.leave(layer, hidden, attended)


@torch.inference_mode()
def run(network: Transformer, questions: Sequence[Question]) -> list[Answer]:
    """Compute the columns of every question; returns each question's logits and what it took.

    One packed pass, with one reduction over the vocabulary for all of them; one under a layer rule comes
    alone.
    """
    assert len(questions) == 1 or all(question.rule is None for question in questions)
    clock = Clock(network.device)
    started = clock.mark()
    columns = sum(question.columns for question in questions)
    shares, logits_of = _computed(network, questions)
    interval = Interval(clock, started, clock.mark())
    reduced = None
    if len(questions) > 1:
        every = RowLogits(logits_of(slice(0, shares[-1].scored.stop)), ())
        reduced = Reduced.of(every.peaks(questions[0].canvas.mask))
    answers = []
    for share in shares:
        share.work.scored += share.scored.stop - share.scored.start
        rows, taken = {}, share.scored.start
        for row, places in share.question.layout.answers:
            read = slice(taken, taken := taken + len(places))
            rows[row] = RowLogits(logits_of(read), places, reduced and reduced[read])
        answers.append(Answer(rows, share.work, interval, columns))
    return answers


def _computed(
    network: Transformer, questions: Sequence[Question]
) -> tuple[tuple[Share, ...], Callable[[slice], Tensor | SplitLogits]]:
    """Make a pass, alone or with the other shards; its shares and the logits of any rows of it."""
    if not any(question.columns for question in questions):
        nothing = network.embedding.new_empty((0, network.shape.vocabulary))
        return _shares(questions, network.device), nothing.__getitem__
    inputs = Inputs.of(questions, network.device)
    if (shards := network.all_shards) is None:
        return inputs.shares, compute(network, inputs).__getitem__
    return inputs.shares, shards.make_pass(questions, lambda: compute(network, inputs))


@dataclass(frozen=True)
class Inputs:
    """All that a pass is given, laid out on the host and moved to the device before it starts."""

    shares: tuple[Share, ...]
    tokens: Tensor
    """Long[N]"""
    positions: Tensor
    """Long[N]"""
    kept: slice | Tensor | None
    limits: tuple[Limit, ...] = ()
    """Scored rows of the whole pass at which not every token may stand."""

    @classmethod
    def of(cls, questions: Sequence[Question], device: torch.device) -> Inputs:
        shares = _shares(questions, device)
        tokens, positions = _tokens(questions, device)
        sets = {id(ids): ids for share in shares for _, ids in share.question.limits}
        moved = {each: ids.to(device) for each, ids in sets.items()}
        limits = tuple(
            (share.scored.start + row, moved[id(ids)])
            for share in shares
            for row, ids in share.question.limits
        )
        return cls(shares, tokens, positions, _kept(shares, device), limits)


def compute(network: Transformer, inputs: Inputs) -> Tensor:
    """The device's part of a pass: logits [N', V] of all scored rows.

    Nothing here is read by the host, and what is written stays where it is: with the layout fixed, the work
    can be recorded once and replayed with other tokens.
    """
    hidden = network.embed(inputs.tokens)
    at = Pass(
        shares=inputs.shares,
        angles=network.angles(inputs.positions),
        kept=inputs.kept,
        last=network.shape.layers - 1,
        dense_layers=network.shape.dense_layers,
        pieces=(pieces := pieces_of(network)),
    )
    rule = inputs.shares[0].question.rule
    for index in range(network.shape.layers):
        if rule is None:
            hidden = dense(index, network, hidden, at)
        else:
            hidden = ruled(index, network, hidden, at, rule)
    scores = pieces.score(network, hidden)
    first = 0 if network.one_shard is None else network.one_shard.first_token
    restrict(scores, inputs.limits, first)
    return scores


def restrict(scores: Tensor, limits: Sequence[Limit], first: int) -> None:
    """[N', V] in place: minus infinity for all tokens that may not stand there; V begins with token `first`.

    Ids that another shard has are left out, once for all rows that have the same.
    """
    here: dict[int, Tensor] = {}
    for row, ids in limits:
        if id(ids) not in here:
            here[id(ids)] = ids[(ids >= first) & (ids < first + scores.shape[1])] - first
        own = here[id(ids)]
        kept = scores[row, own]
        scores[row].fill_(-torch.inf)
        scores[row, own] = kept


def _shares(questions: Sequence[Question], device: torch.device) -> tuple[Share, ...]:
    shares = []
    computed = scored = 0
    for question in questions:
        seen = question.canvas.visible
        shares.append(
            Share(
                question=question,
                computed=slice(computed, computed := computed + question.columns),
                scored=slice(scored, scored := scored + len(question.layout.places)),
                visible=None if seen is None else torch.from_numpy(seen).to(device),
                work=Work(),
            )
        )
    return tuple(shares)


def _tokens(questions: Sequence[Question], device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens and positions, Long[N] each."""
    tokens = [
        columns_of(question.canvas.tokens, group)
        for question in questions
        for group in question.layout.computed
    ]
    positions = [_positions(question, device) for question in questions]
    packed = positions[0] if len(positions) == 1 else torch.cat(positions)
    return torch.from_numpy(np.concatenate(tokens)).to(device), packed


def _positions(question: Question, device: torch.device) -> Tensor:
    own = question.canvas.positions
    if own is None:
        return question.layout.positions
    repeated = [columns_of(own, group) for group in question.layout.computed]
    return torch.from_numpy(np.concatenate(repeated)).to(device)


def _kept(shares: Sequence[Share], device: torch.device) -> slice | Tensor | None:
    if len(shares) == 1:
        return shares[0].question.layout.kept
    places = [share.computed.start + share.question.layout.places for share in shares]
    return kept_rows(np.concatenate(places), shares[-1].computed.stop, device)
