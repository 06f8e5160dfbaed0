"""A canvas that follows its answer beside canvases of fixed length: scores, cost, and what is paid for."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from archer.engine.footprint import kept_bytes
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, table_of
from archer.request.fill import AUTO
from archer.runs.statistics import bootstrap, mean, ratio_of_sums, wilson
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import PERCENT
from archer_studies.probes.shadow_passes import require_unchanged, walk
from archer_studies.study import Measured, Row

TITLE = "Length"
ABOUT = "A canvas that follows its answer beside canvases of 64, 128 and 256"
CANVASES: Mapping[str, Mapping[str, Any]] = {
    "64": {"length": 64},
    "128": {"length": 128},
    "256": {"length": 256},
    "auto, at most 64": {"length": AUTO, "max_length": 64},
    "auto, at most 256": {"length": AUTO, "max_length": 256},
}
FEWER_AT = "256"
"""A fixed canvas that is asked a part of the problems: an update costs up to ten times as much."""
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Saber": ("saber", {}),
    "archer-doubt": ("archer-doubt", {}),
    "archer-doubt, cap 0.99": ("archer-doubt", {"cap": 0.99}),
    "threshold + surprise": ("threshold+surprise", {"nats": 0.3}),
}
MOST = 60
PART = 4
"""One problem in N is asked with the longest fixed canvas, and looked at for columns and bytes."""
BASE = ("Saber", "64")
SMALLER = {"256": "64", "auto, at most 256": "auto, at most 64"}
"""Canvases with room for more, and those that say what the room costs."""


def measure(workspace: Workspace) -> Measured:
    task = workspace.dev_task or workspace.task
    few = min(MOST, workspace.scale.problems)
    arms = {
        (method, canvas): workspace.arm(name, task, _size(few, canvas), **settings, **length)
        for method, (name, settings) in METHODS.items()
        for canvas, length in CANVASES.items()
    }
    rows = [
        {"method": method, "canvas": canvas}
        | _row(workspace, arm, arms[BASE], _part(few))
        | _compared("growth", arm, arms[method, SMALLER.get(canvas, canvas)])
        for (method, canvas), arm in arms.items()
    ]
    return Measured(few, rows, {"tasks": [task], "watched": _part(few)})


def _size(few: int, canvas: str) -> int:
    return _part(few) if canvas == FEWER_AT else few


def _part(problems: int) -> int:
    return -(-problems // PART)


def _row(workspace: Workspace, arm: Arm, base: Arm, watched: int) -> Row:
    solved = arm.solved()
    low, high = wilson(sum(solved), len(solved))
    lines = [arm.run.recorded.samples[key] for key in arm.keys]
    return {
        "n": len(solved),
        "base": PERCENT * mean([float(each) for each in solved]),
        "base_interval": [PERCENT * low, PERCENT * high],
        **_compared("cost", arm, base),
        "updates": arm.summary.per_problem["updates"],
        "full_passes": arm.summary.per_problem["full_passes"],
        "answer": mean([float(_answer(workspace, line.tokens)) for line in lines]),
        "columns": mean([float(len(line.tokens)) for line in lines]),
        **_paid(workspace, arm, watched),
    }


def _compared(name: str, arm: Arm, other: Arm) -> Row:
    """Operations over those of another arm on the same problems."""
    one, two = (each.run.recorded.samples for each in (arm, other))
    pairs = [(float(one[key].operations), float(two[key].operations)) for key in arm.keys]
    return {
        name: ratio_of_sums(pairs),
        f"{name}_interval": list(bootstrap(pairs, ratio_of_sums)),
    }


def _answer(workspace: Workspace, tokens: Sequence[int]) -> int:
    """Tokens of an answer with its end mark."""
    return len(workspace.model.language.visible(tokens)) + 1


def _paid(workspace: Workspace, arm: Arm, watched: int) -> Row:
    """Of the first problems, decoded once more: columns for each token of the answer, and bytes held."""
    request, model = workspace.again(arm), workspace.model
    prompts = workspace.prompts(request)
    columns, tokens, held, most = 0, 0, [], []
    for key in islice(arm.keys, watched):
        stream = walk(request, prompts[key])
        policy = stream.request.method.policy
        own = []
        for step in stream:
            columns += step.calls[0].fed
            own.append(kept_bytes(model.network, policy, step.canvas))
        (done,) = stream.finish()
        require_unchanged(arm, key, done)
        tokens += _answer(workspace, done.tokens)
        held.append(mean([float(each) for each in own]))
        most.append(float(max(own)))
    return {
        "paid": columns / tokens,
        "kilobytes": mean(held) / 1000,
        "most_kilobytes": mean(most) / 1000,
    }


def present(result: Mapping[str, Any]) -> Presented:
    return Presented([_table(result), _growth(result["rows"], result["n"])])


def _table(result: Mapping[str, Any]) -> Table:
    (task,) = result["settings"]["tasks"]
    return table_of(
        f"Canvases on {task}, n = {result['n']}",
        (
            Field("method"),
            Field("canvas"),
            Field("n", digits=0),
            Field("base", "Pass@1 (%)", 1),
            Field("cost", "cost, Saber at 64 = 1"),
            Field("paid", "columns per token of the answer", 0),
            Field("columns", "columns at the end", 1),
            Field("updates", digits=1),
            Field("kilobytes", "kB held, mean", 0),
            Field("most_kilobytes", "kB held, most", 0),
        ),
        result["rows"],
        [
            "Cost: counted operations over those of eager Saber with 64 columns on the same problems. The "
            "end mark counts as a token of the answer. Held: keys and values of a request, mean over its "
            f"updates and the most, on {result['settings']['watched']} problems; the engine admits by them. "
            "Dev problems: they confirm nothing.",
        ],
    )


def _growth(rows: Sequence[Row], n: int) -> Table:
    """What a larger limit costs."""
    return table_of(
        f"Cost with room for 256 tokens over that with room for 64, n = {n}",
        (Field("method"), Field("canvas"), Field("n", digits=0), Field("growth", "times as much")),
        [row for row in rows if row["canvas"] in SMALLER],
        ["On the problems that both were asked."],
    )
