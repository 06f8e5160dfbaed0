"""The halving and the choice as pure functions: who goes on, how large a round is, what is chosen."""

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.tune.choice import Goal, apart, as_good, choose, frontier
from archer.tune.halving import (
    LEAST,
    Calibration,
    Seen,
    dominated,
    least_seconds,
    outdone,
    problems,
    ranked,
    rounds,
    spent,
    survivors,
)

FIRST = "a"
LABELS = "abcdefghij"


@st.composite
def shown(draw: st.DrawFn, least: int = 2) -> dict[str, Seen]:
    """Several candidates on the same few problems."""
    labels = LABELS[: draw(st.integers(least, len(LABELS)))]
    n = draw(st.integers(1, 6))
    verdicts = st.lists(st.booleans(), min_size=n, max_size=n)
    counts = st.lists(st.integers(1, 9), min_size=n, max_size=n)
    return {label: Seen(tuple(draw(verdicts)), tuple(draw(counts))) for label in labels}


def naive_outdone(mine: Seen, other: Seen) -> float:
    only = [0, 0]
    for a, b in zip(mine.solved, other.solved, strict=True):
        if a != b:
            only[b] += 1
    return 0.0 if only == [0, 0] else (only[1] - only[0]) / math.sqrt(only[0] + only[1])


@given(shown(), st.data())
def test_as_many_go_on_as_asked_and_the_reference_always(
    seen: dict[str, Seen], data: st.DataObject
) -> None:
    keep = data.draw(st.integers(1, len(seen)))
    left = survivors(seen, keep, FIRST)
    assert len(left) == keep
    assert FIRST in left
    assert left == [label for label in seen if label in left]


@given(shown(), st.integers(0, 1000), st.data())
def test_the_order_in_which_candidates_are_given_plays_no_part(
    seen: dict[str, Seen], seed: int, data: st.DataObject
) -> None:
    keep = data.draw(st.integers(1, len(seen)))
    shuffled = list(seen)
    Random(seed).shuffle(shuffled)
    other = {label: seen[label] for label in shuffled}
    assert ranked(other) == ranked(seen)
    assert set(survivors(other, keep, FIRST)) == set(survivors(seen, keep, FIRST))


@given(shown(), st.data())
def test_who_is_beaten_on_every_problem_never_stays_instead_of_the_better_one(
    seen: dict[str, Seen], data: st.DataObject
) -> None:
    """Whoever solves all that another solves, and costs no more, ranks no later."""
    worse = data.draw(st.sampled_from(sorted(seen)))
    mine = seen[worse]
    more = data.draw(st.lists(st.booleans(), min_size=len(mine.solved), max_size=len(mine.solved)))
    better = tuple(a or b for a, b in zip(mine.solved, more, strict=True))
    less = tuple(max(1, each - 1) for each in mine.operations)
    drawn = {**seen, "A": Seen(better, less)}
    assert dominated("A", drawn) <= dominated(worse, drawn)
    order = ranked(drawn)
    assert order.index("A") < order.index(worse)


@given(shown())
def test_pairs_are_counted_as_by_hand(seen: dict[str, Seen]) -> None:
    for mine in seen.values():
        for other in seen.values():
            assert outdone(mine, other) == naive_outdone(mine, other) == -outdone(other, mine)


@given(shown())
def test_the_cheapest_that_solves_something_comes_first(seen: dict[str, Seen]) -> None:
    useful = {label: each for label, each in seen.items() if any(each.solved)}
    lowest = min((each.cost for each in useful.values()), default=0)
    cheapest = [label for label, each in useful.items() if each.cost == lowest]
    if len(cheapest) == 1 and all(
        seen[label].cost > lowest for label in seen.keys() - useful.keys()
    ):
        assert ranked(seen)[0] == cheapest[0]


@given(st.integers(1, 500), st.integers(1, 20))
def test_rounds_halve_until_few_are_left(candidates: int, finalists: int) -> None:
    found = rounds(candidates, finalists)
    assert found[0] == candidates
    assert found[-1] == min(candidates, finalists) or candidates <= finalists
    for before, after in pairwise(found):
        assert after == max(finalists, math.ceil(before / 2)) < before


@given(
    shown(),
    st.floats(0.0, 10.0),
    st.floats(1.0, 1e4),
    st.integers(1, 5),
    st.integers(0, 300),
    st.integers(1, 9),
)
def test_a_round_fits_into_its_part_of_the_time(
    seen: dict[str, Seen], run: float, seconds: float, left: int, unseen: int, workers: int
) -> None:
    """Nobody waits idle: every worker has a problem as long as there are enough."""
    calibration = Calibration(dict.fromkeys(seen, 0.5), run, workers)
    new = problems(seen, calibration, seconds, left, unseen)
    assert min(workers, unseen) <= new <= unseen
    taken = sum(calibration.seconds(label, each, new) for label, each in seen.items())
    assert new <= workers or taken <= seconds / left * (1 + 1e-9)
    more = sum(calibration.seconds(label, each, new + 1) for label, each in seen.items())
    assert new in (unseen, workers) or more > seconds / left * (1 - 1e-9)
    assert problems(seen, calibration, 2 * seconds, left, unseen) >= new


@given(shown(), st.floats(0.0, 10.0), st.integers(1, 9), st.integers(0, 40))
def test_workers_take_turns(seen: dict[str, Seen], run: float, workers: int, problems: int) -> None:
    """As long as it takes to deal the problems out one by one and wait for the last."""
    alone, together = (Calibration(dict.fromkeys(seen, 0.5), run, each) for each in (1, workers))
    turns = len(range(0, problems, workers))
    for label, each in seen.items():
        assert together.seconds(label, each, problems) == alone.seconds(label, each, turns)


@given(shown(), st.floats(0.0, 10.0))
def test_what_was_spent_is_the_sum_over_rounds(seen: dict[str, Seen], run: float) -> None:
    calibration = Calibration(dict.fromkeys(seen, 0.25), run)
    once = sum(0.25 * each.cost + run for each in seen.values())
    assert spent([seen], calibration) == pytest.approx(once)
    assert spent([seen, seen], calibration) == pytest.approx(2 * once)
    assert spent([], calibration) == 0.0


def test_the_smallest_search_is_the_calibration_and_a_few_problems_per_round() -> None:
    seen = {label: Seen((True, False), (10, 30)) for label in "abcd"}
    calibration = Calibration(dict.fromkeys(seen, 0.1), 1.0)
    first, each = 4 * (4.0 + 1.0), LEAST * 2.0 + 1.0
    assert least_seconds(seen, calibration, 2) == pytest.approx(first + (4 + 2) * each)


def test_who_solves_nothing_leaves_first() -> None:
    seen = {"cheap": Seen((False, False), (1, 1)), "dear": Seen((True, False), (9, 9))}
    assert ranked(seen) == ["dear", "cheap"]


N = 100


def solving(problems: range, each: int) -> Seen:
    return Seen(tuple(number in problems for number in range(N)), (each,) * N)


SEEN = {
    "saber": solving(range(80), 100),
    "late": solving(range(2, 80), 60),
    "fast": solving(range(50), 10),
    "bad": solving(range(40), 70),
}


def test_a_score_or_a_cost_or_neither_decides() -> None:
    assert frontier(SEEN) == ["fast", "late", "saber"]
    assert frontier(SEEN | {"a": SEEN["late"], "z": SEEN["fast"]}) == ["fast", "a", "saber"]
    assert choose(SEEN, "saber", Goal(at_least=79)).label == "saber"
    assert choose(SEEN, "saber", Goal(at_least=78)).label == "late"
    assert choose(SEEN, "saber", Goal(at_least=50)).label == "fast"
    assert choose(SEEN, "saber", Goal(at_most=0.9)).label == "late"
    assert choose(SEEN, "saber", Goal(at_most=0.6)).label == "late"
    assert choose(SEEN, "saber", Goal(at_most=0.59)).label == "fast"
    assert choose(SEEN, "saber", Goal(at_most=2)).label == "saber"
    assert choose(SEEN, "saber", Goal()).label == "saber"


def test_a_goal_that_nobody_reaches_is_said() -> None:
    found = choose(SEEN, "saber", Goal(at_least=81))
    assert found.label is None
    assert found.reason == "No method reaches the goal: 80.0 % is the most that a method solves."
    found = choose(SEEN, "saber", Goal(at_most=0.05))
    assert (found.label, found.warnings) == (None, ())
    assert "0.100 is the lowest cost" in found.reason


def test_within_one_standard_error_the_cheaper_one_is_chosen() -> None:
    other = {**SEEN, "late": solving(range(2, 81), 60)}
    assert not as_good(solving(range(2, 80), 1), SEEN["saber"])
    assert as_good(other["late"], SEEN["saber"])
    assert choose(other, "saber", Goal()).label == "late"


def test_what_cannot_be_told_is_said() -> None:
    found = choose(SEEN, "saber", Goal(at_least=75))
    assert found.label == "late"
    assert found.warnings == (
        "Whether late solves at least 75 % cannot be decided from 100 problems: its 95 % interval is 68.9 "
        "to 85.0 %.",
        "100 problems cannot tell the score of late from that of more expensive methods: saber.",
    )
    found = choose(SEEN, "saber", Goal(at_most=1))
    assert found.warnings == (
        "100 problems cannot tell the score of saber from that of cheaper methods: late.",
    )
    assert choose(SEEN, "saber", Goal(at_least=40)).warnings == ()


def test_the_others_are_compared_pair_by_pair_and_adjusted() -> None:
    found = apart(SEEN, "saber")
    assert found["late"] == 0.5
    assert found["bad"] < found["fast"] < 1e-6


@given(shown(), st.sampled_from([Goal(), Goal(at_least=30), Goal(at_most=0.8), Goal(at_most=1)]))
def test_a_choice_is_on_the_frontier_and_reaches_its_goal(
    seen: dict[str, Seen], goal: Goal
) -> None:
    found = choose(seen, "a", goal)
    if found.label is None:
        return
    mine = seen[found.label]
    assert found.label in frontier(seen)
    assert goal.at_least is None or 100 * mine.score >= goal.at_least
    assert goal.at_most is None or mine.cost <= goal.at_most * seen["a"].cost


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"at_least": 0.75}, "must be in percent, such as 75, not 0.75"),
        ({"at_least": 101}, "must be in percent"),
        ({"at_most": 0}, "cost must be above 0"),
        ({"at_most": float("nan")}, "cost must be above 0"),
        ({"at_least": 70, "at_most": 0.5}, "a cost, not both"),
    ],
)
def test_goals_that_mean_nothing_are_refused(goal: dict[str, float], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        Goal(**goal)
