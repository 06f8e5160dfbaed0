"""What another thread, an interrupt or a shortage of memory may do in the middle of a turn, and what not."""

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from archer.engine.handle import Observer, PassRecord
from archer.engine.job import MOST_UNREAD, Job
from archer.errors import Cancelled, OutOfMemory, PassFailed
from archer.model import Model
from archer.passes.forward import Question
from archer.passes.memory import Store
from archer.results.step import Step
from engine.breaking import failing_at, watching
from support.pairs import alone, ids, same

METHOD = "confidence+archer:3"
"""Makes an update per token, and can be swapped out."""


class Leaving(Job):
    """Its reader goes away between any two looks at what it has not read."""

    kept: deque[Step[Any]] | None

    @property
    def unread(self) -> deque[Step[Any]] | None:
        now, self.kept = self.kept, None
        return now

    @unread.setter
    def unread(self, steps: deque[Step[Any]] | None) -> None:
        self.kept = steps


@pytest.mark.parametrize("unread", [0, MOST_UNREAD])
def test_a_reader_may_go_away_at_any_moment(model: Model, unread: int) -> None:
    engine = model.engine()
    handle = engine.submit(ids(1, 3), "llada-confidence", length=8)
    handle._job.__class__ = Leaving
    for _ in range(6):
        handle._job.unread = deque([None] * unread)  # type: ignore[list-item]
        engine.turn()
    assert same(handle.result(), alone(model, ids(1, 3), "llada-confidence", length=8))


def test_another_reader_takes_over(model: Model) -> None:
    """The first does not wait for steps that it will never get."""
    length = 3 * MOST_UNREAD
    handle = model.engine().submit(ids(1, 3), "llada-confidence", length=length)
    first, second = iter(handle), iter(handle)
    assert next(first).index == 0
    assert next(second).index == 1
    assert list(first) == []
    assert [step.index for step in second] == list(range(2, length))


def test_a_pass_that_failed_holds_nothing_while_it_is_made_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had computed is the memory that the next one needs."""
    computed: list[weakref.ref[torch.Tensor]] = []
    left: list[bool] = []

    def short(parts: Sequence[Question]) -> None:
        left.extend(each() is not None for each in computed)
        if len(parts) > 1 and len(computed) < 2:
            hidden = torch.zeros(8)
            computed.append(weakref.ref(hidden))
            raise torch.OutOfMemoryError("no memory")

    watching(monkeypatch, short)
    engine = model.engine()
    handles = [engine.submit(ids(at, 4), METHOD, length=8) for at in range(4)]
    assert all(handle.result().tokens for handle in handles)
    assert len(computed) == 2
    assert left
    assert not any(left)


def test_a_request_for_which_memory_cannot_be_had_waits_for_the_others(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count there was enough, and then somebody else on the device took it."""
    wanted = [alone(model, ids(at, 4), METHOD, length=8) for at in range(3)]
    engine = model.engine()
    first = engine.submit(ids(0, 4), METHOD, length=8)
    engine.turn()
    made = Store.empty

    def taken(*args: Any, **options: Any) -> Store:
        if not first.done:
            raise torch.OutOfMemoryError("no memory")
        return made(*args, **options)

    monkeypatch.setattr(Store, "empty", taken)
    others = [engine.submit(ids(at, 4), METHOD, length=8) for at in (1, 2)]
    engine.turn()
    status = engine.status()
    assert (status.running, status.waiting) == (1, 2)
    assert status.bytes_limit == status.bytes_used == first._job.bytes
    for handle, done in zip((first, *others), wanted, strict=True):
        assert same(handle.result(), done)


def test_a_request_alone_for_which_memory_cannot_be_had_fails(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*args: Any, **options: Any) -> Store:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(Store, "empty", taken)
    with pytest.raises(OutOfMemory, match="not enough memory"):
        model.engine().submit(ids(1, 3), length=8).result()


def test_nobody_goes_on_from_a_pass_that_was_interrupted(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody pressed Ctrl-C in a notebook: the engine is still there; what it had not touched runs on."""
    failing_at(monkeypatch, 3, KeyboardInterrupt())
    engine = model.engine(budget=1)
    touched = engine.submit(ids(1, 3), "llada-confidence", length=8, priority="interactive")
    waiting = engine.submit(ids(2, 3), "llada-confidence", length=8, priority="batch")
    with pytest.raises(KeyboardInterrupt):
        touched.result()
    with pytest.raises(Cancelled, match="broken off by KeyboardInterrupt"):
        touched.result()
    assert same(waiting.result(), alone(model, ids(2, 3), "llada-confidence", length=8))


def test_nobody_goes_on_from_steps_that_were_never_told(model: Model) -> None:
    class Faulty(Observer):
        def passed(self, record: PassRecord) -> None:
            raise KeyError("a count")

    engine = model.engine(observer=Faulty())
    handle = engine.submit(ids(1, 3), "llada-confidence", length=8)
    with pytest.raises(KeyError):
        handle.result()
    with pytest.raises(PassFailed, match=r"KeyError in test_broken_off\.py"):
        handle.result()
    assert engine.status().running == engine.status().waiting == 0


def test_the_columns_still_to_compute_become_fewer(model: Model) -> None:
    """A running request counts with what its updates so far took, not with what was guessed before."""
    engine = model.engine()
    handle = engine.submit(ids(1, 20), "confidence+archer:inf", length=8)
    left = [engine.status().queued_columns]
    assert left == [28 * 8]
    while not handle.done:
        engine.turn()
        left.append(engine.status().queued_columns)
    assert left == sorted(left, reverse=True)
    assert left[-2] < 2 * 28
    assert left[-1] == 0
