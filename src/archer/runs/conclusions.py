"""What a comparison says, in a sentence or two, computed from its tests and never from its points alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SURE = 0.05
"""A difference is called one below this p."""


def about_scores(found: Mapping[str, Any], suite: str = "base") -> str:
    """Which of the two solved more, if that can be told."""
    paired, first, second = found["suites"][suite], *_names(found)
    counts = f"{paired['both']} of {found['n']} solved by both"
    only = f"{paired['only_first']} only by {first}, {paired['only_second']} only by {second}"
    better, worse = (second, first) if paired["difference"] > 0 else (first, second)
    told = "No significant difference in solved problems"
    if paired["mcnemar_p"] < SURE:
        told = f"{better} solves more than {worse}"
    return f"{told}: {counts}, {only} ({chance(paired['mcnemar_p'])})."


def about_time(found: Mapping[str, Any]) -> str:
    """Which of the two was faster, if that can be told."""
    time, first, second = found["time"], *_names(found)
    if time["speedup"] is None:
        return "A problem took no time at all, so nothing can be said about speed."
    if time["speedup_interval"] is None:
        return "One problem says nothing about speed."
    low, high = time["speedup_interval"]
    interval = f"95 %: {low:.2f} to {high:.2f}"
    if low <= 1 <= high:
        factor = f"{second} is {time['speedup']:.2f} times as fast as {first}"
        return f"No significant difference in time: {factor} ({interval})."
    if low > 1:
        return f"{second} is {time['speedup']:.2f} times as fast as {first} ({interval})."
    return f"{second} is slower than {first}: {time['speedup']:.2f} times as fast ({interval})."


NOT_IN_TURN = (
    "The runs were made at different times, so their speeds also differ by what else the machine was doing; "
    "`archer study main` decodes each problem with every method in turn."
)
"""What runs cannot show about time, whatever their interval over problems."""


def conclusion(found: Mapping[str, Any]) -> str:
    """Both, as the first lines of a report."""
    return f"{about_scores(found)} {about_time(found)}"


def chance(p: float) -> str:
    """A p as people write it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _names(found: Mapping[str, Any]) -> tuple[str, str]:
    return found["first"]["method"], found["second"]["method"]
