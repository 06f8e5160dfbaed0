"""Walks that share passes: one turn makes one update of each chosen walk, in one packed pass.

It knows no clock, no queue and no text.  Who takes part in a turn is decided by `schedule`.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from traceback import clear_frames
from typing import Any, Generic

import torch

from archer.engine.schedule import Tag
from archer.engine.walk import Walk
from archer.errors import PassFailed, ShardLost
from archer.machine.devices import out_of_memory
from archer.network.network import Transformer
from archer.passes.forward import Answer, Question, run
from archer.passes.timing import Interval
from archer.passes.work import Work
from archer.results.step import Step

MOST_REUSED = 8
"""Updates without a pass that a walk makes in one turn at the most."""


@dataclass
class Turn(Generic[Tag]):
    """What came of a turn."""

    steps: list[tuple[Tag, Step[Any]]] = field(default_factory=list)
    failed: dict[Tag, Exception] = field(default_factory=dict)
    intervals: list[tuple[Interval, int]] = field(default_factory=list)
    """Each pass and the columns it computed."""
    deciding: defaultdict[Tag, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds that each walk took to make its updates, the passes left out."""


class Batch(Generic[Tag]):
    """The walks that have memory, by tag; one that is taken out takes its memory with it."""

    def __init__(self, network: Transformer) -> None:
        self.walks: dict[Tag, Walk] = {}
        self._network = network

    def turn(self, tags: Sequence[Tag], make_room: Callable[[], bool]) -> Turn[Tag]:
        """One update of each walk; walks that need no pass may make a few more.

        When memory runs out `make_room` is asked to free some, once; it says whether it could.  A pass that
        raises is halved until the guilty walk is alone.  Walks under a layer rule are never part of that: a
        rule writes over what it reads, so what it has done must not be done again.
        """
        turn: Turn[Tag] = Turn()
        going: list[Tag] = []
        for tag in tags:
            if self._laid_out(tag, turn):
                going.append(tag)
        ruled = [tag for tag in going if _question(self.walks[tag]).rule is not None]
        self._run([tag for tag in going if tag not in ruled], turn, make_room)
        for tag in ruled:
            self._run([tag], turn, make_room)
        for tag in tags:
            self._reuse(tag, turn)
        return turn

    def _laid_out(self, tag: Tag, turn: Turn[Tag]) -> bool:
        """Whether a walk takes part in the pass; a walk that is stuck or asks the impossible ends here."""
        question = None
        with blaming(partial(turn.failed.__setitem__, tag)):
            question = self.walks[tag].wants
        return question is not None

    def _run(
        self, tags: Sequence[Tag], turn: Turn[Tag], make_room: Callable[[], bool] | None
    ) -> None:
        tags = [tag for tag in tags if tag in self.walks]
        if not tags:
            return
        answers: dict[Tag, Answer] = {}
        with blaming(lambda error: self._halve(tags, error, turn, make_room)):
            answers = dict(zip(tags, self._answers(tags, turn), strict=True))
        for tag, answer in answers.items():
            self._advance(tag, answer, turn)

    def _halve(
        self,
        tags: Sequence[Tag],
        error: Exception,
        turn: Turn[Tag],
        make_room: Callable[[], bool] | None,
    ) -> None:
        """Whatever a pass raises belongs to one of its walks: make it again with room, or find the walk."""
        # they hold what the pass had computed, and memory may be short
        clear_frames(error.__traceback__)
        again = all(_can_repeat(_question(self.walks[tag])) for tag in tags)
        if again and make_room is not None and out_of_memory(error) and make_room():
            self._run(tags, turn, None)
        elif len(tags) > 1:
            half = len(tags) // 2
            self._run(tags[:half], turn, make_room)
            self._run(tags[half:], turn, make_room)
        else:
            turn.failed[tags[0]] = error

    def _answers(self, tags: Sequence[Tag], turn: Turn[Tag]) -> list[Answer]:
        """One pass for all; walks that ask the same first question as another get its answer."""
        walks = [self.walks[tag] for tag in tags]
        for walk in walks:
            if walk.swapped_out:
                walk.swap_in(lambda lost: run(self._network, [lost]))
        questions = [_question(walk) for walk in walks]
        leaders: dict[Hashable, int] = {}
        like = [leaders.setdefault(_asks(walk, at), at) for at, walk in enumerate(walks)]
        alone = [at for at, leader in enumerate(like) if at == leader]
        answers = dict(zip(alone, run(self._network, [questions[at] for at in alone]), strict=True))
        turn.intervals += {
            id(a.interval): (a.interval, a.columns) for a in answers.values()
        }.values()
        for at, leader in enumerate(like):
            if at != leader:
                answers[at] = _copied(answers[leader], questions[leader], questions[at])
        return [answers[at] for at in range(len(walks))]

    def _advance(self, tag: Tag, answer: Answer | None, turn: Turn[Tag]) -> None:
        began = perf_counter()
        with blaming(partial(turn.failed.__setitem__, tag)):
            turn.steps.append((tag, self.walks[tag].advance(answer)))
        turn.deciding[tag] += perf_counter() - began

    def _reuse(self, tag: Tag, turn: Turn[Tag]) -> None:
        for _ in range(MOST_REUSED):
            walk = self.walks.get(tag)
            if walk is None or walk.done or tag in turn.failed or walk.swapped_out:
                return
            if self._laid_out(tag, turn) or tag in turn.failed:
                return
            self._advance(tag, None, turn)


class contained(ContextDecorator):  # noqa: N801 - reads as a word after `with`
    """Whatever a decoder, a cache or a listener raises ends its own request, even what would end a program.

    On the main thread what a signal may have raised passes: Ctrl-C, and whatever SIGTERM is turned into.
    What no future can hold is an error like others, too.
    """

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or _of_a_signal(error):
            return
        if not isinstance(error, Exception) or isinstance(error, StopIteration):
            raise _failed_by(error) from error


class blaming:  # noqa: N801
    """What one request's decoder, cache or listener raises is its own; a shard that is lost ends them all."""

    __slots__ = ("_guilty",)

    def __init__(self, guilty: Callable[[Exception], None]) -> None:
        self._guilty = guilty

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if error is None or isinstance(error, ShardLost):
            return False
        if isinstance(error, Exception):
            self._guilty(error)
        elif _of_a_signal(error):
            return False
        else:
            failure = _failed_by(error)
            failure.__cause__ = error
            self._guilty(failure)
        return True


def _of_a_signal(error: BaseException) -> bool:
    on_main = threading.current_thread() is threading.main_thread()
    return on_main and not isinstance(error, Exception | SystemExit | GeneratorExit)


def _failed_by(error: BaseException) -> PassFailed:
    return PassFailed(
        f"The request failed: its decoder, cache or listener raised {type(error).__name__}."
    )


def _question(walk: Walk) -> Question:
    question = walk.wants
    assert question is not None
    return question


def _can_repeat(question: Question) -> bool:
    """Whether a pass that raised halfway may be made again: it reads nothing that it has written over."""
    sizes = zip(question.layout.full, question.layout.fed, strict=True)
    return question.rule is None or all(full or not fed for full, fed in sizes)


def _asks(walk: Walk, at: int) -> Hashable:
    """Equal for walks that ask the same first question; `at` where no other walk can ask the same."""
    question = _question(walk)
    canvas = question.canvas
    if not walk.fresh or question.rule is not None or canvas.visible is not None:
        return at
    return (
        canvas.attention,
        canvas.tokens.shape,
        canvas.tokens.tobytes(),
        canvas.response.start,
        None if canvas.stops is None else canvas.stops.tobytes(),
        canvas.reads.tobytes(),
        question.layout.fed,
        walk.pending.recomputed.tobytes(),
        tuple((row, id(ids)) for row, ids in question.limits),  # equal seams share a set
    )


def _copied(answer: Answer, leader: Question, follower: Question) -> Answer:
    """The leader's answer for a walk that asked the same, with the leader's keys and values."""
    with torch.inference_mode():
        follower.memory.store.take(leader.memory.store)
    nothing = replace(answer.interval, end=answer.interval.start)
    return replace(answer, work=Work(), interval=nothing)
