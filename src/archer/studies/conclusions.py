"""What a reproduction says about the paper's main claims, in sentences computed from its tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archer.runs.conclusions import SURE, chance

Row = Mapping[str, Any]


def conclusions(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence or two per benchmark, from the study `main`; nothing where it was not run."""
    if "main" not in results:
        return []
    rows: Sequence[Row] = results["main"]["rows"]
    tasks = list(dict.fromkeys(row["task"] for row in rows if "saber_base_p" in row))
    return [" ".join(_about(task, _by_method(rows, task))) for task in tasks]


def _by_method(rows: Sequence[Row], task: str) -> dict[str, Row]:
    return {row["method"]: row for row in rows if row["task"] == task}


def _about(task: str, rows: Mapping[str, Row]) -> Iterator[str]:
    archer, saber = rows.get("archer"), rows.get("saber")
    if archer is None or saber is None:
        return
    scores = (
        f"{archer['base']:.1f} % of {archer['n']} problems against Saber's {saber['base']:.1f} %"
    )
    p = archer["saber_base_p"]
    ranked = "more" if archer["base"] > saber["base"] else "fewer"
    told = "no difference can be told" if p >= SURE else ranked
    yield f"{task}: Archer solves {scores}: {told} ({chance(p)})."
    low, high = archer["speedup_interval"]
    yield (
        f"It is {archer['speedup']:.2f} times as fast as LLaDA-Confidence (95 %: {low:.2f} to {high:.2f}), "
        f"Saber {saber['speedup']:.2f} times."
    )
    better = [
        row["arm"]
        for row in rows.values()
        if row["base"] > archer["base"] and row["speedup"] > archer["speedup"]
    ]
    if better:
        yield f"Faster, with a higher score: {', '.join(better)}."
