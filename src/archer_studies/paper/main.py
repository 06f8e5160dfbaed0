"""The main table: the paper's eight methods, our default and two controls, on short and on long prompts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archer.loading.families.llada import LLADA
from archer.methods.catalogue import PRESETS
from archer.pages.figures import Labels, frontier
from archer.pages.page import Presented
from archer.pages.tables import Field, Table, p_value, series, table_of
from archer.runs.comparison import Run
from archer.runs.statistics import bootstrap, mean, ratio_of_sums
from archer.runs.workspace import Arm, Workspace
from archer_studies.arms import PERCENT, against, compared, in_turn, operations_of
from archer_studies.probes.trajectories import decoded_again
from archer_studies.study import Measured, Row, paper_of, published

TITLE = "Main comparison"
ABOUT = "Scores and times of every method, each problem decoded by all of them in turn"
REFERENCE = "llada-confidence"
ROLLBACK = "saber"
METHODS = {
    REFERENCE: "LLaDA-Confidence",
    "fast-dllm-cache": "Fast-dLLM + Cache",
    "fast-dllm-parallel": "Fast-dLLM + Parallel",
    "dkv-decode": "dKV-Cache-Decode",
    "dkv-greedy": "dKV-Cache-Greedy",
    "dllm-cache": "dLLM-Cache",
    ROLLBACK: "Saber",
    "archer": "Archer",
    "archer-doubt": "archer-doubt",
    "no-rollback": "No rollback",
    "no-rollback+archer": "No rollback + Archer's cache",
}
"""In the paper's order; it does not have the last three: our default, and two controls."""
TAKES = {
    "archer": ("radius",),
    "no-rollback+archer": ("radius",),
    "dllm-cache": ("prompt_interval", "response_interval"),
}
"""Settings of the paper that differ between benchmarks; all others are defaults, block and length equal."""
PROMPT_CACHES = (
    REFERENCE,
    ROLLBACK,
    "archer",
    "archer-doubt",
    "no-rollback",
    "no-rollback+archer",
)
"""Methods whose cached passes compute exactly the response, so that counts of passes give operations."""
COUNTED = 2
"""Problems on which the operations of the other caches are counted."""
HIGHLIGHTED = (METHODS[ROLLBACK], METHODS["archer-doubt"])
"""In colour in the figure: the rollback decoder without a cache, and our default."""
PAPER_MODEL = "llada-8b-instruct"
"""Whose scores they are: the last part of its hub id, or of the folder that it is in."""
FIELDS = (
    Field("arm", "method"),
    Field("base", "Pass@1 (%)", 1, paper=0),
    Field("extended", "extended (%)", 1, paper=1),
    Field("seconds", digits=3),
    Field("speedup", paper=3),
    Field("speedup_predicted", "predicted"),
    Field(
        "",
        "only it / only Saber",
        of=lambda row: f"{row['saber_base_only']} / {row['saber_base_only_other']}",
    ),
    p_value("saber_base_p"),
)


def measure(workspace: Workspace) -> Measured:
    sizes = workspace.sizes()
    labels = METHODS | {method: method for method in workspace.methods}
    arms = {
        task: in_turn(
            workspace,
            {
                method: workspace.arm(method, task, problems, **settings_of(method, task))
                for method in labels
            },
        )
        for task, problems in sizes.items()
    }
    rows = [
        {"task": task, "method": method, **_row(workspace, method, labels[method], arm, arms[task])}
        for task in sizes
        for method, arm in arms[task].items()
    ]
    for method, label in labels.items():
        pairs = {
            task: (by_method[method], by_method[REFERENCE]) for task, by_method in arms.items()
        }
        rows.append({"task": "overall", "method": method, "arm": label, **overall(pairs)})
    used = {
        task: {method: arm.run.identity["method"]["settings"] for method, arm in by_method.items()}
        for task, by_method in arms.items()
    }
    n = len(arms[workspace.task][REFERENCE].keys)
    return Measured(n, rows, {"tasks": list(sizes), "methods": used})


def settings_of(method: str, task: str) -> dict[str, Any]:
    """What the paper sets per benchmark; for another task what it sets in general."""
    preset = PRESETS.get(f"paper:{task}", PRESETS["paper"])
    return {name: preset[name] for name in TAKES.get(method, ())}


def _row(workspace: Workspace, method: str, label: str, arm: Arm, arms: Mapping[str, Arm]) -> Row:
    row = compared(arm, label, arms[REFERENCE], workspace.model)
    rollback = against(arm, arms[ROLLBACK], workspace.model)
    row |= {f"saber_{name}": rollback[name] for name in rollback if name.startswith("base_")}
    if method not in PROMPT_CACHES:
        watched = [problem for _, problem in decoded_again(workspace, arm, arm.keys[:COUNTED])]
        updates = sum(problem.completion.updates for problem in watched)
        each = sum(problem.operations for problem in watched) / updates
        row["operations"] = each * row["updates"]
        reference = operations_of(arms[REFERENCE], workspace.model) / row["n"]
        row["speedup_predicted"] = reference / row["operations"]
    return row


@dataclass(frozen=True)
class ProblemOutcome:
    """One problem of one benchmark."""

    scores: Mapping[str, float]
    """By suite, in per cent."""
    seconds: tuple[float, float] | None
    """Of the reference, and of the method; None where they were not decoded in turn."""


Problem = Mapping[str, ProblemOutcome]
"""By benchmark; one that several share is resampled with all its outcomes."""


def overall(arms: Mapping[str, tuple[Arm, Arm]]) -> Row:
    """Averages over benchmarks as the paper makes them; each is given a method's arm and the reference's."""
    problems = problems_of(arms)
    timed = [
        each for each in problems if any(outcome.seconds is not None for outcome in each.values())
    ]
    return {
        "n": len(problems),
        "performance": performance(problems),
        "performance_interval": list(bootstrap(problems, performance)),
        "speedup": speedup(timed),
        "speedup_interval": list(bootstrap(timed, speedup)),
    }


def problems_of(arms: Mapping[str, tuple[Arm, Arm]]) -> list[Problem]:
    """Problems with their outcomes on each benchmark that has them."""
    outcomes: dict[str, dict[str, ProblemOutcome]] = defaultdict(dict)
    for task, (arm, reference) in arms.items():
        for key in arm.keys:
            suites = arm.run.recorded.grades[key].suites
            scores = {suite: PERCENT * arm.passed(key, suite) for suite in suites}
            timed = key in arm.in_turn
            seconds = (reference.in_turn[key], arm.in_turn[key]) if timed else None
            outcomes[key][task] = ProblemOutcome(scores, seconds)
    return list(outcomes.values())


def performance(problems: Sequence[Problem]) -> float:
    """The mean of the scores: one per benchmark and suite."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for problem in problems:
        for task, outcome in problem.items():
            for suite, score in outcome.scores.items():
                scores[task, suite].append(score)
    return mean([mean(values) for values in scores.values()])


def speedup(problems: Sequence[Problem]) -> float:
    """The mean of the speedups: one per benchmark."""
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for problem in problems:
        for task, outcome in problem.items():
            if outcome.seconds is not None:
                seconds[task].append(outcome.seconds)
    return mean([ratio_of_sums(pairs) for pairs in seconds.values()])


def present(result: Mapping[str, Any]) -> Presented:
    tables = [_table(result, task) for task in result["settings"]["tasks"]]
    figures = {
        f"frontier-{task}": frontier(
            [
                series(row["arm"], [row["seconds"]], [row], "base")
                for row in result["rows"]
                if row["task"] == task
            ],
            Labels(f"Quality against time on {task}", "seconds per problem", "Pass@1 (%)"),
            highlight=HIGHLIGHTED,
        )
        for task in result["settings"]["tasks"]
    }
    return Presented([*tables, _overall_table(result)], figures)


def _table(result: Mapping[str, Any], task: str) -> Table:
    rows = [row for row in result["rows"] if row["task"] == task]
    theirs = published(result["paper"], task)
    return table_of(
        f"Methods on {task}, n = {rows[0]['n']}",
        FIELDS,
        rows,
        [
            f"Seconds and speedup over LLaDA-Confidence from {rows[0]['timed']} problems that all methods "
            "decoded in turn; predicted from the operations of the passes made on all problems.",
            "p: exact McNemar against Saber on Pass@1. Intervals: 95 %, Wilson for scores, bootstrap over "
            "problems otherwise.",
            "The paper's columns are LLaDA-8B: on pocket those of MBPP, on pocket-long those of "
            "LiveCodeBench. It does not have our default, archer-doubt, and two controls.",
        ],
        lambda row: theirs.get(row["method"], ()),
    )


def _overall_table(result: Mapping[str, Any]) -> Table:
    rows = [row for row in result["rows"] if row["task"] == "overall"]
    theirs = result["paper"]["overall"]
    return table_of(
        f"Overall: {' and '.join(result['settings']['tasks'])}, n = {rows[0]['n']} problems",
        (
            Field("arm", "method"),
            Field("performance", "mean score (%)", 1, paper=0),
            Field("speedup", "mean speedup", paper=1),
        ),
        rows,
        [
            "The mean of all scores and the mean of the speedups, as the paper averages them over three "
            "benchmarks; speedups from the problems decoded in turn. Intervals resample problems with all "
            "their outcomes.",
        ],
        lambda row: theirs.get(row["method"], ()),
    )


def score_in_paper(run: Run, extended: bool) -> float | None:
    """None where the paper has no such score, or the run is of another model than the paper's."""
    model = Path(str(run.circumstances.get("model", ""))).name.lower()
    if model != PAPER_MODEL or run.identity["model"]["architecture"] != LLADA.name:
        return None
    by_method: dict[str, list[float | None]] = paper_of("main").get(
        run.identity["task"]["name"], {}
    )
    base, further, *_ = by_method.get(run.identity["method"]["name"], [None, None])
    return further if extended else base
