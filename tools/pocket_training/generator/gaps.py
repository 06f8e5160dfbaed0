"""Gaps in reference bodies, drawn anew: a function of the problem alone."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random

from archer.pocket.gaps import KINDS, Cut, Kind
from archer.pocket.problems import Problem
from pocket_training.generator.problems import VERSION

GAPS = 2
"""Of each kind and problem at most."""
INDENT = "\n    "


def cuts(problems: Sequence[Problem]) -> Iterator[Cut]:
    """The gaps of all problems, one kind after the other."""
    for kind in KINDS:
        for problem in problems:
            rng = Random(f"pocket-{VERSION}-gaps-{kind}-{problem.name}")
            choices = _choices(problem.body, kind)
            for number, place in enumerate(sorted(rng.sample(choices, k=min(GAPS, len(choices))))):
                yield Cut(f"{problem.name}/{kind}-{number}", problem.name, kind, *place)


def _choices(body: str, kind: Kind) -> list[tuple[int, int]]:
    """All gaps of a kind with text of the body behind them."""
    if kind == "span":
        first = len(INDENT)
        return [(a, b) for b in range(first + 1, len(body)) for a in range(first, b)]
    lines = [f"\n{line}" for line in body.split("\n")[1:]]
    ends = list(accumulate(map(len, lines), initial=0))[:-1]
    return [
        (ends[a], ends[b])
        for a in range(len(ends))
        for b in range(a + 1, len(ends))
        if (b == a + 1) == (kind == "line")
    ]
