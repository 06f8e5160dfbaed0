"""Plans, ways and checks as tables for people; what comes in is what `archer plan --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archer.planning.check import Compared

Told = Mapping[str, Any]
Table = list[Sequence[str]]

PLANS = ("device", "radius", "budget", "devices", "alone s", "p50 s", "p99 s", "in time", "good /s")
WAYS = ("device", "way", "mean s", "p50 s", "p99 s", "p99 s, small", "slowdown", "in time")
CHECKS = ("load", "what", "measured s", "simulated s", "error", "drift")


def plans(found: Iterable[Told]) -> Table:
    """One row for each setting of a card."""
    rows: Table = [(*PLANS, "busy", "columns")]
    for each in found:
        radius = each["radius"]
        times = [f"{each[name]:.2f}" for name in ("alone", "p50", "p99")]
        sizes = ["-" if radius is None else f"{float(radius):g}", str(each["budget"])]
        shares = [_percent(each["in_time"], 1), f"{each['goodput']:.1f}", _percent(each["busy"])]
        columns = f"{each['columns']:.0f}"
        rows.append([each["card"], *sizes, str(each["cards"]), *times, *shares, columns])
    return rows


def ways(found: Iterable[Told]) -> Table:
    """One row for each way to serve on a card."""
    rows: Table = [WAYS]
    for each in found:
        small = "-" if each["p99_small"] is None else f"{each['p99_small']:.1f}"
        times = [f"{each['mean']:.2f}", f"{each['p50']:.2f}", f"{each['p99']:.1f}", small]
        shares = [f"{each['slowdown']:.1f}", _percent(each["in_time"])]
        rows.append([each["card"], each["way"], *times, *shares])
    return rows


def checks(found: Iterable[Compared]) -> Table:
    """One row for each percentile under a load."""
    rows: Table = [CHECKS]
    for each in found:
        seconds = [f"{each.measured:.2f}", f"{each.simulated:.2f}"]
        error, drift = f"{100 * each.error:+.1f} %", f"{each.drift:.2f}"
        rows.append([each.load, each.what, *seconds, error, drift])
    return rows


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
