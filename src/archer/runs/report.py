"""Any set of runs as one page: their scores and costs, how they compare, and trajectories to watch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from archer.errors import BadRun
from archer.pages.figures import Labels, Series, frontier
from archer.pages.page import Part, Player, Section, page
from archer.pages.player import player_data
from archer.pages.tables import Cell, Column, Field, Table, Value, p_value, table_of
from archer.pages.trajectory import check_pair, trajectories
from archer.runs.comparison import (
    NOT_IN_TURN,
    Run,
    compare,
    conclusion,
    in_order,
    with_distinct_labels,
)
from archer.runs.folder import SUMMARY, TRACES, read_summary
from archer.runs.records import Summary

PERCENT = 100.0
MOST_PLAYERS = 50
TRACE_NAMES = f"{'[0-9]' * 5}.jsonl"
MOST_OPEN = 20
"""Verdicts beyond this many are closed until somebody opens them."""


COMPARED = (
    Field("run"),
    Field("both"),
    Field("only_first", "only first"),
    Field("only_second", "only this"),
    Field("neither"),
    p_value("mcnemar_p", digits=3),
    Field("speedup", "times as fast"),
    Field("median"),
    Field("same", "same text"),
)
Published = Callable[[Run, bool], float | None]
"""The score of a run's method on its task, or the extended one, as published for the run's very model."""


def _unpublished(run: Run, extended: bool) -> None:
    return None


def runs_page(runs: Sequence[Run], command: str = "", published: Published = _unpublished) -> str:
    """What was compared on what and what came of it, then one section per task."""
    groups = groupby(sorted(runs, key=_task), key=_task)
    by_task = {task: with_distinct_labels(list(group)) for task, group in groups}
    sections = [
        each for task, group in by_task.items() for each in _sections(task, group, published)
    ]
    message = [each for group in by_task.values() for each in _message(group, len(by_task) > 1)]
    return page(_title(by_task), sections, lead=_lead(runs, command), message=message)


def _title(by_task: Mapping[str, Sequence[Run]]) -> str:
    labels = list(dict.fromkeys(run.label for runs in by_task.values() for run in runs))
    methods = " against ".join(labels) if len(labels) < 4 else f"{len(labels)} methods"
    return f"{methods} on {', '.join(by_task)}"


def _message(runs: Sequence[Run], named: bool) -> Iterator[str]:
    """A conclusion for every run against the first, as far as they may be compared."""
    for other in runs[1:]:
        with suppress(BadRun):
            task = f"{_task(other)}: " if named else ""
            yield f"{task}{conclusion(compare(runs[0], other))}"


def _lead(runs: Sequence[Run], command: str) -> str:
    models = sorted({str(run.circumstances.get("model", "unknown")) for run in runs})
    days = sorted({str(run.circumstances.get("started", ""))[:10] for run in runs} - {""})
    parts = [f"Model {', '.join(models)}"]
    if days:
        parts.append(f"run on {days[0]}" if len(days) == 1 else f"run {days[0]} to {days[-1]}")
    source = f" Made by: {command}." if command else ""
    return f"{', '.join(parts)}.{source} Times are of the machines that the runs ran on."


def _task(run: Run) -> str:
    return str(run.identity["task"]["name"])


def _sections(task: str, runs: list[Run], published: Published) -> Iterator[Section]:
    """What there is to say about a task, and below it every verdict, closed where they are many."""
    yield Section(task, list(_parts(task, runs, published)))
    verdicts = _verdicts(runs)
    folded = len(verdicts.rows) > MOST_OPEN
    yield Section(f"{task}, problem by problem", [verdicts], folded=folded)


def _parts(task: str, runs: list[Run], published: Published) -> Iterator[Part]:
    summaries = [_summary(run) for run in runs]
    yield _scores(task, runs, summaries, published)
    if len(runs) > 1:
        metric = runs[0].identity["evaluator"]["metric"]
        yield frontier(
            [_point(run, each, metric) for run, each in zip(runs, summaries, strict=True)],
            Labels(f"{task}: quality against time", "seconds per problem", f"{metric} (%)"),
        )
        yield from _comparisons(runs)
    yield from _players(runs)


def _summary(run: Run) -> Summary:
    """With the score that the run was made for."""
    summary, metric = read_summary(run.path), run.identity["evaluator"]["metric"]
    if metric not in summary.scores:
        raise BadRun(
            f"{run.path / SUMMARY} is damaged: it has no score {metric!r}. Give the command that made "
            "the run again, which writes the file anew."
        )
    return summary


def _point(run: Run, summary: Summary, metric: str) -> Series:
    score = _percent(summary, metric)
    low, high = ([] if end is None else [end] for end in (score.low, score.high))
    return Series(
        run.label, [summary.per_problem["seconds"] or 0.0], [score.ours or 0.0], low, high
    )


def _verdicts(runs: Sequence[Run]) -> Table:
    """Every problem with its verdict by every run."""
    keys = in_order(list(dict.fromkeys(key for run in runs for key in run.keys)))
    rows = [[key, *(_verdict(run, key) for run in runs)] for key in keys]
    return Table("Problem by problem", [Column("problem"), *(Column(r.label) for r in runs)], rows)


def _verdict(run: Run, key: str) -> str:
    grade = run.recorded.grades.get(key)
    if grade is None:
        return "not run"
    return ", ".join(f"{suite} {each.verdict}" for suite, each in grade.suites.items())


def _scores(task: str, runs: list[Run], summaries: list[Summary], published: Published) -> Table:
    metric = runs[0].identity["evaluator"]["metric"]
    names = [name for name in (metric, f"{metric}_extended") if name in summaries[0].scores]
    costs = ("seconds", "updates", "full_passes", "cached_passes")
    rows: list[list[Cell]] = []
    for run, summary in zip(runs, summaries, strict=True):
        scores = [
            replace(_percent(summary, name), paper=published(run, name != metric)) for name in names
        ]
        each = summary.per_problem
        spent = (each[name] for name in costs)
        rows.append([run.label, summary.n, *scores, *spent, summary.refresh_fraction])
    columns = [Column("run"), Column("n", 0), *(Column(f"{name} (%)", 1) for name in names)]
    columns += [Column("seconds", 3), Column("updates", 1), Column("full", 1), Column("cached", 1)]
    notes = ["Seconds, updates and passes are per problem; intervals are Wilson's, 95 %."]
    if any(value.paper is not None for row in rows for value in row if isinstance(value, Value)):
        notes.append("The paper's column stands beside runs of the model that it measured.")
    return Table(task, [*columns, Column("refreshes")], rows, notes)


def _percent(summary: Summary, name: str) -> Value:
    """A score in per cent; one problem has no interval."""
    score = summary.scores.get(name)
    if score is None or score.value is None:
        return Value(None)
    if score.interval is None or summary.n == 1:
        return Value(PERCENT * score.value)
    low, high = score.interval
    return Value(PERCENT * score.value, PERCENT * low, PERCENT * high)


def _comparisons(runs: list[Run]) -> Iterator[Part]:
    """Every run against the first, as far as they may be compared."""
    rows, refused = [], []
    for other in runs[1:]:
        try:
            comparison = compare(runs[0], other)
        except BadRun as error:
            refused.append(str(error))
            continue
        base, time = comparison["suites"]["base"], comparison["time"]
        rows.append(
            {
                **base,
                "run": other.label,
                "speedup": time["speedup"],
                "speedup_interval": time["speedup_interval"],
                "median": time["per_problem"]["median"],
                "same": comparison["identical_completions"],
            }
        )
    if rows:
        notes = ["p: exact McNemar.", NOT_IN_TURN]
        yield table_of(f"Against {runs[0].label}", COMPARED, rows, notes)
    yield from refused


def _players(runs: list[Run]) -> Iterator[Part]:
    """Trajectories by problem; those of two runs side by side."""
    names = sorted({path.name for run in runs for path in (run.path / TRACES).glob(TRACE_NAMES)})
    for name in names[:MOST_PLAYERS]:
        watched = [
            (run, trajectories(run.path / TRACES / name)[0])
            for run in runs
            if (run.path / TRACES / name).is_file()
        ][:2]
        if len(watched) == 2:
            check_pair(watched[0][1], watched[1][1])
        title = " and ".join(run.label for run, _ in watched)
        place = int(name.partition(".")[0]) + 1
        yield Player(f"Problem {place}: {title}", [player_data(each) for _, each in watched])
