"""A missing wall is found before anything is graded, and named."""

import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archer.judge import (
    Check,
    Judge,
    NoSandbox,
    Outcome,
    Tier,
    Verdict,
    program_run,
    selftest,
    tiers,
)
from archer.judge.filters import ALLOW, DELETING, IF_EQUAL, MOVING, RETURN, CallGroup, numbers
from archer.judge.sandbox_plan import TEMPORARY_BYTES, make_plan
from archer.judge.selftest import ABOVE, TRIALS, Trial, self_test
from archer.judge.tiers import LAYERS

Change = Callable[[dict[str, Any]], dict[str, Any]]
MANY = 1 << 20


def trial_of(check: object) -> Trial:
    [trial] = [trial for trial in TRIALS if trial.check is check]
    return trial


def unlimited(name: str) -> Change:
    """Without one of the resource limits."""
    return lambda plan: plan | {"rlimits": {k: v for k, v in plan["rlimits"].items() if k != name}}


def answering(calls: Sequence[str], answer: int = ALLOW) -> Change:
    """With a filter that lets some calls through."""
    machine = platform.machine()
    known = numbers(CallGroup.ALLOWED, machine) | numbers(CallGroup.CONDITIONAL, machine)
    chosen = [number for call, number in known.items() if call in calls]

    def change(plan: dict[str, Any]) -> dict[str, Any]:
        head, rest = plan["seccomp"][:4], plan["seccomp"][4:]
        allow = [
            each for number in chosen for each in ((IF_EQUAL, 0, 1, number), (RETURN, 0, 0, answer))
        ]
        return plan | {"seccomp": [*head, *allow, *rest]}

    return change


def writing_to_tmp(plan: dict[str, Any]) -> dict[str, Any]:
    """With a rule that lets programs write to what the system's temporary folder holds."""
    landlock = plan["landlock"] | {"device": plan["landlock"]["work"]}
    return plan | {"landlock": landlock, "devices": [*plan["devices"], tempfile.gettempdir()]}


# wall: (the tier, the plan without it, the trial that must notice)
MISSING: dict[str, tuple[Tier, Change, str]] = {
    "Landlock": ("B", lambda plan: plan | {"landlock": None}, "reads /etc/passwd"),
    "sockets": ("B", lambda plan: plan | {"seccomp": None}, "makes a socket"),
    "files that are needed": (
        "B",
        lambda plan: plan | {"preload": [], "rlimits": {"RLIMIT_NOFILE": 5}},
        "does not hold: files",
    ),
    "the folder above": ("B", writing_to_tmp, "writes above its folder"),
    "the size of a file": ("B", unlimited("RLIMIT_FSIZE"), "too large"),
    "the size of a file in A": ("A", unlimited("RLIMIT_FSIZE"), "too large"),
    "open files": ("B", unlimited("RLIMIT_NOFILE"), "opens many files"),
    "threads": ("B", unlimited("RLIMIT_NPROC"), "starts many threads"),
    "threads in A": ("A", unlimited("RLIMIT_NPROC"), "starts many threads"),
    "files in A": (
        "A",
        lambda plan: plan | {"tmpfs": f"mode=777,size={TEMPORARY_BYTES}"},
        "makes thousands of files",
    ),
    "names": ("B", answering(DELETING), "takes a file's name away"),
    "other names": ("B", answering(MOVING), "gives a file another name"),
    "no names": ("B", answering(("open", "openat")), "makes a file without a name"),
    "other processes": ("B", answering(("getpgid",)), "learns of other processes"),
    "other sessions": ("B", answering(("getsid",)), "learns of other processes"),
    "priorities of others": ("B", answering(("getpriority",)), "learns of other processes"),
    "turns of others": ("B", answering(("sched_getscheduler",)), "learns of other processes"),
    "settings of others": ("B", answering(("sched_getparam",)), "learns of other processes"),
    "datagrams": ("B", answering(("socketpair",)), "makes a datagram socket"),
    "processes": ("B", answering(("clone", "clone3")), "starts a process"),
    "signals by the kernel": ("B", answering(("fcntl",)), "has the kernel send signals"),
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("wall", MISSING)
def test_a_missing_wall_is_named(wall: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, change, trial = MISSING[wall]

    def plan(*arguments: Any, **keywords: Any) -> dict[str, Any]:
        return change(make_plan(*arguments, **keywords))

    monkeypatch.setattr(tiers, "make_plan", plan)
    with pytest.raises(NoSandbox, match=trial), Judge(workers=1, tier=tier):
        pass
    assert not Path(tempfile.gettempdir(), ABOVE).exists()


@pytest.mark.slow
def test_a_judge_that_does_not_count_files_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_run, "TEMPORARY_FILES", 1 << 30)
    with pytest.raises(NoSandbox, match="makes thousands of files"), Judge(workers=1, tier="B"):
        pass


def test_a_judge_that_does_not_look_into_folders_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program_run, "TEMPORARY_BYTES", 1 << 40)
    monkeypatch.setattr(program_run, "_tree", lambda folder: iter(os.scandir(folder)))
    tried = [trial for trial in selftest.TRIALS if trial.layer == "disk"]
    hurried = tuple(replace(trial, check=_hurried(trial.check)) for trial in tried)
    monkeypatch.setattr(selftest, "TRIALS", hurried)
    with pytest.raises(NoSandbox, match="fills the disk out of sight"), Judge(workers=1, tier="B"):
        pass


def _hurried(check: Check) -> Check:
    return replace(check, program=check.program.replace("time.sleep(20)", "time.sleep(1)"))


def test_more_threads_than_can_be_tried_are_not() -> None:
    assert len(selftest.crowd(32)) == 1
    assert selftest.crowd(100_000) == ()


def test_each_wrong_verdict_is_noticed() -> None:
    for wrong in TRIALS:

        def grade(check: object, wrong: Any = wrong) -> Verdict:
            trial = trial_of(check)
            other: Outcome = "fail" if trial.outcome == "pass" else "pass"
            return Verdict(other if trial is wrong else trial.outcome, flooded=trial.flooded)

        tier: Tier = "A" if wrong.layer in LAYERS["A"] else "B"
        with pytest.raises(NoSandbox, match=wrong.layer):
            self_test(grade, tier, MANY)


def test_right_verdicts_satisfy_it_and_tier_f_is_not_asked_for_walls() -> None:
    asked: list[object] = []

    def grade(check: object) -> Verdict:
        asked.append(check)
        trial = trial_of(check)
        return Verdict(trial.outcome, flooded=trial.flooded)

    self_test(grade, "A", MANY)
    assert len(asked) == len([trial for trial in TRIALS if trial.layer != "names"])
    asked.clear()
    self_test(grade, "F", MANY)
    assert 0 < len(asked) < len(TRIALS)
