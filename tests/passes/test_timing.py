"""The clock: wall time on a processor, device events elsewhere."""

from __future__ import annotations

import time

import pytest
import torch

from archer.passes.timing import Clock


def test_a_processor_is_timed_by_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([10.0, 12.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    clock = Clock(torch.device("cpu"))
    start, end = clock.mark(), clock.mark()
    assert clock.seconds(start, end) == 2.5


class FakeEvent:
    """Stands for an event of an accelerator; time passes by one millisecond per record."""

    recorded = 0

    def __init__(self, device: torch.device, *, enable_timing: bool) -> None:
        assert enable_timing
        self.device = device
        self.at: int | None = None
        self.arrived = False

    def record(self) -> None:
        FakeEvent.recorded += 1
        self.at = FakeEvent.recorded

    def synchronize(self) -> None:
        self.arrived = True

    def elapsed_time(self, end: FakeEvent) -> float:
        """A real event refuses while the later one has not been reached."""
        assert end.arrived
        assert self.at is not None
        assert end.at is not None
        return float(end.at - self.at)


def test_an_accelerator_is_timed_by_its_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are recorded in the device's queue: marking must not wait, and milliseconds become seconds."""
    monkeypatch.setattr(torch, "Event", FakeEvent)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *_: pytest.fail("marking waited"))
    clock = Clock(torch.device("cuda", 1))
    marks = [clock.mark() for _ in range(4)]
    assert {getattr(mark, "device", None) for mark in marks} == {torch.device("cuda", 1)}
    assert clock.seconds(marks[0], marks[3]) == pytest.approx(0.003)
    assert clock.seconds(marks[1], marks[1]) == 0.0
