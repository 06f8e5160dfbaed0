"""Which point of the frontier is chosen for which goal, and what is said about its certainty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.tune.choice import Goal, apart, as_good, choose, frontier
from archer.tune.halving import Seen
from tune.test_halving import shown

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
