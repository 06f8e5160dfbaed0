"""The corpus of hostile and honest programs: 0 wrong verdicts, as root and not, in every tier."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from archer.judge import Judge, Tier, Verdict
from judge.corpus import Case, corpus

REPOSITORY = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("runner.py")
USERS = ("root", "nobody")
TIERS: tuple[Tier, ...] = ("A", "B")
CONFIGURATIONS = [(user, tier) for user in USERS for tier in TIERS]
WALLS = ("spoofs", "escapes", "exhaustion", "connection", "sockets", "signals", "disk")
SLOW = {
    "200 MB to stdout",
    "a million small files",
    "an answer of 100 MB",
    "exponential list",
    "recursion limit 1e9",
    "removes everything",
    "three million items",
    "append 1 MiB for ever",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A to C are for Linux")


def for_every_configuration(case: Case) -> bool:
    """Quick programs that try the walls; the protocol is the same everywhere."""
    quick = case.name not in SLOW and "timeout" not in case.outcomes
    return quick and case.family in WALLS


def wrong(case: Case, verdict: Mapping[str, object]) -> bool:
    return (
        verdict["outcome"] not in case.outcomes
        or (case.flooded is not None and verdict["flooded"] != case.flooded)
        or (case.violated is not None and (verdict["integrity"] == "violated") != case.violated)
    )


def verdicts(user: str, tier: Tier, cases: list[Case]) -> dict[str, Mapping[str, object]]:
    """As the user asked for: in this process if that is who runs it, else in one of its own."""
    if (user == "root") == (os.geteuid() == 0):
        with Judge(workers=2, tier=tier) as judge:
            graded = judge.grade_many([case.check for case in cases])
            return {cases[position].name: verdict.as_dict() for position, verdict in graded}
    if user == "root":
        pytest.skip("these tests do not run as root")
    names = json.dumps([case.name for case in cases])
    command = [sys.executable, str(RUNNER), user, tier]
    done = subprocess.run(command, input=names, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["uid"] != 0
    found: dict[str, Mapping[str, object]] = report["verdicts"]
    return found


def assert_all_right(user: str, tier: Tier, cases: list[Case]) -> None:
    found = verdicts(user, tier, cases)
    assert len(found) == len(cases)
    mistakes = {case.name: found[case.name] for case in cases if wrong(case, found[case.name])}
    assert mistakes == {}


@pytest.mark.parametrize(("user", "tier"), CONFIGURATIONS)
def test_no_wrong_verdict(user: str, tier: Tier) -> None:
    """The attacks on the walls in every configuration, the others dealt out over all four."""
    cases = corpus(str(REPOSITORY))
    share = CONFIGURATIONS.index((user, tier))
    dealt = [case for case in cases if not for_every_configuration(case)]
    everywhere = [case for case in cases if for_every_configuration(case)]
    assert len(everywhere) > 100
    assert_all_right(user, tier, everywhere + dealt[share :: len(CONFIGURATIONS)])


@pytest.mark.slow
@pytest.mark.parametrize(("user", "tier"), CONFIGURATIONS)
def test_no_wrong_verdict_on_any_program(user: str, tier: Tier) -> None:
    assert_all_right(user, tier, corpus(str(REPOSITORY)))


@pytest.mark.slow
def test_no_wrong_verdict_under_bwrap() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    assert_all_right("nobody", "C", corpus(str(REPOSITORY)))


def test_the_corpus_is_large_enough_and_has_distinct_names() -> None:
    names = [case.name for case in corpus("")]
    assert len(names) == len(set(names)) >= 280
    assert len([name for name in names if name.startswith("spoof: ")]) >= 7
    assert set(names) >= SLOW


HARMLESS_ATTACKS = (
    "reads /etc/passwd",
    "reads the project",
    "symbolic link to the outside",
    "one fork",
    "subprocess",
    "memfd",
    "IPv6",
    "abstract Unix socket",
    "datagram pair",
    "packets in sequence",
    "owner of a pipe",
    "another signal for a descriptor",
    "larger pipes",
    "notice of a folder",
    "a handle of the parent",
    "memory as a file",
)


def test_attacks_do_succeed_where_nothing_stops_them() -> None:
    """So a verdict other than pass shows a wall, not a harmless program."""
    cases = [case for case in corpus(str(REPOSITORY)) if case.name in HARMLESS_ATTACKS]
    assert len(cases) == len(HARMLESS_ATTACKS)
    with Judge(workers=1, tier="F", unsafe_no_sandbox=True) as judge:
        found: dict[str, Verdict] = {case.name: judge.grade(case.check) for case in cases}
    assert {name: verdict.outcome for name, verdict in found.items()} == dict.fromkeys(
        HARMLESS_ATTACKS, "pass"
    )
