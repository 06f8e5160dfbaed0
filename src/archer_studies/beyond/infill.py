"""Gaps in reference bodies: what is filled, and what it costs, by length rule, decoder and prompt cache."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from archer.pages.page import Presented
from archer.pages.tables import Field, Table, table_of
from archer.request.fill import DELETE, SEARCH
from archer.runs.manifest import ORACLE
from archer.runs.statistics import Pairs, bootstrap, clustered, mean, ratio_of_sums
from archer.runs.workspace import Arm, Workspace
from archer.tasks.base import Sample
from archer_studies.arms import PERCENT
from archer_studies.study import Measured, Row

TITLE = "Filling a gap"
ABOUT = "Gaps in reference bodies: lengths, decoders, and what the prompt cache saves and costs"
TASKS = ("pocket-infill-line", "pocket-infill-lines", "pocket-infill-span")
RULES: Mapping[str, str] = {
    ORACLE: "oracle",
    "8": "8",
    "16": "16",
    "32": "32",
    SEARCH: "searched",
    DELETE: "64, end marks deleted",
}
"""How long a gap is made."""
NATS: Mapping[str, Any] = {"nats": 0.3}
DECODERS: Mapping[str, tuple[str, tuple[str, Mapping[str, Any]]]] = {
    "Saber": ("saber", ("saber+surprise", NATS)),
    "Saber, doubt": ("saber-doubt", ("archer-doubt", {})),
    "threshold": ("threshold", ("threshold+surprise", NATS)),
    "confidence": ("llada-confidence", ("confidence+surprise", NATS)),
}
"""Every pass full, and with the prompt cache that refreshes by surprise."""
MOST = 30
"""Problems of each task."""
BATCH = 8
"""Problems that share passes: a gap is so short that a pass of its own is mostly overhead."""
FULL, CACHED = "full", "cached"


def measure(workspace: Workspace) -> Measured:
    few = min(MOST, workspace.scale.problems)
    rows: list[Row] = []
    for task in TASKS:
        samples = workspace.samples(task, few)
        arms = {
            (rule, decoder, kind): _arm(workspace, task, few, rule, method)
            for rule in RULES
            for decoder, (full, cached) in DECODERS.items()
            for kind, method in ((FULL, (full, {})), (CACHED, cached))
        }
        usual = arms[ORACLE, "Saber", FULL].operations
        rows += [
            {"task": task, "rule": rule, "decoder": decoder}
            | _row(arms[rule, decoder, FULL], arms[rule, decoder, CACHED], samples, usual)
            for rule in RULES
            for decoder in DECODERS
        ]
    return Measured(len(TASKS) * few, rows, {"tasks": list(TASKS), "problems": few})


def _arm(
    workspace: Workspace, task: str, few: int, rule: str, method: tuple[str, Mapping[str, Any]]
) -> Arm:
    name, settings = method
    request = workspace.request(name, task, few, **settings)
    return workspace.finished(replace(request, gap=rule, batch=BATCH))


def _row(full: Arm, cached: Arm, samples: Sequence[Sample], usual: int) -> Row:
    clusters = [each.cluster for each in samples]
    row: Row = {"n": len(samples)}
    suite = list(full.run.recorded.grades[full.keys[0]].suites)[-1]
    for kind, arm in ((FULL, full), (CACHED, cached)):
        done = [arm.run.recorded.samples[str(each.id)] for each in samples]
        exact = [
            each.infill is not None and line.completion.strip() == each.infill.middle.strip()
            for each, line in zip(samples, done, strict=True)
        ]
        for name, outcomes in (("solved", arm.solved(suite)), ("exact", exact)):
            row[f"{name}_{kind}"] = PERCENT * mean([float(each) for each in outcomes])
            row[f"{name}_{kind}_interval"] = [
                PERCENT * bound for bound in clustered(outcomes, clusters)
            ]
        row[f"cost_{kind}"] = arm.operations / usual
        row[f"operations_{kind}"] = arm.operations / len(samples)
    lines = [full.run.recorded.samples[str(each.id)] for each in samples]
    pairs = Pairs(cached.solved(suite), full.solved(suite))
    return row | {
        "tokens": mean([float(len(line.tokens)) for line in lines]),
        "probed": mean([float(line.probed_columns) for line in lines]),
        "of_full": cached.operations / full.operations,
        "won": pairs.only_first,
        "lost": pairs.only_second,
        "differences": [
            [cluster, float(one) - float(other)]
            for cluster, one, other in zip(clusters, pairs.first, pairs.second, strict=True)
        ],
    }


def pooled(rows: Sequence[Row]) -> Row:
    """Cached against full over all tasks and lengths: points of Pass@1, with whole functions resampled."""
    by_function: dict[str, list[float]] = {}
    for row in rows:
        for cluster, difference in row["differences"]:
            by_function.setdefault(cluster, []).append(difference)
    sums = [(sum(each), float(len(each))) for each in by_function.values()]
    low, high = bootstrap(sums, ratio_of_sums)
    full, cached = (sum(row[f"operations_{kind}"] for row in rows) for kind in (FULL, CACHED))
    return {
        "n": sum(row["n"] for row in rows),
        "difference": PERCENT * ratio_of_sums(sums),
        "difference_interval": [PERCENT * low, PERCENT * high],
        "won": sum(row["won"] for row in rows),
        "lost": sum(row["lost"] for row in rows),
        "of_full": cached / full,
    }


def present(result: Mapping[str, Any]) -> Presented:
    rows = result["rows"]
    tables = [_task_table(task, rows) for task in result["settings"]["tasks"]]
    summary = [
        {"decoder": decoder} | pooled([row for row in rows if row["decoder"] == decoder])
        for decoder in DECODERS
    ]
    return Presented([_summary_table(summary), *tables])


def _summary_table(rows: Sequence[Row]) -> Table:
    return table_of(
        f"The prompt cache on gaps, all lengths and kinds together, n = {rows[0]['n']}",
        (
            Field("decoder"),
            Field("difference", "points of Pass@1, cached - full", 1),
            Field("won", digits=0),
            Field("lost", digits=0),
            Field("of_full", "cost, full = 1", 3),
        ),
        rows,
        [
            "Won, lost: gaps that only the cached or only the full decoding fills rightly. Cost: counted "
            "operations, searches for lengths included. Intervals: whole functions resampled.",
        ],
    )


def _task_table(task: str, rows: Sequence[Row]) -> Table:
    own = [row for row in rows if row["task"] == task]
    return table_of(
        f"{task}, n = {own[0]['n']}",
        (
            Field("", "length", of=lambda row: RULES[row["rule"]]),
            Field("decoder"),
            Field("solved_full", "Pass@1 (%)", 1),
            Field("solved_cached", "cached", 1),
            Field("exact_full", "exact (%)", 1),
            Field("exact_cached", "cached", 1),
            Field("cost_full", "cost"),
            Field("cost_cached", "cached"),
            Field("tokens", "tokens of a gap", 1),
            Field("probed", "columns searched", 0),
        ),
        own,
        [
            "Pass@1 by the hidden asserts too. Cost: counted operations, searches included, over those of "
            "Saber with every pass full and the oracle's length. Cached: refreshed by surprise, 0.3 nats. "
            "Intervals: whole functions resampled. Dev problems: they confirm nothing.",
        ],
    )
