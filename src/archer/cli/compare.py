"""`archer compare`: runs against the first one, problem by problem."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from archer.cli.output import Json, emit, write_grid, write_line
from archer.errors import BadRequest


def compare(*runs: Path, json: Json = False) -> int:
    """Compare runs with the first one: what each solved, and how fast.

    Args:
        runs: Two or more run folders of the same problems.
    """
    from archer.runs.comparison import compare as compared
    from archer.runs.comparison import open_run

    if len(runs) < 2:
        raise BadRequest("Give at least two run folders to compare.")
    first, *others = [open_run(path) for path in runs]
    comparisons = [compared(first, other) for other in others]

    def show() -> None:
        for each in comparisons:
            _show(each)

    return emit({"comparisons": comparisons}, show, json=json)


def _show(comparison: Mapping[str, Any]) -> None:
    from archer.runs.comparison import NOT_IN_TURN, conclusion

    write_line(f"A  {comparison['first']['method']}  ({comparison['first']['run']})")
    write_line(f"B  {comparison['second']['method']}  ({comparison['second']['run']})")
    write_line("")
    write_line(conclusion(comparison))
    write_line("")
    head = ("tests", "both", "only A", "only B", "neither", "A", "B", "B - A", "95 %", "p")
    write_grid(head, [_row(*each) for each in comparison["suites"].items()], [False] + [True] * 9)
    write_line("")
    write_line(
        f"{comparison['n']} problems, {comparison['identical_completions']} with the same completion; "
        "p is from McNemar's exact test, the interval is Tango's for pairs"
    )
    if "extended" in comparison["suites"]:
        write_line("base: the task's own tests; extended: those and further ones, never shown")
    for line in (*_pass_lines(comparison["passes"]), *_time_lines(comparison["time"])):
        write_line(line)
    for remark in (NOT_IN_TURN, *comparison["remarks"]):
        write_line(f"Note: {remark}")
    write_line("")


def _row(suite: str, paired: Mapping[str, Any]) -> tuple[str, ...]:
    interval = paired["difference_interval"]
    return (
        suite,
        *(str(paired[key]) for key in ("both", "only_first", "only_second", "neither")),
        *(f"{paired[key]:.1%}" for key in ("score_first", "score_second")),
        f"{paired['difference']:+.1%}",
        "" if interval is None else f"{interval[0]:+.1%} to {interval[1]:+.1%}",
        f"{paired['mcnemar_p']:.3g}",
    )


def _pass_lines(passes: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    first, second = passes["first"], passes["second"]
    sides = (
        f"{side} {each['full_passes']:.1f} full and {each['cached_passes']:.1f} cached in "
        f"{each['updates']:.1f} updates"
        for side, each in (("A", first), ("B", second))
    )
    yield f"passes per problem, on any machine: {', '.join(sides)}"
    if first["operations"] and second["operations"]:
        share = second["operations"] / first["operations"]
        yield (
            f"operations per problem: A {first['operations']:.3g}, B {second['operations']:.3g}, "
            f"{share:.2f} times those of A"
        )


def _time_lines(time: Mapping[str, Any]) -> Iterator[str]:
    interval, each = time["speedup_interval"], time["per_problem"]
    within = "" if interval is None else f" (95 %: {interval[0]:.2f} to {interval[1]:.2f})"
    taken = f"seconds per problem: A {time['seconds_first']:.3f}, B {time['seconds_second']:.3f}"
    if time["speedup"] is None:
        yield taken
        return
    yield f"{taken}; B is {time['speedup']:.2f} times as fast{within}"
    if interval is not None:
        yield (
            f"problem by problem: median {each['median']:.2f} x, quartiles "
            f"{each['quartiles'][0]:.2f} to {each['quartiles'][1]:.2f}, "
            f"geometric mean {each['geometric_mean']:.2f}"
        )
