"""The halving as a pure function: who goes on, and how many problems a round has."""

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
