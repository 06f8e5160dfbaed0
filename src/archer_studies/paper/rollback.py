"""Rollback with and without the cache: revised positions, updates, and what re-masks are good for."""

from collections.abc import Mapping, Sequence
from typing import Any

from archer.pages.figures import Labels, bars
from archer.pages.page import Presented
from archer.pages.tables import Field, series, table_of
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import Workspace
from archer_studies.arms import ADAPTIVE, PERCENT, RADIUS
from archer_studies.probes.trajectories import (
    DecodedProblem,
    decoded_again,
    revised_between,
    revised_ever,
    taken_back,
)
from archer_studies.study import Measured, Row, published

TITLE = "Rollback activity"
ABOUT = "What rollback revises, with and without the cache"
FIELDS = (
    Field("arm", "decoder"),
    Field("revised", "revised positions (%)", paper=0),
    Field("revised_ever", "inside updates, too (%)"),
    Field("updates", paper=1),
    Field("remasks", "re-masks"),
    Field("changed", "re-masks that change the token (%)", 1),
)


def measure(workspace: Workspace) -> Measured:
    rows = []
    for method, label, settings in ADAPTIVE:
        arm = workspace.arm(method, **settings)
        problems = dict(decoded_again(workspace, arm, arm.keys[: workspace.scale.probed])).values()
        rows.append({"method": method, "arm": label, **activity(list(problems))})
    return Measured(rows[0]["n"], rows, {"radius": RADIUS})


def activity(problems: Sequence[DecodedProblem]) -> Row:
    """Means over problems with their intervals; shares of re-masks over all of them."""
    counted = [revisions(each) for each in problems]
    row: Row = {"n": len(problems)}
    for name in ("revised", "revised_ever", "updates"):
        values = [each[name] for each in counted]
        row[name], row[f"{name}_interval"] = mean(values), list(bootstrap(values, mean))
    row["remasks"] = sum(each["remasks"] for each in counted)
    pairs = [(each["changed"], each["remasks"]) for each in counted if each["remasks"]]
    row["changed"] = PERCENT * ratio_of_sums(pairs) if pairs else None
    if pairs:
        row["changed_interval"] = [PERCENT * end for end in bootstrap(pairs, ratio_of_sums)]
    return row


def revisions(problem: DecodedProblem) -> dict[str, float]:
    """Of one trajectory: revised positions in per cent of the response, and its re-masks."""
    start, updates, states = problem.trajectory.start, problem.trajectory.updates, problem.states
    taken = taken_back(start, updates)
    return {
        "revised": PERCENT * len(revised_between(states, start.mask)) / start.length,
        "revised_ever": PERCENT * len(revised_ever(updates)) / start.length,
        "updates": float(len(updates)),
        "remasks": len(taken),
        "changed": sum(states[-1][at] != token for at, token in taken),
    }


def present(result: Mapping[str, Any]) -> Presented:
    theirs = published(result["paper"], result["settings"]["task"])
    table = table_of(
        f"Rollback activity on {result['settings']['task']}, n = {result['n']}",
        FIELDS,
        result["rows"],
        [
            "Revised: a position that loses or changes its token between two updates, as a share of the "
            "response. The next column also counts tokens placed and taken back inside one update.",
            "A re-mask changes the token if the final response has another one at its position.",
            "The paper's columns are LLaDA-8B with a response of 256; on pocket those of MBPP.",
        ],
        lambda row: theirs.get(row["method"], ()),
    )
    names = [row["arm"] for row in result["rows"]]
    figure = bars(
        [
            series("between updates", names, result["rows"], "revised"),
            series("inside updates, too", names, result["rows"], "revised_ever"),
        ],
        Labels("Revised positions", "decoder", "share of the response (%)"),
    )
    return Presented([table], {"revised": figure})
