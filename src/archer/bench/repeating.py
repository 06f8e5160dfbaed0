"""Repetitions that can be compared: all subjects in turn, so that a busy machine meets them all alike."""

import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)
Sample = TypeVar("Sample")

WARM_UP = 1
"""Rounds that are not counted."""


def interleaved(
    subjects: Mapping[Name, Callable[[], Sample]], repeats: int, seconds: float = 0.0
) -> dict[Name, list[Sample]]:
    """What each subject returned, `repeats` times; more often until `seconds` have passed."""
    samples: dict[Name, list[Sample]] = {name: [] for name in subjects}
    started = perf_counter()
    for turn in count():
        if turn >= WARM_UP + repeats and perf_counter() - started >= seconds:
            break
        for name, measure in subjects.items():
            sample = measure()
            if turn >= WARM_UP:
                samples[name].append(sample)
    return samples


def spread(values: Sequence[float]) -> float:
    """Width of the middle half of the values, as a part of their median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0
