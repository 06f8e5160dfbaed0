"""Faults of the harness are never blamed on a program, and the judge recovers from them."""

import os
import signal
import threading

import pytest

from archer.judge import FunctionCheck, Judge
from archer.judge.program_run import Bench

RIGHT = FunctionCheck("def f(x): return x + 1", "f", "assert f(1) == 2")
SLOW = FunctionCheck("import time\ndef f(x):\n    time.sleep(30)", "f", "assert f(1) == 2")


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
        verdict = judge.grade(SLOW)
        killer.join()
        assert verdict.outcome == "harness_error"
        assert verdict.seconds < 20
        assert judge.grade(RIGHT).outcome == "pass"


def test_a_killed_test_process_is_a_harness_error() -> None:
    with Judge(workers=1) as judge:
        [bench] = _benches(judge)
        bench.tests.hear()
        tester = bench.tests._warm[0]
        killer = threading.Timer(0.3, lambda: tester.kill())
        killer.start()
        verdict = judge.grade(SLOW)
        killer.join()
        assert verdict.outcome == "harness_error"
        assert "ran the test" in verdict.reason
        assert judge.grade(RIGHT).outcome == "pass"
