"""The notebook of first steps runs from its first cell to its last, and shows what it promises."""

import json

import pytest

from conftest import REPOSITORY
from support import notebooks

NOTEBOOK = REPOSITORY / "examples" / "first-steps.ipynb"


def test_the_notebook_of_first_steps_runs() -> None:
    loaded, answered, compared, own, recipe, table = notebooks.run(NOTEBOOK)
    assert "Model(&#x27;pocket&#x27;" in loaded
    assert "return len([e for e in nums if e &gt; 5])" in answered
    assert "<iframe" in answered
    assert compared.count("<tr>") == 4
    assert own.count("<tr>") == 3
    assert "bolder" in own
    assert "archer.load(" in recipe
    assert "archer-doubt" in table


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [each["outputs"] for each in cells if each["cell_type"] == "code"] == [[]] * 6


def test_a_cell_that_fails_fails_the_notebook() -> None:
    with pytest.raises(ZeroDivisionError):
        notebooks._run("x = 1\n1 / 0", {})
    assert notebooks._run("print(1)\n2", {}) == "<pre>1\n</pre><pre>2</pre>"
    assert notebooks._run("x = 1", {}) == ""
