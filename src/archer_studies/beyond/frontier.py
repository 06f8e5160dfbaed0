"""What rollback is worth at every price: arms that take tokens back beside those that never do, on dev.

Every arm has the same cache and, where it can, the same cut of the canvas, so what differs is the decoder.
Peers with their own caches stand beside them.  Two models and two kinds of problem.  Nothing is tested here
that was planned: p values are not adjusted, and the arms without rollback that an arm is set beside are the
best of those that were measured, on the same problems: so gains are told too small rather than too large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from archer.pages.figures import Figure, Labels, frontier
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, series, table_of
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import FULL, Workspace
from archer_studies.arms import GRIDS, SHIFTED, TRAINED, WARM_UP, companion
from archer_studies.beyond.price import PricedArm, decoded, row_of, spent
from archer_studies.equal_cost import efficient, gain, ratio
from archer_studies.probes.shadow_passes import walk
from archer_studies.study import Measured, Row

TITLE = "The price of an answer"
ABOUT = "Pass@1 against operations with rollback and without, at equal price"
SHORT, LONG, PUZZLES = "pocket-dev", "pocket-dev-long", "pocket-sudoku"
SIZES = {
    (TRAINED, SHORT): 80,
    (TRAINED, LONG): 24,
    (SHIFTED, SHORT): 40,
    (GRIDS, PUZZLES): 60,
}
"""Problems of each, the first ones of the dev sets."""
TIMED = 6
CUT = {"canvas": "auto"}
SHADOWED = "wino"
"""Its shadow columns have no meaning where logits are shifted by one."""
SABER = PricedArm("saber", "Saber, eager", "saber", {})


def _rollback(label: str, method: str, **settings: Any) -> PricedArm:
    return PricedArm("rollback", label, method, settings)


def _without(label: str, method: str, **settings: Any) -> PricedArm:
    return PricedArm("without", label, method, settings)


FUNCTIONS = (
    SABER,
    _rollback("archer, K = 8", "archer"),
    _rollback("archer-doubt", "archer-doubt"),
    _rollback("archer-cut, cap .999", "archer-cut", cap=0.999),
    PricedArm("default", "archer-cut", "archer-cut", {}),
    _rollback("archer-cut, cap .95", "archer-cut", cap=0.95),
    _rollback("archer-cut, cap .9", "archer-cut", cap=0.9),
    _rollback("archer-doubt, cap .99, not cut", "archer-doubt", cap=0.99),
    _rollback(
        "archer-cut, sure tokens rest",
        "saber-rest+surprise",
        doubt=1.0,
        doubt_by="kept",
        cap=0.99,
        **CUT,
    ),
    _rollback("WINO, surprise", "wino+surprise"),
    _rollback("RCR, 2 per update, surprise", "rcr:32+surprise"),
    *(
        _without(f"threshold {level}, cut", f"threshold:0{level}+surprise", **CUT)
        for level in (".99", ".95", ".9", ".8")
    ),
    _without("threshold .95, not cut", "threshold:0.95+surprise"),
    _without("factor .5, cut", "factor:0.5+surprise", **CUT),
    _without("factor 1, cut", "factor:1+surprise", **CUT),
    _without("entropy bound .01, cut", "entropy-bound:0.01+surprise", **CUT),
    _without("entropy bound .1, cut", "entropy-bound:0.1+surprise", **CUT),
    _without("2 per update, cut", "confidence:32+surprise", **CUT),
    _without("4 per update, cut", "confidence:16+surprise", **CUT),
    _without("threshold .95, late, cut", "threshold:0.95+late", **CUT),
    _without("threshold .95, K = 8, cut", "threshold:0.95+archer", **CUT),
    _without("Fast-dLLM: threshold .9, dual", "threshold:0.9+dual"),
    _without("Fast-dLLM: factor 1, dual", "fast-dllm-parallel"),
    _without("Fast-dLLM: threshold .9, prefix", "threshold:0.9+prefix"),
    _without("dKV-Cache: threshold .9", "threshold:0.9+dkv-decode"),
)
"""The caches keep the prompt; nats, shares and radii are the defaults."""
GAMES = (
    SABER,
    _rollback("saber, surprise", "saber+surprise"),
    _rollback("archer-doubt", "archer-doubt"),
    PricedArm("default", "archer-cut", "archer-cut", {}),
    _rollback("archer-cut, cap .95", "archer-cut", cap=0.95),
    _rollback("archer-cut, cap .9", "archer-cut", cap=0.9),
    _rollback("WINO, surprise", "wino+surprise"),
    *(
        _without(f"threshold {level}", f"threshold:0{level}+surprise")
        for level in (".999", ".99", ".95", ".9")
    ),
    _without("factor .5", "factor:0.5+surprise"),
    _without("entropy bound .01", "entropy-bound:0.01+surprise"),
    _without("Fast-dLLM: threshold .9, dual", "threshold:0.9+dual"),
)
"""Where a canvas cannot be cut."""
IN_TURN = {
    "Saber, 64 tokens": ("saber", {}),
    "Saber, 256 tokens": ("saber", {"length": 256}),
    "archer, K = 8": ("archer", {}),
    "archer-doubt": ("archer-doubt", {}),
    "archer-cut": ("archer-cut", {}),
    "archer-cut, up to 256 tokens": ("archer-cut", {"length": 256}),
    "threshold .95, surprise": ("threshold:0.95+surprise", {}),
    "Fast-dLLM: factor 1, dual": ("fast-dllm-parallel", {}),
}
"""Arms whose time is measured, on problems that all of them decode in turn."""


def measure(workspace: Workspace) -> Measured:
    spaces = {workspace.model.name: workspace}
    for name in (SHIFTED, GRIDS):
        other = companion(workspace, name)
        if other is not None:
            spaces[name] = other
    own = workspace.model.name if workspace.model.name == TRAINED else None
    rows = [
        {"part": "arm", "task": task, **row}
        for (model, task), size in SIZES.items()
        if own is not None and model in spaces
        for row in _rows(spaces[model], task, size)
    ]
    if own is None:
        rows = [
            {"part": "arm", "task": workspace.task, **row}
            for row in _rows(workspace, workspace.task, workspace.scale.problems)
        ]
    rows += times(workspace, SHORT if own else workspace.task)
    return Measured(rows[0]["n"], rows, {"timed": TIMED})


def _rows(workspace: Workspace, task: str, size: int) -> list[Row]:
    problems = size if workspace.scale.problems >= FULL.problems else workspace.scale.problems
    planned = GAMES if task == PUZZLES else FUNCTIONS
    shifted = workspace.model.folder.shape.shift
    return [
        row_of(arm, decoded(workspace, arm, task, problems), workspace)
        for arm in planned
        if not (shifted and arm.method.startswith(SHADOWED))
    ]


def times(workspace: Workspace, task: str) -> list[Row]:
    """Seconds per problem of some arms, decoded in turn, after a few updates of each."""
    requests = {
        label: workspace.request(method, task, TIMED, **settings)
        for label, (method, settings) in IN_TURN.items()
    }
    prompts = workspace.prompts(next(iter(requests.values())))
    keys = list(prompts)[: min(TIMED, workspace.scale.timed)]
    for request in requests.values():
        for _ in islice(walk(request, prompts[keys[0]]), WARM_UP):
            pass
    seconds: dict[str, list[float]] = {label: [] for label in requests}
    for key in keys:
        for label, request in requests.items():
            (done,) = walk(request, prompts[key]).finish()
            seconds[label].append(done.seconds.total)
    first = next(iter(seconds.values()))
    return [
        {
            "part": "time",
            "task": task,
            "arm": label,
            "n": len(keys),
            "seconds": mean(taken),
            "seconds_interval": list(bootstrap(taken, mean)),
            "speedup": ratio_of_sums(pairs),
            "speedup_interval": list(bootstrap(pairs, ratio_of_sums)),
        }
        for label, taken in seconds.items()
        for pairs in [list(zip(first, taken, strict=True))]
    ]


def groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """The arms by model and task, each with its cost, and with its gain where it takes tokens back."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["part"] == "arm":
            found.setdefault((row["model"], row["task"]), []).append(row)
    return {key: _beside(mine) for key, mine in found.items()}


def _beside(rows: Sequence[Row]) -> list[Row]:
    saber = next(row for row in rows if row["role"] == "saber")
    others = efficient([spent(row) for row in rows if row["role"] == "without"])
    told = []
    for row in rows:
        cost, interval = ratio(spent(row), spent(saber))
        more: Row = {"cost": cost, "cost_interval": list(interval)}
        if row["role"] != "without":
            above = gain(spent(row), others)
            more |= {"gain": above.points, "gain_interval": list(above.interval), "p": above.p}
        told.append({**row, **more})
    return told


def present(result: Mapping[str, Any]) -> Presented:
    tables, figures = [], {}
    for (model, task), rows in groups(result["rows"]).items():
        tables.append(_table(f"{model} on {task}", rows))
        figures[f"{model}-{task}"] = _figure(f"{model} on {task}", rows)
    timed = [row for row in result["rows"] if row["part"] == "time"]
    return Presented([*tables, _times(timed)], figures)


def _table(title: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Price and score: {title}, n = {rows[0]['n']}",
        (
            Field("arm"),
            Field("", "takes back", of=lambda row: "no" if row["role"] == "without" else "yes"),
            Field("base", "solved (%)", 1),
            Field("cost", digits=3),
            Field("updates", digits=1),
            Field("full_passes", "full passes", 1),
            Field("gain", "points at equal cost", 1),
            p_value("p"),
        ),
        rows,
        [
            "Cost: counted operations over eager Saber's. Points at equal cost: beside the line through the "
            "best arms that never take back. p: bootstrap over problems, two-sided, not adjusted.",
        ],
    )


def _figure(title: str, rows: Sequence[Row]) -> Figure:
    sides = {
        "takes tokens back": [row for row in rows if row["role"] != "without"],
        "never does": [row for row in rows if row["role"] == "without"],
    }
    return frontier(
        [
            series(label, [row["cost"] for row in side], side, "base")
            for label, side in sides.items()
        ],
        Labels(f"Score against price: {title}", "operations over eager Saber's", "solved (%)"),
    )


def _times(rows: Sequence[Row]) -> Table:
    return table_of(
        f"Seconds per problem, in turn, n = {rows[0]['n']}",
        (
            Field("arm"),
            Field("seconds", digits=3),
            Field("speedup", "times as fast as Saber with 64", 2),
        ),
        rows,
        ["Bootstrap intervals of 95 % over problems. One thread."],
    )
