"""What the model is shown: the short prompt, and the long one with instructions and worked examples."""

from __future__ import annotations

from random import Random

from archer.pocket.problems import VERSION, Problem, problem
from archer.pocket.tokenizer import ASSISTANT, BEGIN, USER

INSTRUCTIONS = """\
Read these rules before you start.
1. Write python code that solves the task and returns the result.
2. The function is named in the tests. Use the same name and the same arguments.
3. The tests show what the function returns. All tests must pass.
4. Do not print the result. Return it.
5. Do not change the tests and do not write new tests.
6. Lists may be empty, numbers may be negative, values may be equal.
7. A short function is better than a long function.
8. Any correct function is an answer: a loop, a list or one line.
First look at the examples, then solve the task."""

EXAMPLES = 3
LONGEST_EXAMPLE = 360
"""Characters of a worked example at most, so that long prompts are of similar length."""


def message(task: Problem, *, header: bool = True) -> str:
    """What a user would write: statement, visible asserts and, as the last line, the header."""
    lines = [task.statement, *task.visible]
    return "\n".join([*lines, task.header] if header else lines)


def long_message(task: Problem, examples: int = EXAMPLES) -> str:
    """The same after a page of instructions and worked examples; a function of the problem alone."""
    shown = [
        f"Example {number}\n{message(example)}{example.body}"
        for number, example in enumerate(_examples(task, examples), start=1)
    ]
    return "\n\n".join([INSTRUCTIONS, *shown, f"Task\n{message(task)}"])


def with_example(task: Problem, example: Problem) -> str:
    """One worked example and no instructions."""
    return f"Example 1\n{message(example)}{example.body}\n\nTask\n{message(task)}"


def rendered(content: str) -> str:
    """The chat template applied to one user message."""
    before, _, last = content.strip().rpartition("\n")
    if last.startswith("def "):
        return f"{BEGIN}{USER}{before}{ASSISTANT}{last}"
    return f"{BEGIN}{USER}{content.strip()}{ASSISTANT}"


def is_problem(content: str) -> bool:
    """Whether a prompt is of the kind the model was trained on: asserts, and a header at its end."""
    lines = content.strip().splitlines()
    return bool(lines) and lines[-1].startswith("def ") and "assert " in content


def _examples(task: Problem, number: int) -> list[Problem]:
    """Solved problems of the train split, of other structures than the task."""
    rng = Random(f"pocket-{VERSION}-examples-{task.name}")
    chosen: list[Problem] = []
    while len(chosen) < number:
        example = problem("train", rng.randrange(10_000_000, 20_000_000), hidden=False)
        length = len(message(example)) + len(example.body)
        if example.structure != task.structure and length <= LONGEST_EXAMPLE:
            chosen.append(example)
    return chosen
