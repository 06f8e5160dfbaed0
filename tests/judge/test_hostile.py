"""The corpus of hostile and honest programs: 0 wrong verdicts, as root and not, in every tier."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from archer.judge import Judge, Tier, Verdict
from archer.tasks.reader import sources
from judge.corpus import Case, corpus
from tasks.bombs import BOMBS, FLAT, SLOW_TEXTS

REPOSITORY = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("runner.py")
USERS = ("root", "nobody")
TIERS: tuple[Tier, ...] = ("A", "B")
CONFIGURATIONS = [(user, tier) for user in USERS for tier in TIERS]
PEAK_MIB = 400
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

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are for Linux")


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
            return {cases[position].name: asdict(verdict) for position, verdict in graded}
    found: dict[str, Mapping[str, object]] = report_of_a_process(user, tier, cases)["verdicts"]
    return found


def report_of_a_process(
    user: str, tier: Tier, cases: Sequence[Case] = (), texts: Sequence[str] = ()
) -> Mapping[str, Any]:
    """From a process that does nothing but judge and read, and stays small over it."""
    if user == "root" and os.geteuid() != 0:
        pytest.skip("these tests do not run as root")
    programs = [case.name for case in cases]
    request = json.dumps({"programs": programs, "texts": texts, "modules": sources()})
    how = "as-it-is" if user == "root" else user
    command = [sys.executable, str(RUNNER), how, tier]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: Mapping[str, Any] = json.loads(done.stdout)
    assert (report["uid"] == 0) == (user == "root")
    assert report["peak_mib"] < PEAK_MIB
    return report


def assert_all_right(cases: list[Case], found: Mapping[str, Mapping[str, object]]) -> None:
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
    chosen = everywhere + dealt[share :: len(CONFIGURATIONS)]
    assert_all_right(chosen, verdicts(user, tier, chosen))


def assert_all_read_or_refused(readings: Mapping[str, str]) -> None:
    """A bomb may end its reader; a long text must not, but may take too long on a busy machine."""
    for name, outcome in readings.items():
        _, outcomes = BOMBS.get(name, ("", ("read",)))
        assert outcome in (*outcomes, "timeout"), name


@pytest.mark.parametrize(("user", "tier"), CONFIGURATIONS)
def test_texts_are_read_behind_the_same_walls(user: str, tier: Tier) -> None:
    chosen = [*FLAT, *list(SLOW_TEXTS)[::7]]
    readings = report_of_a_process(user, tier, texts=chosen)["readings"]
    assert len(readings) == len(chosen) >= 6
    assert_all_read_or_refused(readings)


@pytest.mark.slow
@pytest.mark.parametrize(("user", "tier"), CONFIGURATIONS)
def test_no_wrong_verdict_on_any_program(user: str, tier: Tier) -> None:
    cases = corpus(str(REPOSITORY))
    report = report_of_a_process(user, tier, cases, [*BOMBS, *SLOW_TEXTS])
    assert_all_right(cases, report["verdicts"])
    assert_all_read_or_refused(report["readings"])
    assert len(report["readings"]) == len(BOMBS) + len(SLOW_TEXTS)


def test_the_corpus_is_large_enough_and_has_distinct_names() -> None:
    names = [case.name for case in corpus("")]
    assert len(names) == len(set(names)) >= 320
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
    "asks for groups and sessions of other processes",
    "asks how other processes are scheduled",
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
