"""A clock that measures finished work: wall time on a CPU, device events elsewhere."""

import functools
import time
from dataclasses import dataclass

import torch


@functools.cache
def has_events(kind: str) -> bool:
    """Whether a kind of device can time its own work; else the host's clock has to do."""
    if kind in ("cpu", "meta"):
        return False
    try:
        torch.Event(torch.device(kind), enable_timing=True).record()
    except (RuntimeError, NotImplementedError, ValueError):
        return False
    return True


class Clock:
    """Marks points in the work of one device; the time between two marks is read after synchronising."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> float | torch.Event:
        if not has_events(self._device.type):
            return time.perf_counter()
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        return event

    def seconds(self, start: float | torch.Event, end: float | torch.Event) -> float:
        """Call after the host has waited for the work before `end`, though maybe not for `end` itself."""
        if isinstance(start, float) or isinstance(end, float):
            return float(end) - float(start)  # type: ignore[arg-type]
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000.0


@dataclass(frozen=True)
class Interval:
    """Two marks whose distance is read later: on a device the work between them may still be going on."""

    clock: Clock
    start: float | torch.Event
    end: float | torch.Event

    @property
    def seconds(self) -> float:
        return self.clock.seconds(self.start, self.end)
