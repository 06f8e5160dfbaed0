"""The judge as its users meet it, and what it says and does when something is wrong with itself."""

import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from archer.errors import BadRequest
from archer.judge import (
    FunctionCheck,
    Judge,
    Limits,
    NoSandbox,
    Outcome,
    StdinCheck,
    Tier,
    Verdict,
    describe_tier,
    tiers,
)
from archer.judge.judge import Crowd
from archer.judge.program_run import Bench
from conftest import let_everybody_through

RIGHT = "def f(x): return x + 1"
TEST = "assert f(1) == 2"
LOOP = "def f(x):\n    while True: pass"
SOON = Limits(cpu_seconds=5, wall_seconds=0.3)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(workers=2, packages=("numpy",)) as opened:
        yield opened


def check(program: str, test: str = TEST, limits: Limits | None = None) -> FunctionCheck:
    return FunctionCheck(program, "f", test, limits=limits)


def test_a_pass_says_what_it_took(judge: Judge) -> None:
    verdict = judge.grade(check(RIGHT, "assert f(1) == 2\nassert f(2) == 3"))
    assert (verdict.outcome, verdict.reason, verdict.calls) == ("pass", "", 2)
    assert 0 < verdict.seconds < 20


def test_results_come_before_all_checks_are_known(judge: Judge) -> None:
    taken = 0

    def checks() -> Iterator[FunctionCheck]:
        nonlocal taken
        for _ in range(40):
            taken += 1
            yield check(RIGHT)

    results = judge.grade_many(checks())
    assert next(results)[1].outcome == "pass"
    assert taken < 10
    results.close()  # type: ignore[attr-defined]
    assert judge.grade(check(RIGHT)).outcome == "pass"


def test_cpu_time_has_its_own_limit(judge: Judge) -> None:
    limits = Limits(cpu_seconds=1, wall_seconds=60)
    verdict = judge._grade_once(check(LOOP, limits=limits))
    assert (verdict.outcome, verdict.reason) == ("timeout", "The program used up 1 s of CPU time.")
    script = judge._grade_once(StdinCheck("while True: pass", (("", ""),), limits=limits))
    assert script.outcome == "timeout"
    assert script.reason.startswith("Case 1 of 1: The program used up")


@pytest.mark.skipif(sys.platform != "linux", reason="tier B is for Linux")
def test_a_program_that_kills_itself_is_a_crash_unless_it_may_be_the_limit() -> None:
    program = "import os\ndef f(x): os.kill(os.getpid(), 9)"
    patient = Limits(cpu_seconds=3600, wall_seconds=3600)
    with Judge(patient, workers=1, tier="B") as judge:
        verdict = judge.grade(check(program))
    assert (verdict.outcome, verdict.reason) == ("crash", "The program was ended by SIGKILL.")


def test_a_test_that_the_answers_drive_mad_is_a_timeout(judge: Judge) -> None:
    limits = Limits(cpu_seconds=1, wall_seconds=60)
    mad = check("def f(x): return 10 ** 12", "for i in range(f(1)): pass", limits)
    verdict = judge._grade_once(mad)
    assert verdict.outcome == "timeout"
    assert "test" in verdict.reason


def test_expose_keeps_other_names_of_the_program_out(judge: Judge) -> None:
    program = "def helper(x): return 0\ndef f(x): return x"
    test = "assert helper(f(1)) == 0"
    assert judge.grade(FunctionCheck(program, "f", test)).outcome == "pass"
    closed = judge.grade(FunctionCheck(program, "f", test, expose=()))
    assert "NameError: name 'helper' is not defined" in closed.reason
    opened = FunctionCheck(program, "f", test, expose=("helper",))
    assert judge.grade(opened).outcome == "pass"


def test_standard_modules_are_lent_but_only_by_their_own_name(judge: Judge) -> None:
    test = "assert f(1) == sys.maxsize\nassert Counter('a') == {'a': 1}"
    program = "import sys\nfrom collections import Counter\ndef f(x): return sys.maxsize"
    assert judge.grade(FunctionCheck(program, "f", test, expose=())).outcome == "pass"
    renamed = "import math as sys\n" + RIGHT
    assert judge.grade(check(renamed, "assert sys.maxsize > f(1)")).outcome == "pass"
    unknown = "import unittest.mock as mock\n" + RIGHT
    assert "NameError" in judge.grade(check(unknown, "mock.ANY\n" + TEST)).reason


def test_packages_are_importable_only_when_named(judge: Judge) -> None:
    program = "import numpy\ndef f(x): return int(numpy.arange(x + 2).max())"
    assert judge.grade(check(program)).outcome == "pass"
    assert "ModuleNotFoundError" in judge.grade(check("import torch\n" + RIGHT)).reason


@pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B are for Linux")
@pytest.mark.parametrize("tier", ["A", "B"])
def test_packages_may_lie_below_the_temporary_folder(
    tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs have a /tmp of their own, and here nobody but the owner may enter the folder."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        package = Path(folder) / "borrowed"
        package.mkdir()
        (package / "__init__.py").write_text("from borrowed.part import ONE\n")
        (package / "part.py").write_text("ONE = 1\n")
        monkeypatch.syspath_prepend(folder)
        with Judge(workers=1, tier=tier, packages=("borrowed",)) as judge:
            program = "import borrowed\ndef f(x): return x + borrowed.ONE"
            assert judge.grade(check(program)).outcome == "pass"
            beside = f"open({str(package)!r} + '/../other')\n{RIGHT}"
            assert judge.grade(check(beside)).outcome == "fail"


def test_a_missing_package_is_refused() -> None:
    with pytest.raises(BadRequest, match="no_such_package"), Judge(packages=("no_such_package",)):
        pass


def test_tests_at_fault_are_told_apart(judge: Judge) -> None:
    silent = judge.grade(check(RIGHT, "pass"))
    assert silent.outcome == "harness_error"
    assert "without a single call" in silent.reason
    callback = judge.grade(check(RIGHT, "f(lambda: 1)"))
    assert callback.outcome == "harness_error"
    assert "only plain data can cross" in callback.reason
    broken = judge.grade(check(RIGHT, "assert f(1) == No solution"))
    assert broken.outcome == "fail"
    assert "the test does not compile" in broken.reason
    gone = judge.grade(check(RIGHT, "import os\nos._exit(0)"))
    assert gone.outcome == "harness_error"
    long = judge.grade(check(RIGHT, "#" * (17 << 20)))
    assert long.outcome == "harness_error"
    assert judge.grade(check(RIGHT)).outcome == "pass"


def test_a_value_too_deep_to_pass_on_is_the_programs_fault(judge: Judge) -> None:
    program = "def f(x):\n    for _ in range(200): x = [x]\n    return x"
    verdict = judge.grade(check(program, "assert f([f(1)]) == 2"))
    assert verdict.outcome == "fail"
    assert "would pass on" in verdict.reason


class Scripted(Judge):
    """A judge that only pretends, and notes who was running at the time."""

    def __init__(self, outcomes: list[Verdict]) -> None:
        super().__init__(workers=2)
        self.outcomes = outcomes

    def _grade_once(self, check: object) -> Verdict:
        return self.outcomes.pop(0)


@pytest.mark.parametrize(
    ("first", "second", "final", "left"),
    [
        *(("timeout", again, again, 1) for again in ("pass", "timeout", "fail")),
        ("fail", "pass", "fail", 2),
    ],
)
def test_a_timeout_is_run_once_more_and_other_verdicts_are_final(
    first: Outcome, second: Outcome, final: Outcome, left: int
) -> None:
    judge = Scripted([Verdict(first), Verdict(second), Verdict("pass")])
    assert judge.grade(check(RIGHT)).outcome == final
    assert len(judge.outcomes) == left


def test_who_runs_alone_runs_alone() -> None:
    crowd, running, worst, errors = Crowd(), [0], [0], []

    def together() -> None:
        with crowd.shared():
            running[0] += 1
            worst[0] = max(worst[0], running[0])
            time.sleep(0.02)
            running[0] -= 1

    def alone() -> None:
        with crowd.alone():
            if running[0]:
                errors.append(running[0])
            time.sleep(0.02)
            if running[0]:
                errors.append(running[0])

    threads = [threading.Thread(target=alone if n % 3 == 0 else together) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert worst[0] > 1


def test_the_description_is_plain_data(judge: Judge) -> None:
    description = json.loads(json.dumps(judge.description()))
    assert description["tier"] in ("A", "B")
    assert "resource limits" in description["layers"]
    assert description["limits"]["memory_bytes"] == 512 << 20
    assert description["fixed_limits"]["depth"] == 200
    assert description["packages"] == ["numpy"]


def test_a_judge_must_be_open() -> None:
    closed = Judge(workers=1)
    closed.close()
    with pytest.raises(BadRequest, match="with statement"):
        closed.grade(check(RIGHT))
    with pytest.raises(BadRequest, match="at least one worker"):
        Judge(workers=0)


def _nothing_works(tier: Tier, *rest: object) -> None:
    raise NoSandbox(f"Not {tier} today.")


def test_without_any_sandbox_nothing_is_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "make_plan", _nothing_works)
    refusal = r"A: Not A today.*B: Not B.*a Linux container.*unsafe_no_sandbox"
    with pytest.raises(NoSandbox, match=refusal), Judge():
        pass
    assert describe_tier().startswith("none: Programs cannot be confined")


def test_tier_f_must_be_asked_for_twice() -> None:
    with pytest.raises(BadRequest, match="unsafe_no_sandbox"), Judge(tier="F"):
        pass
    with pytest.raises(BadRequest, match="no tier 'Z'"), Judge(tier="Z"):  # type: ignore[arg-type]
        pass
    with Judge(workers=1, tier="F", unsafe_no_sandbox=True) as judge:
        assert judge.description()["layers"][-1] == "resource limits"
        assert judge.grade(check(RIGHT)).outcome == "pass"


def test_unsafe_is_only_a_last_resort() -> None:
    with Judge(workers=1, unsafe_no_sandbox=True) as judge:
        assert judge.description()["tier"] != "F"


def test_nothing_of_a_judge_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    let_everybody_through(tmp_path)
    with Judge(workers=1, tier="B") as judge:
        program = "def f(x):\n    open('left', 'w').write('x')\n    return x + 1"
        assert judge.grade(check(program)).outcome == "pass"
        assert len(list(tmp_path.iterdir())) == 2  # one for each zygote
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_many_open_files_can_grade() -> None:
    """Descriptors above 1023 are too high for `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("so many files cannot be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with Judge(workers=1) as judge:
            assert judge.grade(check(RIGHT)).outcome == "pass"
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


ENDLESS = {
    "busy": LOOP,
    "asleep": "import time\ndef f(x): time.sleep(99)",
    "at import": "while True: pass",
    "writing": "import os\ndef f(x):\n    while True: os.write(1, b'x' * 4096)",
    "answering": "def f(x):\n    while True: yield x",
}
SLACK = 2.0  # for a busy machine: two sandboxes are forked in the meantime


@pytest.mark.parametrize("name", ENDLESS)
def test_no_program_delays_the_verdict_on_another_by_more_than_its_own_limit(name: str) -> None:
    """It runs beside the others, then once more alone; in between verdicts go on coming."""
    limits = Limits(cpu_seconds=10, wall_seconds=0.5)
    test = "assert list(f(1)) == [1]" if name == "answering" else TEST
    checks = [check(RIGHT)] * 12
    checks[3] = check(ENDLESS[name], test, limits)
    with Judge(workers=2) as judge:
        moments = [time.monotonic()]
        outcomes = {}
        for position, verdict in judge.grade_many(checks):
            moments.append(time.monotonic())
            outcomes[position] = verdict.outcome
    assert outcomes == {n: "timeout" if n == 3 else "pass" for n in range(12)}
    longest = max(after - before for before, after in pairwise(moments))
    assert longest < limits.wall_seconds + SLACK


HONEST = FunctionCheck("def f(x): return x + 1", "f", "assert f(1) == 2")
ENDING_LATE = FunctionCheck("import time\ndef f(x):\n    time.sleep(30)", "f", "assert f(1) == 2")


def _benches(judge: Judge) -> list[Bench]:
    assert judge._benches is not None
    return [bench for bench in judge._benches._free.queue if bench is not None]


@pytest.mark.parametrize("part", ["programs", "tests"])
def test_a_killed_zygote_is_a_harness_error_and_is_replaced(part: str) -> None:
    with Judge(workers=1) as judge:
        [bench] = _benches(judge)
        victim = getattr(bench, part).pid
        killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
        killer.start()
        verdict = judge.grade(ENDING_LATE)
        killer.join()
        assert verdict.outcome == "harness_error"
        assert verdict.seconds < 20
        assert judge.grade(HONEST).outcome == "pass"


def test_a_killed_test_process_is_a_harness_error() -> None:
    with Judge(workers=1) as judge:
        [bench] = _benches(judge)
        bench.tests.hear()
        tester = bench.tests._warm[0]
        killer = threading.Timer(0.3, lambda: tester.kill())
        killer.start()
        verdict = judge.grade(ENDING_LATE)
        killer.join()
        assert verdict.outcome == "harness_error"
        assert "ran the test" in verdict.reason
        assert judge.grade(HONEST).outcome == "pass"
