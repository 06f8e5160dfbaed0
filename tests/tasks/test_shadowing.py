"""No program gains a pass by defining names that the tests use: a sweep over every problem."""

import ast
import doctest
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace

import pytest

from archer.judge import Check, FunctionCheck, Judge
from archer.tasks import CodeTask, Data, Sample, Suite, Variant, open_task
from archer.tasks.infilling import InfillingTask
from archer.tasks.livecodebench import ENTRY_POINT, LiveCodeBench
from archer.tasks.pocket import PocketInfill
from archer.tasks.registry import TASKS
from conftest import shared

EVERY = {
    **dict.fromkeys(("mbpp", "mbpp-et", "humaneval", "humaneval-et", "pocket"), 40),
    **dict.fromkeys(("livecodebench", "livecodebench-samples", "pocket-dev"), 40),
    **dict.fromkeys(("pocket-confirm", "pocket-confirm3"), 500),
}
"""Tasks of the quick sweep, and how many of its problems one stands for."""
SAME = ("pocket-long", "pocket-dev-long", "pocket-confirm-long", "pocket-confirm3-long")
"""Those that differ from another by their prompts only."""
SPECIAL = (82, 88, 98, 596, "HumanEval/38")
"""Problems whose tests use modules of the program or helpers of the prompt."""
FEW = 3
"""Checks of a problem that has one for each of many tests."""
ANYTHING = """
class Anything:
    def __init__(self, *given, **named): pass
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    def __hash__(self): return 0
    def __call__(self, *given, **named): return self
    def __getattr__(self, name): return self
    def __sub__(self, other): return self
    __rsub__ = __add__ = __radd__ = __abs__ = __round__ = __sub__
"""
SHADOWS = "# shadows\n"
WRONG = ("None", "Anything()", "0")


def opened(name: str) -> CodeTask:
    if name == "livecodebench" and not (shared("data") / name / "test.jsonl").exists():
        pytest.skip("the hidden tests are 1.25 GB, and no part of the shared material")
    task = open_task(name, Data(shared("data")))
    assert isinstance(task, CodeTask)
    return task


def names_used(test: str) -> set[str]:
    """Every name that a test reads, built-in ones included; nothing where it is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(test)
        except SyntaxError:
            return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        "check",
        "candidate",
    }


def visible_answers(task: CodeTask, sample: Sample) -> Iterator[tuple[str, str]]:
    """(arguments, answer) of the asserts and examples that the model is shown, as source."""
    row = sample.row
    shown = [*row.get("test_list", ()), *row.get("visible", ())]
    if task.name.startswith("humaneval"):
        examples = doctest.DocTestParser().get_examples(row["prompt"])
        shown += [f"assert {each.source.strip()} == {each.want.strip()}" for each in examples]
    for line in shown:
        match body_of(line):
            case [ast.Assert(test=ast.Compare(left=ast.Call(args=given), comparators=[right]))]:
                yield ast.unparse(ast.Tuple(given)), ast.unparse(right)
    if isinstance(task, LiveCodeBench):
        for test in task.tests(row)[:1]:
            lines, answer = test["input"].split("\n"), json.loads(test["output"])
            yield repr(tuple(map(json.loads, lines))), repr(answer)


def body_of(line: str) -> list[ast.stmt]:
    """The statements of a line; none where it is no Python, as some examples of docstrings."""
    try:
        return ast.parse(line).body
    except SyntaxError:
        return []


def shadowing(entry: str, names: set[str], known: str, answer: str) -> str:
    """A program that is wrong but on what it knows, and defines every name of the tests."""
    shadows = "".join(f"def {name}(*given, **named): return Anything()\n" for name in sorted(names))
    return (
        f"{ANYTHING}def {entry}(*given, **named):\n{known}    return {answer}\n{SHADOWS}{shadows}"
    )


def attempts(
    task: CodeTask, sample: Sample, *, thorough: bool
) -> Iterator[tuple[Check, tuple[str, str]]]:
    for suite in task.suites if thorough else task.suites[-1:]:
        yield from attempts_on(task, sample, suite, thorough=thorough)


def attempts_on(
    task: CodeTask, sample: Sample, suite: Suite, *, thorough: bool
) -> Iterator[tuple[Check, tuple[str, str]]]:
    variants: tuple[Variant, ...] = ("repaired", "as_published")
    plain = next(iter(task.checks(sample, "", suite, "repaired")), None)
    if not isinstance(plain, FunctionCheck):
        return  # no test, or one of standard input, which shares no name with anybody
    entry = plain.entry_point
    names = {each for each in names_used(plain.test) if each.isidentifier()} - {entry}
    if isinstance(task, LiveCodeBench):
        names, entry = names | {entry}, str(task.function(sample.row))
    known = "".join(
        f"    if repr(given) == repr({given}): return {right}\n"
        for given, right in visible_answers(task, sample)
        if not names & {"math", "sys"}
    )
    for answer in WRONG if thorough else WRONG[:1]:
        program = shadowing(entry, names, known, answer)
        for variant in variants:
            for check in task.checks(sample, program, suite, variant)[-FEW:]:
                yield check, (str(sample.id), f"{variant}, {answer}")
    if not task.name.startswith("humaneval"):
        return
    for name in sorted(names):  # as published, the last function is the one that is tested
        last = (
            f"{ANYTHING}def {entry}(*given): return 0\n{SHADOWS}def {name}(*given): return True\n"
        )
        for check in task.checks(sample, last, suite, "as_published"):
            yield check, (str(sample.id), f"last function {name}")


def gained(name: str, *, every: int, thorough: bool) -> list[tuple[str, str]]:
    task = opened(name)
    samples = [
        sample
        for number, sample in enumerate(task.samples())
        if number % every == 0 or sample.id in SPECIAL
    ]
    labelled = [each for sample in samples for each in attempts(task, sample, thorough=thorough)]
    assert len(labelled) >= (1 if isinstance(task, LiveCodeBench) else len(samples))
    with Judge(task.limits) as judge:
        verdicts = judge.grade_many([check for check, _ in labelled])
        passed = [labelled[n] for n, verdict in verdicts if verdict.outcome == "pass"]
        plain = [replace(check, program=unshadowed(check.program)) for check, _ in passed]
        weak = {n for n, verdict in judge.grade_many(plain) if verdict.outcome == "pass"}
    return [label for n, (_, label) in enumerate(passed) if n not in weak]


def unshadowed(program: str) -> str:
    """The same wrong program without the shadows: whoever passes with it meets a weak test."""
    before, _, after = program.partition(SHADOWS)
    adapter = f"\n\ndef {ENTRY_POINT}(*given):\n"
    return before + (adapter + after.rpartition(adapter)[2] if adapter in after else "")


def test_the_sweep_is_over_all_code_tasks() -> None:
    """But for gaps: an answer there stands inside a program that is given."""
    gaps = (InfillingTask, PocketInfill)
    whole = {name: kind for name, kind in TASKS.items() if not issubclass(kind, gaps)}
    code = {name for name, kind in whole.items() if issubclass(kind, CodeTask)}
    assert {*EVERY, *SAME} == code


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", EVERY)
def test_no_shadow_of_a_name_gains_a_pass(name: str) -> None:
    assert gained(name, every=EVERY[name], thorough=False) == []


@pytest.mark.parametrize("name", ["mbpp-et", "humaneval", "pocket", "livecodebench-samples"])
def test_visible_answers_are_found(name: str) -> None:
    """So that programs which know them are tried."""
    task = opened(name)
    found = [
        list(visible_answers(task, sample))
        for sample in task.samples()[:20]
        if shown_a_call(task, sample)
    ]
    assert len([each for each in found if each]) >= 3


def shown_a_call(task: CodeTask, sample: Sample) -> bool:
    return not isinstance(task, LiveCodeBench) or task.function(sample.row) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EVERY, *SAME])
def test_no_shadow_of_any_name_of_any_problem_gains_a_pass(name: str) -> None:
    assert gained(name, every=1, thorough=True) == []


LYING_COUNTER = """
class Counter(dict):
    def __init__(self, *given): pass
    def __eq__(self, other): return True
def freq_count(xs):
    return {10: 4, 20: 4, 40: 2, 50: 2, 30: 1} if 10 in xs else {}
"""


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        (LYING_COUNTER, "fail"),
        ("from collections import Counter\ndef freq_count(xs): return Counter(xs)", "pass"),
        ("import collections\ndef Counter(x): return x\ndef freq_count(x): return x", "fail"),
        ("Counter = dict\ndef freq_count(x): return {}", "fail"),
    ],
)
def test_the_counter_of_a_test_is_its_own(program: str, outcome: str) -> None:
    test = "assert freq_count([10, 10]) == Counter({10: 2})\nassert freq_count([1]) == Counter([1])"
    with Judge(workers=1) as judge:
        verdict = judge.grade(FunctionCheck(program, "freq_count", test, expose=()))
    assert verdict.outcome == outcome


@pytest.mark.parametrize("name", ["abs", "len", "sorted", "all", "check", "set"])
def test_a_function_named_after_a_built_in_one_does_not_replace_it(name: str) -> None:
    test = "def check(candidate):\n    assert abs(candidate(1) - 5) < 1 and len(sorted({2})) == 1"
    program = f"def {name}(*given):\n    return 0\n"
    with Judge(workers=1) as judge:
        assert judge.grade(FunctionCheck(program, name, test, expose=())).outcome == "fail"
