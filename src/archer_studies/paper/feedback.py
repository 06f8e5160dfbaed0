"""Matched states: the prompt refreshed right after a confident token, or only when its radius says so.

A run of Archer is cloned after the first update that accepted a token with confidence of at least 0.9 and
kept it. Fresh makes its next pass a full one; Cached goes on as it would have. An event in the last update
counts as none: there is no next update to intervene in.

That delays feedback in a model that was trained with it.  Beside the bundled model stands one of the same
training in which no column of the prompt sees the response: its prompt is computed once and its cache is
exact, whatever the radius.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archer.errors import ArcherError
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, table_of
from archer.runs.evaluation import Grader, open_grader
from archer.runs.manifest import RunRequest
from archer.runs.records import GradeLine
from archer.runs.statistics import Pairs, mcnemar, wilson
from archer.runs.workspace import Arm, Workspace
from archer.tasks.base import Sample
from archer_studies.arms import BLIND, SCORES, WON, companion, compared
from archer_studies.probes.branches import HORIZON, Branch, Event, branch, find_event
from archer_studies.probes.intervals import average, clustered_interval
from archer_studies.probes.shadow_passes import require_unchanged, walk
from archer_studies.study import Measured, Row

TITLE = "Delayed prompt feedback"
ABOUT = "What a prompt that sees the response at once, later or never is worth"
RADIUS = 11
CONFIDENCE = 0.9
BRANCHES = ("fresh", "cached")
TRAINING = "training"
"""The part of the rows that are about models of one training."""


def measure(workspace: Workspace) -> Measured:
    few = workspace.scale.probed
    arm = workspace.arm("archer", problems=few, radius=RADIUS)
    request = workspace.again(arm)
    prompts = workspace.prompts(request)
    rows: list[Row] = []
    with open_grader(request.task, unsafe_no_sandbox=workspace.unsafe_no_sandbox) as grader:
        for sample in workspace.samples(problems=few):
            rows.append(pair(request, arm, grader, sample, prompts[str(sample.id)]))
    pairs = [row for row in rows if row["event"] is not None]
    settings = {
        "radius": RADIUS,
        "confidence": CONFIDENCE,
        "horizon": HORIZON,
        "without_event": len(rows) - len(pairs),
        "refreshed_anyway": sum(row["refreshed_anyway"] for row in pairs),
        "same_completions": sum(row["same_completion"] for row in pairs),
    }
    trained = trained_rows(workspace)
    return Measured(len(pairs), [*summaries(pairs, _suites(arm)), *trained, *rows], settings)


def _suites(arm: Arm) -> list[str]:
    return list(arm.run.recorded.grades[arm.keys[0]].suites)


def pair(
    request: RunRequest, arm: Arm, grader: Grader, sample: Sample, prompt: Sequence[int]
) -> Row:
    """One problem: its event, both branches, both graded."""
    key = str(sample.id)
    stream = walk(request, prompt)
    event = find_event(stream, CONFIDENCE)
    if event is None:
        require_unchanged(arm, key, stream.finish()[0])
        return {"part": "pair", "problem": key, "event": None}
    method = stream.request.method
    cached = branch(request.model, method, event, len(prompt), refresh=False)
    fresh = branch(request.model, method, event, len(prompt), refresh=True)
    require_unchanged(arm, key, cached.completion)
    same = fresh.completion.tokens == cached.completion.tokens
    grades = arm.run.recorded.grades[key]
    return {
        "part": "pair",
        "problem": key,
        "event": event.to_dict(),
        "refreshed_anyway": event.distance >= RADIUS,
        "same_completion": same,
        "cached": _described(cached, event, grades),
        "fresh": _described(fresh, event, grades if same else _graded(grader, sample, fresh)),
    }


def _graded(grader: Grader, sample: Sample, future: Branch) -> GradeLine:
    record = grader.record(sample, future.completion.text or "")
    if record is None:
        raise ArcherError(
            f"Problem {sample.id}: the judge failed on the fresh branch. Run the study again."
        )
    return record


def _described(future: Branch, event: Event, grades: GradeLine) -> Row:
    done = future.completion
    return {
        "revised_at": future.revised_at(event),
        "passed": {suite: grades.passed(suite) for suite in grades.suites},
        "updates": done.updates,
        "full_passes": done.full_passes,
        "cached_passes": done.cached_passes,
    }


def summaries(pairs: Sequence[Row], suites: Sequence[str]) -> list[Row]:
    """Each branch, and each suite as a paired test. A pair is a problem: intervals need no clusters."""
    rows = [_branch_summary(name, pairs, suites) for name in BRANCHES]
    for suite in suites:
        both = Pairs(*([row[name]["passed"][suite] for row in pairs] for name in BRANCHES))
        rows.append(
            {
                "part": "test",
                "suite": suite,
                "n": len(pairs),
                "fresh_only": both.only_first,
                "cached_only": both.only_second,
                "p": both.p,
            }
        )
    return rows


def _branch_summary(name: str, pairs: Sequence[Row], suites: Sequence[str]) -> Row:
    summary: Row = {"part": "branch", "branch": name, "n": len(pairs)}
    for suite in suites:
        summary |= _share(suite, [row[name]["passed"][suite] for row in pairs])
    steps = [row[name]["revised_at"] for row in pairs]
    summary |= _share("revised", [step is not None for step in steps])
    taken = [step for step in steps if step is not None]
    summary["step"] = average(taken)
    summary["step_interval"] = clustered_interval([[step] for step in taken], average)
    return summary


def _share(name: str, hits: Sequence[bool]) -> Row:
    """Per cent with an interval; None of nothing."""
    if not hits:
        return {name: None, f"{name}_interval": None}
    interval = [100.0 * bound for bound in wilson(sum(hits), len(hits))]
    return {name: 100.0 * sum(hits) / len(hits), f"{name}_interval": interval}


def present(result: Mapping[str, Any]) -> Presented:
    rows, settings = result["rows"], result["settings"]
    tests = [row for row in rows if row["part"] == "test"]
    suites = [row["suite"] for row in tests]
    branches = table_of(
        f"One early refresh on {settings['task']}, n = {result['n']} pairs",
        (
            Field("branch"),
            Field("n", "pairs"),
            *(Field(suite, f"Pass@1 {suite} (%)", 1, paper=suite) for suite in suites),
            Field("revised", f"revised within {settings['horizon']} (%)", 1, paper="revised"),
            Field("step", "revision step", 3, paper="step"),
        ),
        [row for row in rows if row["part"] == "branch"],
        _notes(settings),
        lambda row: result["paper"][row["branch"]],
    )
    trained = trained_table(rows)
    tables = [branches, _tests_table(result, tests)]
    return Presented(tables if trained is None else [*tables, trained])


def _notes(settings: Mapping[str, Any]) -> list[str]:
    return [
        f"Archer with K = {settings['radius']}; event: the first token accepted with confidence of at "
        f"least {settings['confidence']} that outlives its update. Problems without one, left out: "
        f"{settings['without_event']}.",
        f"In {settings['refreshed_anyway']} pairs the run refreshed by itself, so that both branches "
        f"are one; in {settings['same_completions']} the completions are equal.",
        "Cached is the ordinary run: its tokens, updates and passes are checked against it.",
        "Revised: the token is masked or another one within so many updates. The paper: LLaDA-8B, MBPP.",
    ]


def _tests_table(result: Mapping[str, Any], tests: Sequence[Row]) -> Table:
    paper = result["paper"]
    theirs = {name: paper[name]["only"] for name in BRANCHES}
    theirs["p"] = mcnemar(theirs["fresh"], theirs["cached"])
    return table_of(
        f"Problems that one branch alone passes, n = {result['n']} pairs",
        (
            Field("suite"),
            Field("fresh_only", "fresh only", paper="fresh"),
            Field("cached_only", "cached only", paper="cached"),
            Field("p", digits=3, paper="p", chance=True),
        ),
        tests,
        ["p: exact McNemar. The paper's is computed from its exclusive passes: not significant."],
        lambda row: theirs if row["suite"] == "base" else {},
    )


@dataclass(frozen=True, eq=False)
class TrainedArm:
    """Saber with a cache on one of the two models."""

    cache: str
    blind: bool
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)


EAGER = TrainedArm("none", blind=False, method="saber")
WAYS = (
    EAGER,
    TrainedArm("K=8", blind=False, method="archer", settings={"radius": 8}),
    TrainedArm("exact", blind=True, method="archer"),
)


def trained_rows(workspace: Workspace) -> list[Row]:
    """Every way on every task; nothing where the model has no such companion."""
    blind = companion(workspace, BLIND)
    if blind is None:
        return []
    rows: list[Row] = []
    for task, few in workspace.sizes().items():
        arms = {
            way: (blind if way.blind else workspace).arm(way.method, task, few, **way.settings)
            for way in WAYS
        }
        rows += [_trained_row(way, arms[way], arms[EAGER], task, workspace) for way in WAYS]
    return rows


def _trained_row(way: TrainedArm, arm: Arm, eager: Arm, task: str, workspace: Workspace) -> Row:
    model = workspace.model
    row: Row = {
        "part": TRAINING,
        "task": task,
        "model": BLIND if way.blind else model.name,
        "cache": way.cache,
        **compared(arm, f"Saber, {way.cache}", eager, model),
    }
    return row | {"cost": 1.0 / row["speedup_predicted"]}


def trained_table(rows: Sequence[Row]) -> Table | None:
    """Of all rows of the study; None where none of them is about this."""
    own = [row for row in rows if row["part"] == TRAINING]
    if not own:
        return None
    return table_of(
        "Saber with a prompt that sees the response, and with one that does not",
        (
            Field("task"),
            Field("n"),
            Field("model"),
            Field("cache"),
            *SCORES,
            Field("cost", digits=3),
            *WON,
            p_value("base_p"),
        ),
        own,
        [
            f"Two models of one size and one recipe. In {BLIND} the prompt does not see the response: its "
            "prompt is computed once and its cache is exact.",
            "Cost: counted operations over those of the first row of the task. Won, lost: problems that only "
            "this row or only that one solves; p: exact McNemar.",
        ],
    )
