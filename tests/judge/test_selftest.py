"""A missing wall is found before anything is graded, and named."""

from collections.abc import Callable
from typing import Any

import pytest

from archer.judge import Judge, NoSandbox, Outcome, Tier, Verdict, tiers
from archer.judge.plan import make_plan
from archer.judge.selftest import TRIALS, self_test
from archer.judge.tiers import LAYERS


def without(**changes: Any) -> Callable[..., dict[str, Any]]:
    def plan(*arguments: Any, **keywords: Any) -> dict[str, Any]:
        return {**make_plan(*arguments, **keywords), **changes}

    return plan


@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        ({"landlock": None}, "files"),
        ({"seccomp": None, "namespaces": None}, "network"),
        ({"preload": [], "rlimits": {"RLIMIT_NOFILE": 5}}, "files"),
    ],
)
def test_a_missing_layer_is_named(
    changes: dict[str, Any], layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "make_plan", without(**changes))
    with (
        pytest.raises(NoSandbox, match=f"does not hold: {layer}"),
        Judge(workers=1, tier="B"),
    ):
        pass


def test_each_wrong_verdict_is_noticed() -> None:
    for wrong in TRIALS:

        def grade(check: object, wrong: Any = wrong) -> Verdict:
            [trial] = [trial for trial in TRIALS if trial.check is check]
            other: Outcome = "fail" if trial.outcome == "pass" else "pass"
            return Verdict(other if trial is wrong else trial.outcome, flooded=trial.flooded)

        tier: Tier = "A" if wrong.layer in LAYERS["A"] else "B"
        with pytest.raises(NoSandbox, match=wrong.layer):
            self_test(grade, tier)


def test_right_verdicts_satisfy_it_and_tier_f_is_not_asked_for_walls() -> None:
    asked: list[object] = []

    def grade(check: object) -> Verdict:
        asked.append(check)
        [trial] = [trial for trial in TRIALS if trial.check is check]
        return Verdict(trial.outcome, flooded=trial.flooded)

    self_test(grade, "A")
    assert len(asked) == len([trial for trial in TRIALS if trial.layer != "names"])
    asked.clear()
    self_test(grade, "F")
    assert 0 < len(asked) < len(TRIALS)


def test_there_are_enough_trials_of_both_kinds() -> None:
    honest = [trial for trial in TRIALS if "honest" in trial.name]
    assert len(honest) >= 5
    assert len(TRIALS) - len(honest) >= 8
