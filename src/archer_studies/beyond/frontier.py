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

from archer.pages.figures import Figure, Labels, frontiers
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, series, table_of
from archer.passes.work import Work, operations
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import FULL, Workspace
from archer.tune.candidates import Candidate
from archer_studies.arms import GRIDS, SHIFTED, TRAINED, WARM_UP, companion
from archer_studies.beyond.price import PricedArm, decoded, row_of, spent
from archer_studies.equal_cost import efficient, gain, ratio
from archer_studies.probes.shadow_passes import walk
from archer_studies.study import Measured, Row

TITLE = "The price of an answer"
ABOUT = "Pass@1 against operations with rollback and without, at equal price"
SHORT, LONG, PUZZLES = "pocket-dev", "pocket-dev-long", "pocket-sudoku"
PANELS = {
    SHORT: "functions, short prompts",
    LONG: "functions, long prompts",
    PUZZLES: "grids of Sudoku",
}
SIZES = {
    (TRAINED, SHORT): (96, 8),
    (TRAINED, LONG): (32, 4),
    (SHIFTED, SHORT): (48, 0),
    (SHIFTED, LONG): (16, 0),
    (GRIDS, PUZZLES): (96, 6),
}
"""Problems of each, the first ones of the dev sets, and how many of them are decoded in turn, for times."""
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
WIDER = (
    PricedArm("wide", "Saber, 256 tokens", "saber", {"length": 256}),
    PricedArm("wide", "archer-cut, up to 256 tokens", "archer-cut", {"length": 256}),
)
"""Timed beside the others where prompts are short, and not scored."""
PEERS = ("+dual", "+prefix", "+dkv-decode", "fast-dllm")


def measure(workspace: Workspace) -> Measured:
    scale, name = workspace.scale, workspace.model.name
    spaces: dict[str, Workspace | None] = {name: workspace}
    sizes = {(name, workspace.task): (scale.problems, scale.timed)}
    if name == TRAINED:
        spaces |= {other: companion(workspace, other) for other in (SHIFTED, GRIDS)}
        whole = scale.problems >= FULL.problems
        sizes = {
            key: (problems if whole else scale.problems, min(timed, scale.timed))
            for key, (problems, timed) in SIZES.items()
        }
    rows = [
        row
        for (model, task), (problems, timed) in sizes.items()
        if (space := spaces[model]) is not None
        for row in _rows(space, task, problems, timed)
    ]
    return Measured(rows[0]["n"], rows, {"tasks": sorted({task for _, task in sizes})})


def _rows(workspace: Workspace, task: str, problems: int, timed: int) -> list[Row]:
    shifted = workspace.model.folder.shape.shift
    arms = [
        arm
        for arm in (GAMES if task == PUZZLES else FUNCTIONS)
        if not (shifted and arm.method.startswith(SHADOWED))
    ]
    wider = WIDER if timed and task not in (LONG, PUZZLES) else ()
    rows = [row_of(arm, decoded(workspace, arm, task, problems), workspace) for arm in arms]
    rows += [{"model": workspace.model.name, "role": arm.role, "arm": arm.label} for arm in wider]
    taken = times(workspace, task, (*arms, *wider), timed) if timed else [{} for _ in rows]
    return [{"task": task, **row, **time} for row, time in zip(rows, taken, strict=True)]


def times(workspace: Workspace, task: str, arms: Sequence[PricedArm], problems: int) -> list[Row]:
    """Of every arm its seconds per problem, all arms in turn after a few updates of each.

    Beside them what they are by counted operations; both over the first arm on the same problems.
    """
    requests = [workspace.request(arm.method, task, problems, **arm.settings) for arm in arms]
    prompts = workspace.prompts(requests[0])
    for request in requests:
        for _ in islice(walk(request, next(iter(prompts.values()))), WARM_UP):
            pass
    seconds: list[list[float]] = [[] for _ in arms]
    counted = [0] * len(arms)
    for prompt in prompts.values():
        for place, request in enumerate(requests):
            stream, work = walk(request, prompt), Work()
            for step in stream:
                work += step.work
            (done,) = stream.finish()
            seconds[place].append(done.seconds.total)
            counted[place] += operations(work, workspace.model.folder.shape)
    return [
        {
            "timed": len(taken),
            "seconds": mean(taken),
            "seconds_interval": list(bootstrap(taken, mean)),
            "speedup": ratio_of_sums(pairs),
            "speedup_interval": list(bootstrap(pairs, ratio_of_sums)),
            "speedup_predicted": counted[0] / own,
        }
        for taken, own in zip(seconds, counted, strict=True)
        for pairs in [list(zip(seconds[0], taken, strict=True))]
    ]


def groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """The arms by model and task, each with its cost, and with its gain where it takes tokens back."""
    arms: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["role"] != "wide":
            arms.setdefault((row["model"], row["task"]), []).append(row)
    return {key: _beside(mine) for key, mine in arms.items()}


def _beside(rows: Sequence[Row]) -> list[Row]:
    saber = next(row for row in rows if row["role"] == "saber")
    others = efficient([spent(row) for row in rows if row["role"] == "without"])
    arms = []
    for row in rows:
        cost, interval = ratio(spent(row), spent(saber))
        more: Row = {"cost": cost, "cost_interval": list(interval)}
        if row["role"] != "without":
            above = gain(spent(row), others)
            more |= {"gain": above.points, "gain_interval": list(above.interval), "p": above.p}
        arms.append({**row, **more})
    return arms


def present(result: Mapping[str, Any]) -> Presented:
    arms = groups(result["rows"])
    tables = [_table(*key, rows) for key, rows in arms.items()]
    timed: dict[tuple[str, str], list[Row]] = {}
    for row in result["rows"]:
        if "seconds" in row:
            timed.setdefault((row["model"], row["task"]), []).append(row)
    tables += [_times(f"{model} on {task}", rows) for (model, task), rows in timed.items()]
    shown = {key: rows for key, rows in arms.items() if key[0] != SHIFTED}
    other = {key: rows for key, rows in arms.items() if key[0] == SHIFTED}
    figures = {"price": _figure(shown, "cost", "operations over eager Saber's")}
    if other:
        figures["price-dream"] = _figure(other, "cost", "operations over eager Saber's")
    figures["time"] = _figure(shown, "seconds", "seconds per problem")
    return Presented(tables, figures)


def _table(model: str, task: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Price and score: {model} on {task}, n = {rows[0]['n']}",
        (
            Field("arm"),
            Field("", "takes back", of=lambda row: "no" if row["role"] == "without" else "yes"),
            Field("base", "solved (%)", 1),
            Field("cost", digits=3),
            Field("updates", digits=1),
            Field("full_passes", "full passes", 1),
            Field("gain", "points at equal cost", 1),
            p_value("p"),
            Field("", "decoded by", of=lambda row: Candidate(row["method"], row["settings"]).label),
        ),
        rows,
        [
            "Cost: counted operations over eager Saber's. Points at equal cost: beside the line through the "
            "best arms that never take back. p: bootstrap over problems, two-sided, not adjusted.",
            "Decoded by: method and settings, as archer tune takes a candidate.",
        ],
    )


def _times(title: str, rows: Sequence[Row]) -> Table:
    return table_of(
        f"Seconds per problem, in turn: {title}, n = {rows[0]['timed']}",
        (
            Field("arm"),
            Field("seconds", digits=3),
            Field("speedup", "times as fast as Saber", 2),
            Field("speedup_predicted", "by operations", 2),
        ),
        rows,
        [
            "Bootstrap intervals of 95 % over problems. One thread. Saber: eager, with the usual length."
        ],
    )


def _kind(row: Row) -> str:
    if row["role"] == "saber":
        return SABER.label
    if row["method"] == "archer-cut":
        return "archer-cut"
    if row["role"] != "without":
        return "others that take tokens back"
    peer = any(each in row["method"] for each in PEERS)
    return "never take back, caches of peers" if peer else "never take back, our caches"


def _figure(arms: Mapping[tuple[str, str], Sequence[Row]], x: str, named: str) -> Figure:
    """A panel for each model and task, score over what it took."""
    kinds = sorted({_kind(row) for rows in arms.values() for row in rows})
    panels = {
        PANELS.get(task, task): [
            series(kind, [row[x] for row in mine], mine, "base")
            for kind in kinds
            for mine in [[row for row in rows if _kind(row) == kind]]
        ]
        for (model, task), rows in arms.items()
    }
    labels = Labels("Score against price", named, "solved (%)")
    return frontiers(panels, labels, highlight=(SABER.label, "archer-cut"))
