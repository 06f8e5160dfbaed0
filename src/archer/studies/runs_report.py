"""Any set of runs as one page: their scores and costs, how they compare, and trajectories to watch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from archer.report.figures import Labels, Series, frontier
from archer.report.page import Part, Player, Section, page
from archer.report.player import player_data
from archer.report.tables import Column, Table, Value
from archer.report.trajectory import check_pair, trajectories
from archer.runs.comparison import Run, compare
from archer.runs.faults import BadRun
from archer.runs.files import read_json
from archer.runs.folder import SUMMARY, TRACES
from archer.studies.main_paper import score_in_paper

PERCENT = 100.0
MOST_PLAYERS = 50


def runs_page(runs: Sequence[Run]) -> str:
    """One section per task."""
    ordered = sorted(runs, key=_task)
    sections = [
        Section(task, list(_parts(task, list(group))))
        for task, group in groupby(ordered, key=_task)
    ]
    return page(
        f"{len(runs)} runs", sections, lead="Times are of the machines that the runs ran on."
    )


def _task(run: Run) -> str:
    return str(run.identity["task"]["name"])


def _parts(task: str, runs: list[Run]) -> Iterator[Part]:
    summaries = [read_json(run.path / SUMMARY) for run in runs]
    yield _scores(task, runs, summaries)
    if len(runs) > 1:
        metric = runs[0].identity["evaluator"]["metric"]
        yield frontier(
            [
                Series(run.label, [each["per_problem"]["seconds"]], [PERCENT * each[metric]])
                for run, each in zip(runs, summaries, strict=True)
            ],
            Labels(f"{task}: quality against time", "seconds per problem", f"{metric} (%)"),
        )
        yield from _comparisons(runs)
    yield from _players(runs)


def _scores(task: str, runs: list[Run], summaries: list[dict[str, Any]]) -> Table:
    metric = runs[0].identity["evaluator"]["metric"]
    names = [name for name in (metric, f"{metric}_extended") if name in summaries[0]]
    costs = ("seconds", "updates", "full_passes", "cached_passes")
    rows = []
    for run, summary in zip(runs, summaries, strict=True):
        scores = [_value(run, summary, name, extended=name != metric) for name in names]
        each = summary["per_problem"]
        spent = (each[name] for name in costs)
        rows.append([run.label, summary["n"], *scores, *spent, summary["refresh_fraction"]])
    columns = [Column("run"), Column("n", 0), *(Column(f"{name} (%)", 1) for name in names)]
    columns += [Column("seconds", 3), Column("updates", 1), Column("full", 1), Column("cached", 1)]
    notes = ["Seconds, updates and passes are per problem; intervals are Wilson's, 95 %."]
    return Table(task, [*columns, Column("refreshes")], rows, notes)


def _value(run: Run, summary: dict[str, Any], name: str, *, extended: bool) -> Value:
    low, high = summary[f"{name}_interval"]
    paper = score_in_paper(_task(run), run.identity["method"]["name"], extended=extended)
    return Value(PERCENT * summary[name], PERCENT * low, PERCENT * high, paper)


def _comparisons(runs: list[Run]) -> Iterator[Part]:
    """Every run against the first, as far as they may be compared."""
    rows, refused = [], []
    for other in runs[1:]:
        try:
            found = compare(runs[0], other)
        except BadRun as error:
            refused.append(str(error))
            continue
        base, time = found["suites"]["base"], found["time"]
        rows.append(
            [
                other.label,
                *(base[key] for key in ("both", "only_first", "only_second", "neither")),
                base["mcnemar_p"],
                Value(time["speedup"], *time["speedup_interval"]),
                time["per_problem"]["median"],
                found["identical_completions"],
            ]
        )
    columns = [Column("run")]
    columns += [Column(name, 0) for name in ("both", "only first", "only this", "neither")]
    columns += [
        Column("p", 3, chance=True),
        Column("times as fast"),
        Column("median"),
        Column("same text", 0),
    ]
    if rows:
        yield Table(f"Against {runs[0].label}", columns, rows, ["p: exact McNemar."])
    yield from refused


def _players(runs: list[Run]) -> Iterator[Part]:
    """Trajectories by problem; those of two runs side by side."""
    names = sorted({path.name for run in runs for path in (run.path / TRACES).glob("*.jsonl")})
    for name in names[:MOST_PLAYERS]:
        found = [
            (run, trajectories(run.path / TRACES / name)[0])
            for run in runs
            if (run.path / TRACES / name).is_file()
        ][:2]
        if len(found) == 2:
            check_pair(found[0][1], found[1][1])
        title = " and ".join(run.label for run, _ in found)
        place = int(name.partition(".")[0]) + 1
        yield Player(f"Problem {place}: {title}", [player_data(each) for _, each in found])
