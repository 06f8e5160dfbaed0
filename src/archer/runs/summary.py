"""What is derived from a run's journal: scores and costs, and samples as lm-evaluation-harness logs them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from archer.runs.folder import Recorded
from archer.runs.records import COUNTS, Costs, GradeLine, SampleLine, Score, Summary
from archer.runs.statistics import Interval, clustered, mean, wilson
from archer.tasks.base import AnswerTask, Sample, Task
from archer.tasks.grading import extracted_or_nothing

EXACT = "exact_match"
FILTER = "repaired"
"""The harness's name for how a response was read."""


def summarise(
    task: Task, method: Mapping[str, Any], samples: Sequence[Sample], recorded: Recorded
) -> Summary:
    """A score has no value until every problem has been completed and graded."""
    keys = [str(sample.id) for sample in samples]
    done = [recorded.samples[key] for key in keys if key in recorded.samples]
    graded = [recorded.grades[key] for key in keys if key in recorded.grades]
    complete = len(graded) == len(keys)
    return Summary(
        task=task.name,
        method=method["name"],
        settings=method["settings"],
        n=len(keys),
        complete=complete,
        completed=len(done),
        graded=len(graded),
        scores=_scores(task.metric, samples, recorded, complete),
        **costs(done).plain(),
        tiers=sorted({grade.tier for grade in graded if grade.tier is not None}),
        measures=_measures(task, samples, recorded) if complete else None,
    )


def _scores(
    metric: str, samples: Sequence[Sample], recorded: Recorded, complete: bool
) -> dict[str, Score]:
    """By metric, the further suites as metrics of their own; where gaps are filled also the exact ones."""
    graded = [recorded.grades[key] for each in samples if (key := str(each.id)) in recorded.grades]
    suites = graded[0].suites if graded else ("base",)
    names = {suite: metric if suite == "base" else f"{metric}_{suite}" for suite in suites}
    exact = samples[0].infill is not None and metric != EXACT
    if not complete:
        unknown = Score(value=None, interval=None, as_published=None)
        return dict.fromkeys([*names.values(), *([EXACT] if exact else [])], unknown)
    scores = {name: _score(suite, samples, graded) for suite, name in names.items()}
    if exact:
        matches = [_matches(each, recorded.samples[str(each.id)].completion) for each in samples]
        share, interval = _share(matches), _interval(samples, matches)
        scores[EXACT] = Score(value=share, interval=interval, as_published=share)
    return scores


def _score(suite: str, samples: Sequence[Sample], graded: Sequence[GradeLine]) -> Score:
    outcomes = [grade.passed(suite) for grade in graded]
    clean = [grade for grade in graded if grade.suites[suite].verdict_clean is not None]
    more = {"clean": _share(each.passed(suite, "verdict_clean") for each in clean)} if clean else {}
    return Score(
        value=_share(outcomes),
        interval=_interval(samples, outcomes),
        as_published=_share(grade.passed(suite, "verdict_as_published") for grade in graded),
        **more,
    )


def _interval(samples: Sequence[Sample], outcomes: Sequence[bool]) -> Interval:
    """By clusters where the problems have them."""
    clusters = [each.cluster for each in samples]
    if None in clusters:
        return wilson(sum(outcomes), len(outcomes))
    return clustered(outcomes, clusters)


def _matches(sample: Sample, completion: str) -> bool:
    """Whether a gap holds what stood there, white space around it aside."""
    return sample.infill is not None and completion.strip() == sample.infill.middle.strip()


def costs(done: Sequence[SampleLine]) -> Costs:
    """Totals over the problems, and what one problem took on average."""
    totals: dict[str, Any] = {name: sum(each.count(name) for each in done) for name in COUNTS}
    updates = totals["updates"]
    totals["refresh_fraction"] = totals["full_passes"] / updates if updates else None
    totals["seconds"] = float(sum(each.seconds.total for each in done))
    average = {name: totals[name] / len(done) if done else None for name in (*COUNTS, "seconds")}
    return Costs(**totals, per_problem=average)


def _measures(task: Task, samples: Sequence[Sample], recorded: Recorded) -> dict[str, Any] | None:
    """Further measures of tasks with answers, and the lengths of gaps."""
    if samples[0].infill is not None:
        done = [recorded.samples[str(each.id)] for each in samples]
        lengths = mean([float(len(each.tokens)) for each in done])
        probed = mean([float(each.probed_columns) for each in done])
        return {"gap": {"tokens": lengths, "probed_columns": probed}}
    if not isinstance(task, AnswerTask):
        return None
    answered = [
        (each, extracted_or_nothing(task, recorded.samples[str(each.id)].completion, each))
        for each in samples
    ]
    return dict(task.measures(answered))


def _share(passes: Iterable[bool]) -> float:
    return mean([float(each) for each in passes])


def lines(summary: Summary) -> Iterator[str]:
    """The task and method, every score with its interval, and what it cost."""
    yield f"{summary.task} by {summary.method}: {summary.n} problems"
    if not summary.complete:
        yield (
            f"  incomplete: {summary.completed} completed, {summary.graded} graded; no score yet"
        )
    for name, score in summary.scores.items():
        if score.value is not None and score.interval is not None:
            low, high = score.interval
            yield (
                f"  {name:<18} {score.value:.1%}  (95 %: {low:.1%} to {high:.1%}; "
                f"as published {score.as_published:.1%})"
            )
    for name, value in (summary.measures or {}).items():
        if isinstance(value, float):
            yield f"  {name:<18} {value:.1%}"
    each = summary.per_problem
    if each["updates"] is None:
        return
    yield (
        f"  per problem        {each['seconds']:.3f} s, {each['updates']:.1f} updates: "
        f"{each['full_passes']:.1f} full, {each['cached_passes']:.1f} cached"
    )
    if summary.refresh_fraction is not None:
        yield f"  refresh fraction   {summary.refresh_fraction:.3f}"


def by_gap(summaries: Mapping[str, Summary]) -> Iterator[list[str]]:
    """One task by several rules for the length of its gaps, a column each, which the first row names."""
    yield ["", *summaries]
    columns = list(summaries.values())
    for name in columns[0].scores:
        yield [name, *(_score_text(each.scores[name]) for each in columns)]
    if all(each.complete for each in columns):
        for name in ("tokens", "probed_columns"):
            gaps = [(each.measures or {})["gap"][name] for each in columns]
            yield [f"{name.replace('_', ' ')} per gap", *(f"{value:.1f}" for value in gaps)]
        for name in ("updates", "full_passes", "cached_passes"):
            yield [
                f"{name.replace('_', ' ')} per gap",
                *(f"{each.per_problem[name]:.1f}" for each in columns),
            ]


def _score_text(score: Score) -> str:
    if score.value is None or score.interval is None:
        return "unknown"
    low, high = score.interval
    return f"{score.value:.1%} ({low:.1%} to {high:.1%})"


def harness_lines(
    task: Task, samples: Sequence[Sample], prompts: Mapping[str, str], recorded: Recorded
) -> Iterator[str]:
    """One line per graded problem; `prompts` are the texts that the model was given."""
    targets = {str(reference.id): reference.text for reference in task.references()}
    for number, sample in enumerate(samples):
        key = str(sample.id)
        if key in recorded.grades:
            target = targets.get(key, "")
            line = _line(number, task, sample, prompts[key], target, recorded)
            yield json.dumps(line, ensure_ascii=False, default=str) + "\n"


def _line(
    number: int, task: Task, sample: Sample, prompt: str, target: str, recorded: Recorded
) -> dict[str, Any]:
    done, grade = recorded.samples[str(sample.id)], recorded.grades[str(sample.id)]
    doc, response = dict(sample.row), done.completion
    metrics = {
        task.metric if suite == "base" else f"{task.metric}_{suite}": float(grade.passed(suite))
        for suite in grade.suites
    }
    return {
        "doc_id": number,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"max_gen_toks": len(done.tokens)}}},
        "resps": [[response]],
        "filtered_resps": [extracted_or_nothing(task, response, sample)],
        "filter": FILTER,
        "metrics": list(metrics),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False, default=str)),
        "prompt_hash": _hash(prompt),
        "target_hash": _hash(target),
        **metrics,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
