"""Arms: rows of a table, how they stand to each other, and times taken in turn, which can be compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from archer.costs.counting import count_passes
from archer.model import Model
from archer.pages.tables import Field
from archer.runs.decoding import encode
from archer.runs.statistics import Pairs, bootstrap, mean, ratio_of_sums, wilson
from archer.runs.workspace import Arm, Workspace
from archer_studies.probes.shadow_passes import require_unchanged, walk
from archer_studies.study import Row

Label = TypeVar("Label", bound=str)
PERCENT = 100.0
TRAINED = "pocket"
"""The bundled model whose companions were trained alike."""
SHIFTED, BLIND, GRIDS = "pocket-dream", "pocket-blind", "pocket-sudoku"
SCORES = (Field("base", "Pass@1 (%)", 1), Field("extended", "extended (%)", 1))
TIMES = (
    Field("updates", digits=1),
    Field("full_passes", "full", 1),
    Field("cached_passes", "cached", 1),
    Field("seconds", digits=3),
    Field("speedup"),
    Field("speedup_predicted", "predicted"),
)
"""What a problem took."""
WON = (Field("base_only", "won"), Field("base_only_other", "lost"))
"""Problems that only the arm, and that only its rival solves."""
RADIUS = 8
ADAPTIVE: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("no-rollback", "No rollback", {}),
    ("saber", "Saber", {}),
    ("archer", f"Archer K={RADIUS}", {"radius": RADIUS}),
)
"""Method, label and settings of the decoders that choose the number of tokens from their confidence."""
WARM_UP = 8
"""Updates before a timed decoding: enough for passes of both kinds."""


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


def compared(arm: Arm, label: str, other: Arm, model: Model) -> Row:
    """Both: the arm by itself, and how it stands to another one."""
    return described(arm, label, model) | against(arm, other, model)


def against(arm: Arm, other: Arm, model: Model) -> Row:
    """How an arm stands to another one on the same problems; the speed where both were decoded in turn."""
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


def digits(verdicts: Iterable[bool]) -> str:
    """Verdicts as a result keeps them, one digit for each problem in the order of the task."""
    return "".join("1" if each else "0" for each in verdicts)


def facts(digits: str) -> list[bool]:
    """The verdicts that a result has kept."""
    return [digit == "1" for digit in digits]


def in_turn(
    workspace: Workspace,
    arms: Mapping[Label, Arm],
    keys: Sequence[str] | None = None,
    spaces: Mapping[Label, Workspace] | None = None,
) -> dict[Label, Arm]:
    """The arms, which share their problems, with times of some of these, the first ones by default.

    `spaces` has the arms' own workspaces where they differ.  Every arm makes a few updates beforehand.
    Whatever differs from the runs is refused.
    """
    chosen = list(next(iter(arms.values())).keys[: workspace.scale.timed] if keys is None else keys)
    requests = {
        label: (spaces or {}).get(label, workspace).again(arm) for label, arm in arms.items()
    }
    samples = {
        label: [each for each in request.task.samples() if str(each.id) in chosen]
        for label, request in requests.items()
    }
    prompts = {label: encode(requests[label], each) for label, each in samples.items()}
    for label, request in requests.items():
        for _ in islice(walk(request, prompts[label][chosen[0]]), WARM_UP):
            pass
    times: dict[Label, dict[str, float]] = {label: {} for label in arms}
    for key in chosen:
        for label, arm in arms.items():
            (completion,) = walk(requests[label], prompts[label][key]).finish()
            require_unchanged(arm, key, completion)
            times[label][key] = completion.seconds.total
    return {label: replace(arm, in_turn=times[label]) for label, arm in arms.items()}


def companion(workspace: Workspace, name: str) -> Workspace | None:
    """The same tasks with a model of the same training, in a folder of its own; None for another model."""
    model = workspace.model
    if model.name != TRAINED:
        return None
    other = Model.open(replace(model.source, model=name))
    executor = workspace.hire(other) if workspace.hire is not None else None
    return replace(workspace, model=other, out=workspace.out / name, executor=executor)
