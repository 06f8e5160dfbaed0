"""What the studies compute, on trajectories and arms written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.pages.tables import Field, Value
from archer.pages.trajectory import Trajectory
from archer.results.completion import Completion, Seconds
from archer.results.trace import Placed, Update, first_difference
from archer.tasks import Sample
from archer_studies.paper.age import nearest_age, parted, versus
from archer_studies.paper.cache_use import use
from archer_studies.paper.cases import alternating, exclusive
from archer_studies.paper.cross_domain import domain_of
from archer_studies.paper.main import overall, performance, problems_of, settings_of, speedup
from archer_studies.paper.prompt_length import averaged, ratio_of_medians, timed
from archer_studies.paper.radius import selected
from archer_studies.paper.response_length import tiled
from archer_studies.paper.rollback import activity, revisions
from archer_studies.probes.trajectories import DecodedProblem, revised_between, taken_back
from archer_studies.study import published
from studies.tiny_workspace import made_arm
from support.recorded import MASK, start, update


def change(number: int, accepted: dict[int, int], remasked: tuple[int, ...] = ()) -> Update:
    placed = [Placed(at=at, token=token, confidence=None) for at, token in accepted.items()]
    return update(number, accepted=placed, remasked=remasked)


def problem(*updates: Update, length: int = 4) -> DecodedProblem:
    done = len(updates)
    completion = Completion(None, (), "length", done, done, 0, 0, 0, 0, 1, Seconds(full=1.0))
    return DecodedProblem(Trajectory(start(length), 0, list(updates)), completion, 10)


REVISING = problem(
    change(1, {0: 5, 1: 6}, (1,)),
    change(2, {1: 7, 2: 5}, (0,)),
    change(3, {0: 5, 3: 8}, (2,)),
    change(4, {2: 6}),
)
"""1 is placed and taken back in one update; 0 comes back as it was, 2 as another token."""


def test_revised_positions_of_a_trajectory_written_by_hand() -> None:
    assert REVISING.states[-1] == [5, 7, 6, 8]
    assert revised_between(REVISING.states, MASK) == {0, 2}
    assert revisions(REVISING) == {
        "revised": 50.0,
        "revised_ever": 75.0,
        "updates": 4.0,
        "remasks": 3,
        "changed": 2,
    }


def test_a_re_mask_takes_back_the_token_that_was_there() -> None:
    trajectory = REVISING.trajectory
    assert taken_back(trajectory.start, trajectory.updates) == [(1, 6), (0, 5), (2, 5)]


def test_activity_averages_over_problems_and_pools_re_masks() -> None:
    still = problem(change(1, {0: 1, 1: 1, 2: 1, 3: 1}))
    row = activity([REVISING, still])
    assert (row["n"], row["revised"], row["revised_ever"], row["updates"]) == (2, 25.0, 37.5, 2.5)
    assert row["remasks"] == 3
    assert row["changed"] == pytest.approx(200 / 3)
    assert row["changed_interval"] == pytest.approx([200 / 3] * 2)
    alone = activity([still])
    assert alone["changed"] is None
    assert Field("changed").cell(alone, ()) == Value(None)


@given(st.lists(st.lists(st.sampled_from([7, 8, MASK]), min_size=3, max_size=3), max_size=6))
def test_revised_is_what_the_definition_over_all_pairs_of_states_says(
    states: list[list[int]],
) -> None:
    slow = {
        at
        for at in range(3)
        for earlier in range(len(states))
        for later in range(earlier, len(states))
        if states[earlier][at] != MASK and states[later][at] != states[earlier][at]
    }
    assert revised_between(states, MASK) == slow


@pytest.mark.parametrize(
    ("first", "second", "update"),
    [
        ([[9, 9], [1, 9], [1, 2]], [[9, 9], [1, 9], [1, 3]], 2),
        ([[9, 9], [1, 9]], [[9, 9], [9, 1]], 1),
        ([[9, 9], [1, 2]], [[9, 9], [1, 2]], None),
        ([[9, 9], [1, 2]], [[9, 9], [1, 2], [1, 3]], 2),
    ],
)
def test_first_difference(
    first: list[list[int]], second: list[list[int]], update: int | None
) -> None:
    assert first_difference(first, second) == update
    assert first_difference(second, first) == update


def test_the_radius_is_the_best_on_dev_and_the_cheaper_of_equals() -> None:
    rows = [
        {"radius": "1", "base": 40.0, "operations": 3.0},
        {"radius": "4", "base": 50.0, "operations": 2.0},
        {"radius": "8", "base": 50.0, "operations": 1.5},
        {"radius": "inf", "base": 45.0, "operations": 1.0},
    ]
    assert selected(rows) == "8"


@pytest.mark.parametrize(
    ("updates", "fraction", "age"),
    [
        ([12, 12], 0.25, 4),
        ([12, 12], 1.0, 1),
        ([12, 12], 0.0, 12),
        ([10, 5], 6 / 15, 3),
        ([1], 1.0, 1),
    ],
)
def test_the_age_that_refreshes_as_often(updates: list[int], fraction: float, age: int) -> None:
    assert nearest_age(updates, fraction) == age


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 30))
def test_an_age_is_found_again_from_its_own_refresh_fraction(updates: list[int], age: int) -> None:
    def fraction(every: int) -> float:
        return sum(len(range(0, count, every)) for count in updates) / sum(updates)

    assert fraction(nearest_age(updates, fraction(age))) == pytest.approx(fraction(age))


def test_rules_are_compared_by_discordant_pairs() -> None:
    eager = made_arm({key: {"passed": True, "tokens": [1]} for key in "abcd"})
    kept = {"passed": True, "tokens": [1]}
    lost = {"passed": False, "tokens": [2]}
    by_distance = made_arm(dict.fromkeys("abcd", kept))
    by_age = made_arm({"a": kept, "b": lost, "c": lost, "d": lost})
    assert parted(by_age, eager) == [False, True, True, True]
    assert versus(by_distance, by_age, eager) == {"score_p": 0.25, "parted_p": 0.25}


def test_exclusive_problems_and_their_order() -> None:
    arms = {
        "saber": made_arm({key: {"passed": key in "abc"} for key in "abcde"}),
        "archer": made_arm({key: {"passed": key in "cd"} for key in "abcde"}),
    }
    assert exclusive(arms, "saber") == ["a", "b"]
    assert exclusive(arms, "archer") == ["d"]
    assert alternating(["a", "b", "c"], ["d"], 3) == ["a", "d", "b"]
    assert alternating([], [], 6) == []


def test_overall_averages_scores_and_speedups_of_benchmarks() -> None:
    both = {"base": True, "extended": False}
    short = made_arm({"a": {"passed": both, "seconds": 1.0}, "b": {"passed": both, "seconds": 1.0}})
    slow = made_arm({"a": {"seconds": 3.0}, "b": {"seconds": 1.0}})
    long = made_arm({"a": {"passed": False, "seconds": 2.0}})
    longer = made_arm({"a": {"seconds": 8.0}})
    row = overall({"short": (short, slow), "long": (long, longer)})
    assert row["n"] == 2
    assert row["performance"] == pytest.approx((100 + 0 + 0) / 3)
    assert row["speedup"] == pytest.approx((2.0 + 4.0) / 2)
    low, high = row["speedup_interval"]
    assert low <= row["speedup"] <= high


def test_a_problem_of_two_benchmarks_is_resampled_as_one() -> None:
    short, long = made_arm({"a": {}, "b": {}}), made_arm({"a": {"passed": True}})
    problems = problems_of({"short": (short, short), "long": (long, long)})
    assert [sorted(problem) for problem in problems] == [["long", "short"], ["short"]]
    assert performance(problems) == 50.0
    assert performance(problems[1:]) == 0.0
    assert speedup(problems[1:]) == 1.0


def test_a_part_of_an_arm_has_its_own_costs() -> None:
    arm = made_arm(
        {"a": {"updates": 10, "full": 1}, "b": {"updates": 2, "full": 2, "passed": True}}
    )
    part = arm.part(["b"])
    assert part.keys == ["b"]
    assert part.passed("b")
    assert part.summary.refresh_fraction == 1.0
    assert part.summary.per_problem["updates"] == 2


def test_shares_of_passes_are_pooled_over_problems() -> None:
    row = use(made_arm({"a": {"updates": 10, "full": 1}, "b": {"updates": 30, "full": 3}}))
    assert (row["full"], row["cached"], row["reused"]) == (10.0, 90.0, 0.0)
    assert row["full_interval"] == [10.0, 10.0]
    assert row["refresh_fraction"] == 0.1


def test_updates_are_compared_by_medians_and_overall_by_the_mean_of_ratios() -> None:
    pairs = [(4.0, 2.0), (4.0, 2.0), (90.0, 1.0)]
    assert ratio_of_medians(pairs) == 2.0
    row = timed(pairs)
    assert (row["n"], row["full_ms"], row["cached_ms"], row["speedup"]) == (3, 4000.0, 2000.0, 2.0)
    other = timed([(12.0, 3.0)] * 3)
    rows = [row | {"limit": 2.0}, other | {"limit": 6.0}]
    whole = averaged(rows, [[(4.0, 2.0)] * 3, [(12.0, 3.0)] * 3])
    assert (whole["speedup"], whole["speedup_of_means"], whole["limit"]) == (3.0, 3.2, 4.0)
    assert whole["speedup_interval"] == [3.0, 3.0]


def test_prompts_are_cut_or_repeated() -> None:
    assert tiled([1, 2, 3], 2) == [1, 2]
    assert tiled([1, 2, 3], 7) == [1, 2, 3, 1, 2, 3, 1]


def test_domains_are_families_and_a_task_without_them_is_one() -> None:
    assert domain_of(Sample(1, (), "", {"family": "zip"}), "pocket") == "pairs and dictionaries"
    assert domain_of(Sample(1, (), "", {"family": "new"}), "pocket") == "new"
    assert domain_of(Sample(1, (), "", {}), "math500") == "math500"


def test_settings_follow_the_paper_where_it_has_any() -> None:
    assert settings_of("archer", "mbpp") == {"radius": 11}
    assert settings_of("archer", "pocket") == {"radius": 8}
    assert settings_of("dllm-cache", "humaneval") == {"prompt_interval": 50, "response_interval": 8}
    assert settings_of("saber", "mbpp") == {}


def test_published_figures_are_of_the_task_or_of_what_it_stands_for() -> None:
    paper = {"mbpp": {"a": 1}, "livecodebench": {"a": 2}}
    assert published(paper, "pocket") == {"a": 1}
    assert published(paper, "pocket-long") == {"a": 2}
    assert published(paper, "mbpp") == {"a": 1}
    assert published(paper, "math500") == {}
