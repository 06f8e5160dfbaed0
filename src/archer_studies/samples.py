"""Single trajectories as samples of costs: seconds, passes and operations, with intervals over prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.model import Model
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer_studies.study import Row
from archer_studies.trajectories import Told, tell

COUNTS = ("updates", "full_passes", "cached_passes")
Methods = Mapping[str, Mapping[str, Any]]
"""Settings by method; the first is the reference."""


def timed(
    model: Model, prompts: Sequence[Sequence[int]], methods: Methods
) -> dict[str, list[Told]]:
    """Every prompt by every method in turn, after one round that is thrown away."""
    for method, settings in methods.items():
        tell(model, prompts[0], method, settings)
    found: dict[str, list[Told]] = {method: [] for method in methods}
    for prompt in prompts:
        for method, settings in methods.items():
            found[method].append(tell(model, prompt, method, settings))
    return found


def compared(told: Sequence[Told], reference: Sequence[Told]) -> Row:
    """Costs per prompt, and how much faster than the reference on the same prompts."""
    seconds = [each.completion.seconds.total for each in told]
    pairs = [
        (other.completion.seconds.total, own) for other, own in zip(reference, seconds, strict=True)
    ]
    row: Row = {"n": len(told)}
    for name in COUNTS:
        row[name] = mean([getattr(each.completion, name) for each in told])
    return row | {
        "seconds": mean(seconds),
        "seconds_interval": list(bootstrap(seconds, mean)),
        "speedup": ratio_of_sums(pairs),
        "speedup_interval": list(bootstrap(pairs, ratio_of_sums)),
        "speedup_predicted": sum(each.operations for each in reference)
        / sum(each.operations for each in told),
    }
