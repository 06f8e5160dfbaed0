"""Two comparable runs problem by problem: labels, paired tests, and conclusions that follow from them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any

from archer.errors import BadRun
from archer.methods.spelling import cut
from archer.runs.folder import Recorded, read_manifest, read_recorded
from archer.runs.manifest import differences
from archer.runs.statistics import (
    Pairs,
    bootstrap,
    mean,
    ratio_of_sums,
    wilson,
)

COMPARED = ("task", "evaluator", "problems", "prompts")
"""Parts of the identity that must agree."""
CIRCUMSTANCES = ("platform", "cores", "threads")
"""What times depend on besides the method."""
SHORTEST = 1e-9
"""Seconds; less is no time."""
MOST_NAMED = 3
SURE = 0.05
"""A difference is called one below this p."""
NOT_IN_TURN = (
    "The runs were made at different times, so their speeds also differ by what else the machine was doing; "
    "`archer study main` decodes each problem with every method in turn."
)
"""What runs cannot show about time, whatever their interval over problems."""


def own_label(identity: Mapping[str, Any]) -> str:
    """The method, and the one setting that mostly tells runs apart, unless the name says it: archer:8."""
    name, radius = str(identity["method"]["name"]), identity["method"]["settings"].get("radius")
    in_name = cut(name.rpartition("+")[2]).value is not None
    return name if radius is None or in_name else f"{name} radius={radius}"


def labels(runs: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """A label for each run that no other has: its method, settings that differ, or else its folder."""
    plain = [own_label(identity) for _, identity in runs]
    settings = [identity["method"]["settings"] for _, identity in runs]
    with_settings = [
        " ".join([label, *_differing(settings[at], _alike(plain, settings, label))])
        for at, label in enumerate(plain)
    ]
    names = Counter(path.name for path, _ in runs)
    counted = Counter(with_settings)
    return [
        label
        if counted[label] == 1
        else f"{label} ({path.name if names[path.name] == 1 else path})"
        for label, (path, _) in zip(with_settings, runs, strict=True)
    ]


def in_order(keys: Sequence[str]) -> list[str]:
    """Keys of problems as people count: 2 before 10."""
    return sorted(keys, key=_natural)


def _alike(
    plain: Sequence[str], settings: Sequence[Mapping[str, Any]], label: str
) -> list[Mapping[str, Any]]:
    return [each for own, each in zip(plain, settings, strict=True) if own == label]


def _differing(own: Mapping[str, Any], all_of_them: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{name}={value}"
        for name, value in sorted(own.items())
        if any(other.get(name) != value for other in all_of_them)
    ]


def _natural(key: str) -> list[tuple[int, int, str]]:
    """Numbers inside a key by value, the rest as text."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", key)
        if part
    ]


@dataclass(frozen=True)
class Run:
    """A finished run as it lies in its folder."""

    path: Path
    identity: Mapping[str, Any]
    circumstances: Mapping[str, Any]
    recorded: Recorded

    called: str = ""
    """What it is called beside others; see `with_distinct_labels`."""

    @property
    def label(self) -> str:
        return self.called or own_label(self.identity)

    @property
    def keys(self) -> list[str]:
        return sorted(self.recorded.samples)

    @property
    def suites(self) -> set[str]:
        """All grades of a run have the same ones."""
        return set(next(iter(self.recorded.grades.values())).suites)

    def seconds(self, key: str) -> float:
        return float(self.recorded.samples[key].seconds.total)


def with_distinct_labels(runs: Sequence[Run]) -> list[Run]:
    """The same runs with a label each that no other of them has."""
    named = labels([(run.path, run.identity) for run in runs])
    return [replace(run, called=label) for run, label in zip(runs, named, strict=True)]


def open_run(path: Path) -> Run:
    """A run that is complete; BadRun otherwise."""
    manifest = read_manifest(path)
    run = Run(path, manifest["identity"], manifest["circumstances"], read_recorded(path))
    planned = run.identity["problems"]["n"]
    graded = len(run.recorded.grades)
    if graded < planned:
        raise BadRun(
            f"{path} is incomplete: {graded} of {planned} problems are graded. Finish it by the "
            "command that began it."
        )
    if graded > planned or len(run.recorded.samples) > planned:
        raise BadRun.beyond_repair(
            f"{path} is damaged: its journal holds {len(run.recorded.samples)} problems, and its "
            f"manifest plans {planned}"
        )
    return run


def compare(first: Run, second: Run) -> dict[str, Any]:
    """The paired table of every suite, and how much faster the second run was."""
    check_comparable(first, second)
    if first.label == second.label:
        first, second = with_distinct_labels([first, second])
    keys = first.keys
    suites = first.recorded.grades[keys[0]].suites
    return {
        "first": {"run": str(first.path), "method": first.label},
        "second": {"run": str(second.path), "method": second.label},
        "n": len(keys),
        "suites": {suite: _paired(first, second, keys, suite) for suite in suites},
        "time": _times([(first.seconds(key), second.seconds(key)) for key in keys]),
        "passes": {side: _passes(run) for side, run in (("first", first), ("second", second))},
        "identical_completions": sum(_same(first, second, key) for key in keys),
        "remarks": _remarks(first, second),
    }


def check_comparable(first: Run, second: Run) -> None:
    """Refuse runs that answered other questions, or were graded or bounded in another way."""
    differing = [
        each
        for part in COMPARED
        for each in differences(first.identity[part], second.identity[part], f"{part}.")
    ]
    budgets = [run.identity["method"]["settings"]["length"] for run in (first, second)]
    if budgets[0] != budgets[1]:
        differing.append(f"budget (length): {budgets[0]}, now {budgets[1]}")
    differing += [
        f"{what}: {_some(a - b)}, now {_some(b - a)}"
        for what, a, b in (
            ("problems of one run only", set(first.keys), set(second.keys)),
            ("suites of one run only", first.suites, second.suites),
        )
        if a != b
    ]
    if not differing and _same_model(first, second):
        differing += [
            f"prompt of problem {key}"
            for key in first.keys
            if first.recorded.samples[key].prompt_sha256
            != second.recorded.samples[key].prompt_sha256
        ][:1]
    if differing:
        raise BadRun(
            f"{first.path} and {second.path} cannot be compared. They differ in "
            f"{'; '.join(differing).replace(', now ', ' against ')}."
        )


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:MOST_NAMED]) or "none"


def _paired(first: Run, second: Run, keys: Sequence[str], suite: str) -> dict[str, Any]:
    pairs = Pairs(
        *([run.recorded.grades[key].passed(suite) for key in keys] for run in (first, second))
    )
    wins = [sum(side) for side in (pairs.first, pairs.second)]
    return {
        "both": pairs.both,
        "only_first": pairs.only_first,
        "only_second": pairs.only_second,
        "neither": pairs.neither,
        "score_first": wins[0] / pairs.n,
        "score_first_interval": list(wilson(wins[0], pairs.n)),
        "score_second": wins[1] / pairs.n,
        "score_second_interval": list(wilson(wins[1], pairs.n)),
        "difference": (wins[1] - wins[0]) / pairs.n,
        "difference_interval": pairs.interval and list(pairs.interval),
        "mcnemar_p": pairs.p,
    }


def _times(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """How much faster the second run was, over all problems and by problem; None where one took no time."""
    seconds = {
        "seconds_first": mean([a for a, _ in pairs]),
        "seconds_second": mean([b for _, b in pairs]),
    }
    if min(each for pair in pairs for each in pair) < SHORTEST:
        nothing = {"median": None, "quartiles": None, "geometric_mean": None}
        return {**seconds, "speedup": None, "speedup_interval": None, "per_problem": nothing}
    speedups = [a / b for a, b in pairs]
    lower, _, upper = quantiles(speedups, n=4) if len(speedups) > 1 else speedups * 3
    return {
        **seconds,
        "speedup": ratio_of_sums(pairs),
        "speedup_interval": list(bootstrap(pairs, ratio_of_sums)) if len(pairs) > 1 else None,
        "per_problem": {
            "median": median(speedups),
            "quartiles": [lower, upper],
            "geometric_mean": geometric_mean(speedups),
        },
    }


def _passes(run: Run) -> dict[str, float]:
    """What a problem took on average, which no machine changes: updates, passes and operations."""
    samples = list(run.recorded.samples.values())
    names = ("updates", "full_passes", "cached_passes", "operations")
    return {name: mean([float(getattr(each, name)) for each in samples]) for name in names}


def _same(first: Run, second: Run, key: str) -> bool:
    a, b = (run.recorded.samples[key].tokens for run in (first, second))
    return bool(a == b)


def _same_model(first: Run, second: Run) -> bool:
    return bool(first.identity["model"]["files"] == second.identity["model"]["files"])


def _remarks(first: Run, second: Run) -> list[str]:
    """What does not forbid a comparison, but a reader should know."""
    remarks = []
    if not _same_model(first, second):
        remarks.append("The runs are of different models.")
    if first.identity["batch"] != 1 or second.identity["batch"] != 1:
        remarks.append("A run decoded several problems at a time; its times are not per problem.")
    for name in CIRCUMSTANCES:
        before, after = first.circumstances[name], second.circumstances[name]
        if before != after:
            remarks.append(f"Times are of different machines ({name}: {before} against {after}).")
    for name in ("dtype", "device"):
        before, after = first.identity["model"][name], second.identity["model"][name]
        if before != after:
            remarks.append(f"The {name} differs: {before} against {after}.")
    if first.identity["archer"] != second.identity["archer"]:
        remarks.append("The runs are of different versions of Archer.")
    return remarks


def about_scores(comparison: Mapping[str, Any], suite: str = "base") -> str:
    """Which of the two solved more, if that can be told."""
    paired, first, second = comparison["suites"][suite], *_names(comparison)
    counts = f"{paired['both']} of {comparison['n']} solved by both"
    only = f"{paired['only_first']} only by {first}, {paired['only_second']} only by {second}"
    better, worse = (second, first) if paired["difference"] > 0 else (first, second)
    verdict = "No significant difference in solved problems"
    if paired["mcnemar_p"] < SURE:
        verdict = f"{better} solves more than {worse}"
    return f"{verdict}: {counts}, {only} ({chance(paired['mcnemar_p'])})."


def about_time(comparison: Mapping[str, Any]) -> str:
    """Which of the two was faster, if that can be told."""
    time, first, second = comparison["time"], *_names(comparison)
    if time["speedup"] is None:
        return "A problem took no time at all, so nothing can be said about speed."
    if time["speedup_interval"] is None:
        return "One problem says nothing about speed."
    low, high = time["speedup_interval"]
    interval = f"95 %: {low:.2f} to {high:.2f}"
    if low <= 1 <= high:
        factor = f"{second} is {time['speedup']:.2f} times as fast as {first}"
        return f"No significant difference in time: {factor} ({interval})."
    if low > 1:
        return f"{second} is {time['speedup']:.2f} times as fast as {first} ({interval})."
    return f"{second} is slower than {first}: {time['speedup']:.2f} times as fast ({interval})."


def conclusion(comparison: Mapping[str, Any]) -> str:
    """Both, as the first lines of a report."""
    return f"{about_scores(comparison)} {about_time(comparison)}"


def chance(p: float) -> str:
    """A p as people write it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _names(comparison: Mapping[str, Any]) -> tuple[str, str]:
    return comparison["first"]["method"], comparison["second"]["method"]
