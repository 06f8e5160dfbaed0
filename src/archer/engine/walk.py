"""One request's trajectory turned inside out: what pass it wants next, and what it makes of the answer.

Axes: B rows still running, L columns, G response columns.  A decoder may ask several things about a row: its
lanes, neighbouring rows of the canvas.

A walk knows no clock but the one that measures, no queue and no neighbours.  Its next update is a function of
its own state, memory and noise keys alone: whoever drives it chooses when that happens, never what.  Rows are
independent: each refreshes when its own state says so, and a finished or failed row is dropped without
touching the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import torch

from archer.decoders.base import DecodeState
from archer.engine.footprint import empty_store
from archer.errors import Incompatible, NonFinite, Stuck
from archer.methods.build import Method
from archer.network.network import Transformer
from archer.passes import layout
from archer.passes.canvas import Canvas, Flags, Ints, Reals
from archer.passes.forward import Answer, Question, limits_of, run
from archer.passes.logits import Logits, RowLogits
from archer.passes.memory import Memory
from archer.passes.timing import Clock
from archer.passes.work import Work
from archer.results.step import Call, Kind, Step
from archer.structure.constraint import constrained


@dataclass(frozen=True)
class Pending:
    """What the next pass is to answer, and the flags of the state that asks.

    A decoder may ask several things about a row at once (guidance does): its lanes are neighbouring rows
    of the canvas.
    """

    canvas: Canvas
    lanes: int
    recomputed: Flags
    same: Flags
    distance: Ints
    drift: Reals | None
    """What the policy compares with its limit where that is not the distance."""
    done: Flags
    """Of each row of the state, as `finite` is; the fields above are of each row of the canvas."""
    finite: Flags

    def select(self, rows: Sequence[int]) -> Pending:
        lanes = self.lanes_of(rows)
        return Pending(
            canvas=self.canvas.select(lanes),
            lanes=self.lanes,
            recomputed=self.recomputed[lanes],
            same=self.same[lanes],
            distance=self.distance[lanes],
            drift=None if self.drift is None else self.drift[lanes],
            done=self.done[list(rows)],
            finite=self.finite[list(rows)],
        )

    def whole(self) -> tuple[bool, ...]:
        """Rows of the canvas that ask for every column they have and can see."""
        left_out = self.canvas.everything() & ~self.recomputed
        return tuple(np.logical_not(left_out.any(axis=1)).tolist())

    @property
    def rests(self) -> bool:
        """Some column keeps what a pass after the anchor gave it, and the next one will not make it again."""
        resting = None if self.canvas.anchored else self.canvas.resting
        return resting is not None and bool((resting & ~self.recomputed).any())

    def twins(self) -> dict[int, int]:
        """Rows that ask, before any pass, what the same lane of the first sample asks, by row."""
        asks = self.canvas.tokens, self.recomputed, self.canvas.reads
        first = [row % self.lanes for row in range(self.canvas.rows)]
        same = np.logical_and.reduce([(each == each[first]).all(axis=1) for each in asks])
        return {row: first[row] for row in range(self.lanes, len(first)) if same[row]}

    def lanes_of(self, rows: Sequence[int]) -> list[int]:
        return [row * self.lanes + lane for row in rows for lane in range(self.lanes)]


@dataclass(frozen=True)
class _Plan:
    """Which rows of the canvas run, which repeat another row's first pass, which repeat their own answer."""

    question: Question | None
    layout: layout.Layout
    twins: Mapping[int, int]
    reused: frozenset[int]


class Walk:
    """Drive it by turns: `wants` says what to run, `advance` takes the answer and returns the step."""

    def __init__(
        self,
        network: Transformer,
        method: Method,
        state: Any,
        memory: Memory | None = None,
        canvas: Canvas | None = None,
    ) -> None:
        """From `state` on, with a memory that may be cloned; `canvas` where it was asked for already."""
        self.rows = tuple(range(len(state.updates)))
        """Which of the requested rows are still running."""
        self.state = state
        self._network, self._decoder, self._policy = network, method.decoder, method.policy
        if state.prompt.constraint is not None:
            self._decoder = constrained(method.decoder)
        self._clock = Clock(network.device)
        self.fresh = memory is None and not any(state.updates)
        """Nothing was computed for it yet."""
        canvas = self._question(state, canvas)
        if memory is None:
            memory = Memory.blank(empty_store(network, canvas.rows, canvas.extent), canvas)
        if memory.author != self._policy:
            memory = replace(memory, notes=self._policy.start(canvas), author=self._policy)
        self.memory = memory
        self._limit = self._decoder.limit(state.length)
        self._index = 0
        self._planning = 0.0
        self._computed = 0
        self._columns_left: float | None = None
        self.swapped_out = False
        """It has no keys and values at present."""
        self._plan: _Plan | None = None
        self.pending = self._ask(state, canvas, np.ones_like(state.done))
        """What it asks next."""
        self._drop_finished()

    @property
    def done(self) -> bool:
        return not self.rows

    @property
    def wants(self) -> Question | None:
        """Its share of the next pass; None where it needs none, because its answers are at hand."""
        if self._plan is None:
            started = perf_counter()
            names = type(self._decoder).__name__, type(self._policy).__name__
            refuse_impossible(self.pending, *names, shift=self._network.shape.shift)
            refuse_endless(self.state, names[0], self._limit)
            self._plan = self._lay_out()
            self._planning = perf_counter() - started
        return self._plan.question

    @property
    def next_columns(self) -> int:
        """Columns of its next pass; 0 where it needs none."""
        question = self.wants
        return 0 if question is None else question.columns

    @property
    def columns_left(self) -> float:
        """Columns still to be computed: masks left x columns per token placed so far."""
        if self._columns_left is None:
            masks = int(self.state.masked.sum())
            placed = int(self.state.placed.sum())
            each = self._computed / placed if placed and self._computed else self.next_columns
            self._columns_left = float(max(masks, 1) * each)
        return self._columns_left

    @property
    def can_swap_out(self) -> bool:
        """Whether its keys and values can be made again from tokens, exactly."""
        if self.done or self.swapped_out or not self._policy.rebuilds:
            return False
        return not (self.pending.rests or any(row is not None for row in self.memory.logits))

    def swap_out(self) -> None:
        """Give back the keys and values; what is left of the walk is a few kilobytes."""
        assert self.can_swap_out
        self.memory = self.memory.without_store()
        self._plan, self.swapped_out = None, True

    def swap_in(self, run: Callable[[Question], object]) -> None:
        """Have keys and values again, filled by `run` where the next pass will not; if it raises, none.

        What a policy that `rebuilds` keeps is a function of tokens that the memory still has.
        """
        assert self.swapped_out
        lost = self._lost(self.memory)
        extents = [each.extent for each in (self.pending.canvas, lost) if each is not None]
        store = empty_store(self._network, self.pending.canvas.rows, max(extents))
        memory = self.memory.with_store(store)
        if lost is not None:
            run(self._whole_pass(lost, memory))
        self.memory, self._plan, self.swapped_out = memory, None, False

    def _lost(self, memory: Memory) -> Canvas | None:
        """What fills an empty store as it was; None where the next pass computes everything."""
        pending = self.pending
        if not (memory.anchored & ~np.array(pending.whole())).any():
            return None
        tokens = memory.made_of(pending.canvas)
        stops = None if pending.canvas.stops is None else (tokens >= 0).sum(axis=1)
        return replace(
            pending.canvas, tokens=tokens, stops=stops, reads=np.zeros_like(pending.recomputed)
        )

    def _whole_pass(self, canvas: Canvas, memory: Memory) -> Question:
        """Everything of the rows whose next pass will not compute it."""
        stale = np.flatnonzero(memory.anchored & ~np.array(self.pending.whole()))
        frame = layout.Frame.of(canvas, memory.slots, tuple(stale.tolist()))
        plan = self._planned(canvas.everything(), canvas.reads, frame)
        return Question(canvas, plan, memory)

    def advance(self, answer: Answer | None) -> Step[Any]:
        """One update from the answer to what it wanted, or from none where it wanted none."""
        question = self.wants
        plan, pending, state = self._plan, self.pending, self.state
        assert plan is not None
        assert (question is None) == (answer is None)
        with torch.inference_mode():
            logits = self._read(plan, answer)
            answered = self._clock.mark()
            after, decision = self._decoder.step(state, logits)
            if answer is not None:
                self._note(plan, logits)
            self.pending = self._ask(after, self._question(after), logits.sound)
            self._keep_logits(logits)
            decided = self._clock.mark()
        calls = _calls(pending, plan, answer)
        finite = self.pending.finite
        errors = {
            self.rows[row]: NonFinite(update=state.updates[row] + 1, kind=calls[row].kind.value)
            for row in np.flatnonzero(~finite).tolist()
        }
        step = Step(
            index=self._index,
            rows=self.rows,
            before=state,
            decision=decision,
            after=after,
            canvas=pending.canvas,
            logits=logits,
            calls=calls,
            memory=self.memory,
            work=Work() if answer is None else answer.work,
            control=self._planning + self._clock.seconds(answered, decided),
            errors=errors,
        )
        if errors:
            sound = np.flatnonzero(finite).tolist()
            step = step.without_errors(sound, self.pending.lanes_of(sound))
        self._fit_store()
        self.state, self._plan, self.fresh, self._columns_left = after, None, False, None
        self._index += 1
        self._computed += sum(call.fed for call in calls)
        self._drop_finished()
        return step

    def _fit_store(self) -> None:
        """Give back the columns that no row has any more, or make room for new ones."""
        store, extent = self.memory.store, self.pending.canvas.extent
        if store.columns != extent and not self.pending.done.all():
            fitting = empty_store(self._network, store.keys.shape[1], extent)
            fitting.take(store)
            self.memory = replace(self.memory, store=fitting)

    def _drop_finished(self) -> None:
        pending = self.pending
        going = np.flatnonzero(pending.finite & ~pending.done).tolist()
        if len(going) < len(self.rows):
            self.rows = tuple(self.rows[row] for row in going)
            self.state = self.state.select(going)
            self.memory = self.memory.select(pending.lanes_of(going))
            self.pending = pending.select(going)

    def _question(self, state: Any, canvas: Canvas | None = None) -> Canvas:
        """What the decoder asks in this state, of a backbone that attends in its own way."""
        return (canvas or self._decoder.canvas(state)).under(self._network.shape.attention)

    def _ask(self, state: Any, canvas: Canvas, sound: Flags) -> Pending:
        """Ask the policy; `sound` says of each row of the canvas, or of the state, that it may go on.

        The lanes of a row follow the first one, so they refresh together.
        """
        memory = self.memory
        lanes = canvas.rows // len(state.updates)
        recomputed, drift = self._policy.ask(canvas, memory)
        if canvas.stops is not None:
            recomputed = (recomputed | (memory.seen < 0)) & canvas.everything()
        if canvas.wakes and canvas.resting is not None:
            whole = np.asarray(~(canvas.everything() & ~recomputed).any(axis=1))
            canvas = replace(canvas, reads=canvas.reads | (canvas.resting & whole[:, None]))
        return Pending(
            canvas=canvas,
            lanes=lanes,
            recomputed=recomputed if lanes == 1 else recomputed[::lanes].repeat(lanes, axis=0),
            same=memory.same_question(canvas),
            distance=memory.distance(canvas),
            drift=drift,
            done=state.done,
            finite=np.asarray(sound.reshape(len(state.updates), -1).all(axis=1)),
        )

    def _lay_out(self) -> _Plan:
        pending, memory = self.pending, self.memory
        canvas = pending.canvas
        twins = pending.twins() if self.fresh else {}
        reused = frozenset(row for row in range(canvas.rows) if self._can_reuse(row))
        running = tuple(row for row in range(canvas.rows) if row not in reused and row not in twins)
        inside = self._policy.inside_layers(memory)
        full = None if canvas.entire else pending.whole()
        full = full if inside is None else inside.full
        frame = layout.Frame.of(canvas, memory.slots, running, full)
        plan = self._planned(pending.recomputed, canvas.reads, frame)
        rule = None if inside is None else inside.rule
        limits = limits_of(canvas, plan)
        question = Question(canvas, plan, memory, rule, limits) if running else None
        return _Plan(question, plan, twins, reused)

    def _planned(self, recomputed: Flags, reads: Flags, frame: layout.Frame) -> layout.Layout:
        network = self._network
        return layout.plan(
            recomputed, reads, frame, shift=network.shape.shift, device=network.device
        )

    def _can_reuse(self, row: int) -> bool:
        """Same question, same anchor, and the logits at hand cover what is read now."""
        kept = self.memory.logits[row]
        if kept is None:
            return False
        canvas = self.pending.canvas
        read = np.flatnonzero(canvas.reads[row, canvas.answers])
        return set(kept.places).issuperset(read.tolist())

    def _read(self, plan: _Plan, answer: Answer | None) -> Logits:
        """The logits of every row, new or at hand."""
        memory, canvas = self.memory, self.pending.canvas
        fresh: dict[int, RowLogits] = {}
        if answer is not None:
            memory.copy_rows(plan.twins)
            fresh = answer.rows | {row: answer.rows[like] for row, like in plan.twins.items()}
        rows = [fresh.get(row, kept) for row, kept in enumerate(memory.logits)]
        answered = [row for row in rows if row is not None]
        return Logits(answered, len(canvas.answers), canvas.mask)

    def _note(self, plan: _Plan, logits: Logits) -> None:
        """Record the pass in the memory, with what the policy makes of it."""
        memory, canvas = self.memory, self.pending.canvas
        ran = [row not in plan.reused for row in range(canvas.rows)]
        full = [plan.layout.full[plan.twins.get(row, row)] for row in range(canvas.rows)]
        notes = self._policy.noted(canvas, memory, np.array(full), logits)
        memory.note(canvas, ran, full, notes)

    def _keep_logits(self, logits: Logits) -> None:
        """Keep logits only of rows that ask the same again: they are as wide as the vocabulary."""
        again = self.pending.same & (not self._policy.counts_passes)
        kept = zip(logits.rows, again.tolist(), strict=True)
        self.memory.logits = tuple(row.apart() if same else None for row, same in kept)


def _calls(pending: Pending, plan: _Plan, answer: Answer | None) -> tuple[Call, ...]:
    """One call per row of the state; its lanes refresh together and count as one."""
    fed_by_row, full = plan.layout.fed, plan.layout.full
    each = 0.0 if answer is None else answer.interval.seconds / max(1, answer.columns)
    calls = []
    for first in range(0, len(fed_by_row), pending.lanes):
        fed = sum(fed_by_row[first : first + pending.lanes])
        kind = Kind.REUSED if not fed else Kind.FULL if full[first] else Kind.CACHED
        drift = None if pending.drift is None else float(pending.drift[first])
        calls.append(Call(kind, fed, int(pending.distance[first]), each * fed, drift))
    return tuple(calls)


def refuse_impossible(pending: Pending, decoder: str, policy: str, *, shift: bool) -> None:
    """Raise where a model could not answer, or a decoder would read what is not there."""
    canvas = pending.canvas
    if shift and canvas.columns > canvas.response.stop:
        raise Incompatible(
            f"{decoder} asks about extra columns at repeated positions, which has "
            "no meaning for a model whose logits are shifted by one. Use it with a LLaDA model."
        )
    if layout.unanswered(pending.recomputed, canvas.reads).any():
        raise Incompatible(
            f"{decoder} reads logits of columns that {policy} does not recompute. "
            "Choose a cache that recomputes the whole response, such as archer."
        )


def refuse_endless(state: DecodeState, decoder: str, limit: int) -> None:
    """Raise where a rule has made all updates that it is allowed and is not done."""
    if max(state.updates) >= limit:
        raise Stuck(
            f"{decoder} has not finished after {limit} updates of a response "
            f"of {state.length}, the most it is allowed. If it edits tokens, raise its threshold `edit`; "
            "otherwise this is a fault of the decoder: please report it."
        )


def steps_of(
    network: Transformer, method: Method, state: Any, memory: Memory | None = None
) -> Iterator[Step[Any]]:
    """Decode one request until every row is done; nothing that a consumer does meanwhile is timed."""
    walk = Walk(network, method, state, memory)
    while not walk.done:
        question = walk.wants
        yield walk.advance(None if question is None else run(network, [question])[0])
