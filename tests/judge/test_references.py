"""The judge accepts the reference solutions of HumanEval and MBPP."""

import pytest

from archer.judge import FunctionCheck, Judge
from judge.references import SLOW_MBPP, humaneval, mbpp

# One row in 20, and those that need something special: helpers of the prompt, a function called
# `sum`, a module of the program.
HUMANEVAL_SAMPLE = sorted({*range(0, 164, 20), 32, 33, 38, 50})
MBPP_SPECIAL = {2, 56, 126, 140, 232, 596, 640}


def graded(checks: list[FunctionCheck]) -> list[str]:
    with Judge() as judge:
        found = dict(judge.grade_many(checks))
    return [f"{n} {found[n]}" for n in sorted(found) if found[n].outcome != "pass"]


def test_a_sample_of_the_references_passes() -> None:
    problems, tasks = humaneval(), mbpp()
    ids = sorted({*list(tasks)[::20], *(MBPP_SPECIAL & set(tasks))} - {SLOW_MBPP})
    chosen = [problems[n] for n in HUMANEVAL_SAMPLE] + [tasks[n] for n in ids]
    assert len(chosen) > 35
    assert graded(chosen) == []


@pytest.mark.slow
def test_all_humaneval_references_pass() -> None:
    checks = humaneval()
    assert len(checks) == 164
    assert graded(checks) == []


@pytest.mark.slow
def test_all_mbpp_references_pass() -> None:
    checks = list(mbpp().values())
    assert len(checks) == 427
    assert graded(checks) == []


def test_a_prompts_helper_cannot_be_replaced_by_the_program() -> None:
    check = humaneval()[38]
    spoof = check.program + "\ndef encode_cyclic(s): return s\ndef decode_cyclic(s): return s\n"
    with Judge(workers=1) as judge:
        verdict = judge.grade(FunctionCheck(spoof, check.entry_point, check.test, expose=()))
    assert verdict.outcome == "fail"
