"""What a search found: plain data, tables and a figure of it, and the preset."""

from collections.abc import Mapping, Sequence
from typing import Any

from archer.methods.build import Recommended
from archer.methods.presets import Preset
from archer.pages.figures import Labels
from archer.pages.figures import frontier as drawn
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, series, table_of
from archer.runs.statistics import Pairs, wilson
from archer.tune.candidates import REFERENCE
from archer.tune.choice import PERCENT, ChosenMethod, Goal, apart, choose, frontier
from archer.tune.search import Search, SearchHistory

Row = dict[str, Any]

NAME = "tune"
MOST_DRAWN = 11
"""The most points in the figure, one per sign; those off the frontier are left out first."""


def result_of(search: Search, history: SearchHistory, goal: Goal) -> dict[str, Any]:
    """Everything that is told, as one object; the same for the same records."""
    choice = choose(history.finalists, REFERENCE, goal)
    return {
        "study": NAME,
        "title": "Search for a method",
        "n": len(history.finalists[REFERENCE].solved),
        "settings": {
            "model": search.workspace.model.name,
            "task": search.task,
            "minutes": search.minutes,
            "candidates": len(history.candidates),
            "rounds": [
                {"methods": len(each.shown), "problems": len(each.shown[REFERENCE].solved)}
                for each in history.rounds
            ],
        },
        "goal": {"at_least": goal.at_least, "at_most": goal.at_most},
        "choice": {
            "method": choice.label,
            "reason": choice.reason,
            "warnings": list(choice.warnings),
        },
        "rows": _rows(history, choice),
        "paper": {},
    }


def _rows(history: SearchHistory, choice: ChosenMethod) -> list[Row]:
    finalists = history.finalists
    best = frontier(finalists)
    chances = {} if choice.label is None else apart(finalists, choice.label)
    rows = []
    for label in history.candidates:
        seen = history.seen(label)
        n, solved = len(seen.solved), sum(seen.solved)
        same = history.seen(REFERENCE).operations[:n]
        row: Row = {
            "arm": label,
            "n": n,
            "base": PERCENT * solved / n,
            "base_interval": [PERCENT * each for each in wilson(solved, n)],
            "cost": seen.cost / sum(same),
            "operations": seen.cost / n,
            "seconds": history.seconds(label),
            "rounds": history.last(label),
            "finalist": label in finalists,
            "frontier": label in best,
            "chosen": label == choice.label,
        }
        if label in chances and choice.label is not None:
            both = Pairs(finalists[choice.label].solved, seen.solved)
            row |= {"won": both.only_second, "lost": both.only_first, "p": chances[label]}
        rows.append(row)
    return sorted(rows, key=lambda row: (not row["finalist"], row["cost"], row["arm"]))


def preset_of(search: Search, result: Mapping[str, Any]) -> Preset | None:
    """The chosen method with all its settings; None where there is none."""
    label = result["choice"]["method"]
    if label is None:
        return None
    (row,) = (row for row in result["rows"] if row["chosen"])
    advice = Recommended(length=search.workspace.open(search.task).length)
    method = search.candidates[label].build(advice)
    about = {
        "chosen by": "archer tune",
        "because": result["choice"]["reason"],
        "model": result["settings"]["model"],
        "task": result["settings"]["task"],
        "n": row["n"],
        "score (%)": row["base"],
        "cost (Saber = 1)": row["cost"],
    }
    return Preset.of(method, about)


def present(result: Mapping[str, Any]) -> Presented:
    """From the result alone."""
    finalists = [row for row in result["rows"] if row["finalist"]]
    others = [row for row in result["rows"] if not row["finalist"]]
    tables = [_finalists(result, finalists)]
    if others:
        tables.append(_others(others))
    task = result["settings"]["task"]
    kept = sorted(finalists, key=lambda row: (not row["frontier"], row["cost"]))[:MOST_DRAWN]
    points = [series(row["arm"], [row["cost"]], [row], "base") for row in kept]
    labels = Labels(f"Score against cost on {task}", "cost, eager Saber = 1", "score (%)")
    choice = result["choice"]
    return Presented(tables, {"frontier": drawn(points, labels)}, notes=choice["warnings"])


FIELDS = (Field("base", "score (%)", 1), Field("cost", digits=3), Field("seconds", digits=3))


def _finalists(result: Mapping[str, Any], rows: Sequence[Row]) -> Table:
    return table_of(
        f"Methods on {result['settings']['task']}, n = {result['n']}",
        (
            Field("arm", "method"),
            *FIELDS,
            Field("won"),
            Field("lost"),
            p_value("p"),
            Field("", "", of=_mark),
        ),
        rows,
        [
            "Cost: counted operations over those of eager Saber on the same problems. Seconds: measured "
            "during the search, each method at its own moment, so they compare only roughly. Score: 95 % "
            "interval.",
            "Won, lost: problems that only this or only the chosen method solves; p: exact McNemar, adjusted "
            "by Holm.",
            "The methods were chosen on these problems: a score is higher here than it will be on others.",
        ],
    )


def _mark(row: Mapping[str, Any]) -> str:
    return "chosen" if row["chosen"] else "frontier" if row["frontier"] else ""


def _others(rows: Sequence[Row]) -> Table:
    return table_of(
        f"Methods dropped earlier, n = {min(row['n'] for row in rows)} to {max(row['n'] for row in rows)}",
        (Field("arm", "method"), Field("n", "problems"), *FIELDS),
        rows,
        ["A method is dropped when others at no higher cost solve more of the same problems."],
    )
