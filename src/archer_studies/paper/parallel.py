"""Tokens per update: what placing several tokens at once costs, and how much of it rollback gives back."""

from collections.abc import Mapping
from typing import Any

from archer.pages.figures import Labels, frontier
from archer.pages.page import Presented
from archer.pages.tables import Field, p_value, series, table_of
from archer.runs.workspace import Workspace
from archer_studies.arms import ADAPTIVE, RADIUS, SCORES, compared
from archer_studies.study import Measured, Row

TITLE = "Tokens per update"
ABOUT = "What placing several tokens per update costs, and what rollback gives back"
ONE_BY_ONE = "llada-confidence"
TOGETHER = (2, 4, 8)
FIELDS = (
    Field("arm", "rule"),
    *SCORES,
    Field("updates", digits=1),
    Field("revised", "revised positions", 1),
    Field(
        "",
        "only it / only one by one",
        of=lambda row: f"{row['base_only']} / {row['base_only_other']}",
    ),
    p_value("base_p"),
)


def measure(workspace: Workspace) -> Measured:
    length = workspace.open().length
    planned: list[tuple[str, str, Mapping[str, Any]]] = [(ONE_BY_ONE, "1 token per update", {})]
    planned += [
        (ONE_BY_ONE, f"{together} tokens per update", {"steps": length // together})
        for together in TOGETHER
        if together < length
    ]
    planned += [(ONE_BY_ONE, "all tokens at once", {"steps": 1}), *ADAPTIVE]
    arms = {label: workspace.arm(method, **settings) for method, label, settings in planned}
    reference = arms["1 token per update"]
    rows: list[Row] = []
    for method, label, settings in planned:
        arm = arms[label]
        records = arm.run.recorded.samples.values()
        revised = sum(record.revised_positions for record in records) / len(records)
        row = compared(arm, label, reference, workspace.model)
        rows.append({"method": method, "settings": dict(settings), "revised": revised, **row})
    return Measured(rows[0]["n"], rows, {"length": length, "radius": RADIUS})


def present(result: Mapping[str, Any]) -> Presented:
    rows = result["rows"]
    table = table_of(
        f"Tokens per update on {result['settings']['task']}, n = {result['n']}",
        FIELDS,
        rows,
        [
            f"Updates and revised positions are means over problems, of {result['settings']['length']} "
            "tokens each. The first rows are LLaDA-Confidence; the last three choose the number of tokens "
            "from their confidence.",
            "p: exact McNemar on Pass@1 against one token per update. Intervals: 95 %, Wilson.",
        ],
    )
    trade = frontier(
        [series(row["arm"], [row["updates"]], [row], "base") for row in rows],
        Labels("Quality against updates", "updates per problem", "Pass@1 (%)"),
    )
    return Presented([table], {"frontier": trade})
