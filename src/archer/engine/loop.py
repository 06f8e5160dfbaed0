"""The loop: ask a policy what to recompute, run one pass, let the decoder decide, yield the step.

Axes: B rows still running, L columns, G response columns.

There is no other loop.  Terminal, traces, metrics, probes and servers consume the steps; while they do, the
loop is paused, so nothing they do is timed.  Rows are independent: each refreshes when its own state says
so, and a finished or failed row is dropped without touching the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

import numpy as np
import torch

from archer.decoders.base import Decision, Decoder, State
from archer.engine import layout
from archer.engine.arrays import Flags
from archer.engine.canvas import Canvas
from archer.engine.forward import Work, compute, run
from archer.engine.logits import Logits, RowLogits
from archer.engine.memory import Memory, Store
from archer.engine.network import Transformer
from archer.engine.pending import Pending
from archer.engine.timing import Clock
from archer.errors import Incompatible, NonFinite, Stuck
from archer.policies.base import Policy


class Kind(StrEnum):
    """How a row got its logits."""

    FULL = "full"
    CACHED = "cached"
    REUSED = "reused"


@dataclass(frozen=True)
class Call:
    """One row's part of one pass."""

    kind: Kind
    fed: int
    """Columns computed."""
    distance: int
    """Response tokens that differed from the anchor when the call was made."""
    seconds: float
    """The row's share of the pass, by columns computed."""


@dataclass(frozen=True)
class Step(Generic[State]):
    """One update of every running row, with all that led to it."""

    index: int
    rows: tuple[int, ...]
    """Which of the requested rows these are."""
    before: State
    decision: Decision
    after: State
    canvas: Canvas
    logits: Logits
    calls: tuple[Call, ...]
    memory: Memory
    """Live: clone what you keep."""
    work: Work
    control: float
    """Seconds spent on decoder, policy and layout."""
    errors: dict[int, NonFinite]
    """Rows that ended here because their logits were not finite; they are in none of the fields above."""


class Loop(Generic[State]):
    """The parts that stay the same from step to step."""

    def __init__(
        self,
        network: Transformer,
        shift: bool,
        decoder: Decoder[State],
        policy: Policy,
        *,
        compiled: bool = False,
    ) -> None:
        """`compiled` hands the pass to torch.compile: one graph per layout of rows and columns."""
        self.network = network
        self.shift = shift
        self.decoder = decoder
        self.policy = policy
        self.clock = Clock(network.device)
        self._plans = layout.Plans(shift, network.device)
        self._compute = (
            torch.compile(compute, fullgraph=True, dynamic=False) if compiled else compute
        )

    def steps(self, state: State, memory: Memory | None = None) -> Iterator[Step[State]]:
        """Decode until every row is done; rows that are done already make no step.

        Give a cloned state and memory to continue from there.
        """
        rows = tuple(range(len(state.updates)))
        fresh = memory is None and not any(state.updates)
        canvas = self.decoder.canvas(state)
        memory = self._blank(canvas) if memory is None else memory
        question = self._question(state, canvas, memory, np.ones_like(state.done))
        limit = self.decoder.limit(state.length)
        index = 0
        while True:
            going = np.flatnonzero(question.finite & ~question.done).tolist()
            if len(going) < len(rows):
                rows = tuple(rows[row] for row in going)
                state, memory = state.select(going), memory.select(question.lanes_of(going))
                question = question.select(going)
            if not rows:
                return
            self._check(question, state, limit)
            with torch.inference_mode():
                started = self.clock.mark()
                twins = question.twins(state.prompt.groups) if fresh else {}
                logits, plan, work = self._answer(question, memory, twins)
                answered = self.clock.mark()
                after, decision = self.decoder.step(state, logits)
                following = self._question(after, self.decoder.canvas(after), memory, logits.sound)
                decided = self.clock.mark()
            calls = self._calls(question, plan, self.clock.seconds(started, answered))
            sound = np.flatnonzero(following.finite).tolist()
            errors = _errors(rows, state.updates, calls, following.finite)
            step = Step(
                index=index,
                rows=rows,
                before=state,
                decision=decision,
                after=after,
                canvas=question.canvas,
                logits=logits,
                calls=calls,
                memory=memory,
                work=work,
                control=self.clock.seconds(answered, decided),
                errors=errors,
            )
            yield step if not errors else _without_errors(step, sound, following.lanes_of(sound))
            state, question, index, fresh = after, following, index + 1, False

    def _blank(self, canvas: Canvas) -> Memory:
        shape = self.network.shape
        store = Store.empty(
            shape.layers,
            canvas.rows,
            shape.kv_heads,
            canvas.columns,
            shape.head_dim,
            device=self.network.device,
            dtype=self.network.dtype,
        )
        return Memory.blank(store, canvas)

    def _question(self, state: State, canvas: Canvas, memory: Memory, sound: Flags) -> Pending:
        """Ask the policy; `sound` says of each row of the canvas, or of the state, that it may go on."""
        return Pending(
            canvas=canvas,
            lanes=canvas.rows // len(state.updates),
            asked=self.policy.recompute(canvas, memory),
            same=memory.same_question(canvas),
            distance=memory.distance(canvas),
            done=state.done,
            finite=np.asarray(sound.reshape(len(state.updates), -1).all(axis=1)),
        )

    def _check(self, question: Pending, state: State, limit: int) -> None:
        if self.shift and question.canvas.columns > question.canvas.response.stop:
            raise Incompatible(
                f"{type(self.decoder).__name__} asks about extra columns at repeated positions, which has "
                "no meaning for a model whose logits are shifted by one. Use it with a LLaDA model."
            )
        if layout.unanswered(question.asked, question.canvas.reads).any():
            raise Incompatible(
                f"{type(self.decoder).__name__} reads logits of columns that "
                f"{type(self.policy).__name__} does not recompute. "
                "Choose a cache that recomputes the whole response, such as archer."
            )
        if max(state.updates) >= limit:
            raise Stuck(
                f"{type(self.decoder).__name__} has not finished after {limit} updates of a response "
                f"of {state.length}, the most it is allowed. If it edits tokens, raise its threshold `edit`; "
                "otherwise this is a fault of the decoder: please report it."
            )

    def _answer(
        self, question: Pending, memory: Memory, twins: Mapping[int, int]
    ) -> tuple[Logits, layout.Layout, Work]:
        """Run the rows that need a pass; the others get the logits they had, `twins` all of another row."""
        canvas = question.canvas
        reused = {row for row in range(canvas.rows) if self._can_reuse(row, question, memory)}
        running = tuple(row for row in range(canvas.rows) if row not in reused and row not in twins)
        inside = self.policy.inside_layers(memory)
        frame = layout.Frame(
            starts=canvas.starts,
            slots=memory.slots,
            response=canvas.response.start,
            running=running,
            full=_whole(question) if inside is None else inside.full,
            attention_block=canvas.attention_block,
        )
        plan = self._plans.plan(question.asked, canvas.reads, frame)
        fresh: dict[int, RowLogits] = {}
        work = Work()
        if running:
            rule = None if inside is None else inside.rule
            fresh, work = run(self.network, canvas, plan, memory, rule, self._compute)
            memory.copy_rows(twins)
            fresh |= {row: fresh[like] for row, like in twins.items()}
            full = [plan.full[twins.get(row, row)] for row in range(canvas.rows)]
            memory.note(canvas, [row not in reused for row in range(canvas.rows)], full)
        rows = [fresh.get(row, kept) for row, kept in enumerate(memory.logits)]
        memory.logits = tuple(rows)
        answers = canvas.columns - canvas.response.start
        return Logits([row for row in rows if row is not None], answers, canvas.mask), plan, work

    def _can_reuse(self, row: int, question: Pending, memory: Memory) -> bool:
        """Same question, same anchor, and the logits at hand cover what is read now."""
        kept = memory.logits[row]
        if self.policy.counts_passes or not question.same[row] or kept is None:
            return False
        read = np.flatnonzero(question.canvas.reads[row]) - question.canvas.response.start
        return set(kept.places).issuperset(read.tolist())

    def _calls(self, question: Pending, plan: layout.Layout, seconds: float) -> tuple[Call, ...]:
        """One call per row of the state; its lanes refresh together and count as one."""
        total = max(1, sum(plan.fed))
        calls = []
        for first in range(0, len(plan.fed), question.lanes):
            fed = sum(plan.fed[first : first + question.lanes])
            kind = Kind.REUSED if not fed else Kind.FULL if plan.full[first] else Kind.CACHED
            distance = int(question.distance[first])
            calls.append(Call(kind, fed, distance, seconds * fed / total))
        return tuple(calls)


def _whole(question: Pending) -> tuple[bool, ...] | None:
    """Under block-causal attention, rows asked for all they can see; otherwise the plan tells."""
    canvas = question.canvas
    if canvas.attention_block is None:
        return None
    existing = np.arange(canvas.columns) >= np.array(canvas.starts)[:, None]
    left_out = canvas.everything() & existing & ~question.asked
    return tuple(not any(row) for row in left_out.tolist())


def _errors(
    rows: Sequence[int], updates: Sequence[int], calls: Sequence[Call], finite: Flags
) -> dict[int, NonFinite]:
    return {
        rows[row]: NonFinite(update=updates[row] + 1, kind=calls[row].kind.value)
        for row in np.flatnonzero(~finite).tolist()
    }


def _without_errors(step: Step[State], sound: Sequence[int], lanes: Sequence[int]) -> Step[State]:
    """The same step without the rows whose logits were not finite."""
    return Step(
        index=step.index,
        rows=tuple(step.rows[row] for row in sound),
        before=step.before.select(sound),
        decision=step.decision.select(sound),
        after=step.after.select(sound),
        canvas=step.canvas.select(lanes),
        logits=step.logits.select(lanes),
        calls=tuple(step.calls[row] for row in sound),
        memory=step.memory.select(lanes),
        work=step.work,
        control=step.control,
        errors=step.errors,
    )
