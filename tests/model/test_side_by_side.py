"""`archer.compare`: methods side by side, as text, as a table of a notebook and as rows of a frame."""

from typing import Any

import pytest

import archer
from archer.errors import BadRequest
from archer.extend import Saber
from archer.model import Model, load

PROMPT = "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):"


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket", device="cpu")


def test_habit_of_comparing_methods_in_a_notebook(pocket: Model) -> None:
    prompts: Any = [PROMPT, [5, 7]]
    found = archer.compare(prompts, ["saber", "archer:1", Saber()], model=pocket, length=16)
    alone = pocket.generate(PROMPT, "saber", length=16)[0]
    assert found.methods == ["saber", "archer:1", "saber+eager"]
    assert [each[0].tokens for each in found.completions] == [alone.tokens] * 3
    assert [found.parts_at(at, 0) for at in range(3)] == [None] * 3
    lines = repr(found).splitlines()
    assert lines[0].startswith("prompt  method")
    assert lines[0].endswith("updates  full  cached  seconds  parts at")
    assert len(lines) == 7
    assert lines[2].endswith("the same")
    assert "\\n" in lines[1]
    shown = found._repr_html_()
    assert shown.count("<tr>") == 7
    assert "<pre>" in shown
    rows = found.to_dicts()
    assert [row["method"] for row in rows[:3]] == found.methods
    assert rows[0]["settings"]["length"] == 16


def test_methods_that_part_say_where(pocket: Model) -> None:
    found = archer.compare(PROMPT, {"a": "saber", "<b>": "random"}, model=pocket, length=16, seed=1)
    first, other = (each[0].tokens for each in found.completions)
    where = next(at for at in range(16) if first[at] != other[at])
    assert found.parts_at(1, 0) == where
    assert f"token {where + 1}" in repr(found)
    assert "&lt;b&gt;" in found._repr_html_()


@pytest.mark.parametrize("methods", [[], "saber", {}])
def test_what_is_no_list_of_methods_is_refused(pocket: Model, methods: Any) -> None:
    with pytest.raises(BadRequest, match="methods is a list with at least one method"):
        archer.compare(PROMPT, methods, model=pocket)
