"""An arm as a row of a table: scores with intervals, costs, and how it stands to another arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archer.costs.counting import count_passes
from archer.model import Model
from archer.pages.figures import Series
from archer.pages.tables import Value
from archer.runs.statistics import Pairs, bootstrap, mean, ratio_of_sums, wilson
from archer.runs.workspace import Arm
from archer_studies.clusters import cell

Row = dict[str, Any]
PERCENT = 100.0
STANDS_FOR = {"pocket": "mbpp", "pocket-long": "livecodebench"}
"""The benchmark whose published figures stand beside ours, by prompt length."""


def described(arm: Arm, label: str, model: Model) -> Row:
    """Scores in per cent, costs per problem; seconds where arms were decoded in turn."""
    n, each = len(arm.keys), arm.summary.per_problem
    row: Row = {"arm": label, "n": n}
    for suite in arm.run.recorded.grades[arm.keys[0]].suites:
        wins = sum(arm.solved(suite))
        low, high = wilson(wins, n)
        row[suite] = PERCENT * wins / n
        row[f"{suite}_interval"] = [PERCENT * low, PERCENT * high]
    if arm.in_turn:
        seconds = list(arm.in_turn.values())
        row["timed"], row["seconds"] = len(seconds), mean(seconds)
        row["seconds_interval"] = list(bootstrap(seconds, mean))
    for name in ("updates", "full_passes", "cached_passes", "reused_passes"):
        row[name] = each[name]
    row["refresh_fraction"] = arm.summary.refresh_fraction
    row["operations"] = operations_of(arm, model) / n
    return row


def against(arm: Arm, other: Arm, model: Model) -> Row:
    """How an arm stands to another one over the same problems: speed, its prediction, wins and losses.

    The speed is known where both were decoded in turn.
    """
    keys = arm.keys
    pairs = [(other.in_turn[key], arm.in_turn[key]) for key in arm.in_turn if key in other.in_turn]
    row: Row = {}
    if pairs:
        row["speedup"] = ratio_of_sums(pairs)
        row["speedup_interval"] = list(bootstrap(pairs, ratio_of_sums))
    row |= {
        "speedup_predicted": operations_of(other, model) / operations_of(arm, model),
        "same_completions": sum(
            arm.run.recorded.samples[key].tokens == other.run.recorded.samples[key].tokens
            for key in keys
        ),
    }
    for suite in arm.run.recorded.grades[keys[0]].suites:
        both = Pairs(arm.solved(suite), other.solved(suite))
        row[f"{suite}_only"], row[f"{suite}_only_other"] = both.only_first, both.only_second
        row[f"{suite}_p"] = both.p
    return row


def operations_of(arm: Arm, model: Model) -> int:
    """The cost model: operations of the passes that a run made, each full or cached (Eq. 16)."""
    shape = model.folder.shape
    total = 0
    for record in arm.run.recorded.samples.values():
        counts = count_passes(shape, record.prompt_tokens, len(record.tokens))
        total += record.full_passes * counts.full + record.cached_passes * counts.cached
    return total


def counted(arm: Arm, other: Arm) -> Row:
    """Cost and predicted speed by operations as they were made, where passes may leave columns out."""
    return {
        "operations": arm.operations / len(arm.keys),
        "speedup_predicted": other.operations / arm.operations,
        "cost": arm.operations / other.operations,
    }


def value(row: Row, name: str, paper: float | None = None) -> Value:
    """A cell of a number that a task may not have."""
    return cell({name: None, **row}, name, paper)


def series(label: str, x: Sequence[Any], rows: Sequence[Row], name: str) -> Series:
    """A line of a figure: one number of each row with its interval."""
    low, high = ([row[f"{name}_interval"][end] for row in rows] for end in (0, 1))
    return Series(label, x, [row[name] for row in rows], low, high)


def published(paper: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """The paper's figures for a task: its own, or those of the benchmark that a pocket task stands for."""
    found: Mapping[str, Any] = paper.get(STANDS_FOR.get(task, task), {})
    return found
