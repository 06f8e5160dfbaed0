"""What the model is shown: the short prompt, and the long one with instructions and worked examples."""

from collections.abc import Sequence

from archer.pocket.problems import Problem
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


def message(task: Problem, *, header: bool = True) -> str:
    """What a user would write: statement, visible asserts and, as the last line, the header."""
    lines = [task.statement, *task.visible]
    return "\n".join([*lines, task.header] if header else lines)


def worked(example: Problem) -> str:
    """A solved problem, as a prompt shows it."""
    return f"{message(example)}{example.body}"


def long_message(task: Problem, examples: Sequence[str]) -> str:
    """The message after a page of instructions and worked examples."""
    shown = [f"Example {number}\n{text}" for number, text in enumerate(examples, start=1)]
    return "\n\n".join([INSTRUCTIONS, *shown, f"Task\n{message(task)}"])


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
