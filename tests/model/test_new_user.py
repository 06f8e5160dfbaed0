"""What newcomers tried first and what failed then, each as they typed it.

`python -m archer`, `archer study`, 80 columns and Ctrl-C are in tests/cli/test_cli_terminal.py; a report
without matplotlib is in tests/test_clean_install.py.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

import archer
from archer.decoders.saber import Saber
from archer.errors import BadRequest
from archer.policies.prompt_cache import Archer
from support.processes import running

PROBLEM = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
DEMO_SECONDS = 60.0


@pytest.fixture(scope="module")
def model() -> archer.Model:
    return archer.load("pocket", device="cpu")


def test_a_chat_is_a_prompt(model: archer.Model) -> None:
    chat: list[dict[str, object]] = [{"role": "user", "content": PROBLEM}]
    assert model.generate(chat)[0].text == model.generate(PROBLEM)[0].text
    turns: list[dict[str, object]] = [
        {"role": "system", "content": "You write Python."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Yes?"},
        *chat,
    ]
    first, second = model.generate([turns, chat])
    assert first.prompt_tokens > second.prompt_tokens
    assert second.text == model.generate(PROBLEM)[0].text


def test_a_decoder_object_is_a_method(model: archer.Model) -> None:
    method = archer.Method(Saber(), Archer(radius=8))
    (done,) = model.generate(PROBLEM, method=method)
    assert done.tokens == model.generate(PROBLEM, method="archer", radius=8)[0].tokens


def test_a_misspelled_setting_gets_a_suggestion(model: archer.Model) -> None:
    with pytest.raises(BadRequest, match=r"raduis.*radius"):
        model.generate(PROBLEM, raduis=3)


@pytest.mark.slow
def test_the_demo_takes_less_than_a_minute_beside_a_busy_process() -> None:
    """In processor time, which the other tests cannot lengthen; threads that wait for each other would."""
    variables = {key: value for key, value in os.environ.items() if "_NUM_THREADS" not in key}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running([sys.executable, "-c", "while True: pass"]):
        done = subprocess.run(
            [sys.executable, "-m", "archer", "demo"],
            env=variables,
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "hidden tests" in done.stdout
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < DEMO_SECONDS
