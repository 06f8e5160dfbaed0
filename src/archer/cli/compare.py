"""`archer compare`: runs against the first one, problem by problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from archer.cli.output import write_json, write_line
from archer.errors import BadRequest


def compare(*runs: Path, json: bool = False) -> int:
    """Compare runs with the first one: who solved what, and how much faster.

    Parameters
    ----------
    runs
        Two or more run folders of the same problems.
    json
        Print one JSON object instead of tables.
    """
    from archer.runs.comparison import compare as compared
    from archer.runs.comparison import open_run

    if len(runs) < 2:
        raise BadRequest("Give at least two run folders to compare.")
    first, *others = [open_run(path) for path in runs]
    found = [compared(first, other) for other in others]
    if json:
        write_json({"comparisons": found})
        return 0
    for each in found:
        for line in _lines(each):
            write_line(line)
    return 0


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"A  {found['first']['method']}  ({found['first']['run']})"
    yield f"B  {found['second']['method']}  ({found['second']['run']})"
    yield f"{found['n']} problems, {found['identical_completions']} with the same completion"
    yield ""
    yield f"{'':<10} {'both':>6} {'only A':>7} {'only B':>7} {'neither':>8}   A       B       B - A"
    for suite, paired in found["suites"].items():
        low, high = paired["difference_interval"]
        yield (
            f"{suite:<10} {paired['both']:>6} {paired['only_first']:>7} {paired['only_second']:>7} "
            f"{paired['neither']:>8}   {paired['score_first']:<7.1%} {paired['score_second']:<7.1%} "
            f"{paired['difference']:+.1%} ({low:+.1%} to {high:+.1%}), "
            f"exact McNemar p = {paired['mcnemar_p']:.3g}"
        )
    yield ""
    yield from _time_lines(found["time"])
    for remark in found["remarks"]:
        yield f"Note: {remark}"
    yield ""


def _time_lines(time: Mapping[str, Any]) -> Iterator[str]:
    low, high = time["speedup_interval"]
    each = time["per_problem"]
    yield (
        f"seconds per problem: A {time['seconds_first']:.3f}, B {time['seconds_second']:.3f}; "
        f"B is {time['speedup']:.2f} x as fast (95 %: {low:.2f} to {high:.2f})"
    )
    yield (
        f"problem by problem: median {each['median']:.2f} x, quartiles {each['quartiles'][0]:.2f} to "
        f"{each['quartiles'][1]:.2f}, geometric mean {each['geometric_mean']:.2f}"
    )
