"""Which method to use, from what the finalists showed on the same problems; and what that cannot tell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archer.errors import BadRequest
from archer.pages.figures import undominated
from archer.runs.comparison import SURE
from archer.runs.statistics import Pairs, holm, wilson
from archer.tune.halving import Seen

PERCENT = 100.0


@dataclass(frozen=True)
class Goal:
    """What the method is chosen for; neither: the cheapest that is about as good as the best."""

    at_least: float | None = None
    """Score in per cent."""
    at_most: float | None = None
    """Cost, the reference's being 1."""

    def __post_init__(self) -> None:
        if self.at_least is not None and self.at_most is not None:
            raise BadRequest("Ask for a score or for a cost, not both: the other follows.")
        if self.at_least is not None and not 1 < self.at_least <= PERCENT:
            raise BadRequest(f"The score must be in percent, such as 75, not {self.at_least:g}.")
        if self.at_most is not None and not 0 < self.at_most < math.inf:
            raise BadRequest(
                f"The cost must be above 0, such as 0.5 for half of Saber's operations, "
                f"not {self.at_most:g}."
            )


@dataclass(frozen=True)
class ChosenMethod:
    """The method, why it is the one, and what a reader must not believe."""

    label: str | None
    """None where no finalist reaches the goal."""
    reason: str
    warnings: tuple[str, ...] = ()


def frontier(seen: Mapping[str, Seen]) -> list[str]:
    """Who is beaten by nobody in both score and cost, cheapest first; of equals the first by name."""
    first: dict[tuple[float, float], str]
    first = {(seen[label].cost, seen[label].score): label for label in sorted(seen, reverse=True)}
    return [first[point] for point in undominated(list(first))]


def choose(seen: Mapping[str, Seen], reference: str, goal: Goal) -> ChosenMethod:
    """A point of the frontier, with what its problems cannot tell about it."""
    best = frontier(seen)
    unit = seen[reference].cost
    if goal.at_least is not None:
        reached = [name for name in best if PERCENT * seen[name].score >= goal.at_least]
        reason = f"the cheapest that solves at least {goal.at_least:g} %"
        missed = f"{_most(seen, best[-1])} is the most that a method solves"
    elif goal.at_most is not None:
        reached = [name for name in reversed(best) if seen[name].cost / unit <= goal.at_most]
        reason = f"the best at a cost of at most {goal.at_most:g}"
        missed = f"{seen[best[0]].cost / unit:.3f} is the lowest cost"
    else:
        reached = [name for name in best if as_good(seen[name], seen[best[-1]])]
        reason = "the cheapest within one standard error of the best"
        missed = ""
    if not reached:
        return ChosenMethod(None, f"No method reaches the goal: {missed}.")
    return ChosenMethod(reached[0], reason, tuple(_warnings(seen, reached[0], goal)))


def as_good(mine: Seen, other: Seen) -> bool:
    """Whether the loss against another one is within one standard error of the paired difference."""
    both = Pairs(mine.solved, other.solved)
    loss, discordant = both.only_second - both.only_first, both.only_second + both.only_first
    return loss <= math.sqrt(max(0.0, discordant - loss**2 / both.n))


def apart(seen: Mapping[str, Seen], label: str) -> dict[str, float]:
    """How likely the others' scores differ that much from this one's by chance, adjusted for their number."""
    others = [name for name in seen if name != label]
    chances = [Pairs(seen[label].solved, seen[name].solved).p for name in others]
    return dict(zip(others, holm(chances), strict=True))


def _warnings(seen: Mapping[str, Seen], label: str, goal: Goal) -> list[str]:
    mine, warnings = seen[label], []
    n = len(mine.solved)
    low, high = (PERCENT * each for each in wilson(sum(mine.solved), n))
    if goal.at_least is not None and low < goal.at_least:
        warnings.append(
            f"Whether {label} solves at least {goal.at_least:g} % cannot be decided from {n} problems: "
            f"its 95 % interval is {low:.1f} to {high:.1f} %."
        )
    alike = [name for name, chance in apart(seen, label).items() if chance >= SURE]
    cheaper = [name for name in alike if seen[name].cost < mine.cost]
    if cheaper:
        warnings.append(
            f"{n} problems cannot tell the score of {label} from that of cheaper methods: "
            f"{_listed(cheaper)}."
        )
    dearer = [name for name in alike if seen[name].cost >= mine.cost]
    if dearer:
        warnings.append(
            f"{n} problems cannot tell the score of {label} from that of more expensive methods: "
            f"{_listed(dearer)}."
        )
    return warnings


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names)


def _most(seen: Mapping[str, Seen], label: str) -> str:
    return f"{PERCENT * seen[label].score:.1f} %"
