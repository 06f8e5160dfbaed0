"""Age against distance at equal cost: the refreshes of a radius spent by a clock, for Saber and WINO."""

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Labels, Series, lines
from archer.pages.page import Presented
from archer.pages.tables import Field, p_value, series, table_of
from archer.runs.statistics import Pairs, wilson
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import PERCENT, compared, in_turn
from archer_studies.study import Measured, Row

TITLE = "Age against distance"
ABOUT = "Refreshing by a clock against refreshing by distance, at equal cost"
RADII = (4, 8, 16)
FIELDS = (
    Field("decoder"),
    Field("rule", "refresh by"),
    Field("refresh_fraction", "refresh fraction", 3),
    Field("base", "Pass@1 (%)", 1),
    Field("parted", "not as eager (%)", 1),
    Field("seconds", digits=3),
    Field("speedup"),
    Field("speedup_predicted", "predicted"),
    p_value("score_p", "p of scores"),
    p_value("parted_p", "p of parting"),
)


def nearest_age(updates: Sequence[int], fraction: float) -> int:
    """The age whose share of full passes over such trajectories is nearest; ties to the younger."""

    def miss(age: int) -> float:
        full = sum(-(-count // age) for count in updates)
        return abs(full / sum(updates) - fraction)

    return min(range(1, max(updates) + 1), key=miss)


def measure(workspace: Workspace) -> Measured:
    rows: list[Row] = []
    decoders = ["saber"] if workspace.model.folder.shape.shift else ["saber", "wino"]
    for decoder in decoders:
        rows += _decoder(workspace, decoder)
    return Measured(rows[0]["n"], rows, {"radii": list(RADII), "decoders": decoders})


def _decoder(workspace: Workspace, decoder: str) -> list[Row]:
    """Without a cache, then each radius and the age which refreshes as often."""
    named: list[tuple[str, int | None]] = [("eager", None)]
    few = workspace.scale.probed
    arms = [workspace.arm(decoder, problems=few)]
    for radius in RADII:
        cached = "archer" if decoder == "saber" else f"{decoder}+archer"
        by_distance = workspace.arm(cached, problems=few, radius=radius)
        updates = [by_distance.run.recorded.samples[key].updates for key in by_distance.keys]
        age = nearest_age(updates, by_distance.summary.refresh_fraction or 0.0)
        named += [(f"distance {radius}", radius), (f"age {age}", radius)]
        arms += [by_distance, workspace.arm(f"{decoder}+age", problems=few, every=age)]
    timed = list(in_turn(workspace, {str(number): arm for number, arm in enumerate(arms)}).values())
    rows = [
        {"decoder": decoder, "rule": rule, "radius": radius, **_row(workspace, arm, timed[0])}
        for (rule, radius), arm in zip(named, timed, strict=True)
    ]
    for at in range(1, len(rows), 2):
        rows[at] |= versus(timed[at], timed[at + 1], timed[0])
    return rows


def _row(workspace: Workspace, arm: Arm, eager: Arm) -> Row:
    wrong = sum(parted(arm, eager))
    n = len(arm.keys)
    return compared(arm, arm.run.label, eager, workspace.model) | {
        "parted": PERCENT * wrong / n,
        "parted_interval": [PERCENT * end for end in wilson(wrong, n)],
    }


def parted(arm: Arm, eager: Arm) -> list[bool]:
    """Of every problem, whether the completion is another one than without a cache."""
    ours, theirs = arm.run.recorded.samples, eager.run.recorded.samples
    return [ours[key].tokens != theirs[key].tokens for key in arm.keys]


def versus(by_distance: Arm, by_age: Arm, eager: Arm) -> Row:
    """Paired tests of the two rules: on scores, and on who leaves the eager completion."""
    return {
        "score_p": Pairs(by_distance.solved(), by_age.solved()).p,
        "parted_p": Pairs(parted(by_distance, eager), parted(by_age, eager)).p,
    }


def present(result: Mapping[str, Any]) -> Presented:
    rows = result["rows"]
    table = table_of(
        f"Refresh by distance and by age on {result['settings']['task']}, n = {result['n']}",
        FIELDS,
        rows,
        [
            "Each radius is followed by the age whose refresh fraction is nearest to its own. p: exact "
            "McNemar between the two; speedup over the decoder without a cache.",
            "Not as eager: problems whose completion differs from the one without a cache.",
        ],
    )
    figure = lines(
        [
            _line(rows, decoder, rule)
            for decoder in result["settings"]["decoders"]
            for rule in ("distance", "age")
        ],
        Labels("Completions changed by the cache", "refresh fraction", "not as eager (%)"),
    )
    return Presented([table], {"parted": figure})


def _line(rows: Sequence[Row], decoder: str, rule: str) -> Series:
    own = [row for row in rows if row["decoder"] == decoder and row["rule"].startswith(rule)]
    own.sort(key=lambda row: row["refresh_fraction"])
    return series(f"{decoder}, {rule}", [row["refresh_fraction"] for row in own], own, "parted")
