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
    told = "no significant difference" if p >= SURE else f"significantly {ranked}"
    yield f"{task}: Archer solves {scores}: {told} ({chance(p)})."
    low, high = archer["speedup_interval"]
    yield (
        f"It is {archer['speedup']:.2f} times as fast as LLaDA-Confidence (95 %: {low:.2f} to {high:.2f}), "
        f"Saber {saber['speedup']:.2f} times."
    )
    rivals = [row for row in rows.values() if row is not archer and row["base"] >= archer["base"]]
    faster = [row["arm"] for row in rivals if _interval(row)[0] > high]
    alike = [row["arm"] for row in rivals if _interval(row)[0] <= high and _interval(row)[1] >= low]
    if faster:
        yield f"Faster, with a score at least as high: {', '.join(faster)}."
    if alike:
        yield f"About as fast, with a score at least as high: {', '.join(alike)}."


def _interval(row: Row) -> tuple[float, float]:
    """Of the speedup; the reference of all speedups has none, and is 1 in any case."""
    low, high = row.get("speedup_interval") or (row["speedup"], row["speedup"])
    return low, high
